package directory

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	for _, test := range []struct {
		header string
		want   time.Duration
	}{
		{"", 0}, {"timeout=5", 4 * time.Second}, {"Timeout=5, max=100", 4 * time.Second}, {"max=100,timeout=65", 64 * time.Second},
		{"timeout=2", time.Second}, {"timeout=1", 500 * time.Millisecond}, {"timeout=0", 1},
		{"timeout=-1", 0}, {"timeout=99999999999999999999", 0}, {"timeout", 0}, {"x=5", 0}, {"timeout=5s", 0},
	} {
		var k patience
		k.learn(test.header)
		if got := time.Duration(k.Load()); got != test.want {
			t.Errorf("%q: %v, want %v", test.header, got, test.want)
		}
		k.Store(int64(7 * time.Second))
		k.learn("")
		if k.Load() != int64(7*time.Second) {
			t.Error("an answer that says nothing of it was heeded")
		}
	}
}

func TestRested(t *testing.T) {
	for _, test := range []struct {
		unused     bool
		said, idle time.Duration
		want       bool
	}{
		{true, 0, unusedTime, false}, {true, 0, unusedTime + 1, true}, {false, 0, time.Hour, false},
		{false, time.Second, time.Second, false}, {false, time.Second, time.Second + 1, true}, {true, time.Minute, unusedTime + 1, true},
	} {
		p := &peer{}
		p.patience.Store(int64(test.said))
		if got := p.rested(test.unused, test.idle); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

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
	made := make(chan *conn, 2*many)
	dial := p.transport.DialTLSContext
	p.transport.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		fresh, err := dial(ctx, network, addr)
		if err == nil {
			made <- fresh.(*conn)
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
		(<-made).sealSince(0)
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
			p.Timeout = 20 * time.Second
			c, _ := newClient(t, Hooks{}, p)
			start := time.Now()
			if _, err := send(t, c, "visa"); err == nil || err.Kind != Status {
				t.Errorf("%v, want a status", err)
			}
			if took := time.Since(start); took > p.Timeout/2 {
				t.Errorf("took %v", took)
			}
		})
	}
}
