package auth_test

import (
	"testing"

	"github.com/openthreeds/threeds/internal/state/account"
)

// TestStrictChecksExponent: a currency with an exponent that is not its own is refused for a strict
// key, before anything leaves; otherwise it is for the directory server to judge.
func TestStrictChecksExponent(t *testing.T) {
	strict := &account.Account{Merchant: shop.Merchant, Strict: true}
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for _, tt := range []struct{ currency, exponent, want string }{
			{"978", "2", ""},
			{"392", "0", ""},
			{"414", "3", ""},
			{"392", "2", "304 purchaseCurrency,purchaseExponent"},
			{"978", "3", "304 purchaseCurrency,purchaseExponent"},
			{"414", "2", "304 purchaseCurrency,purchaseExponent"},
			{"994", "2", ""}, // has none
			{"999", "2", "304 purchaseCurrency"},
		} {
			for _, acc := range []*account.Account{shop, strict} {
				w := newWorld()
				e := w.engine(0)
				id := preauth(t, e, acc)
				req := areq(version, id)
				if version == "2.3.1" {
					req = areq231(id, object{"acquirerCountryCodeSource": "01"})
				}
				req["purchaseCurrency"], req["purchaseExponent"] = tt.currency, tt.exponent
				w.reply = func(_ string, areq object) ([]byte, error) {
					if areq["purchaseCurrency"] != tt.currency || areq["purchaseExponent"] != tt.exponent {
						t.Errorf("left as %v %v", areq["purchaseCurrency"], areq["purchaseExponent"])
					}
					return ares(areq, "Y"), nil
				}
				want := tt.want
				if !acc.Strict && tt.currency != "999" {
					want = ""
				}
				_, _, err := e.Authenticate(t.Context(), acc, req.json())
				got := ""
				if err != nil {
					got = told(err)
				}
				if left := w.sends[id]; got != want || (left == 0) != (want != "") {
					t.Errorf("%s, %s with %s, strict %t: %q, %d left; want %q", version, tt.currency, tt.exponent, acc.Strict, got, left, want)
				}
			}
		}
	}
}
