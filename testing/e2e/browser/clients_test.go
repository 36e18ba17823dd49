package browser

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A client is an integration as it was seen with servers like this one: how it
// writes its requests, and what it cannot do without in an answer.
type client struct {
	version func(crd rig.Object) string
	ask     rig.Object        // what it sends to /preauth beside the card number
	adds    rig.Object        // what it puts into an AReq
	names   map[string]string // how it spells members
	creq    rig.Object        // what it puts into a CReq
	blind   bool              // it says that the 3DS Method has run without looking
	// The members that it reads, each with the form of its text. With a question
	// mark it may be missing.
	crd, ares, rreq, erro map[string]string
}

const (
	someText = `.`
	known2   = `^2\.[12]\.0$`
)

// highest is the last of the versions that the ACS has.
func highest(crd rig.Object) string {
	versions, _ := crd["acsProtocolVersions"].([]any)
	last, _ := versions[len(versions)-1].(map[string]any)
	return rig.Object(last).Text("version")
}

var clients = map[string]client{
	"null for what it has not, names in its own case": {
		version: func(crd rig.Object) string { return crd.Text("acsEndProtocolVersion") },
		ask:     rig.Object{"ds": nil},
		adds: rig.Object{
			"acsStartProtocolVersion": "2.1.0", "acsEndProtocolVersion": "2.2.0", "dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0",
			"sdkAppId": nil, "sdkEncData": nil, "sdkEphemPubKey": nil, "sdkReferenceNumber": nil, "sdkTransId": nil, "sdkMaxTimeout": nil,
			"deviceRenderOptions": nil, "email": nil, "cardholderName": nil, "billAddrCountry": "40", "purchaseCurrency": "36", "browserColorDepth": "30",
		},
		names: map[string]string{
			"threeDSServerTransID": "threeDsserverTransId", "threeDSCompInd": "threeDscompInd", "threeDSRequestorURL": "threeDsrequestorUrl",
			"threeDSRequestorAuthenticationInd": "threeDsrequestorAuthenticationInd", "notificationURL": "notificationUrl",
			"acquirerBIN": "acquirerBin", "acquirerMerchantID": "acquirerMerchantId", "browserIP": "browserIp", "browserTZ": "browserTz",
		},
		blind: true,
		crd: map[string]string{
			"dsStartProtocolVersion": someText, "dsEndProtocolVersion": someText, "acsStartProtocolVersion": someText,
			"acsEndProtocolVersion": `^\d+\.\d+\.\d+$`, "threeDSServerTransID": someText, "threeDSMethodURL?": someText, "scheme?": someText,
		},
		ares: map[string]string{
			"acsReferenceNumber": someText, "acsTransID": someText, "dsReferenceNumber": someText, "dsTransID": someText,
			"messageVersion": someText, "threeDSServerTransID": someText, "transStatus": `^[YNUARC]$`,
			"acsChallengeMandated?": someText, "acsOperatorID?": someText, "acsURL?": `^https?://`, "authenticationType?": someText,
			"acsSignedContent?": someText, "authenticationValue?": someText,
		},
		rreq: map[string]string{"transStatus": `^[YNUARC]$`, "authenticationValue?": someText, "eci?": someText},
		erro: map[string]string{
			"errorCode": someText, "errorComponent?": someText, "errorDescription?": someText, "errorDetail?": someText,
			"errorMessageType?": someText, "messageVersion?": someText,
		},
	},
	"empty text for what it has not, a guard for each answer": {
		version: func(crd rig.Object) string { return max("2.1.0", min("2.2.0", crd.Text("acsEndProtocolVersion"))) },
		adds: rig.Object{
			"addrMatch": "Y", "billAddrCity": "Uppsala", "billAddrCountry": "752", "billAddrLine1": "Storgatan 1", "billAddrLine2": "",
			"billAddrLine3": "", "billAddrPostCode": "75332", "billAddrState": "", "shipAddrCountry": "", "shipAddrState": "",
			"transType": "01", "threeDSRequestorChallengeInd": "04", "browserJavascriptEnabled": true,
			"notificationURL": "http://localhost:7100/card/12.aRX_0222/verification?mode=iframe&parent=http://localhost:3333",
		},
		crd: map[string]string{
			"acsStartProtocolVersion": known2, "acsEndProtocolVersion": known2, "threeDSServerTransID": someText,
			"threeDSMethodURL?": `^.{1,256}$`,
		},
		ares: map[string]string{
			"messageType": `^ARes$`, "messageVersion": known2, "transStatus": `^[YNUACR]$`, "transStatusReason?": `^(0[1-9]|1[0-9]|2[01]|[89][0-9])$`,
			"acsTransID": someText, "dsTransID": someText, "dsReferenceNumber": `^.{1,32}$`, "acsReferenceNumber?": `^.{1,32}$`,
			"acsOperatorID?": `^.{1,32}$`, "acsURL?": `^https?://`, "acsChallengeMandated?": `^[YN]$`, "authenticationType?": `^0[1-3]$`,
			"authenticationValue?": `^.{28}$`, "eci?": `^.{1,2}$`, "cardholderInfo?": `^.{1,128}$`,
		},
		rreq: map[string]string{
			"messageType": `^RReq$`, "messageVersion": known2, "messageCategory": `^0[12]$`, "transStatus": `^[YNUACR]$`,
			"transStatusReason?": `^(0[1-9]|1[0-9]|2[01])$`, "acsTransID": someText, "dsTransID": `^.{36}$`, "threeDSServerTransID": someText,
			"authenticationType?": `^0[1-3]$`, "authenticationValue?": `^.{28}$`, "interactionCounter?": `^\d\d$`, "eci?": `^.{1,2}$`,
		},
		erro: map[string]string{
			"messageType": `^Erro$`, "errorCode": `^(10[123]|20[1-4]|30[1-7]|40[2-5])$`, "errorComponent": `^[CSDA]$`, "errorDescription": someText,
			"errorDetail": someText, "messageVersion": known2, "errorMessageType?": someText, "threeDSServerTransID?": someText,
		},
	},
	"the same members in every version": {
		version: highest,
		adds: rig.Object{
			"ds": "visa", "acceptLanguage": []string{"en-US", "en"}, "browserJavascriptEnabled": true, "browserLanguage": "en-US",
			"cardExpiryDate": "1910", "transType": "01", "mobilePhone": rig.Object{"cc": "123", "subscriber": "123456789"},
			"threeDSRequestorID": "az0123456789", "threeDSRequestorName": "Example Requestor name", "notificationURL": "http://localhost:9398/challenge/end",
		},
		creq: rig.Object{"dsTransID": "8f0b9f8e-54a5-4d49-a2b3-cd0a3e1d3a06", "notificationURL": "http://localhost:8270/missing"},
		crd:  map[string]string{"messageType": `^CRD$`, "threeDSServerTransID": someText, "threeDSMethodURL?": someText},
		ares: map[string]string{"messageType": `^ARes$`, "transStatus": someText, "acsURL?": someText, "acsTransID": someText, "dsTransID": someText},
		rreq: map[string]string{"messageType": `^RReq$`, "transStatus": someText},
		erro: map[string]string{"messageType": `^Erro$`, "errorCode": someText, "errorDescription": someText, "errorDetail": someText},
	},
}

// TestClients plays integrations of servers like this one with every card that
// they could have met there.
func TestClients(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	for name, c := range clients {
		for _, versions := range "0123" {
			if c.crd["acsEndProtocolVersion"] == known2 && (versions == '0' || versions == '3') {
				continue // it is older than 2.3.1
			}
			for _, method := range "01" {
				for _, cd := range []string{"03", "13", "23", "33", "53", "70", "71", "83"} {
					pan := fmt.Sprintf("400000000000%c%c%s", versions, method, cd)
					t.Run(name+" "+pan[12:], func(t *testing.T) { c.pay(&rig.World{ReadyFile: w.ReadyFile, T: t}, pan) })
				}
			}
		}
		t.Run(name+" not enrolled", func(t *testing.T) {
			code, got := (&rig.World{ReadyFile: w.ReadyFile, T: t}).Post("/preauth", merged(rig.Object{"acctNumber": "9000100111111111"}, c.ask))
			if reads(t, "Erro", got, c.erro); code != 400 || got.Text("errorCode") != "305" {
				t.Errorf("%d %v", code, got)
			}
		})
	}
}

// pay is one payment of a client, from the card number to the result.
func (c client) pay(w *rig.World, pan string) {
	code, crd := w.Post("/preauth", merged(rig.Object{"acctNumber": pan}, c.ask))
	if reads(w.T, "CRD", crd, c.crd); code != 200 {
		w.T.Fatalf("/preauth: %d %v", code, crd)
	}
	id, comp := crd.Text("threeDSServerTransID"), "U"
	if address := crd.Text("threeDSMethodURL"); address != "" {
		if comp = "Y"; !c.blind {
			w.RunMethod(address, id)
		}
	}
	code, got := w.Post("/auth", merged(rig.BrowserRequest(c.version(crd), pan, id, comp), c.adds).Renamed(c.names))
	if strings.HasSuffix(pan, "83") {
		if reads(w.T, "Erro", got, c.erro); code != 400 || got.Text("errorCode") != "305" {
			w.T.Errorf("/auth: %d %v", code, got)
		}
		return
	}
	if reads(w.T, "ARes", got, c.ares); code != 200 {
		w.T.Fatalf("/auth: %d %v", code, got)
	}
	mine := rig.Object{"threeDSServerTransID": id}.Renamed(c.names)
	code, early := w.Post("/postauth", mine)
	if reads(w.T, "Erro", early, c.erro); code != 400 {
		w.T.Errorf("/postauth before a result: %d %v", code, early)
	}
	if got.Text("transStatus") != "C" {
		return
	}
	// Who asks while the challenge is open takes these for its end.
	said := strings.ToLower(early.Text("errorDescription") + early.Text("errorDetail"))
	if strings.Contains(said, "timeout") || strings.Contains(said, "timed out") || slices.Contains([]string{"402", "405"}, early.Text("errorCode")) {
		w.T.Errorf("a challenge that is open reads as one that was given up: %v", early)
	}
	w.Challenge(got, c.creq)
	code, result := w.Post("/postauth", mine)
	if reads(w.T, "RReq", result, c.rreq); code != 200 {
		w.T.Errorf("/postauth: %d %v", code, result)
	}
}

// TestMigrating sends what migrating.md lists as refused: it gets the code that
// stands there, and the names.
func TestMigrating(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	requests := map[string]rig.Object{
		"an id as a number": rig.BrowserRequest("2.2.0", rig.EnrolledPAN, "", "U").With(rig.Object{"acquirerBIN": 400000}),
		"`threeDSRequestorAuthenticationInd` `02` alone": rig.BrowserRequest("2.2.0", rig.EnrolledPAN, "",
			"U").With(rig.Object{"threeDSRequestorAuthenticationInd": "02"}),
		"a non-payment 3RI `01` of 2.1.0, sent in 2.2.0": rig.ThreeRIRequest("2.1.0", rig.EnrolledPAN,
			"").With(rig.Object{"messageVersion": "2.2.0", "threeRIInd": "01"}),
	}
	rows := regexp.MustCompile("(?m)^\\| (.+?) \\| ([0-9]{3}) \\| `(.+?)` \\|").FindAllStringSubmatch(string(data), -1)
	if len(rows) != len(requests) {
		t.Errorf("migrating.md lists %d requests, want %d", len(rows), len(requests))
	}
	w := rig.StartSandbox(t)
	for _, row := range rows {
		req, known := requests[row[1]]
		if !known {
			t.Errorf("migrating.md lists %q, which is not tried", row[1])
			continue
		}
		status, got := w.Post("/auth", req.With(rig.Object{"threeDSServerTransID": w.NewTransactionID()}))
		if status != http.StatusBadRequest || got.Text("errorCode") != row[2] || got.Text("errorDetail") != row[3] {
			t.Errorf("%s: %d %v, want %s %s", row[1], status, got, row[2], row[3])
		}
	}
}

// merged is o with what is added to it: null and empty text too.
func merged(o, added rig.Object) rig.Object {
	o = maps.Clone(o)
	maps.Copy(o, added)
	return o
}

// reads checks that a client can read an answer.
func reads(t *testing.T, kind string, got rig.Object, members map[string]string) {
	t.Helper()
	for name, form := range members {
		name, optional := strings.CutSuffix(name, "?")
		v, there := got[name]
		if text, ok := v.(string); !there && !optional || there && (!ok || !regexp.MustCompile(form).MatchString(text)) {
			t.Errorf("%s: %s = %v, want %s, optional %t", kind, name, v, form, optional)
		}
	}
}

// TestKeyWhenAsked has clients that bring the key of /enrolled when they are asked
// for it and not before: the same request again.
func TestKeyWhenAsked(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	body := rig.Purchase("4111111111110000").Encode()
	head := fmt.Sprintf("POST /enrolled HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n", len(body))
	key := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(w.APIKey+":")) + "\r\n"
	for name, waits := range map[string]bool{"with the body": false, "waiting to be asked for the body too": true} {
		t.Run(name, func(t *testing.T) {
			var c net.Conn
			var r *bufio.Reader
			dial := func() {
				var err error
				if c, err = net.Dial("tcp", strings.TrimPrefix(w.API, "http://")); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				r = bufio.NewReader(c)
			}
			send := func(text string) *http.Response {
				if _, err := io.WriteString(c, text); err != nil {
					t.Fatal(err)
				}
				res, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				return res
			}
			dial()
			rest, expect := body, ""
			if waits {
				rest, expect = "", "Expect: 100-continue\r\n"
			}
			res := send(head + expect + "\r\n" + rest)
			_, _ = io.Copy(io.Discard, res.Body)
			if res.StatusCode != 401 || !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Basic") || res.Close != waits {
				t.Fatalf("without the key: %d %v, closed %t", res.StatusCode, res.Header, res.Close)
			}
			if res.Close {
				dial()
			}
			res = send(head + expect + key + "\r\n" + rest)
			if waits && res.StatusCode == http.StatusContinue {
				res = send(body)
			}
			var got rig.Object
			if err := json.NewDecoder(res.Body).Decode(&got); err != nil || res.StatusCode != 200 || got.Text("enrolled") != "Y" {
				t.Errorf("with the key: %d %v, %v", res.StatusCode, got, err)
			}
		})
	}
}
