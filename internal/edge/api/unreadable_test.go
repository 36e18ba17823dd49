package api

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/acp"
)

// lostSealer opens nothing, as after the secret that sealed has left the key file.
type lostSealer struct{ openSealer }

func (lostSealer) Open(string, []byte) ([]byte, error) { return nil, errors.New("does not open") }

// TestO21AnswerThatCannotBeReadIsToldAsThat: if the kept answer to a request does not open, the request gets 409, with
// what to do and without Retry-After, however often it is made, and it is not run again. Agents get the same in the
// words of their protocol.
func TestO21AnswerThatCannotBeReadIsToldAsThat(t *testing.T) {
	h, c := agentHandler()
	post := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/explain", strings.NewReader(`{}`))
		r.Header.Set("APIKey", "k")
		r.Header.Set("Idempotency-Key", "one")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	key := map[string]string{"Idempotency-Key": "two"}
	first := post()
	if again := post(); again.Code != first.Code || again.Header().Get("Idempotency-Replayed") != "true" {
		t.Fatalf("%d %s, and then %d %s", first.Code, first.Body, again.Code, again.Body)
	}
	if w := askSigned(h, "POST", delegatePath, agentRequest, key); w.Code != 201 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	h.Idempotency.Sealer = lostSealer{}
	for range 2 {
		w := post()
		var p api.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 409 || p.Type != "urn:threeds:problem:answer-unreadable" ||
			!strings.Contains(p.Detail, "cannot be read any more") || !strings.Contains(p.Detail, "GET /authentications") || p.Title == "" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		agent := askSigned(h, "POST", delegatePath, agentRequest, key)
		var said acp.Error
		if err := json.Unmarshal(agent.Body.Bytes(), &said); err != nil || agent.Code != 409 || said.Code != acp.IdempotencyConflict ||
			!strings.Contains(said.Message, "cannot be read any more") {
			t.Errorf("an agent: %d %s", agent.Code, agent.Body)
		}
		for _, w := range []*httptest.ResponseRecorder{w, agent} {
			if w.Header().Get("Retry-After") != "" || w.Header().Get("Idempotency-Replayed") != "" {
				t.Errorf("headers %v", w.Header())
			}
		}
	}
	if c.created != 1 {
		t.Errorf("the request was run %d times", c.created)
	}
}
