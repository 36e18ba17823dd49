// Package listen is what the HTTP listeners of the program have in common: limits of connections and time, and
// the drain at the end. Use [NewServer] for a server with time limits, [Limiter] for its connections, [Drainer]
// to end those that clients keep, and [ReadBody] to read bodies within a memory limit. It knows nothing about
// the content of requests.
package listen

import (
	"context"
	"net"
	"net/http"
)

// addHooks adds connState and connContext to those of a server, after those that it has. connContext may be nil.
func addHooks(s *http.Server, connState func(net.Conn, http.ConnState),
	connContext func(context.Context, net.Conn) context.Context) {
	if before := s.ConnState; before != nil {
		after := connState
		connState = func(c net.Conn, to http.ConnState) {
			before(c, to)
			after(c, to)
		}
	}
	s.ConnState = connState
	if connContext == nil {
		return
	}
	if before := s.ConnContext; before != nil {
		after := connContext
		connContext = func(ctx context.Context, c net.Conn) context.Context { return after(before(ctx, c), c) }
	}
	s.ConnContext = connContext
}
