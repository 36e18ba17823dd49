package obs_test

import (
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/obs"
)

// TestObserve: every operation is counted once, by whomever at the same time.
func TestObserve(t *testing.T) {
	m := obs.NewMetrics()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				m.Observe("preauth", "visa", "ok", time.Millisecond)
				m.Observe("preauth", "jcb", "305", time.Millisecond)
				m.Observe("auth", "visa", "Y", time.Second)
			}
		})
	}
	all.Wait()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`threeds_operations_total{operation="preauth",outcome="ok",scheme="visa"} 800`,
		`threeds_operations_total{operation="preauth",outcome="305",scheme="jcb"} 800`,
		`threeds_operations_total{operation="auth",outcome="Y",scheme="visa"} 800`,
		`threeds_operation_seconds_count{operation="preauth"} 1600`,
		`threeds_operation_seconds_sum{operation="auth"} 800`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	m := obs.NewMetrics()
	b.ReportAllocs()
	for b.Loop() {
		m.Observe("preauth", "visa", "ok", time.Millisecond)
	}
}
