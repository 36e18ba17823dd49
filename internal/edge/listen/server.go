package listen

import (
	"log/slog"
	"net/http"
	"time"
)

// RequestTime is how long a request may take to arrive, from its first byte to the last of its body. It is also the
// limit for each part of a handshake. How long a request may then be in work is the handler's time.
const RequestTime = 10 * time.Second

// IdleTime is how long a connection is kept between two requests. The side with the longer time may otherwise send a
// request on a connection that the other has already closed, and proxies and clients do not send a POST again. So it is
// longer than theirs, which by default is a minute (nginx, Varnish, Squid, .NET, the balancers of AWS), a minute and a
// half (Go, Traefik) or two (Caddy).
const IdleTime = 130 * time.Second

// NewServer returns the HTTP server of a listener, with a time limit for everything that it waits for. slowest is the
// longest time that a handler may take. It refuses requests with more than 64 header fields.
func NewServer(h http.Handler, slowest time.Duration, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           checkHeaders(h),
		ReadHeaderTimeout: RequestTime,
		ReadTimeout:       RequestTime,
		WriteTimeout:      slowest + 10*time.Second,
		IdleTimeout:       IdleTime,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			// Most servers use this value; a client that wants more opens another connection.
			MaxConcurrentStreams: 100,
			// HTTP/2 itself has no time limit for a client that reads nothing any more.
			WriteByteTimeout: slowest + 10*time.Second,
			// A connection keeps memory for the largest frame that has come until it ends. The default is a megabyte.
			MaxReadFrameSize: 16 << 10,
		},
		// OPTIONS * is a request like any other: the key comes first.
		DisableGeneralOptionsHandler: true,
	}
}
