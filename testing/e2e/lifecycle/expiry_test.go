package lifecycle

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestEnds: each file of certificates, or of revocation lists, that the configuration
// names has its end in the metrics, until it is named no more.
func TestEnds(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	lists := filepath.Join(t.TempDir(), "crls.pem")
	rig.WriteFile(t, lists, ca.List(time.Hour))
	s, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{Visa: "    crls: " + lists})
	if at := s.Metric(`threeds_crl_next_update_timestamp_seconds{key="directories[0].crls",scheme="visa"}`); time.Until(time.Unix(int64(at), 0)) < time.Minute {
		t.Errorf("the revocation list ends at %v", at)
	}
	var keys []string
	for line := range strings.Lines(s.Exposed()) {
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
	if want := []string{"directories[0].client_ca of visa", "directories[0].client_cert.cert of visa",
		"directories[0].server_ca of visa", "results.tls.cert of "}; !slices.Equal(keys, want) {
		t.Errorf("metrics of %q, want %q", keys, want)
	}
	proc.End(syscall.SIGTERM)
}
