package scheme

import (
	"maps"
	"testing"
)

// TestNumbersStayWhatTheyAre pins the numbers of schemes in transaction ids: ids are read by
// other releases.
func TestNumbersStayWhatTheyAre(t *testing.T) {
	want := map[string]uint8{
		"standin": 0, "visa": 1, "mastercard": 2, "jcb": 3, "upi": 4, "amex": 5, "protectbuy": 6, "sbn": 7,
	}
	got := make(map[string]uint8)
	for _, name := range Names() {
		got[name] = Number(name)
		if back := ByNumber(got[name]); back != name {
			t.Errorf("number %d of %s is that of %q", got[name], name, back)
		}
		if got[name] > 15 {
			t.Errorf("number %d of %s takes more than four bits", got[name], name)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("numbers %v, want %v", got, want)
	}
	if ByNumber(8) != "" || Number("none") != 0 {
		t.Errorf("an unknown number is %q, an unknown scheme %d", ByNumber(8), Number("none"))
	}
}

// TestEverySchemeHasPrefixes holds for all but the scheme for testing; each prefix leads to
// one scheme alone.
func TestEverySchemeHasPrefixes(t *testing.T) {
	for _, s := range schemes {
		if (len(s.prefixes) == 0) != (s.name == StandIn) {
			t.Errorf("%s has %d prefixes", s.name, len(s.prefixes))
		}
		for _, p := range s.prefixes {
			if len(p[0]) != len(p[1]) || p[0] > p[1] {
				t.Errorf("%s: prefixes %v", s.name, p)
			}
			for _, prefix := range p {
				if got := OfCard(prefix + "00000000"); got != s.name {
					t.Errorf("cards of %s are %s, want %s", prefix, got, s.name)
				}
			}
		}
	}
}

func TestOfCardByPrefix(t *testing.T) {
	for pan, want := range map[string]string{
		"4000000000000000": "visa", "5500000000000000": "mastercard", "2221000000000000": "mastercard",
		"2720990000000000": "mastercard", "2721000000000000": "standin", "2220990000000000": "standin",
		"5000000000000000": "standin", "5600000000000000": "standin", "6200000000000000": "upi",
		"6011000000000000": "protectbuy", "6012000000000000": "standin", "5019000000000000": "sbn",
		"9000000000000000": "standin", "": "standin", "6": "standin",
	} {
		if got := OfCard(pan); got != want {
			t.Errorf("OfCard(%q) = %s, want %s", pan, got, want)
		}
	}
}
