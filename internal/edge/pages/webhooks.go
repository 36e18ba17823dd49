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
)

// A hookEntry is a webhook endpoint as the admin API shows it.
type hookEntry struct {
	ID, Merchant, URL, Description string
	Types                          []string
	Disabled                       bool
	Created                        time.Time
	FailingSince, PreviousUntil    *time.Time
	Secret                         string // in the answer that makes it
}

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

// Told says of what the endpoint is told.
func (e *hookEntry) Told() string {
	if len(e.Types) == len(merchantEvents()) {
		return "all"
	}
	var names []string
	for _, t := range e.Types {
		names = append(names, strings.TrimPrefix(t, "authentication."))
	}
	return strings.Join(names, ", ")
}

// A delivery is how far an event has come on its way to an endpoint.
type delivery struct {
	Endpoint string
	Attempt  int
	At, Next *time.Time
	Status   *int
	Error    *string
}

// Pill returns the state of a delivery.
func (d *delivery) Pill() pill {
	switch {
	case d.Next != nil && d.Error != nil:
		return pill{"warn", "warning", "Trying again"}
	case d.Next != nil:
		return pill{"info", "clock", "On its way"}
	case d.Error != nil:
		return pill{"bad", "cross", "Given up"}
	}
	return pill{"good", "check", "Delivered"}
}

// Answer says how the last attempt ended.
func (d *delivery) Answer() string {
	switch {
	case d.Status != nil:
		return "HTTP " + strconv.Itoa(*d.Status)
	case d.Error != nil:
		return *d.Error
	}
	return ""
}

// An eventEntry is an event as the admin API lists it.
type eventEntry struct {
	ID, Merchant, Type string
	Timestamp          time.Time
	Authentication     string
	Deliveries         []delivery
}

// Kind is the type of the event in a word.
func (e *eventEntry) Kind() string { return words(strings.TrimPrefix(e.Type, "authentication.")) }

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
		f.URL, f.Description, chosen = e.URL, e.Description, e.Types
	}
	for _, t := range merchantEvents() {
		name := words(strings.TrimPrefix(t, "authentication."))
		f.Types = append(f.Types, choice{t, name, slices.Contains(chosen, t)})
	}
	return f
}

// readHookForm returns the members of an endpoint that a form has, and what is wrong with it.
func readHookForm(form url.Values) (body map[string]any, fault string) {
	types := form["type"]
	if len(types) == 0 {
		fault = "Choose at least one kind of events."
	}
	if len(types) == len(merchantEvents()) {
		types = []string{} // those that come later, too
	}
	return map[string]any{
		"url": strings.TrimSpace(form.Get("url")), "description": strings.TrimSpace(form.Get("description")), "types": types,
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
	all, err := listAll[hookEntry](h, v, "webhook-endpoints", nil)
	if err != nil {
		return result{}, err
	}
	view := &hooksView{Hooks: all, CanChange: v.can(http.MethodPost, "webhook-endpoints"), Fault: fault, Made: made}
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
	body, fault := readHookForm(v.PostForm)
	body["merchant"] = v.PostForm.Get("merchant")
	var made hookEntry
	if fault == "" {
		var err error
		if fault, err = h.submit(v, http.MethodPost, "webhook-endpoints", nil, body, &made); err != nil {
			return result{}, err
		}
	}
	if fault != "" {
		return h.showHooks(v, nil, fault)
	}
	return h.showHooks(v, &made, "")
}

// A hookView is the data of the page of one endpoint.
type hookView struct {
	Hook      hookEntry
	Form      hookForm
	CanChange bool
	Fault     string
	Secret    string // a new one, this once
	Test      *api.DeliveryTest
	Events    []eventEntry
	Older     string
}

func hookPage(h *Handler, v *visit) (result, error) { return h.showHook(v, &hookView{}) }

// showHook shows an endpoint with its deliveries, and with what a form has led to.
func (h *Handler) showHook(v *visit, view *hookView) (result, error) {
	id := v.PathValue("id")
	if err := h.call(v, http.MethodGet, "webhook-endpoints/"+url.PathEscape(id), nil, nil, &view.Hook); err != nil {
		return result{}, err
	}
	view.CanChange = v.can(http.MethodPatch, "webhook-endpoints/{id}")
	view.Form = newHookForm(v, &view.Hook)
	query := url.Values{"endpoint": {id}, "limit": {"20"}}
	if cursor := v.URL.Query().Get("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	var all list[eventEntry]
	start := time.Now()
	fault, err := h.submit(v, http.MethodGet, "events", query, nil, &all)
	if err != nil {
		return result{}, err
	}
	took := time.Since(start)
	view.Fault = cmp.Or(fault, view.Fault)
	if view.Events = all.Data; all.Next != nil {
		view.Older = "/webhooks/" + url.PathEscape(id) + "?" + url.Values{"cursor": {*all.Next}}.Encode()
	}
	return result{
		template: "webhook", title: "Webhook of " + view.Hook.Merchant, data: view, db: took, status: faultStatus(view.Fault),
	}, nil
}

// changeHook does what the button of the form says.
func changeHook(h *Handler, v *visit) (result, error) {
	path := "webhook-endpoints/" + url.PathEscape(v.PathValue("id"))
	own := result{to: "/webhooks/" + url.PathEscape(v.PathValue("id"))}
	view := &hookView{}
	var err error
	switch v.PostForm.Get("do") {
	case "remove":
		return result{to: "/webhooks"}, h.call(v, http.MethodDelete, path, nil, nil, nil)
	case "rotate":
		if err := h.call(v, http.MethodGet, path, nil, nil, &view.Hook); err != nil {
			return result{}, err
		}
		// A second one would end the secret that the back end still has.
		if until := view.Hook.PreviousUntil; until != nil && v.PostForm.Get("until") != strconv.FormatInt(until.Unix(), 10) {
			view.Fault = "A new secret was made after this page was loaded, so none was made now. If nobody has it, make another one below."
			break
		}
		var made struct{ Secret string }
		err = h.call(v, http.MethodPost, path+"/rotate", nil, nil, &made)
		view.Secret = made.Secret
	case "test":
		view.Test = &api.DeliveryTest{}
		err = h.call(v, http.MethodPost, path+"/test", nil, nil, view.Test)
	case "disable", "enable":
		body := map[string]any{"disabled": v.PostForm.Get("do") == "disable"}
		return own, h.call(v, http.MethodPatch, path, nil, body, nil)
	default:
		body, fault := readHookForm(v.PostForm)
		if view.Fault = fault; fault != "" {
			break
		}
		if view.Fault, err = h.submit(v, http.MethodPatch, path, nil, body, nil); view.Fault == "" && err == nil {
			return own, nil
		}
	}
	if err != nil {
		return result{}, err
	}
	return h.showHook(v, view)
}

// resendEvent delivers an event again, to all endpoints that it was for.
func resendEvent(h *Handler, v *visit) (result, error) {
	err := h.call(v, http.MethodPost, "events/"+url.PathEscape(v.PathValue("event"))+"/resend", nil, nil, nil)
	return result{to: "/webhooks/" + url.PathEscape(v.PathValue("id"))}, err
}
