package auth

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/openthreeds/threeds/internal/base/browserurl"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// Preauth reports whether a card is enrolled: it returns a CRD, with a fresh transaction id
// and what the requestor needs for the 3DS Method. It stores nothing, asks no other
// server, and keeps nothing of body.
func (e *Engine) Preauth(ctx context.Context, acc *account.Account, body []byte) ([]byte, Notes, error) {
	answer, name, notes, err := e.preauth(ctx, acc, body)
	e.noteEnd(ctx, "preauth", name, outcomeOf("ok", err))
	return answer, notes, err
}

// preauth does the work of Preauth. It also returns the name of the scheme: that of the directory whose
// card range holds the card, else the one that the request names.
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
		peer, ok := e.peer(hit.Scheme)
		if !ok || ds != "" && ds != hit.Scheme {
			continue
		}
		id := e.IDs.New(e.Now(), e.Timeouts.Preauth, e.rand(), numberOf(hit.Scheme), acc.Merchant.Name, pan)
		e.note(ctx, "threeDSServerTransID", id)
		if schemes := e.schemesOf(hits); len(schemes) > 1 {
			notes.Schemes = schemes
		}
		answer, err := json.Marshal(newCRD(id, peer, hit.Info))
		return answer, hit.Scheme, notes, err
	}
	if e.Cards.Pending(ds) {
		return nil, ds, notes, noRanges(message.V220, "")
	}
	return nil, ds, notes, unknownBIN()
}

// schemesOf returns the words of the configured directories that hold a card, in order of preference.
func (e *Engine) schemesOf(hits []ranges.Hit) []string {
	words := []string{}
	for _, hit := range hits {
		if _, ok := e.peer(hit.Scheme); ok {
			words = append(words, hit.Scheme)
		}
	}
	return words
}

// readPreauth reads a body and returns the card number and the scheme it names, and what was corrected.
func (e *Engine) readPreauth(acc *account.Account, body []byte) (pan, ds string, changes []message.Change, err error) {
	req, err := message.ReadRequest(body, e.Limits)
	if err != nil {
		return "", "", nil, badJSON(err)
	}
	if !acc.Strict {
		changes = req.NormaliseCardNumber()
	}
	pan, ds = req.Text("acctNumber"), req.Text("ds")
	found := req.Duplicates()
	switch {
	case pan == "" && !req.Has("acctNumber"):
		found = append(found, message.Problem{Code: message.Missing, Path: "acctNumber"})
	case !isCardNumber(pan):
		found = append(found, message.Problem{Code: message.Format, Path: "acctNumber"})
	}
	if !e.isKnownScheme(ds) && req.Has("ds") {
		found = append(found, message.Problem{Code: message.Format, Path: "ds"})
	}
	if len(found) > 0 {
		return "", "", nil, e.refuseBody(req, found)
	}
	return pan, ds, changes, nil
}

// isKnownScheme reports whether a request may name the word ds: that of a configured directory, or one that the
// API always had.
func (e *Engine) isKnownScheme(ds string) bool {
	_, isConfigured := e.peer(ds)
	return isConfigured || scheme.IsOriginal(ds)
}

// numberOf returns the number of a scheme in transaction ids.
func numberOf(word string) transid.Scheme { return transid.Scheme(scheme.Number(word)) }

// isCardNumber reports whether s has the form of acctNumber.
func isCardNumber(s string) bool { return len(s) >= 13 && len(s) <= 19 && hasOnlyDigits(s) }

// hasOnlyDigits reports whether no character of s is anything but a digit.
func hasOnlyDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// commonVersions lists the versions that ACS, directory server and 3DS Server share for a
// range, ascending. Of a range that is not known nothing but the versions of the directory is known.
func commonVersions(peer *Directory, info *ranges.Info) []message.Version {
	if info == nil {
		return peer.Versions
	}
	var common []message.Version
	for _, v := range peer.Versions {
		s := v.String()
		if slices.Contains(info.DSVersions, s) && acsVersion(info, s) != nil {
			common = append(common, v)
		}
	}
	return common
}

// acsVersion returns what the ACS says of one version; nil when it does not support it, or the range is not known.
func acsVersion(info *ranges.Info, version string) *ranges.ACSVersion {
	if info == nil {
		return nil
	}
	for i := range info.ACS {
		if info.ACS[i].Version == version {
			return &info.ACS[i]
		}
	}
	return nil
}

// methodURL returns the threeDSMethodURL of a version, "" if acs is nil or has none that a browser
// may be sent to. Bad URLs are withheld when card ranges are read. The store may still hold
// ranges of a time when the directory was a laboratory's.
func methodURL(peer *Directory, acs *ranges.ACSVersion) string {
	policy := browserurl.Policy{Lab: peer.Lab}
	if acs == nil || acs.MethodURL == "" || policy.Check(acs.MethodURL) != nil {
		return ""
	}
	return acs.MethodURL
}

// A crd is the card range data of one card, the answer to a /preauth (docs/api.md,
// "/preauth"). Members without a value are left out, never null or empty; acsProtocolVersions alone
// is always there.
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
func newCRD(id string, peer *Directory, info *ranges.Info) *crd {
	c := &crd{
		MessageType: "CRD", ServerTransID: id, Scheme: peer.Scheme,
		ACSStart: info.ACSStart, ACSEnd: info.ACSEnd, DSStart: info.DSStart, DSEnd: info.DSEnd,
		DSVersions: info.DSVersions,
	}
	for i := range info.ACS {
		acs := &info.ACS[i]
		c.ACSVersions = append(c.ACSVersions, crdVersion{acs.Version, methodURL(peer, acs), acs.InfoInd})
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
