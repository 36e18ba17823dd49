package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/store"
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
	ca := newAuthority(t)
	db := new(keyless)
	s := startSite(t, ca, newWire(t, ca), plan{apiTLS: true, change: func(cfg *nodeConfig) {
		cfg.Store = func(s store.Store) store.Store {
			db.Store = s
			return db
		}
	}})
	api, results, console := addressOf(t, s.API), addressOf(t, s.results), addressOf(t, s.console)
	certs := []tls.Certificate{newAuthority(t).issue("rreq.ds.example")}
	of := func(certs []tls.Certificate, protos ...string) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, Certificates: certs, NextProtos: protos}
	}
	const times = 3
	for _, trouble := range []bool{false, true} {
		db.told.Store(trouble)
		before := len(loud(s.log.String()))
		for range times {
			for _, said := range []string{
				"", "\x00\x01", "GET / HTTP/1.1\r\n\r\n", "POST /preauth HTTP/1.1\r\nHost: x\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnothing like a frame",
				"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "POST /preauth HTTP/1.1\r\nHost: x\r\nAPIKey: " + newUUID() + "\r\nContent-Length: 9\r\n\r\n{",
				"POST /enrolled HTTP/1.1\r\nHost: x\r\nAuthorization: Basic " + basic(newUUID()) + "\r\nTransfer-Encoding: chunked\r\n\r\nzz",
				"HEAD /auth HTTP/1.0\r\nAPIKey: " + newUUID() + "\r\n\r\n", "POST /results HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\n\r\n",
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
			for _, at := range []string{"https://" + api + "/preauth", "https://" + api + "/check", "https://" + results + "/", s.console + "/metrics"} {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, io.LimitReader(zeros{}, 100<<10))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("APIKey", newUUID())
				r.SetBasicAuth(newUUID(), "")
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
		r.Header.Set("APIKey", newUUID())
		res, err := strangers.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if want := map[bool]int{false: 401, true: 400}[trouble]; res.StatusCode != want {
			t.Errorf("trouble %t: status %d, want %d", trouble, res.StatusCode, want)
		}
		strangers.CloseIdleConnections()
		got := loud(s.log.String())[before:]
		all := strings.Join(got, "\n")
		if len(got) > 5 || trouble != strings.Contains(all, "key not looked up") {
			t.Errorf("trouble %t: the log has %d lines more, want no more than five\n%.2000s", trouble, len(got), all)
		}
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
