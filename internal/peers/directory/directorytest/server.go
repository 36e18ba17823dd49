// Package directorytest plays directory servers with faults, to test clients of directory
// servers: real TLS on real sockets, under control from the first byte of a connection on.
package directorytest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A Server is a directory server that plays a [Fault]. Until Play is called it has none.
type Server struct {
	URL  string
	Good func(message []byte) []byte // makes the body of a good answer

	ca        *authority
	elsewhere net.Listener           // where redirects lead
	visited   chan struct{}          // gets an entry for each connection there
	configs   map[string]*tls.Config // by what is wrong with the certificate
	running   sync.WaitGroup

	mu    sync.Mutex
	fault Fault
	over  chan struct{} // closed when the fault is no longer wanted
	conns []net.Conn
	got   []string // messages that came, except error messages
	told  []string // error messages that came
}

// Start starts a server that ends with the test.
func Start(t testing.TB, good func(message []byte) []byte) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		URL: "https://" + l.Addr().String(), Good: good, ca: newAuthority(t), elsewhere: elsewhere, visited: make(chan struct{}, 100),
		over: make(chan struct{}),
	}
	s.configs = s.ca.configs()
	s.running.Go(func() { accept(l, s.serve) })
	s.running.Go(func() {
		accept(elsewhere, func(conn net.Conn) {
			s.visited <- struct{}{}
			_ = conn.Close()
		})
	})
	t.Cleanup(func() {
		_ = l.Close()
		_ = elsewhere.Close()
		s.Play(Fault{})
		s.running.Wait()
	})
	return s
}

// accept handles each connection in a goroutine of its own, until the listener
// is closed; then it waits for them.
func accept(l net.Listener, handle func(net.Conn)) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		all.Go(func() { handle(conn) })
	}
}

// Trusted adds the authority of the server's good certificates to a pool.
func (s *Server) Trusted(pool *x509.CertPool) { pool.AddCert(s.ca.cert) }

// Play gives new connections a fault, ends the previous fault on connections that still have it, and closes all
// connections.
func (s *Server) Play(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.over)
	s.over = make(chan struct{})
	s.fault = f
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
}

// Got returns how many messages came that hold a text, not counting error messages.
func (s *Server) Got(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(holding(s.got, text))
}

// Told returns the error messages that came and hold a text.
func (s *Server) Told(text string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return holding(s.told, text)
}

// holding returns those of the messages that hold a text.
func holding(all []string, text string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(m string) bool { return !strings.Contains(m, text) })
}

// Elsewhere reports whether anybody followed a redirect.
func (s *Server) Elsewhere() bool { return len(s.visited) > 0 }

// A Session is a connection to a server with a fault.
type Session struct {
	net.Conn                 // a *tls.Conn from the handshake on
	Over     <-chan struct{} // closed when the fault is no longer wanted
	server   *Server
	raw      *net.TCPConn
}

func (s *Server) serve(raw net.Conn) {
	s.mu.Lock()
	s.conns = append(s.conns, raw)
	f, c := s.fault, &Session{Conn: raw, Over: s.over, server: s, raw: raw.(*net.TCPConn)}
	s.mu.Unlock()
	defer raw.Close()
	if f.Raw != nil {
		f.Raw(c)
		return
	}
	secured := tls.Server(raw, s.configs[f.Certificate])
	if secured.Handshake() != nil {
		return
	}
	c.Conn = secured
	if f.Early != nil {
		f.Early(c)
		return
	}
	for r := bufio.NewReader(secured); ; {
		message, err := readMessage(r)
		if err != nil || !s.answer(c, f, message) {
			return
		}
	}
}

// answer answers a message and reports whether there may be another one.
func (s *Server) answer(c *Session, f Fault, message []byte) bool {
	isError := bytes.Contains(message, []byte(`"messageType":"Erro"`)) || bytes.Contains(message, []byte("<Error>"))
	s.mu.Lock()
	if isError {
		s.told = append(s.told, string(message))
	} else {
		s.got = append(s.got, string(message))
	}
	s.mu.Unlock()
	switch {
	case isError:
		c.Respond(200, nil, nil)
	case f.Answer != nil:
		return f.Answer(c, s.Good(message))
	default:
		c.Respond(200, nil, s.Good(message))
	}
	return true
}

func readMessage(r *bufio.Reader) ([]byte, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(req.Body)
}

// Respond writes a complete answer.
func (c *Session) Respond(status int, header http.Header, body []byte) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), len(body))
	_ = header.Write(&b)
	b.WriteString("\r\n")
	b.Write(body)
	_, _ = c.Write(b.Bytes())
}

// Say writes a text, whatever it is, and reports whether the connection is still good.
func (c *Session) Say(format string, args ...any) bool {
	_, err := fmt.Fprintf(c, format, args...)
	return err == nil
}

// Reset closes the connection with a TCP reset; what was sent may be lost.
func (c *Session) Reset() {
	_ = c.raw.SetLinger(0)
	_ = c.raw.Close()
}
