package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

// An ExportedEntry is one entry with its place in a chain. Content is nil if the entry was erased.
type ExportedEntry struct {
	Chain     string
	Seq       int64
	Link      []byte
	MAC       []byte // MAC is that of Link. An entry with IsInside has none.
	Digest    []byte
	Salt      []byte
	Content   []byte // JSON of an [Entry], or of an entry of the audit trail
	Messages  []byte // JSON of the messages of the entry that are kept
	CardHash  []byte // of an [Entry]
	Merchant  string
	Day       *Seal // of the audit trail: signs the days until this entry; nil for most entries
	IsLeftOut bool  // the query does not want the content
	IsDamaged bool  // the content does not open
	// IsForgotten says that the key of the entry was forgotten, so that it counts as erased, and its sealed text is there.
	IsForgotten bool
	IsBare      bool // the content was not read
	IsInside    bool // the MAC of a later entry, which comes next or soon, says that this link is as it was written
}

// An Exporter has chained entries: a [Store], or the audit trail.
type Exporter interface {
	// Export calls line for each entry of a time, in the order of their chains.
	Export(ctx context.Context, q Query, line func(ExportedEntry) error) error
}

// A sealReader is an Exporter with seals.
type sealReader interface {
	ReadSeals(ctx context.Context, from int64, do func(Seal) error) error
}

// spanOfDays returns the first and the last day of the time of a query; "" stands for no limit.
func (q *Query) spanOfDays() (from, to string) {
	if !q.From.IsZero() {
		from = dayOf(q.From)
	}
	if !q.To.IsZero() {
		to = dayOf(q.To.Add(-time.Millisecond))
	}
	return from, to
}

// export calls line for each entry of the days of a time, chain by chain.
func (db *database) export(ctx context.Context, q Query, line func(ExportedEntry) error) error {
	from, to := q.spanOfDays()
	all, err := readRows(ctx, db, func(c *tableChain) []any { return []any{&c.Chain, &c.day, &c.Seq} },
		db.query(`SELECT chain, day, seq FROM journal_chains
			WHERE day >= ? AND day <= ? AND closed <> ? ORDER BY day, chain`), from, cmp.Or(to, lastDay), chainArchived)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := db.exportChain(ctx, ChainEnd{Chain: c.Chain}, c.day, c.Seq, false, line); err != nil {
			return err
		}
	}
	return nil
}

// lastDay is behind all days of a journal.
const lastDay = "9999-12-31"

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
	Type    string `json:"type"` // header, seal, tombstone, record, link, day or end
	Version int    `json:"version,omitempty"`
	KeyID   string `json:"keyId,omitempty"`
	// names of the keys of card hashes
	CardKeys []string `json:"cardKeys,omitempty"`
	From     string   `json:"from,omitempty"` // the first day that the export has; none means that all are in it
	To       string   `json:"to,omitempty"`   // the last day
	Chain    string   `json:"chain,omitempty"`
	Seq      int64    `json:"seq,omitempty"`
	IsErased bool     `json:"erased,omitempty"`
	// IsForgotten says that an erased entry needs no tombstone: its key is gone, and the store was restored from before
	IsForgotten bool            `json:"keyForgotten,omitempty"`
	Card        string          `json:"card,omitempty"` // the hash of the card
	Salt        string          `json:"salt,omitempty"`
	Digest      string          `json:"digest,omitempty"`
	Link        string          `json:"link,omitempty"`
	Lines       int64           `json:"lines,omitempty"`
	At          string          `json:"at,omitempty"`   // when the export was made
	Text        string          `json:"text,omitempty"` // of a seal
	Signature   string          `json:"signature,omitempty"`
	Record      json.RawMessage `json:"record,omitempty"`
	Messages    json.RawMessage `json:"messages,omitempty"`
}

// exportVersion is the version of the format of exports.
const exportVersion = 2

// An exportWriter writes the lines of an export. It checks everything that it writes, and signs
// nothing that does not fit.
type exportWriter struct {
	to       *bufio.Writer
	keys     *Keys
	query    Query
	sum      hash.Hash
	lines    int64
	count    int
	from     sealReader  // nil for the audit trail
	known    known       // what seals said when the export began
	fresh    known       // what they say after an entry was read that was erased meanwhile
	later    []laterSeal // those that came meanwhile
	lastSeal int64       // the last seal that the export needs
	check    *ChainCheck
	read     map[string]bool // chains that the export has
	broken   error           // the first thing that does not fit
}

// A laterSeal is a seal that came while an export was written.
type laterSeal struct {
	Seal
	said *statement
}

func (w *exportWriter) put(l exportLine) error {
	text, err := encodeLine(l)
	if err != nil {
		return err
	}
	w.lines++
	w.sum.Write(text)
	_, err = w.to.Write(text)
	return err
}

// fail notes what does not fit, if it is the first thing.
func (w *exportWriter) fail(err error) {
	if w.broken == nil {
		w.broken = err
	}
}

// line returns the line of a seal.
func (s *Seal) line(kind string) exportLine {
	return exportLine{Type: kind, Seq: s.N, Text: s.Text, KeyID: s.KeyID, Signature: signatureText(s.Signature)}
}

// writeEntry writes the line of an entry.
func (w *exportWriter) writeEntry(ctx context.Context, e *ExportedEntry) error {
	if w.check == nil || w.check.Chain != e.Chain {
		w.endChain()
		w.check = w.keys.NewChainCheck(ChainEnd{Chain: e.Chain})
		w.check.isErased = func(seq int64) bool { return w.known.isErased(e.Chain, seq) || w.fresh.isErased(e.Chain, seq) }
		w.read[e.Chain] = true
	}
	// An erasure may have removed the content since the seals were read.
	if e.isUnexplained(w.check) {
		if err := w.readSeals(ctx, &w.fresh, func(s *Seal, said *statement) error {
			if s.N > w.known.n {
				w.later = append(w.later, laterSeal{*s, said})
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if err := w.check.Next(e); err != nil {
		w.fail(err)
	}
	l := e.line(w.query.Merchant != "" && e.Merchant != w.query.Merchant)
	if l.Type == "record" {
		w.count++
	}
	err := w.put(l)
	if err == nil && e.Day != nil {
		err = w.put(e.Day.line("day"))
	}
	return err
}

// isUnexplained reports whether an entry has no content, and a check knows no reason for that.
func (e *ExportedEntry) isUnexplained(c *ChainCheck) bool {
	return e.Content == nil && !e.IsDamaged && !e.IsForgotten && !c.isErased(e.Seq)
}

// endChain checks the end of a chain against what seals say.
func (w *exportWriter) endChain() {
	if w.check == nil {
		return
	}
	if k := w.known.chains[w.check.Chain]; k != nil && len(k.ends) > 0 &&
		(w.check.Seq < k.end().Seq || k.isClosed && w.check.Seq != k.end().Seq) {
		w.fail(&faultError{fmt.Sprintf("the chain %s has %d entries, and a seal says %d", w.check.Chain, w.check.Seq,
			k.end().Seq)})
	}
}

// checkChains checks that no chain is missing that seals name.
func (w *exportWriter) checkChains(ctx context.Context) error {
	w.endChain()
	from, to := w.query.spanOfDays()
	for _, chain := range sortedKeys(w.known.chains) {
		if day := dayOfChain(chain); chain != AuditChain && !w.read[chain] && w.known.isHere(chain) && day >= from &&
			(to == "" || day <= to) {
			if isArchived, err := w.isArchivedMeanwhile(ctx, chain); err != nil || isArchived {
				return cmp.Or(err, errArchivedMeanwhile)
			}
			w.fail(&faultError{"the chain " + chain + " is gone"})
		}
	}
	return nil
}

// WriteJSONLines exports the entries of a time, of one merchant if the query names one. Entries of others are links. It
// signs the export only if all of it is as it was written. Else it writes all lines but the last one, and returns an
// error that says what does not fit: a [*ChainError], or one of a seal. [IsChanged] knows both.
func WriteJSONLines(ctx context.Context, to io.Writer, st Exporter, keys *Keys, q Query) (records int, err error) {
	if q.At.IsZero() {
		q.At = time.Now()
	}
	if kept, ok := st.(interface{ from(time.Time) time.Time }); ok { // what is over its time is not shown
		q.From = kept.from(q.From)
	}
	w := &exportWriter{
		to: bufio.NewWriter(to), keys: keys, query: q, sum: sha256.New(), known: newKnown(), fresh: newKnown(),
		read: map[string]bool{},
	}
	w.from, _ = st.(sealReader)
	header := exportLine{Type: "header", Version: exportVersion, KeyID: keyID(keys.PublicKey())}
	header.From, header.To = q.spanOfDays()
	if _, isJournal := st.(Store); isJournal { // the audit trail has no card
		header.CardKeys = keys.cardKeyNames()
	}
	if err := w.put(header); err != nil {
		return 0, err
	}
	if err := w.writeSeals(ctx); err != nil {
		return 0, err
	}
	if err := st.Export(ctx, q, func(e ExportedEntry) error { return w.writeEntry(ctx, &e) }); err != nil {
		return w.count, err
	}
	if err := w.checkChains(ctx); err != nil {
		return w.count, err
	}
	if err := w.checkRows(ctx, st); err != nil {
		return w.count, err
	}
	for i := range w.later {
		if err := w.putSeal(&w.later[i].Seal, w.later[i].said); err != nil {
			return w.count, err
		}
	}
	if w.broken == nil {
		err = w.writeEnd()
	}
	return w.count, cmp.Or(w.broken, err, w.to.Flush(), nil)
}

// writeEnd signs the lines that were written.
func (w *exportWriter) writeEnd() error {
	digest, at := w.sum.Sum(nil), w.query.At.UTC().Format(time.RFC3339)
	return w.put(exportLine{
		Type: "end", Lines: w.lines, Digest: hex.EncodeToString(digest), At: at,
		Signature: signatureText(ed25519.Sign(w.keys.signer(), endText(w.lines, digest, at))),
	})
}

// IsChanged reports whether an error says that something in the store is not as it was written.
func IsChanged(err error) bool {
	_, isChain := errors.AsType[*ChainError](err)
	_, isFault := errors.AsType[*faultError](err)
	return isChain || isFault
}

// endText is what the signature of an export is made over.
func endText(lines int64, digest []byte, at string) []byte {
	return fmt.Appendf(nil, "threeds journal export %d %x %s", lines, digest, at)
}

func encodeLine(l exportLine) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(l)
	return b.Bytes(), err
}

// csvHeader are the columns of WriteCSV.
var csvHeader = []string{
	"id", "created", "updated", "api", "operation", "merchant", "reference", "scheme", "bin", "last4", "amount",
	"currency", "exponent",
	"acquirerMerchantID",
	"messageVersion", "deviceChannel", "messageCategory", "status", "result", "transStatus", "transStatusReason", "eci",
	"acs", "dsTransID", "acsTransID", "challenged", "liability", "next", "errorCode", "errorComponent",
	"errorDescription", "errorDetail", "resultRefused", "elements", "durationMs", "schemeFindings",
}

// WriteCSV exports the records of a query for spreadsheets, newest first. RulesOf returns the rules of a scheme; nil
// stands for what is public.
func WriteCSV(ctx context.Context, to io.Writer, st Store, rulesOf func(scheme string) *scheme.Sheet,
	q Query) (records int, err error) {
	w := csv.NewWriter(to)
	if err := w.Write(csvHeader); err != nil {
		return 0, err
	}
	if rulesOf == nil {
		rulesOf = scheme.Public
	}
	q.Limit = 1000
	if _, err := checkRowsOf(ctx, st, &q); err != nil { // what was missing is in Faults of the store
		return 0, err
	}
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

// CountText returns the count for people, who are told that it lacks what was changed in the store.
func (c *BillingCount) CountText() string {
	text := strconv.FormatInt(c.Count, 10)
	if c.IsChanged {
		text += " and what was changed in the store"
	}
	return text
}

// WriteBillingCSV writes counters for spreadsheets.
func WriteBillingCSV(to io.Writer, counts []BillingCount) error {
	w := csv.NewWriter(to)
	_ = w.Write([]string{"month", "merchant", "api", "deviceChannel", "messageCategory", "kind", "count"}) // Error says it
	for i := range counts {
		_ = w.Write(spreadsheetRow(append(counts[i].names(), counts[i].CountText())))
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
		r.ID, r.Created.UTC().Format(time.RFC3339Nano), r.Updated.UTC().Format(time.RFC3339Nano), r.API, r.Operation,
		r.Merchant, r.Reference, r.Card.Scheme, r.Card.BIN, r.Card.Last4, r.Amount, r.Currency, r.Exponent,
		r.AcquirerMerchant, r.MessageVersion, r.DeviceChannel, r.MessageCategory, r.Status, r.Result, r.TransStatus,
		r.TransStatusReason, r.ECI, r.ACS, r.DSTransID, r.ACSTransID,
		strconv.FormatBool(r.Challenged), r.Liability, next, r.ErrorCode, r.ErrorComponent, description, detail,
		r.ResultRefused.text(), strings.Join(r.Elements, " "), strconv.FormatInt(r.DurationMS, 10),
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
