package api_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// shop has every key be one of the merchant Shop.
type shop struct{}

func (shop) Authenticate(context.Context, string) (*account.Account, error) {
	return &account.Account{KeyID: "aaaaaa", Merchant: &account.Merchant{Name: "Shop"}}, nil
}

// away is a store whose audit trail and events cannot be read.
type away struct{ *storetest.Memory }

var errAway = errors.New("connection refused")

func (away) AuditEntries(context.Context, store.AuditQuery) ([]store.AuditEntry, error) {
	return nil, errAway
}
func (away) EndpointsOf(context.Context, ...string) ([]store.Endpoint, error)    { return nil, errAway }
func (away) FindEvents(context.Context, store.EventQuery) ([]store.Event, error) { return nil, errAway }

// TestW2AStoreThatIsAwayAsksToTryAgain: when the store does not answer, requests about webhooks get 503 and
// Retry-After, so that a client tries again.
func TestW2AStoreThatIsAwayAsksToTryAgain(t *testing.T) {
	t.Parallel()
	db := away{storetest.NewMemory(time.Now)}
	hooks := &webhook.Service{Store: db, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	hooks.Configure(webhook.Settings{})
	h := &api.Handler{

		Keys: shop{}, Log: slog.New(slog.DiscardHandler),
		Acts: &ops.Acts{Hooks: hooks, Operators: &operator.Service{Store: db, Now: time.Now}, Now: time.Now, IsCommandLine: true},
	}
	for _, request := range []string{
		"GET /webhook-endpoints", "POST /webhook-endpoints", "GET /webhook-endpoints/ep_1", "DELETE /webhook-endpoints/ep_1", "GET /events",
	} {
		method, path, _ := strings.Cut(request, " ")
		body := ""
		if method == http.MethodPost {
			body = `{"url": "https://shop.example/hook"}`
		}
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("APIKey", "k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d with Retry-After %q, want 503: %s", request, w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	}
}
