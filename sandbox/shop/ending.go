package shop

import "github.com/openthreeds/threeds/api"

// A word names how a checkout ended. The list is closed: a shopper never sees
// "something went wrong".
type word string

const (
	authenticated word = "authenticated"
	attempted     word = "attempted"
	failed        word = "failed"
	rejected      word = "rejected"
	unavailable   word = "unavailable"
	informational word = "informational"
	cancelled     word = "cancelled"
	timedOut      word = "timed out"
	unreachable   word = "bank unreachable"
	unfinished    word = "not finished" // somebody cancelled, or time ran out
	missing       word = "result missing"
	notEnrolled   word = "not enrolled"
	faulty        word = "error"
)

// An ending is a word and what is behind it.
type ending struct {
	Word  word   `json:"word"`
	Title string `json:"title"` // for the shopper
	Text  string `json:"text"`  // for the developer: what it means for the payment
	Good  bool   `json:"good"`  // the shop would go on and authorise

	TransStatus string `json:"transStatus,omitempty"`
	ECI         string `json:"eci,omitempty"`
	HasValue    bool   `json:"hasValue"` // an authenticationValue is there
	Reason      string `json:"reason,omitempty"`
	Info        string `json:"info,omitempty"` // cardholderInfo

	Erro *erro `json:"erro,omitempty"`
}

// visible returns the ending with its texts as the page shows them; nil of nil.
func (e *ending) visible() *ending {
	if e == nil {
		return nil
	}
	shown := *e
	texts := []*string{&shown.Title, &shown.Text, &shown.TransStatus, &shown.ECI, &shown.Reason, &shown.Info}
	if e.Erro != nil {
		erro := *e.Erro
		shown.Erro = &erro
		texts = append(texts, &erro.Code, &erro.Component, &erro.Description, &erro.Detail)
	}
	for _, text := range texts {
		*text = visible(*text)
	}
	return &shown
}

// erro is what an Erro message says.
type erro struct {
	Code        string `json:"code"`
	Component   string `json:"component"`
	Description string `json:"description"`
	Detail      string `json:"detail"`
}

// endings is what to say for each word.
var endings = map[word]ending{
	authenticated: {Good: true, Title: "Thank you, your order is placed",
		Text: "The cardholder was authenticated. The shop sends ECI and authentication value with the authorisation; the issuer usually bears the risk of fraud."},
	attempted: {Good: true, Title: "Thank you, your order is placed",
		Text: "The issuer could not authenticate, and proof of the attempt was given. It goes into the authorisation like an authentication; whether the liability shifts is the scheme's rule."},
	informational: {Good: true, Title: "Thank you, your order is placed",
		Text: "The data were shared with the issuer for information only. Nobody was authenticated, and the liability stays with the shop."},
	failed: {Title: "Your bank did not approve this",
		Text: "The cardholder was not authenticated. The shop must not go on with this card; another one may do."},
	rejected: {Title: "Your bank declined this payment",
		Text: "The issuer rejects the transaction and asks not to be sent an authorisation."},
	unavailable: {Title: "Your bank could not check the payment",
		Text: "Authentication could not be performed, for a technical reason. The shop may try again, or authorise without it at its own risk."},
	cancelled: {Title: "You cancelled the payment",
		Text: "The cardholder closed the bank's page. Nothing is charged, and the cart is kept."},
	timedOut: {Title: "Time ran out",
		Text: "The cardholder did not finish in time. Nothing is charged; the shop offers another try."},
	unreachable: {Title: "Your bank could not be reached",
		Text: "The page of the bank did not come, so nobody was asked anything. Nothing is charged; a new authentication can succeed."},
	unfinished: {Title: "The payment was not finished",
		Text: "The cardholder cancelled, or did not finish in time. Nothing is charged; the shop offers another try."},
	missing: {Title: "We have not heard from your bank",
		Text: "The cardholder came back, but no result has reached the 3DS server. Without one the shop does not authorise, whatever the challenge's answer said."},
	notEnrolled: {Title: "This card cannot be checked",
		Text: "The card is in no range of any directory server: it is not enrolled in EMV 3-D Secure. The shop may authorise without authentication, at its own risk."},
	faulty: {Title: "The payment could not be checked",
		Text: "One of the parties answered with an error. The shop logs code and detail, and may try again."},
}

// wordsOfResults are the words for the results that the server names.
var wordsOfResults = map[api.Result]word{
	"authenticated": authenticated, "attempted": attempted, "informational": informational, "data_only": informational,
	"not_authenticated": failed, "rejected": rejected, "unavailable": unavailable, "not_enrolled": notEnrolled,
	"abandoned": unfinished, "bank_unreachable": unreachable, "error": faulty,
}

func endWith(w word) ending {
	e := endings[w]
	e.Word = w
	return e
}

// endWithErro is the ending for an Erro message.
func endWithErro(m *message) ending {
	e := endWith(faulty)
	e.Erro = &erro{m.ErrorCode, m.ErrorComponent, m.ErrorDescription, m.ErrorDetail}
	return e
}

// endWithFault is the ending for a fault without a message, in words of the shop's own.
func endWithFault(text string) ending {
	e := endWith(faulty)
	e.Text = text
	return e
}

// endWithStatus is the ending that an ARes or RReq brings.
func endWithStatus(m *message) ending {
	e := endWith(wordOf(m))
	if e.Word == faulty {
		e.Text = "The transStatus of the answer is not one that a shop can end with."
	}
	e.TransStatus, e.ECI, e.HasValue = m.TransStatus, m.ECI, m.Value != ""
	e.Reason, e.Info = reasonOf(m.Reason), string(m.CardholderInfo)
	if e.Word == authenticated && !e.HasValue {
		e.Text = "The cardholder was authenticated, but there is no authentication value: without it the liability does not shift."
	}
	return e
}

// wordOf tells failing from cancelling and from wandering off: the status
// alone does not.
func wordOf(m *message) word {
	switch m.TransStatus {
	case "Y":
		return authenticated
	case "A":
		return attempted
	case "I":
		return informational
	case "R":
		return rejected
	case "N", "U":
		switch {
		case m.ChallengeCancel == "01":
			return cancelled
		case m.ChallengeCancel == "05":
			return unreachable
		case m.ChallengeCancel == "03", m.ChallengeCancel == "04", m.ChallengeCancel == "08",
			m.Reason == "14", m.Reason == "24":
			return timedOut
		case m.TransStatus == "N":
			return failed
		}
		return unavailable
	case "D": // the ACS would take up a decoupled authentication, which the shop offers at /auth only
		return unavailable
	}
	return faulty
}

// reasons are the transStatusReasons that every scheme has in common. Those
// from 80 on mean what each scheme says.
var reasons = map[string]string{
	"01": "card authentication failed", "02": "unknown device", "03": "unsupported device",
	"04": "too many authentications", "05": "expired card", "06": "invalid card number",
	"07": "invalid transaction", "08": "no card record", "09": "security failure",
	"10": "stolen card", "11": "suspected fraud", "12": "not permitted to the cardholder",
	"13": "cardholder not enrolled", "14": "timed out at the ACS", "15": "low confidence",
	"16": "medium confidence", "17": "high confidence", "18": "very high confidence",
	"19": "too many challenges", "20": "non-payment not supported", "21": "3RI not supported",
	"22": "technical issue at the ACS", "23": "decoupled authentication needed, not requested",
	"24": "decoupled time exceeded", "25": "too little time for decoupled authentication",
	"26": "attempted, not performed by the cardholder", "27": "preferred method not supported",
	"28": "content security policy check failed", "29": "not completed, decoupled may follow",
	"30": "success, more is needed",
}

func reasonOf(code string) string {
	if code == "" {
		return ""
	}
	if words, known := reasons[code]; known {
		return code + ", " + words
	}
	return code + ", specific to the scheme"
}
