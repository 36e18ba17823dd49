// Package check says what is wrong with a request, and makes its AReq. It is the only code that judges the requests of
// /auth, for authentications, of agents, and for explanations: call [Checker.CheckAReq], [Checker.CheckCreation],
// [Checker.CheckAgents] or [Checker.Explain].
//
// It uses no store, no network and no clock. It gets what it knows about cards as [Cards].
package check

import (
	"cmp"
	"crypto/rand"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/browserurl"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/message"
)

// A Checker judges requests. Set its fields before use; it is then safe for concurrent calls.
type Checker struct {
	Cards      Cards
	IDs        IDs
	Placement  Placement // nil means that rows of every id can be stored
	Server     Server
	Peers      []Directory    // in order of preference
	Limits     message.Limits // limits of every message that is read; zero means the defaults
	BrowserURL string         // the origin under which browsers reach our pages; "" if there are none
	Loopback   bool           // for the sandbox: requestors may give http URLs of this machine where https is demanded
	Rand       io.Reader      // nil means crypto/rand
}

// Cards tells which schemes hold a card.
type Cards interface {
	// Lookup returns the schemes that hold pan, the preferred one first.
	Lookup(pan string) []ranges.Hit
	// AnyTried reports whether any directory has been asked for its ranges
	// since start, whatever it answered.
	AnyTried() bool
	// Pending reports whether a directory that could hold a card has not been asked for its ranges yet: that of the
	// scheme or, for "", any directory. Until it was asked, it means nothing that no range holds the card.
	Pending(scheme string) bool
}

// IDs make transaction ids, and tell what they say. [transid.Keys] are such.
type IDs interface {
	New(now time.Time, life time.Duration, rand io.Reader, scheme transid.Scheme, owner, pan string) string
	Check(id string, now time.Time, maxAge time.Duration, owner, pan string) (transid.Info, error)
	IsOwner(id, owner string) bool
}

// A Placement tells which ids to hand out where the store is spread over several servers.
type Placement interface {
	// CanWrite reports whether rows of an id can be stored now, as far as is known.
	CanWrite(id string) bool
}

// maxDraws is how many ids are drawn at most for one that can be stored. If half of all ids cannot, all of so many fail
// once in 2^64.
const maxDraws = 64

// NewID makes a transaction id whose rows can be stored. If none of maxDraws ids can, it returns the last one.
func (k *Checker) NewID(now time.Time, life time.Duration, scheme transid.Scheme, owner, pan string) (id string) {
	for range maxDraws {
		id = k.IDs.New(now, life, k.Random(), scheme, owner, pan)
		if k.Placement == nil || k.Placement.CanWrite(id) {
			break
		}
	}
	return id
}

// Server is what the 3DS Server says of itself.
type Server struct {
	RefNumber     func(message.Version) string // threeDSServerRefNumber
	RequestorID   string                       // threeDSRequestorID where neither merchant nor directory has one
	RequestorName string                       // the same for threeDSRequestorName
}

// A Directory is what the engine knows of one directory server.
type Directory struct {
	Scheme string
	// that may be used with it, ascending
	Versions      []message.Version
	OperatorID    string // threeDSServerOperatorID it assigned us
	RequestorID   string // threeDSRequestorID for merchants that have none of their own; "" means that of Server
	RequestorName string // the same for threeDSRequestorName
	ResultsURL    string // threeDSServerURL in its AReqs
	Informational bool   // accepts transStatus I whatever was asked for
	Lab           bool   // may send browsers to http URLs and to their own machine, for laboratories

	// Rules are what the scheme asks for beyond the protocol; nil means the public rules of Scheme.
	Rules *scheme.Sheet

	// CriticalExtensions are the ids of the critical message extensions that the
	// requestors understand.
	CriticalExtensions []string
	// ExtensionIDs are the ids of message extensions whose id is not public, by their words.
	ExtensionIDs map[string]string
}

// Context adds to c what messages of the directory are checked against.
func (d *Directory) Context(c message.Context) message.Context {
	c.Versions, c.Informational, c.Lab = d.Versions, d.Informational, d.Lab
	c.KnownExtension = func(id string) bool { return slices.Contains(d.CriticalExtensions, id) }
	return c
}

// Sheet are those of the directory's scheme.
func (d *Directory) Sheet() *scheme.Sheet { return cmp.Or(d.Rules, scheme.Public(d.Scheme)) }

// Peer returns the directory of a scheme.
func (k *Checker) Peer(scheme string) (*Directory, bool) {
	for i := range k.Peers {
		if peer := &k.Peers[i]; peer.Scheme == scheme {
			return peer, true
		}
	}
	return nil, false
}

// RulesOf returns the rules of a scheme: those of its directory, or what is public if there is no
// such directory any more.
func (k *Checker) RulesOf(schemeName string) *scheme.Sheet {
	if peer, ok := k.Peer(schemeName); ok {
		return peer.Sheet()
	}
	return scheme.Public(schemeName)
}

// Random returns what ids and secrets are made of.
func (k *Checker) Random() io.Reader { return cmp.Or(k.Rand, rand.Reader) }

// A Target is where an AReq goes: a directory, and what it says of the card. Both are nil if
// no configured directory has the card.
type Target struct {
	Peer *Directory
	Info *ranges.Info
}

// Scheme is the name of the target's scheme; "" if there is no target.
func (t Target) Scheme() string {
	if t.Peer == nil {
		return ""
	}
	return t.Peer.Scheme
}

// findTarget returns the first directory that has the card and that the request may go to.
func (k *Checker) findTarget(req *Request) Target {
	if IsCardNumber(req.PAN) {
		for _, hit := range k.Cards.Lookup(req.PAN) {
			if peer, ok := k.Peer(hit.Scheme); ok && req.canGoTo(hit.Scheme) {
				return Target{peer, hit.Info}
			}
		}
	}
	if req.wantedScheme != "" {
		return Target{k.anyPeer(req.wantedScheme), nil}
	}
	return Target{}
}

// anyPeer returns the directory of a scheme, or one with what is public of it if none is configured.
func (k *Checker) anyPeer(word string) *Directory {
	if peer, ok := k.Peer(word); ok {
		return peer
	}
	d := &Directory{Scheme: word, Versions: message.Versions()}
	if len(k.Peers) > 0 {
		d.ResultsURL = k.Peers[0].ResultsURL
	}
	return d
}

// schemeOfNumber returns the word of the configured directory whose scheme has this number in transaction
// ids; "" if there is none. No two directories have the same number: the configuration is checked for that.
func (k *Checker) schemeOfNumber(number transid.Scheme) string {
	for i := range k.Peers {
		if word := k.Peers[i].Scheme; NumberOf(word) == number {
			return word
		}
	}
	return ""
}

// isStillPending reports whether a card that no directory holds may turn out to be one of a directory
// that the request can go to.
func (k *Checker) isStillPending(req *Request) bool {
	if req.id.isBound {
		return req.id.scheme != "" && k.Cards.Pending(req.id.scheme)
	}
	return k.Cards.Pending(req.DS)
}

// BINOf is the beginning of a card number that may be shown together with its last four digits.
func BINOf(pan string) string {
	if len(pan) < 16 {
		return pan[:6]
	}
	return pan[:8]
}

// usableVersions returns the versions that a card can be used with, or those of all directories if its directory is
// not known.
func (k *Checker) usableVersions(to Target) []message.Version {
	if to.Peer != nil {
		return CommonVersions(to.Peer, to.Info)
	}
	var all []message.Version
	for i := range k.Peers {
		all = append(all, k.Peers[i].Versions...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// SchemesOf returns the words of the configured directories that hold a card, in order of preference.
func (k *Checker) SchemesOf(hits []ranges.Hit) []string {
	words := []string{}
	for _, hit := range hits {
		if _, ok := k.Peer(hit.Scheme); ok {
			words = append(words, hit.Scheme)
		}
	}
	return words
}

// IsKnownScheme reports whether a request may name the word ds: that of a configured directory, or one that the
// API always had.
func (k *Checker) IsKnownScheme(ds string) bool {
	_, isConfigured := k.Peer(ds)
	return isConfigured || scheme.IsOriginal(ds)
}

// NumberOf returns the number of a scheme in transaction ids.
func NumberOf(word string) transid.Scheme { return transid.Scheme(scheme.Number(word)) }

// IsCardNumber reports whether s has the form of acctNumber.
func IsCardNumber(s string) bool { return len(s) >= 13 && len(s) <= 19 && hasOnlyDigits(s) }

// hasOnlyDigits reports whether no character of s is anything but a digit.
func hasOnlyDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// CommonVersions lists the versions that ACS, directory server and 3DS Server share for a
// range, ascending. If the range is not known, only the versions of the directory count.
func CommonVersions(peer *Directory, info *ranges.Info) []message.Version {
	if info == nil {
		return peer.Versions
	}
	var common []message.Version
	for _, v := range peer.Versions {
		s := v.String()
		if slices.Contains(info.DSVersions, s) && ACSVersion(info, s) != nil {
			common = append(common, v)
		}
	}
	return common
}

// ACSVersion returns what the ACS says of one version; nil when it does not support it, or the range is not known.
func ACSVersion(info *ranges.Info, version string) *ranges.ACSVersion {
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

// MethodURL returns the threeDSMethodURL of a version, "" if acs is nil or has none that a browser
// may be sent to. Bad URLs are withheld when card ranges are read. The store may still hold ranges from a time when the
// directory counted as a laboratory's.
func MethodURL(peer *Directory, acs *ranges.ACSVersion) string {
	policy := browserurl.Policy{Lab: peer.Lab}
	if acs == nil || acs.MethodURL == "" || policy.Check(acs.MethodURL) != nil {
		return ""
	}
	return acs.MethodURL
}
