// Package console is the listener for operators: whether the process lives,
// whether it is ready for requests, and its metrics. It is meant for a private address, and itself shows nothing about
// transactions. Set Admin and Pages of a [Handler] for the parts that need a login.
package console

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// A Condition is one thing that readiness depends on.
type Condition struct {
	Name string
	// Check returns "" when all is well, or else what is wrong. Degraded says that requests can still be served.
	Check func() (problem string, degraded bool)
}

// An Identity is what a node runs with. It is the same on all nodes that are meant to be the same.
type Identity struct {
	Config  string `json:"config,omitempty"`  // the hash of its configuration
	KeyFile any    `json:"keyFile,omitempty"` // the ids of the secrets in its key file
	Build   string `json:"build,omitempty"`   // the version of the program

	JournalKeyFile string `json:"journalKeyFile,omitempty"` // the id of the keys of its journal
}

// A Handler serves /livez, /readyz and /metrics. Set its fields before use.
type Handler struct {
	Conditions func() []Condition // of this moment
	Metrics    http.Handler
	Admin      http.Handler    // below /admin/; nil: there is no admin API
	Pages      http.Handler    // of all other paths; nil: there are none
	Identity   func() Identity // what this node runs with; nil: /readyz does not say it

	HasOwnHealth bool // /livez, /readyz and /metrics are served by Health alone

	stopping atomic.Bool
}

// Stop makes the process unready until its end, so that load balancers take it out before its listeners close.
func (h *Handler) Stop() { h.stopping.Store(true) }

type report struct {
	Status   string            `json:"status"` // ready, degraded, unready
	Problems map[string]string `json:"problems,omitempty"`
	Identity
}

func (h *Handler) state() (report, int) {
	if h.stopping.Load() {
		return report{Status: "unready", Problems: map[string]string{"process": "shutting down"}},
			http.StatusServiceUnavailable
	}
	got, status := report{Status: "ready"}, http.StatusOK
	for _, c := range h.Conditions() {
		problem, degraded := c.Check()
		if problem == "" {
			continue
		}
		if got.Problems == nil {
			got.Problems = make(map[string]string)
		}
		got.Problems[c.Name] = problem
		switch {
		case !degraded:
			got.Status, status = "unready", http.StatusServiceUnavailable
		case got.Status == "ready":
			got.Status = "degraded"
		}
	}
	return got, status
}

// Ready reports whether /readyz is 200.
func (h *Handler) Ready() bool {
	_, status := h.state()
	return status == http.StatusOK
}

// Problems returns what is wrong now, by the part as /readyz names it; nil if nothing is.
func (h *Handler) Problems() map[string]string {
	got, _ := h.state()
	return got.Problems
}

// ServeHTTP serves everything.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w)
	switch isHealth := slices.Contains([]string{"/livez", "/readyz", "/metrics"}, r.URL.Path); {
	case isHealth && !h.HasOwnHealth:
		h.serveHealth(w, r)
	case h.Admin != nil && strings.HasPrefix(r.URL.Path, "/admin/"):
		h.Admin.ServeHTTP(w, r)
	case h.Pages != nil && !isHealth:
		h.Pages.ServeHTTP(w, r)
	case isHealth:
		http.NotFound(w, r)
	default:
		h.serveHealth(w, r) // which has no such path
	}
}

// Health serves /livez, /readyz and /metrics alone.
func (h *Handler) Health() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w)
		h.serveHealth(w, r)
	})
}

func setHeaders(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// serveHealth answers GET and HEAD.
func (h *Handler) serveHealth(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	switch r.URL.Path {
	case "/livez":
		write(w, http.StatusOK, report{Status: "alive"})
	case "/readyz":
		got, status := h.state()
		if h.Identity != nil {
			got.Identity = h.Identity()
		}
		write(w, status, got)
	case "/metrics":
		h.Metrics.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an operator who has left needs no answer
}
