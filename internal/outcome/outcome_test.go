package outcome

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/scheme"
	"github.com/openthreeds/threeds/message"
)

var today = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// messageOf reads a message of a test.
func messageOf(t *testing.T, text string) *message.Message {
	t.Helper()
	if text == "" {
		return nil
	}
	m, err := message.Parse([]byte(text), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const (
	payment = `{"messageType":"AReq","messageCategory":"01","deviceChannel":"02"}`
	value   = `"authenticationValue":"AAAAAAAAAAAAAAAAAAAAAAAAAAA="`
)

// TestO2EveryEndHasItsResultAndAction holds every line of the table of ends (details/api.md, D7).
func TestO2EveryEndHasItsResultAndAction(t *testing.T) {
	for _, c := range []struct {
		name             string
		status           Status
		scheme           string
		areq, ares, rreq string
		erro             message.Code
		result           Result
		action           Action
	}{
		{"Y", Completed, "visa", payment, `{"transStatus":"Y","eci":"05",` + value + `}`, "", 0, Authenticated, Authorise},
		{"A", Completed, "visa", payment, `{"transStatus":"A","eci":"06",` + value + `}`, "", 0, Attempted, Authorise},
		{"I", Completed, "visa", payment, `{"transStatus":"I","eci":"07"}`, "", 0, Informational, Authorise},
		{"Mastercard data only", Completed, "mastercard", `{"messageCategory":"80"}`,
			`{"transStatus":"U","transStatusReason":"80","eci":"04",` + value + `}`, "", 0, DataOnly, Authorise},
		{"Visa shares data, 06", Completed, "visa", `{"messageCategory":"01","threeDSRequestorChallengeInd":"06"}`,
			`{"transStatus":"I","eci":"07"}`, "", 0, DataOnly, Authorise},
		{"Visa shares data, 82 in an array", Completed, "visa", `{"messageCategory":"01","threeDSRequestorChallengeInd":["82"]}`,
			`{"transStatus":"N","transStatusReason":"89","eci":"07"}`, "", 0, DataOnly, Authorise},
		{"Visa rejects what shares data", Completed, "visa", `{"messageCategory":"01","threeDSRequestorChallengeInd":"82"}`,
			`{"transStatus":"R","eci":"07"}`, "", 0, Rejected, DoNotAuthorise},
		{"Visa authenticates what shares data", Completed, "visa", `{"messageCategory":"01","threeDSRequestorChallengeInd":"06"}`,
			`{"transStatus":"Y","eci":"05",` + value + `}`, "", 0, Authenticated, Authorise},
		{"N", Completed, "visa", payment, `{"transStatus":"N","transStatusReason":"11"}`, "", 0, NotAuthenticated, DoNotAuthorise},
		{"N, unknown device", Completed, "visa", payment, `{"transStatus":"N","transStatusReason":"02"}`, "", 0, NotAuthenticated,
			RetryWithChallenge},
		{"N, unknown device, after a challenge", Completed, "visa", payment, `{"transStatus":"C"}`,
			`{"transStatus":"N","transStatusReason":"02"}`, 0, NotAuthenticated, DoNotAuthorise},
		{"N, low confidence, 3RI", Completed, "visa", `{"messageCategory":"01","deviceChannel":"03"}`,
			`{"transStatus":"N","transStatusReason":"15"}`, "", 0, NotAuthenticated, DoNotAuthorise},
		{"N, expired card", Completed, "visa", payment, `{"transStatus":"N","transStatusReason":"05"}`, "", 0, NotAuthenticated,
			AskForAnotherCard},
		{"R", Completed, "visa", payment, `{"transStatus":"R","transStatusReason":"05"}`, "", 0, Rejected, DoNotAuthorise},
		{"U", Completed, "visa", payment, `{"transStatus":"U"}`, "", 0, Unavailable, AuthoriseWithoutAuthentication},
		{"U, timed out", Completed, "visa", payment, `{"transStatus":"U","transStatusReason":"14"}`, "", 0, Unavailable, RetryLater},
		{"U, Visa's 81", Completed, "visa", payment, `{"transStatus":"U","transStatusReason":"81"}`, "", 0, Unavailable, RetryLater},
		{"U, JCB's 81", Completed, "jcb", payment, `{"transStatus":"U","transStatusReason":"81"}`, "", 0, Unavailable,
			AuthoriseWithoutAuthentication},
		{"no range", Completed, "", payment, "", "", 0, NotEnrolled, AuthoriseWithoutAuthentication},
		{"passed", Completed, "visa", payment, `{"transStatus":"C"}`, `{"transStatus":"Y","eci":"05",` + value + `}`, 0, Authenticated,
			Authorise},
		{"silence", Failed, "visa", payment, "", "", 0, Error, RetryLater},
		{"Erro 405", Failed, "visa", payment, "", "", 405, Error, RetryLater},
		{"Erro 103", Failed, "visa", payment, "", "", 103, Error, RetryLater},
		{"Erro 203", Failed, "visa", payment, "", "", 203, Error, DoNotAuthorise},
		{"Erro 305", Failed, "visa", payment, "", "", 305, Error, DoNotAuthorise},
		{"the wait is over", Expired, "visa", payment, `{"transStatus":"C"}`, "", 0, Abandoned, DoNotAuthorise},
		{"the page never came", Expired, "visa", payment, "", "", 0, Abandoned, DoNotAuthorise},
		{"cancelled", Cancelled, "visa", payment, `{"transStatus":"C"}`, "", 0, Abandoned, DoNotAuthorise},
		{"a late Y after cancelling", Cancelled, "visa", payment, `{"transStatus":"C"}`,
			`{"transStatus":"Y","eci":"05",` + value + `}`, 0, Abandoned, DoNotAuthorise},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := Ending{
				Status: c.status, Scheme: c.scheme, AReq: messageOf(t, c.areq), ARes: messageOf(t, c.ares), RReq: messageOf(t, c.rreq),
				Time: today,
			}
			if c.erro != 0 {
				end.Erro = &message.Error{Code: c.erro}
			}
			o := Of(end)
			if o.Result != c.result || o.Next.Action != c.action || o.Next.Because == "" {
				t.Errorf("result %s, action %s (%s); want %s, %s", o.Result, o.Next.Action, o.Next.Because, c.result, c.action)
			}
			has := slices.Contains([]Result{Authenticated, Attempted, Informational, DataOnly}, c.result)
			if (o.Authorisation != nil) != has {
				t.Errorf("authorisation %v, want one: %v", o.Authorisation, has)
			}
		})
	}
}

// TestO2CancelledChallengesAreAbandoned holds the challengeCancel values of D7.
func TestO2CancelledChallengesAreAbandoned(t *testing.T) {
	for _, code := range []string{"01", "03", "04", "05", "06", "07", "08", "09", "10"} {
		o := Of(Ending{Status: Completed, Scheme: "visa", AReq: messageOf(t, payment), ARes: messageOf(t, `{"transStatus":"C"}`),
			RReq: messageOf(t, `{"transStatus":"N","challengeCancel":"`+code+`"}`), Time: today})
		want := NotAuthenticated
		if strings.Contains("01 03 04 05 08", code) {
			want = Abandoned
		}
		if o.Result != want || !o.Challenged {
			t.Errorf("challengeCancel %s: %s, challenged %v; want %s, true", code, o.Result, o.Challenged, want)
		}
	}
}

// TestO4NoCellIsEmpty walks every scheme, transStatus and category.
func TestO4NoCellIsEmpty(t *testing.T) {
	seen := make(map[[3]string]bool)
	for _, r := range Rows(today) {
		seen[[3]string{r.Scheme, r.Category, r.TransStatus}] = true
		if r.Result == "" || r.Shifts == "" || r.Because == "" || r.Action == "" {
			t.Errorf("an empty cell: %+v", r)
		}
		if r.Shifts != Unknown && r.Source == nil {
			t.Errorf("%s %s %s says %s without a source", r.Scheme, r.Category, r.TransStatus, r.Shifts)
		}
		if r.Shifts == Yes && r.Result != Authenticated && r.Result != Attempted {
			t.Errorf("liability shifts after %s: %+v", r.Result, r)
		}
	}
	for _, name := range scheme.Names() {
		for _, category := range []string{"PA", "NPA"} {
			for _, status := range strings.Split("YANURI", "") {
				if !seen[[3]string{name, category, status}] {
					t.Errorf("no row for %s %s %s", name, category, status)
				}
			}
		}
	}
	for _, status := range strings.Split("YANURI", "") {
		if !seen[[3]string{"mastercard", "80", status}] {
			t.Errorf("no row for mastercard 80 %s", status)
		}
	}
}

// TestO4LiabilityBySchemeStatusAndECI holds the rules against what their sources say.
func TestO4LiabilityBySchemeStatusAndECI(t *testing.T) {
	for _, c := range []struct {
		scheme, category, status, eci string
		want                          Shifts
	}{
		{"visa", "01", "Y", "05", Yes},
		{"visa", "01", "A", "06", Yes},
		{"visa", "01", "Y", "07", No},
		{"visa", "01", "N", "", No},
		{"visa", "01", "Y", "06", Unknown},
		{"visa", "01", "Y", "", Unknown},
		{"visa", "02", "Y", "05", Unknown},
		{"mastercard", "01", "Y", "02", Yes},
		{"mastercard", "01", "A", "01", Yes},
		{"mastercard", "01", "Y", "06", No},
		{"mastercard", "01", "Y", "07", Unknown},
		{"mastercard", "80", "U", "04", No},
		{"mastercard", "01", "U", "04", No},
		{"mastercard", "02", "Y", "N2", No},
		{"amex", "01", "Y", "05", Yes},
		{"jcb", "01", "A", "06", Unknown},
		{"upi", "01", "Y", "05", Unknown},
		{"upi", "01", "R", "07", No},
		{"standin", "01", "Y", "05", Unknown},
		{"some-word", "01", "Y", "05", Unknown},
	} {
		areq := messageOf(t, `{"messageType":"AReq","messageCategory":"`+c.category+`"}`)
		ares := messageOf(t, `{"transStatus":"`+c.status+`","eci":"`+c.eci+`",`+value+`}`)
		got := Of(Ending{Status: Completed, Scheme: c.scheme, AReq: areq, ARes: ares, Time: today}).Liability
		if got.Shifts != c.want || got.Because == "" {
			t.Errorf("%s %s %s %q: %s (%s), want %s", c.scheme, c.category, c.status, c.eci, got.Shifts, got.Because, c.want)
		}
	}
}

// TestO4NoValueNoShift holds that an authentication without its value shifts nothing.
func TestO4NoValueNoShift(t *testing.T) {
	ares := messageOf(t, `{"transStatus":"Y","eci":"05"}`)
	got := Of(Ending{Status: Completed, Scheme: "visa", AReq: messageOf(t, payment), ARes: ares, Time: today}).Liability
	if got.Shifts != No {
		t.Errorf("%+v", got)
	}
}

// TestO5ReasonsInWords holds that reasons of the protocol and of schemes have words.
func TestO5ReasonsInWords(t *testing.T) {
	for _, c := range []struct{ scheme, reason, want string }{
		{"visa", "05", "expired card"},
		{"visa", "81", "the ACS timed out"},
		{"mastercard", "80", "data was shared only"},
		{"jcb", "97", "not public"},
	} {
		ares := messageOf(t, `{"transStatus":"N","transStatusReason":"`+c.reason+`"}`)
		got := Of(Ending{Status: Completed, Scheme: c.scheme, AReq: messageOf(t, payment), ARes: ares, Time: today}).Reason
		if got == nil || !strings.Contains(*got, c.want) {
			t.Errorf("%s %s: %v, want %q", c.scheme, c.reason, got, c.want)
		}
	}
	own, err := scheme.ReadOwn("jcb", "scheme jcb Ours\ncode transStatusReason 97 as our contract has it ; vendor-doc sure\n")
	if err != nil {
		t.Fatal(err)
	}
	rules := scheme.NewSheet("jcb", own)
	ares := messageOf(t, `{"transStatus":"N","transStatusReason":"97"}`)
	of := Of(Ending{Status: Completed, Scheme: "jcb", AReq: messageOf(t, payment), ARes: ares, Time: today, Rules: rules}).Reason
	later := OfSummary(Summary{Status: Completed, Result: NotAuthenticated, Scheme: "jcb", TransStatus: "N", TransStatusReason: "97", Rules: rules}).Reason
	for _, got := range []*string{of, later} {
		if got == nil || *got != "as our contract has it" {
			t.Errorf("a reason of the operator's own: %v", got)
		}
	}
}

// TestO7AuthorisationHasTheValuesAsTheyCame holds that values are passed on unchanged, and that those of the RReq
// count after a challenge.
func TestO7AuthorisationHasTheValuesAsTheyCame(t *testing.T) {
	end := Ending{Status: Completed, Scheme: "visa", ServerID: "s", AReq: messageOf(t, payment), Time: today,
		ARes: messageOf(t, `{"transStatus":"C","dsTransID":"d","acsTransID":"a","messageVersion":"2.2.0","eci":"07"}`),
		RReq: messageOf(t, `{"transStatus":"Y","dsTransID":"d","acsTransID":"a","messageVersion":"2.2.0","eci":"05",`+value+`}`)}
	a := Of(end).Authorisation
	if *a.ECI != "05" || *a.AuthenticationValue != "AAAAAAAAAAAAAAAAAAAAAAAAAAA=" || *a.DSTransID != "d" || *a.ACSTransID != "a" ||
		*a.MessageVersion != "2.2.0" || *a.ThreeDSServerTransID != "s" || a.Expired {
		t.Errorf("%+v", a)
	}
}

// TestO1AFinalStatusNeverChanges holds the table of arrows.
func TestO1AFinalStatusNeverChanges(t *testing.T) {
	for from, to := range Arrows() {
		if from.IsFinal() || len(to) == 0 {
			t.Errorf("%s is followed by %v", from, to)
		}
	}
	for _, s := range []Status{Completed, Failed, Cancelled, Expired} {
		if !s.IsFinal() || len(Arrows()[s]) > 0 {
			t.Errorf("%s is not final", s)
		}
	}
}

// TestRulesAreReadWithTheirFaults holds that a line which is not understood is named.
func TestRulesAreReadWithTheirFaults(t *testing.T) {
	for line, want := range map[string]string{
		"visa PA Y 05 yes":                      "does not say why",
		"visa PA Y 05 yes ; - ; x":              "without a source",
		"visa PA Y 05 yes ; nobody ; x":         "no source is called",
		"visa XX Y 05 no ; - ; x":               "no category",
		"visa PA Q 05 no ; - ; x":               "no row of transStatus",
		"visa PA Y 05 perhaps ; - ; x":          "not yes, no or unknown",
		"visa PA Y ; - ; x":                     "want SCHEME",
		"visa PA Y 05 no since soon ; - ; x":    "no date",
		"source a http://example.test 2026-1-1": "want source",
	} {
		_, err := readRules(line + "\n* * * * unknown ; - ; x")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	if _, err := readRules("visa PA Y 05 unknown ; - ; x"); err == nil {
		t.Error("rules that do not fit everything are accepted")
	}
	if _, err := readRules("* * * * unknown since 2999-01-01 ; - ; x"); err == nil {
		t.Error("a last rule that begins some day is accepted")
	}
}
