package ranges

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/openthreeds/threeds/internal/base/browserurl"
	"github.com/openthreeds/threeds/message"
)

// Source says how card range data is read. The zero value is right for
// production.
type Source struct {
	// Lab keeps a threeDSMethodURL with http, or with a host that is the browser's own
	// machine. It is for laboratories and for the sandbox.
	Lab bool
}

// policy is which threeDSMethodURLs are kept.
func (s Source) policy() browserurl.Policy { return browserurl.Policy{Lab: s.Lab} }

// Notes count what was left out of a table without a fault of the PRes.
type Notes struct {
	Skipped  int // ranges whose start and end differ in length, or whose last version is below the first
	Withheld int // different sets of range data with a threeDSMethodURL that no browser may be sent to
}

// An entryReader reads entries of cardRangeData, one after the other, that
// passed Check. It knows the rules and the shapes of all versions.
type entryReader struct {
	source  Source
	version message.Version
	dec     *jsontext.Decoder
	notes   Notes

	// infos have what entries say besides their bounds and actions. They lack the versions of the whole PRes, which may
	// not be known yet.
	infos []*Info
	known map[string]uint32 // numbers of infos, by the payload that they were made of
	said  int               // bytes of all payloads in known

	// The following is of the entry that is being read.
	bounds   []Range
	action   Action
	skipped  int
	withheld bool   // a threeDSMethodURL was withheld
	payload  []byte // the members that an Info is made of, as a JSON object
	pair     pair   // the range that is being read
	text     []byte // a string that was read
}

// A pair is the bounds of a range while they are read. A bound that is not there, or is no
// string, is empty.
type pair struct{ start, end []byte }

// errEntry says that an entry is one that Check should have refused.
var errEntry = errors.New("not a card range")

// read reads one entry into bounds and action, and returns the number of its Info.
func (r *entryReader) read() (uint32, error) {
	r.bounds, r.payload, r.action, r.skipped = r.bounds[:0], append(r.payload[:0], '{'), Add, 0
	r.pair.reset()
	if err := r.object((*entryReader).member); err != nil {
		return 0, err
	}
	r.payload = append(r.payload, '}')
	if r.version < message.V231 {
		if err := r.addPair(); err != nil {
			return 0, err
		}
	}
	id, known := r.known[string(r.payload)]
	if !known {
		r.withheld = false
		info, err := r.info(r.payload)
		if err != nil {
			return 0, err
		}
		if r.withheld {
			r.notes.Withheld++
		}
		if r.known == nil {
			r.known = make(map[string]uint32)
		}
		id = uint32(len(r.infos))
		r.known[string(r.payload)] = id
		r.said += len(r.payload)
		r.infos = append(r.infos, info)
	}
	if r.infos[id].isReversed() && r.action != Delete {
		r.skipped += len(r.bounds)
		r.bounds = r.bounds[:0] // the card is not enrolled, for no version fits it
	}
	r.notes.Skipped += r.skipped
	return id, nil
}

func (r *entryReader) member(name []byte) error {
	old := r.version < message.V231
	switch string(name) {
	case "startRange":
		if old {
			return r.bound(&r.pair.start)
		}
	case "endRange":
		if old {
			return r.bound(&r.pair.end)
		}
	case "ranges":
		if !old {
			return r.list()
		}
	case "actionInd":
		value, err := r.dec.ReadValue()
		if r.action = actionOf(value); r.action == 0 {
			return cmp.Or(err, errEntry)
		}
		return err
	case "acsStartProtocolVersion", "acsEndProtocolVersion", "dsStartProtocolVersion", "dsEndProtocolVersion",
		"threeDSMethodURL", "acsInfoInd", "acsProtocolVersions", "dsProtocolVersions", "issuerCountryCode":
		if len(r.payload) > 1 {
			r.payload = append(r.payload, ',')
		}
		r.payload = append(append(append(r.payload, '"'), name...), `":`...)
		value, err := r.dec.ReadValue()
		r.payload = append(r.payload, value...)
		return err
	}
	return r.dec.SkipValue()
}

// list reads the ranges of a 2.3.1 entry.
func (r *entryReader) list() error {
	if tok, err := r.dec.ReadToken(); err != nil || tok.Kind() != '[' {
		return errEntry
	}
	for r.dec.PeekKind() != ']' {
		r.pair.reset()
		if err := r.object((*entryReader).rangeMember); err != nil {
			return err
		}
		if err := r.addPair(); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

func (r *entryReader) rangeMember(name []byte) error {
	switch string(name) {
	case "start":
		return r.bound(&r.pair.start)
	case "end":
		return r.bound(&r.pair.end)
	}
	return r.dec.SkipValue()
}

func (p *pair) reset() { p.start, p.end = p.start[:0], p.end[:0] }

// bound reads one bound.
func (r *entryReader) bound(into *[]byte) error {
	value, err := r.dec.ReadValue()
	if err != nil || value.Kind() != '"' {
		return cmp.Or(err, errEntry)
	}
	*into, err = jsontext.AppendUnquote((*into)[:0], value)
	return err
}

// addPair adds the range that was read if its bounds are good. Bounds of different length are
// no fault of the set, but no range either.
func (r *entryReader) addPair() error {
	b, err := boundsOf(r.pair.start, r.pair.end)
	switch {
	case errors.Is(err, ErrLength):
		r.skipped++
	case err != nil:
		return err
	default:
		r.bounds = append(r.bounds, b)
	}
	return nil
}

// object reads an object and calls member with each name; member reads or skips
// the value.
func (r *entryReader) object(member func(r *entryReader, name []byte) error) error {
	if tok, err := r.dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return errEntry
	}
	for r.dec.PeekKind() != '}' {
		name, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		if r.text, err = jsontext.AppendUnquote(r.text[:0], name); err != nil {
			return err
		}
		if err := member(r, r.text); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

// info makes an Info of what an entry says besides its bounds.
func (r *entryReader) info(payload []byte) (*Info, error) {
	entry, err := message.Parse(bytes.Clone(payload), message.Limits{Members: -1})
	if err != nil {
		return nil, errEntry
	}
	if r.version >= message.V231 {
		return r.listedInfo(entry), nil
	}
	info := &Info{
		ACSStart: entry.Text("acsStartProtocolVersion"),
		ACSEnd:   entry.Text("acsEndProtocolVersion"),
		DSStart:  entry.Text("dsStartProtocolVersion"),
		DSEnd:    entry.Text("dsEndProtocolVersion"),
	}
	if info.DSStart != "" {
		info.own |= ownStart
	}
	if info.DSEnd != "" {
		info.own |= ownEnd
	}
	info.DSVersions = between(info.DSStart, info.DSEnd) // right when both are its own
	method := r.methodURL(entry, "threeDSMethodURL", maxMethodURL)
	var infoInd []string
	if r.version >= message.V220 { // 2.1.0 has none, whatever is sent
		infoInd = entry.Strings("acsInfoInd")
	}
	for _, v := range between(info.ACSStart, info.ACSEnd) {
		info.ACS = append(info.ACS, ACSVersion{Version: v, MethodURL: method, InfoInd: infoInd})
	}
	return info, nil
}

// listedInfo makes an Info of a 2.3.1 entry, which lists versions one by one.
func (r *entryReader) listedInfo(entry *message.Message) *Info {
	ds := listed(entry.Strings("dsProtocolVersions"))
	info := &Info{
		DSStart: ds.Start, DSEnd: ds.End, DSVersions: ds.Versions, IssuerCountry: entry.Text("issuerCountryCode"),
	}
	if len(ds.Versions) > 0 {
		info.own = ownStart | ownEnd
	}
	for i := 0; ; i++ {
		at := fmt.Sprintf("acsProtocolVersions[%d].", i)
		v := ACSVersion{Version: entry.Text(at + "version")}
		if v.Version == "" {
			break
		}
		v.MethodURL = r.methodURL(entry, at+"threeDSMethodURL", maxMethodURL231)
		v.InfoInd = entry.Strings(at + "acsInfoInd")
		for k := 0; ; k++ {
			ext := fmt.Sprintf("%ssupportedMsgExt[%d].", at, k)
			if !entry.Has(ext + "id") {
				break
			}
			v.Extensions = append(v.Extensions, Extension{entry.Text(ext + "id"), entry.Text(ext + "version")})
		}
		info.ACS = append(info.ACS, v)
	}
	slices.SortStableFunc(info.ACS, func(x, y ACSVersion) int { return compareVersions(x.Version, y.Version) })
	if n := len(info.ACS); n > 0 {
		info.ACSStart, info.ACSEnd = info.ACS[0].Version, info.ACS[n-1].Version
	}
	return info
}

// methodURL returns the threeDSMethodURL at a path of an entry. It withholds one that no
// browser may be sent to, or that is longer than a version allows: it then returns "" and
// sets r.withheld.
func (r *entryReader) methodURL(entry *message.Message, path string, limit int) string {
	if entry.Raw(path) == nil {
		return ""
	}
	url := entry.Text(path)
	if len(url) > limit || r.source.policy().Check(url) != nil {
		r.withheld = true
		return ""
	}
	return url
}

// maxMethodURL is how long a threeDSMethodURL may be, before 2.3.1 and from then on.
var (
	maxMethodURL    = message.ObjectTable("cardRange", message.V220).Field("threeDSMethodURL").Max
	maxMethodURL231 = message.ObjectTable("acsProtocolVersion", message.V231).Field("threeDSMethodURL").Max
)
