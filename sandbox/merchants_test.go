package sandbox

import (
	"strings"
	"testing"

	"github.com/openthreeds/threeds/sandbox/internal/scenario"
)

func TestMerchantTable(t *testing.T) {
	m, err := readMerchants(MerchantTable())
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]scenario.Fault{
		"FAULT-HTTP500": {Message: "ARes", Kind: "status", Code: "500"},
		"FAULT-ERRO303": {Message: "ARes", Kind: "erro", Code: "303", Text: "Access denied, not a participant"},
		"FAULT-ID":      {Message: "ARes", Kind: "other", Element: "threeDSServerTransID"},
		"REASON-07":     {Message: "result", Kind: "reason", Code: "07"},
		"REASON-0":      {}, "REASON-0x": {}, "REASON-007": {}, "M-1": {}, "7": {}, "": {}, "fault-http500": {},
	} {
		if got := m.Find(id); got != want {
			t.Errorf("%q: %+v, want %+v", id, got, want)
		}
	}
}

func TestMerchantTableErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"card *03 silence", `line 1: "card *03 silence": want a merchant`},
		{"merchant", `line 1: "merchant": want a merchant`},
		{"merchant " + strings.Repeat("x", 36) + " ARes cut", `line 1: merchant "` + strings.Repeat("x", 36) + `": want 1-35 characters, each id once`},
		{"merchant a ARes cut\n\nmerchant a ARes cut", `line 3: merchant "a": want 1-35 characters, each id once`},
		{"merchant a ARes", "line 1: want a message and what is wrong with it"},
		{"merchant a VERes cut", `line 1: "VERes cut" is no fault`},
		{"merchant a ARes cut off", `line 1: "ARes cut off" is no fault`},
		{"merchant a ARes status code", `line 1: "ARes status code" is no fault`},
		{"merchant a ARes erro 303", `line 1: "ARes erro 303" is no fault`},
		{"merchant a ARes other acsTransID", `line 1: "ARes other acsTransID" is no fault`},
		{"merchant a ARes erro code text", `line 1: "ARes erro code text" is no fault`},
		{"merchant a ARes status code\nmerchant b x", "line 1: \"ARes status code\" is no fault\nline 2: want a message and what is wrong with it"},
	} {
		_, err := readMerchants(test.text)
		if err == nil || err.Error() != test.want {
			t.Errorf("readMerchants(%q) =\n%v, want\n%s", test.text, err, test.want)
		}
	}
	if _, err := readMerchants("merchant " + strings.Repeat("x", 35) + " ARes cut # half"); err != nil {
		t.Error(err)
	}
}
