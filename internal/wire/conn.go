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

	"github.com/openthreeds/threeds/internal/socket"
)

// past is a deadline that ends all waiting.
var past = time.Unix(1, 0)

// A conn is a connection to one address, of one request at a time.
type conn struct {
	net.Conn
	client *Client
	pool   *pool
	below  syscall.RawConn // of the socket; nil: there is none

	unguard func() bool // ends what the end of the request's context does to the connection

	first [1]byte // of an answer: all that is needed to wait for it
	held  bool    // it has come and was not read
	wrong bool    // what comes is not meant for who reads it; guarded by the client's mu
	left  int64   // bytes that may be read
}

// send writes a request. What was begun may have left.
func (k *conn) send(u *url.URL, header http.Header, body []byte) error {
	b := requests.Get().(*bytes.Buffer)
	err := write(b, u, header, body)
	if err == nil {
		_, err = k.Conn.Write(b.Bytes())
	}
	// A card number is nothing to leave behind for whoever is next.
	clear(b.Bytes())
	if b.Reset(); b.Cap() <= largeRequest {
		requests.Put(b)
	}
	return err
}

// readers are buffers to read answers with. One is needed only from the first
// byte of an answer to its last, and most of the time passes before.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// receive reads an answer up to its body.
func (k *conn) receive() (*http.Response, error) {
	if _, err := io.ReadFull(k.Conn, k.first[:]); err != nil {
		return nil, err
	}
	k.held, k.left = true, k.client.MaxHeader
	r := readers.Get().(*bufio.Reader)
	r.Reset(k)
	resp, err := readFinal(r)
	if err != nil {
		release(r)
		return nil, err
	}
	k.left = math.MaxInt64
	k.pool.learn(resp.Header.Get("Keep-Alive"))
	b := &body{src: resp.Body, conn: k, reader: r, last: resp.Close || resp.StatusCode < 200 || !resp.ProtoAtLeast(1, 1)}
	if resp.Body == http.NoBody {
		b.err = io.EOF
		b.end(io.EOF)
	}
	resp.Body = b
	return resp, nil
}

// readFinal reads on until an answer is more than a sign of life. Another
// protocol is none that was asked for: there is nothing after it.
func readFinal(r *bufio.Reader) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// release gives a buffer back, without the authentication values that were in it.
func release(r *bufio.Reader) {
	r.Reset(zeros{})
	_, _ = r.Peek(r.Size())
	r.Reset(nil)
	readers.Put(r)
}

// zeros is read without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Read reads what came, the byte that was waited for before the rest.
func (k *conn) Read(b []byte) (n int, err error) {
	if k.left <= 0 {
		return 0, fmt.Errorf("the header of the answer exceeds %d bytes", k.client.MaxHeader)
	}
	b = b[:min(int64(len(b)), k.left)]
	if k.held && len(b) > 0 {
		b[0], k.held, n = k.first[0], false, 1
	} else {
		n, err = k.Conn.Read(b)
	}
	k.left -= int64(n)
	return n, err
}

// drop ends a connection that cannot be used any more. TLS would say farewell
// first, and wait for seconds for one who does not listen.
func (k *conn) drop() {
	k.unguard()
	k.cut()
}

func (k *conn) cut() {
	_ = socket.Bottom(k.Conn).Close()
}

// quiet reports whether nothing has come though nothing is due: neither the
// peer's end nor what it says before it hangs up.
func (k *conn) quiet() bool {
	if k.below == nil {
		return true
	}
	quiet, _ := socket.Peek(k.below)
	return quiet
}

// drained reports whether TLS holds nothing of what it has taken from the socket.
// It is asked without waiting: of all that reads only the socket does.
func (k *conn) drained() bool {
	_ = k.SetReadDeadline(past)
	n, err := k.Conn.Read(k.first[:])
	_ = k.SetReadDeadline(time.Time{})
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}
