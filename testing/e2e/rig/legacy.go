package rig

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

	"github.com/openthreeds/threeds/internal/protocol/v1/v1test"
)

// Cards of the two schemes that have a directory server of 3-D Secure 1.0.2 in
// these tests, and one of a scheme that has none.
const (
	V1Visa       = "4111111111111111"
	V1Mastercard = "5555555555554444"
	V1Amex       = "340000000000009"
)

// V1Issuers are made once: their keys take time.
var V1Issuers = sync.OnceValue(func() map[string]*v1test.Issuer {
	t := new(testing.T)
	return map[string]*v1test.Issuer{"visa": v1test.NewIssuer(t, v1test.Options{}), "mastercard": v1test.NewIssuer(t, v1test.Options{SHA1: true})}
})

// A V1Directory is a directory server of 3-D Secure 1.0.2 that a test holds in its
// hands.
type V1Directory struct {
	t      *testing.T
	Server *httptest.Server

	mu     sync.Mutex
	got    []string // messages, as they came
	answer func(w http.ResponseWriter, r *http.Request, id string)
}

func NewV1Directory(t *testing.T, ca *Authority) *V1Directory {
	t.Helper()
	d := &V1Directory{t: t}
	d.Server = httptest.NewUnstartedServer(d)
	d.Server.TLS = &tls.Config{
		Certificates: []tls.Certificate{ca.Issue("v1.ds.example")},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
	}
	d.Server.Config.ErrorLog = log.New(io.Discard, "", 0)
	d.Server.StartTLS()
	t.Cleanup(d.Server.Close)
	return d
}

func (d *V1Directory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		answer = V1Says("Y")
	}
	answer(w, r, m.Message.ID)
}

func (d *V1Directory) Play(f func(w http.ResponseWriter, r *http.Request, id string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer, d.got = f, nil
}

// Came returns the messages that came since the last play.
func (d *V1Directory) Came() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.got
}

// V1Body answers with the body of a message.
func V1Body(body string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, id string) {
		fmt.Fprintf(w, `<ThreeDSecure><Message id="%s">%s</Message></ThreeDSecure>`, html.EscapeString(id), body)
	}
}

// V1Says answers with a good VERes.
func V1Says(enrolled string) func(http.ResponseWriter, *http.Request, string) {
	rest := "</CH>"
	if enrolled == "Y" {
		rest = "<acctID>acct-1</acctID></CH><url>https://acs.example/pa?a=1&amp;b=2</url><protocol>ThreeDSecure</protocol>"
	}
	return V1Body("<VERes><version>1.0.2</version><CH><enrolled>" + enrolled + "</enrolled>" + rest + "</VERes>")
}

// A LegacySite is a site with the MPI configured for visa and mastercard.
type LegacySite struct {
	*Site
	V1 *V1Directory
}

// StartLegacy serves until the test ends.
func StartLegacy(t *testing.T, plans ...Plan) *LegacySite {
	t.Helper()
	ca := NewAuthority(t)
	s := &LegacySite{V1: NewV1Directory(t, ca)}
	var p Plan
	if len(plans) > 0 {
		p = plans[0]
	}
	p.Sections += "\n" + V1Section(t, ca, s.V1.Server.URL)
	s.Site = StartSite(t, ca, NewWire(t, ca), p)
	return s
}

// V1Section is the section v1 of a configuration.
func V1Section(t *testing.T, ca *Authority, url string) string {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	WriteFile(t, file("ca.pem"), ca.PEM())
	ca.Write(dir, ca.Issue("mpi.example"), "client")
	section := "v1:\n"
	more := map[string]string{"mastercard": ", allow_sha1: true"}
	for _, scheme := range []string{"visa", "mastercard"} { // in this order, for metrics name a directory by its place
		WriteFile(t, file(scheme+".pem"), V1Issuers()[scheme].RootPEM())
		section += fmt.Sprintf("  - {scheme: %s, directory_url: %s/v1, client_cert: {cert: %s, key: %s}, server_ca: %s, pares_roots: %s%s}\n",
			scheme, url, file("client.pem"), file("client-key.pem"), file("ca.pem"), file(scheme+".pem"), more[scheme])
	}
	return section
}

// In is the site for a subtest.
func (s *LegacySite) In(t *testing.T) *LegacySite { return &LegacySite{s.Site.In(t), s.V1} }

// Purchase is a good request of /enrolled, as a form.
func Purchase(pan string) url.Values {
	return url.Values{
		"amount": {"21601"}, "currency": {"DKK"}, "order_id": {"1234567890"}, "cardholder_ip": {"192.0.2.17"},
		"card[number]": {pan}, "card[expire_month]": {"07"}, "card[expire_year]": {"2031"},
		"merchant[id]": {"M-1001"}, "merchant[name]": {"Corner Shop"}, "merchant[acquirer_bin]": {"400551"},
		"merchant[country]": {"DK"}, "merchant[url]": {"https://shop.example/?a&b"},
	}
}

// With returns a form with one parameter changed, or taken out when there is no
// value.
func With(form url.Values, name string, values ...string) url.Values {
	form = maps.Clone(form)
	form[name] = values
	if len(values) == 0 {
		delete(form, name)
	}
	return form
}

// Form posts one of the MPI's operations as the seed's clients do.
func (s *LegacySite) Form(path string, form url.Values) (int, Object) {
	s.T.Helper()
	return s.Send(path, s.APIKey, "application/x-www-form-urlencoded", form.Encode())
}

func (s *LegacySite) Send(path, key, kind, body string) (int, Object) {
	s.T.Helper()
	res, data := s.Basic(http.MethodPost, path, key, kind, body)
	if got := res.Header.Get("Content-Type"); got != "application/json; charset=utf-8" {
		s.T.Errorf("%s: content type %q", path, got)
	}
	var o Object
	if err := json.Unmarshal(data, &o); err != nil {
		s.T.Fatalf("%s: answer is not JSON: %v: %.200q", path, err, data)
	}
	return res.StatusCode, o
}

// Basic calls with a key in the way of HTTP Basic.
func (s *LegacySite) Basic(method, path, key, kind, body string) (*http.Response, []byte) {
	s.T.Helper()
	req, err := http.NewRequestWithContext(s.T.Context(), method, s.API+path, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	if key != "" {
		req.SetBasicAuth(key, "")
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.T.Fatalf("%s: %v", path, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.T.Fatalf("%s: %v", path, err)
	}
	return res, data
}

// Faulty expects an answer of 400, or of another status, in the MPI's shape.
func (s *LegacySite) Faulty(path string, form url.Values, param, kind string) {
	s.T.Helper()
	code, got := s.Form(path, form)
	WantFault(s.T, code, got, 400, param, kind)
}

func WantFault(t *testing.T, code int, got Object, status int, param, kind string) {
	t.Helper()
	e, _ := got["error"].(map[string]any)
	CheckMembers(t, "answer", got, []string{"error"}, nil)
	CheckMembers(t, "error", e, []string{"param", "type", "message"}, nil)
	var wantParam any
	if param != "" {
		wantParam = param
	}
	if code != status || e["param"] != wantParam || e["type"] != kind || (param != "") != (e["message"] == nil) {
		t.Errorf("%d %v, want %d %s of %q", code, got, status, kind, param)
	}
}

// Enroll runs an /enrolled that must give a PAReq.
func (s *LegacySite) Enroll(form url.Values) v1test.PAReq {
	s.T.Helper()
	code, got := s.Form("/enrolled", form)
	if code != 200 || got.Text("enrolled") != "Y" {
		s.T.Fatalf("/enrolled: %d %v", code, got)
	}
	req, _ := v1test.Decode(s.T, got.Text("pareq"))
	return req
}

// Check sends a PARes, signed by the issuers of a scheme.
func (s *LegacySite) Check(scheme string, p v1test.PARes) (int, Object) {
	s.T.Helper()
	return s.Form("/check", url.Values{"pares": {V1Issuers()[scheme].Sign(p)}})
}

// WantTrouble expects the shape of an /enrolled that failed.
func WantTrouble(t *testing.T, code int, got Object, eci string) (message, detail string) {
	t.Helper()
	CheckMembers(t, "answer", got, []string{"acs_url", "pareq", "enrolled", "eci", "error"}, nil)
	e, _ := got["error"].(map[string]any)
	CheckMembers(t, "error", e, []string{"message", "detail"}, nil)
	message, detail = Object(e).Text("message"), Object(e).Text("detail")
	if code != 200 || got["enrolled"] != nil || got["acs_url"] != nil || got["pareq"] != nil || got["eci"] != eci || message == "" || detail == "" {
		t.Errorf("%d %v", code, got)
	}
	return message, detail
}
