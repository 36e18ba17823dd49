// Package api is the listener for requestors: POST /preauth, /auth and /postauth of EMV
// 3-D Secure, and POST /enrolled and /check of 3-D Secure 1.0.2. Set the fields of a
// [Handler] and serve it with the server that listen.NewServer makes.
//
// The package knows HTTP and the form of answers, and nothing of the protocols behind
// them. All paths go through one chain, in [Handler.ServeHTTP]:
//
//	shed load → authenticate → route → disabled → method → rate → admit → read → handle
//
// What differs between the two protocols is in two files: v2.go and mpi.go.
package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/edge/shed"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/protocol/acp"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/idempotency"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// Default sizes of request bodies, in bytes (docs/api.md, G8).
const (
	maxAuthBody = 256 << 10
	maxBody     = 64 << 10
)

// An Engine is what the listener needs of the engine of EMV 3-D Secure. An error is an
// *[auth.TooManyError], a [message.Error] to be answered as such, or a fault of ours.
type Engine interface {
	Preauth(ctx context.Context, acc *account.Account, body []byte) ([]byte, auth.Notes, error)
	Authenticate(ctx context.Context, acc *account.Account, body []byte) ([]byte, auth.Notes, error)
	// Result returns an *[auth.PendingError] while there is no result yet.
	Result(ctx context.Context, acc *account.Account, body []byte) ([]byte, error)
	// WaitForResult waits, until ctx ends, for what Result has called pending.
	WaitForResult(ctx context.Context, acc *account.Account, pending *auth.PendingError) ([]byte, error)
	// Authentication and WaitForAuthentication return auth.ErrNoAuthentication and txn.ErrStoreUnreachable.
	Authentication(ctx context.Context, acc *account.Account, id string) (*auth.Authentication, error)
	WaitForAuthentication(ctx context.Context, acc *account.Account, id string) (*auth.Authentication, error)
	// Lookup and Explain send nothing. The entries of Lookup are what is wrong with its body.
	Lookup(ctx context.Context, acc *account.Account, body []byte) (*auth.CardLookup, []api.Fault)
	Explain(acc *account.Account, body []byte, o check.ExplainOptions) *check.Explanation
	// Create returns an *[session.RefusedError], an *[auth.TooManyError], session.ErrNoRanges or txn.ErrStoreUnreachable.
	Create(ctx context.Context, acc *account.Account, body []byte) (*auth.Authentication, *session.BrowserAccess, error)
	// SearchAuthentications returns auth.ErrNoJournal, auth.ErrCursor and txn.ErrStoreUnreachable.
	SearchAuthentications(ctx context.Context, acc *account.Account,
		q journal.Query) (found []*auth.Authentication, next string, err error)
	// Cancel returns session.ErrFinal and session.ErrNotCancellable in addition to the errors of Authentication.
	Cancel(ctx context.Context, acc *account.Account, id string) (*auth.Authentication, error)
	// What follows is for agents. The errors are those of Create and Authentication, session.ErrAlreadySent
	// and session.ErrOtherKey.
	CreateForAgent(ctx context.Context, acc *account.Account, d session.Delegation,
		body []byte) (*auth.Authentication, error)
	AuthenticateForAgent(ctx context.Context, acc *account.Account, d session.Delegation, id string,
		body []byte) (*auth.Authentication, error)
	AgentAuthentication(ctx context.Context, acc *account.Account, id string) (*auth.Authentication, error)
}

// A Keeper knows the API keys.
type Keeper interface {
	// Authenticate returns account.ErrUnknownKey for a key that is not good. Any other error means that the key may be
	// good: account.ErrKeyNotJudged, account.ErrNoKeyJudged, or an error of the lookup.
	Authenticate(ctx context.Context, key string) (*account.Account, error)
}

// A Handler is the API. Set its fields before use.
type Handler struct {
	Engine Engine
	MPI    MPI       // serves /enrolled and /check; without it they fail
	Acts   *ops.Acts // serves /webhook-endpoints and /events; without it there are none
	Keys   Keeper

	// Idempotency keeps the answers of requests with an Idempotency-Key. Nil means that the header is ignored.
	Idempotency *idempotency.Keeper

	// ACP checks the signatures of agents. Nil means that there is no /delegate_authentication.
	ACP *acp.Signature

	Gate   *shed.LoadShedder // sheds load; nil means that nothing is shed
	Limits *Limiter          // limits the rate of each key; nil means no limit

	// MerchantLimits are those of the settings of merchants, of all handlers that share them. Nil means that none count.
	MerchantLimits *MerchantLimits

	// BrowserScript is the URL of threeds.js, and BrowserIntegrity what a page checks it with.
	BrowserScript, BrowserIntegrity string

	// DocsURL is where the documentation is that problems link to, with a slash at the end. "" means that they have no
	// link.
	DocsURL string

	// Proxies are the networks of the proxies in front, whose X-Forwarded-For is trusted.
	Proxies []netip.Prefix

	// MaxInFlight is how many requests may be in flight at once, all operations together.
	// Long bodies count for several. 0 means no limit.
	MaxInFlight int64

	// InFlight is the number of requests in flight, of all handlers that share it. Nil means
	// that the handler counts for itself.
	InFlight *atomic.Int64

	// Shares counts the places of each merchant, of all handlers that share it. Nil means that the
	// handler counts for itself.
	Shares *Shares

	// Waits ends when requests that wait for a result are to be answered immediately, because the process is about to
	// end. Nil means that they wait for their whole time.
	Waits context.Context

	// Waiters limits how many requests of one merchant may wait, of all handlers that share it. Nil means no limit.
	Waiters *listen.Waiters

	AuthBody int64 // size of the largest body of /auth, in bytes; 0 means 256 KiB
	Body     int64 // size of the largest body of the other operations, in bytes; 0 means 64 KiB

	// Refused is called for each request that is refused to protect the server or other
	// clients. Nil means that they are not counted.
	Refused func(operation string, why Refusal)

	// Traces gets a span for each request except those of /preauth, in which nothing waits. Nil means that there are no
	// traces.
	Traces *obs.Traces

	// Requests writes one line for each request, and counts it. Nil means that it does not.
	Requests *obs.RequestLog

	Log *slog.Logger

	ownInFlight      atomic.Int64    // used when InFlight is nil
	ownShares        Shares          // used when Shares is nil
	waiting          atomic.Int64    // requests that wait for a result
	waitingRefusals  atomic.Int64    // answers of refuse that wait for clients of HTTP/2
	lookupFailureLog obs.LogThrottle // limits the log of keys that could not be looked up: anybody may send one
}

// An endpoint is what is served under one path.
type endpoint struct {
	protocol protocol
	maxBody  func(h *Handler) int64
	traced   bool     // requests have a span
	methods  []string // none means POST alone

	// handle does the work of a request. Nil means that there is no operation under the path.
	handle func(h *Handler, ctx context.Context, req *request) (response, error)
}

// A protocol is what clients of EMV 3-D Secure and of 3-D Secure 1.0.2 do differently.
type protocol interface {
	// apiKey returns the API key of a request, "" if it has none.
	apiKey(r *http.Request) string
	// writeFailure answers a request that did not reach an engine.
	writeFailure(h *Handler, w http.ResponseWriter, r *http.Request, f *failure)
	// writeError answers a request that handle returned err for.
	writeError(h *Handler, w http.ResponseWriter, r *http.Request, err error)
}

// A request is what an operation gets.
type request struct {
	account *account.Account
	from    string // the address of the client
	apiKey  string // as it was presented
	header  http.Header
	method  string
	path    string
	query   string // what follows the path
	body    []byte

	// claim is that of the Idempotency-Key. Nil means that the request has none.
	claim *idempotency.Claim

	// pause prepares for a wait before the answer: it gives the place of the request back, and extends the time limit
	// for the answer. Its results are those of listen.Wait.
	pause func(wait time.Duration) (waiting context.Context, done func() (isCutShort bool))
}

// A response is what an operation returns.
type response struct {
	status     int        // 0 means 200
	body       []byte     // JSON; unused if there is an error
	notes      auth.Notes // for headers, also if there is an error
	location   string     // The path of what was created; "" if nothing was.
	retryAfter bool       // the client is asked to wait before it tries again
}

var endpoints = map[string]*endpoint{
	"/preauth":  {v2{}, (*Handler).maxBody, false, nil, (*Handler).preauth},
	"/auth":     {v2{}, (*Handler).maxAuthBody, true, nil, (*Handler).auth},
	"/postauth": {v2{}, (*Handler).maxBody, true, nil, (*Handler).postauth},
	"/authentications": {problemProtocol{}, (*Handler).maxAuthBody, true, []string{http.MethodGet, http.MethodPost},
		(*Handler).authentications},
	searchPath:  {problemProtocol{}, (*Handler).maxBody, true, nil, (*Handler).search},
	"/outcome":  {problemProtocol{}, (*Handler).maxBody, true, nil, (*Handler).outcome},
	"/lookup":   {problemProtocol{}, (*Handler).maxBody, true, nil, (*Handler).lookup},
	"/explain":  {problemProtocol{}, (*Handler).maxAuthBody, true, nil, (*Handler).explain},
	"/enrolled": {mpiProtocol{}, (*Handler).maxBody, true, nil, (*Handler).enrolled},
	"/check":    {mpiProtocol{}, (*Handler).maxBody, true, nil, (*Handler).check},
}

// authenticationEndpoint serves the path of every authentication.
var authenticationEndpoint = &endpoint{
	problemProtocol{}, (*Handler).maxBody, true, []string{http.MethodGet}, (*Handler).authentication,
}

// noEndpoint answers for all other paths.
var noEndpoint = &endpoint{protocol: v2{}}

func (h *Handler) maxBody() int64     { return cmp.Or(h.Body, maxBody) }
func (h *Handler) maxAuthBody() int64 { return cmp.Or(h.AuthBody, maxAuthBody) }

// endpointOf returns what is served under the path of a request.
func (h *Handler) endpointOf(r *http.Request) *endpoint {
	ep, _ := route(pathOf(r))
	if _, isForAgents := ep.protocol.(acpProtocol); isForAgents && h.ACP == nil {
		return noEndpoint
	}
	return ep
}

// pathOf returns the path of a request as it was sent. A path that is encoded needlessly, for example with %70 for a p,
// has no endpoint: a proxy in front of this server may have rules that compare the letters of paths.
func pathOf(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.Path
}

// operationOf returns the path of the endpoint that a request is for, without an id, "other" if there is
// none.
func operationOf(r *http.Request) string {
	_, operation := route(pathOf(r))
	return operation
}

// route returns what is served under a path, and the path with ID in the place of an id.
func route(path string) (ep *endpoint, operation string) {
	switch {
	case endpoints[path] != nil:
		return endpoints[path], path
	case isCancelPath(path):
		return cancelEndpoint, "/authentications/ID/cancel"
	case strings.HasPrefix(path, authenticationsPath):
		return authenticationEndpoint, "/authentications/ID"
	}
	operation = delegateOperationOf(path)
	if ep := delegateEndpoints[operation]; ep != nil {
		return ep, operation
	}
	operation = hookOperationOf(path)
	if ep := hookEndpoints[operation]; ep != nil {
		return ep, operation
	}
	return noEndpoint, "other"
}

// ServeHTTP answers a request of either protocol. Under overload it refuses a request before it looks at anything
// except the path.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w, r, line := h.Requests.Begin(w, r, operationOf(r))
	defer h.Requests.End(line)
	ep := h.endpointOf(r)
	defer h.recoverPanic(w, r, ep)
	w.Header().Set("Cache-Control", "no-store")
	if _, ok := ep.protocol.(acpProtocol); ok {
		echoHeaders(w, r)
	}
	if !h.Gate.Admit(classOf(pathOf(r))) {
		h.refuse(w, r, func() { h.writeOverloaded(w, r, ep, Overload) })
		return
	}
	acc, failed := h.checkRequest(w, r, ep)
	if failed != nil {
		h.refuse(w, r, func() { ep.protocol.writeFailure(h, w, r, failed) })
		return
	}
	a, why := h.admit(classOf(pathOf(r)), acc.Merchant)
	switch why {
	case InFlight:
		h.refuse(w, r, func() { h.writeOverloaded(w, r, ep, InFlight) })
		return
	case MerchantInFlight:
		h.refuse(w, r, func() { h.writeMerchantLimited(w, r, ep) })
		return
	}
	defer a.release()
	if ep.traced { // only clients with a good key may decide by a traceparent whether the request is sampled
		var answered func()
		w, r, answered = h.Traces.Request(w, r, operationOf(r), r.Header.Get("Traceparent"))
		defer answered()
		noteAccount(r, acc)
	}
	h.serve(w, r, ep, acc, &a)
}

// checkRequest authenticates a request, and looks whether its merchant is disabled. Then it looks at the method, the
// coding of the body and the rate of the key, in this order (docs/api.md, G2, G14 and M1). A path that does not exist
// needs no key: browsers ask for some paths by themselves, and the answer is no secret.
func (h *Handler) checkRequest(w http.ResponseWriter, r *http.Request, ep *endpoint) (*account.Account, *failure) {
	key := ep.protocol.apiKey(r)
	acc, failed := h.authenticate(r, key)
	switch {
	case ep.handle == nil:
		return nil, noOperation
	case failed != nil:
		return nil, failed
	case acc.IsDisabled && !isForDisabled(operationOf(r)):
		h.countRefusal(r, MerchantDisabled)
		return nil, merchantDisabled
	case len(ep.methods) == 0 && r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return nil, wrongMethod
	case len(ep.methods) > 0 && !slices.Contains(ep.methods, r.Method):
		w.Header().Set("Allow", strings.Join(ep.methods, ", "))
		return nil, otherMethod
	case listen.IsEncoded(r):
		return nil, encodedBody
	}
	// Capital letters make no other key, and no other limit.
	if wait, ok := h.Limits.Allow(strings.ToLower(key)); !ok {
		h.countRefusal(r, RateLimit)
		w.Header().Set("Retry-After", strconv.Itoa(wait))
		return nil, rateLimited
	}
	if failed := h.checkMerchantRate(w, r, acc.Merchant); failed != nil {
		return nil, failed
	}
	return acc, nil
}

// isForDisabled reports whether an operation is served for a merchant that is disabled, too: it hands out the result of
// an authentication that is under way, or ends it.
func isForDisabled(operation string) bool {
	switch operation {
	case "/postauth", "/check", "/outcome", "/authentications/ID", "/authentications/ID/cancel", delegatePath + "/ID":
		return true
	}
	return false
}

// authenticate finds the account of an API key.
func (h *Handler) authenticate(r *http.Request, key string) (*account.Account, *failure) {
	acc, err := h.Keys.Authenticate(r.Context(), key)
	if err == nil {
		noteAccount(r, acc)
		if len(acc.Terms.Allow) == 0 || acc.Terms.Allows(listen.ClientAddress(r, h.Proxies)) {
			return acc, nil
		}
		err = account.ErrUnknownKey // a caller elsewhere must not learn that the key is good
	}
	line := obs.RequestOf(r.Context())
	line.MarkStranger()
	switch {
	case errors.Is(err, account.ErrUnknownKey):
		return nil, unknownKey
	case errors.Is(err, account.ErrNoKeyJudged):
		line.Refuse("key_not_judged")
		return nil, noKeyJudged
	case errors.Is(err, account.ErrKeyNotJudged):
		line.Refuse("key_not_judged")
		return nil, keyNotJudged
	}
	h.logLookupFailure(r, err)
	return nil, storeUnreachable
}

// noteAccount records the merchant whose key a request came with.
func noteAccount(r *http.Request, acc *account.Account) {
	obs.Note(r.Context(), "merchant", acc.Merchant.Name)
	obs.Note(r.Context(), "key", acc.KeyID)
}

// logLookupFailure logs that the store could not say whether a key is good. It logs nothing if the lookup ended because
// the caller has gone.
func (h *Handler) logLookupFailure(r *http.Request, err error) {
	if r.Context().Err() != nil {
		return
	}
	if others, ok := h.lookupFailureLog.Due(time.Now()); ok {
		h.Log.ErrorContext(r.Context(), "key not looked up", "err", err, "others", others)
	}
}

// serve reads the body of an admitted request, has the endpoint handle it, and answers.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, ep *endpoint, acc *account.Account, a *admission) {
	body, err := a.readBody(w, r, ep.maxBody(h))
	if err != nil {
		h.rejectBody(w, r, ep, a, err)
		return
	}
	req := &request{
		account: acc, from: listen.ClientName(r, func() []netip.Prefix { return h.Proxies }), apiKey: ep.protocol.apiKey(r),
		header: r.Header, method: r.Method, path: pathOf(r), query: r.URL.RawQuery, body: body,
	}
	if p, ok := ep.protocol.(acpProtocol); ok {
		if err := p.checkWhole(h, w, req); err != nil {
			p.writeError(h, w, r, err)
			return
		}
	}
	req.pause = func(wait time.Duration) (context.Context, func() bool) {
		a.release()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + extraTime)) // in tests it may fail
		return listen.Wait(w, r)
	}
	if key := r.Header["Idempotency-Key"]; len(key) > 0 && h.Idempotency != nil && isIdempotent(ep, r) {
		h.answerOnce(w, r, ep, req, key)
		return
	}
	h.answer(w, r, ep, req)
}

// answer has the endpoint handle a request, and answers it.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, ep *endpoint, req *request) {
	res, err := ep.handle(h, r.Context(), req)
	if res.retryAfter {
		setRetryAfter(w)
	}
	setList(w.Header(), "X-Normalised", res.notes.Normalised)
	setList(w.Header(), "X-Scheme-Rules", res.notes.Unkept)
	setList(w.Header(), "X-Schemes", res.notes.Schemes)
	if err != nil {
		ep.protocol.writeError(h, w, r, err)
		return
	}
	if res.status == http.StatusNoContent {
		w.WriteHeader(res.status)
		return
	}
	if res.location != "" {
		w.Header().Set("Location", res.location)
	}
	h.write(w, cmp.Or(res.status, http.StatusOK), res.body)
}

// abortIfGone aborts a request that failed because the caller has gone. It looks the same
// if the caller has only closed its sending side of the connection. If the handler just
// returned, net/http would answer such a caller with 200.
func abortIfGone(r *http.Request) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
}

// recoverPanic answers a request in whose handling a panic occurred. It must be deferred.
func (h *Handler) recoverPanic(w http.ResponseWriter, r *http.Request, ep *endpoint) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	h.Log.ErrorContext(r.Context(), "panic in a handler", "path", r.URL.Path, "stack", string(debug.Stack()))
	ep.protocol.writeFailure(h, w, r, internalFailure)
}

// write sends an answer in JSON.
func (h *Handler) write(w http.ResponseWriter, status int, body []byte) {
	h.writeAs(w, status, "application/json; charset=utf-8", body)
}

// writeAs sends an answer of any content type.
func (h *Handler) writeAs(w http.ResponseWriter, status int, contentType string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		h.Log.Info("answer not sent", "err", err)
	}
}
