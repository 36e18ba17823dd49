package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/uuid"
	"github.com/openthreeds/threeds/internal/webhook"
	"github.com/openthreeds/threeds/message"
)

const (
	hooksPath  = "/webhook-endpoints"
	eventsPath = "/events"
)

// hookEndpoints are what is served for webhooks, by the path with ID in the place of an id.
var hookEndpoints = map[string]*endpoint{
	hooksPath:                 {problemProtocol{}, (*Handler).maxBody, true, []string{"GET", "POST"}, (*Handler).hooks},
	hooksPath + "/ID":         {problemProtocol{}, (*Handler).maxBody, true, []string{"GET", "PATCH", "DELETE"}, (*Handler).hook},
	hooksPath + "/ID/test":    {problemProtocol{}, (*Handler).maxBody, true, []string{"POST"}, (*Handler).testHook},
	hooksPath + "/ID/rotate":  {problemProtocol{}, (*Handler).maxBody, true, []string{"POST"}, (*Handler).rotateHook},
	eventsPath:                {problemProtocol{}, (*Handler).maxBody, true, []string{"GET"}, (*Handler).events},
	eventsPath + "/ID":        {problemProtocol{}, (*Handler).maxBody, true, []string{"GET"}, (*Handler).event},
	eventsPath + "/ID/resend": {problemProtocol{}, (*Handler).maxBody, true, []string{"POST"}, (*Handler).resend},
}

// hookOperationOf returns the path of an operation for webhooks, with ID in the place of an id.
func hookOperationOf(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) > 2 {
		parts[2] = "ID"
	}
	return strings.Join(parts, "/")
}

// hookEndpointOf returns what is served for webhooks under a path, nil if nothing is.
func hookEndpointOf(path string) *endpoint { return hookEndpoints[hookOperationOf(path)] }

// idIn returns the id in the path of a request for webhooks.
func (r *request) idIn() string {
	parts := strings.Split(r.path, "/")
	if len(parts) < 3 {
		return ""
	}
	return parts[2]
}

// A page is a list of objects. The objects fit on it, or Next is where the following page begins.
type page struct {
	Data any     `json:"data"`
	Next *string `json:"next"`
}

// hookProblem returns the problem that an error of the service is.
func hookProblem(err error) error {
	fault, isFault := errors.AsType[*webhook.FaultError](err)
	switch {
	case errors.Is(err, webhook.ErrNoEndpoint):
		return noHook
	case errors.Is(err, webhook.ErrNoEvent):
		return noEvent
	case isFault:
		pointer, code := "/"+fault.Member, message.Format
		if fault.Missing {
			code = message.Missing
		}
		return newProblem("invalid", http.StatusBadRequest, "The request has one fault",
			problemError{Pointer: &pointer, Code: code, Rule: fault.Rule, Cure: fault.Cure})
	}
	return err
}

var (
	noHook  = newProblem("not-found", http.StatusNotFound, "No webhook endpoint of yours has this id")
	noEvent = newProblem("not-found", http.StatusNotFound, "No event of yours has this id, or none any more")
)

// A hookRequest is what a merchant says of an endpoint. What is absent stays as it is.
type hookRequest struct {
	webhook.Change
	Secret *string `json:"secret"`
}

// readHook reads the body of a request about an endpoint.
func readHook(body []byte) (hookRequest, error) {
	var r hookRequest
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		pointer := ""
		return r, newProblem("malformed", http.StatusBadRequest, "The body is not what this operation reads", problemError{
			Pointer: &pointer, Code: message.InvalidMessage, Rule: "json",
			Cure: "Send a JSON object with url, and perhaps types, description, disabled and secret.",
		})
	}
	return r, nil
}

// hooks lists the endpoints of a merchant, or adds one.
func (h *Handler) hooks(ctx context.Context, req *request) (response, error) {
	merchant := req.account.Merchant.Name
	if req.method == http.MethodGet {
		all, err := h.Hooks.Endpoints(ctx, merchant)
		if err != nil {
			return response{}, err
		}
		views := []webhook.EndpointView{}
		for _, e := range all {
			views = append(views, e.View())
		}
		return encodeResponse(0, page{Data: views})
	}
	said, err := readHook(req.body)
	if err != nil {
		return response{}, err
	}
	var e webhook.Endpoint
	said.Apply(&e)
	if said.Secret != nil {
		if e.Secret, err = webhook.ParseSecret(*said.Secret); err != nil {
			return response{}, hookProblem(&webhook.FaultError{Member: "secret", Rule: "pattern", Cure: "Leave it out, or: " + err.Error() + "."})
		}
	}
	if req.claim != nil { // a request that repeats this one makes the same endpoint
		id, secret := req.claim.Derive("endpoint"), req.claim.Derive("secret")
		e.ID = "ep_" + uuid.FromBytes([16]byte(id[:]))
		if len(e.Secret) == 0 {
			e.Secret = secret[:]
		}
	}
	added, err := h.Hooks.Add(ctx, merchant, e)
	if err != nil {
		return response{}, hookProblem(err)
	}
	return encodeResponse(http.StatusCreated, added.ViewWithSecret())
}

// hook shows, changes or removes an endpoint.
func (h *Handler) hook(ctx context.Context, req *request) (response, error) {
	merchant, id := req.account.Merchant.Name, req.idIn()
	var e *webhook.Endpoint
	var err error
	switch req.method {
	case http.MethodDelete:
		if err := h.Hooks.Remove(ctx, merchant, id); err != nil {
			return response{}, hookProblem(err)
		}
		return response{status: http.StatusNoContent}, nil
	case http.MethodPatch:
		said, failed := readHook(req.body)
		if failed != nil {
			return response{}, failed
		}
		if said.Secret != nil {
			return response{}, hookProblem(&webhook.FaultError{
				Member: "secret", Rule: "condition", Cure: "Ask for a new one by POST " + hooksPath + "/ID/rotate.",
			})
		}
		e, err = h.Hooks.Change(ctx, merchant, id, func(e *webhook.Endpoint) error { said.Apply(e); return nil })
	default:
		e, err = h.Hooks.Endpoint(ctx, merchant, id)
	}
	if err != nil {
		return response{}, hookProblem(err)
	}
	return encodeResponse(0, e.View())
}

// testHook delivers a test event, once and at once.
func (h *Handler) testHook(ctx context.Context, req *request) (response, error) {
	status, err := h.Hooks.Test(ctx, req.account.Merchant.Name, req.idIn())
	_, isDelivery := errors.AsType[*webhook.DeliveryError](err)
	if err != nil && !isDelivery {
		return response{}, hookProblem(err)
	}
	return encodeResponse(0, webhook.ViewAttempt(status, err))
}

// rotateHook gives an endpoint a new secret.
func (h *Handler) rotateHook(ctx context.Context, req *request) (response, error) {
	secret := webhook.NewSecret()
	if req.claim != nil { // a request that repeats this one has the same secret
		derived := req.claim.Derive("secret")
		secret = derived[:]
	}
	e, err := h.Hooks.RotateTo(ctx, req.account.Merchant.Name, req.idIn(), secret)
	if err != nil {
		return response{}, hookProblem(err)
	}
	return encodeResponse(0, e.RotationView())
}

// maxEvents is the longest page of events, and usualEvents the one that nobody asks for.
const (
	maxEvents   = 100
	usualEvents = 20
)

// events lists the events of a merchant, the newest first.
func (h *Handler) events(ctx context.Context, req *request) (response, error) {
	q, err := readEventQuery(req.query)
	if err != nil {
		return response{}, err
	}
	q.Merchant = req.account.Merchant.Name
	limit := q.Limit
	q.Limit++ // one more tells whether there is a next page
	all, err := h.Hooks.Find(ctx, q)
	if err != nil {
		return response{}, err
	}
	var next *string
	if len(all) > limit {
		all = all[:limit]
		last := all[limit-1]
		cursor := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", last.Created.UnixMilli(), last.ID))
		next = &cursor
	}
	bodies := []json.RawMessage{}
	for _, e := range all {
		bodies = append(bodies, e.Body)
	}
	return encodeResponse(0, page{bodies, next})
}

// readEventQuery reads the parameters of a list of events.
func readEventQuery(query string) (store.EventQuery, error) {
	q := store.EventQuery{Limit: usualEvents}
	values, err := url.ParseQuery(query)
	if err != nil {
		return q, badParameter("", "Encode the query as RFC 3986 has it.")
	}
	for name, given := range values {
		text, err := given[0], error(nil)
		if len(given) > 1 {
			return q, badParameter(name, "Give it once.")
		}
		cure := ""
		switch name {
		case "type":
			q.Type = text
		case "authentication":
			q.About = strings.ToLower(text)
		case "from":
			q.From, err = time.Parse(time.RFC3339, text)
			cure = "Give a time of RFC 3339, such as 2026-11-25T10:00:00Z."
		case "to":
			q.To, err = time.Parse(time.RFC3339, text)
			cure = "Give a time of RFC 3339, such as 2026-11-25T10:00:00Z."
		case "limit":
			if q.Limit, err = strconv.Atoi(text); err == nil && (q.Limit < 1 || q.Limit > maxEvents) {
				err = errors.New("out of range")
			}
			cure = "Give a number from 1 to 100."
		case "cursor":
			q.AfterCreated, q.AfterID, err = readCursor(text)
			cure = "Give what the page before has as next."
		default:
			return q, badParameter(name, "Leave it out: there are type, authentication, from, to, limit and cursor.")
		}
		if err != nil {
			return q, badParameter(name, cure)
		}
	}
	return q, nil
}

// readCursor reads where a page begins.
func readCursor(text string) (time.Time, string, error) {
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return time.Time{}, "", err
	}
	created, id, _ := strings.Cut(string(plain), " ")
	ms, err := strconv.ParseInt(created, 10, 64)
	if err == nil && id == "" {
		err = errors.New("no id")
	}
	return time.UnixMilli(ms).UTC(), id, err
}

func badParameter(name, cure string) error {
	return newProblem("invalid", http.StatusBadRequest, "The request has one fault",
		problemError{Parameter: name, Code: message.Format, Rule: "pattern", Cure: cure})
}

// event shows an event with what became of it.
func (h *Handler) event(ctx context.Context, req *request) (response, error) {
	e, err := h.Hooks.Event(ctx, req.account.Merchant.Name, req.idIn())
	if err != nil {
		return response{}, hookProblem(err)
	}
	view, err := e.View()
	if err != nil {
		return response{}, err
	}
	return encodeResponse(0, view)
}

// resend delivers an event again.
func (h *Handler) resend(ctx context.Context, req *request) (response, error) {
	if err := h.Hooks.Resend(ctx, req.account.Merchant.Name, req.idIn()); err != nil {
		return response{}, hookProblem(err)
	}
	return encodeResponse(http.StatusAccepted, struct {
		ID string `json:"id"`
	}{req.idIn()})
}

// encodeResponse returns an answer with a value in JSON.
func encodeResponse(status int, value any) (response, error) {
	body, err := encode(value)
	return response{status: status, body: body}, err
}
