package admin

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/state/store"
)

func newHook(e *webhook.Endpoint, now time.Time) api.MerchantEndpoint {
	h := api.MerchantEndpoint{Merchant: e.Merchant, Endpoint: e.View(), FailingSince: timeOrNull(e.Failing)}
	if now.Before(e.Until) {
		h.PreviousUntil = timeOrNull(e.Until)
	}
	return h
}

// errNoHook and errNoEvent say that there is none, or none that the actor may see.
var (
	errNoHook  = refuse(http.StatusNotFound, "There is no webhook endpoint with this id.")
	errNoEvent = refuse(http.StatusNotFound, "There is no event with this id, or none any more.")

	errNoDelivery = refuse(http.StatusConflict, "The webhook endpoints that this event goes to were removed.")
)

// hookProblem returns the answer to an error of the webhooks.
func hookProblem(err error) error {
	fault, isFault := errors.AsType[*webhook.FaultError](err)
	switch {
	case errors.Is(err, webhook.ErrNoEndpoint):
		return errNoHook
	case errors.Is(err, webhook.ErrNoEvent):
		return errNoEvent
	case errors.Is(err, webhook.ErrNoDelivery):
		return errNoDelivery
	case isFault:
		return refuse(http.StatusBadRequest, "%s: %s", fault.Member, fault.Cure)
	}
	return err
}

// findHook returns the endpoint that the path of a request names, if the actor may see it.
func (h *Handler) findHook(r *request) (*webhook.Endpoint, error) {
	e, err := h.Hooks.EndpointOfAny(r.Context(), r.PathValue("id"))
	if errors.Is(err, webhook.ErrNoEndpoint) || err == nil && !r.actor.CanSee(e.Merchant) {
		return nil, errNoHook
	}
	return e, err
}

func listHooks(h *Handler, r *request) (any, error) {
	wanted := r.URL.Query().Get("merchant")
	if err := h.checkName(r, wanted); err != nil {
		return nil, err
	}
	find := h.Hooks.AllEndpoints
	if wanted != "" {
		find = func(ctx context.Context) ([]*webhook.Endpoint, error) { return h.Hooks.Endpoints(ctx, wanted) }
	}
	found, err := find(r.Context())
	if err != nil {
		return nil, err
	}
	all := list[api.MerchantEndpoint]{Data: []api.MerchantEndpoint{}}
	for _, e := range found {
		if r.actor.CanSee(e.Merchant) {
			all.Data = append(all.Data, newHook(e, h.Now()))
		}
	}
	return all, nil
}

func showHook(h *Handler, r *request) (any, error) {
	e, err := h.findHook(r)
	if err != nil {
		return nil, err
	}
	return newHook(e, h.Now()), nil
}

func addHook(h *Handler, r *request) (any, error) {
	var asked api.MerchantEndpointChange
	if err := r.decode(&asked); err != nil {
		return nil, err
	}
	var err error
	if asked.Merchant, err = h.chooseMerchant(r, asked.Merchant); err != nil {
		return nil, err
	}
	var e webhook.Endpoint
	e.Apply(&asked.EndpointChange)
	if asked.Secret != nil {
		if e.Secret, err = webhook.ParseSecret(*asked.Secret); err != nil {
			return nil, refuse(http.StatusBadRequest, "secret: leave it out, or: %v.", err)
		}
	}
	added, err := h.Hooks.Add(r.Context(), asked.Merchant, e)
	if err != nil {
		return nil, hookProblem(err)
	}
	answer := newHook(added, h.Now())
	if err := h.record(r, "webhook.create", added.ID, nil, answer); err != nil { // no endpoint without a trace
		return nil, errors.Join(err, h.Hooks.Remove(context.WithoutCancel(r.Context()), added.Merchant, added.ID))
	}
	answer.Endpoint = added.ViewWithSecret()
	return created{answer}, nil
}

func changeHook(h *Handler, r *request) (any, error) {
	var asked api.MerchantEndpointChange
	if err := r.decode(&asked); err != nil {
		return nil, err
	}
	was, err := h.findHook(r)
	switch {
	case err != nil:
		return nil, err
	case asked.Merchant != "" && asked.Merchant != was.Merchant:
		return nil, refuse(http.StatusBadRequest, "merchant: it cannot be changed.")
	case asked.Secret != nil:
		return nil, refuse(http.StatusBadRequest, "secret: POST %swebhook-endpoints/ID/rotate makes a new one.", Prefix)
	}
	after := *was
	after.Apply(&asked.EndpointChange)
	if err := h.Hooks.Check(&after); err != nil {
		return nil, hookProblem(err)
	}
	if err := h.record(r, "webhook.change", was.ID, newHook(was, h.Now()), newHook(&after, h.Now())); err != nil {
		return nil, err
	}
	now, err := h.Hooks.Change(r.Context(), was.Merchant, was.ID, func(e *webhook.Endpoint) error {
		e.Apply(&asked.EndpointChange)
		return nil
	})
	if err != nil {
		return nil, hookProblem(err)
	}
	return newHook(now, h.Now()), nil
}

func removeHook(h *Handler, r *request) (any, error) {
	was, err := h.findHook(r)
	if err != nil {
		return nil, err
	}
	if err := h.record(r, "webhook.remove", was.ID, newHook(was, h.Now()), nil); err != nil {
		return nil, err
	}
	return nil, hookProblem(h.Hooks.Remove(r.Context(), was.Merchant, was.ID))
}

// rotateHook gives an endpoint a new secret. The former one signs as well for a day.
func rotateHook(h *Handler, r *request) (any, error) {
	was, err := h.findHook(r)
	if err != nil {
		return nil, err
	}
	if err := h.record(r, "webhook.rotate", was.ID, nil, map[string]string{"merchant": was.Merchant}); err != nil {
		return nil, err
	}
	now, err := h.Hooks.Rotate(r.Context(), was.Merchant, was.ID)
	if err != nil {
		return nil, hookProblem(err)
	}
	return now.RotationView(), nil
}

func testHook(h *Handler, r *request) (any, error) {
	e, err := h.findHook(r)
	if err != nil {
		return nil, err
	}
	if err := h.record(r, "webhook.test", e.ID, nil, map[string]string{"merchant": e.Merchant}); err != nil {
		return nil, err
	}
	status, err := h.Hooks.Test(r.Context(), e.Merchant, e.ID)
	if _, isDelivery := errors.AsType[*webhook.DeliveryError](err); err != nil && !isDelivery {
		return nil, hookProblem(err)
	}
	return webhook.ViewAttempt(status, err), nil
}

const (
	usualEvents = 20
	maxEvents   = 100
)

// listEvents lists the events of one merchant, or those of one of its endpoints.
func listEvents(h *Handler, r *request) (any, error) {
	q, endpoint, err := h.readEventQuery(r)
	if err != nil {
		return nil, err
	}
	limit := q.Limit
	q.Limit++ // one more tells whether there is a next page
	found, err := h.Hooks.Find(r.Context(), q)
	if err != nil {
		return nil, err
	}
	all := list[api.MerchantEvent]{Data: []api.MerchantEvent{}}
	if len(found) > limit {
		found = found[:limit]
		last := found[limit-1]
		all.Next = api.Text(base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", last.Created.UnixMilli(), last.ID)))
	}
	for i := range found {
		one, err := h.newEvent(r.Context(), q.Merchant, found[i].ID, endpoint)
		switch {
		case errors.Is(err, webhook.ErrNoEvent): // it was swept meanwhile
		case err != nil:
			return nil, err
		case endpoint == "" || len(one.Deliveries) > 0:
			all.Data = append(all.Data, one)
		}
	}
	return all, nil
}

// newEvent returns an event with its deliveries, those to one endpoint if it is named.
func (h *Handler) newEvent(ctx context.Context, merchant, id, endpoint string) (api.MerchantEvent, error) {
	e, err := h.Hooks.Event(ctx, merchant, id)
	if err != nil {
		return api.MerchantEvent{}, err
	}
	var body api.Event[struct{ ID api.Text }]
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return api.MerchantEvent{}, err
	}
	one := api.MerchantEvent{
		ID: e.ID, Merchant: merchant, Type: body.Type, Timestamp: e.Created, Authentication: body.Data.ID, Deliveries: []api.Delivery{},
	}
	for _, d := range e.DeliveryViews() {
		if endpoint == "" || d.Endpoint == endpoint {
			one.Deliveries = append(one.Deliveries, d)
		}
	}
	return one, nil
}

// readEventQuery reads which events are asked for, and of which endpoint; "" means of any.
func (h *Handler) readEventQuery(r *request) (q store.EventQuery, endpoint string, err error) {
	asked := r.URL.Query()
	for name, values := range asked {
		if !isStorable(values[0]) {
			return q, "", refuse(http.StatusBadRequest, "%s: want a text without control characters.", name)
		}
	}
	q = store.EventQuery{
		Merchant: cmp.Or(asked.Get("merchant"), r.actor.Merchant), Type: asked.Get("type"),
		About: strings.ToLower(asked.Get("authentication")), Limit: usualEvents,
	}
	if endpoint = asked.Get("endpoint"); endpoint != "" {
		r.SetPathValue("id", endpoint)
		e, err := h.findHook(r)
		if err != nil {
			return q, "", err
		}
		q.Merchant = e.Merchant
	}
	switch {
	case q.Merchant == "":
		return q, "", refuse(http.StatusBadRequest, "merchant: say whose events, or give an endpoint.")
	case !r.actor.CanSee(q.Merchant):
		return q, "", errNoMerchant
	}
	if err := h.checkName(r, q.Merchant); err != nil {
		return q, "", err
	}
	if err := webhook.CheckType(api.EventType(q.Type)); err != nil {
		return q, "", refuse(http.StatusBadRequest, "type: %v.", err)
	}
	if q.From, q.To, err = readTimes(asked.Get("from"), asked.Get("to")); err != nil {
		return q, "", err
	}
	if text := asked.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > maxEvents {
			return q, "", refuse(http.StatusBadRequest, "limit: want a number from 1 to %d.", maxEvents)
		}
	}
	if text := asked.Get("cursor"); text != "" {
		plain, err := base64.RawURLEncoding.DecodeString(text)
		created, id, ok := strings.Cut(string(plain), " ")
		ms, badTime := strconv.ParseInt(created, 10, 64)
		if err != nil || badTime != nil || !ok || !isStorable(id) {
			return q, "", refuse(http.StatusBadRequest, "cursor: want the value of next in the answer before.")
		}
		q.AfterCreated, q.AfterID = time.UnixMilli(ms).UTC(), id
	}
	return q, endpoint, nil
}

// isStorable reports whether every store takes a text to search for.
func isStorable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// merchantOfEvent returns whose the event is that the path of a request names, if the actor may see it.
func (h *Handler) merchantOfEvent(r *request) (string, error) {
	id := r.PathValue("id")
	if !isStorable(id) {
		return "", errNoEvent
	}
	owner, err := h.Hooks.MerchantOfEvent(r.Context(), id)
	if errors.Is(err, webhook.ErrNoEvent) || err == nil && !r.actor.CanSee(owner) {
		return "", errNoEvent
	}
	return owner, err
}

// showEvent shows an event with what it says of the authentication, after that stands in the audit trail.
func showEvent(h *Handler, r *request) (any, error) {
	owner, err := h.merchantOfEvent(r)
	if err != nil {
		return nil, err
	}
	e, err := h.Hooks.Event(r.Context(), owner, r.PathValue("id"))
	if err != nil {
		return nil, hookProblem(err)
	}
	if err := h.record(r, "event.view", e.ID, nil, nil); err != nil {
		return nil, err
	}
	view, err := e.View()
	return api.MerchantEventWithDeliveries[json.RawMessage]{Merchant: owner, EventWithDeliveries: view}, err
}

func resendEvent(h *Handler, r *request) (any, error) {
	owner, err := h.merchantOfEvent(r)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if _, err := h.Hooks.EventToResend(r.Context(), owner, id); err != nil {
		return nil, hookProblem(err)
	}
	if err := h.record(r, "webhook.resend", id, nil, map[string]string{"merchant": owner}); err != nil {
		return nil, err
	}
	if err := h.Hooks.Resend(r.Context(), owner, id); err != nil {
		return nil, hookProblem(err)
	}
	return api.EventID{ID: id}, nil
}
