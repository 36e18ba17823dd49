package wire

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// spy is a connection that keeps hold of the memory it is given.
type spy struct {
	net.Conn
	said  string
	seen  []byte
	fails error
}

func (s *spy) Write(p []byte) (int, error) {
	s.said, s.seen = string(p), p
	return len(p), s.fails
}

// TestRequestsAreWiped: of a request, which holds a card number, nothing stays in
// memory that another one gets, whether it left or not.
func TestRequestsAreWiped(t *testing.T) {
	u, err := url.Parse("https://ds.example/areq")
	if err != nil {
		t.Fatal(err)
	}
	const number = "4000001234567890"
	for _, body := range []string{number, strings.Repeat(number, 200), strings.Repeat(number, 2*maxKeptBuffer/len(number))} {
		for _, fails := range []error{nil, errors.New("gone")} {
			s := &spy{fails: fails}
			k := &conn{Conn: s}
			if err := k.send(u, http.Header{"X-Request-Id": {number}}, []byte(body)); !errors.Is(err, fails) {
				t.Fatalf("send: %v, want %v", err, fails)
			}
			if !strings.HasSuffix(s.said, "\r\n\r\n"+body) {
				t.Fatalf("%d bytes left, that do not end with the body", len(s.said))
			}
			if i := bytes.IndexFunc(s.seen, func(c rune) bool { return c != 0 }); i >= 0 {
				t.Errorf("body of %d bytes, write fails: %v: still there: %q", len(body), fails, s.seen[i:min(i+40, len(s.seen))])
			}
		}
	}
}

// TestAnswersAreWiped is the same of answers: they hold authentication values.
func TestAnswersAreWiped(t *testing.T) {
	for _, size := range []int{1, 100, 4 << 10, 10 << 10} {
		r := bufio.NewReaderSize(nil, 4<<10)
		r.Reset(strings.NewReader(strings.Repeat("AAABBCJZUwAAAAAAUFlTAAAAAAA=", 1+size/28)[:size]))
		held, _ := r.Peek(r.Size()) // all of its memory, if there is enough to fill it
		held = held[:cap(held)]
		releaseReader(r)
		if i := bytes.IndexFunc(held, func(c rune) bool { return c != 0 }); i >= 0 {
			t.Errorf("%d bytes: still there: %q", size, held[i:min(i+40, len(held))])
		}
	}
}

// TestAnswersLeaveNothing: whoever reads an answer to its end, its buffer is clean.
func TestAnswersLeaveNothing(t *testing.T) {
	addr := listen(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 28\r\n\r\nAAABBCJZUwAAAAAAUFlTAAAAAAA="))
	c, _ := newClient(t, nil)
	resp, _, err := c.Post(t.Context(), "http://"+addr+"/", nil, []byte("question"))
	if err != nil {
		t.Fatal(err)
	}
	held, _ := resp.Body.(*body).reader.Peek(28)
	if string(held[:6]) != "AAABBC" {
		t.Fatalf("the buffer begins with %q", held)
	}
	if text, err := read(resp, nil); len(text) != 28 {
		t.Fatalf("%q, %v", text, err)
	}
	if i := bytes.IndexFunc(held, func(c rune) bool { return c != 0 }); i >= 0 {
		t.Errorf("still there: %q", held[i:])
	}
}
