package auth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/scheme"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/transid"
	"github.com/openthreeds/threeds/message"
)

// An authentication is one /auth on its way through the engine.
type authentication struct {
	*Engine
	start   time.Time
	acc     *account.Account
	req     *message.Request
	version message.Version // of the request; 2.2.0 until known, for our Erro
	pan     string
	hits    []ranges.Hit
	id      string           // threeDSServerTransID: the requestor's, or made here
	ours    bool             // it was made here, and the requestor does not know it yet
	idErr   error            // what is wrong with the requestor's id
	of      string           // the scheme that it was made for; "": it says none
	peer    *Directory       // nil: no configured directory has the card
	info    *ranges.Info     // what the directory says of the card; nil like peer
	areq    *message.Message // whole until it is sent, then only the facts kept in rec
	rec     *record          // what the store is given; nil before the claim
	changes []message.Change // what was normalised or filled in
	status  string           // transStatus of the ARes that was accepted

	// What the log says of the request: version, channel and category, "" of one that is
	// not of the form that it should have.
	said, channel, category string

	findings []*scheme.Finding // rules of the scheme that the request breaks and is not refused for
}

// Authenticate passes an AReq to the card's directory server and returns the
// ARes as it came. A request that is refused does not use its id up. Once the
// AReq is on its way, the exchange is finished and its outcome committed even if ctx
// ends. Notes may come with an error, too.
func (e *Engine) Authenticate(ctx context.Context, acc *account.Account, body []byte) ([]byte, Notes, error) {
	a := &authentication{Engine: e, start: e.Now(), acc: acc, version: message.V220}
	ares, err := a.run(ctx, body)
	a.noteRequest(ctx)
	e.noteEnd(ctx, "auth", a.scheme(), outcomeOf(a.status, err))
	return ares, notes(a.changes, a.findings), err
}

// scheme is that of the directory that has the card; "" when none has.
func (a *authentication) scheme() string {
	if a.peer == nil {
		return ""
	}
	return a.peer.Scheme
}

// noteRequest writes down what the request is about.
func (a *authentication) noteRequest(ctx context.Context) {
	if a.Recorder == nil {
		return
	}
	a.note(ctx, "threeDSServerTransID", a.ownID())
	a.noteCard(ctx, a.pan)
	a.note(ctx, "messageVersion", a.said)
	a.note(ctx, "deviceChannel", a.channel)
	a.note(ctx, "messageCategory", a.category)
	if len(a.changes) > 0 {
		a.Recorder.NoteChanges(ctx, inWords(a.changes))
	}
}

func (a *authentication) run(ctx context.Context, body []byte) ([]byte, error) {
	req, err := message.ReadRequest(body, a.Limits)
	if err != nil {
		return nil, badJSON(err)
	}
	a.req = req
	if v, ok := message.ParseVersion(req.Text("messageVersion")); ok {
		a.version, a.said = v, v.String()
	}
	a.channel, a.category = code(req.Text("deviceChannel")), code(req.Text("messageCategory"))
	a.locate()
	if err := a.build(); err != nil {
		return nil, err
	}
	if err := a.admit(); err != nil {
		return nil, err
	}
	// ctx also ends when the requestor closes its sending side of the connection, and
	// then it may still wait for the answer.
	through := context.WithoutCancel(ctx)
	if err := a.further(through); err != nil {
		return nil, err
	}
	leave, ok := a.Directories.Enter(a.peer.Scheme, a.acc.Merchant.Name)
	if !ok {
		return nil, &TooManyError{tooMany(a.version, a.knownID())}
	}
	defer leave()
	if err := a.claim(through); err != nil {
		return nil, err
	}
	a.tellFindings(ctx)
	return a.exchange(ctx)
}

// locate finds the directory: the one the id was made for, else the first that
// holds the card. It judges nothing yet, for all faults of the request come
// before those of its id.
func (a *authentication) locate() {
	a.pan = a.req.Text("acctNumber")
	if isCardNumber(a.pan) {
		a.hits = a.Cards.Lookup(a.pan)
	}
	if a.id = strings.ToLower(a.req.Text("threeDSServerTransID")); a.id != "" {
		info, err := a.IDs.Check(a.id, a.start, a.Timeouts.Preauth, a.acc.Merchant.Name, a.pan)
		a.idErr = err
		if err == nil {
			a.of = scheme.ByNumber(info.Scheme)
		}
	}
	for _, hit := range a.hits {
		if peer, ok := a.Engine.peer(hit.Scheme); ok && (a.of == "" || a.of == hit.Scheme) {
			a.peer, a.info = peer, hit.Info
			break
		}
	}
	// An id that is there but is no string does not count as lacking: build reports it.
	if !a.req.Has("threeDSServerTransID") && a.req.Text("deviceChannel") != browser {
		of := ""
		if a.peer != nil {
			of = a.peer.Scheme
		}
		a.id, a.ours = a.IDs.New(a.start, a.Timeouts.Preauth, a.rand(), scheme.Number(of), a.acc.Merchant.Name, a.pan), true
	}
}

// build completes the request with what the server owns and checks all of it.
func (a *authentication) build() error {
	a.complete()
	c := message.Context{Loopback: a.Loopback}
	if a.peer != nil {
		c.KnownExtension = a.peer.context(c).KnownExtension
	}
	areq, found := a.req.Build(c)
	found = append(found, a.rules(areq)...)
	if areq != nil && a.acc.Strict {
		found = append(found, areq.Exponents()...)
	}
	if a.version < message.V220 && a.req.Text("deviceChannel") == "03" && a.req.Text("messageCategory") == "01" {
		// The tables of 2.1.0 have the column; payments in it came with 2.2.0 (RI-02).
		found = append(found, message.Problem{Code: message.Format, Path: "messageCategory"})
	}
	if len(found) > 0 {
		bad := fault(a.version, found, a.knownID())
		if bad.Code == message.UnsupportedVersion && a.peer != nil {
			bad.Detail = versions(commonVersions(a.peer, a.info)) // only versions that this card can be used with
		}
		return bad
	}
	a.areq = areq
	return nil
}

// knownID is the id to name to the requestor: the one he sent, if it was made for him,
// even if it has expired or was made for another card; else "".
func (a *authentication) knownID() string {
	his := a.idErr == nil || errors.Is(a.idErr, transid.ErrCard) || errors.Is(a.idErr, transid.ErrExpired)
	if a.ours || !his {
		return ""
	}
	return a.id
}

// ownID is the id by which we know the transaction: knownID, or one that was made here.
func (a *authentication) ownID() string {
	if a.ours {
		return a.id
	}
	return a.knownID()
}

// complete applies R6 of the API contract and the parts of R9 that need profile or range.
func (a *authentication) complete() {
	var dir Directory
	if a.peer != nil {
		dir = *a.peer
	}
	requestor := a.acc.Merchant.Requestor(dir.Scheme)
	req := a.req
	if a.id != "" {
		req.Set("threeDSServerTransID", a.id)
	}
	req.Set("threeDSServerRefNumber", a.Server.RefNumber(a.version))
	req.Set("threeDSServerOperatorID", dir.OperatorID)
	if a.peer != nil {
		req.Set("threeDSServerURL", dir.ResultsURL)
	} else {
		req.Set("threeDSServerURL", a.Peers[0].ResultsURL) // it will not be sent, but its lack would be reported as a fault
	}
	req.Set("cardSecurityCode", "") // removed: no directory's rules ask for it, and it must not be kept anywhere
	owned := func(name, ours, directory, server string) {
		if ours != "" {
			req.Set(name, ours)
			return
		}
		req.Default(name, directory)
		req.Default(name, server)
	}
	owned("threeDSRequestorID", requestor.ID, dir.RequestorID, a.Server.RequestorID)
	owned("threeDSRequestorName", requestor.Name, dir.RequestorName, a.Server.RequestorName)
	if a.acc.Strict {
		return
	}
	const acquirer = "acquirerCountryCode"
	if country := a.acc.Merchant.AcquirerCountry; country != "" && !req.Has(acquirer) && message.TableOf(message.AReq, a.version).Field(acquirer) != nil {
		req.Set(acquirer, country)
		a.changed(acquirer, "taken from the merchant's profile")
	}
	a.changes = append(a.changes, req.Normalise()...)
	a.offerSPC()
	if a.info != nil && req.Text("deviceChannel") == browser && req.Has("threeDSCompInd") && req.Text("threeDSCompInd") != "U" {
		if acs := acsVersion(a.info, a.version.String()); acs != nil && methodURL(a.peer, acs) == "" {
			req.Set("threeDSCompInd", "U")
			a.changed("threeDSCompInd", "U, the range has no 3DS Method")
		}
	}
}

// code returns s if it has the form of a code of two digits, else "".
func code(s string) string {
	if len(s) != 2 || strings.Trim(s, "0123456789") != "" {
		return ""
	}
	return s
}

func (a *authentication) changed(name message.Path, what string) {
	a.changes = append(a.changes, message.Change{Path: name, What: what})
}

// admit judges the id and the version. It comes after build, for faults of the request
// are reported first.
func (a *authentication) admit() error {
	if !a.Cards.AnyTried() {
		return noRanges(a.version, a.knownID())
	}
	switch {
	case errors.Is(a.idErr, transid.ErrCard):
		return erro(a.version, message.BadTransactionData, "acctNumber", a.knownID())
	case errors.Is(a.idErr, transid.ErrExpired):
		return erro(a.version, message.UnknownTransaction, "The threeDSServerTransID has expired", a.knownID())
	case a.idErr != nil:
		return erro(a.version, message.UnknownTransaction, "The threeDSServerTransID is not known", "")
	case a.peer == nil && a.Cards.Pending(a.of):
		return noRanges(a.version, a.knownID())
	case a.peer == nil:
		return erro(a.version, message.BadTransactionData, "acctNumber", a.knownID())
	}
	common := commonVersions(a.peer, a.info)
	if !slices.Contains(common, a.version) {
		return erro(a.version, message.UnsupportedVersion, versions(common), a.knownID())
	}
	return nil
}

// versions lists vs as errorDetail has it.
func versions(vs []message.Version) string {
	if len(vs) == 0 {
		return "no version is common to ACS, DS and 3DS Server"
	}
	var s []string
	for _, v := range vs {
		s = append(s, v.String())
	}
	return strings.Join(s, ",")
}

// claim commits the id before the AReq leaves. From here on the id is used up,
// on every node and whatever crashes.
func (a *authentication) claim(ctx context.Context) error {
	a.rec = &record{
		Version: a.version.String(), Sent: a.Now().UnixMilli(), BIN: binOf(a.pan), Last4: a.pan[len(a.pan)-4:],
		AReq: a.areq.Facts(), Purchase: a.purchaseOf(a.areq), Changes: inWords(a.changes), Findings: texts(a.findings),
	}
	t := store.Txn{ID: a.id, Owner: a.acc.Merchant.Name, Scheme: a.peer.Scheme, State: Sent}
	a.lasts(&t, a.rec, a.kept())
	if err := a.seal(&t, a.rec); err != nil {
		return err
	}
	switch err := a.Store.Create(ctx, t); {
	case errors.Is(err, store.ErrExists):
		return erro(a.version, message.UnknownTransaction, "The threeDSServerTransID has been used", a.id)
	case err != nil:
		a.Log.ErrorContext(ctx, "claim not stored", "threeDSServerTransID", a.id, "err", err)
		return unreachable(a.version, a.id)
	}
	return nil
}

// kept is how long a claim and a final transaction are kept: as long as a result is, and
// at least as long as the id could be tried again with these timeouts.
func (e *Engine) kept() time.Duration {
	return max(e.Timeouts.Result, 2*(e.Timeouts.Preauth+e.Timeouts.Authentication))
}
