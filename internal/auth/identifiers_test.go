package auth_test

import (
	"slices"
	"testing"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/auth"
)

// separatedCards are the card number of the tests as people write it.
var separatedCards = []string{
	pan[:4] + " " + pan[4:8] + " " + pan[8:12] + " " + pan[12:], pan[:4] + "-" + pan[4:8] + "-" + pan[8:12] + "-" + pan[12:],
	" " + pan + " ", pan[:4] + "\u00a0" + pan[4:],
}

// TestC20CardNumberWithBlanksIsTaken: blanks and dashes in a card number are left out in every operation that takes one,
// and named. A strict key has its request refused.
func TestC20CardNumberWithBlanksIsTaken(t *testing.T) {
	strict := &account.Account{Merchant: shop.Merchant, Strict: true}
	for _, card := range separatedCards {
		for _, acc := range []*account.Account{shop, strict} {
			w := newWorld()
			e := w.engine(0)
			check := func(operation string, isTaken bool, normalised []string) {
				t.Helper()
				if isTaken == acc.Strict || slices.Contains(normalised, "acctNumber") == acc.Strict {
					t.Errorf("%q, strict %t: %s takes it: %t, and names %q", card, acc.Strict, operation, isTaken, normalised)
				}
			}
			_, notes, err := e.Preauth(t.Context(), acc, object{"acctNumber": card}.json())
			check("/preauth", err == nil, notes.Normalised)
			found, wrong := e.Lookup(t.Context(), acc, object{"acctNumber": card}.json())
			if found == nil {
				found = &auth.CardLookup{}
			}
			check("/lookup", wrong == nil && found.Last4 == pan[12:] && len(found.Schemes) == 2, found.Normalised)

			body := areq("2.2.0", preauth(t, e, acc))
			body["acctNumber"] = card
			var pointers []string
			x := e.Explain(acc, body.json(), auth.ExplainOptions{})
			for _, c := range x.Normalised {
				pointers = append(pointers, c.Pointer[1:])
				if c.Found != nil || c.Sent != nil {
					t.Error("/explain shows the card number")
				}
			}
			check("/explain", x.IsValid, pointers)
			isSent := false
			w.reply = func(_ string, areq object) ([]byte, error) {
				isSent = areq["acctNumber"] == pan
				return ares(areq, "Y"), nil
			}
			_, notes, err = e.Authenticate(t.Context(), acc, body.json())
			check("/auth", err == nil && isSent, notes.Normalised)
		}
	}
}

// TestCase36BlankAroundAnID: blanks before and behind ids are left off, and named. A strict key has its request refused
// with the names of all of them.
func TestCase36BlankAroundAnID(t *testing.T) {
	strict := &account.Account{Merchant: shop.Merchant, Strict: true}
	ids := []string{"acquirerBIN", "acquirerMerchantID", "acctID", "threeDSServerTransID"}
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for _, acc := range []*account.Account{shop, strict} {
			w := newWorld()
			e := w.engine(0)
			body := areq(version, preauth(t, e, acc))
			if version == "2.3.1" {
				body = areq231(body["threeDSServerTransID"].(string), object{"acquirerCountryCodeSource": "01"})
			}
			body["acctID"] = "account 17"
			want := object{}
			for _, name := range ids {
				want[name] = body[name]
				if !acc.Strict || name != "threeDSServerTransID" { // which has an error of its own
					body[name] = " " + body[name].(string) + " "
				}
			}
			w.reply = func(_ string, areq object) ([]byte, error) {
				for _, name := range ids {
					if areq[name] != want[name] {
						t.Errorf("%s: %s left as %q", version, name, areq[name])
					}
				}
				return ares(areq, "Y"), nil
			}
			_, notes, err := e.Authenticate(t.Context(), acc, body.json())
			switch {
			case acc.Strict && (err == nil || told(err) != "203 acquirerBIN,acquirerMerchantID,acctID"):
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
