package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// exchangeTimeout bounds every exchange on a connection, unless a pool has a shorter one.
const exchangeTimeout = 90 * time.Second

// A conn speaks HTTP/1.1 on one connection that is kept alive. It does as little
// as a client can, because client and server share the processors: a request is
// bytes that are ready to be written, and an answer must have a Content-Length.
type conn struct {
	net.Conn
	r    *bufio.Reader
	body []byte    // of the last answer
	n    int       // exchanges so far
	last time.Time // when the last one ended or, before the first, when the connection was made
}

// request makes the bytes of a POST request.
func request(address, path, key string, body []byte) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nAPIKey: %s\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s",
		path, address, key, len(body), body)
}

// do sends a request and reads the answer, its body into c.body.
func (c *conn) do(request []byte) (status int, err error) {
	if _, err := c.Write(request); err != nil {
		return 0, err
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, errors.New("answer is not HTTP")
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, err
	}
	length := -1
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		}
	}
	if length < 0 {
		return 0, errors.New("answer has no Content-Length")
	}
	c.body = slices.Grow(c.body[:0], length)[:length]
	_, err = io.ReadFull(c.r, c.body)
	return status, err
}

// A pool makes connections to one address and keeps those that are idle.
type pool struct {
	address string
	tls     *tls.Config   // nil means plain TCP
	timeout time.Duration // the limit of an exchange; 0 means the package's default

	mu   sync.Mutex
	idle []*conn
}

// get returns an idle connection, the one used last, or a new one.
func (p *pool) get() (*conn, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	return p.dial()
}

// maxExchange is how long dialing, a handshake, or an exchange may take.
func (p *pool) maxExchange() time.Duration { return cmp.Or(p.timeout, exchangeTimeout) }

func (p *pool) dial() (*conn, error) {
	raw, err := net.DialTimeout("tcp", p.address, p.maxExchange())
	if err != nil {
		return nil, err
	}
	if p.tls != nil {
		secured := tls.Client(raw, p.tls)
		if err := secured.SetDeadline(time.Now().Add(p.maxExchange())); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		if err := secured.Handshake(); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		raw = secured
	}
	return &conn{Conn: raw, r: bufio.NewReaderSize(raw, 4096), last: time.Now()}, nil
}

func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
}

// close closes the connections that are idle.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		_ = c.Close()
	}
	p.idle = nil
}

// fill makes connections until n are idle.
func (p *pool) fill(n int) error {
	var taken []*conn
	defer func() {
		for _, c := range taken {
			p.put(c)
		}
	}()
	for range n {
		c, err := p.get()
		if err != nil {
			return err
		}
		taken = append(taken, c)
	}
	return nil
}

// do makes one exchange on an idle or new connection, and calls use with the answer. The
// body may be overwritten after use has returned. A connection is closed when an exchange
// on it fails, but not when use returns an error.
func (p *pool) do(request []byte, use func(status int, body []byte) error) error {
	c, err := p.get()
	if err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(p.maxExchange())); err != nil {
		return errors.Join(err, c.Close())
	}
	status, err := c.do(request)
	if err != nil {
		return errors.Join(fmt.Errorf("%s, exchange %d, %v after it was last used: %w", p.address, c.n+1, time.Since(c.last), err), c.Close())
	}
	c.n, c.last = c.n+1, time.Now()
	err = use(status, c.body)
	p.put(c)
	return err
}
