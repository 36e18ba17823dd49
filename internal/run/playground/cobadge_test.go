package playground

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/keyring"
)

// A lab is a server that runs from the files of a rehearsal, with the directory servers and issuers in this process.
type lab struct {
	*testing.T
	api, console, control string
	file                  string // threeds.yaml
	reload                chan os.Signal
	browser               *http.Client // trusts the issuers' pages
}

// startLab starts the directory servers, has change alter threeds.yaml, and starts a server from it.
func startLab(t *testing.T, change func(text string) string) *lab {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lab")
	box, err := Rehearsal{Dir: dir, DirectoriesListen: "127.0.0.1:0", PagesListen: "127.0.0.1:0"}.Start()
	must(t, err)
	t.Cleanup(func() { must(t, box.Close()) })
	l := &lab{T: t, control: box.ControlURL(), file: filepath.Join(dir, "threeds.yaml"), reload: make(chan os.Signal, 1)}
	text, err := os.ReadFile(l.file)
	must(t, err)
	for _, address := range []string{"127.0.0.1:8080", "127.0.0.1:8443", "127.0.0.1:8090", "127.0.0.1:8091"} {
		free := porttest.Address(t)
		if !bytes.Contains(text, []byte(address)) {
			t.Fatalf("threeds.yaml does not have %s", address)
		}
		text = bytes.ReplaceAll(text, []byte(address), []byte(free))
		switch address {
		case "127.0.0.1:8080":
			l.api = "http://" + free
		case "127.0.0.1:8090":
			l.console = "http://" + free
		}
	}
	must(t, os.WriteFile(l.file, []byte(change(string(text))), 0o600))
	l.createKeys(filepath.Join(dir, "threeds-data"))

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, server.Options{File: l.file, Log: io.Discard, Reload: l.reload}) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	pages := x509.NewCertPool()
	pages.AppendCertsFromPEM(box.CAPEM())
	l.browser = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pages}}}
	t.Cleanup(l.browser.CloseIdleConnections)
	must(t, os.WriteFile(filepath.Join(dir, "as-written.yaml"), text, 0o600))
	return l
}

// createKeys puts the well-known API keys into a new store.
func (l *lab) createKeys(dir string) {
	l.Helper()
	must(l.T, os.MkdirAll(dir, 0o700))
	ring, err := keyring.LoadOrCreate(filepath.Join(dir, "keys.json"))
	must(l.T, err)
	db, err := server.OpenStore(l.Context(), config.StoreURL{Dir: dir})
	must(l.T, err)
	must(l.T, putKeys(l.Context(), db, ring, nil))
	must(l.T, db.Close())
}

var loadedRanges = regexp.MustCompile(`(?m)^threeds_card_ranges\{scheme="[a-z]+"\} [1-9]`)

// waitForRanges waits until the card ranges of so many directories are in use.
func (l *lab) waitForRanges(count int) {
	l.Helper()
	waittest.Until(l.T, "card ranges", func() bool {
		res, err := http.Get(l.console + "/metrics")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		return err == nil && len(loadedRanges.FindAll(text, -1)) == count
	})
}

// post calls an operation of the API.
func (l *lab) post(path string, body map[string]any) (code int, schemes string, answer map[string]any) {
	l.Helper()
	text, err := json.Marshal(body)
	must(l.T, err)
	req, err := http.NewRequestWithContext(l.Context(), http.MethodPost, l.api+path, bytes.NewReader(text))
	must(l.T, err)
	req.Header.Set("APIKey", Key)
	res, err := http.DefaultClient.Do(req)
	must(l.T, err)
	defer res.Body.Close()
	must(l.T, json.NewDecoder(res.Body).Decode(&answer))
	return res.StatusCode, res.Header.Get("X-Schemes"), answer
}

// areq is a good AReq of a payment, in a browser with an id and without the cardholder without one.
func areq(pan string, id any) map[string]any {
	o := map[string]any{
		"messageType": "AReq", "messageVersion": "2.2.0", "deviceChannel": "03", "messageCategory": "01", "threeRIInd": "11",
		"acctNumber": pan, "cardExpiryDate": "3012", "cardholderName": "Ann Example",
		"threeDSRequestorURL": "https://shop.example", "merchantCountryCode": "208", "merchantName": "Shop",
		"acquirerBIN": "400000", "acquirerMerchantID": "M1", "mcc": "5411",
		"purchaseAmount": "1099", "purchaseCurrency": "978", "purchaseExponent": "2", "purchaseDate": "20261120120000",
	}
	if id == nil {
		return o
	}
	delete(o, "threeRIInd")
	maps.Copy(o, map[string]any{
		"threeDSServerTransID": id, "deviceChannel": "02", "threeDSCompInd": "N", "threeDSRequestorAuthenticationInd": "01",
		"browserAcceptHeader": "text/html", "browserIP": "192.0.2.1", "browserJavaEnabled": false, "browserLanguage": "en",
		"browserColorDepth": "24", "browserScreenHeight": "1080", "browserScreenWidth": "1920", "browserTZ": "-60",
		"browserUserAgent": "Mozilla/5.0", "browserJavascriptEnabled": true, "notificationURL": "https://shop.example/done",
	})
	return o
}

// directoriesOf returns the directories that exchanged messages of a kind with the server about a transaction.
func (l *lab) directoriesOf(transID any, kind string) (all []string) {
	l.Helper()
	var seen []struct{ From, To, Type string }
	res, err := http.Get(l.control + "/exchanges?transID=" + transID.(string))
	must(l.T, err)
	defer res.Body.Close()
	must(l.T, json.NewDecoder(res.Body).Decode(&seen))
	for _, e := range seen {
		if e.Type != kind {
			continue
		}
		if e.To != "server" {
			e.From = e.To
		}
		all = append(all, e.From)
	}
	return all
}

// enterCode plays the browser of a cardholder who enters the right code on the issuer's page.
func (l *lab) enterCode(ares map[string]any) {
	l.Helper()
	submit := func(address string, fields url.Values) string {
		res, err := l.browser.PostForm(address, fields)
		must(l.T, err)
		defer res.Body.Close()
		page, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			l.Fatalf("%s: %d, %v: %.300s", address, res.StatusCode, err, page)
		}
		return string(page)
	}
	creq, err := json.Marshal(map[string]any{
		"messageType": "CReq", "messageVersion": "2.2.0", "challengeWindowSize": "01",
		"threeDSServerTransID": ares["threeDSServerTransID"], "acsTransID": ares["acsTransID"],
	})
	must(l.T, err)
	acs := ares["acsURL"].(string)
	page := submit(acs, url.Values{"creq": {base64.RawURLEncoding.EncodeToString(creq)}})
	step := regexp.MustCompile(`name="step" value="(\d+)"`).FindStringSubmatch(page)
	action := regexp.MustCompile(`<form[^>]* action="([^"]+)"`).FindStringSubmatch(page)
	if step == nil || action == nil {
		l.Fatalf("no form for a code:\n%s", page)
	}
	base, err := url.Parse(acs)
	must(l.T, err)
	to, err := base.Parse(action[1])
	must(l.T, err)
	submit(to.String(), url.Values{"step": {step[1]}, "code": {"123456"}, "action": {"submit"}})
}

// withoutDirectory takes the directory of a scheme out of a configuration, and has those before it.
func withoutDirectory(text, word string) string {
	from := strings.Index(text, "  - scheme: "+word+"\n")
	return text[:from] + text[from+4+strings.Index(text[from+4:], "  - scheme: "):]
}

// TestA2CoBadgedCardOfCB: an operator adds a directory cb to a server that runs, and makes it reload. Then a card of
// Visa and of Cartes Bancaires goes to the directory that ds names, frictionless and with a challenge.
func TestA2CoBadgedCardOfCB(t *testing.T) {
	t.Parallel()
	l := startLab(t, func(text string) string { return withoutDirectory(text, "cb") })
	const visaCB, mastercardCB = "4000970000000103", "5105970000000103"
	l.waitForRanges(8)
	for path, body := range map[string]map[string]any{"/preauth": {"acctNumber": visaCB}, "/auth": areq(visaCB, nil)} {
		body["ds"] = "cb"
		if code, _, erro := l.post(path, body); code != 400 || erro["errorCode"] != "203" || erro["errorDetail"] != "ds" {
			t.Errorf("%s with ds cb, which is not configured: %d %v", path, code, erro)
		}
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(l.file), "as-written.yaml"))
	must(t, err)
	must(t, os.WriteFile(l.file, text, 0o600))
	l.reload <- syscall.SIGHUP
	l.waitForRanges(9)

	preauth := func(pan, ds, want, schemes string) any {
		t.Helper()
		code, header, crd := l.post("/preauth", map[string]any{"acctNumber": pan, "ds": ds})
		if code != 200 || crd["scheme"] != want || header != schemes {
			t.Fatalf("/preauth of %s, ds %q: %d %v of %q, want %s of %q", pan, ds, code, crd, header, want, schemes)
		}
		return crd["threeDSServerTransID"]
	}
	for _, tt := range []struct{ pan, ds, schemes, want, eci string }{
		{visaCB, "", "visa, cb", "visa", "05"},
		{visaCB, "visa", "visa, cb", "visa", "05"},
		{visaCB, "cb", "visa, cb", "cb", "05"},
		{mastercardCB, "", "mastercard, cb", "mastercard", "02"},
		{mastercardCB, "cb", "mastercard, cb", "cb", "02"},
		{"4000000000000103", "", "", "visa", "05"},
	} {
		id := preauth(tt.pan, tt.ds, tt.want, tt.schemes)
		code, _, ares := l.post("/auth", areq(tt.pan, id))
		if code != 200 || ares["transStatus"] != "Y" || ares["eci"] != tt.eci {
			t.Errorf("/auth of %s, ds %q: %d %v, want Y with eci %s", tt.pan, tt.ds, code, ares, tt.eci)
		}
		if got := l.directoriesOf(id, "AReq"); !slices.Equal(got, []string{"ds " + tt.want}) {
			t.Errorf("the AReq of %s, ds %q, went to %q, want %s alone", tt.pan, tt.ds, got, tt.want)
		}
	}
	for _, ds := range []string{"cb", "visa"} {
		const pan = "4000970000000172"
		id := preauth(pan, ds, ds, "visa, cb")
		code, _, ares := l.post("/auth", areq(pan, id))
		if code != 200 || ares["transStatus"] != "C" {
			t.Fatalf("/auth, ds %s: %d %v, want C", ds, code, ares)
		}
		l.enterCode(ares)
		waittest.Until(l.T, "the result", func() bool {
			code, _, rreq := l.post("/postauth", map[string]any{"threeDSServerTransID": id})
			return code == 200 && rreq["messageType"] == "RReq" && rreq["transStatus"] == "Y"
		})
		if got := l.directoriesOf(id, "RReq"); !slices.Equal(got, []string{"ds " + ds}) {
			t.Errorf("the RReq of %s came from %q", ds, got)
		}
	}
	for ds, want := range map[string]string{"": "visa", "cb": "cb", "visa": "visa"} {
		body := areq(visaCB, nil)
		body["ds"] = ds
		code, _, ares := l.post("/auth", body)
		if code != 200 {
			t.Fatalf("/auth without an id, ds %q: %d %v", ds, code, ares)
		}
		if got := l.directoriesOf(ares["threeDSServerTransID"], "AReq"); !slices.Equal(got, []string{"ds " + want}) {
			t.Errorf("/auth without an id, ds %q: the AReq went to %q", ds, got)
		}
	}
	code, _, erro := l.post("/preauth", map[string]any{"acctNumber": visaCB, "ds": "jcb"})
	if code != 400 || erro["errorCode"] != "305" {
		t.Errorf("/preauth with ds jcb, which does not hold the card: %d %v", code, erro)
	}
}
