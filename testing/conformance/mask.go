package conformance

import (
	"regexp"
	"strings"
)

// masked are the members whose values no report may show.
var masked = regexp.MustCompile(`(?i)("(?:authenticationValue|cardholderName|email|deliveryEmailAddress|subscriber|` +
	`(?:bill|ship)Addr(?:Line[123]|City|PostCode)|browserIP|appIp|cardExpiryDate|cardSecurityCode|tokenCryptogram|taxId|` +
	`sdkEncData|threeDSReqAuthData|threeDSReqPriorAuthData|shipNameIndicator|userId|deviceId)"\s*:\s*)` +
	`("(?:[^"\\]|\\.)*"|[^,}\]"{\[]+)`)

// maxNoted is how many bytes of a message are kept.
const maxNoted = 4096

// digits are runs that may be card numbers.
var digits = regexp.MustCompile(`[0-9]{13,}`)

// mask hides the cardholder's data in a message, be it JSON or not, and cuts a long
// message.
func mask(data []byte) string {
	data = data[:min(len(data), 4*maxNoted)]
	s := masked.ReplaceAllString(string(data), `$1"***"`)
	s = digits.ReplaceAllStringFunc(s, func(n string) string { return n[:6] + strings.Repeat("*", len(n)-10) + n[len(n)-4:] })
	if len(s) > maxNoted {
		s = s[:maxNoted] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
