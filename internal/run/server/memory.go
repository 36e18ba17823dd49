package server

import (
	"runtime/debug"

	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/edge/listen"
)

// maxInFlight is how many requests may be in work at once: as many as are configured,
// but no more than fit into half of the memory limit, if there is one.
func (s *Server) maxInFlight(most int64) int64 {
	const each = 128 << 10 // of an /auth that waits, with its share of garbage (bench auth)
	if fit := debug.SetMemoryLimit(-1) / 2 / each; most > fit {
		s.cfg.Log.Info("fewer requests at once than configured, for want of memory", "in_flight", fit)
		return max(fit, 1)
	}
	return most
}

// http2Share says that one in so many connections may speak HTTP/2: 128 of the 4,096 that are configured by default,
// with 100 requests each. A request that is answered immediately takes 13 KiB until then, and all of them may come
// together.
const http2Share = 32

// waitersShare says that waiting requests of one merchant may have one in so many connections to the API: a quarter of
// them, so that a merchant that asks with ?wait for all of its payments leaves places to others.
const waitersShare = 4

// consoleConnections is how many connections the listener of operators, and that of monitoring, may
// have. A browser opens six.
const consoleConnections = 256

// connectionLimit returns the connection limiter of a listener. The limit is the configured number, but no
// more than the listener's part of the files that may be open: directories and the store need files too. Max
// is 0 if there is no limit.
func (s *Server) connectionLimit(listener string, part int) *listen.Limiter {
	return s.newLimiter(listener, s.cfg.Limits.Connections, part)
}

// newLimiter returns a limiter for most connections, or for a part-th of the files that may be open if that is less.
// There is no limit if most is 0.
func (s *Server) newLimiter(listener string, most, part int) *listen.Limiter {
	if most == 0 {
		return new(listen.Limiter)
	}
	if files, ok := openFiles(); ok && most > files/part {
		most = files / part
		s.cfg.Log.Info("fewer connections than configured, for want of open files", "listener", listener, "connections", most,
			"files", files)
	}
	return &listen.Limiter{
		Max: most, MaxHTTP2: max(most/http2Share, 1), Closed: func() { s.countRefusal("connection", api.Connections) },
	}
}
