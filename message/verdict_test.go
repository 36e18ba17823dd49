package message

import (
	"slices"
	"strings"
	"testing"
)

// A blank text counts as missing where the element is required. Elsewhere it is a valid text
// (VG-09, VG-37).
func TestBlankTextIsMissingOnlyIfRequired(t *testing.T) {
	const ids = `"threeDSServerTransID":"11111111-1111-4111-8111-111111111111","acsTransID":"22222222-2222-4222-8222-222222222222",` +
		`"dsTransID":"33333333-3333-4333-8333-333333333333","acsReferenceNumber":"A","dsReferenceNumber":"D"`
	browser := mustParse(t, `{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"02","messageCategory":"01","threeDSRequestorDecReqInd":"Y"}`)
	newer := mustParse(t, `{"messageType":"AReq","messageVersion":"2.3.1","deviceChannel":"02","messageCategory":"02"}`)
	for _, tt := range []struct {
		text string
		areq *Message
		want string
	}{
		{`"messageVersion":"2.2.0","transStatus":"N","transStatusReason":"01","cardholderInfo":" "`, browser, ""},
		{`"messageVersion":"2.2.0","transStatus":"N","transStatusReason":"01","cardholderInfo":" \t\n"`, browser, ""},
		{`"messageVersion":"2.2.0","transStatus":"N","transStatusReason":"01","cardholderInfo":""`, browser, "203 cardholderInfo"},
		{`"messageVersion":"2.2.0","transStatus":"N","transStatusReason":"01","cardholderInfo":"` + strings.Repeat(" ", 128) + `"`, browser, ""},
		{`"messageVersion":"2.2.0","transStatus":"N","transStatusReason":"01","cardholderInfo":"` + strings.Repeat(" ", 129) + `"`, browser, "203 cardholderInfo"},
		{
			`"messageVersion":"2.2.0","transStatus":"D","acsDecConInd":"Y","acsChallengeMandated":"Y","authenticationType":"04","cardholderInfo":" "`,
			browser, "201 cardholderInfo"},
		{`"messageVersion":"2.2.0","transStatus":"N","transStatusReason":"01","acsOperatorID":"   ","eci":"  "`, browser, "203 eci"},
		{`"messageVersion":"2.2.0","transStatus":"N","transStatusReason":"  "`, browser, "201 transStatusReason"},
		{`"messageVersion":"2.2.0","transStatus":"N","transStatusReason":"01","acsURL":" ","authenticationValue":" "`, browser, "203 acsURL 203 authenticationValue"},
		{`"messageVersion":"2.3.1","transStatusReason":"  ","transStatusReasonInfo":" "`, newer, "203 transStatusReason"},
		{`"messageVersion":"2.3.1","cardholderInfo":{"text":" "}`, newer, "201 cardholderInfo.text"},
		{`"messageVersion":"2.3.1","messageExtension":[{"id":" ","name":" ","criticalityIndicator":false,"data":{"a":"b"}}]`, newer,
			"201 messageExtension.id 201 messageExtension.name"},
	} {
		got := describeProblems(mustParse(t, `{"messageType":"ARes",`+ids+`,`+tt.text+`}`).Check(Context{AReq: tt.areq}))
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

// The members of an object that is too long are checked too, because all faults are reported
// at once (R12).
func TestFaultsInsideATooLongObjectAreReported(t *testing.T) {
	broad := func(n int, rest string) string {
		return `{"category":"01","source":"01","recipients":["01"],"description":"` + strings.Repeat("x", n) + `"` + rest + `}`
	}
	around := len(broad(0, ""))
	for _, tt := range []struct{ broadInfo, want string }{
		{broad(100, `,"severity":"01"`), ""},
		{broad(100, ""), "201 broadInfo.severity"},
		{broad(4096-around, ""), "201 broadInfo.severity 203 broadInfo.description"},
		{broad(4097-around, ""), "201 broadInfo.severity 203 broadInfo 203 broadInfo.description"},
		{broad(4000, `,"severity":"01","expDate":"x","later":"`+strings.Repeat("x", 100)+`"`), "203 broadInfo 203 broadInfo.expDate"},
	} {
		got := describeProblems(mustParse(t, `{"messageType":"ARes","messageVersion":"2.3.1","threeDSServerTransID":"11111111-1111-4111-8111-111111111111",`+
			`"acsTransID":"22222222-2222-4222-8222-222222222222","dsTransID":"33333333-3333-4333-8333-333333333333",`+
			`"acsReferenceNumber":"A","dsReferenceNumber":"D","broadInfo":`+tt.broadInfo+`}`).
			Check(Context{AReq: mustParse(t, `{"messageType":"AReq","messageVersion":"2.3.1","deviceChannel":"02","messageCategory":"02"}`)}))
		if got != tt.want {
			t.Errorf("%d characters: got %q, want %q", len(tt.broadInfo), got, tt.want)
		}
	}
}

// inWords is p as text, sorted.
func describeProblems(p Problems) string {
	var list []string
	for _, q := range p {
		list = append(list, q.String())
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}
