package auth_test

import (
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/account"
)

// TestProfileIsAChange: where acquirerCountryCode was taken from is recorded with
// the transaction, from the profile like from merchantCountryCode (R9).
func TestProfileIsAChange(t *testing.T) {
	for _, tt := range []struct {
		version, profile, sent string
		want, recorded         string
	}{
		{"2.3.1", "246", "", "246", "acquirerCountryCode: taken from the merchant's profile"},
		{"2.3.1", "", "", "208", "acquirerCountryCode: taken from merchantCountryCode"},
		{"2.3.1", "246", "752", "752", ""},
		{"2.2.0", "246", "", "", ""},
	} {
		w := newWorld()
		acc := &account.Account{Merchant: &account.Merchant{Name: "Shop", AcquirerCountry: tt.profile}}
		req := areq231(preauth(t, w.engine(0), acc), object{"messageVersion": tt.version})
		delete(req, "acquirerCountryCode")
		if tt.sent != "" {
			req["acquirerCountryCode"] = tt.sent
		}
		var sent object
		w.reply = func(_ string, areq object) ([]byte, error) {
			sent = areq
			return ares(areq, "Y"), nil
		}
		if _, err := w.engine(0).Authenticate(t.Context(), acc, req.json()); err != nil {
			t.Fatal(err)
		}
		kept := string(w.txns[req.text("threeDSServerTransID")].Data)
		if got := sent.text("acquirerCountryCode"); got != tt.want {
			t.Errorf("%+v: sent %q", tt, got)
		}
		if strings.Contains(kept, "acquirerCountryCode: ") != (tt.recorded != "") || !strings.Contains(kept, tt.recorded) {
			t.Errorf("%+v: recorded %s", tt, kept)
		}
	}
}
