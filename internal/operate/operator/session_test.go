package operator_test

import (
	"testing"

	"github.com/openthreeds/threeds/internal/operate/operator"
)

// TestD142FormTokenIsNeverTheSame: each page gets another token, and every one of them is good for its session alone.
func TestD142FormTokenIsNeverTheSame(t *testing.T) {
	mine, other := &operator.Session{CSRF: operator.NewSecret()}, &operator.Session{CSRF: operator.NewSecret()}
	seen := map[string]bool{}
	for range 100 {
		token := mine.FormToken()
		if seen[token] || !mine.IsFormToken(token) || other.IsFormToken(token) || mine.IsFormToken(token[1:]) || mine.IsFormToken("A"+token) {
			t.Fatalf("token %q", token)
		}
		seen[token] = true
	}
	none := &operator.Session{}
	for _, text := range []string{"", "x", mine.CSRF, none.FormToken()} {
		if mine.IsFormToken(text) || none.IsFormToken(text) {
			t.Errorf("%q is good", text)
		}
	}
}
