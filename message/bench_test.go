package message

import (
	"encoding/json"
	"testing"
)

// fullAReq is a full AReq of 2.2.0, about 3.4 KB and 106 leaves.
func fullAReq(t testing.TB) []byte {
	s := &sampler{d: loadDictionary(t), version: "2.2.0", message: "AReq", ch: "BRW", cat: "PA"}
	return s.full().json()
}

func parseCheck(data []byte) (Problems, error) {
	m, err := Parse(data, Limits{})
	if err != nil {
		return nil, err
	}
	return m.Check(Context{KnownExtension: knowsAll}), nil
}

func knowsAll(string) bool { return true }

func BenchmarkParseCheck(b *testing.B) {
	data := fullAReq(b)
	b.Run("AReq/2.2.0", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if p, err := parseCheck(data); err != nil || p != nil {
				b.Fatal(p, err)
			}
		}
	})
}

// BenchmarkEncodingJSON reads the message of BenchmarkParseCheck and checks nothing, for
// comparison.
func BenchmarkEncodingJSON(b *testing.B) {
	data := fullAReq(b)
	b.Run("AReq/2.2.0", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			var m areqJSON
			if err := json.Unmarshal(data, &m); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestAllocsOfParseAndCheck(t *testing.T) {
	if underRace {
		t.Skip("the race detector allocates")
	}
	data := fullAReq(t)
	n := testing.AllocsPerRun(100, func() {
		if p, err := parseCheck(data); err != nil || p != nil {
			t.Fatal(p, err)
		}
	})
	if n > 5 {
		t.Errorf("Parse and Check of a full AReq take %v allocations, 5 are allowed", n)
	}
}

// areqJSON is the AReq of 2.2.0 as a struct.
type areqJSON struct {
	AcctID                                  string                                       `json:"acctID,omitempty"`
	AcctInfo                                *acctInfoJSON                                `json:"acctInfo,omitempty"`
	AcctNumber                              string                                       `json:"acctNumber,omitempty"`
	AcctType                                string                                       `json:"acctType,omitempty"`
	AcquirerBIN                             string                                       `json:"acquirerBIN,omitempty"`
	AcquirerMerchantID                      string                                       `json:"acquirerMerchantID,omitempty"`
	AddrMatch                               string                                       `json:"addrMatch,omitempty"`
	BillAddrCity                            string                                       `json:"billAddrCity,omitempty"`
	BillAddrCountry                         string                                       `json:"billAddrCountry,omitempty"`
	BillAddrLine1                           string                                       `json:"billAddrLine1,omitempty"`
	BillAddrLine2                           string                                       `json:"billAddrLine2,omitempty"`
	BillAddrLine3                           string                                       `json:"billAddrLine3,omitempty"`
	BillAddrPostCode                        string                                       `json:"billAddrPostCode,omitempty"`
	BillAddrState                           string                                       `json:"billAddrState,omitempty"`
	BroadInfo                               json.RawMessage                              `json:"broadInfo,omitempty"`
	BrowserAcceptHeader                     string                                       `json:"browserAcceptHeader,omitempty"`
	BrowserColorDepth                       string                                       `json:"browserColorDepth,omitempty"`
	BrowserIP                               string                                       `json:"browserIP,omitempty"`
	BrowserJavaEnabled                      bool                                         `json:"browserJavaEnabled,omitempty"`
	BrowserJavascriptEnabled                bool                                         `json:"browserJavascriptEnabled,omitempty"`
	BrowserLanguage                         string                                       `json:"browserLanguage,omitempty"`
	BrowserScreenHeight                     string                                       `json:"browserScreenHeight,omitempty"`
	BrowserScreenWidth                      string                                       `json:"browserScreenWidth,omitempty"`
	BrowserTZ                               string                                       `json:"browserTZ,omitempty"`
	BrowserUserAgent                        string                                       `json:"browserUserAgent,omitempty"`
	CardExpiryDate                          string                                       `json:"cardExpiryDate,omitempty"`
	CardholderName                          string                                       `json:"cardholderName,omitempty"`
	DeviceChannel                           string                                       `json:"deviceChannel,omitempty"`
	DeviceInfo                              string                                       `json:"deviceInfo,omitempty"`
	DeviceRenderOptions                     *deviceRenderOptionsJSON                     `json:"deviceRenderOptions,omitempty"`
	DsReferenceNumber                       string                                       `json:"dsReferenceNumber,omitempty"`
	DsTransID                               string                                       `json:"dsTransID,omitempty"`
	DsURL                                   string                                       `json:"dsURL,omitempty"`
	Email                                   string                                       `json:"email,omitempty"`
	HomePhone                               *phoneJSON                                   `json:"homePhone,omitempty"`
	Mcc                                     string                                       `json:"mcc,omitempty"`
	MerchantCountryCode                     string                                       `json:"merchantCountryCode,omitempty"`
	MerchantName                            string                                       `json:"merchantName,omitempty"`
	MerchantRiskIndicator                   *merchantRiskIndicatorJSON                   `json:"merchantRiskIndicator,omitempty"`
	MessageCategory                         string                                       `json:"messageCategory,omitempty"`
	MessageExtension                        []messageExtensionJSON                       `json:"messageExtension,omitempty"`
	MessageType                             string                                       `json:"messageType,omitempty"`
	MessageVersion                          string                                       `json:"messageVersion,omitempty"`
	MobilePhone                             *phoneJSON                                   `json:"mobilePhone,omitempty"`
	NotificationURL                         string                                       `json:"notificationURL,omitempty"`
	PayTokenInd                             bool                                         `json:"payTokenInd,omitempty"`
	PayTokenSource                          string                                       `json:"payTokenSource,omitempty"`
	PurchaseAmount                          string                                       `json:"purchaseAmount,omitempty"`
	PurchaseCurrency                        string                                       `json:"purchaseCurrency,omitempty"`
	PurchaseDate                            string                                       `json:"purchaseDate,omitempty"`
	PurchaseExponent                        string                                       `json:"purchaseExponent,omitempty"`
	PurchaseInstalData                      string                                       `json:"purchaseInstalData,omitempty"`
	RecurringExpiry                         string                                       `json:"recurringExpiry,omitempty"`
	RecurringFrequency                      string                                       `json:"recurringFrequency,omitempty"`
	SdkAppID                                string                                       `json:"sdkAppID,omitempty"`
	SdkEncData                              string                                       `json:"sdkEncData,omitempty"`
	SdkEphemPubKey                          *jwkJSON                                     `json:"sdkEphemPubKey,omitempty"`
	SdkMaxTimeout                           string                                       `json:"sdkMaxTimeout,omitempty"`
	SdkReferenceNumber                      string                                       `json:"sdkReferenceNumber,omitempty"`
	SdkTransID                              string                                       `json:"sdkTransID,omitempty"`
	ShipAddrCity                            string                                       `json:"shipAddrCity,omitempty"`
	ShipAddrCountry                         string                                       `json:"shipAddrCountry,omitempty"`
	ShipAddrLine1                           string                                       `json:"shipAddrLine1,omitempty"`
	ShipAddrLine2                           string                                       `json:"shipAddrLine2,omitempty"`
	ShipAddrLine3                           string                                       `json:"shipAddrLine3,omitempty"`
	ShipAddrPostCode                        string                                       `json:"shipAddrPostCode,omitempty"`
	ShipAddrState                           string                                       `json:"shipAddrState,omitempty"`
	ThreeDSCompInd                          string                                       `json:"threeDSCompInd,omitempty"`
	ThreeDSReqAuthMethodInd                 string                                       `json:"threeDSReqAuthMethodInd,omitempty"`
	ThreeDSRequestorAuthenticationInd       string                                       `json:"threeDSRequestorAuthenticationInd,omitempty"`
	ThreeDSRequestorAuthenticationInfo      *threeDSRequestorAuthenticationInfoJSON      `json:"threeDSRequestorAuthenticationInfo,omitempty"`
	ThreeDSRequestorChallengeInd            string                                       `json:"threeDSRequestorChallengeInd,omitempty"`
	ThreeDSRequestorDecMaxTime              string                                       `json:"threeDSRequestorDecMaxTime,omitempty"`
	ThreeDSRequestorDecReqInd               string                                       `json:"threeDSRequestorDecReqInd,omitempty"`
	ThreeDSRequestorID                      string                                       `json:"threeDSRequestorID,omitempty"`
	ThreeDSRequestorName                    string                                       `json:"threeDSRequestorName,omitempty"`
	ThreeDSRequestorPriorAuthenticationInfo *threeDSRequestorPriorAuthenticationInfoJSON `json:"threeDSRequestorPriorAuthenticationInfo,omitempty"`
	ThreeDSRequestorURL                     string                                       `json:"threeDSRequestorURL,omitempty"`
	ThreeDSServerOperatorID                 string                                       `json:"threeDSServerOperatorID,omitempty"`
	ThreeDSServerRefNumber                  string                                       `json:"threeDSServerRefNumber,omitempty"`
	ThreeDSServerTransID                    string                                       `json:"threeDSServerTransID,omitempty"`
	ThreeDSServerURL                        string                                       `json:"threeDSServerURL,omitempty"`
	ThreeRIInd                              string                                       `json:"threeRIInd,omitempty"`
	TransType                               string                                       `json:"transType,omitempty"`
	WhiteListStatus                         string                                       `json:"whiteListStatus,omitempty"`
	WhiteListStatusSource                   string                                       `json:"whiteListStatusSource,omitempty"`
	WorkPhone                               *phoneJSON                                   `json:"workPhone,omitempty"`
}

type acctInfoJSON struct {
	ChAccAgeInd           string `json:"chAccAgeInd,omitempty"`
	ChAccChange           string `json:"chAccChange,omitempty"`
	ChAccChangeInd        string `json:"chAccChangeInd,omitempty"`
	ChAccDate             string `json:"chAccDate,omitempty"`
	ChAccPwChange         string `json:"chAccPwChange,omitempty"`
	ChAccPwChangeInd      string `json:"chAccPwChangeInd,omitempty"`
	NbPurchaseAccount     string `json:"nbPurchaseAccount,omitempty"`
	ProvisionAttemptsDay  string `json:"provisionAttemptsDay,omitempty"`
	TxnActivityDay        string `json:"txnActivityDay,omitempty"`
	TxnActivityYear       string `json:"txnActivityYear,omitempty"`
	PaymentAccAge         string `json:"paymentAccAge,omitempty"`
	PaymentAccInd         string `json:"paymentAccInd,omitempty"`
	ShipAddressUsage      string `json:"shipAddressUsage,omitempty"`
	ShipAddressUsageInd   string `json:"shipAddressUsageInd,omitempty"`
	ShipNameIndicator     string `json:"shipNameIndicator,omitempty"`
	SuspiciousAccActivity string `json:"suspiciousAccActivity,omitempty"`
}

type deviceRenderOptionsJSON struct {
	SdkInterface string   `json:"sdkInterface,omitempty"`
	SdkUiType    []string `json:"sdkUiType,omitempty"`
}

type phoneJSON struct {
	Cc         string `json:"cc,omitempty"`
	Subscriber string `json:"subscriber,omitempty"`
}

type merchantRiskIndicatorJSON struct {
	DeliveryEmailAddress string `json:"deliveryEmailAddress,omitempty"`
	DeliveryTimeframe    string `json:"deliveryTimeframe,omitempty"`
	GiftCardAmount       string `json:"giftCardAmount,omitempty"`
	GiftCardCount        string `json:"giftCardCount,omitempty"`
	GiftCardCurr         string `json:"giftCardCurr,omitempty"`
	PreOrderDate         string `json:"preOrderDate,omitempty"`
	PreOrderPurchaseInd  string `json:"preOrderPurchaseInd,omitempty"`
	ReorderItemsInd      string `json:"reorderItemsInd,omitempty"`
	ShipIndicator        string `json:"shipIndicator,omitempty"`
}

type messageExtensionJSON struct {
	CriticalityIndicator bool            `json:"criticalityIndicator,omitempty"`
	Data                 json.RawMessage `json:"data,omitempty"`
	Id                   string          `json:"id,omitempty"`
	Name                 string          `json:"name,omitempty"`
}

type jwkJSON struct {
	Kty string `json:"kty,omitempty"`
	Crv string `json:"crv,omitempty"`
	X   string `json:"x,omitempty"`
	Y   string `json:"y,omitempty"`
}

type threeDSRequestorAuthenticationInfoJSON struct {
	ThreeDSReqAuthData      string `json:"threeDSReqAuthData,omitempty"`
	ThreeDSReqAuthMethod    string `json:"threeDSReqAuthMethod,omitempty"`
	ThreeDSReqAuthTimestamp string `json:"threeDSReqAuthTimestamp,omitempty"`
}

type threeDSRequestorPriorAuthenticationInfoJSON struct {
	ThreeDSReqPriorAuthData      string `json:"threeDSReqPriorAuthData,omitempty"`
	ThreeDSReqPriorAuthMethod    string `json:"threeDSReqPriorAuthMethod,omitempty"`
	ThreeDSReqPriorAuthTimestamp string `json:"threeDSReqPriorAuthTimestamp,omitempty"`
	ThreeDSReqPriorRef           string `json:"threeDSReqPriorRef,omitempty"`
}
