package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/message"
)

// A follow-up authentication is an AReq of its own that refers to an earlier one, the first
// authentication: the second AReq of SPC, after an ARes S, and the 3RI that goes on
// decoupled, after an RReq D (EMV 3DS 2.3.1, Req 444 to 455 and 463 to 467). The requestor
// starts it, since neither card nor request is kept here. What is kept is enough to check
// that it is the same purchase of the same card, by the same merchant, in time.
const (
	SPCTime      = 540 * time.Second // from the ARes S to the second AReq, unless that has spcIncompInd 03
	fallbackTime = 60 * time.Second  // from the RReq D to the 3RI
)

// Kinds of a follow-up authentication.
const (
	SPC      = "spc"
	Fallback = "fallback"
)

// Browser is the deviceChannel of browsers.
const Browser = "02"

// SPCSupport is the element of the AReq that offers SPC.
const SPCSupport = "threeDSRequestorSpcSupport"

// withdrawSPC takes back the offer of SPC to an issuer that cannot use it: one whose
// acsInfoInd lacks 07 (Req 448). The value N is no offer.
func withdrawSPC(req *Request, to Target, msg *message.Request) {
	if message.TableOf(message.AReq, req.Version).Field(SPCSupport) == nil || msg.Text("deviceChannel") != Browser {
		return
	}
	withdraw := func(why string) {
		msg.Set(SPCSupport, "")
		msg.Set("payeeOrigin", "")
		req.addChange(SPCSupport, "left out, "+why)
	}
	switch msg.Text(SPCSupport) {
	case "N":
		withdraw("there is no N")
	case "Y":
		if to.Info == nil {
			return
		}
		if acs := ACSVersion(to.Info, req.Version.String()); acs != nil && !slices.Contains(acs.InfoInd, "07") {
			withdraw("the range has no SPC")
		}
	}
}

// withdrawSPCOfAgent takes back the offer of SPC of an agent, which has no way to tell what came of it.
func withdrawSPCOfAgent(req *Request, msg *message.Request) {
	if req.Version < message.V231 || !msg.Has(SPCSupport) {
		return
	}
	for _, name := range []string{SPCSupport, "payeeOrigin"} {
		msg.Set(name, "")
	}
	req.addChange(SPCSupport, "left out, agents have no SPC")
}

// followUpKind recognises a follow-up by the elements that only such an AReq has; it is "" for all others.
func followUpKind(v message.Version, areq *message.Message) string {
	switch {
	case v < message.V231:
		return ""
	case areq.Text("threeRIInd") == "19":
		return Fallback
	case areq.Has("spcIncompInd") || hasAssertion(areq):
		return SPC
	}
	return ""
}

// hasAssertion reports whether an AReq holds what a FIDO authenticator signed.
func hasAssertion(areq *message.Message) bool {
	for i := range 3 {
		if areq.Text(fmt.Sprintf("threeDSRequestorAuthenticationInfo[%d].threeDSReqAuthMethod", i)) == "09" {
			return true
		}
	}
	return false
}

// NeedsFirst reports whether an AReq is refused if it refers to no first authentication. Only browsers get S: elsewhere
// an assertion is how the requestor has authenticated the cardholder.
func NeedsFirst(kind string, areq *message.Message) bool {
	return kind != SPC || areq.Text("deviceChannel") == Browser
}

// firstReference returns the acsTransID by which an AReq refers to the first
// authentication, and what is wrong with the reference.
func firstReference(kind string, areq *message.Message) (ref string, found message.Problems) {
	const prior = "threeDSRequestorPriorAuthenticationInfo"
	method := map[string]string{SPC: "05", Fallback: "02"}[kind]
	if kind == Fallback && areq.Text("threeDSRequestorDecReqInd") != "Y" {
		found = append(found, message.Problem{Code: message.Format, Path: "threeDSRequestorDecReqInd"})
	}
	for i := range 3 {
		at := fmt.Sprintf("%s[%d].", prior, i)
		if ref := areq.Text(at + "threeDSReqPriorRef"); ref != "" && areq.Text(at+"threeDSReqPriorAuthMethod") == method {
			return ref, found
		}
	}
	bad := message.Problem{Code: message.Missing, Path: prior}
	if areq.Has(prior) {
		bad = message.Problem{Code: message.Format, Path: prior + ".threeDSReqPriorAuthMethod"}
	}
	return "", append(found, bad)
}

// FollowUpProblems returns what is wrong with how an AReq refers to a first authentication.
func FollowUpProblems(v message.Version, areq *message.Message) message.Problems {
	kind := followUpKind(v, areq)
	if kind == "" || !NeedsFirst(kind, areq) {
		return nil
	}
	_, found := firstReference(kind, areq)
	return found
}

// FirstOf returns which kind of follow-up an AReq is, and the acsTransID by which it refers to the first
// authentication. The kind of every other AReq is "". The error says that the reference is not valid.
func (k *Checker) FirstOf(req *Request, areq *message.Message) (kind, ref string, err error) {
	kind = followUpKind(req.Version, areq)
	if kind == "" {
		return "", "", nil
	}
	ref, found := firstReference(kind, areq)
	switch {
	case len(found) == 0:
		return kind, ref, nil
	case !NeedsFirst(kind, areq):
		return "", "", nil
	}
	s := faults.Subject{Version: req.Version, Value: func(path message.Path) []byte { return areq.Raw(string(path)) }}
	return kind, "", &FaultyRequestError{fault(req.Version, found, req.KnownID()), k.explainProblems(found, nil, s)}
}

// commonElements are the elements that a follow-up has in common with the first
// authentication.
var commonElements = []string{
	"messageCategory", "purchaseAmount", "purchaseCurrency", "purchaseExponent",
	"acquirerBIN", "acquirerMerchantID", "mcc", "merchantCountryCode", "merchantName",
}

// CommonValues returns the values of the elements that a follow-up of an AReq must have in common with it.
func CommonValues(areq *message.Message) map[string]string {
	values := make(map[string]string)
	for _, name := range commonElements {
		values[name] = string(areq.Raw(name))
	}
	return values
}

// An Earlier is what is known of the first authentication that an AReq goes on with.
type Earlier struct {
	Kind       string            // of the follow-up: spc or fallback
	Ended      time.Time         // when it ended with S or D
	Values     map[string]string // as CommonValues returns them
	IsSameCard bool              // it was of the card of the AReq
}

// Check checks that an AReq is about the purchase of the first authentication, and comes in time after it, with an
// allowance for nodes whose clocks differ. A request that itself says that the time for SPC was over (spcIncompInd 03)
// may come late, but then without an assertion.
func (first *Earlier) Check(req *Request, areq *message.Message) error {
	if names := first.differences(areq); len(names) > 0 {
		return RefuseFollowUp(req, "", names...)
	}
	age := req.Start.Sub(first.Ended) - transid.MaxSkew
	switch {
	case first.Kind == Fallback && age > fallbackTime:
		return RefuseFollowUp(req, "the 60 s after the RReq are over", "threeRIInd")
	case first.Kind == SPC && areq.Text("spcIncompInd") == "03":
		if areq.Has("threeDSRequestorAuthenticationInfo") {
			return RefuseFollowUp(req, "", "threeDSRequestorAuthenticationInfo")
		}
	case first.Kind == SPC && age > SPCTime:
		return RefuseFollowUp(req, "the 540 s after the ARes are over", "spcIncompInd")
	}
	return nil
}

// RefuseFollowUp makes the error of a follow-up that does not fit the first authentication: the elements at fault, and
// what is wrong with them. An empty reason means that they differ.
func RefuseFollowUp(req *Request, reason string, elements ...string) error {
	detail, cure := strings.Join(elements, ","), "Send what the first authentication had."
	if reason != "" {
		detail, cure = detail+": "+reason, "Begin with a new first authentication: "+reason+"."
	}
	refused := &FaultyRequestError{Erro: NewErro(req.Version, message.BadTransactionData, detail, req.KnownID())}
	for _, name := range elements {
		refused.Faults = append(refused.Faults, faults.New(message.BadTransactionData, message.Path(name), "condition", cure))
	}
	return refused
}

// differences names the elements in which an AReq is not that of the first authentication.
func (first *Earlier) differences(areq *message.Message) []string {
	var names []string
	if !first.IsSameCard {
		names = append(names, "acctNumber")
	}
	for _, name := range commonElements {
		if first.Values[name] != string(areq.Raw(name)) {
			names = append(names, name)
		}
	}
	if first.Kind == SPC && areq.Text("deviceChannel") != Browser {
		names = append(names, "deviceChannel") // an ARes S only answers browsers
	}
	return names
}
