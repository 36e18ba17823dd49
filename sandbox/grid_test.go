package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/sandbox"
)

// outcomes are the last two digits and what they mean (docs/test-cards.md):
// a transStatus, or what happens in its place.
var outcomes = map[string]string{
	"03": "Y", "13": "N", "23": "A", "33": "R", "43": "I", "53": "U", "63": "silence",
	"70": "C", "71": "C", "72": "C", "74": "C", "75": "C", "76": "C",
	"83": "D", "84": "D", "85": "D", "86": "D", "87": "D", "78": "fallback",
	// Outside the list.
	"00": "", "73": "", "80": "", "93": "", "44": "", "99": "",
}

var versionsOf = map[byte][]string{
	'0': {"2.1.0", "2.2.0", "2.3.1"}, '1': {"2.1.0"}, '2': {"2.2.0"}, '3': {"2.3.1"},
}

// want is what the directory server is to answer: a transStatus, a code, or
// "silence".
func want(version, channel, digits string) string {
	can, outcome := versionsOf[digits[0]], outcomes[digits[2:]]
	if can == nil || digits[1] > '2' && channel != "03" || outcome == "" {
		return "305"
	}
	if !slices.Contains(can, version) {
		return "102"
	}
	if outcome == "fallback" { // the AReqs ask for decoupled in the first place
		outcome = "305"
		if channel == "03" {
			outcome = "D"
		}
	}
	switch {
	case channel == "03" && (strings.Contains("IC", outcome) || digits[2:] == "83"),
		version == "2.1.0" && strings.Contains("ID", outcome):
		return "305"
	}
	return outcome
}

// TestEveryCardInEveryVersionAndChannel asks for every card in every version and channel.
func TestEveryCardInEveryVersionAndChannel(t *testing.T) {
	t.Parallel()
	t.Run("hostile", func(t *testing.T) { grid(t, false, 5) })
	t.Run("nice", func(t *testing.T) { grid(t, true, 1) })
}

// grid goes through the cards whose digit a is below as.
func grid(t *testing.T, nice bool, as int) {
	box := start(t, func(s *sandbox.Sandbox) { s.Nice = nice; s.AppDelay, s.DecoupledDelay = time.Hour, time.Hour })
	s := newServer(t, box)
	answers := 0
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for _, channel := range []string{"01", "02", "03"} {
			for a := range as {
				for b := range 4 {
					for end := range outcomes {
						digits := fmt.Sprintf("%d%d%s", a, b, end)
						if want(version, channel, digits) == "305" && (a > 0 && b > 0) {
							continue // all are alike
						}
						if !s.cell(version, channel, "400000123456"+digits, want(version, channel, digits)) {
							t.Fatalf("stopped at version %s channel %s card %s", version, channel, digits)
						}
						answers++
					}
				}
			}
		}
	}
	t.Logf("%d AReqs", answers)
}

// cell sends one AReq and holds the answer against what is wanted.
func (s *server) cell(version, channel, pan, want string) bool {
	s.t.Helper()
	areq := s.areq(version, channel, pan)
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	if want == "silence" {
		timer := time.AfterFunc(20*time.Millisecond, cancel)
		defer timer.Stop()
	}
	card, _ := s.box.Card(pan)
	raw, err := s.post(ctx, card.Scheme, areq.json(s.t))
	if want == "silence" {
		if err == nil {
			s.t.Errorf("an answer where silence was wanted: %s", raw)
		}
		return err != nil
	}
	if err != nil {
		s.t.Error(err)
		return false
	}
	got := read(s.t, raw)
	if len(want) == 3 {
		valid(s.t, raw, message.Context{})
		if got["errorCode"] != want || got["errorComponent"] != "D" || got["threeDSServerTransID"] != areq["threeDSServerTransID"] {
			s.t.Errorf("got %s, want code %s of component D", raw, want)
		}
		if want == "305" && got["errorDescription"] != "No valid test input found" {
			s.t.Errorf("errorDescription = %v", got["errorDescription"])
		}
		return !s.t.Failed()
	}
	if got["transStatus"] != want {
		s.t.Errorf("got %s, want transStatus %s", raw, want)
	}
	valid(s.t, raw, message.Context{AReq: parse(s.t, areq.json(s.t))})
	return !s.t.Failed()
}

// TestOlderCards is the second table of test cards.
func TestOlderCards(t *testing.T) {
	s := newServer(t, start(t, func(s *sandbox.Sandbox) { s.AppDelay = time.Hour }))
	for _, test := range []struct{ digits, browser, threeRI string }{
		{"1004 1111 1111", "Y", "305"},
		{"1005 1111 1111", "Y", "305"},
		{"1006 1111 1111", "Y", "305"},
		{"1008 1111 1111", "C", "305"},
		{"1009 1111 1111", "C", "305"},
		{"1010 1111 1111", "C", "305"},
		{"1011 1111 1111", "C", "305"},
		{"1012 1111 1111", "C", "305"},
		{"1050 3810 6791", "N", "305"},
		{"1050 3810 6792", "U", "305"},
		{"1050 6573 0666", "U", "305"},
		{"1050 6573 0667", "R", "305"},
		{"1051 1111 1111", "N", "305"},
		{"1053 1111 1111", "silence", "305"},
		{"1055 1111 1111", "Y", "305"},
		{"1056 1111 1111", "A", "305"},
		{"1105 1111 1111", "305", "Y"},
		{"1106 1111 1111", "305", "A"},
		{"1107 1111 1111", "305", "U"},
		{"1108 1111 1111", "305", "R"},
		{"1200 1111 0003", "305", "305"}, // looks like a card of the other table
	} {
		pan := strings.ReplaceAll(test.digits, " ", "")
		s.cell("2.1.0", "02", "9000"+pan, test.browser)
		s.cell("2.2.0", "02", "9001"+pan, test.browser)
		s.cell("2.2.0", "03", "9001"+pan, test.threeRI)
		if test.browser != "305" {
			s.cell("2.2.0", "02", "9000"+pan, "102")
			s.cell("2.1.0", "02", "9001"+pan, "102")
		}
	}
}

func TestCardTellsVersionsAndScheme(t *testing.T) {
	box := start(t, nil)
	all := []string{"2.1.0", "2.2.0", "2.3.1"}
	method, silent := box.ACSURL()+"/method", box.ACSURL()+"/method/silent"
	for _, test := range []struct {
		pan  string
		want *sandbox.Card // nil: not enrolled
	}{
		{"3000100811110003", &sandbox.Card{Scheme: "standin", Listed: true, Versions: all, MethodURL: method}},
		{"4000000000000103", &sandbox.Card{Scheme: "visa", Listed: true, Versions: all}},
		{"4000000000000203", &sandbox.Card{Scheme: "visa", Listed: true, Versions: all, MethodURL: silent, MethodSilent: true}},
		{"5100000000001072", &sandbox.Card{Scheme: "mastercard", Listed: true, Versions: all[:1], MethodURL: method}},
		{"2221000000002003", &sandbox.Card{Scheme: "mastercard", Listed: true, Versions: all[1:2], MethodURL: method}},
		{"2720999999993003", &sandbox.Card{Scheme: "mastercard", Listed: true, Versions: all[2:], MethodURL: method}},
		{"2721000000000103", &sandbox.Card{Scheme: "standin", Listed: true, Versions: all}},
		{"340000000000103", &sandbox.Card{Scheme: "amex", Listed: true, Versions: all}},
		{"3500000000000103", &sandbox.Card{Scheme: "jcb", Listed: true, Versions: all}},
		{"6200000000000000103", &sandbox.Card{Scheme: "upi", Listed: true, Versions: all}},
		{"36000000000103", &sandbox.Card{Scheme: "protectbuy", Listed: true, Versions: all}},
		{"6011000000000103", &sandbox.Card{Scheme: "protectbuy", Listed: true, Versions: all}},
		{"6500000000000103", &sandbox.Card{Scheme: "protectbuy", Listed: true, Versions: all}},
		{"5019000000000103", &sandbox.Card{Scheme: "sbn", Listed: true, Versions: all}},
		{"4000970000000103", &sandbox.Card{Scheme: "visa", Others: []string{"cb"}, Listed: true, Versions: all}},
		{"5105970000000103", &sandbox.Card{Scheme: "mastercard", Others: []string{"cb"}, Listed: true, Versions: all}},
		{"4571000000000103", &sandbox.Card{Scheme: "visa", Others: []string{"sbn"}, Listed: true, Versions: all}},
		{"4000000000009999", &sandbox.Card{Scheme: "visa", Versions: all}},
		{"9000100411111111", &sandbox.Card{Scheme: "standin", Listed: true, Versions: all[:1], MethodURL: silent, MethodSilent: true}},
		{"9001100611111111", &sandbox.Card{Scheme: "standin", Listed: true, Versions: all[1:2]}},
		{"9001999911110003", &sandbox.Card{Scheme: "standin", Versions: all}},
		{"9000100111111111", nil},
		{"4102010000000003", nil}, // of 1.0.2 alone
		{"340201990000000", nil},
		{"6502010212340000", nil},
		{"4102000000000103", &sandbox.Card{Scheme: "visa", Listed: true, Versions: all}},
		{"400000000003", nil},
		{"40000000000000000003", nil},
		{"400000000000000x", nil},
	} {
		got, ok := box.Card(test.pan)
		if ok != (test.want != nil) || ok && fmt.Sprint(got) != fmt.Sprint(*test.want) {
			t.Errorf("Card(%s) = %+v, %t, want %+v", test.pan, got, ok, test.want)
		}
	}
}

// TestEachSchemeHasItsOwnValues asks one card of each scheme and looks at the scheme's own values.
func TestEachSchemeHasItsOwnValues(t *testing.T) {
	s := newServer(t, start(t, nil))
	for _, test := range []struct{ pan, yes, attempt, no string }{
		{"4000000000000103", "05", "06", "07"},
		{"5100000000000103", "02", "01", "00"},
		{"340000000000103", "05", "06", "07"},
		{"3528000000000103", "05", "06", "07"},
		{"6200000000000103", "05", "06", "07"},
		{"6011000000000103", "05", "06", "07"},
		{"5019000000000103", "05", "06", "07"},
		{"3000000000000103", "05", "06", "07"},
	} {
		stem := test.pan[:len(test.pan)-2]
		for end, eci := range map[string]any{"03": test.yes, "23": test.attempt, "13": test.no, "53": test.no, "33": test.no, "70": nil} {
			got := s.ask(s.areq("2.2.0", "02", stem+end))
			if got["eci"] != eci {
				t.Errorf("%s%s: eci = %v, want %v", stem, end, got["eci"], eci)
			}
			value, _ := got["authenticationValue"].(string)
			if has := eci == test.yes || eci == test.attempt; has != (len(value) == 28) {
				t.Errorf("%s%s: authenticationValue %q", stem, end, value)
			}
		}
	}
	got := s.ask(s.areq("2.2.0", "02", "5100000000000103").with(members{"messageCategory": "02"}))
	if got["eci"] != "N2" {
		t.Errorf("Mastercard without payment: eci = %v, want N2", got["eci"])
	}
}

// TestCardholderInfoIsSent looks for the texts that a cardholder is shown.
func TestCardholderInfoIsSent(t *testing.T) {
	s := newServer(t, start(t, nil))
	if got := s.ask(s.areq("2.1.0", "02", "9000105111111111")); got["cardholderInfo"] == nil {
		t.Errorf("no cardholderInfo in %v", got)
	}
	if got := s.ask(s.areq("2.2.0", "02", "4000000000000183")); got["cardholderInfo"] == nil || got["acsDecConInd"] != "Y" {
		t.Errorf("decoupled: %v", got)
	}
	got := s.ask(s.areq("2.3.1", "02", "4000000000000183"))
	if info, _ := got["cardholderInfo"].(map[string]any); info["text"] == nil {
		t.Errorf("decoupled in 2.3.1: %v", got)
	}
}

// TestAReqThatForbidsTheOutcomeIsRefused sends AReqs that do not let the issuer do what the card does.
func TestAReqThatForbidsTheOutcomeIsRefused(t *testing.T) {
	s := newServer(t, start(t, nil))
	for _, test := range []struct {
		version, pan string
		changes      members
	}{
		{"2.2.0", "4000000000000183", members{"threeDSRequestorDecReqInd": "N"}},
		{"2.2.0", "4000000000000183", members{"threeDSRequestorDecReqInd": nil, "threeDSRequestorDecMaxTime": nil}},
		{"2.3.1", "4000000000000183", members{"threeDSRequestorDecReqInd": "F"}},
		{"2.2.0", "4000000000000170", members{"threeDSRequestorChallengeInd": "06"}},
		{"2.3.1", "4000000000000170", members{"threeDSRequestorChallengeInd": []string{"06"}}},
	} {
		got := s.ask(s.areq(test.version, "02", test.pan).with(test.changes))
		if got["errorCode"] != "305" || got["errorDetail"] != "No valid test input found" {
			t.Errorf("%s %v: got %v", test.version, test.changes, got)
		}
	}
	if got := s.ask(s.areq("2.3.1", "02", "4000000000000183").with(members{"threeDSRequestorDecReqInd": "B"})); got["transStatus"] != "D" {
		t.Errorf("DecReqInd B: got %v", got)
	}
}

// TestUnknownMembersUnlessNice looks for members that were not asked for, and for their absence with nice.
func TestUnknownMembersUnlessNice(t *testing.T) {
	for _, nice := range []bool{false, true} {
		s := newServer(t, start(t, func(s *sandbox.Sandbox) { s.Nice = nice }))
		raw, err := json.Marshal(s.ask(s.areq("2.3.1", "02", "4000000000000183")))
		if err != nil {
			t.Fatal(err)
		}
		if strange := strings.Contains(string(raw), "sandbox") && strings.Contains(string(raw), "null"); strange == nice {
			t.Errorf("nice %t: %s", nice, raw)
		}
		raw = s.result().raw
		if strange := strings.Contains(string(raw), "null"); strange == nice {
			t.Errorf("nice %t: %s", nice, raw)
		}
	}
}
