package sandbox

import (
	"slices"
	"strings"
)

// dataOnlyAnswer is what the scheme makes of an AReq that only shares data: of Mastercard's category 80 an
// answer of the directory server, whatever the card; of Visa's challenge indicators 06 and 82 what the issuer
// says, without a shift of liability. The scheme's ECI for it is with the outcome.
//
// Sources: Cybersource's test cases 5a and 5b of Identity Check Insights; the public test cases of Visa Data Only.
func (d *directory) dataOnlyAnswer(doing cardOutcome, m received) cardOutcome {
	indicators := m.list("threeDSRequestorChallengeInd")
	version := m.text("messageVersion")
	switch {
	case slices.Contains(d.scheme.dataCategories, m.text("messageCategory")):
		return cardOutcome{kind: "answer", status: "U", reason: "80", eci: "04", hasValue: true}
	case m.text("deviceChannel") == threeRI, doing.kind != "answer", !d.scheme.isDataShare(version, indicators):
		return doing
	}
	doing.eci = "07"
	if doing.status == "Y" || doing.status == "A" {
		doing.status, doing.hasValue = "I", true
		if version == v210 { // which has no I
			doing.status, doing.reason = "N", "89"
		}
	}
	return doing
}

// isDataShare says whether challenge indicators ask to share data only. 2.1.0 has no 06.
func (s *scheme) isDataShare(version string, indicators []string) bool {
	return slices.ContainsFunc(indicators, func(code string) bool {
		return slices.Contains(s.dataIndicators, code) && !(version == v210 && code < "80")
	})
}

// The threeRIInd of payments, as far as schemes treat them in ways of their own.
const (
	recurringPayment  = "01"
	instalmentPayment = "02"
	splitShipment     = "06"
)

// bridgingID is the id of the extension that brings elements of later versions to 2.2.0.
const bridgingID = "A000000802-004"

// threeRIAnswer is the outcome of a payment without the cardholder, as the scheme has it: one that the directory
// server does not route is answered N with reason 87, and at Mastercard one that is has the ECI 07.
//
// Source: Placetopay's documentation of 3RI, one source.
func (d *directory) threeRIAnswer(doing cardOutcome, m received) cardOutcome {
	if m.text("deviceChannel") != threeRI || m.text("messageCategory") != "01" || doing.kind != "answer" {
		return doing
	}
	indicator := m.text("threeRIInd")
	switch d.scheme.word {
	case "visa":
		if (indicator == recurringPayment || indicator == instalmentPayment) && !hasAuthenticationFramework(m) {
			return notRouted
		}
	case "mastercard":
		if indicator == splitShipment && m.text("messageVersion") == v220 && !hasExtension(m, bridgingID) {
			return notRouted
		}
		if doing.status == "Y" || doing.status == "A" {
			doing.eci = "07"
		}
	}
	return doing
}

// notRouted is the outcome of a 3RI that the directory server does not give to the issuer.
var notRouted = cardOutcome{kind: "answer", status: "N", reason: "87"}

// extensions are the message extensions of an AReq.
func extensions(m received) []received { return m.objects("messageExtension") }

// bridgingVersion is the version of the Bridging extension in an AReq; "" if it has none.
func bridgingVersion(m received) string {
	for _, e := range extensions(m) {
		if e.text("id") == bridgingID {
			return e.object("data").text("version")
		}
	}
	return ""
}

func hasExtension(m received, id string) bool {
	return slices.ContainsFunc(extensions(m), func(e received) bool { return e.text("id") == id })
}

// hasAuthenticationFramework says whether an AReq has Visa's extension of the Digital Authentication Framework.
// Its id is not public; its member is.
func hasAuthenticationFramework(m received) bool {
	return slices.ContainsFunc(extensions(m), func(e received) bool {
		return strings.Contains(string(e["data"]), `"authPayProcessReqInd"`)
	})
}
