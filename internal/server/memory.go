package server

import (
	"runtime/debug"

	"github.com/openthreeds/threeds/internal/api"
	"github.com/openthreeds/threeds/internal/gate"
)

// inFlight is how many requests may be in work at once: as configured, and as fit
// into half of the memory, if that has a limit.
func (n *Server) inFlight(most int64) int64 {
	const each = 128 << 10 // of an /auth that waits, with its share of garbage (bench auth)
	if fit := debug.SetMemoryLimit(-1) / 2 / each; most > fit {
		n.cfg.Log.Info("fewer requests at once than configured, for want of memory", "in_flight", fit)
		return max(fit, 1)
	}
	return most
}

// multiplexed is of how many connections one may be of HTTP/2: of the 4,096 that are
// configured by default 128, with 100 requests each. A request that is answered at once
// takes 13 KiB until then, and all of them may come at once.
const multiplexed = 32

// bound bounds the connections of a listener: as configured, and to its part of the
// files that may be open, for directories and the store need some too. It is nil if
// there is no bound.
func (n *Server) bound(listener string, part int) *gate.Conns {
	most := n.cfg.Limits.Connections
	if most == 0 {
		return nil
	}
	if files, ok := openFiles(); ok && most > files/part {
		most = files / part
		n.cfg.Log.Info("fewer connections than configured, for want of open files", "listener", listener, "connections", most, "files", files)
	}
	return &gate.Conns{Max: most, Many: max(most/multiplexed, 1), Closed: func() { n.refused("connection", api.Connections) }}
}
