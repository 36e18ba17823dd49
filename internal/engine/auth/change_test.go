package auth_test

import (
	"context"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/account"
)

// TestValueFromProfileIsReported: where acquirerCountryCode was taken from is recorded with
// the transaction, from the profile like from merchantCountryCode (R9).
func TestValueFromProfileIsReported(t *testing.T) {
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
		if _, _, err := w.engine(0).Authenticate(t.Context(), acc, req.json()); err != nil {
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

// TestAReqGoesWhereItsIDWasMadeFor: an AReq goes to the directory that its id was made for, and says what
// that one has been told: where its results go, and as whom we are known there.
func TestAReqGoesWhereItsIDWasMadeFor(t *testing.T) {
	for _, scheme := range []string{"visa", "mastercard"} {
		w := newWorld()
		e := w.engine(0)
		crd, _, err := e.Preauth(context.Background(), shop, object{"acctNumber": pan, "ds": scheme}.json())
		if err != nil {
			t.Fatal(err)
		}
		var sent object
		to := ""
		w.reply = func(scheme string, areq object) ([]byte, error) {
			to, sent = scheme, areq
			return ares(areq, "Y"), nil
		}
		if _, _, err := e.Authenticate(t.Context(), shop, areq("2.2.0", parse(t, crd).text("threeDSServerTransID")).json()); err != nil {
			t.Fatal(err)
		}
		url, operator := sent.text("threeDSServerURL"), sent.text("threeDSServerOperatorID")
		if to != scheme || url != "https://results.example/"+scheme || operator != "op-"+scheme {
			t.Errorf("an AReq for %s goes to %s, with %s, %s", scheme, to, url, operator)
		}
	}
}
