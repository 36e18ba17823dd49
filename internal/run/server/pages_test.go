package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/edge/pages/consoletest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// A consoleSite is a running server, and an operator who is logged in to its console.
type consoleSite struct {
	testing.TB
	db                    store.Store
	api, console, session string
	token                 string // of the admin API
}

const consoleKey = "5a5a5a5a-0000-4000-8000-0000000000c1"

// newExpired writes a client certificate that has expired, and its key.
func newExpired(t testing.TB, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "3ds.expired.example"},
		NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().AddDate(0, 0, -3), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	write(t, filepath.Join(dir, "old.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, filepath.Join(dir, "old.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: plain}))
}

// putOldRanges stores card ranges of visa that have not been confirmed for 30 hours.
func putOldRanges(t testing.TB, db store.Store) {
	t.Helper()
	var b ranges.Builder
	must(t, b.Add("4000001000000000", "4000001999999999", &ranges.Info{
		ACSStart: "2.1.0", ACSEnd: "2.2.0", DSStart: "2.1.0", DSEnd: "2.3.1", DSVersions: []string{"2.1.0", "2.2.0", "2.3.1"},
		ACS: []ranges.ACSVersion{{Version: "2.1.0"}, {Version: "2.2.0"}},
	}))
	table, err := b.Build()
	must(t, err)
	g := &ranges.Generation{Scheme: "visa", Version: message.V220, Serial: "s-17", Table: table}
	_, err = directory.Import(t.Context(), db, "visa", "test", g)
	must(t, err)
	status, err := directory.ReadRefreshStatus(t.Context(), db, "visa")
	must(t, err)
	status.Loaded = time.Now().Add(-30*time.Hour - time.Minute)
	value, err := json.Marshal(status)
	must(t, err)
	lease, err := db.Acquire(t.Context(), "ranges/visa", "test", time.Minute)
	must(t, err)
	must(t, db.PutState(t.Context(), "ranges/visa", value, lease))
	must(t, db.Release(t.Context(), lease))
}

// startConsoleSite starts a server of two directories that cannot be reached: visa with old card ranges, and mastercard
// with an expired certificate.
func startConsoleSite(t *testing.T) *consoleSite {
	t.Helper()
	file, text := writeConfig(t)
	newExpired(t, filepath.Dir(file))
	write(t, filepath.Join(filepath.Dir(file), "girocard.rules"), []byte(`scheme girocard Girocard
rid A000000359 ; vendor-doc sure
code eci 31 the cardholder was authenticated ; vendor-doc sure
code eci 30 nobody was authenticated ; vendor-doc sure
`))
	text = strings.Replace(text, `{url: "https://results`, `{listen: "127.0.0.1:0", url: "https://results`, 1)
	text += `  - {scheme: mastercard, areq_url: "https://127.0.0.1:1/mc", preq_url: "https://127.0.0.1:1/mc-preq", versions: [2.2.0], client_cert: {cert: old.pem, key: old.key}, server_ca: cert.pem, client_ca: cert.pem, client_names: [ds.mastercard.example]}
  - {scheme: girocard, areq_url: "https://127.0.0.1:1/gc", preq_url: "https://127.0.0.1:1/gc-preq", versions: [2.2.0], client_cert: {cert: old.pem, key: old.key}, server_ca: cert.pem, client_ca: cert.pem, client_names: [ds.girocard.example], rules: girocard.rules, colour: "#0A5C36"}
merchants:
  - {name: Corner Shop, merchant_name: Corner Shop, mcc: "5411", merchant_country: 208, requestor_url: "https://shop.example", per_directory: {visa: {requestor_id: R-1, requestor_name: Corner Shop, acquirer_bin: "400551", acquirer_merchant_id: M-1}}}
api: {listen: "127.0.0.1:0"}
console: {listen: "127.0.0.1:0", url: "http://localhost:9090"}
`
	write(t, file, []byte(text))
	db, err := OpenStore(t.Context(), config.StoreURL{Dir: filepath.Join(filepath.Dir(file), "data")})
	must(t, err)
	putOldRanges(t, db)
	return serveConsole(t, file, db)
}

// serveConsole starts a server with a configuration file that says where its store, db, is.
func serveConsole(t testing.TB, file string, db store.Store) *consoleSite {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	started, ended := make(chan *Config, 1), make(chan error, 1)
	var log waittest.Log
	go func() { ended <- Serve(ctx, Options{File: file, Log: &log, Change: func(c *Config) { started <- c }}) }()
	var cfg *Config
	select {
	case cfg = <-started:
	case err := <-ended:
		t.Fatalf("the server has ended: %v %s", err, log.String())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
		stop()
		must(t, <-ended)
		must(t, db.Close())
	})
	must(t, db.PutKey(t.Context(), account.NewRow(cfg.Ring, consoleKey, "Corner Shop", false, account.Terms{})))
	operators := &operator.Service{Store: db, Sealer: cfg.Ring, Now: time.Now}
	user := operator.User{Name: "jo", Role: operator.Admin}
	must(t, operators.AddUser(t.Context(), &user))
	secret, err := operators.StartSession(t.Context(), &user, nil, time.Hour)
	must(t, err)
	token, err := operators.CreateToken(t.Context(), operator.Token{Name: "ci", Role: operator.Admin})
	must(t, err)
	s := &consoleSite{t, db, "http://" + cfg.API.Addr().String(), "http://" + cfg.Console.Addr().String(), secret, token}
	waittest.Until(t, "the console", func() bool { return getStatus(t, s.console+"/livez", "") == http.StatusOK })
	return s
}

// erase erases by the admin API, and returns the status of the answer.
func (s *consoleSite) erase(body string) int {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.console+"/admin/v1/journal/erase", strings.NewReader(body))
	must(s.TB, err)
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	must(s.TB, err)
	must(s.TB, res.Body.Close())
	return res.StatusCode
}

// request asks the console as its operator, and returns the text of the answer, without the white space
// that no browser shows.
func (s *consoleSite) request(method, path, body string) (int, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.console+path, strings.NewReader(body))
	must(s.TB, err)
	r.AddCookie(&http.Cookie{Name: "threeds", Value: s.session})
	r.Header.Set("Origin", "http://localhost:9090")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	must(s.TB, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(s.TB, err)
	return res.StatusCode, consoletest.WithoutSpace(string(text))
}

// want asks for a page that has all texts.
func (s *consoleSite) want(path string, texts ...string) string {
	s.Helper()
	code, page := s.request("GET", path, "")
	if code != 200 {
		s.Errorf("%s: HTTP %d", path, code)
	}
	for _, text := range texts {
		if !strings.Contains(page, text) {
			s.Errorf("%s has no %q", path, text)
		}
	}
	return page
}

// csrf returns what the forms of the session bring.
func (s *consoleSite) csrf() string {
	s.Helper()
	_, page := s.request("GET", "/keys", "")
	found := regexp.MustCompile(`name="csrf" value="([^"]*)"`).FindStringSubmatch(page)
	if found == nil {
		s.Fatalf("no csrf: %.300s", page)
	}
	return found[1]
}

// post sends a form with its csrf.
func (s *consoleSite) post(path string, form url.Values) (int, string) {
	s.Helper()
	form = maps.Clone(form)
	form.Set("csrf", s.csrf())
	return s.request("POST", path, form.Encode())
}

// ask posts to the API as the merchant.
func (s *consoleSite) ask(path string, body []byte) (answer map[string]any) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.api+path, bytes.NewReader(body))
	must(s.TB, err)
	r.Header.Set("APIKey", consoleKey)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	must(s.TB, err)
	defer res.Body.Close()
	must(s.TB, json.NewDecoder(res.Body).Decode(&answer))
	return answer
}

// areq is a request for a payment with an id of /preauth.
func areq(id any) map[string]any {
	return map[string]any{
		"messageType": "AReq", "messageVersion": "2.2.0", "deviceChannel": "02", "messageCategory": "01",
		"threeDSServerTransID": id, "threeDSCompInd": "U", "acctNumber": "4000001234560103", "cardExpiryDate": "3012",
		"threeDSRequestorAuthenticationInd": "01", "purchaseAmount": "1099", "purchaseCurrency": "978", "purchaseExponent": "2",
		"purchaseDate": "20261120120000", "browserAcceptHeader": "text/html", "browserIP": "192.0.2.1", "browserJavaEnabled": false,
		"browserJavascriptEnabled": true, "browserLanguage": "en", "browserColorDepth": "24", "browserScreenHeight": "1080",
		"browserScreenWidth": "1920", "browserTZ": "-60", "browserUserAgent": "Mozilla/5.0", "notificationURL": "https://shop.example/done",
		"cardholderName": "Ann Example", "threeDSRequestorID": "M1", "threeDSRequestorName": "Shop", "threeDSRequestorURL": "https://shop.example",
		"acquirerBIN": "400552", "acquirerMerchantID": "M-2", "mcc": "5411", "merchantCountryCode": "208", "merchantName": "Shop",
	}
}

// summary is what a page says between its head and its forms.
func summary(page string) string {
	_, main, _ := strings.Cut(page, "<main")
	return main[:min(len(main), 3000)]
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	must(t, err)
	return data
}

// TestK3PagesShowWhatTheServerDoes: /directories, /ranges and the overview of a server that serves have its
// directories, an expired certificate, old card ranges, and a breaker when it has tripped.
func TestK3PagesShowWhatTheServerDoes(t *testing.T) {
	t.Parallel()
	s := startConsoleSite(t)
	page := s.want("/directories", "https://127.0.0.1:1/mc", "https://127.0.0.1:1/mc-preq", "https://results.example/results", "2.1.0, 2.2.0, 2.3.1",
		"CN=3ds.expired.example", "CN=Test CA", "ds.mastercard.example", "the certificate has expired", "1, confirmed",
		`<span class="tw b">old</span>`, "Lets through")
	ofVisa, ofMastercard, _ := strings.Cut(page, `id="mastercard"`)
	ofMastercard, _, _ = strings.Cut(ofMastercard, `id="girocard"`)
	if strings.Count(ofMastercard, "CN=Test CA") != 2 || !strings.Contains(ofMastercard, "ds.mastercard.example") ||
		strings.Contains(ofVisa, "ds.mastercard.example") {
		t.Errorf("mastercard has not its own authorities and names: %s", ofMastercard)
	}
	if strings.Contains(page, "Holds back") {
		t.Error("a breaker that has not tripped holds back")
	}
	s.want("/", "A certificate has expired: mastercard", "The card ranges of visa are 30 h old", "mastercard has no card ranges")
	s.want("/ranges", "1 range, generation 1", "30 h", "s-17")
	s.want("/ranges?prefix=400000123456", "4000001000000000–4000001999999999", "2.2.0, 2.1.0</td>", "https://127.0.0.1:1/", "in none of 0 ranges")
	if strings.Contains(s.want("/ranges?prefix=500000"), "4000001000000000–") {
		t.Error("a range of other cards is there")
	}
	waittest.Until(t, "the breaker", func() bool { // which trips after ten failures within five seconds
		crd := s.ask("/preauth", []byte(`{"acctNumber": "4000001234560103"}`))
		if crd["messageType"] != "CRD" {
			t.Fatalf("/preauth: %v", crd)
		}
		if erro := s.ask("/auth", encode(t, areq(crd["threeDSServerTransID"]))); erro["messageType"] != "Erro" {
			t.Fatalf("/auth: %v", erro)
		}
		_, page = s.request("GET", "/directories", "")
		return strings.Contains(page, "Holds back")
	})
	if held, free := strings.Count(page, "Holds back"), strings.Count(page, "Lets through"); 2*held != free {
		t.Errorf("%d times that a breaker holds back, and %d that one lets through", held, free)
	}
	waittest.Until(t, "the notice of the breaker", func() bool {
		_, page = s.request("GET", "/", "")
		return strings.Contains(page, "The directory server of visa cannot be reached")
	})
	code, _ := s.post("/ranges/visa/refresh", url.Values{})
	request, err := directory.ReadRefreshRequest(t.Context(), s.db, "visa", directory.RefreshStatus{})
	if code != http.StatusSeeOther || err != nil {
		t.Errorf("a refresh: HTTP %d, %+v, %v", code, request, err)
	}
}

// TestA2RulesOfOnesOwnAreShown: what an operator's file says of a scheme, its name, RID, eci and codes, and the colour
// of its mark are on the pages, at its directory alone.
func TestA2RulesOfOnesOwnAreShown(t *testing.T) {
	t.Parallel()
	s := startConsoleSite(t)
	page := s.want("/directories", `<circle cx="5" cy="5" r="4.5" fill="#0a5c36"/></svg>Girocard`)
	before, own, _ := strings.Cut(page, `<section class="card flush" id="girocard"`)
	_, before, _ = strings.Cut(before, `<section class="card flush" id="visa"`)
	for _, text := range []string{"A000000359", "<code>31</code> the cardholder was authenticated", "<code>30</code> nobody was authenticated", "#0a5c36"} {
		if !strings.Contains(own, text) || strings.Contains(before, text) {
			t.Errorf("%q is not at girocard alone: %s", text, own)
		}
	}
	if !strings.Contains(before, "A000000003") || !strings.Contains(before, "<code>05</code>") || strings.Contains(before, "<circle") {
		t.Errorf("visa has not what is public of it, or a mark that nobody configured: %s", before)
	}
}

// TestK4ExplainIsWhatAuthWouldSay: /explain of a server that serves refuses what /auth refuses, with the same elements,
// by the profile of the chosen merchant, and neither sends nor keeps what was pasted.
func TestK4ExplainIsWhatAuthWouldSay(t *testing.T) {
	t.Parallel()
	s := startConsoleSite(t)
	newID := func() any {
		return s.ask("/preauth", []byte(`{"acctNumber": "4000001234560103"}`))["threeDSServerTransID"]
	}
	for _, remove := range []string{"purchaseCurrency", "browserLanguage", "notificationURL"} {
		body := areq(newID())
		delete(body, remove)
		erro := s.ask("/auth", encode(t, body))
		if detail, _ := erro["errorDetail"].(string); erro["messageType"] != "Erro" || !strings.Contains(detail, remove) {
			t.Fatalf("/auth without %s: %v", remove, erro)
		}
		code, page := s.post("/explain", url.Values{"text": {string(encode(t, body))}, "merchant": {"Corner Shop"}})
		if code != 200 || !strings.Contains(page, "/auth would refuse this request") || !strings.Contains(page, remove) || !strings.Contains(page, "1 fault<") {
			t.Errorf("without %s: HTTP %d %s", remove, code, summary(page))
		}
	}
	const card = "4000001234560103"
	good := areq(newID())
	text := string(encode(t, good))
	code, page := s.post("/explain", url.Values{"text": {text}, "merchant": {"Corner Shop"}})
	if code != 200 || !strings.Contains(page, "/auth would take this request") || !strings.Contains(page, "400552") || strings.Contains(page, card) {
		t.Errorf("a good request: HTTP %d %s", code, summary(page))
	}
	creation := url.Values{"text": {`{"for": "authentications", "acctNumber": "` + card + `", "cardExpiryDate": "3012", "purchaseAmount": "1099",
		"purchaseCurrency": "978", "cardholderName": "Ann Example", "returnUrl": "https://shop.example/done"}`}}
	code, page = s.post("/explain", creation)
	if code != 200 || !strings.Contains(page, "would refuse this request") || !strings.Contains(page, "acquirerBIN") {
		t.Errorf("without a profile: HTTP %d %s", code, summary(page))
	}
	creation.Set("merchant", "Corner Shop")
	code, page = s.post("/explain", creation)
	if code != 200 || strings.Contains(page, "<p class=\"b mono\">/acquirerBIN") || !strings.Contains(page, "400551") || strings.Contains(page, card) {
		t.Errorf("with a profile: HTTP %d %s", code, summary(page))
	}
	for paste, want := range map[string]string{
		"creq=" + "eyJtZXNzYWdlVHlwZSI6IkNSZXEifQ": "has faults", `{"messageType": "ARes", "messageVersion": "2.2.0"}`: "has faults",
		"hello, this is no message": "neither JSON",
	} {
		if _, page := s.post("/explain", url.Values{"text": {paste}}); !strings.Contains(page, want) {
			t.Errorf("%s: %s", paste, summary(page))
		}
	}
	if erro := s.ask("/auth", []byte(text)); erro["errorCode"] != "405" && erro["errorCode"] != "402" && erro["errorCode"] != "403" {
		t.Errorf("the explained request was taken before: %v", erro)
	}
}

// TestJ6ErasureReachesAll: of a card that was sent to the server, the page of a server that serves erases
// nothing without a passkey. The admin API erases the records. The card number is in no entry of the
// audit trail and on no page.
func TestJ6ErasureReachesAll(t *testing.T) {
	t.Parallel()
	s := startConsoleSite(t)
	const card = "4000001234560103"
	crd := s.ask("/preauth", []byte(`{"acctNumber": "`+card+`"}`))
	if erro := s.ask("/auth", encode(t, areq(crd["threeDSServerTransID"]))); erro["messageType"] != "Erro" {
		t.Fatalf("/auth: %v", erro)
	}
	ask := func() string {
		t.Helper()
		code, page := s.post("/erase", url.Values{"card": {card}})
		if code != 200 || !strings.Contains(page, "Erase the card ending in 0103?") {
			t.Fatalf("to erase: HTTP %d %s", code, summary(page))
		}
		return page
	}
	var page string
	waittest.Until(t, "the record", func() bool {
		page = ask()
		return !strings.Contains(page, "no authentication")
	})
	proof := regexp.MustCompile(`name="proof" value="([^"]*)"`).FindStringSubmatch(page)
	code, page := s.post("/erase", url.Values{"card": {card}, "do": {"erase"}, "proof": {proof[1]}})
	if code != 200 || !strings.Contains(page, "Erase for good?") || !strings.Contains(page, "passkey") ||
		strings.Contains(page, card) || strings.Contains(ask(), "no authentication") {
		t.Errorf("without a passkey: HTTP %d %s", code, summary(page))
	}
	if code := s.erase(`{"acctNumber": "` + card + `"}`); code != 200 {
		t.Errorf("erase: HTTP %d", code)
	}
	if page := ask(); !strings.Contains(page, "The journal has no authentication.") || strings.Contains(page, card) {
		t.Errorf("after the erasure: %s", summary(page))
	}
	if page := s.want("/audit", "journal.erase"); strings.Contains(page, card) {
		t.Error("the card number is in the audit trail")
	}
	if found := s.want("/authentications?time=all"); strings.Contains(found, "0103") {
		t.Errorf("the erased record is found: %s", summary(found))
	}
}
