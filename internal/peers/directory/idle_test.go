package directory

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/message"
)

// TestShortPatience: a directory server says that it keeps connections for no
// time at all; each request goes over a new one, and none fails.
func TestShortPatience(t *testing.T) {
	ca := newAuthority(t)
	var connects atomic.Int64
	address := serveRaw(t, ca.server(), func(conn net.Conn) {
		connects.Add(1)
		r := bufio.NewReader(conn)
		for readRequest(r) != nil {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=0\r\nContent-Length: 2\r\n\r\n{}")
		}
	})
	c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
	for range 5 {
		if _, err := send(t, c, "visa"); err != nil {
			t.Error(err)
		}
	}
	if n := connects.Load(); n != 5 {
		t.Errorf("%d connections, want 5", n)
	}
}

// TestManyStaleConnections: all idle connections take not a byte any more. The
// one attempt that a request has is not lost on them.
func TestManyStaleConnections(t *testing.T) {
	ca := newAuthority(t)
	const many = 20
	var arrived atomic.Int64
	all := make(chan struct{})
	address := serve(t, ca.server(), func(http.ResponseWriter, *http.Request) {
		if n := arrived.Add(1); n == many {
			close(all)
		} else if n > many {
			return
		}
		<-all
	})
	c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
	p := c.peers["visa"]
	made := make(chan net.Conn, 2*many)
	dial := p.client.Dial
	p.client.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		fresh, err := dial(ctx, network, addr)
		if err == nil {
			made <- fresh
		}
		return fresh, err
	}
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() { send(t, c, "visa") })
	}
	wg.Wait()
	if len(made) != many {
		t.Fatalf("%d connections, want %d", len(made), many)
	}
	for range many {
		(<-made).(*tls.Conn).NetConn().Close()
	}
	resp, err := p.post(t.Context(), []string{p.AReqURL}, []byte("{}"), nil, 1)
	if err != nil || len(made) != 1 || arrived.Load() != many+1 {
		t.Fatalf("%v over %d new connections, %d requests", err, len(made), arrived.Load())
	}
	drain(resp.Body)
}

// TestUnwanted: what follows a status other than 200 keeps nobody waiting.
func TestUnwanted(t *testing.T) {
	ca := newAuthority(t)
	for name, answer := range map[string]string{
		"a body that never ends":  "HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n",
		"a body that never comes": "HTTP/1.1 404 No\r\nContent-Length: 100\r\n\r\n",
		"another protocol":        "HTTP/1.1 101 No\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			address := serveRaw(t, ca.server(), func(conn net.Conn) {
				readRequest(bufio.NewReader(conn))
				io.WriteString(conn, answer)
				io.Copy(io.Discard, conn) // until the other side hangs up
			})
			p := peerAt("visa", address, ca.client())
			p.Timeout = time.Hour
			c, _ := newClient(t, Hooks{}, p)
			if _, err := send(t, c, "visa"); err == nil || err.Kind != Status {
				t.Errorf("%v, want a status", err)
			}
		})
	}
}

// TestUnwantedConnections: answers that nobody reads cost no connection. A short one
// leaves its own to the next request, an Erro's as well; a long one ends it.
func TestUnwantedConnections(t *testing.T) {
	ca := newAuthority(t)
	var opened atomic.Int64
	closed := make(chan bool, 16)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "Erro"):
			io.WriteString(w, "thank you")
		case strings.Contains(string(body), "long"):
			w.WriteHeader(http.StatusServiceUnavailable)
			for page := make([]byte, maxHeader); ; {
				if _, err := w.Write(page); err != nil {
					return
				}
			}
		default:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		}
	}))
	s.TLS = ca.server()
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed <- true
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	reported := make(chan error, 1)
	c, _ := newClient(t, Hooks{Exchanged: func(_, name string, _ time.Duration, err error) {
		if name == "Erro" {
			reported <- err
		}
	}}, peerAt("visa", s.URL, ca.client()))
	ask := func(areq string) {
		t.Helper()
		_, err := c.Send(t.Context(), "visa", "Shop", []byte(areq), transID, message.V220, "")
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Status {
			t.Errorf("%v, want a status", err)
		}
	}
	for range 3 {
		ask(`{}`)
		c.Report(t.Context(), "visa", "", []byte(`{"messageType":"Erro"}`))
		if err := <-reported; err != nil {
			t.Errorf("Erro: %v", err)
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for six requests, one after the other", n)
	}
	ask(`{"long":true}`)
	<-closed // the connection of a long answer that nobody reads
}
