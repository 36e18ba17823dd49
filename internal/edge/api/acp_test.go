package api

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/protocol/acp"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/idempotency"
	"github.com/openthreeds/threeds/internal/state/store"
)

func (engine) CreateForAgent(context.Context, *account.Account, session.Delegation, []byte) (*auth.Authentication, error) {
	return nil, auth.ErrNoAuthentication
}

func (engine) AuthenticateForAgent(context.Context, *account.Account, session.Delegation, string, []byte) (*auth.Authentication, error) {
	return nil, auth.ErrNoAuthentication
}

func (engine) AgentAuthentication(context.Context, *account.Account, string) (*auth.Authentication, error) {
	return nil, auth.ErrNoAuthentication
}

// A countingEngine creates sessions for agents, and counts them.
type countingEngine struct {
	engine
	created int
	err     error
}

func (c *countingEngine) CreateForAgent(context.Context, *account.Account, session.Delegation, []byte) (*auth.Authentication, error) {
	if c.err != nil {
		return nil, c.err
	}
	c.created++
	return &auth.Authentication{ID: sessionID, Status: api.StatusRequiresBrowser}, nil
}

func (c *countingEngine) AgentAuthentication(context.Context, *account.Account, string) (*auth.Authentication, error) {
	return &auth.Authentication{ID: sessionID, Status: api.StatusRequiresBrowser}, c.err
}

func (c *countingEngine) AuthenticateForAgent(context.Context, *account.Account, session.Delegation, string, []byte) (*auth.Authentication, error) {
	return nil, session.ErrOtherKey
}

// memoryStore keeps rows in memory, for one caller.
type memoryStore map[string]store.Txn

func (m memoryStore) Create(_ context.Context, t store.Txn) error {
	if _, ok := m[t.ID]; ok {
		return store.ErrExists
	}
	m[t.ID] = t
	return nil
}

func (m memoryStore) Get(_ context.Context, id string) (store.Txn, error) {
	if t, ok := m[id]; ok {
		return t, nil
	}
	return store.Txn{}, store.ErrNotFound
}

func (m memoryStore) Update(_ context.Context, was store.Txn, change func(*store.Txn) error) error {
	t := m[was.ID]
	if err := change(&t); err != nil {
		return err
	}
	m[was.ID] = t
	return nil
}

// openSealer seals nothing.
type openSealer struct{}

func (openSealer) Seal(_ string, data []byte) []byte          { return slices.Clone(data) }
func (openSealer) Open(_ string, data []byte) ([]byte, error) { return data, nil }

const (
	sessionID    = "6f0f6a1c-6f1f-4d8c-8d0f-0a0b0c0d0e0f"
	agentRequest = `{"merchant_id":"a","payment_method":{"type":"card","number":"4000001234567890","exp_month":"12","exp_year":"2030",` +
		`"name":"Ann"},"amount":{"value":1,"currency":"EUR"}}`
)

// agentHandler returns a handler that wants signed requests, and its engine.
func agentHandler() (*Handler, *countingEngine) {
	c := &countingEngine{engine: engine{new(fake)}}
	h := newHandler(c.fake)
	h.Engine = c
	h.ACP = &acp.Signature{Secret: []byte("0123456789abcdef"), Now: time.Now}
	h.Idempotency = &idempotency.Keeper{Store: memoryStore{}, Sealer: openSealer{}, Now: time.Now, Keep: time.Hour}
	return h, c
}

// askSigned makes a signed request. An entry of further that is "" takes a header out.
func askSigned(h *Handler, method, path, body string, further map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	at := time.Now().UTC().Format(time.RFC3339)
	header := map[string]string{
		"Authorization": "Bearer k", "API-Version": acp.Version, "Timestamp": at, "Signature": h.ACP.Sign(at, []byte(body)),
	}
	maps.Copy(header, further)
	for name, value := range header {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestD50SignatureComesBeforeKeptAnswers: a request that is not signed is 401, on GET too, and gets no kept answer.
func TestD50SignatureComesBeforeKeptAnswers(t *testing.T) {
	h, c := agentHandler()
	key := map[string]string{"Idempotency-Key": "one"}
	for range 2 {
		if w := askSigned(h, "POST", delegatePath, agentRequest, key); w.Code != 201 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if c.created != 1 {
		t.Errorf("%d sessions", c.created)
	}
	for _, tt := range []struct{ method, path, body string }{
		{"POST", delegatePath, agentRequest}, {"GET", delegatePath + "/" + sessionID, ""},
		{"POST", delegatePath + "/" + sessionID + "/authenticate", `{"fingerprint_completion":"Y"}`},
	} {
		if w := askSigned(h, tt.method, tt.path, tt.body, nil); w.Code == 401 {
			t.Errorf("%s %s, signed: %s", tt.method, tt.path, w.Body)
		}
		for _, further := range []map[string]string{
			{"Signature": ""}, {"Timestamp": ""}, {"Signature": h.ACP.Sign("2026-01-01T00:00:00Z", []byte(tt.body))},
			{"Signature": h.ACP.Sign("2026-01-01T00:00:00Z", []byte(tt.body)), "Timestamp": "2026-01-01T00:00:00Z"},
		} {
			maps.Copy(further, key)
			w := askSigned(h, tt.method, tt.path, tt.body, further)
			var said acp.Error
			if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || w.Code != 401 || said.Type != acp.InvalidRequest ||
				w.Header().Get("Idempotency-Key") != "one" || w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s %v: %d %s", tt.method, tt.path, further, w.Code, w.Body)
			}
		}
	}
	if c.created != 2 {
		t.Errorf("%d sessions", c.created)
	}
}

// TestACPIsOffUnlessConfigured: without it the paths are as any that there are not.
func TestACPIsOffUnlessConfigured(t *testing.T) {
	h := newHandler(new(fake))
	for _, path := range []string{delegatePath, delegatePath + "/" + sessionID, delegatePath + "/" + sessionID + "/authenticate"} {
		if got, want := ask(h, path, "k", strings.NewReader("{}")),
			ask(h, "/nowhere", "k", strings.NewReader("{}")); got.Code != 404 || got.Body.String() != want.Body.String() {
			t.Errorf("%s: %d %s, want %s", path, got.Code, got.Body, want.Body)
		}
	}
}

// TestD51ErrorsOfAgents: each refusal has the type of its status, and a code.
func TestD51ErrorsOfAgents(t *testing.T) {
	for _, tt := range []struct {
		method, path, body string
		err                error
		status             int
		kind, code         string
	}{
		{"POST", delegatePath, `{`, nil, 400, acp.InvalidRequest, acp.InvalidRequest},
		{"POST", delegatePath, strings.Repeat(" ", 65<<10), nil, 413, acp.InvalidRequest, acp.InvalidRequest},
		{"GET", delegatePath, "", nil, 405, acp.InvalidRequest, acp.InvalidRequest},
		{"POST", delegatePath + "/" + sessionID, "{}", nil, 405, acp.InvalidRequest, acp.InvalidRequest},
		{"POST", delegatePath, agentRequest, session.ErrNoRanges, 503, acp.ServiceUnavailable, acp.ServiceUnavailable},
		{"POST", delegatePath, agentRequest, txn.ErrStoreUnreachable, 503, acp.ServiceUnavailable, acp.ServiceUnavailable},
		{"POST", delegatePath, agentRequest, &auth.TooManyError{}, 429, acp.RateLimitExceeded, acp.RateLimitExceeded},
		{"POST", delegatePath, agentRequest, session.ErrAlreadySent, 409, acp.InvalidRequest, acp.DuplicateRequest},
		{"POST", delegatePath, agentRequest, http.ErrBodyNotAllowed, 500, acp.ProcessingError, acp.ProcessingError},
		{"GET", delegatePath + "/x", "", nil, 404, acp.InvalidRequest, acp.InvalidRequest},
		{"POST", delegatePath + "/" + sessionID + "/authenticate", `{"fingerprint_completion":"Y"}`, nil, 409, acp.InvalidRequest, acp.InvalidRequest},
	} {
		h, c := agentHandler()
		c.err = tt.err
		w := askSigned(h, tt.method, tt.path, tt.body, map[string]string{"Request-Id": "r"})
		var said acp.Error
		if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || w.Code != tt.status || said.Type != tt.kind || said.Code != tt.code ||
			w.Header().Get("Request-Id") != "r" || (w.Code == 503 || w.Code == 429) && w.Header().Get("Retry-After") == "" {
			t.Errorf("%s %s %v: %d %v %s", tt.method, tt.path, tt.err, w.Code, w.Header(), w.Body)
		}
	}
}
