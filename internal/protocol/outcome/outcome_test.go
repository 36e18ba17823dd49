package outcome

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
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

// endingOf returns an ending on the day of the tests.
func endingOf(t *testing.T, status api.Status, scheme, areq, ares, rreq string) Ending {
	t.Helper()
	end := NewEnding(status, scheme, Messages{AReq: messageOf(t, areq), ARes: messageOf(t, ares), RReq: messageOf(t, rreq)})
	end.Time = today
	return end
}

// TestO2EveryEndHasItsResultAndAction holds every line of the table of ends (details/api.md, D7).
func TestO2EveryEndHasItsResultAndAction(t *testing.T) {
	for _, c := range []struct {
		name             string
		status           api.Status
		scheme           string
		areq, ares, rreq string
		erro             message.Code
		result           api.Result
		action           api.Action
	}{
		{"Y", api.StatusCompleted, "visa", payment, `{"transStatus":"Y","eci":"05",` + value + `}`, "", 0, api.ResultAuthenticated, api.ActionAuthorise},
		{"A", api.StatusCompleted, "visa", payment, `{"transStatus":"A","eci":"06",` + value + `}`, "", 0, api.ResultAttempted, api.ActionAuthorise},
		{"I", api.StatusCompleted, "visa", payment, `{"transStatus":"I","eci":"07"}`, "", 0, api.ResultInformational, api.ActionAuthorise},
		{"Mastercard data only", api.StatusCompleted, "mastercard", `{"messageCategory":"80"}`,
			`{"transStatus":"U","transStatusReason":"80","eci":"04",` + value + `}`, "", 0, api.ResultDataOnly, api.ActionAuthorise},
		{"Visa shares data, 06", api.StatusCompleted, "visa", `{"messageCategory":"01","threeDSRequestorChallengeInd":"06"}`,
			`{"transStatus":"I","eci":"07"}`, "", 0, api.ResultDataOnly, api.ActionAuthorise},
		{"Visa shares data, 82 in an array", api.StatusCompleted, "visa", `{"messageCategory":"01","threeDSRequestorChallengeInd":["82"]}`,
			`{"transStatus":"N","transStatusReason":"89","eci":"07"}`, "", 0, api.ResultDataOnly, api.ActionAuthorise},
		{"Visa rejects what shares data", api.StatusCompleted, "visa", `{"messageCategory":"01","threeDSRequestorChallengeInd":"82"}`,
			`{"transStatus":"R","eci":"07"}`, "", 0, api.ResultRejected, api.ActionDoNotAuthorise},
		{"Visa authenticates what shares data", api.StatusCompleted, "visa", `{"messageCategory":"01","threeDSRequestorChallengeInd":"06"}`,
			`{"transStatus":"Y","eci":"05",` + value + `}`, "", 0, api.ResultAuthenticated, api.ActionAuthorise},
		{"N", api.StatusCompleted, "visa", payment, `{"transStatus":"N","transStatusReason":"11"}`, "", 0, api.ResultNotAuthenticated, api.ActionDoNotAuthorise},
		{"N, unknown device", api.StatusCompleted, "visa", payment, `{"transStatus":"N","transStatusReason":"02"}`, "", 0, api.ResultNotAuthenticated,
			api.ActionRetryWithChallenge},
		{"N, unknown device, after a challenge", api.StatusCompleted, "visa", payment, `{"transStatus":"C"}`,
			`{"transStatus":"N","transStatusReason":"02"}`, 0, api.ResultNotAuthenticated, api.ActionDoNotAuthorise},
		{"N, low confidence, 3RI", api.StatusCompleted, "visa", `{"messageCategory":"01","deviceChannel":"03"}`,
			`{"transStatus":"N","transStatusReason":"15"}`, "", 0, api.ResultNotAuthenticated, api.ActionDoNotAuthorise},
		{"N, expired card", api.StatusCompleted, "visa", payment, `{"transStatus":"N","transStatusReason":"05"}`, "", 0, api.ResultNotAuthenticated,
			api.ActionAskForAnotherCard},
		{"R", api.StatusCompleted, "visa", payment, `{"transStatus":"R","transStatusReason":"05"}`, "", 0, api.ResultRejected, api.ActionDoNotAuthorise},
		{"U", api.StatusCompleted, "visa", payment, `{"transStatus":"U"}`, "", 0, api.ResultUnavailable, api.ActionAuthoriseWithoutAuthentication},
		{"U, timed out", api.StatusCompleted, "visa", payment, `{"transStatus":"U","transStatusReason":"14"}`, "", 0, api.ResultUnavailable, api.ActionRetryLater},
		{"U, Visa's 81", api.StatusCompleted, "visa", payment, `{"transStatus":"U","transStatusReason":"81"}`, "", 0, api.ResultUnavailable, api.ActionRetryLater},
		{"U, JCB's 81", api.StatusCompleted, "jcb", payment, `{"transStatus":"U","transStatusReason":"81"}`, "", 0, api.ResultUnavailable,
			api.ActionAuthoriseWithoutAuthentication},
		{"no range", api.StatusCompleted, "", payment, "", "", 0, api.ResultNotEnrolled, api.ActionAuthoriseWithoutAuthentication},
		{"passed", api.StatusCompleted, "visa", payment, `{"transStatus":"C"}`, `{"transStatus":"Y","eci":"05",` + value + `}`, 0, api.ResultAuthenticated,
			api.ActionAuthorise},
		{"silence", api.StatusFailed, "visa", payment, "", "", 0, api.ResultError, api.ActionRetryLater},
		{"Erro 405", api.StatusFailed, "visa", payment, "", "", 405, api.ResultError, api.ActionRetryLater},
		{"Erro 103", api.StatusFailed, "visa", payment, "", "", 103, api.ResultError, api.ActionRetryLater},
		{"Erro 203", api.StatusFailed, "visa", payment, "", "", 203, api.ResultError, api.ActionDoNotAuthorise},
		{"Erro 305", api.StatusFailed, "visa", payment, "", "", 305, api.ResultError, api.ActionDoNotAuthorise},
		{"the wait is over", api.StatusExpired, "visa", payment, `{"transStatus":"C"}`, "", 0, api.ResultAbandoned, api.ActionDoNotAuthorise},
		{"the page never came", api.StatusExpired, "visa", payment, "", "", 0, api.ResultAbandoned, api.ActionDoNotAuthorise},
		{"cancelled", api.StatusCancelled, "visa", payment, `{"transStatus":"C"}`, "", 0, api.ResultAbandoned, api.ActionDoNotAuthorise},
		{"a late Y after cancelling", api.StatusCancelled, "visa", payment, `{"transStatus":"C"}`,
			`{"transStatus":"Y","eci":"05",` + value + `}`, 0, api.ResultAbandoned, api.ActionDoNotAuthorise},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := endingOf(t, c.status, c.scheme, c.areq, c.ares, c.rreq)
			if c.erro != 0 {
				end.Error = &api.OutcomeError{Component: "D", Code: c.erro.String()}
			}
			o := Of(end)
			if o.Result != c.result || o.Next.Action != c.action || o.Next.Because == "" {
				t.Errorf("result %s, action %s (%s); want %s, %s", o.Result, o.Next.Action, o.Next.Because, c.result, c.action)
			}
			has := slices.Contains([]api.Result{api.ResultAuthenticated, api.ResultAttempted, api.ResultInformational, api.ResultDataOnly}, c.result)
			if (o.Authorisation != nil) != has {
				t.Errorf("authorisation %v, want one: %v", o.Authorisation, has)
			}
		})
	}
}

// TestO2CancelledChallengesAreAbandoned holds the challengeCancel values of D7.
func TestO2CancelledChallengesAreAbandoned(t *testing.T) {
	for _, code := range []string{"01", "03", "04", "05", "06", "07", "08", "09", "10"} {
		o := Of(endingOf(t, api.StatusCompleted, "visa", payment, `{"transStatus":"C"}`, `{"transStatus":"N","challengeCancel":"`+code+`"}`))
		want := api.ResultNotAuthenticated
		switch {
		case strings.Contains("01 03 04 08", code):
			want = api.ResultAbandoned
		case code == "05":
			want = api.ResultBankUnreachable
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
		if r.Shifts != api.ShiftsUnknown && r.Source == "" && r.Category != withoutPayment {
			t.Errorf("%s %s %s says %s without a source", r.Scheme, r.Category, r.TransStatus, r.Shifts)
		}
		if r.Shifts == api.ShiftsYes && r.Result != api.ResultAuthenticated && r.Result != api.ResultAttempted {
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
		want                          api.Shifts
	}{
		{"visa", "01", "Y", "05", api.ShiftsYes},
		{"visa", "01", "A", "06", api.ShiftsYes},
		{"visa", "01", "Y", "07", api.ShiftsNo},
		{"visa", "01", "N", "", api.ShiftsNo},
		{"visa", "01", "Y", "06", api.ShiftsUnknown},
		{"visa", "01", "Y", "", api.ShiftsUnknown},
		{"visa", "02", "Y", "05", api.ShiftsNo},
		{"some-word", "02", "U", "", api.ShiftsNo},
		{"mastercard", "01", "Y", "02", api.ShiftsYes},
		{"mastercard", "01", "A", "01", api.ShiftsYes},
		{"mastercard", "01", "Y", "06", api.ShiftsNo},
		{"mastercard", "01", "Y", "07", api.ShiftsUnknown},
		{"mastercard", "80", "U", "04", api.ShiftsNo},
		{"mastercard", "01", "U", "04", api.ShiftsNo},
		{"mastercard", "02", "Y", "N2", api.ShiftsNo},
		{"amex", "01", "Y", "05", api.ShiftsYes},
		{"jcb", "01", "A", "06", api.ShiftsUnknown},
		{"upi", "01", "Y", "05", api.ShiftsUnknown},
		{"upi", "01", "R", "07", api.ShiftsNo},
		{"standin", "01", "Y", "05", api.ShiftsUnknown},
		{"some-word", "01", "Y", "05", api.ShiftsUnknown},
	} {
		areq := `{"messageType":"AReq","messageCategory":"` + c.category + `"}`
		got := Of(endingOf(t, api.StatusCompleted, c.scheme, areq, `{"transStatus":"`+c.status+`","eci":"`+c.eci+`",`+value+`}`, "")).Liability
		if got.Shifts != c.want || got.Because == "" {
			t.Errorf("%s %s %s %q: %s (%s), want %s", c.scheme, c.category, c.status, c.eci, got.Shifts, got.Because, c.want)
		}
	}
}

// TestO4NoValueNoShift holds that an authentication without its value shifts nothing.
func TestO4NoValueNoShift(t *testing.T) {
	got := Of(endingOf(t, api.StatusCompleted, "visa", payment, `{"transStatus":"Y","eci":"05"}`, "")).Liability
	if got.Shifts != api.ShiftsNo {
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
		got := Of(endingOf(t, api.StatusCompleted, c.scheme, payment, `{"transStatus":"N","transStatusReason":"`+c.reason+`"}`, "")).Reason
		if !strings.Contains(string(got), c.want) {
			t.Errorf("%s %s: %v, want %q", c.scheme, c.reason, got, c.want)
		}
	}
	own, err := scheme.ReadOwn("jcb", "scheme jcb Ours\ncode transStatusReason 97 as our contract has it ; vendor-doc sure\n")
	if err != nil {
		t.Fatal(err)
	}
	end := endingOf(t, api.StatusCompleted, "jcb", payment, `{"transStatus":"N","transStatusReason":"97"}`, "")
	end.Rules = scheme.NewSheet("jcb", own)
	if got := Of(end).Reason; got != "as our contract has it" {
		t.Errorf("a reason of the operator's own: %v", got)
	}
}

// TestO7AuthorisationHasTheValuesAsTheyCame holds that values are passed on unchanged, and that those of the RReq
// count after a challenge.
func TestO7AuthorisationHasTheValuesAsTheyCame(t *testing.T) {
	m := Messages{
		AReq: messageOf(t, payment),
		ARes: messageOf(t, `{"transStatus":"C","dsTransID":"d","acsTransID":"a","messageVersion":"2.2.0","eci":"07"}`),
		RReq: messageOf(t, `{"transStatus":"Y","dsTransID":"d","acsTransID":"a","messageVersion":"2.2.0","eci":"05",`+value+`}`),
	}
	end := NewEnding(api.StatusCompleted, "visa", m)
	end.ServerID, end.Time = "s", today
	o := Of(end)
	if o.Authorisation.AuthenticationValue != "" || !o.Authorisation.Expired {
		t.Errorf("without messages: %+v", o.Authorisation)
	}
	AddValues(&o, m)
	a := o.Authorisation
	if a.ECI != "05" || a.AuthenticationValue != "AAAAAAAAAAAAAAAAAAAAAAAAAAA=" || a.DSTransID != "d" || a.ACSTransID != "a" ||
		a.MessageVersion != "2.2.0" || a.ThreeDSServerTransID != "s" || a.Expired {
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
	for _, s := range []api.Status{api.StatusCompleted, api.StatusFailed, api.StatusCancelled, api.StatusExpired} {
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

// TestC17WithoutAPaymentNothingIsAuthorised: no end of an authentication without a payment is told to authorise, at any
// scheme, and nobody is liable.
func TestC17WithoutAPaymentNothingIsAuthorised(t *testing.T) {
	const areq = `{"messageType":"AReq","messageCategory":"02","deviceChannel":"02"}`
	for _, name := range append(scheme.Names(), "some-word", "") {
		for _, ares := range append(strings.Split("YANURI", ""), "") {
			text := ""
			if ares != "" {
				text = `{"transStatus":"` + ares + `","dsTransID":"d"}`
			}
			o := Of(endingOf(t, api.StatusCompleted, name, areq, text, ""))
			if strings.HasPrefix(string(o.Next.Action), "authorise") || strings.Contains(o.Next.Because, "authorisation") {
				t.Errorf("%s %s: %+v", name, ares, o.Next)
			}
			if isGood := strings.Contains("YAI", ares) && ares != ""; isGood &&
				(o.Next.Action != api.ActionKeepForLater || !strings.Contains(o.Next.Because, "dsTransID")) {
				t.Errorf("%s %s: %+v, want to keep dsTransID", name, ares, o.Next)
			}
			if o.Liability.Shifts != api.ShiftsNo || o.Liability.Because != "no payment, nothing to be liable for" {
				t.Errorf("%s %s: %+v", name, ares, o.Liability)
			}
		}
	}
	for _, r := range Rows(today) {
		if r.Category == "NPA" && (r.Shifts != api.ShiftsNo || strings.HasPrefix(string(r.Action), "authorise")) {
			t.Errorf("%+v", r)
		}
	}
}

// TestCase34ReasonsOfDirectoriesAreNotTheIssuers: what a directory server refuses by a reason of its own is not laid to
// the issuer, and a challenge of 3RI that Visa's directory stopped leaves two ways to go on.
func TestCase34ReasonsOfDirectoriesAreNotTheIssuers(t *testing.T) {
	for _, c := range []struct {
		channel, status, reason string
		action                  api.Action
		because                 string
	}{
		{"02", "N", "87", api.ActionDoNotAuthorise, "directory server, and not the issuer"},
		{"02", "R", "85", api.ActionDoNotAuthorise, "directory server, and not the issuer"},
		{"02", "U", "88", api.ActionAuthoriseWithoutAuthentication, "directory server, and not the issuer"},
		{"02", "U", "81", api.ActionRetryLater, "directory server could not reach the issuer"},
		{"02", "N", "01", api.ActionDoNotAuthorise, "The issuer did not"},
		{"03", "N", "87", api.ActionAuthoriseWithoutAuthentication, "again with the cardholder"},
		{"03", "N", "87", api.ActionAuthoriseWithoutAuthentication, "directory server stopped it"},
		{"03", "N", "86", api.ActionDoNotAuthorise, "directory server, and not the issuer"},
	} {
		areq := `{"messageType":"AReq","messageCategory":"01","deviceChannel":"` + c.channel + `"}`
		ares := `{"transStatus":"` + c.status + `","transStatusReason":"` + c.reason + `","eci":"07"}`
		next := Of(endingOf(t, api.StatusCompleted, "visa", areq, ares, "")).Next
		if next.Action != c.action || !strings.Contains(next.Because, c.because) {
			t.Errorf("%s %s %s: %+v, want %s, %q", c.channel, c.status, c.reason, next, c.action, c.because)
		}
	}
}

// TestC18OnlyAPersonAbandons: an issuer's server that got no CReq was not reached, unless the browser never got the
// challenge: then the shopper had left.
func TestC18OnlyAPersonAbandons(t *testing.T) {
	for isUnshown, want := range map[bool]api.Result{false: api.ResultBankUnreachable, true: api.ResultAbandoned} {
		end := NewEnding(api.StatusCompleted, "visa", Messages{
			AReq: messageOf(t, payment), ARes: messageOf(t, `{"transStatus":"C"}`),
			RReq: messageOf(t, `{"transStatus":"N","challengeCancel":"05"}`), IsUnshown: isUnshown,
		})
		if o := Of(end); o.Result != want || o.Liability.Shifts != api.ShiftsNo {
			t.Errorf("not shown %v: %s, want %s", isUnshown, o.Result, want)
		}
	}
}

// TestO4AnAbandonedChallengeHasTheSourceOfItsN: the table has a row for the N with which a challenge was cancelled.
func TestO4AnAbandonedChallengeHasTheSourceOfItsN(t *testing.T) {
	l := Of(endingOf(t, api.StatusCompleted, "visa", payment, `{"transStatus":"C"}`, `{"transStatus":"N","challengeCancel":"01"}`)).Liability
	if l.Shifts != api.ShiftsNo || l.Source == "" {
		t.Errorf("%+v, want no with a source", l)
	}
	if l := Of(endingOf(t, api.StatusCancelled, "visa", payment, `{"transStatus":"C"}`, "")).Liability; l.Shifts != api.ShiftsNo || l.Source != "" {
		t.Errorf("%+v, want no by logic", l)
	}
}

// TestN4AFaultOfOursIsNotTheRequests: only an Erro of another component about the content says that the
// request has to be corrected.
func TestN4AFaultOfOursIsNotTheRequests(t *testing.T) {
	for component, want := range map[string]api.Action{"D": api.ActionDoNotAuthorise, "A": api.ActionDoNotAuthorise, "S": api.ActionRetryLater} {
		end := endingOf(t, api.StatusFailed, "visa", payment, "", "")
		end.Error = &api.OutcomeError{Component: component, Code: "203"}
		if o := Of(end); o.Next.Action != want || o.Error != end.Error {
			t.Errorf("%s: %+v", component, o)
		}
	}
}

// TestN4NobodyElseMakesAnEnding: package outcome reads an Ending from messages, and the journal from its record. An
// Ending that somebody else fills in lacks something.
func TestN4NobodyElseMakesAnEnding(t *testing.T) {
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "../../../internal/protocol/outcome/") {
			return err
		}
		text, err := os.ReadFile(path)
		if n := strings.Count(string(text), "outcome.Ending{"); n > 0 && path != "../../../internal/state/journal/journal.go" || n > 1 {
			t.Errorf("%s makes an outcome.Ending; use outcome.NewEnding, or the Outcome of a journal.Record", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
