package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/faults"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/tasks"
	"github.com/openthreeds/threeds/internal/transid"
	"github.com/openthreeds/threeds/message"
)

// A follow-up authentication is an AReq of its own that refers to an earlier one, the first
// authentication: the second AReq of SPC, after an ARes S, and the 3RI that goes on
// decoupled, after an RReq D (EMV 3DS 2.3.1, Req 444 to 455 and 463 to 467). The requestor
// starts it, since neither card nor request is kept here. What is kept is enough to check
// that it is the same purchase of the same card, by the same merchant, in time.
const (
	spcTime           = 540 * time.Second // from the ARes S to the second AReq, unless that has spcIncompInd 03
	fallbackTime      = 60 * time.Second  // from the RReq D to the 3RI
	keepFirstDuration = 20 * time.Minute  // how long the first authentication is remembered

	// Leg is the state of a row that holds a first authentication instead of a transaction.
	// It never changes.
	Leg store.State = "leg"

	// Second is the state of a row that stands under the id of a second AReq of SPC. It never changes. The authentication
	// itself has the row of its first id.
	Second store.State = "second"
)

// Kinds of a follow-up authentication.
const (
	spc      = "spc"
	fallback = "fallback"
)

const browser = "02" // the deviceChannel of browsers

// spcSupport is the element of the AReq that offers SPC.
const spcSupport = "threeDSRequestorSpcSupport"

// A purchase is what a follow-up authentication must have in common with the first one.
type purchase struct {
	Values map[string]string // raw JSON values by element; "" where the element is absent
	Card   []byte            // keyed digest of the card number and the id of the first authentication
}

// A firstAuthentication is what is kept of one for its follow-up.
type firstAuthentication struct {
	Kind string // kind of the follow-up: spc or fallback
	At   int64  // when it ended with S or D, Unix milliseconds
	ID   string // its threeDSServerTransID
	purchase
}

// commonElements are the elements that a follow-up has in common with the first
// authentication.
var commonElements = []string{
	"messageCategory", "purchaseAmount", "purchaseCurrency", "purchaseExponent",
	"acquirerBIN", "acquirerMerchantID", "mcc", "merchantCountryCode", "merchantName",
}

// purchaseOf returns the purchase of an AReq that may need a follow-up, nil for one that
// never does.
func (e *Engine) purchaseOf(req *authRequest, areq *message.Message) *purchase {
	if req.version < message.V231 ||
		areq.Text(spcSupport) != "Y" && !slices.Contains([]string{"F", "B"}, areq.Text("threeDSRequestorDecReqInd")) {
		return nil
	}
	p := &purchase{Values: make(map[string]string), Card: e.Sealer.Digest(cardText(req.id.value, req.pan))}
	for _, name := range commonElements {
		p.Values[name] = string(areq.Raw(name))
	}
	return p
}

// cardText is what the digest of a card is made of.
func cardText(id, pan string) string { return id + "\x00" + pan }

// isCard reports whether pan is the card of the first authentication. A build before digests were
// keyed made them with SHA-256 alone. Its rows count as long as they live, which is 8 days at most.
func (e *Engine) isCard(first *firstAuthentication, pan string) bool {
	text := cardText(first.ID, pan)
	unkeyed := sha256.Sum256([]byte(text))
	return e.Sealer.IsDigest(first.Card, text) || bytes.Equal(first.Card, unkeyed[:])
}

// storeFirst stores the first authentication, which ended with acsTransID, so that its
// follow-up is recognised on every node. It is called before the requestor can hear that it
// may go on; if that message fails, nobody ever looks for the row. P is nil if the AReq
// asked for no follow-up; one that comes all the same is refused.
func (e *Engine) storeFirst(ctx context.Context, kind, acsTransID string, t *store.Txn, p *purchase) error {
	if p == nil {
		return nil
	}
	first := firstAuthentication{Kind: kind, At: e.Now().UnixMilli(), ID: t.ID, purchase: *p}
	row := store.Txn{ID: firstKey(t.Scheme, acsTransID), Owner: t.Owner, Scheme: t.Scheme, State: Leg, Expires: e.expiryIn(keepFirstDuration)}
	if err := e.seal(&row, first); err != nil {
		return err
	}
	err := e.Store.Create(ctx, row)
	if errors.Is(err, store.ErrExists) {
		err = e.restartFirst(ctx, &row, &first)
	}
	return err
}

// restartFirst restarts the time for the follow-up of a first authentication that is stored
// already: its result came once before and could not be committed then, so the requestor
// hears of it only now. The row of another authentication stays as it is.
func (e *Engine) restartFirst(ctx context.Context, row *store.Txn, first *firstAuthentication) error {
	errOther := errors.New("row of another authentication")
	err := e.Store.Update(ctx, store.Txn{ID: row.ID}, func(t *store.Txn) error {
		var stored firstAuthentication
		if err := e.open(t, &stored); err != nil {
			return err
		}
		if stored.ID != first.ID || stored.Kind != first.Kind {
			return errOther
		}
		t.Data, t.Expires = row.Data, row.Expires
		return nil
	})
	if errors.Is(err, errOther) || errors.Is(err, store.ErrNotFound) {
		return nil // the follow-up will be refused
	}
	return err
}

// firstKey is the id of the row of a first authentication. The scheme is part of it: ACSs of
// two schemes may choose the same acsTransID.
func firstKey(scheme, acsTransID string) string {
	return "leg." + scheme + "." + strings.ToLower(acsTransID)
}

// storeFirstOfSPC stores the first authentication of SPC before the requestor hears of it.
func (e *Engine) storeFirstOfSPC(ctx context.Context, c *claim, status string, ares *message.Message) error {
	if status != "S" {
		return nil
	}
	ctx, cancel := e.commitContext(ctx, c)
	defer cancel()
	if c.rec.Page != nil {
		return e.storeSecond(ctx, c)
	}
	t := &store.Txn{ID: c.id, Owner: c.merchant, Scheme: c.peer.Scheme}
	return e.storeFirst(ctx, spc, ares.Text("acsTransID"), t, c.rec.Purchase)
}

// withdrawSPC takes back the offer of SPC to an issuer that cannot use it: one whose
// acsInfoInd lacks 07 (Req 448). An offer that says N is none.
func withdrawSPC(req *authRequest, to target, msg *message.Request) {
	if message.TableOf(message.AReq, req.version).Field(spcSupport) == nil || msg.Text("deviceChannel") != browser {
		return
	}
	withdraw := func(why string) {
		msg.Set(spcSupport, "")
		msg.Set("payeeOrigin", "")
		req.addChange(spcSupport, "left out, "+why)
	}
	switch msg.Text(spcSupport) {
	case "N":
		withdraw("there is no N")
	case "Y":
		if to.info == nil {
			return
		}
		if acs := acsVersion(to.info, req.version.String()); acs != nil && !slices.Contains(acs.InfoInd, "07") {
			withdraw("the range has no SPC")
		}
	}
}

// withdrawSPCOfAgent takes back the offer of SPC of an agent, which has no way to tell what came of it.
func withdrawSPCOfAgent(req *authRequest, msg *message.Request) {
	if req.delegation == nil || req.version < message.V231 || !msg.Has(spcSupport) {
		return
	}
	for _, name := range []string{spcSupport, "payeeOrigin"} {
		msg.Set(name, "")
	}
	req.addChange(spcSupport, "left out, agents have no SPC")
}

// checkFollowUp checks an AReq that is a follow-up against the first authentication. It
// accepts every other AReq.
func (e *Engine) checkFollowUp(ctx context.Context, req *authRequest, to target, areq *message.Message) error {
	kind := followUpKind(req.version, areq)
	if kind == "" {
		return nil
	}
	ref, found := firstReference(kind, areq)
	if len(found) > 0 {
		if !needsFirst(kind, areq) {
			return nil
		}
		s := faults.Subject{Version: req.version, Value: func(path message.Path) []byte { return areq.Raw(string(path)) }}
		return &FaultyRequestError{fault(req.version, found, req.knownID()), e.explainProblems(found, nil, s)}
	}
	row, err := e.Store.Get(ctx, firstKey(to.peer.Scheme, ref))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		e.logStoreFailure(ctx, "first leg not read", err, "threeDSServerTransID", req.id.value)
		return unreachable(req.version, req.knownID())
	}
	var first firstAuthentication
	known := err == nil && row.Owner == req.account.Merchant.Name && row.Scheme == to.peer.Scheme
	if known {
		if err := e.open(&row, &first); err != nil {
			return err
		}
	}
	if !known || first.Kind != kind {
		if !needsFirst(kind, areq) {
			return nil
		}
		return erro(req.version, message.BadTransactionData, "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef", req.knownID())
	}
	if names := e.differences(&first, req, areq); len(names) > 0 {
		return erro(req.version, message.BadTransactionData, strings.Join(names, ","), req.knownID())
	}
	return first.checkTime(req, areq)
}

// followUpKind tells a follow-up by the elements that only such an AReq has; it is "" for
// all others.
func followUpKind(v message.Version, areq *message.Message) string {
	switch {
	case v < message.V231:
		return ""
	case areq.Text("threeRIInd") == "19":
		return fallback
	case areq.Has("spcIncompInd") || hasAssertion(areq):
		return spc
	}
	return ""
}

// hasAssertion reports whether an AReq holds what a FIDO authenticator signed.
func hasAssertion(areq *message.Message) bool {
	for i := range 3 {
		if areq.Text(fmt.Sprintf("threeDSRequestorAuthenticationInfo[%d].threeDSReqAuthMethod", i)) == "09" {
			return true
		}
	}
	return false
}

// needsFirst reports whether an AReq is refused that refers to no first authentication. Only browsers are answered
// S: elsewhere an assertion is how the requestor has authenticated the cardholder.
func needsFirst(kind string, areq *message.Message) bool {
	return kind != spc || areq.Text("deviceChannel") == browser
}

// followUpProblems returns what is wrong with how an AReq refers to a first authentication.
func followUpProblems(v message.Version, areq *message.Message) message.Problems {
	kind := followUpKind(v, areq)
	if kind == "" || !needsFirst(kind, areq) {
		return nil
	}
	_, found := firstReference(kind, areq)
	return found
}

// firstReference returns the acsTransID by which an AReq refers to the first
// authentication, and what is wrong with the reference.
func firstReference(kind string, areq *message.Message) (ref string, found message.Problems) {
	const prior = "threeDSRequestorPriorAuthenticationInfo"
	method := map[string]string{spc: "05", fallback: "02"}[kind]
	if kind == fallback && areq.Text("threeDSRequestorDecReqInd") != "Y" {
		found = append(found, message.Problem{Code: message.Format, Path: "threeDSRequestorDecReqInd"})
	}
	for i := range 3 {
		at := fmt.Sprintf("%s[%d].", prior, i)
		if ref := areq.Text(at + "threeDSReqPriorRef"); ref != "" && areq.Text(at+"threeDSReqPriorAuthMethod") == method {
			return ref, found
		}
	}
	bad := message.Problem{Code: message.Missing, Path: prior}
	if areq.Has(prior) {
		bad = message.Problem{Code: message.Format, Path: prior + ".threeDSReqPriorAuthMethod"}
	}
	return "", append(found, bad)
}

// differences names the elements in which an AReq is not that of the first authentication.
func (e *Engine) differences(first *firstAuthentication, req *authRequest, areq *message.Message) []string {
	var names []string
	if !e.isCard(first, req.pan) {
		names = append(names, "acctNumber")
	}
	for _, name := range commonElements {
		if first.Values[name] != string(areq.Raw(name)) {
			names = append(names, name)
		}
	}
	if first.Kind == spc && areq.Text("deviceChannel") != browser {
		names = append(names, "deviceChannel") // an ARes S only answers browsers
	}
	return names
}

// checkTime checks that a follow-up comes in time after the first authentication, with an
// allowance for nodes whose clocks differ. A request that says itself that the time for SPC
// was over (spcIncompInd 03) may come late, but without an assertion.
func (first *firstAuthentication) checkTime(req *authRequest, areq *message.Message) error {
	age := req.start.Sub(time.UnixMilli(first.At)) - transid.MaxSkew
	switch {
	case first.Kind == fallback && age > fallbackTime:
		return erro(req.version, message.BadTransactionData, "threeRIInd: the 60 s after the RReq are over", req.knownID())
	case first.Kind == spc && areq.Text("spcIncompInd") == "03":
		if areq.Has("threeDSRequestorAuthenticationInfo") {
			return erro(req.version, message.BadTransactionData, "threeDSRequestorAuthenticationInfo", req.knownID())
		}
	case first.Kind == spc && age > spcTime:
		return erro(req.version, message.BadTransactionData, "spcIncompInd: the 540 s after the ARes are over", req.knownID())
	}
	return nil
}

// A spcRecord is what the row of an authentication keeps of Secure Payment Confirmation, when a page of ours shows the
// browser's dialog and the server itself sends the second AReq. Beyond Outcome, all is about the first one.
type spcRecord struct {
	ID       string // the threeDSServerTransID of the second AReq
	At       int64  // when the ARes S came, Unix milliseconds
	Outcome  string `json:",omitzero"` // spcConfirmed or spcIncompInd, once the second AReq may have left
	AReq     []byte `json:",omitzero"` // facts of the first AReq, JSON, once the second may have left
	ARes     []byte `json:",omitzero"` // facts of the first ARes, JSON, likewise
	Sent     int64  `json:",omitzero"` // when the first AReq left, likewise
	Answered int64  `json:",omitzero"` // when the first ARes came, likewise
}

// A secondRecord is what a row in the state Second keeps.
type secondRecord struct {
	First string // the id of the row that has the authentication
	Card  []byte `json:",omitzero"` // the first AReq, sealed under the secret of the token; gone once the second may have left
	Sent  int64  `json:",omitzero"` // when the second AReq may have left, Unix milliseconds
}

// A spcOffer has what the second AReq is made of, while the first one is on its way.
type spcOffer struct {
	areq, secret []byte
	pan          string
}

const (
	spcConfirmed = "confirmed"     // the Outcome of a dialog that gave an assertion
	spcGrace     = 2 * time.Minute // how long after spcTime the second AReq may leave at the latest
)

// errUsed says that a second AReq was permitted before.
var errUsed = errors.New("auth: the second AReq has left, or nobody has its card any more")

// ErrBusy says that too many AReqs of the merchant are on their way. Nothing has left.
var ErrBusy = errors.New("auth: too many AReqs are on their way")

// isSecond reports whether the second AReq of SPC may have left. AReq, ARes, Sent and Answered are those of it then.
func (r *txnRecord) isSecond() bool {
	return r.Page != nil && r.Page.SPC != nil && r.Page.SPC.Outcome != ""
}

// isAwaitingSPC reports whether the browser's dialog is to tell what becomes of SPC.
func (r *txnRecord) isAwaitingSPC(t *store.Txn) bool {
	return t.State == Challenge && r.Page != nil && r.Page.SPC != nil && r.Page.SPC.Outcome == ""
}

// currentID returns the threeDSServerTransID of the last AReq, when that of the first is id.
func (r *txnRecord) currentID(id string) string {
	if r.isSecond() {
		return r.Page.SPC.ID
	}
	return id
}

// first returns the record as it was before the second AReq, as far as messages are checked against it.
func (r *txnRecord) first() *txnRecord {
	if !r.isSecond() {
		return r
	}
	was, s := *r, r.Page.SPC
	was.AReq, was.ARes, was.Sent, was.Answered, was.RReq = s.AReq, s.ARes, s.Sent, s.Answered, nil
	return &was
}

// errSuperseded says that what is to be stored was read before the second AReq of SPC left.
var errSuperseded = fmt.Errorf("%w: the second AReq has left", errArrow)

// checkLeg returns errSuperseded if rec, which is about to be stored in t, was read before the second AReq of SPC left.
func (e *Engine) checkLeg(t *store.Txn, rec *txnRecord) error {
	if rec.Page == nil {
		return nil
	}
	now, err := e.unseal(t)
	if err != nil {
		return err
	}
	if now.currentID(t.ID) != rec.currentID(t.ID) {
		return errSuperseded
	}
	return nil
}

// storeSecond stores the row of a second AReq, before a page is asked for the browser's dialog. The id of that AReq can be
// used for nothing else: it has no life of its own.
func (e *Engine) storeSecond(ctx context.Context, c *claim) error {
	id := e.IDs.New(e.Now(), 0, e.rand(), numberOf(c.peer.Scheme), c.merchant, c.offer.pan)
	row := store.Txn{ID: id, Owner: c.merchant, Scheme: c.peer.Scheme, State: Second, Expires: e.expiryIn(spcTime + spcGrace)}
	second := secondRecord{First: c.rowID(), Card: sealCard(id, c.offer.secret, c.offer.areq)}
	if err := e.seal(&row, second); err != nil {
		return err
	}
	if err := e.Store.Create(ctx, row); err != nil {
		return err
	}
	c.rec.Page.SPC = &spcRecord{ID: id, At: e.Now().UnixMilli()}
	return nil
}

// followSecond returns the row of the authentication that a second AReq belongs to.
func (e *Engine) followSecond(ctx context.Context, row store.Txn) (store.Txn, error) {
	var second secondRecord
	if err := e.open(&row, &second); err != nil {
		return store.Txn{}, err
	}
	t, err := e.Store.Get(ctx, second.First)
	if err == nil && (t.Owner != row.Owner || t.Scheme != row.Scheme) {
		err = store.ErrNotFound
	}
	return t, err
}

// startSPCTimer has the second AReq leave when the time for SPC is over and the page has told nothing. Each node that has
// seen the token meanwhile tries, and one of them sends it. If none is left, the issuer ends the first AReq by itself.
func (e *Engine) startSPCTimer(p *page) {
	if !p.rec.isAwaitingSPC(&p.row) || e.isOver(p.rec) {
		return
	}
	key, end := "spc "+p.id, time.UnixMilli(p.rec.Page.SPC.At).Add(spcTime)
	if _, isUnderWay := e.sending.LoadOrStore(key, true); isUnderWay {
		return
	}
	e.taskGroup().Start(func(ctx context.Context) {
		defer e.sending.Delete(key)
		for tasks.Sleep(ctx, sendPoll) {
			switch now := e.Now(); {
			case now.Before(end):
				continue
			case now.After(end.Add(spcGrace)):
				return
			}
			now, err := e.readPage(ctx, p.id)
			if errors.Is(err, ErrNoAuthentication) || err == nil && !now.rec.isAwaitingSPC(&now.row) {
				return
			}
			if err != nil {
				continue
			}
			now.secret = p.secret
			if err := e.sendSecond(ctx, now, SPCAnswer{Incomplete: "03"}); err == nil || errors.Is(err, errUsed) {
				return
			}
		}
	})
}

// sendSecond sends the second AReq of an authentication whose page has told what became of SPC. Of any number of calls, on
// all nodes, one sends it; the error of the others is errUsed. After any other error nothing has left.
func (e *Engine) sendSecond(ctx context.Context, p *page, answer SPCAnswer) error {
	s := p.rec.Page.SPC
	if e.Now().Sub(time.UnixMilli(s.At)) >= spcTime {
		answer = SPCAnswer{Incomplete: "03"}
	}
	row, text, err := e.openSecond(ctx, p)
	if err != nil {
		return err
	}
	req := &authRequest{version: p.rec.version(), start: e.Now()}
	to, areq, err := e.buildSecond(req, p, text, &answer)
	if err != nil {
		e.Log.ErrorContext(ctx, "second AReq of an authentication not built", "threeDSServerTransID", p.id, "err", err)
		e.failPage(ctx, p, message.PermanentFailure)
		return errUsed
	}
	leave, ok := e.Directories.Enter(to.peer.Scheme, p.row.Owner)
	if !ok {
		return ErrBusy
	}
	c := &claim{target: to, id: s.ID, row: p.id, merchant: p.row.Owner, version: req.version, start: req.start}
	if err := e.claimSecond(ctx, p, c, areq, answer.outcome()); err != nil {
		leave()
		return err
	}
	e.notify(p.id)
	if err := e.useSecond(ctx, row, areq); err != nil {
		leave()
		e.Log.ErrorContext(ctx, "second AReq of an authentication not sent", "threeDSServerTransID", p.id, "err", err)
		return errUsed
	}
	e.taskGroup().Start(func(ctx context.Context) {
		defer leave()
		_, _ = e.exchange(ctx, c, areq.Bytes()) // its end stands in the row
		e.notify(p.id)
	})
	return nil
}

// openSecond reads the row of a second AReq, and opens the first AReq in it.
func (e *Engine) openSecond(ctx context.Context, p *page) (row store.Txn, text []byte, err error) {
	id := p.rec.Page.SPC.ID
	row, err = e.Store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return row, nil, errUsed
	case err != nil:
		e.logStoreFailure(ctx, "second AReq not read", err, "threeDSServerTransID", p.id)
		return row, nil, ErrStoreUnreachable
	}
	var second secondRecord
	if err := e.open(&row, &second); err != nil {
		return row, nil, err
	}
	if second.Card == nil || second.First != p.id {
		return row, nil, errUsed
	}
	text, err = cardKey(id, p.secret).Open(nil, nil, second.Card, nil)
	return row, text, err
}

// claimSecond is the first of two permissions for a second AReq: the row of the authentication goes from the wait for SPC
// to Sent. Whoever comes later finds it elsewhere.
func (e *Engine) claimSecond(ctx context.Context, p *page, c *claim, areq *message.Message, outcome string) error {
	mayLeave := false
	_, err := e.newWrite(p.row, func(t *store.Txn) error {
		rec, err := e.unseal(t)
		switch {
		case err != nil:
			return err
		case !rec.isAwaitingSPC(t) || rec.Page.SPC.ID != c.id || e.isOver(rec):
			return errUsed
		}
		ares, err := message.Parse(rec.ARes, message.Limits{})
		if err != nil {
			return err
		}
		s := rec.Page.SPC
		s.Outcome, s.AReq, s.ARes, s.Sent, s.Answered = outcome, rec.AReq, ares.Facts(), rec.Sent, rec.Answered
		rec.Sent, rec.AReq, rec.ARes, rec.Answered, rec.BadResult = e.Now().UnixMilli(), areq.Facts(), nil, 0, false
		c.rec, mayLeave = rec, true
		return e.advanceRow(t, rec, Sent, e.keepFinal())
	}).run(e.withSent(ctx, areq))
	switch {
	case err == nil && mayLeave:
		return nil
	case errors.Is(err, errUsed), errors.Is(err, store.ErrNotFound), err == nil:
		return errUsed
	}
	e.logStoreFailure(ctx, "second claim not stored", err, "threeDSServerTransID", p.id)
	return ErrStoreUnreachable
}

// useSecond is the other permission: the row of the second AReq gives its card away once. From then on the row stays as
// long as a result may come for that AReq.
func (e *Engine) useSecond(ctx context.Context, row store.Txn, areq *message.Message) error {
	mayLeave := false
	_, err := e.newWrite(row, func(t *store.Txn) error {
		var second secondRecord
		if err := e.open(t, &second); err != nil {
			return err
		}
		if second.Sent != 0 {
			return errUsed
		}
		second.Sent, second.Card = e.Now().UnixMilli(), nil
		t.Expires = e.expiryIn(max(e.keepFinal(), e.Timeouts.Challenge, decoupledWait(areq)) + keepExpired)
		mayLeave = true
		return e.seal(t, second)
	}).run(ctx)
	if err == nil && !mayLeave {
		err = errUsed
	}
	return err
}

// buildSecond makes the second AReq: the first one, with what became of SPC, and a reference to the first ARes. An
// assertion in a form that the protocol does not have counts as SPC that has failed.
func (e *Engine) buildSecond(req *authRequest, p *page, text []byte, answer *SPCAnswer) (target, *message.Message, error) {
	msg, err := message.ReadRequest(text, message.Limits{Depth: -1, Members: -1})
	if err != nil {
		return target{}, nil, err
	}
	req.pan = msg.Text("acctNumber")
	to, err := e.targetOfPage(p, req.pan)
	if err != nil {
		return target{}, nil, err
	}
	facts, err := p.rec.context()
	if err != nil {
		return target{}, nil, err
	}
	const layout, authInfo = "200601021504", "threeDSRequestorAuthenticationInfo"
	msg.Set("threeDSServerTransID", p.rec.Page.SPC.ID)
	if p.rec.Page.IsMethodDone {
		msg.Set("threeDSMethodId", p.id) // the 3DS Method has run for the first id
	}
	appendEntry(msg, "threeDSRequestorPriorAuthenticationInfo", map[string]string{
		"threeDSReqPriorAuthMethod": "05", "threeDSReqPriorRef": facts.ARes.Text("acsTransID"),
		"threeDSReqPriorAuthTimestamp": time.UnixMilli(p.rec.Page.SPC.At).UTC().Format(layout),
	})
	switch answer.Incomplete {
	case "":
		appendEntry(msg, authInfo, map[string]any{
			"threeDSReqAuthMethod": "09", "threeDSReqAuthTimestamp": e.Now().UTC().Format(layout), "threeDSReqAuthData": answer.Assertion,
		})
	case "03":
		msg.Set(authInfo, "")
		fallthrough
	default:
		msg.Set("spcIncompInd", answer.Incomplete)
	}
	areq, problems := msg.Build(to.peer.context(message.Context{Loopback: e.Loopback}))
	switch {
	case len(problems) == 0:
		return to, areq, nil
	case answer.Incomplete == "":
		*answer = SPCAnswer{Incomplete: "01"}
		return e.buildSecond(req, p, text, answer)
	}
	return to, nil, errors.New("it is not good: " + string(problems[0].Path))
}

// maxEntries is how many entries the lists have that appendEntry extends.
const maxEntries = 3

// appendEntry adds an entry to a list of the AReq. In a full one it takes the place of the last.
func appendEntry(msg *message.Request, name string, entry any) {
	var list []json.RawMessage
	_ = json.Unmarshal(msg.RawAt(message.Path(name)), &list) // a list that is absent is empty, and any other was checked
	added, _ := json.Marshal(entry)                          // texts, and JSON that was read
	list = append(list[:min(len(list), maxEntries-1)], added)
	raw, _ := json.Marshal(list)
	msg.SetRaw(name, raw)
}
