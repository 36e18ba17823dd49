package wire

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// A body is the body of an answer. When it was read to its end, the connection can take the next request.
type body struct {
	src    io.Reader
	conn   *conn
	reader *bufio.Reader // the buffer below src; used by the goroutine that reads
	isLast bool          // the connection takes no other request
	err    error         // the error of an earlier Read, which later ones return too
	ended  atomic.Bool   // the connection does not belong to this body any more
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.ended.Load() {
		return 0, net.ErrClosed
	}
	n, err := b.src.Read(p)
	if err != nil {
		b.err = err
		b.finish(err)
	}
	return n, err
}

// Close closes the connection if the body was not read to its end. A Read in another goroutine returns an error.
func (b *body) Close() error {
	if b.ended.CompareAndSwap(false, true) {
		b.conn.abort()
	}
	return nil
}

// Distrust keeps the connection of an answer from being used again, even if the answer was read to its end. Call it for
// an answer that belongs to another request: the following answers would be wrong too. A request that already is on the
// connection is the last.
func Distrust(resp *http.Response) {
	if b, ok := resp.Body.(*body); ok {
		b.conn.client.distrust(b.conn)
	}
}

// finish is called by Read with the error that ended the body. It makes the connection idle if nothing more has come on
// it, and if the end of the request's context can no longer set a deadline on it. Otherwise it closes the connection.
func (b *body) finish(why error) {
	if !b.ended.CompareAndSwap(false, true) {
		return
	}
	k := b.conn
	fit := k.stopCancel() && why == io.EOF && !b.isLast && b.reader.Buffered() == 0 && k.isDrained()
	releaseReader(b.reader)
	if fit {
		k.client.putIdle(k)
	} else {
		k.closeSocket()
	}
}
