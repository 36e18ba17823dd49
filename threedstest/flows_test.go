package threedstest_test

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gojose "github.com/go-jose/go-jose/v4"
	josecipher "github.com/go-jose/go-jose/v4/cipher"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/edge/lanes"
	"github.com/openthreeds/threeds/sandbox"
	"github.com/openthreeds/threeds/threedstest"
)

var update = flag.Bool("update", false, "draw docs/images/flows and write the lists of messages into the pages")

// A flow is one picture of the documentation.
type flow struct {
	name  string // of the file, without .svg
	title string
	page  string // the page below docs/ that shows it
	run   func(r *recording)
}

// flows are the pictures. Each is drawn from what passed while run ran.
var flows = []flow{
	{"hosted", "A payment with the hosted page", "browser.md", payOnHosted},
	{"method", "The 3DS Method", "browser-flow.md", runMethod},
	{"frictionless", "A payment without a challenge", "browser-flow.md", payWithoutChallenge},
	{"challenge", "A payment with a challenge", "browser-flow.md", payWithChallenge},
	{"spc", "Secure Payment Confirmation", "browser-flow.md", payWithDialog},
	{"app", "A challenge in an app", "app-flow.md", payInApp},
	{"3ri", "A payment without the cardholder", "3ri.md", payLater},
	{"decoupled", "Decoupled authentication", "decoupled.md", payDecoupled},
	{"v1", "3-D Secure 1.0.2", "v1.md", payV1},
	{"timeout", "The directory server does not answer", "errors.md", payInSilence},
	{"refusal", "The issuer refuses", "authorisation.md", payRefused},
}

// TestPicturesOfFlowsAreWhatHappens runs each flow of the documentation against the sandbox, and draws what passed. The
// picture in docs/images/flows is the same to the byte, and the page that shows it lists the same messages in the same
// order. With -update, the test writes both.
func TestPicturesOfFlowsAreWhatHappens(t *testing.T) {
	t.Parallel()
	kept, err := filepath.Glob("../docs/images/flows/*.svg")
	if err != nil || len(kept) != len(flows) && !*update {
		t.Errorf("docs/images/flows has %d pictures, want %d, %v", len(kept), len(flows), err)
	}
	lists := make([][]string, len(flows))
	t.Run("run", func(t *testing.T) {
		for i, f := range flows {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				r := record(t)
				f.run(r)
				hops := r.all()
				lists[i] = lanes.Lines(r.parties, hops)
				compare(t, filepath.Join("../docs/images/flows", f.name+".svg"), lanes.Picture(f.title, r.parties, hops))
			})
		}
	})
	if t.Failed() {
		return
	}
	for i, f := range flows {
		if lists[i] == nil {
			continue // it was not asked for
		}
		page := filepath.Join("../docs", f.page)
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		shown := regexp.MustCompile(`(?m)^!\[.*\]\(images/flows/` + f.name + `\.svg\)\n\n(\d+\. .*\n)*`)
		if !shown.Match(text) {
			t.Errorf("docs/%s does not show images/flows/%s.svg", f.page, f.name)
			continue
		}
		want := fmt.Sprintf("![%s: the messages are listed below](images/flows/%s.svg)\n\n", f.title, f.name)
		for n, line := range lists[i] {
			want += fmt.Sprintf("%d. %s\n", n+1, line)
		}
		compare(t, page, shown.ReplaceAllLiteral(text, []byte(want)))
	}
}

// compare compares a file with what it has to be, or writes it.
func compare(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what happens (go test ./threedstest -run TestPicturesOfFlows -update draws it again), %v",
			strings.TrimPrefix(file, "../"), err)
	}
}

// A recording is what passes between the parties in one flow.
type recording struct {
	t       *testing.T
	server  *threedstest.Server
	client  *client.Client // of the shop's back end
	browser *http.Client   // of the shopper
	parties []lanes.Party
	ids     []string // of the transactions
	hops    []lanes.Hop
}

// noticeURL is where issuers send browsers back to.
const noticeURL = "https://shop.example/notice"

// record starts a server, and records the calls of the shop.
func record(t *testing.T) *recording {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{t: t, server: threedstest.NewServer(t), parties: []lanes.Party{
		{Name: "Browser", Sub: "the shopper"}, {Name: "Shop", Sub: "your server"}, {Name: "threeds", Sub: "3DS Server"},
		{Name: "Directory", Sub: "the scheme"}, {Name: "Issuer", Sub: "ACS"},
	}}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	r.browser = &http.Client{Transport: transport, Jar: jar, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if next.URL.Host == "shop.example" { // which is not there
			return http.ErrUseLastResponse
		}
		return nil
	}}
	r.client = client.New(r.server.URL, r.server.Key, client.WithHTTPClient(&http.Client{Transport: shopCalls{transport, r}}))
	return r
}

// must ends the test on an error.
func (r *recording) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// add records a message that passes now. A message from a party to itself is something that the party does.
func (r *recording) add(from, to lanes.Lane, name, gist string) {
	r.hops = append(r.hops, lanes.Hop{Name: name, Gist: gist, At: time.Now(), From: from, To: to, Self: from == to})
}

// all returns the messages in their order, with those that directory servers and issuers saw.
func (r *recording) all() []lanes.Hop {
	for _, id := range r.ids {
		for _, e := range r.server.Sandbox.Received(id) {
			r.hops = append(r.hops, exchanged(&e))
		}
	}
	slices.SortStableFunc(r.hops, func(a, b lanes.Hop) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return r.hops
}

// exchanged returns a message that the sandbox has recorded.
func exchanged(e *sandbox.Exchange) lanes.Hop {
	lane := func(party string) lanes.Lane {
		party, _, _ = strings.Cut(party, " ")
		return map[string]lanes.Lane{
			"server": lanes.Server, "ds": lanes.Directory, "acs": lanes.Issuer, "browser": lanes.Browser, "sdk": lanes.Browser,
		}[party]
	}
	h := lanes.Hop{Name: e.Type, Gist: gistOf([]byte(e.Body)), At: e.At, From: lane(e.From), To: lane(e.To)}
	if e.Type == "threeDSMethodData" {
		h.Name = "3DS Method"
	}
	if slices.Contains([]string{"AReq", "ARes", "RReq", "RRes"}, e.Type) {
		h.Beyond = lanes.Seen
	}
	return h
}

// gistOf returns in a few words what a message says; "" if it says nothing that a picture shows.
func gistOf(body []byte) string {
	var m struct {
		MessageType, TransStatus, ECI, ErrorCode, Scheme string
		Enrolled, Status                                 string
		Outcome                                          *struct{ Result string }
	}
	_ = json.Unmarshal(body, &m) // what is no object says nothing
	switch {
	case m.MessageType == "CRes":
		return ""
	case m.Outcome != nil:
		return m.Outcome.Result
	}
	return lanes.Join(", ", m.TransStatus, lanes.Prefix("ECI ", m.ECI), lanes.Prefix("error ", m.ErrorCode),
		lanes.Prefix("scheme ", m.Scheme), lanes.Prefix("enrolled ", m.Enrolled), m.Status)
}

// shopCalls records the calls of a shop's back end to the server.
type shopCalls struct {
	http.RoundTripper
	r *recording
}

var transactionID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// RoundTrip implements [http.RoundTripper].
func (c shopCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	c.r.add(lanes.Shop, lanes.Server, r.Method+" "+transactionID.ReplaceAllString(r.URL.Path, "ID"), "")
	res, err := c.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(body))
	var m struct{ MessageType string }
	_ = json.Unmarshal(body, &m) // what is no message is called by its status
	c.r.add(lanes.Server, lanes.Shop, cmp.Or(m.MessageType, fmt.Sprint(res.StatusCode)), gistOf(body))
	return res, err
}

// lookUp asks /preauth about a card, as a shop does as soon as the number is typed.
func (r *recording) lookUp(pan string) *client.CRD {
	r.t.Helper()
	crd, err := r.client.Preauth(r.t.Context(), client.PreauthRequest{AcctNumber: pan})
	r.must(err)
	r.ids = append(r.ids, crd.ThreeDSServerTransID)
	return crd
}

// authenticate sends the AReq of a browser, with changes. A change to nil takes an element out.
func (r *recording) authenticate(crd *client.CRD, pan string, changes map[string]any) (*client.ARes, error) {
	areq := browserPayment(crd.ThreeDSServerTransID)
	areq["acctNumber"], areq["notificationURL"] = pan, noticeURL
	for name, value := range changes {
		areq[name] = value
		if value == nil {
			delete(areq, name)
		}
	}
	return r.client.Auth(r.t.Context(), areq)
}

// wantStatus authenticates, and ends the test if the ARes has another transStatus.
func (r *recording) wantStatus(want string, crd *client.CRD, pan string, changes map[string]any) *client.ARes {
	r.t.Helper()
	ares, err := r.authenticate(crd, pan, changes)
	if err != nil || ares.TransStatus != want {
		r.t.Fatalf("/auth: %+v, %v, want transStatus %s", ares, err, want)
	}
	return ares
}

// result asks for the result of a challenge, once the directory server has its RRes.
func (r *recording) result(want string) {
	r.t.Helper()
	id := r.ids[len(r.ids)-1]
	waittest.Until(r.t, "the RRes", func() bool {
		return slices.ContainsFunc(r.server.Sandbox.Received(id), func(e sandbox.Exchange) bool { return e.Type == "RRes" })
	})
	rreq, err := r.client.PostAuth(r.t.Context(), id)
	if err != nil || rreq.TransStatus != want {
		r.t.Fatalf("/postauth: %+v, %v, want transStatus %s", rreq, err, want)
	}
}

// post posts a form in the browser, and returns the page.
func (r *recording) post(address string, form url.Values) string {
	r.t.Helper()
	res, err := r.browser.PostForm(address, form)
	r.must(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	r.must(err)
	return string(text)
}

// deliver takes the form on an issuer's page to the shop, as the page's script does, and returns one of its fields.
func (r *recording) deliver(page, field string) string {
	r.t.Helper()
	form := regexp.MustCompile(`<form[^>]* action="` + regexp.QuoteMeta(noticeURL) + `"`).MatchString(page)
	value := regexp.MustCompile(`<input type="hidden" name="` + field + `" value="([^"]*)"`).FindStringSubmatch(page)
	if !form || value == nil {
		r.t.Fatalf("the issuer's page has no form with %s for the shop: %s", field, page)
	}
	r.add(lanes.Browser, lanes.Shop, "POST /notice", field)
	return html.UnescapeString(value[1])
}

// encode returns an object as browsers carry it.
func (r *recording) encode(object map[string]any) string {
	r.t.Helper()
	text, err := json.Marshal(object)
	r.must(err)
	return base64.RawURLEncoding.EncodeToString(text)
}

// payWithoutChallenge pays with a card whose issuer asks nothing.
func payWithoutChallenge(r *recording) {
	const pan = "4000000000000103"
	r.add(lanes.Browser, lanes.Shop, "POST /pay", "card")
	r.wantStatus("Y", r.lookUp(pan), pan, nil)
	r.add(lanes.Shop, lanes.Browser, "200", "paid")
}

// payRefused pays with a card that the issuer refuses.
func payRefused(r *recording) {
	const pan = "4000000000000133"
	r.add(lanes.Browser, lanes.Shop, "POST /pay", "card")
	r.wantStatus("R", r.lookUp(pan), pan, nil)
	r.add(lanes.Shop, lanes.Browser, "200", "not paid")
}

// payInSilence pays with a card whose directory server does not answer.
func payInSilence(r *recording) {
	const pan = "4000000000000163"
	r.add(lanes.Browser, lanes.Shop, "POST /pay", "card")
	if ares, err := r.authenticate(r.lookUp(pan), pan, nil); err == nil {
		r.t.Fatalf("/auth: %+v, want an Erro", ares)
	}
	r.add(lanes.Shop, lanes.Browser, "200", "try again")
}

// runMethod runs the 3DS Method of a card before its AReq.
func runMethod(r *recording) {
	const pan = "4000000000000003"
	r.add(lanes.Browser, lanes.Shop, "POST /card", "typed")
	crd := r.lookUp(pan)
	r.add(lanes.Shop, lanes.Browser, "200", "method URL")
	page := r.post(crd.ThreeDSMethodURL, url.Values{"threeDSMethodData": {r.encode(map[string]any{
		"threeDSServerTransID": crd.ThreeDSServerTransID, "threeDSMethodNotificationURL": noticeURL,
	})}})
	r.deliver(page, "threeDSMethodData")
	r.add(lanes.Browser, lanes.Shop, "POST /pay", "browser data")
	r.wantStatus("Y", crd, pan, map[string]any{"threeDSCompInd": "Y"})
	r.add(lanes.Shop, lanes.Browser, "200", "paid")
}

// payWithChallenge pays with a card whose issuer asks the shopper.
func payWithChallenge(r *recording) {
	const pan = "4000000000000170"
	r.add(lanes.Browser, lanes.Shop, "POST /pay", "card")
	ares := r.wantStatus("C", r.lookUp(pan), pan, nil)
	r.add(lanes.Shop, lanes.Browser, "200", "acsURL, creq")
	page := r.post(ares.ACSURL, url.Values{"creq": {r.encode(map[string]any{
		"messageType": "CReq", "messageVersion": ares.MessageVersion, "challengeWindowSize": "03",
		"threeDSServerTransID": ares.ThreeDSServerTransID, "acsTransID": ares.ACSTransID,
	})}})
	r.deliver(page, "cres")
	r.result("Y")
	r.add(lanes.Shop, lanes.Browser, "200", "paid")
}

// payWithDialog pays with a card whose issuer has the browser show its own dialog.
func payWithDialog(r *recording) {
	const pan = "4000000000000103"
	offer := map[string]any{
		"messageVersion": "2.3.1", "acquirerCountryCode": "208", "acquirerCountryCodeSource": "01", "acceptLanguage": []string{"en"},
		"acquirerMerchantID": "SPC", "threeDSRequestorSpcSupport": "Y", "payeeOrigin": "https://shop.example",
	}
	r.add(lanes.Browser, lanes.Shop, "POST /pay", "card")
	first := r.wantStatus("S", r.lookUp(pan), pan, offer)
	r.add(lanes.Shop, lanes.Browser, "200", "credentials")
	r.add(lanes.Browser, lanes.Browser, "payment dialog", "confirmed")
	r.add(lanes.Browser, lanes.Shop, "POST /spc", "assertion")
	second := maps.Clone(offer)
	second["threeDSRequestorAuthenticationInfo"] = []map[string]any{{
		"threeDSReqAuthMethod": "09", "threeDSReqAuthTimestamp": "202611201200", "threeDSReqAuthData": map[string]any{"id": "made-up"},
	}}
	second["threeDSRequestorPriorAuthenticationInfo"] = []map[string]any{{
		"threeDSReqPriorRef": first.ACSTransID, "threeDSReqPriorAuthMethod": "05",
	}}
	r.wantStatus("Y", r.lookUp(pan), pan, second)
	r.add(lanes.Shop, lanes.Browser, "200", "paid")
}

// payLater makes the next payment of a subscription.
func payLater(r *recording) {
	const pan = "5100000000000003"
	changes := threeRI("01")
	maps.Copy(changes, map[string]any{"recurringExpiry": "20301231", "recurringFrequency": "28", "browserUserAgent": nil})
	r.wantStatus("Y", r.lookUp(pan), pan, changes)
}

// payDecoupled has the issuer ask the cardholder apart from the shop.
func payDecoupled(r *recording) {
	const pan = "4000000000000183"
	r.add(lanes.Browser, lanes.Shop, "POST /pay", "card")
	r.wantStatus("D", r.lookUp(pan), pan, map[string]any{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010"})
	r.add(lanes.Shop, lanes.Browser, "200", "wait")
	r.result("Y")
}

// payV1 pays with a card of 3-D Secure 1.0.2.
func payV1(r *recording) {
	r.add(lanes.Browser, lanes.Shop, "POST /pay", "card")
	enrolled, err := r.client.Enrolled(r.t.Context(), client.EnrolledRequest{
		Amount: "12500", Currency: "DKK", OrderID: "1234567890",
		Card:     client.Card{Number: "4000000000000000", ExpireMonth: "12", ExpireYear: "2030"},
		Merchant: client.Merchant{AcquirerBIN: "400551", ID: "M-1001", Name: "Corner Shop", Country: "DK", URL: "https://shop.example"},
	})
	r.must(err)
	packed, err := base64.StdEncoding.DecodeString(string(enrolled.PAReq))
	r.must(err)
	unpacked, err := zlib.NewReader(bytes.NewReader(packed))
	r.must(err)
	pareq, err := io.ReadAll(unpacked)
	r.must(err)
	r.ids = append(r.ids, string(regexp.MustCompile(`<Message id="([^"]+)"`).FindSubmatch(pareq)[1]))
	r.add(lanes.Shop, lanes.Browser, "200", "acs_url, pareq")
	page := r.post(string(enrolled.ACSURL), url.Values{"PaReq": {string(enrolled.PAReq)}, "TermUrl": {noticeURL}, "MD": {"17"}})
	checked, err := r.client.Check(r.t.Context(), r.deliver(page, "PaRes"))
	r.must(err)
	if checked.Status != "Y" {
		r.t.Errorf("/check: %+v, want status Y", checked)
	}
	r.add(lanes.Shop, lanes.Browser, "200", "paid")
}

// payInApp pays in an app whose SDK speaks with the issuer.
func payInApp(r *recording) {
	const pan = "4000000000000172"
	r.parties[lanes.Browser] = lanes.Party{Name: "App", Sub: "and its SDK"}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	r.must(err)
	public, err := gojose.JSONWebKey{Key: &key.PublicKey}.MarshalJSON()
	r.must(err)
	changes := map[string]any{"deviceChannel": "01"}
	for name := range browserPayment("") {
		if strings.HasPrefix(name, "browser") || slices.Contains([]string{"threeDSCompInd", "notificationURL"}, name) {
			changes[name] = nil
		}
	}
	const reference, sdkTransID = "3DS_LOA_SDK_CORN_020200_00001", "b2385523-a66c-4907-ac3c-91848e8c0067"
	maps.Copy(changes, map[string]any{
		"sdkAppID": "dbd64fcb-c19a-4728-8849-e3d50bfdde39", "sdkTransID": sdkTransID, "sdkReferenceNumber": reference,
		"sdkMaxTimeout": "05", "sdkEphemPubKey": json.RawMessage(public), "sdkEncData": "eyJlbmMiOiJBMTI4R0NNIn0..AAAA.AAAA.AAAA",
		"deviceRenderOptions": map[string]any{"sdkInterface": "03", "sdkUiType": []string{"01"}},
	})
	r.add(lanes.Browser, lanes.Shop, "POST /pay", "SDK data")
	crd := r.lookUp(pan)
	ares := r.wantStatus("C", crd, pan, changes)
	r.add(lanes.Shop, lanes.Browser, "200", "signed content")

	var answer struct {
		Content string `json:"acsSignedContent"`
	}
	r.must(json.Unmarshal(ares.Raw, &answer))
	signed, err := gojose.ParseSignedCompact(answer.Content, []gojose.SignatureAlgorithm{gojose.PS256})
	r.must(err)
	var content struct {
		URL string            `json:"acsURL"`
		ACS gojose.JSONWebKey `json:"acsEphemPubKey"`
	}
	r.must(json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &content))
	shared := josecipher.DeriveECDHES("", nil, []byte(reference), key, content.ACS.Key.(*ecdsa.PublicKey), 32)
	encrypter, err := gojose.NewEncrypter(gojose.A128CBC_HS256, gojose.Recipient{
		Algorithm: gojose.DIRECT, Key: shared, KeyID: ares.ACSTransID,
	}, nil)
	r.must(err)
	for counter, entry := range []string{"", "123456"} {
		creq := map[string]string{
			"messageType": "CReq", "messageVersion": ares.MessageVersion, "threeDSServerTransID": ares.ThreeDSServerTransID,
			"acsTransID": ares.ACSTransID, "sdkTransID": sdkTransID, "sdkCounterStoA": fmt.Sprintf("%03d", counter),
		}
		if entry != "" {
			creq["challengeDataEntry"] = entry
		}
		text, err := json.Marshal(creq)
		r.must(err)
		sealed, err := encrypter.Encrypt(text)
		r.must(err)
		compact, err := sealed.CompactSerialize()
		r.must(err)
		res, err := r.browser.Post(content.URL, "application/jose; charset=UTF-8", strings.NewReader(compact))
		r.must(err)
		_, err = io.Copy(io.Discard, res.Body)
		r.must(err)
		r.must(res.Body.Close())
	}
	r.add(lanes.Browser, lanes.Shop, "POST /done", "")
	r.result("Y")
	r.add(lanes.Shop, lanes.Browser, "200", "paid")
}

// payOnHosted pays with POST /authentications, and the hosted page.
func payOnHosted(r *recording) {
	const back = "https://shop.example/order"
	r.add(lanes.Browser, lanes.Shop, "POST /pay", "card")
	a, err := r.client.Authenticate(r.t.Context(), map[string]string{
		"acctNumber": "4000000000000103", "cardExpiryDate": "3012", "purchaseAmount": "1250", "purchaseCurrency": "978",
		"returnUrl": back,
	}, "")
	r.must(err)
	r.ids = append(r.ids, a.ID)
	r.add(lanes.Shop, lanes.Browser, "303", "browser.url")
	visit := func(method, address string) *http.Response {
		req, err := http.NewRequestWithContext(r.t.Context(), method, address, nil)
		r.must(err)
		req.Header.Set("Accept", "text/html")
		req.Header.Set("Accept-Language", "en")
		req.Header.Set("User-Agent", "threedstest")
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := r.browser.Do(req)
		r.must(err)
		_, err = io.Copy(io.Discard, res.Body)
		r.must(err)
		r.must(res.Body.Close())
		return res
	}
	r.add(lanes.Browser, lanes.Server, "GET browser.url", "hosted page")
	visit(http.MethodGet, a.Browser.URL)
	r.add(lanes.Browser, lanes.Server, "begin", "browser data")
	visit(http.MethodPost, a.Browser.URL+"/begin")
	waittest.Until(r.t, "the hosted page to lead back to the shop", func() bool {
		return strings.HasPrefix(visit(http.MethodGet, a.Browser.URL).Header.Get("Location"), back)
	})
	r.add(lanes.Server, lanes.Browser, "303", "returnUrl")
	r.add(lanes.Browser, lanes.Shop, "GET /order", "id")
	_, err = r.client.Authentication(r.t.Context(), a.ID, 0)
	r.must(err)
	r.add(lanes.Shop, lanes.Browser, "200", "paid")
}
