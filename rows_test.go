package threeds_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	tableRow   = regexp.MustCompile(`(?m)^\| ([A-Z][0-9]+[a-z]?) \|(.*)$`)
	namedTest  = regexp.MustCompile("`(Test[A-Z][0-9A-Za-z]*)`")
	testFunc   = regexp.MustCompile(`(?m)^func (Test\w*)\(t \*testing\.T\)`)
	rowID      = regexp.MustCompile(`^Test([GRMP][0-9]+[a-z]?)(.*)$`)
	startsWord = regexp.MustCompile(`^[A-Z]`)
)

// testNames returns the names of all tests of the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestRowsOfTheAPIAreTested: each row of docs/api.md with an id has a test whose name is the
// id and words that say what holds, or names another test. Each test that is named after a
// row has its row. Each test that the page names exists.
func TestRowsOfTheAPIAreTested(t *testing.T) {
	text, err := os.ReadFile("docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	page, names := string(text), testNames(t)
	isTested, isRow := map[string]bool{}, map[string]bool{}
	for name := range names {
		m := rowID.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		isTested[m[1]] = true
		if !startsWord.MatchString(m[2]) {
			t.Errorf("%s does not say in words what holds", name)
		}
	}
	for _, row := range tableRow.FindAllStringSubmatch(page, -1) {
		id := row[1]
		if isRow[id] {
			t.Errorf("docs/api.md has two rows %s", id)
		}
		isRow[id] = true
		if !isTested[id] && !namedTest.MatchString(row[2]) {
			t.Errorf("docs/api.md, %s: no test is named Test%s and words, and the row names no other", id, id)
		}
	}
	for id := range isTested {
		if !isRow[id] {
			t.Errorf("tests are named after row %s, which docs/api.md does not have", id)
		}
	}
	for _, m := range namedTest.FindAllStringSubmatch(page, -1) {
		if !names[m[1]] {
			t.Errorf("docs/api.md names %s, which does not exist", m[1])
		}
	}
	if len(isRow) < 30 {
		t.Errorf("docs/api.md has %d rows, fewer than there must be", len(isRow))
	}
}
