package api

import (
	"log/slog"
	"net/http"
	"time"
)

// arrival is how long a request may take to come, from its first byte to the
// last of its body. How long it may then be in work is another matter.
const arrival = 5 * time.Second

// rest is how long a connection is kept between two requests. Whoever closes second may
// send a request on what is closed already, and proxies and clients do not send a POST
// again. So it is longer than theirs, which by default is a minute (nginx, Varnish,
// Squid, .NET, the balancers of AWS), a minute and a half (Go, Traefik) or two (Caddy).
const rest = 130 * time.Second

// Server makes the HTTP server of a listener, with a time limit for everything that it
// waits for. Slowest is the longest that a handler may take.
func Server(h http.Handler, slowest time.Duration, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 3 * time.Second,
		ReadTimeout:       arrival,
		WriteTimeout:      slowest + 10*time.Second,
		IdleTimeout:       rest,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			// As most servers have it; a client that wants more opens another connection.
			MaxConcurrentStreams: 100,
			// HTTP/2 has no bound of its own for a connection that takes nothing any more.
			WriteByteTimeout: slowest + 10*time.Second,
			// A connection keeps memory for the largest frame that came, to its end; unset, that is a megabyte.
			MaxReadFrameSize: 16 << 10,
		},
		// OPTIONS * is a request like any other: the key comes first.
		DisableGeneralOptionsHandler: true,
	}
}
