package api

import (
	"bufio"
	"crypto/tls"
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

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// The tests of these files show the rows of docs/api.md, each by its id.

func TestG1HTTPVersionsAndPlainHTTP(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	t.Run("TLS", func(t *testing.T) {
		s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{APITLS: true})
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
					TLSClientConfig:   &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS10, MaxVersion: tt.max},
				}
				defer transport.CloseIdleConnections()
				req, _ := http.NewRequest(http.MethodPost, "https://"+address+"/preauth", strings.NewReader(`{"acctNumber":"`+rig.EnrolledPAN+`"}`))
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
			c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: ca.Pool(), ServerName: "api.example", NextProtos: []string{"http/1.0"}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			body := `{"acctNumber":"` + rig.EnrolledPAN + `"}`
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
				c, err := tls.Dial("tcp", address, &tls.Config{
					RootCAs: ca.Pool(), ServerName: "api.example", MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID},
				})
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
			res, body := s.In(t).Call(http.MethodPost, "/preauth", s.APIKey, rig.Object{"acctNumber": rig.EnrolledPAN})
			if res.StatusCode == 200 || strings.Contains(string(body), "CRD") {
				t.Errorf("plain HTTP on a TLS listener: %d %s", res.StatusCode, body)
			}
		})
	})
	t.Run("plain when configured", func(t *testing.T) {
		s := rig.StartSite(t, ca, rig.NewWire(t, ca))
		res, _ := s.Call(http.MethodPost, "/preauth", s.APIKey, rig.Object{"acctNumber": rig.EnrolledPAN})
		if res.Proto != "HTTP/1.1" || res.StatusCode != 200 {
			t.Errorf("%s %d, want HTTP/1.1 200", res.Proto, res.StatusCode)
		}
	})
}

func TestG2KeyIsCheckedFirst(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
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
			for _, path := range []string{"/preauth", "/auth", "/postauth", "/authentications"} {
				t.Run(name+" "+method+path, func(t *testing.T) {
					w := &rig.World{ReadyFile: w.ReadyFile, T: t}
					res, body := w.Call(method, path, key, rig.Object{"acctNumber": "400000123456 0103"})
					refused(t, res, body)
				})
			}
		}
	}
	t.Run("before the body's size", func(t *testing.T) {
		res, body := (&rig.World{ReadyFile: w.ReadyFile, T: t}).Call(http.MethodPost, "/preauth", "wrong", strings.Repeat(" ", 100<<10))
		refused(t, res, body)
	})
	t.Run("without the body", func(t *testing.T) { // which ends before it is there
		status, body := raw(w, t, "POST /auth HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nAPIKey: wrong\r\n\r\n", (*net.TCPConn).CloseWrite)
		if status != 401 || string(body) != "Invalid API Key" {
			t.Errorf("%d %q, want 401", status, body)
		}
	})
	body := `{"acctNumber":"4000001234560103"}`
	for _, name := range []string{"APIKey", "apikey", "APIKEY", "ApiKey", "aPIkEY"} {
		t.Run("header "+name, func(t *testing.T) {
			status, _ := raw(w, t, fmt.Sprintf("POST /preauth HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s: %s\r\n\r\n%s", len(body), name, w.APIKey, body))
			if status != 200 {
				t.Errorf("status %d, want 200", status)
			}
		})
	}
}

// raw sends what no client sends, does what then is to be done, and returns the
// answer.
func raw(w *rig.World, t *testing.T, request string, then ...func(*net.TCPConn) error) (int, []byte) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
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
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	keys := []string{s.APIKey, s.OtherAPIKey, s.CreateKey("Shop"), s.CreateKey("Shop", "--strict")}
	seen := make(map[string]bool)
	for _, key := range keys {
		if !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(key) || seen[key] {
			t.Errorf("a key that is no dashed hexadecimal, or comes twice: %q", key)
		}
		seen[key] = true
	}
	for _, file := range rig.ListFiles(t, filepath.Dir(s.ConfigFile)) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if in := rig.FindSecret(data, key); in != "" {
				t.Errorf("%s holds a key, %s", filepath.Base(file), in)
			}
		}
	}
}

func TestG4SuccessIs200WithJSON(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	areq, challenge := s.Challenged("2.2.0")
	s.Result(rig.Marshal(rig.RReq(areq, challenge, "Y")))
	for path, body := range map[string]rig.Object{
		"/preauth": {"acctNumber": rig.EnrolledPAN}, "/auth": s.Request("2.2.0"),
		"/postauth": {"threeDSServerTransID": areq["threeDSServerTransID"]},
	} {
		res, answer := s.Call(http.MethodPost, path, s.APIKey, body)
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s: %d %q %.200s", path, res.StatusCode, res.Header.Get("Content-Type"), answer)
		}
	}
}

// unread has no key be read any more and returns one made after that: the server
// looks for changed ones twice a second.
func unread(s *rig.Site, f rig.Faulty) (key string) {
	s.T.Helper()
	f.NoKeys.Store(true)
	waittest.Until(s.T, "a reading of the keys that fails", func() bool { return strings.Contains(s.Log.String(), "API keys cannot be read") })
	return s.CreateKey("Shop")
}

func TestG5ErroIs400(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	f, p := rig.NewFaulty()
	p.Sections = "limits: {in_flight: 1}"
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), p)
	id := s.Through(s.Request("2.2.0")).Text("threeDSServerTransID")
	erro := func(t *testing.T, path, key string, body any, want rig.Expected) *http.Response {
		t.Helper()
		res, data := s.In(t).Call(http.MethodPost, path, key, body)
		want.Check(t, res.StatusCode, rig.ParseObject(t, data))
		if got := res.Header.Get("Content-Type"); got != "application/json; charset=utf-8" {
			t.Errorf("Content-Type %q", got)
		}
		return res
	}
	t.Run("an Erro is 400", func(t *testing.T) {
		erro(t, "/preauth", s.APIKey, "{", rig.Expected{Code: "203"})
		erro(t, "/preauth", s.APIKey, rig.Object{"acctNumber": "5000001234567890"}, rig.Expected{Code: "305"})
		erro(t, "/auth", s.APIKey, rig.Object{}, rig.Expected{Code: "201"})
		erro(t, "/postauth", s.APIKey, rig.Object{"threeDSServerTransID": id}, rig.Expected{Code: "203"})
	})
	t.Run("413", func(t *testing.T) {
		erro(t, "/preauth", s.APIKey, strings.Repeat(" ", 64<<10+1), rig.Expected{Status: 413, Code: "101"})
	})
	t.Run("503", func(t *testing.T) {
		entered, leave := make(chan bool), make(chan bool)
		s.Directory.Play(func(w http.ResponseWriter, areq rig.Object) {
			entered <- true
			<-leave
			_, _ = w.Write(rig.Marshal(rig.ARes(areq, "Y")))
		})
		defer s.Directory.Play(nil)
		req, answered := s.Request("2.2.0"), make(chan int)
		go func() {
			code, _ := s.Post("/auth", req)
			answered <- code
		}()
		<-entered
		res := erro(t, "/preauth", s.APIKey, rig.Object{"acctNumber": rig.EnrolledPAN}, rig.Expected{Status: 503, Code: "403"})
		if res.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		close(leave)
		if code := <-answered; code != 200 {
			t.Errorf("the one that was in flight got %d", code)
		}
	})
	t.Run("500", func(t *testing.T) {
		for name, fault := range map[string]*atomic.Bool{"a record that cannot be read": f.Torn, "a panic": f.Panics} {
			t.Run(name, func(t *testing.T) {
				fault.Store(true)
				defer fault.Store(false)
				erro(t, "/postauth", s.APIKey, rig.Object{"threeDSServerTransID": id}, rig.Expected{Status: 500, Code: "404"})
			})
		}
	})
	t.Run("429", func(t *testing.T) {
		s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: "limits: {per_key: 1/m}"})
		s.Preauth(rig.EnrolledPAN)
		res, data := s.Call(http.MethodPost, "/preauth", s.APIKey, rig.Object{"acctNumber": rig.EnrolledPAN})
		rig.Expected{Status: 429, Code: "103"}.Check(t, res.StatusCode, rig.ParseObject(t, data))
		if res.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		if res, _ := s.Call(http.MethodPost, "/preauth", s.OtherAPIKey, rig.Object{"acctNumber": rig.EnrolledPAN}); res.StatusCode != 200 {
			t.Errorf("another key: %d, want 200: each key has its own limit", res.StatusCode)
		}
	})
}

func TestG6MethodsAndPaths(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		for _, path := range []string{"/preauth", "/auth", "/postauth"} {
			res, data := w.Call(method, path, w.APIKey, rig.Object{})
			rig.Expected{Status: 405, Code: "101"}.Check(t, res.StatusCode, rig.ParseObject(t, data))
			if res.Header.Get("Allow") != "POST" {
				t.Errorf("%s %s: Allow = %q", method, path, res.Header.Get("Allow"))
			}
		}
	}
	if res, _ := w.Call("HEAD", "/auth", w.APIKey, ""); res.StatusCode != 405 || res.Header.Get("Allow") != "POST" {
		t.Errorf("HEAD: %d, want 405", res.StatusCode)
	}
	// At / the sandbox has its shop.
	for _, path := range []string{"/nowhere", "/favicon.ico", "/preauth/", "/Preauth", "/auth/x", "//auth", "/%2fauth", "/%61uth"} {
		for i, key := range []string{w.APIKey, w.APIKey, ""} {
			method := []string{"GET", "POST", "GET"}[i]
			res, data := w.Call(method, path, key, rig.Object{})
			if res.StatusCode != 404 {
				t.Errorf("%s %s, key %q: %d, want 404", method, path, key, res.StatusCode)
			}
			for _, there := range []string{"/preauth", "/auth", "/postauth", "/enrolled", "/check"} {
				if detail := rig.ParseObject(t, data).Text("errorDetail"); !strings.Contains(detail, " "+there) {
					t.Errorf("%s %s: %q does not name %s", method, path, detail, there)
				}
			}
		}
	}
}
