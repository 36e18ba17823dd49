package terminal

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// hostileText has what a terminal obeys, what turns the direction of text, ends of lines that are none of ASCII, and a
// tag.
const hostileText = "a\x1b[2Jb\u202ec\u2028d\u009be\u200ff\x7fg\U000e0041h"

// TestNothingThatATerminalObeysReachesIt: it is escaped, of JSON the meaning stays, and files get each byte.
func TestNothingThatATerminalObeysReachesIt(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "plain\tand\nlines": "plain\tand\nlines", "Zoë · 山田": "Zoë · 山田", "a\u00a0b": "a\u00a0b",
		hostileText: `a\u001b[2Jb\u202ec\u2028d\u009be\u200ff\u007fg\udb40\udc41h`, "raw \x9b": `raw \ufffd`, "\r": `\u000d`,
	} {
		if got := string(escapeControls([]byte(in))); got != want {
			t.Errorf("escapeControls(%q) = %q, want %q", in, got, want)
		}
	}
	// Of JSON the meaning stays.
	var got map[string]any
	if err := json.Unmarshal(escapeControls([]byte("{\"a\u202e\": \"\u009b\U000e0041\"}")), &got); err != nil || got["a\u202e"] != "\u009b\U000e0041" {
		t.Errorf("%v, %v", got, err)
	}
	var b bytes.Buffer
	if w := Exact(Writer{&b}); w != &b {
		t.Errorf("Exact returns %T of a file", w)
	}
}

func TestProgress(t *testing.T) {
	var b strings.Builder
	p := &Progress{w: &b, name: "f", size: 1000, start: time.Now()}
	for range 1000 {
		_, _ = p.Write([]byte("x"))
	}
	p.Reset() // the file is read once more
	_, _ = p.Write(make([]byte, 1000))
	p.End()
	if n := strings.Count(b.String(), "\n"); n != 10 || !strings.HasPrefix(b.String(), "f: 10 %, ") || !strings.Contains(b.String(), "f: 100 %, ") {
		t.Errorf("%d lines:\n%s", n, b.String())
	}
	b.Reset()
	p = &Progress{w: &b, name: "f", size: 1000, start: time.Now(), isTerminal: true}
	_, _ = p.Write(make([]byte, 500))
	_, _ = p.Write(make([]byte, 500))
	p.End()
	if got := b.String(); !strings.HasPrefix(got, "\rf  [###############...............]  50 %") ||
		!strings.Contains(got, "["+strings.Repeat("#", 30)+"] 100 %") || !strings.HasSuffix(got, " MB/s \n") {
		t.Errorf("%q", got)
	}
}

// TestSpansAreInTwoUnitsAtMost: as people say them.
func TestSpansAreInTwoUnitsAtMost(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0s"}, {59 * time.Second, "59s"}, {time.Minute, "1m"}, {time.Hour, "1h00m"}, {6 * time.Hour, "6h00m"},
		{23*time.Hour + 59*time.Minute, "23h59m"}, {24 * time.Hour, "1d00h"}, {75 * time.Hour, "3d03h"},
	} {
		if got := Span(tt.d); got != tt.want {
			t.Errorf("Span(%v) = %q, want %q", tt.d, got, tt.want)
		}
	}
}
