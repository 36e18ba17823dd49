package api

import (
	"net/http"
	"strconv"

	"github.com/openthreeds/threeds/message"
)

// A failure is an answer of the listener itself: the request did not reach an engine. Each
// protocol writes it in its own form.
type failure struct {
	status    int          // HTTP status
	mpiStatus int          // HTTP status in 3-D Secure 1.0.2 where it is another one; else 0
	code      message.Code // errorCode of the Erro
	kind      string       // "type" of the error in 3-D Secure 1.0.2
	text      string       // errorDetail of the Erro, "message" of the error in 3-D Secure 1.0.2
}

func (f *failure) Error() string { return "api: " + f.text }

var (
	unknownKey = &failure{status: http.StatusUnauthorized, kind: "unauthorized", text: "Not Authorized"}

	// The key may be good, and it is the server that cannot check it.
	keyNotJudged = &failure{http.StatusBadRequest, http.StatusServiceUnavailable, message.TransientFailure, "unavailable",
		"The API key cannot be checked at present, try again"}
	// As keyNotJudged, and the same goes for all other keys.
	noKeyJudged = &failure{http.StatusServiceUnavailable, 0, message.TransientFailure, "unavailable",
		"No API key can be checked at present, try again"}

	storeUnreachable = &failure{http.StatusBadRequest, http.StatusServiceUnavailable, message.TransientFailure, "unavailable",
		"The server could not reach its own data, try again"}

	noOperation = &failure{http.StatusNotFound, 0, message.InvalidMessage, "invalid_request",
		"There is no such operation; there are /preauth, /auth, /postauth, /enrolled and /check"}
	wrongMethod     = &failure{http.StatusMethodNotAllowed, 0, message.InvalidMessage, "invalid_request", "The method is POST"}
	rateLimited     = &failure{http.StatusTooManyRequests, 0, message.TooManyMessages, "rate_limit", "The rate limit of the key is reached"}
	serverOverload  = &failure{http.StatusServiceUnavailable, 0, message.TransientFailure, "unavailable", "The server is overloaded"}
	bodyIncomplete  = &failure{http.StatusBadRequest, 0, message.InvalidMessage, "invalid_request", "The body did not come completely"}
	notJSON         = &failure{http.StatusBadRequest, 0, message.InvalidMessage, "invalid_request", "The body is not a JSON object"}
	internalFailure = &failure{http.StatusInternalServerError, 0, message.PermanentFailure, "internal", "The server failed"}
)

// bodyTooLarge is the failure of a body that is longer than limit, in bytes.
func bodyTooLarge(limit int64) *failure {
	return &failure{http.StatusRequestEntityTooLarge, 0, message.InvalidMessage, "invalid_request",
		"The body is larger than " + strconv.FormatInt(limit, 10) + " bytes"}
}
