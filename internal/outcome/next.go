package outcome

import (
	"slices"

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
	Abandoned: {DoNotAuthorise, "The authentication was not brought to its end; the shopper may try again."},
	Error:     {RetryLater, "The authentication failed for a technical reason; try again with a new one."},
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

// nextOf returns what to do after an answer.
func nextOf(end *Ending, a answer) Next {
	switch a.result {
	case NotAuthenticated:
		switch {
		case slices.Contains(anotherCard, a.reason):
			return Next{AskForAnotherCard, "The issuer refuses this card; ask the shopper for another one."}
		case end.RReq == nil && slices.Contains(wantsChallenge, a.reason) && !isWithoutCardholder(end.AReq):
			return Next{RetryWithChallenge, "The issuer refused without a challenge; a new authentication that asks for one " +
				"(threeDSRequestorChallengeInd 04) can succeed."}
		}
	case Unavailable:
		if a.status == "" {
			return Next{AuthoriseWithoutAuthentication, "The browser of the shopper did not tell what the issuer must be told, " +
				"so nobody was asked; whether to go on without authentication is for you and your acquirer to say."}
		}
		if slices.Contains(passing, a.reason) || end.Scheme == "visa" && slices.Contains(passingAtVisa, a.reason) {
			return Next{RetryLater, "The issuer could not be reached or did not answer in time; a new authentication can succeed."}
		}
	case Error:
		if end.Erro != nil && isAboutContent(end.Erro.Code) {
			return Next{DoNotAuthorise, "The directory server refused the content of the request; correct it before you try again."}
		}
	}
	return actions[a.result]
}

// isWithoutCardholder reports whether nobody is there who could pass a challenge: in a 3RI authentication.
func isWithoutCardholder(areq *message.Message) bool {
	return areq != nil && areq.Text("deviceChannel") == "03"
}

// isAboutContent reports whether an Erro blames what the request says, and not a connection, a system or the number
// of requests.
func isAboutContent(code message.Code) bool {
	return code >= 101 && code < 300 && code != message.TooManyMessages || code >= 303 && code <= 306
}
