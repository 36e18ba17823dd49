package journal

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"time"
)

// A Verified says what an export has.
type Verified struct {
	Records, Erased, Days int
	// Forgotten is how many of Erased have no tombstone: their keys were forgotten, and the store was restored from
	// before that.
	Forgotten int
	Archived  int // Archived is how many days are in files, as seals say, and not in the export.
	Holds     int // Holds is how many legal holds seals name that are not lifted.
	Held      int // Held is how many days of the export are over their time, and stay for a hold.
}

// A LineError says which line of an export is wrong.
type LineError struct {
	Line int
	What string
}

// otherKey is what is wrong with the export of another journal.
const otherKey = "keyId names another key than the one that was given"

func (e *LineError) Error() string { return strconv.Itoa(e.Line) + ": " + e.What }

// Verify checks an export. The keys are those by which it and its days may have been signed.
func Verify(from io.Reader, keys ...ed25519.PublicKey) (Verified, error) {
	return verifyEach(from, keys, func(*exportLine) string { return "" })
}

// verifyEach checks an export, and calls do with each of its lines once that was checked. Do returns what is wrong with
// the line, or "".
func verifyEach(from io.Reader, keys []ed25519.PublicKey, do func(*exportLine) string) (Verified, error) {
	v := verifier{
		keys: keys, sum: sha256.New(), known: newKnown(), read: map[string]bool{}, bare: map[string][]erasedSpan{},
	}
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
	keys     []ed25519.PublicKey
	key      ed25519.PublicKey // the one that the header names
	from, to string            // the days of the export, "" for no limit
	sum      hash.Hash
	lines    int64
	known    known
	ends     []ChainEnd // what seals say of the chain, behind the last entry
	chain    string
	seq      int64
	link     []byte
	read     map[string]bool         // chains that the export has
	bare     map[string][]erasedSpan // entries without content, and without a tombstone so far
	isLate   bool                    // seals that come now were made while entries were read
	oldest   string                  // the first day of a chain
	newest   string                  // the last day of an entry of the audit trail
	trailDay string                  // the last day of the audit trail that was signed
	isTrail  bool
	isEnded  bool
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
			return otherKey
		}
		v.key, v.from, v.to = v.keys[i], l.From, l.To
	case "record", "link":
		return v.checkEntry(l)
	case "seal":
		return v.checkSeal(l)
	case "tombstone":
		return v.checkTombstone(l)
	case "day":
		return v.checkTrailDay(l)
	case "end":
		return v.checkEnd(l)
	default:
		return "type is not header, seal, tombstone, record, link, day or end"
	}
	return ""
}

// sealOf returns the seal of a line, and what is wrong with it, "" if nothing is.
func (v *verifier) sealOf(l *exportLine) (*Seal, string) {
	signature, err := base64.StdEncoding.DecodeString(l.Signature)
	s := &Seal{l.Seq, l.Text, l.KeyID, signature}
	if err != nil || !s.isSignedBy(v.keys) {
		return nil, "the signature does not fit the text of the seal"
	}
	return s, ""
}

// checkSeal checks a seal against those before it.
func (v *verifier) checkSeal(l *exportLine) string {
	if v.chain != "" && !v.isLate {
		if what := v.endChains(); what != "" {
			return what
		}
		v.isLate = true
	}
	s, what := v.sealOf(l)
	if what == "" {
		what = v.known.add(s)
	}
	return what
}

// checkTombstone checks the seal of an erasure that stands alone: those before it are about other days.
func (v *verifier) checkTombstone(l *exportLine) string {
	s, what := v.sealOf(l)
	if what != "" {
		return what
	}
	said, err := parseSeal(s.Text)
	if err != nil || said.kind != ErasureSeal || said.n != l.Seq {
		return "a tombstone that is not the seal of an erasure"
	}
	v.known.addErased(said)
	return ""
}

// checkTrailDay checks a seal of days of the audit trail, which stands behind the last entry that it is about.
func (v *verifier) checkTrailDay(l *exportLine) string {
	s, what := v.sealOf(l)
	if what != "" {
		return what
	}
	said, err := parseSeal(s.Text)
	if err != nil || said.kind != DaySeal || len(said.chains) != 1 || v.chain != AuditChain ||
		said.chains[0].Chain != v.chain ||
		said.chains[0].Seq != v.seq || !bytes.Equal(said.chains[0].Link, v.link) {
		return "the seal of the day does not fit the entries before it"
	}
	if v.trailDay != "" && said.days[0] != dayAfter(v.trailDay) {
		return "the days between " + v.trailDay + " and " + said.days[0] + " are not signed"
	}
	v.trailDay = said.days[1]
	v.Days++
	return ""
}

// isWanted reports whether the export has the day of a chain.
func (v *verifier) isWanted(chain string) bool {
	day := dayOfChain(chain)
	return chain != AuditChain && v.known.isHere(chain) && day >= v.from && (v.to == "" || day <= v.to)
}

// endChain checks that nothing is missing at the end of the chain that was read last.
func (v *verifier) endChain() string {
	k := v.known.chains[v.chain]
	if k == nil {
		return ""
	}
	switch {
	case k.isBroken:
		return "the server found that the chain " + v.chain + " was changed, and did not sign it"
	case len(v.ends) > 0:
		return fmt.Sprintf("the chain %s ends with entry %d, and a seal says %d: entries are missing", v.chain, v.seq,
			v.ends[len(v.ends)-1].Seq)
	case k.isClosed && k.end().Seq != v.seq:
		return fmt.Sprintf("the chain %s has entries behind those that were signed", v.chain)
	case k.isClosed:
		v.Days++
	}
	return ""
}

// endChains checks that the export has all chains that seals name.
func (v *verifier) endChains() string {
	if what := v.endChain(); what != "" {
		return what
	}
	for _, chain := range sortedKeys(v.known.chains) {
		if !v.read[chain] && v.isWanted(chain) {
			return "the chain " + chain + " is missing, and a seal names it"
		}
	}
	return ""
}

// checkEnd checks the last line, and what has to be there by then.
func (v *verifier) checkEnd(l *exportLine) string {
	if !v.isLate {
		if what := v.endChains(); what != "" {
			return what
		}
	}
	digest := v.sum.Sum(nil)
	signature, err := base64.StdEncoding.DecodeString(l.Signature)
	if err != nil || l.Lines != v.lines || l.Digest != hex.EncodeToString(digest) ||
		!ed25519.Verify(v.key, endText(v.lines, digest, l.At), signature) {
		return "the signature of the export does not fit the lines before it"
	}
	at, err := time.Parse(time.RFC3339, l.At)
	if err != nil {
		return "at is no time"
	}
	for chain, spans := range v.bare {
		for _, s := range spans {
			if !v.known.isErased(chain, s.first) || !v.known.isErased(chain, s.last) {
				return fmt.Sprintf("entry %d of the chain %s has no content, and no tombstone says that it was erased",
					s.first, chain)
			}
		}
	}
	v.isEnded = true
	v.Archived, v.Holds, v.Held = v.countArchived(), len(v.known.holds), v.countHeld()
	return v.checkDays(dayOf(at.Add(-signTime).AddDate(0, 0, -1)))
}

// countArchived counts the days of the export of which something is in a file.
func (v *verifier) countArchived() int {
	days := daySet{}
	for chain := range v.known.archived {
		if day := dayOfChain(chain); v.known.isKept(chain) && !v.read[chain] && day >= v.from &&
			(v.to == "" || day <= v.to) {
			days[day] = true
		}
	}
	return len(days)
}

// countHeld counts the days of the export that are over their time, and stay for a hold.
func (v *verifier) countHeld() int {
	days := daySet{}
	for chain := range v.read {
		if day := dayOfChain(chain); chain != AuditChain && day < v.known.since {
			days[day] = true
		}
	}
	return len(days)
}

// checkDays checks that all days until the last one that is over are signed.
func (v *verifier) checkDays(last string) string {
	if v.isTrail {
		if v.newest != "" && v.newest <= last && v.newest > v.trailDay {
			return "the day " + v.newest + " is over, and it is not signed"
		}
		return ""
	}
	if v.to != "" && v.to < last {
		last = v.to
	}
	if v.known.lastDay == "" && (v.oldest == "" || v.oldest > last) || v.known.lastDay >= last {
		return ""
	}
	if v.known.lastDay == "" {
		return "the day " + v.oldest + " is over, and it is not signed"
	}
	return "the day after " + v.known.lastDay + " is over, and it is not signed"
}

// checkEntry checks an entry against the one before it.
func (v *verifier) checkEntry(l *exportLine) string {
	if v.isLate {
		return "entries stand before the seals that were made meanwhile"
	}
	if l.Chain != v.chain {
		if what := v.endChain(); what != "" {
			return what
		}
		if v.read[l.Chain] {
			return "the chain " + l.Chain + " was in the export before"
		}
		v.chain, v.seq, v.link, v.ends = l.Chain, 0, firstLink(l.Chain), nil
		v.read[l.Chain] = true
		if k := v.known.chains[l.Chain]; k != nil {
			v.ends = k.ends
		}
		if v.isTrail = l.Chain == AuditChain; !v.isTrail && (v.oldest == "" || dayOfChain(l.Chain) < v.oldest) {
			v.oldest = dayOfChain(l.Chain)
		}
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
		if v.known.isErased(l.Chain, l.Seq) {
			return "a tombstone says that the entry was erased, and it has content"
		}
		v.Records++
		if v.isTrail {
			v.noteTrailDay(l.Record)
		}
	} else if l.IsErased && l.IsForgotten {
		v.Erased, v.Forgotten = v.Erased+1, v.Forgotten+1
	} else if l.IsErased {
		v.noteErased(l.Chain, l.Seq)
	}
	v.seq, v.link = l.Seq, NextLink(v.link, digest)
	if l.Link != hex.EncodeToString(v.link) {
		return "the link does not fit the entry before"
	}
	if len(v.ends) > 0 && v.ends[0].Seq == v.seq {
		if !bytes.Equal(v.ends[0].Link, v.link) {
			return "a seal says another link of this entry"
		}
		v.ends = v.ends[1:]
	}
	return ""
}

// noteErased counts an entry without content. Its tombstone may come later.
func (v *verifier) noteErased(chain string, seq int64) {
	v.Erased++
	if !v.known.isErased(chain, seq) {
		v.bare[chain] = append(v.bare[chain], erasedSpan{seq, seq})
	}
}

// noteTrailDay notes the day of an entry of the audit trail, but for those that sign days.
func (v *verifier) noteTrailDay(record json.RawMessage) {
	var e struct {
		At     time.Time `json:"at"`
		Action string    `json:"action"`
	}
	if json.Unmarshal(record, &e) == nil && e.Action != TrailSignature {
		v.newest = max(v.newest, dayOf(e.At))
	}
}

// TrailSignature is the action of the entries of the audit trail that sign its days.
const TrailSignature = "audit.sign"
