package acp

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/openthreeds/threeds/api"
)

// An Error is the body of an answer that is no success. The published list of codes has three words. Where none of them
// fits, Code is the same as Type.
type Error struct {
	Type    string `json:"type"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"` // a JSONPath of RFC 9535

	Status int `json:"-"` // of HTTP
}

func (e *Error) Error() string { return "acp: " + e.Message }

// The types of errors.
const (
	InvalidRequest     = "invalid_request"
	RateLimitExceeded  = "rate_limit_exceeded"
	ProcessingError    = "processing_error"
	ServiceUnavailable = "service_unavailable"
)

// The codes of errors.
const (
	InvalidCard         = "invalid_card"
	DuplicateRequest    = "duplicate_request"
	IdempotencyConflict = "idempotency_conflict"
)

// types are the types of errors by HTTP status; any other status of 4xx is InvalidRequest, of 5xx ProcessingError.
var types = map[int]string{
	http.StatusTooManyRequests: RateLimitExceeded, http.StatusServiceUnavailable: ServiceUnavailable,
}

// NewError returns an error. An empty code means that none of the published codes fits.
func NewError(status int, code, message string) *Error {
	e := &Error{Type: types[status], Code: code, Message: message, Status: status}
	switch {
	case e.Type == "" && status >= http.StatusInternalServerError:
		e.Type = ProcessingError
	case e.Type == "":
		e.Type = InvalidRequest
	}
	if code == "" {
		e.Code = e.Type
	}
	return e
}

// newFault returns the error of a request whose member at a path is not good.
func newFault(path, message string) *Error {
	e := NewError(http.StatusBadRequest, "", message)
	if e.Param = path; strings.HasPrefix(path, cardPath) {
		e.Code = InvalidCard
	}
	return e
}

// cardPath is what the paths of all members of the card begin with.
const cardPath = "$.payment_method"

// params are the members of requests that elements of the AReq come from.
var params = map[string]string{
	"acctNumber": "$.payment_method.number", "cardExpiryDate": "$.payment_method.exp_month",
	"cardholderName": "$.payment_method.name",
	"reference":      "$.merchant_id",
	"purchaseAmount": "$.amount.value", "purchaseCurrency": "$.amount.currency", "purchaseExponent": "$.amount.currency",
	"acquirerBIN": "$.acquirer_details.acquirer_bin", "acquirerMerchantID": "$.acquirer_details.acquirer_merchant_id",
	"acquirerCountryCode": "$.acquirer_details.acquirer_country", "merchantName": "$.acquirer_details.merchant_name",
	"threeDSRequestorID":           "$.acquirer_details.requestor_id",
	"threeDSRequestorChallengeInd": "$.flow_preference", "notificationURL": "$.challenge_notification_url",
	"threeDSCompInd": "$.fingerprint_completion",
	"email":          "$.shopper_details.email", "mobilePhone": "$.shopper_details.phone_number",
	"billAddrLine1": "$.shopper_details.address.line_one", "billAddrLine2": "$.shopper_details.address.line_two",
	"billAddrCity": "$.shopper_details.address.city", "billAddrState": "$.shopper_details.address.state",
	"billAddrCountry": "$.shopper_details.address.country", "billAddrPostCode": "$.shopper_details.address.postal_code",
	"browserAcceptHeader": "$.channel.browser.accept_header", "browserIP": "$.channel.browser.ip_address",
	"browserJavascriptEnabled": "$.channel.browser.javascript_enabled", "browserLanguage": "$.channel.browser.language",
	"browserUserAgent": "$.channel.browser.user_agent", "browserColorDepth": "$.channel.browser.color_depth",
	"browserJavaEnabled": "$.channel.browser.java_enabled", "browserScreenHeight": "$.channel.browser.screen_height",
	"browserScreenWidth": "$.channel.browser.screen_width", "browserTZ": "$.channel.browser.timezone_offset",
	"acceptLanguage": "$.channel.browser.language",
}

// FromFaults returns the error of a request in which the engine has found faults. It tells all of them, and param is
// where the first is that the request could have avoided.
func FromFaults(entries []api.Fault) *Error {
	e := NewError(http.StatusBadRequest, "", "The request has faults")
	var texts []string
	for _, entry := range entries {
		element := ""
		if entry.Pointer != nil {
			element, _, _ = strings.Cut(strings.TrimPrefix(*entry.Pointer, "/"), "/")
		}
		path := params[element]
		if entry.Rule == "required" && strings.HasPrefix(path, "$.channel.") {
			path = "$.channel" // whose members are there, or none is
		}
		e.Param = cmp.Or(e.Param, path)
		name := cmp.Or(path, element+", which the merchant's profile has")
		texts = append(texts, fmt.Sprintf("%s: %s", name, entry.Cure))
	}
	if strings.HasPrefix(e.Param, cardPath) {
		e.Code = InvalidCard
	}
	if len(texts) > 0 {
		e.Message = strings.Join(texts, " ")
	}
	return e
}
