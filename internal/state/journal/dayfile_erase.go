package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyfile"
)

// An erasure in a folder goes file by file. First a tombstone names the entries, as in the database. Then the file is
// written again without their content and under another name, a seal names the new file, and it takes the place of the
// old one. After a crash between these steps the same erasure finds a file that still has what tombstones name, and
// goes on.

// An ErasedFiles says what an erasure in a folder has done.
type ErasedFiles struct {
	Entries int      // Entries is how many entries have lost their content.
	Files   int      // Files is how many files were written again.
	Faults  []string // Faults says which files could not be erased from, and why.
	// Held says how many authentications stay for a legal hold. What stays in files has to be erased again later.
	Held []HeldBack
	// Unforgotten is how many authentications of files keep their keys, for there are too many: one counts in each file.
	Unforgotten int
}

// Erase removes what belongs to a card or a merchant from all files that the journal names. The tombstones stand in the
// journal, and in the files. Counts of reports and counters for billing stay. Files that are missing, or not as they
// were written, are named in the result, and keep no other file from being erased.
func (f *Folder) Erase(ctx context.Context, st Store, q Query) (done ErasedFiles, err error) {
	if q.erasesNothing() {
		return done, errNothingToErase
	}
	parts, ok := st.(Archive)
	if !ok {
		return done, errors.New("journal: this kind of store cannot be archived")
	}
	e := folderEraser{
		Folder: f, store: parts, known: newKnown(), by: cmp.Or(q.By, nodeName()), held: map[string]int{},
		match: matcher{query: Query{Merchant: q.Merchant, Card: q.Card}, cards: f.Keys.CardHashes(q.Card)},
	}
	if err := e.refresh(ctx); err != nil {
		return done, err
	}
	e.readHolds()
	byDay := map[string][]string{}
	for _, file := range e.known.newestFiles() {
		byDay[file.Day()] = append(byDay[file.Day()], file.Name)
	}
	for _, day := range sortedKeys(byDay) {
		faults := len(done.Faults)
		err := e.eraseDay(ctx, byDay[day], &done)
		for errors.Is(err, errNewHold) {
			done.Faults = done.Faults[:faults] // the next try finds them again
			if err := e.refresh(ctx); err != nil {
				return done, err
			}
			e.readHolds()
			err = e.eraseDay(ctx, byDay[day], &done)
		}
		if err != nil {
			return done, err
		}
	}
	done.Unforgotten = e.unforgotten
	for _, name := range sortedKeys(e.held) {
		done.Held = append(done.Held, HeldBack{name, e.held[name]})
	}
	return done, nil
}

// A folderEraser erases from the files of a folder.
type folderEraser struct {
	*Folder
	store Archive
	known known
	by    string
	match matcher
	holds []Hold
	seal  int64          // the newest seal that holds follows from
	held  map[string]int // how many authentications each hold has kept, by its name

	unforgotten int // how many authentications keep their keys
}

// refresh reads the seals that came since the last call.
func (e *folderEraser) refresh(ctx context.Context) error {
	return readAllSeals(ctx, e.store, e.Keys, &e.known, func(*Seal, *statement) error { return nil })
}

// readHolds takes the legal holds from the seals that were read.
func (e *folderEraser) readHolds() { e.holds, e.seal = e.Keys.openHolds(&e.known), e.known.n }

// eraseDay erases from the files of a day. An authentication may have entries in several of them. It returns errNewHold
// if a legal hold was set since the holds were read.
func (e *folderEraser) eraseDay(ctx context.Context, names []string, done *ErasedFiles) error {
	ids, held := map[[16]byte]bool{}, map[[16]byte]int{}
	type goodFile struct {
		name, path string
		digest     []byte
		isOld      bool
	}
	var good []goodFile
	for _, name := range names {
		c := checkDayFile(e.Dir, name, e.known.files[name], &e.known, e.Keys.publicKeys(), func(l *exportLine) {
			entry, ok := entryOfLine(l)
			if !ok || rankOf(entry.Kind) < 0 {
				return
			}
			key := idKey(entry.Record.ID)
			if hold := holdOfLine(e.holds, l, &entry); hold >= 0 {
				held[key] = hold
			}
			if e.match.fits(l, &entry) {
				ids[key] = true
			}
		})
		if c.what != "" && !c.isOld {
			done.Faults = append(done.Faults, c.path+": "+c.what)
			continue
		}
		good = append(good, goodFile{name, c.path, c.digest, c.isOld})
	}
	for key := range held {
		if !ids[key] {
			delete(held, key)
		}
		delete(ids, key)
	}
	for _, f := range good {
		n, err := e.signErasure(ctx, f.name, f.digest, ids)
		if err != nil {
			return err
		}
		if n == 0 && !f.isOld {
			if err := removeTemps(e.Dir, f.name); err != nil {
				return err
			}
			continue
		}
		if err := e.refresh(ctx); err != nil {
			return err
		}
		if err := e.rewrite(ctx, f.path, f.name, f.digest); err != nil {
			return err
		}
		done.Entries, done.Files = done.Entries+n, done.Files+1
	}
	for _, hold := range held {
		e.held[e.holds[hold].Name]++
	}
	return nil
}

// entryOfLine returns the entry of a line that has one.
func entryOfLine(l *exportLine) (e Entry, ok bool) {
	return e, l.Type == "record" && json.Unmarshal(l.Record, &e) == nil
}

// idKey returns a short key of an id: there may be many.
func idKey(id string) [16]byte {
	sum := sha256.Sum256([]byte(id))
	return [16]byte(sum[:])
}

// signErasure makes the tombstones of the entries of ids in a file, and notes their ids as erased, so that no import
// brings them back. It returns how many there are.
func (e *folderEraser) signErasure(ctx context.Context, name string, digest []byte,
	ids map[[16]byte]bool) (n int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	var places []chainPlace
	var rows [][]any
	if err := e.eachLine(name, digest, func(l *exportLine) error {
		entry, ok := entryOfLine(l)
		if !ok || !ids[idKey(entry.Record.ID)] {
			return nil
		}
		if !e.known.isErased(l.Chain, l.Seq) { // An erasure that died has made the tombstones of the others.
			places = append(places, chainPlace{l.Chain, l.Seq, entry.Record.ID})
		}
		rows = append(rows, []any{
			entry.Record.Created.UnixMilli(), entry.Record.ID, string(entry.Kind), int64(0), int64(0), int64(1),
		})
		return nil
	}); err != nil || len(rows) == 0 {
		return 0, err
	}
	day := (&DayFile{Name: name}).Day()
	db, err := e.store.part(ctx, day)
	if err != nil {
		return 0, err
	}
	at, err := time.Parse(time.DateOnly, day)
	if err == nil && db.prepareDay != nil {
		err = db.prepareDay(ctx, at)
	}
	if err != nil {
		return 0, err
	}
	n = len(places)
	spent, unforgotten := e.spentOf(at, places)
	if err := db.inTx(ctx, func(tx *sql.Tx) error {
		for len(rows) > 0 {
			some := rows[:min(len(rows), importBatch)]
			if err := db.putRows(ctx, tx, `INSERT INTO journal_places (`+strings.Join(placeColumns, ", ")+`) `, some,
				` ON CONFLICT DO NOTHING`); err != nil {
				return err
			}
			rows = rows[len(some):]
		}
		s := statement{kind: ErasureSeal, at: time.Now(), by: e.by}
		return db.sealErasure(ctx, tx, s, places, spent, &e.seal)
	}); err != nil {
		return 0, err
	}
	e.unforgotten += unforgotten
	e.Keys.forget(slices.Collect(maps.Values(spent)))
	return n, nil
}

// spentOf returns the keys of the authentications of entries, by id, which are to be forgotten: backups of the database
// may have them. If there are too many, it says how many are not.
func (e *folderEraser) spentOf(day time.Time, places []chainPlace) (spent map[string]spentLeaf, unforgotten int) {
	spent = map[string]spentLeaf{}
	for _, p := range places {
		spent[p.id] = spentLeaf{e.Keys.tree.name, e.Keys.tree.leafOf(dayNumber(day.UnixMilli()), p.id)}
	}
	if !e.Keys.mayForget(len(spent)) {
		return nil, len(spent)
	}
	return spent, 0
}

// rewrite writes a file again without the content of the entries that tombstones name.
func (e *folderEraser) rewrite(ctx context.Context, path, name string, digest []byte) error {
	temp, err := os.CreateTemp(e.Dir, "."+name+".*") // mode 0600
	if err != nil {
		return err
	}
	file := DayFile{Name: name}
	sum := sumWriter{hash: sha256.New()}
	var out io.Writer = temp
	closeOut := func() error { return nil }
	if strings.HasSuffix(path, compressedEnd) {
		packed := gzip.NewWriter(temp)
		out, closeOut = packed, packed.Close
	}
	err = errors.Join(e.copyErased(ctx, name, digest, io.MultiWriter(out, &sum)), closeOut(), keyfile.InheritOwner(temp))
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	file.Digest = sum.hash.Sum(nil)
	if err := e.verifyRewritten(temp.Name(), &file); err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	db, err := e.store.part(ctx, file.Day())
	if err != nil {
		return err
	}
	s := statement{kind: ArchiveSeal, at: time.Now(), by: e.by, files: []DayFile{file}}
	if err := db.inTx(ctx, func(tx *sql.Tx) error { return db.appendStatement(ctx, tx, s) }); err != nil {
		return err
	}
	rename := os.Rename
	if e.Folder.rename != nil {
		rename = e.Folder.rename
	}
	if err := rename(temp.Name(), path); err != nil {
		return err
	}
	return errors.Join(keyfile.SyncDir(e.Dir), removeTemps(e.Dir, name))
}

// verifyRewritten checks a file that was written again, and counts its entries.
func (e *folderEraser) verifyRewritten(path string, file *DayFile) error {
	f, err := OpenExport(path)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	sum := sumWriter{hash: sha256.New()}
	got, err := Verify(io.TeeReader(f, &sum), e.Keys.publicKeys()...)
	if err == nil && !bytes.Equal(sum.hash.Sum(nil), file.Digest) {
		err = errors.New("it is not what was written")
	}
	if err != nil {
		return fmt.Errorf("the file that was written does not verify: %w", err)
	}
	file.Entries = int64(got.Records + got.Erased)
	return nil
}

// copyErased writes the export of a file again: the seals as they are, with the tombstones that it lacks behind them,
// and each entry without its content if it was erased.
func (e *folderEraser) copyErased(ctx context.Context, name string, digest []byte, to io.Writer) error {
	day := (&DayFile{Name: name}).Day()
	w := &exportWriter{to: bufio.NewWriter(to), keys: e.Keys, sum: sha256.New(), query: Query{At: time.Now()}}
	has, isBehind := map[int64]bool{}, false
	if err := e.eachLine(name, digest, func(l *exportLine) error {
		switch l.Type {
		case "header":
			l.KeyID = keyID(e.Keys.PublicKey())
		case "seal", "tombstone":
			has[l.Seq] = true
		default:
			if !isBehind {
				if err := e.putTombstones(ctx, w, day, has); err != nil {
					return err
				}
			}
			isBehind = true
		}
		switch {
		case l.Type == "end":
			return nil
		case l.Type == "record" && e.known.isErased(l.Chain, l.Seq):
			return w.put(exportLine{
				Type: "link", Chain: l.Chain, Seq: l.Seq, IsErased: true, Digest: l.Digest, Link: l.Link,
			})
		}
		return w.put(*l)
	}); err != nil {
		return err
	}
	return errors.Join(w.writeEnd(), w.to.Flush())
}

// putTombstones writes the tombstones of a day that a file lacks.
func (e *folderEraser) putTombstones(ctx context.Context, w *exportWriter, day string, has map[int64]bool) error {
	return e.store.ReadSeals(ctx, 1, func(s Seal) error {
		said, err := parseSeal(s.Text)
		if err != nil || has[s.N] || !said.hasErased(day, day) {
			return err
		}
		return w.put(s.line("tombstone"))
	})
}

// removeTemps removes what an earlier run has left of a file that is there now.
func removeTemps(dir, name string) error {
	all, err := filepath.Glob(filepath.Join(dir, "."+name+".*"))
	for _, path := range all {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
