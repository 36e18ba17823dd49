package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/listen"
	"github.com/openthreeds/threeds/internal/mpi"
	"github.com/openthreeds/threeds/internal/obs"
)

// An MPI is what the listener wants of the engine of 3-D Secure 1.0.2.
type MPI interface {
	Enrolled(ctx context.Context, acc *account.Account, asked mpi.Enrollment) mpi.Answer
	// Check returns a *mpi.ParamError for a PARes that is not good; another
	// error means that it could not be judged.
	Check(ctx context.Context, acc *account.Account, pares string) (mpi.Checked, error)
}

// legacy are the operations of 3-D Secure 1.0.2: form in, JSON out, their own
// way of bringing the key and of telling errors.
var legacy = map[string]func(h *Handler, r *http.Request, acc *account.Account, body []byte) (any, error){
	"/enrolled": (*Handler).enrolled,
	"/check":    (*Handler).check,
}

// A fault is an answer of the MPI's operations other than the wanted one. Param
// and message are null when they are empty.
type fault struct {
	status               int
	param, kind, message string
}

func (f *fault) Error() string { return "api: " + f.kind }

var (
	unauthorized = &fault{http.StatusUnauthorized, "", "unauthorized", "Not Authorized"}
	wrongMethod  = &fault{http.StatusMethodNotAllowed, "", "invalid_request", "The method is POST"}
	cutOff       = &fault{http.StatusBadRequest, "", "invalid_request", "The body did not come completely"}
	notJSON      = &fault{http.StatusBadRequest, "", "invalid_request", "The body is not a JSON object"}
	tooMany      = &fault{http.StatusTooManyRequests, "", "rate_limit", "The rate limit of the key is reached"}
	overloaded   = &fault{http.StatusServiceUnavailable, "", "unavailable", "The server is overloaded"}
	unreachable  = &fault{http.StatusServiceUnavailable, "", "unavailable", "The server could not reach its own data, try again"}
	unjudged     = &fault{http.StatusServiceUnavailable, "", "unavailable", keyNotJudged}
	internal     = &fault{http.StatusInternalServerError, "", "internal", "The server failed"}
)

// serveMPI is ServeHTTP for the MPI's operations: the key first (M1), then
// method, limits and body.
func (h *Handler) serveMPI(w http.ResponseWriter, r *http.Request) {
	var key string
	if len(r.Header["Authorization"]) == 1 { // as in keyOf
		key, _, _ = r.BasicAuth()
	}
	acc, err := h.Keys.Authenticate(r.Context(), key)
	switch {
	case errors.Is(err, account.ErrUnknownKey):
		obs.RequestOf(r.Context()).MarkStranger()
		w.Header().Set("WWW-Authenticate", `Basic realm="threeds"`)
		h.turnAway(w, r, func() { h.deny(w, r, unauthorized) })
		return
	case errors.Is(err, account.ErrNoKeyJudged), errors.Is(err, account.ErrKeyNotJudged):
		obs.RequestOf(r.Context()).MarkStranger()
		obs.RequestOf(r.Context()).Refuse("key_not_judged")
		h.turnAway(w, r, func() { h.deny(w, r, unjudged) })
		return
	case err != nil:
		obs.RequestOf(r.Context()).MarkStranger()
		h.notLookedUp(r, err)
		h.turnAway(w, r, func() { h.deny(w, r, unreachable) })
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		h.turnAway(w, r, func() { h.deny(w, r, wrongMethod) })
		return
	}
	noteAccount(r, acc)
	if wait, ok := h.Limits.Allow(key); !ok {
		h.refused(r, RateLimit)
		w.Header().Set("Retry-After", strconv.Itoa(wait))
		h.turnAway(w, r, func() { h.deny(w, r, tooMany) })
		return
	}
	v, ok := h.enter(classOf(pathOf(r)))
	if !ok {
		h.turnAway(w, r, func() { h.overloaded(w, r, InFlight) })
		return
	}
	defer v.leave()
	w, r, answered := h.trace(w, r, acc)
	defer answered()
	body, err := v.read(w, r, h.body(), nil)
	if err != nil {
		h.undelivered(w, r, &v, err)
		return
	}
	listen.Arrived(r.Context())
	answer, err := legacy[pathOf(r)](h, r, acc, body)
	h.reply(w, r, answer, err)
}

// undelivered is unread for the MPI's operations.
func (h *Handler) undelivered(w http.ResponseWriter, r *http.Request, v *visit, err error) {
	leave(w, r)
	defer v.end(w, r)
	if errors.Is(err, errNoPlace) {
		h.overloaded(w, r, InFlight)
		return
	}
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		h.deny(w, r, &fault{http.StatusRequestEntityTooLarge, "", "invalid_request",
			"The body is larger than " + strconv.FormatInt(over.Limit, 10) + " bytes"})
		return
	}
	h.Log.DebugContext(r.Context(), "body not read", "path", r.URL.Path, "err", err)
	h.deny(w, r, cutOff)
}

// reply writes what one of the MPI's operations came to.
func (h *Handler) reply(w http.ResponseWriter, r *http.Request, answer any, err error) {
	if err == nil {
		h.write(w, http.StatusOK, encode(answer))
		return
	}
	if bad, ok := errors.AsType[*mpi.ParamError](err); ok {
		h.deny(w, r, &fault{status: http.StatusBadRequest, param: bad.Param, kind: bad.Type})
		return
	}
	if bad, ok := errors.AsType[*fault](err); ok {
		h.deny(w, r, bad)
		return
	}
	abandon(r)
	if errors.Is(err, mpi.ErrUnavailable) {
		h.deny(w, r, unreachable)
		return
	}
	h.Log.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "err", err)
	h.deny(w, r, internal)
}

// deny answers with a fault.
func (h *Handler) deny(w http.ResponseWriter, r *http.Request, f *fault) {
	var elements []string
	if f.param != "" {
		elements = []string{f.param}
	}
	obs.RequestOf(r.Context()).SetError(f.kind, elements, "")
	if f.status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	var body struct {
		Error struct {
			Param   *string `json:"param"`
			Type    string  `json:"type"`
			Message *string `json:"message"`
		} `json:"error"`
	}
	body.Error.Param, body.Error.Type, body.Error.Message = orNull(f.param), f.kind, orNull(f.message)
	h.write(w, f.status, encode(body))
}

func (h *Handler) enrolled(r *http.Request, acc *account.Account, body []byte) (any, error) {
	sent, err := readParams(r.Header.Get("Content-Type"), body)
	if err != nil {
		return nil, notJSON
	}
	asked, err := mpi.ReadEnrollment(sent)
	if err != nil {
		return nil, err
	}
	a := h.MPI.Enrolled(context.WithoutCancel(r.Context()), acc, asked)
	type trouble struct {
		Message string `json:"message"`
		Detail  string `json:"detail"`
	}
	answer := struct {
		ACSURL   *string  `json:"acs_url"`
		PAReq    *string  `json:"pareq"`
		Enrolled *string  `json:"enrolled"`
		ECI      string   `json:"eci"`
		Error    *trouble `json:"error"`
	}{orNull(a.ACSURL), orNull(a.PAReq), orNull(a.Enrolled), a.ECI, (*trouble)(a.Error)}
	return answer, nil
}

func (h *Handler) check(r *http.Request, acc *account.Account, body []byte) (any, error) {
	sent, err := readParams(r.Header.Get("Content-Type"), body)
	if err != nil {
		return nil, notJSON
	}
	pares, err := mpi.ReadPARes(sent)
	if err != nil {
		return nil, err
	}
	c, err := h.MPI.Check(context.WithoutCancel(r.Context()), acc, pares)
	return struct {
		Amount        string `json:"amount"`
		Currency      string `json:"currency"`
		CAVV          string `json:"cavv"`
		CAVVAlgorithm string `json:"cavv_algorithm"`
		ECI           string `json:"eci"`
		MerchantID    string `json:"merchant_id"`
		Last4         string `json:"last4"`
		Status        string `json:"status"`
		XID           string `json:"xid"`
	}(c), err
}

// orNull is a text, or null when it is empty.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// encode writes an answer as JSON, addresses as they are.
func encode(answer any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(answer); err != nil {
		panic("api: " + err.Error()) // structs of texts
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
