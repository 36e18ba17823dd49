package wire

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A keepAlive is how long the peer keeps an idle connection, in nanoseconds, or 0 if it does not tell. The peer closes
// a connection that is idle for longer, in the worst case just when the next request is on its way.
type keepAlive struct{ atomic.Int64 }

// learn reads a header Keep-Alive, such as "timeout=5, max=100". It subtracts a second, or half of the time if that is
// less, because a request takes time to arrive.
func (k *keepAlive) learn(header string) {
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
