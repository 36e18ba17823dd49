// Package wire is a client of HTTP/1.1 for requests that may leave only once. A
// request is written and its answer is read by the goroutine that wants it, so
// there is no doubt whether anything was sent, and a request that waits costs
// next to nothing beyond its connection.
//
// It does POST, over connections that somebody else makes, with TLS or without.
// It follows no redirect, knows no proxy and no cookie, repeats nothing, and adds
// nothing to a request but Host and Content-Length.
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

// Config is what a client goes by. All fields must be set.
type Config struct {
	// Dial makes a connection that is ready for a request, its TLS handshake done. It
	// must return when ctx ends.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	MaxDials  int           // how many connections may be made at once
	MaxIdle   int           // how many connections to one address may be idle
	IdleTime  time.Duration // how long a connection may be idle
	MaxHeader int64         // how many bytes of an answer may come before its body
}

// A Client keeps connections between requests. It may be used by many
// goroutines. Close it when it is no longer used.
type Client struct {
	Config
	dials chan struct{} // a place for each connection that is being made

	mu     sync.Mutex
	pools  map[string]*pool // by address
	reaper *time.Timer      // runs while connections are idle; else nil
	closed bool
}

// New returns a client.
func New(config Config) *Client {
	return &Client{Config: config, dials: make(chan struct{}, config.MaxDials), pools: make(map[string]*pool)}
}

// Post sends a request and returns its answer, whatever the status. When ctx ends, all
// of that ends, the reading of the answer's body too. Sent reports whether any byte of the
// request may have left. The caller closes the body of the answer; the connection is used
// again only if the body was read to its end before. The error is an [*Unanswered] if a new
// connection ended before any byte of an answer.
func (c *Client) Post(ctx context.Context, address string, header http.Header, body []byte) (resp *http.Response, sent bool, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, false, err
	}
	k, err := c.connection(ctx, addrOf(u))
	if err != nil {
		if end := ctx.Err(); end != nil && !errors.Is(err, end) { // an error that wraps end says more than end
			err = end
		}
		return nil, false, err
	}
	// From now on the end of ctx ends all reads and writes on the connection.
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
// has taken the connection, and then refused it or failed. A connection that was used before may end so because it
// rested for too long.
type Unanswered struct{ Err error }

func (e *Unanswered) Error() string { return e.Err.Error() }

func (e *Unanswered) Unwrap() error { return e.Err }

// addrOf is where a URL leads.
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

// requests are buffers that requests are put together in. One is needed only until its
// request has left.
var requestBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// largeRequest is up to which capacity, in bytes, a buffer is kept for the next request.
const maxKeptBuffer = 64 << 10

// writeRequest puts a whole request into b, to be sent by one Write.
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
