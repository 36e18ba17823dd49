package wire

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// A body is that of an answer. At its end the connection is free.
type body struct {
	src    io.Reader
	conn   *conn
	reader *bufio.Reader // what src reads from; used by the goroutine that reads
	isLast bool          // no other request may follow on the connection
	err    error         // the error of an earlier Read, which all later ones return
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

// Close gives up what was not read. A Read in another goroutine returns with an error.
func (b *body) Close() error {
	if b.ended.CompareAndSwap(false, true) {
		b.conn.abort()
	}
	return nil
}

// Distrust keeps the connection of an answer from further requests, even if the answer
// was read to its end. It is for an answer to another request than its own: those that
// come next would be so, too. A request that is on the connection already is the last.
func Distrust(resp *http.Response) {
	if b, ok := resp.Body.(*body); ok {
		b.conn.client.distrust(b.conn)
	}
}

// finish is called by Read, with the error that ended the body. The connection is used
// again if nothing more has come on it, and the end of the request's context can no
// longer set a deadline on it.
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
