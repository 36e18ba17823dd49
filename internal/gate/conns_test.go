package gate_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/gate"
)

// pair is a connection that tells whether it was closed.
type pair struct {
	net.Conn
	closed atomic.Bool
}

func (p *pair) Close() error {
	p.closed.Store(true)
	return nil
}

// crowd is connections of a server with a bound, by name.
type crowd struct {
	t      *testing.T
	conns  gate.Conns
	server http.Server
	gone   int
	all    map[string]*pair
}

func newCrowd(t *testing.T, most int) *crowd {
	c := &crowd{t: t, all: make(map[string]*pair)}
	c.conns = gate.Conns{Max: most, Closed: func() { c.gone++ }}
	c.server.Handler = http.NotFoundHandler()
	c.conns.Attach(&c.server)
	return c
}

// answers has a request on a connection served.
func (c *crowd) answers(name string, major int) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.ProtoMajor = major
	c.server.Handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(c.server.ConnContext(r.Context(), c.all[name])))
}

func (c *crowd) comes(names ...string) {
	for _, name := range names {
		c.all[name] = new(pair)
		c.is(http.StateNew, name)
	}
}

func (c *crowd) is(state http.ConnState, names ...string) {
	for _, name := range names {
		c.server.ConnState(c.all[name], state)
	}
}

func (c *crowd) arrived(names ...string) {
	for _, name := range names {
		gate.Arrived(c.server.ConnContext(context.Background(), c.all[name]))
	}
}

// want says who had to go, altogether.
func (c *crowd) want(names ...string) {
	c.t.Helper()
	gone := make(map[string]bool)
	for _, name := range names {
		gone[name] = true
	}
	for name, p := range c.all {
		if p.closed.Load() != gone[name] {
			c.t.Errorf("%s is closed: %t, want %t", name, p.closed.Load(), gone[name])
		}
	}
	if c.gone != len(names) {
		c.t.Errorf("%d had to go, want %d", c.gone, len(names))
	}
}

func TestConns(t *testing.T) {
	t.Run("at the bound", func(t *testing.T) {
		for n := 2; n <= 4; n++ { // 3 - 1, 3, 3 + 1
			c := newCrowd(t, 3)
			for i := range n {
				c.comes(fmt.Sprint(i))
			}
			if n > 3 {
				c.want("0")
			} else {
				c.want()
			}
			if got := c.conns.Len(); got != min(n, 3) {
				t.Errorf("%d of %d are there", got, n)
			}
		}
	})
	t.Run("the slowest goes first, then the one idle longest", func(t *testing.T) {
		c := newCrowd(t, 5)
		c.comes("idle", "later idle", "silent", "slow body", "works")
		c.is(http.StateActive, "later idle", "idle", "slow body", "works")
		c.arrived("works", "idle", "later idle")
		c.is(http.StateIdle, "idle")
		c.is(http.StateIdle, "later idle")
		c.comes("a")
		c.want("silent")
		c.is(http.StateActive, "a")
		c.arrived("a")
		c.comes("b")
		c.want("silent", "slow body")
		c.is(http.StateActive, "b")
		c.arrived("b")
		c.comes("c")
		c.want("silent", "slow body", "idle")
		c.is(http.StateActive, "c")
		c.arrived("c")
		c.comes("d")
		c.want("silent", "slow body", "idle", "later idle")
	})
	t.Run("none that works", func(t *testing.T) {
		c := newCrowd(t, 2)
		c.comes("a", "b")
		c.is(http.StateActive, "a", "b")
		c.arrived("a", "b")
		c.comes("c")
		c.want("c")
		c.is(http.StateClosed, "c", "a")
		c.comes("d")
		c.want("c")
	})
	t.Run("a second request begins anew", func(t *testing.T) {
		c := newCrowd(t, 2)
		c.comes("a", "b")
		c.is(http.StateActive, "a")
		c.arrived("a")
		c.is(http.StateIdle, "a")
		c.is(http.StateActive, "a") // after b came
		c.comes("c")
		c.want("b")
		c.comes("d")
		c.want("b", "a")
	})
	t.Run("requests that overlap are not one that is slow", func(t *testing.T) {
		c := newCrowd(t, 3)
		c.comes("overlaps", "a", "b")
		c.is(http.StateActive, "overlaps")
		c.answers("overlaps", 2)
		c.comes("c")
		c.want("a")
		c.comes("d", "e")
		c.want("a", "b", "overlaps") // it had nothing answered since
		c.answers("c", 1)
		c.comes("f")
		c.want("a", "b", "overlaps", "c")
	})
	t.Run("the first byte gives no more time", func(t *testing.T) {
		c := newCrowd(t, 2)
		c.comes("a", "b")
		c.is(http.StateActive, "a")
		c.comes("c")
		c.want("a")
	})
	t.Run("one of several requests is answered, the others are in work", func(t *testing.T) {
		c := newCrowd(t, 2)
		c.comes("a", "b")
		c.is(http.StateActive, "a", "b")
		c.arrived("a", "b")
		c.answers("a", 2)
		c.comes("c")
		c.want("c")
	})
	t.Run("those that have gone are forgotten", func(t *testing.T) {
		c := newCrowd(t, 2)
		c.comes("a", "b", "c")
		c.is(http.StateIdle, "a")
		c.is(http.StateClosed, "a", "b", "c")
		c.arrived("b")
		if n := c.conns.Len(); n != 0 {
			t.Errorf("%d are there", n)
		}
	})
}

// TestSlowloris: connections that send half a request are no hindrance.
func TestSlowloris(t *testing.T) {
	const most = 20
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
		gate.Arrived(r.Context())
	}))
	conns := &gate.Conns{Max: most}
	conns.Attach(s.Config)
	s.Start()
	defer s.Close()
	for i := range 5 * most {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		half := "POST / HTTP/1.1\r\nHost: x\r\nX-A: "
		if i%2 == 1 {
			half = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
		}
		if _, err := io.WriteString(c, half); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(res.Body); string(got) != "ok" {
			t.Errorf("answer %q", got)
		}
	}
	if n := conns.Len(); n > most {
		t.Errorf("%d connections, at most %d may be", n, most)
	}
}
