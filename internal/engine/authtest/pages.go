package authtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/state/account"
)

// Profiled has a profile that makes four members enough.
var Profiled = &account.Account{Merchant: &account.Merchant{
	Name: "Shop", MerchantName: "The Shop", MCC: "5411", MerchantCountry: "208", RequestorURL: "https://shop.example",
	PerDirectory: map[string]account.Requestor{"visa": {ID: "V-1", Name: "Shop at Visa", AcquirerBIN: "400551", AcquirerMerchantID: "M-1"}},
}}

// Four is the smallest request there is.
func Four() Object {
	return Object{"acctNumber": PAN, "cardExpiryDate": "3012", "purchaseAmount": "1250", "purchaseCurrency": "978"}
}

// NewBrowserEngine returns an engine that has pages for browsers.
func (w *World) NewBrowserEngine() *session.Engine {
	e := w.NewEngine(0)
	e.BrowserURL = "https://3ds.example"
	if w.OnStore != nil {
		w.OnStore(e)
	}
	return e
}

// ThreeRI is a request that needs no browser.
func ThreeRI() Object {
	o := Four()
	maps.Copy(o, Object{"deviceChannel": "03", "threeRIInd": "03", "acquirerCountryCode": "208"})
	return o
}

// A Page is an authentication and the browser that carries it out.
type Page struct {
	*World
	*session.Engine
	T       *testing.T
	ID      string
	Token   string
	Binding string
}

// NewPage creates an authentication that waits for a browser.
func (w *World) NewPage(t *testing.T) *Page {
	t.Helper()
	e := w.NewBrowserEngine()
	a, access, err := e.Create(t.Context(), Profiled, Four().JSON())
	if err != nil {
		t.Fatal(Told(err))
	}
	return &Page{World: w, Engine: e, T: t, ID: a.ID, Token: access.Token}
}

// Seen is what a real browser tells.
var Seen = session.BrowserData{
	"browserJavascriptEnabled": "true", "browserJavaEnabled": "false", "browserLanguage": "da-DK", "browserColorDepth": "24",
	"browserScreenHeight": "900", "browserScreenWidth": "1440", "browserTZ": "-60", "browserUserAgent": "Mozilla/5.0",
	"browserAcceptHeader": "text/html", "browserIP": "198.51.100.7", "challengeWindowSize": "02", "acceptLanguage": "da-DK,en",
}

// Start begins the authentication with what Seen tells.
func (p *Page) Start() *session.BrowserView {
	p.T.Helper()
	v, binding, err := p.BeginBrowser(p.T.Context(), p.Token, p.Binding, Seen)
	if err != nil {
		p.T.Fatal(err)
	}
	p.Binding = binding
	return v
}

// Await waits until the browser is to take a step.
func (p *Page) Await(step session.BrowserStep) *session.BrowserView {
	p.T.Helper()
	var v *session.BrowserView
	waittest.Until(p.T, fmt.Sprintf("the step %s", step), func() bool {
		var err error
		if v, err = p.ViewBrowser(p.T.Context(), p.Token, p.Binding, -1); err != nil {
			p.T.Fatal(err)
		}
		return v.Step == step
	})
	return v
}

// AgentKey is the API key of an agent.
const AgentKey = "5a5a5a5a-0000-4000-8000-00000000000a"

// AgentBrowser is what an agent tells of its browser.
func AgentBrowser() Object {
	return Object{
		"browserAcceptHeader": "*/*", "browserIP": "192.0.2.1", "browserJavascriptEnabled": true, "browserLanguage": "en",
		"browserUserAgent": "Agent/1", "browserColorDepth": "24", "browserJavaEnabled": false, "browserScreenHeight": "800",
		"browserScreenWidth": "600", "browserTZ": "0",
	}
}

// NewAgent creates an authentication for an agent, which is to tell of its browser later.
func (w *World) NewAgent(t *testing.T) (*session.Engine, session.Delegation, *auth.Authentication) {
	t.Helper()
	e, d := w.NewEngine(0), session.Delegation{APIKey: AgentKey, AgentSteps: check.AgentSteps{NotificationURL: "https://agent.example/back"}}
	o := Four()
	o["deviceChannel"] = "02"
	a, err := e.CreateForAgent(t.Context(), Profiled, d, o.JSON())
	if err != nil || a.Status != api.StatusRequiresBrowser || len(w.Sends) != 0 {
		t.Fatal(Told(err), a)
	}
	d.Completion = "Y"
	return e, d, a
}

// Signed is an assertion as browsers write it.
const Signed = `{"id":"Y3JlZGVudGlhbA","type":"public-key","response":{"signature":"c2ln"}}`

// NewSPCPage begins an authentication of a browser with SPC, up to the browser's dialog, and returns what is sent from
// then on. The first AReq is answered S, the second with a status.
func NewSPCPage(t *testing.T, w *World, status string, parts ...Object) (*Page, *SentAReqs) {
	t.Helper()
	p, sent := NewOfferPage(t, w, status, parts...)
	said := maps.Clone(Seen)
	said["spc"] = "true"
	var err error
	if _, p.Binding, err = p.BeginBrowser(t.Context(), p.Token, "", said); err != nil {
		t.Fatal(err)
	}
	p.Await(session.StepSPC)
	return p, sent
}

// NewOfferPage creates an authentication of a browser whose request offers SPC.
func NewOfferPage(t *testing.T, w *World, status string, parts ...Object) (*Page, *SentAReqs) {
	t.Helper()
	sent := new(SentAReqs)
	w.Sent = sent.Add
	w.Reply = func(_ string, areq Object) ([]byte, error) {
		if areq.Text("threeDSRequestorSpcSupport") == "Y" && areq["threeDSRequestorPriorAuthenticationInfo"] == nil {
			return AResS(areq), nil
		}
		return ARes(areq, status), nil
	}
	e := w.NewBrowserEngine()
	o := Four()
	for _, part := range append([]Object{Offered, {"messageVersion": "2.3.1", "acquirerCountryCode": "208", "acquirerCountryCodeSource": "01"}}, parts...) {
		maps.Copy(o, part)
	}
	a, access, err := e.Create(t.Context(), Profiled, o.JSON())
	if err != nil {
		t.Fatal(Told(err))
	}
	return &Page{World: w, Engine: e, T: t, ID: a.ID, Token: access.Token}, sent
}

// SentAReqs are the AReqs that have left.
type SentAReqs struct {
	mu  sync.Mutex
	all []Object
}

// Add adds an AReq that leaves.
func (s *SentAReqs) Add(areq []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var o Object
	if err := json.Unmarshal(areq, &o); err != nil {
		panic(err)
	}
	s.all = append(s.all, o)
}

// List returns the AReqs so far.
func (s *SentAReqs) List() []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// Answer has the page tell what became of the dialog.
func (p *Page) Answer(e *session.Engine, a session.SPCAnswer) (*session.BrowserView, error) {
	return e.AnswerSPC(p.T.Context(), p.Token, p.Binding, a)
}
