package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/protocol/outcome"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// BrowserData are members of the AReq that the page of a browser has collected, by their names, each as text: headers
// as the browser sent them, in any bytes, and acceptLanguage is the whole header. There is also challengeWindowSize.
type BrowserData map[string]string

// A BrowserStep is where an authentication is for the browser.
type BrowserStep string

// The steps.
const (
	StepBegin  BrowserStep = "begin"  // no browser has begun it
	StepMethod BrowserStep = "method" // the 3DS Method runs
	// the AReq is on its way
	StepAuthentication BrowserStep = "authentication"
	StepSPC            BrowserStep = "spc"       // the browser's dialog for Secure Payment Confirmation is to be shown
	StepChallenge      BrowserStep = "challenge" // the issuer's page is to be shown
	StepResult         BrowserStep = "result"    // the issuer has sent the browser back, and the result has not come
	StepConfirm        BrowserStep = "confirm"   // a text of the issuer is to be shown and confirmed
	StepEnd            BrowserStep = "end"
)

// stepOrder is the order of the steps, in which a browser sees them. After StepSPC it sees those from
// StepAuthentication on again.
var stepOrder = []BrowserStep{
	StepBegin, StepMethod, StepAuthentication, StepSPC, StepChallenge, StepResult, StepConfirm, StepEnd,
}

// A BrowserView is what one browser may know of an authentication.
type BrowserView struct {
	ID                         string
	Merchant                   string // the name of the account
	Amount, Currency, Exponent string // "" if nothing is bought; the currency in letters
	ReturnURL                  string
	Language                   string // browserLanguage of the request or else of the browser, "" if it is not known
	Step                       BrowserStep
	Method                     *BrowserMethod    // at StepMethod
	Challenge                  *BrowserChallenge // at StepChallenge
	SPC                        *BrowserSPC       // at StepSPC
	CardholderInfo             string            // at StepConfirm
	End                        string            // at StepEnd: completed, failed, cancelled, expired, decoupled or pending
	Version                    int               // grows with every change
}

// A BrowserMethod is the form of the 3DS Method: Data is the value of threeDSMethodData.
type BrowserMethod struct {
	URL  string `json:"url"`
	Data string `json:"data"`
}

// A BrowserChallenge is the form that opens the issuer's page: CReq is the value of creq.
type BrowserChallenge struct{ ACSURL, CReq, MessageVersion string }

// A BrowserSPC is what the browser's dialog for Secure Payment Confirmation gets: webAuthnCredList and spcTransData of
// the ARes, as they came.
type BrowserSPC struct {
	Credentials json.RawMessage `json:"credentials"`
	Transaction json.RawMessage `json:"transaction"`
}

// canShowSPC is the member of BrowserData that a page sets to "true" if its browser supports Secure Payment
// Confirmation. It is not a member of the AReq.
const canShowSPC = "spc"

// ErrOtherBrowser says that another browser has begun the authentication.
var ErrOtherBrowser = errors.New("auth: another browser has begun the authentication")

// pendingAfter is how long after the end of the issuer's page its result is awaited for the browser.
const pendingAfter = 30 * time.Second

// OpenBrowser returns what anybody with the token may know. It binds and changes nothing.
func (e *Engine) OpenBrowser(ctx context.Context, token string) (*BrowserView, error) {
	p, err := e.openPage(ctx, token)
	if err != nil {
		return nil, err
	}
	v := e.viewOf(p)
	if v.Step != StepBegin {
		v = &BrowserView{ID: p.id, Merchant: v.Merchant, Language: v.Language, Step: v.Step}
	}
	return v, nil
}

// BeginBrowser begins an authentication in a browser, with what its page has collected. The first call binds the
// authentication to binding; if that is "", BeginBrowser makes a new one. The call may be repeated with the same
// binding; with another one the error is ErrOtherBrowser.
func (e *Engine) BeginBrowser(ctx context.Context, token, binding string,
	data BrowserData) (*BrowserView, string, error) {
	p, err := e.openPage(ctx, token)
	if err != nil {
		return nil, "", err
	}
	if len(p.rec.Page.Binding) > 0 || p.row.State != txn.Waiting {
		if err := e.checkBinding(p, binding); err != nil {
			return nil, "", err
		}
		e.startSending(p)
		return e.showView(ctx, p), binding, nil
	}
	if e.IsOver(p.rec) {
		return nil, "", auth.ErrNoAuthentication
	}
	if !isBinding(binding) {
		b := make([]byte, secretLen)
		if _, err := io.ReadFull(e.Random(), b); err != nil {
			return nil, "", err
		}
		binding = base64URL.EncodeToString(b)
	}
	_, err = e.NewWrite(p.row, e.OnRecord(func(t *store.Txn, rec *txn.Record) error {
		if t.State != txn.Waiting || len(rec.Page.Binding) > 0 {
			return ErrOtherBrowser
		}
		rec.Page.Binding = e.Sealer.Digest(bindingText(p.id, binding))
		readBrowser(rec, data)
		e.startMethod(rec)
		p.rec = rec
		return e.Seal(t, rec)
	})).Run(ctx)
	switch {
	case errors.Is(err, ErrOtherBrowser):
		again, err := e.openPage(ctx, token)
		if err == nil && e.isBoundTo(again, binding) {
			return e.showView(ctx, again), binding, nil
		}
		return nil, "", ErrOtherBrowser
	case errors.Is(err, store.ErrNotFound):
		return nil, "", auth.ErrNoAuthentication
	case err != nil:
		return nil, "", e.StoreUnreachable(ctx, "browser not bound", err, p.id)
	}
	e.Notify(p.id)
	e.startSending(p)
	return e.viewOf(p), binding, nil
}

// isBinding reports whether text has the form of a binding.
func isBinding(text string) bool {
	b, err := base64URL.Strict().DecodeString(text)
	return err == nil && len(b) == secretLen
}

// startMethod notes how long the 3DS Method may take, from now on. A browser without JavaScript does not run it.
func (e *Engine) startMethod(rec *txn.Record) {
	p, limit := rec.Page, 10*time.Second
	if rec.MessageVersion() >= message.V231 {
		limit = 5 * time.Second
	}
	if p.MethodURL == "" || !p.HasScript() {
		limit = 0
	}
	if limit > 0 {
		p.Begun = e.Now().UnixMilli()
	}
	p.MethodEnds = e.Now().Add(limit).UnixMilli()
}

// ViewBrowser returns the view of the browser that has begun, once its version is greater than after or ctx has ended.
func (e *Engine) ViewBrowser(ctx context.Context, token, binding string, after int) (*BrowserView, error) {
	through, isFirst := context.WithoutCancel(ctx), true
	id, _, _ := readToken(token)
	var p *page
	var v *BrowserView
	var err error
	e.RepeatUntil(ctx, id, func() bool {
		if p, err = e.openBoundPage(through, token, binding); err != nil {
			return true
		}
		if isFirst {
			e.startSending(p) // the node that was to send it may have died
			isFirst = false
		}
		v = e.viewOf(p)
		return v.Version > after
	})
	switch {
	case err != nil:
		return nil, err
	case v.Version <= after:
	case v.Step == StepChallenge:
		v = e.showView(through, p)
		if v.Step == StepChallenge {
			e.addChallenge(p, v.Challenge)
		}
	case v.Step == StepSPC:
		e.AddMoment(&p.row, p.rec, journal.Confirming, journal.Step{Step: "spc"})
	}
	return v, nil
}

// showView returns what the browser may know. When that is the form that opens the issuer's page, it records the first
// time. Without that record, the issuer counts as not asked if it never hears from the browser.
func (e *Engine) showView(ctx context.Context, p *page) *BrowserView {
	v := e.viewOf(p)
	if v.Step != StepChallenge || p.rec.Page.Shown != 0 {
		return v
	}
	now := e.Now().UnixMilli()
	if err := e.storePage(ctx, p, func(r *txn.PageRecord) { r.Shown = now }); err != nil {
		return v // the store's failure is logged, and the shopper can go on
	}
	return e.viewOf(p)
}

// addChallenge notes in the journal that the browser got the form that opens the issuer's page.
func (e *Engine) addChallenge(p *page, form *BrowserChallenge) {
	creq, _ := base64URL.DecodeString(form.CReq) // The form of the CReq is our own encoding, so it decodes.
	e.AddMoment(&p.row, p.rec, journal.Shown, journal.Step{Step: "challenge"},
		journal.Step{Step: "creq", Message: e.MaskedMessage(creq)})
}

// An SPCAnswer is what became of the browser's dialog for Secure Payment Confirmation.
type SPCAnswer struct {
	Assertion  json.RawMessage // what the browser returned, a JSON object; nil if it was not confirmed
	Incomplete string          // spcIncompInd: 01 failed, 02 cancelled; "" with an assertion
}

// outcome returns what a row keeps of the answer.
func (a *SPCAnswer) outcome() string { return cmp.Or(a.Incomplete, txn.SPCConfirmed) }

// AnswerSPC sends the second AReq, with the outcome of the browser's dialog. However often it is called, on all nodes,
// one call sends it; the others return the present state. The error may also be ErrBusy.
func (e *Engine) AnswerSPC(ctx context.Context, token, binding string, answer SPCAnswer) (*BrowserView, error) {
	ctx = context.WithoutCancel(ctx)
	if _, err := message.Parse(answer.Assertion, message.Limits{}); err != nil && answer.Assertion != nil {
		answer = SPCAnswer{Incomplete: "01"} // it can be part of no message
	}
	p, err := e.openBoundPage(ctx, token, binding)
	if err == nil && p.rec.IsAwaitingSPC(&p.row) && !e.IsOver(p.rec) {
		if err = e.sendSecond(ctx, p, answer); err == nil || errors.Is(err, errUsed) {
			p, err = e.openPage(ctx, token)
		}
	}
	if err != nil {
		return nil, err
	}
	return e.viewOf(p), nil
}

// ConfirmBrowser notes that the text of the issuer was shown.
func (e *Engine) ConfirmBrowser(ctx context.Context, token, binding string) (*BrowserView, error) {
	p, err := e.openBoundPage(ctx, token, binding)
	if err != nil {
		return nil, err
	}
	if err := e.storePage(ctx, p, func(p *txn.PageRecord) { p.IsConfirmed = true }); err != nil {
		return nil, err
	}
	return e.viewOf(p), nil
}

// CancelBrowser ends the authentication: the shopper has cancelled. One that is over stays as it is. Where no browser
// has begun, the one that cancels is bound to it, so that it hears of the end later, too.
func (e *Engine) CancelBrowser(ctx context.Context, token, binding string) (*BrowserView, error) {
	p, err := e.openPage(ctx, token)
	if err != nil {
		return nil, err
	}
	// If no browser is bound yet, any browser with the token may end it, for nothing has begun.
	if len(p.rec.Page.Binding) > 0 && !e.isBoundTo(p, binding) {
		return nil, ErrOtherBrowser
	}
	if err := e.cancelRow(ctx, &p.row, binding); err != nil && !errors.Is(err, ErrFinal) {
		return nil, err
	}
	p, err = e.openPage(ctx, token)
	if err != nil {
		return nil, err
	}
	return e.viewOf(p), nil
}

// EndBrowserChallenge notes that the issuer's page has sent the browser back. What it brings is no result.
func (e *Engine) EndBrowserChallenge(ctx context.Context, tag string) (*BrowserView, error) {
	p, err := e.openTag(ctx, tag)
	if err != nil {
		return nil, err
	}
	if p.row.State == txn.Challenge && p.rec.Page.Returned == 0 {
		now := e.Now().UnixMilli()
		if err := e.storePage(ctx, p, func(r *txn.PageRecord) { r.Returned = now }); err != nil {
			return nil, err
		}
	} else {
		e.AddMoment(&p.row, p.rec, journal.Returned, journal.Step{Step: "cres"}) // most results are here before the browser
	}
	return e.viewOf(p), nil
}

// WaitAfterChallenge waits for a result that comes after the browser did, until ctx ends. It
// returns what there is then.
func (e *Engine) WaitAfterChallenge(ctx context.Context, tag string) (*BrowserView, error) {
	through := context.WithoutCancel(ctx)
	p, err := e.openTag(through, tag)
	if err != nil {
		return nil, err
	}
	var v *BrowserView
	e.RepeatUntil(ctx, p.id, func() bool {
		if p, err = e.openTag(through, tag); err != nil {
			return true
		}
		v = e.viewOf(p)
		return v.Step == StepEnd || v.Step == StepConfirm
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// EndBrowserMethod notes that the 3DS Method has ended, if the notification is about this authentication.
func (e *Engine) EndBrowserMethod(ctx context.Context, tag, threeDSMethodData string) error {
	p, err := e.openTag(ctx, tag)
	if err != nil {
		return err
	}
	b, err := base64URL.DecodeString(strings.TrimRight(threeDSMethodData, "="))
	var said struct {
		ID string `json:"threeDSServerTransID"`
	}
	if err != nil || json.Unmarshal(b, &said) != nil || !strings.EqualFold(said.ID, p.id) {
		return auth.ErrNoAuthentication
	}
	if p.row.State != txn.Waiting || len(p.rec.Page.Binding) == 0 || p.rec.Page.IsMethodDone ||
		e.isMethodOver(p.rec.Page) {
		return nil
	}
	return e.storePage(ctx, p, func(r *txn.PageRecord) { r.IsMethodDone = true })
}

// viewOf returns what the browser may know.
func (e *Engine) viewOf(p *page) *BrowserView {
	page := p.rec.Page
	v := &BrowserView{
		ID: p.id, Merchant: p.row.Owner, Amount: page.Amount, Currency: page.Currency, Exponent: page.Exponent,
		ReturnURL: page.ReturnURL, Language: cmp.Or(page.Language, page.Data["browserLanguage"]),
	}
	status := e.StatusOf(&p.row, p.rec)
	facts, err := p.rec.Context()
	if err != nil || facts.ARes == nil {
		facts.ARes, _ = message.Parse([]byte("{}"), message.Limits{})
	}
	switch {
	case status == api.StatusRequiresBrowser && len(page.Binding) == 0:
		v.Step = StepBegin
	case status == api.StatusRequiresBrowser:
		v.Step = StepMethod
		if page.MethodURL != "" && !e.isMethodOver(page) {
			v.Method = &BrowserMethod{page.MethodURL, e.methodData(p.id)}
		} else {
			v.Step = StepAuthentication
		}
	case status == api.StatusInProgress && p.rec.IsAwaitingSPC(&p.row):
		v.Step, v.SPC = StepSPC, &BrowserSPC{facts.ARes.Raw("webAuthnCredList"), facts.ARes.Raw("spcTransData")}
	case status == api.StatusInProgress:
		v.Step = StepAuthentication
	case status == api.StatusChallenge && page.Returned == 0:
		v.Step, v.Challenge = StepChallenge, challengeForm(p.rec.CurrentID(p.id), page, facts.ARes)
	case status == api.StatusChallenge && e.Now().Sub(time.UnixMilli(page.Returned)) < pendingAfter:
		v.Step = StepResult
	case status == api.StatusChallenge:
		v.Step, v.End = StepEnd, "pending"
	default:
		v.Step, v.End = StepEnd, string(status)
		if info := cardholderInfo(p.rec, facts.ARes); info != "" && !page.IsConfirmed {
			v.Step, v.End, v.CardholderInfo = StepConfirm, "", info
		}
	}
	v.Version = versionOf(v, page.SPC)
	return v
}

// versionOf returns the version of a view. After SPC the version is two higher than without it, so that a second
// StepAuthentication comes after StepSPC.
func versionOf(v *BrowserView, s *txn.SPCRecord) int {
	version := slices.Index(stepOrder, v.Step)
	if v.Step == StepEnd && v.End != "pending" {
		version++
	}
	if s != nil && s.Outcome != "" {
		version += 2
	}
	return version
}

// cardholderInfo returns the text of the issuer that the shopper is to read, "" if there is none.
func cardholderInfo(rec *txn.Record, ares *message.Message) string {
	var rreq *message.Message
	if rec.RReq != nil {
		rreq, _ = rec.ReadRReq() // it was parsed before it was stored
	}
	return outcome.CardholderInfo(ares, rreq)
}

// methodData returns the value of threeDSMethodData.
func (e *Engine) methodData(id string) string {
	text, _ := json.Marshal(struct {
		ID  string `json:"threeDSServerTransID"`
		URL string `json:"threeDSMethodNotificationURL"`
	}{id, e.BrowserURL + "/n/" + e.tagOf(id) + "/method"})
	return base64URL.EncodeToString(text)
}

// challengeForm returns the form that opens the issuer's page. It is the same at every call.
func challengeForm(id string, page *txn.PageRecord, ares *message.Message) *BrowserChallenge {
	version, size := ares.Text("messageVersion"), page.Data["challengeWindowSize"]
	if len(size) != 2 || size < "01" || size > "05" {
		size = "05"
	}
	creq, _ := json.Marshal(struct {
		ID      string `json:"threeDSServerTransID"`
		ACS     string `json:"acsTransID"`
		Size    string `json:"challengeWindowSize"`
		Type    string `json:"messageType"`
		Version string `json:"messageVersion"`
	}{id, ares.Text("acsTransID"), size, "CReq", version})
	return &BrowserChallenge{ares.Text("acsURL"), base64URL.EncodeToString(creq), version}
}
