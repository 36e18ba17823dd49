package pages

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/operate/webhook"
)

// A hookEntry is a webhook endpoint of the page.
type hookEntry struct{ api.MerchantEndpoint }

// Pill returns the state of an endpoint.
func (e *hookEntry) Pill() pill {
	switch {
	case e.Disabled:
		return pill{"calm", "dash", "Disabled"}
	case e.FailingSince != nil:
		return pill{"warn", "warning", "Failing"}
	}
	return pill{"good", "check", "Active"}
}

// merchantEvents returns the types of events that a merchant may ask for.
func merchantEvents() (types []string) {
	for _, t := range api.EventTypesFor(api.ForMerchant) {
		types = append(types, string(t))
	}
	return types
}

// Told says which events the endpoint gets.
func (e *hookEntry) Told() string {
	if len(e.Types) == len(merchantEvents()) {
		return "all"
	}
	var names []string
	for _, t := range e.Types {
		names = append(names, strings.TrimPrefix(string(t), "authentication."))
	}
	return strings.Join(names, ", ")
}

// A delivery is how far an event has come on its way to an endpoint.
type delivery struct{ api.Delivery }

// Pill returns the state of a delivery.
func (d *delivery) Pill() pill {
	switch {
	case d.Next != nil && d.Error != "":
		return pill{"warn", "warning", "Trying again"}
	case d.Next != nil:
		return pill{"info", "clock", "On its way"}
	case d.Error != "":
		return pill{"bad", "cross", "Given up"}
	}
	return pill{"good", "check", "Delivered"}
}

// Answer says how the last attempt ended.
func (d *delivery) Answer() string {
	switch {
	case d.Status != nil:
		return "HTTP " + strconv.Itoa(*d.Status)
	case d.Error != "":
		return string(d.Error)
	}
	return ""
}

// An eventEntry is an event of the page.
type eventEntry struct {
	api.MerchantEvent
	Deliveries []delivery
}

// maxEventsShown is how many events a page has.
const maxEventsShown = 20

// Kind is the type of the event in a word.
func (e *eventEntry) Kind() string {
	return words(strings.TrimPrefix(string(e.Type), "authentication."))
}

// A hookForm is what the form of an endpoint has.
type hookForm struct {
	Merchants        []choice
	URL, Description string
	Types            []choice
}

// newHookForm returns the form of an endpoint, nil for a new one. What was typed wins.
func newHookForm(v *visit, e *hookEntry) hookForm {
	var f hookForm
	chosen := merchantEvents()
	switch {
	case v.Method == http.MethodPost && v.PostForm.Has("url"):
		f.URL, f.Description, chosen = v.PostForm.Get("url"), v.PostForm.Get("description"), v.PostForm["type"]
	case e != nil:
		f.URL, f.Description, chosen = e.URL, e.Description, nil
		for _, t := range e.Types {
			chosen = append(chosen, string(t))
		}
	}
	for _, t := range merchantEvents() {
		name := words(strings.TrimPrefix(t, "authentication."))
		f.Types = append(f.Types, choice{t, name, slices.Contains(chosen, t)})
	}
	return f
}

// readHookForm returns what a form says of an endpoint, and what is wrong with it.
func readHookForm(form url.Values) (c api.EndpointChange, fault string) {
	types := []api.EventType{}
	for _, t := range form["type"] {
		types = append(types, api.EventType(t))
	}
	if len(types) == 0 {
		fault = "Choose at least one kind of events."
	}
	if len(types) == len(merchantEvents()) {
		types = types[:0] // those that come later, too
	}
	return api.EndpointChange{
		URL: new(strings.TrimSpace(form.Get("url"))), Description: new(strings.TrimSpace(form.Get("description"))),
		Types: &types,
	}, fault
}

// A hooksView is the data of the page of endpoints.
type hooksView struct {
	Hooks     []hookEntry
	Form      hookForm
	CanChange bool
	Fault     string
	Made      *hookEntry // one that was just made, with its secret this once
}

func hooksPage(h *Handler, v *visit) (result, error) { return h.showHooks(v, nil, "") }

// showHooks lists endpoints, with one that was just made, or with what is wrong with what was typed.
func (h *Handler) showHooks(v *visit, made *hookEntry, fault string) (result, error) {
	all, err := h.Acts.Endpoints(v.Context(), v.session.Actor, "")
	if err != nil {
		return result{}, err
	}
	view := &hooksView{CanChange: v.can("webhook add"), Fault: fault, Made: made}
	for _, e := range all {
		view.Hooks = append(view.Hooks, hookEntry{e})
	}
	if view.Form = newHookForm(v, nil); made != nil {
		view.Form = newHookForm(&visit{Request: new(http.Request)}, nil)
	}
	if view.Form.Merchants, err = h.merchantChoices(v, v.PostForm.Get("merchant")); err != nil {
		return result{}, err
	}
	return result{template: "webhooks", title: "Webhooks", data: view, status: faultStatus(fault)}, nil
}

// addHook adds an endpoint. The answer shows its secret, and nothing shows it again.
func addHook(h *Handler, v *visit) (result, error) {
	said, fault := readHookForm(v.PostForm)
	if fault != "" {
		return h.showHooks(v, nil, fault)
	}
	var e webhook.Endpoint
	e.Apply(&said)
	made, err := h.Acts.AddEndpoint(v.Context(), v.session.Actor, v.PostForm.Get("merchant"), e)
	if fault, err = faultOf(err); err != nil {
		return result{}, err
	}
	if fault != "" {
		return h.showHooks(v, nil, fault)
	}
	return h.showHooks(v, &hookEntry{made}, "")
}

// A hookView is the data of the page of one endpoint.
type hookView struct {
	Hook      hookEntry
	Form      hookForm
	CanChange bool
	Fault     string
	Secret    string // a new one, this once
	Test      *api.DeliveryTest
	Resend    resendForm
	Events    []eventEntry
	Older     string
}

// A resendForm is what the form has that sends events again, and what came of it.
type resendForm struct {
	From, To string
	All      bool // those that were delivered, too
	Done     *api.Resent
}

func hookPage(h *Handler, v *visit) (result, error) { return h.showHook(v, &hookView{}) }

// showHook shows an endpoint with its deliveries, and with what a form has led to.
func (h *Handler) showHook(v *visit, view *hookView) (result, error) {
	id := v.PathValue("id")
	e, err := h.Acts.Endpoint(v.Context(), v.session.Actor, id)
	if err != nil {
		return result{}, err
	}
	view.Hook = hookEntry{e}
	view.CanChange = v.can("webhook change")
	view.Form = newHookForm(v, &view.Hook)
	q := ops.EventQuery{Endpoint: id, Limit: maxEventsShown, Cursor: v.URL.Query().Get("cursor")}
	start := time.Now()
	lines, next, err := h.Acts.EventLines(v.Context(), v.session.Actor, q)
	fault, err := faultOf(err)
	if err != nil {
		return result{}, err
	}
	took := time.Since(start)
	view.Fault = cmp.Or(fault, view.Fault)
	for _, line := range lines {
		entry := eventEntry{MerchantEvent: line}
		for _, d := range line.Deliveries {
			entry.Deliveries = append(entry.Deliveries, delivery{d})
		}
		view.Events = append(view.Events, entry)
	}
	if next != "" {
		view.Older = "/webhooks/" + url.PathEscape(id) + "?" + url.Values{"cursor": {string(next)}}.Encode()
	}
	return result{
		template: "webhook", title: "Webhook of " + view.Hook.Merchant, data: view, db: took, status: faultStatus(view.Fault),
	}, nil
}

// errStaleRotation refuses a second secret, which would end the one that the back end still has.
const errStaleRotation = "A new secret was made after this page was loaded, so none was made now. If nobody has it, make another one below."

// endpointActs returns the acts that a form of the page of an endpoint may do with no more than its id.
func endpointActs() (names []string) {
	for _, act := range ops.Table() {
		if act.Do != nil && act.Has(ops.Console) && strings.Contains(act.Route, " webhook-endpoints/{id}") {
			names = append(names, act.Name)
		}
	}
	return names
}

// changeHook does what the button of the form says: it saves the fields, or does an act on the endpoint.
func changeHook(h *Handler, v *visit) (result, error) {
	by, id, do := v.session.Actor, v.PathValue("id"), v.PostForm.Get("do")
	own := result{to: "/webhooks/" + url.PathEscape(id)}
	if do == "change" {
		said, fault := readHookForm(v.PostForm)
		if fault == "" {
			_, err := h.Acts.ChangeEndpoint(v.Context(), by, id, said)
			if fault, err = faultOf(err); fault == "" || err != nil {
				return own, err
			}
		}
		return h.showHook(v, &hookView{Fault: fault})
	}
	if do == "resend" {
		return h.resendEvents(v)
	}
	name := "webhook " + do
	if !slices.Contains(endpointActs(), name) {
		return result{}, errNoPage
	}
	if do == "rotate" {
		e, err := h.Acts.Endpoint(v.Context(), by, id)
		if err != nil {
			return result{}, err
		}
		if until := e.PreviousUntil; until != nil && v.PostForm.Get("until") != strconv.FormatInt(until.Unix(), 10) {
			return h.showHook(v, &hookView{Fault: errStaleRotation})
		}
	}
	done, err := ops.Find(name).Do(h.Acts, v.Context(), by, id)
	if err != nil {
		return result{}, err
	}
	switch done := done.(type) {
	case api.Secret:
		return h.showHook(v, &hookView{Secret: done.Secret})
	case api.DeliveryTest:
		return h.showHook(v, &hookView{Test: &done})
	case nil: // it was removed
		return result{to: "/webhooks"}, nil
	}
	return own, nil
}

// resendEvent delivers an event again, to all endpoints that it was for.
func resendEvent(h *Handler, v *visit) (result, error) {
	_, err := ops.Find("webhook resend").Do(h.Acts, v.Context(), v.session.Actor, v.PathValue("event"))
	return result{to: "/webhooks/" + url.PathEscape(v.PathValue("id"))}, err
}

// resendEvents delivers events of a span of time to an endpoint again.
func (h *Handler) resendEvents(v *visit) (result, error) {
	if err := ops.Find("webhook resend FROM").Check(&v.session.Actor); err != nil {
		return result{}, err
	}
	form := v.PostForm
	view := &hookView{Resend: resendForm{From: form.Get("from"), To: form.Get("to"), All: form.Get("all") != ""}}
	asked := api.ResendRequest{Endpoint: v.PathValue("id"), Failed: !view.Resend.All, Cursor: form.Get("cursor")}
	var err error
	if asked.From, err = readBound("from", view.Resend.From); err == nil && view.Resend.To != "" {
		asked.To, err = readBound("to", view.Resend.To)
	}
	if err != nil {
		view.Fault = "The times need a form such as 2028-01-31 14:00."
		return h.showHook(v, view)
	}
	done, err := h.Acts.ResendEvents(v.Context(), v.session.Actor, asked)
	if view.Fault, err = faultOf(err); err != nil {
		return result{}, err
	}
	if view.Fault == "" {
		view.Resend.Done = &done
	}
	return h.showHook(v, view)
}
