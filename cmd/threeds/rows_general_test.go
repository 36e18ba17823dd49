package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/server"
	"github.com/openthreeds/threeds/internal/store"
)

// The tests of these files show the rows of docs/api.md, each by its id.

func TestG1HTTPVersionsAndPlainHTTP(t *testing.T) {
	ca := newAuthority(t)
	t.Run("TLS", func(t *testing.T) {
		s := startSite(t, ca, newWire(t, ca), plan{apiTLS: true})
		address := strings.TrimPrefix(s.API, "http://")
		for _, tt := range []struct {
			name   string
			h2     bool
			max    uint16
			proto  string
			refuse bool
		}{
			{"HTTP 2", true, 0, "HTTP/2.0", false},
			{"HTTP 1.1", false, 0, "HTTP/1.1", false},
			{"TLS 1.2", true, tls.VersionTLS12, "HTTP/2.0", false},
			{"TLS 1.1", false, tls.VersionTLS11, "", true},
		} {
			t.Run(tt.name, func(t *testing.T) {
				transport := &http.Transport{
					ForceAttemptHTTP2: tt.h2,
					TLSClientConfig:   &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS10, MaxVersion: tt.max},
				}
				defer transport.CloseIdleConnections()
				req, _ := http.NewRequest(http.MethodPost, "https://"+address+"/preauth", strings.NewReader(`{"acctNumber":"`+testPAN+`"}`))
				req.Header.Set("APIKey", s.APIKey)
				res, err := (&http.Client{Transport: transport}).Do(req)
				if tt.refuse {
					if err == nil {
						res.Body.Close()
						t.Error("a handshake with TLS 1.1 succeeded")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if res.Proto != tt.proto || res.StatusCode != 200 {
					t.Errorf("%s %d, want %s 200", res.Proto, res.StatusCode, tt.proto)
				}
			})
		}
		t.Run("HTTP 1.0", func(t *testing.T) { // curl names it when it is told to speak it
			c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: ca.pool(), ServerName: "api.example", NextProtos: []string{"http/1.0"}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			body := `{"acctNumber":"` + testPAN + `"}`
			_, err = fmt.Fprintf(c, "POST /preauth HTTP/1.0\r\nAPIKey: %s\r\nContent-Length: %d\r\n\r\n%s", s.APIKey, len(body), body)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || res.StatusCode != 200 {
				t.Errorf("%v, %v, want 200", res, err)
			}
		})
		t.Run("suites of TLS 1.2", func(t *testing.T) { // those with authenticated encryption, and no others
			for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
				if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
					continue
				}
				c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: ca.pool(), ServerName: "api.example", MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}})
				if err == nil {
					c.Close()
				}
				// The certificate is one of ECDSA.
				strong := strings.HasPrefix(suite.Name, "TLS_ECDHE_ECDSA_") && !strings.HasSuffix(suite.Name, "_SHA") && !strings.Contains(suite.Name, "_CBC_")
				if (err == nil) != strong {
					t.Errorf("%s: %v", suite.Name, err)
				}
			}
		})
		t.Run("plain is refused", func(t *testing.T) {
			res, body := s.in(t).call(http.MethodPost, "/preauth", s.APIKey, object{"acctNumber": testPAN})
			if res.StatusCode == 200 || strings.Contains(string(body), "CRD") {
				t.Errorf("plain HTTP on a TLS listener: %d %s", res.StatusCode, body)
			}
		})
	})
	t.Run("plain when configured", func(t *testing.T) {
		s := startSite(t, ca, newWire(t, ca))
		res, _ := s.call(http.MethodPost, "/preauth", s.APIKey, object{"acctNumber": testPAN})
		if res.Proto != "HTTP/1.1" || res.StatusCode != 200 {
			t.Errorf("%s %d, want HTTP/1.1 200", res.Proto, res.StatusCode)
		}
	})
}

func TestG2KeyIsCheckedFirst(t *testing.T) {
	t.Parallel()
	w := startSandbox(t)
	refused := func(t *testing.T, res *http.Response, body []byte) {
		t.Helper()
		if res.StatusCode != 401 || string(body) != "Invalid API Key" || res.ContentLength != 15 ||
			res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%d %q %q (%d bytes)", res.StatusCode, res.Header.Get("Content-Type"), body, res.ContentLength)
		}
	}
	keys := map[string]string{
		"none": "", "wrong": "5a5a5a5a-0000-4000-8000-000000000003", "garbage": "%00'\" or 1=1",
		"almost": w.APIKey[:35], "with more": w.APIKey + "0", "long": strings.Repeat("a", 8000),
	}
	for name, key := range keys {
		for _, method := range []string{"POST", "GET", "PUT", "DELETE", "OPTIONS", "PROPFIND"} {
			for _, path := range []string{"/preauth", "/auth", "/postauth", "/nowhere", "/preauth/"} {
				t.Run(name+" "+method+path, func(t *testing.T) {
					w := &world{w.ready, t}
					res, body := w.call(method, path, key, object{"acctNumber": "400000123456 0103"})
					refused(t, res, body)
				})
			}
		}
	}
	t.Run("before the body's size", func(t *testing.T) {
		res, body := (&world{w.ready, t}).call(http.MethodPost, "/preauth", "wrong", strings.Repeat(" ", 100<<10))
		refused(t, res, body)
	})
	t.Run("without the body", func(t *testing.T) { // which ends before it is there
		status, body := w.raw(t, "POST /auth HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nAPIKey: wrong\r\n\r\n", (*net.TCPConn).CloseWrite)
		if status != 401 || string(body) != "Invalid API Key" {
			t.Errorf("%d %q, want 401", status, body)
		}
	})
	body := `{"acctNumber":"4000001234560103"}`
	for _, name := range []string{"APIKey", "apikey", "APIKEY", "ApiKey", "aPIkEY"} {
		t.Run("header "+name, func(t *testing.T) {
			status, _ := w.raw(t, fmt.Sprintf("POST /preauth HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s: %s\r\n\r\n%s", len(body), name, w.APIKey, body))
			if status != 200 {
				t.Errorf("status %d, want 200", status)
			}
		})
	}
}

// raw sends what no client sends, does what then is to be done, and returns the
// answer.
func (w *world) raw(t *testing.T, request string, then ...func(*net.TCPConn) error) (int, []byte) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	for _, f := range then {
		if err := f(c.(*net.TCPConn)); err != nil {
			t.Fatal(err)
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, body
}

func TestG3KeysAreStoredAsHashes(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	keys := []string{s.APIKey, s.OtherAPIKey, s.key("Shop"), s.key("Shop", "--strict")}
	seen := make(map[string]bool)
	for _, key := range keys {
		if !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(key) || seen[key] {
			t.Errorf("a key that is no dashed hexadecimal, or comes twice: %q", key)
		}
		seen[key] = true
	}
	for _, file := range list(t, filepath.Dir(s.config)) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if in := scan(data, key); in != "" {
				t.Errorf("%s holds a key, %s", filepath.Base(file), in)
			}
		}
	}
}

func TestG4SuccessIs200WithJSON(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	areq, challenge := s.challenged("2.2.0")
	s.result(marshal(rreq(areq, challenge, "Y")))
	for path, body := range map[string]object{
		"/preauth": {"acctNumber": testPAN}, "/auth": s.request("2.2.0"),
		"/postauth": {"threeDSServerTransID": areq["threeDSServerTransID"]},
	} {
		res, answer := s.call(http.MethodPost, path, s.APIKey, body)
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s: %d %q %.200s", path, res.StatusCode, res.Header.Get("Content-Type"), answer)
		}
	}
}

// faulty is a store that fails when told.
type faulty struct {
	store.Store
	down, torn, panics *atomic.Bool // of transactions
	keys               *atomic.Bool // whether API keys cannot be looked up
}

var errDown = errors.New("the store is down")

func newFaulty() (faulty, plan) {
	f := faulty{down: new(atomic.Bool), torn: new(atomic.Bool), panics: new(atomic.Bool), keys: new(atomic.Bool)}
	return f, plan{change: func(cfg *server.Config) {
		cfg.Store = func(s store.Store) store.Store { f.Store = s; return f }
	}}
}

func (f faulty) Create(ctx context.Context, t store.Txn) error {
	if f.down.Load() {
		return errDown
	}
	return f.Store.Create(ctx, t)
}

func (f faulty) Get(ctx context.Context, id string) (store.Txn, error) {
	if f.panics.Load() {
		panic("the store has lost its mind over " + id)
	}
	if f.down.Load() {
		return store.Txn{}, errDown
	}
	t, err := f.Store.Get(ctx, id)
	if f.torn.Load() && len(t.Data) > 0 {
		t.Data = t.Data[:len(t.Data)/2]
	}
	return t, err
}

func (f faulty) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	if f.down.Load() {
		return errDown
	}
	return f.Store.Update(ctx, was, change)
}

func (f faulty) Key(ctx context.Context, hash []byte) (store.Key, error) {
	if f.keys.Load() {
		return store.Key{}, errDown
	}
	return f.Store.Key(ctx, hash)
}

func (f faulty) KeysUnless(ctx context.Context, mark string) ([]store.Key, string, error) {
	if f.keys.Load() {
		return nil, "", errDown
	}
	return f.Store.KeysUnless(ctx, mark)
}

// unread has no key be read any more and returns one made after that: the server
// looks for changed ones twice a second.
func (s *site) unread(f faulty) (key string) {
	s.t.Helper()
	f.keys.Store(true)
	waitFor(s.t, "a reading of the keys that fails", func() bool { return strings.Contains(s.log.String(), "API keys cannot be read") })
	return s.key("Shop")
}

func TestG5ErroIs400(t *testing.T) {
	ca := newAuthority(t)
	f, p := newFaulty()
	p.sections = "limits: {in_flight: 1}"
	s := startSite(t, ca, newWire(t, ca), p)
	id := s.through(s.request("2.2.0")).text("threeDSServerTransID")
	erro := func(t *testing.T, path, key string, body any, want expected) *http.Response {
		t.Helper()
		res, data := s.in(t).call(http.MethodPost, path, key, body)
		want.check(t, res.StatusCode, parseObject(t, data))
		if got := res.Header.Get("Content-Type"); got != "application/json; charset=utf-8" {
			t.Errorf("Content-Type %q", got)
		}
		return res
	}
	t.Run("an Erro is 400", func(t *testing.T) {
		erro(t, "/preauth", s.APIKey, "{", expected{code: "203"})
		erro(t, "/preauth", s.APIKey, object{"acctNumber": "5000001234567890"}, expected{code: "305"})
		erro(t, "/auth", s.APIKey, object{}, expected{code: "201"})
		erro(t, "/postauth", s.APIKey, object{"threeDSServerTransID": id}, expected{code: "203"})
	})
	t.Run("413", func(t *testing.T) {
		erro(t, "/preauth", s.APIKey, strings.Repeat(" ", 64<<10+1), expected{status: 413, code: "101"})
	})
	t.Run("503", func(t *testing.T) {
		entered, leave := make(chan bool), make(chan bool)
		s.ds.play(func(w http.ResponseWriter, areq object) {
			entered <- true
			<-leave
			_, _ = w.Write(marshal(ares(areq, "Y")))
		})
		defer s.ds.play(nil)
		req, answered := s.request("2.2.0"), make(chan int)
		go func() {
			code, _ := s.post("/auth", req)
			answered <- code
		}()
		<-entered
		res := erro(t, "/preauth", s.APIKey, object{"acctNumber": testPAN}, expected{status: 503, code: "403"})
		if res.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		close(leave)
		if code := <-answered; code != 200 {
			t.Errorf("the one that was in flight got %d", code)
		}
	})
	t.Run("500", func(t *testing.T) {
		for name, fault := range map[string]*atomic.Bool{"a record that cannot be read": f.torn, "a panic": f.panics} {
			t.Run(name, func(t *testing.T) {
				fault.Store(true)
				defer fault.Store(false)
				erro(t, "/postauth", s.APIKey, object{"threeDSServerTransID": id}, expected{status: 500, code: "404"})
			})
		}
	})
	t.Run("429", func(t *testing.T) {
		s := startSite(t, ca, newWire(t, ca), plan{sections: "limits: {per_key: 1/m}"})
		s.preauth(testPAN)
		res, data := s.call(http.MethodPost, "/preauth", s.APIKey, object{"acctNumber": testPAN})
		expected{status: 429, code: "103"}.check(t, res.StatusCode, parseObject(t, data))
		if res.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		if res, _ := s.call(http.MethodPost, "/preauth", s.OtherAPIKey, object{"acctNumber": testPAN}); res.StatusCode != 200 {
			t.Errorf("another key: %d, want 200: each key has its own limit", res.StatusCode)
		}
	})
}

func TestG6MethodsAndPaths(t *testing.T) {
	w := startSandbox(t)
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		for _, path := range []string{"/preauth", "/auth", "/postauth"} {
			res, data := w.call(method, path, w.APIKey, object{})
			expected{status: 405, code: "101"}.check(t, res.StatusCode, parseObject(t, data))
			if res.Header.Get("Allow") != "POST" {
				t.Errorf("%s %s: Allow = %q", method, path, res.Header.Get("Allow"))
			}
		}
	}
	if res, _ := w.call("HEAD", "/auth", w.APIKey, ""); res.StatusCode != 405 || res.Header.Get("Allow") != "POST" {
		t.Errorf("HEAD: %d, want 405", res.StatusCode)
	}
	// At / the sandbox has its shop.
	for _, path := range []string{"/nowhere", "/preauth/", "/Preauth", "/auth/x", "//auth", "/%2fauth", "/%61uth"} {
		for _, method := range []string{"GET", "POST"} {
			res, data := w.call(method, path, w.APIKey, object{})
			if res.StatusCode != 404 {
				t.Errorf("%s %s: %d, want 404", method, path, res.StatusCode)
			}
			for _, there := range []string{"/preauth", "/auth", "/postauth", "/enrolled", "/check"} {
				if detail := parseObject(t, data).text("errorDetail"); !strings.Contains(detail, " "+there) {
					t.Errorf("%s %s: %q does not name %s", method, path, detail, there)
				}
			}
		}
	}
}
