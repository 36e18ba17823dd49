package auth

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// Preauth reports whether a card is enrolled: it returns a CRD, with a fresh transaction id
// and what the requestor needs for the 3DS Method. It stores nothing, asks no other
// server, and keeps nothing of body.
func (e *Engine) Preauth(ctx context.Context, acc *account.Account, body []byte) ([]byte, Notes, error) {
	answer, name, notes, err := e.preauth(ctx, acc, body)
	e.NoteEnd(ctx, "preauth", name, OutcomeOf("ok", err))
	return answer, notes, err
}

// preauth does the work of Preauth. It also returns the name of the scheme: that of the directory whose card range
// holds the card, or else the one that the request names.
func (e *Engine) preauth(
	ctx context.Context, acc *account.Account, body []byte,
) (answer []byte, name string, notes Notes, err error) {
	pan, ds, changes, err := e.readPreauth(acc, body)
	notes.Normalised = changedElements(changes)
	if err != nil {
		return nil, "", notes, err
	}
	e.noteCard(ctx, pan)
	hits := e.Cards.Lookup(pan)
	for _, hit := range hits {
		peer, ok := e.Peer(hit.Scheme)
		if !ok || ds != "" && ds != hit.Scheme {
			continue
		}
		id := e.NewID(e.Now(), e.Timeouts.Preauth, check.NumberOf(hit.Scheme), acc.Merchant.Name, pan)
		e.Note(ctx, "threeDSServerTransID", id)
		if schemes := e.SchemesOf(hits); len(schemes) > 1 {
			notes.Schemes = schemes
		}
		answer, err := json.Marshal(newCRD(id, peer, hit.Info))
		return answer, hit.Scheme, notes, err
	}
	if e.Cards.Pending(ds) {
		return nil, ds, notes, check.NoRanges(message.V220, "")
	}
	return nil, ds, notes, unknownBIN()
}

// readPreauth reads a body and returns the card number and the scheme it names, and what was corrected.
func (e *Engine) readPreauth(acc *account.Account, body []byte) (pan, ds string, changes []message.Change, err error) {
	req, err := message.ReadRequest(body, e.Limits)
	if err != nil {
		return "", "", nil, check.BadJSON(err)
	}
	if !acc.Strict {
		changes = req.NormaliseCardNumber()
	}
	pan, ds = req.Text("acctNumber"), req.Text("ds")
	found := req.Duplicates()
	switch {
	case pan == "" && !req.Has("acctNumber"):
		found = append(found, message.Problem{Code: message.Missing, Path: "acctNumber"})
	case !check.IsCardNumber(pan):
		found = append(found, message.Problem{Code: message.Format, Path: "acctNumber"})
	}
	if !e.IsKnownScheme(ds) && req.Has("ds") {
		found = append(found, message.Problem{Code: message.Format, Path: "ds"})
	}
	if len(found) > 0 {
		return "", "", nil, e.RefuseBody(req, found)
	}
	return pan, ds, changes, nil
}

// A crd is the card range data of one card, the answer to a /preauth (docs/api.md,
// "/preauth"). Members without a value are left out, never null or empty; only acsProtocolVersions is always there.
type crd struct {
	MessageType    string       `json:"messageType"` // always "CRD"
	ServerTransID  string       `json:"threeDSServerTransID"`
	Scheme         string       `json:"scheme"`
	ACSStart       string       `json:"acsStartProtocolVersion,omitempty"`
	ACSEnd         string       `json:"acsEndProtocolVersion,omitempty"`
	DSStart        string       `json:"dsStartProtocolVersion,omitempty"`
	DSEnd          string       `json:"dsEndProtocolVersion,omitempty"`
	DSVersions     []string     `json:"dsProtocolVersions,omitempty"`
	ACSVersions    []crdVersion `json:"acsProtocolVersions"`
	ServerVersions []string     `json:"threeDSServerProtocolVersions,omitempty"`
	MethodURL      string       `json:"threeDSMethodURL,omitempty"` // of the highest common version
	InfoInd        []string     `json:"acsInfoInd,omitempty"`       // of the highest common version
}

// A crdVersion is one version that the issuer's ACS supports.
type crdVersion struct {
	Version   string   `json:"version,omitempty"`
	MethodURL string   `json:"threeDSMethodURL,omitempty"`
	InfoInd   []string `json:"acsInfoInd,omitempty"`
}

// newCRD returns the card range data of a card that a directory has, as info says.
func newCRD(id string, peer *check.Directory, info *ranges.Info) *crd {
	c := &crd{
		MessageType: "CRD", ServerTransID: id, Scheme: peer.Scheme,
		ACSStart: info.ACSStart, ACSEnd: info.ACSEnd, DSStart: info.DSStart, DSEnd: info.DSEnd,
		DSVersions: info.DSVersions,
	}
	for i := range info.ACS {
		acs := &info.ACS[i]
		c.ACSVersions = append(c.ACSVersions, crdVersion{acs.Version, check.MethodURL(peer, acs), acs.InfoInd})
	}
	for _, v := range peer.Versions {
		version := v.String()
		c.ServerVersions = append(c.ServerVersions, version)
		i := slices.IndexFunc(c.ACSVersions, func(acs crdVersion) bool { return acs.Version == version })
		if i >= 0 && slices.Contains(info.DSVersions, version) {
			c.MethodURL, c.InfoInd = c.ACSVersions[i].MethodURL, c.ACSVersions[i].InfoInd
		}
	}
	return c
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
	case !check.IsCardNumber(pan):
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
		peer, ok := e.Peer(hit.Scheme)
		if !ok {
			continue
		}
		s := CardScheme{Scheme: hit.Scheme}
		for _, v := range check.CommonVersions(peer, hit.Info) {
			acs := check.ACSVersion(hit.Info, v.String())
			s.Versions = append(s.Versions, CardVersion{v, check.MethodURL(peer, acs), acs.InfoInd})
		}
		if len(s.Versions) > 0 {
			v := slices.MaxFunc(s.Versions, func(a, b CardVersion) int { return int(a.Version) - int(b.Version) }).Version
			s.Recommended, s.Requires = &v, peer.Sheet().Requirements(v, e.Now())
		}
		if hit.Generation != nil {
			s.KnownSince = hit.Generation.Loaded
		}
		found.Schemes = append(found.Schemes, s)
	}
	found.Last4 = pan[len(pan)-4:]
	return found, nil
}
