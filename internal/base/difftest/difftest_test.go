package difftest_test

import (
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/difftest"
)

type card struct {
	Name   string
	Digits []int
	secret string
}

// TestDiffOfEqualValuesIsEmpty: equal values have no difference, whatever they are made of.
func TestDiffOfEqualValuesIsEmpty(t *testing.T) {
	for _, values := range [][2]any{
		{"a\nb", "a\nb"},
		{nil, nil},
		{[]string{"x"}, []string{"x"}},
		{map[string]bool{"a": true}, map[string]bool{"a": true}},
		{&card{Name: "a", Digits: []int{1}}, &card{Name: "a", Digits: []int{1}}},
	} {
		if diff := difftest.Diff(values[0], values[1]); diff != "" {
			t.Errorf("%v: %s", values[0], diff)
		}
	}
}

// TestDiffShowsLines: the lines that differ are shown with few others around them.
func TestDiffShowsLines(t *testing.T) {
	want := "1\n2\n3\n4\n5\nred\n6\n7\n8\n9"
	for got, diff := range map[string]string{
		strings.Replace(want, "red", "blue", 1):   "  ...\n  3\n  4\n  5\n- red\n+ blue\n  6\n  7\n  8\n  ...\n",
		strings.Replace(want, "red\n", "", 1):     "  ...\n  3\n  4\n  5\n- red\n  6\n  7\n  8\n  ...\n",
		strings.Replace(want, "1\n2\n", "0\n", 1): "- 1\n- 2\n+ 0\n  3\n  4\n  5\n  ...\n",
	} {
		if s := difftest.Diff(want, got); s != diff {
			t.Errorf("%q:\n%swant:\n%s", got, s, diff)
		}
	}
}

// TestDiffSeesEverything: values are different if anything in them is, also what JSON does not show.
func TestDiffSeesEverything(t *testing.T) {
	for _, test := range []struct {
		want, got any
		shows     string
	}{
		{card{Digits: []int{1, 2, 3}}, card{Digits: []int{1, 5, 3}}, "-     2,\n+     5,\n"},
		{card{secret: "a"}, card{secret: "b"}, `secret:"b"`},
		{card{}, card{Digits: []int{}}, "null"},
		{[]string(nil), []string{}, "+ []"},
		{1, int64(1), "1"},
		{"a", nil, "+ null"},
		{func() {}, "a", "+ a"},
		{"\"1\"", []byte{}, "+ \"\""},
		{"a", "a\n", "+ "},
	} {
		if diff := difftest.Diff(test.want, test.got); !strings.Contains(diff, test.shows) || diff == "" {
			t.Errorf("%#v, %#v: %q, want %q in it", test.want, test.got, diff, test.shows)
		}
	}
}
