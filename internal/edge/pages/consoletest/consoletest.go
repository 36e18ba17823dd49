// Package consoletest makes consoles for tests: the pages of package pages over a store of two merchants and a journal.
// Call [New], and [Site.Fill] for something to see on each of the [Faces].
package consoletest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/edge/pages"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	schemes "github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/cluster"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
	"github.com/openthreeds/threeds/message"
)

// Merchants, a card and authentications of the console.
const (
	Shop, OtherShop = "Corner Shop", "Other Shop"
	Card            = "4000000000000103"
	AVValue         = "AJkBBkhgQQAAAE4gSEJydQAAAAA="
	PassedID        = "00000000-0000-4000-8000-000000000001" // Of the shop: a challenge that was passed.
	LostID          = "00000000-0000-4000-8000-000000000002" // Of the shop: a challenge that was left.
	ForeignID       = "00000000-0000-4000-8000-000000000003" // Of the other shop.
	RefusedID       = "00000000-0000-4000-8000-000000000004" // Of the shop: a request that was refused.
	CSRF            = "csrf-of-the-session"
)

// The endpoint of each merchant.
const HookID, ForeignHookID = "ep_1", "ep_2"

// A Site is the console with a store of two merchants and a journal.
type Site struct {
	testing.TB
	Pages   *pages.Handler
	Admin   *admin.Handler
	DB      *storetest.Memory
	Keys    *journal.Keys
	Journal journal.Store
	Now     time.Time
	Events  map[string]string // for each merchant the id of an event
}

// New makes a console with records of two merchants.
func New(t testing.TB) *Site {
	t.Helper()
	dir := t.TempDir()
	ring, err := keyring.LoadOrCreate(filepath.Join(dir, "keys.json"))
	must(t, err)
	s := &Site{TB: t, Now: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)}
	now := func() time.Time { return s.Now }
	s.DB = storetest.NewMemory(now)
	registry := &merchant.Registry{Store: s.DB, Ring: ring, InFile: []account.Merchant{{Name: Shop}, {Name: OtherShop}}, CheckProfile: config.CheckProfile}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	s.Admin = &admin.Handler{Log: log, Acts: &ops.Acts{
		Operators: &operator.Service{Store: s.DB, Sealer: ring, Now: now}, Store: s.DB, Now: now,
		Ring: func() account.Ring { return ring }, Merchants: func() *merchant.Registry { return registry },
	}}
	s.Admin.Operators.Members = registry.Members
	s.Admin.PasskeyURL = func() string { return "https://console.example" }
	s.Admin.Explain = Explain
	s.Admin.Hooks, s.Events = newHooks(t, s.DB, ring, now, log)
	s.Keys, err = journal.LoadOrCreateKeys(filepath.Join(dir, "journal-keys.json"), "")
	must(t, err)
	s.Journal, err = journal.OpenFiles(dir, s.Keys)
	must(t, err)
	t.Cleanup(func() { _ = s.Journal.Close() })
	s.Admin.Journal, s.Admin.JournalKeys = s.Journal, s.Keys
	s.Admin.Operators.Keys, s.Admin.LegalHolds = s.Keys, s.Journal
	s.Admin.Erase = func(ctx context.Context, q journal.Query) (done ops.Erased, err error) {
		if done.Held, err = s.Journal.CountHeld(ctx, q); err == nil {
			done.Authentications, done.Records, err = s.Journal.Erase(ctx, q)
		}
		return done, err
	}
	s.addRecords()
	s.Pages = &pages.Handler{Admin: s.Admin, Acts: s.Admin.Acts, Now: now, Log: log, Shop: "/shop"}
	return s
}

// Masked returns a message as the journal keeps it.
func Masked(t testing.TB, members string) json.RawMessage {
	t.Helper()
	m, err := message.Parse([]byte(members), message.Limits{})
	must(t, err)
	return m.MaskedJSON()
}

// addRecords puts authentications of this day into the journal.
func (s *Site) addRecords() {
	s.Helper()
	began := s.Now.Add(-30 * time.Minute)
	ids := `"threeDSServerTransID": "` + PassedID +
		`", "dsTransID": "94e6ace8-0000-4000-8000-0000d319dd15", "acsTransID": "f9394117-0000-4000-8000-0000464b1880", "messageVersion": "2.2.0", `
	areq := Masked(s.TB, `{"messageType": "AReq", "messageVersion": "2.2.0", "threeDSServerTransID": "`+PassedID+
		`", "deviceChannel": "02", "messageCategory": "01",
		"acctNumber": "`+Card+
		`", "cardExpiryDate": "2912", "cardholderName": "Zoe Example", "purchaseAmount": "12900", "purchaseCurrency": "978", "purchaseExponent": "2",
		"purchaseDate": "20270301113000", "mcc": "5411", "merchantName": "Corner Shop", "merchantCountryCode": "276", "acquirerBIN": "412345", "acquirerMerchantID": "m-17",
		"threeDSCompInd": "Y", "threeDSRequestorAuthenticationInd": "01", "threeDSRequestorID": "r-1", "threeDSRequestorName": "Corner", "threeDSRequestorURL": "https://shop.example",
		"browserUserAgent": "Mozilla/5.0", "browserIP": "192.0.2.7", "browserLanguage": "en", "notificationURL": "https://shop.example/n"}`)
	ares := Masked(s.TB, `{"messageType": "ARes", `+ids+`"transStatus": "C", "acsChallengeMandated": "Y", "authenticationType": "02",
		"acsURL": "https://acs.bank.example/c", "acsReferenceNumber": "ACS-1", "acsOperatorID": "BANK-01", "dsReferenceNumber": "DS-1"}`)
	rreq := Masked(s.TB, `{"messageType": "RReq", `+ids+`"transStatus": "Y", "eci": "05", "authenticationValue": "`+
		AVValue+`", "authenticationMethod": "02", "authenticationType": "02",
		"interactionCounter": "01", "messageCategory": "01"}`)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	one := journal.Record{
		ID: PassedID, Created: began, Updated: at(22900), API: "authentications", Operation: "authentications", Merchant: Shop, Reference: "order-17",
		Card: journal.Card{Scheme: "visa", BIN: "40000000", Last4: "0103"}, Amount: "12900", Currency: "978", MessageVersion: "2.2.0",
		DeviceChannel: "02", MessageCategory: "01", Status: "completed", Result: "authenticated", TransStatus: "Y", ECI: "05", ACS: "BANK-01",
		Challenged: true, Liability: "yes", DurationMS: 648,
	}
	creq := Masked(s.TB, `{"messageType": "CReq", "messageVersion": "2.2.0", "threeDSServerTransID": "`+PassedID+`",
		"acsTransID": "f9394117-0000-4000-8000-0000464b1880", "challengeWindowSize": "02"}`)
	s.Add(journal.Created, one, journal.Step{Step: "request", At: at(0), Findings: []string{"purchaseAmount: a number was made a string"}},
		journal.Step{Step: "lookup", At: at(0)}, journal.Step{Step: "answered", At: at(3)})
	s.Add(journal.Method, one, journal.Step{Step: "method", At: at(420)})
	s.Add(journal.Claimed, one, journal.Step{Step: "areq", At: at(809), Message: areq})
	s.Add(journal.Answered, one, journal.Step{Step: "ares", At: at(1457), Message: ares})
	s.Add(journal.Shown, one, journal.Step{Step: "challenge", At: at(1461)}, journal.Step{Step: "creq", At: at(1461), Message: creq})
	s.Add(journal.Resulted, one, journal.Step{Step: "rreq", At: at(22816), Message: rreq}, journal.Step{Step: "rres", At: at(22819)})
	s.Add(journal.Returned, one, journal.Step{Step: "cres", At: at(22900)})
	s.Add(journal.Delivered("evt_1", "we_1", 1), one,
		journal.Step{Step: "webhook", At: at(22850), Findings: []string{"authentication.completed to we_1: 200"}})
	s.Add(journal.Collected, one, journal.Step{Step: "answered", At: at(23100)})
	lost, foreign := one, one
	lost.Liability, foreign.Liability = "no", "no"
	lost.ID, lost.Created, lost.Updated, lost.Status, lost.Result, lost.TransStatus, lost.ECI, lost.Reference = LostID,
		at(60000), at(90000), "expired", "abandoned", "C", "", "order-18"
	s.Add(journal.Claimed, lost, journal.Step{Step: "request", At: at(60000)}, journal.Step{Step: "areq", At: at(60010), Message: areq})
	s.Add(journal.Answered, lost, journal.Step{Step: "ares", At: at(60400), Message: ares}, journal.Step{Step: "answered", At: at(60402)})
	s.Add(journal.Expired, lost, journal.Step{Step: "expired", At: at(90000)})
	foreign.ID, foreign.Merchant, foreign.Result, foreign.TransStatus, foreign.TransStatusReason, foreign.ECI, foreign.Reference =
		ForeignID, OtherShop, "not_authenticated", "N", "12", "", "order-19"
	foreign.Challenged = false
	s.Add(journal.Answered, foreign, journal.Step{Step: "request", At: at(0)},
		journal.Step{Step: "areq", At: at(3), Message: areq}, journal.Step{Step: "ares", At: at(300), Message: ares})
	s.Add(journal.Refused, journal.Record{
		ID: RefusedID, Created: at(70000), Updated: at(70002), API: "emv", Operation: "auth", Merchant: Shop, Status: "refused", ErrorCode: "203",
		Elements: []string{"mcc"}, Card: journal.Card{Scheme: "visa", BIN: "40000000", Last4: "0103"},
	}, journal.Step{Step: "request", At: at(70000)}, journal.Step{Step: "answered", At: at(70002)})
}

// Add writes a record and steps of it to the journal.
func (s *Site) Add(kind journal.Kind, r journal.Record, steps ...journal.Step) {
	s.Helper()
	_, err := s.Journal.Write(s.Context(), []journal.Entry{{Kind: kind, Record: r, Steps: steps, CardHash: s.Keys.CardHash(Card)}})
	must(s.TB, err)
}

// AddUnkept adds a record of each shop that does not keep rules of its scheme.
func (s *Site) AddUnkept() {
	s.Helper()
	rules := []journal.Rule{{Element: "email|homePhone", Rule: "require"},
		{Element: "mcc", Rule: "format", Since: "2027-05-01"}, {Element: "billAddrLine1", Rule: "advise"}}
	for n, merchant := range []string{Shop, OtherShop} {
		r := RecordOf(fmt.Sprintf("40000000-0000-4000-8000-%012d", n+1))
		r.Created, r.Merchant, r.Unkept = s.Now.Add(-1e9), merchant, rules
		s.Add(journal.Answered, r, StepOf("areq", r.Created))
	}
}

// PersonalID is the id of the authentication whose personal data is kept.
const PersonalID = "50000000-0000-4000-8000-000000000001"

// AddPersonal adds an authentication with personal data.
func (s *Site) AddPersonal() {
	s.Helper()
	r := RecordOf(PersonalID)
	r.Created, r.Merchant = s.Now.Add(-20*time.Hour), Shop
	step := StepOf("areq", r.Created)
	step.Message = Masked(s.TB, `{"messageType": "AReq", "messageVersion": "2.2.0", "deviceChannel": "02", "messageCategory": "01"}`)
	step.Personal = []byte(`{"email":"zoe.quartz-longname@mail.department.shop.example","homePhone.cc":"49","homePhone.subscriber":"3012345678",` +
		`"cardholderName":"Zoë Quartz","billAddrLine1":"12 Harbour Lane","billAddrCity":"Bremen","billAddrPostCode":"28195","billAddrCountry":"276",` +
		`"browserIP":"192.0.2.44","acctInfo":{"chAccDate":"20240101"}}`)
	s.Add(journal.Answered, r, step)
}

// Actor returns who a caller of the matrix is: a role, and with "own-" in front that of the shop's own people.
func Actor(caller string) operator.Actor {
	role, isOwn := strings.CutPrefix(caller, "own-")
	a := operator.Actor{Who: "passkey:" + caller, Role: operator.Role(role), From: "192.0.2.1", Identity: "identity of " + caller}
	if isOwn {
		a.Merchant = Shop
	}
	return a
}

// sessionOf returns the session of a caller.
func sessionOf(caller string) *operator.Session {
	return &operator.Session{Actor: Actor(caller), CSRF: CSRF, Key: []byte("key of the session of " + caller)}
}

// FormToken returns what a form of the console brings as csrf.
func FormToken() string { return (&operator.Session{CSRF: CSRF}).FormToken() }

// WithoutSpace returns a page without the white space that no browser shows.
func WithoutSpace(page string) string {
	var b strings.Builder
	for page != "" {
		at := verbatim.FindStringIndex(page)
		if at == nil {
			at = []int{len(page), len(page)}
		}
		b.WriteString(besideBlock.ReplaceAllString(spaces.ReplaceAllString(page[:at[0]], " "), "$1"))
		b.WriteString(page[at[0]:at[1]])
		page = page[at[1]:]
	}
	return b.String()
}

var (
	verbatim = regexp.MustCompile(`(?s)<pre.*?</pre>|<textarea.*?</textarea>`)
	spaces   = regexp.MustCompile(`[ \t\n]+`)
)

// besideBlock matches a block element, with the white space around it.
var besideBlock = regexp.MustCompile(`\s*(</?(?:div|section|main|nav|header|p|h\d|table|thead|tbody|tr|t[dh]|[uo]l|li|d[ltd]|form|label|option|` +
	`button|summary|details|svg|path|rect|g|line)(?:\s[^<>]*)?>)\s*`)

// Serve answers a request as a caller. A page comes without the white space that no browser shows.
func (s *Site) Serve(caller string, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.Pages.ServeHTTP(w, r.WithContext(operator.WithSession(r.Context(), sessionOf(caller))))
	if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") && w.Header().Get("Content-Encoding") == "" {
		w.Body = bytes.NewBufferString(WithoutSpace(w.Body.String()))
	}
	return w
}

// Get gets a page as a caller.
func (s *Site) Get(caller, at string) *httptest.ResponseRecorder {
	s.Helper()
	return s.Serve(caller, httptest.NewRequest(http.MethodGet, at, nil))
}

// Post sends a form as a caller, with its CSRF.
func (s *Site) Post(caller, at string, form url.Values) *httptest.ResponseRecorder {
	s.Helper()
	form.Set("csrf", FormToken())
	r := httptest.NewRequest(http.MethodPost, at, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.Serve(caller, r)
}

// Want reports what a page must have.
func (s *Site) Want(w *httptest.ResponseRecorder, status int, texts ...string) {
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A Node is the server that a site belongs to, in the form that a test sets.
type Node struct {
	Directories []admin.Directory
	Problems    map[string]string
	Endings     map[string]time.Time
	Troubled    []admin.TroubledEndpoint
	Members     []cluster.Member
	// Configuration is as the file of the node says, unless a test changes it.
	Configuration admin.Configuration
}

// NewRoot returns a CA certificate with its key.
func NewRoot(t testing.TB, name string, end time.Time) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(17), Subject: pkix.Name{CommonName: name}, NotBefore: end.AddDate(-2, 0, 0), NotAfter: end,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return cert, key
}

// AddNode gives the console a server of two directories, with which all is well.
func (s *Site) AddNode() *Node {
	s.Helper()
	n := &Node{Problems: map[string]string{}, Endings: map[string]time.Time{}, Members: []cluster.Member{{
		Name: "node-1 10.0.0.1:8080", State: cluster.Ready, Release: "v1.2.3", Since: s.Now.Add(-26 * time.Hour),
		Seen: s.Now.Add(-7 * time.Second), Config: "c0ffee12", KeyFile: "69913c56", JournalKeys: "1f2e3d4c", Problems: []cluster.Problem{},
	}}}
	n.Configuration = admin.Configuration{File: "/etc/threeds/threeds.yaml", Settings: []admin.Setting{
		{Key: "keys", Value: "/etc/threeds/keys.json", Source: "file", Line: 1},
		{Key: "limits.per_directory", Value: "500", Source: "default"},
		{Key: "directories[visa].areq_url", Value: "https://ds.visa.example/areq", Source: "file", Line: 12},
		{Key: "directories[visa].client_cert", Value: "managed", Source: "store"},
		{Key: "forward_proxy.credentials", SecretFile: "/etc/threeds/proxy", Source: "file", Line: 31},
	}}
	root, _ := NewRoot(s.TB, "Scheme root", s.Now.AddDate(4, 0, 0))
	for i, scheme := range []string{"visa", "mastercard"} {
		d := admin.Directory{
			Scheme: scheme, Key: "directories[" + string(rune('0'+i)) + "]", AReqURL: "https://ds." + scheme + ".example/areq",
			PReqURL: "https://ds." + scheme + ".example/preq", ResultsURL: "https://results.example/results",
			Versions: []string{"2.1.0", "2.2.0"}, ClientNames: []string{"ds." + scheme + ".example"},
			Breaker:     admin.Breaker{State: admin.BreakerClosed},
			RIDs:        []string{"A000000003"},
			ECI:         []schemes.CodeMeaning{{Code: "05", Meaning: "authenticated: Y in a payment"}, {Code: "07", Meaning: "not authenticated"}},
			Certificate: &admin.Certificate{Subject: "CN=3ds.example", Expires: s.Now.AddDate(0, 4, 0)},
		}
		d.SetRoots([]*x509.Certificate{root}, []*x509.Certificate{root})
		d.Refresh, d.MinRefresh = 4*time.Hour, time.Hour
		n.Directories = append(n.Directories, d)
		s.PutStatus(scheme, directory.RefreshStatus{Generation: 3, Ranges: 1204, Loaded: s.Now.Add(-12 * time.Minute), Serial: "s-3", Version: "2.2.0"})
	}
	s.Admin.Keeper = s.DB
	s.Admin.Certificates = &clientcert.Service{Store: s.DB, Sealer: s.Admin.Operators.Sealer, Now: func() time.Time { return s.Now }}
	s.Admin.TryCertificate = func(_ context.Context, scheme string, cert tls.Certificate) (directory.HandshakeReport, error) {
		return directory.HandshakeReport{
			Result: directory.HandshakeAccepted, Detail: "The directory server asked for a client certificate and took this one",
			Address: "ds." + scheme + ".example:443", TLS: "TLS 1.3", Suite: "TLS_AES_128_GCM_SHA256", MS: 42,
		}, nil
	}
	s.Admin.Node = &admin.Node{
		Directories:       func() []admin.Directory { return append([]admin.Directory{}, n.Directories...) },
		Problems:          func() map[string]string { return maps.Clone(n.Problems) },
		Endings:           func() map[string]time.Time { return n.Endings },
		TroubledEndpoints: func(context.Context) ([]admin.TroubledEndpoint, error) { return n.Troubled, nil },
		Members:           func(context.Context) ([]cluster.Member, error) { return n.Members, nil },
		Generation:        func(string) *ranges.Generation { return nil },
		HasFile:           func() bool { return true },
		Configuration:     func() *admin.Configuration { return &n.Configuration },
	}
	return n
}

// PutStatus stores how things stand with the card ranges of a scheme.
func (s *Site) PutStatus(scheme string, status directory.RefreshStatus) {
	s.Helper()
	lease, err := s.DB.Acquire(s.Context(), "test", "test", time.Minute)
	must(s.TB, err)
	value, err := json.Marshal(status)
	must(s.TB, err)
	must(s.TB, s.DB.PutState(s.Context(), "ranges/"+scheme, value, lease))
	must(s.TB, s.DB.Release(s.Context(), lease))
}

// UseRanges stores generations of card ranges, the newest last, puts the last but one into use and holds the last back.
func (s *Site) UseRanges(generations ...*ranges.Generation) {
	s.Helper()
	for i, g := range generations {
		if i < len(generations)-1 {
			_, err := directory.Import(s.Context(), s.DB, "visa", "test", g)
			must(s.TB, err)
			continue
		}
		lease, err := s.DB.Acquire(s.Context(), "test", "test", time.Minute)
		must(s.TB, err)
		var content bytes.Buffer
		_, err = g.WriteTo(&content)
		must(s.TB, err)
		must(s.TB, s.DB.PutSnapshot(s.Context(), store.Snapshot{Scheme: "visa/held", Generation: 7, Created: s.Now}, lease, &content, 1))
		must(s.TB, s.DB.Release(s.Context(), lease))
	}
	used := generations[len(generations)-2]
	s.PutStatus("visa", directory.RefreshStatus{
		Generation: int64(len(generations) - 1), Ranges: used.Len(), Loaded: s.Now.Add(-12 * time.Minute), Held: 7, HeldRanges: generations[len(generations)-1].Len(),
	})
	s.Admin.Node.Generation = func(scheme string) *ranges.Generation {
		if scheme == "visa" {
			return used
		}
		return nil
	}
}

// NewGeneration makes card ranges of a few bounds, each with the same that is said of it.
func NewGeneration(t testing.TB, method string, bounds ...[2]string) *ranges.Generation {
	t.Helper()
	var b ranges.Builder
	info := &ranges.Info{
		ACSStart: "2.1.0", ACSEnd: "2.3.1", DSStart: "2.1.0", DSEnd: "2.3.1", DSVersions: []string{"2.1.0", "2.2.0", "2.3.1"},
		ACS: []ranges.ACSVersion{{Version: "2.1.0"}, {Version: "2.2.0", MethodURL: method}, {Version: "2.3.1"}},
	}
	for _, pair := range bounds {
		must(t, b.Add(pair[0], pair[1], info))
	}
	table, err := b.Build()
	must(t, err)
	return &ranges.Generation{Scheme: "visa", Version: message.V220, Table: table, DSURLs: []ranges.DSURL{{URL: "https://second.visa.example/areq"}}}
}

// TwoRanges gives the console two card ranges. One of them is missing in those that are held back.
func (s *Site) TwoRanges() {
	s.Helper()
	first, second := [2]string{"4000001000000000", "4000001999999999"}, [2]string{"4000002000000000", "4000002999999999"}
	s.UseRanges(NewGeneration(s.TB, "", first), NewGeneration(s.TB, "https://acs.bank.example/method", first, second),
		NewGeneration(s.TB, "https://acs.bank.example/method", first))
}

// A CA signs what the console requests.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Sign answers the first request that a page shows with a certificate and that of its CA, in PEM.
func (ca *CA) Sign(s *Site, page string) string {
	s.Helper()
	found := regexp.MustCompile("(?s)-----BEGIN CERTIFICATE REQUEST-----.*?-----END CERTIFICATE REQUEST-----").FindString(html.UnescapeString(page))
	block, _ := pem.Decode([]byte(found))
	if block == nil {
		s.Fatalf("the page has no request: %.300s", page)
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	must(s.TB, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(77), Subject: pkix.Name{CommonName: asked.Subject.CommonName}, NotBefore: s.Now.Add(-time.Hour), NotAfter: s.Now.AddDate(1, 0, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca.cert, asked.PublicKey, ca.key)
	must(s.TB, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw}))
}

// NewCA returns a CA for client certificates.
func NewCA(s *Site) *CA {
	cert, key := NewRoot(s.TB, "Client CA", s.Now.AddDate(1, 6, 0))
	return &CA{cert, key}
}

// InstallCertificate has a certificate of visa requested and installed in the console.
func (s *Site) InstallCertificate(ca *CA, name, at string) {
	s.Helper()
	w := s.Post("operator", "/certificates/visa", url.Values{"do": {"request"}, "key": {"p256"}, "subject": {"CN=" + name}})
	s.Want(w, 303)
	file := ca.Sign(s, s.Get("operator", w.Header().Get("Location")).Body.String())
	s.Want(s.Post("operator", "/certificates/visa", url.Values{"do": {"install"}, "certificate": {file}, "at": {at}}), 303)
}

// newHooks returns a service with an endpoint of each merchant, and for each merchant the id of an event that is on its
// way to it. It may post to this machine.
func newHooks(t testing.TB, db *storetest.Memory, ring *keyring.Ring, now func() time.Time, log *slog.Logger) (*webhook.Service, map[string]string) {
	t.Helper()
	hooks := &webhook.Service{Store: db, Sealer: ring, Now: now, Log: log}
	addresses := webhook.Addresses{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
	hooks.Configure(webhook.Settings{
		Retry: webhook.DefaultRetry(), Timeout: 20 * time.Second, DisableAfter: time.Hour, Poll: time.Minute, Addresses: addresses,
		Sender: webhook.NewSender(addresses, 20*time.Second, nil, time.Now),
	})
	events := map[string]string{}
	for _, of := range []struct{ merchant, hook, about string }{{Shop, HookID, PassedID}, {OtherShop, ForeignHookID, ForeignID}} {
		e := webhook.Endpoint{ID: of.hook, URL: "https://" + of.hook[3:] + ".shop.example/hooks", Description: "till " + of.hook[3:]}
		_, err := hooks.Add(t.Context(), of.merchant, e)
		must(t, err)
		event, err := hooks.NewEvent(of.merchant, api.EventCompleted, of.about, now().Add(-time.Minute), json.RawMessage(`{"id": "`+of.about+`", "last4": "0103"}`))
		must(t, err)
		must(t, db.PutEvent(t.Context(), *event))
		events[of.merchant] = event.ID
	}
	return hooks, events
}

// Explain explains every text that is JSON as an ARes with a fault, whose members all have text of an attacker. It
// refuses any other text.
func Explain(merchant string, text []byte) (json.RawMessage, error) {
	if !json.Valid(text) {
		return nil, errors.New("it is neither JSON nor a log line")
	}
	quoted, _ := json.Marshal(merchant + Attacks[0])
	q := string(quoted)
	return json.RawMessage(`{"kind": "ares", "verdict": "invalid", "scheme": "visa", "messageVersion": "2.2.0",
		"errors": [{"pointer": "/eci", "code": "203", "rule": "pattern", "cure": "want 2 digits", "source": null}, {"pointer": ` + q + `, "cure": ` + q + `}],
		"warnings": [{"text": ` + q + `}], "normalised": [{"pointer": ` + q + `, "rule": ` + q + `}], "lines": [` + q + `],
		"schemeFindings": [{"element": ` + q + `, "level": "required", "since": "2024-08-12", "text": ` + q + `, "inForce": false}],
		"message": {"messageType": "ARes", "messageVersion": "2.2.0", "transStatus": "C", "cardholderInfo": ` + q + `, "acsURL": ` + q + `}}`), nil
}

// RecordOf returns a record of the shop.
func RecordOf(id string) journal.Record {
	return journal.Record{
		ID: id, API: "emv", Operation: "auth", Merchant: Shop, Status: "completed", Result: "authenticated", TransStatus: "Y",
		Card: journal.Card{Scheme: "visa", BIN: "40000000", Last4: "0103"},
	}
}

// Attacks end an attribute, an element, a script and a style, and each has a mark of its own.
var Attacks = []string{
	`"><script>alert(7)</script>`, `' onmouseover='alert(7)`, `</title><svg onload=alert(7)>`, `javascript:alert(7)`,
	`</script><img src=x onerror=alert(7)>`, `</style><b onclick=alert(7)>`, `{{alert(7)}}`, "`-alert(7)-`",
}

// StepOf returns a step without a message.
func StepOf(name string, at time.Time) journal.Step { return journal.Step{Step: name, At: at} }

// Faces are the addresses of the pages of the console, by a name for each. fillConsole makes what they show.
var Faces = map[string]string{
	"search": "/authentications", "empty": "/authentications?q=9999", "card": "/authentications/search", "authentication": "/authentications/" + PassedID,
	"beside": "/authentications/" + PassedID + "?step=ares&beside=areq", "reports": "/reports?by=merchant",
	"billing": "/billing", "mandates": "/reports?by=mandates", "merchants": "/merchants",
	"merchants-found": "/merchants?name=shop", "keys-found": "/keys?name=till", "merchant": "/merchants/Corner%20Shop",
	"disabled": "/merchants/Other%20Shop", "acquirers": "/merchants/Fjord",
	"keys": "/keys", "tokens": "/tokens", "audit": "/audit", "gone": "/nowhere", "webhooks": "/webhooks",
	"webhook": "/webhooks/" + HookID, "operators": "/operators", "explain": "/explain", "overview": "/", "erase": "/erase",
	"holds":     "/holds",
	"findings":  "/authentications/40000000-0000-4000-8000-000000000001",
	"personal":  "/authentications/" + PersonalID + "?step=areq",
	"approvals": "/approvals", "configuration": "/configuration", "nodes": "/nodes", "directories": "/directories",
	"ranges": "/ranges?prefix=4000", "rangediff": "/ranges/visa/diff", "certificates": "/certificates",
	"certificate": "/certificates/visa?done=request", "nocertificate": "/certificates/mastercard",
}

// Fill gives a console a key, directories and card ranges, with something that needs attention.
func (s *Site) Fill() {
	s.Helper()
	s.Post("operator", "/keys", map[string][]string{"merchant": {Shop}, "label": {"till 4"}})
	s.Admin.Merchants().Schemes = []string{"visa", "mastercard", "jcb"}
	_, err := s.Admin.AddMerchant(s.Context(), operator.Actor{Who: "cli:test", Role: operator.Admin}, account.Merchant{
		Name: "Fjord", Group: "nordic-shops", MCC: "5411", Origins: []string{"https://shop.fjord.example", "https://pay.fjord.example"},
		PerDirectory: map[string]account.Requestor{"visa": {AcquirerBIN: "400551", AcquirerMerchantID: "M-1", ID: "R-1"}},
	})
	must(s.TB, err)
	s.Want(s.Post("operator", "/merchants/Other%20Shop",
		url.Values{"do": {"disable"}, "reason": {"Stolen API keys, case 4711: the shop does not answer the telephone"}, "sure": {"1"}}), 303)
	s.AddUnkept()
	s.AddPersonal()
	s.addHolds()
	s.addWaiting()
	n := s.AddNode()
	s.TwoRanges()
	n.Directories[0].Breaker = admin.Breaker{State: admin.BreakerOpen, Since: &s.Now, Fault: "Connection refused", Refused: 1234}
	n.Members[0].Problems = []cluster.Problem{{Part: "way to visa", Text: "Connection refused", Since: s.Now.Add(-3 * time.Minute)}}
	n.Endings["directories[1].client_cert.cert"] = s.Now.AddDate(0, 0, 13)
	s.addRefused()
	other := n.Members[0]
	other.Name, other.Release, other.State = "node-2 with a name that is quite long 10.0.0.2:8080", "v1.2.4", cluster.Unready
	other.Problems = []cluster.Problem{{Part: "store", Text: "writes fail: database or disk is full", Since: s.Now.Add(-time.Minute)}}
	other.Past = []cluster.Problem{{Part: "journal", Text: "is not written", Since: s.Now.Add(-time.Hour), Over: s.Now.Add(-50 * time.Minute)}}
	n.Members = append(n.Members, other)
	n.Configuration.Changes = []admin.SettingChange{
		{Key: "directories[visa].timeout", Before: "10s", After: "8s", Line: 14},
		{Key: "store.url", Before: "postgres://threeds@db-1.department.example/threeds",
			After: "postgres://threeds@db-2.department.example/threeds", NeedsRestart: true, Line: 3},
	}
	ca := NewCA(s)
	s.InstallCertificate(ca, "first.example", "")
	s.Want(s.Post("operator", "/certificates/visa", url.Values{"do": {"activate"}}), 303)
	s.InstallCertificate(ca, "a-name-that-is-quite-long-and-has-no-end.department.example", "2028-01-31T03:00")
	s.Want(s.Post("operator", "/certificates/visa", url.Values{"do": {"request"}, "key": {"p256"}, "subject": {"CN=third.example,O=Example Payments,C=NL"}}), 303)
	s.addApprovals()
}

// addApprovals adds acts that wait for a second person, in each of their states for an admin.
func (s *Site) addApprovals() {
	s.Helper()
	s.Admin.FourEyes = func() []string { return []string{"keys"} }
	const hash = "5f2b8a1c9d3e4f60718293a4b5c6d7e8f9011223344556677889900aabbccdde"
	admin, other := Actor("admin"), Actor("viewer")
	other.Who = "oidc:9b1c5c3a-6f0e-4f3b-8a56-0c2f5b7d1e11"
	card := url.Values{"do": {"erase"}, "card": {"ending in 0103"}}
	for _, w := range []struct {
		by        operator.Actor
		act, on   string
		form      url.Values
		isAllowed bool
		card      []byte
	}{
		{other, "key revoke", Shop + ": " + hash, nil, false, nil},
		{other, "operator role", "kim", url.Values{"role": {"admin"}}, true, nil},
		{admin, "token create", "nightly", url.Values{"name": {"nightly"}, "role": {"operator"}, "merchant": {Shop}}, false, nil},
		{admin, "journal erase", "card", card, true, sessionOf("admin").Seal([]byte(Card))},
		{admin, "journal erase", "card", card, true, sessionOf("viewer").Seal([]byte(Card))},
	} {
		what := operator.Approval{
			Intent: operator.Intent{Act: w.act, Object: w.on}, Confirmed: "passkey", AskedBy: w.by.Who, Asker: w.by.Identity,
			Path: "/", Form: w.form, Card: w.card,
		}
		if w.isAllowed {
			what.AllowedBy, what.Allower = "passkey:a-person-with-quite-a-long-name.payments", "identity"
		}
		must(s.TB, s.Admin.Operators.AskApproval(s.Context(), &what))
	}
}

// addRefused adds requests of the last minutes, most of which were refused by this server, and some of the days before.
func (s *Site) addRefused() {
	s.Helper()
	for i := range 24 {
		r := RecordOf(fmt.Sprintf("60000000-0000-4000-8000-%012d", i))
		r.Created, r.Merchant = s.Now.Add(-time.Duration(i+1)*10*time.Second), OtherShop
		s.Add(journal.Answered, r, StepOf("areq", r.Created))
		r.ID = fmt.Sprintf("70000000-0000-4000-8000-%012d", i)
		r.Status, r.Result, r.TransStatus, r.ErrorCode, r.Elements = "refused", "", "", "203", []string{"mcc"}
		r.Merchant = Shop
		s.Add(journal.Refused, r, StepOf("request", r.Created))
		r = RecordOf(fmt.Sprintf("80000000-0000-4000-8000-%012d", i))
		r.Created = s.Now.AddDate(0, 0, -1-i%3).Add(-time.Minute)
		s.Add(journal.Answered, r, StepOf("areq", r.Created))
	}
}

// ServeAs serves the console to a browser that is logged in as a caller, and returns its address.
func (s *Site) ServeAs(caller string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Pages.ServeHTTP(w, r.WithContext(operator.WithSession(r.Context(), sessionOf(caller))))
	}))
	s.Cleanup(server.Close)
	return server.URL
}

// addHolds sets legal holds.
func (s *Site) addHolds() {
	s.Helper()
	by := operator.Actor{Who: "passkey:jo", Role: operator.Admin}
	for _, asked := range []api.HoldRequest{
		{Name: "case 2026-17", AcctNumber: "4000000000009995", Merchant: Shop, From: "2026-11-01",
			Reason: "The court of Utrecht has asked for all payments of this card at the shop"},
		{Name: "dispute-Fjord", Merchant: "Fjord", Reason: "Dispute about chargebacks"},
	} {
		_, err := s.Admin.AddHold(s.Context(), by, asked)
		must(s.TB, err)
	}
}

// addWaiting adds an authentication whose state, amount and card take much room.
func (s *Site) addWaiting() {
	s.Helper()
	r := RecordOf("70000000-0000-4000-8000-000000000001")
	r.Created, r.Merchant, r.Status, r.Result, r.TransStatus, r.Card.Scheme = s.Now.Add(-time.Hour), Shop, "challenge", "", "C", "amex"
	r.Amount, r.Currency, r.Challenged = "123456789012", "360", true
	s.Add(journal.Answered, r, StepOf("areq", r.Created))
}
