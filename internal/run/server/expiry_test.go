package server

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/run/config"
)

// TestExpiringCertificateIsLogged has a certificate come to its end while the server runs (CF-11).
func TestExpiringCertificateIsLogged(t *testing.T) {
	const day = 24 * time.Hour
	end := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	all := map[string]time.Time{"results.tls.cert": end}
	var log strings.Builder
	e := expiryLog{log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))}
	said := func(at time.Time) string {
		log.Reset()
		e.check(all, nil, at)
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
	if len(e.noticed) != 1 {
		t.Errorf("%d certificates are remembered, want 1", len(e.noticed))
	}
}

// TestActiveCertificatesAreWatched: the certificates of the active runtime are looked at every hour.
func TestActiveCertificatesAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		n := &Server{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now}}
		n.active = &runtime{cfg: Config{CertificateEnds: map[string]time.Time{"results.tls.cert": time.Now().Add(90 * time.Minute)}}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		if n.watchExpiry(ctx); strings.Count(log.String(), "certificate has expired") != 1 {
			t.Errorf("log %q", log.String())
		}
	})
}

// TestExpiringListIsLogged: lists come to their end while the server runs, each after its own time.
func TestExpiringListIsLogged(t *testing.T) {
	const day = 24 * time.Hour
	end := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	terms := map[string]config.Term{"directories[0].crls": {From: end.Add(-8 * day), To: end}}
	if got := listEnds(terms); len(got) != 1 || !got["directories[0].crls"].Equal(end) {
		t.Errorf("ends: %v", got)
	}
	var log strings.Builder
	e := expiryLog{log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, step := range []struct {
		before time.Duration
		want   string
	}{
		{9 * day, ""},
		{2*day + time.Second, ""},
		{2 * day, "level=WARN msg=\"revocation list is soon out of date\" key=directories[0].crls at=2027-03-01T12:00:00.000Z within=48h0m0s"},
		{day, ""},
		{0, "level=ERROR msg=\"revocation list is out of date\" key=directories[0].crls at=2027-03-01T12:00:00.000Z"},
		{-day, ""},
	} {
		log.Reset()
		e.check(nil, terms, end.Add(-step.before))
		if got := log.String(); (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%v before the end: %q, want %q", step.before, got, step.want)
		}
	}
}
