package message

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// newNormaliser returns a normaliser of a request whose values have the JSON types of their
// elements. Where they had another type and the meaning is certain, they are changed: docs/api.md,
// R9a and R9b. Conditions of the tables depend on these values, so the changes are
// written into the text of the request.
func newNormaliser(r *Request, v Version) *normaliser {
	var changes []Change
	for {
		n := &normaliser{builder: newBuilder(r, v)}
		n.convertObject(n.table, 0)
		n.completeSDK()
		if len(n.changes) == 0 {
			n.changes = slices.DeleteFunc(changes, func(c Change) bool { return !n.isPathSent(c.Path) })
			return n
		}
		changes = append(changes, n.changes...)
		r.applyEdits()
	}
}

// convertObject converts the members of an object.
func (n *normaliser) convertObject(t *Table, object uint32) {
	nodes := n.m.nodes
	for i := object + 1; i < nodes[object].next; i = nodes[i].next {
		if nodes[i].name >= maxNames || nodes[i].flags&(duplicate|isExtensionData|isPassedOn) != 0 {
			continue
		}
		row := t.row(uint16(nodes[i].name))
		if row < 0 || !n.isSent(t, row) {
			continue
		}
		f := &t.Fields[row]
		if nodes[i].kind == jsonString && f.Kind != Bool && f.Name != sdkKey {
			continue
		}
		if e, edited := n.r.edits[i]; edited && (e.wrap || e.text != nil) {
			continue
		}
		if e, what := n.convertValue(f, i); what != "" {
			n.r.setEdit(i, e)
			n.recordChange(f.Name, -1, what)
		} else if f.Of != nil {
			n.eachObject(f, i, func(object uint32) { n.convertObject(f.Of, object) })
		}
	}
}

// sdkKey is the key of an SDK. The SDK gives it to the app as a text, in which there is an object of JSON.
const sdkKey = "sdkEphemPubKey"

// completeSDK sets what 2.3.1 asks for about the SDK of an app, and versions before it do not have. An app that says
// nothing of a Split-SDK has a Default-SDK, whose only variant is native.
func (n *normaliser) completeSDK() {
	const kind, variant = "sdkType", "defaultSdkType"
	switch isSplit := n.r.Has("splitSdkType") || n.r.Has("sdkServerSignedContent"); {
	case !n.isDefined(kind):
		return
	case !n.r.Has(kind) && isSplit:
		n.r.Set(kind, "02")
		n.recordChange(kind, -1, "set to 02, a Split-SDK")
	case !n.r.Has(kind):
		n.r.Set(kind, "01")
		n.recordChange(kind, -1, "set to 01, a Default-SDK")
	}
	if n.r.Text(kind) == "01" && !n.r.Has(variant) {
		n.r.SetRaw(variant, []byte(`{"sdkVariant":"01"}`))
		n.recordChange(variant, -1, "set to native")
	}
}

// convertValue returns how a value is converted, and what that is in English. The text is
// "" if the value stays as it is.
func (n *normaliser) convertValue(f *Field, i uint32) (e edit, what string) {
	raw := n.m.raw(i)
	switch n.m.nodes[i].kind {
	case jsonNumber:
		if f.hasIntegers() && isIntegerLiteral(raw) {
			return edit{text: quote(string(raw))}, "written as a string"
		}
	case jsonBool:
		switch {
		case f.Name == "payTokenInd" && string(raw) == "false":
			return edit{}, "left out, it is false"
		case f.isYesOrNo() && string(raw) == "true":
			return edit{text: quote("Y")}, "written as Y"
		case f.isYesOrNo():
			return edit{text: quote("N")}, "written as N"
		}
	case jsonString:
		switch text := n.m.text(i, nil); {
		case f.Name == sdkKey:
			if jsontext.Value(text).Kind() == '{' && jsontext.Value(text).IsValid() {
				return edit{text: bytes.Clone(text)}, "made an object"
			}
		case !f.Array && (string(text) == "true" || string(text) == "false"):
			return edit{text: bytes.Clone(text)}, "made a boolean"
		}
	case jsonArray:
		if item := n.singleItem(i); item != 0 && n.m.nodes[item].kind != jsonArray && n.version < V231 && !f.Array &&
			!f.AltArray && !f.isFixed() {
			return edit{text: n.m.raw(item)}, "taken out of its array"
		}
	}
	return edit{}, ""
}

// singleItem returns the only item of an array that is not empty, or 0 if there are more or
// none.
func (n *normaliser) singleItem(array uint32) uint32 {
	var only uint32
	for j := array + 1; j < n.m.nodes[array].next; j = n.m.nodes[j].next {
		switch {
		case n.isDropped(j):
		case only != 0:
			return 0
		default:
			only = j
		}
	}
	return only
}

// fixedNames are elements that are compared only in the form that they came in, besides URLs, UUIDs and card numbers:
// ids, amounts, and what a request is found by.
var fixedNames = map[string]bool{
	"messageType": true, "messageVersion": true, "deviceChannel": true, "messageCategory": true,
	"acquirerBIN": true, "acquirerMerchantID": true, "threeDSRequestorID": true, "acctID": true, "tokenRequestorId": true,
	"token": true, "cardSecurityCode": true, "purchaseAmount": true, "purchaseDate": true,
}

// isFixed reports whether a value is never taken out of an array.
func (f *Field) isFixed() bool {
	return fixedNames[f.Name] || f.Mask == PAN || f.Kind == UUID || f.Kind == URL || f.Kind == AppURL
}

// hasIntegers reports whether an integer of JSON is taken as the text of its digits. An id
// may have lost zeros at its start, so ids are not.
func (f *Field) hasIntegers() bool {
	switch f.Kind {
	case Country, Currency, Offset, YearMonth:
		return !f.Array
	case Digits:
		return !f.Array && (!f.isFixed() || f.Name == "purchaseAmount")
	case OneOf:
		return f.Name == "browserColorDepth"
	}
	return false
}

// isYesOrNo reports whether the codes of an element are exactly Y and N.
func (f *Field) isYesOrNo() bool {
	if f.Kind != OneOf || f.Array || f.Codes.Open || len(f.Codes.Values) != 2 || len(f.Codes.Ranges) > 0 {
		return false
	}
	return slices.ContainsFunc(f.Codes.Values, func(c CodeValue) bool { return c.Value == "Y" }) &&
		slices.ContainsFunc(f.Codes.Values, func(c CodeValue) bool { return c.Value == "N" })
}

// isIntegerLiteral reports whether a JSON number is written without a fraction and an
// exponent.
func isIntegerLiteral(raw []byte) bool { return isOffset(raw) && raw[0] != '+' }

// isPathSent reports whether the member at a path is sent. A part of it that the request
// does not have is sent as far as the tables say.
func (b *builder) isPathSent(path Path) bool {
	t, object := b.table, uint32(0)
	for part := range strings.SplitSeq(path.Name(), ".") {
		row := t.row(names.ids[part])
		if row < 0 || !b.isSent(t, row) {
			return false
		}
		f := &t.Fields[row]
		if t == b.table { // conditions of nested tables are few, and none of them removes a member that is converted
			base := len(b.checker.members)
			s := b.findScope(t, object)
			isMet := !f.isOnlyForCondition() || b.isConditionMet(f, s)
			b.checker.members = b.checker.members[:base]
			if !isMet {
				return false
			}
		}
		t = f.Of
	}
	return true
}
