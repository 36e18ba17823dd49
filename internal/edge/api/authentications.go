package api

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/outcome"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/message"
)

// authenticationsPath is what the path of every authentication begins with.
const authenticationsPath = "/authentications/"

// An authenticationObject is an authentication as the API shows it (docs/authentications.md).
type authenticationObject struct {
	ID             string            `json:"id"`
	Status         outcome.Status    `json:"status"`
	Reference      *string           `json:"reference"`
	Created        string            `json:"created"`
	Amount         *amountObject     `json:"amount"`
	Merchant       merchantObject    `json:"merchant"`
	Card           cardObject        `json:"card"`
	MessageVersion *string           `json:"messageVersion"`
	Browser        *browserObject    `json:"browser,omitempty"`
	Challenge      json.RawMessage   `json:"challenge,omitempty"`
	ResultRefused  *refusalObject    `json:"resultRefused"`
	Outcome        *outcome.Outcome  `json:"outcome"`
	Normalised     []correction      `json:"normalised"`
	Defaulted      []string          `json:"defaulted"`
	SchemeFindings []*scheme.Finding `json:"schemeFindings"`
	ARes           json.RawMessage   `json:"ares,omitempty"` // "null" when none has come; absent in events
	RReq           json.RawMessage   `json:"rreq,omitempty"`
}

type cardObject struct {
	Last4   string   `json:"last4"`
	Scheme  *string  `json:"scheme"`
	Schemes []string `json:"schemes"`
}

// An amountObject is the amount that was authenticated, as the AReq says it.
type amountObject struct {
	Value    string  `json:"value"` // in minor units
	Currency string  `json:"currency"`
	Exponent *string `json:"exponent"`
}

// A merchantObject is whose authentication it is: the name of its owner, and what the AReq says.
type merchantObject struct {
	Name               string  `json:"name"`
	AcquirerMerchantID *string `json:"acquirerMerchantID"`
}

// A refusalObject is a result that came and was not valid.
type refusalObject struct {
	At          string `json:"at"`
	Code        string `json:"code"`
	Description string `json:"description"`
	Detail      string `json:"detail"`
}

// challengeMembers are the members of an ARes that the SDK of an app wants for a challenge.
var challengeMembers = []string{
	"acsTransID", "acsReferenceNumber", "acsSignedContent", "acsRenderingType", "dsTransID", "messageVersion",
}

// authentication answers a GET of one authentication, at once or, with the parameter wait, when its status is final.
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

// outcome answers with the authentication whose id stands in the body, for clients of /auth and /postauth.
func (h *Handler) outcome(ctx context.Context, req *request) (response, error) {
	var body struct {
		ID *string `json:"threeDSServerTransID"`
	}
	if err := json.Unmarshal(req.body, &body); err != nil {
		cure := "Send a JSON object with the string threeDSServerTransID."
		return response{}, problemOf(faults.New(message.InvalidMessage, "", "json", cure))
	}
	if body.ID == nil {
		return response{}, problemOf(faults.New(message.Missing, "threeDSServerTransID", "required", "Send the id that /preauth or /auth gave."))
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
	o, err := objectOf(a)
	if err != nil {
		return nil, err
	}
	o.ARes, o.RReq, o.Browser = nullable(a.ARes), nullable(a.RReq), h.newBrowserObject(a, access)
	return encode(o)
}

// EventData returns the JSON of an authentication for an event: without the messages and without the authentication
// value, which the back end fetches.
func EventData(a *auth.Authentication) ([]byte, error) {
	o, err := objectOf(a)
	if err != nil {
		return nil, err
	}
	if a.Outcome != nil && a.Outcome.Authorisation != nil {
		told, values := *a.Outcome, *a.Outcome.Authorisation
		values.AuthenticationValue, told.Authorisation = nil, &values
		o.Outcome = &told
	}
	return encode(o)
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

// objectOf returns an authentication as the API shows it, without its messages.
func objectOf(a *auth.Authentication) (*authenticationObject, error) {
	o := &authenticationObject{
		ID: a.ID, Status: a.Status, Reference: orNull(a.Reference), Created: formatTime(a.Created), MessageVersion: orNull(a.MessageVersion),
		Card: cardObject{a.Last4, orNull(a.Scheme), append([]string{}, a.Schemes...)}, Outcome: a.Outcome,
		Merchant:   merchantObject{a.Merchant, orNull(a.AcquirerMerchant)},
		Normalised: newCorrections(a.Normalised), Defaulted: append([]string{}, a.Defaulted...), SchemeFindings: append([]*scheme.Finding{}, a.Findings...),
	}
	if a.Amount != "" {
		o.Amount = &amountObject{a.Amount, a.Currency, orNull(a.Exponent)}
	}
	if r := a.ResultRefused; r != nil {
		o.ResultRefused = &refusalObject{formatTime(r.At), r.Code, r.Description, r.Detail}
	}
	if a.Status == outcome.Challenge && a.Channel == "01" && a.ARes != nil {
		var err error
		if o.Challenge, err = challengeOf(a.ARes); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// challengeOf returns the members of an ARes that the SDK of an app wants.
func challengeOf(ares []byte) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(ares, &all); err != nil {
		return nil, err
	}
	some := make(map[string]json.RawMessage)
	for _, name := range challengeMembers {
		if value, ok := all[name]; ok {
			some[name] = value
		}
	}
	return json.Marshal(some)
}

// nullable is a message as a member: null when there is none.
func nullable(text []byte) json.RawMessage {
	if len(text) == 0 {
		return json.RawMessage("null")
	}
	return text
}
