package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestR10aOneWayToTheTerminal: commands write to what run gives them alone, which escapes; only main has the files.
func TestR10aOneWayToTheTerminal(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for n, line := range strings.Split(string(readFile(t, name)), "\n") {
			isMain := name == "main.go" && (strings.Contains(line, "code := run(") || strings.Contains(line, "warnings := obs.NewLogger("))
			if strings.Contains(line, "os.Std") && !isMain || strings.Contains(line, "fmt.Print") {
				t.Errorf("%s:%d writes past run: %s", name, n+1, strings.TrimSpace(line))
			}
		}
	}
}
