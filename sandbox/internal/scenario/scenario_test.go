package scenario_test

import (
	"testing"

	"github.com/openthreeds/threeds/sandbox/internal/scenario"
)

func TestPattern(t *testing.T) {
	for _, test := range []struct {
		pattern, card string
		want          bool
	}{
		{"*", "4000000000000003", true},
		{"*..03", "4000000000000003", true},
		{"*..03", "4000000000000030", false},
		{"900.1004*", "9001100411111111", true},
		{"900.1004*", "9011100411111111", false},
		{"*55*", "4000005500000003", true},
		{"*55*", "4000005050000003", false},
		{"4.", "45", true},
		{"4.", "456", false},
		{"*4567", "567", false},
	} {
		p, err := scenario.ReadPattern(test.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(test.card); got != test.want {
			t.Errorf("%s.match(%s) = %t, want %t", test.pattern, test.card, got, test.want)
		}
	}
}
