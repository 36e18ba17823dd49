package rig

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

	"github.com/openthreeds/threeds/internal/base/waittest"
)

// ReadyFile is what `sandbox --ready-file` writes.
type ReadyFile struct {
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

// A World is a running sandbox and a client of its API.
type World struct {
	ReadyFile
	T *testing.T
}

// StartSandbox runs `threeds sandbox` in this process until the test ends, and
// then checks that it went in good order.
func StartSandbox(t *testing.T, args ...string) *World {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ready.json")
	ctx, stop := context.WithCancel(context.Background())
	var out LockedBuffer
	exited := make(chan int, 1)
	go func() {
		// The usual 10 s are a clock that a busy machine does not keep. Tests of directories that are silent ask for less.
		args := append([]string{"sandbox", "--listen", "127.0.0.1:0", "--ready-file", file, "--directory-timeout", "60s"}, args...)
		exited <- Run(ctx, args, strings.NewReader(""), &out, &out)
	}()
	t.Cleanup(func() {
		stop()
		if code := <-exited; code != 0 {
			t.Errorf("sandbox exited with %d:\n%s", code, out.String())
		}
	})
	w := &World{T: t}
	waittest.Until(t, "the ready file", func() bool {
		select {
		case code := <-exited:
			t.Fatalf("sandbox exited with %d:\n%s", code, out.String())
		default:
		}
		data, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(data, &w.ReadyFile) == nil && w.API != ""
	})
	return w
}

type LockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *LockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *LockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Object is a JSON object.
type Object map[string]any

func (o Object) Text(name string) string { s, _ := o[name].(string); return s }

// With returns o changed: a nil value takes a member out.
func (o Object) With(changes Object) Object {
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

// Post calls an operation with a good key.
func (w *World) Post(path string, body any) (int, Object) {
	w.T.Helper()
	res, data := w.Call(http.MethodPost, path, w.APIKey, body)
	var o Object
	if err := json.Unmarshal(data, &o); err != nil {
		w.T.Fatalf("%s: answer is not JSON: %v: %.200s", path, err, data)
	}
	return res.StatusCode, o
}

// Call calls an operation, with further headers, each a name and a value.
func (w *World) Call(method, path, key string, body any, header ...string) (*http.Response, []byte) {
	w.T.Helper()
	var data []byte
	switch b := body.(type) {
	case []byte:
		data = b
	case string:
		data = []byte(b)
	default:
		var err error
		if data, err = json.Marshal(b); err != nil {
			w.T.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(w.T.Context(), method, w.API+path, bytes.NewReader(data))
	if err != nil {
		w.T.Fatal(err)
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
		w.T.Fatalf("%s: %v", path, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		w.T.Fatalf("%s: %v", path, err)
	}
	return res, answer
}

// Preauth returns the CRD of a card.
func (w *World) Preauth(pan string) Object {
	w.T.Helper()
	code, crd := w.Post("/preauth", Object{"acctNumber": pan})
	if code != 200 || crd.Text("messageType") != "CRD" {
		w.T.Fatalf("/preauth: %d %v", code, crd)
	}
	return crd
}

// BrowserRequest is a good AReq of a browser payment in one version.
func BrowserRequest(version, pan, transID, compInd string) Object {
	o := Object{
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

var UUIDPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// RunMethod plays the browser's part of a 3DS Method and says whether the
// ACS's page would notify the requestor.
func (w *World) RunMethod(address, transID string) {
	w.T.Helper()
	data, _ := json.Marshal(Object{
		"threeDSServerTransID": transID, "threeDSMethodNotificationURL": "https://shop.example/method",
	})
	res, err := http.PostForm(address, url.Values{"threeDSMethodData": {base64.RawURLEncoding.EncodeToString(data)}})
	if err != nil {
		w.T.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
}

// Card plays one card in one version, and compares with what the table says.
func (w *World) Card(pan, version string, has, method bool, cd string) {
	t := w.T
	t.Helper()
	crd := w.Preauth(pan)
	id := crd.Text("threeDSServerTransID")
	if !UUIDPattern.MatchString(id) {
		t.Errorf("threeDSServerTransID = %q", id)
	}
	comp := "U"
	if _, there := crd["threeDSMethodURL"]; there != method {
		t.Errorf("threeDSMethodURL there: %v, want %v", there, method)
	} else if method {
		comp = "Y"
		w.RunMethod(crd.Text("threeDSMethodURL"), id)
	}
	req := BrowserRequest(version, pan, id, comp)
	if cd == "83" && version != "2.1.0" {
		req = req.With(Object{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010"})
	}
	if cd == "43" && version == "2.2.0" {
		req["threeDSRequestorChallengeInd"] = "05"
	}
	code, got := w.Post("/auth", req)
	switch {
	case !has:
		if code != 400 || got.Text("errorCode") != "102" {
			t.Errorf("version the card lacks: %d %v, want 102", code, got)
		}
		return
	case (cd == "43" || cd == "83") && version == "2.1.0":
		if code != 400 || got.Text("errorCode") != "305" || got.Text("errorComponent") != "D" {
			t.Errorf("I or D in 2.1.0: %d %v, want 305 D", code, got)
		}
		return
	}
	want := map[byte]string{'0': "Y", '1': "N", '2': "A", '3': "R", '4': "I", '5': "U", '7': "C", '8': "D"}[cd[0]]
	if code != 200 || got.Text("messageType") != "ARes" || got.Text("transStatus") != want {
		t.Fatalf("/auth: %d %v, want transStatus %s", code, got, want)
	}
	if has := got.Text("authenticationValue") != ""; has != (want == "Y" || want == "A") {
		t.Errorf("authenticationValue there: %v with %s", has, want)
	}
	w.after(got, cd, want)
}

// after looks at what /postauth says when the ARes is there, and plays the
// challenge, if there is one.
func (w *World) after(ares Object, cd, status string) {
	t := w.T
	t.Helper()
	id := Object{"threeDSServerTransID": ares.Text("threeDSServerTransID")}
	code, got := w.Post("/postauth", id)
	if status != "C" && status != "D" {
		if code != 400 || got.Text("errorCode") != "203" {
			t.Errorf("/postauth after a frictionless ARes: %d %v, want 203", code, got)
		}
		return
	}
	if code != 400 || got.Text("errorCode") != "305" {
		t.Errorf("/postauth before the RReq: %d %v, want 305", code, got)
	}
	if cd == "72" || status == "D" {
		return // a person's, and the clock's: other tests
	}
	w.Challenge(ares)
	want := map[string]string{"70": "Y", "71": "N"}[cd]
	code, got = w.Post("/postauth", id)
	if code != 200 || got.Text("messageType") != "RReq" || got.Text("transStatus") != want {
		t.Errorf("/postauth: %d %v, want an RReq with %s", code, got, want)
	}
}

// Challenge plays the browser's part of a challenge that ends by itself. What is
// added goes into the CReq.
func (w *World) Challenge(ares Object, added ...Object) {
	w.T.Helper()
	if status, page := w.BeginChallenge(ares, added...); status != 200 || !bytes.Contains(page, []byte("cres")) {
		w.T.Fatalf("challenge page: %d %.300s", status, page)
	}
}

// BeginChallenge posts a CReq to the issuer and returns the page that a browser ends up with.
func (w *World) BeginChallenge(ares Object, added ...Object) (status int, page []byte) {
	w.T.Helper()
	o := Object{
		"messageType": "CReq", "messageVersion": ares["messageVersion"], "challengeWindowSize": "01",
		"threeDSServerTransID": ares["threeDSServerTransID"], "acsTransID": ares["acsTransID"],
	}
	for _, more := range added {
		maps.Copy(o, more)
	}
	creq, _ := json.Marshal(o)
	res, err := http.PostForm(ares.Text("acsURL"), url.Values{"creq": {base64.RawURLEncoding.EncodeToString(creq)}})
	if err != nil {
		w.T.Fatal(err)
	}
	defer res.Body.Close()
	if page, err = io.ReadAll(res.Body); err != nil {
		w.T.Fatal(err)
	}
	return res.StatusCode, page
}

// The tests of this file show rows of docs/test-cards.md that TestCardGrid does not have.

// Pay runs /preauth and /auth with a card in the browser.
func (w *World) Pay(version, pan string, changes Object) (int, Object) {
	w.T.Helper()
	crd := w.Preauth(pan)
	id, comp := crd.Text("threeDSServerTransID"), "U"
	if address := crd.Text("threeDSMethodURL"); address != "" && changes["threeDSCompInd"] == nil {
		w.RunMethod(address, id)
		comp = "Y"
	}
	return w.Post("/auth", BrowserRequest(version, pan, id, comp).With(changes))
}

func (w *World) AwaitResultOf(id string) {
	w.T.Helper()
	waittest.Until(w.T, "the result", func() bool {
		code, _ := w.Post("/postauth", Object{"threeDSServerTransID": id})
		return code == 200
	})
}

var AllVersions = []string{"2.1.0", "2.2.0", "2.3.1"}

// NewSite is a site for what is done to a request before the directory server
// gets it.
func NewSite(t *testing.T, plans ...Plan) *Site {
	t.Helper()
	ca := NewAuthority(t)
	return StartSite(t, ca, NewWire(t, ca), plans...)
}

// Renamed is o with members under other names.
func (o Object) Renamed(names map[string]string) Object {
	o = maps.Clone(o)
	for from, to := range names {
		if v, there := o[from]; there {
			delete(o, from)
			o[to] = v
		}
	}
	return o
}

// InsertText puts JSON text in front of the last brace.
func InsertText(o Object, text string) []byte {
	data := Marshal(o)
	return append(data[:len(data)-1], text+"}"...)
}

// PadTo is a body of exactly n bytes that says what o says.
func PadTo(o Object, n int) []byte {
	data := Marshal(o)
	return append(data, bytes.Repeat([]byte{' '}, n-len(data))...)
}

// MoreMembers is n further members of an object.
func MoreMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":0`, i)
	}
	return b.String()
}

// The tests of this file show docs/api.md, "/auth".

func Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
