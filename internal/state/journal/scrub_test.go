package journal_test

import (
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestJ6ScrubTakesOutWhatTextsQuote: card numbers, authentication values and addresses of e-mail, in any form, and
// nothing of what helps somebody who reads an error.
func TestJ6ScrubTakesOutWhatTextsQuote(t *testing.T) {
	t.Parallel()
	isKnown := func(word string) bool { return word == "threeDSRequestorAuthenticationInfo" }
	for text, want := range map[string]string{
		"purchaseDate,acctInfo.chAccAgeInd":                "purchaseDate,acctInfo.chAccAgeInd",
		"threeDSRequestorAuthenticationInfo is missing":    "threeDSRequestorAuthenticationInfo is missing",
		"no 8a880dc0-d2d2-4067-bcb1-b08d1690b26e":          "no 8a880dc0-d2d2-4067-bcb1-b08d1690b26e",
		"20 seconds, 2.2.0, 12:30":                         "20 seconds, 2.2.0, 12:30",
		"bad card 4000000000000002.":                       "bad card ***.",
		"4000 0000 0000 0002, 4-0-0-0-0-0-0-0-0-0-0-0-0-2": "***, ***",
		"4000\u00a00000\u00a00000\u00a00002":               "***",
		"%34%30%30%30%30%30":                               "***",
		"&#52;&#48;&#48;&#48;&#48;":                        "***",
		"NDAwMDAwMDAwMDAwMDAwMg==":                         "***",
		"34303030303030303030303030303032":                 "***",
		"value AAABBCJZUwAAAAAAUFlTAAAAAAA= refused":       "value *** refused",
		"ann@shop.example is wrong":                        "*** is wrong",
	} {
		if got := journal.ScrubText(text, isKnown); got != want {
			t.Errorf("ScrubText(%q) = %q, want %q", text, got, want)
		}
	}
	for masked, want := range map[string]string{
		`{"errorDetail":"\u0034000000000000002","errorCode":"305"}`:                  `{"errorDetail":"***","errorCode":"305"}`,
		`{"acsURL":"https://a.example/4000000000000002","transStatus":"C"}`:          `{"acsURL":"https://a.example/***","transStatus":"C"}`,
		`{"messageExtension":[{"name":"4000000000000002","id":"A1"}],"challenge":1}`: `{"messageExtension":[{"name":"***","id":"A1"}],"challenge":1}`,
		`{"acsTransID":"12345678-1234-1234-1234-123456789012","eci":null}`:           `{"acsTransID":"12345678-1234-1234-1234-123456789012","eci":null}`,
		`{"errorDetail":"4000000000000002`:                                           `null`,
	} {
		if got := string(journal.ScrubMessage([]byte(masked), isKnown)); got != want {
			t.Errorf("ScrubMessage(%s) = %s, want %s", masked, got, want)
		}
	}
}
