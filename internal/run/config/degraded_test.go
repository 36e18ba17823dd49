package config

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/peers/certs"
)

// TestFirstEndOfAFileCounts: of several certificates, or lists, in one file the one that
// ends first is the one to look after.
func TestFirstEndOfAFileCounts(t *testing.T) {
	const day = 24 * time.Hour
	ends, terms := map[string]time.Time{}, map[string]Term{}
	for _, end := range []time.Time{noon.Add(2 * day), noon, noon.Add(day)} {
		addEnd(ends, "results.tls.cert", &x509.Certificate{NotAfter: end})
		addTerm(terms, "directories[0].crls", &certs.RevocationList{This: end.Add(-8 * day), Next: end})
	}
	if got := ends["results.tls.cert"]; !got.Equal(noon) {
		t.Errorf("the certificates end at %v, want %v", got, noon)
	}
	if got, want := terms["directories[0].crls"], (Term{noon.Add(-8 * day), noon}); got != want {
		t.Errorf("the lists are valid %v, want %v", got, want)
	}
}
