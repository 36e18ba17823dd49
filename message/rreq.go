package message

// notDecoupled is true of a challenge in the cardholder's own time.
const notDecoupled = `ares.acsDecConInd != "Y"`

// rreq210: the RReq. EMV 3DS 2.1.0, tables A.1 and B.8.
//
//	APP BRW 3RI, for each PA and NPA
var rreq210 = Rows{
	{Need: "RR -- --", Name: "acsRenderingType", Kind: Object, Type: "acsRenderingType", Doc: "UI template presented"},
	{Need: "RR RR RR", Name: "acsTransID", Kind: UUID, Doc: "transaction ID set by the ACS"},
	{Need: "CC CC CC", Name: "authenticationMethod", Kind: OneOf, List: "authenticationMethod", Leg: ACSToDS, Doc: "method used by the ACS"},
	{Need: "CC CC --", Name: "authenticationType", Kind: OneOf, List: "authenticationType", When: decided, Doc: "challenge type used"},
	{Need: "CC CC CC", Name: "authenticationValue", Kind: Base64, Min: 28, Max: 28, When: authenticated, PAOnly: true, Mask: Secret, Doc: "proof of authentication, 20 bytes base64"},
	{Need: "CC CC --", Name: "challengeCancel", Kind: OneOf, List: "challengeCancel", When: `transStatusReason == "14"`, Partial: true, Doc: "why the challenge was cancelled"},
	{Need: "RR RR RR", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "eci", Kind: Alnum, Min: 2, Max: 2, Doc: "e-commerce indicator of the payment system"},
	{Need: "RR RR --", Name: "interactionCounter", Kind: Digits, Min: 2, Max: 2, Range: &Span{0, 99}, Doc: "authentication attempts by the cardholder"},
	{Need: "RR RR RR", Name: "messageCategory", Kind: OneOf, List: "messageCategory", Doc: "payment or non-payment"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "RReq", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
	{Need: "RC RC RC", Name: "transStatus", Kind: OneOf, List: "transStatus", Only: "Y N U A R", Doc: "outcome of the authentication"},
	{Need: "CC CC CC", Name: "transStatusReason", Kind: OneOf, List: "transStatusReason", When: declined, PAOnly: true, Doc: "why the status has its value"},
}

// rreq220: the RReq. EMV 3DS 2.2.0, tables A.1 and B.8.
//
//	APP BRW 3RI, for each PA and NPA
var rreq220 = rreq210.With(Rows{
	{Need: "CC -- --", Name: "acsRenderingType", Kind: Object, Type: "acsRenderingType", When: notDecoupled, Doc: "UI template presented"},
	{Need: "CC CC CC", Name: "authenticationType", Kind: OneOf, List: "authenticationType", When: decided, Doc: "challenge type used"},
	{Need: "CC CC CC", Name: "challengeCancel", Kind: OneOf, List: "challengeCancel", When: `transStatusReason == "14"`, Partial: true, Doc: "why the challenge was cancelled"},
	{Need: "CC CC --", Name: "interactionCounter", Kind: Digits, Min: 2, Max: 2, Range: &Span{0, 99}, When: notDecoupled, Doc: "authentication attempts by the cardholder"},
	{Need: "RR -- --", Name: "sdkTransID", Kind: UUID, Doc: "transaction ID set by the SDK"},
	{Need: "OO OO OO", Name: "whiteListStatus", Kind: OneOf, List: "whiteListStatus", Doc: "requestor whitelist status"},
	{Need: "CC CC CC", Name: "whiteListStatusSource", Kind: OneOf, List: "whiteListStatusSource", When: "present(whiteListStatus)", Else: Absent, Doc: "who set the whitelist status"},
})

// rreq231: the RReq. EMV 3DS 2.3.1, tables A.1 and B.8.
//
//	APP BRW 3RI, for each PA and NPA
var rreq231 = rreq220.Without("authenticationType", "whiteListStatus", "whiteListStatusSource").With(Rows{
	{Need: "CC CC CC", Name: "authenticationMethod", Kind: OneOf, List: "authenticationMethod", Array: true, Max: 99, When: decided, Doc: "methods used by the ACS"},
	{Need: "CC CC CC", Name: "authenticationValue", Max: 4000, When: authenticated, PAOnly: true, Mask: Secret, Doc: "proof of authentication"},
	{Need: "OO OO OO", Name: "cardholderInfo", Kind: Object, Type: "cardholderInfo", Doc: "issuer text and images for the cardholder"},
	{Need: "CC CC --", Name: "challengeErrorReporting", Kind: Object, Type: "challengeErrorReporting", When: `challengeCancel in ["09","10"]`, Else: Absent, Doc: "copy of the challenge error message"},
	{Need: "OO OO OO", Name: "deviceBindingStatus", Kind: OneOf, List: "deviceBindingStatus", Doc: "device binding status"},
	{Need: "CC CC CC", Name: "deviceBindingStatusSource", Kind: OneOf, List: "deviceBindingStatusSource", When: "present(deviceBindingStatus)", Else: Absent, Doc: "who set the device binding status"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RC RC RC", Name: "transStatus", Kind: OneOf, List: "transStatus", Only: "Y N U A R D", Doc: "outcome of the authentication"},
	{Need: "OO OO OO", Name: "transStatusReasonInfo", Max: 256, Doc: "more on the status reason"},
	{Need: "OO OO OO", Name: "trustListStatus", Kind: OneOf, List: "trustListStatus", Doc: "requestor trust list status"},
	{Need: "CC CC CC", Name: "trustListStatusSource", Kind: OneOf, List: "trustListStatusSource", When: "present(trustListStatus)", Else: Absent, Doc: "who set the trust list status"},
})

// rres210: the RRes. EMV 3DS 2.1.0, tables A.1 and B.9.
//
//	APP BRW 3RI, for each PA and NPA
var rres210 = Rows{
	{Need: "RR RR RR", Name: "acsTransID", Kind: UUID, Doc: "transaction ID set by the ACS"},
	{Need: "RR RR RR", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "RRes", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "RR RR RR", Name: "resultsStatus", Kind: OneOf, List: "resultsStatus", Doc: "how the RReq was taken"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
}

// rres220: the RRes. EMV 3DS 2.2.0, tables A.1 and B.9.
//
//	APP BRW 3RI, for each PA and NPA
var rres220 = rres210.With(Rows{
	{Need: "RR -- --", Name: "sdkTransID", Kind: UUID, Doc: "transaction ID set by the SDK"},
})

// rres231: the RRes. EMV 3DS 2.3.1, tables A.1 and B.9.
//
//	APP BRW 3RI, for each PA and NPA
var rres231 = rres220.With(Rows{
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15, MaxChars: 81920, Doc: "extension data objects"},
})
