package obs_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/obs"
)

// TestSchemeFindingsHaveABoundedNumberOfMerchants: each merchant has series of its own, the first 500 of them, and
// those that come later share one.
func TestSchemeFindingsHaveABoundedNumberOfMerchants(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics()
	broken := []obs.BrokenRule{{Element: "email|homePhone", Rule: "require", InForce: true}}
	for i := range 600 {
		m.RulesChecked(fmt.Sprint("M", i), "visa", broken)
	}
	m.RulesChecked("M0", "visa", nil)
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	text := rec.Body.String()
	if n := strings.Count(text, "\nthreeds_scheme_findings_total{"); n != 501 {
		t.Errorf("%d series of findings, want 501", n)
	}
	for _, want := range []string{
		`threeds_scheme_checked_total{merchant="M0",scheme="visa"} 2`,
		`threeds_scheme_checked_total{merchant="",scheme="visa"} 100`,
		`threeds_scheme_findings_total{element="email|homePhone",in_force="true",merchant="M499",rule="require",scheme="visa",since=""} 1`,
		`threeds_scheme_findings_total{element="email|homePhone",in_force="true",merchant="",rule="require",scheme="visa",since=""} 100`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}
