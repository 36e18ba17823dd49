package outcome

import (
	"cmp"
	"slices"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/message"
)

// arrows are all changes of a status that there are.
var arrows = map[api.Status][]api.Status{
	api.StatusRequiresBrowser: {api.StatusInProgress, api.StatusCompleted, api.StatusFailed, api.StatusCancelled,
		api.StatusExpired},
	api.StatusInProgress: {api.StatusChallenge, api.StatusDecoupled, api.StatusCompleted, api.StatusFailed,
		api.StatusCancelled, api.StatusExpired},
	api.StatusChallenge: {api.StatusCompleted, api.StatusFailed, api.StatusCancelled, api.StatusExpired},
	api.StatusDecoupled: {api.StatusCompleted, api.StatusFailed, api.StatusCancelled, api.StatusExpired},
}

// Arrows returns the statuses that may follow each status that is not final, in the order of the documentation.
func Arrows() map[api.Status][]api.Status {
	all := make(map[api.Status][]api.Status, len(arrows))
	for from, to := range arrows {
		all[from] = slices.Clone(to)
	}
	return all
}

const (
	dataOnlyCategory = "80"     // messageCategory of Mastercard's Identity Check Insights
	statuses         = "YANURI" // transStatus values of an end
	withoutPayment   = "NPA"    // messageCategory 02 as the rules call it
)

// An Ending is what is known of an authentication that is over. Of one that is not over yet it says how far it
// is, and has no Result. [NewEnding] reads it from the messages, and the record of the journal keeps it.
// Nothing else makes one.
type Ending struct {
	Status                              api.Status
	Result                              api.Result
	Scheme                              string            // "" for a card in no range
	Channel, Category, Version          string            // deviceChannel, messageCategory, messageVersion
	TransStatus, TransStatusReason, ECI string            // of the last message
	Challenged                          bool              // the issuer has asked for a challenge
	LacksValue                          bool              // transStatus is Y or A, and there is no authenticationValue
	Error                               *api.OutcomeError // with which it failed; nil if none is known
	ServerID, DSTransID, ACSTransID     string
	// what was said of the liability at the end; "" before anything was said
	Shifts api.Shifts
	Time   time.Time     // of the end
	Rules  *scheme.Sheet // what Scheme's own codes mean; nil: what is public
}

// Messages are those of an authentication, as far as they came and were valid. The others are nil.
type Messages struct {
	AReq, ARes, RReq *message.Message

	// IsUnshown says that the browser is known never to have got the challenge.
	IsUnshown bool
}

// NewEnding reads from the messages where an authentication of a scheme is, and how it ended. The caller adds Error,
// ServerID, Time and Rules.
func NewEnding(status api.Status, schemeName string, m Messages) Ending {
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

// Of returns the outcome of an authentication that is over, as far as it can be told without its messages: see
// [AddValues].
func Of(end Ending) api.Outcome {
	if end.Status != api.StatusCompleted {
		end.TransStatus, end.TransStatusReason, end.ECI = "", "", "" // whatever came does not count
	}
	o := api.Outcome{
		Result: end.Result, TransStatus: api.Text(end.TransStatus), TransStatusReason: api.Text(end.TransStatusReason),
		Reason: api.Text(end.meaning()), Challenged: end.Challenged, Next: nextOf(&end), Liability: liabilityOf(&end),
		Error: end.Error,
	}
	if slices.Contains(
		[]api.Result{api.ResultAuthenticated, api.ResultAttempted, api.ResultInformational, api.ResultDataOnly}, end.Result) {
		o.Authorisation = &api.Authorisation{
			ECI: api.Text(end.ECI), DSTransID: api.Text(end.DSTransID), MessageVersion: api.Text(end.Version),
			ThreeDSServerTransID: api.Text(end.ServerID), ACSTransID: api.Text(end.ACSTransID), Expired: true,
		}
	}
	return o
}

// AddValues adds what only the messages have: the authentication value, and the text for the shopper.
func AddValues(o *api.Outcome, m Messages) {
	o.CardholderInfo = api.Text(CardholderInfo(m.ARes, m.RReq))
	last := m.ARes
	if m.RReq != nil {
		last = m.RReq
	}
	if o.Authorisation != nil && last != nil {
		o.Authorisation.AuthenticationValue, o.Authorisation.Expired = api.Text(last.Text("authenticationValue")), false
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

func resultOf(end *Ending, m Messages) api.Result {
	canceled := ""
	if m.RReq != nil && end.TransStatus != "Y" && end.TransStatus != "A" {
		canceled = m.RReq.Text("challengeCancel")
	}
	switch {
	case end.Status == api.StatusCancelled, end.Status == api.StatusExpired:
		return api.ResultAbandoned
	case end.Status == api.StatusFailed:
		return api.ResultError
	case m.ARes == nil && m.RReq == nil && end.Scheme == "":
		return api.ResultNotEnrolled
	case m.ARes == nil && m.RReq == nil:
		return api.ResultUnavailable // the browser did not send what the AReq needs
	case slices.Contains(leftChallenge, canceled), canceled == neverBegun && m.IsUnshown:
		return api.ResultAbandoned
	case canceled == neverBegun:
		return api.ResultBankUnreachable
	case isDataOnly(end, m.AReq):
		return api.ResultDataOnly
	}
	if result, ok := results[end.TransStatus]; ok {
		return result
	}
	return api.ResultError // no ARes that was accepted gets here
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
func liabilityOf(end *Ending) api.Liability {
	l := liabilityToday(end)
	if end.Shifts != "" && end.Shifts != l.Shifts {
		return api.Liability{Shifts: end.Shifts, Because: "what was said when the authentication ended"}
	}
	return l
}

func liabilityToday(end *Ending) api.Liability {
	r := ruleOf(end.Scheme, end.category(), end.TransStatus, end.ECI, end.Time)
	isByRule := api.Liability{Shifts: r.Shifts, Because: r.Because, Source: api.Text(r.Source)}
	switch hasAnswer := end.TransStatus != ""; {
	case end.category() == withoutPayment:
		return isByRule
	case end.Result == api.ResultUnavailable && !hasAnswer:
		return api.Liability{Shifts: api.ShiftsNo, Because: "nobody was authenticated"}
	case slices.Contains(
		[]api.Result{api.ResultAbandoned, api.ResultBankUnreachable, api.ResultError, api.ResultNotEnrolled}, end.Result) &&
		(!hasAnswer || r.Shifts != api.ShiftsNo):
		return api.Liability{Shifts: api.ShiftsNo, Because: "nobody was authenticated"}
	case end.LacksValue && end.category() == "PA":
		return api.Liability{
			Shifts: api.ShiftsNo, Because: "there is no authenticationValue that would prove the authentication",
		}
	}
	return isByRule
}
