// Package tunneltest is a forward proxy for tests.
package tunneltest

import (
	"bufio"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// A Proxy connects only to the addresses that it is given. Their names need not exist anywhere else.
type Proxy struct {
	Address string

	mu    sync.Mutex
	ways  map[string]string // by HOST:PORT that is asked for
	auth  string            // Proxy-Authorization that is wanted; "": none
	play  func(net.Conn)
	asked map[string]int
	conns map[net.Conn]bool
}

// Start runs a proxy until the test ends; with TLS if there is a configuration of it.
func Start(t testing.TB, config *tls.Config) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: l.Addr().String(), ways: make(map[string]string), asked: make(map[string]int), conns: make(map[net.Conn]bool)}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.track(conn, true)
			all.Go(func() {
				defer p.track(conn, false)
				defer conn.Close()
				p.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.Cut()
		all.Wait()
	})
	return p
}

func (p *Proxy) track(conn net.Conn, there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[conn] = true; !there {
		delete(p.conns, conn)
	}
}

// Way has connections to addr, which may be no address at all, lead to another.
func (p *Proxy) Way(addr, to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ways[addr] = to
}

// Demand makes the proxy require this value of the header Proxy-Authorization; "" means none.
func (p *Proxy) Demand(auth string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.auth = auth
}

// Play lets f answer in the place of the proxy on new connections. Nil ends that.
func (p *Proxy) Play(f func(net.Conn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.play = f
}

// Asked is how often each address was asked for.
func (p *Proxy) Asked() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.asked)
}

// Conns is how many connections there are.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Cut ends all connections through the proxy.
func (p *Proxy) Cut() {
	p.mu.Lock()
	all := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	for _, conn := range all {
		if above, ok := conn.(interface{ NetConn() net.Conn }); ok {
			conn = above.NetConn()
		}
		conn.Close()
	}
}

func (p *Proxy) serve(conn net.Conn) {
	p.mu.Lock()
	play := p.play
	p.mu.Unlock()
	if play != nil {
		play(conn)
		return
	}
	r := bufio.NewReader(conn)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked[req.RequestURI]++
	to, ok := p.ways[req.RequestURI]
	welcome := p.auth == "" || req.Header.Get("Proxy-Authorization") == p.auth
	p.mu.Unlock()
	switch {
	case req.Method != http.MethodConnect || req.Host != req.RequestURI:
		io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		return
	case !welcome:
		io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"out\"\r\nContent-Length: 2\r\n\r\nno")
		return
	case !ok:
		io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno")
		return
	}
	far, err := net.Dial("tcp", to)
	if err != nil {
		io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\n\r\n")
		return
	}
	defer far.Close()
	io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(conn, far)
		conn.Close()
	}()
	io.Copy(far, r)
	far.Close()
	<-done
}
