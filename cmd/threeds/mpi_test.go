package main

import (
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/server"
	"github.com/openthreeds/threeds/internal/v1/v1test"
)

// Cards of the two schemes that have a directory server of 3-D Secure 1.0.2 in
// these tests, and one of a scheme that has none.
const (
	v1Visa   = "4111111111111111"
	v1Master = "5555555555554444"
	v1Amex   = "340000000000009"
)

// v1Issuers are made once: their keys take time.
var v1Issuers = sync.OnceValue(func() map[string]*v1test.Issuer {
	t := new(testing.T)
	return map[string]*v1test.Issuer{"visa": v1test.NewIssuer(t, v1test.Options{}), "mastercard": v1test.NewIssuer(t, v1test.Options{SHA1: true})}
})

// A v1DS is a directory server of 3-D Secure 1.0.2 that a test holds in its
// hands.
type v1DS struct {
	t      *testing.T
	server *httptest.Server

	mu     sync.Mutex
	got    []string // messages, as they came
	answer func(w http.ResponseWriter, r *http.Request, id string)
}

func newV1DS(t *testing.T, ca *authority) *v1DS {
	t.Helper()
	d := &v1DS{t: t}
	d.server = httptest.NewUnstartedServer(d)
	d.server.TLS = &tls.Config{
		Certificates: []tls.Certificate{ca.issue("v1.ds.example")},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.pool(),
	}
	d.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	d.server.StartTLS()
	t.Cleanup(d.server.Close)
	return d
}

func (d *v1DS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var m struct {
		Message struct {
			ID string `xml:"id,attr"`
		}
	}
	if err := xml.Unmarshal(body, &m); err != nil || r.Header.Get("Content-Type") != "application/xml; charset=utf-8" {
		d.t.Errorf("a message that is none: %v %v", err, r.Header)
	}
	d.mu.Lock()
	d.got = append(d.got, string(body))
	answer := d.answer
	d.mu.Unlock()
	w.Header().Set("Content-Type", `application/xml; charset="utf-8"`)
	if answer == nil {
		answer = v1Says("Y")
	}
	answer(w, r, m.Message.ID)
}

func (d *v1DS) play(f func(w http.ResponseWriter, r *http.Request, id string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer, d.got = f, nil
}

// came returns the messages that came since the last play.
func (d *v1DS) came() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.got
}

// v1Body answers with the body of a message.
func v1Body(body string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, id string) {
		fmt.Fprintf(w, `<ThreeDSecure><Message id="%s">%s</Message></ThreeDSecure>`, html.EscapeString(id), body)
	}
}

// v1Says answers with a good VERes.
func v1Says(enrolled string) func(http.ResponseWriter, *http.Request, string) {
	rest := "</CH>"
	if enrolled == "Y" {
		rest = "<acctID>acct-1</acctID></CH><url>https://acs.example/pa?a=1&amp;b=2</url><protocol>ThreeDSecure</protocol>"
	}
	return v1Body("<VERes><version>1.0.2</version><CH><enrolled>" + enrolled + "</enrolled>" + rest + "</VERes>")
}

// A legacySite is a site with the MPI configured for visa and mastercard.
type legacySite struct {
	*site
	v1 *v1DS
}

// startLegacy serves until the test ends.
func startLegacy(t *testing.T, plans ...plan) *legacySite {
	t.Helper()
	ca := newAuthority(t)
	s := &legacySite{v1: newV1DS(t, ca)}
	var p plan
	if len(plans) > 0 {
		p = plans[0]
	}
	p.sections += "\n" + v1Section(t, ca, s.v1.server.URL)
	s.site = startSite(t, ca, newWire(t, ca), p)
	return s
}

// v1Section is the section v1 of a configuration.
func v1Section(t *testing.T, ca *authority, url string) string {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write(t, file("ca.pem"), ca.pem())
	ca.write(dir, ca.issue("mpi.example"), "client")
	section := "v1:\n"
	more := map[string]string{"mastercard": ", allow_sha1: true"}
	for _, scheme := range []string{"visa", "mastercard"} { // in this order, for metrics name a directory by its place
		write(t, file(scheme+".pem"), v1Issuers()[scheme].RootPEM())
		section += fmt.Sprintf("  - {scheme: %s, directory_url: %s/v1, client_cert: {cert: %s, key: %s}, server_ca: %s, pares_roots: %s%s}\n",
			scheme, url, file("client.pem"), file("client-key.pem"), file("ca.pem"), file(scheme+".pem"), more[scheme])
	}
	return section
}

// in is the site for a subtest.
func (s *legacySite) in(t *testing.T) *legacySite { return &legacySite{s.site.in(t), s.v1} }

// purchase is a good request of /enrolled, as a form.
func purchase(pan string) url.Values {
	return url.Values{
		"amount": {"21601"}, "currency": {"DKK"}, "order_id": {"1234567890"}, "cardholder_ip": {"192.0.2.17"},
		"card[number]": {pan}, "card[expire_month]": {"07"}, "card[expire_year]": {"2031"},
		"merchant[id]": {"M-1001"}, "merchant[name]": {"Corner Shop"}, "merchant[acquirer_bin]": {"400551"},
		"merchant[country]": {"DK"}, "merchant[url]": {"https://shop.example/?a&b"},
	}
}

// but returns a form with one parameter changed, or taken out when there is no
// value.
func but(form url.Values, name string, values ...string) url.Values {
	form = maps.Clone(form)
	form[name] = values
	if len(values) == 0 {
		delete(form, name)
	}
	return form
}

// form posts one of the MPI's operations as the seed's clients do.
func (s *legacySite) form(path string, form url.Values) (int, object) {
	s.t.Helper()
	return s.send(path, s.APIKey, "application/x-www-form-urlencoded", form.Encode())
}

func (s *legacySite) send(path, key, kind, body string) (int, object) {
	s.t.Helper()
	res, data := s.basic(http.MethodPost, path, key, kind, body)
	if got := res.Header.Get("Content-Type"); got != "application/json; charset=utf-8" {
		s.t.Errorf("%s: content type %q", path, got)
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		s.t.Fatalf("%s: answer is not JSON: %v: %.200q", path, err, data)
	}
	return res.StatusCode, o
}

// basic calls with a key in the way of HTTP Basic.
func (s *legacySite) basic(method, path, key, kind, body string) (*http.Response, []byte) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.API+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		req.SetBasicAuth(key, "")
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
	return res, data
}

// faulty expects an answer of 400, or of another status, in the MPI's shape.
func (s *legacySite) faulty(path string, form url.Values, param, kind string) {
	s.t.Helper()
	code, got := s.form(path, form)
	isFault(s.t, code, got, 400, param, kind)
}

func isFault(t *testing.T, code int, got object, status int, param, kind string) {
	t.Helper()
	e, _ := got["error"].(map[string]any)
	members(t, "answer", got, []string{"error"}, nil)
	members(t, "error", e, []string{"param", "type", "message"}, nil)
	var wantParam any
	if param != "" {
		wantParam = param
	}
	if code != status || e["param"] != wantParam || e["type"] != kind || (param != "") != (e["message"] == nil) {
		t.Errorf("%d %v, want %d %s of %q", code, got, status, kind, param)
	}
}

// enroll runs an /enrolled that must give a PAReq.
func (s *legacySite) enroll(form url.Values) v1test.PAReq {
	s.t.Helper()
	code, got := s.form("/enrolled", form)
	if code != 200 || got.text("enrolled") != "Y" {
		s.t.Fatalf("/enrolled: %d %v", code, got)
	}
	req, _ := v1test.Decode(s.t, got.text("pareq"))
	return req
}

// check sends a PARes, signed by the issuers of a scheme.
func (s *legacySite) check(scheme string, p v1test.PARes) (int, object) {
	s.t.Helper()
	return s.form("/check", url.Values{"pares": {v1Issuers()[scheme].Sign(p)}})
}

// quickly makes the MPI's patience short.
func quickly(cfg *server.Config) {
	for i := range cfg.V1Peers {
		cfg.V1Peers[i].Timeout = 3 * time.Second
	}
}
