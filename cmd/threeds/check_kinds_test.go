package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// hostileText has what a terminal obeys, what turns the direction of text, ends of lines that are none of ASCII, and a tag.
const hostileText = "a\x1b[2Jb\u202ec\u2028d\u009be\u200ff\x7fg\U000e0041h"

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
	for in, want := range map[string]string{
		"": "", "plain\tand\nlines": "plain\tand\nlines", "Zoë · 山田": "Zoë · 山田", "a\u00a0b": "a\u00a0b",
		hostileText: `a\u001b[2Jb\u202ec\u2028d\u009be\u200ff\u007fg\udb40\udc41h`, "raw \x9b": `raw \ufffd`, "\r": `\u000d`,
	} {
		if got := string(escapeControls([]byte(in))); got != want {
			t.Errorf("escapeControls(%q) = %q, want %q", in, got, want)
		}
	}
	// For JSON the meaning stays.
	var got map[string]any
	if err := json.Unmarshal(escapeControls([]byte("{\"a\u202e\": \"\u009b\U000e0041\"}")), &got); err != nil || got["a\u202e"] != "\u009b\U000e0041" {
		t.Errorf("%v, %v", got, err)
	}
	var b bytes.Buffer
	if w := exactWriter(terminalWriter{&b}); w != &b {
		t.Errorf("exactWriter returns %T of a file", w)
	}
}
