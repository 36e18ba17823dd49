package acp

import (
	"errors"
	"strings"
	"testing"
)

// goodRequest is a request that is read.
const goodRequest = `{"merchant_id":"shop-1","payment_method":{"type":"card","number":"4000012345678010","exp_month":"12",
"exp_year":"2030","name":"Ann Example"},"amount":{"value":1250,"currency":"EUR"},"channel":{"type":"browser","browser":{
"accept_header":"*/*","ip_address":"192.0.2.1","javascript_enabled":true,"language":"en","user_agent":"Test/1",
"color_depth":24,"java_enabled":false,"screen_height":800,"screen_width":600,"timezone_offset":-60}},
"flow_preference":{"type":"challenge"},"shopper_details":{"phone_number":"15551234567"}}`

// TestD55MembersOfTheAReq: what a request says goes into the AReq in the protocol's form.
func TestD55MembersOfTheAReq(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{``, ``, `"purchaseAmount":"1250"`},
		{``, ``, `"purchaseCurrency":"978"`},
		{``, ``, `"cardExpiryDate":"3012"`},
		{``, ``, `"reference":"shop-1"`},
		{``, ``, `"browserTZ":"-60"`},
		{``, ``, `"browserJavaEnabled":false`},
		{``, ``, `"threeDSRequestorChallengeInd":"03"`},
		{`{"type":"challenge"}`, `{"type":"challenge","challenge":{"type":"preferred"}}`, `"threeDSRequestorChallengeInd":"03"`},
		{`{"type":"challenge"}`, `{"type":"challenge","challenge":{"type":"mandated"}}`, `"threeDSRequestorChallengeInd":"04"`},
		{`{"type":"challenge"}`, `{"type":"frictionless","frictionless":{}}`, `"threeDSRequestorChallengeInd":"02"`},
		{``, ``, `"mobilePhone":{"cc":"1","subscriber":"5551234567"}`},
		{`15551234567`, `+45 12 34 56 78`, `"mobilePhone":{"cc":"45","subscriber":"12345678"}`},
		{`15551234567`, `35312345678`, `"mobilePhone":{"cc":"353","subscriber":"12345678"}`},
	} {
		_, members, err := ReadCreate([]byte(strings.Replace(goodRequest, tt.old, tt.new, 1)))
		if err != nil || !strings.Contains(string(members), tt.want) {
			t.Errorf("%s: %v %s, want %s", tt.new, err, members, tt.want)
		}
	}
	for _, tt := range []struct{ old, new, not string }{
		{`15551234567`, `0301234567`, "mobilePhone"},
		{`15551234567`, `2105551234`, "mobilePhone"},
		{`15551234567`, `none`, "mobilePhone"},
		{`"merchant_id":"shop-1"`, `"merchant_id":"` + strings.Repeat("x", 65) + `"`, "reference"},
	} {
		_, members, err := ReadCreate([]byte(strings.Replace(goodRequest, tt.old, tt.new, 1)))
		if err != nil || strings.Contains(string(members), tt.not) {
			t.Errorf("%s: %v %s has %s", tt.new, err, members, tt.not)
		}
	}
}

// TestD55CountryCodesAreAPrefixCode: the longest code is the only one that fits.
func TestD55CountryCodesAreAPrefixCode(t *testing.T) {
	for i, a := range countryCodes {
		for j, b := range countryCodes {
			if i != j && strings.HasPrefix(b, a) {
				t.Errorf("%s is the beginning of %s", a, b)
			}
		}
	}
	if len(countryCodes) < 200 {
		t.Errorf("%d codes are fewer than there are", len(countryCodes))
	}
}

// TestD55AllFaultsAreNamed: a request with several faults is told all of them, each once. The param is the first.
func TestD55AllFaultsAreNamed(t *testing.T) {
	const body = `{"merchant_id":"shop-1","colour":"red","payment_method":{"type":"bank","number":"4000012345678010","exp_month":"13",
		"exp_year":"30"},"amount":{"value":0,"currency":"ABC"},"shopper_details":{"address":{"country":"XX"}}}`
	_, _, err := ReadCreate([]byte(body))
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Param != "$.colour" {
		t.Fatalf("%+v, %v", e, err)
	}
	for _, want := range []string{
		"$.colour", "$.payment_method.type must", "$.payment_method.name is missing", "$.payment_method.exp_month must", "$.payment_method.exp_year must",
		"$.amount.value must", "$.amount.currency is no", "$.shopper_details.address.country is no", "$.shopper_details.address.line_one is missing",
	} {
		if strings.Count(e.Message, want) != 1 {
			t.Errorf("%q has %q %d times, want once", e.Message, want, strings.Count(e.Message, want))
		}
	}
	_, _, err = ReadCreate([]byte(`{"merchant_id":"shop-1"}`))
	if e, ok := errors.AsType[*Error](err); !ok || e.Message != "$.payment_method is missing; $.amount is missing" {
		t.Errorf("%+v", e)
	}
}
