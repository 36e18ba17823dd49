package pages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
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

// A merchantsView is the data of the pages of merchants.
type merchantsView struct {
	Merchants []merchantEntry
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
	var all list[merchantEntry]
	if err := h.call(v, http.MethodGet, "merchants", nil, nil, &all); err != nil {
		return result{}, err
	}
	view := merchantsView{Merchants: all.Data, CanAdd: v.can(http.MethodPost, "merchants"), Name: name, Fault: fault}
	got := result{template: "merchants", title: "Merchants", data: view}
	if fault != "" {
		got.status = http.StatusBadRequest
	}
	return got, nil
}

func addMerchant(h *Handler, v *visit) (result, error) {
	name := strings.TrimSpace(v.PostForm.Get("name"))
	err := h.call(v, http.MethodPost, "merchants", nil, map[string]string{"name": name}, nil)
	if p := problemOf(err); p != nil {
		return h.showMerchants(v, name, p.Detail)
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
	view.CanChange = !view.InFile && v.can(http.MethodPatch, "merchants/{name}")
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
	got := result{template: "merchant", title: m.Name, data: view}
	if fault != "" {
		got.status = http.StatusBadRequest
	}
	return got, nil
}

func changeMerchant(h *Handler, v *visit) (result, error) {
	path := "merchants/" + url.PathEscape(v.PathValue("name"))
	if v.PostForm.Get("do") == "remove" {
		err := h.call(v, http.MethodDelete, path, url.Values{"version": {v.PostForm.Get("version")}}, nil, nil)
		if p := problemOf(err); p != nil {
			return h.showMerchant(v, nil, p.Detail)
		}
		return result{to: "/merchants"}, err
	}
	body := map[string]any{"version": v.PostForm.Get("version")}
	for _, in := range merchantInputs {
		if body[in.Name] = strings.TrimSpace(v.PostForm.Get(in.Name)); body[in.Name] == "" {
			body[in.Name] = nil
		}
	}
	err := h.call(v, http.MethodPatch, path, nil, body, nil)
	if p := problemOf(err); p != nil {
		return h.showMerchant(v, v.PostForm, p.Detail)
	}
	return result{to: "/" + path}, err
}

// A keyEntry is an API key as the admin API shows it. The key itself is nowhere.
type keyEntry struct {
	Hash, Label, Merchant, State string
	Created                      time.Time
	LastUsed, Expires            *time.Time
	Allow                        []string
	Strict                       bool
}

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
	Keys      []keyEntry
	Merchants []choice
	Merchant  string // the only one that is shown
	CanChange bool
	Fault     string
	Label     string // as it was typed
	Expires   string
	Allow     string
	New       string // a key that was just made, this once
	NewOf     string
}

// newKeysView lists keys, those of one merchant if it is named.
func (h *Handler) newKeysView(v *visit, merchant string) (*keysView, error) {
	var all list[keyEntry]
	if err := h.call(v, http.MethodGet, "keys", nil, nil, &all); err != nil {
		return nil, err
	}
	view := &keysView{Merchant: merchant, CanChange: v.can(http.MethodPost, "keys")}
	for _, k := range all.Data {
		if merchant == "" || k.Merchant == merchant {
			view.Keys = append(view.Keys, k)
		}
	}
	var merchants list[struct{ Name string }]
	if err := h.call(v, http.MethodGet, "merchants", nil, nil, &merchants); err != nil {
		return nil, err
	}
	for _, m := range merchants.Data {
		view.Merchants = append(view.Merchants, choice{m.Name, m.Name, m.Name == v.PostForm.Get("merchant")})
	}
	return view, nil
}

func keysPage(h *Handler, v *visit) (result, error) {
	view, err := h.newKeysView(v, "")
	return result{template: "keys", title: "Keys", data: view}, err
}

// createKey makes a key. The answer shows it, and nothing shows it again.
func createKey(h *Handler, v *visit) (result, error) {
	form := v.PostForm
	body := map[string]any{"merchant": form.Get("merchant"), "label": strings.TrimSpace(form.Get("label")), "strict": form.Get("strict") != ""}
	fault := ""
	if text := strings.TrimSpace(form.Get("expires")); text != "" {
		at, err := readTime(text)
		if err != nil {
			fault = "The end needs a form such as 2028-01-31."
		}
		body["expires"] = at.Format(time.RFC3339)
	}
	if allow := strings.Fields(strings.ReplaceAll(form.Get("allow"), ",", " ")); len(allow) > 0 {
		body["allow"] = allow
	}
	var made struct{ Key, Merchant string }
	if fault == "" {
		err := h.call(v, http.MethodPost, "keys", nil, body, &made)
		if p := problemOf(err); p != nil {
			fault = p.Detail
		} else if err != nil {
			return result{}, err
		}
	}
	view, err := h.newKeysView(v, "")
	if err != nil {
		return result{}, err
	}
	got := result{template: "keys", title: "Keys", data: view}
	if view.Fault = fault; fault != "" {
		view.Label, view.Expires, view.Allow = form.Get("label"), form.Get("expires"), form.Get("allow")
		got.status = http.StatusBadRequest
	}
	view.New, view.NewOf = made.Key, made.Merchant
	return got, nil
}

func revokeKey(h *Handler, v *visit) (result, error) {
	err := h.call(v, http.MethodDelete, "keys/"+url.PathEscape(v.PathValue("hash")), nil, nil, nil)
	return result{to: "/keys"}, err
}
