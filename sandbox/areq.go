package sandbox

import (
	"net/url"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/base/uuid"
	"github.com/openthreeds/threeds/sandbox/internal/cards"
)

// authenticate judges an AReq that is well-formed by what a directory server
// knows besides the field tables, then lets the issuer decide by the card.
func (d *directory) authenticate(body []byte, m received) answer {
	if e, bad := d.wrongPlan(m); bad {
		return d.refuse(m, e)
	}
	if e, bad := wrongText(body, m.text("messageVersion")); bad {
		return d.refuse(m, e)
	}
	if e, bad := d.wrongCodes(m); bad {
		return d.refuse(m, e)
	}
	pan := m.text("acctNumber")
	version, channel := m.text("messageVersion"), m.text("deviceChannel")
	found := d.box.table.Find(pan)
	doing, known := found.Outcome(pan, channel == threeRI)
	if found.HasOutcome(channel == threeRI) && !slices.Contains(found.Versions, version) {
		return d.refuse(m, erro{code: "102", detail: strings.Join(found.Versions, ",")})
	}
	if e, bad := d.wrongCompInd(m); bad {
		return d.refuse(m, e)
	}
	if known {
		doing = d.threeRIAnswer(d.dataOnlyAnswer(doing, m), m)
	}
	if !known || !possible(doing, m) {
		return d.refuse(m, erro{code: "305", description: "No valid test input found", detail: "No valid test input found"})
	}
	wrong := d.box.merchants.Find(m.text("acquirerMerchantID"))
	if wrong.Is("ARes", "erro") {
		return d.refuse(m, erro{code: wrong.Code, description: wrong.Text, detail: wrong.Text})
	}
	if wrong.Is("result", "reason") && doing.Reason != "" {
		doing.Reason = wrong.Code
	}
	if wrong.Is("browser", "confirms") && wantsConfirmation(m) {
		doing = cards.Outcome{Kind: "answer", Status: "S"}
	}
	if d.box.refutes(m) {
		doing = cards.Outcome{Kind: "answer", Status: "N", Reason: "01"}
	}
	t := &transaction{
		box: d.box, dir: d, deed: doing, fault: wrong, areq: m, areqRaw: body,
		version: version, channel: channel, payment: m.text("messageCategory") == "01",
		ids: ids{server: m.text("threeDSServerTransID"), ds: uuid.New(), acs: uuid.New(), sdk: m.text("sdkTransID")},
	}
	t.writeARes()
	t.start()
	if !d.box.journal.open(t) {
		return d.refuse(m, twice(version))
	}
	if doing.Kind == "silence" {
		return answer{silent: true}
	}
	return t.answer()
}

// wrongPlan finds what the field tables do not.
func (d *directory) wrongPlan(m received) (erro, bool) {
	if !d.scheme.Holds(m.text("acctNumber")) {
		return erro{code: "305", detail: "acctNumber: not a card of this directory server"}, true
	}
	u, err := url.Parse(m.text("threeDSServerURL"))
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return erro{code: "203", detail: "threeDSServerURL"}, true
	}
	// A directory server fills these in for the issuer.
	for _, name := range []string{"dsReferenceNumber", "dsTransID", "dsURL", "deviceInfo"} {
		if m.has(name) {
			return erro{code: "203", detail: name}, true
		}
	}
	// These stand in lists of the directory server or the acquirer, as they are.
	for _, name := range []string{"acquirerBIN", "acquirerMerchantID", "threeDSRequestorID", "threeDSServerOperatorID"} {
		if text := m.text(name); strings.TrimSpace(text) != text {
			return erro{code: "203", detail: name}, true
		}
	}
	return erro{}, false
}

// twice is the error for an AReq whose id was seen before.
func twice(version string) erro {
	if version == v231 {
		return erro{code: "312", detail: "threeDSServerTransID"}
	}
	return erro{code: "301", detail: "threeDSServerTransID: used before"}
}

// possible says whether the AReq lets the issuer do what the card does.
func possible(doing cards.Outcome, m received) bool {
	version := m.text("messageVersion")
	if m.text("deviceChannel") == threeRI && (doing.Kind == "challenge" || doing.Status == "I") {
		return false
	}
	asked := m.text("threeDSRequestorDecReqInd")
	switch {
	case doing.Status == "I":
		return version != v210
	case doing.Kind == "decoupled":
		return version != v210 && (asked == "Y" || asked == "B" && version == v231)
	case doing.How == "decoupled" && !(version == v231 && (asked == "F" || asked == "B")):
		return false
	case doing.Kind == "challenge":
		// 06 asks for anything but a challenge.
		return version == v210 || !slices.Contains(m.list("threeDSRequestorChallengeInd"), "06")
	}
	return true
}
