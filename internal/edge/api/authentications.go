package api

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/message"
)

// authenticationsPath is what the path of every authentication begins with.
const authenticationsPath = "/authentications/"

// authentication answers a GET of one authentication, immediately or, with the parameter wait, when its status is
// final.
func (h *Handler) authentication(ctx context.Context, req *request) (response, error) {
	wait, err := readWait(req.query)
	if err != nil {
		return response{}, badWaitProblem
	}
	id := strings.TrimPrefix(req.path, authenticationsPath)
	if !message.IsUUID(strings.ToLower(id)) {
		return response{}, noAuthentication
	}
	a, err := h.Engine.Authentication(context.WithoutCancel(ctx), req.account, id)
	var res response
	if err == nil && !a.Status.IsFinal() && wait > 0 {
		res.retryAfter = h.wait(ctx, req, wait, func(limited context.Context) {
			a, err = h.Engine.WaitForAuthentication(limited, req.account, a.ID)
		})
	}
	if err != nil {
		return res, err
	}
	res.body, err = h.encodeAuthentication(a, nil)
	return res, err
}

// outcome answers with the authentication whose id is in the body, for clients of /auth and /postauth.
func (h *Handler) outcome(ctx context.Context, req *request) (response, error) {
	var body struct {
		ID *string `json:"threeDSServerTransID"`
	}
	if err := json.Unmarshal(req.body, &body); err != nil {
		cure := "Send a JSON object with the string threeDSServerTransID."
		return response{}, problemOf(faults.New(message.InvalidMessage, "", "json", cure))
	}
	if body.ID == nil {
		return response{}, problemOf(faults.New(message.Missing, "threeDSServerTransID", "required",
			"Send the id that /preauth or /auth gave."))
	}
	id := strings.ToLower(*body.ID)
	if !message.IsUUID(id) {
		return response{}, noAuthentication
	}
	a, err := h.Engine.Authentication(context.WithoutCancel(ctx), req.account, id)
	if err != nil {
		return response{}, err
	}
	text, err := h.encodeAuthentication(a, nil)
	return response{body: text}, err
}

// badWaitProblem answers a wait that is not a whole number of seconds from 0 to 60.
var badWaitProblem = problemOf(waitFault)

// encodeAuthentication returns the JSON of an authentication.
func (h *Handler) encodeAuthentication(a *auth.Authentication, access *session.BrowserAccess) ([]byte, error) {
	all := api.Authentication{
		AuthenticationSummary: summaryOf(a), ARes: a.ARes, RReq: a.RReq, Browser: h.newBrowser(a, access),
	}
	if a.Status == api.StatusChallenge && a.Channel == "01" && a.ARes != nil {
		if err := json.Unmarshal(a.ARes, &all.Challenge); err != nil {
			return nil, err
		}
	}
	return encode(all)
}

// EventData returns the JSON of an authentication for an event: without the messages and without the authentication
// value, which the back end fetches.
func EventData(a *auth.Authentication) ([]byte, error) {
	summary := summaryOf(a)
	if a.Outcome != nil && a.Outcome.Authorisation != nil {
		told, values := *a.Outcome, *a.Outcome.Authorisation
		values.AuthenticationValue, told.Authorisation = "", &values
		summary.Outcome = &told
	}
	return encode(summary)
}

// encode returns the JSON of a value, with letters as they are.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// summaryOf returns an authentication as the API shows it, without its messages.
func summaryOf(a *auth.Authentication) api.AuthenticationSummary {
	summary := api.AuthenticationSummary{
		ID: a.ID, Status: a.Status, Reference: api.Text(a.Reference), Created: wholeSeconds(a.Created),
		MessageVersion: api.Text(a.MessageVersion),
		Card:           api.Card{Last4: a.Last4, Scheme: api.Text(a.Scheme), Schemes: append([]string{}, a.Schemes...)},
		Merchant:       api.PurchaseMerchant{Name: a.Merchant, AcquirerMerchantID: api.Text(a.AcquirerMerchant)},
		Normalised:     append([]api.Correction{}, a.Normalised...), Defaulted: append([]string{}, a.Defaulted...),
		SchemeFindings: scheme.Shapes(a.Findings), Outcome: a.Outcome,
	}
	if a.Amount != "" {
		summary.Amount = &api.PurchaseAmount{Value: a.Amount, Currency: a.Currency, Exponent: api.Text(a.Exponent)}
	}
	if r := a.ResultRefused; r != nil {
		summary.ResultRefused = &api.ResultRefused{
			At: wholeSeconds(r.At), Code: r.Code, Description: r.Description, Detail: r.Detail,
		}
	}
	return summary
}
