package browser

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/engine/session"
)

// patientEngine has authentications whose state does not change.
type patientEngine struct{ Engine }

func (e patientEngine) OpenBrowser(context.Context, string) (*session.BrowserView, error) {
	return &session.BrowserView{Step: session.StepAuthentication}, nil
}

func (e patientEngine) ViewBrowser(ctx context.Context, _, _ string, _ int) (*session.BrowserView, error) {
	<-ctx.Done()
	return &session.BrowserView{Step: session.StepAuthentication, Version: 7}, nil
}

func (e patientEngine) EndBrowserChallenge(context.Context, string) (*session.BrowserView, error) {
	return &session.BrowserView{Step: session.StepResult, ID: "id"}, nil
}

func (e patientEngine) WaitAfterChallenge(ctx context.Context, _ string) (*session.BrowserView, error) {
	<-ctx.Done()
	return &session.BrowserView{Step: session.StepResult, ID: "id"}, nil
}

// TestOV6FourRequestsOfATokenMayWait: four requests of one authentication may wait. The fifth is answered immediately,
// with the present state, and its page is asked to pause. Requests of other authentications wait.
func TestOV6FourRequestsOfATokenMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, engine := newTestHandler(func(s *Settings) { s.Engine = patientEngine{s.Engine} })
		token, other := engine.Add(fakeRow{}), engine.Add(fakeRow{})
		binding := newSecret()
		start := time.Now()
		waits := func(token string) <-chan *httptest.ResponseRecorder {
			answer := make(chan *httptest.ResponseRecorder, 1)
			go func() { answer <- call(h, "GET", "/a/state?wait=20&after=7", token, binding, "") }()
			synctest.Wait()
			return answer
		}
		var answers []<-chan *httptest.ResponseRecorder
		for range 4 {
			answers = append(answers, waits(token))
		}
		fifth := <-waits(token)
		if body := fifth.Body.String(); fifth.Code != 200 || !strings.Contains(body, `"pause":1`) ||
			!strings.Contains(body, `"version":7`) || time.Since(start) != 0 {
			t.Errorf("the fifth: %d %s after %v, want 200 with the state and a pause, at once", fifth.Code, body, time.Since(start))
		}
		answers = append(answers, waits(other))
		for _, answer := range answers {
			if w := <-answer; w.Code != 200 || strings.Contains(w.Body.String(), "pause") || time.Since(start) != 20*time.Second {
				t.Errorf("%d %s after %v, want the state after 20 s", w.Code, w.Body, time.Since(start))
			}
		}
		if sixth := <-waits(token); time.Since(start) != 40*time.Second {
			t.Errorf("afterwards: %d %s after %v, want a wait of 20 s", sixth.Code, sixth.Body, time.Since(start))
		}
	})
}

// TestOV6WhoComesBackFromTheBankWaitsInFourPlaces: requests that wait for the result after a challenge are limited
// like those of threeds.js.
func TestOV6WhoComesBackFromTheBankWaitsInFourPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHandler(func(s *Settings) { s.Engine = patientEngine{s.Engine} })
		start := time.Now()
		ends := make(chan time.Duration, 6)
		for range 6 {
			go func() {
				submit(h, "/n/tag/challenge", nil, nil)
				ends <- time.Since(start)
			}()
		}
		var early, late int
		for range 6 {
			switch <-ends {
			case 0:
				early++
			case backWait:
				late++
			}
		}
		if early != 2 || late != 4 {
			t.Errorf("%d were answered at once and %d after %v, want 2 and 4", early, late, backWait)
		}
	})
}
