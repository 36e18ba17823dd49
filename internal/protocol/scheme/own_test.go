package scheme

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestOwnRulesStandBesideThePublicOnes: an operator's file adds to the public rules of any word.
func TestOwnRulesStandBesideThePublicOnes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ scheme, want string }{
		{"visa", "mcc: required, cardExpiryDate: required"},
		{"girocard", "mcc: required"},
	} {
		own, err := ReadOwn(tt.scheme, "scheme "+tt.scheme+" Ours\nrequire mcc in NPA ; vendor-doc sure\n")
		if err != nil {
			t.Fatal(err)
		}
		areq := strings.NewReplacer(`"messageCategory":"01"`, `"messageCategory":"02"`, `"82"`, `"01"`, "cardExpiryDate", "x", "mcc", "y").Replace(visaPayment)
		var got []string
		for _, f := range NewSheet(tt.scheme, own).Check(parse(t, areq), today) {
			got = append(got, f.Text)
		}
		for _, want := range strings.Split(tt.want, ", ") {
			if !strings.Contains(strings.Join(got, ", "), want) {
				t.Errorf("%s: %q, want %q among it", tt.scheme, got, want)
			}
		}
	}
	if NewSheet("girocard", nil) != nil || NewSheet("visa", nil) != Public("visa") {
		t.Error("without rules of an operator the public ones count, if there are any")
	}
}

// TestA2OwnRIDAndCodesComeFirst: what an operator's file says of codes replaces what is public, and its RID stands
// first.
func TestA2OwnRIDAndCodesComeFirst(t *testing.T) {
	t.Parallel()
	own, err := ReadOwn("visa", "scheme visa Ours\nrid A000000999 ; vendor-doc sure\ncode eci 05 ours ; vendor-doc sure\ncode eci 55 more ; vendor-doc sure\n")
	if err != nil {
		t.Fatal(err)
	}
	s := NewSheet("visa", own)
	if got := s.RIDs(); !slices.Equal(got, []string{"A000000999", "A000000003"}) {
		t.Errorf("RIDs %v", got)
	}
	want := Public("visa").Codes("eci")
	if want[0].Code != "05" || !slices.IsSortedFunc(want, func(a, b CodeMeaning) int { return strings.Compare(a.Code, b.Code) }) {
		t.Fatalf("public codes %v", want)
	}
	want[0].Meaning = "ours"
	if got := s.Codes("eci"); !slices.Equal(got, append(want, CodeMeaning{"55", "more"})) || s.Meaning("eci", "05") != "ours" {
		t.Errorf("codes %v", got)
	}
	if s.Name() != "Ours" || Public("visa").Name() != "" {
		t.Errorf("names %q and %q", s.Name(), Public("visa").Name())
	}
	var none *Sheet
	if none.Name() != "" || none.RIDs() != nil || none.Codes("eci") != nil {
		t.Error("a scheme of which nothing is known has something")
	}
}

func TestReadOwnWantsOneSchemeAndFacts(t *testing.T) {
	t.Parallel()
	const fact = "require mcc in NPA ; vendor-doc sure\n"
	long := "scheme visa V\n"
	for i := range maxOwnFacts + 1 {
		long += fmt.Sprintf("require email if threeRIInd is %d ; vendor-doc sure\n", i)
	}
	for text, want := range map[string]string{
		long:                    "line 1: more than 500 facts",
		"scheme jcb J\n" + fact: "line 1: rules of scheme jcb in a file for visa (one heading: scheme visa NAME)",
		"scheme visa V\n" + fact + "scheme every E\n": "line 3: rules of scheme every in a file for visa (one heading: scheme visa NAME)",
		"scheme visa V\n":               "line 1: no facts after the heading",
		"scheme visa V\nrequire mccc\n": "line 2: want a fact",
	} {
		if _, err := ReadOwn("visa", text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
