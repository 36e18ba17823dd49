package shop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestSPCSecondAReq: after an ARes S the second AReq has a fresh id, the same purchase, the first
// one's reference, and the assertion or the spcIncompInd of what became of the confirmation.
func TestSPCSecondAReq(t *testing.T) {
	for _, test := range []struct {
		name, outcome, incomplete string
		late                      time.Duration
	}{
		{name: "confirmed", outcome: `{"assertion": {"id": "Y3JlZGVudGlhbA"}}`},
		{name: "failed", outcome: `{"incomplete": "01"}`, incomplete: "01"},
		{name: "cancelled", outcome: `{"incomplete": "02"}`, incomplete: "02"},
		{name: "too late by the page", outcome: `{"incomplete": "03"}`, incomplete: "03"},
		{name: "too late", outcome: `{"assertion": {"id": "Y3JlZGVudGlhbA"}}`, late: confirmTime + time.Second, incomplete: "03"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bank := newBank(t)
			s := bank.shop()
			now := time.Now()
			s.Now = func() time.Time { return now }
			p := &page{t: t, shop: s}
			o := testOrder("4000000000000103")
			o.Trouble, o.Confirm, o.Version = "SPC", true, "2.3.1"
			v := p.toAuth(o)
			if v.State != confirming || v.Confirm == nil || len(v.Confirm.Credentials) == 0 {
				t.Fatalf("after the ARes S the page is told %+v", v)
			}
			first, _ := bank.lastCall("/auth")
			if first["threeDSRequestorSpcSupport"] != "Y" || first["payeeOrigin"] != "https://127.0.0.1:8082" {
				t.Errorf("the first AReq does not offer: %v", first)
			}
			now = now.Add(test.late)
			v = p.post("/checkout/"+v.ID+"/confirmed", json.RawMessage(test.outcome))
			if v.State != done || v.Ending.TransStatus != "Y" {
				t.Fatalf("the second AReq ends %+v", v)
			}
			second, n := bank.lastCall("/auth")
			if n != 2 || second["threeDSServerTransID"] == first["threeDSServerTransID"] {
				t.Errorf("%d AReqs, want a second one with a fresh id", n)
			}
			for _, name := range []string{"acctNumber", "purchaseAmount", "purchaseDate", "acquirerMerchantID", "payeeOrigin"} {
				if fmt.Sprint(second[name]) != fmt.Sprint(first[name]) {
					t.Errorf("%s was %v and is %v", name, first[name], second[name])
				}
			}
			prior := fmt.Sprint(second["threeDSRequestorPriorAuthenticationInfo"])
			if want := bank.find(first["threeDSServerTransID"].(string)).acsID; !strings.Contains(prior, want) ||
				!strings.Contains(prior, "threeDSReqPriorAuthMethod:05") {
				t.Errorf("the prior authentication is %s, want method 05 and %s", prior, want)
			}
			if got, _ := second["spcIncompInd"].(string); got != test.incomplete {
				t.Errorf("spcIncompInd %q, want %q", got, test.incomplete)
			}
			how := fmt.Sprint(second["threeDSRequestorAuthenticationInfo"])
			if confirmed := strings.Contains(how, "threeDSReqAuthMethod:09"); confirmed != (test.incomplete == "") {
				t.Errorf("threeDSRequestorAuthenticationInfo is %s", how)
			}
			if test.incomplete == "03" && second["threeDSRequestorAuthenticationInfo"] != nil {
				t.Errorf("after the time was over there is %s", how)
			}
			if c := s.checkouts.find(v.ID); c.order.Card != "" || c.panel.card != "" {
				t.Error("the card number is still there")
			}
		})
	}
}
