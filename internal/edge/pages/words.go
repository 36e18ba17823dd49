package pages

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/iso"
	"github.com/openthreeds/threeds/internal/edge/lanes"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// functions returns what templates call.
func (h *Handler) functions() template.FuncMap {
	return template.FuncMap{
		"icon": icon, "scheme": h.schemeMark, "amount": amount, "pill": pillOf, "clock": h.clock, "moment": moment,
		"segment": url.PathEscape, "took": took, "percent": percent, "number": number, "why": why, "words": words,
		"width": width, "card": cardName, "sentence": sentence, "sourceLinks": sourceLinks,
		"merchantInput": newMerchantInput,
		"number64":      func(n int) string { return number(int64(n)) },
		"list":          func(of ...string) []string { return of }, "ms": lanes.Span,
		"listSearch": func(path, label, filter string) listSearch { return listSearch{path, label, filter} },
		"secret":     func(title, text, back string) secret { return secret{title, text, back} },
	}
}

// A listSearch is the form that searches a list.
type listSearch struct{ Path, Label, Filter string }

// A secret is something that is shown once.
type secret struct{ Title, Text, Back string }

// icons are the shapes of the icons, in a square of 16.
var icons = map[string]string{
	"home": "M2.5 7.5L8 3l5.5 4.5V13.5h-11z", "rows": "M2.5 4h11M2.5 8h11M2.5 12h7", "bars": "M3 13V8M8 13V3M13 13V6",
	"question":    "M5.5 6a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.5M8 12.3v.1",
	"shop":        "M2.5 6.5L3.5 3h9l1 3.5M3 6.5V13h10V6.5M2.5 6.5h11",
	"certificate": "M4 2.5h8V9H4zM6 5h4M6.5 9v5L8 13l1.5 1V9", "ranges": "M2.5 4.5h11M2.5 8h7M2.5 11.5h9",
	"hook": "M4 9a2.5 2.5 0 1 0 2.5 2.5H11M8 4.5a2.5 2.5 0 1 1 2 3.8",
	"book": "M3.5 2.5h9v11h-9zM6 6h4M6 9h4", "person": "M8 3a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM3 13.5c.5-3 9.5-3 10 0",
	"key":  "M5 8a2.7 2.7 0 1 0 0 5.4A2.7 2.7 0 0 0 5 8zM7 9l6-6M11 5l1.8 1.8",
	"menu": "M2.5 4.5h11M2.5 8h11M2.5 11.5h11", "search": "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.4 10.4L14 14",
	"check": "M3 8.5l3.2 3L13 4.5", "cross": "M4 4l8 8M12 4l-8 8", "dash": "M3.5 8h9",
	"info":    "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 7.5V11M8 5v.1",
	"clock":   "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 5v3.2l2 1.4",
	"warning": "M8 2.5L14.5 13.5h-13zM8 6.5v3.2M8 11.7v.1", "save": "M8 3v8M4.5 8L8 11.5 11.5 8M3 14h10",
	"play": "M5 3.5l7 4.5-7 4.5z", "lock": "M4 7.5h8v6H4zM5.5 7.5V5.5a2.5 2.5 0 0 1 5 0v2",
	"eraser":  "M9.5 2.5l4 4-7 7H4.5l-2-2zM6 6l4 4M8 13.5h5.5",
	"receipt": "M4 2.5h8v11l-2-1.5-2 1.5-2-1.5-2 1.5zM6 5.5h4M6 8.5h4",
	"nodes":   "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5v.1M5 11v.1",
	"sliders": "M2.5 5h5M11.5 5h2M7.5 3v4h4V3zM2.5 11h2M8.5 11h5M4.5 9v4h4V9z",
	"link":    "M9 3h4v4M13 3L7.5 8.5M11 9v4H3V5h4", "copy": "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
}

// icon returns an icon by its name, with further classes.
func icon(name string, classes ...string) template.HTML {
	class := template.HTMLEscapeString(strings.Join(append([]string{"i"}, classes...), " "))
	return template.HTML(`<svg class="` + class + `" viewBox="0 0 16 16" aria-hidden="true"><path d="` +
		icons[name] + `"/></svg>`)
}

// schemeMark returns the name of a scheme, after its mark if the configuration has a colour for it.
func (h *Handler) schemeMark(word string) template.HTML {
	name := template.HTML(template.HTMLEscapeString(h.schemeName(word)))
	colour := h.scheme(word).Colour
	if colour == "" {
		return name
	}
	return `<svg class="mark" viewBox="0 0 10 10" aria-hidden="true"><circle cx="5" cy="5" r="4.5" fill="` +
		template.HTML(template.HTMLEscapeString(colour)) + `"/></svg>` + name
}

// schemeName returns the name of a scheme for people.
func (h *Handler) schemeName(word string) string {
	names := map[string]string{
		"visa": "Visa", "mastercard": "Mastercard", "amex": "American Express", "jcb": "JCB", "upi": "UnionPay",
		"protectbuy": "ProtectBuy", "cb": "Cartes Bancaires", "eftpos": "eftpos", "elo": "Elo", "rupay": "RuPay",
		"mada": "mada", "troy": "Troy", "mir": "Mir", "itmx": "ITMX", "": "Unknown scheme",
	}
	if name, ok := names[word]; ok {
		return name
	}
	return cmp.Or(h.scheme(word).Rules.Name(), word)
}

// cardName returns the last digits of a card as the pages show them.
func cardName(c journal.Card) string {
	return lanes.Prefix("•••• ", c.Last4)
}

// amount returns an amount in minor units with its currency.
func amount(minor, currency string) string {
	exponent, isCode := iso.Currency(currency)
	letters, hasLetters := iso.CurrencyLetters(currency)
	if minor == "" {
		return ""
	}
	if !isCode || !hasLetters || strings.Trim(minor, "0123456789") != "" {
		return strings.TrimSpace(minor + " " + currency)
	}
	if exponent > 0 {
		minor = strings.Repeat("0", max(0, exponent+1-len(minor))) + minor
		minor = minor[:len(minor)-exponent] + "." + minor[len(minor)-exponent:]
	}
	return minor + " " + letters
}

// clock returns a time in UTC. It has its year unless that is the present one.
func (h *Handler) clock(t time.Time) string {
	if t.UTC().Year() != h.Now().UTC().Year() {
		return t.UTC().Format("2 Jan 2006 15:04:05")
	}
	return t.UTC().Format("2 Jan 15:04:05")
}

func moment(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05 UTC") }

// took returns a number of milliseconds for people, "" for none.
func took(ms int64) string {
	if ms <= 0 {
		return ""
	}
	return lanes.Span(ms)
}

// percent returns a share with a space at which no line ends.
func percent(share float64) string { return fmt.Sprintf("%.1f\u00a0%%", share*100) }

func width(share float64) string { return fmt.Sprintf("%.1f", max(0, min(share, 1))*100) }

// number returns a number with a comma between thousands.
func number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// words returns an identifier such as not_authenticated as words.
func words(identifier string) string {
	text := strings.ReplaceAll(identifier, "_", " ")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// A pill is a state in a word, with a colour and a shape.
type pill struct{ Class, Icon, Word string }

// pillOf returns the state of a record.
func pillOf(r *journal.Record) pill {
	switch api.Status(r.Status) {
	case api.StatusRequiresBrowser, api.StatusChallenge:
		return pill{"info", "clock", "Waiting for the shopper"}
	case api.StatusDecoupled:
		return pill{"info", "clock", "Waiting for the bank"}
	case api.StatusInProgress:
		return pill{"info", "clock", "On its way"}
	case api.StatusExpired:
		if r.Result == "" {
			return pill{"calm", "dash", "Expired"}
		}
	case api.StatusCancelled:
		return pill{"calm", "dash", "Cancelled"}
	}
	if r.IsChanged {
		return pill{"bad", "warning", "Changed in the store"}
	}
	if r.Status == "refused" {
		return pill{"bad", "cross", "Refused by us"}
	}
	switch api.Result(r.Result) {
	case api.ResultAuthenticated:
		return pill{"good", "check", "Authenticated"}
	case api.ResultAttempted, api.ResultInformational, api.ResultDataOnly:
		return pill{"info", "info", words(r.Result)}
	case api.ResultNotAuthenticated, api.ResultRejected, api.ResultError:
		return pill{"bad", "cross", words(r.Result)}
	case api.ResultAbandoned, api.ResultBankUnreachable:
		return pill{"warn", "warning", words(r.Result)}
	case api.ResultUnavailable, api.ResultNotEnrolled:
		return pill{"calm", "dash", words(r.Result)}
	}
	if r.API == "v1" && r.TransStatus != "" {
		return pill{"info", "info", "Version 1: " + r.TransStatus}
	}
	return pill{"calm", "dash", words(r.Status)}
}

// why returns in a few words how it came to the state of a record, with its codes.
func why(r *journal.Record) string {
	return lanes.Join(", ", how(r), lanes.Prefix("error ", r.ErrorCode), lanes.Prefix("reason ", r.TransStatusReason))
}

// how returns in a few words how it came to the state of a record.
func how(r *journal.Record) string {
	switch {
	case r.Status == "refused" && len(r.Elements) > 0:
		return strings.Join(r.Elements[:min(3, len(r.Elements))], ", ")
	case r.Status == "refused":
		return r.ErrorDetail
	case r.Challenged && slices.Contains([]string{"authenticated", "not_authenticated"}, r.Result):
		return "after a challenge"
	case r.Challenged && r.Result == "":
		return "challenge"
	case r.Result == "authenticated":
		return "no challenge"
	}
	return ""
}
