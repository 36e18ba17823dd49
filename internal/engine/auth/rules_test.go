package auth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/message"
)

// A stand is an engine with a directory per scheme, whose log and findings a
// test reads.
type stand struct {
	*authtest.World
	e   *session.Engine
	log bytes.Buffer

	mu      sync.Mutex
	checked []string // by RulesChecked: merchant and scheme of each request
	counted []string
}

func newStand(of string) *stand {
	s := &stand{World: authtest.NewWorld()}
	s.Hits = []ranges.Hit{{Scheme: of, Info: authtest.AllVersions("")}}
	s.e = s.NewEngine(0)
	s.e.Peers = nil
	for _, name := range scheme.Names() {
		s.e.Peers = append(s.e.Peers, check.Directory{Scheme: name, Versions: message.Versions(), ResultsURL: "https://results.example/"})
	}
	s.e.Log = slog.New(slog.NewJSONHandler(&s.log, nil))
	s.e.Observer = s
	return s
}

func (*stand) Observe(_, _, _, _ string, _ time.Duration) {}

func (s *stand) RulesChecked(merchant, scheme string, findings []*scheme.Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checked = append(s.checked, merchant+" "+scheme)
	for _, f := range findings {
		s.counted = append(s.counted, scheme+" "+f.Element+" "+string(f.Rule))
	}
}

func merchant(rules string, strict bool) *account.Account {
	return &account.Account{Merchant: &account.Merchant{Name: "Shop", SchemeRules: rules}, Strict: strict}
}

// recorded are the findings of the one transaction in the store.
func (s *stand) recorded(t *testing.T) []string {
	t.Helper()
	if len(s.Txns) != 1 {
		t.Fatalf("%d transactions, want 1", len(s.Txns))
	}
	var texts []string
	for id, txn := range s.Txns {
		a, err := s.e.Authentication(t.Context(), &account.Account{Merchant: &account.Merchant{Name: txn.Owner}}, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Findings {
			texts = append(texts, f.Text)
		}
	}
	return texts
}

// good is a request without any sure fault for Visa and Mastercard. The names in without are left out.
func good(version, id string, without ...string) authtest.Object {
	o := authtest.AReq(version, id)
	o["cardExpiryDate"], o["threeDSRequestorID"] = "3012", "12345678*M1"
	o["cardholderName"], o["email"], o["browserIP"], o["billAddrLine1"] = "Ann", "ann@shop.example", "192.0.2.1", "1 Road"
	for _, name := range without {
		delete(o, name)
	}
	return o
}

// TestSchemeRules is MC-12, MC-19 and MC-21: what happens to a request from which a scheme requires more.
func TestSchemeRules(t *testing.T) {
	type change = map[string]any
	for _, tt := range []struct {
		name, scheme string
		change       change
		code, detail string // with enforce; "": sent
		finding      string // recorded with warn, and with enforce when sent
	}{
		{"MC-19", "visa", change{"cardExpiryDate": nil}, "201", "cardExpiryDate", "cardExpiryDate: required"},
		{"MC-19", "mastercard", change{"cardExpiryDate": nil}, "201", "cardExpiryDate", "cardExpiryDate: required"},
		{"MC-19 left to the directory", "jcb", change{"cardExpiryDate": nil, "threeDSRequestorID": "12345678MCT123456789012345"}, "", "", ""},
		{"MC-12", "visa", change{"threeDSRequestorID": "M1"}, "203", "threeDSRequestorID", "threeDSRequestorID: not of the scheme's form"},
		{"MC-12 amex", "amex", change{"threeDSRequestorID": "M1"}, "203", "threeDSRequestorID", "threeDSRequestorID: not of the scheme's form"},
		{"MC-12 protectbuy", "protectbuy", change{"threeDSRequestorID": "M1"}, "203", "threeDSRequestorID", "threeDSRequestorID: not of the scheme's form"},
		{"MC-12 unsure", "jcb", nil, "", "", "threeDSRequestorID: not of the scheme's form (unsure)"},
		{"MC-21", "visa", change{"messageCategory": "80"}, "203", "messageCategory", "messageCategory: a code of no known meaning"},
		{"MC-21 in 2.3.1", "visa", change{"messageCategory": "80", "messageVersion": "2.3.1"}, "207", "messageCategory",
			"messageCategory: a code of no known meaning"},
		{"MC-21 known", "mastercard", change{"messageCategory": "80"}, "", "", ""},
		{"one of several", "visa", change{"email": nil}, "201", "email",
			"one of email, homePhone, mobilePhone, workPhone: required; counted as missing data, and requests do not fail for it by themselves"},
		{"one of several", "mastercard", change{"email": nil, "cardholderName": nil}, "201", "cardholderName",
			"one of cardholderName, email, homePhone, mobilePhone, workPhone: required; no fee and no decline has been announced"},
		{"advised", "visa", nil, "", "", "billAddrCity: advised"},
		{"2.1.0", "amex", change{"messageVersion": "2.1.0", "threeDSRequestorID": "MER_1"}, "", "",
			"messageVersion: 2.1.0 has ended; the directory answers with Erro 102"},
		{"ignored", "amex", change{"threeDSRequestorChallengeInd": "05", "threeDSRequestorID": "MER_1"}, "", "",
			"threeDSRequestorChallengeInd: ignored with threeDSRequestorChallengeInd 05 or 06 or 07 (one source); the directory rewrites it to 02"},
		{"nothing is public", "upi", nil, "", "", ""},
		{"memory alone", "sbn", nil, "", "", ""},
		{"no scheme", "standin", nil, "", "", ""},
		{"all faults at once", "visa", change{"cardExpiryDate": nil, "threeDSRequestorID": "M1", "mcc": "54", "acquirerBIN": nil, "browserTZ": "x"}, "201",
			"acquirerBIN cardExpiryDate browserTZ mcc threeDSRequestorID", "cardExpiryDate: required"},
	} {
		for _, rules := range []string{"", "warn", "enforce", "off"} {
			for _, strict := range []bool{false, true} {
				t.Run(tt.name+" "+tt.scheme+" "+rules, func(t *testing.T) {
					s, acc := newStand(tt.scheme), merchant(rules, strict)
					version, _ := tt.change["messageVersion"].(string)
					if version == "" {
						version = "2.2.0"
					}
					req := good(version, authtest.Preauth(t, s.e, acc))
					if version == "2.3.1" {
						req["acquirerCountryCode"], req["acquirerCountryCodeSource"], req["acceptLanguage"] = "208", "01", []string{"en"}
					}
					for name, value := range tt.change {
						req[name] = value
					}
					byProtocol := tt.name == "all faults at once"
					_, _, err := s.e.Authenticate(t.Context(), acc, req.JSON())
					if rules == "enforce" && tt.code != "" || byProtocol {
						s.refused(t, err, tt.code, tt.detail, byProtocol && rules != "enforce")
						return
					}
					if err != nil {
						t.Fatalf("refused: %v", err)
					}
					s.sent(t, rules, tt.finding)
				})
			}
		}
	}
}

// the AReq is refused: nothing was sent and nothing is stored, and all elements are named.
func (s *stand) refused(t *testing.T, err error, code, detail string, fewer bool) {
	t.Helper()
	if got := authtest.CodeOf(err); got != code {
		t.Fatalf("%v, code %s, want %s", err, got, code)
	}
	bad, _ := errors.AsType[message.Error](err)
	names := strings.Split(bad.Detail, ",")
	for _, want := range strings.Fields(detail) {
		ruled := want == "cardExpiryDate" || want == "threeDSRequestorID"
		if slices.Contains(names, want) == (fewer && ruled) {
			t.Errorf("errorDetail %q, want %s in it: %t", bad.Detail, want, !(fewer && ruled))
		}
	}
	if len(s.Sends)+len(s.Txns) > 0 {
		t.Error("a refused request was sent or stored")
	}
}

// sent means that the AReq was sent as usual, and what it lacks is in record and log, or nowhere.
func (s *stand) sent(t *testing.T, rules, finding string) {
	t.Helper()
	if len(s.Sends) != 1 {
		t.Errorf("%d AReqs left, want 1", len(s.Sends))
	}
	if got, want := len(s.checked), 1; rules != "off" && (got != want || !strings.HasPrefix(s.checked[0], "Shop ")) {
		t.Errorf("%q were checked, want %d of Shop", s.checked, want)
	}
	got := s.recorded(t)
	logged := strings.Contains(s.log.String(), `"scheme rules not kept"`)
	switch {
	case rules == "off":
		if len(got)+len(s.counted) > 0 || logged {
			t.Errorf("off: recorded %q, counted %q, logged: %t", got, s.counted, logged)
		}
		return
	case finding != "" && !slices.Contains(got, finding):
		t.Errorf("recorded %q, want %q among it", got, finding)
	case finding == "" && len(got) > 0:
		t.Errorf("recorded %q, want nothing", got)
	}
	for _, text := range got {
		if !strings.Contains(s.log.String(), text) {
			t.Errorf("%q is not in the log", text)
		}
	}
	if len(s.counted) != len(got) || logged != (len(got) > 0) {
		t.Errorf("recorded %d, counted %d, logged: %t", len(got), len(s.counted), logged)
	}
}

// TestFindingsHoldNoValues: whatever is wrong with the values that requestors send, they are in no finding, log line,
// metric or answer.
func TestFindingsHoldNoValues(t *testing.T) {
	const canary = "CANARY"
	for _, of := range scheme.Names() {
		for _, rules := range []string{"warn", "enforce"} {
			s, acc := newStand(of), merchant(rules, false)
			req := good("2.2.0", authtest.Preauth(t, s.e, acc), "cardExpiryDate")
			req["threeDSRequestorID"], req["threeDSRequestorName"] = canary+" id", canary+" name"
			req["cardholderName"], req["billAddrCity"] = canary+" who", canary+" where"
			req["threeDSRequestorChallengeInd"] = "97"
			s.Reply = func(_ string, areq authtest.Object) ([]byte, error) { return authtest.ARes(areq, "Y"), nil }
			_, _, err := s.e.Authenticate(t.Context(), acc, req.JSON())
			told := s.log.String() + strings.Join(s.counted, " ")
			if err != nil {
				bad, _ := errors.AsType[message.Error](err)
				entries, _ := json.Marshal(check.FaultsOf(err))
				told += string(bad.JSON()) + string(entries)
			} else {
				told += strings.Join(s.recorded(t), " ")
			}
			for _, value := range []string{canary, `"97"`, " 97", authtest.PAN} {
				if strings.Contains(told, value) {
					t.Errorf("%s %s: %q is told: %s", of, rules, value, told)
				}
			}
		}
	}
}

// TestReasonsExplained: a reason of the scheme's own is logged with its
// meaning, from an ARes and from an RReq.
func TestReasonsExplained(t *testing.T) {
	s, acc := newStand("visa"), merchant("off", false)
	req := good("2.2.0", authtest.Preauth(t, s.e, acc))
	s.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
		o := authtest.AResObject(areq, "N")
		o["transStatusReason"] = "81"
		return o.JSON(), nil
	}
	if _, _, err := s.e.Authenticate(t.Context(), acc, req.JSON()); err != nil {
		t.Fatal(err)
	}
	if log := s.log.String(); !strings.Contains(log, `"transStatusReason":"81","meaning":"the ACS timed out"`) {
		t.Errorf("the reason is not explained: %s", log)
	}
	s.log.Reset()
	req = good("2.2.0", authtest.Preauth(t, s.e, acc))
	s.Reply = func(_ string, areq authtest.Object) ([]byte, error) { return authtest.ARes(areq, "C"), nil }
	if _, _, err := s.e.Authenticate(t.Context(), acc, req.JSON()); err != nil {
		t.Fatal(err)
	}
	result := authtest.RReq(req, "N", 1)
	result["transStatusReason"] = "83"
	s.e.Receive(t.Context(), []string{"visa"}, result.JSON())
	if log := s.log.String(); !strings.Contains(log, `"meaning":"system error of the ACS"`) {
		t.Errorf("the reason is not explained: %s", log)
	}
}

// BenchmarkAuth is the engine's part of an /auth, with the rules of a scheme
// and without.
func BenchmarkAuth(b *testing.B) {
	for _, tt := range []struct{ name, scheme, rules string }{
		{"standin", "standin", "warn"}, {"upi/off", "upi", "off"}, {"upi/warn", "upi", "warn"}, {"visa/off", "visa", "off"}, {"visa/warn", "visa", "warn"},
	} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			s, acc := newStand(tt.scheme), merchant(tt.rules, false)
			s.e.Log, s.e.Observer = slog.New(slog.DiscardHandler), nil
			for b.Loop() {
				b.StopTimer()
				clear(s.Txns)
				clear(s.Sends)
				body := good("2.2.0", authtest.Preauth(b, s.e, acc)).JSON()
				b.StartTimer()
				if _, _, err := s.e.Authenticate(b.Context(), acc, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestK5ReportOfMandatesHasTheRulesOfEachRecord: the journal names the rules that an AReq breaks, with their dates. It
// names none for a request that keeps them, and none for a merchant whose scheme_rules are off.
func TestK5ReportOfMandatesHasTheRulesOfEachRecord(t *testing.T) {
	for _, tt := range []struct {
		without []string
		want    []journal.Rule
	}{
		{[]string{"email", "cardholderName"}, []journal.Rule{
			{Element: "cardholderName", Rule: "require", Since: "2024-08-12"},
			{Element: "email|homePhone|mobilePhone|workPhone", Rule: "require", Since: "2024-08-12"},
		}},
		{nil, nil},
	} {
		for _, rules := range []string{"warn", "off"} {
			s := newStand("visa")
			request := good("2.2.0", authtest.Preauth(t, s.e, merchant(rules, false)), tt.without...)
			if rules == "off" {
				tt.want = nil
			}
			if _, _, err := s.e.Authenticate(t.Context(), merchant(rules, false), request.JSON()); err != nil {
				t.Fatal(err)
			}
			for _, txn := range s.Txns {
				entries := s.e.JournalEntries(txn, s.Clock(), false, nil)
				if len(entries) == 0 {
					t.Error("no entry")
				}
				for _, e := range entries {
					got := slices.DeleteFunc(slices.Clone(e.Record.Unkept), func(r journal.Rule) bool { return r.Since == "" })
					if !slices.Equal(got, tt.want) {
						t.Errorf("%s: the entry %s has %+v, want %+v", rules, e.Kind, got, tt.want)
					}
				}
			}
		}
	}
}
