package directory

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/message"
)

// TestOneAnswerTooMany: a directory server gives one answer twice, the second time when
// the next request has come. That request is lost, for there is no other answer to it;
// those after it are not, though each would find the answer to the one before.
func TestOneAnswerTooMany(t *testing.T) {
	ca := newAuthority(t)
	var connects atomic.Int64
	address := serveRaw(t, ca.server(), func(conn net.Conn) {
		stray := connects.Add(1) == 1
		r := bufio.NewReader(conn)
		former := ""
		for {
			req := readRequest(r)
			if req == nil {
				return
			}
			if stray && former != "" {
				io.WriteString(conn, former)
				time.Sleep(20 * time.Millisecond)
				stray = false
			}
			body := `{"threeDSServerTransID":"` + req.Header.Get("X-Request-ID") + `"}`
			former = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			io.WriteString(conn, former)
			time.Sleep(20 * time.Millisecond)
		}
	})
	c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
	lost := 0
	for range 10 {
		id := newTransID()
		answer, err := c.Send(t.Context(), "visa", []byte("{}"), id, message.V231, "")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(answer), id) {
			lost++
		}
	}
	if lost != 1 || connects.Load() != 2 {
		t.Errorf("%d requests got an answer to another one, over %d connections; want 1 over 2", lost, connects.Load())
	}
}
