package pages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
)

// A merchantEntry is a merchant as the admin API shows it.
type merchantEntry struct {
	Name    string
	Source  string
	Version string
	Members []member // those that are set, beside these
}

// A member is something that is set of a merchant.
type member struct{ Name, Value string }

// UnmarshalJSON reads all members, those that this page does not know too.
func (m *merchantEntry) UnmarshalJSON(text []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for _, of := range []struct {
		name string
		to   *string
	}{{"name", &m.Name}, {"source", &m.Source}, {"version", &m.Version}} {
		if raw, ok := all[of.name]; ok {
			if err := json.Unmarshal(raw, of.to); err != nil {
				return err
			}
			delete(all, of.name)
		}
	}
	for name, raw := range all {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		if !slices.Contains([]string{"", "null", "{}", "[]"}, text) {
			m.Members = append(m.Members, member{name, text})
		}
	}
	slices.SortFunc(m.Members, func(a, b member) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// An input is a field of a form with what was typed.
type input struct{ Name, Label, Hint, Value string }

// merchantInputs are the members of a merchant that the form has; the rest is for the API and the configuration file.
var merchantInputs = []input{
	{"merchant_name", "Name in messages", "At most 40 characters.", ""},
	{"mcc", "Merchant category code", "4 digits.", ""},
	{"merchant_country", "Country", "ISO 3166, such as 276.", ""},
	{"acquirer_country", "Country of the acquirer", "If it is another one.", ""},
	{"requestor_id", "Requestor id", "As the scheme has given it.", ""},
	{"requestor_name", "Requestor name", "", ""},
	{"requestor_url", "Requestor URL", "https.", ""},
}

// maxMerchantChoices is how many merchants a form offers; of more the name has to be typed, so that pages stay small.
const maxMerchantChoices = 100

// A merchantInput is the field of a form that names a merchant.
type merchantInput struct {
	All    []choice
	None   string // what it is called to name no merchant; "": one has to be named
	Chosen string
}

// newMerchantInput returns the field with a merchant that is chosen, or with the selected one.
func newMerchantInput(all []choice, none, chosen string) merchantInput {
	for _, c := range all {
		if c.Selected {
			chosen = c.Value
		}
	}
	return merchantInput{all, none, chosen}
}

// IsLong reports whether there are too many merchants to offer them.
func (m merchantInput) IsLong() bool { return len(m.All) > maxMerchantChoices }

// How many merchants, and how many keys, a page lists.
const (
	maxMerchants = 150
	maxKeys      = 40
)

// A listPart is the part of a long list that a page shows.
type listPart[T any] struct {
	Rows   []T
	Count  int    // how many fit Filter
	Filter string // a text that each has in it
	More   string // the address of the following ones
}

// newListPart returns what is asked of the list at a path: at most so many rows, in order, whose text has the filter in
// it. The order of no two rows may be the same.
func newListPart[T any](path string, asked url.Values, all []T, most int, text, order func(*T) string) listPart[T] {
	part := listPart[T]{Filter: strings.TrimSpace(asked.Get("name"))}
	filter, after := strings.ToLower(part.Filter), asked.Get("after")
	for _, row := range all {
		if strings.Contains(strings.ToLower(text(&row)), filter) {
			part.Count++
			if order(&row) > after {
				part.Rows = append(part.Rows, row)
			}
		}
	}
	slices.SortFunc(part.Rows, func(a, b T) int { return strings.Compare(order(&a), order(&b)) })
	if len(part.Rows) > most {
		part.Rows = part.Rows[:most]
		part.More = path + "?" + url.Values{"name": {part.Filter}, "after": {order(&part.Rows[most-1])}}.Encode()
	}
	return part
}

// HasSearch reports whether the page offers a search of the list.
func (p listPart[T]) HasSearch() bool { return p.Filter != "" || p.Count != len(p.Rows) }

// A merchantsView is the data of the pages of merchants.
type merchantsView struct {
	listPart[merchantEntry]
	Chosen    *merchantEntry
	InFile    bool
	CanAdd    bool
	CanChange bool
	Name      string
	Inputs    []input
	Fault     string
	Keys      *keysView
}

func merchantsPage(h *Handler, v *visit) (result, error) { return h.showMerchants(v, "", "") }

// showMerchants lists merchants, with what was typed of a new one and what is wrong with it.
func (h *Handler) showMerchants(v *visit, name, fault string) (result, error) {
	all, err := listAll[merchantEntry](h, v, "merchants", nil)
	if err != nil {
		return result{}, err
	}
	view := merchantsView{CanAdd: v.can("merchant add"), Name: name, Fault: fault}
	nameOf := func(m *merchantEntry) string { return m.Name }
	view.listPart = newListPart("/merchants", v.URL.Query(), all, maxMerchants, nameOf, nameOf)
	return result{template: "merchants", title: "Merchants", data: view, status: faultStatus(fault)}, nil
}

func addMerchant(h *Handler, v *visit) (result, error) {
	name := strings.TrimSpace(v.PostForm.Get("name"))
	fault, err := h.submit(v, http.MethodPost, "merchants", nil, map[string]string{"name": name}, nil)
	if fault != "" {
		return h.showMerchants(v, name, fault)
	}
	return result{to: "/merchants/" + url.PathEscape(name)}, err
}

func merchantPage(h *Handler, v *visit) (result, error) { return h.showMerchant(v, nil, "") }

// showMerchant shows a merchant with its keys, with what was typed and what is wrong with it.
func (h *Handler) showMerchant(v *visit, typed url.Values, fault string) (result, error) {
	var m merchantEntry
	if err := h.call(v, http.MethodGet, "merchants/"+url.PathEscape(v.PathValue("name")), nil, nil, &m); err != nil {
		return result{}, err
	}
	keys, err := h.newKeysView(v, m.Name)
	if err != nil {
		return result{}, err
	}
	view := merchantsView{Chosen: &m, InFile: m.Source == "file", Fault: fault, Keys: keys}
	view.CanChange = !view.InFile && v.can("merchant set")
	for _, in := range merchantInputs {
		for _, set := range m.Members {
			if set.Name == in.Name {
				in.Value = set.Value
			}
		}
		if typed != nil {
			in.Value = typed.Get(in.Name)
		}
		view.Inputs = append(view.Inputs, in)
	}
	return result{template: "merchant", title: m.Name, data: view, status: faultStatus(fault)}, nil
}

func changeMerchant(h *Handler, v *visit) (result, error) {
	path := "merchants/" + url.PathEscape(v.PathValue("name"))
	if v.PostForm.Get("do") == "remove" {
		fault, err := h.submit(v, http.MethodDelete, path, url.Values{"version": {v.PostForm.Get("version")}}, nil, nil)
		if fault != "" {
			return h.showMerchant(v, nil, fault)
		}
		return result{to: "/merchants"}, err
	}
	body := map[string]any{"version": v.PostForm.Get("version")}
	for _, in := range merchantInputs {
		if body[in.Name] = strings.TrimSpace(v.PostForm.Get(in.Name)); body[in.Name] == "" {
			body[in.Name] = nil
		}
	}
	fault, err := h.submit(v, http.MethodPatch, path, nil, body, nil)
	if fault != "" {
		return h.showMerchant(v, v.PostForm, fault)
	}
	return result{to: "/" + path}, err
}

// A keyEntry is an API key as the admin API shows it. The key itself is nowhere.
type keyEntry struct{ admin.Key }

// Pill returns the state of a key.
func (k *keyEntry) Pill() pill {
	switch {
	case k.State == "expired":
		return pill{"calm", "dash", "Expired"}
	case k.State != "good":
		return pill{"bad", "cross", "Refused"}
	case k.LastUsed == nil:
		return pill{"warn", "warning", "Unused"}
	}
	return pill{"good", "check", "Active"}
}

// A keysView is the data of the page of keys, and of the part of a merchant's page that has them.
type keysView struct {
	listPart[keyEntry]
	Merchants []choice
	Merchant  string // the only one that is shown
	CanChange bool
	Fault     string
	Label     string // as it was typed
	IsStrict  bool
	Expires   string
	Allow     string
	New       string // a key that was just made, this once
	NewOf     string
}

// newKeysView lists keys, those of one merchant if it is named.
func (h *Handler) newKeysView(v *visit, merchant string) (*keysView, error) {
	all, err := listAll[keyEntry](h, v, "keys", nil)
	if err != nil {
		return nil, err
	}
	view := &keysView{Merchant: merchant, CanChange: v.can("key create")}
	asked := v.URL.Query()
	if merchant != "" {
		asked = url.Values{"name": {merchant}}
		all = slices.DeleteFunc(all, func(k keyEntry) bool { return k.Merchant != merchant })
	}
	view.listPart = newListPart("/keys", asked, all, maxKeys,
		func(k *keyEntry) string { return k.Label + " " + k.Merchant },
		func(k *keyEntry) string { return k.Merchant + " " + k.Label + " " + k.Hash })
	view.Merchants, err = h.merchantChoices(v, v.PostForm.Get("merchant"))
	return view, err
}

func keysPage(h *Handler, v *visit) (result, error) {
	view, err := h.newKeysView(v, "")
	return result{template: "keys", title: "Keys", data: view}, err
}

// createKey makes a key. The answer shows it, and nothing shows it again.
func createKey(h *Handler, v *visit) (result, error) {
	form := v.PostForm
	body := map[string]any{"merchant": form.Get("merchant"), "label": strings.TrimSpace(form.Get("label")), "strict": form.Get("strict") != ""}
	if allow := strings.Fields(strings.ReplaceAll(form.Get("allow"), ",", " ")); len(allow) > 0 {
		body["allow"] = allow
	}
	var made struct{ Key, Merchant string }
	fault, err := h.createWithEnd(v, "keys", body, &made)
	if err != nil {
		return result{}, err
	}
	view, err := h.newKeysView(v, "")
	if err != nil {
		return result{}, err
	}
	if view.Fault = fault; fault != "" {
		view.Label, view.Expires, view.Allow, view.IsStrict = form.Get("label"), form.Get("expires"), form.Get("allow"), form.Get("strict") != ""
	}
	view.New, view.NewOf = made.Key, made.Merchant
	return result{template: "keys", title: "Keys", data: view, status: faultStatus(fault)}, nil
}

// createWithEnd has the admin API make something that may have an end. Fault says what is wrong with the form.
func (h *Handler) createWithEnd(v *visit, path string, body map[string]any, made any) (fault string, err error) {
	if text := strings.TrimSpace(v.PostForm.Get("expires")); text != "" {
		at, err := readTime(text)
		if err != nil {
			return "The end needs a form such as 2028-01-31.", nil
		}
		body["expires"] = at.Format(time.RFC3339)
	}
	return h.submit(v, http.MethodPost, path, nil, body, made)
}

func revokeKey(h *Handler, v *visit) (result, error) {
	err := h.call(v, http.MethodDelete, "keys/"+url.PathEscape(v.PathValue("hash")), nil, nil, nil)
	return result{to: "/keys"}, err
}
