package auth

import (
	"bytes"
	"context"
	"slices"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/browserurl"
	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/scheme"
	"github.com/openthreeds/threeds/message"
)

// Preauth answers whether a card is enrolled, with a fresh transaction id and
// what the requestor needs for the 3DS Method: a CRD, which it appends to dst.
// It stores nothing, calls nobody, and keeps nothing of body.
func (e *Engine) Preauth(ctx context.Context, acc *account.Account, body, dst []byte) ([]byte, error) {
	crd, scheme, err := e.preauth(ctx, acc, body, dst)
	e.noteEnd(ctx, "preauth", scheme, outcomeOf("ok", err))
	return crd, err
}

// preauth is Preauth, and returns the name of the scheme too: that of the directory whose card range
// holds the card, else the one that the request names.
func (e *Engine) preauth(ctx context.Context, acc *account.Account, body, dst []byte) (crd []byte, of string, err error) {
	start := e.Now()
	pan, ds, err := e.readPreauth(body)
	if err != nil {
		return nil, "", err
	}
	e.noteCard(ctx, pan)
	hits := e.Cards.Lookup(pan)
	for i := range hits {
		hit := &hits[i]
		peer, ok := e.peer(hit.Scheme)
		if !ok || ds != "" && ds != hit.Scheme {
			continue
		}
		dst = append(dst, crdStart...)
		before := len(dst)
		dst = e.IDs.Append(dst, start, e.Timeouts.Preauth, e.rand(), scheme.Number(hit.Scheme), acc.Merchant.Name, pan)
		e.note(ctx, "threeDSServerTransID", string(dst[before:]))
		return appendCRDEnd(dst, peer, hit), hit.Scheme, nil
	}
	if e.Cards.Pending(ds) {
		return nil, ds, noRanges(message.V220, "")
	}
	return nil, ds, unknownBIN()
}

// readPreauth reads a body and returns the card number and the scheme it names.
func (e *Engine) readPreauth(body []byte) (pan, ds string, err error) {
	if pan, ok := cardAlone(body); ok {
		return pan, "", nil
	}
	var found message.Problems
	err = message.Glance(body, e.Limits, func(req *message.Request) {
		pan, ds = req.Text("acctNumber"), req.Text("ds")
		found = req.Duplicates()
		switch {
		case pan == "" && !req.Has("acctNumber"):
			found = append(found, message.Problem{Code: message.Missing, Path: "acctNumber"})
		case !cardNumber(pan):
			found = append(found, message.Problem{Code: message.Format, Path: "acctNumber"})
		}
		if !scheme.IsName(ds) && req.Has("ds") {
			found = append(found, message.Problem{Code: message.Format, Path: "ds"})
		}
	})
	if err != nil {
		return "", "", badJSON(err)
	}
	if len(found) > 0 {
		return "", "", fault(message.V220, found, "")
	}
	return pan, ds, nil
}

// cardAlone returns the card number of a body that consists of a valid acctNumber alone
// and has no white space, as most do. It is a short cut: any other body, good or bad, is
// not ok and has to be parsed.
func cardAlone(body []byte) (pan string, ok bool) {
	rest, begins := bytes.CutPrefix(body, []byte(`{"acctNumber":"`))
	number, ends := bytes.CutSuffix(rest, []byte(`"}`))
	if !begins || !ends {
		return "", false
	}
	pan = string(number)
	return pan, cardNumber(pan)
}

// cardNumber reports whether s has the form of acctNumber.
func cardNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) >= 13 && len(s) <= 19
}

// usable lists the versions that ACS, DS and we share for a range, ascending.
func usable(peer *Directory, info *ranges.Info) []message.Version {
	var common []message.Version
	for _, v := range peer.Versions {
		s := v.String()
		if slices.Contains(info.DSVersions, s) && acsVersion(info, s) != nil {
			common = append(common, v)
		}
	}
	return common
}

// best is what the ACS says of the highest version that ACS, DS and we share, the last
// of usable; nil when there is none.
func best(peer *Directory, info *ranges.Info) *ranges.ACSVersion {
	for _, v := range slices.Backward(peer.Versions) {
		s := v.String()
		if !slices.Contains(info.DSVersions, s) {
			continue
		}
		if acs := acsVersion(info, s); acs != nil {
			return acs
		}
	}
	return nil
}

// acsVersion finds what the ACS says of one version.
func acsVersion(info *ranges.Info, version string) *ranges.ACSVersion {
	for i := range info.ACS {
		if info.ACS[i].Version == version {
			return &info.ACS[i]
		}
	}
	return nil
}

// methodURL returns the threeDSMethodURL of a version, "" if it has none that a browser
// may be sent to. Bad ones are withheld when card ranges are read, but the store may hold
// those of an earlier release, or of a time when the directory was a laboratory's.
func methodURL(peer *Directory, acs *ranges.ACSVersion) string {
	policy := browserurl.Policy{Lab: peer.Lab}
	if acs.MethodURL == "" || policy.Check(acs.MethodURL) != nil {
		return ""
	}
	return acs.MethodURL
}

// crdStart is how every CRD begins; the id follows.
const crdStart = `{"messageType":"CRD","threeDSServerTransID":"`

// appendCRDEnd appends what follows the id in a CRD. It is the same for all cards of a
// range, and for all ranges of a scheme that share an Info, so it is made once and
// remembered until the ranges or the configuration change.
func appendCRDEnd(dst []byte, peer *Directory, hit *ranges.Hit) []byte {
	dst, remembered := hit.AppendMemo(dst, peer)
	if remembered {
		return dst
	}
	end := makeCRDEnd(peer, hit.Info)
	hit.Remember(peer, end, methodURLs(hit.Info))
	return append(dst, end...)
}

// methodURLs is the longest common prefix of the threeDSMethodURLs of a range, which is
// what the CRDs of most ranges differ in.
func methodURLs(info *ranges.Info) string {
	common := ""
	for i := range info.ACS {
		switch url := info.ACS[i].MethodURL; {
		case url == "":
		case common == "":
			common = url
		default:
			n := 0
			for n < min(len(common), len(url)) && common[n] == url[n] {
				n++
			}
			common = common[:n]
		}
	}
	return common
}

// makeCRDEnd writes the card range data of one card: the API contract, §2. Members
// without a value are left out, never null or empty.
func makeCRDEnd(peer *Directory, info *ranges.Info) []byte {
	b := make([]byte, 0, 1024)
	text := func(name, value string) {
		if value == "" {
			return
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":`...)
		b = quote(b, value)
	}
	list := func(name string, values []string) {
		if len(values) == 0 {
			return
		}
		b = append(b, ',', '"')
		b = append(b, name...)
		b = append(b, `":[`...)
		for i, v := range values {
			if i > 0 {
				b = append(b, ',')
			}
			b = quote(b, v)
		}
		b = append(b, ']')
	}
	b = append(b, '"') // behind the id
	text("scheme", peer.Scheme)
	text("acsStartProtocolVersion", info.ACSStart)
	text("acsEndProtocolVersion", info.ACSEnd)
	text("dsStartProtocolVersion", info.DSStart)
	text("dsEndProtocolVersion", info.DSEnd)
	list("dsProtocolVersions", info.DSVersions)
	b = append(b, `,"acsProtocolVersions":[`...)
	for i := range info.ACS {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		text("version", info.ACS[i].Version)
		text("threeDSMethodURL", methodURL(peer, &info.ACS[i]))
		list("acsInfoInd", info.ACS[i].InfoInd)
		b = append(b, '}')
	}
	b = append(b, ']')
	for i, v := range peer.Versions {
		if i == 0 {
			b = append(b, `,"threeDSServerProtocolVersions":[`...)
		} else {
			b = append(b, ',')
		}
		b = quote(b, v.String())
		if i == len(peer.Versions)-1 {
			b = append(b, ']')
		}
	}
	if acs := best(peer, info); acs != nil {
		text("threeDSMethodURL", methodURL(peer, acs))
		list("acsInfoInd", acs.InfoInd)
	}
	return append(b, '}')
}

// quote appends s as a JSON string. The strings of a CRD are ours or come out
// of a checked PRes: nothing but quotes, backslashes and controls needs care.
func quote(b []byte, s string) []byte {
	b = append(b, '"')
	done := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[done:i]...)
		done = i + 1
		if c < ' ' {
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			b = append(b, '\\', c)
		}
	}
	return append(append(b, s[done:]...), '"')
}
