package api

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/message"
)

// searchPath takes a search in its body, where a card number may stand.
const searchPath = "/authentications/search"

// The number of authentications in an answer to a search.
const (
	searchLimit    = 50
	maxSearchLimit = 100
)

// authentications begins an authentication, or lists those of the merchant.
func (h *Handler) authentications(ctx context.Context, req *request) (response, error) {
	if req.method == http.MethodPost {
		return h.create(ctx, req)
	}
	values, err := url.ParseQuery(req.query)
	if err != nil {
		return response{}, newProblem("malformed", http.StatusBadRequest, "The query is not one")
	}
	s := search{isQuery: true}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) > 1 && s.isKnown(name) {
			s.fault(name, "duplicate-member", "Give it once.", nil)
			continue
		}
		s.set(name, values.Get(name))
	}
	return h.answerSearch(ctx, req, &s)
}

// search lists the authentications of the merchant that its body asks for.
func (h *Handler) search(ctx context.Context, req *request) (response, error) {
	var members map[string]jsontext.Value
	if err := jsonv2.Unmarshal(req.body, &members); err != nil { // a member twice is an error
		cure := "Send one JSON object that has no member twice."
		return response{}, problemOf(faults.New(message.InvalidMessage, "", "json", cure))
	}
	var s search
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var text string
		var number int
		switch {
		case !s.isKnown(name):
			s.set(name, "")
		case string(members[name]) == "null": // as if it were absent
		case name == "limit" && json.Unmarshal(members[name], &number) == nil:
			s.set(name, strconv.Itoa(number))
		case name != "limit" && json.Unmarshal(members[name], &text) == nil:
			s.set(name, text)
		case name == "limit":
			s.fault(name, "type", "Send limit as a whole number, without quotes.", nil)
			s.wrong[len(s.wrong)-1].Found = faults.TypeOf(members[name])
		default:
			s.fault(name, "type", "Send "+name+" as a string.", nil)
			s.wrong[len(s.wrong)-1].Found = faults.TypeOf(members[name])
		}
	}
	return h.answerSearch(ctx, req, &s)
}

// A search is what a merchant wants to find, and what is wrong with it.
type search struct {
	isQuery bool          // the search stands in the query of the address, where no card number may stand
	query   journal.Query // what is wanted
	wrong   []api.Fault
}

// searchNames are what a search can be about, in the order of the documentation.
var searchNames = []string{"reference", "last4", "scheme", "status", "result", "from", "to", "limit", "cursor"}

var (
	lastFour   = regexp.MustCompile(`^[0-9]{4}$`)
	cardNumber = regexp.MustCompile(`^[0-9]{13,19}$`)
	cursorForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,512}$`)
)

const cursorCure = "Send what the answer before had as next, with the same search; only limit may be another."

// set sets one member of a search.
func (s *search) set(name, value string) {
	q := &s.query
	switch name {
	case "reference":
		switch q.Reference = value; {
		case cardnumber.IsIn(value):
			s.fault(name, "card-number", "Send the number as acctNumber, in the body of POST "+searchPath+".", nil)
		case !transid.IsReference(value):
			s.fault(name, "length", "Send 1 to 64 characters that can be printed.", limitOf(1, transid.MaxReference))
		}
	case "last4":
		if q.Last4 = value; !lastFour.MatchString(value) {
			s.fault(name, "pattern", "Send the last four digits of the card.", &api.Limit{Pattern: lastFour.String()})
		}
	case "scheme":
		q.Scheme = value
		s.oneOf(name, value, scheme.Names())
	case "status":
		q.Status = value
		s.oneOf(name, value, textsOf(api.Statuses()))
	case "result":
		q.Result = value
		s.oneOf(name, value, textsOf(api.Results()))
	case "from":
		q.From = s.time(name, value)
	case "to":
		q.To = s.time(name, value)
	case "limit":
		n, err := strconv.Atoi(value)
		if q.Limit = n; err != nil || n < 1 || n > maxSearchLimit {
			s.fault(name, "range", "Send a whole number from 1 to 100.", limitOf(1, maxSearchLimit))
		}
	case "cursor":
		if q.Cursor = value; !cursorForm.MatchString(value) {
			s.fault(name, "pattern", cursorCure, &api.Limit{Pattern: cursorForm.String()})
		}
	case "acctNumber":
		switch q.Card = message.PlainCardNumber(value); {
		case s.isQuery:
			s.fault(name, "not-in-url",
				"A card number may not stand in an address: send it in the body of POST "+searchPath+".", nil)
		case !cardNumber.MatchString(q.Card):
			s.fault(name, "pattern", "Send the whole card number: 13 to 19 digits.", &api.Limit{Pattern: cardNumber.String()})
		}
	default:
		s.fault(name, "unknown-member", "Leave it out, or correct its name.", &api.Limit{Allowed: searchNames})
	}
}

const spanCure = "Send a time that is not before from."

// endsBeforeItBegins reports whether no time is in a span; the zero time leaves an end open.
func endsBeforeItBegins(from, to time.Time) bool {
	return !from.IsZero() && !to.IsZero() && to.Before(from)
}

// oneOf notes a value that is none of a list.
func (s *search) oneOf(name, value string, allowed []string) {
	if !slices.Contains(allowed, value) {
		s.fault(name, "unknown-code", "Send one of the values that limit lists.", &api.Limit{Allowed: allowed})
	}
}

// time reads a time.
func (s *search) time(name, value string) time.Time {
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		s.fault(name, "pattern", "Send a time of RFC 3339, such as 2027-01-31T00:00:00Z.", nil)
	}
	return at
}

// isKnown reports whether a name is one that set knows.
func (s *search) isKnown(name string) bool {
	return name == "acctNumber" || slices.Contains(searchNames, name)
}

// fault notes what is wrong with a member. A name that is not ours is repeated only if it has the form of one.
func (s *search) fault(name, rule, cure string, limit *api.Limit) {
	if !s.isKnown(name) {
		name = faults.PrintableName(name)
	}
	e := api.Fault{Code: message.Format.String(), Rule: rule, Cure: cure, Limit: limit}
	switch {
	case s.isQuery:
		e.Parameter = name
	case name == "":
		e.Pointer = &name
	default:
		e.Pointer = new("/" + name)
	}
	s.wrong = append(s.wrong, e)
}

// textsOf returns words as texts.
func textsOf[Word ~string](words []Word) (texts []string) {
	for _, word := range words {
		texts = append(texts, string(word))
	}
	return texts
}

// noJournal answers a search on a server that keeps no journal.
var noJournal = newProblem("journal-off", http.StatusNotFound,
	"The server keeps no journal: its configuration has journal: off")

// answerSearch searches, unless the search has faults.
func (h *Handler) answerSearch(ctx context.Context, req *request, s *search) (response, error) {
	if endsBeforeItBegins(s.query.From, s.query.To) {
		s.fault("to", "condition", spanCure, nil)
	}
	if len(s.wrong) > 0 {
		return response{}, problemOf(s.wrong...)
	}
	if s.query.Limit == 0 {
		s.query.Limit = searchLimit
	}
	found, next, err := h.Engine.SearchAuthentications(ctx, req.account, s.query)
	if errors.Is(err, auth.ErrNoJournal) {
		return response{}, noJournal
	}
	if errors.Is(err, auth.ErrCursor) {
		s.fault("cursor", "condition", cursorCure, nil)
		return response{}, problemOf(s.wrong...)
	}
	if err != nil {
		return response{}, err
	}
	answer := api.List[api.AuthenticationSummary]{Data: []api.AuthenticationSummary{}, Next: api.Text(next)}
	for _, a := range found {
		answer.Data = append(answer.Data, summaryOf(a))
	}
	body, err := encode(answer)
	return response{body: body}, err
}
