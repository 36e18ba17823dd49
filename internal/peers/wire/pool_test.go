package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
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
		var k keepAlive
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

// piped is a client of servers at the other end of a pipe, for bubbles.
func piped(t *testing.T, serve func(net.Conn)) (*Client, *atomic.Int64) {
	return newClient(t, func(config *Config) {
		config.Dial = func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				serve(far)
			}()
			return near, nil
		}
	})
}

// TestRested: a connection is used after a rest up to the limit, ours or what the
// peer has said, and not after a longer one.
func TestRested(t *testing.T) {
	for _, test := range []struct {
		said string
		rest time.Duration
		kept bool
	}{
		{"", time.Minute - 1, true}, {"", time.Minute, false},
		{"timeout=5", 4*time.Second - 1, true}, {"timeout=5", 4 * time.Second, false},
		{"timeout=100", time.Minute - 1, true}, {"timeout=100", time.Minute, false},
		{"timeout=0", 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, dials := piped(t, answering("HTTP/1.1 200 OK\r\nKeep-Alive: "+test.said+"\r\nContent-Length: 2\r\n\r\n{}"))
			for range 2 {
				if _, err := post(t, c, "ds"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(test.rest)
				synctest.Wait()
			}
			if (dials.Load() == 1) != test.kept {
				t.Errorf("%q: %d connections after a rest of %v", test.said, dials.Load(), test.rest)
			}
		})
	}
	// The reaper aside: who takes one looks, too.
	c := New(Config{IdleTime: time.Minute})
	for rest, want := range map[time.Duration]bool{time.Minute - time.Second: true, time.Minute + time.Second: false} {
		near, _ := net.Pipe()
		p := &pool{idle: []idle{{&conn{Conn: near}, time.Now().Add(-rest)}}}
		if got := c.takeIdle(p); (got != nil) != want || len(p.idle) > 0 {
			t.Errorf("taken after %v: %t", rest, got != nil)
		}
		if err := near.SetDeadline(pastDeadline); (err == nil) != want {
			t.Errorf("open after %v: %t", rest, err == nil)
		}
	}
}

// TestReaper: connections are closed when they have rested for long enough, not
// before and not when the next request comes; and the reaper rests as well when
// there are none.
func TestReaper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 10)
		start := time.Now()
		c, _ := piped(t, func(conn net.Conn) {
			answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")(conn)
			ended <- time.Since(start)
		})
		if _, err := post(t, c, "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Second)
		if _, err := post(t, c, "b"); err != nil {
			t.Fatal(err)
		}
		for _, want := range []time.Duration{time.Minute, time.Minute + 7*time.Second} {
			if at := <-ended; at != want {
				t.Errorf("closed after %v, want %v", at, want)
			}
		}
		synctest.Wait()
		if c.reaper != nil || c.resting() > 0 {
			t.Errorf("the reaper runs on, %d rest", c.resting())
		}
		if _, err := post(t, c, "a"); err != nil || c.reaper == nil {
			t.Errorf("%v; the reaper runs: %t", err, c.reaper != nil)
		}
		c.CloseIdle()
		<-ended
		if c.reaper != nil || c.resting() > 0 {
			t.Errorf("all are closed, and %d rest; the reaper runs: %t", c.resting(), c.reaper != nil)
		}
	})
}

// TestReaperLooks: one that the peer has ended is closed, the others rest on.
func TestReaperLooks(t *testing.T) {
	end := make(chan struct{})
	var connects atomic.Int64
	addr := listen(t, func(conn net.Conn) {
		r := bufio.NewReader(conn)
		mine := connects.Add(1)
		http.ReadRequest(r)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		if mine == 2 {
			<-end
			return
		}
		io.Copy(io.Discard, r)
	})
	c, _ := newClient(t, nil)
	var all []*http.Response
	for range 3 {
		c.dials <- struct{}{}
		k, err := c.dial(t.Context(), addr, c.pool(addr))
		if err != nil {
			t.Fatal(err)
		}
		k.stopCancel = func() bool { return true }
		if _, err := k.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		resp, err := k.receive()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, resp)
	}
	second := c.pools[addr].idle[1]
	if c.reap(); c.resting() != len(all) {
		t.Fatalf("%d rest, want %d", c.resting(), len(all))
	}
	close(end)
	waittest.Until(t, "the end of the connection", func() bool { return !second.isQuiet() })
	if c.reap(); c.resting() != 2 || c.reaper == nil {
		t.Errorf("%d rest, want 2; the reaper runs: %t", c.resting(), c.reaper != nil)
	}
	if _, err := second.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("what the peer has ended was not closed: %v", err)
	}
}

// socketed is a pipe that is looked at as if it were a socket.
type socketed struct {
	net.Conn
	socket *net.TCPConn
}

func (s socketed) SyscallConn() (syscall.RawConn, error) { return s.socket.SyscallConn() }

// TestReaperInTime: one that the peer has ended is not kept until it would have been
// too old, whenever that was.
func TestReaperInTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, rest := range []time.Duration{time.Second, 12 * time.Second} {
		near, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		far, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			c, _ := newClient(t, func(config *Config) {
				config.Dial = func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go answering("HTTP/1.1 204 No Content\r\n\r\n")(theirs)
					return socketed{ours, near.(*net.TCPConn)}, nil
				}
			})
			if _, err := post(t, c, "ds"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(rest)
			if c.resting() != 1 {
				t.Fatalf("%d rest after %v", c.resting(), rest)
			}
			far.Close()
			for c.pools["ds:80"].idle[0].isQuiet() {
				runtime.Gosched()
			}
			time.Sleep(reapInterval)
			if synctest.Wait(); c.resting() > 0 {
				t.Errorf("ended after %v, it rests on for %v", rest, reapInterval)
			}
		})
		near.Close()
	}
}

// TestEndedAtRest: what the peer has ended since, or said something on, gets no request,
// and is closed.
func TestEndedAtRest(t *testing.T) {
	const answer = "HTTP/1.1 204 No Content\r\n\r\n"
	for name, then := range map[string]string{"ended": "", "one answer too many": answer} {
		t.Run(name, func(t *testing.T) {
			end := make(chan struct{})
			addr := listen(t, func(conn net.Conn) {
				r := bufio.NewReader(conn)
				http.ReadRequest(r)
				io.CopyN(io.Discard, r, int64(len("question")))
				io.WriteString(conn, answer)
				<-end
				if _, err := io.WriteString(conn, then); err == nil && then != "" {
					io.Copy(io.Discard, r)
				}
			})
			c, dials := newClient(t, nil)
			if _, err := post(t, c, addr); err != nil {
				t.Fatal(err)
			}
			first := c.pools[addr].idle[0]
			close(end)
			waittest.Until(t, "what the peer does", func() bool { return !first.isQuiet() })
			if _, err := post(t, c, addr); err != nil || dials.Load() != 2 {
				t.Errorf("%v, over %d connections; want 2", err, dials.Load())
			}
			if _, err := first.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the connection was not closed: %v", err)
			}
			c.CloseIdle()
		})
	}
}

// TestDistrust: the connection of an answer that was not meant for its request serves no
// other one, be the answer empty or not; and whoever has it by then is the last.
func TestDistrust(t *testing.T) {
	for _, text := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 204 No Content\r\n\r\n"} {
		addr := listen(t, answering(text))
		c, dials := newClient(t, nil)
		ask := func(connections int64) *http.Response {
			t.Helper()
			resp, _, err := c.Post(t.Context(), "http://"+addr+"/", nil, []byte("question"))
			if err != nil || dials.Load() != connections {
				t.Fatalf("%v over %d connections, want %d", err, dials.Load(), connections)
			}
			return resp
		}
		whole := func(resp *http.Response) {
			t.Helper()
			if _, err := read(resp, nil); err != nil {
				t.Fatal(err)
			}
		}
		first := ask(1)
		whole(first)
		other := c.pools[addr].idle[0]
		if Distrust(first); c.resting() != 0 {
			t.Error("a connection that rests is not closed")
		}
		if _, err := other.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a connection that rests is not closed: %v", err)
		}
		second := ask(2)
		whole(second)
		k := c.takeIdle(c.pool(addr)) // by another request
		Distrust(second)
		if _, err := k.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatalf("a connection that is in use is closed: %v", err)
		}
		k.stopCancel = func() bool { return true }
		last, err := k.receive()
		if err != nil {
			t.Fatal(err)
		}
		if whole(last); c.resting() != 0 {
			t.Error("a connection that was in use rests again")
		}
		whole(ask(3))
		whole(ask(3))
	}
}

// A counted connection knows how many bytes it was given to send.
type counted struct {
	net.Conn
	sent atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.sent.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// TestDistrustWithoutFarewell: a connection that is trusted no more ends without a word
// of TLS, for which a peer that does not listen could have us wait; be it that it rests
// already, or that its last request comes to its end. Others are left with one.
func TestDistrustWithoutFarewell(t *testing.T) {
	server, client := secured(t)
	addr := listen(t, func(conn net.Conn) {
		answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")(tls.Server(conn, server))
	})
	for _, test := range []struct {
		name   string
		part   func(c *Client, resp *http.Response)
		polite bool
	}{
		{"it rests", func(_ *Client, resp *http.Response) {
			_, _ = read(resp, nil)
			Distrust(resp)
		}, false},
		{"it is in use", func(_ *Client, resp *http.Response) {
			Distrust(resp)
			_, _ = read(resp, nil)
		}, false},
		{"it is not needed", func(c *Client, resp *http.Response) {
			_, _ = read(resp, nil)
			c.CloseIdle()
		}, true},
	} {
		var made *counted
		c, _ := newClient(t, func(config *Config) {
			config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				made = &counted{Conn: conn}
				return tls.Client(made, client), err
			}
		})
		resp, _, err := c.Post(t.Context(), "https://"+addr+"/", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		before := made.sent.Load()
		test.part(c, resp)
		if said := made.sent.Load() > before; said != test.polite {
			t.Errorf("%s: a farewell was sent: %t, want %t", test.name, said, test.polite)
		}
		if _, err := made.Write([]byte("x")); !errors.Is(err, net.ErrClosed) || c.resting() != 0 {
			t.Errorf("%s: the connection is not closed: %v, %d rest", test.name, err, c.resting())
		}
	}
}

// TestNoFarewell: one who does not listen any more is not waited for.
func TestNoFarewell(t *testing.T) {
	server, client := secured(t)
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClient(t, func(config *Config) {
			config.Dial = func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				go http.ReadRequest(bufio.NewReader(tls.Server(far, server)))
				return tls.Client(near, client), nil
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, sent, err := c.Post(ctx, "https://ds/", nil, nil)
		if took := time.Since(start); !sent || !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
			t.Errorf("sent %t, %v after %v, want a minute", sent, err, took)
		}
	})
}

// TestNewestFirst: those that are not needed are left to grow old.
func TestNewestFirst(t *testing.T) {
	c := New(Config{IdleTime: time.Minute})
	p := new(pool)
	var all []*conn
	for range 3 {
		near, _ := net.Pipe()
		all = append(all, &conn{Conn: near})
		p.idle = append(p.idle, idle{all[len(all)-1], time.Now()})
	}
	for i := range all {
		if got := c.takeIdle(p); got != all[len(all)-1-i] {
			t.Errorf("take %d: another one", i+1)
		}
	}
}

// TestBounds: no more connections rest than may, at each address.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		go1 := make(chan struct{})
		c, _ := piped(t, func(conn net.Conn) {
			http.ReadRequest(bufio.NewReader(conn))
			<-go1
			io.WriteString(conn, "HTTP/1.1 204 No\r\n\r\n")
			io.Copy(io.Discard, conn)
		})
		c.MaxIdle = 3
		for _, addr := range []string{"a", "b"} {
			for range 5 {
				go func() {
					if _, err := post(t, c, addr); err != nil {
						t.Error(err)
					}
				}()
			}
		}
		synctest.Wait()
		close(go1)
		synctest.Wait()
		if len(c.pools["a:80"].idle) != 3 || len(c.pools["b:80"].idle) != 3 {
			t.Errorf("%d and %d rest, want 3", len(c.pools["a:80"].idle), len(c.pools["b:80"].idle))
		}
		c.Close()
	})
}

// TestClose: connections in use when a client is closed do not come to rest, and
// those of requests that are made all the same neither.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply := make(chan struct{})
		c, dials := piped(t, func(conn net.Conn) {
			r := bufio.NewReader(conn)
			for {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				io.CopyN(io.Discard, r, int64(len("question")))
				<-reply
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
			}
		})
		go func() {
			if text, err := post(t, c, "ds"); text != "{}" {
				t.Errorf("in use when the client was closed: %q, %v", text, err)
			}
		}()
		synctest.Wait()
		c.Close()
		close(reply)
		synctest.Wait()
		if text, err := post(t, c, "ds"); text != "{}" || dials.Load() != 2 {
			t.Errorf("afterwards: %q, %v over %d connections", text, err, dials.Load())
		}
		if c.resting() > 0 || c.reaper != nil {
			t.Errorf("%d rest, the reaper runs: %t", c.resting(), c.reaper != nil)
		}
	})
}

// TestWaitsForEither: one who has no place to dial takes the connection that
// another is done with.
func TestWaitsForEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		reply := make(chan struct{})
		c, _ := newClient(t, func(config *Config) {
			config.MaxDials = 1
			config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				if dials.Add(1) > 2 {
					<-ctx.Done() // nobody there any more
					return nil, ctx.Err()
				}
				near, far := net.Pipe()
				go func() {
					defer far.Close()
					r := bufio.NewReader(far)
					for {
						if _, err := http.ReadRequest(r); err != nil {
							return
						}
						<-reply
						io.WriteString(far, "HTTP/1.1 204 No\r\n\r\n")
					}
				}()
				return near, nil
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		var answered, failed atomic.Int64
		for range 2 + 1 + 4 {
			go func() {
				resp, sent, err := c.Post(ctx, "http://ds/", nil, nil)
				if _, err = read(resp, err); err == nil {
					answered.Add(1)
				} else if !sent {
					failed.Add(1)
				}
			}()
			synctest.Wait()
		}
		close(reply)
		synctest.Wait()
		if answered.Load() != 6 || failed.Load() != 0 || dials.Load() != 3 {
			t.Errorf("%d answered, %d failed, %d dials; want 6, 0 and 3", answered.Load(), failed.Load(), dials.Load())
		}
		cancel()
		synctest.Wait()
		if failed.Load() != 1 || len(c.dials) > 0 {
			t.Errorf("%d failed, want the one that dials; %d places are taken", failed.Load(), len(c.dials))
		}
		c.Close()
	})
}

// TestWakesTheNext: two that come to rest at once may wake only one of those who
// wait; that one wakes the other.
func TestWakesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{IdleTime: time.Minute}) // no place to dial
		var served atomic.Int64
		for range 2 {
			go func() {
				if _, err := c.connection(t.Context(), "ds"); err == nil {
					served.Add(1)
				}
			}()
		}
		synctest.Wait()
		p := c.pool("ds")
		for range 2 {
			near, _ := net.Pipe()
			p.idle = append(p.idle, idle{&conn{Conn: near}, time.Now()})
		}
		p.wakeDialer()
		synctest.Wait()
		if served.Load() != 2 {
			t.Errorf("%d of 2 have a connection", served.Load())
		}
	})
}

// TestEndOfContext: whatever a request waits for, it ends with its context, and
// says whether anything was sent.
func TestEndOfContext(t *testing.T) {
	says := func(text string) func(net.Conn) {
		return func(conn net.Conn) {
			http.ReadRequest(bufio.NewReader(conn))
			io.WriteString(conn, text)
			io.Copy(io.Discard, conn)
		}
	}
	for _, test := range []struct {
		name  string
		serve func(net.Conn) // nil: the dial takes for ever
		busy  bool           // there is no place to dial
		sent  bool
	}{
		{"no place to dial", nil, true, false},
		{"dialing", nil, false, false},
		{"writing", func(conn net.Conn) {
			io.ReadFull(conn, make([]byte, 10))
			conn.Write([]byte("x")) // until the other side has gone
		}, false, true},
		{"waiting", says(""), false, true},
		{"in the header", says("HTTP/1.1 200 OK\r\nContent-Le"), false, true},
		{"after a sign of life", says("HTTP/1.1 100 Continue\r\n\r\n"), false, true},
		{"in the body", says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), false, true},
		{"in a chunk", says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{"), false, true},
	} {
		for _, late := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, _ := piped(t, test.serve)
					if test.serve == nil {
						c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
							<-ctx.Done()
							return nil, errors.New("not connected")
						}
					}
					if test.busy {
						c.dials = make(chan struct{})
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					want := context.DeadlineExceeded
					if !late {
						want = context.Canceled
						time.AfterFunc(time.Second, cancel)
					}
					start := time.Now()
					resp, sent, err := c.Post(ctx, "http://ds/", nil, make([]byte, 10_000))
					if sent != test.sent {
						t.Errorf("sent: %t", sent)
					}
					if _, readErr := read(resp, err); readErr == nil || err != nil && !errors.Is(err, want) || ctx.Err() != want {
						t.Errorf("Post: %v, the body: %v; want %v", err, readErr, want)
					}
					if took := time.Since(start); took != time.Minute && took != time.Second {
						t.Errorf("took %v", took)
					}
					if c.resting() > 0 {
						t.Error("the connection rests")
					}
					cancel()
				})
			})
		}
	}
	t.Run("before all", func(t *testing.T) {
		addr := listen(t, func(conn net.Conn) {
			if n, _ := conn.Read(make([]byte, 1)); n > 0 {
				t.Error("something was sent")
			}
		})
		c, _ := newClient(t, func(config *Config) {
			config.Dial = func(context.Context, string, string) (net.Conn, error) { return net.Dial("tcp", addr) }
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, sent, err := c.Post(ctx, "http://ds/", nil, nil); sent || !errors.Is(err, context.Canceled) {
			t.Errorf("sent %t, %v", sent, err)
		}
	})
}

// TestManyAtOnce: hundreds share the connections, many of which are given up at
// any moment. Those that are not all get their own answers: no deadline of
// another request, and nothing of its answer, is left on a connection.
func TestManyAtOnce(t *testing.T) {
	addr := listen(t, answeringEach(func(req *http.Request) string {
		return "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + req.Header.Get("Id")
	}))
	c, dials := newClient(t, func(config *Config) { config.MaxDials, config.MaxIdle = 8, 50 })
	const callers, each = 200, 30
	var givenUp atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for j := range each {
				ctx, cancel := context.WithCancel(t.Context())
				if patient := (i+j)%2 == 0; !patient {
					time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, cancel)
				}
				id := string([]byte{'a' + byte(i/26), 'a' + byte(i%26), 'a' + byte(j/26), 'a' + byte(j%26), 'x', 'x', 'x', 'x', 'x', 'x'})
				resp, _, err := c.Post(ctx, "http://"+addr+"/", http.Header{"Id": {id}}, nil)
				text, err := read(resp, err)
				switch {
				case err != nil && ctx.Err() == nil:
					t.Errorf("%v for one that was not given up", err)
				case err != nil:
					givenUp.Add(1)
				case text != id:
					t.Errorf("%q got the answer %q", id, text)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if c.resting() == 0 || c.resting() > 50 || len(c.dials) > 0 {
		t.Errorf("%d rest, %d are being made", c.resting(), len(c.dials))
	}
	t.Logf("%d of %d given up, %d connections", givenUp.Load(), callers*each, dials.Load())
}
