package shop

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// confirmTime is how long after the ARes a confirmation may come; the server gives the same.
const confirmTime = 540 * time.Second

// A confirmation is how far Secure Payment Confirmation has come in a checkout.
type confirmation struct {
	at     time.Time // of the purchase, which both AReqs have
	second bool      // the second AReq was sent
}

// confirmationView is what the page gives to the browser's dialog.
type confirmationView struct {
	Credentials json.RawMessage `json:"credentials"` // webAuthnCredList
	Transaction json.RawMessage `json:"transaction"` // spcTransData
}

// A secondRequest is what the second AReq says of the confirmation.
type secondRequest struct {
	Assertion  json.RawMessage `json:"assertion"`  // what the browser returned; absent when it did not confirm
	Incomplete string          `json:"incomplete"` // spcIncompInd: 01 failed, 02 cancelled, 03 too late

	prior string    // acsTransID of the first ARes
	when  time.Time // of the first ARes, nearly
}

// isValid reports whether the page sent exactly one outcome.
func (r *secondRequest) isValid() bool {
	switch r.Incomplete {
	case "":
		return len(r.Assertion) > 0 && r.Assertion[0] == '{'
	case "01", "02", "03":
		return len(r.Assertion) == 0
	}
	return false
}

// authentication is threeDSRequestorAuthenticationInfo: the assertion, or what is known of the
// shopper. After the time is over the AReq has none.
func (r *secondRequest) authentication(known map[string]string) any {
	switch {
	case r.Incomplete == "03":
		return nil
	case r.Incomplete != "":
		return []any{known}
	}
	return []any{map[string]any{
		"threeDSReqAuthMethod": "09", "threeDSReqAuthTimestamp": known["threeDSReqAuthTimestamp"],
		"threeDSReqAuthData": r.Assertion,
	}}
}

// confirmation offers Secure Payment Confirmation if the version and the browser have it, and reports its outcome in
// the second AReq.
func (a *areq) confirmation() []member {
	if !a.since("2.3.1") || !a.order.Confirm {
		return nil
	}
	_, host, _ := strings.Cut(a.base, "://")
	members := []member{
		{"threeDSRequestorSpcSupport", "Y"},
		{"payeeOrigin", "https://" + host}, // browsers and the protocol want https
	}
	if a.second == nil {
		return members
	}
	members = append(members, member{"threeDSRequestorPriorAuthenticationInfo", []any{map[string]string{
		"threeDSReqPriorAuthMethod": "05", "threeDSReqPriorRef": a.second.prior,
		"threeDSReqPriorAuthTimestamp": a.second.when.UTC().Format("200601021504"),
	}}})
	if a.second.Incomplete != "" {
		members = append(members, member{"spcIncompInd", a.second.Incomplete})
	}
	return members
}

// forgetCard forgets the card number, unless a second AReq needs it. The caller holds the lock.
func (c *checkout) forgetCard() {
	if c.state != confirming {
		c.order.Card, c.panel.card = "", ""
	}
}

// confirmed takes what the browser's dialog came to, and sends the second AReq, under a new id. A
// second call changes nothing.
func (s *Shop) confirmed(w http.ResponseWriter, r *http.Request, c *checkout) {
	second := new(secondRequest)
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder)).Decode(second); err != nil || !second.isValid() {
		writeJSON(w, http.StatusBadRequest, faults{"": "Want an assertion, or incomplete 01, 02 or 03."})
		return
	}
	c.mu.Lock()
	if c.state != confirming || !c.moveTo(asking) {
		c.mu.Unlock()
		writeJSON(w, http.StatusOK, c.view())
		return
	}
	second.prior, second.when, c.confirm.second = c.ares.ACSTransID, c.deadline.Add(-confirmTime), true
	if s.Now().After(c.deadline) {
		second.Assertion, second.Incomplete = nil, "03"
	}
	card := c.order.Card
	sent := compose([]member{{"acctNumber", card}})
	c.panel.add(s.Now(), "Card check", partyShop, partyServer, sent, "POST /preauth, for a new id")
	c.mu.Unlock()

	ctx := context.WithoutCancel(r.Context()) // the transaction is under way
	got, err := s.callPreauth(ctx, card)
	c.mu.Lock()
	if s.recordAnswer(c, "/preauth", got, err) {
		s.sendSecond(ctx, c, second, &got.message)
	}
	c.forgetCard()
	c.mu.Unlock()
	writeJSON(w, http.StatusOK, c.view())
}

// sendSecond sends the second AReq. The caller holds the lock, which is free during the call.
func (s *Shop) sendSecond(ctx context.Context, c *checkout, second *secondRequest, crd *message) {
	switch {
	case crd.MessageType == "Erro":
		c.end(endWithErro(crd))
		return
	case crd.MessageType != "CRD" || crd.ServerTransID == "":
		c.end(endWithFault("The 3DS server answered the card check with something else than a CRD."))
		return
	}
	c.transID = crd.ServerTransID
	s.checkouts.addAlias(c, c.transID)
	compInd := "U"
	if c.method.url != "" {
		compInd = "N" // the 3DS Method ran for the first id only
	}
	request := areq{c.version, c.transID, compInd, c.base, c.confirm.at, c.order, second}
	sent := request.json()
	c.panel.add(s.Now(), "AReq", partyShop, partyServer, sent, "POST /auth, the second")
	c.mu.Unlock()
	got, err := s.callAuth(ctx, sent)
	c.mu.Lock()
	if s.recordAnswer(c, "/auth", got, err) {
		s.handleARes(c, &got.message)
	}
}
