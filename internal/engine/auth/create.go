package auth

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/browserurl"
	"github.com/openthreeds/threeds/internal/base/iso"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// A RefusedError says that no authentication was created, and what is wrong with the request.
type RefusedError struct {
	Faults []api.Fault
	// NoBrowser says that the one fault is that no pages for browsers are configured.
	NoBrowser bool
}

func (e *RefusedError) Error() string { return "auth: the request has faults" }

// ErrNoRanges says that card ranges are not loaded, so that nobody knows whose card it is.
var ErrNoRanges = errors.New("auth: card ranges are not loaded yet")

// A BrowserAccess lets one browser carry out its steps of an authentication. It is told once.
type BrowserAccess struct {
	URL     string // of the hosted page, which has the token in it
	Token   string
	Expires time.Time
}

// createMembers are the members of a request for an authentication that are not of EMV 3DS.
var createMembers = []string{"reference", "returnUrl", "ds", "extensions"}

// maxReturnURL is the length of the longest returnUrl, in characters.
const maxReturnURL = 2048

// Create begins an authentication: it fills in what the request need not say, checks it as Explain does, and sends the
// AReq of an app or of a 3RI request. One of a browser waits for the page: its BrowserAccess is not nil. The error is
// a *RefusedError, a *TooManyError, ErrNoRanges or ErrStoreUnreachable, or a fault of ours.
func (e *Engine) Create(ctx context.Context, acc *account.Account, body []byte) (*Authentication, *BrowserAccess, error) {
	return e.createNoted(ctx, &authRequest{account: acc}, body, "authentications")
}

// createNoted is Create for a request of any API, recorded under the name of an operation.
func (e *Engine) createNoted(ctx context.Context, req *authRequest, body []byte, operation string) (*Authentication, *BrowserAccess, error) {
	req.start, req.version, req.isCreation = e.Now(), message.V220, true
	req.once, _ = ctx.Value(onceKey{}).(Once)
	ctx = context.WithoutCancel(ctx)
	a, access, err := e.createdOnce(ctx, req)
	if errors.Is(err, ErrNoAuthentication) {
		a, access, err = e.create(ctx, req, body)
	}
	e.noteRequest(ctx, req)
	e.noteAuthentication(ctx, operation, a, err)
	return a, access, err
}

// noteAuthentication records how an operation on an authentication ended. The authentication is nil if there is an error.
func (e *Engine) noteAuthentication(ctx context.Context, operation string, a *Authentication, err error) {
	status, name := "", ""
	if a != nil {
		status, name = string(a.Status), a.Scheme
	}
	if err != nil {
		status = outcomeOfRefusal(err)
	}
	e.noteEnd(ctx, operation, name, status)
}

// outcomeOfRefusal names an error of an operation on an authentication for the metrics. What the client has to answer for
// is "": the listener counts it under the name of the problem in its answer.
func outcomeOfRefusal(err error) string {
	_, isRefused := errors.AsType[*RefusedError](err)
	switch {
	case isRefused, errors.Is(err, ErrNoAuthentication), errors.Is(err, ErrAlreadySent), errors.Is(err, ErrOtherKey):
		return ""
	case errors.Is(err, ErrStoreUnreachable):
		return message.TransientFailure.String() // which the alert about the store counts
	case errors.Is(err, ErrNoRanges):
		return "no_ranges"
	}
	return outcomeOf("", err)
}

func (e *Engine) create(ctx context.Context, req *authRequest, body []byte) (*Authentication, *BrowserAccess, error) {
	original := slices.Clone(body) // Explain reads it again if there are faults
	c, err := e.checkContent(req, body)
	e.note(ctx, "scheme", c.to.scheme())
	if err != nil || len(c.problems) > 0 || len(c.own) > 0 || c.to.peer != nil && !req.isVersionUsable(c.to) {
		return nil, nil, e.refuseCreation(req, original)
	}
	if e.Observer != nil && c.rulesChecked {
		e.Observer.RulesChecked(req.account.Merchant.Name, c.to.peer.Scheme, c.findings)
	}
	if len(followUpProblems(req.version, c.areq)) > 0 {
		return nil, nil, e.refuseCreation(req, original)
	}
	req.corrections = e.keptCorrections(req, original, c.areq)
	switch {
	case !e.Cards.AnyTried(), c.to.peer == nil && e.Cards.Pending(req.ds):
		return nil, nil, ErrNoRanges
	case c.to.peer == nil:
		a, err := e.createNotEnrolled(ctx, req, c.areq)
		return a, nil, err
	case req.delegation != nil:
		a, err := e.createForAgent(ctx, req, &c)
		return a, nil, err
	case c.areq.Text("deviceChannel") == browser && e.BrowserURL == "":
		return nil, nil, &RefusedError{NoBrowser: true}
	}
	if err := e.checkFollowUp(ctx, req, c.to, c.areq); err != nil {
		return nil, nil, refusedFor(err)
	}
	if c.areq.Text("deviceChannel") == browser {
		return e.createForBrowser(ctx, req, &c)
	}
	text, err := c.areq.Sendable()
	if err != nil {
		return nil, nil, err
	}
	leave, ok := e.Directories.Enter(c.to.peer.Scheme, req.account.Merchant.Name)
	if !ok {
		return nil, nil, &TooManyError{tooMany(req.version, "")}
	}
	defer leave()
	if err := e.noteID(ctx, req); err != nil {
		return nil, nil, err
	}
	claimed, err := e.claim(ctx, req, c.to, c.areq)
	if err != nil {
		return nil, nil, refusedFor(err)
	}
	e.logFindings(ctx, req, c.to)
	e.exchangeIntoRow(ctx, claimed, text)
	a, err := e.authentication(ctx, req.account, req.id.value)
	return a, nil, err
}

// Limits of what an authentication keeps of the corrections of its request, which may be as long as the body.
const (
	maxCorrections     = 50
	maxCorrectionValue = 200 // bytes of a value; a longer one is left out
)

// keptCorrections returns what was changed in a request for an authentication, to be kept with it.
func (e *Engine) keptCorrections(req *authRequest, body []byte, areq *message.Message) []api.Correction {
	original, err := message.ReadRequest(body, e.Limits)
	if err != nil {
		return nil // it was read before
	}
	all := corrections(req, original, areq)
	all = all[:min(len(all), maxCorrections)]
	for i := range all {
		for _, value := range []*json.RawMessage{&all[i].Found, &all[i].Sent} {
			if len(*value) > maxCorrectionValue {
				*value = nil
			}
		}
	}
	return all
}

// refuseCreation returns the faults of a request that cannot be an authentication, as Explain finds them.
func (e *Engine) refuseCreation(req *authRequest, body []byte) error {
	x := e.Explain(req.account, body, ExplainOptions{IsCreation: true, delegation: req.delegation})
	if len(x.Faults) == 0 {
		return errors.New("auth: a request was refused that Explain calls valid")
	}
	return &RefusedError{Faults: x.Faults}
}

// refusedFor turns the Erro of a request that the engine refuses for what it knows of other authentications.
func refusedFor(err error) error {
	bad, ok := errors.AsType[message.Error](err)
	switch {
	case !ok:
		return err
	case bad.Code == message.TransientFailure:
		return ErrStoreUnreachable
	}
	name, _, _ := strings.Cut(bad.Detail, ":")
	name, _, _ = strings.Cut(name, ",")
	entry := faults.New(bad.Code, message.Path(name), "condition", "Send what the first authentication had: "+bad.Detail+".")
	return &RefusedError{Faults: []api.Fault{entry}}
}

// addProtocolDefaults fills in what the protocol lets the server choose.
func (e *Engine) addProtocolDefaults(req *authRequest, msg *message.Request) {
	msg.Set("messageType", "AReq")
	for _, name := range []string{
		"threeDSServerTransID", "threeDSCompInd", "notificationURL", "threeDSMethodNotificationURL", "threeDSMethodData",
		"threeDSMethodId",
	} {
		msg.Set(name, "")
	}
	req.setDefault(msg, "deviceChannel", browser)
	req.setDefault(msg, "messageCategory", "01")
	if msg.Text("messageCategory") == "01" && msg.Text("deviceChannel") != "03" {
		req.setDefault(msg, "threeDSRequestorAuthenticationInd", "01")
	}
	if !msg.Has("purchaseAmount") && msg.Text("messageCategory") != "01" {
		return // a payment without its amount lacks that alone
	}
	currency := msg.Text("purchaseCurrency")
	exponent, ok := iso.Currency(currency)
	if !ok {
		_, exponent, ok = iso.CurrencyAlpha(strings.ToUpper(currency))
	}
	if !ok {
		exponent = 2 // the currency is the fault that is reported, not this
	}
	req.setDefault(msg, "purchaseExponent", string(rune('0'+exponent)))
	req.setDefault(msg, "purchaseDate", req.start.UTC().Format("20060102150405"))
}

// setDefault sets a member that is absent, and notes that.
func (req *authRequest) setDefault(msg *message.Request, name, text string) {
	if text == "" || msg.Has(name) {
		return
	}
	msg.Set(name, text)
	req.defaulted = append(req.defaulted, name)
}

// addProfileDefaults fills in what the merchant's profile says, first that for the scheme. The page of a browser tells
// its members later: placeholders stand for them until then, and req.awaited names them.
func (e *Engine) addProfileDefaults(req *authRequest, to target, msg *message.Request) {
	table, merchant := message.TableOf(message.AReq, req.version), req.account.Merchant
	requestor := merchant.Requestor(to.scheme())
	if to.peer == nil { // nothing will be sent, so any of the merchant's acquirers is as good as another
		for _, name := range slices.Sorted(maps.Keys(merchant.PerDirectory)) {
			requestor = merchant.Requestor(name)
		}
	}
	for _, member := range [][2]string{
		{"acquirerBIN", requestor.AcquirerBIN}, {"acquirerMerchantID", requestor.AcquirerMerchantID},
		{"threeDSRequestorID", requestor.ID}, {"threeDSRequestorName", requestor.Name},
		{"threeDSRequestorURL", merchant.RequestorURL}, {"merchantName", merchant.MerchantName},
		{"mcc", merchant.MCC}, {"merchantCountryCode", merchant.MerchantCountry},
	} {
		if table.Field(member[0]) != nil {
			req.setDefault(msg, member[0], member[1])
		}
	}
	if msg.Text("deviceChannel") != browser {
		return
	}
	for _, p := range browserMembers {
		if table.Field(p.name) != nil && !msg.Has(p.name) {
			req.await(msg, p.name, p.placeholder)
		}
	}
	if d := req.delegation; d != nil {
		d.complete(req, msg)
		return
	}
	page := cmp.Or(e.BrowserURL, "https://browser.invalid") + "/n/" + strings.Repeat("A", 64) + "/challenge"
	req.await(msg, "notificationURL", strconv.Quote(page))
}

// await notes that a member is told later, and lets a placeholder stand for it until then.
func (req *authRequest) await(msg *message.Request, name, placeholder string) {
	msg.SetPlaceholder(name, []byte(placeholder))
	req.awaited = append(req.awaited, name)
}

// browserMembers are what the browser tells, each with a good value as JSON. With it a request is checked before the
// browser has told anything. It is never sent: see [message.Request.SetPlaceholder].
var browserMembers = []struct{ name, placeholder string }{
	{"threeDSCompInd", `"U"`},
	{"browserAcceptHeader", `"*/*"`},
	{"browserUserAgent", `"unknown"`},
	{"browserIP", `"192.0.2.1"`},
	{"browserLanguage", `"en"`},
	{"acceptLanguage", `["en"]`},
	{"browserJavascriptEnabled", `true`},
	{"browserJavaEnabled", `false`},
	{"browserColorDepth", `"24"`},
	{"browserScreenHeight", `"1080"`},
	{"browserScreenWidth", `"1920"`},
	{"browserTZ", `"0"`},
}

// isBrowserMember reports whether the browser tells a member.
func isBrowserMember(name string) bool {
	for _, b := range browserMembers {
		if b.name == name {
			return true
		}
	}
	return false
}

// checkOwnMembers checks the members of a request for an authentication that are not of EMV 3DS.
func (e *Engine) checkOwnMembers(msg *message.Request) []api.Fault {
	var wrong []api.Fault
	add := func(name message.Path, rule, cure string) *api.Fault {
		wrong = append(wrong, faults.New(message.Format, name, rule, cure))
		return &wrong[len(wrong)-1]
	}
	isText := func(name message.Path) bool {
		if !msg.Has(string(name)) {
			return false
		}
		raw := msg.RawAt(name)
		if len(raw) > 0 && raw[0] != '"' {
			add(name, "type", "Send "+string(name)+" as a string.").Found = faults.TypeOf(raw)
			return false
		}
		return true
	}
	if text := msg.Text("reference"); isText("reference") && text != "" && !transid.IsReference(text) {
		least, most := 1, transid.MaxReference
		if n := utf8.RuneCountInString(text); n > transid.MaxReference {
			entry := add("reference", "length", "Send 1 to 64 printable characters.")
			entry.Limit, entry.Found = &api.Limit{Min: &least, Max: &most}, &api.Found{Type: "string", Length: &n}
		} else {
			add("reference", "control-character", "Send printable characters alone.")
		}
	}
	if isText("returnUrl") && !e.isReturnURL(msg.Text("returnUrl")) {
		add("returnUrl", "address", "Send a URL of at most 2048 characters that begins with https:// and has no user.")
	}
	return wrong
}

// isReturnURL reports whether a shopper may be sent to a URL at the end: https, and in a sandbox also http to the browser's
// own machine or to the origin of the sandbox.
func (e *Engine) isReturnURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxReturnURL || u.User != nil {
		return false
	}
	isLab := e.Loopback || slices.ContainsFunc(e.Peers, func(d Directory) bool { return d.Lab })
	if err := (browserurl.Policy{Lab: isLab}).Check(text); err != nil {
		return false
	}
	rest, isHTTP := strings.CutPrefix(text, "http:")
	if !isHTTP {
		return u.Scheme == "https"
	}
	isOwnMachine := browserurl.Policy{}.Check("https:"+rest) != nil
	return isOwnMachine || e.BrowserURL != "" && strings.HasPrefix(text, e.BrowserURL+"/")
}

// newCreated returns the record of an authentication that was created and has not been sent.
func (e *Engine) newCreated(req *authRequest) *txnRecord {
	return &txnRecord{
		Began: req.start.UnixMilli(), LookedUp: req.lookedUp.UnixMilli(), Amount: req.loggedAmount, Currency: req.loggedCurrency,
		API: req.api(), Version: req.version.String(), Made: e.Now().UnixMilli(), AReq: []byte("{}"),
		CardHash: e.cardHash(req.pan),
		BIN:      binOf(req.pan), Last4: req.pan[len(req.pan)-4:], Schemes: e.schemesOf(e.Cards.Lookup(req.pan)),
		Changes: describeChanges(req.changes), Unkept: unkeptRules(req.findings),
		Defaulted: req.defaulted, Reference: req.reference, Corrections: req.corrections,
	}
}

// authenticationsAPI is the API of a record that /authentications made, and agentsAPI that of one for an agent.
const (
	authenticationsAPI = "authentications"
	agentsAPI          = "acp"
)

// api returns the API that a request came by.
func (req *authRequest) api() string {
	if req.delegation != nil {
		return agentsAPI
	}
	return authenticationsAPI
}

// createNotEnrolled stores that a card is in no range. The authentication is over. The AReq is what would be sent, were
// there a directory server.
func (e *Engine) createNotEnrolled(ctx context.Context, req *authRequest, areq *message.Message) (*Authentication, error) {
	if err := e.noteID(ctx, req); err != nil {
		return nil, err
	}
	rec := e.newCreated(req)
	rec.Version, rec.Sent, rec.AReq = "", rec.Made, areq.Facts()
	rec.setPurchase(areq)
	rec.AcquirerMerchant = "" // which of the merchant's acquirers it would be depends on the directory server
	t := store.Txn{ID: req.id.value, Owner: req.account.Merchant.Name, State: Waiting}
	if err := e.createRow(ctx, &t, rec, e.Timeouts.Values); err != nil {
		return nil, err
	}
	err := e.Store.Update(ctx, store.Txn{ID: t.ID}, func(t *store.Txn) error {
		return e.advanceRow(t, rec, Final, e.Timeouts.Values)
	})
	if err != nil {
		return nil, e.storeUnreachable(ctx, "outcome not stored", err, t.ID)
	}
	e.notify(t.ID)
	return e.authentication(ctx, req.account, t.ID)
}

// createRow stores the first row of an authentication that waits.
func (e *Engine) createRow(ctx context.Context, t *store.Txn, rec *txnRecord, keep time.Duration) error {
	e.setExpiry(t, rec, keep)
	if err := e.seal(t, rec); err != nil {
		return err
	}
	if err := e.Store.Create(ctx, *t); err != nil {
		return e.storeUnreachable(ctx, "authentication not stored", err, t.ID)
	}
	return nil
}

// advanceRow moves a row to its next state, with the event of its end.
func (e *Engine) advanceRow(t *store.Txn, rec *txnRecord, next store.State, keep time.Duration) error {
	if err := advance(t, next); err != nil {
		return err
	}
	e.setExpiry(t, rec, keep)
	if err := e.addEvent(t, rec); err != nil {
		return err
	}
	return e.seal(t, rec)
}

// createForBrowser stores an authentication that waits for a browser. The card lies in its row under a key that only the
// browser's token has.
func (e *Engine) createForBrowser(ctx context.Context, req *authRequest, c *contentCheck) (*Authentication, *BrowserAccess, error) {
	if err := e.noteID(ctx, req); err != nil {
		return nil, nil, err
	}
	token, secret := newToken(req.id.value, req.once.randomOf(e))
	rec := e.newCreated(req)
	rec.Page = &pageRecord{
		Token: e.Sealer.Digest(tokenText(req.id.value, secret)), Card: sealCard(req.id.value, secret, c.areq.WithoutPlaceholders()),
		Awaited: req.awaited, ReturnURL: req.returnURL,
		MethodURL: methodURL(c.to.peer, acsVersion(c.to.info, rec.Version)), Amount: c.areq.Text("purchaseAmount"), Exponent: c.areq.Text("purchaseExponent"),
	}
	if !slices.Contains(req.awaited, "browserLanguage") {
		rec.Page.Language = c.areq.Text("browserLanguage")
	}
	rec.Page.Currency, _ = iso.CurrencyLetters(c.areq.Text("purchaseCurrency"))
	a, err := e.createWaiting(ctx, req, c, rec)
	if err != nil {
		return nil, nil, err
	}
	return a, e.newAccess(a, token), nil
}

// createWaiting stores an authentication whose AReq waits for a browser or an agent.
func (e *Engine) createWaiting(ctx context.Context, req *authRequest, c *contentCheck, rec *txnRecord) (*Authentication, error) {
	rec.AReq = c.areq.Facts()
	rec.setPurchase(c.areq)
	t := store.Txn{ID: req.id.value, Owner: req.account.Merchant.Name, Scheme: c.to.peer.Scheme, State: Waiting}
	if err := e.createRow(ctx, &t, rec, e.Timeouts.Browser); err != nil {
		return nil, err
	}
	if err := e.addExpiryEvent(ctx, &t, rec); err != nil {
		return nil, err
	}
	e.logFindings(ctx, req, c.to)
	return e.authentication(ctx, req.account, t.ID)
}

// addExpiryEvent stores the event that nobody went on with an authentication, which lies ahead. Without it nobody was told
// of the authentication yet.
func (e *Engine) addExpiryEvent(ctx context.Context, t *store.Txn, rec *txnRecord) error {
	if e.Announcer == nil || !e.Announcer.Wants(t.Owner) {
		return nil
	}
	err := e.Store.Update(ctx, store.Txn{ID: t.ID}, func(t *store.Txn) error {
		if err := e.addEvent(t, rec); err != nil {
			return err
		}
		return e.seal(t, rec)
	})
	if err != nil {
		return e.storeUnreachable(ctx, "event not stored", err, t.ID)
	}
	return nil
}

func (e *Engine) newAccess(a *Authentication, token string) *BrowserAccess {
	return &BrowserAccess{URL: e.BrowserURL + "/a/" + token, Token: token, Expires: a.BrowserExpires}
}

// A Once is for [Engine.Create] what an Idempotency-Key says of a request that may be made again.
type Once struct {
	ID     string   // of the authentication that an earlier attempt may have created; "" if there was none
	Secret [32]byte // that a browser's token is made of, the same for every attempt

	// Note keeps the id of the authentication, before anything is stored under it or sent.
	Note func(ctx context.Context, id string) error
}

type onceKey struct{}

// WithOnce returns a context for [Engine.Create]. An authentication that an earlier attempt has created is returned as
// it is, also if nobody knows whether its AReq has left.
func WithOnce(ctx context.Context, once Once) context.Context {
	return context.WithValue(ctx, onceKey{}, once)
}

// randomOf returns where the secret of a token comes from.
func (o *Once) randomOf(e *Engine) io.Reader {
	if o.Note == nil {
		return e.rand()
	}
	return bytes.NewReader(o.Secret[:])
}

// noteID has the id of a request kept that may be made again.
func (e *Engine) noteID(ctx context.Context, req *authRequest) error {
	if req.once.Note == nil {
		return nil
	}
	if err := req.once.Note(ctx, req.id.value); err != nil {
		return e.storeUnreachable(ctx, "id not noted", err, req.id.value)
	}
	return nil
}

// createdOnce returns what an earlier attempt of a request has created, or ErrNoAuthentication.
func (e *Engine) createdOnce(ctx context.Context, req *authRequest) (*Authentication, *BrowserAccess, error) {
	if req.once.ID == "" {
		return nil, nil, ErrNoAuthentication
	}
	a, err := e.Authentication(ctx, req.account, req.once.ID)
	if err != nil || a.BrowserExpires.IsZero() {
		return a, nil, err
	}
	token, _ := newToken(a.ID, req.once.randomOf(e))
	return a, e.newAccess(a, token), nil
}

// A Delegation is what a request of an agent says beside the members of the AReq. An agent takes the steps of a browser
// itself: it runs the 3DS Method, and shows the page of the issuer.
type Delegation struct {
	// APIKey is the key that came with the request. The card is sealed under it until the AReq leaves.
	APIKey string
	// NotificationURL is where the issuer sends the browser back. Empty means that it is told later.
	NotificationURL string
	// Completion says what became of the 3DS Method: Y, N or U. Empty means that the AReq is not to leave yet.
	Completion string

	body []byte // of the request
}

// An agentRecord is what a row keeps of an authentication whose browser an agent looks after.
type agentRecord struct {
	Request         []byte `json:",omitzero"` // the request, sealed under the API key; gone once the AReq has left
	Continued       int64  `json:",omitzero"` // when the request came that the AReq left for, Unix milliseconds
	NotificationURL string `json:",omitzero"` // "" if it is to be told later
	MethodURL       string `json:",omitzero"` // of the 3DS Method; "" if there is none
}

// secret returns what the request is sealed under. Only the SHA-256 of the key rests anywhere, and that opens nothing.
func (d *Delegation) secret() []byte { return []byte("agent " + strings.ToLower(d.APIKey)) }

// complete fills in what an agent says of its browser, and notes what it is to tell later.
func (d *Delegation) complete(req *authRequest, msg *message.Request) {
	if msg.Set("notificationURL", d.NotificationURL); d.NotificationURL == "" {
		req.await(msg, "notificationURL", `"https://agent.invalid/"`)
	}
	if d.Completion != "" {
		msg.Set("threeDSCompInd", d.Completion)
	}
}

// CreateForAgent is [Engine.Create] for an agent. The AReq waits for [Engine.AuthenticateForAgent].
func (e *Engine) CreateForAgent(ctx context.Context, acc *account.Account, d Delegation, body []byte) (*Authentication, error) {
	d.body, d.Completion = slices.Clone(body), ""
	a, _, err := e.createNoted(ctx, &authRequest{account: acc, delegation: &d}, body, agentsOperation)
	return a, err
}

// agentsOperation is the name of the operations of agents.
const agentsOperation = "delegate_authentication"

// createForAgent stores an authentication that waits for its agent.
func (e *Engine) createForAgent(ctx context.Context, req *authRequest, c *contentCheck) (*Authentication, error) {
	if err := e.noteID(ctx, req); err != nil {
		return nil, err
	}
	d, rec := req.delegation, e.newCreated(req)
	rec.Agent = &agentRecord{
		Request: sealCard(req.id.value, d.secret(), d.body), NotificationURL: d.NotificationURL, MethodURL: methodURL(c.to.peer, acsVersion(c.to.info, rec.Version)),
	}
	if string(c.msg.RawAt("browserJavascriptEnabled")) == "false" { // 2.1.0 has no such element
		rec.Agent.MethodURL = "" // such a browser cannot run it
	}
	return e.createWaiting(ctx, req, c, rec)
}

// AgentAuthentication is [Engine.Authentication] for authentications of [Engine.CreateForAgent] alone.
func (e *Engine) AgentAuthentication(ctx context.Context, acc *account.Account, id string) (*Authentication, error) {
	a, err := e.authentication(ctx, acc, strings.ToLower(id))
	if err == nil && !a.IsForAgent {
		a, err = nil, ErrNoAuthentication
	}
	e.noteAuthentication(ctx, agentsOperation, a, err)
	return a, err
}
