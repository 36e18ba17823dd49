package operators

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/sandbox"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestMerchants plays each merchant of the sandbox's table against the server. Which Erro
// comes of it is taken from the table; what else does is in comesOf.
func TestMerchants(t *testing.T) {
	t.Parallel()
	box := rig.StartSandbox(t)
	lines := regexp.MustCompile(`(?m)^merchant (\S+) +(\S+) [^#\n]*(?:# /auth: Erro (\d+))?`).FindAllStringSubmatch(sandbox.MerchantTable(), -1)
	if len(lines) < 30 {
		t.Fatalf("%d merchants", len(lines))
	}
	t.Run("all", func(t *testing.T) { // ends when they all have
		for _, line := range lines {
			t.Run(line[1], func(t *testing.T) {
				t.Parallel()
				id, code, component := line[1], line[3], "S"
				if relayed, ok := strings.CutPrefix(id, "FAULT-ERRO"); ok {
					code, component = relayed, "D"
				}
				for _, v := range rig.AllVersions {
					if slow := []string{"FAULT-SILENCE", "FAULT-SLOW", "FAULT-LATE"}; v != "2.2.0" && slices.Contains(slow, id) {
						continue // some seconds each
					}
					w := &rig.World{ReadyFile: box.ReadyFile, T: t}
					if id == "SPC" {
						if v == "2.3.1" {
							confirmed(w)
						}
						continue
					}
					if line[2] != "ARes" {
						strayed(w, v, id)
						continue
					}
					status, got := w.Pay(v, "4000000000000103", rig.Object{"acquirerMerchantID": id})
					if id == "FAULT-SLOW" {
						if status != http.StatusOK || got.Text("transStatus") != "Y" {
							t.Errorf("%s: %d %v", v, status, got)
						}
						continue
					}
					rig.Expected{Code: code, Component: component}.Check(t, status, got)
				}
			})
		}
	})
}

// confirmed plays both AReqs of Secure Payment Confirmation.
func confirmed(w *rig.World) {
	w.T.Helper()
	offer := rig.Object{"acquirerMerchantID": "SPC", "threeDSRequestorSpcSupport": "Y", "payeeOrigin": "https://shop.example"}
	status, first := w.Pay("2.3.1", "4000000000000103", offer)
	if status != http.StatusOK || first.Text("transStatus") != "S" || first["webAuthnCredList"] == nil {
		w.T.Fatalf("%d %v", status, first)
	}
	status, second := w.Pay("2.3.1", "4000000000000103", offer.With(rig.Object{
		"threeDSRequestorPriorAuthenticationInfo": []rig.Object{{"threeDSReqPriorAuthMethod": "05", "threeDSReqPriorRef": first["acsTransID"]}},
		"threeDSRequestorAuthenticationInfo":      []rig.Object{{"threeDSReqAuthMethod": "09", "threeDSReqAuthData": rig.Object{"id": "x"}}},
	}))
	if status != http.StatusOK || second.Text("transStatus") != "Y" {
		w.T.Errorf("%d %v", status, second)
	}
}

// comesOf is what /postauth answers to a challenge with a merchant.
var comesOf = map[string]rig.Object{
	"FAULT-UNFRAMED": {"transStatus": "Y"}, "FAULT-STUCK": {"transStatus": "Y"}, "FAULT-CRES": {"transStatus": "Y"},
	"FAULT-BASE64": {"transStatus": "Y"}, "FAULT-FORGED": {"transStatus": "Y"}, "FAULT-AGAIN": {"transStatus": "Y"},
	"FAULT-LATE": {"errorCode": "305"}, "FAULT-NORESULT": {"errorCode": "305"}, "FAULT-ACSDOWN": {"errorCode": "305"},
	"CANCEL":    {"transStatus": "N", "challengeCancel": "01"},
	"TIMEOUT":   {"transStatus": "N", "challengeCancel": "04", "transStatusReason": "14"},
	"REASON-..": {"transStatus": "N", "transStatusReason": "12"},
}

// strayed plays a challenge with a merchant.
func strayed(w *rig.World, version, merchant string) {
	t := w.T
	t.Helper()
	want, known := comesOf[merchant]
	if strings.HasPrefix(merchant, "SDK-") { // something is wrong for an app's SDK, and nothing for a browser
		want, known = rig.Object{"transStatus": "Y"}, true
	}
	if !known {
		t.Fatal("nobody knows what comes of it")
	}
	pan := "4000000000000170"
	if merchant == "REASON-.." {
		pan = "4000000000000171"
	}
	status, ares := w.Pay(version, pan, rig.Object{"acquirerMerchantID": strings.Replace(merchant, "..", "12", 1)})
	if status != http.StatusOK {
		t.Fatalf("%s: %d %v", version, status, ares)
	}
	w.BeginChallenge(ares)
	id := rig.Object{"threeDSServerTransID": ares["threeDSServerTransID"]}
	if _, got := w.Post("/postauth", id); !bytes.Equal(rig.Marshal(got.With(want)), rig.Marshal(got)) {
		t.Errorf("%s: /postauth answers %v, want %v", version, got, want)
	}
	if merchant == "FAULT-LATE" {
		waittest.Until(t, "the late result", func() bool {
			_, got := w.Post("/postauth", id)
			return got.Text("transStatus") == "Y"
		})
	}
}
