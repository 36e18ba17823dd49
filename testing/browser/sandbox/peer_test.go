package sandbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/sandbox"
)

// members is a message that is being made.
type members map[string]any

func (m members) json(t testing.TB) []byte {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// with returns a copy with some members changed; nil takes one out.
func (m members) with(changes members) members {
	out := maps.Clone(m)
	for name, value := range changes {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = value
		}
	}
	return out
}

func read(t testing.TB, body []byte) members {
	t.Helper()
	var m members
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("reading %q: %v", body, err)
	}
	return m
}

var counter atomic.Uint64

func newID() string { return fmt.Sprintf("11111111-2222-4333-8444-%012x", counter.Add(1)) }

// start runs a sandbox with short delays. It is closed with the test.
func start(t testing.TB, set func(*sandbox.Sandbox)) *sandbox.Sandbox {
	t.Helper()
	box := &sandbox.Sandbox{
		DecoupledDelay: 2 * time.Millisecond,
		AppDelay:       2 * time.Millisecond,
		Log:            slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if set != nil {
		set(box)
	}
	if err := box.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return box
}

// A server is the 3-D Secure server's side: it asks the directory servers and
// takes their results.
type server struct {
	t       testing.TB
	box     *sandbox.Sandbox
	url     string
	got     chan result
	answer  func(rreq members) (status int, body []byte)
	clients sync.Map // by scheme
}

// A result is an RReq or Erro that came in.
type result struct {
	message members
	raw     []byte
	client  string // the DNS name in the client certificate
}

func newServer(t testing.TB, box *sandbox.Sandbox) *server {
	t.Helper()
	s := &server{t: t, box: box, got: make(chan result, 16)}
	s.answer = func(rreq members) (int, []byte) { return http.StatusOK, rres(rreq).json(t) }
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(box.Directories()[0].ClientCAPEM)
	web := &http.Server{Handler: http.HandlerFunc(s.receive), ErrorLog: slog.NewLogLogger(box.Log.Handler(), slog.LevelDebug)}
	go web.Serve(tls.NewListener(ln, &tls.Config{
		Certificates: []tls.Certificate{box.ResultsCert()},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    trusted,
	}))
	t.Cleanup(func() { web.Close() })
	s.url = "https://" + ln.Addr().String() + "/results"
	return s
}

func rres(rreq members) members {
	m := members{"messageType": "RRes", "resultsStatus": "01"}
	for _, name := range []string{"messageVersion", "threeDSServerTransID", "acsTransID", "dsTransID", "sdkTransID"} {
		if v, ok := rreq[name]; ok {
			m[name] = v
		}
	}
	return m
}

func (s *server) receive(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	m := read(s.t, raw)
	select {
	case s.got <- result{message: m, raw: raw, client: r.TLS.PeerCertificates[0].DNSNames[0]}:
	case <-r.Context().Done(): // the test is over, and has not waited for so many
		return
	}
	status, body := s.answer(m)
	w.WriteHeader(status)
	w.Write(body)
}

func (s *server) directory(scheme string) sandbox.Directory {
	for _, d := range s.box.Directories() {
		if d.Scheme == scheme {
			return d
		}
	}
	s.t.Fatalf("no directory server %q", scheme)
	return sandbox.Directory{}
}

func (s *server) client(scheme string) *http.Client {
	if c, ok := s.clients.Load(scheme); ok {
		return c.(*http.Client)
	}
	d := s.directory(scheme)
	c := clientWith(d.ServerCA, d.ClientCert)
	s.t.Cleanup(c.CloseIdleConnections)
	s.clients.Store(scheme, c)
	return c
}

func clientWith(ca *x509.CertPool, certs ...tls.Certificate) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca, Certificates: certs}}}
}

// post sends raw bytes to a directory server and returns what came back.
func (s *server) post(ctx context.Context, scheme string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.directory(scheme).URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.client(scheme).Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", answer.Status)
	}
	return io.ReadAll(answer.Body)
}

// ask sends an AReq to the directory server of its card.
func (s *server) ask(areq members) members {
	s.t.Helper()
	card, ok := s.box.Card(areq["acctNumber"].(string))
	if !ok {
		card.Scheme = "standin"
	}
	body, err := s.post(s.t.Context(), card.Scheme, areq.json(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	return read(s.t, body)
}

// areq is a good AReq.
func (s *server) areq(version, channel, pan string) members {
	m := members{
		"messageType": "AReq", "messageVersion": version, "messageCategory": "01", "deviceChannel": channel,
		"threeDSServerTransID": newID(), "threeDSServerRefNumber": "3DS_LOA_SER_TEST_020200_00001",
		"threeDSServerOperatorID": "10000001", "threeDSServerURL": s.url,
		"threeDSRequestorID": "requestor-1", "threeDSRequestorName": "Requestor", "threeDSRequestorURL": "https://shop.example",
		"acctNumber": pan, "cardExpiryDate": "3012", "acquirerBIN": "423456", "acquirerMerchantID": "merchant-1",
		"mcc": "5411", "merchantCountryCode": "208", "merchantName": "Bicycles & Sons",
		"purchaseAmount": "123450", "purchaseCurrency": "978", "purchaseExponent": "2", "purchaseDate": "20261120120000",
	}
	decoupled := members{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00060"}
	if version != "2.1.0" {
		maps.Copy(m, decoupled)
	}
	if version == "2.3.1" {
		maps.Copy(m, members{"acquirerCountryCode": "208", "acquirerCountryCodeSource": "01"})
	}
	switch channel {
	case "01":
		maps.Copy(m, appMembers(version))
	case "02":
		maps.Copy(m, browserMembers(version))
	case "03":
		m["threeRIInd"] = "05"
	}
	return m
}

func appMembers(version string) members {
	m := members{
		"threeDSRequestorAuthenticationInd": "01",
		"sdkTransID":                        newID(), "sdkAppID": newID(), "sdkReferenceNumber": "3DS_LOA_SDK_TEST_020200_00001",
		"sdkMaxTimeout": "05", "sdkEncData": "eyJhbGciOiJFQ0RILUVTIn0..aXY.ZGF0YQ.dGFn",
		"sdkEphemPubKey": members{
			"kty": "EC", "crv": "P-256",
			"x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
		},
		"deviceRenderOptions": members{"sdkInterface": "03", "sdkUiType": []string{"01", "02", "03", "04", "05"}},
	}
	if version == "2.3.1" {
		m["sdkType"], m["defaultSdkType"] = "01", members{"sdkVariant": "01"}
	}
	return m
}

func browserMembers(version string) members {
	m := members{
		"threeDSRequestorAuthenticationInd": "01", "threeDSCompInd": "U", "notificationURL": "http://localhost:1234/back",
		"browserAcceptHeader": "text/html", "browserUserAgent": "Test/1.0", "browserIP": "192.0.2.1", "browserLanguage": "en-GB",
		"browserColorDepth": "24", "browserScreenHeight": "1080", "browserScreenWidth": "1920", "browserTZ": "-60", "browserJavaEnabled": false,
	}
	if version != "2.1.0" {
		m["browserJavascriptEnabled"] = true
	}
	if version == "2.3.1" {
		m["acceptLanguage"] = []string{"en-GB", "en"}
	}
	return m
}

// A page is what a browser got.
type page struct {
	t      testing.TB
	status int
	header http.Header
	url    *url.URL
	text   string
}

// send posts a form, as a browser does, and follows to where it is sent.
func send(t testing.TB, to string, fields url.Values) page {
	t.Helper()
	answer, err := http.PostForm(to, fields)
	if err != nil {
		t.Fatal(err)
	}
	return load(t, answer)
}

func load(t testing.TB, answer *http.Response) page {
	t.Helper()
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return page{t, answer.StatusCode, answer.Header, answer.Request.URL, string(text)}
}

// part is the first group of a pattern in the page.
func (p page) part(pattern string) string {
	found := regexp.MustCompile(pattern).FindStringSubmatch(p.text)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

func (p page) action() string { return p.part(`<form method="post" action="([^"]*)"`) }

func (p page) field(name string) string {
	return p.part(`name="` + name + `" value="([^"]*)"`)
}

// press fills in the page's form and presses one of its buttons.
func (p page) press(button, code string) page {
	p.t.Helper()
	to, err := p.url.Parse(p.action())
	if err != nil {
		p.t.Fatal(err)
	}
	return send(p.t, to.String(), url.Values{"action": {button}, "code": {code}})
}

// unpad reads base64url as a lenient shop does.
func unpad(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return raw
}

func creq(ares members) members {
	return members{
		"messageType": "CReq", "messageVersion": ares["messageVersion"], "challengeWindowSize": "02",
		"threeDSServerTransID": ares["threeDSServerTransID"], "acsTransID": ares["acsTransID"],
	}
}

func (s *server) form(m members, session string) url.Values {
	f := url.Values{"creq": {base64.RawURLEncoding.EncodeToString(m.json(s.t))}}
	if session != "" {
		f.Set("threeDSSessionData", session)
	}
	return f
}

// challenged is an ARes with a challenge.
func (s *server) challenged(version, pan string) (areq, ares members) {
	s.t.Helper()
	areq = s.areq(version, "02", pan)
	ares = s.ask(areq)
	if ares["acsURL"] != s.box.ACSURL()+"/challenge" {
		s.t.Fatalf("no challenge: %v", ares)
	}
	return areq, ares
}
