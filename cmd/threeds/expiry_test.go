package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestEnds: each file of certificates, or of revocation lists, that the configuration
// names has its end in the metrics, until it is named no more.
func TestEnds(t *testing.T) {
	ca := newAuthority(t)
	lists := filepath.Join(t.TempDir(), "crls.pem")
	write(t, lists, ca.list(time.Hour))
	s, proc := spawnSite(t, ca, newWire(t, ca), plan{visa: "    crls: " + lists})
	if at := s.metric(`threeds_crl_next_update_timestamp_seconds{key="directories[0].crls",scheme="visa"}`); time.Until(time.Unix(int64(at), 0)) < time.Minute {
		t.Errorf("the revocation list ends at %v", at)
	}
	var keys []string
	for line := range strings.Lines(s.exposed()) {
		if key, ok := strings.CutPrefix(line, `threeds_certificate_not_after_timestamp_seconds{key="`); ok {
			key, value, _ := strings.Cut(key, `"} `)
			key = strings.Replace(key, `",scheme="`, " of ", 1)
			keys = append(keys, key)
			var at float64
			if _, err := fmt.Sscan(value, &at); err != nil || time.Until(time.Unix(int64(at), 0)) < time.Minute {
				t.Errorf("%s ends at %s", key, value)
			}
		}
	}
	if want := []string{"directories[0].client_ca of visa", "directories[0].client_cert.cert of visa", "directories[0].server_ca of visa", "results.tls.cert of "}; !slices.Equal(keys, want) {
		t.Errorf("metrics of %q, want %q", keys, want)
	}
	proc.end(syscall.SIGTERM)
}
