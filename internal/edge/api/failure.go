package api

import (
	"cmp"
	"net/http"
	"strconv"
	"sync"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/message"
)

// A failure is an answer of the listener itself: the request did not reach an engine. Each
// protocol writes it in its own form.
type failure struct {
	status    int          // HTTP status
	mpiStatus int          // HTTP status in 3-D Secure 1.0.2 where it is another one; else 0
	code      message.Code // errorCode of the Erro
	kind      string       // "type" of the error in 3-D Secure 1.0.2
	entries   []api.Fault  // for X-Errors; none for most failures
	text      string       // errorDetail of the Erro if there are no entries, "message" of the error in 3-D Secure 1.0.2

	encodeOnce sync.Once // guards encoded
	encoded    []byte    // what erroJSON returns
}

func (f *failure) Error() string { return "api: " + f.text }

// erro returns the failure as an Erro. The version of the request is not known yet. If a parameter or a header is
// wrong, errorDetail is just its name, as it is for a wrong element.
func (f *failure) erro() message.Error {
	detail := f.text
	if len(f.entries) > 0 {
		detail = cmp.Or(f.entries[0].Parameter, f.entries[0].Header, detail)
	}
	return message.Error{
		Version: message.V220, Code: f.code, Component: "S",
		Description: check.Describe(f.code), Detail: detail,
	}
}

// erroJSON returns the message of erro. It is encoded once: under overload most answers are the same failure.
func (f *failure) erroJSON() []byte {
	f.encodeOnce.Do(func() { f.encoded = f.erro().JSON() })
	return f.encoded
}

var (
	unknownKey = &failure{status: http.StatusUnauthorized, kind: "unauthorized", text: "Not Authorized"}

	// The key may be good, and it is the server that cannot check it.
	keyNotJudged = newFailure(http.StatusBadRequest, http.StatusServiceUnavailable, message.TransientFailure,
		"unavailable",
		"The API key cannot be checked at present, try again")
	// As keyNotJudged, and the same goes for all other keys.
	noKeyJudged = newFailure(http.StatusServiceUnavailable, 0, message.TransientFailure, "unavailable",
		"No API key can be checked at present, try again")

	storeUnreachable = newFailure(http.StatusBadRequest, http.StatusServiceUnavailable, message.TransientFailure,
		"unavailable",
		"The server could not reach its own data, try again")

	noOperation = newFailure(http.StatusNotFound, 0, message.InvalidMessage, "invalid_request",
		"There is no such operation; there are /preauth, /auth, /postauth, /authentications, /outcome, /lookup, "+
			"/explain, /webhook-endpoints, /events, /enrolled and /check")
	wrongMethod = newFailure(http.StatusMethodNotAllowed, 0, message.InvalidMessage, "invalid_request",
		"The method is POST")
	otherMethod = newFailure(http.StatusMethodNotAllowed, 0, message.InvalidMessage, "invalid_request",
		"The method is another one, see Allow")
	encodedBody = newFailure(http.StatusUnsupportedMediaType, 0, message.InvalidMessage, "invalid_request",
		"The body has a Content-Encoding; send it as it is")
	rateLimited = newFailure(http.StatusTooManyRequests, 0, message.TooManyMessages, "rate_limit",
		"The rate limit of the key is reached")
	merchantLimited = newFailure(http.StatusTooManyRequests, 0, message.TooManyMessages, "rate_limit",
		"The limit that the operator has set for the merchant is reached")
	merchantDisabled = newFailure(http.StatusForbidden, 0, message.AccessDenied, string(MerchantDisabled),
		"The merchant was disabled by the operator of this server")
	serverOverload = newFailure(http.StatusServiceUnavailable, 0, message.TransientFailure, "unavailable",
		"The server is overloaded")
	bodyIncomplete = newFailure(http.StatusBadRequest, 0, message.InvalidMessage, "invalid_request",
		"The body did not come completely")
	notJSON = newFailure(http.StatusBadRequest, 0, message.InvalidMessage, "invalid_request",
		"The body is not a JSON object")
	internalFailure = newFailure(http.StatusInternalServerError, 0, message.PermanentFailure, "internal",
		"The server failed")
)

func newFailure(status, mpiStatus int, code message.Code, kind, text string) *failure {
	return &failure{status: status, mpiStatus: mpiStatus, code: code, kind: kind, text: text}
}

// newFailureOf returns the failure of a request to an operation of EMV 3-D Secure that has one fault of format.
func newFailureOf(entry api.Fault, kind, text string) *failure {
	f := newFailure(http.StatusBadRequest, 0, message.Format, kind, text)
	f.entries = []api.Fault{entry}
	return f
}

// limitOf returns the limit of a number or a length.
func limitOf(least, most int) *api.Limit { return &api.Limit{Min: &least, Max: &most} }

// bodyTooLarge is the failure of a body that is longer than limit, in bytes.
func bodyTooLarge(limit int64) *failure {
	return newFailure(http.StatusRequestEntityTooLarge, 0, message.InvalidMessage, "invalid_request",
		"The body is larger than "+strconv.FormatInt(limit, 10)+" bytes")
}
