package charset_test

import (
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/openthreeds/threeds/internal/base/charset"
)

// TestR10aEveryCharacterHasItsClass goes through all of Unicode.
func TestR10aEveryCharacterHasItsClass(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		isControl := r < ' ' || r >= 0x7f && r <= 0x9f
		isDirection := r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		isSeparator := r == 0x2028 || r == 0x2029
		want := charset.Allowed
		switch {
		case isControl:
			want = charset.Control
		case isDirection:
			want = charset.Direction
		case isSeparator:
			want = charset.Separator
		}
		wantASCII := want
		if r >= utf8.RuneSelf && !isControl {
			wantASCII = charset.NonASCII
		}
		text := "a" + string(r) + "b"
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			set  charset.Set
			want charset.Class
		}{{charset.ASCII, wantASCII}, {charset.Unicode, want}} {
			if got := charset.Find(text, test.set); got != test.want {
				t.Errorf("set %d: %U is of class %d, want %d", test.set, r, got, test.want)
			}
			if got := charset.FindJSON(raw, test.set); got != test.want {
				t.Errorf("set %d: %U in JSON is of class %d, want %d", test.set, r, got, test.want)
			}
		}
		if charset.IsPlainJSON([]byte(text)) != (r >= ' ' && r < 0x7f && r != '\\' || r < ' ') {
			t.Errorf("%U: plain %t", r, charset.IsPlainJSON([]byte(text)))
		}
	}
}

// TestR10aTableSaysWhatDecides holds the table of the documentation against the check.
func TestR10aTableSaysWhatDecides(t *testing.T) {
	next := rune(0)
	for _, span := range charset.Table() {
		if span.First != next {
			t.Errorf("%U follows %U", span.First, next-1)
		}
		next = span.Last + 1
		for r := span.First; r <= span.Last; r++ {
			if !utf8.ValidRune(r) {
				continue
			}
			if span.ASCII != (charset.Find(string(r), charset.ASCII) == charset.Allowed) ||
				span.Unicode != (charset.Find(string(r), charset.Unicode) == charset.Allowed) {
				t.Fatalf("%U is not as the table says", r)
			}
		}
	}
	if next != utf8.MaxRune+1 {
		t.Errorf("the table ends before %U", next)
	}
}

// TestIsPlainJSON puts each byte at each place of a text of three words.
func TestIsPlainJSON(t *testing.T) {
	for at := range 20 {
		for c := range 256 {
			text := slices.Repeat([]byte{'a'}, 20)
			text[at] = byte(c)
			if got, want := charset.IsPlainJSON(text), c < 0x7f && c != '\\'; got != want {
				t.Errorf("byte %#x at %d: %t, want %t", c, at, got, want)
			}
		}
	}
	text := []byte(`{"messageType":"AReq", "messageVersion":"2.2.0"}`)
	if n := testing.AllocsPerRun(100, func() { charset.IsPlainJSON(text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestD42ToASCII(t *testing.T) {
	for _, test := range []struct{ text, plain, german string }{
		{"Jørgen Müller", "Jorgen Muller", "Jorgen Mueller"},
		{"Ærøskøbing", "AEroskobing", "AEroskobing"},
		{"Åse Ödegård", "Ase Odegard", "Ase Oedegard"},
		{"Straße", "Strasse", "Strasse"},
		{"Łukasz Żółć", "Lukasz Zolc", "Lukasz Zolc"},
		{"Đặng Văn", "Dang Van", "Dang Van"},
		{"Þór Guðmundsdóttir", "Thor Gudmundsdottir", "Thor Gudmundsdottir"},
		{"Mu\u0308ller", "Muller", "Mueller"}, // decomposed
		{"Zoë O’Brien", "Zoe O'Brien", "Zoe O'Brien"},
		{"İpek Işık", "Ipek Isik", "Ipek Isik"},
		{"Jean–Luc", "Jean-Luc", "Jean-Luc"},
		{"12½ Main", "12 1/2 Main", "12 1/2 Main"},
		{"ﬁona", "fiona", "fiona"},
		{"plain", "plain", "plain"},
		{"李小龍", "", ""}, {"Li 李", "", ""}, {"Жора", "", ""}, {"a\u202eb", "", ""}, {"a\nb", "", ""}, {"😀", "", ""},
	} {
		for _, asGerman := range []bool{false, true} {
			want := test.plain
			if asGerman {
				want = test.german
			}
			if got, ok := charset.ToASCII(test.text, asGerman); got != want || ok != (want != "") {
				t.Errorf("%q, German %t: %q, %t, want %q", test.text, asGerman, got, ok, want)
			}
		}
	}
}

func TestD42Wrap(t *testing.T) {
	for _, test := range []struct {
		lines, want []string // want nil: no room
	}{
		{[]string{"short", "", ""}, []string{"short", "", ""}},
		{[]string{"one two three", "", ""}, []string{"one two", "three", ""}},
		{[]string{"one two three four five", "", ""}, []string{"one two", "three four", "five"}},
		{[]string{"1234567890 x", "", ""}, []string{"1234567890", "x", ""}},
		{[]string{"12345678901 x", "", ""}, nil},
		{[]string{"one two three", "flat 2", ""}, nil},
		{[]string{"one", "two three four", ""}, []string{"one", "two three", "four"}},
		{[]string{"one two three", "", "flat 2"}, []string{"one two", "three", "flat 2"}},
		{[]string{"one two three four five", "", "flat 2"}, nil},
		{[]string{"one two three four five six seven", "", ""}, nil},
		{[]string{"", "", "one two three"}, nil},
		{[]string{" 1234567890", "", ""}, nil},
	} {
		got, ok := charset.Wrap(test.lines, 10)
		want := test.want
		if want == nil {
			want = test.lines
		}
		if !slices.Equal(got, want) || ok != (test.want != nil) {
			t.Errorf("%q: %q, %t, want %q", test.lines, got, ok, test.want)
		}
	}
}
