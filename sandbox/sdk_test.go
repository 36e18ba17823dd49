package sandbox_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	gojose "github.com/go-jose/go-jose/v4"
	josecipher "github.com/go-jose/go-jose/v4/cipher"

	"github.com/openthreeds/threeds/message"
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
	head, _, _ := strings.Cut(k.ares["acsSignedContent"].(string), ".")
	sent, _ := read(k.t, unpad(k.t, head))["x5c"].([]any)
	authority, _ := pem.Decode(k.s.box.IssuerCAPEM())
	if len(sent) != 2 || sent[1] != base64.StdEncoding.EncodeToString(authority.Bytes) {
		k.t.Errorf("x5c has %d certificates, want the issuer's and its CA's", len(sent))
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
	if want := fmt.Sprintf("%03d", k.shown); cres["acsCounterAtoS"] != want ||
		cres["sdkTransID"] != k.areq["sdkTransID"] || cres["messageVersion"] != k.areq["messageVersion"] {
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
func (k *appSDK) wantErro(name, kind, text, code, detail string) (erro members) {
	k.t.Helper()
	contentType, answer := k.post(kind, text)
	if json.Unmarshal([]byte(answer), &erro) != nil || !strings.HasPrefix(contentType, "application/json") || erro["messageType"] != "Erro" ||
		erro["errorCode"] != code || erro["errorComponent"] != "A" || !strings.Contains(erro["errorDetail"].(string), detail) {
		k.t.Errorf("%s: %s %s, want Erro %s with %q", name, contentType, answer, code, detail)
	}
	valid(k.t, []byte(answer), message.Context{})
	return erro
}

// wantErroEnd wants the RReq of a challenge that ended with an Erro, which 2.3.1 has a copy of.
func (k *appSDK) wantErroEnd(name, cancel string, erro members) {
	k.t.Helper()
	rreq := k.result()
	if k.areq["messageVersion"] != "2.3.1" {
		cancel, erro = "06", nil
	}
	report, _ := rreq["challengeErrorReporting"].(map[string]any)
	if rreq["transStatus"] != "U" || rreq["challengeCancel"] != cancel || !maps.Equal(report, map[string]any(erro)) {
		k.t.Errorf("%s: RReq %v, want U with challengeCancel %s and a report of %v", name, rreq, cancel, erro)
	}
}

// result is the RReq of the challenge, which the field tables have nothing against.
func (k *appSDK) result() members {
	k.t.Helper()
	got := k.s.result()
	valid(k.t, got.raw, message.Context{AReq: parse(k.t, k.areq.json(k.t)), ARes: parse(k.t, k.ares.json(k.t))})
	return got.message
}

// wantEnd wants the end of the challenge in the CRes, and the same in the RReq.
func (k *appSDK) wantEnd(name string, cres members, status, reason, cancel string) {
	k.t.Helper()
	if cres["challengeCompletionInd"] != "Y" || cres["transStatus"] != status || cres["acsUiType"] != nil {
		k.t.Errorf("%s: CRes %v, want the end with %s", name, cres, status)
	}
	rreq := k.result()
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
		"page, outside":    {"02", "04", "72", []step{{nil, "05"}, {members{"challengeHTMLDataEntry": "action=confirm"}, "Y"}}, "", ""},
		"page, given up":   {"02", "01", "72", []step{{nil, "05"}, {members{"challengeHTMLDataEntry": "entry=&action=cancel"}, "N"}}, "01", "01"},
		"given up":         {"01", "01", "72", []step{{nil, "01"}, {members{"challengeCancel": "01"}, "N"}}, "01", "01"},
		"too long":         {"01", "01", "72", []step{{nil, "01"}, {members{"challengeCancel": "08"}, "N"}}, "01", "08"},
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
		"03": {"challengeSelectInfo", "submitAuthenticationLabel"}, "04": {"oobContinueLabel"}, "05": {"acsHTML"}, "06": {"acsHTML"},
	}[ui]
	isPage := ui == "05" || ui == "06"
	if !isPage {
		need = append(need, "challengeInfoHeader", "challengeInfoText", "whyInfoText")
	}
	for _, member := range need {
		if cres[member] == nil || cres[member] == "" {
			t.Errorf("%s: CRes without %s: %v", name, member, cres)
		}
	}
	if text, _ := cres["challengeInfoText"].(string); !isPage && !strings.Contains(text, "1,234.50 EUR to Bicycles & Sons") {
		t.Errorf("%s: challengeInfoText %q does not say what is paid", name, text)
	}
	if isPage {
		page, err := base64.RawURLEncoding.DecodeString(cres["acsHTML"].(string))
		if err != nil || !strings.Contains(string(page), `action="HTTPS://EMV3DS/challenge"`) || !strings.Contains(string(page), "Bicycles &amp; Sons") {
			t.Errorf("%s: acsHTML %s, %v", name, page, err)
		}
	}
}

// TestD86WrongCReq: each fault of a CReq has its code, and ends the challenge: the RReq says so, and in 2.3.1 how.
func TestD86WrongCReq(t *testing.T) {
	s := newServer(t, start(t, nil))
	const late = "The challenge is over"
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		other := map[string]string{"2.1.0": "2.2.0", "2.2.0": "2.1.0", "2.3.1": "2.2.0"}[version]
		for _, test := range []struct {
			name         string
			changes      members
			code, detail string
		}{
			{"counter", members{"sdkCounterStoA": "001"}, "302", "sdkCounterStoA: want 000"},
			{"no counter", members{"sdkCounterStoA": nil}, "201", "sdkCounterStoA"},
			{"threeDSServerTransID", members{"threeDSServerTransID": newID()}, "301", "threeDSServerTransID"},
			{"acsTransID", members{"acsTransID": newID()}, "301", "acsTransID"},
			{"sdkTransID", members{"sdkTransID": newID()}, "301", "sdkTransID"},
			{"messageType", members{"messageType": "CRes"}, "101", ""},
			{"messageVersion", members{"messageVersion": other}, "102", version},
			{"value", members{"challengeCancel": "1"}, "203", "challengeCancel"},
		} {
			k := newSDK(t, s, version, "4000000000000172", gojose.A128CBC_HS256, showing("01", "02"))
			id, name := k.ares["acsTransID"], version+", "+test.name
			erro := k.wantErro(name, "application/jose", k.seal(k.creq(test.changes).json(t), id), test.code, test.detail)
			k.wantErroEnd(name, "10", erro)
			over := map[bool]string{true: "315", false: "305"}[version == "2.3.1"]
			k.wantErro(name+", then a good one", "application/jose", k.seal(k.creq(nil).json(t), id), over, late)
		}
	}
	s.none() // each challenge has ended once
}

// TestD86UnreadableCReq: what does not open ends the challenge that its kid names, and none if it names none.
func TestD86UnreadableCReq(t *testing.T) {
	s := newServer(t, start(t, nil))
	const jose = "application/jose"
	for name, test := range map[string]struct {
		kind, code, detail string
		text               func(k *appSDK) string
		ends               bool
	}{
		"type of the content": {"text/plain", "101", "application/jose", func(k *appSDK) string { return k.seal([]byte("{}"), k.ares["acsTransID"]) }, false},
		"not encrypted":       {jose, "302", "five parts", func(k *appSDK) string { return string(k.creq(nil).json(t)) }, false},
		"header":              {jose, "302", "header", func(*appSDK) string { return "e.a.b.c.d" }, false},
		"kid":                 {jose, "301", "acsTransID", func(k *appSDK) string { return k.seal(k.creq(nil).json(t), newID()) }, false},
		"another id as kid":   {jose, "301", "acsTransID", func(k *appSDK) string { return k.seal(k.creq(nil).json(t), k.ares["dsTransID"]) }, false},
		"an Erro with another id": {"application/json", "101", "acsTransID", func(k *appSDK) string {
			return string(k.erro().with(members{"acsTransID": k.ares["dsTransID"]}).json(t))
		}, false},
		"an Erro of nothing": {"application/json", "101", "acsTransID", func(k *appSDK) string {
			return `{"messageType":"Erro","acsTransID":"` + newID() + `"}`
		}, false},
		"cut": {jose, "302", "", func(k *appSDK) string {
			text := k.seal(k.creq(nil).json(t), k.ares["acsTransID"])
			return text[:len(text)-10]
		}, true},
		"another key": {jose, "302", "open", func(k *appSDK) string {
			other := *k
			other.derived = make([]byte, 32)
			return other.seal(k.creq(nil).json(t), k.ares["acsTransID"])
		}, true},
		"enc": {jose, "302", "enc", func(k *appSDK) string {
			other := *k
			other.enc, other.derived = gojose.A256GCM, make([]byte, 32)
			return other.seal(k.creq(nil).json(t), k.ares["acsTransID"])
		}, true},
		"not JSON": {jose, "101", "", func(k *appSDK) string { return k.seal([]byte("hello"), k.ares["acsTransID"]) }, true},
	} {
		k := newSDK(t, s, "2.3.1", "4000000000000172", gojose.A128CBC_HS256, showing("01", "01"))
		erro := k.wantErro(name, test.kind, test.text(k), test.code, test.detail)
		if test.ends {
			k.wantErroEnd(name, "10", erro)
			continue
		}
		wantInterface(t, name, k.send(nil), "01")
		k.wantEnd(name, k.send(members{"challengeDataEntry": "123456"}), "Y", "", "")
	}
	s.none()
}

// TestD86OptionThatThereIsNot: it is a fault of the CReq, and so is the CReq that came before.
func TestD86OptionThatThereIsNot(t *testing.T) {
	s := newServer(t, start(t, nil))
	for code, make := range map[string]func(k *appSDK) members{
		"203": func(k *appSDK) members { return k.creq(members{"challengeDataEntry": "maybe"}) },
		"302": func(k *appSDK) members { return k.creq(members{"sdkCounterStoA": "000"}) },
	} {
		k := newSDK(t, s, "2.2.0", "4000000000000172", gojose.A128GCM, showing("01", "02"))
		wantInterface(t, code, k.send(nil), "02")
		erro := k.wantErro(code, "application/jose", k.seal(make(k).json(t), k.ares["acsTransID"]), code, "")
		k.wantErroEnd(code, "10", erro)
	}
}

// TestT6WayBack: the SDK opens the app of the bank, which leads back to that of the shop, whatever was decided there.
func TestT6WayBack(t *testing.T) {
	s := newServer(t, start(t, nil))
	const back = "shop-app://pay?transID=1"
	for _, test := range []struct{ version, face, ui, press, status, reason string }{
		{"2.2.0", "01", "04", "approve", "Y", ""},
		{"2.3.1", "01", "04", "approve", "Y", ""},
		{"2.3.1", "01", "04", "decline", "N", "01"},
		{"2.3.1", "02", "06", "approve", "Y", ""},
	} {
		k := newSDK(t, s, test.version, "4000000000000174", gojose.A128CBC_HS256, showing(test.face, "01", test.ui))
		first, address := members{"threeDSRequestorAppURL": back, "oobAppURLInd": "01"}, s.box.ACSURL()+"/bank/"+k.ares["acsTransID"].(string)
		if test.version == "2.3.1" {
			if k.ares["threeDSRequestorAppURLInd"] != "Y" {
				t.Errorf("ARes %v, want threeDSRequestorAppURLInd Y", k.ares)
			}
		}
		cres := k.send(first)
		wantInterface(t, test.version, cres, test.ui)
		if url, _ := cres["oobAppURL"].(string); test.version == "2.3.1" && (url != address || cres["oobAppLabel"] == nil) || test.version != "2.3.1" && url != "" {
			t.Errorf("%s: oobAppURL %q, oobAppLabel %v", test.version, url, cres["oobAppLabel"])
		}
		p := get(t, address)
		if p.header.Get("X-Frame-Options") != "DENY" || !strings.Contains(p.header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("the bank's app may stand in a frame: %v", p.header)
		}
		if p.status != http.StatusOK || p.testID("merchant") != "Bicycles & Sons" || strings.Contains(p.text, back) {
			t.Errorf("the bank's app: %d %s", p.status, p.text)
		}
		if p = p.press(test.press, ""); p.part(`data-testid="back" href="([^"]*)"`) != back {
			t.Errorf("the bank's app after %s: %s", test.press, p.text)
		}
		// Reading it again decides nothing, nor does another answer.
		if p = send(t, address, url.Values{"action": {"approve"}}); p.part(`data-testid="back" href="([^"]*)"`) != back {
			t.Errorf("the bank's app again: %s", p.text)
		}
		entry := members{"oobContinue": true} // without the address: the first CReq had it
		if test.version == "2.3.1" {
			entry["oobContinue"] = "02"
		}
		k.wantEnd(test.version+" "+test.press, k.send(entry), test.status, test.reason, "")
		if p = get(t, address); p.part(`data-testid="back" href="([^"]*)"`) != back {
			t.Errorf("the bank's app after the end: %s", p.text)
		}
	}
	s.none()
}

// TestT6WayBackIsAnApp: an address that a browser would run is no link, and POST /oob says every address as it came.
func TestT6WayBackIsAnApp(t *testing.T) {
	s := newServer(t, start(t, nil))
	for address, isLink := range map[string]bool{
		"shop-app://pay?transID=1": true, "https://shop.example/back": true, "javascript://shop.example/%0aalert(1)": false, "": false,
	} {
		k := newSDK(t, s, "2.2.0", "4000000000000174", gojose.A128CBC_HS256, showing("01", "04"))
		changes := members{"threeDSRequestorAppURL": address}
		if address == "" {
			changes = nil
		}
		k.send(changes)
		answer := read(t, []byte(send(t, s.box.ControlURL()+"/oob", url.Values{"acsTransID": {k.ares["acsTransID"].(string)}}).text))
		if said, _ := answer["threeDSRequestorAppURL"].(string); said != address {
			t.Errorf("POST /oob says %v, want %q", answer, address)
		}
		p := get(t, s.box.ACSURL()+"/bank/"+k.ares["acsTransID"].(string))
		if got := strings.Contains(p.text, `data-testid="back"`); got != isLink {
			t.Errorf("%q is a link: %t, want %t", address, got, isLink)
		}
		k.result()
	}
	k := newSDK(t, s, "2.2.0", "4000000000000172", gojose.A128CBC_HS256, showing("01", "01"))
	outside := newSDK(t, s, "2.2.0", "4000000000000174", gojose.A128CBC_HS256, showing("01", "04"))
	for _, id := range []any{k.ares["acsTransID"], newID(), outside.ares["dsTransID"]} {
		if p := get(t, s.box.ACSURL()+"/bank/"+id.(string)); p.status != http.StatusNotFound {
			t.Errorf("status %d for a challenge that is not out of band", p.status)
		}
	}
}

// TestT6BankAppThatDoesNotOpen: the SDK says so, and nothing is confirmed by that.
func TestT6BankAppThatDoesNotOpen(t *testing.T) {
	s := newServer(t, start(t, nil))
	k := newSDK(t, s, "2.3.1", "4000000000000174", gojose.A128CBC_HS256, showing("01", "04"))
	k.send(members{"oobAppURLInd": "01"})
	cres := k.send(members{"oobAppURLInd": "01", "oobAppStatus": "01"})
	wantInterface(t, "not opened", cres, "04")
	if text, _ := cres["challengeInfoText"].(string); cres["oobAppURL"] != nil || !strings.Contains(text, "did not open") {
		t.Errorf("CRes %v", cres)
	}
	s.none()
	k.wantEnd("by hand", k.send(members{"oobContinue": "01"}), "Y", "", "")
}

// TestT6Timeout: a challenge that the SDK leaves alone ends by itself, and its next CReq gets the end.
func TestT6Timeout(t *testing.T) {
	s := newServer(t, start(t, func(b *sandbox.Sandbox) { b.StepTimeout = 200 * time.Millisecond }))
	k := newSDK(t, s, "2.2.0", "4000000000000172", gojose.A128CBC_HS256, showing("01", "01"))
	wantInterface(t, "first", k.send(nil), "01")
	rreq := k.result()
	if rreq["transStatus"] != "N" || rreq["transStatusReason"] != "14" || rreq["challengeCancel"] != "04" {
		t.Errorf("RReq %v, want a timeout", rreq)
	}
	if cres := k.send(members{"challengeDataEntry": "123456"}); cres["challengeCompletionInd"] != "Y" || cres["transStatus"] != "N" {
		t.Errorf("CRes %v, want the end with N", cres)
	}
	s.none()
}

// TestT6BelowAPath: acsURL has the path below which the caller serves the issuers' pages.
func TestT6BelowAPath(t *testing.T) {
	var pages http.Handler
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { pages.ServeHTTP(w, r) }))
	defer site.Close()
	box := start(t, func(b *sandbox.Sandbox) { b.PagesURL = site.URL + "/acs" })
	pages = box.Pages()
	s := newServer(t, box)
	k := newSDK(t, s, "2.3.1", "4000000000000174", gojose.A128GCM, showing("01", "04"))
	if k.url != site.URL+"/acs/sdk" {
		t.Errorf("acsURL %s", k.url)
	}
	cres := k.send(members{"oobAppURLInd": "01", "threeDSRequestorAppURL": "shop-app://pay"})
	if p := get(t, cres["oobAppURL"].(string)).press("approve", ""); p.part(`data-testid="back" href="([^"]*)"`) != "shop-app://pay" {
		t.Errorf("the bank's app: %s", p.text)
	}
	k.wantEnd("below a path", k.send(members{"oobContinue": "02"}), "Y", "", "")
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
		k.complain(merchant, k.erro())
		k.wantErroEnd(merchant, "09", k.erro())
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

// erro is what an SDK says of a CRes.
func (k *appSDK) erro() members {
	return members{
		"messageType": "Erro", "messageVersion": k.areq["messageVersion"], "threeDSServerTransID": k.areq["threeDSServerTransID"],
		"acsTransID": k.ares["acsTransID"], "sdkTransID": k.areq["sdkTransID"], "errorCode": "302", "errorComponent": "C",
		"errorDescription": "Data Decryption Failure", "errorDetail": "CRes", "errorMessageType": "CRes",
	}
}

// complain sends an Erro, which gets no answer.
func (k *appSDK) complain(name string, erro members) {
	k.t.Helper()
	if _, answer := k.post("application/json", string(erro.json(k.t))); answer != "" {
		k.t.Errorf("%s: the Erro is answered with %s", name, answer)
	}
}

// TestD86ErroOfSDK: it ends the challenge once, in each version with what that has for it. One that is no good is not
// passed on.
func TestD86ErroOfSDK(t *testing.T) {
	s := newServer(t, start(t, nil))
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		k := newSDK(t, s, version, "4000000000000172", gojose.A128CBC_HS256, showing("01", "01"))
		k.send(nil)
		k.complain(version, k.erro())
		k.wantErroEnd(version, "09", k.erro())
		k.complain(version+", again", k.erro())
		over := map[bool]string{true: "315", false: "305"}[version == "2.3.1"]
		k.wantErro(version+", then a CReq", "application/jose", k.seal(k.creq(nil).json(t), k.ares["acsTransID"]), over, "over")
	}
	k := newSDK(t, s, "2.3.1", "4000000000000172", gojose.A128CBC_HS256, showing("01", "01"))
	k.complain("without errorDescription", k.erro().with(members{"errorDescription": nil}))
	if rreq := k.result(); rreq["challengeCancel"] != "06" || rreq["challengeErrorReporting"] != nil {
		t.Errorf("RReq %v, want challengeCancel 06 and no report", rreq)
	}
	s.none()
}

// opened checks a CRes that opens.
func opened(check func(cres members) bool) func(k *appSDK, kind, text string) bool {
	return func(k *appSDK, _, text string) bool {
		cres, err := k.unseal(text)
		return err == nil && check(cres)
	}
}
