package check

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

// Component is the errorComponent of Erros that the 3DS Server itself makes.
const Component = "S"

// descriptions are the errorDescriptions in which the requestor's contract differs from the protocol.
var descriptions = map[message.Code]string{
	message.UnsupportedVersion: "Unsupported message version",
	message.UnknownTransaction: "No transaction found",
	message.BadTransactionData: "Transaction data not valid",
	message.ConnectionFailure:  "Unable to contact Directory Server",
	message.TransientFailure:   "Transient system failure",
}

// Describe returns the errorDescription of a code as the requestor's contract words it.
func Describe(code message.Code) string { return cmp.Or(descriptions[code], code.Description()) }

// NewErro makes an Erro for the requestor. TransID is "" if it knows no id.
func NewErro(v message.Version, code message.Code, detail, transID string) message.Error {
	return message.Error{
		Version: v, Code: code, Component: Component,
		Description: Describe(code), Detail: detail, ServerTransID: transID,
	}
}

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
	return NewErro(v, code, detail, transID)
}

// A FaultyRequestError is the Erro that answers a request with faults, and the faults one by one.
type FaultyRequestError struct {
	Erro   message.Error
	Faults []api.Fault
}

func (e *FaultyRequestError) Error() string { return e.Erro.Error() }

func (e *FaultyRequestError) Unwrap() error { return e.Erro }

// Refuse returns the error of a request that has problems.
func (k *Checker) Refuse(req *Request, c *Content, problems message.Problems, enforced []*scheme.Finding) error {
	s := k.subjectOf(req, c, c.Message)
	return &FaultyRequestError{c.erro(req, problems), k.explainProblems(problems, enforced, s)}
}

// erro returns the Erro of a request that has problems.
func (c *Content) erro(req *Request, problems message.Problems) message.Error {
	bad := fault(req.Version, problems, req.KnownID())
	if bad.Code == message.UnsupportedVersion && c.To.Peer != nil {
		bad.Detail = listVersions(CommonVersions(c.To.Peer, c.To.Info)) // only versions that this card can be used with
	}
	return bad
}

// subjectOf returns what entries say of the values of a request.
func (k *Checker) subjectOf(req *Request, c *Content, original *message.Request) faults.Subject {
	value := func(path message.Path) []byte {
		if c.AReq != nil {
			if raw := c.AReq.Raw(string(path)); raw != nil {
				return raw
			}
		}
		return original.RawAt(path)
	}
	return faults.Subject{
		Version: req.Version, Versions: k.usableVersions(c.To), Value: value,
		HasProfile: c.isCreation, CanTransliterate: c.canTransliterate,
	}
}

// explainProblems returns the entries of problems. Those that come of a rule of the scheme have its source.
func (k *Checker) explainProblems(problems message.Problems, enforced []*scheme.Finding, s faults.Subject) []api.Fault {
	var all []api.Fault
	for _, p := range problems {
		entry := faults.Explain(p, s)
		if p.Path == "ds" && p.Code == message.Format {
			words := []string{}
			for i := range k.Peers {
				words = append(words, k.Peers[i].Scheme)
			}
			entry.Rule, entry.Limit, entry.Cure = "unknown-code", &api.Limit{Allowed: words},
				"Send the word of a directory that is configured."
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

// RefuseBody answers a body of /preauth or /postauth that has problems.
func (k *Checker) RefuseBody(req *message.Request, problems message.Problems) error {
	s := faults.Subject{Version: message.V220, Value: req.RawAt}
	return &FaultyRequestError{fault(message.V220, problems, ""), k.explainProblems(problems, nil, s)}
}

// BadJSON answers a body that cannot be read at all.
func BadJSON(err error) error {
	return &FaultyRequestError{
		message.Error{
			Version: message.V220, Code: message.Format, Component: Component,
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

// UnknownID is the errorDescription of a /postauth for an id that has no result.
const UnknownID = "Unknown threeDSServerTransID"

// FaultsOf returns what is wrong with the request that err refuses (docs/api.md, R12a): none if the Erro is another
// component's, or has a code that is not about a fault of the content.
func FaultsOf(err error) []api.Fault {
	bad, ok := errors.AsType[message.Error](err)
	switch {
	case !ok || bad.Component != Component:
		return nil
	case bad.Code != message.UnsupportedVersion && bad.Code != message.ISOCode && (bad.Code < 201 || bad.Code > 207):
		return nil
	}
	if refused, ok := errors.AsType[*FaultyRequestError](err); ok {
		return refused.Faults
	}
	if bad.Description == UnknownID {
		cure := "Send the id of an authentication of yours whose result is awaited, or can still be fetched."
		return []api.Fault{faults.New(bad.Code, "threeDSServerTransID", "condition", cure)}
	}
	var all []api.Fault
	for _, name := range Elements(bad) {
		all = append(all, faults.New(bad.Code, message.Path(name), "condition", "Send "+name+" as docs/api.md describes it."))
	}
	return all
}

// RangesNotLoaded is the errorDetail of NoRanges.
const RangesNotLoaded = "Card ranges are not loaded yet, try again"

// NoRanges answers before any directory has been asked.
func NoRanges(v message.Version, transID string) message.Error {
	return NewErro(v, message.TransientFailure, RangesNotLoaded, transID)
}

// Elements returns the faulty elements that an Erro of this server names in its errorDetail. There are none if that is
// a sentence, or if the Erro is another component's.
func Elements(bad message.Error) []string {
	switch bad.Code {
	case message.Missing, message.Format, message.Duplicate, message.Reserved, message.ISOCode, message.BadTransactionData,
		message.CriticalExtension:
	default:
		return nil
	}
	names := strings.Split(bad.Detail, ",")
	if bad.Component != Component || slices.ContainsFunc(names, func(name string) bool { return !isElement(name) }) {
		return nil
	}
	return names
}

// isElement reports whether s has the form of an element's name, such as
// "acctInfo.chAccAgeInd" or "messageExtension[0].data.A000000004-acsRBA.score".
func isElement(s string) bool {
	return s != "" && s[0] >= 'a' && s[0] <= 'z' &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.[]-_") == ""
}
