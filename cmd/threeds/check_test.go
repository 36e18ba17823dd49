package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/verdict"
)

// TestCheckLongest: a file that is longer than check reads is not judged by its
// beginning.
func TestCheckLongest(t *testing.T) {
	const good = `{"messageType":"PReq","messageVersion":"2.2.0","threeDSServerRefNumber":"ref","threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e"}`
	blanks := bytes.NewReader(bytes.Repeat([]byte(" "), verdict.MaxText+1-len(good)))
	err := dispatch(t.Context(), []string{"check", "-"}, io.MultiReader(strings.NewReader(good), blanks), io.Discard, io.Discard)
	if want := "standard input: longer than 64 MiB, so it was not checked: no message is"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestCheckAll: what a listener would not take for its size is checked all the same, and
// a message that could not be shown was not checked.
func TestCheckAll(t *testing.T) {
	good := `{"messageType":"PReq","messageVersion":"2.2.0","threeDSServerRefNumber":"ref","threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e"` +
		`,"x":[` + strings.Repeat(`1,`, 1000) + `1]}`
	if err := dispatch(t.Context(), []string{"check", "-"}, strings.NewReader(good), io.Discard, io.Discard); err != nil {
		t.Errorf("of more than 1000 members: %v", err)
	}
	read, full := io.Pipe()
	must(t, read.Close())
	if err := dispatch(t.Context(), []string{"check", "-"}, strings.NewReader(good), full, io.Discard); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("nobody could read it: %v", err)
	}
}
