package extension

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/openthreeds/threeds/message"
)

// Member is the member of a request that holds the plain fields of extensions, by their words:
//
//	"extensions": {"travelIndustry": {"agencyIndicator": "Y"}, "cbUseCase": "01"}
const Member = "extensions"

// A Target is what an AReq is sent with and where it goes.
type Target struct {
	Version message.Version
	Scheme  string // the word of the payment system; "" means that no directory has the card
	Channel message.Channel
	// Listed are the extensions that the card's range lists for the protocol version. Directory servers
	// list extensions from 2.3.1 on, so nil may also mean that nothing is known.
	Listed []Supported
	// IDs are the ids of extensions whose id is not public, by their words.
	IDs map[string]string
}

// idOf returns the id of an extension for the target, or "" if it is not known.
func (to Target) idOf(e *Extension) string {
	if e.ID != "" {
		return e.ID
	}
	return to.IDs[e.Word]
}

// Supported is an extension that the ACS of a card range supports.
type Supported struct{ ID, Version string }

// Build reads the member "extensions" of a request, and adds an item to messageExtension for each
// extension that the target takes. Extensions that it does not take are left out, as elements
// are that a version does not have. Build returns what it did, and the faults, with the paths
// of the fields that the requestor wrote.
func Build(r *message.Request, to Target) ([]message.Change, message.Problems) {
	if r.RawAt(Member) == nil {
		return nil, nil
	}
	var changes []message.Change
	var problems message.Problems
	words := r.Members(Member)
	if len(words) == 0 {
		return nil, message.Problems{withNote(message.Problem{Code: message.Format, Path: Member})}
	}
	sent := sentIDs(r)
	for _, word := range words {
		path := message.Path(Member + "." + word)
		e := ByWord(word)
		if e == nil || e.Table(message.AReq) == nil {
			problems = append(problems, withNote(message.Problem{Code: message.Format, Path: path}))
			continue
		}
		path = message.Path(Member + "." + e.Word)
		data, found := e.buildData(r, path, to)
		if id := to.idOf(e); sent[id] {
			found = append(found, message.Problem{Code: message.Duplicate, Path: path})
		}
		for _, p := range found {
			problems = append(problems, withNote(p))
		}
		switch {
		case len(found) > 0 || data == nil:
		case !e.isTakenBy(to, data):
			const what = "left out, the card's directory, version or range does not take it"
			changes = append(changes, message.Change{Path: path, What: what})
		default:
			r.AddExtension(e.composeEntry(to.idOf(e), data))
			changes = append(changes, message.Change{Path: path, What: "sent as message extension " + e.Name})
		}
	}
	return changes, problems
}

// sentIDs returns the ids of the extensions that the requestor wrote itself.
func sentIDs(r *message.Request) map[string]bool {
	m := wrapValue(r, "messageExtension")
	if m == nil {
		return nil
	}
	ids := make(map[string]bool)
	for i := 0; m.Raw(string(indexPath("value", i))) != nil; i++ {
		ids[m.Text(string(indexPath("value", i))+".id")] = true
	}
	return ids
}

// buildData returns the data of an extension from the fields at a path, and their faults.
func (e *Extension) buildData(r *message.Request, path message.Path, to Target) ([]byte, message.Problems) {
	t := e.Table(message.AReq)
	if e.Single {
		return e.buildValue(r, path, t)
	}
	data, found := r.BuildObject(path, t)
	version, chosen := e.versionFor(to), false
	found = slices.DeleteFunc(found, func(p message.Problem) bool {
		isMissing := e.Versions != nil && p.Code == message.Missing && p.Path == path+".version"
		chosen = chosen || isMissing
		return isMissing
	})
	if data != nil && chosen {
		data = fmt.Appendf(nil, `{"version":%q,%s`, version, data[1:])
	}
	if data != nil && e.Keyed {
		data = fmt.Appendf(nil, `{%q:%s}`, e.ID, data)
	}
	return data, found
}

// buildValue is buildData for an extension with one value.
func (e *Extension) buildValue(r *message.Request, path message.Path, t *message.Table) ([]byte, message.Problems) {
	data := fmt.Appendf(nil, `{%q:%s}`, e.ID, r.RawAt(path))
	m, err := message.Parse(data, message.Limits{})
	if err != nil {
		return nil, message.Problems{{Code: message.Format, Path: path}}
	}
	found := m.CheckObject("", t)
	for i := range found {
		found[i].Path = path
	}
	return data, found
}

// versionFor returns the newest version of an extension that a target takes, or the newest that
// there is if its range lists none.
func (e *Extension) versionFor(to Target) string {
	for _, v := range slices.Backward(e.Versions) {
		if slices.Contains(to.Listed, Supported{e.ID, v}) {
			return v
		}
	}
	if len(e.Versions) == 0 {
		return ""
	}
	return e.Versions[len(e.Versions)-1]
}

// isTakenBy reports whether a target takes an extension with this data.
func (e *Extension) isTakenBy(to Target, data []byte) bool {
	switch {
	case to.idOf(e) == "", to.Version < e.From, to.Version > e.Until:
	case e.Schemes != nil && !slices.Contains(e.Schemes, to.Scheme):
	case e.Channels != nil && !slices.Contains(e.Channels, to.Channel):
	case len(to.Listed) == 0:
		return !e.OnlyListed
	case e.Schemes != nil: // only extensions of EMVCo have ids that a range can list
		return true
	default:
		return slices.ContainsFunc(to.Listed, func(s Supported) bool {
			return s.ID == e.ID && (e.Versions == nil || bytes.Contains(data, fmt.Appendf(nil, `"version":%q`, s.Version)))
		})
	}
	return false
}

// composeEntry returns the item of messageExtension that holds data.
func (e *Extension) composeEntry(id string, data []byte) []byte {
	return fmt.Appendf(nil, `{"criticalityIndicator":false,"data":%s,"id":%q,"name":%q}`, data, id, e.Name)
}

// withNote returns p as a fault of an extension: with its whole path in errorDetail, because an
// index tells which extension it is, and with a code that all versions have.
func withNote(p message.Problem) message.Problem {
	if p.Code == message.Reserved {
		p.Code = message.Format
	}
	p.Note = string(p.Path)
	return p
}
