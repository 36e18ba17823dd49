package server

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/journal/journaltest"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// BenchmarkPagesOfSize fetches each page of the console that reads the journal from a server on PostgreSQL, with as
// many records as [journaltest.Open] says. Of each page it reports the 95th percentile of the time on the server, of
// all until the page has come, and the greatest number of bytes. Pages are sent as they are: to compress them would let
// others guess the csrf of a session by the length of an answer.
func BenchmarkPagesOfSize(b *testing.B) {
	j := journaltest.Open(b)
	s := startSiteOfSize(b, j)
	size, span := j.Generation.Authentications, time.Duration(j.Generation.Days)*24*time.Hour
	shop := func(n int) string { return fmt.Sprintf("Shop %d", n%j.Generation.Merchants) }
	day := func(at time.Time) string { return url.QueryEscape(at.Format("2006-01-02T15:04:05")) }
	one := func(n int, values ...string) string { return values[n%len(values)] }
	search := func(query string) string { return "/authentications?time=all&" + query }
	pages := []struct {
		name string
		at   func(n int) string
	}{
		{"overview", func(int) string { return "/" }},
		{"overview of all", func(int) string { return "/?time=all" }},
		{"newest", func(int) string { return "/authentications" }},
		{"newest of all", func(int) string { return "/authentications?time=all" }},
		{"by id", func(n int) string { return search("q=" + j.Generation.ID(n, j.Now)) }},
		{"by id of the directory server", func(n int) string { return search("q=" + j.Generation.DSTransID(n)) }},
		{"by reference", func(n int) string { return search("q=order-" + strconv.Itoa(n)) }},
		{"by last4", func(n int) string { return search("q=" + j.Generation.Card(n)[12:]) }},
		{"by merchant", func(n int) string { return search("merchant=" + url.QueryEscape(shop(n))) }},
		{"by scheme", func(n int) string { return search("scheme=" + one(n, "visa", "jcb", "amex")) }},
		{"by acs", func(n int) string { return search(fmt.Sprintf("acs=ACS-%03d", n%200)) }},
		{"by status", func(n int) string { return search("status=" + one(n, "completed", "failed", "expired")) }},
		{"by result", func(n int) string { return search("result=" + one(n, "authenticated", "rejected")) }},
		{"by reason", func(n int) string { return search("reason=" + one(n, "01", "12", "11", "99")) }},
		{"by time", func(n int) string {
			at := j.Now.Add(-span * time.Duration(n) / time.Duration(size))
			return "/authentications?from=" + day(at.Add(-time.Hour)) + "&to=" + day(at)
		}},
		{"by merchant, result and time", func(n int) string {
			at := j.Generation.At(n, j.Now)
			return fmt.Sprintf("/authentications?merchant=%s&result=rejected&from=%s&to=%s", url.QueryEscape(shop(n)), day(at.Add(-24*time.Hour)), day(at))
		}},
		{"record", func(n int) string { return "/authentications/" + j.Generation.ID(n, j.Now) }},
		{"record, messages beside", func(n int) string {
			return "/authentications/" + j.Generation.ID(n, j.Now) + "?step=ares&beside=areq"
		}},
		{"report of a day", func(int) string { return "/reports" }},
		{"audit", func(int) string { return "/audit" }},
		{"audit by action", func(int) string { return "/audit?action=record.view" }},
		{"merchants", func(int) string { return "/merchants" }},
		{"directories", func(int) string { return "/directories" }},
	}
	for _, by := range []string{"scheme", "merchant", "issuer", "acs", "version", "reason", "day"} {
		pages = append(pages, struct {
			name string
			at   func(n int) string
		}{"report of all by " + by, func(int) string { return "/reports?time=all&by=" + by }})
	}
	for _, page := range pages {
		b.Run(page.name, func(b *testing.B) {
			m := &measuredPages{consoleSite: s}
			for i := range b.N {
				m.get(b, page.at(i*7919%size))
			}
			m.report(b)
		})
	}
	b.Run("by card", func(b *testing.B) {
		m := &measuredPages{consoleSite: s}
		for i := range b.N {
			form := url.Values{"csrf": {s.csrf()}, "card": {j.Generation.Card(i * 7919 % size)}}
			m.fetch(b, "POST", "/authentications/search", form.Encode())
		}
		m.report(b)
	})
}

// startSiteOfSize starts a server that reads a journal, with the merchants of its generation and an audit trail.
func startSiteOfSize(b *testing.B, j *journaltest.Journal) *consoleSite {
	b.Helper()
	file, text := writeConfig(b)
	keys := filepath.Join(filepath.Dir(file), "keys.json")
	_, err := keyring.LoadOrCreate(keys)
	must(b, err)
	at := pgtest.Get(b).Schema(b)
	text = strings.Replace(text, "file:data", at, 1)
	text = strings.Replace(text, "log: {level: debug}", "log: {level: warn}\nkeys: "+keys, 1)
	text = strings.Replace(text, `{url: "https://results`, `{listen: "127.0.0.1:0", url: "https://results`, 1)
	text += fmt.Sprintf(`journal: {url: %q, keys: %q}
api: {listen: "127.0.0.1:0"}
console: {listen: "127.0.0.1:0", url: "http://localhost:9090"}
merchants:
`, j.URL, j.KeyFile)
	for n := range j.Generation.Merchants {
		text += fmt.Sprintf("  - {name: Shop %d}\n", n)
	}
	write(b, file, []byte(text))
	db, err := OpenStore(b.Context(), config.StoreURL{Postgres: at})
	must(b, err)
	s := serveConsole(b, file, db)
	operators := &operator.Service{Store: db, Now: time.Now}
	for n := range journaltest.Number("AUDIT_ENTRIES", 1000) {
		must(b, operators.Record(b.Context(), operator.Entry{
			Who: "passkey:somebody", Role: operator.Viewer, From: "192.0.2.1", Action: "record.view", Object: j.Generation.ID(n, j.Now),
		}))
	}
	return s
}

// measuredPages are answers of one kind.
type measuredPages struct {
	*consoleSite
	server, whole []time.Duration
	bytes         int
}

var totalTime = regexp.MustCompile(`^total;dur=([0-9.]+)`)

func (m *measuredPages) get(b *testing.B, path string) { b.Helper(); m.fetch(b, "GET", path, "") }

// fetch fetches a page, which has to be one.
func (m *measuredPages) fetch(b *testing.B, method, path, form string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, m.console+path, strings.NewReader(form))
	must(b, err)
	r.AddCookie(&http.Cookie{Name: "threeds", Value: m.session})
	r.Header.Set("Origin", "http://localhost:9090")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept-Encoding", "gzip, br") // as browsers send it; the client here leaves what comes as it is
	begun := time.Now()
	res, err := http.DefaultClient.Do(r)
	must(b, err)
	text, err := io.ReadAll(res.Body)
	must(b, err)
	_ = res.Body.Close()
	whole := time.Since(begun)
	timing := totalTime.FindStringSubmatch(res.Header.Get("Server-Timing"))
	if res.StatusCode != http.StatusOK || timing == nil || res.Header.Get("Content-Encoding") != "" {
		b.Fatalf("%s: %s %v %.300s", path, res.Status, res.Header, text)
	}
	ms, err := strconv.ParseFloat(timing[1], 64)
	must(b, err)
	m.server, m.whole = append(m.server, time.Duration(ms*1e6)), append(m.whole, whole)
	m.bytes = max(m.bytes, len(text))
}

func (m *measuredPages) report(b *testing.B) {
	b.Helper()
	for unit, times := range map[string][]time.Duration{"p95-server-ms": m.server, "p95-whole-ms": m.whole} {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)*95/100])/1e6, unit)
	}
	b.ReportMetric(float64(m.bytes), "bytes")
	b.ReportMetric(0, "ns/op") // the figures above say it
}
