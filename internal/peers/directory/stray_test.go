package directory

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

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
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body) // which is the id
			if err != nil {
				return
			}
			if stray && former != "" {
				io.WriteString(conn, former)
				_, _ = r.Peek(1) // until the client hangs up, or sends the next request
				stray = false
			}
			former = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n<%s>", len(body)+2, body)
			io.WriteString(conn, former)
		}
	})
	v2, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
	v1, _ := newV1(t, V1Peer{Scheme: "visa", URL: address, TLS: ca.client()})
	for name, send := range map[string]func(id string) ([]byte, error){
		"AReq": func(id string) ([]byte, error) {
			return v2.Send(t.Context(), "visa", "Shop", []byte(id), id, message.V231, "")
		},
		"VEReq": func(id string) ([]byte, error) {
			return v1.Exchange(t.Context(), "visa", "Shop", "VEReq", id, []byte(id))
		},
	} {
		connects.Store(0)
		lost := 0
		for range 10 {
			id := newTransID()
			answer, err := send(id)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(answer), id) {
				lost++
			}
		}
		if lost != 1 || connects.Load() != 2 {
			t.Errorf("%d of %ss got an answer to another one, over %d connections; want 1 over 2", lost, name, connects.Load())
		}
	}
}
