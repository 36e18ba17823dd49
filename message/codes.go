package message

import (
	"fmt"
	"slices"
	"strings"
)

// Codes is the list of codes that one element has in one version.
type Codes struct {
	Name   string      // of the list, as in Field.List
	Values []CodeValue // never empty
	Ranges []CodeRange
	Open   bool // any other code with the same number of digits is valid too

	pairs [100]Code // the results of check for "00" to "99"
}

// A CodeValue is one code with its meaning in English.
type CodeValue struct {
	Value, Meaning string
	Tolerated      bool // accepted in messages that are received, never sent
}

// A CodeRange is a range of codes, both ends included, whose meaning the protocol leaves
// open.
type CodeRange struct {
	From, To string
	// true: payment systems define these codes, and they are valid; false: EMVCo reserves them, and they are not
	DS bool
}

// check returns 0 if a code is valid, and otherwise Format or, from 2.3.1 on, Reserved.
func (c *Codes) check(code []byte, v Version) Code {
	if len(code) == 2 && isDigit(code[0]) && isDigit(code[1]) {
		return c.pairs[10*(code[0]-'0')+code[1]-'0']
	}
	return c.searchCode(code, v)
}

// searchCode is check without the prepared results.
func (c *Codes) searchCode(code []byte, v Version) Code {
	for i := range c.Values {
		if c.Values[i].Value == string(code) {
			return 0
		}
	}
	for i := range c.Ranges {
		r := &c.Ranges[i]
		switch {
		case len(code) != len(r.From) || !allDigits(code) || string(code) < r.From || string(code) > r.To:
		case r.DS:
			return 0
		case v >= V231:
			return Reserved
		}
	}
	if c.Open && allDigits(code) && len(code) == len(c.Values[0].Value) {
		return 0
	}
	return Format
}

// lengths returns the smallest and the largest number of characters of the codes.
func (c *Codes) lengths() (lo, hi int) {
	lo = len(c.Values[0].Value)
	for _, v := range c.Values {
		lo, hi = min(lo, len(v.Value)), max(hi, len(v.Value))
	}
	return lo, hi
}

// A versionSet is the set of versions that have a code, one bit per version.
type versionSet uint8

const (
	only210  versionSet = 1 << V210
	only220  versionSet = 1 << V220
	from231  versionSet = 1 << V231
	until220            = only210 | only220
	from220             = only220 | from231
	every               = only210 | only220 | from231

	// tolerated marks codes that are accepted in messages that are received, and never sent.
	tolerated versionSet = 1 << 7
)

// has reports whether s holds v.
func (s versionSet) has(v Version) bool { return s>>v&1 != 0 }

// A code is one row of a list: a code, or a range of codes such as "04-79" with both
// ends included. "*" stands for any other code with the same number of digits.
type code struct {
	value, meaning string
	in             versionSet
}

// The meanings of rows that are no single code.
const (
	reservedByEMVCo  = "reserved by EMVCo"
	definedByDS      = "defined by payment systems"
	definedElsewhere = "defined by other systems"
)

// codesFor returns a list of codes as it is in one version. If only is not "", it names the
// codes that are valid, with spaces between. It panics if the list lacks one of them.
func codesFor(name, only string, v Version) *Codes {
	list, ok := codeLists[name]
	if !ok {
		panic("message: no code list " + name)
	}
	c := &Codes{Name: name}
	allowed := strings.Fields(only)
	sent := 0 // counts the codes that are not only tolerated
	for _, x := range list {
		switch {
		case !x.in.has(v):
		case x.value == "*":
			c.Open = true
		case x.meaning == reservedByEMVCo || x.meaning == definedByDS:
			from, to, _ := strings.Cut(x.value, "-")
			c.Ranges = append(c.Ranges, CodeRange{From: from, To: to, DS: x.meaning == definedByDS})
		case x.in&tolerated != 0:
			c.Values = append(c.Values, CodeValue{Value: x.value, Meaning: x.meaning, Tolerated: true})
		case only == "" || slices.Contains(allowed, x.value):
			c.Values = append(c.Values, CodeValue{Value: x.value, Meaning: x.meaning})
			sent++
		}
	}
	if only != "" && sent != len(allowed) {
		panic(fmt.Sprintf("message: %s: list %s lacks some of %s", v, name, only))
	}
	if sent == 0 {
		panic(fmt.Sprintf("message: %s: list %s is empty", v, name))
	}
	return c.withResults(v)
}

// withResults returns a copy of c with the results of check for codes of two digits.
func (c *Codes) withResults(v Version) *Codes {
	c = &Codes{Name: c.Name, Values: c.Values, Ranges: c.Ranges, Open: c.Open}
	for i := range c.pairs {
		c.pairs[i] = c.searchCode([]byte{'0' + byte(i/10), '0' + byte(i%10)}, v)
	}
	return c
}

// codeLists are all lists of codes. Each code and each range of codes has the set of
// versions that define it.
var codeLists = map[string][]code{
	"acctType": {
		{"01", "not applicable", every},
		{"02", "credit", every},
		{"03", "debit", every},
		{"04-79", reservedByEMVCo, every},
		{"80-99", definedByDS, every},
	},
	"acquirerCountryCodeSource": {
		{"01", "3DS Server", from231},
		{"02", "DS", from231},
		{"03-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"acsChallengeMandated": {
		{"Y", "challenge mandated", every},
		{"N", "challenge not mandated", every},
	},
	"acsDecConInd": {
		{"Y", "decoupled will be used", from220},
		{"N", "decoupled will not be used", from220},
	},
	"acsInfoInd": {
		{"01", "authentication available at ACS", from220},
		{"02", "attempts supported by ACS or DS", from220},
		{"03", "decoupled supported", from220},
		{"04", "whitelist / trust list supported", from220},
		{"05", "device binding supported", from231},
		{"06", "WebAuthn supported", from231},
		{"07", "SPC supported", from231},
		{"08", "TRA exemption supported", from231},
		{"09", "trust list exemption supported", from231},
		{"10", "low value exemption supported", from231},
		{"11", "secure corporate exemption supported", from231},
		{"05-79", reservedByEMVCo, only220},
		{"12-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from220},
	},
	"acsInterface": {
		{"01", "native UI", every},
		{"02", "HTML UI", every},
	},
	"acsUiTemplate": {
		{"01", "text", every},
		{"02", "single select", every},
		{"03", "multi select", every},
		{"04", "OOB", every},
		{"05", "HTML other", every},
		{"06", "HTML OOB", from231},
		{"07", "information", from231},
	},
	"actionInd": {
		{"A", "add range (default)", every},
		{"D", "delete range", every},
		{"M", "modify range data", every},
	},
	"addrMatch": {
		{"Y", "shipping equals billing", every},
		{"N", "shipping differs", every},
	},
	"amountInd": {
		{"01", "fixed amount", from231},
		{"02", "variable amount", from231},
		{"03-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"authenticationMethod": {
		{"01", "static passcode", every},
		{"02", "SMS OTP", every},
		{"03", "key fob or card reader OTP", every},
		{"04", "app OTP", every},
		{"05", "other OTP", every},
		{"06", "knowledge based", every},
		{"07", "OOB biometrics", every},
		{"08", "OOB login", every},
		{"09", "OOB other", every},
		{"10", "other", every},
		{"11", "push confirmation", from220},
		{"12", "decoupled", from231},
		{"13", "WebAuthn", from231},
		{"14", "SPC", from231},
		{"15", "behavioural biometrics", from231},
		{"16", "electronic ID", from231},
		{"11-79", reservedByEMVCo, only210},
		{"12-79", reservedByEMVCo, only220},
		{"17-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, every},
	},
	"authenticationType": {
		{"01", "static", until220},
		{"02", "dynamic", until220},
		{"03", "out of band", until220},
		{"04", "decoupled", only220},
		{"04-79", reservedByEMVCo, only210},
		{"05-79", reservedByEMVCo, only220},
		{"80-99", definedByDS, until220},
	},
	"broadCategory": {
		{"01", "general", from231},
		{"02", "certificate expiry", from231},
		{"03", "fraud alert", from231},
		{"04", "operational alert", from231},
		{"05", "transactional data", from231},
		{"06", "other", from231},
		{"07-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"broadRecipient": {
		{"01", "3DS SDK", from231},
		{"02", "3DS Server", from231},
		{"03", "DS", from231},
		{"04", "ACS", from231},
	},
	"broadSeverity": {
		{"01", "critical", from231},
		{"02", "major", from231},
		{"03", "minor", from231},
		{"04", "informational", from231},
	},
	"broadSource": {
		{"01", "3DS Server", from231},
		{"02", "DS", from231},
		{"03", "ACS", from231},
	},
	"browserColorDepth": {
		{"1", "1 bits", until220},
		{"4", "4 bits", until220},
		{"8", "8 bits", until220},
		{"15", "15 bits", until220},
		{"16", "16 bits", until220},
		{"24", "24 bits", until220},
		{"32", "32 bits", until220},
		{"48", "48 bits", until220},
	},
	"cardRangeDataDownloadInd": {
		{"Y", "file download supported", from231},
	},
	"cardSecurityCodeStatus": {
		{"Y", "validated", from231},
		{"N", "failed validation", from231},
		{"U", "unknown or not applicable", from231},
	},
	"cardSecurityCodeStatusSource": {
		{"01", "DS", from231},
		{"02", "ACS", from231},
		{"03-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"chAccAgeInd": {
		{"01", "no account (guest)", every},
		{"02", "created during transaction", every},
		{"03", "under 30 days", every},
		{"04", "30-60 days", every},
		{"05", "over 60 days", every},
	},
	"chAccChangeInd": {
		{"01", "during transaction", every},
		{"02", "under 30 days", every},
		{"03", "30-60 days", every},
		{"04", "over 60 days", every},
	},
	"chAccPwChangeInd": {
		{"01", "no change", every},
		{"02", "during transaction", every},
		{"03", "under 30 days", every},
		{"04", "30-60 days", every},
		{"05", "over 60 days", every},
	},
	"challengeAddCode": {
		{"Y", "additional choice selected", from231},
	},
	"challengeCancel": {
		{"01", "cardholder cancelled", every},
		{"03", "timeout, decoupled", from220},
		{"04", "timeout at ACS, other", every},
		{"05", "timeout at ACS, first CReq missing", every},
		{"06", "transaction error", every},
		{"07", "unknown", every},
		{"08", "timeout at SDK", every},
		{"09", "error message answered the CRes", from231},
		{"10", "error message answered the CReq", from231},
		{"02", "cancelled by the requestor (older lists)", only210 | tolerated},
		{"03", "abandoned (older lists)", only210 | tolerated},
		{"02-02", reservedByEMVCo, every},
		{"03-03", reservedByEMVCo, only210},
		{"09-79", reservedByEMVCo, until220},
		{"11-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, every},
	},
	"challengeCompletionInd": {
		{"Y", "challenge complete", every},
		{"N", "more exchanges needed", every},
	},
	"challengeNoEntry": {
		{"Y", "no data entered", every},
	},
	"challengeWindowSize": {
		{"01", "250x400", every},
		{"02", "390x400", every},
		{"03", "500x600", every},
		{"04", "600x400", every},
		{"05", "full screen", every},
	},
	"defaultSdkVariant": {
		{"01", "native", from231},
		{"02-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"deliveryTimeframe": {
		{"01", "electronic", every},
		{"02", "same day", every},
		{"03", "overnight", every},
		{"04", "two days or more", every},
	},
	"deviceBindingDataEntry": {
		{"Y", "consent given", from231},
		{"N", "consent not given", from231},
	},
	"deviceBindingStatus": {
		{"01", "not bound", from231},
		{"02", "not eligible", from231},
		{"03", "pending confirmation", from231},
		{"04", "cardholder rejected", from231},
		{"05", "unknown or not applicable", from231},
		{"11", "bound, internal hardware/SIM", from231},
		{"12", "bound, external hardware", from231},
		{"13", "bound, dynamic data", from231},
		{"14", "bound, static device data", from231},
		{"15", "bound, other method", from231},
		{"06-10", reservedByEMVCo, from231},
		{"16-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"deviceBindingStatusSource": {
		{"01", "3DS Server", from231},
		{"02", "DS", from231},
		{"03", "ACS", from231},
		{"04-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"deviceChannel": {
		{"01", "app (APP)", every},
		{"02", "browser (BRW)", every},
		{"03", "requestor initiated (3RI)", every},
		{"04-79", reservedByEMVCo, every},
		{"80-99", definedByDS, every},
	},
	"deviceUserInterfaceMode": {
		{"01", "portrait", from231},
		{"02", "landscape", from231},
		{"03", "voice", from231},
		{"04", "other", from231},
	},
	"dsAuthInfVerifInd": {
		{"01", "verified", from231},
		{"02", "failed", from231},
		{"03", "not performed", from231},
		{"04-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"errorCode": {
		{"101", "message received invalid", every},
		{"102", "message version not supported", every},
		{"103", "PReq limit exceeded", every},
		{"201", "required element missing", every},
		{"202", "critical extension not recognised", every},
		{"203", "format or value invalid", every},
		{"204", "duplicate element", every},
		{"205", "card range overlap", from231},
		{"206", "card range action not possible", from231},
		{"207", "value in reserved range", from231},
		{"301", "transaction ID not recognised", every},
		{"302", "decryption failure", every},
		{"303", "access denied or wrong endpoint", every},
		{"304", "ISO code invalid or excluded", every},
		{"305", "transaction data not valid", every},
		{"306", "MCC not valid for payment system", every},
		{"307", "serial number not valid", every},
		{"308", "signature verification failure", from231},
		{"309", "content security policy failure", from231},
		{"310", "incorrect cryptographic algorithm", from231},
		{"311", "incorrect kid", from231},
		{"312", "duplicate message", from231},
		{"313", "RReq without a challenge", from231},
		{"314", "multiple CReq not supported", from231},
		{"315", "CReq after RReq", from231},
		{"402", "transaction timed out", every},
		{"403", "transient system failure", every},
		{"404", "permanent system failure", every},
		{"405", "system connection failure", every},
		{"*", definedElsewhere, every},
	},
	"errorComponent": {
		{"C", "3DS SDK", every},
		{"S", "3DS Server", every},
		{"D", "DS", every},
		{"A", "ACS", every},
	},
	"extInd": {
		{"Y", "extension requested", from231},
	},
	"frequencyInd": {
		{"01", "fixed frequency", from231},
		{"02", "variable or unknown", from231},
		{"03-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"limitedInd": {
		{"Y", "limited", from231},
	},
	"messageCategory": {
		{"01", "payment (PA)", every},
		{"02", "non-payment (NPA)", every},
		{"03-79", reservedByEMVCo, every},
		{"80-99", definedByDS, every},
	},
	"opCategory": {
		{"01", "general information", from231},
		{"02", "operational alert", from231},
		{"03", "public key certificate expiry", from231},
		{"04", "approval expiry", from231},
		{"05", "fraud alert", from231},
		{"06", "other", from231},
		{"07-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"opSeverity": {
		{"01", "critical", from231},
		{"02", "major", from231},
		{"03", "minor", from231},
		{"04", "informational", from231},
		{"05-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"opStatus": {
		{"01", "all messages of the sequence received", from231},
		{"02", "messages of the sequence missing or out of order", from231},
		{"03", "action not supported or not executed", from231},
		{"04-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"transIdType": {
		{"01", "set by the 3DS Server", from231},
		{"02", "set by the DS", from231},
		{"03", "set by the ACS", from231},
	},
	"messageType": {
		{"AReq", "authentication request", every},
		{"ARes", "authentication response", every},
		{"CReq", "challenge request", every},
		{"CRes", "challenge response", every},
		{"PReq", "preparation request", every},
		{"PRes", "preparation response", every},
		{"RReq", "results request", every},
		{"RRes", "results response", every},
		{"Erro", "error", every},
		{"OReq", "operation request", from231},
		{"ORes", "operation response", from231},
	},
	"messageVersion": {
		{"2.1.0", "EMV 3DS 2.1.0", every},
		{"2.2.0", "EMV 3DS 2.2.0", every},
		{"2.3.1", "EMV 3DS 2.3.1", every},
	},
	"oobAppStatus": {
		{"01", "opening OOB app URL failed", from231},
		{"02-99", reservedByEMVCo, from231},
	},
	"oobAppURLInd": {
		{"01", "supported", from231},
		{"02", "not supported by device", from231},
		{"03", "not supported by requestor", from231},
		{"04-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"oobContinue": {
		{"01", "cardholder clicked", from231},
		{"02", "automatic complete", from231},
		{"03-99", reservedByEMVCo, from231},
	},
	"payTokenSource": {
		{"01", "3DS Server", from220},
		{"02", "DS", from220},
		{"03-79", reservedByEMVCo, from220},
		{"80-99", definedByDS, from220},
	},
	"paymentAccInd": {
		{"01", "no account (guest)", every},
		{"02", "during transaction", every},
		{"03", "under 30 days", every},
		{"04", "30-60 days", every},
		{"05", "over 60 days", every},
	},
	"preOrderPurchaseInd": {
		{"01", "available", every},
		{"02", "future availability", every},
	},
	"readOrder": {
		{"01", "first in first out", from231},
		{"02", "last in first out", from231},
		{"03-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"reorderItemsInd": {
		{"01", "first time", every},
		{"02", "reordered", every},
	},
	"resendChallenge": {
		{"Y", "resend", every},
		{"N", "do not resend", until220},
	},
	"resultsStatus": {
		{"01", "RReq received", every},
		{"02", "CReq not sent, challenge opted out", every},
		{"03", "ARes challenge not delivered, technical", every},
		{"04", "decoupled in a later authentication", from231},
		{"04-79", reservedByEMVCo, until220},
		{"05-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, every},
	},
	"sdkAuthenticationType": {
		{"01", "static passcode", from231},
		{"02", "SMS OTP", from231},
		{"03", "key fob or card reader OTP", from231},
		{"04", "app OTP", from231},
		{"05", "other OTP", from231},
		{"06", "knowledge based", from231},
		{"07", "OOB biometrics", from231},
		{"08", "OOB login", from231},
		{"09", "OOB other", from231},
		{"10", "other", from231},
		{"11", "push confirmation", from231},
		{"12-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"sdkInterface": {
		{"01", "native", every},
		{"02", "HTML", every},
		{"03", "both", every},
	},
	"sdkType": {
		{"01", "Default-SDK", from231},
		{"02", "Split-SDK", from231},
		{"03-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"sdkUiType": {
		{"01", "text", every},
		{"02", "single select", every},
		{"03", "multi select", every},
		{"04", "OOB", every},
		{"05", "HTML other", every},
		{"06", "HTML OOB", from231},
		{"07", "information", from231},
	},
	"shipAddressUsageInd": {
		{"01", "this transaction", every},
		{"02", "under 30 days", every},
		{"03", "30-60 days", every},
		{"04", "over 60 days", every},
	},
	"shipIndicator": {
		{"01", "to billing address", every},
		{"02", "to other verified address", every},
		{"03", "to address other than billing", every},
		{"04", "ship to store", every},
		{"05", "digital goods", every},
		{"06", "travel/event tickets, not shipped", every},
		{"07", "other", every},
		{"08", "pick-up and go", from231},
		{"09", "locker delivery", from231},
	},
	"shipNameIndicator": {
		{"01", "account name equals shipping name", every},
		{"02", "names differ", every},
	},
	"spcIncompInd": {
		{"01", "SPC did not run or failed", from231},
		{"02", "cardholder cancelled SPC", from231},
		{"03", "SPC timed out", from231},
		{"04-99", reservedByEMVCo, from231},
	},
	"splitSdkVariant": {
		{"01", "native client", from231},
		{"02", "browser", from231},
		{"03", "shell", from231},
		{"04-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"suspiciousAccActivity": {
		{"01", "none observed", every},
		{"02", "observed", every},
	},
	"threeDSCompInd": {
		{"Y", "method completed", every},
		{"N", "method failed or not run", every},
		{"U", "no method URL for range", every},
	},
	"threeDSReqAuthMethod": {
		{"01", "none (guest)", every},
		{"02", "requestor credentials", every},
		{"03", "federated ID", every},
		{"04", "issuer credentials", every},
		{"05", "third-party authentication", every},
		{"06", "FIDO authenticator", every},
		{"07", "FIDO, assurance data signed", from220},
		{"08", "SRC assurance data", from220},
		{"09", "SPC", from231},
		{"10", "electronic ID", from231},
		{"07-79", reservedByEMVCo, only210},
		{"09-79", reservedByEMVCo, only220},
		{"11-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, every},
	},
	"threeDSReqAuthMethodInd": {
		{"01", "verified", only220},
		{"02", "failed", only220},
		{"03", "not performed", only220},
		{"04-79", reservedByEMVCo, only220},
		{"80-99", definedByDS, only220},
	},
	"threeDSReqPriorAuthMethod": {
		{"01", "frictionless by ACS", every},
		{"02", "challenge by ACS", every},
		{"03", "AVS verified", every},
		{"04", "other issuer methods", every},
		{"05", "SPC", from231},
		{"05-79", reservedByEMVCo, until220},
		{"06-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, every},
	},
	"threeDSRequestorAppURLInd": {
		{"Y", "app URL supported", from231},
		{"N", "app URL not supported", from231},
	},
	"threeDSRequestorAuthenticationInd": {
		{"01", "payment", every},
		{"02", "recurring", every},
		{"03", "instalment", every},
		{"04", "add card", every},
		{"05", "maintain card", every},
		{"06", "cardholder verification for token ID&V", every},
		{"07", "billing agreement", from231},
		{"08", "split shipment", from231},
		{"09", "delayed shipment", from231},
		{"10", "split payment", from231},
		{"07-79", reservedByEMVCo, until220},
		{"11-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, every},
	},
	"threeDSRequestorChallengeInd": {
		{"01", "no preference", every},
		{"02", "no challenge", every},
		{"03", "challenge, requestor preference", every},
		{"04", "challenge, mandate", every},
		{"05", "no challenge, risk analysis done", from220},
		{"06", "no challenge, data share only", from220},
		{"07", "no challenge, SCA already done", from220},
		{"08", "no challenge, use whitelist/trust list exemption", from220},
		{"09", "challenge, whitelist/trust list prompt", from220},
		{"10", "no challenge, low value exemption", from231},
		{"11", "no challenge, secure corporate payment", from231},
		{"12", "challenge, device binding prompt", from231},
		{"13", "challenge, issuer requested", from231},
		{"14", "challenge, merchant-initiated transactions", from231},
		{"05-79", reservedByEMVCo, only210},
		{"10-79", reservedByEMVCo, only220},
		{"15-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, every},
	},
	"threeDSRequestorDecReqInd": {
		{"Y", "decoupled preferred as primary", from220},
		{"N", "no decoupled", from220},
		{"F", "decoupled only as fallback", from231},
		{"B", "primary or fallback", from231},
	},
	"threeDSRequestorSpcSupport": {
		{"Y", "SPC supported", from231},
	},
	"threeRIInd": {
		{"01", "recurring", every},
		{"02", "instalment", every},
		{"03", "add card", every},
		{"04", "maintain card", every},
		{"05", "account verification", every},
		{"06", "split or delayed shipment (2.3.1: split shipment)", from220},
		{"07", "top-up", from220},
		{"08", "mail order", from220},
		{"09", "telephone order", from220},
		{"10", "whitelist / trust list status check", from220},
		{"11", "other payment", from220},
		{"12", "billing agreement", from231},
		{"13", "device binding status check", from231},
		{"14", "card security code status check", from231},
		{"15", "delayed shipment", from231},
		{"16", "split payment", from231},
		{"17", "FIDO credential deletion", from231},
		{"18", "FIDO credential registration", from231},
		{"19", "decoupled authentication fallback", from231},
		{"06-79", reservedByEMVCo, only210},
		{"12-79", reservedByEMVCo, only220},
		{"20-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, every},
	},
	"tokenCryptogramValidityIndicator": {
		{"01", "verified", from231},
		{"02", "failed", from231},
		{"03", "not performed", from231},
		{"04-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"transChallengeExemption": {
		{"05", "TRA exemption", from231},
		{"08", "trust list exemption", from231},
		{"10", "low value exemption", from231},
		{"11", "secure corporate payments", from231},
		{"79", "no exemption applied", from231},
		{"01-04", reservedByEMVCo, from231},
		{"06-07", reservedByEMVCo, from231},
		{"09-09", reservedByEMVCo, from231},
		{"12-78", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"transChar": {
		{"01", "cryptocurrency", from231},
		{"02", "NFT", from231},
	},
	"transStatus": {
		{"Y", "authenticated / verified", every},
		{"N", "not authenticated, denied", every},
		{"U", "could not be performed", every},
		{"A", "attempt proof provided", every},
		{"C", "challenge required", every},
		{"R", "rejected by issuer, do not authorise", every},
		{"D", "decoupled challenge confirmed", from220},
		{"I", "informational only", from220},
		{"S", "challenge by SPC", from231},
	},
	"transStatusReason": {
		{"01", "card authentication failed", every},
		{"02", "unknown device", every},
		{"03", "unsupported device", every},
		{"04", "authentication frequency limit exceeded", every},
		{"05", "expired card", every},
		{"06", "invalid card number", every},
		{"07", "invalid transaction", every},
		{"08", "no card record", every},
		{"09", "security failure", every},
		{"10", "stolen card", every},
		{"11", "suspected fraud", every},
		{"12", "not permitted to cardholder", every},
		{"13", "cardholder not enrolled", every},
		{"14", "timed out at ACS", every},
		{"15", "low confidence", every},
		{"16", "medium confidence", every},
		{"17", "high confidence", every},
		{"18", "very high confidence", every},
		{"19", "ACS maximum challenges exceeded", every},
		{"20", "non-payment not supported", every},
		{"21", "3RI not supported", every},
		{"22", "ACS technical issue", from220},
		{"23", "ACS needs decoupled, not requested", from220},
		{"24", "decoupled max time exceeded", from220},
		{"25", "too little decoupled time, no attempt", from220},
		{"26", "attempted, not performed by cardholder", from220},
		{"27", "preferred authentication method not supported", from231},
		{"28", "content security policy check failed", from231},
		{"29", "not completed, fall back to decoupled", from231},
		{"30", "success but more needed, retry decoupled", from231},
		{"22-79", reservedByEMVCo, only210},
		{"27-79", reservedByEMVCo, only220},
		{"31-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, every},
	},
	"transType": {
		{"01", "goods or service", every},
		{"03", "check acceptance", every},
		{"10", "account funding", every},
		{"11", "quasi-cash", every},
		{"28", "prepaid activation and load", every},
	},
	"trustListDataEntry": {
		{"Y", "consent given", from231},
		{"N", "consent not given", from231},
	},
	"trustListStatus": {
		{"Y", "on trust list", from231},
		{"N", "not on trust list", from231},
		{"E", "not eligible", from231},
		{"P", "pending confirmation", from231},
		{"R", "cardholder rejected", from231},
		{"U", "unknown or not applicable", from231},
	},
	"trustListStatusSource": {
		{"01", "3DS Server", from231},
		{"02", "DS", from231},
		{"03", "ACS", from231},
		{"04-79", reservedByEMVCo, from231},
		{"80-99", definedByDS, from231},
	},
	"whiteListStatus": {
		{"Y", "whitelisted", only220},
		{"N", "not whitelisted", only220},
		{"E", "not eligible", only220},
		{"P", "pending confirmation", only220},
		{"R", "cardholder rejected", only220},
		{"U", "unknown or not applicable", only220},
	},
	"whiteListStatusSource": {
		{"01", "3DS Server", only220},
		{"02", "DS", only220},
		{"03", "ACS", only220},
		{"04-79", reservedByEMVCo, only220},
		{"80-99", definedByDS, only220},
	},
	"whitelistingDataEntry": {
		{"Y", "confirmed", only220},
		{"N", "not confirmed", only220},
	},
	"wrappedInd": {
		{"Y", "wrapped", from231},
	},
}
