package auth_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/message"
)

// TestThreeRIPaymentIn210: 3RI is for payments from 2.2.0 on; before, such a request
// is refused and no AReq leaves (RI-02).
func TestThreeRIPaymentIn210(t *testing.T) {
	for _, tt := range []struct{ version, category, code string }{
		{"2.1.0", "01", "203"}, {"2.1.0", "02", ""}, {"2.2.0", "01", ""}, {"2.3.1", "01", ""},
	} {
		w := newWorld()
		w.hits = append([]ranges.Hit{{Scheme: "amex", Info: allVersions("")}}, w.hits...)
		e := w.engine(0)
		if crd, _, err := e.Preauth(context.Background(), shop, object{"acctNumber": pan}.json()); err != nil || parse(t, crd).text("scheme") != "visa" {
			t.Errorf("the CRD is %s, %v; want that of the first configured that holds the card", crd, err)
		}
		req := areq(tt.version, "")
		for name := range req {
			if strings.HasPrefix(name, "browser") {
				delete(req, name)
			}
		}
		for _, name := range []string{"threeDSServerTransID", "notificationURL", "threeDSCompInd", "threeDSRequestorAuthenticationInd"} {
			delete(req, name)
		}
		req["deviceChannel"], req["messageCategory"], req["threeRIInd"] = "03", tt.category, "03"
		req["acquirerCountryCode"] = "208"
		w.reply = func(scheme string, areq object) ([]byte, error) {
			if scheme != "visa" {
				t.Errorf("%s: without an id the AReq goes to %s, want the first configured that holds the card", tt.version, scheme)
			}
			return ares(areq, "Y"), nil
		}
		_, _, err := e.Authenticate(t.Context(), shop, req.json())
		if codeOf(err) != tt.code {
			t.Errorf("%s, category %s: %v, want %q", tt.version, tt.category, err, tt.code)
		}
		if bad, ok := errors.AsType[message.Error](err); ok && bad.Detail != "messageCategory" {
			t.Errorf("errorDetail %q, want messageCategory", bad.Detail)
		}
		if left := len(w.sends) > 0; left != (tt.code == "") {
			t.Errorf("%s, category %s: an AReq left: %t", tt.version, tt.category, left)
		}
	}
}
