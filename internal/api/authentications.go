package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/auth"
	"github.com/openthreeds/threeds/internal/outcome"
	"github.com/openthreeds/threeds/message"
)

// authenticationsPath is what the path of every authentication begins with.
const authenticationsPath = "/authentications/"

// An authenticationObject is an authentication as the API shows it (docs/authentications.md).
type authenticationObject struct {
	ID             string           `json:"id"`
	Status         outcome.Status   `json:"status"`
	Reference      *string          `json:"reference"`
	Created        string           `json:"created"`
	Card           cardObject       `json:"card"`
	MessageVersion *string          `json:"messageVersion"`
	Browser        *browserObject   `json:"browser,omitempty"`
	Challenge      json.RawMessage  `json:"challenge,omitempty"`
	Outcome        *outcome.Outcome `json:"outcome"`
	Normalised     []changeObject   `json:"normalised"`
	Defaulted      []string         `json:"defaulted"`
	SchemeFindings []findingObject  `json:"schemeFindings"`
	ARes           json.RawMessage  `json:"ares,omitempty"` // "null" when none has come; absent in events
	RReq           json.RawMessage  `json:"rreq,omitempty"`
}

type cardObject struct {
	Last4   string   `json:"last4"`
	Scheme  *string  `json:"scheme"`
	Schemes []string `json:"schemes"`
}

// A changeObject says what was normalised. It has no values: they may say something of a person.
type changeObject struct {
	Pointer string `json:"pointer"`
	Rule    string `json:"rule"`
}

type findingObject struct {
	Text string `json:"text"`
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
		a, err = h.waitForAuthentication(ctx, req, a, wait, &res)
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
	pointer := "/threeDSServerTransID"
	if err := json.Unmarshal(req.body, &body); err != nil {
		pointer = ""
		return response{}, newProblem("malformed", http.StatusBadRequest, "The body is not what this operation reads", problemError{
			Pointer: &pointer, Code: message.InvalidMessage, Rule: "json",
			Cure: `Send a JSON object with the string threeDSServerTransID.`,
		})
	}
	if body.ID == nil {
		return response{}, newProblem("invalid", http.StatusBadRequest, "The request has one fault", problemError{
			Pointer: &pointer, Code: message.Missing, Rule: "required", Cure: "Send the id that /preauth or /auth gave.",
		})
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
var badWaitProblem = newProblem("invalid", http.StatusBadRequest, "The request has one fault", waitFault)

// waitForAuthentication answers a GET whose authentication is not final as soon as it is, and at the latest after
// wait. Requests that wait are counted as those of /postauth are.
func (h *Handler) waitForAuthentication(
	ctx context.Context, req *request, a *auth.Authentication, wait time.Duration, res *response,
) (*auth.Authentication, error) {
	defer h.waiting.Add(-1)
	if n := h.waiting.Add(1); h.MaxInFlight > 0 && n > h.MaxInFlight {
		res.retryAfter = true
		return a, nil
	}
	limited, ended := h.prepareWait(ctx, req, wait)
	defer ended()
	a, err := h.Engine.WaitForAuthentication(limited, req.account, a.ID)
	res.retryAfter = h.isStopping()
	return a, err
}

// encodeAuthentication returns the JSON of an authentication.
func (h *Handler) encodeAuthentication(a *auth.Authentication, access *auth.BrowserAccess) ([]byte, error) {
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
		ID: a.ID, Status: a.Status, Created: formatTime(a.Created),
		Card: cardObject{a.Last4, orNull(a.Scheme), append([]string{}, a.Schemes...)}, Outcome: a.Outcome,
		Normalised: []changeObject{}, Defaulted: append([]string{}, a.Defaulted...), SchemeFindings: []findingObject{},
	}
	if a.Reference != "" {
		o.Reference = &a.Reference
	}
	if a.MessageVersion != "" {
		o.MessageVersion = &a.MessageVersion
	}
	for _, c := range a.Changes {
		o.Normalised = append(o.Normalised, changeObject{"/" + strings.ReplaceAll(c.Element, ".", "/"), c.What})
	}
	for _, text := range a.Findings {
		o.SchemeFindings = append(o.SchemeFindings, findingObject{text})
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
