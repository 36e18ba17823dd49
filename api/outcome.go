package api

// A Result says how an authentication ended.
type Result string

// The results.
const (
	ResultAuthenticated    Result = "authenticated"
	ResultAttempted        Result = "attempted"
	ResultInformational    Result = "informational"
	ResultDataOnly         Result = "data_only"
	ResultNotAuthenticated Result = "not_authenticated"
	ResultRejected         Result = "rejected"
	ResultUnavailable      Result = "unavailable"
	ResultNotEnrolled      Result = "not_enrolled"
	ResultAbandoned        Result = "abandoned"
	ResultBankUnreachable  Result = "bank_unreachable"
	ResultError            Result = "error"
)

// Results returns all results.
func Results() []Result {
	return []Result{
		ResultAuthenticated, ResultAttempted, ResultInformational, ResultDataOnly, ResultNotAuthenticated, ResultRejected,
		ResultUnavailable, ResultNotEnrolled, ResultAbandoned, ResultBankUnreachable, ResultError,
	}
}

// An Action says what to do after an authentication.
type Action string

// The actions.
const (
	ActionAuthorise                      Action = "authorise"
	ActionAuthoriseWithoutAuthentication Action = "authorise_without_authentication"
	ActionDoNotAuthorise                 Action = "do_not_authorise"
	ActionRetryWithChallenge             Action = "retry_with_challenge"
	ActionRetryLater                     Action = "retry_later"
	ActionAskForAnotherCard              Action = "ask_for_another_card"
	ActionKeepForLater                   Action = "keep_for_later"
)

// Actions returns all actions.
func Actions() []Action {
	return []Action{
		ActionAuthorise, ActionAuthoriseWithoutAuthentication, ActionDoNotAuthorise, ActionRetryWithChallenge,
		ActionRetryLater, ActionAskForAnotherCard, ActionKeepForLater,
	}
}

// Shifts says whether liability for fraud goes to the issuer.
type Shifts string

// The values of Shifts.
const (
	ShiftsYes     Shifts = "yes"
	ShiftsNo      Shifts = "no"
	ShiftsUnknown Shifts = "unknown"
)

// An Outcome says how an authentication ended, who is liable, and what to do next.
type Outcome struct {
	Result            Result         `json:"result"`
	TransStatus       Text           `json:"transStatus"`
	TransStatusReason Text           `json:"transStatusReason"`
	Reason            Text           `json:"reason"`        // The meaning of transStatusReason.
	Challenged        bool           `json:"challenged"`    // Whether the issuer has asked for a challenge.
	Authorisation     *Authorisation `json:"authorisation"` // Null when there is nothing to bring along.
	Liability         Liability      `json:"liability"`
	Next              Next           `json:"next"`
	Error             *OutcomeError  `json:"error"`          // The Erro with which it failed; null if there was none.
	CardholderInfo    Text           `json:"cardholderInfo"` // A text of the issuer for the shopper.
}

// An Authorisation has the values that belong into the authorisation of the payment, as they came.
type Authorisation struct {
	ECI                  Text `json:"eci"`
	AuthenticationValue  Text `json:"authenticationValue"` // Null in lists and events.
	DSTransID            Text `json:"dsTransID"`
	MessageVersion       Text `json:"messageVersion"`
	ThreeDSServerTransID Text `json:"threeDSServerTransID"`
	ACSTransID           Text `json:"acsTransID"`
	Expired              bool `json:"expired"` // The value is no longer handed out.
}

// A Liability says who is liable for fraud, why, and where that is written.
type Liability struct {
	Shifts  Shifts `json:"shifts"`
	Because string `json:"because"`
	Source  Text   `json:"source"`
}

// A Next says what to do, in a word and in a sentence.
type Next struct {
	Action  Action `json:"action"`
	Because string `json:"because"`
}

// An OutcomeError is the Erro with which an authentication failed. What could be a card number, an authentication value
// or a key is taken out of its texts.
type OutcomeError struct {
	// Who found the fault: the SDK, this server, the directory server or the issuer's server.
	Component   string `json:"component" schema:"enum=C|S|D|A"`
	Code        string `json:"code" schema:"pattern=^[0-9]{3}$"`
	Description string `json:"description"`
	Detail      string `json:"detail"`
}
