package journal

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An ExportedEntry is one entry with its place in a chain. Content is nil if the entry was erased.
type ExportedEntry struct {
	Chain     string
	Seq       int64
	Link      []byte
	Digest    []byte
	Salt      []byte
	Content   []byte // JSON of an [Entry], or of an entry of the audit trail
	Messages  []byte // JSON of the messages of the entry that are kept
	CardHash  []byte // of an [Entry]
	Merchant  string
	Signature []byte // of the day, if this is its last entry in the chain and the day was signed
	IsLeftOut bool   // the query does not want the content
}

// An Exporter has chained entries: a [Store], or the audit trail.
type Exporter interface {
	// Export calls line for each entry of a time, in the order of their chains.
	Export(ctx context.Context, q Query, line func(ExportedEntry) error) error
}

// AuditChain is the name of the one chain of the audit trail. No chain of a journal has it. The link before its first entry
// is empty.
const AuditChain = "audit"

// export calls line for each entry of the days of a time, chain by chain.
func (db *database) export(ctx context.Context, q Query, line func(ExportedEntry) error) error {
	from, to := "", "9999-12-31"
	if !q.From.IsZero() {
		from = dayOf(q.From)
	}
	if !q.To.IsZero() {
		to = dayOf(q.To.Add(-time.Millisecond))
	}
	type chain struct {
		name, day   string
		seq, signed int64
		signature   []byte
	}
	all, err := readRows(ctx, db, func(c *chain) []any { return []any{&c.name, &c.day, &c.seq, &c.signed, &c.signature} },
		db.query(`SELECT chain, day, seq, signed, signature FROM journal_chains WHERE day >= ? AND day <= ? ORDER BY day, chain`), from, to)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := db.exportChain(ctx, c.name, c.day, func(e ExportedEntry) error {
			if e.Seq == c.signed && c.signed == c.seq {
				e.Signature = c.signature
			}
			return line(e)
		}); err != nil {
			return err
		}
	}
	return nil
}

// exportChain calls line for each entry of a chain.
func (db *database) exportChain(ctx context.Context, chain, day string, line func(ExportedEntry) error) error {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return err
	}
	begin, end := spanOfDay(at)
	rows, err := db.QueryContext(ctx, db.query(`SELECT id, kind, seq, merchant, card, salt, digest, link, body,
		(SELECT m.body FROM journal_messages m WHERE m.id = e.id AND m.kind = e.kind AND m.made = e.made) FROM journal_entries e
		WHERE chain = ? AND made >= ? AND made < ? ORDER BY seq`), chain, begin, end)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, kind string
		var body, messages []byte
		e := ExportedEntry{Chain: chain}
		if err := rows.Scan(&id, &kind, &e.Seq, &e.Merchant, &e.CardHash, &e.Salt, &e.Digest, &e.Link, &body, &messages); err != nil {
			return err
		}
		if messages != nil {
			if e.Messages, err = db.openNamed(ctx, day, messagesName(id, kind), messages); err != nil {
				return err
			}
		}
		if body != nil {
			if e.Content, err = db.open(ctx, day, id, kind, body); err != nil {
				return err
			}
		}
		if err := line(e); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *fileStore) Export(ctx context.Context, q Query, line func(ExportedEntry) error) error {
	q.From = s.from(q.From)
	months, err := s.present()
	if err != nil {
		return err
	}
	for i := len(months) - 1; i >= 0; i-- {
		db, err := s.month(ctx, months[i], true)
		if err != nil {
			return err
		}
		if err := db.export(ctx, q, line); err != nil {
			return err
		}
	}
	return nil
}

// An exportLine is a line of an export. Its members stand in this order, and those that are empty are left out.
type exportLine struct {
	Type      string          `json:"type"` // header, record, link, day or end
	Version   int             `json:"version,omitempty"`
	KeyID     string          `json:"keyId,omitempty"`
	CardKeys  []string        `json:"cardKeys,omitempty"` // names of the keys of card hashes
	Chain     string          `json:"chain,omitempty"`
	Seq       int64           `json:"seq,omitempty"`
	IsErased  bool            `json:"erased,omitempty"`
	Card      string          `json:"card,omitempty"` // the hash of the card
	Salt      string          `json:"salt,omitempty"`
	Digest    string          `json:"digest,omitempty"`
	Link      string          `json:"link,omitempty"`
	Lines     int64           `json:"lines,omitempty"`
	Signature string          `json:"signature,omitempty"`
	Record    json.RawMessage `json:"record,omitempty"`
	Messages  json.RawMessage `json:"messages,omitempty"`
}

// exportVersion is the version of the format of exports.
const exportVersion = 1

// WriteJSONLines exports the entries of a time, of one merchant if the query names one. Entries of others are links.
func WriteJSONLines(ctx context.Context, to io.Writer, st Exporter, keys *Keys, q Query) (records int, err error) {
	w := bufio.NewWriter(to)
	sum := sha256.New()
	var lines int64
	put := func(l exportLine) error {
		text, err := encodeLine(l)
		if err != nil {
			return err
		}
		lines++
		sum.Write(text)
		_, err = w.Write(text)
		return err
	}
	header := exportLine{Type: "header", Version: exportVersion, KeyID: keyID(keys.PublicKey())}
	if _, isJournal := st.(Store); isJournal { // the audit trail has no card
		header.CardKeys = keys.cardKeyNames()
	}
	if err := put(header); err != nil {
		return 0, err
	}
	err = st.Export(ctx, q, func(e ExportedEntry) error {
		l := exportLine{Type: "record", Chain: e.Chain, Seq: e.Seq, Digest: hex.EncodeToString(e.Digest), Link: hex.EncodeToString(e.Link)}
		switch {
		case e.Content == nil:
			l.Type, l.IsErased = "link", true
		case e.IsLeftOut, q.Merchant != "" && e.Merchant != q.Merchant:
			l.Type = "link"
		default:
			l.Salt, l.Card, l.Record, l.Messages = hex.EncodeToString(e.Salt), hex.EncodeToString(e.CardHash), e.Content, e.Messages
			records++
		}
		if err := put(l); err != nil || e.Signature == nil {
			return err
		}
		return put(exportLine{
			Type: "day", Chain: e.Chain, Seq: e.Seq, Link: hex.EncodeToString(e.Link),
			Signature: base64.StdEncoding.EncodeToString(e.Signature),
		})
	})
	if err != nil {
		return records, err
	}
	digest := sum.Sum(nil)
	end := exportLine{
		Type: "end", Lines: lines, Digest: hex.EncodeToString(digest),
		Signature: base64.StdEncoding.EncodeToString(ed25519.Sign(keys.signer(), endText(lines, digest))),
	}
	if err := put(end); err != nil {
		return records, err
	}
	return records, w.Flush()
}

// endText is what the signature of an export is made over.
func endText(lines int64, digest []byte) []byte {
	return fmt.Appendf(nil, "threeds journal export %d %x", lines, digest)
}

func encodeLine(l exportLine) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(l)
	return b.Bytes(), err
}

// A Verified says what an export has.
type Verified struct{ Records, Erased, Days int }

// A LineError says which line of an export is wrong.
type LineError struct {
	Line int
	What string
}

func (e *LineError) Error() string { return strconv.Itoa(e.Line) + ": " + e.What }

// Verify checks an export. The keys are those by which it and its days may have been signed.
func Verify(from io.Reader, keys ...ed25519.PublicKey) (Verified, error) {
	return verifyEach(from, keys, func(*exportLine) string { return "" })
}

// verifyEach checks an export, and calls do with each of its lines once that was checked. Do returns what is wrong with
// the line, or "".
func verifyEach(from io.Reader, keys []ed25519.PublicKey, do func(*exportLine) string) (Verified, error) {
	v := verifier{keys: keys, sum: sha256.New()}
	in := bufio.NewReader(from)
	for n := 1; ; n++ {
		text, err := readLine(in)
		if errors.Is(err, errLongLine) {
			return v.Verified, &LineError{n, "the line has more than 16 MiB: this is no export"}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return v.Verified, err
		}
		if len(text) == 0 && err != nil {
			if !v.isEnded {
				return v.Verified, &LineError{n, "the line of type end is missing: the file was cut"}
			}
			return v.Verified, nil
		}
		l, what := v.check(text)
		if what == "" {
			what = do(l)
		}
		if what != "" {
			return v.Verified, &LineError{n, what}
		}
	}
}

// maxExportLine is far more than any line of an export has: an entry has a few messages of 256 KiB at most.
const maxExportLine = 16 << 20

var errLongLine = errors.New("journal: a line without end")

// readLine returns the next line with its end, as [bufio.Reader.ReadBytes] does, or errLongLine.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxExportLine {
			return nil, errLongLine
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// A verifier checks an export line by line.
type verifier struct {
	Verified
	keys    []ed25519.PublicKey
	key     ed25519.PublicKey // the one that the header names
	sum     hash.Hash
	lines   int64
	chain   string
	seq     int64
	link    []byte
	isEnded bool
}

// check returns the next line, and what is wrong with it, "" if nothing is.
func (v *verifier) check(text []byte) (*exportLine, string) {
	if v.isEnded {
		return nil, "nothing may follow the line of type end"
	}
	l := new(exportLine)
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(l); err != nil {
		return nil, "not a line of an export"
	}
	if same, err := encodeLine(*l); err != nil || !bytes.Equal(same, text) {
		return nil, "not written as an export writes it"
	}
	what := v.checkMembers(l)
	v.lines++
	_, _ = v.sum.Write(text) // a hash takes everything
	return l, what
}

// isSigned reports whether one of the keys has signed a text.
func (v *verifier) isSigned(text, signature []byte) bool {
	return slices.ContainsFunc(v.keys, func(key ed25519.PublicKey) bool { return ed25519.Verify(key, text, signature) })
}

func (v *verifier) checkMembers(l *exportLine) string {
	if (v.lines == 0) != (l.Type == "header") {
		return "the first line, and no other, is of type header"
	}
	switch l.Type {
	case "header":
		if l.Version != exportVersion {
			return fmt.Sprintf("version is not %d", exportVersion)
		}
		i := slices.IndexFunc(v.keys, func(key ed25519.PublicKey) bool { return l.KeyID == keyID(key) })
		if i < 0 {
			return "keyId names another key than the one that was given"
		}
		v.key = v.keys[i]
	case "record", "link":
		return v.checkEntry(l)
	case "day":
		signature, err := base64.StdEncoding.DecodeString(l.Signature)
		if err != nil || l.Chain != v.chain || l.Seq != v.seq || l.Link != hex.EncodeToString(v.link) ||
			!v.isSigned(dayText(l.Chain, l.Seq, v.link), signature) {
			return "the signature of the day does not fit the entries before it"
		}
		v.Days++
	case "end":
		digest := v.sum.Sum(nil)
		signature, err := base64.StdEncoding.DecodeString(l.Signature)
		if err != nil || l.Lines != v.lines || l.Digest != hex.EncodeToString(digest) ||
			!ed25519.Verify(v.key, endText(v.lines, digest), signature) {
			return "the signature of the export does not fit the lines before it"
		}
		v.isEnded = true
	default:
		return "type is not header, record, link, day or end"
	}
	return ""
}

// checkEntry checks an entry against the one before it.
func (v *verifier) checkEntry(l *exportLine) string {
	if l.Chain != v.chain {
		v.chain, v.seq, v.link = l.Chain, 0, firstLink(l.Chain)
	}
	if l.Seq != v.seq+1 {
		return fmt.Sprintf("seq is not %d: entries are missing", v.seq+1)
	}
	digest, err := hex.DecodeString(l.Digest)
	if err != nil {
		return "digest is not hexadecimal"
	}
	if l.Type == "record" {
		salt, err := hex.DecodeString(l.Salt)
		if err != nil || !bytes.Equal(DigestOf(salt, l.Record), digest) {
			return "the digest does not fit the record"
		}
		if what := checkMessages(l.Record, l.Messages); what != "" {
			return what
		}
		v.Records++
	} else if l.IsErased {
		v.Erased++
	}
	v.seq, v.link = l.Seq, NextLink(v.link, digest)
	if l.Link != hex.EncodeToString(v.link) {
		return "the link does not fit the entry before"
	}
	return ""
}

// csvHeader are the columns of WriteCSV.
var csvHeader = []string{
	"id", "created", "updated", "api", "operation", "merchant", "reference", "scheme", "bin", "last4", "amount", "currency", "exponent",
	"acquirerMerchantID",
	"messageVersion", "deviceChannel", "messageCategory", "status", "result", "transStatus", "transStatusReason", "eci", "acs",
	"dsTransID", "acsTransID", "challenged", "liability", "next", "errorCode", "errorComponent",
	"errorDescription", "errorDetail", "resultRefused", "elements", "durationMs", "schemeFindings",
}

// WriteCSV exports the records of a query for spreadsheets, newest first. RulesOf returns the rules of a scheme; nil stands
// for what is public.
func WriteCSV(ctx context.Context, to io.Writer, st Store, rulesOf func(scheme string) *scheme.Sheet, q Query) (records int, err error) {
	w := csv.NewWriter(to)
	if err := w.Write(csvHeader); err != nil {
		return 0, err
	}
	if rulesOf == nil {
		rulesOf = scheme.Public
	}
	q.Limit = 1000
	for {
		page, err := st.Search(ctx, q)
		if err != nil {
			return records, err
		}
		for i := range page.Records {
			if err := w.Write(csvRow(&page.Records[i], rulesOf)); err != nil {
				return records, err
			}
			records++
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			w.Flush()
			return records, w.Error()
		}
	}
}

// WriteBillingCSV writes counters for spreadsheets.
func WriteBillingCSV(to io.Writer, counts []BillingCount) error {
	w := csv.NewWriter(to)
	_ = w.Write([]string{"month", "merchant", "api", "deviceChannel", "messageCategory", "kind", "count"}) // Error says it
	for i := range counts {
		_ = w.Write(spreadsheetRow(append(counts[i].names(), strconv.FormatInt(counts[i].Count, 10))))
	}
	w.Flush()
	return w.Error()
}

// text returns a refusal in a cell, "" for none.
func (r *Refusal) text() string {
	if r == nil {
		return ""
	}
	return r.At.UTC().Format(time.RFC3339) + " " + r.Code + " " + r.Detail
}

func csvRow(r *Record, rulesOf func(scheme string) *scheme.Sheet) []string {
	rules, next := rulesOf(r.Card.Scheme), ""
	description, detail := "", ""
	if o := r.Outcome(rules); o != nil {
		if next = string(o.Next.Action); o.Error != nil {
			description, detail = o.Error.Description, o.Error.Detail
		}
	}
	var findings []byte
	if all := r.Findings(rules); len(all) > 0 {
		findings, _ = json.Marshal(all) // texts can be encoded
	}
	return spreadsheetRow([]string{
		r.ID, r.Created.UTC().Format(time.RFC3339Nano), r.Updated.UTC().Format(time.RFC3339Nano), r.API, r.Operation, r.Merchant,
		r.Reference, r.Card.Scheme, r.Card.BIN, r.Card.Last4, r.Amount, r.Currency, r.Exponent, r.AcquirerMerchant, r.MessageVersion, r.DeviceChannel,
		r.MessageCategory, r.Status, r.Result, r.TransStatus, r.TransStatusReason, r.ECI, r.ACS, r.DSTransID, r.ACSTransID,
		strconv.FormatBool(r.Challenged), r.Liability, next, r.ErrorCode, r.ErrorComponent, description, detail, r.ResultRefused.text(), strings.Join(r.Elements, " "), strconv.FormatInt(r.DurationMS, 10),
		string(findings),
	})
}

// spreadsheetRow keeps a spreadsheet from taking a text of a row for a formula.
func spreadsheetRow(row []string) []string {
	for i, text := range row {
		if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
			row[i] = "'" + text
		}
	}
	return row
}
