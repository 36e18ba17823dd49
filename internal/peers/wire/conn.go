package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/openthreeds/threeds/internal/base/socket"
)

// pastDeadline is a deadline that ends all reads and writes immediately.
var pastDeadline = time.Unix(1, 0)

// A conn is a connection to one address, for one request at a time.
type conn struct {
	net.Conn
	client *Client
	pool   *pool
	socket syscall.RawConn // the socket; nil if there is none

	// keeps the end of the request's context from setting a deadline; returns false if it has set it
	stopCancel func() bool

	first       [1]byte // first byte of an answer; waiting for it takes no buffer
	hasFirst    bool    // first was read and Read has not returned it yet
	distrusted  bool    // see Distrust; guarded by the client's mu
	used        bool    // a request was sent on the connection
	answerBegun bool    // a byte of the answer to the latest request was read
	remaining   int64   // bytes that may still be read
}

// send writes a request. If it returns an error, a part of the request may have left all the same.
func (k *conn) send(u *url.URL, header http.Header, body []byte) error {
	b := requestBuffers.Get().(*bytes.Buffer)
	err := writeRequest(b, u, header, body)
	if err == nil {
		_, err = k.Conn.Write(b.Bytes())
	}
	// The request may contain a card number, which must not stay in memory.
	clear(b.Bytes())
	if b.Reset(); b.Cap() <= maxKeptBuffer {
		requestBuffers.Put(b)
	}
	return err
}

// readBuffers holds the buffers with which answers are read. An answer needs one only from its first byte to its last,
// and most of a request's time passes before the first.
var readBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// receive reads an answer up to its body.
func (k *conn) receive() (*http.Response, error) {
	if _, err := io.ReadFull(k.Conn, k.first[:]); err != nil {
		return nil, err
	}
	k.hasFirst, k.answerBegun, k.remaining = true, true, k.client.MaxHeader
	r := readBuffers.Get().(*bufio.Reader)
	r.Reset(k)
	resp, err := readFinal(r)
	if err != nil {
		releaseReader(r)
		return nil, err
	}
	k.remaining = math.MaxInt64
	k.pool.learn(resp.Header.Get("Keep-Alive"))
	b := &body{src: resp.Body, conn: k, reader: r, isLast: resp.Close || resp.StatusCode < 200 || !resp.ProtoAtLeast(1, 1)}
	if resp.Body == http.NoBody {
		b.err = io.EOF
		b.finish(io.EOF)
	}
	resp.Body = b
	return resp, nil
}

// readFinal reads the answer after any informational ones (1xx). Status 101 is final too: no other protocol was asked
// for, and no HTTP follows.
func readFinal(r *bufio.Reader) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// releaseReader wipes a buffer, which may hold authentication values, and gives it back.
func releaseReader(r *bufio.Reader) {
	r.Reset(zeros{})
	_, _ = r.Peek(r.Size())
	r.Reset(nil)
	readBuffers.Put(r)
}

// zeros is an endless reader of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Read returns the first byte, which receive has read, and then the rest.
func (k *conn) Read(b []byte) (n int, err error) {
	if k.remaining <= 0 {
		return 0, fmt.Errorf("the header of the answer exceeds %d bytes", k.client.MaxHeader)
	}
	b = b[:min(int64(len(b)), k.remaining)]
	if k.hasFirst && len(b) > 0 {
		b[0], k.hasFirst, n = k.first[0], false, 1
	} else {
		n, err = k.Conn.Read(b)
	}
	k.remaining -= int64(n)
	return n, err
}

// abort closes a connection during a request.
func (k *conn) abort() {
	k.stopCancel()
	k.closeSocket()
}

// closeSocket closes the socket without the close_notify of TLS, which would wait for seconds if
// the peer does not read.
func (k *conn) closeSocket() {
	_ = socket.Bottom(k.Conn).Close()
}

// isQuiet reports whether nothing has come on an idle connection: no data, no alert of TLS, and no end.
func (k *conn) isQuiet() bool {
	if k.socket == nil {
		return true
	}
	quiet, _ := socket.Peek(k.socket)
	return quiet
}

// isDrained reports whether TLS has no more data that it has read from the socket. With a deadline in the past, Read
// returns such data but does not wait for the socket.
func (k *conn) isDrained() bool {
	_ = k.SetReadDeadline(pastDeadline)
	n, err := k.Conn.Read(k.first[:])
	_ = k.SetReadDeadline(time.Time{})
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}
