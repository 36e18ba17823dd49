package message_test

import (
	"slices"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// TestCheckSentReportsWhatHasNoMeaning: an element whose condition is true may be sent; the same element is reported
// where its condition is false. Characters that no text may have are reported, too.
func TestCheckSentReportsWhatHasNoMeaning(t *testing.T) {
	const head = `{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"02","messageCategory":"01",`
	for text, want := range map[string][]string{
		head + `"payTokenInd":true,"payTokenSource":"01"}`:                                      nil,
		head + `"payTokenSource":"01"}`:                                                         {"payTokenSource"},
		head + `"threeDSRequestorAuthenticationInd":"03","purchaseInstalData":"003"}`:           nil,
		head + `"threeDSRequestorAuthenticationInd":"01","purchaseInstalData":"003"}`:           {"purchaseInstalData"},
		head + `"merchantName":"Shop\u0007"}`:                                                   {"merchantName"},
		`{"messageType":"ARes","messageVersion":"2.2.0","whiteListStatusSource":"01"}`:          nil, // a directory server sends it
		head + `"whiteListStatus":"Y","whiteListStatusSource":"01","purchaseInstalData":"003"}`: {"purchaseInstalData"},
	} {
		m, err := message.Parse([]byte(text), message.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var got []string
		for _, p := range m.CheckSent() {
			got = append(got, string(p.Path))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: reports %q, want %q", text, got, want)
		}
	}
}

// TestCheckObjectWantsAnObject: what is not there, and what is no object, is one problem with its path.
func TestCheckObjectWantsAnObject(t *testing.T) {
	table := message.TableOf(message.AReq, message.V220).Field("acctInfo").Of
	for text, isGood := range map[string]bool{
		`{"acctInfo":{}}`: true, `{"acctInfo":"text"}`: false, `{"acctInfo":[{}]}`: false, `{}`: false,
	} {
		m, err := message.Parse([]byte(text), message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		problems := m.CheckObject("acctInfo", table)
		if isGood != (len(problems) == 0) || !isGood && (problems[0].Path != "acctInfo" || problems[0].Code != message.Format) {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
