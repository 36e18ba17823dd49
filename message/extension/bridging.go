package extension

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/message"
)

// BridgingID is the id of the Bridging message extension.
const BridgingID = "A000000802-004"

// A bridgedElement is an element of an AReq that Bridging carries.
type bridgedElement struct {
	from     message.Path
	in, name string
	always   bool // 2.2.0 lacks the element; of others only codes that 2.2.0 lacks are carried
}

// bridged lists the elements of an AReq of 2.3.1 that Bridging carries: their place in the AReq and their place in the
// data of the extension, in the order of its tables.
var bridged = []bridgedElement{
	{"recurringAmount", "recurringData", "recurringAmount", true},
	{"recurringCurrency", "recurringData", "recurringCurrency", true},
	{"recurringExponent", "recurringData", "recurringExponent", true},
	{"recurringDate", "recurringData", "recurringDate", true},
	{"recurringInd", "recurringData", "recurringInd", true},
	{"threeDSRequestorAuthenticationInd", "addData", "threeDSRequestorAuthenticationInd", false},
	{"threeRIInd", "addData", "threeRIInd", false},
	{"merchantRiskIndicator.transChar", "addData", "transChar", true},
}

// Bridge rewrites a request that was written for 2.3.1, or has elements of 2.3.1, for a target of
// 2.2.0. Elements whose form has changed get that of 2.2.0, codes that 2.2.0 lacks become the
// nearest that it has, and what Bridging can carry goes into that extension, if the target's
// range lists it and the requestor has not written one. Bridge returns what it did, and the
// faults of what it carries. It does nothing for a target of another version.
func Bridge(r *message.Request, to Target) ([]message.Change, message.Problems) {
	if to.Version != message.V220 {
		return nil, nil
	}
	data, names := bridgingData(r)
	changes := lowerElements(r)
	e := ByID(BridgingID)
	if data == nil || !isListed(to, e) || r.RawAt(Member+".bridging") != nil || sentIDs(r)[BridgingID] {
		return changes, nil
	}
	data = fmt.Appendf(nil, `{"version":%q,%s`, e.versionFor(to), data[1:])
	if found := checkBridged(e, data); len(found) > 0 {
		return changes, found
	}
	entry := e.composeEntry(e.ID, data)
	if !hasRoom(r, entry) {
		return changes, nil
	}
	r.AddExtension(entry)
	what := fmt.Sprintf("Bridging %s carries %s", e.versionFor(to), strings.Join(names, ", "))
	return append(changes, message.Change{Path: "messageExtension", What: what}), nil
}

// IsBridged reports whether Bridging carries an element of the AReq, by its name at the top level.
func IsBridged(name string) bool {
	return slices.ContainsFunc(bridged, func(b bridgedElement) bool {
		first, _, _ := strings.Cut(string(b.from), ".")
		return first == name
	})
}

// isListed reports whether the range of a target lists a version of an extension that is in the list.
func isListed(to Target, e *Extension) bool {
	return slices.ContainsFunc(to.Listed, func(s Supported) bool {
		return s.ID == e.ID && slices.Contains(e.Versions, s.Version)
	})
}

// hasRoom reports whether messageExtension of 2.2.0 has room for another item.
func hasRoom(r *message.Request, entry []byte) bool {
	f := message.TableOf(message.AReq, message.V220).Field("messageExtension")
	return r.Extensions() < f.Max && len(r.RawAt("messageExtension"))+len(",")+len(entry) <= f.MaxChars
}

// bridgingData returns the elements of a request that Bridging carries, as the data of the extension
// without its version, and their names. It returns nil if there is none.
func bridgingData(r *message.Request) (data []byte, names []string) {
	parts := map[string][][]byte{}
	hasAmount := r.Has("recurringAmount")
	for _, b := range bridged {
		if !hasAmount && (b.name == "recurringCurrency" || b.name == "recurringExponent") {
			continue // as in 2.3.1
		}
		value := r.RawAt(b.from)
		if b.from == "recurringInd" {
			value, _ = r.BuildObject(b.from, recurringInd)
		}
		code := unquoteCode(value)
		if value == nil || !b.always && isIn220(string(b.from), code) && !isNarrower(b.name, code) {
			continue
		}
		if b.name == "transChar" && value[0] == '"' {
			value = slices.Concat([]byte("["), value, []byte("]"))
		}
		parts[b.in] = append(parts[b.in], fmt.Appendf(nil, `%q:%s`, b.name, value))
		names = append(names, string(b.from))
	}
	if names == nil {
		return nil, nil
	}
	var objects [][]byte
	for _, in := range []string{"recurringData", "addData"} {
		if parts[in] != nil {
			objects = append(objects, fmt.Appendf(nil, `%q:{%s}`, in, bytes.Join(parts[in], []byte(","))))
		}
	}
	return slices.Concat([]byte("{"), bytes.Join(objects, []byte(",")), []byte("}")), names
}

// checkBridged returns the faults of data, with the paths of the elements in the AReq.
func checkBridged(e *Extension, data []byte) message.Problems {
	m, err := message.Parse(data, message.Limits{Depth: -1, Members: -1})
	if err != nil {
		panic("extension: built what is not JSON: " + err.Error())
	}
	found := m.CheckObject("", e.Table(message.AReq))
	for i, p := range found {
		for _, b := range bridged {
			if rest, ok := strings.CutPrefix(string(p.Path), b.in+"."+b.name); ok {
				found[i].Path = b.from + message.Path(rest)
			}
		}
		if p.Code == message.Reserved {
			found[i].Code = message.Format
		}
	}
	return found
}

// nearest are the codes of 2.2.0 that come nearest to those of 2.3.1 that it lacks. An ACS that
// does not read Bridging acts by them. A code without one is refused, as it is without Bridging.
var nearest = map[string]map[string]string{
	"threeDSRequestorAuthenticationInd": {"07": "01", "08": "01", "09": "01", "10": "01"},
	"threeRIInd":                        {"12": "11", "15": "06", "16": "11", "19": "11"},
	"threeDSRequestorDecReqInd":         {"B": "Y", "F": "N"},
}

// lowerElements gives the elements of a request the form and the codes of 2.2.0.
func lowerElements(r *message.Request) []message.Change {
	var changes []message.Change
	change := func(name, what string) {
		changes = append(changes, message.Change{Path: message.Path(name), What: what})
	}
	for _, name := range []string{"threeDSRequestorAuthenticationInd", "threeRIInd", "threeDSRequestorDecReqInd"} {
		if code, ok := nearest[name][r.Text(name)]; ok {
			r.Set(name, code)
			change(name, code+", the nearest of 2.2.0")
		}
	}
	for _, name := range []string{"threeDSRequestorAuthenticationInfo", "threeDSRequestorPriorAuthenticationInfo"} {
		if first := firstItem(r, name); first != nil {
			r.SetRaw(name, first)
			change(name, "the first of the array")
		}
	}
	if codes := codesOf(r, "threeDSRequestorChallengeInd"); codes != nil {
		i := slices.IndexFunc(codes, func(code string) bool { return isIn220("threeDSRequestorChallengeInd", code) })
		if i < 0 {
			r.Set("threeDSRequestorChallengeInd", "")
			change("threeDSRequestorChallengeInd", "left out, 2.2.0 has none of the codes")
		} else {
			r.Set("threeDSRequestorChallengeInd", codes[i])
			change("threeDSRequestorChallengeInd", "the first code that 2.2.0 has")
		}
	}
	if lowerRenderOptions(r) {
		change("deviceRenderOptions", "without UI types that 2.2.0 lacks")
	}
	if status := r.Text("trustListStatus"); status != "" && !r.Has("whiteListStatus") {
		r.Set("whiteListStatus", status)
		change("whiteListStatus", "taken from trustListStatus")
	}
	return changes
}

// lowerRenderOptions removes the UI types that 2.2.0 lacks, and reports whether there were any.
func lowerRenderOptions(r *message.Request) bool {
	const name = "deviceRenderOptions"
	m := wrapValue(r, name)
	if m == nil {
		return false
	}
	codes := message.ObjectTable(name, message.V220).Field("sdkUiType").Codes
	all := m.Strings("value.sdkUiType")
	kept := slices.DeleteFunc(slices.Clone(all), func(code string) bool { return !hasCode(codes, code) })
	if len(kept) == len(all) || len(kept) == 0 || m.Raw("value.sdkInterface") == nil {
		return false
	}
	const form = `{"sdkInterface":%s,"sdkUiType":["%s"]}`
	r.SetRaw(name, fmt.Appendf(nil, form, m.Raw("value.sdkInterface"), strings.Join(kept, `","`)))
	return true
}

// firstItem returns the first item of an array in the request, or nil if it is no array.
func firstItem(r *message.Request, name string) []byte {
	m := wrapValue(r, name)
	if m == nil {
		return nil
	}
	return m.Raw("value[0]")
}

// codesOf returns the strings of an array in the request. It returns nil if the element is no
// array, or has one code that 2.2.0 has.
func codesOf(r *message.Request, name string) []string {
	m := wrapValue(r, name)
	if m == nil {
		return nil
	}
	codes := m.Strings("value")
	if m.Text("value") != "" && isIn220(name, m.Text("value")) {
		return nil
	}
	return codes
}

// wrapValue returns a message with one member, "value", which has the value of an element of the
// request. It returns nil if the element is absent.
func wrapValue(r *message.Request, name string) *message.Message {
	value := r.RawAt(message.Path(name))
	if value == nil {
		return nil
	}
	m, err := message.Parse(fmt.Appendf(nil, `{"value":%s}`, value), message.Limits{Depth: -1, Members: -1})
	if err != nil {
		return nil
	}
	return m
}

// unquoteCode returns the text of a JSON string without escape sequences, and "" for other values.
func unquoteCode(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	return string(raw[1 : len(raw)-1])
}

// isNarrower reports whether a code means less in 2.3.1 than in 2.2.0, where 06 also stands for what
// is 15 in 2.3.1.
func isNarrower(name, code string) bool { return name == "threeRIInd" && code == "06" }

// isIn220 reports whether 2.2.0 has a code of an element of the AReq, or leaves it to payment
// systems. It reports true for a value that 2.3.1 does not have either.
func isIn220(name, code string) bool {
	return hasCode(message.TableOf(message.AReq, message.V220).Field(name).Codes, code) ||
		!hasCode(message.TableOf(message.AReq, message.V231).Field(name).Codes, code)
}

// hasCode reports whether a list has a code, or leaves it to payment systems.
func hasCode(c *message.Codes, code string) bool {
	return slices.ContainsFunc(c.Values, func(v message.CodeValue) bool { return v.Value == code }) ||
		slices.ContainsFunc(c.Ranges, func(r message.CodeRange) bool {
			return r.DS && len(code) == len(r.From) && r.From <= code && code <= r.To
		})
}
