package listen

import (
	"net"
	"time"
)

// acceptPause is the least time between two connections of a paced listener under overload: 500 connections a second.
const acceptPause = 2 * time.Millisecond

// Pace returns a listener that accepts slowly while isOverloaded reports true.
//
// A client that waits for a slow answer opens another connection for its next request. Setting up a connection costs
// the server more than refusing a request. So under overload new connections multiply and take what is left of the
// processor. A connection that is not accepted yet waits in the kernel and costs nothing, and clients that have a
// connection are served meanwhile.
func Pace(inner net.Listener, isOverloaded func() bool) net.Listener {
	return pacedListener{inner, isOverloaded}
}

type pacedListener struct {
	net.Listener
	isOverloaded func() bool
}

func (l pacedListener) Accept() (net.Conn, error) {
	if l.isOverloaded() {
		time.Sleep(acceptPause)
	}
	return l.Listener.Accept()
}
