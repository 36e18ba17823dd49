package v1

import (
	"strings"
	"testing"
)

// FuzzV1 reads what comes as a message of 1.0.2. What is wrong with it has one
// of the six codes; what is not can be answered, and the answer can be read.
func FuzzV1(f *testing.F) {
	for _, seed := range []string{
		"", "<a/>", "<ThreeDSecure><Message id='1'><Error/></Message></ThreeDSecure>",
		`<ThreeDSecure><Message id="1"><VEReq><version>1.0.2</version><pan>4000001234560000</pan><Merchant><acqBIN>1</acqBIN><merID>a&amp;&lt;b</merID></Merchant></VEReq></Message></ThreeDSecure>`,
		`<?xml version="1.0"?><ThreeDSecure><Message id="&#13;&quot;"><PAReq><version>1.0.2</version><Merchant><acqBIN>1</acqBIN><merID>m</merID><name>n</name><country>208</country><url>http://a</url></Merchant>` +
			`<Purchase><xid>MDAwMDAwMDAwMDEyMzQ1Njc4OTA=</xid><date>20261121 12:00:00</date><amount>1</amount><purchAmount>1</purchAmount><currency>208</currency><exponent>0</exponent></Purchase>` +
			`<CH><acctID>a</acctID><expiry>3012</expiry></CH></PAReq></Message></ThreeDSecure>`,
	} {
		f.Add([]byte(seed))
	}
	kinds := map[string][]part{"VEReq": veReqParts, "CRReq": crReqParts, "PAReq": paReqParts}
	d := &directory{scheme: Scheme{Word: "visa", Name: "Visa"}, style: niceStyle, network: new(Network)}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, fault := readMessage(raw, kinds)
		if fault != nil {
			if errorTexts[fault.code] == "" {
				t.Errorf("%+v", fault)
			}
			if _, err := readXML(fault.bytes(m.id)); err != nil && !strings.ContainsFunc(m.id+fault.detail, illegal) {
				t.Errorf("%s: %v", fault.bytes(m.id), err)
			}
			return
		}
		if m.kind != "PAReq" {
			return
		}
		if o := d.decide(m, nil); o.code != "56" || o.status != "U" {
			t.Errorf("%+v", o)
		}
		for _, path := range [][]string{{"Merchant", "merID"}, {"Merchant", "name"}, {"Purchase", "desc"}} {
			text := m.body.find(path...).text
			if back, err := readXML([]byte(leaf("a", text))); err != nil || back.text != text {
				t.Errorf("%q became %+v, %v", text, back, err)
			}
		}
	})
}

// FuzzPaReq reads what a browser brings. What can be read is no longer than a
// message may be, and packed again it can be read again.
func FuzzPaReq(f *testing.F) {
	for _, seed := range []string{"", "eJw=", "YWJj", deflate([]byte("<a/>"), 0),
		deflate([]byte(strings.Repeat("x", maxMessage)), 76), deflate(make([]byte, maxMessage+1), 0)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw, err := inflate(text)
		if err != nil {
			return
		}
		if again, err := inflate(deflate(raw, 64)); err != nil || string(again) != string(raw) || len(raw) > maxMessage {
			t.Errorf("%d bytes, then %d, %v", len(raw), len(again), err)
		}
	})
}

// illegal says whether a character cannot stand in XML.
func illegal(c rune) bool {
	return c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0xFFFE || c == 0xFFFF || c == 0xFFFD
}

func TestTableErrors(t *testing.T) {
	const last = "\ncard * enrolled U"
	for _, test := range []struct{ text, want string }{
		{"", "the last card is not *, so that some are nowhere"},
		{"card *1 enrolled N", "the last card is not *, so that some are nowhere"},
		{"cards *" + last, `line 1: unknown word "cards"`},
		{"card 4000" + last, "line 1: a card without a rule"},
		{"card 4*4*4 silence" + last, `line 1: pattern "4*4*4": want digits and dots with a star at either end`},
		{"card *1 enrolled Y" + last, `line 1: "enrolled Y" is nothing that a card can do`},
		{"card *1 status C" + last, `line 1: "status C" is nothing that a card can do`},
		{"card *1 status Y whole" + last, `line 1: "status Y whole" is nothing that a card can do`},
		{"card *1 outside" + last, `line 1: "outside" is nothing that a card can do`},
		{"card 4..1* outside" + last, `line 1: "outside" is nothing that a card can do`},
		{"card *1 silence please" + last, `line 1: "silence please" is nothing that a card can do`},
		{"merchant" + last, `line 1: merchant "": want 1-24 characters, each id once`},
		{"merchant " + strings.Repeat("x", 25) + " VERes cut" + last, `line 1: merchant "` + strings.Repeat("x", 25) + `": want 1-24 characters, each id once`},
		{"merchant a VERes cut\nmerchant a VERes cut" + last, `line 2: merchant "a": want 1-24 characters, each id once`},
		{"merchant a VERes" + last, "line 1: want a message and what is wrong with it"},
		{"merchant a VERes lost" + last, `line 1: "VERes lost" is no fault`},
		{"merchant a VERes cut off" + last, `line 1: "VERes cut off" is no fault`},
		{"merchant a VERes status" + last, `line 1: "VERes status" is no fault`},
		{"merchant a VERes ireq 50" + last, `line 1: "VERes ireq 50" is no fault`},
		{"merchant a PARes ireq x y" + last, `line 1: "PARes ireq x y" is no fault`},
		{"merchant a PARes other url" + last, `line 1: "PARes other url" is no fault`},
	} {
		_, err := readTable(test.text)
		if err == nil || err.Error() != test.want {
			t.Errorf("readTable(%q) =\n%v, want\n%s", test.text, err, test.want)
		}
	}
}

func TestAmountsAgree(t *testing.T) {
	for _, test := range []struct {
		display, minor, exponent string
		want                     bool
	}{
		{"216.01 DKK", "21601", "2", true},
		{"€12,30", "1230", "2", true},
		{"ISK 100", "100", "0", true},
		{"$1,234.50", "000000123450", "2", true},
		{"10000", "10000", "2", true},
		{"33", "3300", "2", true},
		{"0.05", "5", "2", true},
		{"33", "33", "2", true}, // minor units, shown as they are
		{"33", "3301", "2", false},
		{"2.16 DKK", "21601", "2", false},
	} {
		if got := amountsAgree(test.display, test.minor, test.exponent); got != test.want {
			t.Errorf("shows(%q, %q, %q) = %t, want %t", test.display, test.minor, test.exponent, got, test.want)
		}
	}
}
