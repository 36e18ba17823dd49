package pages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/admin"
	"github.com/openthreeds/threeds/internal/journal"
	"github.com/openthreeds/threeds/internal/keyring"
	"github.com/openthreeds/threeds/internal/merchant"
	"github.com/openthreeds/threeds/internal/operator"
	"github.com/openthreeds/threeds/internal/pages"
	"github.com/openthreeds/threeds/internal/store/storetest"
	"github.com/openthreeds/threeds/message"
)

const (
	shop, otherShop = "Corner Shop", "Other Shop"
	card            = "4000000000000103"
	avValue         = "AJkBBkhgQQAAAE4gSEJydQAAAAA="
	passedID        = "00000000-0000-4000-8000-000000000001" // The shop has it: a challenge that was passed.
	lostID          = "00000000-0000-4000-8000-000000000002" // The shop has it: a challenge that nobody came back from.
	foreignID       = "00000000-0000-4000-8000-000000000003" // The other shop has it.
	refusedID       = "00000000-0000-4000-8000-000000000004" // The shop has it: a request that was refused.
	csrf            = "csrf-of-the-session"
)

// A site is the console with a store of two merchants and a journal.
type site struct {
	testing.TB
	pages *pages.Handler
	admin *admin.Handler
	db    *storetest.Memory
	keys  *journal.Keys
	st    journal.Store
	now   time.Time

	events map[string]string // for each merchant the id of an event
}

func newSite(t testing.TB) *site {
	t.Helper()
	dir := t.TempDir()
	ring, err := keyring.LoadOrCreate(filepath.Join(dir, "keys.json"))
	must(t, err)
	s := &site{TB: t, now: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)}
	now := func() time.Time { return s.now }
	s.db = storetest.NewMemory(now)
	registry := &merchant.Registry{Store: s.db, Ring: ring, InFile: []account.Merchant{{Name: shop}, {Name: otherShop}}}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	s.admin = &admin.Handler{
		Operators: &operator.Service{Store: s.db, Sealer: ring, Now: now}, Store: s.db, Now: now,
		Ring: func() account.Ring { return ring }, Merchants: func() *merchant.Registry { return registry }, Log: log,
	}
	s.admin.PasskeyURL = func() string { return "https://console.example" }
	s.admin.Explain = explainForTest
	s.admin.Hooks, s.events = newHooks(t, s.db, ring, now, log)
	s.keys, err = journal.LoadOrCreateKeys(filepath.Join(dir, "journal-keys.json"))
	must(t, err)
	s.st, err = journal.OpenFiles(dir, s.keys)
	must(t, err)
	t.Cleanup(func() { _ = s.st.Close() })
	s.admin.Journal, s.admin.JournalKeys = s.st, s.keys
	s.admin.Erase = func(ctx context.Context, q journal.Query) (done admin.Erased, err error) {
		done.Authentications, done.Records, err = s.st.Erase(ctx, q)
		return done, err
	}
	s.addRecords()
	s.pages = &pages.Handler{Admin: s.admin, Now: now, Log: log, Shop: "/shop"}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// masked returns a message as the journal has it.
func masked(t testing.TB, members string) json.RawMessage {
	t.Helper()
	m, err := message.Parse([]byte(members), message.Limits{})
	must(t, err)
	return m.MaskedJSON()
}

// addRecords puts authentications of this day into the journal.
func (s *site) addRecords() {
	s.Helper()
	began := s.now.Add(-30 * time.Minute)
	ids := `"threeDSServerTransID": "` + passedID + `", "dsTransID": "94e6ace8-0000-4000-8000-0000d319dd15", "acsTransID": "f9394117-0000-4000-8000-0000464b1880", "messageVersion": "2.2.0", `
	areq := masked(s.TB, `{"messageType": "AReq", "messageVersion": "2.2.0", "threeDSServerTransID": "`+passedID+`", "deviceChannel": "02", "messageCategory": "01",
		"acctNumber": "`+card+`", "cardExpiryDate": "2912", "cardholderName": "Zoe Example", "purchaseAmount": "12900", "purchaseCurrency": "978", "purchaseExponent": "2",
		"purchaseDate": "20270301113000", "mcc": "5411", "merchantName": "Corner Shop", "merchantCountryCode": "276", "acquirerBIN": "412345", "acquirerMerchantID": "m-17",
		"threeDSCompInd": "Y", "threeDSRequestorAuthenticationInd": "01", "threeDSRequestorID": "r-1", "threeDSRequestorName": "Corner", "threeDSRequestorURL": "https://shop.example",
		"browserUserAgent": "Mozilla/5.0", "browserIP": "192.0.2.7", "browserLanguage": "en", "notificationURL": "https://shop.example/n"}`)
	ares := masked(s.TB, `{"messageType": "ARes", `+ids+`"transStatus": "C", "acsChallengeMandated": "Y", "authenticationType": "02",
		"acsURL": "https://acs.bank.example/c", "acsReferenceNumber": "ACS-1", "acsOperatorID": "BANK-01", "dsReferenceNumber": "DS-1"}`)
	rreq := masked(s.TB, `{"messageType": "RReq", `+ids+`"transStatus": "Y", "eci": "05", "authenticationValue": "`+avValue+`", "authenticationMethod": "02", "authenticationType": "02",
		"interactionCounter": "01", "messageCategory": "01"}`)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	one := journal.Record{
		ID: passedID, Created: began, Updated: at(22900), API: "authentications", Operation: "authentications", Merchant: shop, Reference: "order-17",
		Card: journal.Card{Scheme: "visa", BIN: "40000000", Last4: "0103"}, Amount: "12900", Currency: "978", MessageVersion: "2.2.0",
		DeviceChannel: "02", MessageCategory: "01", Status: "completed", Result: "authenticated", TransStatus: "Y", ECI: "05", ACS: "BANK-01",
		Challenged: true, Liability: "yes", DurationMS: 648,
	}
	creq := masked(s.TB, `{"messageType": "CReq", "messageVersion": "2.2.0", "threeDSServerTransID": "`+passedID+`",
		"acsTransID": "f9394117-0000-4000-8000-0000464b1880", "challengeWindowSize": "02"}`)
	s.add(journal.Created, one, journal.Step{Step: "request", At: at(0), Findings: []string{"purchaseAmount: a number was made a string"}},
		journal.Step{Step: "lookup", At: at(0)}, journal.Step{Step: "answered", At: at(3)})
	s.add(journal.Method, one, journal.Step{Step: "method", At: at(420)})
	s.add(journal.Claimed, one, journal.Step{Step: "areq", At: at(809), Message: areq, Findings: []string{"visa asks for cardholder e-mail or telephone"}})
	s.add(journal.Answered, one, journal.Step{Step: "ares", At: at(1457), Message: ares})
	s.add(journal.Shown, one, journal.Step{Step: "challenge", At: at(1461)}, journal.Step{Step: "creq", At: at(1461), Message: creq})
	s.add(journal.Resulted, one, journal.Step{Step: "rreq", At: at(22816), Message: rreq}, journal.Step{Step: "rres", At: at(22819)})
	s.add(journal.Returned, one, journal.Step{Step: "cres", At: at(22900)})
	s.add(journal.Delivered("evt_1", "we_1", 1), one,
		journal.Step{Step: "webhook", At: at(22850), Findings: []string{"authentication.completed to we_1: 200"}})
	s.add(journal.Collected, one, journal.Step{Step: "answered", At: at(23100)})
	lost, foreign := one, one
	lost.Liability, foreign.Liability = "no", "no"
	lost.ID, lost.Created, lost.Updated, lost.Status, lost.Result, lost.TransStatus, lost.ECI, lost.Reference = lostID, at(60000), at(90000), "expired", "abandoned", "C", "", "order-18"
	s.add(journal.Claimed, lost, journal.Step{Step: "request", At: at(60000)}, journal.Step{Step: "areq", At: at(60010), Message: areq})
	s.add(journal.Answered, lost, journal.Step{Step: "ares", At: at(60400), Message: ares}, journal.Step{Step: "answered", At: at(60402)})
	s.add(journal.Expired, lost, journal.Step{Step: "expired", At: at(90000)})
	foreign.ID, foreign.Merchant, foreign.Result, foreign.TransStatus, foreign.TransStatusReason, foreign.ECI, foreign.Reference =
		foreignID, otherShop, "not_authenticated", "N", "12", "", "order-19"
	foreign.Challenged = false
	s.add(journal.Answered, foreign, journal.Step{Step: "request", At: at(0)}, journal.Step{Step: "areq", At: at(3), Message: areq}, journal.Step{Step: "ares", At: at(300), Message: ares})
	s.add(journal.Refused, journal.Record{
		ID: refusedID, Created: at(70000), Updated: at(70002), API: "emv", Operation: "auth", Merchant: shop, Status: "refused", ErrorCode: "203",
		Elements: []string{"mcc"}, Card: journal.Card{Scheme: "visa", BIN: "40000000", Last4: "0103"},
	}, journal.Step{Step: "request", At: at(70000)}, journal.Step{Step: "answered", At: at(70002)})
}

func (s *site) add(kind journal.Kind, r journal.Record, steps ...journal.Step) {
	s.Helper()
	_, err := s.st.Write(s.Context(), []journal.Entry{{Kind: kind, Record: r, Steps: steps, CardHash: s.keys.CardHash(card)}})
	must(s.TB, err)
}

// addUnkept adds a record of each shop that does not keep rules of its scheme.
func (s *site) addUnkept() {
	s.Helper()
	rules := []journal.Rule{{Element: "email|homePhone", Rule: "require"}, {Element: "mcc", Rule: "format", Since: "2027-05-01"}, {Element: "billAddrLine1", Rule: "advise"}}
	for n, merchant := range []string{shop, otherShop} {
		r := recordOf(fmt.Sprintf("40000000-0000-4000-8000-%012d", n+1))
		r.Created, r.Merchant, r.Unkept = s.now.Add(-1e9), merchant, rules
		s.add(journal.Answered, r, stepOf("areq", r.Created))
	}
}

// personalID is the id of the authentication whose personal data is kept.
const personalID = "50000000-0000-4000-8000-000000000001"

// addPersonal adds an authentication with personal data.
func (s *site) addPersonal() {
	s.Helper()
	r := recordOf(personalID)
	r.Created, r.Merchant = s.now.Add(-20*time.Hour), shop
	step := stepOf("areq", r.Created)
	step.Message = masked(s.TB, `{"messageType": "AReq", "messageVersion": "2.2.0", "deviceChannel": "02", "messageCategory": "01"}`)
	step.Personal = []byte(`{"email":"zoe.quartz-longname@mail.department.shop.example","homePhone.cc":"49","homePhone.subscriber":"3012345678",` +
		`"cardholderName":"Zoë Quartz","billAddrLine1":"12 Harbour Lane","billAddrCity":"Bremen","billAddrPostCode":"28195","billAddrCountry":"276",` +
		`"browserIP":"192.0.2.44","acctInfo":{"chAccDate":"20240101"}}`)
	s.add(journal.Answered, r, step)
}

// actor returns who a caller of the matrix is: a role, and with "own-" in front that of the shop's own people.
func actor(caller string) operator.Actor {
	role, isOwn := strings.CutPrefix(caller, "own-")
	a := operator.Actor{Who: "passkey:" + caller, Role: operator.Role(role), From: "192.0.2.1"}
	if isOwn {
		a.Merchant = shop
	}
	return a
}

// serve answers a request as a caller.
func (s *site) serve(caller string, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	session := &operator.Session{Actor: actor(caller), CSRF: csrf, Key: []byte("key of the session of " + caller)}
	s.pages.ServeHTTP(w, r.WithContext(operator.WithSession(r.Context(), session)))
	return w
}

// get gets a page as a caller.
func (s *site) get(caller, at string) *httptest.ResponseRecorder {
	s.Helper()
	return s.serve(caller, httptest.NewRequest(http.MethodGet, at, nil))
}

// post sends a form as a caller, with its csrf.
func (s *site) post(caller, at string, form url.Values) *httptest.ResponseRecorder {
	s.Helper()
	form.Set("csrf", csrf)
	r := httptest.NewRequest(http.MethodPost, at, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.serve(caller, r)
}

// callers returns the kinds of visitors: three roles, and the same roles of one merchant's own people.
func callers() []string {
	return []string{"viewer", "operator", "admin", "own-viewer", "own-operator", "own-admin"}
}

// want reports what a page must have.
func (s *site) want(w *httptest.ResponseRecorder, status int, texts ...string) {
	s.Helper()
	if w.Code != status {
		s.Errorf("status %d, want %d", w.Code, status)
	}
	for _, text := range texts {
		if !bytes.Contains(w.Body.Bytes(), []byte(text)) {
			s.Errorf("the page has no %q", text)
		}
	}
}
