package auth

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/message"
)

// component is the errorComponent of Erros that the 3DS Server itself makes.
const component = "S"

// fault makes the Erro of a request that failed its checks, by the order of
// docs/api.md, R12. A critical extension is named as messageExtension, without its id.
func fault(v message.Version, found message.Problems, transID string) message.Error {
	found = slices.Clone(found)
	for i := range found {
		if found[i].Code == message.CriticalExtension {
			found[i].Note = ""
		}
	}
	code, detail := found.Pick(message.ForRequestor)
	return erro(v, code, detail, transID)
}

// ownDetail returns the errorDetail of an Erro to a directory server in the form for the requestor
// and the log. Only the directory server is told the id of a critical extension, which is a text
// of somebody else's.
func ownDetail(code message.Code, detail string) string {
	if code == message.CriticalExtension {
		return "messageExtension"
	}
	return detail
}

// blameRequest names the AReq as the message to blame in an Erro about the content of an /auth. Other
// errors, such as that the store cannot be reached, are returned as they are.
func blameRequest(err error) error {
	if refused, ok := errors.AsType[*FaultyRequestError](err); ok {
		blamed := *refused
		blamed.Erro.MessageType = message.AReq.String()
		return &blamed
	}
	bad, ok := errors.AsType[message.Error](err)
	if !ok || bad.Code == message.TransientFailure {
		return err
	}
	bad.MessageType = message.AReq.String()
	return bad
}

// descriptions are the errorDescriptions in which the requestor's contract differs from the protocol.
var descriptions = map[message.Code]string{
	message.UnsupportedVersion: "Unsupported message version",
	message.UnknownTransaction: "No transaction found",
	message.BadTransactionData: "Transaction data not valid",
	message.ConnectionFailure:  "Unable to contact Directory Server",
	message.TransientFailure:   "Transient system failure",
}

// Describe is the errorDescription of a code as the requestor's contract has it.
func Describe(code message.Code) string { return cmp.Or(descriptions[code], code.Description()) }

// erroOf is an Erro that was received, without ids that do not have the form of one.
func erroOf(m *message.Message) message.Error {
	bad := message.ReadError(m)
	bad.ServerTransID, bad.DSTransID = idOf(m, "threeDSServerTransID"), idOf(m, "dsTransID")
	bad.ACSTransID, bad.SDKTransID = idOf(m, "acsTransID"), idOf(m, "sdkTransID")
	return bad
}

// erro makes an Erro for the requestor. TransID is "" if it knows no id.
func erro(v message.Version, code message.Code, detail, transID string) message.Error {
	return message.Error{
		Version: v, Code: code, Component: component,
		Description: Describe(code), Detail: detail, ServerTransID: transID,
	}
}

// badJSON answers a body that cannot be read at all.
func badJSON(err error) error {
	return &FaultyRequestError{
		message.Error{
			Version: message.V220, Code: message.Format, Component: component,
			Description: "Invalid JSON", Detail: err.Error(),
		},
		[]api.Fault{unreadable(err)},
	}
}

// unreadable returns the fault of a body that is no JSON object of a size that can be read.
func unreadable(err error) api.Fault {
	cure := "Send one JSON object."
	if bad, ok := errors.AsType[*message.SyntaxError](err); ok {
		cure = "Send one JSON object: " + bad.Error() + "."
	}
	return faults.New(message.Format, "", "json", cure)
}

// A FaultyRequestError is the Erro that answers a request with faults, and the faults one by one.
type FaultyRequestError struct {
	Erro   message.Error
	Faults []api.Fault
}

func (e *FaultyRequestError) Error() string { return e.Erro.Error() }

func (e *FaultyRequestError) Unwrap() error { return e.Erro }

// FaultsOf returns what is wrong with the request that err refuses (docs/api.md, R12a): none if the Erro is another
// component's, or has a code that does not tell of a fault of the content.
func FaultsOf(err error) []api.Fault {
	bad, ok := errors.AsType[message.Error](err)
	switch {
	case !ok || bad.Component != component:
		return nil
	case bad.Code != message.UnsupportedVersion && bad.Code != message.ISOCode && (bad.Code < 201 || bad.Code > 207):
		return nil
	}
	if refused, ok := errors.AsType[*FaultyRequestError](err); ok {
		return refused.Faults
	}
	if bad.Description == unknownID {
		cure := "Send the id of an authentication of yours whose result is awaited, or can still be fetched."
		return []api.Fault{faults.New(bad.Code, "threeDSServerTransID", "condition", cure)}
	}
	var all []api.Fault
	for _, name := range Elements(bad) {
		all = append(all, faults.New(bad.Code, message.Path(name), "condition", "Send "+name+" as docs/api.md describes it."))
	}
	return all
}

// explainProblems returns the entries of problems. Those that come of a rule of the scheme have its source.
func (e *Engine) explainProblems(problems message.Problems, enforced []*scheme.Finding, s faults.Subject) []api.Fault {
	var all []api.Fault
	for _, p := range problems {
		entry := faults.Explain(p, s)
		if p.Path == "ds" && p.Code == message.Format {
			words := []string{}
			for i := range e.Peers {
				words = append(words, e.Peers[i].Scheme)
			}
			entry.Rule, entry.Limit, entry.Cure = "unknown-code", &api.Limit{Allowed: words}, "Send the word of a directory that is configured."
		}
		if p.Path == "messageCategory" && entry.Rule == "condition" && s.Version < message.V220 {
			entry.Cure = "Send 02, or the messageVersion 2.2.0 or later: 2.1.0 has no payment in 3RI (deviceChannel 03)."
		}
		for _, f := range enforced {
			if f.Code == p.Code && f.Elements[0] == string(p.Path) {
				entry.Rule, entry.Limit, entry.Source = "scheme-required", nil, api.Text(scheme.DescribeSources(f.Sources))
				entry.Cure = "Do what the scheme asks for: " + f.Text + "."
			}
		}
		all = append(all, entry)
	}
	return all
}

// refuseBody answers a body of /preauth or /postauth that has problems.
func (e *Engine) refuseBody(req *message.Request, problems message.Problems) error {
	s := faults.Subject{Version: message.V220, Value: req.RawAt}
	return &FaultyRequestError{fault(message.V220, problems, ""), e.explainProblems(problems, nil, s)}
}

// unreachable is the answer when the store does not answer. It is never 203 or 305, upon
// which the caller would give up.
func unreachable(v message.Version, transID string) message.Error {
	return erro(v, message.TransientFailure, "The server could not reach its own data, try again", transID)
}

// A TooManyError refuses a request because too many AReqs of its merchant are on their way to the same directory
// server. The id of the request is not used up. It wraps the Erro for the requestor, who should wait and try again.
type TooManyError struct{ Erro message.Error }

func (e *TooManyError) Error() string { return e.Erro.Error() }

func (e *TooManyError) Unwrap() error { return e.Erro }

// tooMany makes the Erro of a TooManyError.
func tooMany(v message.Version, transID string) message.Error {
	return erro(v, message.TooManyMessages, "Too many requests of this merchant wait for the directory server, try again", transID)
}

// rangesNotLoaded is the errorDetail of noRanges.
const rangesNotLoaded = "Card ranges are not loaded yet, try again"

// noRanges answers before any directory has been asked.
func noRanges(v message.Version, transID string) message.Error {
	return erro(v, message.TransientFailure, rangesNotLoaded, transID)
}

// outcomeOf names how an operation ended, for the metrics: good, unless there is an error.
func outcomeOf(good string, err error) string {
	bad, ok := errors.AsType[message.Error](err)
	switch {
	case err == nil:
		return good
	case !ok:
		return "internal"
	case bad.Code == message.TransientFailure && bad.Detail == rangesNotLoaded:
		return "no_ranges" // the store works, and its alert counts 403
	}
	return bad.Code.String()
}

// Elements returns the elements that an Erro of this server finds fault with, by its
// errorDetail; none when that is a sentence, or the Erro is another component's.
func Elements(bad message.Error) []string {
	switch bad.Code {
	case message.Missing, message.Format, message.Duplicate, message.Reserved, message.ISOCode, message.BadTransactionData, message.CriticalExtension:
	default:
		return nil
	}
	names := strings.Split(bad.Detail, ",")
	if bad.Component != component || slices.ContainsFunc(names, func(name string) bool { return !isElement(name) }) {
		return nil
	}
	return names
}

// isElement reports whether s has the form of an element's name, such as
// "acctInfo.chAccAgeInd" or "messageExtension[0].data.A000000004-acsRBA.score".
func isElement(s string) bool {
	return s != "" && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.[]-_") == ""
}

// unknownBIN is the 305 of /preauth. The BIN is left out: in a log, beside the last four
// digits that a merchant may print, it would give away most of the card number.
func unknownBIN() message.Error {
	return message.Error{
		Version: message.V220, Code: message.BadTransactionData, Component: component,
		Description: "Unknown BIN",
		Detail:      "No CRD found, card with BIN ****** is not enrolled with any known DS",
	}
}
