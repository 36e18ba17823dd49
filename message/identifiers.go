package message

import (
	"strings"
)

// identifiers are the ids that have no form of their own. A directory server, an issuer or a merchant looks them up as
// they are, so an id with a blank before or behind it is a different, unknown id.
var identifiers = map[string]bool{
	"acquirerBIN": true, "acquirerMerchantID": true, "acquirerMerchantIdListed": true, "threeDSRequestorID": true,
	"threeDSServerOperatorID": true, "sdkReferenceNumber": true, "sellerId": true, "tokenRequestorId": true,
	"acctID": true, "chAccReqID": true, "userId": true, "threeDSReqPriorRef": true, "threeDSReqPriorDsTransId": true,
}

// isIdentifier reports whether the element of a row is an id.
func (f *Field) isIdentifier() bool { return !f.Array && (f.Kind == UUID || identifiers[f.Name]) }

// trim leaves off the blanks around an id.
func (n *normaliser) trim(f *Field, i uint32) {
	old := string(n.m.text(i, nil))
	if e, edited := n.r.edits[i]; edited {
		old = unquoted(e.text)
	}
	if text := strings.TrimSpace(old); text != old && text != "" {
		n.r.setEdit(i, edit{text: quote(text)})
		n.recordChange(f.Name, -1, withoutBlanks)
	}
}

// withoutBlanks says what was done to an id.
const withoutBlanks = "without the blanks around it"

// CheckIdentifiers returns a problem for each id of an AReq that has blanks before or behind it, in the objects of the
// AReq, too. Check accepts them: the protocol allows any character in most ids.
func (m *Message) CheckIdentifiers() Problems {
	t, ok := m.Type()
	v, ok2 := m.Version()
	if !ok || !ok2 || t != AReq {
		return nil
	}
	c := &checker{m: m, table: TableOf(t, v), version: v}
	c.findView()
	c.reportIdentifiers(c.table, 0)
	return c.sortedProblems()
}

// reportIdentifiers reports what CheckIdentifiers looks for in an object.
func (c *checker) reportIdentifiers(t *Table, object uint32) {
	nodes := c.m.nodes
	for i := object + 1; i < nodes[object].next; i = nodes[i].next {
		row := t.rowOfMember(c.m, &nodes[i])
		if row < 0 || t.cells[c.view][row] == '-' {
			continue
		}
		switch f := &t.Fields[row]; {
		case f.Of != nil:
			c.eachObject(f, i, func(object uint32) { c.reportIdentifiers(f.Of, object) })
		case f.isIdentifier() && nodes[i].kind == jsonString:
			if text := string(c.m.text(i, nil)); strings.TrimSpace(text) != text {
				c.report(Format, f.Name)
			}
		}
	}
}

// NormaliseCardNumber leaves blanks and dashes out of acctNumber, and the blanks around threeDSServerTransID off.
// Both are needed before the version of the request is known, so this comes before [Request.Normalise]. It
// returns what it changed.
func (r *Request) NormaliseCardNumber() []Change {
	var changes []Change
	set := func(name, text, what string) {
		if text != "" && text != r.Text(name) {
			r.Set(name, text)
			changes = append(changes, Change{Path(name), what})
		}
	}
	set("acctNumber", PlainCardNumber(r.Text("acctNumber")), "without blanks and dashes")
	set("threeDSServerTransID", strings.TrimSpace(r.Text("threeDSServerTransID")), withoutBlanks)
	return changes
}

// cardSeparators are what people write between the digits of a card number.
var cardSeparators = strings.NewReplacer(" ", "", "\u00a0", "", "\u202f", "", "\t", "", "-", "", "\u2010", "", "\u2011",
	"", "\u2013", "")

// PlainCardNumber returns a card number that is written with blanks or dashes as its 13 to 19 digits. Every other
// text is returned as it is.
func PlainCardNumber(text string) string {
	if plain := cardSeparators.Replace(text); len(plain) >= 13 && len(plain) <= 19 && allDigits([]byte(plain)) {
		return plain
	}
	return text
}
