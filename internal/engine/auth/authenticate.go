package auth

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// An authRequest is what the engine knows of one /auth: who sent it, what it is about, and
// what was corrected in it. It does not hold the message, which needs much memory, and of
// which only the text is needed once it has been checked.
type authRequest struct {
	account *account.Account
	start   time.Time
	version message.Version // 2.2.0 until it is known
	pan     string
	ds      string // the scheme that the request names; "" if it names none, or one that is not known
	hasDS   bool   // it has the member ds
	id      requestedID

	// These belong to the Authentications API.
	once       Once     // keeps a request that may be made again to one effect
	isCreation bool     // it is a request for an authentication, not the body of an /auth
	defaulted  []string // members that were filled in
	awaited    []string // members that the page of the browser tells later
	reference  string   // of the request
	returnURL  string

	// delegation is that of a request by which an agent takes the browser's steps; nil for all others.
	delegation *Delegation

	// These are set for an explanation only.
	isHypothetical bool      // nothing will be sent, and the state of the id does not count
	wantedScheme   string    // goes before ds and the id; "" if the caller names none
	asOf           time.Time // the time at which the rules of the scheme are applied

	// What the log says of the request. A value that does not have its form is "".
	loggedVersion, loggedChannel, loggedCategory, loggedAmount, loggedCurrency string

	lookedUp time.Time // when the card range was found

	changes  []message.Change  // what was normalised or filled in
	findings []*scheme.Finding // rules of the scheme that the request breaks without being refused

	corrections []api.Correction // what is kept of the changes, for an authentication that is created
}

// A requestedID is the threeDSServerTransID of an /auth.
type requestedID struct {
	value   string
	made    bool   // it was made for this request, and the requestor does not know it yet
	err     error  // what is wrong with the id that the requestor sent
	isBound bool   // it came from /preauth, and was made for one scheme
	scheme  string // that scheme; "" if no directory of it is configured any more
}

// A target is where an AReq goes: a directory, and what it says of the card. Both are nil if
// no configured directory has the card.
type target struct {
	peer *Directory
	info *ranges.Info
}

// scheme is the name of the target's scheme; "" if there is no target.
func (t target) scheme() string {
	if t.peer == nil {
		return ""
	}
	return t.peer.Scheme
}

// A claim is the right to send one AReq. The store has its record, so the id is used up.
type claim struct {
	target
	id       string // threeDSServerTransID
	merchant string
	version  message.Version
	start    time.Time // of the /auth
	rec      *txnRecord
	bridging string        // the version of the Bridging extension in the AReq; "" if it has none
	sent     *journal.Step // the AReq as the journal has it; nil without a journal

	// row is the id of the row that has the transaction. It is another than id for a second AReq of SPC; "" means id.
	row string
	// offer has what the second AReq of SPC is made of, should the issuer ask for it; nil if no page of ours offers SPC.
	offer *spcOffer
}

// rowID is the id of the row that has the transaction.
func (c *claim) rowID() string { return cmp.Or(c.row, c.id) }

// An answer is the ARes that the requestor gets.
type answer struct {
	body   []byte
	status string // its transStatus
}

// Authenticate passes an AReq to the card's directory server and returns the ARes as it
// came. A request that is refused does not use its id up. Once the AReq has been sent, the
// exchange is finished and its outcome committed even if ctx ends. There may be Notes with
// an error, too.
func (e *Engine) Authenticate(ctx context.Context, acc *account.Account, body []byte) ([]byte, Notes, error) {
	req := &authRequest{account: acc, start: e.Now(), version: message.V220}
	to, ares, err := e.authenticate(ctx, req, body)
	e.noteRequest(ctx, req)
	e.noteEnd(ctx, "auth", to.scheme(), outcomeOf(ares.status, err))
	return ares.body, notesOf(req), err
}

type referenceKey struct{}

// WithReference returns a context for [Engine.Authenticate] with the reference by which the requestor knows
// the transaction. It is kept with the transaction, and noted for each later request about that.
func WithReference(ctx context.Context, reference string) context.Context {
	return context.WithValue(ctx, referenceKey{}, reference)
}

// noteRequest records what a request is about.
func (e *Engine) noteRequest(ctx context.Context, req *authRequest) {
	if e.Recorder == nil {
		return
	}
	e.note(ctx, "threeDSServerTransID", req.loggedID())
	if req.isCreation && transid.IsReference(req.reference) {
		e.note(ctx, "reference", req.reference)
	}
	e.noteCard(ctx, req.pan)
	e.note(ctx, "messageVersion", req.loggedVersion)
	e.note(ctx, "deviceChannel", req.loggedChannel)
	e.note(ctx, "messageCategory", req.loggedCategory)
	e.note(ctx, "amount", req.loggedAmount)
	e.note(ctx, "currency", req.loggedCurrency)
	if len(req.changes) > 0 {
		e.Recorder.NoteChanges(ctx, describeChanges(req.changes))
	}
}

// authenticate does the work of Authenticate: it checks the request, claims its id and
// exchanges the messages. It fills in req, and also returns the target if there is an error.
func (e *Engine) authenticate(ctx context.Context, req *authRequest, body []byte) (target, answer, error) {
	// ctx also ends when the requestor closes its sending side of the connection. It may
	// still wait for the answer then.
	through := context.WithoutCancel(ctx)
	to, areq, err := e.checkRequest(through, req, body)
	if err != nil {
		return to, answer{}, blameRequest(err)
	}
	text, err := areq.Sendable()
	if err != nil {
		return to, answer{}, err
	}
	leave, ok := e.Directories.Enter(to.peer.Scheme, req.account.Merchant.Name)
	if !ok {
		return to, answer{}, &TooManyError{tooMany(req.version, req.knownID())}
	}
	defer leave()
	c, err := e.claim(through, req, to, areq)
	if err != nil {
		return to, answer{}, blameRequest(err)
	}
	e.logFindings(ctx, req, to)
	ares, err := e.exchange(ctx, c, text)
	return to, ares, err
}

// checkRequest reads a request and makes all checks that come before its id is claimed. It
// returns the target, also with an error, and the AReq.
func (e *Engine) checkRequest(ctx context.Context, req *authRequest, body []byte) (target, *message.Message, error) {
	c, err := e.checkContent(req, body)
	if err != nil {
		return target{}, nil, badJSON(err)
	}
	if e.Observer != nil && c.rulesChecked {
		e.Observer.RulesChecked(req.account.Merchant.Name, c.to.peer.Scheme, c.findings)
	}
	if len(c.problems) > 0 {
		return c.to, nil, e.refuse(req, &c, c.problems, c.enforced)
	}
	if err := e.checkIDAndVersion(req, c.to); err != nil {
		if bad, ok := errors.AsType[message.Error](err); ok && bad.Code == message.UnsupportedVersion {
			err = e.refuse(req, &c, message.Problems{{Code: bad.Code, Path: "messageVersion"}}, nil)
		}
		return c.to, nil, err
	}
	return c.to, c.areq, e.checkFollowUp(ctx, req, c.to, c.areq)
}

// A contentCheck is what a request comes to without the store and the state of its id. It is the same for /auth and
// for /explain, so that they cannot disagree.
type contentCheck struct {
	to           target
	msg          *message.Request
	areq         *message.Message // nil if its version is not known
	problems     message.Problems // for which the request is refused
	own          []api.Fault      // what is wrong with members that EMV 3DS does not have
	findings     []*scheme.Finding
	enforced     []*scheme.Finding // those of findings that are among problems
	rulesChecked bool
}

// checkContent reads a request and checks its content. It changes nothing but req, and sends nothing. The error is that
// the body cannot be read.
func (e *Engine) checkContent(req *authRequest, body []byte) (contentCheck, error) {
	msg, err := message.ReadRequest(body, e.Limits)
	if err != nil {
		return contentCheck{}, err
	}
	c := contentCheck{msg: msg}
	if !req.isStrict() {
		req.changes = append(req.changes, msg.NormaliseCardNumber()...)
	}
	if req.isCreation {
		c.own = e.checkOwnMembers(msg)
		req.reference, req.returnURL = msg.Text("reference"), msg.Text("returnUrl")
		e.addProtocolDefaults(req, msg)
	}
	req.read(msg)
	req.reference = referenceWithoutCard(req.reference, req.pan)
	if ds := msg.Text("ds"); e.isKnownScheme(ds) {
		req.ds = ds
	}
	c.to = e.locate(req, msg)
	req.lookedUp = e.Now()
	e.chooseVersion(req, c.to, msg)
	if req.isCreation {
		e.addProfileDefaults(req, c.to, msg)
	}
	e.build(req, &c)
	return c, nil
}

// subjectOf returns what entries say of the values of a request.
func (e *Engine) subjectOf(req *authRequest, c *contentCheck, original *message.Request) faults.Subject {
	value := func(path message.Path) []byte {
		if c.areq != nil {
			if raw := c.areq.Raw(string(path)); raw != nil {
				return raw
			}
		}
		return original.RawAt(path)
	}
	return faults.Subject{
		Version: req.version, Versions: e.usableVersions(c.to), Value: value,
		HasProfile:       req.isCreation,
		CanTransliterate: !req.account.Merchant.Transliterate && !req.isStrict() && req.delegation == nil,
	}
}

// refuse returns the error of a request that has problems.
func (e *Engine) refuse(req *authRequest, c *contentCheck, problems message.Problems, enforced []*scheme.Finding) error {
	s := e.subjectOf(req, c, c.msg)
	return &FaultyRequestError{c.erro(req, problems), e.explainProblems(problems, enforced, s)}
}

// erro returns the Erro of a request that has problems.
func (c *contentCheck) erro(req *authRequest, problems message.Problems) message.Error {
	bad := fault(req.version, problems, req.knownID())
	if bad.Code == message.UnsupportedVersion && c.to.peer != nil {
		bad.Detail = listVersions(commonVersions(c.to.peer, c.to.info)) // only versions that this card can be used with
	}
	return bad
}

// read takes from a message what is needed beyond it.
func (req *authRequest) read(msg *message.Request) {
	if v, ok := message.ParseVersion(msg.Text("messageVersion")); ok {
		req.version, req.loggedVersion = v, v.String()
	}
	req.loggedChannel, req.loggedCategory = twoDigits(msg.Text("deviceChannel")), twoDigits(msg.Text("messageCategory"))
	if amount := msg.Text("purchaseAmount"); len(amount) <= 48 && hasOnlyDigits(amount) {
		req.loggedAmount = amount
	}
	if currency := msg.Text("purchaseCurrency"); len(currency) == 3 && hasOnlyDigits(currency) {
		req.loggedCurrency = currency
	}
	req.pan = msg.Text("acctNumber")
	req.hasDS = msg.Has("ds")
}

// chooseVersion sets a messageVersion that is absent to the highest that the card can be used in
// (docs/api.md, A1). Without such a version it takes the highest of the directory, or of all
// directories, so that the other faults of the request are found.
func (e *Engine) chooseVersion(req *authRequest, to target, msg *message.Request) {
	if req.isStrict() || msg.Has("messageVersion") {
		return
	}
	usable := e.usableVersions(to)
	if len(usable) == 0 && to.peer != nil {
		usable = to.peer.Versions
	}
	if len(usable) == 0 {
		return
	}
	highest := slices.Max(usable)
	msg.Set("messageVersion", highest.String())
	req.version, req.loggedVersion = highest, highest.String()
	if req.isCreation {
		req.defaulted = append(req.defaulted, "messageVersion")
		return
	}
	req.addChange("messageVersion", "the highest that the card can be used in")
}

// locate finds the target: the directory that the id was made for, else the one that the request
// names, else the first that has the card. It reports no faults yet, for all faults of the request come before those of
// its id.
func (e *Engine) locate(req *authRequest, msg *message.Request) (to target) {
	merchant := req.account.Merchant.Name
	if id := strings.ToLower(msg.Text("threeDSServerTransID")); id != "" {
		info, err := e.IDs.Check(id, req.start, e.Timeouts.Preauth, merchant, req.pan)
		req.id = requestedID{value: id, err: err}
		if err == nil {
			req.id.isBound, req.id.scheme = true, e.schemeOfNumber(info.Scheme)
		}
	}
	if to = e.findTarget(req); to.peer == nil && req.isHypothetical && req.id.isBound {
		req.id.isBound = false // the state of the id does not count
		to = e.findTarget(req)
	}
	// An id that is there but is no string does not count as lacking: build reports it.
	if !msg.Has("threeDSServerTransID") && (req.isCreation || msg.Text("deviceChannel") != browser) {
		id := req.once.ID
		if id == "" {
			id = e.IDs.New(req.start, e.Timeouts.Preauth, e.rand(), numberOf(to.scheme()), merchant, req.pan)
		}
		req.id = requestedID{value: id, made: true}
	}
	return to
}

// findTarget returns the first directory that has the card and that the request may go to.
func (e *Engine) findTarget(req *authRequest) target {
	if isCardNumber(req.pan) {
		for _, hit := range e.Cards.Lookup(req.pan) {
			if peer, ok := e.peer(hit.Scheme); ok && req.canGoTo(hit.Scheme) {
				return target{peer, hit.Info}
			}
		}
	}
	if req.wantedScheme != "" {
		return target{e.anyPeer(req.wantedScheme), nil}
	}
	return target{}
}

// anyPeer returns the directory of a scheme, or one with what is public of it if none is configured.
func (e *Engine) anyPeer(word string) *Directory {
	if peer, ok := e.peer(word); ok {
		return peer
	}
	d := &Directory{Scheme: word, Versions: message.Versions()}
	if len(e.Peers) > 0 {
		d.ResultsURL = e.Peers[0].ResultsURL
	}
	return d
}

// canGoTo reports whether the AReq may go to the directory of a scheme.
func (req *authRequest) canGoTo(word string) bool {
	if req.wantedScheme != "" {
		return req.wantedScheme == word
	}
	return (!req.id.isBound || req.id.scheme == word) && (req.ds == "" || req.ds == word)
}

// schemeOfNumber returns the word of the configured directory whose scheme has this number in transaction
// ids; "" if there is none. No two directories have the same number: the configuration is checked for that.
func (e *Engine) schemeOfNumber(number transid.Scheme) string {
	for i := range e.Peers {
		if word := e.Peers[i].Scheme; numberOf(word) == number {
			return word
		}
	}
	return ""
}

// build completes the request with what the server owns, checks all of it, and makes the AReq.
func (e *Engine) build(req *authRequest, c *contentCheck) {
	to, msg := c.to, c.msg
	found := bridgeRequest(req, to, msg)
	e.complete(req, to, msg)
	found = append(found, addExtensions(req, to, msg)...)
	areq, problems := msg.Build(e.buildContext(to))
	c.areq = areq
	found = append(found, problems...)
	found = append(found, checkExtensions(req, areq)...)
	found = append(found, e.checkRules(req, c)...)
	if areq != nil && req.isStrict() {
		found = append(append(found, areq.CheckExponents()...), areq.CheckIdentifiers()...)
	}
	if req.version < message.V220 && msg.Text("deviceChannel") == "03" && msg.Text("messageCategory") == "01" {
		// The tables of 2.1.0 have the column; payments in it came with 2.2.0 (RI-02).
		found = append(found, message.Problem{Code: message.Format, Path: "messageCategory"})
	}
	if req.hasDS && req.ds == "" {
		found = append(found, message.Problem{Code: message.Format, Path: "ds"})
	}
	c.problems = req.withoutCopy(found)
}

// withoutCopy leaves out the problems of an acquirer's country that was copied from that of the merchant: the fault is
// in what the caller sent, and is reported there.
func (req *authRequest) withoutCopy(found message.Problems) message.Problems {
	isCopied := slices.ContainsFunc(req.changes, func(c message.Change) bool {
		return c.Path == "acquirerCountryCode" && strings.HasSuffix(c.What, "from merchantCountryCode")
	})
	isSource := func(p message.Problem) bool { return p.Path == "merchantCountryCode" }
	if !isCopied || !slices.ContainsFunc(found, isSource) {
		return found
	}
	return slices.DeleteFunc(found, func(p message.Problem) bool { return p.Path == "acquirerCountryCode" })
}

// buildContext returns what decides how an AReq is built.
func (e *Engine) buildContext(to target) message.Context {
	ctx := message.Context{Loopback: e.Loopback}
	if to.peer != nil {
		ctx.KnownExtension = to.peer.context(ctx).KnownExtension
	}
	return ctx
}

// knownID is the id to name to the requestor: the one that the requestor sent, if it was
// made for this merchant, even if it has expired or was made for another card; else "".
func (req *authRequest) knownID() string {
	err := req.id.err
	isTheirs := err == nil || errors.Is(err, transid.ErrCard) || errors.Is(err, transid.ErrExpired)
	if req.id.made || !isTheirs {
		return ""
	}
	return req.id.value
}

// loggedID is the id by which the server knows the transaction: knownID, or one that was
// made for the request.
func (req *authRequest) loggedID() string {
	if req.id.made {
		return req.id.value
	}
	return req.knownID()
}

// complete fills in what the server owns (docs/api.md, R6), and what the merchant's profile
// or the card range tell (docs/api.md, R9).
func (e *Engine) complete(req *authRequest, to target, msg *message.Request) {
	var dir Directory
	if to.peer != nil {
		dir = *to.peer
	}
	merchant := req.account.Merchant
	if req.id.value != "" {
		msg.Set("threeDSServerTransID", req.id.value)
	}
	msg.Set("threeDSServerRefNumber", e.Server.RefNumber(req.version))
	msg.Set("threeDSServerOperatorID", dir.OperatorID)
	if to.peer != nil {
		msg.Set("threeDSServerURL", dir.ResultsURL)
	} else {
		msg.Set("threeDSServerURL", e.Peers[0].ResultsURL) // it will not be sent, but its lack would be reported as a fault
	}
	msg.Set("cardSecurityCode", "") // removed: no directory's rules ask for it, and it must not be kept anywhere
	setOwned := func(name, ofMerchant, ofDirectory, ofServer string) {
		if ofMerchant != "" {
			msg.Set(name, ofMerchant)
			return
		}
		msg.Default(name, ofDirectory)
		msg.Default(name, ofServer)
	}
	requestor := merchant.Requestor(dir.Scheme)
	if req.delegation == nil || !msg.Has("threeDSRequestorID") {
		setOwned("threeDSRequestorID", requestor.ID, dir.RequestorID, e.Server.RequestorID)
	}
	setOwned("threeDSRequestorName", requestor.Name, dir.RequestorName, e.Server.RequestorName)
	if req.isCreation {
		withdrawSPCOfAgent(req, msg)
		withdrawSPC(req, to, msg)
	}
	if req.isStrict() {
		return
	}
	const acquirer = "acquirerCountryCode"
	if country := merchant.AcquirerCountry; country != "" && !msg.Has(acquirer) && message.TableOf(message.AReq, req.version).Field(acquirer) != nil {
		msg.Set(acquirer, country)
		req.addChange(acquirer, "taken from the merchant's profile")
	}
	req.changes = append(req.changes, msg.Normalise()...)
	if merchant.Transliterate || req.delegation != nil {
		req.changes = append(req.changes, msg.Transliterate()...)
	}
	if req.delegation != nil {
		req.changes = append(req.changes, msg.FitTexts()...)
	}
	withdrawSPC(req, to, msg)
	if msg.Text("deviceChannel") == browser && msg.Has("threeDSCompInd") && msg.Text("threeDSCompInd") != "U" {
		if acs := acsVersion(to.info, req.version.String()); acs != nil && methodURL(to.peer, acs) == "" {
			msg.Set("threeDSCompInd", "U")
			req.addChange("threeDSCompInd", "U, the range has no 3DS Method")
		}
	}
}

// isStrict reports whether the request is taken as it is. That of an agent is not: the server itself writes its elements.
func (req *authRequest) isStrict() bool { return req.account.Strict && req.delegation == nil }

// twoDigits returns s if it has the form of a code of two digits, else "".
func twoDigits(s string) string {
	if len(s) != 2 || !hasOnlyDigits(s) {
		return ""
	}
	return s
}

func (req *authRequest) addChange(name message.Path, what string) {
	req.changes = append(req.changes, message.Change{Path: name, What: what})
}

// checkIDAndVersion checks the id, and that the card can be used in the version. It comes
// after build, for faults of the request are reported first.
func (e *Engine) checkIDAndVersion(req *authRequest, to target) error {
	if !e.Cards.AnyTried() {
		return noRanges(req.version, req.knownID())
	}
	switch err := req.id.err; {
	case errors.Is(err, transid.ErrCard):
		return erro(req.version, message.BadTransactionData, "acctNumber", req.knownID())
	case errors.Is(err, transid.ErrExpired):
		return erro(req.version, message.UnknownTransaction, "The threeDSServerTransID has expired", req.knownID())
	case err != nil:
		return erro(req.version, message.UnknownTransaction, "The threeDSServerTransID is not known", "")
	case req.id.isBound && req.ds != "" && req.ds != req.id.scheme:
		return erro(req.version, message.BadTransactionData, "ds", req.knownID())
	case to.peer == nil && e.isStillPending(req):
		return noRanges(req.version, req.knownID())
	case to.peer == nil:
		return erro(req.version, message.BadTransactionData, "acctNumber", req.knownID())
	}
	if !req.isVersionUsable(to) {
		return erro(req.version, message.UnsupportedVersion, listVersions(commonVersions(to.peer, to.info)), req.knownID())
	}
	return nil
}

// isVersionUsable reports whether the card can be used in the version of the request.
func (req *authRequest) isVersionUsable(to target) bool {
	return slices.Contains(commonVersions(to.peer, to.info), req.version)
}

// isStillPending reports whether a card that no directory holds may turn out to be one of a directory
// that the request can go to.
func (e *Engine) isStillPending(req *authRequest) bool {
	if req.id.isBound {
		return req.id.scheme != "" && e.Cards.Pending(req.id.scheme)
	}
	return e.Cards.Pending(req.ds)
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

// claim commits the id before the AReq leaves. From then on the id is used up, on every node
// and whatever crashes.
func (e *Engine) claim(ctx context.Context, req *authRequest, to target, areq *message.Message) (*claim, error) {
	c := &claim{
		target: to, id: req.id.value, merchant: req.account.Merchant.Name, version: req.version, start: req.start,
		bridging: extension.VersionOf(areq, extension.BridgingID),
		rec: &txnRecord{
			Began: req.start.UnixMilli(), LookedUp: req.lookedUp.UnixMilli(),
			Version: req.version.String(), Sent: e.Now().UnixMilli(), BIN: binOf(req.pan), Last4: req.pan[len(req.pan)-4:],
			CardHash: e.cardHash(req.pan),
			AReq:     areq.Facts(), Purchase: e.purchaseOf(req, areq),
			Changes: describeChanges(req.changes), Unkept: unkeptRules(req.findings),
		},
	}
	c.rec.setPurchase(areq)
	c.rec.Reference, _ = ctx.Value(referenceKey{}).(string)
	if req.isCreation {
		c.rec.API, c.rec.Schemes, c.rec.Defaulted = authenticationsAPI, e.schemesOf(e.Cards.Lookup(req.pan)), req.defaulted
		c.rec.Reference, c.rec.Corrections = req.reference, req.corrections
	}
	t := store.Txn{ID: c.id, Owner: c.merchant, Scheme: to.peer.Scheme, State: Sent}
	e.setExpiry(&t, c.rec, e.keepFinal())
	if err := e.seal(&t, c.rec); err != nil {
		return nil, err
	}
	c.sent = e.journaledAReq(areq)
	switch err := e.Store.Create(withSent(ctx, c.sent), t); {
	case errors.Is(err, store.ErrExists):
		return nil, erro(req.version, message.UnknownTransaction, "The threeDSServerTransID has been used", c.id)
	case err != nil:
		e.logStoreFailure(ctx, "claim not stored", err, "threeDSServerTransID", c.id)
		return nil, unreachable(req.version, c.id)
	}
	return c, nil
}

// keepFinal is how long a claim and a final transaction are kept: as long as a result is,
// and at least as long as the id could be tried again with these timeouts.
func (e *Engine) keepFinal() time.Duration {
	return max(e.Timeouts.Result, 2*(e.Timeouts.Preauth+e.Timeouts.Authentication))
}
