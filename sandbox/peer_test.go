package sandbox_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/message"
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
	greeted func(net.Conn) // may hold up the TLS handshake; may be nil
	clients sync.Map       // by scheme
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
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if s.greeted != nil {
				s.greeted(hello.Conn)
			}
			return nil, nil
		},
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

// result waits for the next message from a directory server.
func (s *server) result() result {
	s.t.Helper()
	return <-s.got
}

// none says that nothing has come.
func (s *server) none() {
	s.t.Helper()
	select {
	case r := <-s.got:
		s.t.Errorf("an unexpected message came: %s", r.raw)
	default:
	}
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

// valid holds a message of the sandbox's against the field tables.
func valid(t testing.TB, body []byte, c message.Context) {
	t.Helper()
	m, err := message.Parse(body, message.Limits{Members: -1})
	if err != nil {
		t.Errorf("%.2000s: %v", body, err)
		return
	}
	c.Loopback, c.Lab, c.Informational = true, true, true
	if p := m.Check(c); len(p) > 0 {
		t.Errorf("%v\nin %.2000s", p, body)
	}
}

func parse(t testing.TB, body []byte) *message.Message {
	t.Helper()
	m, err := message.Parse(body, message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
