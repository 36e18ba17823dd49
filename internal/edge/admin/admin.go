// Package admin serves the admin API: API keys, merchants, the journal, tokens and the audit trail as JSON below
// /admin/v1. Set the fields of a [Handler] and serve it on the console's listener.
//
// Each request brings a token, whose role says what it may do. The table of routes is what both the router and the
// OpenAPI description are made from.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/compress"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// Prefix begins the path of every route.
const Prefix = "/admin/v1/"

// A Handler serves the admin API. Set its fields before use.
type Handler struct {
	*ops.Acts
	Journal journal.Store // nil means that there is no journal
	// JournalKeys sign exports of the journal and of the audit trail; nil: there is no such export.
	JournalKeys *journal.Keys
	RulesOf     func(scheme string) *scheme.Sheet // the rules of a scheme; nil: those that are public
	Log         *slog.Logger
	Proxies     func() []netip.Prefix // proxies in front, whose X-Forwarded-For is trusted; nil means none
	// Explain says what is wrong with a pasted text. For a request it also says what /auth would make of it for a
	// merchant; "" is a merchant without a profile. It returns a JSON object, or an error that says why the text cannot
	// be read and quotes nothing. It keeps nothing.
	Explain func(merchant string, text []byte) (json.RawMessage, error)
	// TakesNoToken has the API answer every request with 401: it is for the pages of a console without login alone.
	TakesNoToken bool
	// Node is the server, as the operations on directories see it; nil: there are no directories.
	Node *Node

	exports exportLimit
	usual   usualCache

	once    sync.Once
	handler http.Handler
}

// A route is one operation of the API. Its act says who may call it.
type route struct {
	method, path string
	act          string
	summary      string
	do           operation
}

// An operation returns the answer to a request.
type operation func(h *Handler, r *request) (any, error)

// list returns the operation that answers with all things of a kind.
func list[T any](all func(*Handler, context.Context, operator.Actor) ([]T, error)) operation {
	return func(h *Handler, r *request) (any, error) {
		data, err := all(h, r.Context(), r.actor)
		return api.List[T]{Data: data}, err
	}
}

// show returns the operation that answers with the thing which a parameter of the path names.
func show[T any](parameter string, find func(*Handler, context.Context, operator.Actor, string) (T, error)) operation {
	return func(h *Handler, r *request) (any, error) {
		return find(h, r.Context(), r.actor, r.PathValue(parameter))
	}
}

// create returns the operation that makes of the body what it answers with.
func create[Asked, Made any](do func(*Handler, context.Context, operator.Actor, Asked) (Made, error)) operation {
	return func(h *Handler, r *request) (any, error) {
		var asked Asked
		if err := r.decode(&asked); err != nil {
			return nil, err
		}
		made, err := do(h, r.Context(), r.actor, asked)
		return created{made}, err
	}
}

var pathParameter = regexp.MustCompile(`\{([a-z]+)\}`)

// routes returns the one table of operations: those below, and those of acts that need an id alone.
func routes() []route {
	all := []route{
		{"GET", "openapi.json", "api describe", "This description", describe},
		{"GET", "keys", "key list", "List API keys", list((*Handler).Keys)},
		{"POST", "keys", "key create", "Create an API key, which is shown once", create((*Handler).CreateKey)},
		{"GET", "merchants", "merchant list", "List merchants", list((*Handler).ListMerchants)},
		{"GET", "merchants/{name}", "merchant list", "Show a merchant", show("name", (*Handler).Merchant)},
		{"POST", "merchants", "merchant add", "Add a merchant", addMerchant},
		{"PATCH", "merchants/{name}", "merchant set", "Change members of a merchant", changeMerchant},
		{"DELETE", "merchants/{name}", "merchant remove", "Remove a merchant", removeMerchant},
		{"POST", "merchants/{name}/disable", "merchant disable",
			"Refuse what the API keys of a merchant would begin, on all nodes", disableMerchant},
		{"GET", "authentications", "journal search", "Search the journal, newest first", listRecords},
		{"GET", "authentications/{id}", "journal show", "Show a record of the journal with its steps",
			show("id", (*Handler).ShowRecord)},
		{"POST", "authentications/search", "journal search", "Search the journal, also by a whole card number",
			searchRecords},
		{"GET", "reports", "journal report", "Count authentications by something they have in common", report},
		{"GET", "billing", "journal billing",
			"Count what is billed, for each merchant and month, also of records that have gone", showBilling},
		{"GET", "reports/mandates", "journal report", "Count requests that do not keep a rule of their scheme",
			reportMandates},
		{"GET", "overview", "journal report", "Say how authentications went, and what needs attention", overview},
		{"GET", "nodes", "nodes", "List the nodes that share the store with how they are", list((*Handler).ListNodes)},
		{"GET", "configuration", "config show", "Show the configuration in use, and what a reload would change",
			showConfiguration},
		{"GET", "directories", "directory list", "List directory servers with how they are",
			list((*Handler).ListDirectories)},
		{"GET", "ranges", "ranges status", "Say how things stand with the card ranges of each directory",
			list((*Handler).ListRanges)},
		{"GET", "ranges/{scheme}", "ranges status",
			"Say what the server would do with cards that begin with a prefix", showRanges},
		{"GET", "ranges/{scheme}/diff", "ranges status", "Say how two generations of card ranges differ", compareRanges},
		{"POST", "ranges/{scheme}/accept", "ranges accept", "Use the card ranges that are held back", acceptRanges},
		{"POST", "ranges/{scheme}/refresh", "ranges refresh", "Ask the directory server for its card ranges", refreshRanges},
		{"GET", "tokens", "token list", "List tokens of this API", list((*Handler).Tokens)},
		{"POST", "tokens", "token create", "Create a token, which is shown once", create((*Handler).CreateToken)},
		{"GET", "operators", "operator list", "List who may log in to the console", list((*Handler).ListOperators)},
		{"POST", "operators", "operator invite", "Make a link for a passkey, which is shown once",
			create((*Handler).InviteOperator)},
		{"PATCH", "operators/{name}", "operator role", "Give an operator another role", changeOperator},
		{"GET", "audit", "audit search", "Search the audit trail", searchAudit},
		{"GET", "audit/export", "audit export", "Export the audit trail in a form that can be verified", exportAudit},
		{"GET", "journal/export", "journal export", "Export the journal, as JSON lines that can be verified or as CSV",
			exportJournal},
		{"POST", "journal/erase", "journal erase", "Remove what belongs to a card or to a merchant, for good", eraseJournal},
		{"GET", "journal/holds", "journal hold list", "List legal holds, and say what they keep", listHolds},
		{"POST", "journal/holds", "journal hold add", "Set a legal hold, which erasure and retention leave out",
			create((*Handler).AddHold)},
		{"GET", "certificates", "cert status", "List the client certificates of directories",
			list((*Handler).ListCertificates)},
		{"GET", "certificates/{scheme}", "cert status", "Show the client certificates of a directory",
			show("scheme", (*Handler).ShowCertificates)},
		{"POST", "certificates/{scheme}/request", "cert request", "Make a key and its certificate signing request",
			requestCertificate},
		{"POST", "certificates/{scheme}/install", "cert install",
			"Install a certificate, to be used at a time or when it is activated", installCertificate},
		{"POST", "certificates/{scheme}/activate", "cert activate", "Bring the installed certificate into use",
			changeCertificate((*Handler).ActivateCertificate)},
		{"POST", "certificates/{scheme}/rollback", "cert rollback", "Bring the certificate into use that was in use before",
			changeCertificate((*Handler).RollBackCertificate)},
		{"POST", "certificates/{scheme}/test", "cert test", "Make a TLS handshake with the directory server",
			testCertificate},
		{"GET", "webhook-endpoints", "webhook list", "List webhook endpoints", listHooks},
		{"POST", "webhook-endpoints", "webhook add", "Add a webhook endpoint, whose secret is shown once", addHook},
		{"GET", "webhook-endpoints/{id}", "webhook list", "Show a webhook endpoint", show("id", (*Handler).Endpoint)},
		{"PATCH", "webhook-endpoints/{id}", "webhook change", "Change members of a webhook endpoint", changeHook},
		{"GET", "events", "webhook events", "List events of a merchant with their deliveries, newest first", listEvents},
		{"GET", "events/{id}", "webhook events EVENT", "Show an event as it is delivered, with its deliveries", showEvent},
		{"POST", "events/resend", "webhook resend FROM",
			"Deliver events of a span of time again, all of them or those that have failed", resendEvents},
		{"POST", "explain", "explain",
			"Say what is wrong with a request, or with a message in a JSON string; nothing is kept", explain},
	}
	for _, act := range ops.Table() {
		if act.Do == nil {
			continue
		}
		method, path, _ := strings.Cut(act.Route, " ")
		id := pathParameter.FindStringSubmatch(path)[1]
		all = append(all, route{method, path, act.Name, act.Summary, func(h *Handler, r *request) (any, error) {
			return act.Do(h.Acts, r.Context(), r.actor, r.PathValue(id))
		}})
	}
	return all
}

// A request is one that may be answered.
type request struct {
	*http.Request
	actor operator.Actor
	body  []byte
}

// A Problem is an answer that is not a success, as RFC 9457 defines it.
type Problem = api.Problem

// statuses are those of answers to refusals.
var statuses = map[ops.Reason]int{
	ops.Forbidden: http.StatusForbidden, ops.Missing: http.StatusNotFound, ops.Wrong: http.StatusBadRequest,
	ops.Conflict: http.StatusConflict,
}

// ProblemOf returns the problem that an error is; nil if it is a fault of ours.
func ProblemOf(err error) *Problem {
	if p, isProblem := errors.AsType[*Problem](err); isProblem {
		return p
	}
	if r, isRefusal := errors.AsType[*ops.Refusal](err); isRefusal {
		return refuse(statuses[r.Why], "%s", r.Error())
	}
	return nil
}

func refuse(status int, format string, args ...any) *Problem {
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...),
	}
}

// A created is the answer of an operation that has made something.
type created struct{ value any }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.once.Do(h.initHandler)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.handler.ServeHTTP(w, r)
}

func (h *Handler) initHandler() {
	mux := http.NewServeMux()
	h.handler = compress.Handler(mux)
	for _, rt := range routes() {
		mux.HandleFunc(rt.method+" "+Prefix+rt.path, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, &rt) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		_, err := h.identify(r)
		if err == nil {
			err = refuse(http.StatusNotFound, "No such operation. See GET %sopenapi.json.", Prefix)
		}
		h.answer(w, start, nil, err)
	})
}

// maxBody is the length of the longest body.
const maxBody = 16 << 10

// serve answers a request to a route.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, rt *route) {
	start := time.Now()
	answer, err := func() (any, error) {
		actor, err := h.identify(r)
		if err != nil {
			return nil, err
		}
		if err := ops.Find(rt.act).Check(&actor); err != nil {
			return nil, err
		}
		if err := rt.checkParameters(r); err != nil {
			return nil, err
		}
		if rt.path == "journal/erase" {
			AllowEraseTime(w)
		}
		asked := &request{Request: r, actor: actor}
		if rt.method == http.MethodPost || rt.method == http.MethodPatch {
			kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
			if bodies[rt.path] != nil && (err != nil || kind != "application/json") {
				return nil, refuse(http.StatusUnsupportedMediaType, "Content-Type: want application/json.")
			}
			if asked.body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, rt.maxBody())); err != nil {
				return nil, refuse(http.StatusBadRequest, "The body did not come, or has more than %d bytes.", rt.maxBody())
			}
		}
		return rt.do(h, asked)
	}()
	h.answer(w, start, answer, err)
}

// identify returns the actor of a request.
func (h *Handler) identify(r *http.Request) (operator.Actor, error) {
	if h.TakesNoToken {
		return operator.Actor{},
			refuse(http.StatusUnauthorized, "The admin API takes no token here: what it does is on the pages of the console.")
	}
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return operator.Actor{}, refuse(http.StatusUnauthorized, "Authorization: want Bearer and a token.")
	}
	actor, err := h.Operators.FindActor(r.Context(), strings.TrimSpace(token))
	if errors.Is(err, operator.ErrNoToken) {
		return actor, refuse(http.StatusUnauthorized, "Authorization: the token is unknown, was revoked or has ended.")
	}
	actor.From = listen.ClientName(r, h.Proxies)
	return actor, err
}

// answer writes an answer. The details of a failure go to the log, not to the client.
func (h *Handler) answer(w http.ResponseWriter, start time.Time, value any, err error) {
	status, kind := http.StatusOK, "application/json"
	if made, ok := value.(created); ok {
		status, value = http.StatusCreated, made.value
	}
	if err != nil {
		p := ProblemOf(err)
		if p == nil {
			h.Log.Error("admin API", "err", err)
			p = refuse(http.StatusServiceUnavailable, "The store could not be read or written. The log of the server says why.")
		}
		status, kind, value = p.Status, "application/problem+json", p
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
	}
	w.Header().Set("Server-Timing", fmt.Sprintf("total;dur=%.1f", float64(time.Since(start).Microseconds())/1000))
	if value == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if s, ok := value.(stream); ok {
		h.answerStream(w, s)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // an operator who has left needs no answer
}

// decode reads the body into v, and refuses members that v has not.
func (r *request) decode(v any) error {
	d := json.NewDecoder(strings.NewReader(string(r.body)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return refuse(http.StatusBadRequest, "%s: want %s.", memberPath(wrong.Field), typeName(wrong.Type))
		}
		return refuse(http.StatusBadRequest, "The body is no JSON object with the members that openapi.json names.")
	}
	return nil
}

// typeName returns the name of a type as those know it who write JSON: words from a list are strings.
func typeName(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Slice:
		return "[]" + typeName(t.Elem())
	case t.Kind() == reflect.String:
		return "string"
	}
	return t.String()
}

// memberPath returns the path of a member without the names of embedded types, which begin with a capital.
func memberPath(field string) string {
	parts := strings.Split(field, ".")
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p != "" && unicode.IsUpper(rune(p[0])) }),
		".")
}
