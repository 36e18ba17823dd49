package journal

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD105StoreAwayIsLoggedOnceASecond: while the store is away, a running server has a line of its own for each
// request and one line a second that says why.
func TestD105StoreAwayIsLoggedOnceASecond(t *testing.T) {
	t.Parallel()
	down, p := rig.NewFaulty()
	s := rig.NewSite(t, p)
	id := s.Request("2.2.0").Text("threeDSServerTransID")
	down.Down.Store(true)
	start := time.Now()
	const requests = 60
	for range requests {
		res, got := s.Call(http.MethodPost, "/postauth", s.APIKey, rig.Object{"threeDSServerTransID": id})
		if !strings.Contains(string(got), `"errorCode":"403"`) {
			t.Fatalf("/postauth while the store is away: %d %v", res.StatusCode, got)
		}
	}
	seconds := int(time.Since(start)/time.Second) + 1
	lines := strings.Count(s.Log.String(), `"level":"ERROR","msg":"transaction not read"`)
	if lines == 0 || lines > seconds {
		t.Errorf("%d requests in %d seconds have %d lines about the store", requests, seconds, lines)
	}
	waittest.Until(t, "the lines of the requests", func() bool {
		return strings.Count(s.Log.String(), `"operation":"/postauth"`) == requests
	})
}
