package directory

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// TestSecondAttempt: a connection that fails is tried exactly once more
// (RT-01); one that fails after the request may have left is not (RT-02, I5).
func TestSecondAttempt(t *testing.T) {
	ca := newAuthority(t)
	reset := func(conn net.Conn) {
		if secured, ok := conn.(*tls.Conn); ok {
			conn = secured.NetConn()
		}
		conn.(*net.TCPConn).SetLinger(0)
	}
	for _, test := range []struct {
		name     string
		config   *tls.Config
		handle   func(net.Conn)
		kind     Kind
		connects int64
	}{
		{"closed before the handshake", nil, func(net.Conn) {}, Connect, 2},
		{"reset before the handshake", nil, reset, Connect, 2},
		{"no TLS there", nil, func(conn net.Conn) {
			io.ReadFull(conn, make([]byte, 5))
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}, Connect, 2},
		{"closed after the request", ca.server(), func(conn net.Conn) { readRequest(bufio.NewReader(conn)) }, Broken, 1},
		{"reset after the request", ca.server(), func(conn net.Conn) {
			readRequest(bufio.NewReader(conn))
			reset(conn)
		}, Broken, 1},
		{"closed at the first byte", ca.server(), func(conn net.Conn) { conn.Read(make([]byte, 1)) }, Broken, 1},
		{"garbage for an answer", ca.server(), func(conn net.Conn) {
			readRequest(bufio.NewReader(conn))
			io.WriteString(conn, "what?\r\n\r\n")
		}, Broken, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var connects atomic.Int64
			address := serveRaw(t, test.config, func(conn net.Conn) {
				connects.Add(1)
				test.handle(conn)
			})
			c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
			_, err := send(t, c, "visa")
			if err == nil || err.Kind != test.kind {
				t.Errorf("error %+v, want %v", err, test.kind)
			}
			if n := connects.Load(); n != test.connects {
				t.Errorf("%d connections, want %d", n, test.connects)
			}
			if err != nil && strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("the text tells an address: %v", err)
			}
		})
	}
}

func TestSecondAttemptSucceeds(t *testing.T) {
	ca := newAuthority(t)
	var connects atomic.Int64
	config := ca.server()
	address := serveRaw(t, nil, func(conn net.Conn) {
		if connects.Add(1) == 1 {
			return
		}
		secured := tls.Server(conn, config)
		readRequest(bufio.NewReader(secured))
		io.WriteString(secured, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
	})
	c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
	if answer, err := send(t, c, "visa"); answer != "{}" {
		t.Errorf("Send = %q, %v after a first failure", answer, err)
	}
}

func TestRefused(t *testing.T) {
	ca := newAuthority(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c, _ := newClient(t, Hooks{}, peerAt("visa", "https://"+l.Addr().String(), ca.client()))
	_, failed := send(t, c, "visa")
	if failed == nil || failed.Kind != Connect || failed.Text != "Connection refused" || failed.Err == nil {
		t.Errorf("error %+v, want refused", failed)
	}
	if failed != nil && (strings.Contains(failed.Error(), l.Addr().String()) || !strings.Contains(failed.LogValue().String(), l.Addr().String())) {
		t.Errorf("an address is for the log alone: %v, %v", failed, failed.LogValue())
	}
}

// TestIdleConnectionCloses: a directory server ends kept-alive connections just
// when the next request is on its way. Whatever the race gives, no AReq arrives
// twice.
func TestIdleConnectionCloses(t *testing.T) {
	ca := newAuthority(t)
	var mu sync.Mutex
	arrived := make(map[string]int)
	address := serveRaw(t, ca.server(), func(conn net.Conn) {
		r := bufio.NewReader(conn)
		for answers := 0; answers < 2; answers++ { // and then closes, as if idle for too long
			req := readRequest(r)
			if req == nil {
				return
			}
			mu.Lock()
			arrived[req.Header.Get("X-Request-ID")]++
			mu.Unlock()
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		}
	})
	c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
	answered := 0
	for range 100 {
		id := newTransID()
		_, err := c.Send(t.Context(), "visa", "Shop", []byte("{}"), id, message.V231, "")
		mu.Lock()
		n := arrived[id]
		mu.Unlock()
		if e, ok := errors.AsType[*Error](err); n > 1 || err == nil && n != 1 || ok && e.Kind != Broken {
			t.Fatalf("%v, and the request arrived %d times", err, n)
		}
		if err == nil {
			answered++
		}
	}
	if answered < 30 {
		t.Errorf("only %d of 100 were answered", answered)
	}
}

// TestDeadIdleConnection: when an idle connection takes not a byte, the request
// goes over a new one; and an attempt without any connection is one, which sent
// nothing.
func TestDeadIdleConnection(t *testing.T) {
	ca := newAuthority(t)
	var requests atomic.Int64
	address := serve(t, ca.server(), func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
	p := c.peers["visa"]
	dial := p.client.Dial
	var made []net.Conn
	dials, refused := 0, errors.New("nobody there")
	p.client.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials++; dials > 2 {
			return nil, refused
		}
		fresh, err := dial(ctx, network, addr)
		if err == nil {
			made = append(made, fresh)
		}
		return fresh, err
	}
	for i := range 2 {
		resp, sent, err := p.postOnce(t.Context(), p.AReqURL, []byte("{}"), nil)
		if err != nil || !sent || len(made) != i+1 || requests.Load() != int64(i+1) {
			t.Fatalf("attempt %d: sent %t, %v over %d connections, %d requests", i+1, sent, err, len(made), requests.Load())
		}
		drain(resp.Body)
		made[i].(*tls.Conn).NetConn().Close() // takes nothing from now on
	}
	_, sent, err := p.postOnce(t.Context(), p.AReqURL, []byte("{}"), nil)
	if !errors.Is(err, refused) || sent || dials != 3 || requests.Load() != 2 {
		t.Errorf("attempt: sent %t, %v, after %d dials; want one attempt, not sent", sent, err, dials)
	}
}

// TestDialsAreBounded: a burst over cold connections makes only so many
// handshakes at a time.
func TestDialsAreBounded(t *testing.T) {
	ca := newAuthority(t)
	var mu sync.Mutex
	now, most := 0, 0
	config := ca.server()
	config.MaxVersion = tls.VersionTLS12 // of 1.3 the client is done before the server has verified it
	config.SessionTicketsDisabled = true
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		now++
		most = max(most, now)
		return nil, nil
	}
	config.VerifyConnection = func(tls.ConnectionState) error {
		mu.Lock()
		defer mu.Unlock()
		now--
		return nil
	}
	address := serve(t, config, func(http.ResponseWriter, *http.Request) {})
	p := peerAt("visa", address, ca.client())
	p.MaxDials = 1
	c, _ := newClient(t, Hooks{}, p)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := send(t, c, "visa"); err != nil {
				t.Errorf("Send: %v", err)
			}
		})
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if most != 1 {
		t.Errorf("%d handshakes at a time, want at most 1", most)
	}
}

func TestDialReachesOnlyThePeer(t *testing.T) {
	ca := newAuthority(t)
	c, _ := newClient(t, Hooks{}, peerAt("visa", "https://ds.example", ca.client()))
	_, err := c.peers["visa"].client.Dial(t.Context(), "tcp", "127.0.0.1:443")
	if !errors.Is(err, errNotConfigured) {
		t.Errorf("dial of another address: %v", err)
	}
}

// TestLoggedCause: what a peer said is not logged, where an answer may be in it.
func TestLoggedCause(t *testing.T) {
	ca := newAuthority(t)
	address := serveRaw(t, ca.server(), func(conn net.Conn) {
		readRequest(bufio.NewReader(conn))
		io.WriteString(conn, `{"authenticationValue":"AAABB"}`+"\r\n\r\n")
	})
	c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
	_, err := send(t, c, "visa")
	if err == nil || err.Kind != Broken || strings.Contains(err.LogValue().String(), "AAABB") || !strings.Contains(err.LogValue().String(), "malformed") {
		t.Errorf("%v, logged as %v", err, err.LogValue())
	}
}
