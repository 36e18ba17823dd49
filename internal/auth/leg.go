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

	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/transid"
	"github.com/openthreeds/threeds/message"
)

// A further leg of an authentication is an AReq of its own that refers to what
// came before: the second AReq of SPC, after an ARes S, and the 3RI that goes on
// decoupled, after an RReq D (EMV 3DS 2.3.1, Req 444 to 455 and 463 to 467). The
// requestor starts it, since neither card nor request is kept here; what is kept
// is enough to check that it is the same purchase of the same card, by the same
// merchant, in time.
const (
	spcTime      = 540 * time.Second // from the ARes S to the second AReq, unless that has spcIncompInd 03
	fallbackTime = 60 * time.Second  // from the RReq D to the 3RI
	legLife      = 20 * time.Minute  // how long the first leg is remembered

	// Leg is the state of a row that holds a first leg instead of a transaction. It
	// never changes.
	Leg store.State = "leg"
)

// Kinds of a further leg.
const (
	spc      = "spc"
	fallback = "fallback"
)

const browser = "02" // of deviceChannel

// A purchase is what a further leg must have in common with the first.
type purchase struct {
	Values map[string]string // raw JSON values, by element; "" of one that is absent
	Card   []byte            // digest of the card number, salted with the first leg's id
}

// A firstLeg is what is kept of one for the next.
type firstLeg struct {
	Kind string // of the next: spc or fallback
	At   int64  // when it ended with S or D, Unix milliseconds
	ID   string // its threeDSServerTransID
	purchase
}

// common are the elements that all legs share.
var common = []string{
	"messageCategory", "purchaseAmount", "purchaseCurrency", "purchaseExponent",
	"acquirerBIN", "acquirerMerchantID", "mcc", "merchantCountryCode", "merchantName",
}

// purchaseOf is the purchase of an AReq that may need a further leg, nil of one
// that never does.
func (a *authentication) purchaseOf(areq *message.Message) *purchase {
	if a.version < message.V231 ||
		areq.Text("threeDSRequestorSpcSupport") != "Y" && !slices.Contains([]string{"F", "B"}, areq.Text("threeDSRequestorDecReqInd")) {
		return nil
	}
	p := &purchase{Values: make(map[string]string), Card: cardDigest(a.id, a.pan)}
	for _, name := range common {
		p.Values[name] = string(areq.Raw(name))
	}
	return p
}

func cardDigest(id, pan string) []byte {
	sum := sha256.Sum256([]byte(id + "\x00" + pan))
	return sum[:]
}

// remember stores the first leg that ended with acsTransID, so that the next is
// recognised on every node. It is called before the requestor can hear that it may go
// on; if telling it fails, the row is merely never looked for.
func (e *Engine) remember(ctx context.Context, kind, acsTransID string, t *store.Txn, p *purchase) error {
	if p == nil {
		return nil // the AReq asked for no such leg; one that comes all the same is refused
	}
	leg := firstLeg{Kind: kind, At: e.Now().UnixMilli(), ID: t.ID, purchase: *p}
	row := store.Txn{ID: legKey(t.Scheme, acsTransID), Owner: t.Owner, Scheme: t.Scheme, State: Leg, Expires: e.in(legLife)}
	if err := e.seal(&row, leg); err != nil {
		return err
	}
	err := e.Store.Create(ctx, row)
	if errors.Is(err, store.ErrExists) {
		err = e.rememberAgain(ctx, &row, &leg)
	}
	return err
}

// rememberAgain restarts the time for the next leg of a first one that is stored
// already: the result came once before and could not be committed then, so the requestor
// hears of it only now. The leg of another authentication stays as it is.
func (e *Engine) rememberAgain(ctx context.Context, row *store.Txn, leg *firstLeg) error {
	errOther := errors.New("leg of another authentication")
	err := e.Store.Update(ctx, store.Txn{ID: row.ID}, func(t *store.Txn) error {
		var before firstLeg
		if err := e.open(t, &before); err != nil {
			return err
		}
		if before.ID != leg.ID || before.Kind != leg.Kind {
			return errOther
		}
		t.Data, t.Expires = row.Data, row.Expires
		return nil
	})
	if errors.Is(err, errOther) || errors.Is(err, store.ErrNotFound) {
		return nil // the next leg will be refused
	}
	return err
}

// legKey is the id of a leg's row. The scheme is part of it: ACSs of two schemes may
// choose the same acsTransID.
func legKey(scheme, acsTransID string) string {
	return "leg." + scheme + "." + strings.ToLower(acsTransID)
}

// rememberSPC keeps the first leg of SPC before the requestor hears of it.
func (a *authentication) rememberSPC(ctx context.Context, status string, ares *message.Message) error {
	if status != "S" {
		return nil
	}
	ctx, cancel := a.commitContext(ctx)
	defer cancel()
	t := &store.Txn{ID: a.id, Owner: a.acc.Merchant.Name, Scheme: a.peer.Scheme}
	return a.remember(ctx, spc, ares.Text("acsTransID"), t, a.rec.Purchase)
}

// offerSPC takes back the offer of SPC to an issuer that cannot use it: one whose
// acsInfoInd lacks 07 (Req 448). An offer that says N is none.
func (a *authentication) offerSPC() {
	const support = "threeDSRequestorSpcSupport"
	if message.TableOf(message.AReq, a.version).Field(support) == nil || a.req.Text("deviceChannel") != browser {
		return
	}
	takeBack := func(why string) {
		a.req.Set(support, "")
		a.changed(support, "left out, "+why)
	}
	switch a.req.Text(support) {
	case "N":
		takeBack("there is no N")
	case "Y":
		if a.info == nil {
			return
		}
		if acs := acsVersion(a.info, a.version.String()); acs != nil && !slices.Contains(acs.InfoInd, "07") {
			takeBack("the range has no SPC")
		}
	}
}

// further checks an AReq that is a further leg against the first one. It has nothing
// against any other AReq.
func (a *authentication) further(ctx context.Context) error {
	kind := a.legKind()
	if kind == "" {
		return nil
	}
	// without is what an AReq comes to that refers to no first leg. Only browsers are
	// answered S: elsewhere an assertion is how the cardholder was known to the requestor.
	without := func(err error) error {
		if kind == spc && a.areq.Text("deviceChannel") != browser {
			return nil
		}
		return err
	}
	ref, found := a.reference(kind)
	if len(found) > 0 {
		return without(fault(a.version, found, a.knownID()))
	}
	row, err := a.Store.Get(ctx, legKey(a.peer.Scheme, ref))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		a.Log.ErrorContext(ctx, "first leg not read", "threeDSServerTransID", a.id, "err", err)
		return unreachable(a.version, a.knownID())
	}
	var first firstLeg
	known := err == nil && row.Owner == a.acc.Merchant.Name && row.Scheme == a.peer.Scheme
	if known {
		if err := a.open(&row, &first); err != nil {
			return err
		}
	}
	if !known || first.Kind != kind {
		return without(erro(a.version, message.BadTransactionData, "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef", a.knownID()))
	}
	if other := a.differs(&first); len(other) > 0 {
		return erro(a.version, message.BadTransactionData, strings.Join(other, ","), a.knownID())
	}
	return a.inTime(&first)
}

// legKind tells a further leg by the elements that only such an AReq has; "" of all
// others.
func (a *authentication) legKind() string {
	switch {
	case a.version < message.V231:
		return ""
	case a.areq.Text("threeRIInd") == "19":
		return fallback
	case a.areq.Has("spcIncompInd") || a.assertion():
		return spc
	}
	return ""
}

// assertion reports whether the request holds what a FIDO authenticator signed.
func (a *authentication) assertion() bool {
	for i := range 3 {
		if a.areq.Text(fmt.Sprintf("threeDSRequestorAuthenticationInfo[%d].threeDSReqAuthMethod", i)) == "09" {
			return true
		}
	}
	return false
}

// reference returns the acsTransID by which the request refers to the first leg, and
// what is wrong with the reference.
func (a *authentication) reference(kind string) (ref string, found message.Problems) {
	const prior = "threeDSRequestorPriorAuthenticationInfo"
	method := map[string]string{spc: "05", fallback: "02"}[kind]
	if kind == fallback && a.areq.Text("threeDSRequestorDecReqInd") != "Y" {
		found = append(found, message.Problem{Code: message.Format, Path: "threeDSRequestorDecReqInd"})
	}
	for i := range 3 {
		at := fmt.Sprintf("%s[%d].", prior, i)
		if ref := a.areq.Text(at + "threeDSReqPriorRef"); ref != "" && a.areq.Text(at+"threeDSReqPriorAuthMethod") == method {
			return ref, found
		}
	}
	bad := message.Problem{Code: message.Missing, Path: prior}
	if a.areq.Has(prior) {
		bad = message.Problem{Code: message.Format, Path: prior + ".threeDSReqPriorAuthMethod"}
	}
	return "", append(found, bad)
}

// differs names the elements in which the request is not that of the first leg.
func (a *authentication) differs(first *firstLeg) []string {
	var names []string
	if !bytes.Equal(first.Card, cardDigest(first.ID, a.pan)) {
		names = append(names, "acctNumber")
	}
	for _, name := range common {
		if first.Values[name] != string(a.areq.Raw(name)) {
			names = append(names, name)
		}
	}
	if first.Kind == spc && a.areq.Text("deviceChannel") != browser {
		names = append(names, "deviceChannel") // an ARes S only answers browsers
	}
	return names
}

// inTime checks that the request comes in time after the first leg, with an allowance
// for nodes whose clocks differ. A request that says itself that the time for SPC was
// over (spcIncompInd 03) may come late, but without an assertion.
func (a *authentication) inTime(first *firstLeg) error {
	age := a.start.Sub(time.UnixMilli(first.At)) - transid.MaxSkew
	switch {
	case first.Kind == fallback && age > fallbackTime:
		return erro(a.version, message.BadTransactionData, "threeRIInd: the 60 s after the RReq are over", a.knownID())
	case first.Kind == spc && a.areq.Text("spcIncompInd") == "03":
		if a.areq.Has("threeDSRequestorAuthenticationInfo") {
			return erro(a.version, message.BadTransactionData, "threeDSRequestorAuthenticationInfo", a.knownID())
		}
	case first.Kind == spc && age > spcTime:
		return erro(a.version, message.BadTransactionData, "spcIncompInd: the 540 s after the ARes are over", a.knownID())
	}
	return nil
}
