package conformance

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestNoRealCards is CF-18: whatever in this repository could be a card number,
// by its length and its check digit, is made up, as anybody can see by a row of
// four equal digits.
func TestNoRealCards(t *testing.T) {
	number := regexp.MustCompile(`[0-9]+`)
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err == nil && generated(e) {
			return filepath.SkipDir
		}
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), "go.") || e.Name() == "licenses.txt" {
			return err // go.mod, go.sum and the licences have times in the versions of modules
		}
		data, err := os.ReadFile(path)
		if err != nil || !utf8.Valid(data) {
			return err
		}
		for _, n := range number.FindAllString(string(data), -1) {
			if len(n) >= 13 && len(n) <= 19 && strings.ContainsAny(n[:1], "23456") && luhn(n) && !row(n, 4) {
				t.Errorf("%s: %s may be a card number", path, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// luhn reports whether the check digit of a number is right.
func luhn(n string) bool {
	sum := 0
	for i := range len(n) {
		d := int(n[len(n)-1-i] - '0')
		if i%2 == 1 {
			d *= 2
		}
		sum += d/10 + d%10
	}
	return sum%10 == 0
}

// row reports whether a number has count equal digits side by side.
func row(n string, count int) bool {
	for i := 0; i+count <= len(n); i++ {
		if strings.Count(n[i:i+count], n[i:i+1]) == count {
			return true
		}
	}
	return false
}
