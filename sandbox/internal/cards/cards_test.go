package cards

import (
	"slices"
	"strings"
	"testing"
)

func TestCardTableErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "no table"},
		{"* versions 2.1.0", "line 1: a line before the first table"},
		{"table *\n\n* versions", `line 3: "versions": want versions, ascending`},
		{"table *\n* versions 2.2.0 2.1.0", `line 2: "versions 2.2.0 2.1.0": want versions, ascending`},
		{"table *\n* versions 2.3.0", `line 2: "versions 2.3.0": no version "2.3.0"`},
		{"table *\n* versions 2.1.0; versions 2.2.0", "line 2: versions twice"},
		{"table *\n* method sometimes", `line 2: "method sometimes": want method and one of answers, none, silent`},
		{"table *\n* method none; method none", "line 2: two methods"},
		{"table *\n*03", "line 2: a pattern that says nothing"},
		{"table *\n*03*4 answer Y", `line 2: pattern "*03*4": want digits and dots with a star at either end`},
		{"table *\nx03 answer Y", `line 2: pattern "": want digits and dots with a star at either end`},
		{"table x", `line 1: pattern "x": want digits and dots with a star at either end`},
		{"table *", "table * has no lines"},
		{"table *\n* answer", `line 2: "answer": want answer and Y, N, A, R, I or U`},
		{"table *\n* answer C", `line 2: "answer C": want answer and Y, N, A, R, I or U`},
		{"table *\n* answer N", `line 2: "answer N": N, R and U, and no others, have reason= and two digits`},
		{"table *\n* answer Y reason=01", `line 2: "answer Y reason=01": N, R and U, and no others, have reason= and two digits`},
		{"table *\n* answer N reason=1", `line 2: "answer N reason=1": N, R and U, and no others, have reason= and two digits`},
		{"table *\n* answer N because=01", `line 2: "answer N because=01": N, R and U, and no others, have reason= and two digits`},
		{"table *\n* answer Y; silence", "line 2: two outcomes"},
		{"table *\n* challenge", `line 2: "challenge": want challenge and one of passes, fails, asks, outside, decoupled`},
		{"table *\n* challenge hangs", `line 2: "challenge hangs": want challenge and one of passes, fails, asks, outside, decoupled`},
		{"table *\n* decoupled soon", `line 2: "decoupled soon": want decoupled and one of passes, fails, expires, rejected`},
		{"table *\n* silence soon", `line 2: "silence soon": nothing comes after silence`},
		{"table *\n* page wide; answer Y", `line 2: "page wide": want page and one of tall`},
		{"table *\n* page tall; method none", "line 2: conditions of an outcome without an outcome"},
		{"table *\n* only BRW; answer Y", `line 2: "only BRW": want only and one of 3RI`},
		{"table *\n* not here; answer Y", `line 2: "not here": want not and one of enrolled, 3RI`},
		{"table *\n* only 3RI; method none", "line 2: conditions of an outcome without an outcome"},
		{"table *\n* last eight < 5; answer Y", `line 2: "last eight < 5": want last eight <= and a number of up to eight digits`},
		{"table *\n* last eight <= 123456789; answer Y", `line 2: "last eight <= 123456789": want last eight <= and a number of up to eight digits`},
		{"table *\n* info; answer Y", "line 2: info has 1-128 characters"},
		{"table *\n* info " + strings.Repeat("x", 129) + "; answer Y", "line 2: info has 1-128 characters"},
		{"table *\n* cres; answer Y", `line 2: "cres": want cres and one of padded, completed`},
		{"table *\n* answer Y;", "line 2: an empty statement"},
		{"table *\n* shine", `line 2: unknown word "shine"`},
		{"table *\n* shine\n* rain", "line 2: unknown word \"shine\"\nline 3: unknown word \"rain\""},
	} {
		_, err := Read(test.text)
		if err == nil || err.Error() != test.want {
			t.Errorf("Read(%q) =\n%v, want\n%s", test.text, err, test.want)
		}
	}
}

// TestLeadsAreFree: generated ranges begin with digits of the scheme that no documented range has.
func TestLeadsAreFree(t *testing.T) {
	for _, s := range Schemes() {
		leads := s.Leads()
		for _, lead := range leads {
			if slices.Contains(s.Prefixes, lead) || SchemeOf(lead) != s.Word && s.spare == nil {
				t.Errorf("%s: %s", s.Word, lead)
			}
		}
		if len(leads) == 0 || !slices.IsSorted(leads) {
			t.Errorf("%s: %v", s.Word, leads)
		}
	}
}
