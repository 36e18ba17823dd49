package ranges

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// silentPAN is a card whose issuer never answers the directory server.
const silentPAN = "4000001234567809"

// silentFor has the directory server of a site leave the AReqs of silentPAN unanswered until the function that it
// returns is called, or the test ends. All other cards are answered Y. Waiting counts the AReqs without an answer.
func silentFor(s *rig.Site) (waiting *atomic.Int64, release func()) {
	waiting = new(atomic.Int64)
	end := make(chan struct{})
	release = sync.OnceFunc(func() { close(end) })
	s.T.Cleanup(release)
	s.Directory.Play(func(w http.ResponseWriter, areq rig.Object) {
		if areq.Text("acctNumber") == silentPAN {
			waiting.Add(1)
			<-end
			waiting.Add(-1)
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write(rig.Marshal(rig.AnswerTo(areq, "Y")))
	})
	return waiting, release
}

// requestOf is a good browser AReq for a card, with an id that the merchant of a key got.
func requestOf(s *rig.Site, key, pan string) rig.Object {
	s.T.Helper()
	res, data := s.Call(http.MethodPost, "/preauth", key, rig.Object{"acctNumber": pan})
	if res.StatusCode != http.StatusOK {
		s.T.Fatalf("/preauth: %d %s", res.StatusCode, data)
	}
	return rig.BrowserRequest("2.2.0", pan, rig.ParseObject(s.T, data).Text("threeDSServerTransID"), "U")
}

// TestSilentCardOfOneMerchantLeavesTheSchemeOpen: a merchant sends many AReqs, again and again, for a card that the
// directory server never answers. No AReq of another merchant for the same scheme is refused meanwhile. It is answered,
// unless the machine is too slow for the time limit, which is short here.
func TestSilentCardOfOneMerchantLeavesTheSchemeOpen(t *testing.T) {
	t.Parallel()
	const crowd, good = 20, 20
	const breakTime = 5 * time.Second // of failures, from which on a breaker may be open
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: "limits: {per_key: 10000/s}\ntimeouts: {authentication: 3s}"})
	silentFor(s)
	var first sync.Once
	var since time.Time
	end, long := make(chan struct{}), make(chan struct{})
	enough := sync.OnceFunc(func() { close(long) })
	var others sync.WaitGroup
	for range crowd {
		others.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				req := requestOf(s, s.APIKey, silentPAN)
				if res, data := s.Call(http.MethodPost, "/auth", s.APIKey, req); res.StatusCode != http.StatusBadRequest {
					t.Errorf("the silent card: %d %s", res.StatusCode, data)
				}
				first.Do(func() { since = time.Now() })
				if time.Since(since) > breakTime+time.Second {
					enough()
				}
			}
		})
	}
	<-long
	answered := 0
	for range good {
		res, data := s.Call(http.MethodPost, "/auth", s.OtherAPIKey, requestOf(s, s.OtherAPIKey, rig.EnrolledPAN))
		if res.StatusCode == http.StatusOK {
			answered++
		} else if detail := rig.ParseObject(t, data).Text("errorDetail"); detail != "Connection timeout" {
			t.Errorf("the other merchant: %d %s", res.StatusCode, data)
		}
	}
	close(end)
	others.Wait()
	if answered == 0 {
		t.Errorf("none of %d requests of the other merchant was answered", good)
	}
	if strings.Contains(s.Exposed(), `threeds_directory_requests_total{message="AReq",outcome="open",scheme="visa"}`) {
		t.Error("the breaker has opened: AReqs were refused without being sent")
	}
}

// TestD111OneMerchantHasHalfOfADirectory: AReqs of one merchant on their way to one directory server are limited. What
// is beyond is refused with 429, Erro 103 and Retry-After, before the id is used up. Other merchants are not concerned.
func TestD111OneMerchantHasHalfOfADirectory(t *testing.T) {
	t.Parallel()
	for limits, most := range map[string]int64{"per_directory: 8": 4, "per_directory: 8, per_merchant: 3": 3, "per_directory: 1": 1} {
		t.Run(limits, func(t *testing.T) {
			t.Parallel()
			ca := rig.NewAuthority(t)
			s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: fmt.Sprintf("limits: {%s}", limits)})
			waiting, release := silentFor(s)
			var crowd sync.WaitGroup
			for range most {
				req := requestOf(s, s.APIKey, silentPAN)
				crowd.Go(func() {
					if res, data := s.Call(http.MethodPost, "/auth", s.APIKey, req); res.StatusCode != http.StatusOK {
						t.Errorf("within the limit: %d %s", res.StatusCode, data)
					}
				})
			}
			waittest.Until(t, "the AReqs at the directory server", func() bool { return waiting.Load() == most })
			req := requestOf(s, s.APIKey, rig.EnrolledPAN)
			for range 2 {
				res, data := s.Call(http.MethodPost, "/auth", s.APIKey, req)
				rig.Expected{
					Status: http.StatusTooManyRequests, Code: "103", Version: "2.2.0", TransID: req.Text("threeDSServerTransID"),
					Detail: "Too many requests of this merchant wait for the directory server, try again",
				}.Check(t, res.StatusCode, rig.ParseObject(t, data))
				if res.Header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
			}
			if most > 1 { // else the other merchant finds no place either
				res, data := s.Call(http.MethodPost, "/auth", s.OtherAPIKey, requestOf(s, s.OtherAPIKey, rig.EnrolledPAN))
				if res.StatusCode != http.StatusOK {
					t.Errorf("another merchant: %d %s", res.StatusCode, data)
				}
			}
			release()
			crowd.Wait()
			if res, data := s.Call(http.MethodPost, "/auth", s.APIKey, req); res.StatusCode != http.StatusOK {
				t.Errorf("with the id of the refused request: %d %s", res.StatusCode, data)
			}
			if n := len(s.Directory.Sent(req.Text("threeDSServerTransID"))); n != 1 {
				t.Errorf("%d AReqs with that id came, want 1", n)
			}
			if !strings.Contains(s.Exposed(), `threeds_refused_total{operation="auth",reason="per_merchant"} 2`+"\n") {
				t.Error("the refusals are not counted")
			}
		})
	}
}
