package auth_test

import (
	"context"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/state/account"
)

// TestValueFromProfileIsReported: the source of acquirerCountryCode is recorded with the transaction, whether that is
// the profile or merchantCountryCode (R9).
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
		w := authtest.NewWorld()
		acc := &account.Account{Merchant: &account.Merchant{Name: "Shop", AcquirerCountry: tt.profile}}
		req := authtest.AReq231(authtest.Preauth(t, w.NewEngine(0), acc), authtest.Object{"messageVersion": tt.version})
		delete(req, "acquirerCountryCode")
		if tt.sent != "" {
			req["acquirerCountryCode"] = tt.sent
		}
		var sent authtest.Object
		w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
			sent = areq
			return authtest.ARes(areq, "Y"), nil
		}
		if _, _, err := w.NewEngine(0).Authenticate(t.Context(), acc, req.JSON()); err != nil {
			t.Fatal(err)
		}
		kept := string(w.Txns[req.Text("threeDSServerTransID")].Data)
		if got := sent.Text("acquirerCountryCode"); got != tt.want {
			t.Errorf("%+v: sent %q", tt, got)
		}
		if strings.Contains(kept, "acquirerCountryCode: ") != (tt.recorded != "") || !strings.Contains(kept, tt.recorded) {
			t.Errorf("%+v: recorded %s", tt, kept)
		}
	}
}

// TestAReqGoesWhereItsIDWasMadeFor: an AReq goes to the directory that its id was made for, and says what that
// directory knows of us: where its results go, and our ids there.
func TestAReqGoesWhereItsIDWasMadeFor(t *testing.T) {
	for _, scheme := range []string{"visa", "mastercard"} {
		w := authtest.NewWorld()
		e := w.NewEngine(0)
		crd, _, err := e.Preauth(context.Background(), authtest.Shop, authtest.Object{"acctNumber": authtest.PAN, "ds": scheme}.JSON())
		if err != nil {
			t.Fatal(err)
		}
		var sent authtest.Object
		to := ""
		w.Reply = func(scheme string, areq authtest.Object) ([]byte, error) {
			to, sent = scheme, areq
			return authtest.ARes(areq, "Y"), nil
		}
		if _, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", authtest.Parse(t, crd).Text("threeDSServerTransID")).JSON()); err != nil {
			t.Fatal(err)
		}
		url, operator := sent.Text("threeDSServerURL"), sent.Text("threeDSServerOperatorID")
		if to != scheme || url != "https://results.example/"+scheme || operator != "op-"+scheme {
			t.Errorf("an AReq for %s goes to %s, with %s, %s", scheme, to, url, operator)
		}
	}
}
