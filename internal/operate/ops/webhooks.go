package ops

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/state/store"
)

// webhookActs are the acts on webhook endpoints and events. An endpoint that is enabled or disabled is a changed one.
func webhookActs() []Act {
	const endpoint, event = "id of the endpoint", "id of the event"
	act := func(name string, least operator.Role, action, object string, doors []Door) Act {
		return Act{
			Name: name, Least: least, IsForOwn: true, IsForGroups: true, Action: action, Object: object, Doors: doors,
		}
	}
	on := func(act Act, route, summary string, answer any,
		do func(a *Acts, ctx context.Context, by operator.Actor, id string) (any, error)) Act {
		act.Route, act.Summary, act.Answer, act.Do = route, summary, answer, do
		return act
	}
	const at = "webhook-endpoints/{id}"
	return []Act{
		act("webhook list", operator.Viewer, "", "", byAll),
		act("webhook add", operator.Operator, "webhook.create", endpoint, byAll),
		act("webhook change", operator.Operator, "webhook.change", endpoint, []Door{Merchants, Admin, Console}),
		on(act("webhook enable", operator.Operator, "webhook.change", endpoint, byOperators), "POST "+at+"/enable",
			"Have events delivered to an endpoint again", api.MerchantEndpoint{},
			func(a *Acts, ctx context.Context, by operator.Actor, id string) (any, error) {
				return a.changeEndpoint(ctx, by, "webhook enable", id, api.EndpointChange{Disabled: new(false)})
			}),
		on(act("webhook disable", operator.Operator, "webhook.change", endpoint, byOperators), "POST "+at+"/disable",
			"Have nothing delivered to an endpoint", api.MerchantEndpoint{},
			func(a *Acts, ctx context.Context, by operator.Actor, id string) (any, error) {
				return a.changeEndpoint(ctx, by, "webhook disable", id, api.EndpointChange{Disabled: new(true)})
			}),
		on(act("webhook remove", operator.Operator, "webhook.remove", endpoint, byAll), "DELETE "+at,
			"Remove a webhook endpoint", nil,
			func(a *Acts, ctx context.Context, by operator.Actor, id string) (any, error) {
				return nil, a.removeEndpoint(ctx, by, id)
			}),
		on(act("webhook rotate", operator.Operator, "webhook.rotate", endpoint, byAll), "POST "+at+"/rotate",
			"Give an endpoint a new secret, which is shown once", api.Secret{},
			func(a *Acts, ctx context.Context, by operator.Actor, id string) (any, error) {
				return a.RotateEndpoint(ctx, by, id, webhook.NewSecret())
			}),
		on(act("webhook test", operator.Operator, "webhook.test", endpoint, byAll), "POST "+at+"/test",
			"Post a test event immediately, and try once", api.DeliveryTest{},
			func(a *Acts, ctx context.Context, by operator.Actor, id string) (any, error) {
				return a.testEndpoint(ctx, by, id)
			}),
		act("webhook events", operator.Viewer, "", "", byAll),
		act("webhook events EVENT", operator.Viewer, "event.view", event, []Door{Admin, Command}),
		on(act("webhook resend", operator.Operator, "webhook.resend", event, byAll), "POST events/{id}/resend",
			"Deliver an event again, under the same id", api.EventID{},
			func(a *Acts, ctx context.Context, by operator.Actor, id string) (any, error) {
				return a.resendEvent(ctx, by, id)
			}),
		act("webhook resend FROM", operator.Operator, "webhook.redeliver", "merchant", byOperators),
	}
}

// view returns an endpoint as actors see it.
func (a *Acts) view(e *webhook.Endpoint) api.MerchantEndpoint {
	v := api.MerchantEndpoint{Merchant: e.Merchant, Endpoint: e.View(), FailingSince: TimeOrNull(e.Failing)}
	if a.Now().Before(e.Until) {
		v.PreviousUntil = TimeOrNull(e.Until)
	}
	return v
}

// TimeOrNull returns a time as JSON has it: null for none.
func TimeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// These say that there is none, or none that the actor may see.
var (
	errNoEndpoint = &Refusal{Missing, "", "There is no webhook endpoint with this id.", webhook.ErrNoEndpoint}
	errNoEvent    = &Refusal{Missing, "", "There is no event with this id, or none any more.", webhook.ErrNoEvent}
	errNoDelivery = &Refusal{Conflict, "", "The webhook endpoints that this event goes to were removed.",
		webhook.ErrNoDelivery}
)

// webhookRefusal returns the refusal that an error of the webhooks is.
func webhookRefusal(err error) error {
	if fault, isFault := errors.AsType[*webhook.FaultError](err); isFault {
		return &Refusal{Wrong, fault.Member, fault.Cure, fault}
	}
	return translate(err, errNoEndpoint, errNoEvent, errNoDelivery)
}

// isStorable reports whether every store takes a text to search for.
func isStorable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// findEndpoint returns an endpoint that the actor may see, if the actor may do the act.
func (a *Acts) findEndpoint(ctx context.Context, by *operator.Actor, act, id string) (e *webhook.Endpoint, err error) {
	if err := Find(act).Check(by); err != nil {
		return nil, err
	}
	if by.Merchant != "" {
		e, err = a.Hooks.Endpoint(ctx, by.Merchant, id)
	} else {
		e, err = a.Hooks.EndpointOfAny(ctx, id)
	}
	if err == nil && !by.CanSee(e.Merchant) {
		return nil, errNoEndpoint
	}
	return e, webhookRefusal(err)
}

// Endpoints returns the endpoints that the actor may see, oldest first: those of one merchant if it is named.
func (a *Acts) Endpoints(ctx context.Context, by operator.Actor, merchant string) ([]api.MerchantEndpoint, error) {
	if err := Find("webhook list").Check(&by); err != nil {
		return nil, err
	}
	find := a.Hooks.AllEndpoints
	if err := a.CheckMerchant(ctx, &by, merchant); err != nil {
		return nil, err
	}
	if merchant = cmp.Or(merchant, by.Merchant); merchant != "" {
		find = func(ctx context.Context) ([]*webhook.Endpoint, error) { return a.Hooks.Endpoints(ctx, merchant) }
	}
	found, err := find(ctx)
	all := []api.MerchantEndpoint{}
	for _, e := range found {
		if by.CanSee(e.Merchant) {
			all = append(all, a.view(e))
		}
	}
	return all, err
}

// Endpoint returns one endpoint.
func (a *Acts) Endpoint(ctx context.Context, by operator.Actor, id string) (api.MerchantEndpoint, error) {
	e, err := a.findEndpoint(ctx, &by, "webhook list", id)
	if err != nil {
		return api.MerchantEndpoint{}, err
	}
	return a.view(e), nil
}

// ReadSecret reads a secret that a requestor has chosen; nil means that one is to be made.
func ReadSecret(text *string) (webhook.Secret, error) {
	if text == nil {
		return nil, nil
	}
	secret, err := webhook.ParseSecret(*text)
	if err != nil {
		cure := "leave it out, or: " + err.Error() + "."
		return nil, webhookRefusal(&webhook.FaultError{Member: "secret", Rule: "pattern", Cure: cure})
	}
	return secret, nil
}

// AddEndpoint adds an endpoint of a merchant: "" stands for the merchant of the actor. Only this answer has the
// endpoint's secret. If the merchant already has an endpoint with the id, that one is returned.
func (a *Acts) AddEndpoint(ctx context.Context, by operator.Actor, merchant string,
	e webhook.Endpoint) (api.MerchantEndpoint, error) {
	if err := Find("webhook add").Check(&by); err != nil {
		return api.MerchantEndpoint{}, err
	}
	merchant, err := a.chooseMerchant(ctx, &by, merchant)
	if err != nil {
		return api.MerchantEndpoint{}, err
	}
	prepared, err := a.Hooks.Prepare(ctx, merchant, e)
	if err != nil {
		return api.MerchantEndpoint{}, webhookRefusal(err)
	}
	if err := a.Record(ctx, by, "webhook add", prepared.ID, nil, a.view(&prepared)); err != nil {
		return api.MerchantEndpoint{}, err
	}
	added, err := a.Hooks.Add(ctx, merchant, prepared)
	if err != nil {
		return api.MerchantEndpoint{}, webhookRefusal(err)
	}
	v := a.view(added)
	v.Endpoint = added.ViewWithSecret()
	return v, nil
}

// ChangeEndpoint changes what is there in c, and leaves the rest.
func (a *Acts) ChangeEndpoint(ctx context.Context, by operator.Actor, id string,
	c api.EndpointChange) (api.MerchantEndpoint, error) {
	return a.changeEndpoint(ctx, by, "webhook change", id, c)
}

func (a *Acts) changeEndpoint(ctx context.Context, by operator.Actor, act, id string,
	c api.EndpointChange) (api.MerchantEndpoint, error) {
	was, err := a.findEndpoint(ctx, &by, act, id)
	if err != nil {
		return api.MerchantEndpoint{}, err
	}
	after := *was
	after.Apply(&c)
	if err := a.Hooks.Check(&after); err != nil {
		return api.MerchantEndpoint{}, webhookRefusal(err)
	}
	if err := a.Record(ctx, by, act, was.ID, a.view(was), a.view(&after)); err != nil {
		return api.MerchantEndpoint{}, err
	}
	now, err := a.Hooks.Change(ctx, was.Merchant, was.ID, func(e *webhook.Endpoint) error { e.Apply(&c); return nil })
	if err != nil {
		return api.MerchantEndpoint{}, webhookRefusal(err)
	}
	return a.view(now), nil
}

// removeEndpoint removes an endpoint, even if its row does not open.
func (a *Acts) removeEndpoint(ctx context.Context, by operator.Actor, id string) error {
	if err := Find("webhook remove").Check(&by); err != nil {
		return err
	}
	merchant, err := a.Hooks.FindOwner(ctx, by.Merchant, id)
	if err == nil && !by.CanSee(merchant) {
		return errNoEndpoint
	}
	if err != nil {
		return webhookRefusal(err)
	}
	before := any(map[string]string{"merchant": merchant})
	if e, err := a.Hooks.Endpoint(ctx, merchant, id); err == nil {
		before = a.view(e)
	}
	if err := a.Record(ctx, by, "webhook remove", id, before, nil); err != nil {
		return err
	}
	return webhookRefusal(a.Hooks.Remove(ctx, merchant, id))
}

// RotateEndpoint gives an endpoint a new secret. The previous one also signs for a day. An endpoint that already has
// the secret keeps both.
func (a *Acts) RotateEndpoint(ctx context.Context, by operator.Actor, id string,
	secret webhook.Secret) (api.Secret, error) {
	was, err := a.findEndpoint(ctx, &by, "webhook rotate", id)
	if err != nil {
		return api.Secret{}, err
	}
	if err := a.Record(ctx, by, "webhook rotate", was.ID, nil, map[string]string{"merchant": was.Merchant}); err != nil {
		return api.Secret{}, err
	}
	now, err := a.Hooks.Rotate(ctx, was.Merchant, was.ID, secret)
	if err != nil {
		return api.Secret{}, webhookRefusal(err)
	}
	return now.RotationView(), nil
}

func (a *Acts) testEndpoint(ctx context.Context, by operator.Actor, id string) (api.DeliveryTest, error) {
	e, err := a.findEndpoint(ctx, &by, "webhook test", id)
	if err != nil {
		return api.DeliveryTest{}, err
	}
	if err := a.Record(ctx, by, "webhook test", e.ID, nil, map[string]string{"merchant": e.Merchant}); err != nil {
		return api.DeliveryTest{}, err
	}
	status, err := a.Hooks.Test(ctx, e.Merchant, e.ID)
	if _, isDelivery := errors.AsType[*webhook.DeliveryError](err); err != nil && !isDelivery {
		return api.DeliveryTest{}, webhookRefusal(err)
	}
	return webhook.ViewAttempt(status, err), nil
}

// The longest page of events, and the one that is meant when none is asked for.
const (
	MaxEvents   = 100
	UsualEvents = 20
)

// An EventQuery asks for events of one merchant, or of one of its endpoints. Cursor is the Next of the page before.
type EventQuery struct {
	Merchant, Endpoint string
	Type, About        string
	From, To           time.Time
	Limit              int
	Cursor             string
}

// An EventPage is a page of events, the newest first. Next is where the following one begins; empty
// means that there is none.
type EventPage struct {
	Merchant string
	Events   []webhook.Event
	Next     api.Text
}

// Events returns the events that a query asks for, without their deliveries.
func (a *Acts) Events(ctx context.Context, by operator.Actor, q EventQuery) (page EventPage, err error) {
	if err := Find("webhook events").Check(&by); err != nil {
		return page, err
	}
	for _, of := range []struct{ name, value string }{
		{"merchant", q.Merchant}, {"endpoint", q.Endpoint}, {"type", q.Type}, {"authentication", q.About},
	} {
		if !isStorable(of.value) {
			return page, refuseMember(of.name, "want a text without control characters.")
		}
	}
	page.Merchant = cmp.Or(q.Merchant, by.Merchant)
	if q.Endpoint != "" {
		e, err := a.findEndpoint(ctx, &by, "webhook events", q.Endpoint)
		if err != nil {
			return page, err
		}
		page.Merchant = e.Merchant
	}
	switch {
	case page.Merchant == "":
		return page, refuseMember("merchant", "say whose events, or give an endpoint.")
	case !by.CanSee(page.Merchant):
		return page, errNoMerchant
	}
	if by.Merchant == "" {
		if err := a.CheckMerchant(ctx, &by, page.Merchant); err != nil {
			return page, err
		}
	}
	if err := webhook.CheckType(api.EventType(q.Type)); err != nil {
		return page, refuseMember("type", "%v.", err)
	}
	find := store.EventQuery{
		Merchant: page.Merchant, Type: q.Type, About: strings.ToLower(q.About), From: q.From, To: q.To,
	}
	if find.AfterCreated, find.AfterID, err = ReadCursor(q.Cursor); err != nil {
		return page, refuseMember("cursor", "want the value of next in the answer before.")
	}
	limit := cmp.Or(q.Limit, UsualEvents)
	find.Limit = limit + 1 // one more tells whether there is a next page
	page.Events, err = a.Hooks.Find(ctx, find)
	if len(page.Events) > limit {
		page.Events = page.Events[:limit]
		last := page.Events[limit-1]
		page.Next = cursorAfter(last.Created, last.ID)
	}
	return page, err
}

// cursorAfter returns the cursor of the page that begins after an event.
func cursorAfter(created time.Time, id string) api.Text {
	return api.Text(base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", created.UnixMilli(), id)))
}

// ReadCursor reads where a page begins; "" is the first one.
func ReadCursor(text string) (created time.Time, id string, err error) {
	if text == "" {
		return time.Time{}, "", nil
	}
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return time.Time{}, "", err
	}
	at, id, _ := strings.Cut(string(plain), " ")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err == nil && (id == "" || !isStorable(id)) {
		err = errors.New("no id")
	}
	return time.UnixMilli(ms).UTC(), id, err
}

// EventLines returns a page of events with their deliveries: those to one endpoint if the query names it. next is where
// the following page begins; empty means that there is none.
func (a *Acts) EventLines(ctx context.Context, by operator.Actor,
	q EventQuery) (lines []api.MerchantEvent, next api.Text, err error) {
	page, err := a.Events(ctx, by, q)
	if err != nil {
		return nil, "", err
	}
	lines = []api.MerchantEvent{}
	for i := range page.Events {
		line, err := a.newEventLine(ctx, page.Merchant, page.Events[i].ID, q.Endpoint)
		switch {
		case errors.Is(err, webhook.ErrNoEvent): // it was swept meanwhile
		case err != nil:
			return nil, "", err
		case q.Endpoint == "" || len(line.Deliveries) > 0:
			lines = append(lines, line)
		}
	}
	return lines, page.Next, nil
}

func (a *Acts) newEventLine(ctx context.Context, merchant, id, endpoint string) (api.MerchantEvent, error) {
	e, err := a.Hooks.Event(ctx, merchant, id)
	if err != nil {
		return api.MerchantEvent{}, err
	}
	line := api.MerchantEvent{ID: e.ID, Merchant: merchant, Timestamp: e.Created, Deliveries: []api.Delivery{}}
	if line.Type, line.Authentication, err = e.Says(); err != nil {
		return api.MerchantEvent{}, err
	}
	for _, d := range e.DeliveryViews() {
		if endpoint == "" || d.Endpoint == endpoint {
			line.Deliveries = append(line.Deliveries, d)
		}
	}
	return line, nil
}

// findEvent returns the merchant of an event, if the actor may do the act and see it.
func (a *Acts) findEvent(ctx context.Context, by *operator.Actor, act, id string) (merchant string, err error) {
	if err := Find(act).Check(by); err != nil {
		return "", err
	}
	if !isStorable(id) {
		return "", errNoEvent
	}
	merchant, err = a.Hooks.MerchantOfEvent(ctx, id)
	if err == nil && !by.CanSee(merchant) {
		err = errNoEvent
	}
	return merchant, webhookRefusal(err)
}

// Event returns an event with its deliveries, and its merchant. First it records the access in the audit trail.
func (a *Acts) Event(ctx context.Context, by operator.Actor, id string) (e webhook.Event, merchant string, err error) {
	if merchant, err = a.findEvent(ctx, &by, "webhook events EVENT", id); err != nil {
		return e, "", err
	}
	if e, err = a.Hooks.Event(ctx, merchant, id); err != nil {
		return e, "", webhookRefusal(err)
	}
	return e, merchant, a.Record(ctx, by, "webhook events EVENT", e.ID, nil, nil)
}

func (a *Acts) resendEvent(ctx context.Context, by operator.Actor, id string) (api.EventID, error) {
	merchant, err := a.findEvent(ctx, &by, "webhook resend", id)
	if err != nil {
		return api.EventID{}, err
	}
	if _, err := a.Hooks.EventToResend(ctx, merchant, id); err != nil {
		return api.EventID{}, webhookRefusal(err)
	}
	if err := a.Record(ctx, by, "webhook resend", id, nil, map[string]string{"merchant": merchant}); err != nil {
		return api.EventID{}, err
	}
	return api.EventID{ID: id}, webhookRefusal(a.Hooks.Resend(ctx, merchant, id))
}

// MaxResent is how many events one act looks at, so that it ends soon. The answer says how to go on.
const MaxResent = 500

// ResendEvents delivers events of one merchant again, the newest first: those that were made in a span of time, or of
// these the ones with a delivery whose last attempt has failed.
func (a *Acts) ResendEvents(ctx context.Context, by operator.Actor, asked api.ResendRequest) (api.Resent, error) {
	const name = "webhook resend FROM"
	if err := Find(name).Check(&by); err != nil {
		return api.Resent{}, err
	}
	merchant, err := a.merchantOfResend(ctx, &by, &asked)
	if err != nil {
		return api.Resent{}, err
	}
	switch {
	case asked.From.IsZero():
		return api.Resent{}, refuseMember("from", "say since when.")
	case !asked.To.IsZero() && !asked.To.After(asked.From):
		return api.Resent{}, refuseMember("to", "want a time after from.")
	}
	r := webhook.Resending{Endpoint: asked.Endpoint, HasFailed: asked.Failed, Find: store.EventQuery{
		Merchant: merchant, From: asked.From, To: asked.To, Limit: MaxResent,
	}}
	if r.Find.AfterCreated, r.Find.AfterID, err = ReadCursor(asked.Cursor); err != nil {
		return api.Resent{}, refuseMember("cursor", "want the value of next in the answer before.")
	}
	if err := a.Record(ctx, by, name, merchant, nil, asked); err != nil {
		return api.Resent{}, err
	}
	done := api.Resent{}
	var last store.Event
	if done.Events, last, err = a.Hooks.ResendAll(ctx, r); last.ID != "" {
		done.Next = cursorAfter(last.Created, last.ID)
	}
	return done, err
}

// merchantOfResend returns the merchant whose events are delivered again, which the actor may see.
func (a *Acts) merchantOfResend(ctx context.Context, by *operator.Actor, asked *api.ResendRequest) (string, error) {
	merchant := cmp.Or(asked.Merchant, by.Merchant)
	if asked.Endpoint != "" {
		e, err := a.findEndpoint(ctx, by, "webhook resend FROM", asked.Endpoint)
		if err != nil {
			return "", err
		}
		if merchant = cmp.Or(merchant, e.Merchant); merchant != e.Merchant {
			return "", errNoEndpoint
		}
	}
	switch {
	case merchant == "":
		return "", refuseMember("merchant", "say whose events, or give an endpoint.")
	case !by.CanSee(merchant):
		return "", errNoMerchant
	}
	return merchant, a.CheckMerchant(ctx, by, merchant)
}
