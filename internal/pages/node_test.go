package pages_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"maps"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/admin"
	"github.com/openthreeds/threeds/internal/directory"
	"github.com/openthreeds/threeds/internal/journal"
)

// A node is the server that a site belongs to, as a test has it.
type node struct {
	directories []admin.Directory
	problems    map[string]string
	endings     map[string]time.Time
	disabled    []admin.DisabledEndpoint
}

// newRoot returns a CA certificate with its key.
func newRoot(t testing.TB, name string, end time.Time) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(17), Subject: pkix.Name{CommonName: name}, NotBefore: end.AddDate(-2, 0, 0), NotAfter: end,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return cert, key
}

// addNode gives the console a server of two directories, with which all is well.
func (s *site) addNode() *node {
	s.Helper()
	n := &node{problems: map[string]string{}, endings: map[string]time.Time{}}
	root, _ := newRoot(s.TB, "Scheme root", s.now.AddDate(4, 0, 0))
	for i, scheme := range []string{"visa", "mastercard"} {
		d := admin.Directory{
			Scheme: scheme, Key: "directories[" + string(rune('0'+i)) + "]", AReqURL: "https://ds." + scheme + ".example/areq", PReqURL: "https://ds." + scheme + ".example/preq",
			ResultsURL: "https://results.example/results", Versions: []string{"2.1.0", "2.2.0"}, ClientNames: []string{"ds." + scheme + ".example"},
			Breaker:     admin.Breaker{State: admin.BreakerClosed},
			Certificate: &admin.Certificate{Subject: "CN=3ds.example", Expires: s.now.AddDate(0, 4, 0)},
		}
		d.SetRoots([]*x509.Certificate{root}, []*x509.Certificate{root})
		d.SetRefresh(4*time.Hour, time.Hour)
		n.directories = append(n.directories, d)
		s.putStatus(scheme, directory.RefreshStatus{Generation: 3, Ranges: 1204, Loaded: s.now.Add(-12 * time.Minute), Serial: "s-3", Version: "2.2.0"})
	}
	s.admin.Node = &admin.Node{
		Directories:       func() []admin.Directory { return append([]admin.Directory{}, n.directories...) },
		Problems:          func() map[string]string { return maps.Clone(n.problems) },
		Endings:           func() map[string]time.Time { return n.endings },
		DisabledEndpoints: func(context.Context) ([]admin.DisabledEndpoint, error) { return n.disabled, nil },
		Keeper:            s.db,
	}
	return n
}

// putStatus stores how things stand with the card ranges of a scheme.
func (s *site) putStatus(scheme string, status directory.RefreshStatus) {
	s.Helper()
	lease, err := s.db.Acquire(s.Context(), "test", "test", time.Minute)
	must(s.TB, err)
	value, err := json.Marshal(status)
	must(s.TB, err)
	must(s.TB, s.db.PutState(s.Context(), "ranges/"+scheme, value, lease))
	must(s.TB, s.db.Release(s.Context(), lease))
}

// TestK3DirectoriesPage: what is configured, and how each directory is.
func TestK3DirectoriesPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(s.get("viewer", "/directories"), 404, "There are no directories here.")
	n := s.addNode()
	n.directories[1].Breaker = admin.Breaker{State: admin.BreakerOpen, Since: &s.now, Fault: "Connection refused", Refused: 1234}
	n.problems["directory mastercard"] = "directories[1].client_cert.cert: the certificate has expired"
	w := s.get("viewer", "/directories")
	s.want(w, 200, "https://ds.visa.example/areq", "https://ds.mastercard.example/preq", "https://results.example/results", "2.1.0, 2.2.0", "CN=3ds.example",
		"CN=Scheme root", "ds.visa.example", "1,204, confirmed", "3 requests, 100.0 % answered, median", "Lets through", "Holds back", "Connection refused",
		"1,234 requests were refused", "the certificate has expired", ">12 min<", "122 days", `class="spark"`)
	if strings.Count(w.Body.String(), "the certificate has expired") != 1 {
		t.Error("a problem of one directory is at another")
	}
	s.putStatus("visa", directory.RefreshStatus{Generation: 3, Ranges: 1204, Loaded: s.now.Add(-26 * time.Hour), Fault: "HTTP status 503", Held: 4, HeldRanges: 2})
	s.want(s.get("viewer", "/directories"), 200, ">26 h<", `<span class="tw b">old</span>`, "HTTP status 503", "2 are held back")
	s.admin.Journal = nil
	s.want(s.get("viewer", "/directories"), 200, "the journal is off")
}

// TestK3OverviewSaysWhatNeedsAttention: in words, the most urgent first, and to a merchant's own people what is theirs.
func TestK3OverviewSaysWhatNeedsAttention(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n := s.addNode()
	s.want(s.get("viewer", "/"), 200, "Nothing does.", "<h2 id=\"dt\">Directories</h2>")
	n.endings = map[string]time.Time{
		"directories[0].client_cert.cert": s.now.Add(13 * 24 * time.Hour), "directories[1].client_cert.cert": s.now.Add(-time.Hour),
		"api.tls.cert": s.now.Add(29 * 24 * time.Hour), "results.tls.cert": s.now.Add(31 * 24 * time.Hour),
	}
	n.problems = map[string]string{
		"journal":              "is not written: look for it in the log",
		"directory mastercard": "directories[1].client_cert.cert: the certificate has expired",
		"ranges of mastercard": "none: its cards count as not enrolled",
	}
	since := s.now.Add(-time.Hour)
	n.directories[0].Breaker = admin.Breaker{State: admin.BreakerOpen, Since: &since, Fault: "Connection refused", Refused: 7}
	s.putStatus("visa", directory.RefreshStatus{Generation: 3, Ranges: 1204, Loaded: s.now.Add(-9 * time.Hour), Fault: "HTTP status 503", Held: 4, HeldRanges: 2})
	n.disabled = []admin.DisabledEndpoint{{Merchant: shop, Failing: since}, {Merchant: otherShop}}
	w := s.get("viewer", "/")
	s.want(w, 200, "A certificate ends in 13 days: visa", "A certificate has expired: mastercard", "A certificate ends in 29 days: api.tls.cert",
		"The directory server of visa cannot be reached since 1 Mar 2027, 11:00 UTC", "The card ranges of visa are 9 h old", "HTTP status 503", "New card ranges of visa are held back",
		"mastercard has no card ranges", "Not all is well with journal", shop+" gets no webhooks", otherShop+" gets no webhooks")
	body := w.Body.String()
	if strings.Contains(body, "results.tls") || strings.Contains(body, "well with directory mastercard") || strings.Contains(body, "Nothing does.") {
		t.Error("something is said twice, or too early")
	}
	if strings.Index(body, "ends in 29 days") < strings.Index(body, "well with journal") {
		t.Error("what is less urgent stands first")
	}
	own := s.get("own-viewer", "/").Body.String()
	for _, text := range []string{"visa cannot", "certificate", otherShop, "held back", "journal"} {
		if strings.Contains(own, text) {
			t.Errorf("the shop's own people see %q", text)
		}
	}
	if !strings.Contains(own, shop+" gets no webhooks") {
		t.Error("the shop's own people do not see their endpoint")
	}
}

// TestK3ChartOfResults: each result has its part of the right bar, and the list beside it has the numbers.
func TestK3ChartOfResults(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.get("viewer", "/")
	s.want(w, 200, "<b>33.3 %</b>Authenticated after a challenge", "<b>33.3 %</b>Abandoned by the shopper", "<b>33.3 %</b>Not authenticated", "<b>0.0 %</b>Attempted",
		`<rect class="f2" x=`, `<rect fill="url(#h4)" x=`, `<rect class="f5" x=`, "<span>now</span>")
	if strings.Contains(w.Body.String(), `<rect class="f1" x=`) {
		t.Error("a result that nothing has is drawn")
	}
	var o admin.Overview
	for from, bars := range map[string]int{s.now.Add(-24 * time.Hour).Format(time.RFC3339): 24, s.now.AddDate(0, 0, -7).Format(time.RFC3339): 28, "1970-01-01T00:00:00Z": 1} {
		must(t, s.admin.Call(t.Context(), actor("own-viewer"), "GET", "overview", url.Values{"from": {from}}, nil, &o))
		last := o.Chart[len(o.Chart)-1]
		if len(o.Chart) != bars || last.Counts[1] != 1 || last.Counts[4] != 1 || last.Counts[3] != 0 || o.Directories != nil {
			t.Errorf("from %s: %d bars, want %d: %+v", from, len(o.Chart), bars, last)
		}
	}
	for i := range 400 { // over more than a year: a bar has several days
		if i%40 == 0 {
			r := recordOf("40000000-0000-4000-8000-0000000000" + string(rune('0'+i/40/10)) + string(rune('0'+i/40%10)))
			r.Created = s.now.AddDate(0, 0, -i-1)
			s.add(journal.Answered, r, stepOf("areq", r.Created))
		}
	}
	must(t, s.admin.Call(t.Context(), actor("viewer"), "GET", "overview", url.Values{"from": {"1970-01-01T00:00:00Z"}}, nil, &o))
	var counted int64
	for _, bar := range o.Chart {
		for _, n := range bar.Counts {
			counted += n
		}
	}
	if len(o.Chart) > 62 || counted != 13 {
		t.Errorf("%d bars count %d", len(o.Chart), counted)
	}
}
