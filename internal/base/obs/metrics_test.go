package obs_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
)

// TestObserve: every operation is counted once, by whomever at the same time.
func TestObserve(t *testing.T) {
	m := obs.NewMetrics()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				m.Observe("preauth", "visa", "ok", "", time.Millisecond)
				m.Observe("preauth", "jcb", "305", "S", time.Millisecond)
				m.Observe("auth", "visa", "Y", "", time.Second)
			}
		})
	}
	all.Wait()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`threeds_operations_total{component="",operation="preauth",outcome="ok",scheme="visa"} 800`,
		`threeds_operations_total{component="S",operation="preauth",outcome="305",scheme="jcb"} 800`,
		`threeds_operations_total{component="",operation="auth",outcome="Y",scheme="visa"} 800`,
		`threeds_operation_seconds_count{operation="preauth"} 1600`,
		`threeds_operation_seconds_sum{operation="auth"} 800`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
}

// TestOperationsHaveAClosedSetOfComponents: the label component is one of EMV 3DS, whatever another party writes.
func TestOperationsHaveAClosedSetOfComponents(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics()
	log := obs.NewRequestLog(slog.New(slog.DiscardHandler), m, time.Now)
	for _, component := range []string{"D", "A", "S", "C", "d", "4000001234567890", ""} {
		m.Observe("auth", "visa", "303", component, 0)
		w, r, line := log.Begin(httptest.NewRecorder(), httptest.NewRequest("POST", "/auth", nil), "/auth")
		obs.Note(r.Context(), "scheme", "jcb")
		obs.Note(r.Context(), "outcome", "303")
		obs.Note(r.Context(), "errorComponent", component)
		w.WriteHeader(400)
		log.End(line)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, scheme := range []string{"visa", "jcb"} {
		for component, n := range map[string]int{"D": 1, "A": 1, "S": 1, "C": 1, "": 3} {
			want := fmt.Sprintf(`threeds_operations_total{component=%q,operation="auth",outcome="303",scheme=%q} %d`, component, scheme, n)
			if !strings.Contains(w.Body.String(), want+"\n") {
				t.Errorf("no line %s", want)
			}
		}
	}
	if n := strings.Count(w.Body.String(), "\nthreeds_operations_total{"); n != 10 {
		t.Errorf("%d series, want 10", n)
	}
}

// TestMetrics: what is noted can be read, and nothing of what is forgotten.
func TestMetrics(t *testing.T) {
	m := obs.NewMetrics()
	wants := func(when string, wanted map[string]bool) {
		t.Helper()
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for line, want := range wanted {
			if got := strings.Contains(w.Body.String(), "\n"+line+"\n"); got != want {
				t.Errorf("%s: %s: %t, want %t", when, line, got, want)
			}
		}
	}
	m.Known("visa")
	wants("at the start", map[string]bool{
		`threeds_config_reloads_total{result="applied"} 0`: true, `threeds_config_reloads_total{result="refused"} 0`: true,
		`threeds_config_last_reload_successful 1`: true, `threeds_config_last_reload_success_timestamp_seconds 0`: false,
		`threeds_operations_total{component="",operation="oreq",outcome="01",scheme="visa"} 0`:       true,
		`threeds_operations_total{component="",operation="oreq",outcome="02",scheme="visa"} 0`:       true,
		`threeds_operations_total{component="",operation="oreq",outcome="received",scheme="visa"} 0`: true,
		`threeds_card_ranges{scheme="visa"} 0`:                                                       true,
		`threeds_card_ranges_held{scheme="visa"} 0`:                                                  true,
		`threeds_card_ranges_loaded_timestamp_seconds{scheme="visa"} 0`:                              true,
	})
	at := time.UnixMilli(1_800_000_000_500)
	m.Configured(at)
	m.Reloaded(false)
	m.RulesChecked("Shop", "visa", nil)
	m.RulesChecked("Shop", "visa", []obs.BrokenRule{{Element: "mcc", Rule: "require", InForce: true}, {Element: "email", Rule: "advise"}})
	m.Request("visa", "AReq", "ok")
	m.Open("visa", "AReq", true)
	m.Open("visa", "VEReq", true)
	m.Open("jcb", "AReq", false)
	m.Ranges("visa", 7, at)
	m.Held("visa", true)
	m.Held("jcb", true)
	m.Held("jcb", false)
	m.Certificates(map[string]time.Time{"api.cert": at, "old": at}, func(string) string { return "" })
	m.Certificates(map[string]time.Time{"api.cert": at}, func(string) string { return "" })
	m.Lists(map[string]time.Time{"directories[0].crls": at, "old": at}, func(string) string { return "" })
	m.Lists(map[string]time.Time{"directories[0].crls": at}, func(string) string { return "visa" })
	m.Refused("auth", "overload")
	m.Gauge("threeds_plain", "Of a test.", "", "", func() float64 { return 3 })
	m.Gauge("threeds_labelled", "Of a test.", "for", "x", func() float64 { return 4 })
	m.Counter("threeds_counted_total", "Of a test.", func() float64 { return 5 })
	wants("noted", map[string]bool{
		`threeds_config_last_reload_successful 0`:                                                                                true,
		`threeds_config_last_reload_success_timestamp_seconds 1.8000000005e+09`:                                                  true,
		`threeds_config_reloads_total{result="refused"} 1`:                                                                       true,
		`threeds_config_reloads_total{result="applied"} 0`:                                                                       true,
		`threeds_scheme_checked_total{merchant="Shop",scheme="visa"} 2`:                                                          true,
		`threeds_scheme_findings_total{element="mcc",in_force="true",merchant="Shop",rule="require",scheme="visa",since=""} 1`:   true,
		`threeds_scheme_findings_total{element="email",in_force="false",merchant="Shop",rule="advise",scheme="visa",since=""} 1`: true,
		`threeds_directory_requests_total{message="AReq",outcome="ok",scheme="visa"} 1`:                                          true,
		`threeds_directory_open{message="AReq",scheme="visa"} 1`:                                                                 true,
		`threeds_directory_open{message="VEReq",scheme="visa"} 1`:                                                                true,
		`threeds_directory_open{message="AReq",scheme="jcb"} 0`:                                                                  true,
		`threeds_card_ranges{scheme="visa"} 7`:                                                                                   true,
		`threeds_card_ranges_held{scheme="visa"} 1`:                                                                              true,
		`threeds_card_ranges_held{scheme="jcb"} 0`:                                                                               true,
		`threeds_card_ranges_loaded_timestamp_seconds{scheme="visa"} 1.8e+09`:                                                    true,
		`threeds_certificate_not_after_timestamp_seconds{key="api.cert",scheme=""} 1.8e+09`:                                      true,
		`threeds_certificate_not_after_timestamp_seconds{key="old",scheme=""} 1.8e+09`:                                           false,
		`threeds_crl_next_update_timestamp_seconds{key="directories[0].crls",scheme="visa"} 1.8e+09`:                             true,
		`threeds_crl_next_update_timestamp_seconds{key="old",scheme=""} 1.8e+09`:                                                 false,
		`threeds_refused_total{operation="auth",reason="overload"} 1`:                                                            true,
		`threeds_plain 3`:                 true,
		`threeds_labelled{for="x"} 4`:     true,
		`threeds_counted_total 5`:         true,
		"# HELP threeds_plain Of a test.": true, "# HELP threeds_counted_total Of a test.": true,
	})
	m.Reloaded(true)
	m.Forget("visa")
	wants("forgotten", map[string]bool{
		`threeds_config_last_reload_successful 1`:                               true,
		`threeds_config_last_reload_success_timestamp_seconds 1.8000000005e+09`: false,
		`threeds_config_reloads_total{result="refused"} 1`:                      true,
		`threeds_config_reloads_total{result="applied"} 1`:                      true,
		`threeds_directory_open{message="AReq",scheme="visa"} 1`:                false,
		`threeds_directory_open{message="VEReq",scheme="visa"} 1`:               true,
		`threeds_card_ranges{scheme="visa"} 7`:                                  false,
		`threeds_card_ranges_held{scheme="visa"} 1`:                             false,
		`threeds_card_ranges_loaded_timestamp_seconds{scheme="visa"} 1.8e+09`:   false,
	})
	m.ForgetV1("visa")
	wants("forgotten, too", map[string]bool{`threeds_directory_open{message="VEReq",scheme="visa"} 1`: false})
}

func BenchmarkObserve(b *testing.B) {
	m := obs.NewMetrics()
	b.ReportAllocs()
	for b.Loop() {
		m.Observe("preauth", "visa", "ok", "", time.Millisecond)
	}
}

// TestD104TimesOfCertificatesAreThereDuringAReload: a scrape at that moment finds each certificate that stays.
func TestD104TimesOfCertificatesAreThereDuringAReload(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics()
	ends := map[string]time.Time{"api.cert": time.Unix(1, 0), "results.cert": time.Unix(2, 0)}
	none := func(string) string { return "" }
	m.Certificates(ends, none)
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				m.Certificates(ends, none)
			}
		}
	}()
	for range 500 {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
		if n := strings.Count(w.Body.String(), "threeds_certificate_not_after_timestamp_seconds{"); n != 2 {
			t.Errorf("a scrape finds %d certificates, want 2", n)
			break
		}
	}
	close(stop)
	<-ended
}
