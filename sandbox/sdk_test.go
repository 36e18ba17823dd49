package sandbox_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	gojose "github.com/go-jose/go-jose/v4"
	josecipher "github.com/go-jose/go-jose/v4/cipher"

	"github.com/openthreeds/threeds/sandbox"
)

// An appSDK is the SDK of an app, with another implementation of JOSE than the issuer has.
type appSDK struct {
	t       *testing.T
	s       *server
	key     *ecdsa.PrivateKey
	areq    members
	ares    members
	enc     gojose.ContentEncryption
	derived []byte
	url     string
	counter int // sdkCounterStoA
	shown   int // CRes that came
}

// newSDK begins a challenge: the AReq has the SDK's key, and the signed content of the ARes is verified.
func newSDK(t *testing.T, s *server, version, pan string, enc gojose.ContentEncryption, changes members) *appSDK {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k := &appSDK{t: t, s: s, key: key, enc: enc, areq: s.areq(version, "01", pan).with(changes)}
	k.areq["sdkEphemPubKey"] = publicMembers(t, &key.PublicKey)
	k.ares = s.ask(k.areq)
	if k.ares["transStatus"] != "C" {
		t.Fatalf("no challenge: %v", k.ares)
	}
	k.open(gojose.PS256)
	return k
}

func publicMembers(t *testing.T, key *ecdsa.PublicKey) members {
	t.Helper()
	raw, err := gojose.JSONWebKey{Key: key}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return read(t, raw)
}

// open verifies acsSignedContent with the issuers' authority, and derives the key of the channel.
func (k *appSDK) open(algorithm gojose.SignatureAlgorithm) {
	k.t.Helper()
	signed, err := gojose.ParseSignedCompact(k.ares["acsSignedContent"].(string), []gojose.SignatureAlgorithm{algorithm})
	if err != nil {
		k.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(k.s.box.IssuerCAPEM())
	chains, err := signed.Signatures[0].Protected.Certificates(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil || len(chains[0]) != 2 {
		k.t.Fatalf("the chain of acsSignedContent: %v", err)
	}
	payload, err := signed.Verify(chains[0][0].PublicKey)
	if err != nil {
		k.t.Fatal(err)
	}
	var content struct {
		URL string             `json:"acsURL"`
		ACS gojose.JSONWebKey  `json:"acsEphemPubKey"`
		SDK *gojose.JSONWebKey `json:"sdkEphemPubKey"`
	}
	if err := json.Unmarshal(payload, &content); err != nil {
		k.t.Fatal(err)
	}
	if !k.key.PublicKey.Equal(content.SDK.Key) {
		k.t.Errorf("sdkEphemPubKey is not the SDK's: %s", payload)
	}
	k.url = content.URL
	k.derived = josecipher.DeriveECDHES("", nil, []byte(k.areq["sdkReferenceNumber"].(string)), k.key, content.ACS.Key.(*ecdsa.PublicKey), 32)
}

// creq is the next CReq.
func (k *appSDK) creq(changes members) members {
	m := members{
		"messageType": "CReq", "messageVersion": k.areq["messageVersion"], "threeDSServerTransID": k.areq["threeDSServerTransID"],
		"acsTransID": k.ares["acsTransID"], "sdkTransID": k.areq["sdkTransID"], "sdkCounterStoA": fmt.Sprintf("%03d", k.counter),
	}
	if m["messageVersion"] == "2.3.1" {
		m["oobAppURLInd"] = "03"
	}
	return m.with(changes)
}

// seal encrypts a message for the issuer.
func (k *appSDK) seal(message []byte, kid any) string {
	k.t.Helper()
	key := k.derived
	if k.enc == gojose.A128GCM {
		key = key[:16]
	}
	e, err := gojose.NewEncrypter(k.enc, gojose.Recipient{Algorithm: gojose.DIRECT, Key: key, KeyID: kid.(string)}, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	sealed, err := e.Encrypt(message)
	if err != nil {
		k.t.Fatal(err)
	}
	text, err := sealed.CompactSerialize()
	if err != nil {
		k.t.Fatal(err)
	}
	return text
}

// post sends a text to the issuer.
func (k *appSDK) post(kind, text string) (contentType, answer string) {
	k.t.Helper()
	res, err := http.Post(k.url, kind, strings.NewReader(text))
	if err != nil {
		k.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	return res.Header.Get("Content-Type"), string(body)
}

// send sends the next CReq and opens the CRes.
func (k *appSDK) send(changes members) members {
	k.t.Helper()
	kind, text := k.post("application/jose; charset=UTF-8", k.seal(k.creq(changes).json(k.t), k.ares["acsTransID"]))
	if !strings.HasPrefix(kind, "application/jose") {
		k.t.Fatalf("%s %s, want a CRes", kind, text)
	}
	k.counter++
	cres, err := k.unseal(text)
	if err != nil {
		k.t.Fatal(err)
	}
	if want := fmt.Sprintf("%03d", k.shown); cres["acsCounterAtoS"] != want || cres["sdkTransID"] != k.areq["sdkTransID"] || cres["messageVersion"] != k.areq["messageVersion"] {
		k.t.Errorf("CRes %v, want counter %s", cres, want)
	}
	k.shown++
	return cres
}

// unseal opens what the issuer encrypted.
func (k *appSDK) unseal(text string) (members, error) {
	sealed, err := gojose.ParseEncryptedCompact(text, []gojose.KeyAlgorithm{gojose.DIRECT}, []gojose.ContentEncryption{k.enc})
	if err != nil {
		return nil, err
	}
	key := k.derived
	if k.enc == gojose.A128GCM {
		key = key[16:]
	}
	plain, err := sealed.Decrypt(key)
	if err != nil {
		return nil, err
	}
	if sealed.Header.KeyID != k.ares["acsTransID"] {
		return nil, fmt.Errorf("kid %q", sealed.Header.KeyID)
	}
	return read(k.t, plain), nil
}

// wantErro sends a text and wants an Erro in the clear, with a code.
func (k *appSDK) wantErro(name, kind, text, code, detail string) {
	k.t.Helper()
	contentType, answer := k.post(kind, text)
	var erro members
	if json.Unmarshal([]byte(answer), &erro) != nil || !strings.HasPrefix(contentType, "application/json") || erro["messageType"] != "Erro" ||
		erro["errorCode"] != code || erro["errorComponent"] != "A" || !strings.Contains(erro["errorDetail"].(string), detail) {
		k.t.Errorf("%s: %s %s, want Erro %s with %q", name, contentType, answer, code, detail)
	}
}

// wantEnd wants the end of the challenge in the CRes, and the same in the RReq.
func (k *appSDK) wantEnd(name string, cres members, status, reason, cancel string) {
	k.t.Helper()
	if cres["challengeCompletionInd"] != "Y" || cres["transStatus"] != status || cres["acsUiType"] != nil {
		k.t.Errorf("%s: CRes %v, want the end with %s", name, cres, status)
	}
	rreq := k.s.result().message
	for member, want := range map[string]string{"transStatus": status, "transStatusReason": reason, "challengeCancel": cancel} {
		if got, _ := rreq[member].(string); got != want {
			k.t.Errorf("%s: RReq has %s %q, want %q", name, member, got, want)
		}
	}
}

// showing asks for a user interface.
func showing(face string, types ...string) members {
	return members{"deviceRenderOptions": members{"sdkInterface": face, "sdkUiType": types}}
}

// TestCase08NativeSDK: an SDK with a JOSE implementation of its own takes each user interface to its end, in all
// versions and both encryptions.
func TestCase08NativeSDK(t *testing.T) {
	box := start(t, func(b *sandbox.Sandbox) { b.AppDelay = time.Hour })
	s := newServer(t, box)
	type step struct {
		send members
		want string // acsUiType, or the transStatus at the end
	}
	code, wrong := members{"challengeDataEntry": "123456"}, members{"challengeDataEntry": "000000"}
	continued := members{"oobContinue": true}
	for name, test := range map[string]struct {
		face, ui       string
		card           string
		steps          []step
		reason, cancel string
	}{
		"code":             {"01", "01", "72", []step{{nil, "01"}, {code, "Y"}}, "", ""},
		"two wrong codes":  {"01", "01", "72", []step{{nil, "01"}, {wrong, "01"}, {wrong, "01"}, {code, "Y"}}, "", ""},
		"three":            {"01", "01", "72", []step{{nil, "01"}, {wrong, "01"}, {wrong, "01"}, {wrong, "N"}}, "19", ""},
		"a new code":       {"01", "01", "72", []step{{nil, "01"}, {members{"resendChallenge": "Y"}, "01"}, {code, "Y"}}, "", ""},
		"one of":           {"01", "02", "72", []step{{nil, "02"}, {members{"challengeDataEntry": "pass"}, "Y"}}, "", ""},
		"the wrong one":    {"01", "02", "72", []step{{nil, "02"}, {members{"challengeDataEntry": "fail"}, "N"}}, "01", ""},
		"some of":          {"01", "03", "72", []step{{nil, "03"}, {members{"challengeDataEntry": "pass"}, "Y"}}, "", ""},
		"some wrong":       {"01", "03", "72", []step{{nil, "03"}, {members{"challengeDataEntry": "pass,fail"}, "N"}}, "01", ""},
		"outside":          {"01", "04", "72", []step{{nil, "04"}, {continued, "Y"}}, "", ""},
		"page":             {"02", "05", "72", []step{{nil, "05"}, {members{"challengeHTMLDataEntry": "entry=123456&action=confirm"}, "Y"}}, "", ""},
		"page, one of":     {"02", "02", "72", []step{{nil, "05"}, {members{"challengeHTMLDataEntry": "entry=fail"}, "N"}}, "01", ""},
		"page, given up":   {"02", "01", "72", []step{{nil, "05"}, {members{"challengeHTMLDataEntry": "entry=&action=cancel"}, "N"}}, "01", "01"},
		"given up":         {"01", "01", "72", []step{{nil, "01"}, {members{"challengeCancel": "01"}, "N"}}, "01", "01"},
		"too long":         {"01", "01", "72", []step{{nil, "01"}, {members{"challengeCancel": "08"}, "N"}}, "14", "08"},
		"passes by itself": {"01", "01", "70", []step{{nil, "Y"}}, "", ""},
		"fails by itself":  {"01", "01", "71", []step{{nil, "N"}}, "01", ""},
	} {
		for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
			for _, enc := range []gojose.ContentEncryption{gojose.A128CBC_HS256, gojose.A128GCM} {
				k := newSDK(t, s, version, "40000000000001"+test.card, enc, showing(test.face, test.ui))
				for i, step := range test.steps {
					changes := maps.Clone(step.send)
					if version == "2.3.1" && changes["oobContinue"] != nil {
						changes["oobContinue"] = "01"
					}
					cres := k.send(changes)
					where := fmt.Sprintf("%s, %s, %s, step %d", name, version, enc, i)
					if i == len(test.steps)-1 {
						k.wantEnd(where, cres, step.want, test.reason, test.cancel)
						k.wantErro(where+", after the end", "application/jose", k.seal(k.creq(nil).json(t), k.ares["acsTransID"]),
							map[string]string{"2.3.1": "315"}[version]+map[bool]string{true: "305"}[version != "2.3.1"], "over")
						continue
					}
					wantInterface(t, where, cres, step.want)
				}
			}
		}
	}
}

// wantInterface wants a CRes that shows a user interface, with the texts that it has to have.
func wantInterface(t *testing.T, name string, cres members, ui string) {
	t.Helper()
	if cres["acsUiType"] != ui || cres["challengeCompletionInd"] != "N" || cres["transStatus"] != nil {
		t.Errorf("%s: CRes %v, want acsUiType %s", name, cres, ui)
	}
	need := map[string][]string{
		"01": {"challengeInfoLabel", "submitAuthenticationLabel"}, "02": {"challengeSelectInfo", "submitAuthenticationLabel"},
		"03": {"challengeSelectInfo", "submitAuthenticationLabel"}, "04": {"oobContinueLabel"}, "05": {"acsHTML"},
	}[ui]
	if ui != "05" {
		need = append(need, "challengeInfoHeader", "challengeInfoText", "whyInfoText")
	}
	for _, member := range need {
		if cres[member] == nil || cres[member] == "" {
			t.Errorf("%s: CRes without %s: %v", name, member, cres)
		}
	}
	if text, _ := cres["challengeInfoText"].(string); ui != "05" && !strings.Contains(text, "1,234.50 EUR to Bicycles & Sons") {
		t.Errorf("%s: challengeInfoText %q does not say what is paid", name, text)
	}
	if ui == "05" {
		page, err := base64.RawURLEncoding.DecodeString(cres["acsHTML"].(string))
		if err != nil || !strings.Contains(string(page), `action="HTTPS://EMV3DS/challenge"`) || !strings.Contains(string(page), "Bicycles &amp; Sons") {
			t.Errorf("%s: acsHTML %s, %v", name, page, err)
		}
	}
}

// TestD86WrongCReq: each fault of a CReq has its code, and the challenge goes on with what is right.
func TestD86WrongCReq(t *testing.T) {
	s := newServer(t, start(t, nil))
	k := newSDK(t, s, "2.2.0", "4000000000000172", gojose.A128CBC_HS256, showing("01", "02"))
	id := k.ares["acsTransID"]
	sealed := func(changes members) string { return k.seal(k.creq(changes).json(t), id) }
	good := sealed(nil)
	other := *k
	other.derived = make([]byte, 32)
	const jose = "application/jose"
	for _, test := range []struct{ name, kind, text, code, detail string }{
		{"type of the content", "text/plain", good, "101", "application/jose"},
		{"not encrypted", jose, string(k.creq(nil).json(t)), "302", ""},
		{"cut", jose, good[:len(good)-30], "302", ""},
		{"another key", jose, other.seal(k.creq(nil).json(t), id), "302", "open"},
		{"kid", jose, k.seal(k.creq(nil).json(t), newID()), "301", "acsTransID"},
		{"counter", jose, sealed(members{"sdkCounterStoA": "001"}), "302", "sdkCounterStoA: want 000"},
		{"no counter", jose, sealed(members{"sdkCounterStoA": nil}), "201", "sdkCounterStoA"},
		{"threeDSServerTransID", jose, sealed(members{"threeDSServerTransID": newID()}), "301", "threeDSServerTransID"},
		{"acsTransID", jose, sealed(members{"acsTransID": newID()}), "301", "acsTransID"},
		{"sdkTransID", jose, sealed(members{"sdkTransID": newID()}), "301", "sdkTransID"},
		{"messageType", jose, sealed(members{"messageType": "CRes"}), "101", ""},
		{"messageVersion", jose, sealed(members{"messageVersion": "2.1.0"}), "102", "2.2.0"},
		{"value", jose, sealed(members{"challengeCancel": "77"}), "203", "challengeCancel"},
		{"not JSON", jose, k.seal([]byte("hello"), id), "101", ""},
		{"an Erro of nothing", "application/json", `{"messageType":"Erro","acsTransID":"` + newID() + `"}`, "101", ""},
	} {
		k.wantErro(test.name, test.kind, test.text, test.code, test.detail)
	}
	wantInterface(t, "after all of them", k.send(nil), "02")
	k.wantErro("an option that there is not", jose, sealed(members{"challengeDataEntry": "maybe"}), "203", "challengeDataEntry")
	k.wantErro("again", jose, good, "302", "sdkCounterStoA: want 001")
	k.wantEnd("after these", k.send(members{"challengeDataEntry": "pass"}), "Y", "", "")
}

// TestD86DecidedOutside: what the app of the bank or the control port decides is in the next CRes.
func TestD86DecidedOutside(t *testing.T) {
	box := start(t, func(b *sandbox.Sandbox) { b.AppDelay = time.Hour })
	s := newServer(t, box)
	for _, card := range []string{"4000000000000174", "4000000000000172"} {
		k := newSDK(t, s, "2.2.0", card, gojose.A128GCM, showing("03", "04", "01"))
		wantInterface(t, card, k.send(nil), "04")
		if p := send(t, box.ControlURL()+"/oob", url.Values{"acsTransID": {k.ares["acsTransID"].(string)}}); p.status != http.StatusOK {
			t.Fatalf("POST /oob: %d %s", p.status, p.text)
		}
		k.wantEnd(card, k.send(members{"oobContinue": true}), "Y", "", "")
	}
	k := newSDK(t, s, "2.2.0", "4000000000000174", gojose.A128GCM, showing("01", "04"))
	k.send(nil)
	send(t, box.ControlURL()+"/app", url.Values{"transID": {k.ares["acsTransID"].(string)}, "result": {"fail"}})
	k.wantEnd("declined", k.send(members{"oobContinue": true}), "N", "01", "")
}

// TestD86BrokenCRes: each merchant's CRes is broken in its one way, and an Erro of the SDK ends the challenge.
func TestD86BrokenCRes(t *testing.T) {
	s := newServer(t, start(t, nil))
	for merchant, check := range map[string]func(k *appSDK, kind, text string) bool{
		"SDK-MAC": func(k *appSDK, _, text string) bool {
			_, err := k.unseal(text)
			return err != nil && strings.Count(text, ".") == 4
		},
		"SDK-ENC": func(k *appSDK, _, text string) bool { _, err := k.unseal(text); return err != nil },
		"SDK-KID": func(k *appSDK, _, text string) bool {
			_, err := k.unseal(text)
			return strings.HasPrefix(fmt.Sprint(err), "kid ")
		},
		"SDK-CUT": func(k *appSDK, _, text string) bool { _, err := k.unseal(text); return err != nil },
		"SDK-TYPE": func(k *appSDK, kind, text string) bool {
			_, err := k.unseal(text)
			return err == nil && strings.HasPrefix(kind, "text/html")
		},
		"SDK-CLEAR": func(k *appSDK, kind, text string) bool {
			return strings.HasPrefix(kind, "application/jose") && read(k.t, []byte(text))["acsUiType"] == "04"
		},
		"SDK-COUNTER": opened(func(cres members) bool { return cres["acsCounterAtoS"] == "001" }),
		"SDK-WHY":     opened(func(cres members) bool { return cres["whyInfoText"] == "" }),
		"SDK-NOLABEL": opened(func(cres members) bool { return cres["oobContinueLabel"] == nil }),
		"SDK-VERSION": opened(func(cres members) bool { return cres["messageVersion"] == "2.1.0" }),
		"merchant-1":  opened(func(cres members) bool { return cres["whyInfoText"] != "" && cres["oobContinueLabel"] != nil }),
	} {
		changes := showing("01", "04").with(members{"acquirerMerchantID": merchant})
		k := newSDK(t, s, "2.2.0", "4000000000000172", gojose.A128CBC_HS256, changes)
		kind, text := k.post("application/jose", k.seal(k.creq(nil).json(t), k.ares["acsTransID"]))
		if !check(k, kind, text) {
			t.Errorf("%s: %s %s", merchant, kind, text)
		}
		erro := members{"messageType": "Erro", "acsTransID": k.ares["acsTransID"], "errorCode": "302"}.json(t)
		if _, answer := k.post("application/json", string(erro)); answer != "" {
			t.Errorf("%s: the Erro is answered with %s", merchant, answer)
		}
		if rreq := s.result().message; rreq["transStatus"] != "U" || rreq["challengeCancel"] != "06" {
			t.Errorf("%s: RReq %v", merchant, rreq)
		}
	}
	k := &appSDK{t: t, s: s, areq: s.areq("2.2.0", "01", "4000000000000172").with(members{"acquirerMerchantID": "SDK-ES256"})}
	var err error
	if k.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	k.areq["sdkEphemPubKey"] = publicMembers(t, &k.key.PublicKey)
	k.ares = s.ask(k.areq)
	k.open(gojose.ES256)
}

// opened checks a CRes that opens.
func opened(check func(cres members) bool) func(k *appSDK, kind, text string) bool {
	return func(k *appSDK, _, text string) bool {
		cres, err := k.unseal(text)
		return err == nil && check(cres)
	}
}
