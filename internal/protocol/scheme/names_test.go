package scheme

import (
	"fmt"
	"maps"
	"testing"
)

// TestNumbersStayWhatTheyAre pins the numbers of schemes in transaction ids: ids are read by
// other releases.
func TestNumbersStayWhatTheyAre(t *testing.T) {
	want := map[string]uint16{
		"standin": 0, "visa": 1, "mastercard": 2, "jcb": 3, "upi": 4, "amex": 5, "protectbuy": 6, "sbn": 7,
	}
	got := make(map[string]uint16)
	for _, name := range Originals() {
		got[name] = Number(name)
		if got[name] > 14 {
			t.Errorf("number %d of %s takes more than four bits", got[name], name)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("numbers %v, want %v", got, want)
	}
	if Number("") != 0 {
		t.Errorf("the number of no word is %d", Number(""))
	}
}

// TestA2NumberIsMadeOfTheWord: the number depends on nothing but the word, so nodes agree, and a restart with
// directories in another order changes nothing. The numbers were computed by another program.
func TestA2NumberIsMadeOfTheWord(t *testing.T) {
	for word, want := range map[string]uint16{
		"cb": 26180, "eftpos": 1190, "elo": 19947, "rupay": 14646, "mada": 25722, "troy": 363,
		"mir": 46243, "itmx": 7550, "bancontact": 25144,
	} {
		if got := Number(word); got != want {
			t.Errorf("number of %s is %d, want %d", word, got, want)
		}
	}
	words := append(Names(), "bancontact", "girocard", "x9", "a-b")
	for i, word := range words {
		if !IsOriginal(word) && Number(word) < 16 {
			t.Errorf("number %d of %s is a short one", Number(word), word)
		}
		if other := SameNumber(word, words[:i]); other != "" {
			t.Errorf("%s and %s have the same number", word, other)
		}
	}
}

// TestA2WordsOfOneNumberAreSeen: of 70,000 words two have the same number, for there are 65,520 numbers.
func TestA2WordsOfOneNumberAreSeen(t *testing.T) {
	byNumber := map[uint16]string{}
	for i := range 70_000 {
		word := fmt.Sprint("w", i)
		if other := byNumber[Number(word)]; other != "" {
			if got := SameNumber(word, []string{"visa", word, other}); got != other {
				t.Errorf("SameNumber of %s: %q, want %s", word, got, other)
			}
			return
		}
		byNumber[Number(word)] = word
	}
	t.Error("no two words have the same number")
}

func TestA2WordsHaveTheirForm(t *testing.T) {
	for word, want := range map[string]bool{
		"cb": true, "visa": true, "standin": true, "x9": true, "a-b-": true, "abcdefghijklmnopqrstuvwxyz-01234": true,
		"": false, "c": false, "CB": false, "9x": false, "-a": false, "a_b": false, "a b": false,
		"cb\n": false, "carte-bancäire": false,
		"abcdefghijklmnopqrstuvwxyz-012345": false, "every": false,
	} {
		if got := IsWord(word); got != want {
			t.Errorf("IsWord(%q) = %t, want %t", word, got, want)
		}
	}
	for _, name := range Names() {
		if !IsWord(name) {
			t.Errorf("%s is no word", name)
		}
	}
}

// TestEverySchemeHasPrefixes holds for all but the scheme for testing; each prefix leads to
// one scheme alone.
func TestEverySchemeHasPrefixes(t *testing.T) {
	for _, s := range originals {
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
