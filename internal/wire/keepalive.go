package wire

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A keepAlive is how long a peer keeps an idle connection, in nanoseconds, if it says so;
// 0: it does not. The peer closes one that is idle for longer, in the worst case just when
// the next request is on its way.
type keepAlive struct{ atomic.Int64 }

// learn reads a Keep-Alive header, such as "timeout=5, max=100". It takes off a second, or
// half of the time if that is less: a request takes its time to get there.
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
