package outcome

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/scheme"
	"github.com/openthreeds/threeds/message"
)

// A Status is where an authentication is.
type Status string

// The statuses. The last four are final.
const (
	RequiresBrowser Status = "requires_browser"
	InProgress      Status = "in_progress"
	Challenge       Status = "challenge"
	Decoupled       Status = "decoupled"
	Completed       Status = "completed"
	Failed          Status = "failed"
	Cancelled       Status = "cancelled"
	Expired         Status = "expired"
)

// arrows are all changes of a status that there are.
var arrows = map[Status][]Status{
	RequiresBrowser: {InProgress, Completed, Failed, Cancelled, Expired},
	InProgress:      {Challenge, Decoupled, Completed, Failed, Cancelled, Expired},
	Challenge:       {Completed, Failed, Cancelled, Expired},
	Decoupled:       {Completed, Failed, Cancelled, Expired},
}

// Arrows returns the statuses that may follow each status that is not final, in the order of the documentation.
func Arrows() map[Status][]Status {
	all := make(map[Status][]Status, len(arrows))
	for from, to := range arrows {
		all[from] = slices.Clone(to)
	}
	return all
}

// IsFinal reports whether a status never changes any more.
func (s Status) IsFinal() bool {
	return s == Completed || s == Failed || s == Cancelled || s == Expired
}

// A Result says how an authentication ended.
type Result string

// The results.
const (
	Authenticated    Result = "authenticated"
	Attempted        Result = "attempted"
	Informational    Result = "informational"
	DataOnly         Result = "data_only"
	NotAuthenticated Result = "not_authenticated"
	Rejected         Result = "rejected"
	Unavailable      Result = "unavailable"
	NotEnrolled      Result = "not_enrolled"
	Abandoned        Result = "abandoned"
	Error            Result = "error"
)

// An Action says what to do after an authentication.
type Action string

// The actions.
const (
	Authorise                      Action = "authorise"
	AuthoriseWithoutAuthentication Action = "authorise_without_authentication"
	DoNotAuthorise                 Action = "do_not_authorise"
	RetryWithChallenge             Action = "retry_with_challenge"
	RetryLater                     Action = "retry_later"
	AskForAnotherCard              Action = "ask_for_another_card"
)

const (
	dataOnlyCategory = "80"     // messageCategory of Mastercard's Identity Check Insights
	statuses         = "YANURI" // transStatus values of an end
)

// Results returns all results.
func Results() []Result {
	return []Result{
		Authenticated, Attempted, Informational, DataOnly, NotAuthenticated, Rejected, Unavailable, NotEnrolled,
		Abandoned, Error,
	}
}

// Actions returns all actions.
func Actions() []Action {
	return []Action{
		Authorise, AuthoriseWithoutAuthentication, DoNotAuthorise, RetryWithChallenge, RetryLater, AskForAnotherCard,
	}
}

// An Ending is what is known of an authentication that is over.
type Ending struct {
	Status   Status // final
	Scheme   string // "" for a card in no range
	AReq     *message.Message
	ARes     *message.Message // nil when none came, it was not valid, or no AReq left
	RReq     *message.Message // nil when none came
	Erro     *message.Error   // with which a failed one ended; nil if it is not known
	ServerID string           // threeDSServerTransID
	Time     time.Time        // of the end

	Rules *scheme.Sheet // what Scheme's own codes mean; nil: what is public
}

// An Outcome is what a back end is told.
type Outcome struct {
	Result            Result         `json:"result"`
	TransStatus       *string        `json:"transStatus"`
	TransStatusReason *string        `json:"transStatusReason"`
	Reason            *string        `json:"reason"` // the meaning of TransStatusReason
	Challenged        bool           `json:"challenged"`
	Authorisation     *Authorisation `json:"authorisation"`
	Liability         Liability      `json:"liability"`
	Next              Next           `json:"next"`
	CardholderInfo    *string        `json:"cardholderInfo"`
}

// An Authorisation has the values that the authorisation of the payment wants, as they came.
type Authorisation struct {
	ECI                  *string `json:"eci"`
	AuthenticationValue  *string `json:"authenticationValue"`
	DSTransID            *string `json:"dsTransID"`
	MessageVersion       *string `json:"messageVersion"`
	ThreeDSServerTransID *string `json:"threeDSServerTransID"`
	ACSTransID           *string `json:"acsTransID"`
	Expired              bool    `json:"expired"` // the value is no longer handed out
}

// A Liability says who is liable for fraud, why, and where that is written.
type Liability struct {
	Shifts  Shifts  `json:"shifts"`
	Because string  `json:"because"`
	Source  *string `json:"source"`
}

// A Next says what to do, in a word and in a sentence.
type Next struct {
	Action  Action `json:"action"`
	Because string `json:"because"`
}

// Of returns the outcome of an authentication that is over.
func Of(end Ending) Outcome {
	o := newOutcome(&end, answerOf(&end))
	o.Challenged = end.RReq != nil || end.ARes != nil && slices.Contains([]string{"C", "D", "S"}, end.ARes.Text("transStatus"))
	o.CardholderInfo = optional(CardholderInfo(end.ARes, end.RReq))
	return o
}

// newOutcome returns what follows from an answer.
func newOutcome(end *Ending, a answer) Outcome {
	o := Outcome{
		Result: a.result, TransStatus: optional(a.status), TransStatusReason: optional(a.reason),
		Reason: optional(a.meaning(end)), Next: nextOf(end, a), Liability: liabilityOf(end, a),
	}
	if slices.Contains([]Result{Authenticated, Attempted, Informational, DataOnly}, a.result) {
		o.Authorisation = authorisationOf(end, a)
	}
	return o
}

// CardholderInfo returns the text of the issuer for the shopper: that of the last message that has one, "" if none has.
// From 2.3.1 on it is a member of an object.
func CardholderInfo(messages ...*message.Message) (text string) {
	for _, m := range messages {
		if m == nil {
			continue
		}
		for _, name := range []string{"cardholderInfo", "cardholderInfo.text"} {
			if t := m.Text(name); t != "" {
				text = t
			}
		}
	}
	return text
}

// An answer is what the last message of an authentication says.
type answer struct {
	result              Result
	status, reason, eci string
	value               string // authenticationValue
	canceled            string // challengeCancel
}

// answerOf reads the last message of an authentication: the RReq if there is one, else the ARes.
func answerOf(end *Ending) answer {
	last := end.ARes
	if end.RReq != nil {
		last = end.RReq
	}
	var a answer
	if last != nil && end.Status == Completed {
		a = answer{
			status: last.Text("transStatus"), reason: last.Text("transStatusReason"), eci: last.Text("eci"),
			value: last.Text("authenticationValue"), canceled: last.Text("challengeCancel"),
		}
	}
	a.result = resultOf(end, &a)
	return a
}

func resultOf(end *Ending, a *answer) Result {
	switch {
	case end.Status == Cancelled, end.Status == Expired:
		return Abandoned
	case end.Status == Failed:
		return Error
	case end.ARes == nil && end.RReq == nil && end.Scheme == "":
		return NotEnrolled
	case end.ARes == nil && end.RReq == nil:
		return Unavailable // the browser has not told what the AReq needs
	case slices.Contains([]string{"01", "03", "04", "05", "08"}, a.canceled) && a.status != "Y" && a.status != "A":
		return Abandoned
	case isDataOnly(end, a):
		return DataOnly
	}
	if result, ok := results[a.status]; ok {
		return result
	}
	return Error // no ARes that was accepted gets here
}

// isDataOnly reports whether the answer shares data and authenticates nobody: Mastercard's category 80, or
// Visa's challenge indicators 06 and 82 unless the issuer authenticated all the same.
func isDataOnly(end *Ending, a *answer) bool {
	if end.AReq == nil {
		return false
	}
	switch end.Scheme {
	case "mastercard":
		return end.AReq.Text("messageCategory") == dataOnlyCategory || a.eci == "04"
	case "visa":
		wanted := append(end.AReq.Strings("threeDSRequestorChallengeInd"), end.AReq.Text("threeDSRequestorChallengeInd"))
		asked := slices.Contains(wanted, "06") || slices.Contains(wanted, "82")
		return asked && a.eci == "07" && a.status != "R"
	}
	return false
}

// meaning returns what the reason means in words: by the scheme from 80 on, else by the protocol.
func (a *answer) meaning(end *Ending) string {
	if a.reason >= "80" {
		rules := cmp.Or(end.Rules, scheme.Public(end.Scheme))
		if text := rules.Meaning("transStatusReason", a.reason); text != "" {
			return text
		}
	}
	return ReasonMeaning(a.reason)
}

// ReasonMeaning returns what a transStatusReason means in words by the protocol, "" if it means nothing.
func ReasonMeaning(code string) string {
	if code >= "80" && code <= "99" {
		return "a reason of the scheme's own, whose meaning is not public"
	}
	codes := message.TableOf(message.ARes, message.V231).Field("transStatusReason").Codes
	for _, c := range codes.Values {
		if c.Value == code {
			return c.Meaning
		}
	}
	return ""
}

func authorisationOf(end *Ending, a answer) *Authorisation {
	auth := &Authorisation{
		ECI: optional(a.eci), AuthenticationValue: optional(a.value), ThreeDSServerTransID: optional(end.ServerID),
	}
	for _, m := range []*message.Message{end.ARes, end.RReq} {
		if m == nil {
			continue
		}
		for _, of := range []struct {
			name  string
			value **string
		}{{"dsTransID", &auth.DSTransID}, {"messageVersion", &auth.MessageVersion}, {"acsTransID", &auth.ACSTransID}} {
			if text := m.Text(of.name); text != "" {
				*of.value = &text
			}
		}
	}
	return auth
}

// categoryOf returns the category of an authentication as the rules call it.
func categoryOf(areq *message.Message) string {
	if areq == nil {
		return "PA"
	}
	switch areq.Text("messageCategory") {
	case "02":
		return "NPA"
	case dataOnlyCategory:
		return dataOnlyCategory
	}
	return "PA"
}

func liabilityOf(end *Ending, a answer) Liability {
	switch {
	case a.result == Abandoned, a.result == Error, a.result == NotEnrolled, a.result == Unavailable && a.status == "":
		return Liability{No, "nobody was authenticated", nil}
	case (a.status == "Y" || a.status == "A") && a.value == "" && categoryOf(end.AReq) == "PA":
		return Liability{No, "there is no authenticationValue that would prove the authentication", nil}
	}
	r := ruleOf(end.Scheme, categoryOf(end.AReq), a.status, a.eci, end.Time)
	return Liability{r.Shifts, r.Because, optional(r.Source)}
}

// optional is a pointer to text, nil if that is "".
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// A Summary is what is kept of an authentication that is over, after its messages and its value are gone.
type Summary struct {
	Status                              Status // final
	Result                              Result
	Scheme                              string
	Channel, Category, Version          string // deviceChannel, messageCategory, messageVersion
	TransStatus, TransStatusReason, ECI string
	Challenged                          bool
	Shifts                              Shifts // what the outcome said of the liability; "" if that is not kept
	Code                                message.Code
	ServerID, DSTransID, ACSTransID     string
	Time                                time.Time     // of the end
	Rules                               *scheme.Sheet // as in Ending
}

// OfSummary returns the outcome of an authentication whose messages are gone. It has no authentication value, and no
// text for the shopper. What it says of the liability is what the outcome said before, or Unknown.
func OfSummary(s Summary) Outcome {
	areq, _ := message.Parse(encode(map[string]string{"messageCategory": s.Category, "deviceChannel": s.Channel}), message.Limits{})
	end := Ending{Status: s.Status, Scheme: s.Scheme, AReq: areq, ServerID: s.ServerID, Time: s.Time, Rules: s.Rules}
	last, _ := message.Parse(encode(map[string]string{
		"dsTransID": s.DSTransID, "acsTransID": s.ACSTransID, "messageVersion": s.Version,
	}), message.Limits{})
	if end.ARes = last; s.Challenged {
		end.RReq = last
	}
	if s.Code != 0 {
		end.Erro = &message.Error{Code: s.Code}
	}
	a := answer{result: s.Result, eci: s.ECI, value: "was there"} // Shifts says below whether it was
	if s.Status == Completed {
		a.status, a.reason = s.TransStatus, s.TransStatusReason
	}
	o := newOutcome(&end, a)
	o.Challenged = s.Challenged
	if o.Liability.Shifts != s.Shifts {
		o.Liability = Liability{Shifts: s.Shifts, Because: "what was said when the authentication ended"}
		if s.Shifts == "" {
			o.Liability = Liability{Shifts: Unknown, Because: "it is not kept whether there was an authentication value"}
		}
	}
	if o.Authorisation != nil {
		o.Authorisation.AuthenticationValue, o.Authorisation.Expired = nil, true
	}
	return o
}

// encode returns the JSON of members, without those that are empty.
func encode(members map[string]string) []byte {
	maps.DeleteFunc(members, func(_, value string) bool { return value == "" })
	text, err := json.Marshal(members)
	if err != nil {
		panic(err) // strings can be encoded
	}
	return text
}
