package main

import (
	"io"
	"strings"
	"testing"
)

// blank is blanks without end.
type blank struct{}

func (blank) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestCheckLongest: a file that is longer than check reads is not judged by its
// beginning.
func TestCheckLongest(t *testing.T) {
	const good = `{"messageType":"PReq","messageVersion":"2.2.0","threeDSServerRefNumber":"ref","threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e"}`
	for _, size := range []int64{maxMessage - 1, maxMessage, maxMessage + 1} {
		in := io.MultiReader(strings.NewReader(good), io.LimitReader(blank{}, size-int64(len(good))))
		err := runCheck([]string{"-"}, in, io.Discard, io.Discard)
		want := ""
		if size > maxMessage {
			want = "standard input: longer than 64 MiB, so it was not checked: no message is"
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%d bytes: %q, want %q", size, got, want)
		}
	}
}
