package obs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestErrorsHaveOneName: whoever searches a log for errors finds all of them under "err".
func TestErrorsHaveOneName(t *testing.T) {
	other := regexp.MustCompile(`\.(Debug|Info|Warn|Error|Log)(Context)?\(.*"error", `)
	read := 0
	for _, dir := range []string{"cmd", "internal", "sandbox"} {
		err := filepath.WalkDir(filepath.Join("..", "..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			read++
			for _, line := range strings.Split(string(data), "\n") {
				if other.MatchString(line) {
					t.Errorf("%s: %s", path, strings.TrimSpace(line))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 100 {
		t.Errorf("%d files were read", read)
	}
}
