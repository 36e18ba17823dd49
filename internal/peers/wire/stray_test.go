package wire

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestStrayAnswersReachNoOtherRequest makes 2,000 exchanges with a server that sends a fifth of its answers twice. The
// copy, or its beginning, leaves in the same write as the answer. No request gets the answer to another one.
func TestStrayAnswersReachNoOtherRequest(t *testing.T) {
	const callers, exchanges = 20, 100
	server, client := secured(t)
	client.ClientSessionCache = tls.NewLRUClientSessionCache(64)
	addr := listen(t, func(conn net.Conn) {
		secured := tls.Server(conn, server)
		answeringEach(func(req *http.Request) string {
			body := req.Header.Get("Id") + strings.Repeat(" ", rand.IntN(9000)) // more than a buffer holds
			answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			switch rand.IntN(10) {
			case 0:
				return answer + answer
			case 1:
				return answer + answer[:1+rand.IntN(len(answer)-1)]
			}
			return answer
		})(secured)
	})
	c, dials := newClient(t, func(config *Config) { config.Dial = (&tls.Dialer{Config: client}).DialContext })
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for j := range exchanges {
				id := strconv.Itoa(1_000_000 + i*exchanges + j)
				resp, _, err := c.Post(t.Context(), "https://"+addr+"/", http.Header{"Id": {id}}, nil)
				if got, err := read(resp, err); err != nil || strings.TrimSpace(got) != id {
					t.Errorf("request %s got %q, %v", id, got, err)
				}
				for range rand.IntN(50) { // other callers take this one's connection, or do not
					runtime.Gosched()
				}
			}
		})
	}
	all.Wait()
	if n := dials.Load(); n < callers {
		t.Errorf("%d connections: no stray answer cost one", n)
	}
}
