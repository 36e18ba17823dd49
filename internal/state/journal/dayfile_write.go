package journal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyfile"
)

// An Archiver writes the days of a journal that are older than a day into files of a folder, and then removes them from
// the journal. It can be stopped at any moment, and run again: a day is removed in the transaction whose seal names its
// file, and that file is whole and was read again before. Counters for billing and the counts of reports stay.
//
// Two archivers may run at the same time. Each day is archived by one of them.
type Archiver struct {
	Store  Store
	Keys   *Keys
	Dir    string
	Before time.Time // Before is a time of the first day that stays.
	Now    time.Time
	By     string // By names who does it in the seal; "" means this process.
	// Report is called with each day that was looked at.
	Report func(DayReport)

	steps diskSteps
	parts dayParts
	known known
}

// A DayReport says what became of a day.
type DayReport struct {
	Day  string
	File DayFile // File has no name if the day stays in the journal.
	Size int64   // Size is the length of the file in bytes.
	// Why says why the day stays in the journal. IsFault says that this will not change by waiting.
	Why     string
	IsFault bool
}

// dayParts are what an Archiver needs of the tables of a journal.
type dayParts interface {
	Store
	evidenceParts
	// shrink gives back the room of days that were removed.
	shrink(ctx context.Context) error
}

// diskSteps are the steps of an Archiver that a test may have fail. Nil ones do what they should.
type diskSteps struct {
	write  func(io.Writer) io.Writer
	rename func(from, to string) error
	commit func() error // is called before the transaction ends
}

// errStays says why a day stays in the journal.
type errStays struct {
	why     string
	isFault bool
}

func (e *errStays) Error() string { return e.why }

// Run archives all days, the oldest first. A day that stays does not keep the next ones from being archived.
func (a *Archiver) Run(ctx context.Context) error {
	parts, ok := a.Store.(dayParts)
	if !ok {
		return errors.New("journal: this kind of store cannot be archived")
	}
	a.parts, a.known = parts, newKnown()
	if err := keyfile.MakeDir(a.Dir); err != nil {
		return err
	}
	if err := a.refresh(ctx); err != nil {
		return err
	}
	byDay := map[string][]ChainEnd{}
	if err := parts.eachPart(ctx, func(_ string, db *database) error {
		all, err := db.readChains(ctx)
		for _, c := range all {
			byDay[c.day] = append(byDay[c.day], c.ChainEnd)
		}
		return err
	}); err != nil {
		return err
	}
	for _, day := range sortedKeys(byDay) {
		if day >= dayOf(a.Before) || day < a.known.since {
			continue
		}
		report, err := a.archive(ctx, day, byDay[day])
		if stays, ok := errors.AsType[*errStays](err); ok {
			report, err = DayReport{Day: day, Why: stays.why, IsFault: stays.isFault}, nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", day, err)
		}
		if a.Report != nil {
			a.Report(report)
		}
	}
	return parts.shrink(ctx)
}

// refresh reads the seals that came since the last call.
func (a *Archiver) refresh(ctx context.Context) error {
	return readAllSeals(ctx, a.Store, a.Keys, &a.known, func(*Seal, *statement) error { return nil })
}

// archive archives a day with these chains.
func (a *Archiver) archive(ctx context.Context, day string, chains []ChainEnd) (DayReport, error) {
	db, err := a.parts.partOf(ctx, day)
	if err != nil || db == nil {
		return DayReport{Day: day}, err
	}
	if err := a.refresh(ctx); err != nil {
		return DayReport{}, err
	}
	isInFile := true // a seal says so, and the transaction of the day was not committed
	for _, c := range chains {
		isInFile = isInFile && a.known.archived[c.Chain]
	}
	if isInFile {
		return a.finish(ctx, db, day, chains)
	}
	if err := a.checkDay(ctx, db, day, chains); err != nil {
		return DayReport{}, err
	}
	name := dayFileName(day, len(a.known.filesOfDay(day))+1)
	if err := a.checkFree(name, chains); err != nil {
		return DayReport{}, err
	}
	temp, err := os.CreateTemp(a.Dir, "."+name+".*") // mode 0600
	if err != nil {
		return DayReport{}, err
	}
	file, size, err := a.writeDay(ctx, temp, day)
	if err = errors.Join(err, temp.Close()); err != nil {
		return DayReport{}, err
	}
	file.Name = name
	if err = a.verifyDay(temp.Name(), &file, day, chains); err == nil {
		err = a.moveDay(ctx, db, day, chains, temp.Name(), &file)
	}
	if stays, ok := errors.AsType[*errStays](err); ok {
		return DayReport{}, errors.Join(stays, os.Remove(temp.Name()))
	}
	if err != nil {
		return DayReport{}, err
	}
	return DayReport{Day: day, File: file, Size: size}, removeTemps(a.Dir, name)
}

// checkFree returns an [*errStays] if a file of a name would be lost. One that a killed run has left may be replaced:
// it has nothing but entries of these chains, which are still in the database.
func (a *Archiver) checkFree(name string, chains []ChainEnd) error {
	if _, err := findDayFile(a.Dir, name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	here, isLeft := map[string]int64{}, true
	for _, c := range chains {
		here[c.Chain] = c.Seq
	}
	c := checkDayFile(a.Dir, name, nil, nil, a.Keys.publicKeys(), func(l *exportLine) {
		if l.Type == "record" || l.Type == "link" {
			isLeft = isLeft && l.Seq <= here[l.Chain]
		}
	})
	switch {
	case c.what != "":
		return &errStays{c.path + " is there already, and " + c.what + ": use another folder, or move it away", true}
	case !isLeft:
		return &errStays{c.path + " is there already, and has entries that this journal does not have: " +
			"use another folder, or move it away", true}
	}
	return nil
}

// moveDay gives the file of a day its name, and removes the day from the database.
func (a *Archiver) moveDay(ctx context.Context, db *database, day string, chains []ChainEnd, temp string,
	file *DayFile) error {
	return db.removeDay(ctx, day, chains, func(tx *sql.Tx) error {
		s := statement{kind: ArchiveSeal, at: a.Now, by: cmp.Or(a.By, nodeName()), files: []DayFile{*file}}
		for _, c := range chains {
			s.archived = append(s.archived, c.Chain)
		}
		if err := db.checkErased(ctx, tx, a.known.n, day); err != nil {
			return err
		}
		// Nobody else archives this day now, for the transaction has its lock.
		if err := a.rename(temp, filepath.Join(a.Dir, file.Name)); err != nil {
			return err
		}
		if err := db.appendStatement(ctx, tx, s); err != nil {
			return err
		}
		return a.commit()
	})
}

// rename gives a file its name, and has that on disk.
func (a *Archiver) rename(from, to string) error {
	rename := os.Rename
	if a.steps.rename != nil {
		rename = a.steps.rename
	}
	if err := rename(from, to); err != nil {
		return err
	}
	return keyfile.SyncDir(a.Dir)
}

func (a *Archiver) commit() error {
	if a.steps.commit == nil {
		return nil
	}
	return a.steps.commit()
}

// checkDay returns an [*errStays] if a day cannot be archived.
func (a *Archiver) checkDay(ctx context.Context, db *database, day string, chains []ChainEnd) error {
	for _, c := range chains {
		switch k := a.known.chains[c.Chain]; {
		case k == nil || !k.isClosed:
			return &errStays{why: "not all of its entries are signed yet"}
		case k.isBroken || len(k.ends) == 0 || k.end().Seq != c.Seq || !bytes.Equal(k.end().Link, c.Link):
			return &errStays{"the chain " + c.Chain + " was changed in the store", true}
		}
	}
	n, err := db.countPersonal(ctx, day)
	if err == nil && n > 0 {
		return &errStays{why: "it still has personal data, which no file has: see journal.personal"}
	}
	for range 2 { // a node may have written between the two statements
		if err == nil {
			n, err = db.countChangedRows(ctx, day)
		}
		if n == 0 {
			break
		}
	}
	if err == nil && n > 0 {
		return &errStays{fmt.Sprintf(
			"%d of its rows for searches and reports are missing, or do not say what the entries say", n), true}
	}
	return err
}

// writeDay writes the export of a day, and has it on disk.
func (a *Archiver) writeDay(ctx context.Context, to *os.File, day string) (file DayFile, size int64, err error) {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return file, 0, err
	}
	sum := sumWriter{hash: sha256.New()}
	var out io.Writer = to
	if a.steps.write != nil {
		out = a.steps.write(out)
	}
	q := Query{From: at, To: at.AddDate(0, 0, 1), At: a.Now}
	_, err = WriteJSONLines(ctx, io.MultiWriter(out, &sum), a.Store, a.Keys, q)
	if IsChanged(err) {
		return file, 0, errors.Join(&errStays{err.Error(), true}, os.Remove(to.Name()))
	}
	if err = errors.Join(err, keyfile.InheritOwner(to)); err == nil {
		err = to.Sync()
	}
	file.Digest = sum.hash.Sum(nil)
	return file, sum.n, err
}

// A sumWriter adds up what is written.
type sumWriter struct {
	hash hash.Hash
	n    int64
}

func (w *sumWriter) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	return w.hash.Write(p)
}

// verifyDay reads a file again, and returns an error unless it is what was written, and has these chains. It counts the
// entries.
func (a *Archiver) verifyDay(path string, file *DayFile, day string, chains []ChainEnd) error {
	f, err := OpenExport(path)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	seen, sum := map[string]int64{}, sumWriter{hash: sha256.New()}
	got, err := verifyEach(io.TeeReader(f, &sum), a.Keys.publicKeys(), func(l *exportLine) string {
		if l.Type == "record" || l.Type == "link" {
			seen[l.Chain] = l.Seq
		}
		return ""
	})
	if err != nil {
		return fmt.Errorf("the file that was written does not verify: %w", err)
	}
	file.Entries = int64(got.Records + got.Erased)
	isWhole := len(seen) == len(chains) && bytes.Equal(sum.hash.Sum(nil), file.Digest)
	for _, c := range chains {
		isWhole = isWhole && seen[c.Chain] == c.Seq
	}
	if !isWhole {
		return &errStays{why: "entries came while its file was written: run the command again"}
	}
	return nil
}

// finish removes a day whose file a seal names already. The file must be in the folder.
func (a *Archiver) finish(ctx context.Context, db *database, day string, chains []ChainEnd) (DayReport, error) {
	report := DayReport{Day: day}
	for _, name := range a.known.filesOfDay(day) {
		c := checkDayFile(a.Dir, name, a.known.files[name], &a.known, a.Keys.publicKeys())
		if c.what != "" {
			return report, &errStays{c.path + ": " + c.what, true}
		}
		report.File, report.Size = a.known.files[name][len(a.known.files[name])-1], c.size
	}
	err := db.removeDay(ctx, day, chains, func(tx *sql.Tx) error {
		if err := db.checkErased(ctx, tx, a.known.n, day); err != nil {
			return err
		}
		return a.commit()
	})
	if err != nil {
		return report, err
	}
	return report, removeTemps(a.Dir, report.File.Name)
}
