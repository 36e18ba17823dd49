package obs

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// Limits of the lines about requests without a good API key.
const (
	linesPerSource = 10          // in one window, for one source
	sourceWindow   = time.Minute // then one line says how many were left out
	maxSources     = 10_000      // known at the same time; further ones share one window
	flushEvery     = 10 * time.Second
)

// A sourceLimiter limits the lines of requests without a good API key by where they come
// from: anybody may send such requests, as many as they like. It is safe for concurrent
// use. Its zero value is ready.
type sourceLimiter struct {
	mu      sync.Mutex
	sources map[string]*sourceLines
}

// sourceLines are the lines about one source in the present window.
type sourceLines struct {
	began      time.Time
	written    int
	suppressed int
	source     string
	status     int // HTTP status of the last request that was suppressed
}

// allow reports whether the line of a request may be written now. If not, it is counted.
func (l *sourceLimiter) allow(r *Request, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sources == nil {
		l.sources = make(map[string]*sourceLines)
	}
	source := sourceOf(r.from)
	s := l.sources[source]
	if s == nil && len(l.sources) >= maxSources {
		source = "others"
		s = l.sources[source]
	}
	if s == nil {
		s = &sourceLines{began: now, source: source}
		l.sources[source] = s
	}
	if s.written < linesPerSource {
		s.written++
		return true
	}
	s.suppressed++
	s.status = r.writer.Status
	return false
}

// takeEnded forgets all sources whose window is over, and returns those with suppressed requests. With all set, every
// window counts as over.
func (l *sourceLimiter) takeEnded(now time.Time, all bool) []*sourceLines {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ended []*sourceLines
	for source, s := range l.sources {
		age := now.Sub(s.began) // less than 0 when the clock was set back
		if !all && age >= 0 && age < sourceWindow {
			continue
		}
		delete(l.sources, source)
		if s.suppressed > 0 {
			ended = append(ended, s)
		}
	}
	return ended
}

// Run writes, once a minute for each source, how many requests without a good API key had
// no line of their own. When ctx ends it writes what is left and returns.
func (l *RequestLog) Run(ctx context.Context) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			l.writeSuppressed(true)
			return
		case <-ticker.C:
			l.writeSuppressed(false)
		}
	}
}

func (l *RequestLog) writeSuppressed(all bool) {
	for _, s := range l.refused.takeEnded(l.now(), all) {
		l.log.LogAttrs(context.Background(), slog.LevelInfo, "request",
			slog.Int("http", s.status), slog.String("from", s.source), slog.Int("suppressed", s.suppressed))
	}
}

// sourceOf is what counts as one source: an IPv4 address, or the /64 network of an IPv6
// address, since a host may use any address of its network.
func sourceOf(host string) string {
	address, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	network, err := address.Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}
