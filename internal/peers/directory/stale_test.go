package directory

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/openthreeds/threeds/message"
)

// A use is which connection a request went over, and when that was looked at
// before.
type use struct {
	conn   string
	chosen time.Time
}

var idSent = regexp.MustCompile(`\r\nX-Request-Id: (\S+)\r\n`)

// A watched connection tells of its uses.
type watched struct {
	net.Conn
	below socketWatched
	wrote func(request []byte, looked time.Time)
}

// A socketWatched knows when it was made or looked at since the last request.
type socketWatched struct {
	syscall.RawConn
	looked *atomic.Pointer[time.Time]
}

func (s socketWatched) Control(f func(fd uintptr)) error {
	now := time.Now()
	s.looked.Store(&now)
	return s.RawConn.Control(f)
}

func (w *watched) SyscallConn() (syscall.RawConn, error) { return w.below, nil }

func (w *watched) Write(b []byte) (int, error) {
	now := time.Now()
	w.wrote(b, *cmp.Or(w.below.looked.Swap(nil), &now))
	return w.Conn.Write(b)
}

// pauseAtRandom lets a connection rest for about as long as the directory server leaves it open. The moment is what the
// test varies, not what it waits for: any other one is as good.
func pauseAtRandom() { time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond) }

// TestStaleConnections: a directory server closes idle connections whenever it
// likes. A request fails only when the close was on its way already while the
// request left: never on a connection that had ended before it was chosen, and
// never without having been sent. None arrives twice. STALE=long makes it 10,000
// requests.
func TestStaleConnections(t *testing.T) {
	requests := 400
	if os.Getenv("STALE") == "long" {
		requests = 10_000
	}
	ca := newAuthority(t)
	var mu sync.Mutex
	arrived, closed := make(map[string]int), make(map[string]time.Time)
	address := serveRaw(t, ca.server(), func(conn net.Conn) {
		if conn.(*tls.Conn).Handshake() != nil {
			return
		}
		peer := conn.RemoteAddr().String()
		mu.Lock()
		delete(closed, peer) // of an earlier connection from that port
		mu.Unlock()
		r := bufio.NewReader(conn)
		for patience := 200 * time.Millisecond; ; patience = time.Duration(rand.IntN(4000)) * time.Microsecond {
			conn.SetReadDeadline(time.Now().Add(patience))
			if _, err := r.Peek(1); err != nil {
				conn.Close()
				end := time.Now()
				mu.Lock()
				closed[peer] = end
				mu.Unlock()
				return
			}
			conn.SetReadDeadline(time.Time{})
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
	uses := make(map[string]use) // by the request's id
	p := c.peers["visa"]
	dial := p.client.Dial
	p.client.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		made, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		below, err := made.(*tls.Conn).NetConn().(syscall.Conn).SyscallConn()
		now, looked := time.Now(), new(atomic.Pointer[time.Time])
		looked.Store(&now)
		return &watched{Conn: made, below: socketWatched{below, looked}, wrote: func(request []byte, looked time.Time) {
			mu.Lock()
			defer mu.Unlock()
			uses[string(idSent.FindSubmatch(request)[1])] = use{made.LocalAddr().String(), looked}
		}}, err
	}
	var failed, unsent, avoidable int
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range requests / 8 {
				pauseAtRandom()
				id := newTransID()
				_, err := c.Send(t.Context(), "visa", "Shop", []byte("{}"), id, message.V231, "")
				mu.Lock()
				if arrived[id] > 1 || err == nil && arrived[id] != 1 {
					t.Errorf("%v, and the request arrived %d times", err, arrived[id])
				}
				if e, ok := errors.AsType[*Error](err); ok {
					failed++
					use := uses[id]
					end, ended := closed[use.conn]
					switch {
					case e.Kind == Connect:
						unsent++
					case ended && end.Before(use.chosen):
						avoidable++
					}
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	t.Logf("%d of %d requests failed, %d though nothing was sent, %d over connections that had ended before", failed, requests, unsent, avoidable)
	if unsent > 0 || avoidable > 0 {
		t.Errorf("%d requests failed that need not have", unsent+avoidable)
	}
	if failed > requests/2 {
		t.Error("hardly any was answered")
	}
}
