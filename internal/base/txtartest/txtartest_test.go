package txtartest_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/openthreeds/threeds/internal/base/txtartest"
)

// file makes a file of an archive.
func file(name, data string) txtartest.File {
	f := txtartest.File{Name: name}
	if data != "" {
		f.Data = []byte(data)
	}
	return f
}

// TestMarkedLinesBeginFiles: a line that names a file begins it, and nothing else does.
func TestMarkedLinesBeginFiles(t *testing.T) {
	for text, want := range map[string]txtartest.Archive{
		"":                                    {},
		"no file":                             {Comment: []byte("no file\n")},
		"c\n-- a --\nx\ny\n-- b c --\nz":      {Comment: []byte("c\n"), Files: []txtartest.File{file("a", "x\ny\n"), file("b c", "z\n")}},
		"--  a\t --\r\nx\r\n-- b --\n-- c --": {Files: []txtartest.File{file("a", "x\r\n"), file("b", ""), file("c", "")}},
		"-- a --\n -- b --\n-- b--\n--b --\n-- --\n--  --\n-- b -- \n\n": {
			Files: []txtartest.File{file("a", " -- b --\n-- b--\n--b --\n-- --\n--  --\n-- b -- \n\n")},
		},
	} {
		if a := txtartest.Parse([]byte(text)); !reflect.DeepEqual(*a, want) {
			t.Errorf("%q: %q, want %q", text, *a, want)
		}
	}
}

// TestWrittenArchiveIsReadAgain: what was written is read as it was.
func TestWrittenArchiveIsReadAgain(t *testing.T) {
	a := txtartest.Archive{Comment: []byte("c"), Files: []txtartest.File{file("a", "x\n\n"), file("b", ""), file("c", "no newline")}}
	const want = "c\n-- a --\nx\n\n-- b --\n-- c --\nno newline\n"
	text := txtartest.Format(&a)
	if string(text) != want {
		t.Errorf("%q, want %q", text, want)
	}
	name := filepath.Join(t.TempDir(), "a.txtar")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	back, err := txtartest.ParseFile(name)
	if err != nil || string(txtartest.Format(back)) != want {
		t.Errorf("%q, %v, want %q", back, err, want)
	}
	if _, err := txtartest.ParseFile(name + ".none"); !os.IsNotExist(err) {
		t.Errorf("%v, want that there is no such file", err)
	}
}
