package listen_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/edge/listen"
)

// dialServer starts a server like that of the listeners for requestors and directory servers, which answers 204, and
// returns a connection to it.
func dialServer(t *testing.T, secure bool) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := listen.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}), time.Second, slog.New(slog.DiscardHandler))
	limiter := &listen.Limiter{Max: 10, MaxHTTP2: 10}
	limiter.Attach(s)
	var serving net.Listener = limiter.Listener(l)
	if secure {
		serving = tls.NewListener(serving, serverTLS("http/1.1"))
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(serving) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
	})
	var c net.Conn
	if secure {
		c, err = tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	} else {
		c, err = net.Dial("tcp", l.Addr().String())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// fields are n header fields.
func fields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "X-%d: 1\r\n", i)
	}
	return b.String()
}

// TestD113MalformedHeaderEndsTheConnection: such a request gets its status, and what follows it on the connection is
// not read as another request.
func TestD113MalformedHeaderEndsTheConnection(t *testing.T) {
	const begin, end = "POST / HTTP/1.1\r\n", "Content-Length: 0\r\n\r\n"
	for _, test := range []struct {
		name, request string
		status        int
	}{
		{"no fault", begin + "Host: x\r\n" + end, 204},
		{"two different Content-Length", begin + "Host: x\r\nContent-Length: 1\r\n" + end, 400},
		{"Content-Length that is no number", begin + "Host: x\r\nContent-Length: +1\r\n\r\n", 400},
		{"unknown Transfer-Encoding", begin + "Host: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
		{"two Transfer-Encoding", begin + "Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
		{"no Host", begin + end, 400},
		{"two Host", begin + "Host: x\r\nHost: x\r\n" + end, 400},
		{"two different Host", begin + "Host: x\r\nHost: y\r\n" + end, 400},
		{"Host that is none", begin + "Host: x y\r\n" + end, 400},
		{"first line folded", begin + " X: 1\r\nHost: x\r\n" + end, 400},
		{"name with a space behind", begin + "Host: x\r\nX : 1\r\n" + end, 400},
		{"name with a space inside", begin + "Host: x\r\nX Y: 1\r\n" + end, 400},
		{"name with a slash", begin + "Host: x\r\nX/Y: 1\r\n" + end, 400},
		{"empty name", begin + "Host: x\r\n: 1\r\n" + end, 400},
		{"no colon", begin + "Host: x\r\nX\r\n" + end, 400},
		{"value with a NUL", begin + "Host: x\r\nX: \x00\r\n" + end, 400},
		{"64 fields", begin + "Host: x\r\n" + fields(62) + end, 204},
		{"65 fields", begin + "Host: x\r\n" + fields(63) + end, 431},
		{"65 fields, one name", begin + "Host: x\r\n" + strings.Repeat("X: 1\r\n", 63) + end, 431},
		{"65 fields, chunked", begin + "Host: x\r\n" + fields(63) + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 431},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := dialServer(t, false)
			const next = "POST /next HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
			if _, err := io.WriteString(c, test.request+next); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(c)
			res, err := http.ReadResponse(in, nil)
			if err != nil || res.StatusCode != test.status {
				t.Fatalf("%v, %v; want %d", res, err, test.status)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_, err = http.ReadResponse(in, nil)
			if closed := err != nil; closed != (test.status != 204) {
				t.Errorf("after %d: closed %t, %v", test.status, closed, err)
			}
		})
	}
}

// TestHSTSWithTLS: answers over TLS have Strict-Transport-Security, those of a refused header too, and others have not.
func TestHSTSWithTLS(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, header := range []string{"", fields(100)} {
			c := dialServer(t, secure)
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n"+header+"\r\n"); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Header.Get("Strict-Transport-Security"); (got == "max-age=31536000") != secure || !secure && got != "" {
				t.Errorf("TLS %t, status %d: Strict-Transport-Security %q", secure, res.StatusCode, got)
			}
		}
	}
}
