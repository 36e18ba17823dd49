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
	"cmp"
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

// Config is what a client goes by. All of it is needed.
type Config struct {
	// Dial makes a connection, ready for the first byte of a request. It has to
	// end with ctx.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	MaxDials  int           // connections that are being made
	MaxIdle   int           // connections that rest, to each address
	IdleTime  time.Duration // how long one rests at most
	MaxHeader int64         // bytes of an answer before its body
}

// A Client keeps connections between requests. It may be used by many
// goroutines. Close it when it is no longer used.
type Client struct {
	Config
	dials chan struct{} // a place for each connection that is being made

	mu     sync.Mutex
	pools  map[string]*pool // by address
	reaper *time.Timer      // runs while connections rest; else nil
	closed bool
}

// New returns a client.
func New(config Config) *Client {
	return &Client{Config: config, dials: make(chan struct{}, config.MaxDials), pools: make(map[string]*pool)}
}

// Post sends a request and returns its answer, whatever the status. When ctx ends
// so does all of it, up to the end of the answer's body. Sent reports whether the
// request may have left, in part or whole. The body of the answer has to be
// closed; its connection is used again only if it was read to the end before.
func (c *Client) Post(ctx context.Context, address string, header http.Header, body []byte) (resp *http.Response, sent bool, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, false, err
	}
	k, err := c.connection(ctx, addrOf(u))
	if err != nil {
		if end := ctx.Err(); end != nil && !errors.Is(err, end) { // else it says more
			err = end
		}
		return nil, false, err
	}
	// From now on the end of ctx ends what waits on the connection.
	k.unguard = context.AfterFunc(ctx, func() { _ = k.SetDeadline(past) })
	if ctx.Err() != nil {
		k.drop()
		return nil, false, ctx.Err()
	}
	if err = k.send(u, header, body); err == nil {
		resp, err = k.receive()
	}
	if err != nil {
		k.drop()
		return nil, true, cmp.Or(ctx.Err(), err)
	}
	return resp, true, nil
}

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

// requests are buffers to write in. One is needed only until a request has left.
var requests = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// largeRequest is from where on a buffer is not kept.
const largeRequest = 64 << 10

// write puts a request into one piece.
func write(b *bytes.Buffer, u *url.URL, header http.Header, body []byte) error {
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
