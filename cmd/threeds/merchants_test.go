package main

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/sandbox"
)

// TestMerchants plays each merchant of the sandbox's table against the server. Which Erro
// comes of it is taken from the table; what else does is in comesOf.
func TestMerchants(t *testing.T) {
	t.Parallel()
	box := startSandbox(t)
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
				for _, v := range allVersions {
					if slow := []string{"FAULT-SILENCE", "FAULT-SLOW", "FAULT-LATE"}; v != "2.2.0" && slices.Contains(slow, id) {
						continue // some seconds each
					}
					w := &world{box.ready, t}
					if id == "SPC" {
						if v == "2.3.1" {
							w.confirmed()
						}
						continue
					}
					if line[2] != "ARes" {
						w.strayed(v, id)
						continue
					}
					status, got := w.pay(v, "4000000000000103", object{"acquirerMerchantID": id})
					if id == "FAULT-SLOW" {
						if status != http.StatusOK || got.text("transStatus") != "Y" {
							t.Errorf("%s: %d %v", v, status, got)
						}
						continue
					}
					expected{code: code, component: component}.check(t, status, got)
				}
			})
		}
	})
}

// confirmed plays both AReqs of Secure Payment Confirmation.
func (w *world) confirmed() {
	w.t.Helper()
	offer := object{"acquirerMerchantID": "SPC", "threeDSRequestorSpcSupport": "Y", "payeeOrigin": "https://shop.example"}
	status, first := w.pay("2.3.1", "4000000000000103", offer)
	if status != http.StatusOK || first.text("transStatus") != "S" || first["webAuthnCredList"] == nil {
		w.t.Fatalf("%d %v", status, first)
	}
	status, second := w.pay("2.3.1", "4000000000000103", offer.with(object{
		"threeDSRequestorPriorAuthenticationInfo": []object{{"threeDSReqPriorAuthMethod": "05", "threeDSReqPriorRef": first["acsTransID"]}},
		"threeDSRequestorAuthenticationInfo":      []object{{"threeDSReqAuthMethod": "09", "threeDSReqAuthData": object{"id": "x"}}},
	}))
	if status != http.StatusOK || second.text("transStatus") != "Y" {
		w.t.Errorf("%d %v", status, second)
	}
}

// comesOf is what /postauth answers to a challenge with a merchant.
var comesOf = map[string]object{
	"FAULT-UNFRAMED": {"transStatus": "Y"}, "FAULT-STUCK": {"transStatus": "Y"}, "FAULT-CRES": {"transStatus": "Y"},
	"FAULT-BASE64": {"transStatus": "Y"}, "FAULT-FORGED": {"transStatus": "Y"}, "FAULT-AGAIN": {"transStatus": "Y"},
	"FAULT-LATE": {"errorCode": "305"}, "FAULT-NORESULT": {"errorCode": "305"}, "FAULT-ACSDOWN": {"errorCode": "305"},
	"CANCEL":    {"transStatus": "N", "challengeCancel": "01"},
	"TIMEOUT":   {"transStatus": "N", "challengeCancel": "04", "transStatusReason": "14"},
	"REASON-..": {"transStatus": "N", "transStatusReason": "12"},
}

// strayed plays a challenge with a merchant.
func (w *world) strayed(version, merchant string) {
	t := w.t
	t.Helper()
	want, known := comesOf[merchant]
	if strings.HasPrefix(merchant, "SDK-") { // something is wrong for an app's SDK, and nothing for a browser
		want, known = object{"transStatus": "Y"}, true
	}
	if !known {
		t.Fatal("nobody knows what comes of it")
	}
	pan := "4000000000000170"
	if merchant == "REASON-.." {
		pan = "4000000000000171"
	}
	status, ares := w.pay(version, pan, object{"acquirerMerchantID": strings.Replace(merchant, "..", "12", 1)})
	if status != http.StatusOK {
		t.Fatalf("%s: %d %v", version, status, ares)
	}
	w.begin(ares)
	id := object{"threeDSServerTransID": ares["threeDSServerTransID"]}
	if _, got := w.post("/postauth", id); !bytes.Equal(marshal(got.with(want)), marshal(got)) {
		t.Errorf("%s: /postauth answers %v, want %v", version, got, want)
	}
	if merchant == "FAULT-LATE" {
		waitFor(t, "the late result", func() bool {
			_, got := w.post("/postauth", id)
			return got.text("transStatus") == "Y"
		})
	}
}
