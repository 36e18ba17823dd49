package mpi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/iso"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/v1"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/record"
)

// The messages of an error that is not the directory server's own.
const (
	noContact     = "Directory server timeout or connection error"
	noDirectory   = "3-D Secure 1 is not available for this card"
	transientText = "Transient system failure"
)

// An enrollment is one /enrolled on its way through the engine.
type enrollment struct {
	*Engine
	Enrollment
	owner    string
	scheme   string
	id       string // of all messages of this authentication
	merchant v1.Merchant
}

// Enrolled asks whether a card takes part, and if so makes the PAReq for it. There is always an Answer: a failure is in
// its Error.
func (e *Engine) Enrolled(ctx context.Context, acc *account.Account, asked Enrollment) api.Enrollment {
	ctx, cancel := context.WithTimeout(ctx, Longest)
	defer cancel()
	of := scheme.OfCard(asked.Card.Number)
	numeric, _ := iso.CountryAlpha2(asked.Merchant.Country)
	n := &enrollment{
		Engine: e, Enrollment: asked, owner: acc.Merchant.Name, scheme: of, id: v1.NewMessageID(rand.Reader),
		merchant: v1.Merchant{
			AcqBIN: asked.Merchant.AcquirerBIN, ID: asked.Merchant.ID,
			Name: asked.Merchant.Name, Country: numeric, URL: asked.Merchant.URL,
		},
	}
	answer, outcome := n.enroll(ctx)
	e.noteEnd(ctx, "enrolled", of, outcome)
	e.note(ctx, "messageId", n.id)
	e.note(ctx, "transStatus", string(answer.Enrolled))
	e.note(ctx, "eci", answer.ECI)
	e.note(ctx, "reference", n.reference())
	n.noteCard(ctx)
	currency, _, _ := iso.CurrencyAlpha(asked.Currency)
	n.note(ctx, "amount", asked.Amount)
	n.note(ctx, "currency", currency)
	return answer
}

// reference returns the number of the order, by which the journal finds the request, without a card number.
func (n *enrollment) reference() string {
	return cardnumber.Scrub(cardnumber.Without(n.OrderID, n.Card.Number))
}

// noteCard records as much of the card number as may be shown.
func (n *enrollment) noteCard(ctx context.Context) {
	pan := n.Card.Number
	first, last := shownDigits(pan)
	n.note(ctx, "bin", first)
	n.note(ctx, "last4", last)
	n.note(ctx, "cardHash", hex.EncodeToString(n.cardHash(pan)))
}

// enroll returns the answer, and one word for how it was found.
func (n *enrollment) enroll(ctx context.Context) (answer api.Enrollment, outcome string) {
	if n.directory(n.scheme) == nil {
		return n.errorAnswer(noDirectory, "No 3-D Secure 1 directory server is configured for the card's scheme"),
			"unconfigured"
	}
	if n.isKnownAbsent(n.scheme, n.Card.Number) {
		return api.Enrollment{Enrolled: "N", ECI: v1.ECI(n.scheme, v1.Attempt)}, "N"
	}
	res, answer, outcome := n.askDirectory(ctx)
	if outcome != "" {
		return answer, outcome
	}
	switch res.Enrolled {
	case "N":
		return api.Enrollment{Enrolled: "N", ECI: v1.ECI(n.scheme, v1.Attempt)}, "N"
	case "U":
		return api.Enrollment{Enrolled: "U", ECI: v1.ECI(n.scheme, v1.Unavailable)}, "U"
	}
	pareq, err := n.makePAReq(ctx, res)
	if err != nil {
		record.LogFailure(ctx, n.Log, n.StoreFailures, n.Now(), "PAReq not kept", err, "messageId", n.id)
		return n.errorAnswer(transientText, "The server could not reach its own data, try again"), "store"
	}
	return api.Enrollment{ACSURL: api.Text(res.URL), PAReq: api.Text(pareq), Enrolled: "Y", ECI: v1.ECI(n.scheme,
		v1.Success)}, "Y"
}

func (n *enrollment) errorAnswer(message, detail string) api.Enrollment {
	return api.Enrollment{ECI: v1.ECI(n.scheme, v1.Failure), Error: &api.EnrollmentError{Message: message, Detail: detail}}
}

// askDirectory makes the exchange of VEReq and VERes. Outcome is empty when there is a
// VERes to go on with; else answer is what the requestor gets.
func (n *enrollment) askDirectory(ctx context.Context) (res *v1.VERes, answer api.Enrollment, outcome string) {
	ctx, cancel := context.WithTimeout(ctx, exchange)
	defer cancel()
	req := &v1.VEReq{
		ID: n.id, PAN: n.Card.Number, DeviceCategory: "0",
		Merchant: v1.Merchant{AcqBIN: n.merchant.AcqBIN, ID: n.merchant.ID},
	}
	n.noteStep(ctx, "v1.vereq", showVEReq(req), "")
	sent := n.Now()
	body, err := n.Client.Exchange(ctx, n.scheme, n.owner, "VEReq", req.ID, req.Marshal())
	if n.Recorder != nil {
		n.Recorder.NoteDirectory(ctx, n.Now().Sub(sent))
	}
	if err != nil {
		n.Log.WarnContext(ctx, "v1 directory gave no answer", "messageId", n.id, "scheme", n.scheme, "err", err)
		n.noteStep(ctx, "v1.veres", nil, "none: "+detailOf(err))
		return nil, n.errorAnswer(noContact, detailOf(err)), "silent"
	}
	res, err = v1.ReadVERes(body, req, v1.Options{Lab: n.directory(n.scheme).Lab})
	switch {
	case err != nil:
		n.noteStep(ctx, "v1.veres", nil, "refused: "+err.Error())
		return nil, n.errorAnswer(noContact, n.reportFault(ctx, n.scheme, n.id, err)), "invalid"
	case res.IReq.Code != "":
		n.noteStep(ctx, "v1.veres", showVERes(res), iReqText(res.IReq.Code))
		return nil, n.iReqAnswer(ctx, res.IReq), "refused"
	}
	n.noteStep(ctx, "v1.veres", showVERes(res), "")
	return res, api.Enrollment{}, ""
}

// detailOf returns the text for the requestor about an exchange that failed.
func detailOf(err error) string {
	var told interface{ Detail() string }
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "Connection timeout"
	case errors.As(err, &told):
		return told.Detail()
	}
	return "Connection failed"
}

// reportFault handles an answer that cannot be used: it sends the directory server an Error,
// unless the answer is an Error itself, which is never answered by one. It returns the text
// for the requestor.
func (e *Engine) reportFault(ctx context.Context, scheme, id string, err error) string {
	log := e.Log.With("messageId", id, "scheme", scheme)
	if got, ok := errors.AsType[*v1.Error](err); ok {
		log.WarnContext(ctx, "v1 directory answered with an Error", "errorCode", got.Code)
		if got.Code == "98" || got.Code == "99" { // what they are in an IReq
			return iReqText(got.Code)
		}
		return "The directory server could not read the request"
	}
	log.WarnContext(ctx, "answer of a v1 directory refused", "err", err)
	if fault, ok := errors.AsType[*v1.Fault](err); ok {
		e.Client.Report(ctx, scheme, fault.Answer(id).Marshal())
	}
	return "Invalid response from the directory server"
}

// iReqAnswer returns the answer to the requestor when the directory server sent an IReq.
func (n *enrollment) iReqAnswer(ctx context.Context, r v1.IReq) api.Enrollment {
	n.Log.WarnContext(ctx, "v1 directory refused a request", "messageId", n.id, "scheme", n.scheme, "iReqCode", r.Code)
	text := iReqText(r.Code)
	detail := r.Detail
	if detail == "" || n.containsCard(detail) {
		detail = text
	}
	return n.errorAnswer(text, detail)
}

// containsCard reports whether the card number is in a text, also if it is written in groups.
func (n *enrollment) containsCard(text string) bool {
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, text)
	return strings.Contains(digits, n.Card.Number)
}

// makePAReq makes the PAReq and stores what its PARes has to agree with.
func (n *enrollment) makePAReq(ctx context.Context, res *v1.VERes) (string, error) {
	numeric, exponent, _ := iso.CurrencyAlpha(n.Currency)
	made := n.Now()
	display, _ := v1.DisplayAmount(n.Amount, n.Currency)
	req := v1.PAReq{
		ID: n.id, Version: res.Version, Merchant: n.merchant, XID: v1.XID(n.OrderID), Date: made,
		DisplayAmount: display, Amount: n.Amount, Currency: numeric, Exponent: exponent,
		AcctID: res.AcctID, Expiry: v1.Expiry(n.Card.ExpireMonth, n.Card.ExpireYear),
	}
	pan := n.Card.Number
	err := n.storeRequest(ctx, n.owner, n.scheme, n.id, &storedRequest{
		AcqBIN: n.merchant.AcqBIN, MerID: n.merchant.ID, XID: req.XID, Date: v1.FormatTime(made),
		Amount: cmp.Or(strings.TrimLeft(n.Amount, "0"), "0"), Currency: numeric, Exponent: exponent, Last4: pan[len(pan)-4:],
		PANLength: len(pan), CardHash: n.cardHash(pan), Reference: n.reference(),
	})
	if err != nil {
		return "", err
	}
	n.noteStep(ctx, "v1.pareq", showPAReq(&req), "")
	return req.Encode(), nil
}
