// Package porttest gives tests addresses for processes that begin to listen later. Use [Addresses].
package porttest

import (
	"errors"
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
// listens on it, nor while the server restarts.
func Addresses(t testing.TB, n int) []string {
	t.Helper()
	var free []string
	for range n {
		port, err := Port()
		if err != nil {
			t.Fatal(err)
		}
		free = append(free, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return free
}

// Port returns the port of such an address as [Addresses] returns. A program that is no test may call it, too.
func Port() (port int, err error) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	for range 100_000 {
		if ports.next%portsPerBlock == 0 {
			if err := ports.takeBlock(); err != nil {
				return 0, err
			}
		}
		port = ports.next
		ports.next++
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free ports")
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
func (b *portBlock) takeBlock() error {
	for i, begin := 0, rand.IntN(portBlocks); i < portBlocks; i++ {
		first := firstPort + (begin+i)%portBlocks*portsPerBlock
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first))
		if err == nil {
			b.held, b.next = append(b.held, l), first+1
			return nil
		}
	}
	return errors.New("every block of ports is taken")
}
