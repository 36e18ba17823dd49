package api

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/account"
)

// holder keeps hold of the body it was given, as no engine may.
type holder struct {
	engine
	body []byte
	said string
}

func (e *holder) Preauth(_ *account.Account, body, dst []byte) ([]byte, error) {
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
