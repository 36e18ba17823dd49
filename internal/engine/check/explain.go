package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/message"
)

// An Explanation says what /auth would make of a body.
type Explanation struct {
	IsValid    bool // /auth would not refuse the content
	Faults     []api.Fault
	Warnings   []api.ExplanationWarning
	Normalised []api.Correction
	Findings   []*scheme.Finding // what the scheme asks for and the request lacks
	Scheme     string            // whose directory the AReq would go to; "" if it is not known
	Version    message.Version   // of the AReq
	AReq       []byte            // masked; nil if the request is not valid
}

// Shape returns the explanation as /explain answers it.
func (x *Explanation) Shape() api.Explanation {
	o := api.Explanation{
		Verdict: api.VerdictInvalid, Scheme: api.Text(x.Scheme), Faults: append([]api.Fault{}, x.Faults...),
		Warnings: append([]api.ExplanationWarning{}, x.Warnings...), Normalised: append([]api.Correction{}, x.Normalised...),
		SchemeFindings: scheme.Shapes(x.Findings), WouldSend: x.AReq,
	}
	if x.IsValid {
		o.Verdict = api.VerdictValid
	}
	if x.AReq != nil {
		o.MessageVersion = api.Text(x.Version.String())
	}
	return o
}

// Write prints the explanation of a file with this name for people: what is sent on stdout, and all findings on stderr.
func (x *Explanation) Write(name string, stdout, stderr io.Writer) error {
	var out bytes.Buffer
	if x.AReq != nil {
		if err := json.Indent(&out, x.AReq, "", "  "); err != nil {
			return err
		}
		out.WriteByte('\n')
	}
	for _, n := range x.Normalised {
		fmt.Fprintf(&out, "corrected by /auth: %s: %s\n", n.Pointer, n.Rule)
	}
	if _, err := stdout.Write(out.Bytes()); err != nil {
		return err
	}
	for _, f := range x.Faults {
		fmt.Fprintf(stderr, "%s: %s: %s %s: %s\n", name, strings.TrimPrefix(*f.Pointer, "/"), f.Code, f.Rule, f.Cure)
	}
	for _, f := range x.Findings {
		fmt.Fprintf(stderr, "%s: %s: %s\n", name, x.Scheme, f.Text)
	}
	for _, w := range x.Warnings {
		fmt.Fprintf(stderr, "%s: warning: %s\n", name, w.Text)
	}
	return nil
}

// Reject makes a request invalid for further faults, which come first.
func (x *Explanation) Reject(further []api.Fault) {
	x.IsValid, x.AReq, x.Faults = false, nil, append(further, x.Faults...)
}

// ExplainOptions are the parameters of the request in addition to the body.
type ExplainOptions struct {
	Scheme string    // "" means that of the body
	AsOf   time.Time // its zero value means now
	// AllowMaskedCard has a masked card number be a warning. /auth refuses such a request.
	AllowMaskedCard bool
	// Placeholders are members for which the engine has no real value. Where the request has none either, they are null,
	// and rules of the scheme about them do not count.
	Placeholders []string

	// IsCreation means that the body is a request for an authentication, not one of /auth.
	IsCreation bool
	// Agent is set if the body comes from an agent, and nil otherwise.
	Agent *AgentSteps
}

// authMembers are the members of a body of /explain or /auth that are not of EMV 3DS, and createMembers those of a body
// of /explain or /authentications.
var (
	authMembers   = []string{"scheme", "asOf", "for", "ds", "extensions"}
	createMembers = append([]string{"reference", "returnUrl"}, authMembers...)
)

// ReadExplainOptions returns the options among the members of a body, and what is wrong with them.
func ReadExplainOptions(body []byte) (ExplainOptions, []api.Fault) {
	var o ExplainOptions
	var entries []api.Fault
	r, err := message.ReadRequest(body, message.Limits{Depth: -1, Members: -1})
	if err != nil {
		return o, nil
	}
	add := func(name message.Path, rule, cure string, limit api.Limit) {
		e := faults.New(message.Format, name, rule, cure)
		e.Limit = &limit
		entries = append(entries, e)
	}
	if r.Has("scheme") {
		if o.Scheme = r.Text("scheme"); !slices.Contains(scheme.Names(), o.Scheme) {
			o.Scheme = ""
			add("scheme", "unknown-code", "Send the word of a card scheme.", api.Limit{Allowed: scheme.Names()})
		}
	}
	if r.Has("asOf") {
		if o.AsOf, err = time.Parse(time.DateOnly, r.Text("asOf")); err != nil {
			add("asOf", "pattern", "Send a date such as 2026-11-25.", api.Limit{Pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"})
		}
	}
	switch r.Text("for") {
	case "auth":
	case "authentications":
		o.IsCreation = true
	default:
		o.IsCreation = !r.Has("messageType") && !r.Has("threeDSServerTransID")
		if r.Has("for") {
			add("for", "unknown-code", "Send the path that the body is for, or nothing.",
				api.Limit{Allowed: []string{"auth", "authentications"}})
		}
	}
	return o, entries
}

// Explain says what happens to a body of the request, by the check that it is for. It sends nothing, stores nothing,
// and logs nothing. The state of the id in the body does not count.
func (k *Checker) Explain(req *Request, body []byte, o ExplainOptions) *Explanation {
	req.wantedScheme, req.asOf = o.Scheme, o.AsOf
	original, err := message.ReadRequest(slices.Clone(body), k.Limits)
	if err != nil {
		return &Explanation{Faults: []api.Fault{unreadable(err)}}
	}
	c, err := k.checkAnyID(req, body, o)
	if err != nil {
		return &Explanation{Faults: []api.Fault{unreadable(err)}}
	}
	placeholders := append(slices.DeleteFunc(slices.Clone(o.Placeholders), original.Has), req.Awaited...)
	x := &Explanation{Version: req.Version, Scheme: c.To.Scheme()}
	for _, f := range c.Findings {
		if !slices.Contains(placeholders, f.Element) {
			x.Findings = append(x.Findings, f)
		}
	}
	problems := c.Problems
	if o.AllowMaskedCard && maskedCard.MatchString(req.PAN) {
		problems = slices.DeleteFunc(slices.Clone(problems), func(p message.Problem) bool {
			return p.Path == "acctNumber" && p.Code == message.Format
		})
		x.warn("acctNumber", "masked", "the card number is masked, and was not checked")
	}
	s := k.subjectOf(req, c, original)
	x.Faults = append(x.Faults, c.Own...)
	x.Faults = append(x.Faults, k.explainProblems(problems, c.Enforced, s)...)
	k.checkCard(x, req, c, s)
	if c.AReq != nil && len(problems) == 0 {
		x.Faults = append(x.Faults, k.explainProblems(FollowUpProblems(req.Version, c.AReq), nil, s)...)
	}
	x.Normalised = corrections(req, c, original)
	for i := range x.Normalised {
		if n := &x.Normalised[i]; x.hasFaultAt(n.Pointer) {
			n.Sent = nil // a wrong value is not sent, not even corrected
		}
	}
	x.IsValid = len(x.Faults) == 0
	if x.IsValid && c.AReq != nil {
		if req.id.made {
			placeholders = append(placeholders, "threeDSServerTransID") // /auth makes one
		}
		x.AReq = WithoutCard(c.AReq.MaskedJSON(placeholders...), req.PAN)
	}
	return x
}

// checkAnyID checks a body as that which it is for. The state of its id does not count.
func (k *Checker) checkAnyID(req *Request, body []byte, o ExplainOptions) (*Content, error) {
	switch {
	case o.Agent != nil:
		return k.CheckAgents(req, *o.Agent, body)
	case o.IsCreation:
		return k.CheckCreation(req, body)
	}
	c, err := k.openAReq(req, body)
	if err != nil {
		return c, err
	}
	if c.To.Peer == nil && req.id.isBound {
		req.id.isBound = false
		c.To = k.findTarget(req)
	}
	k.judgeAReq(req, c)
	return c, nil
}

// maskedCard is a card number that shows only its first and last digits.
var maskedCard = regexp.MustCompile(`^[0-9]{0,8}[*xX•.#]{3,}[0-9]{0,4}$`)

// checkCard says what the card ranges say of the request: that no directory has the card, or not in this version.
func (k *Checker) checkCard(x *Explanation, req *Request, c *Content, s faults.Subject) {
	hasFault := func(path message.Path) bool {
		return slices.ContainsFunc(c.Problems, func(p message.Problem) bool { return p.Path == path })
	}
	switch {
	case !IsCardNumber(req.PAN) || req.hasDS && req.DS == "":
		// A fault that is reported already.
	case c.To.Peer == nil && (!k.Cards.AnyTried() || k.Cards.Pending(req.DS)):
		x.warn("acctNumber", "range", "card ranges are not loaded, so the scheme of the card is not known")
	case c.To.Peer == nil && c.isCreation:
		x.warn("acctNumber", "range", "no card range of a directory has this card: the authentication ends as not_enrolled")
	case c.To.Peer == nil:
		cure := "Use another card: no card range of a directory has this one."
		x.Faults = append(x.Faults, faults.New(message.BadTransactionData, "acctNumber", "range", cure))
	case c.To.Info == nil:
		x.warn("acctNumber", "range", "no card range of "+c.To.Scheme()+" has this card, so its versions were not checked")
	case !hasFault("messageVersion") && !req.IsVersionUsable(c.To):
		other := message.Problem{Code: message.UnsupportedVersion, Path: "messageVersion"}
		x.Faults = append(x.Faults, faults.Explain(other, s))
	}
}

func (x *Explanation) warn(path message.Path, rule, text string) {
	x.Warnings = append(x.Warnings, api.ExplanationWarning{Pointer: faults.Pointer(path), Rule: rule, Text: text})
}

// hasFaultAt reports whether a fault is about the element that a pointer names.
func (x *Explanation) hasFaultAt(pointer string) bool {
	return slices.ContainsFunc(x.Faults, func(f api.Fault) bool { return f.Pointer != nil && *f.Pointer == pointer })
}

// Limits of what an authentication keeps of the corrections of its request, which may be as long as the body.
const (
	MaxCorrections     = 50
	MaxCorrectionValue = 200 // bytes of a value; a longer one is left out
)

// KeptCorrections returns what was changed in a request for an authentication, to be kept with it.
func (k *Checker) KeptCorrections(req *Request, c *Content, body []byte) []api.Correction {
	original, err := message.ReadRequest(body, k.Limits)
	if err != nil {
		return nil // it was read before
	}
	all := corrections(req, c, original)
	all = all[:min(len(all), MaxCorrections)]
	for i := range all {
		for _, value := range []*json.RawMessage{&all[i].Found, &all[i].Sent} {
			if len(*value) > MaxCorrectionValue {
				*value = nil
			}
		}
	}
	return all
}

// corrections returns what was changed in a request, and the members that are not sent because they are unknown.
func corrections(req *Request, c *Content, original *message.Request) (all []api.Correction) {
	for _, change := range req.Changes {
		n := api.Correction{Pointer: faults.Pointer(change.Path), Rule: change.What}
		if IsImpersonal(change.Path) {
			n.Found = WithoutCard(original.RawAt(change.Path), req.PAN)
			if c.AReq != nil {
				n.Sent = WithoutCard(c.AReq.Raw(string(change.Path)), req.PAN)
			}
		}
		all = append(all, n)
	}
	for _, path := range original.Unknown() {
		top, _, _ := strings.Cut(path.Name(), ".")
		if !slices.ContainsFunc(c.known, func(name string) bool { return strings.EqualFold(name, top) }) {
			all = append(all, api.Correction{Pointer: faults.Pointer(path), Rule: "unknown-member"})
		}
	}
	return all
}

// IsImpersonal reports whether an element says nothing of a person, so that its value may be shown.
func IsImpersonal(path message.Path) bool {
	name := path.Name()
	if strings.HasSuffix(name, "Phone.cc") {
		return true
	}
	f := message.TableOf(message.AReq, message.V231).Field(name)
	if f == nil || f.Mask != message.Clear {
		return false
	}
	switch f.Kind {
	case message.OneOf, message.Country, message.Currency, message.Dotted, message.Bool:
		return true
	}
	return strings.HasPrefix(name, "browser") || name == "acceptLanguage"
}
