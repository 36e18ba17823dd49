package message_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

func describe(t *testing.T, text string) string {
	t.Helper()
	m, err := message.Parse([]byte(text), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := m.Describe(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Rows CF-07 and CF-09.
func TestDescribeWritesOneLinePerValue(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"AReq", `{"messageType":"AReq","messageVersion":"2.3.1","deviceChannel":"02","acctNumber":"4000000000000002",
			"cardholderName":"Jane Doe","browserIP":"192.0.2.1","mobilePhone":{"cc":"45","subscriber":"12345678"},
			"browserJavascriptEnabled":true,"threeDSRequestorChallengeInd":["02","05"],"merchantName":"A\nB",
			"threeDSRequestorAuthenticationInfo":[{"threeDSReqAuthMethod":"01","unknown":"4000000000000002"},7],
			"payTokenInfo":{"token":"4000000000000002","tokenCryptogram":"secret","tokenStatusIndicator":"active"},
			"messageExtension":[{"id":"A1","name":"n","criticalityIndicator":false,"data":{"pan":"4000000000000002"}}],
			"browserUserAgent":"` + strings.Repeat("M", 200) + `",
			"4000000000000002":"4000000000000002"}`, `
deviceChannel............................................... 02
messageExtension[0].criticalityIndicator.................... false
messageExtension[0].data.................................... ***
messageExtension[0].id...................................... A1
messageExtension[0].name.................................... n
messageType................................................. AReq
messageVersion.............................................. 2.3.1
threeDSRequestorAuthenticationInfo[0].threeDSReqAuthMethod.. 01
threeDSRequestorAuthenticationInfo[1]....................... ***
threeDSRequestorChallengeInd................................ 02, 05
merchantName................................................ "A\nB"
acctNumber.................................................. 400000******0002
cardholderName.............................................. ***
mobilePhone................................................. ***
browserIP................................................... ***
browserUserAgent............................................ MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM… (200 characters)
browserJavascriptEnabled.................................... true
payTokenInfo.token.......................................... ***
payTokenInfo.tokenCryptogram................................ ***
payTokenInfo.tokenStatusIndicator........................... active
(unknown members)........................................... 2, ***
`},
		{"fails closed", `{"messageType":"AReq","messageVersion":"2.2.0","acctNumber":"4000000000000002 ","deviceChannel":"4000000000000002",
			"messageCategory":4000000000000002,"mcc":["4000"],"purchaseAmount":{"x":"4000000000000002"},"acctInfo":"4000000000000002",
			"payTokenInd":"4000000000000002"}`, `
deviceChannel.... ***
messageCategory.. ***
messageType...... AReq
messageVersion... 2.2.0
mcc.............. ***
acctInfo......... ***
acctNumber....... ***
payTokenInd...... ***
purchaseAmount... ***
`},
		{"unknown version", `{"messageType":"AReq","messageVersion":"9.9.9","acctNumber":"4000000000000002"}`, `
(unknown members).. 3, ***
`},
		{"ARes", `{"messageType":"ARes","messageVersion":"2.1.0","transStatus":"Y","authenticationValue":"AAAAAAAAAAAAAAAAAAAAAAAAAAA="}`, `
authenticationValue.. ***
messageType.......... ARes
messageVersion....... 2.1.0
transStatus.......... Y
`},
	} {
		if diff := difftest.Diff(strings.TrimPrefix(test.want, "\n"), describe(t, test.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// masked are the members whose values are never shown, in any message and at any depth: data about who or where a
// person is, secrets, and proofs.
var masked = strings.Fields(`
	cardExpiryDate cardSecurityCode cardholderName token tokenAdditionalData tokenCryptogram
	acctID chAccReqID userId taxId email homePhone mobilePhone workPhone deliveryEmailAddress
	billAddrCity billAddrCountry billAddrLine1 billAddrLine2 billAddrLine3 billAddrPostCode billAddrState
	shipAddrCity shipAddrCountry shipAddrLine1 shipAddrLine2 shipAddrLine3 shipAddrPostCode shipAddrState
	sellerAddrCity sellerAddrCountry sellerAddrLine1 sellerAddrLine2 sellerAddrLine3 sellerAddrPostCode sellerAddrState
	sellerEmail sellerPhone browserIP appIp deviceId deviceInfo sdkEncData sdkEphemPubKey sdkServerSignedContent
	threeDSReqAuthData threeDSReqPriorAuthData threeDSReqPriorRef
	authenticationValue acsSignedContent additionalData challenge webAuthnCredList
	challengeDataEntry challengeDataEntryTwo challengeHTMLDataEntry`)

func TestEveryMaskIsThere(t *testing.T) {
	unseen := make(map[string]bool)
	for _, name := range append(masked, "acctNumber") {
		unseen[name] = true
	}
	var look func(at string, table *message.Table)
	look = func(at string, table *message.Table) {
		for i := range table.Fields {
			f := &table.Fields[i]
			want := message.Clear
			switch {
			case f.Name == "acctNumber":
				want = message.PAN
			case slices.Contains(masked, f.Name):
				want = message.Secret
			}
			if f.Mask != want {
				t.Errorf("%s.%s: mask %d, want %d", at, f.Name, f.Mask, want)
			}
			delete(unseen, f.Name)
			if f.Of != nil && f.Mask == message.Clear { // what is in a masked object goes with it
				look(at+"."+f.Name, f.Of)
			}
		}
	}
	for _, v := range message.Versions() {
		for _, typ := range []message.Type{
			message.AReq, message.ARes, message.RReq, message.RRes, message.PReq, message.PRes,
			message.CReq, message.CRes, message.OReq, message.ORes, message.Erro,
		} {
			if typ.In(v) {
				look(v.String()+" "+typ.String(), message.TableOf(typ, v))
			}
		}
	}
	for name := range unseen {
		t.Errorf("%s is in no table", name)
	}
}

// No masked value is shown, whatever the message holds.
func TestDescribeHidesCardData(t *testing.T) {
	for seed := range uint64(40) {
		for _, v := range message.Versions() {
			text := string(messagetest.Sample(rand.New(rand.NewPCG(seed, 2)), message.AReq, v, message.Channels()[seed%3], message.PA, true))
			m, err := message.Parse([]byte(text), message.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(describe(t, text)) {
				name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ".. ")
				f := message.TableOf(message.AReq, v).Field(strings.TrimRight(name, "."))
				if f == nil || f.Mask == message.Clear || value == "***" {
					continue
				}
				if pan := m.Text("acctNumber"); f.Mask != message.PAN || value != pan[:6]+strings.Repeat("*", len(pan)-10)+pan[len(pan)-4:] {
					t.Errorf("%s shows", f.Name)
				}
			}
		}
	}
}
