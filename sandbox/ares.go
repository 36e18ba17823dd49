package sandbox

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/base/uuid"
	"github.com/openthreeds/threeds/sandbox/internal/page"
	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// writeARes writes the answer to the AReq in the shape of its version.
func (t *transaction) writeARes() {
	switch t.deed.Kind {
	case "challenge":
		t.ares = "C"
	case "decoupled":
		t.ares = "D"
	default:
		t.ares = t.deed.Status
	}
	o := new(object).
		Put("messageType", "ARes").
		Put("messageVersion", t.version).
		Put("threeDSServerTransID", t.ids.server).
		Put("dsTransID", t.ids.ds).
		Put("dsReferenceNumber", t.dir.scheme.RefNumber()).
		Put("acsTransID", t.ids.acs).
		Put("acsReferenceNumber", acsRefNumber).
		Put("acsOperatorID", t.dir.scheme.OperatorID()).
		Put("transStatus", t.ares).
		Put("transStatusReason", t.deed.Reason).
		Put("eci", cmp.Or(t.deed.ECI, t.dir.scheme.IndicatorsOf(t.areq.text("acctNumber")).ECI(t.ares, t.payment)))
	if t.ares == "Y" || t.ares == "A" || t.deed.HasValue {
		o.Put("authenticationValue", newValue())
	}
	if t.ares == "S" {
		t.putConfirmation(o)
	}
	if t.ares == "C" || t.ares == "D" {
		o.Put("acsChallengeMandated", "Y")
		t.putMethod(o)
	}
	if t.ares == "D" {
		o.Put("acsDecConInd", "Y")
	}
	t.putInfo(o)
	if t.channel == app {
		t.putApp(o)
	} else if t.ares == "C" {
		o.Put("acsURL", t.box.acs.url+challengePath)
	}
	extensions := t.bridging(t.ares)
	if !t.box.Nice {
		extensions = append(extensions, t.extension())
	}
	if extensions != nil {
		o.Put("messageExtension", extensions)
	}
	if !t.box.Nice {
		o.Put("sandboxRemark", peer.UnknownMember()).PutUnknownNull()
	}
	t.aresRaw = o.Bytes()
}

// answer is the ARes, or what comes in its place; nothing comes after that.
func (t *transaction) answer() answer {
	f, m := t.fault, readMessage(t.aresRaw)
	if f.Message != "ARes" || f.Kind == "late" || f.Kind == "without" && !m.has(f.Element) {
		return answer{kind: "ARes", body: t.aresRaw, txn: t, late: f.Is("ARes", "late")}
	}
	t.phase = ended
	a := answer{kind: "ARes"}
	switch f.Kind {
	case "silence":
		a.silent = true
	case "status":
		a.status, _ = strconv.Atoi(f.Code)
	case "garbage":
		a.page, a.body = "text/html; charset=utf-8", []byte("<!DOCTYPE html><html><body><h1>Maintenance</h1></body></html>")
	case "cut":
		a.body = t.aresRaw[:len(t.aresRaw)/2]
	case "twice":
		a.body = slices.Concat([]byte(`{"transStatus":"Y",`), t.aresRaw[1:])
	case "critical":
		m["messageExtension"] = peer.Encode([]received{{
			"name": peer.Encode("sandboxDuty"), "id": peer.Encode(t.dir.scheme.RID + "-duty"),
			"criticalityIndicator": peer.Encode(true), "data": peer.Encode(received{}),
		}})
	case "other":
		m[f.Element] = peer.Encode(t.otherValue(f.Element))
	case "without":
		delete(m, f.Element)
	}
	if a.body == nil {
		a.body = peer.Encode(m)
	}
	return a
}

// otherValue is a value of a member that is good and not that of the transaction.
func (t *transaction) otherValue(member string) string {
	if member != "messageVersion" {
		return uuid.New()
	}
	if t.version == v220 {
		return v210
	}
	return v220
}

// putInfo adds what the shop is to show the cardholder: a text, in 2.3.1 in an
// object.
func (t *transaction) putInfo(o *object) {
	text := t.deed.Info
	if t.ares == "D" {
		text = "Please confirm this payment in your banking app."
	}
	switch {
	case text == "":
	case t.version == v231:
		info := new(object).Put("text", text)
		if !t.box.Nice {
			info.PutUnknownNull()
		}
		o.Put("cardholderInfo", info)
	default:
		o.Put("cardholderInfo", text)
	}
}

// bridging returns the Bridging extension of an answer with this transStatus, in the version of the AReq's extension.
// It returns none if the AReq of 2.2.0 has none.
func (t *transaction) bridging(status string) []json.RawMessage {
	version := bridgingVersion(t.areq)
	if t.version != v220 || version == "" {
		return nil
	}
	added := new(object)
	switch {
	case t.ares == "D":
		added.Put("authenticationMethod", []string{"12"})
	case t.ares == "C":
		added.Put("authenticationMethod", []string{"02"})
	case status == "Y":
		added.Put("transChallengeExemption", "05")
	default:
		return nil
	}
	return []json.RawMessage{new(object).
		Put("name", "Bridging").
		Put("id", bridgingID).
		Put("criticalityIndicator", false).
		Put("data", new(object).Put("version", version).Put("addData", added)).
		Bytes()}
}

// extension is a message extension that is not critical, so that no reader has to understand it.
func (t *transaction) extension() json.RawMessage {
	return new(object).
		Put("name", "sandboxScore").
		Put("id", t.dir.scheme.RID+"-sandbox").
		Put("criticalityIndicator", false).
		Put("data", json.RawMessage(`{"score":{"value":0.50,"scale":1e2},"none":null}`)).
		Bytes()
}

// putApp adds what an app's SDK needs.
func (t *transaction) putApp(o *object) {
	o.Put("sdkTransID", t.ids.sdk)
	if t.ares == "C" {
		t.render = rendering(t.areq.object("deviceRenderOptions"), t.version, t.deed.How == "outside")
		o.Put("acsRenderingType", t.render)
		o.Put("acsSignedContent", t.openChannel())
	}
	if t.version == v231 {
		goesBack := "N"
		if t.ares == "C" && t.isOutside() {
			goesBack = "Y"
		}
		o.Put("threeDSRequestorAppURLInd", goesBack).Put("deviceInfoRecognisedVersion", "1.6")
	}
}

// rendering chooses, among what the device can show, how the challenge looks: one that is confirmed outside the page
// as such, any other as the device names it first.
func rendering(options received, version string, outside bool) *object {
	face := options.text("sdkInterface")
	if face == "03" || face == "" {
		face = "01"
	}
	allowed := []string{"01", "02", "03", "04"}
	if face == "02" {
		allowed = []string{"01", "02", "03", "04", "05"}
		if version == v231 {
			allowed = append(allowed, htmlOutside)
		}
	}
	shown := slices.DeleteFunc(options.list("sdkUiType"), func(can string) bool { return !slices.Contains(allowed, can) })
	template := allowed[0]
	if len(shown) > 0 {
		template = shown[0]
	}
	if at := slices.IndexFunc(shown, isOutOfBand); outside && at >= 0 {
		template = shown[at]
	}
	o := new(object).Put("acsInterface", face).Put("acsUiTemplate", template)
	if version == v231 {
		o.Put("deviceUserInterfaceMode", "01")
	}
	return o
}

// wantsConfirmation says whether an AReq can be answered with S: it offers Secure Payment
// Confirmation, and is not the second one, which says what became of it. Only 2.3.1 has
// that, and only browsers.
func wantsConfirmation(m received) bool {
	if m.text("messageVersion") != v231 || m.text("deviceChannel") != browser {
		return false // the member means nothing in other versions and channels
	}
	if m.text("threeDSRequestorSpcSupport") != "Y" || m.text("purchaseAmount") == "" || m.has("spcIncompInd") {
		return false
	}
	isConfirmed := func(how received) bool { return how.text("threeDSReqAuthMethod") == assertion }
	return !slices.ContainsFunc(m.objects("threeDSRequestorAuthenticationInfo"), isConfirmed)
}

// assertion is the threeDSReqAuthMethod of what a browser returned.
const assertion = "09"

// putConfirmation adds what the browser's own dialog needs. Without a credential of the card it makes up one: no
// browser knows it, and the second AReq has spcIncompInd 01.
func (t *transaction) putConfirmation(o *object) {
	id := random(24)
	if c := t.box.findCredential(t.areq.text("acctNumber")); c != nil {
		id = c.id
	}
	t.confirmation = random(32)
	price, currency, _ := strings.Cut(
		page.Amount(t.areq.text("purchaseAmount"), t.areq.text("purchaseExponent"), t.areq.text("purchaseCurrency")), " ")
	o.Put("webAuthnCredList", []json.RawMessage{
		new(object).Put("rpID", t.box.relyingParty()).Put("credentialIds", []string{id}).Bytes(),
	})
	o.Put("spcTransData", new(object).
		Put("challenge", t.confirmation).
		Put("payeeOrigin", t.areq.text("payeeOrigin")).
		Put("currency", currency).
		Put("value", strings.ReplaceAll(price, ",", "")).
		Put("displayName", t.dir.scheme.Name+" "+last4(t.areq.text("acctNumber"))).
		Put("icon", "data:image/svg+xml;base64,"+cardPicture).
		Put("timeout", "60000"))
}

// relyingParty is the domain of the issuers' pages. Browsers take no address of the network:
// localhost stands for those of this machine.
func (s *Sandbox) relyingParty() string {
	acs, _ := url.Parse(s.acs.url)
	if IsLocalHost(acs.Host) {
		return "localhost"
	}
	return acs.Hostname()
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
