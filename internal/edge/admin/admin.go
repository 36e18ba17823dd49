// Package admin serves the admin API: API keys, merchants, the journal, tokens and the audit trail as JSON below /admin/v1. Set the
// fields of a [Handler] and serve it on the console's listener.
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
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// Prefix begins the path of every route.
const Prefix = "/admin/v1/"

// A Handler serves the admin API. Set its fields before use.
type Handler struct {
	Operators *operator.Service
	Store     interface {
		PutKey(ctx context.Context, k store.Key) error
		Keys(ctx context.Context) ([]store.Key, error)
		RevokeKey(ctx context.Context, hash []byte) error
		store.States
	}
	Ring      func() account.Ring       // the key ring in use
	Merchants func() *merchant.Registry // those of the configuration in use, and of the store
	Journal   journal.Store             // nil means that there is no journal
	// Erase removes what belongs to the card or the merchant of a query, from the journal and from all that tells the same.
	Erase func(ctx context.Context, q journal.Query) (Erased, error)
	// JournalKeys sign exports of the journal and of the audit trail; nil: there is no such export.
	JournalKeys *journal.Keys
	Hooks       *webhook.Service                  // endpoints of merchants, and what they were told
	RulesOf     func(scheme string) *scheme.Sheet // the rules of a scheme; nil: those that are public
	Now         func() time.Time
	Log         *slog.Logger
	Proxies     func() []netip.Prefix // those in front, whose X-Forwarded-For is believed; nil: there are none
	// Explain says what is wrong with a pasted text; of a request, what /auth would make of it for a merchant, "" for one
	// without a profile. It returns an object of JSON, or an error that says why the text cannot be read and quotes nothing.
	// It keeps nothing.
	Explain func(merchant string, text []byte) (json.RawMessage, error)
	// PasskeyURL returns the origin of the console if operators log in by passkey, else ""; nil: they do not.
	PasskeyURL func() string
	// TakesNoToken has the API answer every request with 401: it is for the pages of a console without login alone.
	TakesNoToken bool
	// Node is the server, as the operations on directories see it; nil: there are no directories.
	Node *Node

	operators sync.Mutex // held from the look for another admin to the change
	exports   exportLimit

	once sync.Once
	mux  *http.ServeMux
}

// A route is one operation of the API, and who may call it.
type route struct {
	method, path string
	least        operator.Role // the least role that may call it
	isForOwn     bool          // tokens of one merchant may call it too, and see that merchant only
	summary      string
	do           func(h *Handler, r *request) (any, error)
}

// routes returns the one table of operations and roles.
func routes() []route {
	return []route{
		{"GET", "openapi.json", operator.Viewer, true, "This description", describe},
		{"GET", "keys", operator.Viewer, true, "List API keys", listKeys},
		{"POST", "keys", operator.Operator, true, "Create an API key, which is shown once", createKey},
		{"DELETE", "keys/{hash}", operator.Operator, true, "Revoke an API key", revokeKey},
		{"GET", "merchants", operator.Viewer, true, "List merchants", listMerchants},
		{"GET", "merchants/{name}", operator.Viewer, true, "Show a merchant", showMerchant},
		{"POST", "merchants", operator.Operator, false, "Add a merchant", addMerchant},
		{"PATCH", "merchants/{name}", operator.Operator, false, "Change members of a merchant", changeMerchant},
		{"DELETE", "merchants/{name}", operator.Operator, false, "Remove a merchant", removeMerchant},
		{"GET", "authentications", operator.Viewer, true, "Search the journal, newest first", listRecords},
		{"GET", "authentications/{id}", operator.Viewer, true, "Show a record of the journal with its steps", showRecord},
		{"POST", "authentications/search", operator.Viewer, true, "Search the journal, also by a whole card number", searchRecords},
		{"GET", "reports", operator.Viewer, true, "Count authentications by something they have in common", report},
		{"GET", "billing", operator.Viewer, true, "Count what is billed, for each merchant and month, also of records that have gone", showBilling},
		{"GET", "reports/mandates", operator.Viewer, true, "Count requests that do not keep a rule of their scheme", reportMandates},
		{"GET", "overview", operator.Viewer, true, "Say how authentications went, and what needs attention", overview},
		{"GET", "directories", operator.Viewer, false, "List directory servers with how they are", listDirectories},
		{"GET", "ranges", operator.Viewer, false, "Say how things stand with the card ranges of each directory", listRanges},
		{"GET", "ranges/{scheme}", operator.Viewer, false, "Say what the server would do with cards that begin with a prefix", showRanges},
		{"GET", "ranges/{scheme}/diff", operator.Viewer, false, "Say how two generations of card ranges differ", compareRanges},
		{"POST", "ranges/{scheme}/accept", operator.Operator, false, "Use the card ranges that are held back", acceptRanges},
		{"POST", "ranges/{scheme}/refresh", operator.Operator, false, "Ask the directory server for its card ranges", refreshRanges},
		{"GET", "tokens", operator.Admin, false, "List tokens of this API", listTokens},
		{"POST", "tokens", operator.Admin, false, "Create a token, which is shown once", createToken},
		{"DELETE", "tokens/{name}", operator.Admin, false, "Revoke a token", revokeToken},
		{"GET", "operators", operator.Admin, false, "List who may log in to the console", listOperators},
		{"POST", "operators", operator.Admin, false, "Make a link for a passkey, which is shown once", inviteOperator},
		{"PATCH", "operators/{name}", operator.Admin, false, "Give an operator another role", changeOperator},
		{"DELETE", "operators/{name}", operator.Admin, false, "Remove an operator", removeOperator},
		{"GET", "audit", operator.Admin, false, "Search the audit trail", searchAudit},
		{"GET", "audit/export", operator.Admin, false, "Export the audit trail in a form that can be verified", exportAudit},
		{"GET", "journal/export", operator.Operator, false, "Export the journal, as JSON lines that can be verified or as CSV", exportJournal},
		{"POST", "journal/erase", operator.Admin, false, "Remove what belongs to a card or to a merchant, for good", eraseJournal},
		{"GET", "certificates", operator.Viewer, false, "List the client certificates of directories", listCertificates},
		{"GET", "certificates/{scheme}", operator.Viewer, false, "Show the client certificates of a directory", showCertificates},
		{"POST", "certificates/{scheme}/request", operator.Operator, false, "Make a key and its certificate signing request", requestCertificate},
		{"POST", "certificates/{scheme}/install", operator.Operator, false, "Install a certificate, to be used at a time or when it is activated", installCertificate},
		{"POST", "certificates/{scheme}/activate", operator.Operator, false, "Bring the installed certificate into use", activateCertificate},
		{"POST", "certificates/{scheme}/rollback", operator.Operator, false, "Bring the certificate into use that was in use before", rollbackCertificate},
		{"POST", "certificates/{scheme}/test", operator.Operator, false, "Make a TLS handshake with the directory server", testCertificate},
		{"GET", "webhook-endpoints", operator.Viewer, true, "List webhook endpoints", listHooks},
		{"POST", "webhook-endpoints", operator.Operator, true, "Add a webhook endpoint, whose secret is shown once", addHook},
		{"GET", "webhook-endpoints/{id}", operator.Viewer, true, "Show a webhook endpoint", showHook},
		{"PATCH", "webhook-endpoints/{id}", operator.Operator, true, "Change members of a webhook endpoint", changeHook},
		{"DELETE", "webhook-endpoints/{id}", operator.Operator, true, "Remove a webhook endpoint", removeHook},
		{"POST", "webhook-endpoints/{id}/rotate", operator.Operator, true, "Give an endpoint a new secret, which is shown once", rotateHook},
		{"POST", "webhook-endpoints/{id}/test", operator.Operator, true, "Post a test event, once and at once", testHook},
		{"GET", "events", operator.Viewer, true, "List events of a merchant with their deliveries, newest first", listEvents},
		{"GET", "events/{id}", operator.Viewer, true, "Show an event as it is delivered, with its deliveries", showEvent},
		{"POST", "events/{id}/resend", operator.Operator, true, "Deliver an event again, under the same id", resendEvent},
		{"POST", "explain", operator.Viewer, true, "Say what is wrong with a request, or with a message in a JSON string; nothing is kept", explain},
	}
}

// canCall reports whether an actor may call the operation.
func (rt *route) canCall(a *operator.Actor) bool {
	rank := map[operator.Role]int{operator.Viewer: 1, operator.Operator: 2, operator.Admin: 3}
	return rank[a.Role] >= rank[rt.least] && (rt.isForOwn || a.Merchant == "")
}

// check refuses an actor who may not call the operation.
func (rt *route) check(a *operator.Actor) error {
	if !rt.canCall(a) {
		return refuse(http.StatusForbidden, "This needs the role %s.", rt.least)
	}
	return nil
}

// A request is one that may be answered.
type request struct {
	*http.Request
	actor operator.Actor
	body  []byte
}

// A Problem is an answer that is not a success, as RFC 9457 has it.
type Problem = api.Problem

func refuse(status int, format string, args ...any) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// A created is the answer of an operation that has made something.
type created struct{ value any }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.once.Do(h.initMux)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.mux.ServeHTTP(w, r)
}

func (h *Handler) initMux() {
	h.mux = http.NewServeMux()
	for _, rt := range routes() {
		h.mux.HandleFunc(rt.method+" "+Prefix+rt.path, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, &rt) })
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
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
		if err := rt.check(&actor); err != nil {
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

// identify returns who asks.
func (h *Handler) identify(r *http.Request) (operator.Actor, error) {
	if h.TakesNoToken {
		return operator.Actor{}, refuse(http.StatusUnauthorized, "The admin API takes no token here: what it does is on the pages of the console.")
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
		p, isProblem := errors.AsType[*Problem](err)
		if !isProblem {
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
	_ = json.NewEncoder(w).Encode(value) // the operator who has gone needs no answer
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
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p != "" && unicode.IsUpper(rune(p[0])) }), ".")
}

// record writes to the audit trail what the actor does.
func (h *Handler) record(r *request, action, object string, before, after any) error {
	return h.Operators.Record(r.Context(), operator.Entry{
		Who: r.actor.Who, Role: r.actor.Role, From: r.actor.From,
		Action: action, Object: object, Before: before, After: after,
	})
}

// A list is the answer of an operation that lists.
type list[T any] = api.List[T]
