package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// ready is what `sandbox --ready-file` writes.
type ready struct {
	API         string `json:"api"`
	Results     string `json:"results"`
	ACS         string `json:"acs"`
	Shop        string `json:"shop"`
	APIKey      string `json:"apiKey"`
	OtherAPIKey string `json:"otherApiKey"`
	CA          string `json:"ca"`
	Control     string `json:"control"`
	Console     string `json:"console"`
	Public      string `json:"public"`
	Listen      string `json:"listen"`
	Browser     string `json:"browser"`
	Directories string `json:"directories"`
	DS          map[string]string
}

// A world is a running sandbox and a client of its API.
type world struct {
	ready
	t *testing.T
}

// startSandbox runs `threeds sandbox` in this process until the test ends, and
// then checks that it went in good order.
func startSandbox(t *testing.T, args ...string) *world {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ready.json")
	ctx, stop := context.WithCancel(context.Background())
	var out lockedBuffer
	exited := make(chan int, 1)
	go func() {
		args := append([]string{"sandbox", "--listen", "127.0.0.1:0", "--ready-file", file}, args...)
		exited <- run(ctx, args, strings.NewReader(""), &out, &out)
	}()
	t.Cleanup(func() {
		stop()
		select {
		case code := <-exited:
			if code != 0 {
				t.Errorf("sandbox exited with %d:\n%s", code, out.String())
			}
		case <-time.After(30 * time.Second):
			t.Error("sandbox did not stop")
		}
	})
	w := &world{t: t}
	waitFor(t, "the ready file", func() bool {
		select {
		case code := <-exited:
			t.Fatalf("sandbox exited with %d:\n%s", code, out.String())
		default:
		}
		data, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(data, &w.ready) == nil && w.API != ""
	})
	return w
}

// waitFor polls until ok, which something real brings about.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute) // some seconds on a machine that is not busy
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// object is a JSON object.
type object map[string]any

func (o object) text(name string) string { s, _ := o[name].(string); return s }

// with returns o changed: a nil value takes a member out.
func (o object) with(changes object) object {
	o = maps.Clone(o)
	for name, v := range changes {
		if v == nil {
			delete(o, name)
		} else {
			o[name] = v
		}
	}
	return o
}

// post calls an operation with a good key.
func (w *world) post(path string, body any) (int, object) {
	w.t.Helper()
	res, data := w.call(http.MethodPost, path, w.APIKey, body)
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		w.t.Fatalf("%s: answer is not JSON: %v: %.200s", path, err, data)
	}
	return res.StatusCode, o
}

// call calls an operation, with further headers, each a name and a value.
func (w *world) call(method, path, key string, body any, header ...string) (*http.Response, []byte) {
	w.t.Helper()
	var data []byte
	switch b := body.(type) {
	case []byte:
		data = b
	case string:
		data = []byte(b)
	default:
		var err error
		if data, err = json.Marshal(b); err != nil {
			w.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.API+path, bytes.NewReader(data))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	if key != "" {
		req.Header.Set("APIKey", key)
	}
	for pair := range slices.Chunk(header, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatalf("%s: %v", path, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatalf("%s: %v", path, err)
	}
	return res, answer
}

// preauth returns the CRD of a card.
func (w *world) preauth(pan string) object {
	w.t.Helper()
	code, crd := w.post("/preauth", object{"acctNumber": pan})
	if code != 200 || crd.text("messageType") != "CRD" {
		w.t.Fatalf("/preauth: %d %v", code, crd)
	}
	return crd
}

// browser is a good AReq of a browser payment in one version.
func browser(version, pan, transID, compInd string) object {
	o := object{
		"messageType": "AReq", "messageVersion": version, "deviceChannel": "02", "messageCategory": "01",
		"threeDSServerTransID": transID, "threeDSCompInd": compInd, "acctNumber": pan, "cardExpiryDate": "3012",
		"threeDSRequestorAuthenticationInd": "01", "threeDSRequestorURL": "https://shop.example",
		"acquirerBIN": "400000", "acquirerMerchantID": "M1", "mcc": "5411", "merchantCountryCode": "208", "merchantName": "Shop",
		"purchaseAmount": "1099", "purchaseCurrency": "978", "purchaseExponent": "2", "purchaseDate": "20261120120000",
		"browserAcceptHeader": "text/html", "browserIP": "192.0.2.1", "browserJavaEnabled": false, "browserLanguage": "en",
		"browserColorDepth": "24", "browserScreenHeight": "1080", "browserScreenWidth": "1920", "browserTZ": "-60",
		"browserUserAgent": "Mozilla/5.0", "notificationURL": "https://shop.example/done", "cardholderName": "Ann Example",
	}
	if version != "2.1.0" {
		o["browserJavascriptEnabled"] = true
	}
	return o
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// runMethod plays the browser's part of a 3DS Method and says whether the
// ACS's page would notify the requestor.
func (w *world) runMethod(address, transID string) {
	w.t.Helper()
	data, _ := json.Marshal(object{
		"threeDSServerTransID": transID, "threeDSMethodNotificationURL": "https://shop.example/method",
	})
	res, err := http.PostForm(address, url.Values{"threeDSMethodData": {base64.RawURLEncoding.EncodeToString(data)}})
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
}

// TestCardGrid plays every combination of the card table: version × 3DS Method
// × outcome × challenge, in a browser payment (docs/test-cards.md).
func TestCardGrid(t *testing.T) {
	w := startSandbox(t)
	all := []string{"2.1.0", "2.2.0", "2.3.1"}
	has := map[byte][]string{'0': all, '1': all[:1], '2': all[1:2], '3': all[2:]}
	n := 0
	for a, versions := range has {
		for _, b := range "01" {
			for _, cd := range []string{"03", "13", "23", "33", "43", "53", "70", "71", "72", "83"} {
				for _, v := range all {
					pan := fmt.Sprintf("400000000000%c%c%s", a, b, cd)
					t.Run(pan[12:]+"/"+v, func(t *testing.T) {
						w := &world{w.ready, t}
						w.card(pan, v, strings.Contains(strings.Join(versions, " "), v), b == '0', cd)
					})
					n++
				}
			}
		}
	}
	t.Logf("%d cards × versions", n)
}

// card plays one card in one version, and compares with what the table says.
func (w *world) card(pan, version string, has, method bool, cd string) {
	t := w.t
	t.Helper()
	crd := w.preauth(pan)
	id := crd.text("threeDSServerTransID")
	if !uuid.MatchString(id) {
		t.Errorf("threeDSServerTransID = %q", id)
	}
	comp := "U"
	if _, there := crd["threeDSMethodURL"]; there != method {
		t.Errorf("threeDSMethodURL there: %v, want %v", there, method)
	} else if method {
		comp = "Y"
		w.runMethod(crd.text("threeDSMethodURL"), id)
	}
	req := browser(version, pan, id, comp)
	if cd == "83" && version != "2.1.0" {
		req = req.with(object{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010"})
	}
	if cd == "43" && version == "2.2.0" {
		req["threeDSRequestorChallengeInd"] = "05"
	}
	code, got := w.post("/auth", req)
	switch {
	case !has:
		if code != 400 || got.text("errorCode") != "102" {
			t.Errorf("version the card lacks: %d %v, want 102", code, got)
		}
		return
	case (cd == "43" || cd == "83") && version == "2.1.0":
		if code != 400 || got.text("errorCode") != "305" || got.text("errorComponent") != "D" {
			t.Errorf("I or D in 2.1.0: %d %v, want 305 D", code, got)
		}
		return
	}
	want := map[byte]string{'0': "Y", '1': "N", '2': "A", '3': "R", '4': "I", '5': "U", '7': "C", '8': "D"}[cd[0]]
	if code != 200 || got.text("messageType") != "ARes" || got.text("transStatus") != want {
		t.Fatalf("/auth: %d %v, want transStatus %s", code, got, want)
	}
	if has := got.text("authenticationValue") != ""; has != (want == "Y" || want == "A") {
		t.Errorf("authenticationValue there: %v with %s", has, want)
	}
	w.after(got, cd, want)
}

// TestCoBadged pays with a card that two schemes hold, by each of them.
func TestCoBadged(t *testing.T) {
	w := startSandbox(t)
	const pan = "4571000000002103" // 2.2.0 alone, without a 3DS Method
	for ds, want := range map[string]string{"": "visa", "visa": "visa", "sbn": "sbn"} {
		code, crd := w.post("/preauth", object{"acctNumber": pan, "ds": ds})
		if code != http.StatusOK || crd.text("scheme") != want || crd.text("acsEndProtocolVersion") != "2.2.0" || crd["threeDSMethodURL"] != nil {
			t.Fatalf("ds %q: %d %v, want %s", ds, code, crd, want)
		}
		id := crd.text("threeDSServerTransID")
		if code, ares := w.post("/auth", browser("2.2.0", pan, id, "U")); code != http.StatusOK || ares.text("transStatus") != "Y" {
			t.Errorf("ds %q: %d %v", ds, code, ares)
		}
		var seen []struct{ To string }
		response, err := http.Get(w.Control + "/exchanges?transID=" + id)
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(response.Body).Decode(&seen)
		response.Body.Close()
		if err != nil || len(seen) == 0 || seen[0].To != "ds "+want {
			t.Errorf("ds %q: the AReq went to %v, %v", ds, seen, err)
		}
	}
	code, got := w.post("/preauth", object{"acctNumber": pan, "ds": "mastercard"})
	if code != http.StatusBadRequest || got.text("errorCode") != "305" {
		t.Errorf("ds mastercard: %d %v", code, got)
	}
}

// after looks at what /postauth says when the ARes is there, and plays the
// challenge, if there is one.
func (w *world) after(ares object, cd, status string) {
	t := w.t
	t.Helper()
	id := object{"threeDSServerTransID": ares.text("threeDSServerTransID")}
	code, got := w.post("/postauth", id)
	if status != "C" && status != "D" {
		if code != 400 || got.text("errorCode") != "203" {
			t.Errorf("/postauth after a frictionless ARes: %d %v, want 203", code, got)
		}
		return
	}
	if code != 400 || got.text("errorCode") != "305" {
		t.Errorf("/postauth before the RReq: %d %v, want 305", code, got)
	}
	if cd == "72" || status == "D" {
		return // a person's, and the clock's: other tests
	}
	w.challenge(ares)
	want := map[string]string{"70": "Y", "71": "N"}[cd]
	code, got = w.post("/postauth", id)
	if code != 200 || got.text("messageType") != "RReq" || got.text("transStatus") != want {
		t.Errorf("/postauth: %d %v, want an RReq with %s", code, got, want)
	}
}

// challenge plays the browser's part of a challenge that ends by itself. What is
// added goes into the CReq.
func (w *world) challenge(ares object, added ...object) {
	w.t.Helper()
	if status, page := w.begin(ares, added...); status != 200 || !bytes.Contains(page, []byte("cres")) {
		w.t.Fatalf("challenge page: %d %.300s", status, page)
	}
}

// begin posts a CReq to the issuer and returns the page that a browser ends up with.
func (w *world) begin(ares object, added ...object) (status int, page []byte) {
	w.t.Helper()
	o := object{
		"messageType": "CReq", "messageVersion": ares["messageVersion"], "challengeWindowSize": "01",
		"threeDSServerTransID": ares["threeDSServerTransID"], "acsTransID": ares["acsTransID"],
	}
	for _, more := range added {
		maps.Copy(o, more)
	}
	creq, _ := json.Marshal(o)
	res, err := http.PostForm(ares.text("acsURL"), url.Values{"creq": {base64.RawURLEncoding.EncodeToString(creq)}})
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	if page, err = io.ReadAll(res.Body); err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, page
}
