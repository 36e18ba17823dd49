package wire

import (
	"context"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A script is a connection on which the peer says the same, whatever it is asked,
// and then ends it.
type script struct {
	net.Conn
	says  []byte
	asked chan struct{}
	once  sync.Once
}

func (s *script) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.asked) })
	return len(b), nil
}

func (s *script) Read(b []byte) (int, error) {
	<-s.asked
	if len(s.says) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.says)
	s.says = s.says[n:]
	return n, nil
}

func (s *script) Close() error {
	s.once.Do(func() { close(s.asked) })
	return nil
}

func (s *script) SetDeadline(time.Time) error     { return nil }
func (s *script) SetReadDeadline(time.Time) error { return nil }

// An outcome is what came of a request.
type outcome struct {
	status int // 0: no answer
	header http.Header
	body   string
	whole  bool
}

func outcomeOf(resp *http.Response, err error) outcome {
	if err != nil {
		return outcome{}
	}
	if resp.StatusCode == http.StatusSwitchingProtocols { // where net/http hands out the connection
		resp.Body.Close()
		return outcome{resp.StatusCode, resp.Header, "", true}
	}
	text, err := read(resp, nil)
	return outcome{resp.StatusCode, resp.Header, text, err == nil}
}

// FuzzAnswer: whatever a peer says, it is read as net/http reads it.
func FuzzAnswer(f *testing.F) {
	const most = 300          // bytes of a header, so that few are needed to find it
	log.SetOutput(io.Discard) // of net/http
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 503 No\r\n\r\nno",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
		"HTTP/1.1 204 No Content\r\nKeep-Alive: timeout=5\r\n\r\n", "HTTP/7 200 OK\r\n\r\n", "what?\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", most),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, says string) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			return &script{says: []byte(says), asked: make(chan struct{})}, nil
		}
		c := New(Config{Dial: dial, MaxDials: 1, MaxIdle: 1, IdleTime: time.Minute, MaxHeader: most})
		defer c.Close()
		resp, _, err := c.Post(t.Context(), "http://ds/", nil, nil)
		got := outcomeOf(resp, err)

		plain := &http.Transport{DialContext: dial, DisableCompression: true, MaxResponseHeaderBytes: most}
		defer plain.CloseIdleConnections()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://ds/", nil)
		resp, err = plain.RoundTrip(req)
		want := outcomeOf(resp, err)
		if got.status != want.status || got.body != want.body || got.whole != want.whole || !maps.EqualFunc(got.header, want.header, slices.Equal) {
			t.Errorf("%q:\n%+v, and by net/http\n%+v", says, got, want)
		}
		if c.resting() > 0 {
			t.Errorf("%q: the connection is kept, though the peer has ended it", says)
		}
	})
}
