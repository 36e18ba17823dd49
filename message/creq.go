package message

// creq210: the CReq. EMV 3DS 2.1.0, tables A.1 and B.3.
//
//	APP BRW 3RI, for each PA and NPA
var creq210 = Rows{
	{Need: "RR RR RR", Name: "acsTransID", Kind: UUID, Doc: "transaction ID set by the ACS"},
	{Need: "CC -- --", Name: "challengeCancel", Kind: OneOf, List: "challengeCancel", Doc: "why the challenge was cancelled"},
	{Need: "CC -- --", Name: "challengeDataEntry", Max: 45, Mask: Secret, Doc: "data typed in native UI"},
	{Need: "CC -- --", Name: "challengeHTMLDataEntry", Max: 256, Mask: Secret, Doc: "data typed in HTML UI"},
	{Need: "CC -- --", Name: "challengeNoEntry", Kind: OneOf, List: "challengeNoEntry", Doc: "empty response was submitted"},
	{Need: "-- RR --", Name: "challengeWindowSize", Kind: OneOf, List: "challengeWindowSize", Doc: "challenge window dimensions"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "CReq", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "CC -- --", Name: "oobContinue", Kind: Bool, Doc: "cardholder finished OOB"},
	{Need: "CC -- --", Name: "resendChallenge", Kind: OneOf, List: "resendChallenge", Doc: "ask to resend the challenge"},
	{Need: "RR -- --", Name: "sdkCounterStoA", Kind: Digits, Min: 3, Max: 3, Range: &Span{0, 255}, Doc: "SDK to ACS counter"},
	{Need: "RR -- --", Name: "sdkTransID", Kind: UUID, Doc: "transaction ID set by the SDK"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
}

// creq220: the CReq. EMV 3DS 2.2.0, tables A.1 and B.3.
//
//	APP BRW 3RI, for each PA and NPA
var creq220 = creq210.With(Rows{
	{Need: "OO -- --", Name: "threeDSRequestorAppURL", Kind: AppURL, Max: 256, Doc: "requestor app URL for OOB return"},
	{Need: "CC -- --", Name: "whitelistingDataEntry", Kind: OneOf, List: "whitelistingDataEntry", Doc: "cardholder whitelist choice"},
})

// creq231: the CReq. EMV 3DS 2.3.1, tables A.1 and B.3.
//
//	APP BRW 3RI, for each PA and NPA
var creq231 = creq220.Without("whitelistingDataEntry").With(Rows{
	{Need: "CC -- --", Name: "challengeAddCode", Kind: OneOf, List: "challengeAddCode", Doc: "additional choice selected"},
	{Need: "CC -- --", Name: "challengeDataEntryTwo", Max: 45, Mask: Secret, Doc: "second data entry"},
	{Need: "CC -- --", Name: "deviceBindingDataEntry", Kind: OneOf, List: "deviceBindingDataEntry", Doc: "cardholder device binding choice"},
	{Need: "CC -- --", Name: "infoContinueIndicator", Kind: Bool, Doc: "information screen continued"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "CC -- --", Name: "oobAppStatus", Kind: OneOf, List: "oobAppStatus", Doc: "OOB app URL problem"},
	{Need: "RR -- --", Name: "oobAppURLInd", Kind: OneOf, List: "oobAppURLInd", Doc: "SDK supports the OOB app URL"},
	{Need: "CC -- --", Name: "oobContinue", Kind: OneOf, List: "oobContinue", Doc: "how OOB continued"},
	{Need: "CC -- --", Name: "threeDSRequestorAppURL", Kind: AppURL, Max: 2048, Doc: "requestor app URL for OOB return"},
	{Need: "CC -- --", Name: "trustListDataEntry", Kind: OneOf, List: "trustListDataEntry", Doc: "cardholder trust list choice"},
})

// cres210: the CRes. EMV 3DS 2.1.0, tables A.1 and B.5.
//
//	APP BRW 3RI, for each PA and NPA
var cres210 = Rows{
	{Need: "RR -- --", Name: "acsCounterAtoS", Kind: Digits, Min: 3, Max: 3, Range: &Span{0, 255}, Doc: "ACS to SDK counter"},
	{Need: "RR RR RR", Name: "acsTransID", Kind: UUID, Doc: "transaction ID set by the ACS"},
	{Need: "RR -- --", Name: "challengeCompletionInd", Kind: OneOf, List: "challengeCompletionInd", Doc: "challenge cycle state"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "CRes", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "RR -- --", Name: "sdkTransID", Kind: UUID, Doc: "transaction ID set by the SDK"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
	{Need: "RC RC --", Name: "transStatus", Kind: OneOf, List: "transStatus", Only: "Y N", Doc: "outcome of the authentication"},
}

// cres231: the CRes. EMV 3DS 2.3.1, tables A.1 and B.5.
//
//	APP BRW 3RI, for each PA and NPA
var cres231 = cres210.With(Rows{
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RC RC --", Name: "transStatus", Kind: OneOf, List: "transStatus", Only: "Y N D", Doc: "outcome of the authentication"},
})
