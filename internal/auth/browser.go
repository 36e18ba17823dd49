package auth

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/outcome"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/message"
)

// BrowserData are members of the AReq that the page of a browser has collected, by their names, each as text. Beside
// them there is challengeWindowSize.
type BrowserData map[string]string

// A BrowserStep is where an authentication is for the browser.
type BrowserStep string

// The steps.
const (
	StepBegin          BrowserStep = "begin"          // no browser has begun it
	StepMethod         BrowserStep = "method"         // the 3DS Method runs
	StepAuthentication BrowserStep = "authentication" // the AReq is on its way
	StepChallenge      BrowserStep = "challenge"      // the issuer's page is to be shown
	StepResult         BrowserStep = "result"         // the issuer has sent the browser back, and the result has not come
	StepConfirm        BrowserStep = "confirm"        // a text of the issuer is to be shown and confirmed
	StepEnd            BrowserStep = "end"
)

// stepOrder is the order of the steps, in which a browser sees them.
var stepOrder = []BrowserStep{
	StepBegin, StepMethod, StepAuthentication, StepChallenge, StepResult, StepConfirm, StepEnd,
}

// A BrowserView is what one browser may know of an authentication.
type BrowserView struct {
	ID                         string
	Merchant                   string // the name of the account
	Amount, Currency, Exponent string // "" if nothing is bought; the currency in letters
	ReturnURL                  string
	Language                   string // browserLanguage, "" if it is not known
	Step                       BrowserStep
	Method                     *BrowserMethod    // at StepMethod
	Challenge                  *BrowserChallenge // at StepChallenge
	CardholderInfo             string            // at StepConfirm
	End                        string            // at StepEnd: completed, failed, cancelled, expired, decoupled or pending
	Version                    int               // grows with every change
}

// A BrowserMethod is the form of the 3DS Method: Data is the value of threeDSMethodData.
type BrowserMethod struct{ URL, Data string }

// A BrowserChallenge is the form that opens the issuer's page: CReq is the value of creq.
type BrowserChallenge struct{ ACSURL, CReq, MessageVersion string }

// ErrOtherBrowser says that another browser has begun the authentication.
var ErrOtherBrowser = errors.New("auth: another browser has begun the authentication")

// pendingAfter is how long after the end of the issuer's page its result is awaited for the browser.
const pendingAfter = 30 * time.Second

// sendPoll is how often the store is asked whether the 3DS Method has ended on another node.
const sendPoll = 200 * time.Millisecond

// A pageRecord is what a row keeps of an authentication that a browser carries out.
type pageRecord struct {
	Token        []byte            // digest of the token's secret
	Card         []byte            `json:",omitzero"` // the AReq, sealed under that secret; gone once the AReq has left
	Binding      []byte            `json:",omitzero"` // digest of the secret of the browser that began it
	Placeholders []string          `json:",omitzero"` // members that the request left to the page
	Data         map[string]string `json:",omitzero"` // what the page told
	ReturnURL    string            `json:",omitzero"`
	Amount       string            `json:",omitzero"`
	Currency     string            `json:",omitzero"`
	Exponent     string            `json:",omitzero"`
	MethodURL    string            `json:",omitzero"`
	MethodEnds   int64             `json:",omitzero"` // when the 3DS Method is over at the latest, Unix milliseconds
	IsMethodDone bool              `json:",omitzero"` // its notification has come
	Returned     int64             `json:",omitzero"` // when the issuer sent the browser back, Unix milliseconds
	IsConfirmed  bool              `json:",omitzero"` // the text of the issuer was shown
}

const (
	idLen     = 16
	secretLen = 32 // of a token and of a binding
	tagLen    = sha256.Size
)

// newToken returns a token for an authentication, and the secret in it.
func newToken(id string, random io.Reader) (token string, secret []byte) {
	secret = make([]byte, secretLen)
	if _, err := io.ReadFull(random, secret); err != nil {
		panic(err) // crypto/rand never fails
	}
	return base64URL.EncodeToString(append(idBytes(id), secret...)), secret
}

// idBytes returns the bytes of an id.
func idBytes(id string) []byte {
	b, _ := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	return b
}

// readToken returns what a token says.
func readToken(token string) (id string, secret []byte, ok bool) {
	b, err := base64URL.Strict().DecodeString(token)
	if err != nil || len(b) != idLen+secretLen {
		return "", nil, false
	}
	return idText(b[:idLen]), b[idLen:], true
}

// idText returns an id of its bytes.
func idText(b []byte) string {
	s := hex.EncodeToString(b)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// tokenText and bindingText are what the digests in a row are made of, tagText what a tag is.
func tokenText(id string, secret []byte) string { return "browser token " + id + string(secret) }
func bindingText(id, binding string) string     { return "browser binding " + id + binding }
func tagText(id string) string                  { return "browser tag " + id }

// tagOf returns the tag with which the issuer's pages come back.
func (e *Engine) tagOf(id string) string {
	return base64URL.EncodeToString(append(idBytes(id), e.Sealer.Digest(tagText(id))...))
}

// cardKey returns the cipher for the card of an authentication. Its key is made of the token's secret, which rests nowhere.
func cardKey(id string, secret []byte) cipher.AEAD {
	key, err := hkdf.Key(sha256.New, secret, nil, "threeds card until the AReq "+id, secretLen)
	if err != nil {
		panic(err) // the length is good
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// sealCard seals an AReq under the secret of a token. The row around it is sealed under the key file, too.
func sealCard(id string, secret, areq []byte) []byte {
	return cardKey(id, secret).Seal(nil, nil, areq, nil)
}

// A page is an authentication in the hands of a browser.
type page struct {
	id     string
	secret []byte
	row    store.Txn
	rec    *txnRecord
}

// openPage reads the authentication of a token.
func (e *Engine) openPage(ctx context.Context, token string) (*page, error) {
	id, secret, ok := readToken(token)
	if !ok {
		return nil, ErrNoAuthentication
	}
	p, err := e.readPage(ctx, id)
	if err != nil {
		return nil, err
	}
	if !e.Sealer.IsDigest(p.rec.Page.Token, tokenText(id, secret)) {
		return nil, ErrNoAuthentication
	}
	p.secret = secret
	return p, nil
}

// openTag reads the authentication of a tag.
func (e *Engine) openTag(ctx context.Context, tag string) (*page, error) {
	b, err := base64URL.Strict().DecodeString(tag)
	if err != nil || len(b) != idLen+tagLen {
		return nil, ErrNoAuthentication
	}
	p, err := e.readPage(ctx, idText(b[:idLen]))
	if err != nil {
		return nil, err
	}
	if !e.Sealer.IsDigest(b[idLen:], tagText(p.id)) {
		return nil, ErrNoAuthentication
	}
	return p, nil
}

// readPage reads the row of an authentication that a browser carries out. Long after its end there is none.
func (e *Engine) readPage(ctx context.Context, id string) (*page, error) {
	row, err := e.Store.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNoAuthentication
	}
	if err != nil {
		e.logStoreFailure(ctx, "authentication not read", err, "threeDSServerTransID", id)
		return nil, ErrStoreUnreachable
	}
	if row.State == Leg || row.State == Operations {
		return nil, ErrNoAuthentication
	}
	rec, err := e.unseal(&row)
	if err != nil {
		return nil, err
	}
	if rec.Page == nil || e.statusOf(&row, rec).IsFinal() && e.areValuesGone(rec) {
		return nil, ErrNoAuthentication
	}
	return &page{id: id, row: row, rec: rec}, nil
}

// isBoundTo reports whether a browser with this binding has begun the authentication.
func (e *Engine) isBoundTo(p *page, binding string) bool {
	return len(p.rec.Page.Binding) > 0 && e.Sealer.IsDigest(p.rec.Page.Binding, bindingText(p.id, binding))
}

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

// BeginBrowser has a browser begin an authentication, with what its page has collected. The first call binds the
// authentication to binding, which is made anew when it is "". With the same binding it may be repeated; with another one
// the error is ErrOtherBrowser.
func (e *Engine) BeginBrowser(ctx context.Context, token, binding string, data BrowserData) (*BrowserView, string, error) {
	p, err := e.openPage(ctx, token)
	if err != nil {
		return nil, "", err
	}
	if len(p.rec.Page.Binding) > 0 || p.row.State != Waiting {
		if !e.isBoundTo(p, binding) {
			return nil, "", ErrOtherBrowser
		}
		e.startSending(p)
		return e.viewOf(p), binding, nil
	}
	if e.isOver(p.rec) {
		return nil, "", ErrNoAuthentication
	}
	if !isBinding(binding) {
		b := make([]byte, secretLen)
		if _, err := io.ReadFull(e.rand(), b); err != nil {
			return nil, "", err
		}
		binding = base64URL.EncodeToString(b)
	}
	_, err = e.newWrite(p.row, func(t *store.Txn) error {
		rec, err := e.unseal(t)
		if err != nil {
			return err
		}
		if t.State != Waiting || len(rec.Page.Binding) > 0 {
			return ErrOtherBrowser
		}
		rec.Page.Binding, rec.Page.Data = e.Sealer.Digest(bindingText(p.id, binding)), data
		e.startMethod(rec)
		p.rec = rec
		return e.seal(t, rec)
	}).run(ctx)
	switch {
	case errors.Is(err, ErrOtherBrowser):
		again, err := e.openPage(ctx, token)
		if err == nil && e.isBoundTo(again, binding) {
			return e.viewOf(again), binding, nil
		}
		return nil, "", ErrOtherBrowser
	case errors.Is(err, store.ErrNotFound):
		return nil, "", ErrNoAuthentication
	case err != nil:
		e.logStoreFailure(ctx, "browser not bound", err, "threeDSServerTransID", p.id)
		return nil, "", ErrStoreUnreachable
	}
	e.notify(p.id)
	e.startSending(p)
	return e.viewOf(p), binding, nil
}

// isBinding reports whether text has the form of a binding.
func isBinding(text string) bool {
	b, err := base64URL.Strict().DecodeString(text)
	return err == nil && len(b) == secretLen
}

// startMethod notes how long the 3DS Method may take, from now on. A browser without JavaScript does not run it.
func (e *Engine) startMethod(rec *txnRecord) {
	p, limit := rec.Page, 10*time.Second
	if rec.version() >= message.V231 {
		limit = 5 * time.Second
	}
	if p.MethodURL == "" || p.Data["browserJavascriptEnabled"] == "false" {
		limit = 0
	}
	p.MethodEnds = e.Now().Add(limit).UnixMilli()
}

// isMethodOver reports whether the AReq need not wait for the 3DS Method any more.
func (e *Engine) isMethodOver(p *pageRecord) bool {
	return p.IsMethodDone || e.Now().UnixMilli() >= p.MethodEnds
}

// startSending sends the AReq of an authentication that a browser has begun once its 3DS Method is over. Any number of
// calls, on all nodes, send it once: the row says who may.
func (e *Engine) startSending(p *page) {
	if p.row.State != Waiting || len(p.rec.Page.Binding) == 0 {
		return
	}
	if _, isUnderWay := e.sending.LoadOrStore(p.id, true); isUnderWay {
		return // however often a browser asks, one task of this node looks after it
	}
	e.taskGroup().Start(func(ctx context.Context) {
		defer e.sending.Delete(p.id)
		for {
			changed, forget := e.changes.watch(p.id)
			now, err := e.readPage(ctx, p.id)
			switch {
			case errors.Is(err, ErrNoAuthentication), err == nil && now.row.State != Waiting:
				forget()
				return
			case err == nil && e.isMethodOver(now.rec.Page):
				forget()
				now.secret = p.secret
				if e.sendFromPage(ctx, now) {
					return
				}
				changed = nil
			}
			select {
			case <-ctx.Done():
			case <-changed:
			case <-time.After(sendPoll):
			}
			forget()
			if ctx.Err() != nil {
				return
			}
		}
	})
}

// sendFromPage sends the AReq of an authentication. It returns false if that is to be tried again: nothing has left then.
func (e *Engine) sendFromPage(ctx context.Context, p *page) (isDone bool) {
	text, err := cardKey(p.id, p.secret).Open(nil, nil, p.rec.Page.Card, nil)
	if err != nil {
		e.Log.ErrorContext(ctx, "card of an authentication does not open", "threeDSServerTransID", p.id)
		return true
	}
	merchant := &account.Merchant{Name: p.row.Owner}
	req := &authRequest{account: &account.Account{Merchant: merchant}, start: e.Now(), version: p.rec.version()}
	req.id = requestedID{value: p.id, made: true}
	to, areq, err := e.buildFromPage(req, p, text)
	if err != nil {
		e.Log.ErrorContext(ctx, "AReq of an authentication not built", "threeDSServerTransID", p.id, "err", err)
		return e.failPage(ctx, p, message.PermanentFailure)
	}
	leave, ok := e.Directories.Enter(to.peer.Scheme, p.row.Owner)
	if !ok {
		if e.Now().Sub(time.UnixMilli(p.rec.Page.MethodEnds)) < e.Timeouts.Authentication {
			return false
		}
		return e.failPage(ctx, p, message.TooManyMessages)
	}
	defer leave()
	c := &claim{target: to, id: p.id, merchant: p.row.Owner, version: req.version, start: req.start}
	mayLeave := false
	sure, err := e.newWrite(p.row, func(t *store.Txn) error {
		if t.State != Waiting {
			return errArrow
		}
		rec, err := e.unseal(t)
		if err != nil {
			return err
		}
		if e.isOver(rec) {
			return store.ErrNotFound
		}
		rec.Sent, rec.AReq, rec.Purchase, rec.Page.Card = e.Now().UnixMilli(), areq.Facts(), e.purchaseOf(req, areq), nil
		c.rec, mayLeave = rec, true
		return e.advanceRow(t, rec, Sent, e.keepFinal())
	}).run(ctx)
	if err != nil || !mayLeave {
		if !errors.Is(err, errArrow) && !errors.Is(err, store.ErrNotFound) {
			e.logStoreFailure(ctx, "claim not stored", err, "threeDSServerTransID", p.id)
		}
		return sure && (errors.Is(err, errArrow) || errors.Is(err, store.ErrNotFound))
	}
	e.notify(p.id)
	_, _ = e.exchange(ctx, c, areq.Bytes()) // its end stands in the row
	e.notify(p.id)
	return true
}

// failPage has an authentication whose AReq cannot leave fail.
func (e *Engine) failPage(ctx context.Context, p *page, code message.Code) (isDone bool) {
	_, err := e.newWrite(p.row, func(t *store.Txn) error {
		rec, err := e.unseal(t)
		if err != nil {
			return err
		}
		rec.Code, rec.Page.Card = code, nil
		return e.advanceRow(t, rec, Failed, e.keepFinal())
	}).run(ctx)
	e.notify(p.id)
	return err == nil || errors.Is(err, errArrow)
}

// buildFromPage makes the AReq of what the back end and the page told. What the page tells in a form that the protocol
// does not have is replaced by what is good.
func (e *Engine) buildFromPage(req *authRequest, p *page, text []byte) (target, *message.Message, error) {
	msg, err := message.ReadRequest(text, message.Limits{Depth: -1, Members: -1})
	if err != nil {
		return target{}, nil, err
	}
	req.pan = msg.Text("acctNumber")
	peer, ok := e.peer(p.row.Scheme)
	if !ok {
		return target{}, nil, errors.New("its directory is no longer configured")
	}
	to := target{peer: peer}
	for _, hit := range e.Cards.Lookup(req.pan) {
		if hit.Scheme == peer.Scheme {
			to.info = hit.Info
		}
	}
	if to.info == nil {
		return target{}, nil, errors.New("its card range is gone")
	}
	page, table := p.rec.Page, message.TableOf(message.AReq, req.version)
	hasScript := page.Data["browserJavascriptEnabled"] != "false"
	set := func(name, value string) {
		f := table.Field(name)
		switch {
		case f == nil:
		case f.Kind == message.Bool:
			msg.SetRaw(name, []byte(strconv.FormatBool(value == "true")))
		case name == "acceptLanguage":
			list, _ := json.Marshal(strings.Split(value, ","))
			msg.SetRaw(name, list)
		default:
			msg.Set(name, value)
		}
	}
	for _, name := range page.Placeholders {
		i := slices.IndexFunc(browserPlaceholders, func(b browserPlaceholder) bool { return b.name == name })
		switch value := page.Data[name]; {
		case i < 0:
		case !browserPlaceholders[i].isBasic && !hasScript:
			msg.Set(name, "")
		case value != "":
			set(name, value)
		}
	}
	for name, value := range page.Data {
		if slices.Contains(pageMembers, name) && !msg.Has(name) {
			set(name, value)
		}
	}
	compInd := "U"
	switch {
	case page.MethodURL != "" && page.IsMethodDone:
		compInd = "Y"
	case page.MethodURL != "":
		compInd = "N"
	}
	msg.Set("threeDSCompInd", compInd)
	msg.Set("notificationURL", e.BrowserURL+"/n/"+e.tagOf(p.id)+"/challenge")
	ctx := peer.context(message.Context{Loopback: e.Loopback})
	areq, problems := msg.Build(message.Context{Loopback: ctx.Loopback, KnownExtension: ctx.KnownExtension})
	if len(problems) == 0 {
		return to, areq, nil
	}
	for _, bad := range problems {
		for _, b := range browserPlaceholders {
			if b.name == string(bad.Path) || strings.HasPrefix(string(bad.Path), b.name+"[") {
				msg.SetRaw(b.name, []byte(b.raw))
			}
		}
	}
	if areq, problems = msg.Build(message.Context{Loopback: ctx.Loopback, KnownExtension: ctx.KnownExtension}); len(problems) > 0 {
		return to, nil, errors.New("the browser's members are not good: " + string(problems[0].Path))
	}
	return to, areq, nil
}

// pageMembers are members that a page may add.
var pageMembers = []string{"threeDSMethodId", "spcIncompInd"}

// ViewBrowser returns the view of the browser that has begun, once its version is greater than after or ctx has ended.
func (e *Engine) ViewBrowser(ctx context.Context, token, binding string, after int) (*BrowserView, error) {
	through := context.WithoutCancel(ctx)
	for isFirst := true; ; isFirst = false {
		id, _, _ := readToken(token)
		changed, forget := e.changes.watch(id)
		p, err := e.openPage(through, token)
		if err == nil && !e.isBoundTo(p, binding) {
			err = ErrOtherBrowser
		}
		if err != nil {
			forget()
			return nil, err
		}
		if isFirst {
			e.startSending(p) // the node that was to send it may have died
		}
		v := e.viewOf(p)
		if v.Version > after || !awaitChange(ctx, changed) {
			forget()
			return v, nil
		}
		forget()
	}
}

// ConfirmBrowser notes that the text of the issuer was shown.
func (e *Engine) ConfirmBrowser(ctx context.Context, token, binding string) (*BrowserView, error) {
	return e.changePage(ctx, token, binding, func(p *pageRecord) { p.IsConfirmed = true })
}

// changePage changes what a row keeps of its page, for the browser that has begun.
func (e *Engine) changePage(ctx context.Context, token, binding string, change func(*pageRecord)) (*BrowserView, error) {
	p, err := e.openPage(ctx, token)
	if err == nil && !e.isBoundTo(p, binding) {
		err = ErrOtherBrowser
	}
	if err == nil {
		err = e.storePage(ctx, p, change)
	}
	if err != nil {
		return nil, err
	}
	return e.viewOf(p), nil
}

// storePage changes what the row of p keeps of its page, and p.
func (e *Engine) storePage(ctx context.Context, p *page, change func(*pageRecord)) error {
	err := e.Store.Update(ctx, p.row, func(t *store.Txn) error {
		rec, err := e.unseal(t)
		if err != nil {
			return err
		}
		if rec.Page == nil {
			return store.ErrNotFound
		}
		change(rec.Page)
		if err := e.seal(t, rec); err != nil {
			return err
		}
		t.Event = nil
		p.row, p.rec = *t, rec
		return nil
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return ErrNoAuthentication
	case err != nil:
		e.logStoreFailure(ctx, "step of a browser not stored", err, "threeDSServerTransID", p.id)
		return ErrStoreUnreachable
	}
	e.notify(p.id)
	return nil
}

// CancelBrowser ends the authentication: the shopper has cancelled. One that is over stays as it is.
func (e *Engine) CancelBrowser(ctx context.Context, token, binding string) (*BrowserView, error) {
	p, err := e.openPage(ctx, token)
	if err != nil {
		return nil, err
	}
	// Whoever has the token and finds nobody bound may end it, for nothing has begun.
	if len(p.rec.Page.Binding) > 0 && !e.isBoundTo(p, binding) {
		return nil, ErrOtherBrowser
	}
	if err := e.cancelRow(ctx, &p.row); err != nil && !errors.Is(err, ErrFinal) {
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
	if p.row.State == Challenge && p.rec.Page.Returned == 0 {
		now := e.Now().UnixMilli()
		if err := e.storePage(ctx, p, func(r *pageRecord) { r.Returned = now }); err != nil {
			return nil, err
		}
	}
	return e.viewOf(p), nil
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
		return ErrNoAuthentication
	}
	if p.row.State != Waiting || len(p.rec.Page.Binding) == 0 || p.rec.Page.IsMethodDone || e.isMethodOver(p.rec.Page) {
		return nil
	}
	return e.storePage(ctx, p, func(r *pageRecord) { r.IsMethodDone = true })
}

// viewOf returns what the browser may know.
func (e *Engine) viewOf(p *page) *BrowserView {
	page := p.rec.Page
	v := &BrowserView{
		ID: p.id, Merchant: p.row.Owner, Amount: page.Amount, Currency: page.Currency, Exponent: page.Exponent,
		ReturnURL: page.ReturnURL, Language: page.Data["browserLanguage"],
	}
	status := e.statusOf(&p.row, p.rec)
	facts, err := p.rec.context()
	if err != nil || facts.ARes == nil {
		facts.ARes, _ = message.Parse([]byte("{}"), message.Limits{})
	}
	switch {
	case status == outcome.RequiresBrowser && len(page.Binding) == 0:
		v.Step = StepBegin
	case status == outcome.RequiresBrowser:
		v.Step = StepMethod
		if page.MethodURL != "" && !e.isMethodOver(page) {
			v.Method = &BrowserMethod{page.MethodURL, e.methodData(p.id)}
		} else {
			v.Step = StepAuthentication
		}
	case status == outcome.InProgress:
		v.Step = StepAuthentication
	case status == outcome.Challenge && page.Returned == 0:
		v.Step, v.Challenge = StepChallenge, challengeForm(p.id, page, facts.ARes)
	case status == outcome.Challenge && e.Now().Sub(time.UnixMilli(page.Returned)) < pendingAfter:
		v.Step = StepResult
	case status == outcome.Challenge:
		v.Step, v.End = StepEnd, "pending"
	default:
		v.Step, v.End = StepEnd, string(status)
		if info := cardholderInfo(p.rec, facts.ARes); info != "" && !page.IsConfirmed {
			v.Step, v.End, v.CardholderInfo = StepConfirm, "", info
		}
	}
	v.Version = slices.Index(stepOrder, v.Step)
	if v.Step == StepEnd && v.End != "pending" {
		v.Version++
	}
	return v
}

// cardholderInfo returns the text of the issuer that the shopper is to read, "" if there is none.
func cardholderInfo(rec *txnRecord, ares *message.Message) string {
	var rreq *message.Message
	if rec.RReq != nil {
		rreq, _ = message.Parse(rec.RReq, message.Limits{}) // it was parsed before it was stored
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
func challengeForm(id string, page *pageRecord, ares *message.Message) *BrowserChallenge {
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
