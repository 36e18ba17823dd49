package check_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/state/account"
)

// separatedCards are the card number of the tests as people write it.
var separatedCards = []string{
	authtest.PAN[:4] + " " + authtest.PAN[4:8] + " " + authtest.PAN[8:12] + " " + authtest.PAN[12:],
	authtest.PAN[:4] + "-" + authtest.PAN[4:8] + "-" + authtest.PAN[8:12] + "-" + authtest.PAN[12:],
	" " + authtest.PAN + " ", authtest.PAN[:4] + "\u00a0" + authtest.PAN[4:],
}

// TestC20CardNumberWithBlanksIsTaken: blanks and dashes in a card number are removed in every operation that takes one,
// and reported. A request with a strict key is refused.
func TestC20CardNumberWithBlanksIsTaken(t *testing.T) {
	strict := &account.Account{Merchant: authtest.Shop.Merchant, Strict: true}
	for _, card := range separatedCards {
		for _, acc := range []*account.Account{authtest.Shop, strict} {
			w := authtest.NewWorld()
			e := w.NewEngine(0)
			verify := func(operation string, isTaken bool, normalised []string) {
				t.Helper()
				if isTaken == acc.Strict || slices.Contains(normalised, "acctNumber") == acc.Strict {
					t.Errorf("%q, strict %t: %s takes it: %t, and names %q", card, acc.Strict, operation, isTaken, normalised)
				}
			}
			_, notes, err := e.Preauth(t.Context(), acc, authtest.Object{"acctNumber": card}.JSON())
			verify("/preauth", err == nil, notes.Normalised)
			found, wrong := e.Lookup(t.Context(), acc, authtest.Object{"acctNumber": card}.JSON())
			if found == nil {
				found = &auth.CardLookup{}
			}
			verify("/lookup", wrong == nil && found.Last4 == authtest.PAN[12:] && len(found.Schemes) == 2, found.Normalised)

			body := authtest.AReq("2.2.0", authtest.Preauth(t, e, acc))
			body["acctNumber"] = card
			var pointers []string
			x := e.Explain(acc, body.JSON(), check.ExplainOptions{})
			for _, c := range x.Normalised {
				pointers = append(pointers, c.Pointer[1:])
				if c.Found != nil || c.Sent != nil {
					t.Error("/explain shows the card number")
				}
			}
			verify("/explain", x.IsValid, pointers)
			isSent := false
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				isSent = areq["acctNumber"] == authtest.PAN
				return authtest.ARes(areq, "Y"), nil
			}
			_, notes, err = e.Authenticate(t.Context(), acc, body.JSON())
			verify("/auth", err == nil && isSent, notes.Normalised)
		}
	}
}

// TestCase36BlankAroundAnID: blanks before and after ids are removed, and reported. A request with a strict key is
// refused with the names of all of them.
func TestCase36BlankAroundAnID(t *testing.T) {
	strict := &account.Account{Merchant: authtest.Shop.Merchant, Strict: true}
	ids := []string{"acquirerBIN", "acquirerMerchantID", "acctID", "threeDSServerTransID"}
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for _, acc := range []*account.Account{authtest.Shop, strict} {
			w := authtest.NewWorld()
			e := w.NewEngine(0)
			body := authtest.AReq(version, authtest.Preauth(t, e, acc))
			if version == "2.3.1" {
				body = authtest.AReq231(body["threeDSServerTransID"].(string), authtest.Object{"acquirerCountryCodeSource": "01"})
			}
			body["acctID"] = "account 17"
			want := authtest.Object{}
			for _, name := range ids {
				want[name] = body[name]
				if !acc.Strict || name != "threeDSServerTransID" { // which has an error of its own
					body[name] = " " + body[name].(string) + " "
				}
			}
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				for _, name := range ids {
					if areq[name] != want[name] {
						t.Errorf("%s: %s left as %q", version, name, areq[name])
					}
				}
				return authtest.ARes(areq, "Y"), nil
			}
			_, notes, err := e.Authenticate(t.Context(), acc, body.JSON())
			switch {
			case acc.Strict && (err == nil || authtest.Told(err) != "203 acquirerBIN,acquirerMerchantID,acctID"):
				t.Errorf("%s, strict: %v", version, err)
			case !acc.Strict && err != nil:
				t.Errorf("%s: %v", version, err)
			case !acc.Strict:
				for _, name := range ids {
					if !slices.Contains(notes.Normalised, name) {
						t.Errorf("%s: %s is not among %q", version, name, notes.Normalised)
					}
				}
			}
		}
	}
}

// TestCase31AgentsRequestIsFitted: values that the schema of the Agentic Commerce Protocol allows, but that do not fit
// into EMV 3DS, are split, cut, written in ASCII or left out, and reported. The payment goes on.
func TestCase31AgentsRequestIsFitted(t *testing.T) {
	const street = "Building of the Northern Harbour Company, Entrance C 12" // 55 characters
	long := strings.Repeat("x", 55)
	for _, version := range []string{"2.2.0", "2.3.1"} {
		for name, tt := range map[string]struct {
			sent, want authtest.Object // a member of want that is nil is not in the AReq
			normalised []string
		}{
			"a long line": {
				authtest.Object{"billAddrLine1": street}, authtest.Object{"billAddrLine1": street[:50], "billAddrLine2": "C 12"},
				[]string{"billAddrLine1", "billAddrLine2"},
			},
			"two long lines": {
				authtest.Object{"billAddrLine1": street, "billAddrLine2": street},
				authtest.Object{"billAddrLine1": street[:50], "billAddrLine2": "C 12 Building of the Northern Harbour Company,", "billAddrLine3": "Entrance C 12"},
				[]string{"billAddrLine1", "billAddrLine2", "billAddrLine3"},
			},
			"a line without a blank": {
				authtest.Object{"billAddrLine1": long, "billAddrLine2": "Floor 3"},
				authtest.Object{"billAddrLine1": nil, "billAddrLine2": "Floor 3"}, []string{"billAddrLine1"},
			},
			"a long city":        {authtest.Object{"billAddrCity": long}, authtest.Object{"billAddrCity": nil}, []string{"billAddrCity"}},
			"a long postal code": {authtest.Object{"billAddrPostCode": "123456789 123456789"}, authtest.Object{"billAddrPostCode": nil}, []string{"billAddrPostCode"}},
			"a long name": {
				authtest.Object{"cardholderName": "Ann Elizabeth Example of Northumberland-Westmorland"},
				authtest.Object{"cardholderName": "Ann Elizabeth Example of"}, []string{"cardholderName"},
			},
			"a long name in one word": {authtest.Object{"cardholderName": long}, authtest.Object{"cardholderName": long[:45]}, []string{"cardholderName"}},
			"a short name":            {authtest.Object{"cardholderName": "A"}, authtest.Object{"cardholderName": nil}, []string{"cardholderName"}},
			"no address of mail":      {authtest.Object{"email": "ann"}, authtest.Object{"email": nil}, []string{"email"}},
		} {
			if name == "a short name" && version == "2.3.1" {
				continue // which takes it
			}
			w := authtest.NewWorld()
			var left authtest.Object
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				left = areq
				return authtest.ARes(areq, "Y"), nil
			}
			e, d := w.NewEngine(0), session.Delegation{APIKey: authtest.AgentKey, AgentSteps: check.AgentSteps{NotificationURL: "https://agent.example/back"}}
			body := authtest.Four()
			body["deviceChannel"], body["messageVersion"], body["billAddrCountry"] = "02", version, "208"
			maps.Copy(body, tt.sent)
			a, err := e.CreateForAgent(t.Context(), authtest.Profiled, d, body.JSON())
			if err != nil {
				t.Errorf("%s %s: %v", version, name, err)
				continue
			}
			d.Completion = "Y"
			if a, err = e.AuthenticateForAgent(t.Context(), authtest.Profiled, d, a.ID, authtest.AgentBrowser().JSON()); err != nil {
				t.Errorf("%s %s: %v", version, name, err)
				continue
			}
			for element, want := range tt.want {
				if left[element] != want {
					t.Errorf("%s %s: %s left as %v, want %v", version, name, element, left[element], want)
				}
			}
			for _, element := range tt.normalised {
				if !slices.ContainsFunc(a.Normalised, func(c api.Correction) bool { return c.Pointer == "/"+element }) {
					t.Errorf("%s %s: %s is not named in %v", version, name, element, a.Normalised)
				}
			}
		}
	}
}
