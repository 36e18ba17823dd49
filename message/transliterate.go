package message

import (
	"slices"

	"github.com/openthreeds/threeds/internal/base/charset"
)

// namesAndAddresses are the elements that Transliterate writes in ASCII.
var namesAndAddresses = []string{
	"cardholderName", "merchantName", "threeDSRequestorName",
	"billAddrLine1", "billAddrLine2", "billAddrLine3", "billAddrCity", "billAddrState", "billAddrPostCode",
	"shipAddrLine1", "shipAddrLine2", "shipAddrLine3", "shipAddrCity", "shipAddrState", "shipAddrPostCode",
}

// IsTransliterated reports whether [Request.Transliterate] writes an element in ASCII.
func IsTransliterated(name string) bool { return slices.Contains(namesAndAddresses, name) }

// Transliterate writes names and addresses in ASCII if the version takes nothing else, breaks lines
// of addresses that are too long, and returns what it changed: docs/api.md, R9c. The
// billing country says how ä, ö and ü are written, so Normalise comes first. A
// text without a form in ASCII is removed if the message may lack it; otherwise it stays.
func (r *Request) Transliterate() []Change {
	v, ok := r.Version()
	if !ok || v >= V231 {
		return nil
	}
	n := &normaliser{builder: newBuilder(r, v)}
	asGerman := charset.WritesGerman(r.Text("billAddrCountry"))
	for _, name := range namesAndAddresses {
		if n.isDefined(name) {
			n.transliterate(name, asGerman)
		}
	}
	n.wrapAddress("billAddrLine", false)
	n.wrapAddress("shipAddrLine", false)
	return n.changes
}

// transliterate writes one text in ASCII.
func (n *normaliser) transliterate(name string, asGerman bool) {
	old := n.r.Text(name)
	if charset.Find(old, charset.ASCII) == charset.Allowed || charset.Find(old, charset.Unicode) != charset.Allowed {
		return // nothing to do, or a character that is refused in every version
	}
	text, ok := charset.ToASCII(old, asGerman)
	switch isRequired := n.table.cells[n.view][n.table.row(names.ids[name])] == 'R'; {
	case ok:
		n.r.Set(name, text)
		n.recordChange(name, -1, "written in ASCII")
	case !isRequired:
		n.r.Set(name, "")
		n.recordChange(name, -1, "left out, it has no form in ASCII")
	}
}
