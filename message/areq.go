package message

// Conditions that several rows share.
const (
	javascript   = `browserJavascriptEnabled == true`
	recurring210 = `threeDSRequestorAuthenticationInd in ["02","03"]`
	recurring220 = `threeDSRequestorAuthenticationInd in ["02","03"] or threeRIInd in ["01","02"]`
	purchase220  = `threeDSRequestorAuthenticationInd in ["02","03"] or threeRIInd in ["01","02","06","07","08","09","11"]`
	purchase231  = `threeDSRequestorAuthenticationInd in ["02","03","07","08","09"] or threeRIInd in ["01","02","06","07","08","09","11","15"]`
)

// areq210: the AReq. EMV 3DS 2.1.0, tables A.1 and B.1.
//
//	APP BRW 3RI, for each PA and NPA
var areq210 = rowList{
	// The message and the transaction.
	{Need: "CC CC CC", Name: "broadInfo", Kind: JSON, Max: 4096, Doc: "unstructured broadcast information"},
	{Need: "RR RR RR", Name: "deviceChannel", Kind: OneOf, List: "deviceChannel", Doc: "channel starting the transaction"},
	{Need: "CC CC CC", Name: "dsReferenceNumber", Max: 32, Leg: DSToACS, DS: true, Doc: "DS reference from EMVCo"},
	{Need: "CC CC CC", Name: "dsTransID", Kind: UUID, Leg: DSToACS, DS: true, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "dsURL", Kind: URL, Max: 2048, Leg: DSToACS, DS: true, Doc: "where the ACS sends RReq"},
	{Need: "RR RR RR", Name: "messageCategory", Kind: OneOf, List: "messageCategory", Doc: "payment or non-payment"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 10,
		MaxChars: 81920, Doc: "extension data objects"},
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "AReq", Doc: "kind of message"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version, fixed for the transaction"},
	{Need: "CC CC CC", Name: "threeDSServerOperatorID", Max: 32, Doc: "3DS Server ID assigned by the DS"},
	{Need: "RR RR RR", Name: "threeDSServerRefNumber", Max: 32, Doc: "3DS Server reference from EMVCo"},
	{Need: "RR RR RR", Name: "threeDSServerTransID", Kind: UUID, Doc: "transaction ID set by the 3DS Server"},
	{Need: "RR RR RR", Name: "threeDSServerURL", Kind: URL, Max: 2048, Doc: "where the DS sends RReq"},
	{Need: "C- C- --", Name: "transType", Kind: OneOf, List: "transType", Doc: "ISO 8583 transaction type"},

	// The requestor and what it asks for.
	{Need: "-- RR --", Name: "threeDSCompInd", Kind: OneOf, List: "threeDSCompInd", Doc: "3DS Method completion outcome"},
	{Need: "RR RR --", Name: "threeDSRequestorAuthenticationInd", Kind: OneOf, List: "threeDSRequestorAuthenticationInd",
		Doc: "type of authentication request"},
	{Need: "OO OO --", Name: "threeDSRequestorAuthenticationInfo", Kind: Object,
		Type: "threeDSRequestorAuthenticationInfo", Doc: "how the requestor authenticated the cardholder"},
	{Need: "OO OO --", Name: "threeDSRequestorChallengeInd", Kind: OneOf, List: "threeDSRequestorChallengeInd",
		Doc: "challenge preference"},
	{Need: "RR RR RR", Name: "threeDSRequestorID", Max: 35, Doc: "requestor ID assigned by the DS"},
	{Need: "RR RR RR", Name: "threeDSRequestorName", Max: 40, Doc: "requestor name assigned by the DS"},
	{Need: "OO OO OO", Name: "threeDSRequestorPriorAuthenticationInfo", Kind: Object,
		Type: "threeDSRequestorPriorAuthenticationInfo", Doc: "earlier 3DS authentication of the cardholder"},
	{Need: "RR RR RR", Name: "threeDSRequestorURL", Kind: URL, Max: 2048, Doc: "requestor website or care URL"},
	{Need: "-- -- RR", Name: "threeRIInd", Kind: OneOf, List: "threeRIInd", Doc: "type of 3RI request"},

	// The acquirer and the merchant.
	{Need: "RO RO RO", Name: "acquirerBIN", Max: 11, Doc: "acquirer institution ID"},
	{Need: "RO RO RO", Name: "acquirerMerchantID", Max: 35, Doc: "merchant ID at the acquirer"},
	{Need: "RO RO RO", Name: "mcc", Kind: Digits, Min: 4, Max: 4, Doc: "merchant category code"},
	{Need: "RO RO RO", Name: "merchantCountryCode", Kind: Country, Doc: "merchant country"},
	{Need: "RO RO RO", Name: "merchantName", Max: 40, Doc: "merchant name as in authorisation"},
	{Need: "OO OO OO", Name: "merchantRiskIndicator", Kind: Object, Type: "merchantRiskIndicator",
		Doc: "merchant view of fraud risk"},
	{Need: "-- RR --", Name: "notificationURL", Kind: URL, Max: 256, Doc: "where the browser posts the final CRes"},

	// The card, its holder, the account.
	{Need: "OO OO OO", Name: "acctID", Max: 64, Mask: Secret, Doc: "additional account identifier"},
	{Need: "OO OO OO", Name: "acctInfo", Kind: Object, Type: "acctInfo", Doc: "cardholder account history at requestor"},
	{Need: "RR RR RR", Name: "acctNumber", Kind: Digits, Min: 13, Max: 19, Mask: PAN, Doc: "PAN or payment token"},
	{Need: "CC CC CC", Name: "acctType", Kind: OneOf, List: "acctType", Doc: "account type of multi-account card"},
	{Need: "OO OO --", Name: "addrMatch", Kind: OneOf, List: "addrMatch", Doc: "shipping address equals billing address"},
	{Need: "CC CC CC", Name: "billAddrCity", Max: 50, Mask: Secret, Doc: "billing address city"},
	{Need: "CC CC CC", Name: "billAddrCountry", Kind: Country, When: "present(billAddrState)", Partial: true, Mask: Secret,
		Doc: "billing country"},
	{Need: "CC CC CC", Name: "billAddrLine1", Max: 50, Mask: Secret, Doc: "billing address line1"},
	{Need: "CC CC CC", Name: "billAddrLine2", Max: 50, Mask: Secret, Doc: "billing address line2"},
	{Need: "CC CC CC", Name: "billAddrLine3", Max: 50, Mask: Secret, Doc: "billing address line3"},
	{Need: "CC CC CC", Name: "billAddrPostCode", Max: 16, Mask: Secret, Doc: "billing address postcode"},
	{Need: "CC CC CC", Name: "billAddrState", Max: 3, Mask: Secret,
		Doc: "billing subdivision, ISO 3166-2 without country"},
	{Need: "CC CC CC", Name: "cardExpiryDate", Kind: YearMonth, Mask: Secret, Doc: "card or token expiry"},
	{Need: "CC CC CC", Name: "cardholderName", Min: 2, Max: 45, Mask: Secret, Doc: "cardholder name"},
	{Need: "CC CC CC", Name: "email", Kind: Email, Max: 254, Mask: Secret, Doc: "cardholder email"},
	{Need: "CC CC CC", Name: "homePhone", Kind: Object, Type: "phone", Mask: Secret, Doc: "home phone number"},
	{Need: "CC CC CC", Name: "mobilePhone", Kind: Object, Type: "phone", Mask: Secret, Doc: "mobile phone number"},
	{Need: "CC CC CC", Name: "payTokenInd", Kind: Bool, Doc: "account number was de-tokenised"},
	{Need: "CC CC CC", Name: "shipAddrCity", Max: 50, Mask: Secret, Doc: "shipping address city"},
	{Need: "CC CC CC", Name: "shipAddrCountry", Kind: Country, When: "present(shipAddrState)", Partial: true, Mask: Secret,
		Doc: "shipping country"},
	{Need: "CC CC CC", Name: "shipAddrLine1", Max: 50, Mask: Secret, Doc: "shipping address line1"},
	{Need: "CC CC CC", Name: "shipAddrLine2", Max: 50, Mask: Secret, Doc: "shipping address line2"},
	{Need: "CC CC CC", Name: "shipAddrLine3", Max: 50, Mask: Secret, Doc: "shipping address line3"},
	{Need: "CC CC CC", Name: "shipAddrPostCode", Max: 16, Mask: Secret, Doc: "shipping address postcode"},
	{Need: "CC CC CC", Name: "shipAddrState", Max: 3, Mask: Secret,
		Doc: "shipping subdivision, ISO 3166-2 without country"},
	{Need: "CC CC CC", Name: "workPhone", Kind: Object, Type: "phone", Mask: Secret, Doc: "work phone number"},

	// The purchase.
	{Need: "RC RC --", Name: "purchaseAmount", Kind: Digits, Max: 48, When: recurring210, Doc: "amount in minor units"},
	{Need: "RC RC --", Name: "purchaseCurrency", Kind: Currency, When: recurring210,
		Doc: "purchase currency, ISO 4217 numeric"},
	{Need: "RC RC --", Name: "purchaseDate", Kind: DateTime, When: recurring210, Doc: "purchase time in UTC"},
	{Need: "RC RC --", Name: "purchaseExponent", Kind: Digits, Max: 1, When: recurring210,
		Doc: "minor unit digits of currency"},
	{Need: "CC CC --", Name: "purchaseInstalData", Kind: Digits, Max: 3, Range: &Span{2, 999},
		When: `threeDSRequestorAuthenticationInd == "03"`, Else: Absent, Doc: "maximum instalment authorisations"},
	{Need: "CC CC --", Name: "recurringExpiry", Kind: Date, When: recurring210, Doc: "no authorisation after this date"},
	{Need: "CC CC --", Name: "recurringFrequency", Kind: Digits, Max: 4, Range: &Span{0, 9999}, When: recurring210,
		Doc: "minimum days between authorisations"},

	// The browser.
	{Need: "-- RR --", Name: "browserAcceptHeader", Max: 2048, Doc: "HTTP Accept header, cut at 2048"},
	{Need: "-- RR --", Name: "browserColorDepth", Kind: OneOf, List: "browserColorDepth",
		Doc: "screen colour depth in bits"},
	{Need: "-- CC --", Name: "browserIP", Kind: IP, Max: 45, Mask: Secret, Doc: "browser IP address"},
	{Need: "-- RR --", Name: "browserJavaEnabled", Kind: Bool, Doc: "browser can run Java"},
	{Need: "-- RR --", Name: "browserLanguage", Kind: Language, Max: 8, Doc: "browser language tag"},
	{Need: "-- RR --", Name: "browserScreenHeight", Kind: Digits, Max: 6, Doc: "screen height in pixels"},
	{Need: "-- RR --", Name: "browserScreenWidth", Kind: Digits, Max: 6, Doc: "screen width in pixels"},
	{Need: "-- RR --", Name: "browserTZ", Kind: Offset, Max: 5, Doc: "UTC offset in minutes, positive when behind"},
	{Need: "-- RR --", Name: "browserUserAgent", Max: 2048, Doc: "HTTP User-Agent header, cut at 2048"},

	// The app.
	{Need: "CC -- --", Name: "deviceInfo", Kind: Base64URL, Max: 64000, Leg: DSToACS, DS: true, Mask: Secret,
		Doc: "decrypted device information"},
	{Need: "RR -- --", Name: "deviceRenderOptions", Kind: Object, Type: "deviceRenderOptions",
		Doc: "SDK interfaces and UI types"},
	{Need: "RR -- --", Name: "sdkAppID", Kind: UUID, Doc: "SDK app installation ID"},
	{Need: "CC -- --", Name: "sdkEncData", Kind: JWE, Max: 64000, When: `deviceChannel == "01"`, Else: Absent, Leg: ToDS,
		Mask: Secret, Doc: "device data encrypted for the DS"},
	{Need: "RR -- --", Name: "sdkEphemPubKey", Kind: Object, Type: "jwk", Max: 256, Mask: Secret,
		Doc: "SDK ephemeral public key"},
	{Need: "RR -- --", Name: "sdkMaxTimeout", Kind: Digits, Min: 2, Max: 2, Range: &Span{5, 99},
		Doc: "minutes for all exchanges"},
	{Need: "RR -- --", Name: "sdkReferenceNumber", Max: 32, Doc: "SDK reference from EMVCo"},
	{Need: "RR -- --", Name: "sdkTransID", Kind: UUID, Doc: "transaction ID set by the SDK"},
}

// areq220: the AReq. EMV 3DS 2.2.0, tables A.1 and B.1.
//
//	APP BRW 3RI, for each PA and NPA
var areq220 = areq210.with(rowList{
	// The message and the transaction.
	{Need: "C- C- C-", Name: "transType", Kind: OneOf, List: "transType", Doc: "ISO 8583 transaction type"},

	// The requestor and what it asks for.
	{Need: "CC CC --", Name: "threeDSReqAuthMethodInd", Kind: OneOf, List: "threeDSReqAuthMethodInd", Leg: DSToACS,
		DS: true, Doc: "DS result of verifying requestor authentication"},
	{Need: "CC CC CC", Name: "threeDSRequestorDecMaxTime", Kind: Digits, Min: 5, Max: 5, Range: &Span{1, 10080},
		When: `threeDSRequestorDecReqInd == "Y"`, Doc: "minutes to wait for a decoupled result"},
	{Need: "OO OO OO", Name: "threeDSRequestorDecReqInd", Kind: OneOf, List: "threeDSRequestorDecReqInd",
		Doc: "decoupled authentication request"},
	{Need: "OO OO OO", Name: "whiteListStatus", Kind: OneOf, List: "whiteListStatus", Only: "Y N",
		Doc: "requestor whitelist status"},
	{Need: "CC CC CC", Name: "whiteListStatusSource", Kind: OneOf, List: "whiteListStatusSource",
		When: "present(whiteListStatus)", Else: Absent, Doc: "who set the whitelist status"},

	// The card, its holder, the account.
	{Need: "CC CC CC", Name: "payTokenSource", Kind: OneOf, List: "payTokenSource", When: "payTokenInd == true",
		Else: Absent, Doc: "who de-tokenised"},

	// The purchase.
	{Need: "RC RC RC", Name: "purchaseAmount", Kind: Digits, Max: 48, When: purchase220, Doc: "amount in minor units"},
	{Need: "RC RC RC", Name: "purchaseCurrency", Kind: Currency, When: purchase220,
		Doc: "purchase currency, ISO 4217 numeric"},
	{Need: "RC RC RC", Name: "purchaseDate", Kind: DateTime, When: purchase220, Doc: "purchase time in UTC"},
	{Need: "RC RC RC", Name: "purchaseExponent", Kind: Digits, Max: 1, When: purchase220,
		Doc: "minor unit digits of currency"},
	{Need: "CC CC CC", Name: "purchaseInstalData", Kind: Digits, Max: 3, Range: &Span{2, 999},
		When: `threeDSRequestorAuthenticationInd == "03" or threeRIInd == "02"`, Else: Absent,
		Doc: "maximum instalment authorisations"},
	{Need: "CC CC CC", Name: "recurringExpiry", Kind: Date, When: recurring220, Doc: "no authorisation after this date"},
	{Need: "CC CC CC", Name: "recurringFrequency", Kind: Digits, Max: 4, Range: &Span{0, 9999}, When: recurring220,
		Doc: "minimum days between authorisations"},

	// The browser.
	{Need: "-- CC --", Name: "browserColorDepth", Kind: OneOf, List: "browserColorDepth", When: javascript,
		Doc: "screen colour depth in bits"},
	{Need: "-- CC --", Name: "browserJavaEnabled", Kind: Bool, When: javascript, Doc: "browser can run Java"},
	{Need: "-- RR --", Name: "browserJavascriptEnabled", Kind: Bool, Doc: "browser can run JavaScript"},
	{Need: "-- CC --", Name: "browserScreenHeight", Kind: Digits, Max: 6, When: javascript,
		Doc: "screen height in pixels"},
	{Need: "-- CC --", Name: "browserScreenWidth", Kind: Digits, Max: 6, When: javascript, Doc: "screen width in pixels"},
	{Need: "-- CC --", Name: "browserTZ", Kind: Offset, Max: 5, When: javascript,
		Doc: "UTC offset in minutes, positive when behind"},
})

// areq231: the AReq. EMV 3DS 2.3.1, tables A.1 and B.1.
//
//	APP BRW 3RI, for each PA and NPA
var areq231 = areq220.without("threeDSReqAuthMethodInd", "whiteListStatus", "whiteListStatusSource").with(rowList{
	// The message and the transaction.
	{Need: "OO OO OO", Name: "broadInfo", Kind: Object, Type: "broadInfo", Max: 4096,
		Doc: "structured broadcast information"},
	{Need: "CC CC CC", Name: "messageExtension", Kind: Object, Type: "messageExtension", Array: true, Max: 15,
		MaxChars: 81920, Doc: "extension data objects"},

	// The requestor and what it asks for.
	{Need: "OO OO OO", Name: "deviceBindingStatus", Kind: OneOf, List: "deviceBindingStatus",
		Doc: "device binding status"},
	{Need: "CC CC CC", Name: "deviceBindingStatusSource", Kind: OneOf, List: "deviceBindingStatusSource",
		When: "present(deviceBindingStatus)", Else: Absent, Doc: "who set the device binding status"},
	{Need: "-- CC --", Name: "payeeOrigin", Kind: URL, Max: 2048, HTTPS: true, When: `threeDSRequestorSpcSupport == "Y"`,
		Else: Absent, Doc: "payee origin for SPC"},
	{Need: "-- CC --", Name: "spcIncompInd", Kind: OneOf, List: "spcIncompInd", Doc: "why SPC did not complete"},
	{Need: "-- CC --", Name: "threeDSMethodId", Kind: UUID, Doc: "server trans ID of an earlier 3DS Method run"},
	{Need: "OO OO OO", Name: "threeDSRequestorAuthenticationInfo", Kind: Object,
		Type: "threeDSRequestorAuthenticationInfo", Array: true, Max: 3,
		Doc: "how the requestor authenticated the cardholder"},
	{Need: "OO OO OO", Name: "threeDSRequestorChallengeInd", Kind: OneOf, List: "threeDSRequestorChallengeInd",
		Array: true, Max: 2, Doc: "challenge preferences in order"},
	{Need: "CC CC CC", Name: "threeDSRequestorDecMaxTime", Kind: Digits, Min: 5, Max: 5, Range: &Span{1, 10080},
		When: `threeDSRequestorDecReqInd in ["Y","F","B"]`, Doc: "minutes to wait for a decoupled result"},
	{Need: "CC CC CC", Name: "threeDSRequestorPriorAuthenticationInfo", Kind: Object,
		Type: "threeDSRequestorPriorAuthenticationInfo", Array: true, Max: 3, When: `threeRIInd == "19"`, Partial: true,
		Doc: "earlier 3DS authentications of the cardholder"},
	{Need: "-- CC --", Name: "threeDSRequestorSpcSupport", Kind: OneOf, List: "threeDSRequestorSpcSupport",
		Doc: "requestor supports SPC"},
	{Need: "OO OO OO", Name: "trustListStatus", Kind: OneOf, List: "trustListStatus", Only: "Y N",
		Doc: "requestor trust list status"},
	{Need: "CC CC CC", Name: "trustListStatusSource", Kind: OneOf, List: "trustListStatusSource",
		When: "present(trustListStatus)", Else: Absent, Doc: "who set the trust list status"},

	// The acquirer and the merchant.
	{Need: "RR RR RR", Name: "acquirerCountryCode", Kind: Country, Doc: "acquirer country"},
	{Need: "RR RR RR", Name: "acquirerCountryCodeSource", Kind: OneOf, List: "acquirerCountryCodeSource",
		Doc: "who set the acquirer country"},
	{Need: "OO OO OO", Name: "multiTransaction", Kind: Object, Type: "multiTransaction",
		Doc: "several merchants or transactions"},
	{Need: "-- RR --", Name: "notificationURL", Kind: URL, Max: 256, HTTPS: true,
		Doc: "where the browser posts the final CRes"},
	{Need: "OO OO OO", Name: "sellerInfo", Kind: Object, Type: "sellerInfo", Array: true, Max: 50,
		Doc: "sellers behind a marketplace"},

	// The card, its holder, the account.
	{Need: "CC CC CC", Name: "cardholderName", Max: 45, Mask: Secret, Doc: "cardholder name"},
	{Need: "CC CC CC", Name: "cardSecurityCode", Kind: Digits, Min: 3, Max: 4, Mask: Secret,
		Doc: "printed card security code"},
	{Need: "CC CC CC", Name: "cardSecurityCodeStatus", Kind: OneOf, List: "cardSecurityCodeStatus", Leg: DSToACS, DS: true,
		Doc: "security code check result"},
	{Need: "CC CC CC", Name: "cardSecurityCodeStatusSource", Kind: OneOf, List: "cardSecurityCodeStatusSource",
		When: "present(cardSecurityCodeStatus)", Else: Absent, Leg: DSToACS, DS: true,
		Doc: "who set the security code status"},
	{Need: "-- CC --", Name: "deviceId", Max: 64, Mask: Secret, Doc: "stable device identifier"},
	{Need: "OO OO OO", Name: "payTokenInfo", Kind: Object, Type: "payTokenInfo", Doc: "de-tokenised token details"},
	{Need: "CC CC CC", Name: "taxId", Max: 45, Mask: Secret, Doc: "cardholder tax ID"},
	{Need: "-- CC --", Name: "userId", Max: 64, Mask: Secret, Doc: "hashed browser account ID"},

	// The purchase.
	{Need: "RC RC RC", Name: "purchaseAmount", Kind: Digits, Max: 48, When: purchase231, Doc: "amount in minor units"},
	{Need: "RC RC RC", Name: "purchaseCurrency", Kind: Currency, When: purchase231,
		Doc: "purchase currency, ISO 4217 numeric"},
	{Need: "RC RC RC", Name: "purchaseDate", Kind: DateTime, When: purchase231, Doc: "purchase time in UTC"},
	{Need: "RC RC RC", Name: "purchaseExponent", Kind: Digits, Max: 1, When: purchase231,
		Doc: "minor unit digits of currency"},
	{Need: "CC CC CC", Name: "recurringAmount", Kind: Digits, Max: 48,
		When: `(threeDSRequestorAuthenticationInd in ["02","03"] or threeRIInd in ["01","02"]) and recurringInd.amountInd == "01"`,
		Doc:  "recurring amount in minor units"},
	{Need: "CC CC CC", Name: "recurringCurrency", Kind: Currency, When: "present(recurringAmount)", Else: Absent,
		Doc: "recurring amount currency"},
	{Need: "CC CC CC", Name: "recurringDate", Kind: Date, When: `recurringInd.frequencyInd == "01"`,
		Doc: "when the new recurring amount starts"},
	{Need: "CC CC CC", Name: "recurringExpiry", Kind: Date, Doc: "no authorisation after this date"},
	{Need: "CC CC CC", Name: "recurringExponent", Kind: Digits, Max: 1, When: "present(recurringAmount)", Else: Absent,
		Doc: "minor unit digits of recurring currency"},
	{Need: "CC CC CC", Name: "recurringFrequency", Kind: Digits, Max: 4, Range: &Span{1, 9999},
		When: `recurringInd.frequencyInd == "01"`, Doc: "minimum days between authorisations"},
	{Need: "CC CC CC", Name: "recurringInd", Kind: Object, Type: "recurringInd", When: recurring220,
		Doc: "fixed or variable amount and frequency"},

	// The browser.
	{Need: "-- RR --", Name: "acceptLanguage", Array: true, Max: 99, ItemMax: 100,
		Doc: "browser language preferences from HTTP header"},
	{Need: "-- CC --", Name: "browserColorDepth", Kind: Digits, Max: 2, Range: &Span{1, 99}, When: javascript,
		Doc: "screen colour depth in bits"},
	{Need: "-- CC --", Name: "browserLanguage", Kind: Language, Max: 35, When: javascript, Doc: "browser language tag"},

	// The app.
	{Need: "CC -- --", Name: "appIp", Kind: IP, Max: 45, Mask: Secret, Doc: "public IP of the requestor app"},
	{Need: "CC -- --", Name: "defaultSdkType", Kind: Object, Type: "defaultSdkType", When: `sdkType == "01"`, Else: Absent,
		Doc: "Default-SDK characteristics"},
	{Need: "CC -- --", Name: "sdkServerSignedContent", Kind: JWS, When: `sdkType == "02"`, Else: Absent, Mask: Secret,
		Doc: "JWS made by the Split-SDK server"},
	{Need: "RR -- --", Name: "sdkType", Kind: OneOf, List: "sdkType", Doc: "kind of SDK"},
	{Need: "CC -- --", Name: "splitSdkType", Kind: Object, Type: "splitSdkType", When: `sdkType == "02"`, Else: Absent,
		Doc: "Split-SDK characteristics"},
})
