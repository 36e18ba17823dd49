package outcome

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/message"
)

// actions are the actions after each result, unless a reason says more.
var actions = map[api.Result]api.Next{
	api.ResultAuthenticated: {Action: api.ActionAuthorise,
		Because: "The cardholder was authenticated; send these values with the authorisation."},
	api.ResultAttempted: {Action: api.ActionAuthorise,
		Because: "An authentication was attempted, which counts; send these values with the authorisation."},
	api.ResultInformational: {Action: api.ActionAuthorise,
		Because: "The issuer took note of the data; send eci and dsTransID with the authorisation."},
	api.ResultDataOnly: {Action: api.ActionAuthorise,
		Because: "Data was shared and nobody was authenticated; send eci and dsTransID with the authorisation."},
	api.ResultNotAuthenticated: {Action: api.ActionDoNotAuthorise,
		Because: "The issuer did not authenticate the cardholder."},
	api.ResultRejected: {Action: api.ActionDoNotAuthorise,
		Because: "The issuer rejected the payment and asks not to authorise it."},
	api.ResultUnavailable: {Action: api.ActionAuthoriseWithoutAuthentication,
		Because: "The authentication could not be made; whether to go on without it is for you and your acquirer to say."},
	api.ResultNotEnrolled: {Action: api.ActionAuthoriseWithoutAuthentication,
		Because: "No directory server has this card; authorise without authentication where that is allowed."},
	api.ResultAbandoned: {Action: api.ActionDoNotAuthorise,
		Because: "The authentication was not brought to its end; the shopper may try again."},
	api.ResultBankUnreachable: {Action: api.ActionRetryLater,
		Because: "The challenge could not be shown, for the issuer's page was not reached; a new authentication can succeed."},
	api.ResultError: {Action: api.ActionRetryLater,
		Because: "The authentication failed for a technical reason; try again with a new one."},
}

// anotherCard are the reasons that lie in the card: expired, number or record unknown, not enrolled.
var anotherCard = []string{"05", "06", "08", "13"}

// wantsChallenge are reasons to refuse without a challenge that a challenge may remove: an unknown device, too many
// authentications without one, low or medium confidence.
var wantsChallenge = []string{"02", "04", "15", "16"}

// passing are reasons that may be gone at the next try: a time-out or a fault of the issuer's server.
var passing = []string{"14", "22"}

// passingAtVisa are Visa's own reasons of that kind.
var passingAtVisa = []string{"80", "81", "82", "83"}

// withoutPaymentTexts say what is to be kept after each result of an authentication without a payment that would
// otherwise be told to authorise.
var withoutPaymentTexts = map[api.Result]string{
	api.ResultAuthenticated: "The cardholder was authenticated and nothing is bought; keep dsTransID for later payments.",
	api.ResultAttempted:     "An authentication was attempted and nothing is bought; keep dsTransID for later payments.",
	api.ResultInformational: "The issuer took note of the data and nothing is bought; keep dsTransID for later payments.",
	api.ResultDataOnly:      "Data was shared and nothing is bought; keep dsTransID for later payments.",
	api.ResultUnavailable:   "The authentication could not be made and nothing is bought; whether to keep the card without it is for you to say.",
	api.ResultNotEnrolled:   "No directory server has this card and nothing is bought; whether to keep the card without it is for you to say.",
}

// nextOf returns what to do after an ending. An authentication without a payment is never told to authorise.
func nextOf(end *Ending) api.Next {
	next := nextOfPayment(end)
	if isAuthorise := next.Action == api.ActionAuthorise ||
		next.Action == api.ActionAuthoriseWithoutAuthentication; isAuthorise && end.category() == withoutPayment {
		return api.Next{Action: api.ActionKeepForLater, Because: cmp.Or(withoutPaymentTexts[end.Result], next.Because)}
	}
	return next
}

// nextOfPayment returns what to do after the ending of a payment.
func nextOfPayment(end *Ending) api.Next {
	switch end.Result {
	case api.ResultNotAuthenticated:
		switch {
		case slices.Contains(anotherCard, end.TransStatusReason):
			return api.Next{
				Action: api.ActionAskForAnotherCard, Because: "The issuer refuses this card; ask the shopper for another one.",
			}
		case !end.Challenged && slices.Contains(wantsChallenge, end.TransStatusReason) && !end.isWithoutCardholder():
			return api.Next{Action: api.ActionRetryWithChallenge,
				Because: "The issuer refused without a challenge; a new authentication that asks for one " +
					"(threeDSRequestorChallengeInd 04) can succeed."}
		case end.Scheme == "visa" && end.TransStatusReason == stoppedChallenge && end.isWithoutCardholder():
			return api.Next{Action: api.ActionAuthoriseWithoutAuthentication,
				Because: "The issuer asked for a challenge that cannot be made without the cardholder, " +
					"and the directory server stopped it; go on without authentication, or authenticate again with the cardholder."}
		case end.isReasonOfDirectory():
			return api.Next{
				Action:  api.ActionDoNotAuthorise,
				Because: "The directory server, and not the issuer, did not authenticate the cardholder.",
			}
		}
	case api.ResultRejected:
		if end.isReasonOfDirectory() {
			return api.Next{
				Action:  api.ActionDoNotAuthorise,
				Because: "The directory server, and not the issuer, rejected the payment and asks not to authorise it.",
			}
		}
	case api.ResultUnavailable:
		switch {
		case end.TransStatus == "":
			return api.Next{Action: api.ActionAuthoriseWithoutAuthentication,
				Because: "The browser of the shopper did not tell what the issuer must be told, " +
					"so nobody was asked; whether to go on without authentication is for you and your acquirer to say."}
		case end.Scheme == "visa" && slices.Contains(passingAtVisa, end.TransStatusReason):
			return api.Next{
				Action:  api.ActionRetryLater,
				Because: "The directory server could not reach the issuer, or got no good answer in time; a new authentication can succeed.",
			}
		case slices.Contains(passing, end.TransStatusReason):
			return api.Next{
				Action:  api.ActionRetryLater,
				Because: "The issuer could not be reached or did not answer in time; a new authentication can succeed.",
			}
		case end.isReasonOfDirectory():
			return api.Next{Action: api.ActionAuthoriseWithoutAuthentication,
				Because: "The directory server, and not the issuer, says that the authentication could not be " +
					"made; whether to go on without it is for you and your acquirer to say."}
		}
	case api.ResultError:
		if end.Error != nil && isAboutRequest(end.Error) {
			return api.Next{
				Action:  api.ActionDoNotAuthorise,
				Because: "The directory server refused the content of the request; correct it before you try again.",
			}
		}
	}
	return actions[end.Result]
}

// stoppedChallenge is Visa's reason for a challenge of a 3RI authentication that its directory server stopped.
const stoppedChallenge = "87"

// isReasonOfDirectory reports whether the reason is one that directory servers give: the protocol
// leaves 80 to 99 to them.
func (end *Ending) isReasonOfDirectory() bool {
	return len(end.TransStatusReason) == 2 && end.TransStatusReason >= "80"
}

// isWithoutCardholder reports whether no cardholder is present for a challenge, as in a 3RI authentication.
func (end *Ending) isWithoutCardholder() bool { return end.Channel == "03" }

// isAboutRequest reports whether another component blames what the request says. An Erro of this server is about an
// answer that it refused, or about none.
func isAboutRequest(e *api.OutcomeError) bool {
	code, err := strconv.Atoi(e.Code)
	return err == nil && e.Component != "S" && isAboutContent(message.Code(code))
}

// isAboutContent reports whether an Erro blames what the request says, and not a connection, a system or the number
// of requests.
func isAboutContent(code message.Code) bool {
	return code >= 101 && code < 300 && code != message.TooManyMessages || code >= 303 && code <= 306
}
