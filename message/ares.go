package message

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
var ares210 = Rows{
	{Need: "CC CC --", Name: "acsChallengeMandated", Kind: OneOf, List: "acsChallengeMandated", When: challenge, Doc: "challenge mandated"},
	{Need: "CC CC CC", Name: "acsOperatorID", Max: 32, Doc: "ACS ID assigned by the DS"},
	{Need: "RR RR RR", Name: "acsReferenceNumber", Max: 32, Doc: "ACS reference from EMVCo"},
	{Need: "CC -- --", Name: "acsRenderingType", Kind: Object, Type: "acsRenderingType", When: challenge, Doc: "first UI template of the ACS"},
	{Need: "CC -- --", Name: "acsSignedContent", Kind: JWS, When: challenge, Mask: Secret, Doc: "JWS with ACS URL and keys"},
	{Need: "RR RR RR", Name: "acsTransID", Kind: UUID, Doc: "transaction ID set by the ACS"},
	{Need: "-- CC --", Name: "acsURL", Kind: URL, Max: 2048, Browser: true, When: challenge, Doc: "where the browser posts CReq"},
	{Need: "CC CC --", Name: "authenticationType", Kind: OneOf, List: "authenticationType", When: challenge, Doc: "challenge type to be used"},
	{Need: "CC CC CC", Name: "authenticationValue", Kind: Base64, Min: 28, Max: 28, When: authenticated, PAOnly: true, Mask: Secret, Doc: "proof of authentication, 20 bytes base64"},
	{Need: "CC CC CC", Name: "broadInfo", Kind: JSON, Max: 4096, Doc: "unstructured broadcast information"},
	{Need: "OO OO --", Name: "cardholderInfo", Max: 128, Doc: "issuer text for the cardholder"},
	{Need: "RR RR RR", Name: "dsReferenceNumber", Max: 32, Doc: "DS reference from EMVCo"},
	{Need: "RR RR RR", Name: "dsTransID", Kind: UUID, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "eci", Kind: Alnum, Min: 2, Max: 2, Doc: "e-commerce indicator of the payment system"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "ARes", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "RR -- --", Name: "sdkTransID", Kind: UUID, Doc: "transaction ID set by the SDK"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
	{Need: "RC RC RC", Name: "transStatus", Kind: OneOf, List: "transStatus", Doc: "outcome of the authentication"},
	{Need: "CC CC CC", Name: "transStatusReason", Kind: OneOf, List: "transStatusReason", When: declined, PAOnly: true, Doc: "why the status has its value"},
}

// ares220: the ARes. EMV 3DS 2.2.0, tables A.1 and B.2.
//
//	APP BRW 3RI, for each PA and NPA
var ares220 = ares210.With(Rows{
	{Need: "CC CC CC", Name: "acsChallengeMandated", Kind: OneOf, List: "acsChallengeMandated", When: challenged, Doc: "challenge mandated"},
	{Need: "CC CC CC", Name: "acsDecConInd", Kind: OneOf, List: "acsDecConInd", When: `transStatus == "D"`, Doc: "decoupled confirmation"},
	{Need: "CC CC CC", Name: "authenticationType", Kind: OneOf, List: "authenticationType", When: challenged, Doc: "challenge type to be used"},
	{Need: "CC CC CC", Name: "cardholderInfo", Max: 128, When: `acsDecConInd == "Y"`, Doc: "issuer text for the cardholder"},
	{Need: "OO OO OO", Name: "whiteListStatus", Kind: OneOf, List: "whiteListStatus", Doc: "requestor whitelist status"},
	{Need: "CC CC CC", Name: "whiteListStatusSource", Kind: OneOf, List: "whiteListStatusSource", When: "present(whiteListStatus)", Else: Absent, Doc: "who set the whitelist status"},
})

// ares231: the ARes. EMV 3DS 2.3.1, tables A.1 and B.2.
//
//	APP BRW 3RI, for each PA and NPA
var ares231 = ares220.Without("authenticationType", "whiteListStatus", "whiteListStatusSource").With(Rows{
	{Need: "CC -- --", Name: "acsSignedContent", Kind: JWS, Max: 16000, When: challenge, Mask: Secret, Doc: "JWS with ACS URL and keys"},
	{Need: "CC CC CC", Name: "authenticationMethod", Kind: OneOf, List: "authenticationMethod", Array: true, Max: 99, When: challenged, Doc: "challenge methods to be used"},
	{Need: "CC CC CC", Name: "authenticationValue", Max: 4000, When: authenticated, PAOnly: true, Mask: Secret, Doc: "proof of authentication"},
	{Need: "OO OO OO", Name: "broadInfo", Kind: Object, Type: "broadInfo", Max: 4096, Doc: "structured broadcast information"},
	{Need: "CC CC CC", Name: "cardholderInfo", Kind: Object, Type: "cardholderInfo", When: `acsDecConInd == "Y"`, Doc: "issuer text and images for the cardholder"},
	{Need: "CC CC CC", Name: "cardSecurityCodeStatus", Kind: OneOf, List: "cardSecurityCodeStatus", Doc: "security code check result"},
	{Need: "CC CC CC", Name: "cardSecurityCodeStatusSource", Kind: OneOf, List: "cardSecurityCodeStatusSource", When: "present(cardSecurityCodeStatus)", Else: Absent, Doc: "who set the security code status"},
	{Need: "OO OO OO", Name: "deviceBindingStatus", Kind: OneOf, List: "deviceBindingStatus", Doc: "device binding status"},
	{Need: "CC CC CC", Name: "deviceBindingStatusSource", Kind: OneOf, List: "deviceBindingStatusSource", When: "present(deviceBindingStatus)", Else: Absent, Doc: "who set the device binding status"},
	{Need: "RR -- --", Name: "deviceInfoRecognisedVersion", Min: 3, Doc: "highest device data version of the ACS"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15, MaxChars: 81920, Doc: "extension data objects"},
	{Need: "-- CC --", Name: "spcTransData", Kind: Object, Type: "spcTransData", When: `transStatus == "S"`, Else: Absent, Doc: "data for the SPC dialog"},
	{Need: "RR -- --", Name: "threeDSRequestorAppURLInd", Kind: OneOf, List: "threeDSRequestorAppURLInd", Doc: "OOB app supports the requestor app URL"},
	{Need: "OO OO OO", Name: "transChallengeExemption", Kind: OneOf, List: "transChallengeExemption", Doc: "exemption applied by the ACS"},
	{Need: "OO OO OO", Name: "transStatusReasonInfo", Max: 256, Doc: "more on the status reason"},
	{Need: "OO OO OO", Name: "trustListStatus", Kind: OneOf, List: "trustListStatus", Doc: "requestor trust list status"},
	{Need: "CC CC CC", Name: "trustListStatusSource", Kind: OneOf, List: "trustListStatusSource", When: "present(trustListStatus)", Else: Absent, Doc: "who set the trust list status"},
	{Need: "-- CC --", Name: "webAuthnCredList", Kind: Object, Type: "webAuthnCred", Array: true, Max: 10, When: `transStatus == "S"`, Else: Absent, Mask: Secret, Doc: "WebAuthn credentials of the card"},
})
