package pages

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/state/account"
)

// A merchantEntry is a merchant of the page.
type merchantEntry struct {
	merchant.Entry
	Members []member // those that are set, in addition to these
}

// A member is something that is set of a merchant.
type member struct{ Name, Value string }

// newMerchantEntry returns a merchant with all members that are set, those that this page does not know too.
func newMerchantEntry(e merchant.Entry) (merchantEntry, error) {
	m := merchantEntry{Entry: e}
	var all map[string]json.RawMessage
	text, err := json.Marshal(e)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	for name, raw := range all {
		if !slices.Contains([]string{"name", "source", "version", "disabled"}, name) {
			m.Members = append(m.Members, flatten(name, raw)...)
		}
	}
	slices.SortFunc(m.Members, func(a, b member) int { return strings.Compare(a.Name, b.Name) })
	return m, err
}

// flatten returns what is set in a member: a member of an object has a name with a dot, and texts of an array have
// blanks between them.
func flatten(name string, raw json.RawMessage) (all []member) {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return nil
	}
	switch value := value.(type) {
	case nil:
	case map[string]any:
		var members map[string]json.RawMessage
		_ = json.Unmarshal(raw, &members) // raw is an object, so this cannot fail
		for key, one := range members {
			all = append(all, flatten(name+"."+key, one)...)
		}
	case []any:
		var texts []string
		for _, one := range value {
			texts = append(texts, fmt.Sprint(one))
		}
		if len(texts) > 0 {
			all = append(all, member{name, strings.Join(texts, " ")})
		}
	case string:
		if name == "page.logo" {
			value = "an image"
		}
		if value != "" {
			all = append(all, member{name, value})
		}
	default:
		all = append(all, member{name, string(raw)})
	}
	return all
}

// KeptIn says in words where a merchant comes from.
func (m *merchantEntry) KeptIn() string {
	switch m.Source {
	case merchant.File:
		return "configuration file"
	case merchant.Keys:
		return "API keys alone"
	case merchant.Removed:
		return "nothing: it was removed"
	}
	return "console"
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

// houseInputs are the members that people of a group cannot change: the limits, and to which group a merchant belongs.
var houseInputs = []input{
	{"rate", "Rate limit", "Such as 20/s.", ""},
	{inFlightInput, "Requests at once", "Such as 50.", ""},
	{"group", "Group", "People and tokens of the group see the merchant.", ""},
}

// inputsFor returns the members of a merchant that a visitor may change in the form.
func inputsFor(v *visit) []input {
	if v.session.Actor.Group != "" {
		return merchantInputs
	}
	return slices.Concat(merchantInputs, houseInputs)
}

// An acquirerRow has the inputs for one scheme.
type acquirerRow struct {
	Scheme string
	Fields []input
}

// acquirerInputs are the keys below per_directory that the form has.
var acquirerInputs = []input{{"acquirer_bin", "Acquirer BIN", "", ""}, {"acquirer_merchant_id", "Merchant id", "", ""}}

// originsInput has an origin on each line.
const originsInput = "origins"

// newAcquirerRows returns a row for each scheme that has a directory or a value. What was typed wins.
func (h *Handler) newAcquirerRows(m *account.Merchant, typed url.Values) (rows []acquirerRow) {
	schemes := append(slices.Collect(maps.Keys(m.PerDirectory)), h.Acts.Merchants().Schemes...)
	slices.Sort(schemes)
	for _, scheme := range slices.Compact(schemes) {
		row := acquirerRow{Scheme: scheme}
		for _, in := range acquirerInputs {
			in.Value = merchant.ForDirectory(m, scheme, in.Name)
			if in.Name = acquirerName(scheme, in.Name); typed.Has(in.Name) {
				in.Value = typed.Get(in.Name)
			}
			row.Fields = append(row.Fields, in)
		}
		rows = append(rows, row)
	}
	return rows
}

// acquirerName returns the name of the input for a key of one scheme.
func acquirerName(scheme, key string) string { return "per_directory." + scheme + "." + key }

// What a form says of the rules of schemes, of messages that are changed on the way, and of pages for shoppers.
const (
	rulesInput         = "scheme_rules"
	bridgingInput      = "bridging"
	transliterateInput = "transliterate"
	colourInput        = "page.colour"
	accentInput        = "page.accent"
)

// A policyView is what a form says of how requests of a merchant are treated, and how its pages look.
type policyView struct {
	Rules                   []choice
	Bridging, Transliterate bool
	Colour, Accent          string
}

// newPolicyView returns the policy and the look of a merchant. What was typed wins.
func newPolicyView(m *account.Merchant, typed url.Values) policyView {
	rules, colours := cmp.Or(m.SchemeRules, "warn"), m.Page
	view := policyView{Bridging: m.Bridging, Transliterate: m.Transliterate}
	if typed.Has(rulesInput) {
		rules, colours = typed.Get(rulesInput), account.Page{Colour: typed.Get(colourInput), Accent: typed.Get(accentInput)}
		view.Bridging, view.Transliterate = typed.Has(bridgingInput), typed.Has(transliterateInput)
	}
	for _, c := range []choice{
		{Value: "warn", Name: "Record and log what is missing"}, {Value: "enforce", Name: "Refuse the request"},
		{Value: "off", Name: "Do not look"},
	} {
		c.Selected = c.Value == rules
		view.Rules = append(view.Rules, c)
	}
	view.Colour, view.Accent = colours.Colour, colours.Accent
	return view
}

// applyPolicy puts the policy and the look of a form into a merchant. A form without the rules of schemes has neither.
func applyPolicy(m *account.Merchant, form url.Values) {
	if form.Has(rulesInput) {
		m.SchemeRules = form.Get(rulesInput)
		m.Bridging, m.Transliterate = form.Has(bridgingInput), form.Has(transliterateInput)
		m.Page.Colour, m.Page.Accent = strings.TrimSpace(form.Get(colourInput)), strings.TrimSpace(form.Get(accentInput))
	}
}

// applyLists puts the origins of a form and its values for single schemes into a merchant.
func (h *Handler) applyLists(m *account.Merchant, form url.Values) error {
	if form.Has(originsInput) {
		m.Origins = strings.Fields(form.Get(originsInput))
	}
	for _, row := range h.newAcquirerRows(m, nil) {
		for _, in := range acquirerInputs {
			if name := acquirerName(row.Scheme, in.Name); form.Has(name) {
				err := merchant.SetForDirectory(m, row.Scheme, in.Name, strings.TrimSpace(form.Get(name)))
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// inFlightInput is the input whose value is a number.
const inFlightInput = "in_flight"

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

// newListPart returns the part of the list at a path that a request asks for: a limited number of rows, in order, whose
// text contains the filter. No two rows may have the same order.
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
	Disabled  int // how many of all merchants are disabled
	Chosen    *merchantEntry
	InFile    bool
	CanAdd    bool
	CanChange bool
	CanRemove bool
	CanSwitch bool   // the visitor may disable and enable merchants
	CanStop   bool   // the merchant is one that the visitor would disable
	Reason    string // why it is to be disabled, as it was typed
	Name      string
	Inputs    []input
	Acquirers []acquirerRow
	Origins   string // one on each line
	Policy    policyView
	Fault     string
	Keys      *keysView
}

func merchantsPage(h *Handler, v *visit) (result, error) { return h.showMerchants(v, "", "") }

// showMerchants lists merchants, with what was typed of a new one and what is wrong with it.
func (h *Handler) showMerchants(v *visit, name, fault string) (result, error) {
	entries, err := h.Acts.ListMerchants(v.Context(), v.session.Actor)
	if err != nil {
		return result{}, err
	}
	view := merchantsView{CanAdd: v.can("merchant add"), Name: name, Fault: fault}
	var all []merchantEntry
	for _, e := range entries {
		m, err := newMerchantEntry(e)
		if err != nil {
			return result{}, err
		}
		all = append(all, m)
		if e.Disabled != nil {
			view.Disabled++
		}
	}
	nameOf := func(m *merchantEntry) string { return m.Name }
	view.listPart = newListPart("/merchants", v.URL.Query(), all, maxMerchants, nameOf, nameOf)
	return result{template: "merchants", title: "Merchants", data: view, status: faultStatus(fault)}, nil
}

func addMerchant(h *Handler, v *visit) (result, error) {
	name := strings.TrimSpace(v.PostForm.Get("name"))
	_, err := h.Acts.AddMerchant(v.Context(), v.session.Actor, account.Merchant{Name: name})
	fault, err := faultOf(err)
	if fault != "" {
		return h.showMerchants(v, name, fault)
	}
	return result{to: "/merchants/" + url.PathEscape(name)}, err
}

func merchantPage(h *Handler, v *visit) (result, error) { return h.showMerchant(v, nil, "") }

// showMerchant shows a merchant with its keys, with what was typed and what is wrong with it.
func (h *Handler) showMerchant(v *visit, typed url.Values, fault string) (result, error) {
	e, err := h.Acts.Merchant(v.Context(), v.session.Actor, v.PathValue("name"))
	if err != nil {
		return result{}, err
	}
	m, err := newMerchantEntry(e)
	if err != nil {
		return result{}, err
	}
	keys, err := h.newKeysView(v, m.Name)
	if err != nil {
		return result{}, err
	}
	view := merchantsView{Chosen: &m, InFile: m.Source == merchant.File, Fault: fault, Keys: keys}
	view.CanChange = !view.InFile && m.Source != merchant.Removed && v.can("merchant set")
	view.CanSwitch, view.Reason = v.can("merchant disable"), typed.Get("reason")
	view.CanStop = ops.MayDisable(&v.session.Actor, &e)
	view.CanRemove = v.can("merchant remove")
	for _, in := range inputsFor(v) {
		for _, set := range m.Members {
			if set.Name == in.Name {
				in.Value = set.Value
			}
		}
		if typed.Has(in.Name) {
			in.Value = typed.Get(in.Name)
		}
		view.Inputs = append(view.Inputs, in)
	}
	view.Policy = newPolicyView(&e.Merchant, typed)
	view.Acquirers, view.Origins = h.newAcquirerRows(&e.Merchant, typed), strings.Join(e.Origins, "\n")
	if typed.Has(originsInput) {
		view.Origins = typed.Get(originsInput)
	}
	return result{template: "merchant", title: m.Name, data: view, status: faultStatus(fault)}, nil
}

func changeMerchant(h *Handler, v *visit) (result, error) {
	by, name, version := v.session.Actor, v.PathValue("name"), v.PostForm.Get("version")
	switch v.PostForm.Get("do") {
	case "remove":
		fault, err := faultOf(h.Acts.RemoveMerchant(v.Context(), by, name, version))
		if fault != "" {
			return h.showMerchant(v, nil, fault)
		}
		return result{to: "/merchants"}, err
	case "disable", "enable":
		return h.switchMerchant(v, name)
	}
	body := ops.MerchantBody{}
	for _, in := range inputsFor(v) {
		body[in.Name] = json.RawMessage("null")
		text := strings.TrimSpace(v.PostForm.Get(in.Name))
		_, failed := strconv.Atoi(text)
		switch {
		case text == "":
		case in.Name == inFlightInput && failed != nil:
			return h.showMerchant(v, v.PostForm, "in_flight: want a whole number.")
		case in.Name == inFlightInput:
			body[in.Name] = json.RawMessage(text)
		default:
			body[in.Name], _ = json.Marshal(text) // a text can always be written
		}
	}
	_, err := h.Acts.ChangeMerchant(v.Context(), by, name, version, func(m *account.Merchant) error {
		err := errors.Join(body.Apply(m), h.applyLists(m, v.PostForm))
		applyPolicy(m, v.PostForm)
		return err
	})
	fault, err := faultOf(err)
	if fault != "" {
		return h.showMerchant(v, v.PostForm, fault)
	}
	return result{to: "/merchants/" + url.PathEscape(name)}, err
}

// switchMerchant disables or enables a merchant, as the button of the form says.
func (h *Handler) switchMerchant(v *visit, name string) (result, error) {
	var err error
	switch {
	case v.PostForm.Get("do") == "enable":
		_, err = ops.Find("merchant enable").Do(h.Acts, v.Context(), v.session.Actor, name)
	case v.PostForm.Get("sure") == "":
		return h.showMerchant(v, v.PostForm, "Tick the box: this refuses payments.")
	default:
		_, err = h.Acts.DisableMerchant(v.Context(), v.session.Actor, name, v.PostForm.Get("reason"))
	}
	fault, err := faultOf(err)
	if fault != "" {
		return h.showMerchant(v, v.PostForm, fault)
	}
	return result{to: "/merchants/" + url.PathEscape(name)}, err
}

// A keyEntry is an API key of the page.
type keyEntry struct{ ops.Key }

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
func (h *Handler) newKeysView(v *visit, of string) (*keysView, error) {
	keys, err := h.Acts.Keys(v.Context(), v.session.Actor)
	if err != nil {
		return nil, err
	}
	var all []keyEntry
	for _, k := range keys {
		all = append(all, keyEntry{k})
	}
	view := &keysView{Merchant: of, CanChange: v.can("key create")}
	asked := v.URL.Query()
	if of != "" {
		asked = url.Values{"name": {of}}
		all = slices.DeleteFunc(all, func(k keyEntry) bool { return k.Merchant != of })
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
	asked := api.NewKey{
		Merchant: form.Get("merchant"), Label: strings.TrimSpace(form.Get("label")), Strict: form.Get("strict") != "",
	}
	var made api.MadeKey
	var fault string
	var err error
	if asked.Allow, fault = readNetworks(form.Get("allow")); fault == "" {
		asked.Expires, fault = readEnd(form)
	}
	if fault == "" {
		made, err = h.Acts.CreateKey(v.Context(), v.session.Actor, asked)
		if fault, err = faultOf(err); err != nil {
			return result{}, err
		}
	}
	view, err := h.newKeysView(v, "")
	if err != nil {
		return result{}, err
	}
	if view.Fault = fault; fault != "" {
		view.Label, view.Expires, view.Allow, view.IsStrict = form.Get("label"), form.Get("expires"), form.Get("allow"),
			form.Get("strict") != ""
	}
	view.New, view.NewOf = made.Key, made.Merchant
	return result{template: "keys", title: "Keys", data: view, status: faultStatus(fault)}, nil
}

// readNetworks reads the networks that a key is good from, with blanks or commas between them.
func readNetworks(text string) (all []netip.Prefix, fault string) {
	for _, word := range strings.Fields(strings.ReplaceAll(text, ",", " ")) {
		network, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, "allow: want networks such as 10.0.0.0/8."
		}
		all = append(all, network)
	}
	return all, ""
}

// readEnd reads when something ends that a form makes; the zero time means never. Fault says what is wrong with it.
func readEnd(form url.Values) (end time.Time, fault string) {
	text := strings.TrimSpace(form.Get("expires"))
	if text == "" {
		return end, ""
	}
	end, err := readTime(text)
	if err != nil {
		return end, "The end needs a form such as 2028-01-31."
	}
	return end, ""
}

func revokeKey(h *Handler, v *visit) (result, error) {
	_, err := ops.Find("key revoke").Do(h.Acts, v.Context(), v.session.Actor, v.PathValue("hash"))
	return result{to: "/keys"}, err
}
