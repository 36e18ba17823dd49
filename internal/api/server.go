package api

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/openthreeds/threeds/internal/gate"
)

// arrival is how long a request may take to come, from its first byte to the
// last of its body.
const arrival = 5 * time.Second

// Server makes the HTTP server of a listener: every wait is bounded. slowest
// is the longest that a handler may take.
func Server(h http.Handler, slowest time.Duration, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 3 * time.Second,
		ReadTimeout:       arrival,
		WriteTimeout:      slowest + 10*time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// arrived notes that all of a request has come, and lifts the bound on reading.
// The server reads on while a handler works, to notice a caller who goes; were
// that read to run into its bound, it would take the caller for gone.
func arrived(w http.ResponseWriter, r *http.Request) {
	gate.Arrived(r.Context())
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
}
