package hint

import (
	"testing"
)

func TestHint(t *testing.T) {
	for _, tt := range []struct{ typed, want string }{
		{"sevre", `, did you mean "serve"?`},
		{"snadbox", `, did you mean "sandbox"?`},
		{"SERVE", `, did you mean "serve"?`},
		{"chekc", `, did you mean "check"?`},
		{"frobnicate", ""},
		{"", ""},
		{"k", ""},
		{"kye", `, did you mean "key"?`},
		{"kxx", ""},
		{"chzzk", `, did you mean "check"?`},
		{"chzzz", ""},
	} {
		if got := For(tt.typed, "serve", "sandbox", "check", "key"); got != tt.want {
			t.Errorf("For(%q) = %q, want %q", tt.typed, got, tt.want)
		}
	}
}

// TestEditDistance: letters added, left out, changed, and neighbours swapped count one each.
func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"abc", "abc", 0}, {"", "a", 1}, {"", "ab", 2}, {"", "abc", 3}, {"ab", "abc", 1}, {"bc", "abc", 1}, {"ac", "abc", 1},
		{"axc", "abc", 1}, {"abcd", "abdc", 1}, {"abcd", "bacd", 1}, {"abcd", "badc", 2}, {"abcd", "acbd", 1}, {"abcd", "dbca", 2}, {"ab", "abcd", 2},
		{"ab", "abcde", 3}, {"abcd", "cdab", 4}, {"abc", "xyz", 3}, {"abcd", "bxad", 3}, {"abxx", "baxx", 1}, {"kitten", "sitting", 3}, {"xab", "ba", 2},
	} {
		for _, got := range []int{editDistance(tt.a, tt.b), editDistance(tt.b, tt.a)} {
			if got != tt.want {
				t.Errorf("between %q and %q: %d, want %d", tt.a, tt.b, got, tt.want)
			}
		}
	}
}
