package journal

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Days that a database need not have any more go into files, one for each day, which are exports of that day. A seal of
// kind archive names the file, and the chains that the database does not have any more. So an export of the database
// lacks no chain without a signature that says where it is.

// A DayFile is a file of an archived day, as a seal names it.
type DayFile struct {
	Name    string // Name has the day first, such as 2026-01-05.jsonl.
	Entries int64
	Digest  []byte // Digest is SHA-256 of the export in the file, which may be compressed.
}

// Day returns the day of the file.
func (f *DayFile) Day() string { return f.Name[:min(len(f.Name), len("2006-01-02"))] }

// dayFileName returns the name of the nth file of a day. There is a second one if entries of the day came after it was
// archived.
func dayFileName(day string, n int) string {
	if n == 1 {
		return day + ".jsonl"
	}
	return fmt.Sprintf("%s-%d.jsonl", day, n)
}

// compareDayFiles orders the names of files of days, the oldest first.
func compareDayFiles(a, b string) int {
	day := func(name string) string { return (&DayFile{Name: name}).Day() }
	return cmp.Or(strings.Compare(day(a), day(b)), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// dayFileForm is the form of such a name. A file may be compressed after it was written.
var dayFileForm = regexp.MustCompile(`^([0-9]{4}-[0-9]{2}-[0-9]{2}(-[0-9]+)?\.jsonl)(\.gz)?$`)

// compressedEnd is the end of the name of a compressed file.
const compressedEnd = ".gz"

// filesOfDay returns the names of the files of a day, the oldest first.
func (k *known) filesOfDay(day string) (names []string) {
	for n := 1; k.files[dayFileName(day, n)] != nil; n++ {
		names = append(names, dayFileName(day, n))
	}
	return names
}

// newestFiles returns the files of the days that are kept, each as it was written last, the oldest day first.
func (k *known) newestFiles() (all []DayFile) {
	for _, name := range slices.SortedFunc(maps.Keys(k.files), compareDayFiles) {
		f := k.files[name][len(k.files[name])-1]
		if k.hasDay(f.Day()) {
			all = append(all, f)
		}
	}
	return all
}

// ArchivedFiles returns the files that have the archived days of a journal, as its seals name them, the oldest day
// first. An error for which [IsChanged] is true says that the seals are not as they were written.
func ArchivedFiles(ctx context.Context, st Store, keys *Keys) ([]DayFile, error) {
	k := newKnown()
	err := readAllSeals(ctx, st, keys, &k, func(*Seal, *statement) error { return nil })
	return k.newestFiles(), err
}

// An ExportFile is an open file with an export, which may be compressed by gzip.
type ExportFile struct {
	*os.File
	from io.Reader
}

// OpenExport opens a file with an export. Close it after use.
func OpenExport(path string) (*ExportFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	e := &ExportFile{File: f}
	if _, err := e.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return e, nil
}

// Read reads what the export has.
func (e *ExportFile) Read(p []byte) (int, error) { return e.from.Read(p) }

// Seek goes back to the begin of the export. There is no other place that it can go to.
func (e *ExportFile) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekStart {
		return 0, errors.New("journal: an export can only be read from its begin")
	}
	if _, err := e.File.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	from, err := Decompressed(e.File)
	e.from = from
	return 0, err
}

// Decompressed returns what a reader has, decompressed if that is needed.
func Decompressed(from io.Reader) (io.Reader, error) {
	begin := make([]byte, 2)
	n, err := io.ReadFull(from, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	all := io.MultiReader(strings.NewReader(string(begin[:n])), from)
	if string(begin[:n]) != "\x1f\x8b" {
		return all, nil
	}
	return gzip.NewReader(all)
}

// findDayFile returns the path of the file of a name in a folder. The error is [fs.ErrNotExist] if there is none.
func findDayFile(dir, name string) (path string, err error) {
	for _, end := range []string{"", compressedEnd} {
		path = filepath.Join(dir, name+end)
		if _, err = os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return path, err
}

// listDayFiles returns the names of the files of days in a folder, the oldest first. They are without the ends of
// compressed ones.
func listDayFiles(dir string) (names []string, err error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range all {
		if m := dayFileForm.FindStringSubmatch(entry.Name()); m != nil && entry.Type().IsRegular() {
			names = append(names, m[1])
		}
	}
	slices.SortFunc(names, compareDayFiles)
	return slices.Compact(names), nil
}
