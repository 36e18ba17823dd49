package outcome

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/openthreeds/threeds/message"
)

// actions are the actions after each result, unless a reason says more.
var actions = map[Result]Next{
	Authenticated:    {Authorise, "The cardholder was authenticated; send these values with the authorisation."},
	Attempted:        {Authorise, "An authentication was attempted, which counts; send these values with the authorisation."},
	Informational:    {Authorise, "The issuer took note of the data; send eci and dsTransID with the authorisation."},
	DataOnly:         {Authorise, "Data was shared and nobody was authenticated; send eci and dsTransID with the authorisation."},
	NotAuthenticated: {DoNotAuthorise, "The issuer did not authenticate the cardholder."},
	Rejected:         {DoNotAuthorise, "The issuer rejected the payment and asks not to authorise it."},
	Unavailable: {AuthoriseWithoutAuthentication,
		"The authentication could not be made; whether to go on without it is for you and your acquirer to say."},
	NotEnrolled: {AuthoriseWithoutAuthentication,
		"No directory server has this card; authorise without authentication where that is allowed."},
	Abandoned:       {DoNotAuthorise, "The authentication was not brought to its end; the shopper may try again."},
	BankUnreachable: {RetryLater, "The challenge could not be shown, for the issuer's page was not reached; a new authentication can succeed."},
	Error:           {RetryLater, "The authentication failed for a technical reason; try again with a new one."},
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

// withoutPaymentTexts say what to keep after each result of an authentication without a payment, where a payment would
// be authorised.
var withoutPaymentTexts = map[Result]string{
	Authenticated: "The cardholder was authenticated and nothing is bought; keep dsTransID for later payments.",
	Attempted:     "An authentication was attempted and nothing is bought; keep dsTransID for later payments.",
	Informational: "The issuer took note of the data and nothing is bought; keep dsTransID for later payments.",
	DataOnly:      "Data was shared and nothing is bought; keep dsTransID for later payments.",
	Unavailable:   "The authentication could not be made and nothing is bought; whether to keep the card without it is for you to say.",
	NotEnrolled:   "No directory server has this card and nothing is bought; whether to keep the card without it is for you to say.",
}

// nextOf returns what to do after an ending. After an authentication without a payment that is never to authorise.
func nextOf(end *Ending) Next {
	next := nextOfPayment(end)
	if isAuthorise := next.Action == Authorise || next.Action == AuthoriseWithoutAuthentication; isAuthorise && end.category() == withoutPayment {
		return Next{KeepForLater, cmp.Or(withoutPaymentTexts[end.Result], next.Because)}
	}
	return next
}

// nextOfPayment returns what to do after the ending of a payment.
func nextOfPayment(end *Ending) Next {
	switch end.Result {
	case NotAuthenticated:
		switch {
		case slices.Contains(anotherCard, end.TransStatusReason):
			return Next{AskForAnotherCard, "The issuer refuses this card; ask the shopper for another one."}
		case !end.Challenged && slices.Contains(wantsChallenge, end.TransStatusReason) && !end.isWithoutCardholder():
			return Next{RetryWithChallenge, "The issuer refused without a challenge; a new authentication that asks for one " +
				"(threeDSRequestorChallengeInd 04) can succeed."}
		case end.Scheme == "visa" && end.TransStatusReason == stoppedChallenge && end.isWithoutCardholder():
			return Next{AuthoriseWithoutAuthentication, "The issuer asked for a challenge that cannot be made without the cardholder, " +
				"and the directory server stopped it; go on without authentication, or authenticate again with the cardholder."}
		case end.isReasonOfDirectory():
			return Next{DoNotAuthorise, "The directory server, and not the issuer, did not authenticate the cardholder."}
		}
	case Rejected:
		if end.isReasonOfDirectory() {
			return Next{DoNotAuthorise, "The directory server, and not the issuer, rejected the payment and asks not to authorise it."}
		}
	case Unavailable:
		switch {
		case end.TransStatus == "":
			return Next{AuthoriseWithoutAuthentication, "The browser of the shopper did not tell what the issuer must be told, " +
				"so nobody was asked; whether to go on without authentication is for you and your acquirer to say."}
		case end.Scheme == "visa" && slices.Contains(passingAtVisa, end.TransStatusReason):
			return Next{RetryLater, "The directory server could not reach the issuer, or got no good answer in time; a new authentication can succeed."}
		case slices.Contains(passing, end.TransStatusReason):
			return Next{RetryLater, "The issuer could not be reached or did not answer in time; a new authentication can succeed."}
		case end.isReasonOfDirectory():
			return Next{AuthoriseWithoutAuthentication, "The directory server, and not the issuer, says that the authentication could not be " +
				"made; whether to go on without it is for you and your acquirer to say."}
		}
	case Error:
		if end.Error != nil && end.Error.isAboutRequest() {
			return Next{DoNotAuthorise, "The directory server refused the content of the request; correct it before you try again."}
		}
	}
	return actions[end.Result]
}

// stoppedChallenge is Visa's reason for a challenge of a 3RI authentication that its directory server stopped.
const stoppedChallenge = "87"

// isReasonOfDirectory reports whether the reason is one that directory servers give: the protocol leaves 80 to 99 to them.
func (end *Ending) isReasonOfDirectory() bool {
	return len(end.TransStatusReason) == 2 && end.TransStatusReason >= "80"
}

// isWithoutCardholder reports whether no cardholder is present for a challenge, as in a 3RI authentication.
func (end *Ending) isWithoutCardholder() bool { return end.Channel == "03" }

// isAboutRequest reports whether another component blames what the request says. An Erro of this server is about an answer
// that it refused, or about none.
func (e *Erro) isAboutRequest() bool {
	code, err := strconv.Atoi(e.Code)
	return err == nil && e.Component != "S" && isAboutContent(message.Code(code))
}

// isAboutContent reports whether an Erro blames what the request says, and not a connection, a system or the number
// of requests.
func isAboutContent(code message.Code) bool {
	return code >= 101 && code < 300 && code != message.TooManyMessages || code >= 303 && code <= 306
}
