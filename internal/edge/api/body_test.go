package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/state/account"
)

// A bodyKeeper is an engine that keeps the bodies it was given.
type bodyKeeper struct {
	engine
	bodies [][]byte
}

func (k *bodyKeeper) Authenticate(_ context.Context, _ *account.Account, body []byte) ([]byte, auth.Notes, error) {
	answer, err := k.keep(body)
	return answer, auth.Notes{}, err
}

func (k *bodyKeeper) Result(_ context.Context, _ *account.Account, body []byte) ([]byte, error) {
	return k.keep(body)
}

func (k *bodyKeeper) Preauth(_ context.Context, _ *account.Account, body []byte) ([]byte, auth.Notes, error) {
	answer, err := k.keep(body)
	return answer, auth.Notes{}, err
}

func (k *bodyKeeper) keep(body []byte) ([]byte, error) {
	k.bodies = append(k.bodies, body)
	return []byte("{}"), nil
}

// TestBodiesAreNotReused: the memory of a body serves no other request, so no card number
// gets into another request's memory, and an engine may keep what it was given.
func TestBodiesAreNotReused(t *testing.T) {
	for _, path := range []string{"/preauth", "/auth", "/postauth"} {
		k := &bodyKeeper{engine: engine{new(fake)}}
		h := newHandler(k.fake)
		h.Engine = k
		sent := []string{`{"acctNumber":"4000001234567890"}`, `{"acctNumber":"5000001234567890"}`}
		for _, body := range sent {
			if w := ask(h, path, "k", strings.NewReader(body)); w.Code != http.StatusOK {
				t.Fatalf("%s: %d", path, w.Code)
			}
		}
		for i, body := range k.bodies {
			if string(body) != sent[i] {
				t.Errorf("%s: body %d was %q, is %q", path, i, sent[i], body)
			}
		}
	}
}
