// Package backup writes the long-lived data of a store into one file, which fits every kind of store, and reads it
// back. Use [Write] to make a backup and [Restore] to load one.
//
// A backup is JSON lines. The first is the header; then comes one line for each row, whose
// type names its kind; the last has the number of the lines before it and the SHA-256 of
// their bytes, so that a file that was cut or changed is noticed:
//
//	{"type":"header","format":"threeds backup","version":1,"created":"2026-11-25T17:00:00Z"}
//	{"type":"key","text":{"merchant":"Corner Shop"},"number":{"created":…,"strict":0},"bytes":{"hash":"…","seal":"…"}}
//	{"type":"end","lines":2,"sha256":"…"}
//
// It holds API keys as their sealed rows, when they were last used, revoked keys, merchants and which are disabled,
// webhook endpoints, operators, tokens, client certificates of directories with their keys, card ranges, and the
// rotations of the key file. It never holds transactions, events or key files. Without a key file, all that is sealed
// is useless. A rotation contains the new secret, sealed under the one before it, for as long as the store keeps it. So
// the previous key file opens the backup, too.
package backup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/openthreeds/threeds/internal/state/rotation"
	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	format  = "threeds backup"
	version = 1
)

// The types of lines that are no rows.
const (
	headerLine = "header"
	endLine    = "end"
)

// maxLine is the greatest length of a line. A chunk of card ranges has 256 KiB, and a third
// more in base64.
const maxLine = 1 << 20

// kinds are the kinds of rows in a backup, in their order. Chunks come with the ranges that they belong to.
var kinds = []string{
	store.RevokedRows, store.KeyRows, store.MerchantRows, store.EndpointRows, store.ObjectRows, store.AuditRows,
	store.StateRows, store.RangeRows,
}

// ErrNotEmpty is in the error of a Restore into a store that has rows, unless these are to
// be replaced.
var ErrNotEmpty = errors.New("the store is not empty")

// A Counts says how many rows there are of each kind.
type Counts map[string]int

type header struct {
	Type    string    `json:"type"`
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Created time.Time `json:"created"`
}

type end struct {
	Type   string `json:"type"`
	Lines  int    `json:"lines"`
	SHA256 string `json:"sha256"`
}

// Write writes a backup of a store, as it is at one moment, and returns what is in it. A
// backup is whole only if the error is nil. If j is not nil, the backup also holds that journal, as it is just after
// that moment.
func Write(ctx context.Context, to io.Writer, from store.Archive, j *Journal, now time.Time) (Counts, error) {
	counts := make(Counts)
	w := &lineWriter{to: bufio.NewWriterSize(to, 64<<10), sum: sha256.New()}
	put := func(row store.Row) error {
		counts[row.Kind]++
		return w.write(row)
	}
	err := from.ViewRows(ctx, func(tx store.RowTx) error {
		if err := w.write(header{headerLine, format, version, now.UTC().Truncate(time.Second)}); err != nil {
			return err
		}
		for _, kind := range kinds {
			if err := tx.Each(ctx, kind, put); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && j != nil {
		counts[EntryRows], err = j.write(ctx, put)
	}
	if err == nil {
		err = w.write(end{endLine, w.lines, hex.EncodeToString(w.sum.Sum(nil))})
	}
	if err == nil {
		err = w.to.Flush()
	}
	return counts, err
}

// A lineWriter writes lines, counts them, and sums them up.
type lineWriter struct {
	to    *bufio.Writer
	sum   hash.Hash
	lines int
}

func (w *lineWriter) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	w.sum.Write(line)
	w.lines++
	_, err = w.to.Write(line)
	return err
}

// A lineReader reads the lines that a lineWriter has written.
type lineReader struct {
	from  *bufio.Reader
	sum   hash.Hash
	lines int
	buf   []byte
	fault error // After an error of from, nothing more can be read.
}

// next returns the next line with its end, and its type. The bytes are valid until the next call. An error is about the
// line whose number is lines.
func (r *lineReader) next() (line []byte, kind string, err error) {
	r.lines++
	r.buf = r.buf[:0]
	for {
		part, err := r.from.ReadSlice('\n')
		r.buf = append(r.buf, part...)
		switch {
		case len(r.buf) > maxLine:
			return nil, "", fmt.Errorf("is longer than %d bytes: %w", maxLine, errChanged)
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF:
			return nil, "", errCut
		case err != nil:
			r.fault = err
			return nil, "", err
		}
		break
	}
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(r.buf, &head); err != nil || head.Type == "" {
		return nil, "", errors.New("is no JSON object with a type")
	}
	return r.buf, head.Type, nil
}

var (
	errCut     = errors.New("is where the backup stops, without its last line: it was cut off")
	errMore    = errors.New("is the last line of the backup, but more comes after it")
	errChanged = errors.New("the backup was changed or damaged: its checksum does not fit")
)

// isDamage reports whether an error says that the backup is not what was written.
func isDamage(err error) bool {
	return errors.Is(err, errCut) || errors.Is(err, errMore) || errors.Is(err, errChanged)
}

// readHeader reads the first line.
func (r *lineReader) readHeader() error {
	line, kind, err := r.next()
	var h header
	if err == nil {
		err = json.Unmarshal(line, &h)
	}
	switch {
	case errors.Is(err, errCut) && len(r.buf) == 0:
		return errors.New("is empty, and no backup")
	case err != nil || kind != headerLine || h.Format != format:
		return errors.New("is no backup of threeds")
	case h.Version != version:
		return fmt.Errorf(
			"is a backup of version %d, and this release reads version %d: use the release that made it, or a later one",
			h.Version, version)
	}
	r.sum.Write(line)
	return nil
}

// readRow reads a row, or returns io.EOF at the last line, if the checksum in that fits.
func (r *lineReader) readRow() (row store.Row, err error) {
	line, kind, err := r.next()
	if err != nil {
		return row, err
	}
	if kind != endLine {
		r.sum.Write(line)
		return row, unmarshal(line, &row)
	}
	var e end
	if unmarshal(line, &e) != nil || e.Lines != r.lines-1 || e.SHA256 != hex.EncodeToString(r.sum.Sum(nil)) {
		return row, errChanged
	}
	if _, err := r.from.ReadByte(); err != io.EOF {
		return row, errMore
	}
	return row, io.EOF
}

// unmarshal is json.Unmarshal, but refuses members that v does not have.
func unmarshal(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// drain reads to the end, to tell whether the backup is whole.
func (r *lineReader) drain() error {
	for {
		switch _, err := r.readRow(); {
		case err == io.EOF:
			return nil
		case isDamage(err) || r.fault != nil:
			return err
		}
	}
}

// A RevokedKey is an API key that was revoked.
type RevokedKey struct {
	Hash     []byte
	Merchant string
	At       time.Time
}

func revokedKeyOf(row store.Row) RevokedKey {
	return RevokedKey{
		Hash: row.Bytes["hash"], Merchant: row.Text["merchant"], At: time.UnixMilli(row.Number["revoked"]).UTC(),
	}
}

// Revoked returns the revoked keys of a store, the oldest revocation first.
func Revoked(ctx context.Context, from store.Archive) (keys []RevokedKey, err error) {
	err = from.ViewRows(ctx, func(tx store.RowTx) (err error) {
		keys, err = readRevoked(ctx, tx)
		return err
	})
	return keys, err
}

func readRevoked(ctx context.Context, tx store.RowTx) (keys []RevokedKey, err error) {
	err = tx.Each(ctx, store.RevokedRows, func(row store.Row) error {
		keys = append(keys, revokedKeyOf(row))
		return nil
	})
	return keys, err
}

// A Report says what a Restore has done.
type Report struct {
	Added    Counts
	Replaced Counts       // what was in the store before
	Revoked  []RevokedKey // all revoked keys of the store, the oldest revocation first
	// Refused are the keys of the backup that were not restored, because the store says that they were revoked.
	Refused []RevokedKey
	// ReplacedTrail is the link of the last entry that the store's audit trail had, if another trail replaced that
	// trail; else nil.
	ReplacedTrail []byte
}

// Restore loads a backup into a store, in one transaction: after an error the store is as it
// was. A store that has rows is refused with [ErrNotEmpty], unless replace is set; then the
// backup takes the place of these rows. Keys that the store knows as revoked stay revoked.
// Transactions are not touched. The audit trail of the store stays if it continues that of the backup.
//
// The journal of a backup goes into j. If j is nil, a backup with a journal is refused. The journal is restored last,
// and from is read a second time for it. An error about that is a [*JournalError]: everything else is restored.
func Restore(ctx context.Context, to store.Archive, from io.ReadSeeker, replace bool, j *Journal) (Report, error) {
	r := newLineReader(from)
	if err := r.readHeader(); err != nil {
		return Report{}, fmt.Errorf("line 1: %w", err)
	}
	hasJournal, journalLine := false, 0
	var report Report
	err := to.ChangeRows(ctx, func(tx store.RowTx) (err error) {
		l := &loader{
			tx: tx, journal: j, revoked: make(map[string]RevokedKey), report: Report{Added: Counts{}, Replaced: Counts{}},
		}
		if err := l.makeRoom(ctx, replace); err != nil {
			return err
		}
		if err := l.load(ctx, r); err != nil {
			return err
		}
		if err := l.addRotations(ctx); err != nil {
			return err
		}
		report, hasJournal, journalLine = l.report, l.hasJournal, l.journalLine
		report.Revoked, err = readRevoked(ctx, tx)
		return err
	})
	if err != nil || !hasJournal {
		return report, err
	}
	if _, err = from.Seek(0, io.SeekStart); err == nil {
		report.Added[EntryRows], err = j.restore(ctx, newLineReader(from), journalLine)
	}
	if err != nil {
		return report, &JournalError{err}
	}
	return report, nil
}

func newLineReader(from io.Reader) *lineReader {
	return &lineReader{from: bufio.NewReaderSize(from, 64<<10), sum: sha256.New()}
}

// A loader is a Restore under way.
type loader struct {
	tx      store.RowTx
	revoked map[string]RevokedKey // by hash: the store has these
	report  Report
	ranges  content
	trail   trail

	// rotations are those of the store, and of the backup; nil means that there are none.
	rotations struct{ present, restored []byte }

	journal     *Journal // where the journal of the backup goes later; nil means that it has no place
	hasJournal  bool
	journalLine int // journalLine is the number of the line with which the journal begins.
}

// makeRoom removes the rows that the store has, if it may, but for revoked keys.
func (l *loader) makeRoom(ctx context.Context, replace bool) error {
	for _, kind := range kinds {
		err := l.tx.Each(ctx, kind, func(row store.Row) error {
			if isRotations(row) { // they stay
				l.rotations.present = row.Bytes["value"]
				return nil
			}
			l.report.Replaced[row.Kind]++
			switch kind {
			case store.RevokedRows:
				l.revoked[string(row.Bytes["hash"])] = revokedKeyOf(row)
			case store.AuditRows:
				l.trail.present = append(l.trail.present, row.Bytes["link"])
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(l.report.Replaced) > 0 && !replace {
		return ErrNotEmpty
	}
	delete(l.report.Replaced, store.RevokedRows) // for they stay
	delete(l.report.Replaced, store.AuditRows)   // for they stay, too, if they can
	for _, kind := range kinds {
		if kind == store.RevokedRows || kind == store.AuditRows {
			continue
		}
		if err := l.tx.Clear(ctx, kind); err != nil {
			return err
		}
	}
	return nil
}

// load adds all rows. If a line is wrong, and the backup was changed since it was written, the error says the latter.
func (l *loader) load(ctx context.Context, r *lineReader) error {
	for ctx.Err() == nil {
		row, err := r.readRow()
		if err == io.EOF {
			return l.ranges.check()
		}
		if err == nil {
			err = l.add(ctx, row)
		}
		if err == nil {
			if row.Kind == journalRows {
				l.journalLine = r.lines
			}
			continue
		}
		line := r.lines
		if !isDamage(err) && r.fault == nil {
			if damage := r.drain(); damage != nil {
				line, err = r.lines, damage
			}
		}
		return fmt.Errorf("line %d: %w", line, err)
	}
	return ctx.Err()
}

// add adds a row, but no key that was revoked.
func (l *loader) add(ctx context.Context, row store.Row) error {
	if row.Kind != store.ChunkRows {
		if err := l.ranges.check(); err != nil {
			return err
		}
	}
	hash := string(row.Bytes["hash"])
	was, isRevoked := l.revoked[hash]
	switch row.Kind {
	case store.RevokedRows:
		if isRevoked {
			return nil
		}
		l.revoked[hash] = revokedKeyOf(row)
	case store.KeyRows:
		if isRevoked {
			l.report.Refused = append(l.report.Refused, was)
			return nil
		}
	case store.RangeRows:
		l.ranges = content{left: row.Number["size"], want: row.Bytes["sha256"], sum: sha256.New()}
	case store.ChunkRows:
		if err := l.ranges.add(row.Bytes["data"]); err != nil {
			return err
		}
	case store.AuditRows:
		return l.addAudit(ctx, row)
	case store.StateRows:
		if isRotations(row) {
			l.rotations.restored = row.Bytes["value"]
			return nil
		}
	case store.MerchantRows, store.EndpointRows, store.ObjectRows:
	case journalRows, billingRows, sealRows, dayRows, chainRows, frameRows:
		l.hasJournal = true
		return l.journal.check(row)
	default:
		return fmt.Errorf("a row of type %q: %w (it knows %v)", row.Kind, store.ErrUnknownRow, kinds)
	}
	l.report.Added[row.Kind]++
	return l.tx.Add(ctx, row)
}

// isRotations reports whether a row has the rotations of the key file.
func isRotations(row store.Row) bool {
	return row.Kind == store.StateRows && row.Text["key"] == store.RotationState
}

// addRotations adds the rotations of the backup to those that the store had.
func (l *loader) addRotations(ctx context.Context) error {
	if l.rotations.present == nil && l.rotations.restored == nil {
		return nil
	}
	merged, err := rotation.Merge(l.rotations.present, l.rotations.restored)
	if err != nil {
		return err
	}
	row := store.NewRow(store.StateRows)
	row.Text["key"], row.Bytes["value"] = store.RotationState, merged
	return l.tx.Add(ctx, row)
}

// A trail is the audit trail that the store had, and how far that of the backup agrees with it. A link proves its entry
// and all entries before it.
type trail struct {
	present [][]byte    // links
	same    []store.Row // those of the backup that the store has
}

// addAudit adds an entry of the audit trail. The first entry that differs from the store's removes the trail of the
// store.
func (l *loader) addAudit(ctx context.Context, row store.Row) error {
	t := &l.trail
	if n := len(t.same); n < len(t.present) {
		if bytes.Equal(row.Bytes["link"], t.present[n]) {
			t.same = append(t.same, row)
			return nil
		}
		l.report.ReplacedTrail = t.present[len(t.present)-1]
		l.report.Replaced[store.AuditRows] = len(t.present)
		if err := l.tx.Clear(ctx, store.AuditRows); err != nil {
			return err
		}
		for _, was := range t.same {
			if err := l.tx.Add(ctx, was); err != nil {
				return err
			}
		}
		t.present = nil
	}
	l.report.Added[store.AuditRows]++
	return l.tx.Add(ctx, row)
}

// content says what of a snapshot has come.
type content struct {
	left int64
	want []byte
	sum  hash.Hash
}

var errContent = errors.New("card ranges are not whole: the store that was backed up is damaged")

func (c *content) add(data []byte) error {
	c.left -= int64(len(data))
	if c.sum == nil || len(data) == 0 || c.left < 0 {
		return errContent
	}
	c.sum.Write(data)
	return nil
}

// check reports whether the snapshot is whole.
func (c *content) check() error {
	if c.sum != nil && (c.left != 0 || !bytes.Equal(c.sum.Sum(nil), c.want)) {
		return errContent
	}
	return nil
}
