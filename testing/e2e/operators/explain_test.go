package operators

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// explainable is a body of an /auth without fault, apart from its masked card number.
const explainable = `{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"02","messageCategory":"01",
"threeDSServerTransID":"8a880dc0-d2d2-4067-bcb1-b08d1690b26e","threeDSCompInd":"U","acctNumber":"400000******0103",
"threeDSRequestorAuthenticationInd":"01","threeDSRequestorURL":"https://shop.example","acquirerBIN":"400000",
"acquirerMerchantID":"M1","mcc":"5411","merchantCountryCode":"DK","merchantName":"Shop","purchaseAmount":"1099",
"purchaseCurrency":"978","purchaseExponent":"2","purchaseDate":"20261120120000","browserAcceptHeader":"text/html",
"browserIP":"192.0.2.1","browserJavaEnabled":false,"browserJavascriptEnabled":true,"browserLanguage":"en",
"browserColorDepth":"24","browserScreenHeight":"1080","browserScreenWidth":"1920","browserTZ":"-60",
"browserUserAgent":"Mozilla/5.0","notificationURL":"https://shop.example/done"}`

// TestD24ExplainCommand: exit status 0 is valid, 1 invalid, 2 unreadable; a masked card number is a warning.
func TestD24ExplainCommand(t *testing.T) {
	t.Parallel()
	explain := func(body string, flags ...string) (status int, out, said string) {
		var stdout, stderr bytes.Buffer
		args := append(append([]string{"explain"}, flags...), "-")
		status = rig.Run(t.Context(), args, strings.NewReader(body), &stdout, &stderr)
		return status, stdout.String(), stderr.String()
	}
	for _, test := range []struct {
		name, body string
		flags      []string
		status     int
		want       string // in what is said
	}{
		{"valid", explainable, nil, 0, "warning: the card number is masked"},
		{
			"before the mandate", explainable, []string{"--scheme", "visa", "--as-of", "2024-01-01"}, 0,
			"visa: cardholderName: required from 2024-08-12 on",
		},
		{"after it", explainable, []string{"--scheme", "visa", "--as-of", "2024-08-13"}, 0, "visa: cardholderName: required"},
		{"invalid", strings.Replace(explainable, "5411", "54112", 1), nil, 1, "mcc: 203 length: Send exactly 4 characters."},
		{"no JSON", "nothing", nil, 2, "no body of an /auth"},
		{"another message", `{"messageType":"ARes","messageVersion":"2.2.0"}`, nil, 2, "ARes"},
		{"no scheme", explainable, []string{"--scheme", "viza"}, 2, `no scheme "viza"`},
		{"no date", explainable, []string{"--as-of", "soon"}, 2, "--as-of"},
	} {
		status, _, said := explain(test.body, test.flags...)
		if status != test.status || !strings.Contains(said, test.want) {
			t.Errorf("%s: status %d, %s", test.name, status, said)
		}
		if strings.Contains(said, "threeDSRequestorID") {
			t.Errorf("%s: a placeholder is held against a rule: %s", test.name, said)
		}
	}
	status, out, _ := explain(explainable, "--json", "--scheme", "visa")
	var got struct {
		Verdict   string
		Scheme    string
		WouldSend map[string]any
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 || got.Verdict != "valid" ||
		got.Scheme != "visa" {
		t.Fatalf("%v, status %d, %s", err, status, out)
	}
	if value, ok := got.WouldSend["threeDSServerURL"]; !ok || value != nil ||
		got.WouldSend["merchantCountryCode"] != "208" {
		t.Errorf("%v", got.WouldSend)
	}
}
