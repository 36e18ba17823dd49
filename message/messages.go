package message

// messageRows are the rows of all messages.
var messageRows = [typeCount]rowsByVersion{
	AReq: {V210: areq210, V220: areq220, V231: areq231},
	ARes: {V210: ares210, V220: ares220, V231: ares231},
	RReq: {V210: rreq210, V220: rreq220, V231: rreq231},
	RRes: {V210: rres210, V220: rres220, V231: rres231},
	PReq: {V210: preq210, V220: preq210, V231: preq231},
	PRes: {V210: pres210, V220: pres210, V231: pres231},
	Erro: {V210: erro210, V220: erro210, V231: erro210},
	CReq: {V210: creq210, V220: creq220, V231: creq231},
	CRes: {V210: cres210, V220: cres210, V231: cres231},
	OReq: {V231: oreq231},
	ORes: {V231: ores231},
}

// Conditions that several rows share, of RReq too.
const (
	authenticated = `transStatus in ["Y","A"]`
	declined      = `transStatus in ["N","U","R"]`
	challenge     = `transStatus == "C"`
	challenged    = `transStatus in ["C","D"]`
	decided       = `transStatus in ["Y","N"]`
)

// ares210: the ARes. EMV 3DS 2.1.0, tables A.1 and B.2.
//
//	APP BRW 3RI, for each PA and NPA
var ares210 = rowList{
	{Need: "CC CC --", Name: "acsChallengeMandated", Kind: OneOf, List: "acsChallengeMandated", When: challenge,
		Doc: "challenge mandated"},
	{Need: "CC CC CC", Name: "acsOperatorID", Max: 32, Doc: "ACS ID assigned by the DS"},
	{Need: "RR RR RR", Name: "acsReferenceNumber", Max: 32, Doc: "ACS reference from EMVCo"},
	{Need: "CC -- --", Name: "acsRenderingType", Kind: Object, Type: "acsRenderingType", When: challenge,
		Doc: "first UI template of the ACS"},
	{Need: "CC -- --", Name: "acsSignedContent", Kind: JWS, When: challenge, Mask: Secret,
		Doc: "JWS with ACS URL and keys"},
	{Need: "RR RR RR", Name: "acsTransID", Kind: UUID, Doc: "transaction ID set by the ACS"},
	{Need: "-- CC --", Name: "acsURL", Kind: URL, Max: 2048, Browser: true, When: challenge,
		Doc: "where the browser posts CReq"},
	{Need: "CC CC --", Name: "authenticationType", Kind: OneOf, List: "authenticationType", When: challenge,
		Doc: "challenge type to be used"},
	{Need: "CC CC CC", Name: "authenticationValue", Kind: Base64, Min: 28, Max: 28, When: authenticated, PAOnly: true,
		Mask: Secret, Doc: "proof of authentication, 20 bytes base64"},
	{Need: "CC CC CC", Name: "broadInfo", Kind: JSON, Max: 4096, Doc: "unstructured broadcast information"},
	{Need: "OO OO --", Name: "cardholderInfo", Max: 128, Doc: "issuer text for the cardholder"},
	{Need: "RR RR RR", Name: "dsReferenceNumber", Max: 32, Doc: "DS reference from EMVCo"},
	{Need: "RR RR RR", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "eci", Kind: Alnum, Min: 2, Max: 2, Doc: "e-commerce indicator of the payment system"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "ARes", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "RR -- --", Name: "sdkTransID", Kind: UUID, Doc: "transaction ID set by the SDK"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
	{Need: "RC RC RC", Name: "transStatus", Kind: OneOf, List: "transStatus", Doc: "outcome of the authentication"},
	{Need: "CC CC CC", Name: "transStatusReason", Kind: OneOf, List: "transStatusReason", When: declined, PAOnly: true,
		Doc: "why the status has its value"},
}

// ares220: the ARes. EMV 3DS 2.2.0, tables A.1 and B.2.
//
//	APP BRW 3RI, for each PA and NPA
var ares220 = ares210.with(rowList{
	{Need: "CC CC CC", Name: "acsChallengeMandated", Kind: OneOf, List: "acsChallengeMandated", When: challenged,
		Doc: "challenge mandated"},
	{Need: "CC CC CC", Name: "acsDecConInd", Kind: OneOf, List: "acsDecConInd", When: `transStatus == "D"`,
		Doc: "decoupled confirmation"},
	{Need: "CC CC CC", Name: "authenticationType", Kind: OneOf, List: "authenticationType", When: challenged,
		Doc: "challenge type to be used"},
	{Need: "CC CC CC", Name: "cardholderInfo", Max: 128, When: `acsDecConInd == "Y"`,
		Doc: "issuer text for the cardholder"},
	{Need: "OO OO OO", Name: "whiteListStatus", Kind: OneOf, List: "whiteListStatus", Doc: "requestor whitelist status"},
	{Need: "CC CC CC", Name: "whiteListStatusSource", Kind: OneOf, List: "whiteListStatusSource",
		When: "present(whiteListStatus)", Else: Absent, Doc: "who set the whitelist status"},
})

// ares231: the ARes. EMV 3DS 2.3.1, tables A.1 and B.2.
//
//	APP BRW 3RI, for each PA and NPA
var ares231 = ares220.without("authenticationType", "whiteListStatus", "whiteListStatusSource").with(rowList{
	{Need: "CC -- --", Name: "acsSignedContent", Kind: JWS, Max: 16000, When: challenge, Mask: Secret,
		Doc: "JWS with ACS URL and keys"},
	{Need: "CC CC CC", Name: "authenticationMethod", Kind: OneOf, List: "authenticationMethod", Array: true, Max: 99,
		When: challenged, Doc: "challenge methods to be used"},
	{Need: "CC CC CC", Name: "authenticationValue", Max: 4000, When: authenticated, PAOnly: true, Mask: Secret,
		Doc: "proof of authentication"},
	{Need: "OO OO OO", Name: "broadInfo", Kind: Object, Type: "broadInfo", Max: 4096,
		Doc: "structured broadcast information"},
	{Need: "CC CC CC", Name: "cardholderInfo", Kind: Object, Type: "cardholderInfo", When: `acsDecConInd == "Y"`,
		Doc: "issuer text and images for the cardholder"},
	{Need: "CC CC CC", Name: "cardSecurityCodeStatus", Kind: OneOf, List: "cardSecurityCodeStatus",
		Doc: "security code check result"},
	{Need: "CC CC CC", Name: "cardSecurityCodeStatusSource", Kind: OneOf, List: "cardSecurityCodeStatusSource",
		When: "present(cardSecurityCodeStatus)", Else: Absent, Doc: "who set the security code status"},
	{Need: "OO OO OO", Name: "deviceBindingStatus", Kind: OneOf, List: "deviceBindingStatus",
		Doc: "device binding status"},
	{Need: "CC CC CC", Name: "deviceBindingStatusSource", Kind: OneOf, List: "deviceBindingStatusSource",
		When: "present(deviceBindingStatus)", Else: Absent, Doc: "who set the device binding status"},
	{Need: "RR -- --", Name: "deviceInfoRecognisedVersion", Min: 3, Doc: "highest device data version of the ACS"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "-- CC --", Name: "spcTransData", Kind: Object, Type: "spcTransData", When: `transStatus == "S"`, Else: Absent,
		Doc: "data for the SPC dialog"},
	{Need: "RR -- --", Name: "threeDSRequestorAppURLInd", Kind: OneOf, List: "threeDSRequestorAppURLInd",
		Doc: "OOB app supports the requestor app URL"},
	{Need: "OO OO OO", Name: "transChallengeExemption", Kind: OneOf, List: "transChallengeExemption",
		Doc: "exemption applied by the ACS"},
	{Need: "OO OO OO", Name: "transStatusReasonInfo", Max: 256, Doc: "more on the status reason"},
	{Need: "OO OO OO", Name: "trustListStatus", Kind: OneOf, List: "trustListStatus", Doc: "requestor trust list status"},
	{Need: "CC CC CC", Name: "trustListStatusSource", Kind: OneOf, List: "trustListStatusSource",
		When: "present(trustListStatus)", Else: Absent, Doc: "who set the trust list status"},
	{Need: "-- CC --", Name: "webAuthnCredList", Kind: Object, Type: "webAuthnCred", Array: true, Max: 10,
		When: `transStatus == "S"`, Else: Absent, Mask: Secret, Doc: "WebAuthn credentials of the card"},
})

// creq210: the CReq. EMV 3DS 2.1.0, tables A.1 and B.3.
//
//	APP BRW 3RI, for each PA and NPA
var creq210 = rowList{
	{Need: "RR RR RR", Name: "acsTransID", Kind: UUID, Doc: "transaction ID set by the ACS"},
	{Need: "CC -- --", Name: "challengeCancel", Kind: OneOf, List: "challengeCancel",
		Doc: "why the challenge was cancelled"},
	{Need: "CC -- --", Name: "challengeDataEntry", Max: 45, Mask: Secret, Doc: "data typed in native UI"},
	{Need: "CC -- --", Name: "challengeHTMLDataEntry", Max: 256, Mask: Secret, Doc: "data typed in HTML UI"},
	{Need: "CC -- --", Name: "challengeNoEntry", Kind: OneOf, List: "challengeNoEntry",
		Doc: "empty response was submitted"},
	{Need: "-- RR --", Name: "challengeWindowSize", Kind: OneOf, List: "challengeWindowSize",
		Doc: "challenge window dimensions"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "CReq", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "CC -- --", Name: "oobContinue", Kind: Bool, Doc: "cardholder finished OOB"},
	{Need: "CC -- --", Name: "resendChallenge", Kind: OneOf, List: "resendChallenge", Doc: "ask to resend the challenge"},
	{Need: "RR -- --", Name: "sdkCounterStoA", Kind: Digits, Min: 3, Max: 3, Range: &Span{0, 255},
		Doc: "SDK to ACS counter"},
	{Need: "RR -- --", Name: "sdkTransID", Kind: UUID, Doc: "transaction ID set by the SDK"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
}

// creq220: the CReq. EMV 3DS 2.2.0, tables A.1 and B.3.
//
//	APP BRW 3RI, for each PA and NPA
var creq220 = creq210.with(rowList{
	{Need: "OO -- --", Name: "threeDSRequestorAppURL", Kind: AppURL, Max: 256, Doc: "requestor app URL for OOB return"},
	{Need: "CC -- --", Name: "whitelistingDataEntry", Kind: OneOf, List: "whitelistingDataEntry",
		Doc: "cardholder whitelist choice"},
})

// creq231: the CReq. EMV 3DS 2.3.1, tables A.1 and B.3.
//
//	APP BRW 3RI, for each PA and NPA
var creq231 = creq220.without("whitelistingDataEntry").with(rowList{
	{Need: "CC -- --", Name: "challengeAddCode", Kind: OneOf, List: "challengeAddCode", Doc: "additional choice selected"},
	{Need: "CC -- --", Name: "challengeDataEntryTwo", Max: 45, Mask: Secret, Doc: "second data entry"},
	{Need: "CC -- --", Name: "deviceBindingDataEntry", Kind: OneOf, List: "deviceBindingDataEntry",
		Doc: "cardholder device binding choice"},
	{Need: "CC -- --", Name: "infoContinueIndicator", Kind: Bool, Doc: "information screen continued"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "CC -- --", Name: "oobAppStatus", Kind: OneOf, List: "oobAppStatus", Doc: "OOB app URL problem"},
	{Need: "RR -- --", Name: "oobAppURLInd", Kind: OneOf, List: "oobAppURLInd", Doc: "SDK supports the OOB app URL"},
	{Need: "CC -- --", Name: "oobContinue", Kind: OneOf, List: "oobContinue", Doc: "how OOB continued"},
	{Need: "CC -- --", Name: "threeDSRequestorAppURL", Kind: AppURL, Max: 2048, Doc: "requestor app URL for OOB return"},
	{Need: "CC -- --", Name: "trustListDataEntry", Kind: OneOf, List: "trustListDataEntry",
		Doc: "cardholder trust list choice"},
})

// cres210: the CRes. EMV 3DS 2.1.0, tables A.1 and B.5.
//
//	APP BRW 3RI, for each PA and NPA
var cres210 = rowList{
	{Need: "RR -- --", Name: "acsCounterAtoS", Kind: Digits, Min: 3, Max: 3, Range: &Span{0, 255},
		Doc: "ACS to SDK counter"},
	{Need: "RR RR RR", Name: "acsTransID", Kind: UUID, Doc: "transaction ID set by the ACS"},
	{Need: "RR -- --", Name: "challengeCompletionInd", Kind: OneOf, List: "challengeCompletionInd",
		Doc: "challenge cycle state"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "CRes", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "RR -- --", Name: "sdkTransID", Kind: UUID, Doc: "transaction ID set by the SDK"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
	{Need: "RC RC --", Name: "transStatus", Kind: OneOf, List: "transStatus", Only: "Y N",
		Doc: "outcome of the authentication"},
}

// cres231: the CRes. EMV 3DS 2.3.1, tables A.1 and B.5.
//
//	APP BRW 3RI, for each PA and NPA
var cres231 = cres210.with(rowList{
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RC RC --", Name: "transStatus", Kind: OneOf, List: "transStatus", Only: "Y N D",
		Doc: "outcome of the authentication"},
})

// notDecoupled is true of a challenge in the cardholder's own time.
const notDecoupled = `ares.acsDecConInd != "Y"`

// rreq210: the RReq. EMV 3DS 2.1.0, tables A.1 and B.8.
//
//	APP BRW 3RI, for each PA and NPA
var rreq210 = rowList{
	{Need: "RR -- --", Name: "acsRenderingType", Kind: Object, Type: "acsRenderingType", Doc: "UI template presented"},
	{Need: "RR RR RR", Name: "acsTransID", Kind: UUID, Doc: "transaction ID set by the ACS"},
	{Need: "CC CC CC", Name: "authenticationMethod", Kind: OneOf, List: "authenticationMethod", Leg: ACSToDS,
		Doc: "method used by the ACS"},
	{Need: "CC CC --", Name: "authenticationType", Kind: OneOf, List: "authenticationType", When: decided,
		Doc: "challenge type used"},
	{Need: "CC CC CC", Name: "authenticationValue", Kind: Base64, Min: 28, Max: 28, When: authenticated, PAOnly: true,
		Mask: Secret, Doc: "proof of authentication, 20 bytes base64"},
	{Need: "CC CC --", Name: "challengeCancel", Kind: OneOf, List: "challengeCancel", When: `transStatusReason == "14"`,
		Partial: true, Doc: "why the challenge was cancelled"},
	{Need: "RR RR RR", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "eci", Kind: Alnum, Min: 2, Max: 2, Doc: "e-commerce indicator of the payment system"},
	{Need: "RR RR --", Name: "interactionCounter", Kind: Digits, Min: 2, Max: 2, Range: &Span{0, 99},
		Doc: "authentication attempts by the cardholder"},
	{Need: "RR RR RR", Name: "messageCategory", Kind: OneOf, List: "messageCategory", Doc: "payment or non-payment"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "RReq", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
	{Need: "RC RC RC", Name: "transStatus", Kind: OneOf, List: "transStatus", Only: "Y N U A R",
		Doc: "outcome of the authentication"},
	{Need: "CC CC CC", Name: "transStatusReason", Kind: OneOf, List: "transStatusReason", When: declined, PAOnly: true,
		Doc: "why the status has its value"},
}

// rreq220: the RReq. EMV 3DS 2.2.0, tables A.1 and B.8.
//
//	APP BRW 3RI, for each PA and NPA
var rreq220 = rreq210.with(rowList{
	{Need: "CC -- --", Name: "acsRenderingType", Kind: Object, Type: "acsRenderingType", When: notDecoupled,
		Doc: "UI template presented"},
	{Need: "CC CC CC", Name: "authenticationType", Kind: OneOf, List: "authenticationType", When: decided,
		Doc: "challenge type used"},
	{Need: "CC CC CC", Name: "challengeCancel", Kind: OneOf, List: "challengeCancel", When: `transStatusReason == "14"`,
		Partial: true, Doc: "why the challenge was cancelled"},
	{Need: "CC CC --", Name: "interactionCounter", Kind: Digits, Min: 2, Max: 2, Range: &Span{0, 99}, When: notDecoupled,
		Doc: "authentication attempts by the cardholder"},
	{Need: "RR -- --", Name: "sdkTransID", Kind: UUID, Doc: "transaction ID set by the SDK"},
	{Need: "OO OO OO", Name: "whiteListStatus", Kind: OneOf, List: "whiteListStatus", Doc: "requestor whitelist status"},
	{Need: "CC CC CC", Name: "whiteListStatusSource", Kind: OneOf, List: "whiteListStatusSource",
		When: "present(whiteListStatus)", Else: Absent, Doc: "who set the whitelist status"},
})

// rreq231: the RReq. EMV 3DS 2.3.1, tables A.1 and B.8.
//
//	APP BRW 3RI, for each PA and NPA
var rreq231 = rreq220.without("authenticationType", "whiteListStatus", "whiteListStatusSource").with(rowList{
	{Need: "CC CC CC", Name: "authenticationMethod", Kind: OneOf, List: "authenticationMethod", Array: true, Max: 99,
		When: decided, Doc: "methods used by the ACS"},
	{Need: "CC CC CC", Name: "authenticationValue", Max: 4000, When: authenticated, PAOnly: true, Mask: Secret,
		Doc: "proof of authentication"},
	{Need: "OO OO OO", Name: "cardholderInfo", Kind: Object, Type: "cardholderInfo",
		Doc: "issuer text and images for the cardholder"},
	{Need: "CC CC --", Name: "challengeErrorReporting", Kind: Object, Type: "challengeErrorReporting",
		When: `challengeCancel in ["09","10"]`, Else: Absent, Doc: "copy of the challenge error message"},
	{Need: "OO OO OO", Name: "deviceBindingStatus", Kind: OneOf, List: "deviceBindingStatus",
		Doc: "device binding status"},
	{Need: "CC CC CC", Name: "deviceBindingStatusSource", Kind: OneOf, List: "deviceBindingStatusSource",
		When: "present(deviceBindingStatus)", Else: Absent, Doc: "who set the device binding status"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RC RC RC", Name: "transStatus", Kind: OneOf, List: "transStatus", Only: "Y N U A R D",
		Doc: "outcome of the authentication"},
	{Need: "OO OO OO", Name: "transStatusReasonInfo", Max: 256, Doc: "more on the status reason"},
	{Need: "OO OO OO", Name: "trustListStatus", Kind: OneOf, List: "trustListStatus", Doc: "requestor trust list status"},
	{Need: "CC CC CC", Name: "trustListStatusSource", Kind: OneOf, List: "trustListStatusSource",
		When: "present(trustListStatus)", Else: Absent, Doc: "who set the trust list status"},
})

// rres210: the RRes. EMV 3DS 2.1.0, tables A.1 and B.9.
//
//	APP BRW 3RI, for each PA and NPA
var rres210 = rowList{
	{Need: "RR RR RR", Name: "acsTransID", Kind: UUID, Doc: "transaction ID set by the ACS"},
	{Need: "RR RR RR", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "RRes", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "RR RR RR", Name: "resultsStatus", Kind: OneOf, List: "resultsStatus", Doc: "how the RReq was taken"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
}

// rres220: the RRes. EMV 3DS 2.2.0, tables A.1 and B.9.
//
//	APP BRW 3RI, for each PA and NPA
var rres220 = rres210.with(rowList{
	{Need: "RR -- --", Name: "sdkTransID", Kind: UUID, Doc: "transaction ID set by the SDK"},
})

// rres231: the RRes. EMV 3DS 2.3.1, tables A.1 and B.9.
//
//	APP BRW 3RI, for each PA and NPA
var rres231 = rres220.with(rowList{
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15,
		MaxChars: 81920, Doc: "extension data objects"},
})

// preq210: the PReq. EMV 3DS 2.1.0, tables A.1 and B.6.
//
//	APP BRW 3RI, for each PA and NPA
var preq210 = rowList{
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "PReq", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "OO OO OO", Name: "serialNum", Max: 20, Doc: "ask changes since this state"},
	{Need: "CC CC CC", Name: "threeDSServerOperatorID", Max: 32, Doc: "3DS Server ID assigned by the DS"},
	{Need: "RR RR RR", Name: "threeDSServerRefNumber", Max: 32, Doc: "3DS Server reference from EMVCo"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
}

// preq231: the PReq. EMV 3DS 2.3.1, tables A.1 and B.6.
//
//	APP BRW 3RI, for each PA and NPA
var preq231 = preq210.with(rowList{
	{Need: "CC CC CC", Name: "cardRangeDataDownloadInd", Kind: OneOf, List: "cardRangeDataDownloadInd",
		Doc: "server can download a range file"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15,
		MaxChars: 81920, Doc: "extension data objects"},
})

// pres210: the PRes. EMV 3DS 2.1.0, tables A.1 and B.7.
//
//	APP BRW 3RI, for each PA and NPA
var pres210 = rowList{
	{Need: "OO OO OO", Name: "cardRangeData", Kind: Object, Type: "cardRange", Array: true, Doc: "card ranges"},
	{Need: "RR RR RR", Name: "dsEndProtocolVersion", Kind: Dotted, Doc: "newest active version of the DS"},
	{Need: "RR RR RR", Name: "dsStartProtocolVersion", Kind: Dotted, Doc: "oldest active version of the DS"},
	{Need: "RR RR RR", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "PRes", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "OO OO OO", Name: "serialNum", Max: 20, NotBlank: true, Doc: "state of the card range data"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
}

// pres231: the PRes. EMV 3DS 2.3.1, tables A.1 and B.7.
//
//	APP BRW 3RI, for each PA and NPA
var pres231 = pres210.without("dsEndProtocolVersion", "dsStartProtocolVersion").with(rowList{
	{Need: "CC CC CC", Name: "cardRangeData", Kind: Object, Type: "cardRange", Array: true, Max: 200000,
		When: "absent(cardRangeDataFileURL) and serialNum != preq.serialNum", Forbid: "present(cardRangeDataFileURL)",
		IgnoreForbidden: true, Doc: "card ranges"},
	{Need: "CC CC CC", Name: "cardRangeDataFileURL", Kind: URL, Max: 2048, Forbid: `preq.cardRangeDataDownloadInd != "Y"`,
		Doc: "card range file to download"},
	{Need: "RR RR RR", Name: "dsProtocolVersions", Kind: Dotted, Array: true, Max: 10, Doc: "active versions of the DS"},
	{Need: "OO OO OO", Name: "dsUrlList", Kind: Object, Type: "dsUrl", Array: true, Max: 99, Doc: "DS URLs by country"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "readOrder", Kind: OneOf, List: "readOrder", Doc: "order for processing ranges"},
	{Need: "CC CC CC", Name: "serialNum", Max: 20, NotBlank: true, Forbid: "present(cardRangeDataFileURL)",
		IgnoreForbidden: true, Doc: "state of the card range data"},
})

// oreq231: the OReq, by which a directory server tells what its operators have
// to say. EMV 3DS 2.3.1, tables A.1 and B.10.
//
//	APP BRW 3RI, for each PA and NPA
var oreq231 = rowList{
	{Need: "RR RR RR", Name: "dsReferenceNumber", Max: 32, Doc: "DS reference from EMVCo"},
	{Need: "RR RR RR", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "OReq", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "RR RR RR", Name: "opCategory", Kind: OneOf, List: "opCategory", Doc: "what the message is about"},
	{Need: "RR RR RR", Name: "opDescription", Max: 20000, Doc: "text for operators"},
	{Need: "RR RR RR", Name: "opExpDate", Kind: Date, Doc: "day from which the message is void"},
	{Need: "OO OO OO", Name: "opPriorTransRef", Kind: Object, Type: "opPriorTransRef",
		Doc: "transaction the message refers to"},
	{Need: "RR RR RR", Name: "opSeq", Kind: Object, Type: "opSeq", Doc: "place in a sequence of messages"},
	{Need: "RR RR RR", Name: "opSeverity", Kind: OneOf, List: "opSeverity", Doc: "how serious it is"},
}

// ores231: the ORes, as a 3DS server sends it. EMV 3DS 2.3.1, tables A.1 and
// B.11.
//
//	APP BRW 3RI, for each PA and NPA
var ores231 = rowList{
	{Need: "RR RR RR", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "ORes", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "RR RR RR", Name: "opStatus", Kind: OneOf, List: "opStatus", Doc: "how the sequence was taken"},
	{Need: "RR RR RR", Name: "threeDSServerRefNumber", Max: 32, Doc: "3DS server reference from EMVCo"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
}

// opSeqRows231: the object opSeq. EMV 3DS 2.3.1, annex A.
var opSeqRows231 = rowList{
	{Need: "RR RR RR", Name: "seqId", Kind: UUID, Doc: "the sequence"},
	{Need: "RR RR RR", Name: "seqNum", Kind: Digits, Min: 2, Max: 2, Range: &Span{1, 99},
		Doc: "place of this message in it"},
	{Need: "RR RR RR", Name: "seqTotal", Kind: Digits, Min: 2, Max: 2, Range: &Span{1, 99},
		Doc: "how many messages it has"},
}

// opPriorTransRefRows231: the object opPriorTransRef. EMV 3DS 2.3.1, annex A.
var opPriorTransRefRows231 = rowList{
	{Need: "RR RR RR", Name: "transIdType", Kind: OneOf, List: "transIdType", Doc: "who set the ID"},
	{Need: "RR RR RR", Name: "transId", Kind: UUID, Doc: "transaction ID"},
}

// erro210: the Erro. EMV 3DS 2.1.0, tables A.1 and B.12.
//
//	APP BRW 3RI, for each PA and NPA
var erro210 = rowList{
	{Need: "CC CC CC", Name: "acsTransID", Kind: UUID, Doc: "transaction ID set by the ACS"},
	{Need: "CC CC CC", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "RR RR RR", Name: "errorCode", Kind: OneOf, List: "errorCode", Doc: "problem code"},
	{Need: "RR RR RR", Name: "errorComponent", Kind: OneOf, List: "errorComponent", Doc: "component that found the error"},
	{Need: "RR RR RR", Name: "errorDescription", Max: 2048, Doc: "problem text"},
	{Need: "RR RR RR", Name: "errorDetail", Max: 2048, Doc: "elements or details concerned"},
	{Need: "CC CC CC", Name: "errorMessageType", Kind: OneOf, List: "messageType", Doc: "type of the erroneous message"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "Erro", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "CC -- --", Name: "sdkTransID", Kind: UUID, Doc: "transaction ID set by the SDK"},
	{Need: "CC CC CC", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
}
