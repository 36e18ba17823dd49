package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// keyless is a store in which, once told, no key can be looked up.
type keyless struct {
	store.Store
	told atomic.Bool
}

func (k *keyless) Key(ctx context.Context, hash []byte) (store.Key, error) {
	if k.told.Load() {
		return store.Key{}, errors.New("no look-up")
	}
	return k.Store.Key(ctx, hash)
}

// TestStrangersFillNoLog: who has neither an API key nor a certificate causes hardly a
// line of the log, whatever he does at a listener, be the server in trouble or well.
func TestStrangersFillNoLog(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	db := new(keyless)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{APITLS: true, Change: func(cfg *server.Config) {
		cfg.Store = func(s store.Store) store.Store {
			db.Store = s
			return db
		}
	}})
	api, results, console := addressOf(t, s.API), addressOf(t, s.ResultsURL), addressOf(t, s.ConsoleURL)
	certs := []tls.Certificate{rig.NewAuthority(t).Issue("rreq.ds.example")}
	of := func(certs []tls.Certificate, protos ...string) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, Certificates: certs, NextProtos: protos}
	}
	const times = 3
	for _, trouble := range []bool{false, true} {
		db.told.Store(trouble)
		before := len(loud(s.Log.String()))
		for range times {
			for _, said := range []string{
				"", "\x00\x01", "GET / HTTP/1.1\r\n\r\n", "POST /preauth HTTP/1.1\r\nHost: x\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnothing like a frame",
				"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "POST /preauth HTTP/1.1\r\nHost: x\r\nAPIKey: " + rig.NewUUID() + "\r\nContent-Length: 9\r\n\r\n{",
				"POST /enrolled HTTP/1.1\r\nHost: x\r\nAuthorization: Basic " + basic(rig.NewUUID()) + "\r\nTransfer-Encoding: chunked\r\n\r\nzz",
				"HEAD /auth HTTP/1.0\r\nAPIKey: " + rig.NewUUID() + "\r\n\r\n", "POST /results HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\n\r\n",
				"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n",
			} {
				for _, address := range []string{api, results, console} {
					bother(t, address, nil, said)
				}
				bother(t, api, of(nil, "http/1.1"), said)
				bother(t, api, of(nil, "h2"), said)
				bother(t, results, of(nil), said)
				bother(t, results, of(certs, "h2"), said)
			}
		}
		strangers := &http.Client{Transport: &http.Transport{TLSClientConfig: of(certs), ForceAttemptHTTP2: true, MaxConnsPerHost: 2}}
		for i := range 50 * times {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%10)*100*time.Microsecond)
			for _, at := range []string{"https://" + api + "/preauth", "https://" + api + "/check", "https://" + results + "/", s.ConsoleURL + "/metrics"} {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, io.LimitReader(zeros{}, 100<<10))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("APIKey", rig.NewUUID())
				r.SetBasicAuth(rig.NewUUID(), "")
				if res, err := strangers.Do(r); err == nil {
					res.Body.Close()
				}
			}
			cancel()
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+api+"/preauth", nil) // one who waits
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("APIKey", rig.NewUUID())
		res, err := strangers.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if want := map[bool]int{false: 401, true: 400}[trouble]; res.StatusCode != want {
			t.Errorf("trouble %t: status %d, want %d", trouble, res.StatusCode, want)
		}
		strangers.CloseIdleConnections()
		got := loud(s.Log.String())[before:]
		all := strings.Join(got, "\n")
		requests := slices.DeleteFunc(slices.Clone(got), func(line string) bool { return !strings.Contains(line, `"msg":"request"`) })
		if len(requests) > 11 { // ten of one source, and one that counts the others
			t.Errorf("trouble %t: %d lines of requests without a good key, want 11 at most", trouble, len(requests))
		}
		if len(got)-len(requests) > 5 || trouble != strings.Contains(all, "key not looked up") {
			t.Errorf("trouble %t: the log has %d other lines more, want no more than five\n%.2000s", trouble, len(got)-len(requests), all)
		}
	}
}

// TestStrangersDoNotShutOutNewClients fills the connection limit of a listener with clients that made one request and
// rest, while fifty more come per second. New clients that take a moment between connecting and their request are all
// served: merchants on the API, with TLS and without, and directory servers on the results listener.
func TestStrangersDoNotShutOutNewClients(t *testing.T) {
	t.Parallel()
	const most, clients = 200, 100
	const moment = 100 * time.Millisecond
	issuer := rig.NewAuthority(t)
	known := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{issuer.Issue("rreq.ds.example")}}
	unknown := &tls.Config{InsecureSkipVerify: true}
	for _, test := range []struct {
		name      string
		apiTLS    bool
		of        func(s *rig.Site) string // the URL of the listener
		config    *tls.Config              // of new clients; nil: no TLS
		strangers *tls.Config              // of those that rest, as config
		rest      int                      // the status of their one request
		served    int                      // the status of a new client's request
	}{
		{"api", false, func(s *rig.Site) string { return s.API + "/preauth" }, nil, nil, 401, 200},
		{"api with TLS", true, func(s *rig.Site) string { return s.API + "/preauth" }, unknown, unknown, 401, 200},
		{"results", false, func(s *rig.Site) string { return s.ResultsURL }, known, known, 405, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			ca := rig.NewAuthority(t)
			if test.name == "results" {
				ca = issuer // which has signed the clients' certificate, and is used by this test alone
			}
			t.Parallel()
			s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{
				APITLS: test.apiTLS, Sections: fmt.Sprintf("limits: {connections: %d, per_key: 10000/s}", most),
			})
			address, err := url.Parse(test.of(s))
			if err != nil {
				t.Fatal(err)
			}
			connect := func(config *tls.Config) (net.Conn, error) {
				if config == nil {
					return net.Dial("tcp", address.Host)
				}
				return tls.Dial("tcp", address.Host, config)
			}
			// say sends a request and returns the status of its answer.
			say := func(c net.Conn, method, key, body string) (int, error) {
				if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nAPIKey: %s\r\nContent-Length: %d\r\n\r\n%s",
					method, address.Path, key, len(body), body); err != nil {
					return 0, err
				}
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					return 0, err
				}
				_, err = io.Copy(io.Discard, res.Body)
				return res.StatusCode, err
			}
			strange := func() {
				c, err := connect(test.strangers)
				if err != nil {
					t.Errorf("a stranger: %v", err)
					return
				}
				t.Cleanup(func() { _ = c.Close() })
				if status, err := say(c, http.MethodGet, "none", ""); err != nil || status != test.rest {
					t.Errorf("a stranger got %d, %v; want %d", status, err, test.rest)
				}
			}
			for range most + 100 {
				strange()
			}
			end := make(chan struct{})
			var more sync.WaitGroup
			more.Go(func() {
				for {
					select {
					case <-end:
						return
					case <-time.After(time.Second / 50): // their pace
						strange()
					}
				}
			})
			var all sync.WaitGroup
			var served atomic.Int64
			for range clients {
				all.Go(func() {
					c, err := connect(test.config)
					if err != nil {
						return
					}
					defer c.Close()
					time.Sleep(moment) // as slow a client as there may be
					if status, err := say(c, http.MethodPost, s.APIKey, `{"acctNumber":"`+rig.EnrolledPAN+`"}`); err == nil && status == test.served {
						served.Add(1)
					}
				})
			}
			all.Wait()
			close(end)
			more.Wait()
			if n := served.Load(); n != clients {
				t.Errorf("%d of %d new clients were served", n, clients)
			}
		})
	}
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// basic is the credentials of a user without a password.
func basic(user string) string {
	r := &http.Request{Header: make(http.Header)}
	r.SetBasicAuth(user, "")
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Basic ")
}

// addressOf is the host and port of a URL.
func addressOf(t *testing.T, address string) string {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// bother says something to a listener and hangs up.
func bother(t *testing.T, address string, config *tls.Config, said string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if config != nil {
		secured := tls.Client(c, config)
		_ = secured.SetDeadline(time.Now().Add(5 * time.Second))
		_ = secured.Handshake() // may well be refused
		c = secured
	}
	_ = c.SetDeadline(time.Now().Add(5 * time.Millisecond))
	if _, err := io.WriteString(c, said); err == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}

// loud are the lines of a log that are more than details.
func loud(log string) []string {
	var lines []string
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `"level":"DEBUG"`) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
