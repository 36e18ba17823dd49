package pages

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/message"
)

// filterNames are the fields of a search that the admin API has under the same name.
var filterNames = []string{"merchant", "scheme", "result", "status", "acs", "reason", "id", "reference", "last4"}

// A choice is one value that a form offers.
type choice struct {
	Value, Name string
	Selected    bool
}

// wordChoices returns values that a page shows as words.
func wordChoices[T ~string](values []T, chosen string) []choice {
	var all []choice
	for _, v := range values {
		all = append(all, choice{string(v), words(string(v)), string(v) == chosen})
	}
	return all
}

// merchantChoices returns the merchants that the visitor may see.
func (h *Handler) merchantChoices(v *visit, chosen string) ([]choice, error) {
	merchants, err := h.Acts.ListMerchants(v.Context(), v.session.Actor)
	var all []choice
	for _, m := range merchants {
		all = append(all, choice{m.Name, m.Name, m.Name == chosen})
	}
	return all, err
}

// A link goes to another view of the same page.
type link struct {
	Link, Name string
	Current    bool
}

// A searchView is the data of the page that lists authentications.
type searchView struct {
	Query     string
	Merchants []choice
	Schemes   []choice
	Results   []choice
	Statuses  []choice
	Times     []choice
	Fields    map[string]string // what was asked for, by the name of the field
	HasMore   bool              // of the rarer fields some is set
	HasOne    bool              // the visitor sees one merchant
	Fault     string
	Records   []journal.Record
	Filters   []string // what was looked for, in words
	Wider     *link
	Clear     bool
	IsNew     bool // the page shows no search, and there are no authentications
	Shop      string
	Older     string
	Newest    string
	MS        string
	ByCard    bool
	Full      bool // by card: there are more than are shown
	Broken    bool
	Off       bool
}

// A span is a time that may be chosen.
type span struct {
	value, name string
	back        time.Duration // from now; 0 means all
}

// spans are the times that may be chosen, in the order of the form.
var spans = []span{
	{"15m", "Last 15 minutes", 15 * time.Minute}, {"1h", "Last hour", time.Hour},
	{"24h", "Last 24 hours", 24 * time.Hour}, {"7d", "Last 7 days", 7 * 24 * time.Hour},
	{"30d", "Last 30 days", 30 * 24 * time.Hour}, {"all", "All that is kept", 0},
}

// usualSpan is the span of an address that does not say another.
const usualSpan = "24h"

// searchPage lists authentications by the fields of the address.
func searchPage(h *Handler, v *visit) (result, error) {
	asked := v.URL.Query()
	view := h.newSearchView(v, asked)
	got := result{template: "search", title: "Authentications", data: view}
	query := url.Values{}
	for _, name := range filterNames {
		value := strings.TrimSpace(asked.Get(name))
		if cardnumber.MayBe(value) {
			return refuseCard(view, got), nil
		}
		if value != "" {
			query.Set(name, value)
			view.Fields[name] = value
		}
	}
	if cardnumber.MayBe(asked.Get("q")) {
		return refuseCard(view, got), nil
	}
	view.Query = strings.TrimSpace(asked.Get("q"))
	switch q := view.Query; {
	case q == "":
	case len(q) == 4 && strings.Trim(q, "0123456789") == "":
		query.Set("last4", q)
	case message.IsUUID(q):
		query.Set("id", strings.ToLower(q))
	default:
		query.Set("reference", q)
	}
	view.Filters = filterWords(query)
	if fault := h.setTimes(view, asked, query); fault != "" {
		view.Fault, got.status = fault, http.StatusBadRequest
		return got, nil
	}
	if cursor := asked.Get("cursor"); cursor != "" {
		query.Set("cursor", cursor)
		view.Newest = "/authentications?" + without(asked, "cursor")
	}
	start := time.Now()
	q, err := admin.NewRecordQuery(query)
	if err != nil {
		return got, err
	}
	page, err := h.Admin.FindRecords(v.Context(), v.session.Actor, q)
	got.db = time.Since(start)
	if err != nil {
		return h.searchFailure(view, got, err)
	}
	view.Records, view.MS = page.Data, milliseconds(got.db)
	if page.Next != "" {
		older := maps.Clone(asked)
		older.Set("cursor", string(page.Next))
		view.Older = "/authentications?" + older.Encode()
	}
	h.widen(view, asked)
	return got, nil
}

// refuseCard answers a search that has a card number in its address. The number is on no page.
func refuseCard(view *searchView, got result) result {
	view.Query, view.Fields = "", map[string]string{}
	view.Fault = "That may be a whole card number, and addresses stand in logs. Type it on its own page, which finds order numbers of 12 to 19 digits, too. Nothing was looked for."
	got.status = http.StatusBadRequest
	return got
}

// without returns a query without one of its members.
func without(query url.Values, name string) string {
	rest := maps.Clone(query)
	rest.Del(name)
	return rest.Encode()
}

// setTimes sets the time that is looked at, and returns what is wrong with that which was asked for.
func (h *Handler) setTimes(view *searchView, asked, query url.Values) (fault string) {
	var times [2]time.Time
	for i, name := range []string{"from", "to"} {
		text := strings.TrimSpace(asked.Get(name))
		view.Fields[name] = text
		if text == "" {
			continue
		}
		at, err := readBound(name, text)
		if err != nil {
			return "The time \"" + name + "\" needs a form such as 2027-01-31 or 2027-01-31T09:30 (UTC)."
		}
		times[i] = at.UTC()
		query.Set(name, times[i].Format(time.RFC3339))
		view.Filters = append(view.Filters, map[string]string{"from": "from ", "to": "until "}[name]+moment(at))
	}
	if view.Fields["from"] != "" || view.Fields["to"] != "" {
		view.HasMore = true
		return reversedTimes(times[0], times[1])
	}
	if s := spanOf(asked); s.back > 0 {
		query.Set("from", h.beginOf(s).Format(time.RFC3339))
		view.Filters = append(view.Filters, "in the l"+s.name[1:])
	}
	return ""
}

// readTime reads a day or a moment, in UTC unless it says otherwise.
func readTime(text string) (at time.Time, err error) {
	for _, layout := range []string{
		time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05",
		"2006-01-02 15:04", time.DateOnly,
		"2 Jan 2006, 15:04:05 UTC", // as the pages write it
	} {
		if at, err = time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return at, err
}

// readBound reads an end of the time that is searched. A day as its "to" is searched to its end.
func readBound(name, text string) (time.Time, error) {
	at, err := readTime(text)
	if _, fault := time.Parse(time.DateOnly, text); err == nil && fault == nil && name == "to" {
		at = at.AddDate(0, 0, 1)
	}
	return at, err
}

// reversedTimes says that a search ends before it begins; "" if it does not.
func reversedTimes(from, to time.Time) string {
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return "The time ends before it begins: \"from\" is " + moment(from) + ", and \"until\" is " + moment(to) + "."
	}
	return ""
}

// spanOf returns the span that was asked for, or the usual one.
func spanOf(asked url.Values) span {
	i := slices.IndexFunc(spans, func(s span) bool { return s.value == asked.Get("time") })
	if i < 0 {
		i = slices.IndexFunc(spans, func(s span) bool { return s.value == usualSpan })
	}
	return spans[i]
}

// beginOf returns when a span begins.
func (h *Handler) beginOf(s span) time.Time {
	begin := time.Unix(0, 0)
	if s.back > 0 {
		begin = h.Now().Add(-s.back)
	}
	return begin.UTC().Truncate(time.Second)
}

// newSearchView returns the page with its form filled.
func (h *Handler) newSearchView(v *visit, asked url.Values) *searchView {
	view := &searchView{Fields: map[string]string{}, Shop: h.Shop, HasOne: v.session.Actor.Merchant != ""}
	view.Merchants, _ = h.merchantChoices(v, asked.Get("merchant")) // without them the search has no such field
	for _, word := range scheme.Names() {
		view.Schemes = append(view.Schemes, choice{word, h.schemeName(word), word == asked.Get("scheme")})
	}
	view.Results = wordChoices(api.Results(), asked.Get("result"))
	view.Statuses = wordChoices(journal.Statuses(), asked.Get("status"))
	for _, s := range spans {
		view.Times = append(view.Times, choice{s.value, s.name, s == spanOf(asked)})
	}
	for _, name := range []string{"status", "acs", "reason", "id", "reference", "last4"} {
		view.HasMore = view.HasMore || asked.Get(name) != ""
	}
	view.Clear = len(asked) > 0
	return view
}

// filterWords returns what was looked for, in words.
func filterWords(query url.Values) (all []string) {
	names := map[string]string{
		"merchant": "at ", "scheme": "scheme ", "result": "result ", "status": "status ", "acs": "ACS ", "reason": "reason ",
		"id": "id ", "reference": "reference ", "last4": "card ending in ",
	}
	for _, name := range slices.Backward(filterNames) {
		if value := query.Get(name); value != "" {
			all = append(all, names[name]+value)
		}
	}
	return all
}

// widen offers the nearest wider search for one that has found nothing.
func (h *Handler) widen(view *searchView, asked url.Values) {
	if len(view.Records) > 0 || asked.Get("cursor") != "" {
		return
	}
	if view.HasMore && (view.Fields["from"] != "" || view.Fields["to"] != "") {
		return
	}
	at := slices.IndexFunc(view.Times, func(c choice) bool { return c.Selected })
	if at == len(spans)-1 {
		view.IsNew = len(view.Filters) == 0
		return
	}
	wider := maps.Clone(asked)
	view.IsNew = len(asked) == 0 && view.Shop != ""
	next := spans[max(at+1, len(spans)-2)] // to 30 days at once
	wider.Set("time", next.value)
	view.Wider = &link{Link: "/authentications?" + wider.Encode(), Name: "Search " + strings.ToLower(next.name[:1]) +
		next.name[1:]}
	if next.value == "all" {
		view.Wider.Name = "Search all that is kept"
	}
}

// searchFailure shows why a search has no answer, on the page that it was made on.
func (h *Handler) searchFailure(view *searchView, got result, err error) (result, error) {
	p := admin.ProblemOf(err)
	switch {
	case p == nil:
		h.Log.Error("console: journal not searched", "err", err)
		view.Broken, got.status = true, http.StatusServiceUnavailable
	case p.Status == http.StatusNotFound:
		view.Off = true
	case p.Status == http.StatusBadRequest:
		view.Fault, got.status = p.Detail, p.Status
	default:
		return got, err
	}
	return got, nil
}

// cardPage asks for a whole card number.
func cardPage(*Handler, *visit) (result, error) {
	return result{template: "card", title: "Search by card", data: ""}, nil
}

// maxByCard is how many records a search by card shows: a next page would have to know the card.
const maxByCard = 60

// searchByCard lists the authentications of a card that was typed whole.
func searchByCard(h *Handler, v *visit) (result, error) {
	typed := digitsOf(v.PostForm.Get("card"))
	if !cardnumber.MayBe(typed) {
		fault := "A card number has 12 to 19 digits; found " + strconv.Itoa(len(typed)) + " characters."
		return result{template: "card", title: "Search by card", status: http.StatusBadRequest, data: fault}, nil
	}
	view := h.newSearchView(v, nil)
	view.ByCard, view.Clear, view.Filters = true, true, []string{"with the card, or the order number, that you typed"}
	got := result{template: "search", title: "Authentications of a card", data: view}
	start := time.Now()
	page, err := h.Admin.FindRecords(v.Context(), v.session.Actor, admin.RecordQuery{AcctNumber: typed, Limit: maxByCard})
	got.db = time.Since(start)
	if err != nil {
		return h.searchFailure(view, got, err)
	}
	if len(page.Data) == 0 {
		// Merchants have order numbers of as many digits, which may not stand in an address either.
		q := admin.RecordQuery{Reference: strings.TrimSpace(v.PostForm.Get("card")), Limit: maxByCard}
		if page, err = h.Admin.FindRecords(v.Context(), v.session.Actor, q); err != nil {
			return h.searchFailure(view, got, err)
		}
	}
	view.Records, view.Full, view.MS = page.Data, page.Next != "", milliseconds(got.db)
	return got, nil
}
