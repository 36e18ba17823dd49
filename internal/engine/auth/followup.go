package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/store"
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
		return refuseFollowUp(req, "", "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef")
	}
	if names := e.differences(&first, req, areq); len(names) > 0 {
		return refuseFollowUp(req, "", names...)
	}
	return first.checkTime(req, areq)
}

// refuseFollowUp makes the error of a follow-up that does not fit the first authentication: the elements at fault, and
// what is wrong with them. An empty reason means that they differ.
func refuseFollowUp(req *authRequest, reason string, elements ...string) error {
	detail, cure := strings.Join(elements, ","), "Send what the first authentication had."
	if reason != "" {
		detail, cure = detail+": "+reason, "Begin with a new first authentication: "+reason+"."
	}
	refused := &FaultyRequestError{Erro: erro(req.version, message.BadTransactionData, detail, req.knownID())}
	for _, name := range elements {
		refused.Faults = append(refused.Faults, faults.New(message.BadTransactionData, message.Path(name), "condition", cure))
	}
	return refused
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
		return refuseFollowUp(req, "the 60 s after the RReq are over", "threeRIInd")
	case first.Kind == spc && areq.Text("spcIncompInd") == "03":
		if areq.Has("threeDSRequestorAuthenticationInfo") {
			return refuseFollowUp(req, "", "threeDSRequestorAuthenticationInfo")
		}
	case first.Kind == spc && age > spcTime:
		return refuseFollowUp(req, "the 540 s after the ARes are over", "spcIncompInd")
	}
	return nil
}
