package browser

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	gojose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cipher"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A sandboxSDK is the SDK of an app in a challenge that `threeds sandbox` began, with a JOSE of its own.
type sandboxSDK struct {
	t          *testing.T
	areq, ares rig.Object
	enc        gojose.ContentEncryption
	key        []byte
	url        string
	counter    int
}

// challengeSDK begins a challenge with /auth, and verifies acsSignedContent with the file that the ready file names.
func challengeSDK(w *rig.World, version, pan string, enc gojose.ContentEncryption) *sandboxSDK {
	w.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.T.Fatal(err)
	}
	public, err := gojose.JSONWebKey{Key: &key.PublicKey}.MarshalJSON()
	if err != nil {
		w.T.Fatal(err)
	}
	crd := w.Preauth(pan)
	k := &sandboxSDK{t: w.T, enc: enc, areq: rig.AppRequest(version, pan,
		crd.Text("threeDSServerTransID")).With(rig.Object{"sdkEphemPubKey": json.RawMessage(public)})}
	var code int
	if code, k.ares = w.Post("/auth", k.areq); code != 200 || k.ares.Text("transStatus") != "C" {
		w.T.Fatalf("/auth: %d %v, want a challenge", code, k.ares)
	}
	ca, err := os.ReadFile(w.CA)
	if err != nil {
		w.T.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	signed, err := gojose.ParseSignedCompact(k.ares.Text("acsSignedContent"), []gojose.SignatureAlgorithm{gojose.PS256})
	if err != nil {
		w.T.Fatal(err)
	}
	chains, err := signed.Signatures[0].Protected.Certificates(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		w.T.Fatalf("acsSignedContent is not of the file ca: %v", err)
	}
	payload, err := signed.Verify(chains[0][0].PublicKey)
	if err != nil {
		w.T.Fatal(err)
	}
	var content struct {
		URL string            `json:"acsURL"`
		ACS gojose.JSONWebKey `json:"acsEphemPubKey"`
	}
	if err := json.Unmarshal(payload, &content); err != nil {
		w.T.Fatal(err)
	}
	k.url = content.URL
	k.key = josecipher.DeriveECDHES("", nil, []byte(k.areq.Text("sdkReferenceNumber")), key, content.ACS.Key.(*ecdsa.PublicKey), 32)
	return k
}

// send posts a CReq and returns the CRes, or the Erro that came in its place.
func (k *sandboxSDK) send(changes rig.Object) rig.Object {
	k.t.Helper()
	creq := rig.Object{
		"messageType": "CReq", "messageVersion": k.areq["messageVersion"], "threeDSServerTransID": k.ares["threeDSServerTransID"],
		"acsTransID": k.ares["acsTransID"], "sdkTransID": k.areq["sdkTransID"], "sdkCounterStoA": fmt.Sprintf("%03d", k.counter),
	}
	if creq.Text("messageVersion") == "2.3.1" {
		creq["oobAppURLInd"] = "03"
	}
	raw, err := json.Marshal(creq.With(changes))
	if err != nil {
		k.t.Fatal(err)
	}
	toACS, toSDK := k.key, k.key
	if k.enc == gojose.A128GCM {
		toACS, toSDK = k.key[:16], k.key[16:]
	}
	e, err := gojose.NewEncrypter(k.enc, gojose.Recipient{Algorithm: gojose.DIRECT, Key: toACS, KeyID: k.ares.Text("acsTransID")}, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	sealed, err := e.Encrypt(raw)
	if err != nil {
		k.t.Fatal(err)
	}
	text, err := sealed.CompactSerialize()
	if err != nil {
		k.t.Fatal(err)
	}
	res, err := http.Post(k.url, "application/jose; charset=UTF-8", strings.NewReader(text))
	if err != nil {
		k.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		return rig.ParseObject(k.t, body)
	}
	answer, err := gojose.ParseEncryptedCompact(string(body), []gojose.KeyAlgorithm{gojose.DIRECT}, []gojose.ContentEncryption{k.enc})
	if err != nil {
		k.t.Fatalf("%v: %s", err, body)
	}
	plain, err := answer.Decrypt(toSDK)
	if err != nil {
		k.t.Fatal(err)
	}
	k.counter++
	return rig.ParseObject(k.t, plain)
}

// TestT6SDKOfAnApp: an app's SDK has its challenge with the issuer of `threeds sandbox`, and /postauth has how it
// ended, also where the issuer or the SDK found a fault.
func TestT6SDKOfAnApp(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		pan := map[string]string{"2.1.0": "4000000000001172", "2.2.0": "4000000000002172", "2.3.1": "4000000000003172"}[version]
		for _, enc := range []gojose.ContentEncryption{gojose.A128CBC_HS256, gojose.A128GCM} {
			for _, test := range []struct {
				name           string
				then           rig.Object
				answer, status string
				cancel         string
			}{
				{"right code", rig.Object{"challengeDataEntry": "123456"}, "CRes", "Y", ""},
				{"given up", rig.Object{"challengeCancel": "01"}, "CRes", "N", "01"},
				{"too late", rig.Object{"challengeCancel": "08"}, "CRes", "N", "08"},
				{"wrong counter", rig.Object{"sdkCounterStoA": "009"}, "Erro", "U", map[bool]string{true: "10", false: "06"}[version == "2.3.1"]},
			} {
				name := fmt.Sprintf("%s, %s, %s", version, enc, test.name)
				k := challengeSDK(w, version, pan, enc)
				if cres := k.send(nil); cres.Text("acsUiType") != "01" || cres.Text("challengeInfoText") == "" {
					t.Errorf("%s: CRes %v, want the question for a code", name, cres)
				}
				if answer := k.send(test.then); answer.Text("messageType") != test.answer ||
					answer.Text("messageType") == "CRes" && answer.Text("transStatus") != test.status {
					t.Errorf("%s: answered with %v, want %s", name, answer, test.answer)
				}
				code, rreq := w.Post("/postauth", rig.Object{"threeDSServerTransID": k.ares["threeDSServerTransID"]})
				if code != 200 || rreq.Text("messageType") != "RReq" || rreq.Text("transStatus") != test.status || rreq.Text("challengeCancel") != test.cancel {
					t.Errorf("%s: /postauth: %d %v, want %s, challengeCancel %q", name, code, rreq, test.status, test.cancel)
				}
				if hasValue := rreq.Text("authenticationValue") != ""; hasValue != (test.status == "Y") {
					t.Errorf("%s: authenticationValue in %v", name, rreq)
				}
			}
		}
	}
}

// TestT6SDKAtAPublicAddress: acsURL and the app of the bank are below the public address, and the cardholder confirms
// in that app or by POST /_sandbox/oob.
func TestT6SDKAtAPublicAddress(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t, "--public-url", "https://lab.example")
	w.API = "http://" + w.Listen
	reached := func(address string) string { return strings.Replace(address, "https://lab.example", w.API, 1) }
	for name, confirm := range map[string]func(k *sandboxSDK, bank string) (body []byte){
		"app of the bank": func(_ *sandboxSDK, bank string) []byte {
			res, err := http.PostForm(reached(bank), url.Values{"action": {"approve"}})
			rig.Must(t, err)
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			rig.Must(t, err)
			return body
		},
		"POST /_sandbox/oob": func(k *sandboxSDK, _ string) []byte {
			_, body := w.Call(http.MethodPost, "/_sandbox/oob", w.APIKey, rig.Object{"acsTransID": k.ares["acsTransID"]})
			return body
		},
	} {
		k := challengeSDK(w, "2.3.1", "4000000000003174", gojose.A128GCM)
		if k.url != "https://lab.example/acs/sdk" {
			t.Fatalf("%s: acsURL %s", name, k.url)
		}
		k.url = reached(k.url)
		const back = "shop-app://pay"
		cres := k.send(rig.Object{"oobAppURLInd": "01", "threeDSRequestorAppURL": back})
		if want := "https://lab.example/acs/bank/" + k.ares.Text("acsTransID"); cres.Text("oobAppURL") != want {
			t.Errorf("%s: CRes %v, want oobAppURL %s", name, cres, want)
		}
		if body := confirm(k, cres.Text("oobAppURL")); !strings.Contains(string(body), back) {
			t.Errorf("%s: no way back in %s", name, body)
		}
		if cres := k.send(rig.Object{"oobContinue": "02"}); cres.Text("transStatus") != "Y" || cres.Text("challengeCompletionInd") != "Y" {
			t.Errorf("%s: CRes %v, want the end with Y", name, cres)
		}
		if code, rreq := w.Post("/postauth", rig.Object{"threeDSServerTransID": k.ares["threeDSServerTransID"]}); code != 200 || rreq.Text("transStatus") != "Y" {
			t.Errorf("%s: /postauth: %d %v", name, code, rreq)
		}
	}
}
