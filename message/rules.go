package message

import "slices"

// messageRules are the rules of all messages.
var messageRules = [typeCount][versionCount][]Rule{
	AReq: {V210: areqRules, V220: areqRules, V231: areqRules231},
	ARes: {V210: aresRules210, V220: aresRules220, V231: aresRules231},
	RReq: {V210: rreqRules210, V220: rreqRules220, V231: rreqRules231},
	RRes: {V210: rresRules210, V220: rresRules220, V231: rresRules220},
	PRes: {V210: presRules, V220: presRules, V231: presRules},
	CRes: {V210: cresRules, V220: cresRules, V231: cresRules231},
}

var areqRules = []Rule{
	{Name: "token flag is true or absent", Field: "payTokenInd", When: `present(payTokenInd)`, Must: `payTokenInd == true`,
		Code: Format},
}

var areqRules231 = slices.Concat(areqRules, []Rule{
	{Name: "sellers are described", Field: "sellerInfo", When: `present(multiTransaction.merchantList.sellerId)`,
		Must: `present(sellerInfo.sellerId)`, Code: Format, Soft: true},
})

// ofRequest are the rules of an answer to the AReq, however late.
var ofRequest = []Rule{
	{Name: "id of the request", Field: "threeDSServerTransID", When: `present(areq.threeDSServerTransID)`,
		Must: `threeDSServerTransID == areq.threeDSServerTransID`, Code: UnknownTransaction},
	{Name: "version of the request", Field: "messageVersion", When: `present(areq.messageVersion)`,
		Must: `messageVersion == areq.messageVersion`, Code: Format},
}

var sdkOfRequest = Rule{Name: "sdk id of the request", Field: "sdkTransID", When: `present(sdkTransID)`,
	Must: `sdkTransID == areq.sdkTransID`, Code: UnknownTransaction}

// Templates of the HTML interface.
var (
	htmlTemplates = Rule{
		Name: "template fits the interface", Field: "acsRenderingType", When: `acsRenderingType.acsInterface == "01"`,
		Must: `acsRenderingType.acsUiTemplate in ["01","02","03","04"]`, Code: Format,
	}
	htmlTemplates231 = Rule{
		Name: "template fits the interface", Field: "acsRenderingType", When: `acsRenderingType.acsInterface == "01"`,
		Must: `acsRenderingType.acsUiTemplate in ["01","02","03","04","07"]`, Code: Format,
	}
)

var aresRules210 = slices.Concat(ofRequest, []Rule{
	sdkOfRequest,
	{Name: "challenge is possible", Field: "transStatus", When: `transStatus == "C"`, Must: `areq.deviceChannel != "03"`,
		Code: Format},
	htmlTemplates,
})

// byDSRule are the challenge indicators that a payment system gives a meaning.
const byDSRule = `"80","81","82","83","84","85","86","87","88","89","90","91","92","93","94","95","96","97","98","99"`

var aresRules220 = slices.Concat(ofRequest, []Rule{
	sdkOfRequest,
	{Name: "challenge is possible", Field: "transStatus", When: `transStatus == "C"`,
		Must: `areq.deviceChannel != "03" and areq.threeDSRequestorChallengeInd != "06"`, Code: Format},
	{Name: "decoupled was asked for", Field: "transStatus", When: `transStatus == "D"`,
		Must: `areq.threeDSRequestorDecReqInd == "Y"`, Code: Format},
	{Name: "information was asked for", Field: "transStatus", When: `transStatus == "I"`,
		Must: `areq.threeDSRequestorChallengeInd in ["05","06","07",` + byDSRule + `]`, Code: Format,
		UnlessInformational: true},
	{Name: "decoupled is confirmed", Field: "acsDecConInd", When: `transStatus == "D"`, Must: `acsDecConInd != "N"`,
		Code: Format},
	{Name: "confirmed was asked for", Field: "acsDecConInd", When: `acsDecConInd == "Y"`,
		Must: `areq.threeDSRequestorDecReqInd == "Y"`, Code: Format},
	{Name: "type is decoupled", Field: "authenticationType", When: `transStatus == "D"`,
		Must: `authenticationType == "04"`, Code: Format, Soft: true},
	htmlTemplates,
})

var aresRules231 = slices.Concat(ofRequest, []Rule{
	sdkOfRequest,
	{Name: "challenge is possible", Field: "transStatus", When: `transStatus == "C"`,
		Must: `areq.deviceChannel != "03" and not (areq.threeDSRequestorChallengeInd has "06")`, Code: Format},
	{Name: "decoupled was asked for", Field: "transStatus", When: `transStatus == "D"`,
		Must: `areq.threeDSRequestorDecReqInd in ["Y","B"]`, Code: Format},
	{Name: "information was asked for", Field: "transStatus", When: `transStatus == "I"`,
		Must: `areq.threeDSRequestorChallengeInd has ["05","06","07",` + byDSRule + `]`, Code: Format,
		UnlessInformational: true},
	{Name: "payment confirmation is possible", Field: "transStatus", When: `transStatus == "S"`,
		Must: `areq.threeDSRequestorSpcSupport == "Y" and areq.deviceChannel == "02"`, Code: Format},
	{Name: "decoupled is confirmed", Field: "acsDecConInd", When: `transStatus == "D"`, Must: `acsDecConInd != "N"`,
		Code: Format},
	{Name: "confirmed was asked for", Field: "acsDecConInd", When: `acsDecConInd == "Y"`,
		Must: `areq.threeDSRequestorDecReqInd in ["Y","F","B"]`, Code: Format},
	htmlTemplates231,
})

// ofChallenge are the rules of a result: its ids are those of the ARes.
var ofChallenge = slices.Concat(ofRequest, []Rule{
	{Name: "ACS id of the ARes", Field: "acsTransID", When: `present(ares.acsTransID)`,
		Must: `acsTransID == ares.acsTransID`, Code: UnknownTransaction},
	{Name: "DS id of the ARes", Field: "dsTransID", When: `present(ares.dsTransID)`, Must: `dsTransID == ares.dsTransID`,
		Code: UnknownTransaction},
	{Name: "category of the request", Field: "messageCategory", When: `present(areq.messageCategory)`,
		Must: `messageCategory == areq.messageCategory`, Code: Format},
})

var timeoutIsCancel = Rule{
	Name: "a timeout was cancelled so", Field: "challengeCancel", When: `transStatusReason == "14"`,
	Must: `challengeCancel in ["04","05"]`, Code: Format,
}

var rreqRules210 = slices.Concat(ofChallenge, []Rule{htmlTemplates, timeoutIsCancel})

var rreqRules220 = slices.Concat(ofChallenge, []Rule{
	sdkOfRequest, htmlTemplates, timeoutIsCancel,
	{Name: "type is decoupled", Field: "authenticationType",
		When: `ares.acsDecConInd == "Y" and present(authenticationType)`, Must: `authenticationType == "04"`,
		Code: Format, Soft: true},
})

var rreqRules231 = slices.Concat(ofChallenge, []Rule{
	sdkOfRequest, htmlTemplates231, timeoutIsCancel,
	{Name: "fallback was asked for", Field: "transStatus", When: `transStatus == "D"`,
		Must: `areq.threeDSRequestorDecReqInd in ["F","B"]`, Code: Format},
})

var rresRules210 = []Rule{
	{Name: "id of the RReq", Field: "threeDSServerTransID", When: `present(rreq.threeDSServerTransID)`,
		Must: `threeDSServerTransID == rreq.threeDSServerTransID`, Code: UnknownTransaction},
	{Name: "version of the RReq", Field: "messageVersion", When: `present(rreq.messageVersion)`,
		Must: `messageVersion == rreq.messageVersion`, Code: Format},
	{Name: "ACS id of the RReq", Field: "acsTransID", When: `present(rreq.acsTransID)`,
		Must: `acsTransID == rreq.acsTransID`, Code: UnknownTransaction},
	{Name: "DS id of the RReq", Field: "dsTransID", When: `present(rreq.dsTransID)`, Must: `dsTransID == rreq.dsTransID`,
		Code: UnknownTransaction},
}

var rresRules220 = slices.Concat(rresRules210, []Rule{
	{Name: "sdk id of the RReq", Field: "sdkTransID", When: `present(sdkTransID)`, Must: `sdkTransID == rreq.sdkTransID`,
		Code: UnknownTransaction},
})

var presRules = []Rule{
	{Name: "id of the request", Field: "threeDSServerTransID", When: `present(preq.threeDSServerTransID)`,
		Must: `threeDSServerTransID == preq.threeDSServerTransID`, Code: UnknownTransaction},
	{Name: "version of the request", Field: "messageVersion", When: `present(preq.messageVersion)`,
		Must: `messageVersion == preq.messageVersion`, Code: Format},
}

var cresRules = slices.Concat(ofRequest, []Rule{
	{Name: "ACS id of the ARes", Field: "acsTransID", When: `present(ares.acsTransID)`,
		Must: `acsTransID == ares.acsTransID`, Code: UnknownTransaction},
})

var cresRules231 = slices.Concat(cresRules, []Rule{
	{Name: "fallback was asked for", Field: "transStatus", When: `transStatus == "D"`,
		Must: `areq.threeDSRequestorDecReqInd in ["F","B"]`, Code: Format},
})
