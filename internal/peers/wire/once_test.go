package wire

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// TestOnce: 10,000 requests to a server whose connections die at any moment. None
// arrives twice, one that is said not to have been sent never arrives, and one
// that is answered has arrived.
func TestOnce(t *testing.T) {
	const requests, callers = 10_000, 40
	var mu sync.Mutex
	arrived := make(map[string]int)
	addr := listen(t, func(conn net.Conn) {
		if rand.IntN(2) == 0 { // abruptly, whatever was sent
			conn.(*net.TCPConn).SetLinger(0)
		}
		if rand.IntN(30) == 0 {
			return
		}
		if rand.IntN(30) == 0 {
			conn.Read(make([]byte, 1+rand.IntN(100)))
			return
		}
		r := bufio.NewReader(conn)
		for {
			if rand.IntN(20) == 0 { // while it rests
				conn.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(1000)) * time.Microsecond))
				if _, err := r.Peek(1); err != nil {
					return
				}
				conn.SetReadDeadline(time.Time{})
			}
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			mu.Lock()
			arrived[req.Header.Get("Id")]++
			mu.Unlock()
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			answer := "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"
			ends := rand.IntN(5)
			if ends == 0 { // in the middle
				answer = answer[:rand.IntN(len(answer))]
			}
			if _, err := io.WriteString(conn, answer); err != nil || ends <= 1 {
				return
			}
		}
	})
	c, dials := newClient(t, func(config *Config) {
		config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if rand.IntN(10) == 0 {
				return nil, errors.New("nobody there")
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	})
	var answered, broken, unsent int
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for j := range requests / callers {
				id := strconv.Itoa(i*requests + j)
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(20) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(1000))*time.Microsecond, cancel)
				}
				resp, sent, err := c.Post(ctx, "http://"+addr+"/", http.Header{"Id": {id}}, make([]byte, 3000))
				if err == nil && !sent {
					t.Error("an answer to what was not sent")
				}
				_, err = read(resp, err)
				cancel()
				mu.Lock()
				n := arrived[id]
				switch {
				case n > 1, err == nil && n != 1, !sent && n > 0:
					t.Errorf("sent %t, %v, and it arrived %d times", sent, err, n)
				case err == nil:
					answered++
				case sent:
					broken++
				default:
					unsent++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	mu.Lock()
	defer mu.Unlock()
	for id, n := range arrived { // some only when nobody waited any more
		if n > 1 {
			t.Errorf("%s arrived %d times", id, n)
		}
	}
	t.Logf("%d answered, %d broken, %d not sent, over %d connections", answered, broken, unsent, dials.Load())
	if answered < requests/2 || broken == 0 || unsent == 0 {
		t.Error("too little of each to show anything")
	}
}

// TestUnansweredTellsNewConnectionsFromUsedOnes: the error of a request says whether a new connection ended before any
// byte of an answer. It does not say so of a connection that was used before, after a byte of an answer, or when the
// time of the request was over.
func TestUnansweredTellsNewConnectionsFromUsedOnes(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	for _, test := range []struct {
		name   string
		before int // requests that are answered on the connection
		says   string
		waits  bool // it does not end the connection
		want   bool
	}{
		{"new", 0, "", false, true},
		{"used", 1, "", false, false},
		{"new, after a byte", 0, answer[:1], false, false},
		{"new, within the header", 0, answer[:20], false, false},
		{"new, no answer in time", 0, "", true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			addr := listen(t, func(conn net.Conn) {
				r := bufio.NewReader(conn)
				for i := 0; ; i++ {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					io.CopyN(io.Discard, r, int64(len("question")))
					if i == test.before {
						break
					}
					io.WriteString(conn, answer)
				}
				if io.WriteString(conn, test.says); test.waits {
					cancel()
					io.Copy(io.Discard, conn)
				}
			})
			c, dials := newClient(t, nil)
			for range test.before {
				if _, err := post(t, c, addr); err != nil {
					t.Fatal(err)
				}
			}
			_, sent, err := c.Post(ctx, "http://"+addr+"/", nil, []byte("question"))
			_, got := errors.AsType[*Unanswered](err)
			if err == nil || !sent || got != test.want || dials.Load() != 1 {
				t.Errorf("%v, sent %t, over %d connections: unanswered %t, want %t", err, sent, dials.Load(), got, test.want)
			}
		})
	}
}
