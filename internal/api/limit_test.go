package api_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/api"
)

// TestLimiter: so many at once and per second, each key for itself.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := api.NewLimiter(3)
		allowed := func(key string) (n int) {
			for range 5 {
				if _, ok := l.Allow(key); ok {
					n++
				}
			}
			return n
		}
		if a, b := allowed("a"), allowed("b"); a != 3 || b != 3 {
			t.Errorf("at once: %d and %d, want 3 and 3", a, b)
		}
		time.Sleep(time.Second)
		if n := allowed("a"); n != 3 {
			t.Errorf("a second later: %d, want 3", n)
		}
		if wait, ok := l.Allow("a"); ok || wait < 1 {
			t.Errorf("Allow = %d, %t; want a wait", wait, ok)
		}
	})
	for rate, want := range map[float64]int{0.1: 10, 0.4: 3, 1: 1, 20: 1} {
		l := api.NewLimiter(rate)
		for range 100 {
			if wait, ok := l.Allow("a"); !ok && wait != want {
				t.Errorf("with %v per second: another try after %d s, want %d", rate, wait, want)
			}
		}
	}
	if _, ok := (*api.Limiter)(nil).Allow("a"); !ok {
		t.Error("no limiter limits")
	}
}
