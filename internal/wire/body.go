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
	reader *bufio.Reader // what src reads from, of the goroutine that reads
	last   bool          // no other request may follow on the connection
	err    error         // what came of the last Read, if it was one
	over   atomic.Bool   // the connection is no longer ours
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.over.Load() {
		return 0, net.ErrClosed
	}
	n, err := b.src.Read(p)
	if err != nil {
		b.err = err
		b.end(err)
	}
	return n, err
}

// Close gives up what was not read, also what another goroutine waits for.
func (b *body) Close() error {
	if b.over.CompareAndSwap(false, true) {
		b.conn.drop()
	}
	return nil
}

// Distrust keeps the connection of an answer from further requests, though the answer
// was read to its end: what came was not meant for its request, so what comes next will
// not be, either. A request that is on that connection by now is its last.
func Distrust(resp *http.Response) {
	if b, ok := resp.Body.(*body); ok {
		b.conn.client.distrust(b.conn)
	}
}

// end is called by the reader, with what ended the body. The connection is used
// again if the peer has said all that it had to say, and the request's context
// will never touch it.
func (b *body) end(why error) {
	if !b.over.CompareAndSwap(false, true) {
		return
	}
	k := b.conn
	fit := k.unguard() && why == io.EOF && !b.last && b.reader.Buffered() == 0 && k.drained()
	release(b.reader)
	if fit {
		k.client.put(k)
	} else {
		k.cut()
	}
}
