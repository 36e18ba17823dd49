package journal

import (
	"errors"

	"github.com/klauspost/compress/s2"
)

// packedByS2 is the first byte of what [pack] makes. It names the format and its text.
const packedByS2 = 0x06

// packing is the format S2 with [packedBefore]. What was packed can be read only with the same text, which never
// changes: a better one would need a first byte of its own.
var packing = s2.MakeDict([]byte(packedBefore), nil)

// packedBefore has texts that most entries have, those that are the most frequent last.
const packedBefore = `"webhook","findings":["attempt 1 failed, "],"messageType":"CReq","messageType":"CRes","messageType":"Erro","errorCode":"` +
	`","errorComponent":"S","errorDescription":"","errorDetail":"","errorMessageType":"","messageExtension":[{"id":"","name":"",` +
	`"criticalityIndicator":false,"data":{}}],"purchaseInstalData":"","recurringExpiry":"","recurringFrequency":"","whiteListStatus":"` +
	`","threeRIInd":"11","sdkAppID":"","sdkEncData":"","sdkEphemPubKey":{},"sdkMaxTimeout":"05","sdkReferenceNumber":"","sdkTransID":"` +
	`","deviceRenderOptions":{"sdkInterface":"03","sdkUiType":["01","02","03","04","05"]},"messageType":"RRes","resultsStatus":"01"}},` +
	`{"step":"rreq","at":"","ms":,"node":"","message":{"messageType":"RReq","authenticationMethod":"02","authenticationType":"02",` +
	`"interactionCounter":"01","transStatus":"Y","eci":"05","authenticationValue":"[withheld, 28 bytes hash ` +
	`","status":"expired","result":"abandoned","transStatus":"N","transStatusReason":"01","errorCode":"","elements":[""],"liability":"no"` +
	`{"kind":"claimed","record":{"id":"","created":"2026-","updated":"2026-","api":"authentications","operation":"authentications",` +
	`"merchant":"","reference":"","card":{"scheme":"mastercard","bin":"","last4":""},"amount":"","currency":"978",` +
	`"messageVersion":"2.3.1","deviceChannel":"01","messageCategory":"02","status":"in_progress","challenged":false},"steps":[` +
	`{"step":"request","at":"2026-","ms":0,"node":"","findings":[""]},{"step":"lookup","at":"","ms":0,"node":""},{"step":"areq","at":"2026-` +
	`","ms":1,"node":"","message":{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"02","messageCategory":"01",` +
	`"acctNumber":"***","acctType":"02","acctID":"***","acctInfo":{"chAccAgeInd":"05","chAccChange":"20260101","chAccChangeInd":"04",` +
	`"chAccDate":"20200101","chAccPwChange":"20260801","chAccPwChangeInd":"03","nbPurchaseAccount":"12","paymentAccAge":"20200101",` +
	`"paymentAccInd":"05","provisionAttemptsDay":"0","shipAddressUsage":"20250101","shipAddressUsageInd":"04","shipNameIndicator":"01",` +
	`"suspiciousAccActivity":"01","txnActivityDay":"1","txnActivityYear":"31"},"acquirerBIN":"400000","acquirerMerchantID":"",` +
	`"addrMatch":"Y","billAddrCity":"[withheld, 10 bytes]","billAddrCountry":"[withheld, 3 bytes]","billAddrLine1":"[withheld, 16 bytes]",` +
	`"billAddrPostCode":"[withheld, 4 bytes]","billAddrState":"[withheld, 2 bytes]","browserAcceptHeader":"[withheld, 70 bytes]",` +
	`"browserColorDepth":"24","browserIP":"[withheld, 9 bytes]","browserJavaEnabled":false,"browserJavascriptEnabled":true,` +
	`"browserLanguage":"en-GB","browserScreenHeight":"1080","browserScreenWidth":"1920","browserTZ":"-60","browserUserAgent":"` +
	`[withheld, 101 bytes]","cardExpiryDate":"[withheld, 4 bytes]","cardholderName":"[withheld, 11 bytes]","dsReferenceNumber":"",` +
	`"dsTransID":"","dsURL":"https://","email":"[withheld, 15 bytes]","homePhone":{"cc":"","subscriber":"[withheld, 8 bytes]"},` +
	`"mobilePhone":{"cc":"","subscriber":"[withheld, 8 bytes]"},"mcc":"5411","merchantCountryCode":"208","merchantName":"",` +
	`"merchantRiskIndicator":{"deliveryEmailAddress":"[withheld, 15 bytes]","deliveryTimeframe":"03","preOrderPurchaseInd":"01",` +
	`"reorderItemsInd":"01","shipIndicator":"01"},"notificationURL":"https://","purchaseAmount":"","purchaseCurrency":"978",` +
	`"purchaseDate":"2026","purchaseExponent":"2","shipAddrCity":"[withheld, 10 bytes]","shipAddrCountry":"[withheld, 3 bytes]",` +
	`"shipAddrLine1":"[withheld, 16 bytes]","shipAddrPostCode":"[withheld, 4 bytes]","threeDSCompInd":"Y",` +
	`"threeDSRequestorAuthenticationInd":"01","threeDSRequestorAuthenticationInfo":{"threeDSReqAuthData":"[withheld, 5 bytes]",` +
	`"threeDSReqAuthMethod":"02","threeDSReqAuthTimestamp":"2026"},"threeDSRequestorChallengeInd":"01","threeDSRequestorID":"",` +
	`"threeDSRequestorName":"","threeDSRequestorURL":"https://","threeDSServerOperatorID":"","threeDSServerRefNumber":"3DS_LOA_SER_",` +
	`"threeDSServerTransID":"","threeDSServerURL":"https://","transType":"01"}}]}` +
	`{"kind":"answered","record":{"id":"","created":"2026-","updated":"2026-","api":"emv","operation":"auth","merchant":"",` +
	`"reference":"","card":{"scheme":"visa","bin":"4","last4":""},"amount":"","currency":"978","messageVersion":"2.2.0",` +
	`"deviceChannel":"02","messageCategory":"01","status":"completed","result":"authenticated","transStatus":"Y","eci":"05","acs":"` +
	`","dsTransID":"","acsTransID":"","challenged":false,"liability":"yes","durationMs":},"steps":[{"step":"ares","at":"2026-` +
	`T","ms":,"node":"","message":{"messageType":"ARes","messageVersion":"2.2.0","threeDSServerTransID":"","dsTransID":"",` +
	`"acsTransID":"","acsReferenceNumber":"3DS_LOA_ACS_","acsOperatorID":"","acsURL":"https://","acsChallengeMandated":"Y",` +
	`"authenticationType":"02","authenticationValue":"[withheld, 28 bytes hash ","dsReferenceNumber":"","eci":"05","transStatus":"Y",` +
	`"transStatusReason":"","sdkTransID":""}},{"step":"answered","at":"2026-","ms":,"node":""}]}`

// pack compresses a text.
func pack(text []byte) []byte {
	return append([]byte{packedByS2}, packing.Encode(nil, text)...)
}

// unpack returns the text of what [pack] has made.
func unpack(packed []byte) ([]byte, error) {
	if len(packed) == 0 || packed[0] != packedByS2 {
		return nil, errors.New("journal: the content of an entry is in no format that this release knows")
	}
	return packing.Decode(nil, packed[1:])
}
