package message

// objectRows are the rows of all nested objects.
var objectRows = map[string]rowsByVersion{
	"acctInfo":           {V210: acctInfoRows210, V220: acctInfoRows210, V231: acctInfoRows231},
	"acsProtocolVersion": {V231: acsProtocolVersionRows231},
	"acsRenderingType": {V210: acsRenderingTypeRows210, V220: acsRenderingTypeRows210,
		V231: acsRenderingTypeRows231},
	"broadInfo":               {V231: broadInfoRows231},
	"browserChallengeForm":    sameRows(browserChallengeFormRows210...),
	"cardRange":               {V210: cardRangeRows210, V220: cardRangeRows220, V231: cardRangeRows231},
	"cardRangeBounds":         {V231: cardRangeBoundsRows231},
	"cardholderInfo":          {V231: cardholderInfoRows231},
	"challengeErrorReporting": {V231: challengeErrorReportingRows231},
	"defaultSdkType":          {V231: defaultSdkTypeRows231},
	"deviceRenderOptions": {V210: deviceRenderOptionsRows210, V220: deviceRenderOptionsRows210,
		V231: deviceRenderOptionsRows231},
	"dsUrl":             {V231: dsURLRows231},
	"jwk":               sameRows(jwkRows210...),
	"merchantListEntry": {V231: merchantListEntryRows231},
	"merchantRiskIndicator": {V210: merchantRiskIndicatorRows210, V220: merchantRiskIndicatorRows210,
		V231: merchantRiskIndicatorRows231},
	"messageExtension": sameRows(extensionEntryRows210...),
	"multiTransaction": {V231: multiTransactionRows231},
	"opPriorTransRef":  {V231: opPriorTransRefRows231},
	"opSeq":            {V231: opSeqRows231},
	"payTokenInfo":     {V231: payTokenInfoRows231},
	"phone":            sameRows(phoneRows210...),
	"recurringInd":     {V231: recurringIndRows231},
	"sellerInfo":       {V231: sellerInfoRows231},
	"spcImage":         {V231: spcImageRows231},
	"spcTransData":     {V231: spcTransDataRows231},
	"splitSdkType":     {V231: splitSdkTypeRows231},
	"supportedMsgExt":  {V231: supportedMsgExtRows231},
	"threeDSMethodData": {V210: threeDSMethodDataRows210, V220: threeDSMethodDataRows210,
		V231: threeDSMethodDataRows231},
	"threeDSRequestorAuthenticationInfo": {V210: threeDSRequestorAuthenticationInfoRows210,
		V220: threeDSRequestorAuthenticationInfoRows220, V231: threeDSRequestorAuthenticationInfoRows231},
	"threeDSRequestorPriorAuthenticationInfo": {V210: threeDSRequestorPriorAuthenticationInfoRows210,
		V220: threeDSRequestorPriorAuthenticationInfoRows210, V231: threeDSRequestorPriorAuthenticationInfoRows231},
	"webAuthnCred": {V231: webAuthnCredRows231},
}

// acctInfoRows210: the object acctInfo. EMV 3DS 2.1.0, annex A.
var acctInfoRows210 = rowList{
	{Need: "OO OO OO", Name: "chAccAgeInd", Kind: OneOf, List: "chAccAgeInd", Doc: "age of the account"},
	{Need: "OO OO OO", Name: "chAccChange", Kind: Date, Doc: "date of last account change"},
	{Need: "OO OO OO", Name: "chAccChangeInd", Kind: OneOf, List: "chAccChangeInd", Doc: "time since account change"},
	{Need: "OO OO OO", Name: "chAccDate", Kind: Date, Doc: "date the account was opened"},
	{Need: "OO OO OO", Name: "chAccPwChange", Kind: Date, Doc: "date of last password change"},
	{Need: "OO OO OO", Name: "chAccPwChangeInd", Kind: OneOf, List: "chAccPwChangeInd", Doc: "time since password change"},
	{Need: "OO OO OO", Name: "nbPurchaseAccount", Kind: Digits, Max: 4, Doc: "purchases in six months"},
	{Need: "OO OO OO", Name: "provisionAttemptsDay", Kind: Digits, Max: 3, Doc: "add-card attempts in 24 hours"},
	{Need: "OO OO OO", Name: "txnActivityDay", Kind: Digits, Max: 3, Doc: "transactions in 24 hours"},
	{Need: "OO OO OO", Name: "txnActivityYear", Kind: Digits, Max: 3, Doc: "transactions in the last year"},
	{Need: "OO OO OO", Name: "paymentAccAge", Kind: Date, Doc: "date payment account was enrolled"},
	{Need: "OO OO OO", Name: "paymentAccInd", Kind: OneOf, List: "paymentAccInd", Doc: "age of the payment account"},
	{Need: "OO OO OO", Name: "shipAddressUsage", Kind: Date, Doc: "first use of shipping address"},
	{Need: "OO OO OO", Name: "shipAddressUsageInd", Kind: OneOf, List: "shipAddressUsageInd",
		Doc: "time since first use of address"},
	{Need: "OO OO OO", Name: "shipNameIndicator", Kind: OneOf, List: "shipNameIndicator", Doc: "names match"},
	{Need: "OO OO OO", Name: "suspiciousAccActivity", Kind: OneOf, List: "suspiciousAccActivity",
		Doc: "suspicious activity seen"},
}

// acctInfoRows231: the object acctInfo. EMV 3DS 2.3.1, annex A.
var acctInfoRows231 = acctInfoRows210.with(rowList{
	{Need: "OO OO OO", Name: "nbPurchaseAccount", Kind: Digits, Max: 4, Range: &Span{0, 999},
		Doc: "purchases in six months"},
	{Need: "OO OO OO", Name: "chAccReqID", Max: 64, Mask: Secret, Doc: "hashed requestor account ID"},
})

// acsProtocolVersionRows231: the object acsProtocolVersion. EMV 3DS 2.3.1, annex A.
var acsProtocolVersionRows231 = rowList{
	{Need: "RR RR RR", Name: "version", Kind: Dotted, SupportedVersion: true, Doc: "protocol version"},
	{Need: "OO OO OO", Name: "acsInfoInd", Kind: OneOf, List: "acsInfoInd", Array: true, Max: 99, Doc: "ACS features"},
	{Need: "OO OO OO", Name: "threeDSMethodURL", Kind: URL, Max: 2048, Browser: true, Unchecked: true,
		Doc: "3DS Method URL"},
	{Need: "CC CC CC", Name: "supportedMsgExt", Kind: Object, Type: "supportedMsgExt", Array: true, Max: 15,
		Doc: "supported extensions"},
}

// acsRenderingTypeRows210: the object acsRenderingType. EMV 3DS 2.1.0, annex A.
var acsRenderingTypeRows210 = rowList{
	{Need: "RR RR RR", Name: "acsInterface", Kind: OneOf, List: "acsInterface", Doc: "ACS interface"},
	{Need: "RR RR RR", Name: "acsUiTemplate", Kind: OneOf, List: "acsUiTemplate", Doc: "ACS UI template"},
}

// acsRenderingTypeRows231: the object acsRenderingType. EMV 3DS 2.3.1, annex A.
var acsRenderingTypeRows231 = acsRenderingTypeRows210.with(rowList{
	{Need: "RR RR RR", Name: "deviceUserInterfaceMode", Kind: OneOf, List: "deviceUserInterfaceMode", Doc: "UI mode"},
})

// broadInfoRows231: the object broadInfo. EMV 3DS 2.3.1, annex A.
var broadInfoRows231 = rowList{
	{Need: "RR RR RR", Name: "category", Kind: OneOf, List: "broadCategory", Doc: "kind of information"},
	{Need: "OO OO OO", Name: "description", Max: 4000, Doc: "information text"},
	{Need: "OO OO OO", Name: "expDate", Kind: Date, Doc: "relevant until"},
	{Need: "RR RR RR", Name: "severity", Kind: OneOf, List: "broadSeverity", Doc: "importance"},
	{Need: "RR RR RR", Name: "recipients", Kind: OneOf, List: "broadRecipient", Array: true, Max: 3,
		Doc: "intended recipients"},
	{Need: "RR RR RR", Name: "source", Kind: OneOf, List: "broadSource", Doc: "originator"},
}

// browserChallengeFormRows210: the object browserChallengeForm. EMV 3DS 2.1.0, annex A.
var browserChallengeFormRows210 = rowList{
	{Need: "-- CC --", Name: "creq", Kind: Base64URL, Mask: Secret, Doc: "whole CReq encoded"},
	{Need: "-- CC --", Name: "cres", Kind: Base64URL, Mask: Secret, Doc: "whole CRes encoded"},
	{Need: "-- OO --", Name: "threeDSSessionData", Kind: Base64URL, Max: 1024, Mask: Secret,
		Doc: "requestor session data, echoed by ACS"},
}

// cardRangeRows210: the object cardRange. EMV 3DS 2.1.0, annex A.
var cardRangeRows210 = rowList{
	{Need: "RR RR RR", Name: "startRange", Kind: Digits, Min: 13, Max: 19, Doc: "first account number"},
	{Need: "RR RR RR", Name: "endRange", Kind: Digits, Min: 13, Max: 19, Doc: "last account number"},
	{Need: "OO OO OO", Name: "actionInd", Kind: OneOf, List: "actionInd", Doc: "what to do with the range"},
	{Need: "RR RR RR", Name: "acsStartProtocolVersion", Kind: Dotted, Doc: "oldest active ACS version"},
	{Need: "RR RR RR", Name: "acsEndProtocolVersion", Kind: Dotted, Doc: "newest active ACS version"},
	{Need: "OO OO OO", Name: "dsStartProtocolVersion", Kind: Dotted, Doc: "oldest active DS version"},
	{Need: "OO OO OO", Name: "dsEndProtocolVersion", Kind: Dotted, Doc: "newest active DS version"},
	{Need: "OO OO OO", Name: "threeDSMethodURL", Kind: URL, Max: 256, Browser: true, Unchecked: true,
		Doc: "3DS Method URL"},
}

// cardRangeRows220: the object cardRange. EMV 3DS 2.2.0, annex A.
var cardRangeRows220 = cardRangeRows210.with(rowList{
	{Need: "OO OO OO", Name: "acsInfoInd", Kind: OneOf, List: "acsInfoInd", Array: true, Doc: "ACS features"},
})

// cardRangeRows231: the object cardRange. EMV 3DS 2.3.1, annex A.
var cardRangeRows231 = cardRangeRows220.without("startRange", "endRange", "acsStartProtocolVersion",
	"acsEndProtocolVersion", "dsStartProtocolVersion", "dsEndProtocolVersion", "threeDSMethodURL",
	"acsInfoInd").with(rowList{
	{Need: "RR RR RR", Name: "ranges", Kind: Object, Type: "cardRangeBounds", Array: true, Max: 5000,
		Doc: "start and end pairs"},
	{Need: "OO OO OO", Name: "issuerCountryCode", Kind: Country, Doc: "issuer country"},
	{Need: "OO OO OO", Name: "dsProtocolVersions", Kind: Dotted, Array: true, Max: 10, SupportedVersion: true,
		Doc: "DS versions, overrides the PRes list"},
	{Need: "RR RR RR", Name: "acsProtocolVersions", Kind: Object, Type: "acsProtocolVersion", Array: true, Max: 10,
		Doc: "ACS versions with features"},
})

// cardRangeBoundsRows231: the object cardRangeBounds. EMV 3DS 2.3.1, annex A.
var cardRangeBoundsRows231 = rowList{
	{Need: "RR RR RR", Name: "start", Kind: Digits, Min: 13, Max: 19, Doc: "first account number"},
	{Need: "RR RR RR", Name: "end", Kind: Digits, Min: 13, Max: 19, Doc: "last account number"},
}

// cardholderInfoRows231: the object cardholderInfo. EMV 3DS 2.3.1, annex A.
var cardholderInfoRows231 = rowList{
	{Need: "RR RR RR", Name: "text", Max: 128, Doc: "text for the cardholder"},
	{Need: "OO OO OO", Name: "issuerImage", Kind: URL, Max: 256, Doc: "issuer image"},
	{Need: "OO OO OO", Name: "paymentSystemImage", Kind: URL, Max: 256, Doc: "payment system image"},
}

// challengeErrorReportingRows231: the object challengeErrorReporting. EMV 3DS 2.3.1, annex A.
var challengeErrorReportingRows231 = rowList{
	{Need: "RR RR RR", Name: "messageType", Kind: OneOf, List: "messageType", Only: "Erro", Doc: "always Erro"},
	{Need: "RR RR RR", Name: "messageVersion", Kind: Dotted, Doc: "protocol version"},
	{Need: "CC CC CC", Name: "threeDSServerTransID", Kind: UUID, Else: Absent,
		Doc: "transaction ID set by the 3DS Server"},
	{Need: "CC CC CC", Name: "acsTransID", Kind: UUID, Else: Absent, Doc: "transaction ID set by the ACS"},
	{Need: "CC CC CC", Name: "dsTransID", Kind: UUID, Else: Absent, Doc: "transaction ID set by the DS"},
	{Need: "CC CC CC", Name: "sdkTransID", Kind: UUID, Else: Absent, Doc: "transaction ID set by the SDK"},
	{Need: "RR RR RR", Name: "errorCode", Kind: OneOf, List: "errorCode", Doc: "problem code"},
	{Need: "RR RR RR", Name: "errorComponent", Kind: OneOf, List: "errorComponent", Doc: "component that found the error"},
	{Need: "RR RR RR", Name: "errorDescription", Max: 2048, Doc: "problem text"},
	{Need: "RR RR RR", Name: "errorDetail", Max: 2048, Doc: "elements or details concerned"},
	{Need: "CC CC CC", Name: "errorMessageType", Kind: OneOf, List: "messageType", Doc: "type of the erroneous message"},
}

// defaultSdkTypeRows231: the object defaultSdkType. EMV 3DS 2.3.1, annex A.
var defaultSdkTypeRows231 = rowList{
	{Need: "RR RR RR", Name: "sdkVariant", Kind: OneOf, List: "defaultSdkVariant", Doc: "SDK variant"},
	{Need: "OO OO OO", Name: "wrappedInd", Kind: OneOf, List: "wrappedInd", Doc: "embedded as wrapped component"},
}

// deviceRenderOptionsRows210: the object deviceRenderOptions. EMV 3DS 2.1.0, annex A.
var deviceRenderOptionsRows210 = rowList{
	{Need: "RR RR RR", Name: "sdkInterface", Kind: OneOf, List: "sdkInterface", Doc: "supported interfaces"},
	{Need: "RR RR RR", Name: "sdkUiType", Kind: OneOf, List: "sdkUiType", Array: true, Max: 5, Doc: "supported UI types"},
}

// deviceRenderOptionsRows231: the object deviceRenderOptions. EMV 3DS 2.3.1, annex A.
var deviceRenderOptionsRows231 = deviceRenderOptionsRows210.with(rowList{
	{Need: "RR RR RR", Name: "sdkUiType", Kind: OneOf, List: "sdkUiType", Array: true, Max: 7, Doc: "supported UI types"},
	{Need: "OO OO OO", Name: "sdkAuthenticationType", Kind: OneOf, List: "sdkAuthenticationType", Array: true, Max: 99,
		Doc: "preferred authentication methods"},
})

// dsURLRows231: the object dsUrl. EMV 3DS 2.3.1, annex A.
var dsURLRows231 = rowList{
	{Need: "RR RR RR", Name: "threeDSServerToDsUrl", Kind: URL, Max: 2048, Doc: "URL towards the DS"},
	{Need: "OO OO OO", Name: "dsCountryCode", Kind: Country, Doc: "country of the URL"},
}

// jwkRows210: the object jwk. EMV 3DS 2.1.0, annex A.
var jwkRows210 = rowList{
	{Need: "RR RR RR", Name: "kty", Mask: Secret, Doc: "key type, EC"},
	{Need: "RR RR RR", Name: "crv", Mask: Secret, Doc: "curve, P-256"},
	{Need: "RR RR RR", Name: "x", Kind: Base64URL, Mask: Secret, Doc: "x coordinate"},
	{Need: "RR RR RR", Name: "y", Kind: Base64URL, Mask: Secret, Doc: "y coordinate"},
}

// merchantListEntryRows231: the object merchantListEntry. EMV 3DS 2.3.1, annex A.
var merchantListEntryRows231 = rowList{
	{Need: "RR RR RR", Name: "merchantNameListed", Max: 40, Doc: "listed merchant name"},
	{Need: "OO OO OO", Name: "acquirerMerchantIdListed", Max: 15, Doc: "listed merchant ID"},
	{Need: "OO OO OO", Name: "merchantAmount", Kind: Digits, Max: 48, Doc: "amount in minor units"},
	{Need: "CC CC CC", Name: "merchantCurrency", Kind: Currency, When: "present(merchantAmount)", Else: Absent,
		Doc: "merchant amount currency"},
	{Need: "CC CC CC", Name: "merchantExponent", Kind: Digits, Max: 1, When: "present(merchantAmount)", Else: Absent,
		Doc: "minor unit digits"},
	{Need: "OO OO OO", Name: "sellerId", Max: 50, Doc: "link to sellerInfo"},
}

// merchantRiskIndicatorRows210: the object merchantRiskIndicator. EMV 3DS 2.1.0, annex A.
var merchantRiskIndicatorRows210 = rowList{
	{Need: "OO OO OO", Name: "deliveryEmailAddress", Kind: Email, Max: 254, Mask: Secret,
		Doc: "electronic delivery email"},
	{Need: "OO OO OO", Name: "deliveryTimeframe", Kind: OneOf, List: "deliveryTimeframe", Doc: "delivery time"},
	{Need: "OO OO OO", Name: "giftCardAmount", Kind: Digits, Max: 15, Doc: "gift card total in major units"},
	{Need: "OO OO OO", Name: "giftCardCount", Kind: Digits, Min: 2, Max: 2, Doc: "number of gift cards"},
	{Need: "OO OO OO", Name: "giftCardCurr", Kind: Currency, Doc: "gift card currency"},
	{Need: "OO OO OO", Name: "preOrderDate", Kind: Date, Doc: "expected availability date"},
	{Need: "OO OO OO", Name: "preOrderPurchaseInd", Kind: OneOf, List: "preOrderPurchaseInd", Doc: "pre-order"},
	{Need: "OO OO OO", Name: "reorderItemsInd", Kind: OneOf, List: "reorderItemsInd", Doc: "reorder"},
	{Need: "OO OO OO", Name: "shipIndicator", Kind: OneOf, List: "shipIndicator", Doc: "shipping method"},
}

// merchantRiskIndicatorRows231: the object merchantRiskIndicator. EMV 3DS 2.3.1, annex A.
var merchantRiskIndicatorRows231 = merchantRiskIndicatorRows210.with(rowList{
	{Need: "OO OO OO", Name: "deliveryEmailAddress", Max: 254, Mask: Secret, Doc: "electronic delivery email"},
	{Need: "OO OO OO", Name: "transChar", Kind: OneOf, List: "transChar", Array: true, Max: 2,
		Doc: "special transaction kinds"},
})

// extensionEntryRows210: the object messageExtension. EMV 3DS 2.1.0, annex A.
var extensionEntryRows210 = rowList{
	{Need: "RR RR RR", Name: "criticalityIndicator", Kind: Bool, Doc: "recipient must understand it"},
	{Need: "RR RR RR", Name: "data", Kind: JSON, Max: 8059, Doc: "extension payload"},
	{Need: "RR RR RR", Name: "id", Max: 64, Doc: "extension ID, RID prefix"},
	{Need: "RR RR RR", Name: "name", Max: 64, Doc: "extension name"},
}

// multiTransactionRows231: the object multiTransaction. EMV 3DS 2.3.1, annex A.
var multiTransactionRows231 = rowList{
	{Need: "RR RR RR", Name: "merchantList", Kind: Object, Type: "merchantListEntry", Array: true, Max: 50,
		Doc: "merchants involved"},
	{Need: "CC CC CC", Name: "avValidityTime", Kind: Digits, Max: 3, Range: &Span{0, 999}, Doc: "days the value is valid"},
	{Need: "CC CC CC", Name: "avNumberUse", Kind: Digits, Max: 2, Range: &Span{0, 99}, Doc: "uses of the value"},
}

// payTokenInfoRows231: the object payTokenInfo. EMV 3DS 2.3.1, annex A.
var payTokenInfoRows231 = rowList{
	{Need: "OO OO OO", Name: "token", Kind: Digits, Min: 13, Max: 19, Mask: Secret, Doc: "payment token"},
	{Need: "OO OO OO", Name: "tokenAdditionalData", Kind: JSON, Max: 500, Mask: Secret, Doc: "token service data"},
	{Need: "OO OO OO", Name: "tokenAssuranceMethod", Kind: Alnum, Min: 2, Max: 2, DS: true, Doc: "token ID&V method"},
	{Need: "OO OO OO", Name: "tokenRequestorId", Kind: Digits, Min: 11, Max: 11, DS: true, Doc: "token requestor ID"},
	{Need: "OO OO OO", Name: "tokenCryptogram", Max: 4000, Mask: Secret, Doc: "token cryptogram"},
	{Need: "OO OO OO", Name: "tokenCryptogramValidityIndicator", Kind: OneOf, List: "tokenCryptogramValidityIndicator",
		DS: true, Doc: "cryptogram check result"},
	{Need: "OO OO OO", Name: "tokenStatusIndicator", Max: 40, Doc: "token status"},
}

// phoneRows210: the object phone. EMV 3DS 2.1.0, annex A.
var phoneRows210 = rowList{
	{Need: "RR RR RR", Name: "cc", Kind: Digits, Max: 3, Mask: Secret, Doc: "country code"},
	{Need: "RR RR RR", Name: "subscriber", Kind: Digits, Max: 15, Mask: Secret, Doc: "subscriber number"},
}

// recurringIndRows231: the object recurringInd. EMV 3DS 2.3.1, annex A.
var recurringIndRows231 = rowList{
	{Need: "RR RR RR", Name: "amountInd", Kind: OneOf, List: "amountInd", Doc: "amount fixed or variable"},
	{Need: "RR RR RR", Name: "frequencyInd", Kind: OneOf, List: "frequencyInd", Doc: "frequency fixed or variable"},
}

// sellerInfoRows231: the object sellerInfo. EMV 3DS 2.3.1, annex A.
var sellerInfoRows231 = rowList{
	{Need: "RR RR RR", Name: "sellerName", Max: 100, Doc: "seller name"},
	{Need: "CC CC CC", Name: "sellerId", Max: 50, When: "present(areq.multiTransaction.merchantList.sellerId)",
		Partial: true, Doc: "seller ID"},
	{Need: "OO OO OO", Name: "sellerBusinessName", Max: 100, Doc: "business name"},
	{Need: "OO OO OO", Name: "sellerAccDate", Kind: Date, Doc: "seller since"},
	{Need: "OO OO OO", Name: "sellerAddrLine1", Max: 50, Mask: Secret, Doc: "seller address line1"},
	{Need: "OO OO OO", Name: "sellerAddrLine2", Max: 50, Mask: Secret, Doc: "seller address line2"},
	{Need: "OO OO OO", Name: "sellerAddrLine3", Max: 50, Mask: Secret, Doc: "seller address line3"},
	{Need: "OO OO OO", Name: "sellerAddrCity", Max: 50, Mask: Secret, Doc: "seller address city"},
	{Need: "OO OO OO", Name: "sellerAddrState", Max: 3, Mask: Secret,
		Doc: "seller subdivision, ISO 3166-2 without country"},
	{Need: "OO OO OO", Name: "sellerAddrPostCode", Max: 16, Mask: Secret, Doc: "seller address postcode"},
	{Need: "OO OO OO", Name: "sellerAddrCountry", Kind: Country, Mask: Secret, Doc: "seller country"},
	{Need: "OO OO OO", Name: "sellerEmail", Kind: Email, Max: 254, Mask: Secret, Doc: "seller email"},
	{Need: "OO OO OO", Name: "sellerPhone", Kind: Object, Type: "phone", Mask: Secret, Doc: "seller phone"},
}

// spcImageRows231: the object spcImage. EMV 3DS 2.3.1, annex A.
var spcImageRows231 = rowList{
	{Need: "RR RR RR", Name: "default", Max: 30000, Doc: "default image URL or data URL"},
	{Need: "OO OO OO", Name: "dark", Max: 30000, Doc: "dark image URL or data URL"},
	{Need: "OO OO OO", Name: "monochrome", Max: 30000, Doc: "monochrome image URL or data URL"},
}

// spcTransDataRows231: the object spcTransData. EMV 3DS 2.3.1, annex A.
var spcTransDataRows231 = rowList{
	{Need: "OO OO OO", Name: "additionalData", Kind: JSON, Max: 90000, Mask: Secret, Doc: "future SPC data"},
	{Need: "RR RR RR", Name: "challenge", Kind: Base64URL, Min: 43, Max: 100, Mask: Secret,
		Doc: "random anti-replay string"},
	{Need: "CC CC CC", Name: "challengeInfoText", Max: 350, Doc: "text shown in SPC"},
	{Need: "RR RR RR", Name: "currency", Kind: CurrencyAlpha, Doc: "display currency, alphabetic"},
	{Need: "RR RR RR", Name: "displayName", Max: 40, Doc: "card or product name"},
	{Need: "RR RR RR", Name: "icon", Max: 4096, Doc: "card image URL or data URL"},
	{Need: "CC CC CC", Name: "issuerImageSpc", Kind: Object, Type: "spcImage", Max: 90000, Doc: "issuer logos"},
	{Need: "CC CC CC", Name: "payeeName", Max: 40, When: "absent(payeeOrigin)", Doc: "payee display name"},
	{Need: "CC CC CC", Name: "payeeOrigin", Kind: URL, Max: 2048, When: "absent(payeeName)", Doc: "payee origin"},
	{Need: "CC CC CC", Name: "psImageSpc", Kind: Object, Type: "spcImage", Max: 90000, Doc: "payment system logos"},
	{Need: "RR RR RR", Name: "timeout", Kind: Digits, Min: 5, Max: 6, Range: &Span{60000, 500000},
		Doc: "milliseconds until timeout"},
	{Need: "RR RR RR", Name: "value", Max: 40, Doc: "decimal amount shown"},
	{Need: "OO OO OO", Name: "extInd", Kind: OneOf, List: "extInd", Doc: "WebAuthn extension requested"},
}

// splitSdkTypeRows231: the object splitSdkType. EMV 3DS 2.3.1, annex A.
var splitSdkTypeRows231 = rowList{
	{Need: "RR RR RR", Name: "sdkVariant", Kind: OneOf, List: "splitSdkVariant", Doc: "client variant"},
	{Need: "OO OO OO", Name: "limitedInd", Kind: OneOf, List: "limitedInd", Doc: "limited capabilities"},
}

// supportedMsgExtRows231: the object supportedMsgExt. EMV 3DS 2.3.1, annex A.
var supportedMsgExtRows231 = rowList{
	{Need: "RR RR RR", Name: "id", Min: 14, Max: 14, Doc: "assigned extension group identifier"},
	{Need: "RR RR RR", Name: "version", Min: 3, Max: 3, Doc: "extension version"},
}

// threeDSMethodDataRows210: the object threeDSMethodData. EMV 3DS 2.1.0, annex A.
var threeDSMethodDataRows210 = rowList{
	{Need: "-- CC --", Name: "threeDSMethodNotificationURL", Kind: URL, Max: 256, Doc: "where the ACS reports completion"},
	{Need: "-- RR --", Name: "threeDSServerTransID", Kind: UUID, Doc: "same ID as in AReq"},
}

// threeDSMethodDataRows231: the object threeDSMethodData. EMV 3DS 2.3.1, annex A.
var threeDSMethodDataRows231 = threeDSMethodDataRows210.with(rowList{
	{Need: "-- CC --", Name: "threeDSMethodNotificationURL", Kind: URL, Max: 2048,
		Doc: "where the ACS reports completion"},
})

// threeDSRequestorAuthenticationInfoRows210: the object threeDSRequestorAuthenticationInfo. EMV 3DS 2.1.0, annex A.
var threeDSRequestorAuthenticationInfoRows210 = rowList{
	{Need: "OO OO OO", Name: "threeDSReqAuthData", Max: 2048, Mask: Secret, Doc: "supporting authentication data"},
	{Need: "OO OO OO", Name: "threeDSReqAuthMethod", Kind: OneOf, List: "threeDSReqAuthMethod",
		Doc: "how the cardholder logged in"},
	{Need: "OO OO OO", Name: "threeDSReqAuthTimestamp", Kind: Minute, Doc: "time of login in UTC"},
}

// threeDSRequestorAuthenticationInfoRows220: the object threeDSRequestorAuthenticationInfo. EMV 3DS 2.2.0, annex A.
var threeDSRequestorAuthenticationInfoRows220 = threeDSRequestorAuthenticationInfoRows210.with(rowList{
	{Need: "OO OO OO", Name: "threeDSReqAuthData", Max: 20000, Mask: Secret, Doc: "supporting authentication data"},
})

// threeDSRequestorAuthenticationInfoRows231: the object threeDSRequestorAuthenticationInfo. EMV 3DS 2.3.1, annex A.
var threeDSRequestorAuthenticationInfoRows231 = threeDSRequestorAuthenticationInfoRows220.with(rowList{
	{Need: "OO OO OO", Name: "threeDSReqAuthData", Max: 50000, AltObject: true, Mask: Secret,
		Doc: "supporting authentication data"},
	{Need: "OO OO OO", Name: "dsAuthInfVerifInd", Kind: OneOf, List: "dsAuthInfVerifInd", Leg: DSToACS, DS: true,
		Doc: "DS verification result"},
})

// threeDSRequestorPriorAuthenticationInfoRows210: the object threeDSRequestorPriorAuthenticationInfo.
// EMV 3DS 2.1.0, annex A.
var threeDSRequestorPriorAuthenticationInfoRows210 = rowList{
	{Need: "OO OO OO", Name: "threeDSReqPriorAuthData", Max: 2048, Mask: Secret, Doc: "supporting authentication data"},
	{Need: "OO OO OO", Name: "threeDSReqPriorAuthMethod", Kind: OneOf, List: "threeDSReqPriorAuthMethod",
		Doc: "earlier authentication method"},
	{Need: "OO OO OO", Name: "threeDSReqPriorAuthTimestamp", Kind: Minute, Doc: "time of earlier authentication in UTC"},
	{Need: "OO OO OO", Name: "threeDSReqPriorRef", Max: 36, Mask: Secret, Doc: "earlier ACS transaction ID"},
}

// threeDSRequestorPriorAuthenticationInfoRows231: the object threeDSRequestorPriorAuthenticationInfo.
// EMV 3DS 2.3.1, annex A.
var threeDSRequestorPriorAuthenticationInfoRows231 = threeDSRequestorPriorAuthenticationInfoRows210.with(rowList{
	{Need: "OO OO OO", Name: "threeDSReqPriorAuthData", Max: 20000, Mask: Secret, Doc: "supporting authentication data"},
	{Need: "OO OO OO", Name: "threeDSReqPriorRef", Min: 36, Max: 36, Mask: Secret, Doc: "earlier ACS transaction ID"},
	{Need: "OO OO OO", Name: "threeDSReqPriorDsTransId", Min: 36, Max: 36, Doc: "earlier DS transaction ID"},
})

// webAuthnCredRows231: the object webAuthnCred. EMV 3DS 2.3.1, annex A.
var webAuthnCredRows231 = rowList{
	{Need: "RR RR RR", Name: "rpID", Max: 2048, Doc: "relying party ID"},
	{Need: "RR RR RR", Name: "credentialIds", Kind: Base64URL, Min: 16, Max: 1000, AltArray: true, Mask: Secret,
		Doc: "credential ID"},
}
