package browsertest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// A Network stands between a browser and the servers of a test. It can be cut and mended, and be slow, whatever
// engine the browser has. The zero value is a fast one. All connections share its rate.
type Network struct {
	mu          sync.Mutex
	isCut       bool
	delay       time.Duration // of each direction
	rate        int           // bytes a second in each direction; 0 means without limit
	free        [2]time.Time  // when all earlier bytes of a direction have been sent
	connections map[net.Conn]bool
}

// Listen returns an address of a host of this machine that leads to the one of a server, until the test ends.
func (n *Network) Listen(t testing.TB, host, server string) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			connection, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { n.serve(connection, server) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		n.closeAll()
		running.Wait()
	})
	return l.Addr().String()
}

// Cut breaks all connections and refuses new ones until Mend.
func (n *Network) Cut() {
	n.mu.Lock()
	n.isCut = true
	n.mu.Unlock()
	n.closeAll()
}

// Mend ends what Cut began.
func (n *Network) Mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isCut = false
}

// Slow has a round trip take some time, and sets how many bytes a second pass in each direction.
// Zeros make it fast again.
func (n *Network) Slow(roundTrip time.Duration, bytesPerSecond int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay, n.rate = roundTrip/2, bytesPerSecond
}

func (n *Network) closeAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.connections {
		_ = c.Close()
	}
}

// add keeps a connection for Cut. It closes and reports one that comes while the network is cut.
func (n *Network) add(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isCut {
		_ = c.Close()
		return false
	}
	if n.connections == nil {
		n.connections = map[net.Conn]bool{}
	}
	n.connections[c] = true
	return true
}

func (n *Network) remove(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.connections, c)
	_ = c.Close()
}

func (n *Network) serve(browser net.Conn, server string) {
	if tcp, is := browser.(*net.TCPConn); is {
		_ = tcp.SetLinger(0) // a cut connection is reset
	}
	if !n.add(browser) {
		return
	}
	defer n.remove(browser)
	n.mu.Lock()
	handshake := 2 * n.delay
	n.mu.Unlock()
	time.Sleep(handshake)
	back, err := new(net.Dialer).DialContext(context.Background(), "tcp", server)
	if err != nil || !n.add(back) {
		return
	}
	defer n.remove(back)
	var both sync.WaitGroup
	both.Go(func() { n.carry(back, browser, 0) })
	both.Go(func() { n.carry(browser, back, 1) })
	both.Wait()
}

// due returns when bytes that come now are to be sent on.
func (n *Network) due(direction, bytes int) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.rate == 0 {
		return now.Add(n.delay)
	}
	if n.free[direction].Before(now) {
		n.free[direction] = now
	}
	n.free[direction] = n.free[direction].Add(time.Duration(bytes) * time.Second / time.Duration(n.rate))
	return n.free[direction].Add(n.delay)
}

// carry copies one direction of a connection. What was read earlier may still wait to be sent.
func (n *Network) carry(to, from net.Conn, direction int) {
	type part struct {
		bytes []byte
		due   time.Time
	}
	parts := make(chan part, 64)
	go func() {
		defer close(parts)
		for {
			buffer := make([]byte, 4096)
			count, err := from.Read(buffer)
			if count > 0 {
				parts <- part{buffer[:count], n.due(direction, count)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range parts {
		time.Sleep(time.Until(p.due))
		_, _ = to.Write(p.bytes) // the reader ends when this connection does
	}
	_ = to.Close()
	_ = from.Close()
}
