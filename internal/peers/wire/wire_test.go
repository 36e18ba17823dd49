package wire

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const maxHeader = 16 << 10

// listen starts a server that handles connections, each in a goroutine of its
// own; they are closed when handle returns. It returns the address.
func listen(t testing.TB, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				handle(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

// newClient is a client that counts the connections it makes. A change may be nil.
func newClient(t testing.TB, change func(*Config)) (*Client, *atomic.Int64) {
	dials := new(atomic.Int64)
	config := Config{MaxDials: 64, MaxIdle: 1000, IdleTime: time.Minute, MaxHeader: maxHeader, Dial: (&net.Dialer{}).DialContext}
	if change != nil {
		change(&config)
	}
	dial := config.Dial
	config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return dial(ctx, network, addr)
	}
	c := New(config)
	t.Cleanup(c.Close)
	return c, dials
}

// secured is the two sides of TLS.
func secured(t testing.TB) (server, client *tls.Config) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, &tls.Config{RootCAs: roots, ServerName: "example.com"}
}

// read reads a whole answer.
func read(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func post(t testing.TB, c *Client, addr string) (string, error) {
	t.Helper()
	resp, sent, err := c.Post(t.Context(), "http://"+addr+"/", nil, []byte("question"))
	if err == nil && !sent {
		t.Error("there is an answer to what was not sent")
	}
	return read(resp, err)
}

// answering answers every request with the same bytes.
func answering(text string) func(net.Conn) {
	return answeringEach(func(*http.Request) string { return text })
}

// answeringEach answers every request as answer says, and hangs up after an answer
// with the header X-Hang-Up.
func answeringEach(answer func(*http.Request) string) func(net.Conn) {
	return func(conn net.Conn) {
		r := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			text := answer(req)
			if _, err := io.WriteString(conn, text); err != nil || strings.Contains(text, "\r\nX-Hang-Up:") {
				return
			}
		}
	}
}

// resting is how many connections rest.
func (c *Client) resting() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pools {
		n += len(p.idle)
	}
	return n
}

// TestRequest: what leaves is, byte by byte, what net/http sends.
func TestRequest(t *testing.T) {
	for _, test := range []struct {
		path   string
		header http.Header
		body   string
	}{
		{"", nil, ""},
		{"/", http.Header{}, "{}"},
		{"/ds/areq?a=b&c=%20#part",
			http.Header{"Content-Type": {"application/json; charset=utf-8"}, "X-Request-Id": {"8a880dc0-d2d2-4067-bcb1-b08d1690b26e"}}, `{"messageType":"AReq"}`},
		{"/a b/é", http.Header{"Content-Type": {"application/xml; charset=utf-8"}, "Accept-Encoding": {"gzip"}}, strings.Repeat("é", 50_000)},
		{"/", http.Header{"X": {"1", "2"}, "A": {" "}}, "x"},
	} {
		var mu sync.Mutex
		var all []string
		addr := listen(t, func(conn net.Conn) {
			var text strings.Builder
			r := bufio.NewReader(io.TeeReader(conn, &text))
			req, err := http.ReadRequest(r)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				t.Error(err)
			}
			mu.Lock()
			all = append(all, text.String())
			mu.Unlock()
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		})
		c, _ := newClient(t, nil)
		resp, _, err := c.Post(t.Context(), "http://"+addr+test.path, test.header, []byte(test.body))
		if _, err := read(resp, err); err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range test.header {
			req.Header[name] = values
		}
		req.Header["User-Agent"] = []string{""} // that is: none
		plain := &http.Transport{DisableCompression: true}
		resp, err = plain.RoundTrip(req)
		if _, err := read(resp, err); err != nil {
			t.Fatal(err)
		}
		plain.CloseIdleConnections()
		if len(all) != 2 || all[0] != all[1] {
			t.Errorf("%q: sent\n%q, and net/http sends\n%q", test.path, all[0], all[1])
		}
	}
}

// TestNoBreakOut: a value stays a value.
func TestNoBreakOut(t *testing.T) {
	var b bytes.Buffer
	u, _ := url.Parse("http://ds/%0d%0a?\u00a0")
	if err := writeRequest(&b, u, http.Header{"A": {"b\r\nC: d\r\n\r\ne"}}, nil); err != nil || bytes.Count(b.Bytes(), []byte("\n")) != 5 {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// TestOneWrite: a request goes out in one piece.
func TestOneWrite(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	c, _ := newClient(t, func(config *Config) {
		config.Dial = func(context.Context, string, string) (net.Conn, error) { return near, nil }
	})
	var got int
	var all sync.WaitGroup
	all.Go(func() {
		got, _ = far.Read(make([]byte, 1<<20)) // of one Write
		io.WriteString(far, "HTTP/1.1 204 No Content\r\n\r\n")
	})
	resp, _, err := c.Post(t.Context(), "http://x/", http.Header{"A": {"b"}}, make([]byte, 100_000))
	if _, err := read(resp, err); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if got < 100_000 {
		t.Errorf("%d bytes in the first piece", got)
	}
}

// TestBrokenWrite: what left only in part gets no answer, though the peer may have
// one for it.
func TestBrokenWrite(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	go io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
	gone := errors.New("gone")
	c, _ := newClient(t, func(config *Config) {
		config.Dial = func(context.Context, string, string) (net.Conn, error) { return &spy{Conn: near, fails: gone}, nil }
	})
	if _, sent, err := c.Post(t.Context(), "http://x/", nil, []byte("question")); !errors.Is(err, gone) || !sent {
		t.Errorf("sent %t, %v", sent, err)
	}
}

func TestAddress(t *testing.T) {
	for address, want := range map[string]string{
		"https://ds.example/areq": "ds.example:443", "https://ds.example:8443": "ds.example:8443", "http://ds.example": "ds.example:80",
		"https://[::1]/": "[::1]:443", "https://[::1]:1/": "[::1]:1", "https://ds.example:/": "ds.example:443",
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := addrOf(u); got != want {
			t.Errorf("%s leads to %s, want %s", address, got, want)
		}
	}
	c, dials := newClient(t, nil)
	if _, sent, err := c.Post(t.Context(), "http://a b/", nil, nil); err == nil || sent || dials.Load() > 0 {
		t.Errorf("no URL: sent %t, %v", sent, err)
	}
}

// TestAnswers has answers that are good and bad, and whether another request
// goes over the same connection.
func TestAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	for _, test := range []struct {
		name, answer string
		status       int // 0: an error
		body         string
		kept         bool
	}{
		{"length", ok, 200, "{}", true},
		{"nothing", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", true},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n", 200, "{}", true},
		{"chunks and a trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nA: b\r\n\r\n", 200, "{}", true},
		{"an error with a body", "HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\n{}", 503, "{}", true},
		{"after signs of life", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok, 200, "{}", true},
		{"the peer says close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", 200, "{}", false},
		{"the peer says close to nothing", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 200, "", false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, "{}", false},
		{"HTTP/1.0 that would be kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}", 200, "{}", false},
		{"until the end", "HTTP/1.1 200 OK\r\nX-Hang-Up: 1\r\n\r\n{}", 200, "{}", false},
		{"more than announced", ok + "x", 200, "{}", false},
		{"two answers", ok + ok, 200, "{}", false},
		{"more than nothing", "HTTP/1.1 204 No Content\r\n\r\n" + ok, 204, "", false},
		{"another protocol", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", 101, "", false},
		{"cut off", "HTTP/1.1 200 OK\r\nX-Hang-Up: 1\r\nContent-Length: 3\r\n\r\n{}", 0, "", false},
		{"cut off in the header", "HTTP/1.1 200 OK\r\nX-Hang-Up: 1\r\n", 0, "", false},
		{"a chunk that is none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 0, "", false},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 0, "", false},
		{"no HTTP", "what?\r\n\r\n", 0, "", false},
		{"endless signs of life", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxHeader/25+1), 0, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			addr := listen(t, answering(test.answer))
			c, dials := newClient(t, nil)
			for range 2 {
				resp, sent, err := c.Post(t.Context(), "http://"+addr+"/", nil, []byte("question"))
				status := 0
				if err == nil {
					status = resp.StatusCode
				}
				body, err := read(resp, err)
				if err != nil {
					status, body = 0, ""
				}
				if status != test.status || body != test.body || !sent {
					t.Fatalf("sent %t, status %d, %q, %v", sent, status, body, err)
				}
			}
			if want := map[bool]int64{true: 1, false: 2}[test.kept]; dials.Load() != want {
				t.Errorf("%d connections, want %d", dials.Load(), want)
			}
		})
	}
}

// TestHeaderLimit: all that comes before a body is bounded together.
func TestHeaderLimit(t *testing.T) {
	for _, before := range []string{"", "HTTP/1.1 100 Continue\r\n\r\n"} {
		for _, size := range []int{maxHeader - 1, maxHeader, maxHeader + 1, 2 * maxHeader} {
			head, end := before+"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nX: ", "\r\n\r\n"
			head += strings.Repeat("x", size-len(head)-len(end)) + end
			addr := listen(t, answering(head+strings.Repeat("y", 100_000)))
			c, _ := newClient(t, nil)
			text, err := post(t, c, addr)
			if (err == nil) != (size <= maxHeader) || err == nil && len(text) != 100_000 {
				t.Errorf("a header of %d bytes: %d bytes of body, %v", size, len(text), err)
			}
			if size == 2*maxHeader && (err == nil || !strings.Contains(err.Error(), "exceeds 16384 bytes")) {
				t.Errorf("a header of %d bytes: %v does not say why", size, err)
			}
		}
	}
}

// TestLeftInTLS: what a peer says after its answer may be in a record that TLS
// has taken from the socket already, where nobody sees it. It is no answer to the
// next request.
func TestLeftInTLS(t *testing.T) {
	server, client := secured(t)
	server.DynamicRecordSizingDisabled = true
	const size = 12_000
	answer := "HTTP/1.1 200 OK\r\nContent-Length: 12000\r\n\r\n" + strings.Repeat("x", size)
	for stray, want := range map[string]int64{"": 1, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}": 2} {
		addr := listen(t, func(conn net.Conn) { answering(answer + stray)(tls.Server(conn, server)) })
		c, dials := newClient(t, func(config *Config) {
			config.Dial = (&tls.Dialer{Config: client}).DialContext
		})
		for range 2 {
			resp, _, err := c.Post(t.Context(), "http://"+addr+"/", nil, []byte("question"))
			if err != nil {
				t.Fatal(err)
			}
			body := make([]byte, size) // of one piece, so that no buffer sees what follows
			if _, err := io.ReadFull(resp.Body, body); err != nil || resp.ContentLength != size {
				t.Errorf("%d bytes, %v", resp.ContentLength, err)
			}
			for range 2 {
				if n, err := resp.Body.Read(body); n != 0 || err != io.EOF {
					t.Errorf("after the end: %d bytes, %v", n, err)
				}
			}
			resp.Body.Close()
		}
		if dials.Load() != want {
			t.Errorf("with %q after an answer: %d connections, want %d", stray, dials.Load(), want)
		}
	}
}

// TestNotRead: a connection with an answer that was not read is not used again,
// and neither is the answer.
func TestNotRead(t *testing.T) {
	addr := listen(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 100_000)))
	c, dials := newClient(t, nil)
	for _, some := range []int64{0, 1, 99_999} {
		resp, _, err := c.Post(t.Context(), "http://"+addr+"/", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		io.CopyN(io.Discard, resp.Body, some)
		resp.Body.Close()
		resp.Body.Close()
		if n, err := resp.Body.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("after Close: %d bytes, %v", n, err)
		}
	}
	if dials.Load() != 3 || c.resting() > 0 {
		t.Errorf("%d connections, %d rest", dials.Load(), c.resting())
	}
}

// TestCloseWhileReading: another goroutine may give up what one waits for.
func TestCloseWhileReading(t *testing.T) {
	addr := listen(t, func(conn net.Conn) {
		r := bufio.NewReader(conn)
		http.ReadRequest(r)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
		io.Copy(io.Discard, r)
	})
	c, _ := newClient(t, nil)
	resp, _, err := c.Post(t.Context(), "http://"+addr+"/", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Read(make([]byte, 1))
	time.AfterFunc(time.Millisecond, func() { resp.Body.Close() })
	if n, err := resp.Body.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestLargeReads: what is long is not read in small pieces.
func TestLargeReads(t *testing.T) {
	addr := listen(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", 1_000_000)))
	var counted *counting
	c, _ := newClient(t, func(config *Config) {
		dial := config.Dial
		config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			made, err := dial(ctx, network, addr)
			counted = &counting{Conn: made}
			return counted, err
		}
	})
	resp, _, err := c.Post(t.Context(), "http://"+addr+"/", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, make([]byte, 256<<10)); n != 1_000_000 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	resp.Body.Close()
	if counted.largest < 250_000 {
		t.Errorf("the socket was never asked for more than %d bytes", counted.largest)
	}
}

type counting struct {
	net.Conn
	largest int
}

func (c *counting) Read(b []byte) (int, error) {
	c.largest = max(c.largest, len(b))
	return c.Conn.Read(b)
}
