package journal

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
)

// A dayFileCheck says what a file of a day is.
type dayFileCheck struct {
	Verified
	path   string
	digest []byte // digest is that of the export.
	size   int64  // size is the length of the export, which may be compressed in the file.
	what   string // what is wrong with the file; "" if nothing is.
	isOld  bool   // isOld says that the file is one of before an erasure, and nothing else is wrong.
}

// checkDayFile checks a file of a folder. Versions are what seals say of it, the newest last; none means that nothing
// is known. Known are the seals of the journal; nil means that they are not there.
func checkDayFile(dir, name string, versions []DayFile, known *known, signers []ed25519.PublicKey,
	do ...func(*exportLine)) (c dayFileCheck) {
	var err error
	c.path, err = findDayFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		c.path = filepath.Join(dir, name)
		c.what = "is missing"
		return c
	}
	f, err := OpenExport(c.path)
	if err != nil {
		c.what = "cannot be read: " + err.Error()
		return c
	}
	defer f.Close() // only read
	file, sum, blanked := DayFile{Name: name}, sumWriter{hash: sha256.New()}, 0
	c.Verified, err = verifyEach(io.TeeReader(f, &sum), signers, func(l *exportLine) string {
		if l.Type == "header" && (l.From != file.Day() || l.To != file.Day()) {
			return "it has another day than its name says"
		}
		if l.Type == "record" && known != nil && known.isErased(l.Chain, l.Seq) {
			blanked++
		}
		for _, do := range do {
			do(l)
		}
		return ""
	})
	c.size, c.digest = sum.n, sum.hash.Sum(nil)
	is := func(f DayFile) bool { return bytes.Equal(f.Digest, c.digest) }
	wrong, isWrong := errors.AsType[*LineError](err)
	switch {
	case isWrong && wrong.What == otherKey:
		c.what = "is of another journal"
	case isWrong:
		c.what = "was changed: line " + wrong.Error()
	case err != nil:
		c.what = "cannot be read: " + err.Error()
	case len(versions) > 0 && !slices.ContainsFunc(versions, is):
		c.what = "is another export of this journal than the one that its seal names"
	case len(versions) > 0 && !is(versions[len(versions)-1]):
		c.what, c.isOld = "is a copy of before an erasure: replace it, or erase again", true
	case blanked > 0:
		c.what, c.isOld = fmt.Sprintf("has %d entries that were erased: erase again", blanked), true
	}
	return c
}

// A Folder is a folder with files of archived days.
type Folder struct {
	Dir  string
	Keys *Keys

	rename func(from, to string) error // is another one in a test; nil is [os.Rename]
}

// A FolderVerified says what a folder has.
type FolderVerified struct {
	Verified
	Files  int      // Files is how many files are as they were written.
	Old    int      // Old is how many more files are of days that the journal does not keep any more.
	Held   []string // Held are those of Old that have something that a legal hold holds: they have to stay.
	Faults []string // Faults says which files are not as they should be, and why.
}

// Verify checks all files of the folder against the seals of the journal, which also say which files there must be.
func (f *Folder) Verify(ctx context.Context, st Store) (v FolderVerified, err error) {
	k := newKnown()
	if err := readAllSeals(ctx, st, f.Keys, &k, func(*Seal, *statement) error { return nil }); err != nil {
		return v, err
	}
	holds := f.Keys.openHolds(&k)
	names, err := listDayFiles(f.Dir)
	if err != nil {
		return v, err
	}
	for _, file := range k.newestFiles() {
		names = append(names, file.Name)
	}
	slices.SortFunc(names, compareDayFiles)
	for _, name := range slices.Compact(names) {
		file := DayFile{Name: name}
		if !k.hasDay(file.Day()) {
			v.Old++
			if f.isHeld(name, holds) {
				v.Held = append(v.Held, name)
			}
			continue
		}
		c := checkDayFile(f.Dir, name, k.files[name], &k, f.Keys.publicKeys())
		if c.what == "" && k.files[name] == nil {
			c.what = "is named by no seal of this journal: archive again, or remove it"
		}
		v.add(&c)
	}
	return v, nil
}

// isHeld reports whether a file has something that a hold holds. One that is not as it was written may have it.
func (f *Folder) isHeld(name string, holds []Hold) bool {
	day, isHeld := (&DayFile{Name: name}).Day(), false
	if !mayHold(holds, day) {
		return false
	}
	c := checkDayFile(f.Dir, name, nil, nil, f.Keys.publicKeys(), func(l *exportLine) {
		if entry, ok := entryOfLine(l); ok && holdOfLine(holds, l, &entry) >= 0 {
			isHeld = true
		}
	})
	return isHeld || c.what != ""
}

// VerifyFolder checks all files of a folder without the journal. The signers are the keys by which they may be signed.
// It does not notice that a file is missing, or is of before an erasure.
func VerifyFolder(dir string, signers ...ed25519.PublicKey) (v FolderVerified, err error) {
	names, err := listDayFiles(dir)
	for _, name := range names {
		c := checkDayFile(dir, name, nil, nil, signers)
		v.add(&c)
	}
	return v, err
}

// add adds what was found about a file.
func (v *FolderVerified) add(c *dayFileCheck) {
	if c.what != "" {
		v.Faults = append(v.Faults, c.path+": "+c.what)
		return
	}
	v.Files++
	v.Records, v.Erased, v.Days = v.Records+c.Records, v.Erased+c.Erased, v.Days+c.Days
}
