package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestD4JournalOffOverHTTP: with journal: off a list and a search are 404 with a name of their own, and an id that has
// no row is the 404 of every other. Nothing of a journal is written (J2).
func TestD4JournalOffOverHTTP(t *testing.T) {
	t.Parallel()
	const key = "5a5a5a5a-0000-4000-8000-000000000001"
	for name, journal := range map[string]string{"off": "journal: off\n", "on": ""} {
		file, text := writeConfig(t)
		write(t, file, []byte(strings.Replace(text, `{url: "https://results`, `{listen: "127.0.0.1:0", url: "https://results`, 1)+
			"api: {listen: \"127.0.0.1:0\"}\nconsole: {listen: \"127.0.0.1:0\"}\n"+journal))
		ctx, stop := context.WithCancel(t.Context())
		started, ended := make(chan *Config, 1), make(chan error, 1)
		go func() {
			ended <- Serve(ctx, Options{File: file, Log: &waittest.Log{}, Change: func(c *Config) { started <- c }})
		}()
		cfg := awaitStart(t, started, ended)
		base := "http://" + cfg.API.Addr().String()
		waittest.Until(t, "the API", func() bool { return getStatus(t, base+"/", "") != 0 })
		db, err := OpenStore(t.Context(), cfg.StoreURL)
		must(t, err)
		must(t, errors.Join(db.PutKey(t.Context(), account.NewRow(cfg.Ring, key, "Shop", false, account.Terms{})), db.Close()))
		for _, tt := range []struct{ method, path, body, off, on string }{
			{"GET", "/authentications", "", "journal-off", ""},
			{"GET", "/authentications?last4=0103&cursor=AAAA", "", "journal-off", "invalid"},
			{"POST", "/authentications/search", `{"acctNumber":"4000000000000103"}`, "journal-off", ""},
			{"GET", "/authentications?last4=103", "", "invalid", "invalid"},
			{"GET", "/authentications/09a1f8d5-5e3a-42c1-bfc5-319feffbd553", "", "not-found", "not-found"},
		} {
			problem := tt.on
			if name == "off" {
				problem = tt.off
			}
			want := map[string]string{
				"": "200 application/json; charset=utf-8", "invalid": "400 application/problem+json",
				"journal-off": "404 application/problem+json", "not-found": "404 application/problem+json",
			}[problem]
			got, body := request(t, tt.method, base+tt.path, key, tt.body)
			if got != want || problem != "" && !strings.Contains(body, `"urn:threeds:problem:`+problem+`"`) {
				t.Errorf("journal %s: %s %s: %s %s, want %s %s", name, tt.method, tt.path, got, body, want, problem)
			}
		}
		request(t, "POST", base+"/preauth", key, "{}")
		stop()
		must(t, <-ended)
		files, err := filepath.Glob(filepath.Join(filepath.Dir(file), "data", "journal-*.db"))
		if must(t, err); (len(files) > 0) != (name == "on") {
			t.Errorf("journal %s: after a refused /preauth its files are %v", name, files)
		}
	}
}

// request makes a request of the API, and returns status and type of the answer, and its body.
func request(t *testing.T, method, url, key, body string) (head, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	r.Header.Set("APIKey", key)
	res, err := http.DefaultClient.Do(r)
	must(t, err)
	text, err := io.ReadAll(res.Body)
	must(t, errors.Join(err, res.Body.Close()))
	return fmt.Sprintf("%d %s", res.StatusCode, res.Header.Get("Content-Type")), string(text)
}

// TestD125CatchUpLeavesToTheWriterWhatHasJustHappened: the row has a part of the AReq alone, and the first entry of a
// step stays. What happened before the server began has no writer any more.
func TestD125CatchUpLeavesToTheWriterWhatHasJustHappened(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_000)
	for _, tt := range []struct {
		what       string
		began, old time.Duration // how long ago the server began, and the last step was made
		want       bool
	}{
		{"just now", time.Minute, 0, true},
		{"9 s ago", time.Minute, 9 * time.Second, true},
		{"10 s ago", time.Minute, 10 * time.Second, false},
		{"in the moment in which the server began", time.Second, time.Second, true},
		{"before the server began", time.Second, 2 * time.Second, false},
	} {
		entries := []journal.Entry{
			{Steps: []journal.Step{{At: now.Add(-time.Hour)}}},
			{Steps: []journal.Step{{At: now.Add(-time.Hour)}, {At: now.Add(-tt.old)}}},
		}
		if got := isLeftToWriter(entries, now.Add(-tt.began), now.Add(-10*time.Second)); got != tt.want {
			t.Errorf("%s: left to the writer: %t, want %t", tt.what, got, tt.want)
		}
	}
	if isLeftToWriter(nil, now.Add(-time.Hour), now.Add(-10*time.Second)) {
		t.Error("nothing is left to the writer")
	}
}
