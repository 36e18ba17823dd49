package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

func TestExitStatusOfACommandLine(t *testing.T) {
	for want, lines := range map[int][]string{
		0: {"--help", "-h"},
		2: {"now", "--row MC-01", "--rows (", "--rows ^XX", "--rows mc-01", "--rows", "--key x", "--card 4", "--api http://127.0.0.1:1",
			"--api http://127.0.0.1:1 --key x", "--api http://127.0.0.1:1 --key x --card 4 --server threeds"},
		1: {"--rows ^VG-01$ --server /absent", "--rows ^MX-07$ --api http://127.0.0.1:1 --key x --card 4000000000000002"},
	} {
		for _, line := range lines {
			var out, errs strings.Builder
			got := run(t.Context(), strings.Fields(line), strings.NewReader(""), &out, &errs)
			if got != want || (errs.Len() > 0) != (want != 0) || want == 2 && out.Len() > 0 {
				t.Errorf("threeds-conform %s: exit status %d, want %d\n%s%s", line, got, want, out.String(), errs.String())
			}
		}
	}
}

// TestBrokenServerIsReported: a program reads the rows that were asked for, with what is wrong. The key does not have
// to be on the command line, where other users of the machine see it. A report that cannot be written is a failure.
func TestBrokenServerIsReported(t *testing.T) {
	var keys sync.Map
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys.Store(r.Header.Get("APIKey"), true)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer broken.Close()
	args := []string{"--json", "--rows", "^MC-23$", "--api", broken.URL, "--key", "-", "--card", "4000001234567899"}
	var out, errs strings.Builder
	var report struct {
		Rows []struct {
			Row    string   `json:"row"`
			Faults []string `json:"faults"`
		} `json:"rows"`
	}
	code := run(t.Context(), args, strings.NewReader(" the-key \nand no more"), &out, &errs)
	if err := json.Unmarshal([]byte(out.String()), &report); err != nil || code != 1 ||
		len(report.Rows) != 1 || report.Rows[0].Row != "MC-23" || len(report.Rows[0].Faults) == 0 {
		t.Errorf("exit status %d, %v: %s", code, err, out.String())
	}
	if _, came := keys.Load("the-key"); !came {
		t.Error("the key of standard input was not used")
	}
	read, full := io.Pipe()
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	errs.Reset()
	if code := run(t.Context(), args, strings.NewReader("the-key"), full, &errs); code != 1 || !strings.Contains(errs.String(), "closed pipe") {
		t.Errorf("nobody could read it: exit status %d, %q", code, errs.String())
	}
}

func TestFailureIsExitStatus1(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer broken.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name, key, want string
		ctx             context.Context
	}{
		{"a server that fails", "key", "1 rows failing", t.Context()},
		{"interrupted", "key", "interrupted", ended},
		{"no key", "-", "no key on standard input\n", t.Context()},
	} {
		var out, errs strings.Builder
		args := []string{"--rows", "^MC-23$", "--api", broken.URL, "--key", tt.key, "--card", "4000001234567899"}
		code := run(tt.ctx, args, strings.NewReader("\n"), &out, &errs)
		if code != 1 || !strings.Contains(errs.String(), tt.want) {
			t.Errorf("%s: exit status %d, %q; want 1 and %q", tt.name, code, errs.String(), tt.want)
		}
	}
}
