package api

import (
	"bytes"
	"context"
	"encoding/base64"
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
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/state/store"
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

// idIn returns the id in the path of a request for webhooks.
func (r *request) idIn() string {
	parts := strings.Split(r.path, "/")
	if len(parts) < 3 {
		return ""
	}
	return parts[2]
}

// hookProblem returns the problem that an error of the service is.
func hookProblem(err error) error {
	fault, isFault := errors.AsType[*webhook.FaultError](err)
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
	}
	return err
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
	members, err := decodeObject(body, "Send one JSON object with url, and perhaps types, description, disabled and secret, each once.")
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
	entry := faults.New(message.Format, message.Path(faults.PrintableName(name)), "unknown-member", "Leave it out, or correct its name.")
	entry.Limit = &api.Limit{Allowed: known}
	return entry
}

// expectNoMembers refuses a body with members where none is read, so that nobody takes them as obeyed.
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
		wrong = append(wrong, faults.New(message.Format, path, "unknown-member", "Leave it out: this operation reads no member."))
	}
	if len(wrong) > 0 {
		return problemOf(wrong...)
	}
	return nil
}

// hooks lists the endpoints of a merchant, or adds one.
func (h *Handler) hooks(ctx context.Context, req *request) (response, error) {
	merchant := req.account.Merchant.Name
	if req.method == http.MethodGet {
		all, err := h.Hooks.Endpoints(ctx, merchant)
		if err != nil {
			return response{}, err
		}
		views := []api.Endpoint{}
		for _, e := range all {
			views = append(views, e.View())
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
		e, err = h.Hooks.Change(ctx, merchant, id, func(e *webhook.Endpoint) error { e.Apply(&said); return nil })
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
	if err := expectNoMembers(req.body); err != nil {
		return response{}, err
	}
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
	var next api.Text
	if len(all) > limit {
		all = all[:limit]
		last := all[limit-1]
		next = api.Text(base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", last.Created.UnixMilli(), last.ID)))
	}
	bodies := []json.RawMessage{}
	for _, e := range all {
		bodies = append(bodies, e.Body)
	}
	return encodeResponse(0, api.List[json.RawMessage]{Data: bodies, Next: next})
}

// eventNames are the parameters of a list of events, in the order of the documentation.
var eventNames = []string{"type", "authentication", "from", "to", "limit", "cursor"}

// readEventQuery reads the parameters of a list of events.
func readEventQuery(query string) (store.EventQuery, error) {
	q, types := store.EventQuery{Limit: usualEvents}, textsOf(api.EventTypesFor(api.ForMerchant))
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
			rule, cure, limit = "range", "Give a whole number from 1 to 100.", limitOf(1, maxEvents)
		case "cursor":
			q.AfterCreated, q.AfterID, err = readCursor(text)
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

func badParameter(name, rule, cure string, limit *api.Limit) error {
	return problemOf(api.Fault{Parameter: name, Code: message.Format.String(), Rule: rule, Cure: cure, Limit: limit})
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
	return encodeResponse(http.StatusAccepted, api.EventID{ID: req.idIn()})
}

// encodeResponse returns an answer with a value in JSON.
func encodeResponse(status int, value any) (response, error) {
	body, err := encode(value)
	return response{status: status, body: body}, err
}
