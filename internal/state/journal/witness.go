package journal

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
)

// A Witnessed says how many heads were compared. Older are those that the store keeps no longer.
type Witnessed struct{ Heads, Older int }

// A note is a head that somebody has noted outside of the store.
type note struct {
	line int
	hash string // of a seal, or the link of an entry of the audit trail; hexadecimal
}

// notes are heads that somebody has noted, by their numbers.
type notes struct{ seals, trail map[int64][]note }

// ErrNoHeads says that a file has no head that could be compared.
var ErrNoHeads = errors.New(
	"journal: the file has no heads: want lines of the log, of /metrics or of an export, or events for the operator")

// Witness compares heads that were noted outside of the store with those that it has now: lines of the log, of
// /metrics, of an export, or events for the operator, in any order and among other lines. A head that is another
// one, or not there, is a [*LineError]. EachLink calls do with the entries of the audit trail; nil means that there
// is none to compare with.
func Witness(ctx context.Context, from io.Reader, seals Store,
	eachLink func(ctx context.Context, do func(seq int64, link []byte) error) error) (w Witnessed, err error) {
	all, err := readNotes(from)
	if err != nil {
		return w, err
	}
	if len(all.seals)+len(all.trail) == 0 {
		return w, ErrNoHeads
	}
	if err := all.compare(&w, all.seals, "seal", func(do func(n int64, hash []byte) error) error {
		return seals.ReadSeals(ctx, 1, func(s Seal) error { return do(s.N, s.Hash()) })
	}); err != nil || eachLink == nil {
		return w, err
	}
	return w, all.compare(&w, all.trail,
		"entry of the audit trail", func(do func(n int64, hash []byte) error) error { return eachLink(ctx, do) })
}

// compare compares notes with what each calls do with, in the order of its numbers.
func (*notes) compare(w *Witnessed, noted map[int64][]note, what string,
	each func(do func(n int64, hash []byte) error) error) error {
	first := int64(0)
	if err := each(func(n int64, hash []byte) error {
		if first == 0 {
			first = n
		}
		for _, note := range noted[n] {
			if note.hash != hex.EncodeToString(hash) {
				return &LineError{note.line, what + " " + strconv.FormatInt(n, 10) + " is another one in the store"}
			}
			w.Heads++
		}
		delete(noted, n)
		return nil
	}); err != nil {
		return err
	}
	for n, left := range noted {
		if n >= first {
			return &LineError{left[0].line, what + " " + strconv.FormatInt(n, 10) + " is not in the store"}
		}
		w.Older += len(left)
	}
	return nil
}

// metricLine is a line of /metrics that tells a head.
var metricLine = regexp.MustCompile(`^threeds_(journal|audit)_head_info\{(.*)\}`)

// metricLabel is a label of such a line.
var metricLabel = regexp.MustCompile(`(number|hash|link)="([0-9a-f]+)"`)

// readNotes reads the heads in a file.
func readNotes(from io.Reader) (*notes, error) {
	all := &notes{map[int64][]note{}, map[int64][]note{}}
	in := bufio.NewReader(from)
	for n := 1; ; n++ {
		text, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		all.read(n, text)
		if err != nil {
			return all, nil
		}
	}
}

// read notes the head that a line has, if it has one.
func (a *notes) read(line int, text []byte) {
	var l struct {
		Message, Msg, Type, Text, Hash, Link string
		Number                               int64
		Data                                 struct {
			Number int64
			Hash   string
		}
	}
	if m := metricLine.FindSubmatch(text); m != nil {
		label := map[string]string{}
		for _, pair := range metricLabel.FindAllSubmatch(m[2], -1) {
			label[string(pair[1])] = string(pair[2])
		}
		l.Number, _ = strconv.ParseInt(label["number"], 10, 64)
		l.Hash, l.Link = label["hash"], label["link"]
	} else if json.Unmarshal(text, &l) != nil {
		return
	}
	switch {
	case l.Type == "journal.head":
		l.Number, l.Hash = l.Data.Number, l.Data.Hash
	case l.Text != "":
		said, err := parseSeal(l.Text)
		if err != nil {
			return
		}
		for _, end := range said.chains {
			if end.Chain == AuditChain {
				a.trail[end.Seq] = append(a.trail[end.Seq], note{line, hex.EncodeToString(end.Link)})
			}
		}
		l.Number, l.Hash = said.n, hex.EncodeToString((&Seal{Text: l.Text}).Hash())
	}
	if l.Number > 0 && len(l.Hash) == 64 {
		a.seals[l.Number] = append(a.seals[l.Number], note{line, l.Hash})
	}
	if l.Number > 0 && len(l.Link) == 64 {
		a.trail[l.Number] = append(a.trail[l.Number], note{line, l.Link})
	}
}
