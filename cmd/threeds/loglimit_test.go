package main

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestD105StoreAwayIsLoggedOnceASecond: while the store is away, a running server has a line of its own for each
// request and one line a second that says why.
func TestD105StoreAwayIsLoggedOnceASecond(t *testing.T) {
	down, p := newFaulty()
	s := reading(t, p)
	id := s.request("2.2.0").text("threeDSServerTransID")
	down.down.Store(true)
	start := time.Now()
	const requests = 60
	for range requests {
		res, got := s.call(http.MethodPost, "/postauth", s.APIKey, object{"threeDSServerTransID": id})
		if !strings.Contains(string(got), `"errorCode":"403"`) {
			t.Fatalf("/postauth while the store is away: %d %v", res.StatusCode, got)
		}
	}
	seconds := int(time.Since(start)/time.Second) + 1
	lines := strings.Count(s.log.String(), `"level":"ERROR","msg":"transaction not read"`)
	if lines == 0 || lines > seconds {
		t.Errorf("%d requests in %d seconds have %d lines about the store", requests, seconds, lines)
	}
	waitFor(t, "the lines of the requests", func() bool {
		return strings.Count(s.log.String(), `"operation":"/postauth"`) == requests
	})
}
