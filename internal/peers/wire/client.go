// Package wire is a client of HTTP/1.1 for requests that may leave only once. Use [New] and [Client.Post].
//
// The goroutine that calls Post writes the request and reads the answer. So it is always known whether any byte of a
// request may have left, and a waiting request takes little memory beyond its connection.
//
// The client supports POST, over connections that Config.Dial makes, with TLS or without. It follows no redirects, has
// no proxies and no cookies, repeats no request, and adds only Host and Content-Length to a request.
package wire

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config is the configuration of a client. All fields must be set.
type Config struct {
	// Dial makes a connection that is ready for a request, after its TLS handshake. It must return when ctx ends.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	MaxDials  int           // most connections that are being made at once
	MaxIdle   int           // most idle connections to one address
	IdleTime  time.Duration // longest time that a connection may be idle
	MaxHeader int64         // longest header of an answer in bytes
}

// A Client posts requests and keeps connections between them. Its methods are safe for concurrent use. Close it when it
// is no longer used.
type Client struct {
	Config
	dials chan struct{} // holds one element for each connection that is being made

	mu     sync.Mutex
	pools  map[string]*pool // by address
	reaper *time.Timer      // runs while connections are idle; else it is nil
	closed bool
}

// New returns a client.
func New(config Config) *Client {
	return &Client{Config: config, dials: make(chan struct{}, config.MaxDials), pools: make(map[string]*pool)}
}

// Post sends a request and returns the answer, whatever its status. Sent reports whether any byte of the request may
// have left. The end of ctx ends everything, also reading the body of the answer. The caller closes the body. The
// connection is used again only if the body was read to its end before. The error is an [*Unanswered] if a new
// connection ended before any byte of an answer.
func (c *Client) Post(ctx context.Context, address string, header http.Header,
	body []byte) (resp *http.Response, sent bool, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, false, err
	}
	k, err := c.connection(ctx, addrOf(u))
	if err != nil {
		if end := ctx.Err(); end != nil && !errors.Is(err, end) { // an error that wraps end says more
			err = end
		}
		return nil, false, err
	}
	// From here on the end of ctx ends all reads and writes of the connection.
	k.stopCancel = context.AfterFunc(ctx, func() { _ = k.SetDeadline(pastDeadline) })
	if ctx.Err() != nil {
		k.abort()
		return nil, false, ctx.Err()
	}
	fresh := !k.used
	k.used, k.answerBegun = true, false
	if err = k.send(u, header, body); err == nil {
		resp, err = k.receive()
	}
	if err == nil {
		return resp, true, nil
	}
	k.abort()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case fresh && !k.answerBegun:
		err = &Unanswered{err}
	}
	return nil, true, err
}

// Unanswered is the error of a request on a new connection that ended before any byte of an answer came. The server
// has accepted the connection, and then refused it or failed. A connection that was used before may end so because it
// was idle for too long.
type Unanswered struct{ Err error }

func (e *Unanswered) Error() string { return e.Err.Error() }

func (e *Unanswered) Unwrap() error { return e.Err }

// addrOf returns the address HOST:PORT of a URL.
func addrOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
		if u.Scheme == "http" {
			port = "80"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// requestBuffers holds the buffers in which requests are composed. A request needs its buffer only until it was
// written.
var requestBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxKeptBuffer is the largest capacity in bytes with which a buffer is kept for the next request.
const maxKeptBuffer = 64 << 10

// writeRequest writes a whole request to b, so that one Write sends it.
func writeRequest(b *bytes.Buffer, u *url.URL, header http.Header, body []byte) error {
	b.WriteString("POST ")
	b.WriteString(u.RequestURI())
	b.WriteString(" HTTP/1.1\r\nHost: ")
	b.WriteString(strings.TrimSuffix(u.Host, ":"))
	b.WriteString("\r\nContent-Length: ")
	b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(len(body)), 10))
	b.WriteString("\r\n")
	if err := header.Write(b); err != nil {
		return err
	}
	b.WriteString("\r\n")
	b.Write(body)
	return nil
}
