package check

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/message"
)

// A Content is the result of all checks of a request that need neither the store nor the state of its id. It is the
// same for a request and for its explanation, so they cannot disagree.
type Content struct {
	To           Target
	Message      *message.Request
	AReq         *message.Message // nil if its version is not known
	Problems     message.Problems // for which the request is refused
	Own          []api.Fault      // what is wrong with members that EMV 3DS does not have
	Findings     []*scheme.Finding
	Enforced     []*scheme.Finding // those of findings that are among problems
	RulesChecked bool

	known            []string // members that EMV 3DS does not have, and that are not unknown all the same
	isCreation       bool     // it is a request for an authentication: the merchant's profile fills in what it lacks
	fitsTexts        bool     // the server itself writes the texts, and makes them fit
	canTransliterate bool     // the merchant could have its texts transliterated, and has not
}

// CheckAReq reads the body of an /auth, and checks its content. It changes nothing but req, and sends nothing. The
// error is that the body cannot be read.
func (k *Checker) CheckAReq(req *Request, body []byte) (*Content, error) {
	c, err := k.openAReq(req, body)
	if err == nil {
		k.judgeAReq(req, c)
	}
	return c, err
}

// openAReq reads the body of an /auth, and finds where it goes.
func (k *Checker) openAReq(req *Request, body []byte) (*Content, error) {
	c, err := k.open(req, body, req.Account.Strict)
	if err == nil {
		c.known = authMembers
		k.locate(req, c)
	}
	return c, err
}

// judgeAReq completes what openAReq has read, and checks it.
func (k *Checker) judgeAReq(req *Request, c *Content) {
	// An id that is there but is no string does not count as lacking: build reports it.
	if !c.Message.Has("threeDSServerTransID") && c.Message.Text("deviceChannel") != Browser {
		k.makeID(req, c.To)
	}
	if k.chooseVersion(req, c) {
		req.addChange("messageVersion", "the highest that the card can be used in")
	}
	found := bridgeRequest(req, c.To, c.Message)
	k.complete(req, c)
	k.finish(req, c, found)
}

// CheckCreation is CheckAReq for the body of a request for an authentication. What it lacks is filled in, and
// placeholders stand for what the page of the browser sends later.
func (k *Checker) CheckCreation(req *Request, body []byte) (*Content, error) {
	c, err := k.openCreation(req, body, req.Account.Strict)
	if err != nil {
		return c, err
	}
	if c.Message.Text("deviceChannel") == Browser {
		page := cmp.Or(k.BrowserURL, "https://browser.invalid") + "/n/" + strings.Repeat("A", 64) + "/challenge"
		req.await(c.Message, "notificationURL", strconv.Quote(page))
	}
	found := bridgeRequest(req, c.To, c.Message)
	withdrawSPC(req, c.To, c.Message)
	k.complete(req, c)
	k.finish(req, c, found)
	return c, nil
}

// AgentSteps are what an agent says of its browser, whose steps it takes itself.
type AgentSteps struct {
	// NotificationURL is where the issuer sends the browser back. Empty means that the agent sends it later.
	NotificationURL string
	// Completion says what became of the 3DS Method: Y, N or U. Empty means that the AReq is not to leave yet.
	Completion string
}

// CheckAgents is CheckCreation for the request of an agent. It is not strict whatever the key says, for the server
// itself writes its elements.
func (k *Checker) CheckAgents(req *Request, steps AgentSteps, body []byte) (*Content, error) {
	c, err := k.openCreation(req, body, false)
	if err != nil {
		return c, err
	}
	c.fitsTexts = true
	if c.Message.Text("deviceChannel") == Browser {
		if c.Message.Set("notificationURL", steps.NotificationURL); steps.NotificationURL == "" {
			req.await(c.Message, "notificationURL", `"https://agent.invalid/"`)
		}
		if steps.Completion != "" {
			c.Message.Set("threeDSCompInd", steps.Completion)
		}
	}
	found := bridgeRequest(req, c.To, c.Message)
	withdrawSPCOfAgent(req, c.Message)
	withdrawSPC(req, c.To, c.Message)
	k.complete(req, c, "threeDSRequestorID")
	k.finish(req, c, found)
	return c, nil
}

// openCreation reads a request for an authentication, finds where it goes, and fills in what it need not say.
func (k *Checker) openCreation(req *Request, body []byte, isStrict bool) (*Content, error) {
	c, err := k.open(req, body, isStrict)
	if err != nil {
		return c, err
	}
	c.isCreation, c.known = true, createMembers
	c.Own = k.checkOwnMembers(c.Message)
	req.Reference, req.ReturnURL = c.Message.Text("reference"), c.Message.Text("returnUrl")
	k.addProtocolDefaults(req, c.Message)
	k.locate(req, c)
	req.Reference = ReferenceWithoutCard(req.Reference, req.PAN)
	k.makeID(req, c.To)
	if k.chooseVersion(req, c) {
		req.Defaulted = append(req.Defaulted, "messageVersion")
	}
	k.addProfileDefaults(req, c.To, c.Message)
	return c, nil
}

// open reads a body. The error is that it cannot be read.
func (k *Checker) open(req *Request, body []byte, isStrict bool) (*Content, error) {
	req.isStrict = isStrict
	msg, err := message.ReadRequest(body, k.Limits)
	if err != nil {
		return &Content{}, err
	}
	if !isStrict {
		req.Changes = append(req.Changes, msg.NormaliseCardNumber()...)
	}
	return &Content{Message: msg}, nil
}

// chooseVersion sets a messageVersion that is absent to the highest that the card can be used in (docs/api.md, A1), and
// reports whether it did. Without such a version it takes the highest of the directory, or of all directories, so that
// the other faults of the request are found.
func (k *Checker) chooseVersion(req *Request, c *Content) bool {
	if req.isStrict || c.Message.Has("messageVersion") {
		return false
	}
	usable := k.usableVersions(c.To)
	if len(usable) == 0 && c.To.Peer != nil {
		usable = c.To.Peer.Versions
	}
	if len(usable) == 0 {
		return false
	}
	highest := slices.Max(usable)
	c.Message.Set("messageVersion", highest.String())
	req.Version, req.LoggedVersion = highest, highest.String()
	return true
}

// locate finds the target: the directory that the id was made for, else the one that the request
// names, else the first that has the card. It reports no faults yet, for all faults of the request come before those of
// its id.
func (k *Checker) locate(req *Request, c *Content) {
	req.read(c.Message)
	if ds := c.Message.Text("ds"); k.IsKnownScheme(ds) {
		req.DS = ds
	}
	if id := strings.ToLower(c.Message.Text("threeDSServerTransID")); id != "" {
		info, err := k.IDs.Check(id, req.Start, req.IDLife, req.Account.Merchant.Name, req.PAN)
		req.id = requestedID{value: id, err: err}
		if err == nil {
			req.id.isBound, req.id.scheme = true, k.schemeOfNumber(info.Scheme)
		}
	}
	c.To = k.findTarget(req)
}

// makeID gives an id to a request that brings none.
func (k *Checker) makeID(req *Request, to Target) {
	id := req.NewID
	if id == "" {
		id = k.NewID(req.Start, req.IDLife, NumberOf(to.Scheme()), req.Account.Merchant.Name, req.PAN)
	}
	req.id = requestedID{value: id, made: true}
}

// finish corrects what the completed request says, unless the key is strict, checks everything, and makes the AReq.
// Found are the problems so far.
func (k *Checker) finish(req *Request, c *Content, found message.Problems) {
	to, msg, merchant := c.To, c.Message, req.Account.Merchant
	c.canTransliterate = !merchant.Transliterate && !req.isStrict && !c.fitsTexts
	if !req.isStrict {
		k.mend(req, c)
	}
	found = append(found, addExtensions(req, to, msg)...)
	areq, problems := msg.Build(k.BuildContext(to))
	c.AReq = areq
	found = append(found, problems...)
	found = append(found, checkExtensions(req, areq)...)
	found = append(found, k.checkRules(req, c)...)
	if areq != nil && req.isStrict {
		found = append(append(found, areq.CheckExponents()...), areq.CheckIdentifiers()...)
	}
	if req.Version < message.V220 && msg.Text("deviceChannel") == "03" && msg.Text("messageCategory") == "01" {
		// The tables of 2.1.0 have the column; payments in it came with 2.2.0 (RI-02).
		found = append(found, message.Problem{Code: message.Format, Path: "messageCategory"})
	}
	if req.hasDS && req.DS == "" {
		found = append(found, message.Problem{Code: message.Format, Path: "ds"})
	}
	c.Problems = req.withoutCopy(found)
}

// withoutCopy leaves out the problems of an acquirer's country that was copied from the merchant's country: the fault
// is in the member that the caller sent, and is reported there.
func (req *Request) withoutCopy(found message.Problems) message.Problems {
	isCopied := slices.ContainsFunc(req.Changes, func(c message.Change) bool {
		return c.Path == "acquirerCountryCode" && strings.HasSuffix(c.What, "from merchantCountryCode")
	})
	isSource := func(p message.Problem) bool { return p.Path == "merchantCountryCode" }
	if !isCopied || !slices.ContainsFunc(found, isSource) {
		return found
	}
	return slices.DeleteFunc(found, func(p message.Problem) bool { return p.Path == "acquirerCountryCode" })
}

// BuildContext returns what decides how an AReq is built.
func (k *Checker) BuildContext(to Target) message.Context {
	ctx := message.Context{Loopback: k.Loopback}
	if to.Peer != nil {
		ctx.KnownExtension = to.Peer.Context(ctx).KnownExtension
	}
	return ctx
}

// complete fills in what the server owns (docs/api.md, R6). Of the members in kept the request's own value goes first.
func (k *Checker) complete(req *Request, c *Content, kept ...string) {
	msg := c.Message
	var dir Directory
	if c.To.Peer != nil {
		dir = *c.To.Peer
	}
	if req.id.value != "" {
		msg.Set("threeDSServerTransID", req.id.value)
	}
	msg.Set("threeDSServerRefNumber", k.Server.RefNumber(req.Version))
	msg.Set("threeDSServerOperatorID", dir.OperatorID)
	if c.To.Peer != nil {
		msg.Set("threeDSServerURL", dir.ResultsURL)
	} else {
		msg.Set("threeDSServerURL", k.Peers[0].ResultsURL) // it will not be sent, but its lack would be reported as a fault
	}
	msg.Set("cardSecurityCode", "") // removed: no directory's rules ask for it, and it must not be kept anywhere
	setOwned := func(name, ofMerchant, ofDirectory, ofServer string) {
		switch {
		case slices.Contains(kept, name) && msg.Has(name):
		case ofMerchant != "":
			msg.Set(name, ofMerchant)
		default:
			msg.Default(name, ofDirectory)
			msg.Default(name, ofServer)
		}
	}
	requestor := req.Account.Merchant.Requestor(dir.Scheme)
	setOwned("threeDSRequestorID", requestor.ID, dir.RequestorID, k.Server.RequestorID)
	setOwned("threeDSRequestorName", requestor.Name, dir.RequestorName, k.Server.RequestorName)
}

// mend corrects obvious slips, and fills in what the merchant's profile or the card range tell (docs/api.md, R9).
func (k *Checker) mend(req *Request, c *Content) {
	to, msg, merchant := c.To, c.Message, req.Account.Merchant
	const acquirer = "acquirerCountryCode"
	if country := merchant.AcquirerCountry; country != "" && !msg.Has(acquirer) &&
		message.TableOf(message.AReq, req.Version).Field(acquirer) != nil {
		msg.Set(acquirer, country)
		req.addChange(acquirer, "taken from the merchant's profile")
	}
	req.Changes = append(req.Changes, msg.Normalise()...)
	if merchant.Transliterate || c.fitsTexts {
		req.Changes = append(req.Changes, msg.Transliterate()...)
	}
	if c.fitsTexts {
		req.Changes = append(req.Changes, msg.FitTexts()...)
	}
	withdrawSPC(req, to, msg)
	if msg.Text("deviceChannel") == Browser && msg.Has("threeDSCompInd") && msg.Text("threeDSCompInd") != "U" {
		if acs := ACSVersion(to.Info, req.Version.String()); acs != nil && MethodURL(to.Peer, acs) == "" {
			msg.Set("threeDSCompInd", "U")
			req.addChange("threeDSCompInd", "U, the range has no 3DS Method")
		}
	}
}

// CheckIDAndVersion checks the id, and that the card can be used in the version. It comes
// after build, for faults of the request are reported first.
func (k *Checker) CheckIDAndVersion(req *Request, to Target) error {
	if !k.Cards.AnyTried() {
		return NoRanges(req.Version, req.KnownID())
	}
	switch err := req.id.err; {
	case errors.Is(err, transid.ErrCard):
		return NewErro(req.Version, message.BadTransactionData, "acctNumber", req.KnownID())
	case errors.Is(err, transid.ErrExpired):
		return NewErro(req.Version, message.UnknownTransaction, "The threeDSServerTransID has expired", req.KnownID())
	case err != nil:
		return NewErro(req.Version, message.UnknownTransaction, "The threeDSServerTransID is not known", "")
	case req.id.isBound && req.DS != "" && req.DS != req.id.scheme:
		return NewErro(req.Version, message.BadTransactionData, "ds", req.KnownID())
	case to.Peer == nil && k.isStillPending(req):
		return NoRanges(req.Version, req.KnownID())
	case to.Peer == nil:
		return NewErro(req.Version, message.BadTransactionData, "acctNumber", req.KnownID())
	}
	if !req.IsVersionUsable(to) {
		return NewErro(req.Version, message.UnsupportedVersion, listVersions(CommonVersions(to.Peer, to.Info)), req.KnownID())
	}
	return nil
}

// listVersions lists versions as errorDetail has them.
func listVersions(versions []message.Version) string {
	if len(versions) == 0 {
		return "no version is common to ACS, DS and 3DS Server"
	}
	var texts []string
	for _, v := range versions {
		texts = append(texts, v.String())
	}
	return strings.Join(texts, ",")
}

// What a merchant's scheme_rules may say; anything else is a warning.
const (
	rulesOff     = "off"
	rulesEnforce = "enforce"
)

// checkRules checks an AReq against what its scheme asks for beyond the protocol. It
// returns the problems to refuse the request for, which only merchants with scheme_rules
// "enforce" get; all others go into req.Findings.
func (k *Checker) checkRules(req *Request, c *Content) message.Problems {
	mode := req.Account.Merchant.SchemeRules
	if c.To.Peer == nil || c.AReq == nil || mode == rulesOff {
		return nil
	}
	var refused message.Problems
	c.Findings, c.RulesChecked = c.To.Peer.Sheet().Check(c.AReq, cmp.Or(req.asOf, req.Start)), true
	for _, f := range c.Findings {
		if mode == rulesEnforce && f.Code != 0 {
			// If one of several elements is enough, the first is named.
			refused = append(refused, message.Problem{Code: f.Code, Path: message.Path(f.Elements[0])})
			c.Enforced = append(c.Enforced, f)
		} else {
			req.Findings = append(req.Findings, f)
		}
	}
	return refused
}
