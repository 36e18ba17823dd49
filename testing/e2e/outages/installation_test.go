package outages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// The schemes of both installations. All cards are of both.
const (
	visa       = "visa"
	mastercard = "mastercard"
)

// pace is the time between two requests of a merchant with cards of one scheme.
const pace = 200 * time.Millisecond

// certificatesLast is so long that no alert says that a certificate ends.
const certificatesLast = 400 * 24 * time.Hour

// An installation is a server with a store and directory servers of its own. Two merchants send requests all the time:
// Shop with cards of both schemes, Other with cards of Visa.
type installation struct {
	*rig.Site
	job    string // its name in Prometheus
	master *rig.Wire
	token  string // of the admin API
	// isSpoilt makes the server refuse the requests of the second merchant.
	isSpoilt atomic.Bool
}

// install starts an installation whose configuration has further lines, until the test ends.
func install(t *testing.T, job string, p rig.Plan) *installation {
	t.Helper()
	ca := rig.NewAuthorityFor(t, certificatesLast)
	i := &installation{job: job, master: rig.NewWire(t, rig.NewAuthorityFor(t, certificatesLast))}
	p.Master = i.master
	p.Console = `console: {listen: "127.0.0.1:0", url: "http://localhost:9090"}`
	p.Visa = "    timeout: 1s" // a directory that does not answer is given up soon
	i.Site = rig.StartSite(t, ca, rig.NewWire(t, ca), p)
	rig.Must(t, rig.WithOperators(t.Context(), i.ConfigFile, func(o *operator.Service) (err error) {
		i.token, err = o.CreateToken(t.Context(), operator.Token{Name: "test", Role: operator.Viewer})
		return err
	}))
	ctx, stop := context.WithCancel(context.Background())
	var merchants sync.WaitGroup
	merchants.Go(func() { i.sell(ctx) })
	t.Cleanup(func() {
		stop()
		merchants.Wait()
	})
	return i
}

// sell has the merchants pay until ctx ends.
func (i *installation) sell(ctx context.Context) {
	var payments sync.WaitGroup
	defer payments.Wait()
	ticks := time.NewTicker(pace)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		payments.Go(func() { _ = i.pay(ctx, i.APIKey, visa, nil) })
		payments.Go(func() { _ = i.pay(ctx, i.APIKey, mastercard, nil) })
		payments.Go(func() {
			var changes rig.Object
			if i.isSpoilt.Load() {
				changes = rig.Object{"deviceChannel": "09"}
			}
			_ = i.pay(ctx, i.OtherAPIKey, visa, changes)
		})
	}
}

// pay makes a request of a merchant with a card of a scheme, with changes.
func (i *installation) pay(ctx context.Context, key, scheme string, changes rig.Object) error {
	answer, err := i.call(ctx, key, "/preauth", rig.Object{"acctNumber": rig.EnrolledPAN, "ds": scheme})
	if err != nil {
		return err
	}
	request := rig.BrowserRequest("2.2.0", rig.EnrolledPAN, answer.Text("threeDSServerTransID"), "U")
	_, err = i.call(ctx, key, "/auth", request.With(changes))
	return err
}

// call posts a body as a merchant. An answer with another status than 200 is an error.
func (i *installation) call(ctx context.Context, key, path string, body rig.Object) (answer rig.Object, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, i.API+path, bytes.NewReader(rig.Marshal(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("APIKey", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("%s: %d %v", path, res.StatusCode, answer)
	}
	return answer, nil
}

// overview returns what the first page of the console shows. It is an error while the console does not work.
func (i *installation) overview(t *testing.T) (o admin.Overview, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, i.ConsoleURL+"/admin/v1/overview", nil)
	rig.Must(t, err)
	req.Header.Set("Authorization", "Bearer "+i.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return o, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return o, errors.New(res.Status)
	}
	return o, json.NewDecoder(res.Body).Decode(&o)
}

// awaitNotice waits until the overview has a notice with all words, and returns it and the time of the server then.
func (i *installation) awaitNotice(t *testing.T, title string, words ...string) (n admin.Notice, seen time.Time) {
	t.Helper()
	waittest.Until(t, "the notice "+title, rig.Unhurried(func() bool {
		o, err := i.overview(t)
		if err != nil {
			return false
		}
		for _, n = range o.Attention {
			if hasAll(n.Title+" "+n.Text, append(words, title)) {
				seen = o.To
				return true
			}
		}
		return false
	}))
	return n, seen
}

// awaitOver waits until a notice is among those that are over, and not among the others.
func (i *installation) awaitOver(t *testing.T, title string) (n admin.Notice) {
	t.Helper()
	waittest.Until(t, "the end of the notice "+title, rig.Unhurried(func() bool {
		o, err := i.overview(t)
		if err != nil {
			return false
		}
		for _, open := range o.Attention {
			if strings.Contains(open.Title, title) {
				return false
			}
		}
		for _, n = range o.Over {
			if strings.Contains(n.Title, title) {
				return true
			}
		}
		return false
	}))
	return n
}

// hasAll reports whether a text has all words.
func hasAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
