package outcome

import (
	"cmp"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/scheme"
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
	BankUnreachable  Result = "bank_unreachable"
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
	KeepForLater                   Action = "keep_for_later"
)

const (
	dataOnlyCategory = "80"     // messageCategory of Mastercard's Identity Check Insights
	statuses         = "YANURI" // transStatus values of an end
	withoutPayment   = "NPA"    // messageCategory 02 as the rules call it
)

// Results returns all results.
func Results() []Result {
	return []Result{
		Authenticated, Attempted, Informational, DataOnly, NotAuthenticated, Rejected, Unavailable, NotEnrolled,
		Abandoned, BankUnreachable, Error,
	}
}

// Actions returns all actions.
func Actions() []Action {
	return []Action{
		Authorise, AuthoriseWithoutAuthentication, DoNotAuthorise, RetryWithChallenge, RetryLater, AskForAnotherCard,
		KeepForLater,
	}
}

// An Ending is what is known of an authentication that is over. Of one that is not over yet it says how far it is, and
// has no Result. [NewEnding] reads it from the messages, and the record of the journal keeps it. Nothing else makes one.
type Ending struct {
	Status                              Status
	Result                              Result
	Scheme                              string // "" for a card in no range
	Channel, Category, Version          string // deviceChannel, messageCategory, messageVersion
	TransStatus, TransStatusReason, ECI string // of the last message
	Challenged                          bool   // the issuer has asked for a challenge
	LacksValue                          bool   // transStatus is Y or A, and there is no authenticationValue
	Error                               *Erro  // with which it failed; nil if none is known
	ServerID, DSTransID, ACSTransID     string
	Shifts                              Shifts        // what was said of the liability at the end; "" before anything was said
	Time                                time.Time     // of the end
	Rules                               *scheme.Sheet // what Scheme's own codes mean; nil: what is public
}

// Messages are those of an authentication, as far as they came and were valid. The others are nil.
type Messages struct {
	AReq, ARes, RReq *message.Message

	// IsUnshown says that the browser is known never to have got the challenge.
	IsUnshown bool
}

// An Erro is the error with which an authentication failed. Its texts are without what could be a card number, an
// authentication value or a key.
type Erro struct {
	Component   string `json:"component"` // that found the fault: C, S (this server), D or A
	Code        string `json:"code"`      // three digits
	Description string `json:"description"`
	Detail      string `json:"detail"`
}

// NewEnding reads from the messages where an authentication of a scheme is, and how it ended. The caller adds Error,
// ServerID, Time and Rules.
func NewEnding(status Status, schemeName string, m Messages) Ending {
	end := Ending{Status: status, Scheme: schemeName}
	if m.AReq != nil {
		end.Channel, end.Category = m.AReq.Text("deviceChannel"), m.AReq.Text("messageCategory")
	}
	for _, of := range []*message.Message{m.ARes, m.RReq} {
		if of == nil {
			continue
		}
		end.TransStatus, end.TransStatusReason, end.ECI = of.Text("transStatus"), of.Text("transStatusReason"), of.Text("eci")
		end.LacksValue = (end.TransStatus == "Y" || end.TransStatus == "A") && of.Text("authenticationValue") == ""
		end.DSTransID = cmp.Or(of.Text("dsTransID"), end.DSTransID)
		end.ACSTransID = cmp.Or(of.Text("acsTransID"), end.ACSTransID)
		end.Version = cmp.Or(of.Text("messageVersion"), end.Version)
	}
	end.Challenged = m.RReq != nil || m.ARes != nil && slices.Contains([]string{"C", "D", "S"}, m.ARes.Text("transStatus"))
	if status.IsFinal() {
		end.Result = resultOf(&end, m)
	}
	return end
}

// An Outcome is what a merchant's back end learns about the end of an authentication.
type Outcome struct {
	Result            Result         `json:"result"`
	TransStatus       *string        `json:"transStatus"`
	TransStatusReason *string        `json:"transStatusReason"`
	Reason            *string        `json:"reason"` // the meaning of TransStatusReason
	Challenged        bool           `json:"challenged"`
	Authorisation     *Authorisation `json:"authorisation"`
	Liability         Liability      `json:"liability"`
	Next              Next           `json:"next"`
	Error             *Erro          `json:"error"` // with which it failed
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

// Of returns the outcome of an authentication that is over, as far as it is known without its messages: see
// [Outcome.AddValues].
func Of(end Ending) Outcome {
	if end.Status != Completed {
		end.TransStatus, end.TransStatusReason, end.ECI = "", "", "" // whatever came does not count
	}
	o := Outcome{
		Result: end.Result, TransStatus: optional(end.TransStatus), TransStatusReason: optional(end.TransStatusReason),
		Reason: optional(end.meaning()), Challenged: end.Challenged, Next: nextOf(&end), Liability: liabilityOf(&end), Error: end.Error,
	}
	if slices.Contains([]Result{Authenticated, Attempted, Informational, DataOnly}, end.Result) {
		o.Authorisation = &Authorisation{
			ECI: optional(end.ECI), DSTransID: optional(end.DSTransID), MessageVersion: optional(end.Version),
			ThreeDSServerTransID: optional(end.ServerID), ACSTransID: optional(end.ACSTransID), Expired: true,
		}
	}
	return o
}

// AddValues adds what only the messages have: the authentication value, and the text for the shopper.
func (o *Outcome) AddValues(m Messages) {
	o.CardholderInfo = optional(CardholderInfo(m.ARes, m.RReq))
	last := m.ARes
	if m.RReq != nil {
		last = m.RReq
	}
	if o.Authorisation != nil && last != nil {
		o.Authorisation.AuthenticationValue, o.Authorisation.Expired = optional(last.Text("authenticationValue")), false
	}
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

// leftChallenge are the values of challengeCancel when a person cancelled, or did not go on with the challenge.
var leftChallenge = []string{"01", "03", "04", "08"}

// neverBegun is the challengeCancel of an issuer's server that got no CReq.
const neverBegun = "05"

func resultOf(end *Ending, m Messages) Result {
	canceled := ""
	if m.RReq != nil && end.TransStatus != "Y" && end.TransStatus != "A" {
		canceled = m.RReq.Text("challengeCancel")
	}
	switch {
	case end.Status == Cancelled, end.Status == Expired:
		return Abandoned
	case end.Status == Failed:
		return Error
	case m.ARes == nil && m.RReq == nil && end.Scheme == "":
		return NotEnrolled
	case m.ARes == nil && m.RReq == nil:
		return Unavailable // the browser did not send what the AReq needs
	case slices.Contains(leftChallenge, canceled), canceled == neverBegun && m.IsUnshown:
		return Abandoned
	case canceled == neverBegun:
		return BankUnreachable
	case isDataOnly(end, m.AReq):
		return DataOnly
	}
	if result, ok := results[end.TransStatus]; ok {
		return result
	}
	return Error // no ARes that was accepted gets here
}

// isDataOnly reports whether the answer shares data without an authentication: Mastercard's category 80, or Visa's
// challenge indicators 06 and 82 unless the issuer authenticated all the same.
func isDataOnly(end *Ending, areq *message.Message) bool {
	if areq == nil {
		return false
	}
	switch end.Scheme {
	case "mastercard":
		return end.Category == dataOnlyCategory || end.ECI == "04"
	case "visa":
		wanted := append(areq.Strings("threeDSRequestorChallengeInd"), areq.Text("threeDSRequestorChallengeInd"))
		asked := slices.Contains(wanted, "06") || slices.Contains(wanted, "82")
		return asked && end.ECI == "07" && end.TransStatus != "R"
	}
	return false
}

// meaning returns what the reason means in words: by the scheme from 80 on, else by the protocol.
func (end *Ending) meaning() string {
	if end.TransStatusReason >= "80" {
		rules := cmp.Or(end.Rules, scheme.Public(end.Scheme))
		if text := rules.Meaning("transStatusReason", end.TransStatusReason); text != "" {
			return text
		}
	}
	return ReasonMeaning(end.TransStatusReason)
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

// category returns the category of an authentication as the rules call it.
func (end *Ending) category() string {
	switch end.Category {
	case "02":
		return withoutPayment
	case dataOnlyCategory:
		return dataOnlyCategory
	}
	return "PA"
}

// liabilityOf says what was said at the end, and as a rule why: the rules may have changed since.
func liabilityOf(end *Ending) Liability {
	l := liabilityToday(end)
	if end.Shifts != "" && end.Shifts != l.Shifts {
		return Liability{Shifts: end.Shifts, Because: "what was said when the authentication ended"}
	}
	return l
}

func liabilityToday(end *Ending) Liability {
	r := ruleOf(end.Scheme, end.category(), end.TransStatus, end.ECI, end.Time)
	isByRule := Liability{r.Shifts, r.Because, optional(r.Source)}
	switch hasAnswer := end.TransStatus != ""; {
	case end.category() == withoutPayment:
		return isByRule
	case end.Result == Unavailable && !hasAnswer:
		return Liability{No, "nobody was authenticated", nil}
	case slices.Contains([]Result{Abandoned, BankUnreachable, Error, NotEnrolled}, end.Result) && (!hasAnswer || r.Shifts != No):
		return Liability{No, "nobody was authenticated", nil}
	case end.LacksValue && end.category() == "PA":
		return Liability{No, "there is no authenticationValue that would prove the authentication", nil}
	}
	return isByRule
}

// optional is a pointer to text, nil if that is "".
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
