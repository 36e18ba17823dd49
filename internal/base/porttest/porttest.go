// Package porttest gives tests addresses for processes that begin to listen later. Use [Addresses].
package porttest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Address is [Addresses] for one.
func Address(t testing.TB) string {
	t.Helper()
	return Addresses(t, 1)[0]
}

// Addresses returns loopback addresses that no process listens on. It never returns an address twice in the life of
// this process, so several servers of a test can get theirs before any of them listens. The ports are below those that
// a system gives to connections and to listeners on any port. So no other process takes an address before the server
// listens on it.
func Addresses(t testing.TB, n int) []string {
	t.Helper()
	ports.mu.Lock()
	defer ports.mu.Unlock()
	var free []string
	for tries := 0; len(free) < n; tries++ {
		if tries > 100_000 {
			t.Fatal("no free ports")
		}
		if ports.next%portsPerBlock == 0 {
			ports.takeBlock(t)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ports.next))
		ports.next++
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		free = append(free, l.Addr().String())
	}
	return free
}

// The ports of tests are in blocks. Each block belongs to one process, which listens on the first port of the block as
// long as it lives.
const (
	firstPort     = 18_000
	portsPerBlock = 100
	portBlocks    = 140
)

var ports portBlock

// A portBlock gives out the ports of one block after the other.
type portBlock struct {
	mu   sync.Mutex
	next int            // the port to try next; a block begins if it is a multiple of portsPerBlock
	held []net.Listener // the first port of each block of this process
}

// takeBlock finds a block that no process has. It begins anywhere, since a block may have been left a moment ago.
func (b *portBlock) takeBlock(t testing.TB) {
	t.Helper()
	for i, begin := 0, rand.IntN(portBlocks); i < portBlocks; i++ {
		first := firstPort + (begin+i)%portBlocks*portsPerBlock
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first))
		if err == nil {
			b.held, b.next = append(b.held, l), first+1
			return
		}
	}
	t.Fatal("every block of ports is taken")
}
