package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/uuid"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/message"
)

const (
	hooksPath  = "/webhook-endpoints"
	eventsPath = "/events"
)

// hookEndpoints are what is served for webhooks, by the path with ID in the place of an id.
var hookEndpoints = map[string]*endpoint{
	hooksPath: {problemProtocol{}, (*Handler).maxBody, true, []string{"GET", "POST"}, (*Handler).hooks},
	hooksPath + "/ID": {problemProtocol{}, (*Handler).maxBody, true, []string{"GET", "PATCH", "DELETE"},
		(*Handler).hook},
	hooksPath + "/ID/test":   {problemProtocol{}, (*Handler).maxBody, true, []string{"POST"}, doAct("webhook test", 0)},
	hooksPath + "/ID/rotate": {problemProtocol{}, (*Handler).maxBody, true, []string{"POST"}, (*Handler).rotateHook},
	eventsPath:               {problemProtocol{}, (*Handler).maxBody, true, []string{"GET"}, (*Handler).events},
	eventsPath + "/ID":       {problemProtocol{}, (*Handler).maxBody, true, []string{"GET"}, (*Handler).event},
	eventsPath + "/ID/resend": {problemProtocol{}, (*Handler).maxBody, true, []string{"POST"},
		doAct("webhook resend", http.StatusAccepted)},
}

// hookOperationOf returns the path of an operation for webhooks, with ID in the place of an id.
func hookOperationOf(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) > 2 {
		parts[2] = "ID"
	}
	return strings.Join(parts, "/")
}

// idIn returns the id in the path of a request for webhooks.
func (r *request) idIn() string {
	parts := strings.Split(r.path, "/")
	if len(parts) < 3 {
		return ""
	}
	return parts[2]
}

// errStore says that what is kept of webhooks, or the audit trail, could not be read or written.
var errStore = errors.New("api: the store")

// hookProblem returns the problem that an error of the service is: what is no refusal comes from the store.
func hookProblem(err error) error {
	fault, isFault := errors.AsType[*webhook.FaultError](err)
	refusal, isRefusal := errors.AsType[*ops.Refusal](err)
	switch {
	case errors.Is(err, webhook.ErrNoEndpoint):
		return noHook
	case errors.Is(err, webhook.ErrNoEvent):
		return noEvent
	case errors.Is(err, webhook.ErrNoDelivery):
		return noDelivery
	case isFault:
		code := message.Format
		if fault.Missing {
			code = message.Missing
		}
		entry := faults.New(code, message.Path(fault.Member), fault.Rule, fault.Cure)
		entry.Limit = limitOfFault(fault)
		return problemOf(entry)
	case isRefusal && refusal.Why == ops.Wrong:
		return badParameter(refusal.Member, "pattern", refusal.Text, nil)
	}
	return fmt.Errorf("%w: %w", errStore, err)
}

// limitOfFault returns what would be right, nil if only words can say that.
func limitOfFault(fault *webhook.FaultError) *api.Limit {
	if fault.Most == 0 && fault.Allowed == nil {
		return nil
	}
	limit := &api.Limit{Allowed: textsOf(fault.Allowed)}
	if fault.Most > 0 {
		limit.Max = &fault.Most
	}
	return limit
}

var (
	noHook  = newProblem("not-found", http.StatusNotFound, "No webhook endpoint of yours has this id")
	noEvent = newProblem("not-found", http.StatusNotFound, "No event of yours has this id, or none any more")

	noDelivery = newProblem("no-endpoint", http.StatusConflict, "The endpoints that this event goes to were removed")
)

// hookNames are the members of a request about an endpoint, in the order of the documentation.
var hookNames = []string{"url", "types", "description", "disabled", "secret"}

// readHook reads the body of a request about an endpoint. It names each member that is unknown or of another type.
func readHook(body []byte) (api.EndpointChange, error) {
	var r api.EndpointChange
	members, err := decodeObject(body,
		"Send one JSON object with url, and perhaps types, description, disabled and secret, each once.")
	if err != nil {
		return r, err
	}
	var wrong []api.Fault
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var member any
		want := "a string"
		switch name {
		case "url":
			member = &r.URL
		case "types":
			member, want = &r.Types, "an array of strings"
		case "description":
			member = &r.Description
		case "disabled":
			member, want = &r.Disabled, "a boolean"
		case "secret":
			member = &r.Secret
		default:
			wrong = append(wrong, unknownMember(name, hookNames))
			continue
		}
		if json.Unmarshal(members[name], member) != nil {
			entry := faults.New(message.Format, message.Path(name), "type", "Send "+name+" as "+want+".")
			entry.Found = faults.TypeOf(members[name])
			wrong = append(wrong, entry)
		}
	}
	if len(wrong) > 0 {
		return r, problemOf(wrong...)
	}
	return r, nil
}

// decodeObject returns the members of an object, or the problem of a body that is none or has a member twice.
func decodeObject(body []byte, cure string) (map[string]jsontext.Value, error) {
	var members map[string]jsontext.Value
	if err := jsonv2.Unmarshal(body, &members); err != nil || members == nil {
		return nil, problemOf(faults.New(message.InvalidMessage, "", "json", cure))
	}
	return members, nil
}

// unknownMember returns the fault of a member that there is not.
func unknownMember(name string, known []string) api.Fault {
	entry := faults.New(message.Format, message.Path(faults.PrintableName(name)), "unknown-member",
		"Leave it out, or correct its name.")
	entry.Limit = &api.Limit{Allowed: known}
	return entry
}

// expectNoMembers refuses a body with members where none is read, so that the caller does not believe that they had an
// effect.
func expectNoMembers(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	members, err := decodeObject(body, "Send no body, or {}.")
	if err != nil {
		return err
	}
	var wrong []api.Fault
	for _, name := range slices.Sorted(maps.Keys(members)) {
		path := message.Path(faults.PrintableName(name))
		wrong = append(wrong, faults.New(message.Format, path, "unknown-member",
			"Leave it out: this operation reads no member."))
	}
	if len(wrong) > 0 {
		return problemOf(wrong...)
	}
	return nil
}

// by returns the API key of a request as an actor.
func (r *request) by() operator.Actor { return ops.KeyActor(r.account, r.from) }

// doAct returns a function that does an act on the thing whose id is in the path, and answers with the result.
func doAct(name string, status int) func(*Handler, context.Context, *request) (response, error) {
	return func(h *Handler, ctx context.Context, req *request) (response, error) {
		done, err := ops.Find(name).Do(h.Acts, ctx, req.by(), req.idIn())
		switch {
		case err != nil:
			return response{}, hookProblem(err)
		case done == nil:
			return response{status: http.StatusNoContent}, nil
		}
		return encodeResponse(status, done)
	}
}

// hooks lists the endpoints of a merchant, or adds one.
func (h *Handler) hooks(ctx context.Context, req *request) (response, error) {
	if req.method == http.MethodGet {
		all, err := h.Acts.Endpoints(ctx, req.by(), "")
		if err != nil {
			return response{}, hookProblem(err)
		}
		views := []api.Endpoint{}
		for _, e := range all {
			views = append(views, e.Endpoint)
		}
		return encodeResponse(0, api.List[api.Endpoint]{Data: views})
	}
	said, err := readHook(req.body)
	if err != nil {
		return response{}, err
	}
	var e webhook.Endpoint
	e.Apply(&said)
	if said.Secret != nil {
		if e.Secret, err = webhook.ParseSecret(*said.Secret); err != nil {
			return response{},
				hookProblem(&webhook.FaultError{Member: "secret", Rule: "pattern", Cure: "Leave it out, or: " + err.Error() + "."})
		}
	}
	if req.claim != nil { // a request that repeats this one makes the same endpoint
		id, secret := req.claim.Derive("endpoint"), req.claim.Derive("secret")
		e.ID = "ep_" + uuid.FromBytes([16]byte(id[:]))
		if len(e.Secret) == 0 {
			e.Secret = secret[:]
		}
	}
	added, err := h.Acts.AddEndpoint(ctx, req.by(), "", e)
	if err != nil {
		return response{}, hookProblem(err)
	}
	return encodeResponse(http.StatusCreated, added.Endpoint)
}

// hook shows, changes or removes an endpoint.
func (h *Handler) hook(ctx context.Context, req *request) (response, error) {
	var e api.MerchantEndpoint
	var err error
	switch req.method {
	case http.MethodDelete:
		return doAct("webhook remove", 0)(h, ctx, req)
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
		e, err = h.Acts.ChangeEndpoint(ctx, req.by(), req.idIn(), said)
	default:
		e, err = h.Acts.Endpoint(ctx, req.by(), req.idIn())
	}
	if err != nil {
		return response{}, hookProblem(err)
	}
	return encodeResponse(0, e.Endpoint)
}

// rotateHook gives an endpoint a new secret.
func (h *Handler) rotateHook(ctx context.Context, req *request) (response, error) {
	if err := expectNoMembers(req.body); err != nil {
		return response{}, err
	}
	secret := webhook.NewSecret()
	if req.claim != nil { // a request that repeats this one has the same secret
		derived := req.claim.Derive("secret")
		secret = derived[:]
	}
	rotated, err := h.Acts.RotateEndpoint(ctx, req.by(), req.idIn(), secret)
	if err != nil {
		return response{}, hookProblem(err)
	}
	return encodeResponse(0, rotated)
}

// events lists the events of a merchant, the newest first.
func (h *Handler) events(ctx context.Context, req *request) (response, error) {
	q, err := readEventQuery(req.query)
	if err != nil {
		return response{}, err
	}
	found, err := h.Acts.Events(ctx, req.by(), q)
	if err != nil {
		return response{}, hookProblem(err)
	}
	bodies := []json.RawMessage{}
	for _, e := range found.Events {
		bodies = append(bodies, e.Body)
	}
	return encodeResponse(0, api.List[json.RawMessage]{Data: bodies, Next: found.Next})
}

// eventNames are the parameters of a list of events, in the order of the documentation.
var eventNames = []string{"type", "authentication", "from", "to", "limit", "cursor"}

// readEventQuery reads the parameters of a list of events.
func readEventQuery(query string) (ops.EventQuery, error) {
	q, types := ops.EventQuery{}, textsOf(api.EventTypesFor(api.ForMerchant))
	values, err := url.ParseQuery(query)
	if err != nil {
		return q, badParameter("", "pattern", "Encode the query as RFC 3986 has it.", nil)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(eventNames, name) {
			limit := &api.Limit{Allowed: eventNames}
			return q, badParameter(faults.PrintableName(name), "unknown-member", "Leave it out, or correct its name.", limit)
		}
		text, err := values[name][0], error(nil)
		if len(values[name]) > 1 {
			return q, badParameter(name, "duplicate-member", "Give it once.", nil)
		}
		rule, cure, limit := "pattern", "", (*api.Limit)(nil)
		switch name {
		case "type":
			if q.Type = text; !slices.Contains(types, text) {
				limit = &api.Limit{Allowed: types}
				return q, badParameter(name, "unknown-code", "Send one of the values that limit lists.", limit)
			}
		case "authentication":
			q.About = text
		case "from":
			q.From, err = time.Parse(time.RFC3339, text)
			cure = "Give a time of RFC 3339, such as 2026-11-25T10:00:00Z."
		case "to":
			q.To, err = time.Parse(time.RFC3339, text)
			cure = "Give a time of RFC 3339, such as 2026-11-25T10:00:00Z."
		case "limit":
			if q.Limit, err = strconv.Atoi(text); err == nil && (q.Limit < 1 || q.Limit > ops.MaxEvents) {
				err = errors.New("out of range")
			}
			rule, cure, limit = "range", "Give a whole number from 1 to 100.", limitOf(1, ops.MaxEvents)
		case "cursor":
			q.Cursor = text
			_, _, err = ops.ReadCursor(text)
			cure = "Give what the page before has as next."
		}
		if err != nil {
			return q, badParameter(name, rule, cure, limit)
		}
	}
	if endsBeforeItBegins(q.From, q.To) {
		return q, badParameter("to", "condition", spanCure, nil)
	}
	return q, nil
}

func badParameter(name, rule, cure string, limit *api.Limit) error {
	return problemOf(api.Fault{Parameter: name, Code: message.Format.String(), Rule: rule, Cure: cure, Limit: limit})
}

// event shows an event of the merchant's own with what became of it. Only a look of an operator is in the audit trail.
func (h *Handler) event(ctx context.Context, req *request) (response, error) {
	e, err := h.Acts.Hooks.Event(ctx, req.account.Merchant.Name, req.idIn())
	if err != nil {
		return response{}, hookProblem(err)
	}
	view, err := e.View()
	if err != nil {
		return response{}, err
	}
	return encodeResponse(0, view)
}

// encodeResponse returns an answer with a value in JSON.
func encodeResponse(status int, value any) (response, error) {
	body, err := encode(value)
	return response{status: status, body: body}, err
}
