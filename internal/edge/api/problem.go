package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/message"
)

// problemProtocol is the protocol of /authentications and /outcome. Its errors are problems (RFC 9457).
type problemProtocol struct{ v2 }

const problemURN = "urn:threeds:problem:"

// titles are the names of problems, and what they say to people.
var titles = map[string]string{
	"malformed":              "The request is not what this operation reads",
	"invalid":                "The request has faults",
	"not-found":              "There is nothing here",
	"method-not-allowed":     "The method is another one here",
	"too-large":              "The body is too large",
	"unsupported-encoding":   "The body has a Content-Encoding",
	"final":                  "The authentication is over",
	"not-cancellable":        "The authentication cannot be cancelled",
	"unsupported-version":    "The version cannot be used",
	"browser-not-configured": "Browsers cannot be served",
	"journal-off":            "There is no journal",
	"in-progress":            "A request with this Idempotency-Key is in progress",
	"idempotency-mismatch":   "The Idempotency-Key was used for another request",
	"no-endpoint":            "There is no endpoint to deliver to",
	"answer-unreadable":      "The kept answer cannot be read any more",
	"merchant-disabled":      "The merchant was disabled",
	"rate-limited":           "A limit of the key or of the merchant is reached",
	"overloaded":             "The server cannot serve this now",
	"internal":               "The server failed",
}

// problemNames are the names of problems by HTTP status; any other status is "internal".
var problemNames = map[int]string{
	http.StatusBadRequest:            "malformed",
	http.StatusForbidden:             "merchant-disabled",
	http.StatusNotFound:              "not-found",
	http.StatusMethodNotAllowed:      "method-not-allowed",
	http.StatusRequestEntityTooLarge: "too-large",
	http.StatusUnsupportedMediaType:  "unsupported-encoding",
	http.StatusTooManyRequests:       "rate-limited",
	http.StatusServiceUnavailable:    "overloaded",
}

// newProblem returns the problem of a name with its title.
func newProblem(name string, status int, detail string, entries ...api.Fault) *api.Problem {
	return &api.Problem{Type: problemURN + name, Title: titles[name], Status: status, Detail: detail, Faults: entries}
}

// noAuthentication answers for every id that the caller has no authentication of, whatever is wrong with it.
var noAuthentication = newProblem("not-found", http.StatusNotFound,
	"No authentication of yours has this id, or none any more")

// storeAway answers when the store could not be asked.
var storeAway = newProblem("internal", http.StatusServiceUnavailable,
	"The server could not reach its own data, try again")

// storeOutcome is the outcome in the metrics of a request that failed because of the store. It is the Erro of the other
// operations, because the alert about the store counts that.
var storeOutcome = message.TransientFailure.String()

// writeFailure answers a request that the listener itself refuses. A request without a good key is answered as by the
// other operations.
func (p problemProtocol) writeFailure(h *Handler, w http.ResponseWriter, r *http.Request, f *failure) {
	if f == unknownKey {
		p.v2.writeFailure(h, w, r, f)
		return
	}
	status := cmp.Or(f.mpiStatus, f.status)
	h.writeProblem(w, r, newProblem(cmp.Or(problemNames[status], "internal"), status, f.text))
}

func (p problemProtocol) writeError(h *Handler, w http.ResponseWriter, r *http.Request, err error) {
	if said, ok := errors.AsType[*api.Problem](err); ok {
		h.writeProblem(w, r, said)
		return
	}
	if _, ok := errors.AsType[*auth.TooManyError](err); ok {
		h.countRefusal(r, PerMerchant)
		setRetryAfter(w)
		h.writeProblem(w, r, tooManyOfMerchant)
		return
	}
	switch {
	case errors.Is(err, auth.ErrNoAuthentication):
		h.writeProblem(w, r, noAuthentication)
		return
	case errors.Is(err, txn.ErrStoreUnreachable):
		h.writeProblem(w, r, storeAway)
		return
	case errors.Is(err, errStore):
		h.logUnlessGone(r, err)
		h.writeProblem(w, r, storeAway)
		return
	}
	h.logUnlessGone(r, err)
	p.writeFailure(h, w, r, internalFailure)
}

func (h *Handler) writeProblem(w http.ResponseWriter, r *http.Request, p *api.Problem) {
	var names []string
	for _, e := range p.Faults {
		names = append(names, strings.TrimPrefix(e.Where(), "/"))
	}
	obs.RequestOf(r.Context()).SetError(strings.TrimPrefix(p.Type, problemURN), names, "")
	if p == storeAway {
		obs.RequestOf(r.Context()).Refuse(storeOutcome)
	}
	if p.Status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		setRetryAfter(w)
	}
	if h.DocsURL != "" {
		row := "error-finder.html#types-of-problems-" + strings.ReplaceAll(p.Type, ":", "")
		w.Header().Set("Link", "<"+h.DocsURL+row+`>; rel="help"`)
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // a problem has nothing that cannot be encoded
	}
	h.writeAs(w, p.Status, "application/problem+json", body)
}
