package gate

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const (
	testLine   = "POST /preauth HTTP/1.1\r\n"
	testAnswer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno"
)

// doored is a server behind a door whose gate can be shut.
type doored struct {
	refused atomic.Int64
	asked   atomic.Int64 // requests that came in and had been asked about
	*httptest.Server
}

func newDoored(t *testing.T) *doored {
	d := new(doored)
	g := New()
	d.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case Asked(r.Context()):
			d.asked.Add(1)
		case r.URL.Path == "/preauth" && !g.Admit(Begin):
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "no")
			return
		}
		if Asked(r.Context()) {
			t.Error("asked twice")
		}
		_, _ = io.Copy(w, r.Body)
	}))
	patience := new(Patience)
	door := &Door{Listener: patience.Listener(d.Listener), Gate: g, Line: testLine, Answer: func() []byte {
		d.refused.Add(1)
		return []byte(testAnswer)
	}}
	d.Config.IdleTimeout = time.Minute
	patience.Attach(d.Config)
	door.Attach(d.Config)
	d.Listener = door
	d.Start()
	t.Cleanup(d.Close)
	return d
}

// turn shuts or opens a gate, which then looks no more.
func turn(g *Gate, level float64) {
	g.next.Store(math.MaxInt64)
	g.level.Store(math.Float64bits(level))
}

func TestDoor(t *testing.T) {
	d := newDoored(t)
	g := d.Listener.(*Door).Gate
	c, err := net.Dial("tcp", d.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	answer := func(status int, body string) {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(res.Body); res.StatusCode != status || string(got) != body {
			t.Errorf("%d %q, want %d %q", res.StatusCode, got, status, body)
		}
	}
	send := func(parts ...string) {
		t.Helper()
		for _, part := range parts {
			if _, err := io.WriteString(c, part); err != nil {
				t.Fatal(err)
			}
		}
	}
	const head = testLine + "Host: x\r\nContent-Length: 4\r\n\r\n"
	send(head + "good")
	answer(200, "good")
	if d.asked.Load() != 1 {
		t.Error("the handler asks the gate again")
	}
	turn(g, 1)
	// net/http looks for the caller to go while a handler works, and may get the
	// first byte of what comes next. Then it is the handler's.
	for range 1000 {
		send(head + "late")
		answer(503, "no")
		if d.refused.Load() > 0 {
			break
		}
	}
	send(head + "more")
	answer(503, "no")
	if n := d.refused.Load(); n != 2 {
		t.Errorf("the door refused %d, want 2", n)
	}
	// What is not plain goes to the handler, which has not been asked about it.
	send(strings.Replace(head, "/preauth", "/auth", 1) + "auth")
	answer(200, "auth")
	send(head) // and the body later
	time.Sleep(50 * time.Millisecond)
	send("body")
	answer(503, "no")
	// Neither the rest of a header nor a body is ever taken for a request.
	send("POST /auth HTTP/1.1\r\nHost: x\r\nX-A: ")
	time.Sleep(50 * time.Millisecond)
	send(testLine + "Content-Length: 4\r\n\r\nrest")
	answer(200, "rest")
	inner := head + "evil"
	outer := strings.Replace(testLine, "/preauth", "/auth", 1) + "Host: x\r\nContent-Length: "
	for _, dots := range []string{"", strings.Repeat(".", 10)} {
		body := inner + dots
		send(outer + strconv.Itoa(len(body)) + "\r\n\r\n")
		time.Sleep(50 * time.Millisecond)
		send(body)
		answer(200, body)
	}
	if d.asked.Load() != 1 {
		t.Error("the gate was asked about what the door left to the handler")
	}
	send(head + "shut")
	answer(503, "no")
	turn(g, 0)
	send(head + "open")
	answer(200, "open")
}

// TestDoorBehindTheReader: what lies in the reader of net/http already is the beginning
// of a request, and what comes after it is none, whatever it looks like.
func TestDoorBehindTheReader(t *testing.T) {
	d := newDoored(t)
	turn(d.Listener.(*Door).Gate, 1)
	c, err := net.Dial("tcp", d.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for _, step := range []struct {
		say, want string
		status    int
	}{
		{"POST /auth HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nauthX", "auth", 200},
		{testLine + "Host: x\r\nContent-Length: 4\r\n\r\nlate", "no", 503}, // XPOST, by the handler
	} {
		if _, err := io.WriteString(c, step.say); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(res.Body); res.StatusCode != step.status || string(got) != step.want {
			t.Errorf("%d %q, want %d %q", res.StatusCode, got, step.status, step.want)
		}
	}
	if n := d.refused.Load(); n > 0 {
		t.Errorf("the door refused %d requests of another method", n)
	}
}

// TestDoorAtTheEnd: when it is left all goes on to the handler.
func TestDoorAtTheEnd(t *testing.T) {
	d := newDoored(t)
	door := d.Listener.(*Door)
	turn(door.Gate, 1)
	for i, leave := range []bool{false, true} {
		if leave {
			door.Leave()
		}
		res, err := d.Client().Post(d.URL+"/preauth", "", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if n := d.refused.Load(); res.StatusCode != 503 || n != 1 {
			t.Errorf("request %d: %d, the door refused %d", i, res.StatusCode, n)
		}
	}
}

// one is a listener of one connection.
type one chan net.Conn

func (o one) Accept() (net.Conn, error) {
	if c, ok := <-o; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (one) Close() error { return nil }

func (one) Addr() net.Addr { return &net.TCPAddr{} }

// TestDoorTimes: a request that comes after a refusal has the time that any other has,
// and not what is left since the connection began.
func TestDoorTimes(t *testing.T) {
	const header, arrival, idle = 3 * time.Second, 5 * time.Second, time.Minute
	const head = testLine + "Host: x\r\nContent-Length: 4\r\n\r\n"
	for _, test := range []struct {
		name  string
		rest  time.Duration // after the refusal
		parts []string      // of the next request
		after time.Duration // between them
		want  int
		took  time.Duration
	}{
		{"soon", time.Second, []string{head, "body"}, time.Second, 200, time.Second},
		{"late", idle - time.Second, []string{head, "body"}, arrival - time.Millisecond, 200, arrival - time.Millisecond},
		{"late and too slow", idle - time.Second, []string{head, "body"}, arrival + time.Second, 500, arrival},
		{"slow header", 10 * time.Second, []string{head[:40], head[40:] + "body"}, header - time.Millisecond, 200, header - time.Millisecond},
		{"too slow header", 10 * time.Second, []string{head[:40], head[40:] + "body"}, header + time.Second, 400, header},
		{"in one piece", idle - time.Second, []string{head + "body"}, 0, 200, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := New()
				turn(g, 1)
				s := &http.Server{ReadHeaderTimeout: header, ReadTimeout: arrival, WriteTimeout: time.Hour, IdleTimeout: idle}
				s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.ReadAll(r.Body); err != nil {
						w.WriteHeader(http.StatusInternalServerError)
					}
				})
				patience := new(Patience)
				near, far := net.Pipe()
				l := make(one, 1)
				l <- far
				door := &Door{Listener: patience.Listener(l), Gate: g, Line: testLine, Answer: func() []byte { return []byte(testAnswer) }}
				patience.Attach(s)
				door.Attach(s)
				ended := make(chan error)
				go func() { ended <- s.Serve(door) }()
				var writers sync.WaitGroup
				defer func() {
					near.Close()
					close(l)
					s.Close()
					<-ended
					writers.Wait()
				}()
				writers.Go(func() { io.WriteString(near, head+"body") })
				r := bufio.NewReader(near)
				if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 503 {
					t.Fatal(res, err)
				}
				r.Discard(len("no"))
				time.Sleep(test.rest)
				turn(g, 0)
				start := time.Now()
				writers.Go(func() {
					for i, part := range test.parts {
						if i > 0 {
							time.Sleep(test.after)
						}
						if _, err := io.WriteString(near, part); err != nil {
							return
						}
					}
				})
				status := 0
				res, err := http.ReadResponse(r, nil)
				if err == nil {
					status = res.StatusCode
				}
				if took := time.Since(start); status != test.want || took != test.took {
					t.Errorf("%d after %v (%v), want %d after %v", status, took, err, test.want, test.took)
				}
			})
		})
	}
}

// FuzzWhole: what is taken for a whole request is one to net/http too, the same
// and nothing beyond it.
func FuzzWhole(f *testing.F) {
	for _, seed := range []string{
		"Host: x\r\nContent-Length: 4\r\n\r\nbody", "Host: x\r\nContent-Length: 4\r\n\r\nbod", "Host: x\r\nContent-Length: 3\r\n\r\nbody",
		"Host: x\r\ncontent-length:4 \r\nContent-Length: 4\r\n\r\nbody", "Host: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\nbody",
		"Host: x\r\nContent-Length : 4\r\n\r\nbody", "Host: x\r\nContent-Length: +4\r\n\r\nbody", "Host: x\r\nContent-Length: 4\r\n Folded: 1\r\n\r\nbody",
		"Host: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody", "Host: x\nContent-Length: 4\n\nbody", "Host: x\r\nA: b\rContent-Length: 1\r\nContent-Length: 4\r\n\r\nbody",
		"Host: x\r\nContent-Length: 99999\r\n\r\nbody", "Host: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody", "Host: x\r\n\r\n", "\r\n\r\n", "\r\n\r\nx",
	} {
		f.Add([]byte(testLine + seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !whole(data, testLine) {
			return
		}
		r := bufio.NewReader(bytes.NewReader(data))
		req, err := http.ReadRequest(r)
		if err != nil {
			return // net/http would refuse it and close the connection: so much the worse for it
		}
		body, err := io.ReadAll(req.Body)
		if err != nil || req.Method != http.MethodPost || req.URL.Path != "/preauth" || int64(len(body)) != req.ContentLength || req.Close {
			t.Errorf("%q: %v %s %s, %d bytes of %d", data, err, req.Method, req.URL.Path, len(body), req.ContentLength)
		}
		if rest, _ := io.ReadAll(r); len(rest) > 0 {
			t.Errorf("%q: %q is left", data, rest)
		}
	})
}

func TestWhole(t *testing.T) {
	for _, tt := range []struct {
		rest string
		want bool
	}{
		{"Host: x\r\nContent-Length: 4\r\n\r\nbody", true},
		{"content-LENGTH:4\r\n\r\nbody", true},
		{"Host: x\r\nContent-Length: 5\r\n\r\nbody", false},
		{"Host: x\r\nContent-Length: 3\r\n\r\nbody", false},
		{"Host: x\r\nContent-Length: 4\r\n\r\nbodyPOST", false},
		{"Host: x\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nbody", false},
		{"Host: x\r\nContent-Length: 0\r\nContent-Length: 4\r\n\r\nbody", false},
		{"Host: x\r\nContent-Length: 4\r\nTransfer-Encoding: identity\r\n\r\nbody", false},
		{"Host: x\r\nContent-Length: 4\r\nTransfer-Encoding : chunked\r\n\r\nbody", false},
		{"Host: x\r\nContent-Length: 4\r\n\tTransfer-Encoding: chunked\r\n\r\nbody", false},
		{"Host: x\r\nContent-Length: 4\r\nTransfer-Encoding\r\n\r\nbody", false},
		{"Host: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody", false},
		{"Host: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody", false},
		{"Host: x\r\nContent-Length: 4\r\n folded\r\n\r\nbody", false},
		{"Host: x\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\nbody", false},
		{"Host: x\rContent-Length: 5\r\nContent-Length: 4\r\n\r\nbody", false},
		{"Host: x\r\nContent-Length: -4\r\n\r\nbody", false},
		{"Host: x\r\nContent-Length: 0x4\r\n\r\nbody", false},
		{"Host: x\r\nContent-Length: none\r\n\r\n", false},
		{"Host: x\r\nContent-Length: 65535\r\n\r\n" + strings.Repeat("x", 65535), true},
		{"Host: x\r\nContent-Length: 65536\r\n\r\n" + strings.Repeat("x", 65536), false},
		{"Host: x\r\nContent-Length: 4, 4\r\n\r\nbody", false},
		{"Host: x\r\n\r\n", false},
		{"Host: x\r\nContent-Length: 4\r\n", false},
	} {
		if got := whole([]byte(testLine+tt.rest), testLine); got != tt.want {
			t.Errorf("whole(%.120q) = %t", tt.rest, got)
		}
	}
	if whole([]byte("POST /preauth2 HTTP/1.1\r\nContent-Length: 0\r\n\r\n"), testLine) {
		t.Error("another path")
	}
}

// TestHook: what is hooked to a server hears of its connections, and so does what was there
// before, first.
func TestHook(t *testing.T) {
	s, heard := new(http.Server), ""
	for _, name := range []string{"a", "b", "c"} {
		hook(s, func(net.Conn, http.ConnState) { heard += name }, func(ctx context.Context, _ net.Conn) context.Context {
			heard += strings.ToUpper(name)
			return ctx
		})
	}
	s.ConnState(nil, http.StateNew)
	s.ConnContext(t.Context(), nil)
	if heard != "abcABC" {
		t.Errorf("heard: %s, want abcABC", heard)
	}
}
