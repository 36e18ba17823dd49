package sandbox

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/openthreeds/threeds/sandbox/internal/cards"
)

// dataOnlyAnswer is what the scheme makes of an AReq that only shares data: of Mastercard's category 80 an
// answer of the directory server, whatever the card; of Visa's challenge indicators 06 and 82 what the issuer
// says, without a shift of liability. The scheme's ECI for it is with the outcome.
//
// Sources: Cybersource's test cases 5a and 5b of Identity Check Insights; the public test cases of Visa Data Only.
func (d *directory) dataOnlyAnswer(doing cards.Outcome, m received) cards.Outcome {
	indicators := m.list("threeDSRequestorChallengeInd")
	version := m.text("messageVersion")
	switch {
	case slices.Contains(d.scheme.DataCategories, m.text("messageCategory")):
		return cards.Outcome{Kind: "answer", Status: "U", Reason: "80", ECI: "04", HasValue: true}
	case m.text("deviceChannel") == threeRI, doing.Kind != "answer", !d.scheme.IsDataShare(version, indicators):
		return doing
	}
	doing.ECI = "07"
	if doing.Status == "Y" || doing.Status == "A" {
		doing.Status, doing.HasValue = "I", true
		if version == v210 { // which has no I
			doing.Status, doing.Reason = "N", "89"
		}
	}
	return doing
}

// wrongCodes finds a value that the protocol leaves to the directory servers, 80 to 99, and to which this one gives
// no meaning. Since 2.3.1 that has a code of its own.
func (d *directory) wrongCodes(m received) (erro, bool) {
	for _, name := range codedElements {
		for _, code := range m.list(name) {
			if len(code) == 2 && code >= "80" && code <= "99" && !slices.Contains(d.scheme.Codes[name], code) {
				if m.text("messageVersion") == v231 {
					return erro{code: "207", detail: name}, true
				}
				return erro{code: "203", detail: name}, true
			}
		}
	}
	return erro{}, false
}

// codedElements are the elements of an AReq with values that directory servers define.
var codedElements = []string{
	"messageCategory", "threeDSRequestorChallengeInd", "threeDSRequestorAuthenticationInd", "threeRIInd",
}

// wrongText finds text with control characters, and in 2.3.1 with what turns the direction of text or ends a line.
// The data of message extensions has rules of its own.
func wrongText(body []byte, version string) (erro, bool) {
	if !slices.ContainsFunc(body, func(c byte) bool { return c == '\\' || c >= 0x7f }) {
		return erro{}, false
	}
	var m any
	_ = json.Unmarshal(body, &m) // it was parsed before
	names := wrongTexts(nil, "", m, version)
	if len(names) == 0 {
		return erro{}, false
	}
	slices.Sort(names)
	return erro{code: "203", detail: strings.Join(slices.Compact(names), ",")}, true
}

// wrongTexts adds the paths of wrong text in a value to names. Entries of an array have the path of the array.
func wrongTexts(names []string, path string, value any, version string) []string {
	switch v := value.(type) {
	case string:
		if strings.ContainsFunc(v, func(c rune) bool { return isUnprintable(c, version) }) {
			names = append(names, path)
		}
	case []any:
		for _, entry := range v {
			names = wrongTexts(names, path, entry, version)
		}
	case map[string]any:
		for name, member := range v {
			if path != "messageExtension" || name != "data" {
				names = wrongTexts(names, strings.TrimPrefix(path+"."+name, "."), member, version)
			}
		}
	}
	return names
}

// isUnprintable says whether a character has no place in text of a version.
func isUnprintable(c rune, version string) bool {
	isDirection := c >= 0x202a && c <= 0x202e || c >= 0x2066 && c <= 0x2069
	isLineEnd := c == 0x2028 || c == 0x2029
	return unicode.IsControl(c) || version == v231 && (isDirection || isLineEnd)
}

// wrongCompInd refuses a threeDSCompInd that does not tell the truth: always a U after the 3DS Method has completed,
// and where the sandbox is strict also a Y without that. An N is never refused: the server may have waited in vain for
// a notification that came too late, or not at all, and no directory server can know that.
func (d *directory) wrongCompInd(m received) (erro, bool) {
	e := erro{code: "305", description: "Invalid ThreeDSCompInd"}
	isDone := d.isMethodDone(m)
	switch {
	case m.text("deviceChannel") != browser:
		return erro{}, false
	case m.text("threeDSCompInd") == "N":
		return erro{}, false
	case m.text("threeDSCompInd") != "Y":
		e.detail = `The threeDSCompInd must be "Y" when successful`
		return e, isDone
	}
	e.detail = `The threeDSCompInd must be "N" or "U" when the 3DS Method has not completed`
	return e, !isDone && d.box.isStrictFor(m.text("notificationURL"))
}

// isMethodDone says whether the 3DS Method has completed for an AReq. In 2.3.1 an earlier run counts, too, if the
// AReq names it.
func (d *directory) isMethodDone(m received) bool {
	return d.box.journal.methodDone(m.text("threeDSServerTransID")) ||
		m.text("messageVersion") == v231 && d.box.journal.methodDone(m.text("threeDSMethodId"))
}

// isStrictFor says whether AReqs of a requestor with this notificationURL are held to the truth.
func (s *Sandbox) isStrictFor(notificationURL string) bool {
	return s.Strict || s.IsStrictFor != nil && s.IsStrictFor(notificationURL)
}

// noteStatements says which threeDSCompInd is not true, "" if it is. It logs a Y, with which issuers
// that look at it may not authenticate.
func (d *directory) noteStatements(m received) string {
	if m.text("messageType") != "AReq" || m.text("deviceChannel") != browser {
		return ""
	}
	method := d.box.table.Find(m.text("acctNumber")).Method
	switch isDone := d.isMethodDone(m); {
	case m.text("threeDSCompInd") == "Y" && !isDone:
		const untrue = "threeDSCompInd is Y, and the 3DS Method has not come to its end"
		return d.box.warnOf(m.text("threeDSServerTransID"), untrue)
	case m.text("threeDSCompInd") == "N" && isDone:
		return "threeDSCompInd is N, and the page of the 3DS Method was served: its notification came late, or not at all"
	case m.text("threeDSCompInd") == "U" && (method == "answers" || method == "silent"):
		return "threeDSCompInd is U, and the card has a 3DS Method"
	case m.text("threeDSCompInd") == "N" && method == "none":
		return "threeDSCompInd is N, and the card has no 3DS Method"
	}
	return ""
}

// The threeRIInd of payments, as far as schemes treat them in ways of their own.
const (
	recurringPayment  = "01"
	instalmentPayment = "02"
	splitShipment     = "06"
)

// bridgingID is the id of the extension that brings elements of later versions to 2.2.0.
const bridgingID = "A000000802-004"

// threeRIAnswer is the outcome of a payment without the cardholder by the rules of the scheme: a payment that the
// directory server does not route is answered N with reason 87. At Mastercard a routed one has the ECI 07.
//
// Source: Placetopay's documentation of 3RI, one source.
func (d *directory) threeRIAnswer(doing cards.Outcome, m received) cards.Outcome {
	if m.text("deviceChannel") != threeRI || m.text("messageCategory") != "01" || doing.Kind != "answer" {
		return doing
	}
	indicator := m.text("threeRIInd")
	switch d.scheme.Word {
	case "visa":
		if (indicator == recurringPayment || indicator == instalmentPayment) && !hasAuthenticationFramework(m) {
			return notRouted
		}
	case "mastercard":
		if indicator == splitShipment && m.text("messageVersion") == v220 && !hasExtension(m, bridgingID) {
			return notRouted
		}
		if doing.Status == "Y" || doing.Status == "A" {
			doing.ECI = "07"
		}
	}
	return doing
}

// notRouted is the outcome of a 3RI that the directory server does not give to the issuer.
var notRouted = cards.Outcome{Kind: "answer", Status: "N", Reason: "87"}

// bridgingVersion is the version of the Bridging extension in an AReq; "" if it has none.
func bridgingVersion(m received) string {
	for _, e := range m.objects("messageExtension") {
		if e.text("id") == bridgingID {
			return e.object("data").text("version")
		}
	}
	return ""
}

func hasExtension(m received, id string) bool {
	return slices.ContainsFunc(m.objects("messageExtension"), func(e received) bool { return e.text("id") == id })
}

// hasAuthenticationFramework says whether an AReq has Visa's extension of the Digital Authentication Framework.
// Its id is not public; its member is.
func hasAuthenticationFramework(m received) bool {
	return slices.ContainsFunc(m.objects("messageExtension"), func(e received) bool {
		return strings.Contains(string(e["data"]), `"authPayProcessReqInd"`)
	})
}
