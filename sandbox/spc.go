package sandbox

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
)

// confirmable says whether an AReq can be answered with S: it offers Secure Payment
// Confirmation, and is not the second one, which says what became of it. Only 2.3.1 has
// that, and only browsers.
func confirmable(m received) bool {
	if m.text("messageVersion") != v231 || m.text("deviceChannel") != browser {
		return false // what else has the member has it for nothing
	}
	if m.text("threeDSRequestorSpcSupport") != "Y" || m.text("purchaseAmount") == "" || m.has("spcIncompInd") {
		return false
	}
	var how []received
	_ = json.Unmarshal(m["threeDSRequestorAuthenticationInfo"], &how) // its form has been judged
	for _, one := range how {
		if one.text("threeDSReqAuthMethod") == assertion {
			return false
		}
	}
	return true
}

// assertion is the threeDSReqAuthMethod of what a browser returned.
const assertion = "09"

// putConfirmation adds what the browser's own dialog needs. The credential is nobody's:
// a real browser says that it knows none, which the second AReq has as spcIncompInd 01.
func (t *transaction) putConfirmation(o *object) {
	acs, _ := url.Parse(t.box.acs.url)
	price, currency, _ := strings.Cut(amount(t.areq.text("purchaseAmount"), t.areq.text("purchaseExponent"), t.areq.text("purchaseCurrency")), " ")
	o.put("webAuthnCredList", []json.RawMessage{
		new(object).put("rpID", acs.Hostname()).put("credentialIds", []string{random(24)}).bytes(),
	})
	o.put("spcTransData", new(object).
		put("challenge", random(32)).
		put("payeeOrigin", t.areq.text("payeeOrigin")).
		put("currency", currency).
		put("value", strings.ReplaceAll(price, ",", "")).
		put("displayName", t.dir.scheme.name+" "+last4(t.areq.text("acctNumber"))).
		put("icon", "data:image/svg+xml;base64,"+cardPicture).
		put("timeout", "60000"))
}

// cardPicture is a card, as SVG in base64.
var cardPicture = base64.StdEncoding.EncodeToString([]byte(
	`<svg xmlns="http://www.w3.org/2000/svg" width="32" height="20"><rect width="32" height="20" rx="3" fill="#0b5f5a"/></svg>`))

// random is so many bytes in base64url.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // crypto/rand does not fail
	return base64.RawURLEncoding.EncodeToString(b)
}
