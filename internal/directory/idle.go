package directory

import (
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A connection that rests too long is ended by the peer, in the worst case just
// when the next request is on its way.
const (
	// unusedTime is how long a connection that was made and then not needed may
	// wait for its first request: servers give a new one a few seconds for that.
	unusedTime = 2 * time.Second

	drainTime = 250 * time.Millisecond
)

// A patience is how long a peer keeps a connection that rests, as far as it says
// so; nanoseconds, 0: it says nothing.
type patience struct{ atomic.Int64 }

// learn reads a Keep-Alive header, such as "timeout=5, max=100". A second of it
// is ours: the next request takes its time to get there.
func (k *patience) learn(header string) {
	if header == "" {
		return
	}
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if n, err := strconv.ParseUint(value, 10, 16); err == nil && strings.EqualFold(name, "timeout") {
			said := time.Duration(n) * time.Second
			k.Store(int64(max(said-time.Second, said/2, 1)))
		}
	}
}

// rested reports whether a connection has rested for too long to be trusted with
// a request.
func (p *peer) rested(unused bool, idle time.Duration) bool {
	said := time.Duration(p.patience.Load())
	return unused && idle > unusedTime || said > 0 && idle > said
}

// drain reads what is left of an answer that nobody wants, so that the
// connection can be used again; not for long, and not much.
func drain(body io.ReadCloser) {
	end := time.AfterFunc(drainTime, func() { body.Close() })
	io.CopyN(io.Discard, body, maxHeader)
	end.Stop()
	body.Close()
}
