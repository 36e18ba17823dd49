package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestExpiry has a certificate come to its end while the server runs.
func TestExpiry(t *testing.T) {
	const day = 24 * time.Hour
	end := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	all := ends{}
	all.add("results.tls.cert", &x509.Certificate{NotAfter: end.Add(2 * day)})
	all.add("results.tls.cert", &x509.Certificate{NotAfter: end})
	all.add("results.tls.cert", &x509.Certificate{NotAfter: end.Add(day)}) // behind it in the file
	lists := terms{}
	var log strings.Builder
	e := expiry{log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))}
	said := func(at time.Time) string {
		log.Reset()
		e.look(all, lists, at)
		return log.String()
	}
	notice := func(within string) string {
		return "level=WARN msg=\"certificate expires\" key=results.tls.cert at=2027-03-01T12:00:00.000Z within=" + within + "\n"
	}
	const over = "level=ERROR msg=\"certificate has expired\" key=results.tls.cert at=2027-03-01T12:00:00.000Z\n"
	for _, step := range []struct {
		before time.Duration
		want   string
	}{
		{60 * day, ""},
		{30*day + time.Second, ""},
		{30 * day, notice("720h0m0s")},
		{30*day - time.Hour, ""},
		{14*day + time.Second, ""},
		{14 * day, notice("336h0m0s")},
		{7 * day, notice("168h0m0s")},
		{day + time.Second, ""},
		{day - time.Minute, notice("24h0m0s")},
		{time.Second, ""},
		{0, over},
		{-day, ""},
		{20 * day, ""}, // the clock is set back, by more than it goes between two looks
		{60 * day, ""},
		{30 * day, notice("720h0m0s")},
		{0, over},
	} {
		if got := said(end.Add(-step.before)); got != step.want {
			t.Errorf("%v before the end: %q, want %q", step.before, got, step.want)
		}
	}
	all["results.tls.cert"] = end.Add(5 * day) // renewed: the reload says what there is to say
	if got := said(end.Add(-day)); got != "" {
		t.Errorf("of a new one: %q", got)
	}
	if got := said(end.Add(5 * day)); !strings.Contains(got, "has expired") {
		t.Errorf("of a new one at its end: %q", got)
	}
	if len(e.past) != 1 {
		t.Errorf("%d certificates are remembered, want 1", len(e.past))
	}
}

// TestWatchEnds: the certificates of the generation in use are looked at every hour.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		n := &node{cfg: nodeConfig{Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now}}
		n.now = &generation{cfg: nodeConfig{Ends: ends{"results.tls.cert": time.Now().Add(90 * time.Minute)}}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		if n.watchEnds(ctx); strings.Count(log.String(), "certificate has expired") != 1 {
			t.Errorf("log %q", log.String())
		}
	})
}

// TestEnds: each file of certificates, or of revocation lists, that the configuration
// names has its end in the metrics, until it is named no more.
func TestEnds(t *testing.T) {
	ca := newAuthority(t)
	lists := filepath.Join(t.TempDir(), "crls.pem")
	write(t, lists, ca.list(time.Hour))
	s, proc := spawnSite(t, ca, newWire(t, ca), plan{visa: "    crls: " + lists})
	if at := s.metric(`threeds_crl_next_update_timestamp_seconds{key="directories[0].crls"}`); time.Until(time.Unix(int64(at), 0)) < time.Minute {
		t.Errorf("the revocation list ends at %v", at)
	}
	var keys []string
	for line := range strings.Lines(s.exposed()) {
		if key, ok := strings.CutPrefix(line, `threeds_certificate_not_after_timestamp_seconds{key="`); ok {
			key, value, _ := strings.Cut(key, `"} `)
			keys = append(keys, key)
			var at float64
			if _, err := fmt.Sscan(value, &at); err != nil || time.Until(time.Unix(int64(at), 0)) < time.Minute {
				t.Errorf("%s ends at %s", key, value)
			}
		}
	}
	if want := []string{"directories[0].client_ca", "directories[0].client_cert.cert", "directories[0].server_ca", "results.tls.cert"}; !slices.Equal(keys, want) {
		t.Errorf("metrics of %q, want %q", keys, want)
	}
	proc.end(syscall.SIGTERM)
}
