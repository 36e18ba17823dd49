package auth

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/account"
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

// Reject makes a request invalid for further faults, which come first.
func (x *Explanation) Reject(further []api.Fault) {
	x.IsValid, x.AReq, x.Faults = false, nil, append(further, x.Faults...)
}

// ExplainOptions are what is asked for beside the body.
type ExplainOptions struct {
	Scheme string    // "" means that of the body
	AsOf   time.Time // its zero value means now
	// AllowMaskedCard has a masked card number be a warning. /auth refuses such a request.
	AllowMaskedCard bool
	// Placeholders are members for which the engine has no real value. Where the request has none either, they are null,
	// and rules of the scheme about them do not count.
	Placeholders []string
	delegation   *Delegation // of an agent's request; nil for all others

	// IsCreation has the body be that of a request for an authentication, not that of an /auth.
	IsCreation bool
}

// explainMembers are the members of a body of /explain that are not for /auth.
var explainMembers = []string{"scheme", "asOf", "for"}

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
			add("for", "unknown-code", "Send the path that the body is for, or nothing.", api.Limit{Allowed: []string{"auth", "authentications"}})
		}
	}
	return o, entries
}

// Explain says what Authenticate would make of a body. It sends nothing, stores nothing, and logs nothing. The state
// of the id in the body does not count.
func (e *Engine) Explain(acc *account.Account, body []byte, o ExplainOptions) *Explanation {
	req := &authRequest{
		account: acc, start: e.Now(), version: message.V220, isHypothetical: true, wantedScheme: o.Scheme, asOf: o.AsOf,
		isCreation: o.IsCreation, delegation: o.delegation,
	}
	original, err := message.ReadRequest(slices.Clone(body), e.Limits)
	if err != nil {
		return &Explanation{Faults: []api.Fault{unreadable(err)}}
	}
	c, err := e.checkContent(req, body)
	if err != nil {
		return &Explanation{Faults: []api.Fault{unreadable(err)}}
	}
	placeholders := append(slices.DeleteFunc(slices.Clone(o.Placeholders), original.Has), req.awaited...)
	x := &Explanation{Version: req.version, Scheme: c.to.scheme()}
	for _, f := range c.findings {
		if !slices.Contains(placeholders, f.Element) {
			x.Findings = append(x.Findings, f)
		}
	}
	problems := c.problems
	if o.AllowMaskedCard && maskedCard.MatchString(req.pan) {
		problems = slices.DeleteFunc(slices.Clone(problems), func(p message.Problem) bool {
			return p.Path == "acctNumber" && p.Code == message.Format
		})
		x.warn("acctNumber", "masked", "the card number is masked, and was not checked")
	}
	s := e.subjectOf(req, &c, original)
	x.Faults = append(x.Faults, c.own...)
	x.Faults = append(x.Faults, e.explainProblems(problems, c.enforced, s)...)
	e.checkCard(x, req, &c, s)
	if c.areq != nil && len(problems) == 0 {
		x.Faults = append(x.Faults, e.explainProblems(followUpProblems(req.version, c.areq), nil, s)...)
	}
	x.Normalised = corrections(req, original, c.areq)
	for i := range x.Normalised {
		if n := &x.Normalised[i]; x.hasFaultAt(n.Pointer) {
			n.Sent = nil // a wrong value is not sent, not even corrected
		}
	}
	x.IsValid = len(x.Faults) == 0
	if x.IsValid && c.areq != nil {
		if req.id.made {
			placeholders = append(placeholders, "threeDSServerTransID") // /auth makes one
		}
		x.AReq = withoutCard(c.areq.MaskedJSON(placeholders...), req.pan)
	}
	return x
}

// withoutCard returns JSON without the card number of the request, which may stand in other elements than its own.
func withoutCard(text []byte, pan string) []byte {
	if len(text) == 0 || !isCardNumber(pan) {
		return text
	}
	return []byte(cardnumber.Without(string(text), pan))
}

// maskedCard is a card number of which all but the first and last digits were made unreadable.
var maskedCard = regexp.MustCompile(`^[0-9]{0,8}[*xX•.#]{3,}[0-9]{0,4}$`)

// usableVersions returns the versions that a card can be used with, or those of all directories if its directory is
// not known.
func (e *Engine) usableVersions(to target) []message.Version {
	if to.peer != nil {
		return commonVersions(to.peer, to.info)
	}
	var all []message.Version
	for i := range e.Peers {
		all = append(all, e.Peers[i].Versions...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// checkCard says what the card ranges say of the request: that no directory has the card, or not in this version.
func (e *Engine) checkCard(x *Explanation, req *authRequest, c *contentCheck, s faults.Subject) {
	hasFault := func(path message.Path) bool {
		return slices.ContainsFunc(c.problems, func(p message.Problem) bool { return p.Path == path })
	}
	switch {
	case !isCardNumber(req.pan) || req.hasDS && req.ds == "":
		// A fault that is reported already.
	case c.to.peer == nil && (!e.Cards.AnyTried() || e.Cards.Pending(req.ds)):
		x.warn("acctNumber", "range", "card ranges are not loaded, so the scheme of the card is not known")
	case c.to.peer == nil && req.isCreation:
		x.warn("acctNumber", "range", "no card range of a directory has this card: the authentication ends as not_enrolled")
	case c.to.peer == nil:
		cure := "Use another card: no card range of a directory has this one."
		x.Faults = append(x.Faults, faults.New(message.BadTransactionData, "acctNumber", "range", cure))
	case c.to.info == nil:
		x.warn("acctNumber", "range", "no card range of "+c.to.scheme()+" has this card, so its versions were not checked")
	case !hasFault("messageVersion") && !req.isVersionUsable(c.to):
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

// corrections returns what was changed in a request, and the members that are not sent because nobody knows them. areq
// is nil if no AReq could be made.
func corrections(req *authRequest, original *message.Request, areq *message.Message) (all []api.Correction) {
	for _, c := range req.changes {
		n := api.Correction{Pointer: faults.Pointer(c.Path), Rule: c.What}
		if isImpersonal(c.Path) {
			n.Found = withoutCard(original.RawAt(c.Path), req.pan)
			if areq != nil {
				n.Sent = withoutCard(areq.Raw(string(c.Path)), req.pan)
			}
		}
		all = append(all, n)
	}
	for _, path := range original.Unknown() {
		top, _, _ := strings.Cut(path.Name(), ".")
		isOurs := func(name string) bool { return strings.EqualFold(name, top) }
		if req.isCreation && slices.ContainsFunc(createMembers, isOurs) {
			continue
		}
		if !slices.ContainsFunc(explainMembers, isOurs) && !isOurs("ds") && !isOurs("extensions") {
			all = append(all, api.Correction{Pointer: faults.Pointer(path), Rule: "unknown-member"})
		}
	}
	return all
}

// isImpersonal reports whether an element says nothing of a person, so that its value may be shown.
func isImpersonal(path message.Path) bool {
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

// A CardScheme is what a scheme that holds a card says of it.
type CardScheme struct {
	Scheme      string
	Versions    []CardVersion // that can be used, ascending
	Recommended *message.Version
	Requires    []scheme.Requirement // of an AReq of the recommended version
	KnownSince  time.Time            // when the card ranges in use came; its zero value means that this is not known
}

// A CardVersion is a version that a card can be used with.
type CardVersion struct {
	Version   message.Version
	MethodURL string // "" if there is no 3DS Method
	InfoInd   []string
}

// A CardLookup is what [Engine.Lookup] found.
type CardLookup struct {
	Last4      string
	Schemes    []CardScheme // the schemes that hold the card, the preferred one first
	Normalised []string     // the elements that were corrected
}

// Lookup returns the schemes that hold a card. It sends nothing. The entries are what is wrong with the body.
func (e *Engine) Lookup(ctx context.Context, acc *account.Account, body []byte) (*CardLookup, []api.Fault) {
	r, err := message.ReadRequest(body, e.Limits)
	if err != nil {
		cure := "Send one JSON object with the string acctNumber."
		return nil, []api.Fault{faults.New(message.Format, "", "json", cure)}
	}
	found := &CardLookup{}
	if !acc.Strict {
		found.Normalised = changedElements(r.NormaliseCardNumber())
	}
	problems := r.Duplicates()
	pan := r.Text("acctNumber")
	switch {
	case !r.Has("acctNumber"):
		problems = append(problems, message.Problem{Code: message.Missing, Path: "acctNumber"})
	case !isCardNumber(pan):
		problems = append(problems, message.Problem{Code: message.Format, Path: "acctNumber"})
	}
	var wrong []api.Fault
	for _, p := range problems {
		wrong = append(wrong, faults.Explain(p, faults.Subject{Version: message.V231, Value: r.RawAt}))
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	e.noteCard(ctx, pan)
	for _, hit := range e.Cards.Lookup(pan) {
		peer, ok := e.peer(hit.Scheme)
		if !ok {
			continue
		}
		s := CardScheme{Scheme: hit.Scheme}
		for _, v := range commonVersions(peer, hit.Info) {
			acs := acsVersion(hit.Info, v.String())
			s.Versions = append(s.Versions, CardVersion{v, methodURL(peer, acs), acs.InfoInd})
		}
		if len(s.Versions) > 0 {
			v := slices.MaxFunc(s.Versions, func(a, b CardVersion) int { return int(a.Version) - int(b.Version) }).Version
			s.Recommended, s.Requires = &v, peer.rules().Requirements(v, e.Now())
		}
		if hit.Generation != nil {
			s.KnownSince = hit.Generation.Loaded
		}
		found.Schemes = append(found.Schemes, s)
	}
	found.Last4 = pan[len(pan)-4:]
	return found, nil
}
