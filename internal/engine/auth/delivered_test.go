package auth_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/authtest"
)

// TestResultsStatusWhenRequestorSeemsGone: a requestor that ends its side of the connection while its /auth is
// in work looks like one that has gone, and still gets the ARes. The ACS hears that the ARes was not delivered only if
// nothing shows that it was. In any case the result is kept, once, and handed out.
func TestResultsStatusWhenRequestorSeemsGone(t *testing.T) {
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for _, tt := range []struct {
			name, status string // of the ARes
			gone         bool
			cancel       string // challengeCancel of the RReq
			result       string // its transStatus
			want         string // resultsStatus
		}{
			{"there", "C", false, "", "Y", "01"},
			{"there, and went no further", "C", false, "05", "N", "01"},
			{"passed", "C", true, "", "Y", "01"},
			{"failed", "C", true, "", "N", "01"},
			{"cancelled", "C", true, "01", "N", "01"},
			{"gave up", "C", true, "04", "N", "01"},
			{"no challenge was begun", "C", true, "05", "N", "03"},
			{"decoupled", "D", true, "", "Y", "03"},
		} {
			if tt.status == "D" && version == "2.1.0" {
				continue
			}
			w := authtest.NewWorld()
			e := w.NewEngine(0)
			ctx, cancel := context.WithCancel(t.Context())
			var sent authtest.Object
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				if sent = areq; tt.gone {
					cancel()
				}
				return authtest.ARes(areq, tt.status), nil
			}
			req := authtest.AReq231(authtest.Preauth(t, e, authtest.Shop), authtest.Object{"messageVersion": version})
			if tt.status == "D" {
				req["threeDSRequestorDecReqInd"], req["threeDSRequestorDecMaxTime"] = "Y", "00010"
			}
			got, _, err := e.Authenticate(ctx, authtest.Shop, req.JSON())
			cancel()
			if err != nil || !bytes.Equal(got, authtest.ARes(sent, tt.status)) {
				t.Fatalf("%s, %s: /auth: %s, %v", version, tt.name, got, err)
			}
			result := authtest.RReq(sent, tt.result, 1)
			if tt.cancel != "" {
				result["challengeCancel"] = tt.cancel
			}
			if tt.cancel == "04" || tt.cancel == "05" {
				result["transStatusReason"] = "14"
			}
			if version == "2.2.0" && tt.status == "D" {
				result["authenticationType"] = "04"
			}
			for i, kind := range []string{"RRes", "Erro"} {
				answer := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, result.JSON()).Body)
				if answer.Text("messageType") != kind || i == 0 && answer.Text("resultsStatus") != tt.want {
					t.Errorf("%s, %s: RReq %d: %v, want %s %s", version, tt.name, i+1, answer, kind, tt.want)
				}
			}
			for range 2 {
				kept, err := e.Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": sent["threeDSServerTransID"]}.JSON())
				if err != nil || !bytes.Equal(kept, result.JSON()) {
					t.Errorf("%s, %s: /postauth: %s, %v", version, tt.name, kept, err)
				}
			}
		}
	}
}
