package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/acp"
	"github.com/openthreeds/threeds/internal/state/account"
)

// disabledKey takes every key for one of a merchant that is disabled.
type disabledKey struct{}

func (disabledKey) Authenticate(context.Context, string) (*account.Account, error) {
	return &account.Account{Merchant: &account.Merchant{Name: "Shop"}, IsDisabled: true}, nil
}

// TestG14DisabledMerchantGetsResultsAlone: whatever would begin something is refused, in the form of its protocol,
// before its method or body is looked at. Results of what is under way are handed out.
func TestG14DisabledMerchantGetsResultsAlone(t *testing.T) {
	t.Parallel()
	const id = "00000000-0000-4000-8000-000000000001"
	const (
		erro    = `"errorCode":"303"`
		problem = `"type":"urn:threeds:problem:merchant-disabled"`
		former1 = `"type":"merchant_disabled"`
		agents  = `"type":"invalid_request"`
	)
	refused := map[string]string{
		"POST /preauth": erro, "POST /auth": erro, "GET /auth": erro,
		"POST /authentications": problem, "GET /authentications": problem, "POST /authentications/search": problem,
		"POST /lookup": problem, "POST /explain": problem,
		"GET /webhook-endpoints": problem, "POST /webhook-endpoints": problem, "PATCH /webhook-endpoints/ep_1": problem,
		"DELETE /webhook-endpoints/ep_1": problem, "POST /webhook-endpoints/ep_1/rotate": problem,
		"POST /webhook-endpoints/ep_1/test": problem,
		"GET /events":                       problem, "GET /events/evt_1": problem, "POST /events/evt_1/resend": problem,
		"POST /enrolled":                former1,
		"POST /delegate_authentication": agents, "POST /delegate_authentication/" + id + "/authenticate": agents,
	}
	served := []string{
		"POST /postauth", "POST /outcome", "POST /check", "GET /authentications/" + id, "GET /authentications/" + id + "?wait=1",
		"POST /authentications/" + id + "/cancel", "GET /delegate_authentication/" + id,
	}
	counted := map[Refusal]int{}
	h := &Handler{
		Engine: engine{new(fake)}, MPI: former{new(fake)}, Keys: disabledKey{}, ACP: new(acp.Signature),
		Log: slog.New(slog.DiscardHandler), Refused: func(_ string, why Refusal) { counted[why]++ },
	}
	call := func(request string) *httptest.ResponseRecorder {
		method, path, _ := strings.Cut(request, " ")
		r := httptest.NewRequest(method, path, strings.NewReader("{}"))
		r.Header.Set("APIKey", "k")
		r.Header.Set("Authorization", "Bearer k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for request, want := range refused {
		w := call(request)
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), want) || !strings.Contains(w.Body.String(), "disabled") {
			t.Errorf("%s: %d %s, want 403 and %s", request, w.Code, w.Body, want)
		}
	}
	if len(counted) != 1 || counted[MerchantDisabled] != len(refused) {
		t.Errorf("counted %v, want %d of %s", counted, len(refused), MerchantDisabled)
	}
	for _, request := range served {
		if w := call(request); w.Code == http.StatusForbidden {
			t.Errorf("%s: %d %s, want that it is served", request, w.Code, w.Body)
		}
	}
	if w := call("POST /nowhere"); w.Code != http.StatusNotFound {
		t.Errorf("a path that there is not: %d", w.Code)
	}
}
