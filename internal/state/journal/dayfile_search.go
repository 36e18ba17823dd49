package journal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/transid"
)

// A search in a folder reads the files of a day twice. The first time verifies them, and notes which entry of each
// authentication is the newest: about 50 bytes for each. The second time compares those with the query. So the memory
// that it needs is that of the largest day.

// A folderReader reads the files that the seals of a journal name. One that is missing, or is another one, is an error:
// without it what is found may not be all, or not the newest.
type folderReader struct {
	*Folder
	known   known
	digests map[string][]byte // of the files that were verified
}

func (f *Folder) reader(ctx context.Context, st Store) (*folderReader, error) {
	r := &folderReader{Folder: f, known: newKnown(), digests: map[string][]byte{}}
	return r, readAllSeals(ctx, st, f.Keys, &r.known, func(*Seal, *statement) error { return nil })
}

// names returns the names of the files of archived days, and of those of days that the journal does not keep any more,
// the oldest first. A file that no seal names is of a day that is still in the database.
func (f *folderReader) names() ([]string, error) {
	names, err := listDayFiles(f.Dir)
	names = slices.DeleteFunc(names, func(name string) bool { return f.known.hasDay((&DayFile{Name: name}).Day()) })
	for _, file := range f.known.newestFiles() {
		names = append(names, file.Name)
	}
	return names, err
}

// eachDay calls do with the files of each day from one to another, the newest day first, until do says that no more is
// needed.
func (f *folderReader) eachDay(ctx context.Context, from, to string,
	do func(names []string) (isEnough bool, err error)) error {
	names, err := f.names()
	if err != nil {
		return err
	}
	byDay := map[string][]string{}
	for _, name := range names {
		if day := (&DayFile{Name: name}).Day(); day >= from && day <= to {
			byDay[day] = append(byDay[day], name)
		}
	}
	for _, day := range slices.Backward(sortedKeys(byDay)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if isEnough, err := do(byDay[day]); err != nil || isEnough {
			return err
		}
	}
	return nil
}

// verified calls do with each line of a file, and returns an error unless all of the file is as it was written.
func (f *folderReader) verified(name string, do func(*exportLine)) error {
	c := checkDayFile(f.Dir, name, f.known.files[name], &f.known, f.Keys.publicKeys(), do)
	if c.what != "" {
		return fmt.Errorf("journal: %s: %s", c.path, c.what)
	}
	f.digests[name] = c.digest
	return nil
}

// allDays are the first and the last day that there may be.
var allDays = [2]string{"", lastDay}

// daysOf returns the days in which an id is looked for, in this order: an id that has the form of ours names a time.
func daysOf(id string) (all [][2]string) {
	if from, until, ok := transid.Span(strings.ToLower(id)); ok {
		all = append(all, [2]string{dayOf(from), dayOf(until)})
	}
	return append(all, allDays)
}

// Search returns a page of the records in the files of the folder, as Search of a [Store] does. It returns an error if
// one of the files that the seals of the journal name is missing, or was changed.
func (f *Folder) Search(ctx context.Context, st Store, q Query) (Page, error) {
	in, err := f.reader(ctx, st)
	if err != nil {
		return Page{}, err
	}
	from, to := q.spanOfDays()
	to = cmp.Or(to, lastDay)
	if made, _, ok := parseCursor(q.Cursor); ok {
		to = min(to, dayOf(time.UnixMilli(made)))
	}
	limit := limitOf(q)
	m := matcher{query: q, cards: f.Keys.CardHashes(q.Card)}
	var all []Record
	for _, days := range daysOf(q.ID) {
		err := in.eachDay(ctx, max(from, days[0]), min(to, days[1]), func(names []string) (bool, error) {
			some, err := in.searchDay(names, &m, limit+1-len(all))
			all = append(all, some...)
			return len(all) > limit, err
		})
		if err != nil || len(all) > 0 {
			return pageOf(all, limit), err
		}
	}
	return Page{}, nil
}

// A newestLine says which line of the files of a day has the newest entry of an authentication. A later file of the day
// may have an entry once more, which was made again from what the store had: the first one counts.
type newestLine struct {
	line uint32
	rank int8
}

// searchDay returns the records of a day that fit, at most limit, the newest first.
func (f *folderReader) searchDay(names []string, m *matcher, limit int) ([]Record, error) {
	seed, newest := maphash.MakeSeed(), map[uint64]newestLine{}
	n := uint32(0)
	for _, name := range names {
		if err := f.verified(name, func(l *exportLine) {
			n++
			if l.Type != "record" {
				return
			}
			var e struct {
				Kind   Kind `json:"kind"`
				Record struct {
					ID string `json:"id"`
				} `json:"record"`
			}
			if json.Unmarshal(l.Record, &e) != nil {
				return // an entry that this release does not know
			}
			key := maphash.String(seed, e.Record.ID)
			rank := int8(rankOf(e.Kind))
			if was, ok := newest[key]; rank >= 0 && (!ok || rank > was.rank) {
				newest[key] = newestLine{n, rank}
			}
		}); err != nil {
			return nil, err
		}
	}
	var found []Record
	n = 0
	for _, name := range names {
		if err := f.eachLine(name, f.digests[name], func(l *exportLine) error {
			n++
			if l.Type != "record" {
				return nil
			}
			var e Entry
			if json.Unmarshal(l.Record, &e) != nil || newest[maphash.String(seed, e.Record.ID)].line != n || !m.fits(l, &e) {
				return nil
			}
			r := *e.Record.withoutForeignText()
			at, _ := slices.BinarySearchFunc(found, r, func(a, b Record) int { return compareNewest(&a, &b) })
			if found = slices.Insert(found, at, r); len(found) > limit {
				found = found[:limit]
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// compareNewest orders records as a search does, the newest first.
func compareNewest(a, b *Record) int {
	return cmp.Or(cmp.Compare(b.Created.UnixMilli(), a.Created.UnixMilli()), strings.Compare(b.ID, a.ID))
}

// eachLine calls do with each line of a file that was verified, and returns an error if it has not this digest any
// more.
func (f *Folder) eachLine(name string, digest []byte, do func(*exportLine) error) error {
	path, err := findDayFile(f.Dir, name)
	if err != nil {
		return err
	}
	from, err := OpenExport(path)
	if err != nil {
		return err
	}
	defer from.Close() // only read
	sum := sha256.New()
	dec := json.NewDecoder(io.TeeReader(from, sum))
	for {
		var l exportLine
		if err := dec.Decode(&l); err == io.EOF {
			if !bytes.Equal(sum.Sum(nil), digest) {
				return fmt.Errorf("journal: %s: was changed while it was read", path)
			}
			return nil
		} else if err != nil {
			return fmt.Errorf("journal: %s: %w", path, err)
		}
		if err := do(&l); err != nil {
			return err
		}
	}
}

// A matcher compares entries with a query.
type matcher struct {
	query Query
	cards [][]byte // the hashes of the card of the query
}

// fits reports whether the newest entry of an authentication fits the query.
func (m *matcher) fits(l *exportLine, e *Entry) bool {
	q, r := &m.query, &e.Record
	if id := strings.ToLower(q.ID); id != "" && r.ID != id && cmp.Or(r.DSTransID, strings.ToLower(r.NamedID)) != id &&
		r.ACSTransID != id {
		return false
	}
	for _, c := range [][2]string{
		{q.Reference, r.Reference}, {q.Last4, r.Card.Last4}, {q.Merchant, r.Merchant}, {q.Scheme, r.Card.Scheme},
		{q.ACS, r.ACS}, {q.Status, r.Status}, {q.Result, r.Result}, {q.Reason, r.TransStatusReason},
	} {
		if c[0] != "" && c[0] != c[1] {
			return false
		}
	}
	if q.Card != "" && !m.isOfCard(l) || q.Begun && !r.IsBegun() ||
		!q.From.IsZero() && r.Created.UnixMilli() < q.From.UnixMilli() ||
		!q.To.IsZero() && r.Created.UnixMilli() >= q.To.UnixMilli() {
		return false
	}
	made, id, ok := parseCursor(q.Cursor)
	return !ok || compareNewest(&Record{Created: time.UnixMilli(made), ID: id}, r) < 0
}

// isOfCard reports whether a line has the hash of the card of the query.
func (m *matcher) isOfCard(l *exportLine) bool {
	hash, err := hex.DecodeString(l.Card)
	return err == nil && len(hash) > 0 && slices.ContainsFunc(m.cards, func(c []byte) bool { return bytes.Equal(c, hash) })
}

// Show returns a record of the folder by its id, as Show of a [Store] does. The errors are those of [Folder.Search].
func (f *Folder) Show(ctx context.Context, st Store, id string) (Detail, error) {
	in, err := f.reader(ctx, st)
	if err != nil {
		return Detail{}, err
	}
	w := wantedEntries{id: strings.ToLower(id)}
	for _, days := range daysOf(id) {
		if err := in.eachDay(ctx, days[0], days[1], func(names []string) (bool, error) {
			for _, name := range names {
				if err := in.verified(name, w.add); err != nil || w.err != nil {
					return false, cmp.Or(err, w.err)
				}
			}
			return len(w.own) > 0, nil
		}); err != nil {
			return Detail{}, err
		}
		if len(w.own) > 0 {
			return detailOf(w.own), nil
		}
	}
	if len(w.named) > 0 {
		return detailOf(w.named), nil
	}
	return Detail{}, ErrNotFound
}

// wantedEntries are the entries of an id, and that of the newest request that named it.
type wantedEntries struct {
	id         string
	own, named []Entry
	err        error
}

// add adds the entry of a line, if it is one of them.
func (w *wantedEntries) add(l *exportLine) {
	if l.Type != "record" || !bytes.Contains(bytes.ToLower(l.Record), []byte(w.id)) {
		return
	}
	var e Entry
	if json.Unmarshal(l.Record, &e) != nil {
		return // an entry that this release does not know
	}
	isNamed := strings.ToLower(e.Record.NamedID) == w.id && (e.Kind == Refused || e.Kind == Version1)
	if e.Record.ID != w.id && !isNamed {
		return
	}
	if err := showMessages(e.Steps, l.Messages); err != nil {
		w.err = err
	}
	if e.Record.ID == w.id {
		isSame := func(o Entry) bool { return o.Kind == e.Kind }
		if !slices.ContainsFunc(w.own, isSame) { // as isBehind says
			w.own = append(w.own, e)
		}
	} else if w.named == nil || e.Record.Created.After(w.named[0].Record.Created) {
		w.named = []Entry{e}
	}
}
