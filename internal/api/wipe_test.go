package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/auth"
)

// holder keeps hold of the body it was given, as no engine may but for an /auth and
// a /postauth.
type holder struct {
	engine
	body []byte
	said string
}

func (e *holder) Authenticate(ctx context.Context, _ *account.Account, body []byte) ([]byte, auth.Notes, error) {
	answer, err := e.Preauth(ctx, nil, body, nil)
	return answer, auth.Notes{}, err
}

func (e *holder) Result(ctx context.Context, _ *account.Account, body []byte) ([]byte, error) {
	return e.Preauth(ctx, nil, body, nil)
}

func (e *holder) Preauth(_ context.Context, _ *account.Account, body, dst []byte) ([]byte, error) {
	e.body, e.said = body, string(body)
	return append(dst, "{}"...), nil
}

// TestBodiesAreWiped: memory that the next request gets holds no card number of this one.
func TestBodiesAreWiped(t *testing.T) {
	const number = "4000001234567890"
	for _, size := range []int{1, 10, promised / len(number), promised/len(number) + 1} {
		for _, chunked := range []bool{false, true} {
			e := &holder{engine: engine{new(fake)}}
			h := newHandler(e.fake)
			h.Engine = e
			sent := strings.Repeat(number, size)
			var body io.Reader = strings.NewReader(sent)
			if chunked {
				body = io.MultiReader(body)
			}
			if w := ask(h, "/preauth", "k", body); w.Code != http.StatusOK || e.said != sent {
				t.Fatalf("%d: %d, %d bytes came", w.Code, size, len(e.said))
			}
			if i := bytes.IndexFunc(e.body, func(c rune) bool { return c != 0 }); i >= 0 {
				t.Errorf("%d bytes, chunked %t: still there: %q", len(sent), chunked, e.body[i:min(i+40, len(e.body))])
			}
		}
	}
}

// TestBodiesStay: what an engine may keep is nobody else's memory afterwards.
func TestBodiesStay(t *testing.T) {
	for _, path := range []string{"/auth", "/postauth"} {
		e := &holder{engine: engine{new(fake)}}
		h := newHandler(e.fake)
		h.Engine = e
		if w := ask(h, path, "k", strings.NewReader(`{"acctNumber":"4000001234567890"}`)); w.Code != http.StatusOK {
			t.Fatalf("%s: %d", path, w.Code)
		}
		if string(e.body) != e.said {
			t.Errorf("%s: was %q, is %q", path, e.said, e.body)
		}
	}
}
