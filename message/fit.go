package message

import (
	"strings"
	"unicode/utf8"

	"github.com/openthreeds/threeds/internal/base/charset"
)

// fittedTexts are the elements that FitTexts may leave out.
var fittedTexts = []string{
	"cardholderName", "email", "billAddrLine1", "billAddrLine2", "billAddrLine3", "billAddrCity", "billAddrPostCode",
	"billAddrState",
}

// FitTexts writes names and addresses as the version takes them where their writer cannot know its lengths, because the
// request came in the form of another protocol. Lines of an address are broken and joined again, the cardholder's name
// is cut, and what does not fit even then is left out, unless it is required. It returns what it changed.
// [Request.Transliterate] comes first.
func (r *Request) FitTexts() []Change {
	v, ok := r.Version()
	if !ok {
		return nil
	}
	n := &normaliser{builder: newBuilder(r, v)}
	n.cutName("cardholderName")
	n.wrapAddress("billAddrLine", true)
	for _, name := range fittedTexts {
		row := n.table.row(names.ids[name])
		if row < 0 || !n.isSent(n.table, row) || n.table.cells[n.view][row] == 'R' || r.Text(name) == "" {
			continue
		}
		if !n.fits(&n.table.Fields[row], r.Text(name)) {
			r.Set(name, "")
			n.recordChange(name, -1, "left out, this version has no room for it")
		}
	}
	return n.changes
}

// fits reports whether a text may be the value of a row.
func (n *normaliser) fits(f *Field, text string) bool {
	length := utf8.RuneCountInString(text)
	return length >= f.Min && (f.Max == 0 || length <= f.Max) && f.Kind.check([]byte(text)) == 0 &&
		charset.Find(text, charactersOf(n.version)) == charset.Allowed
}

// cutName cuts a name that is too long, between two words if there is a blank in its second half.
func (n *normaliser) cutName(name string) {
	most, old := n.table.Field(name).Max, n.r.Text(name)
	text := truncate(old, most)
	if text == old {
		return
	}
	if at := strings.LastIndexByte(text, ' '); at > len(text)/2 {
		text = text[:at]
	}
	n.r.Set(name, strings.TrimRight(text, " "))
	n.recordChange(name, -1, "cut, it was too long")
}

// wrapAddress breaks the lines of an address that are too long. With isJoined it writes all lines again if a line has
// no room in the next one.
func (n *normaliser) wrapAddress(prefix string, isJoined bool) {
	lineNames := [...]string{prefix + "1", prefix + "2", prefix + "3"}
	lines := make([]string, len(lineNames))
	for i, name := range lineNames {
		if lines[i] = n.r.Text(name); lines[i] == "" && n.r.Has(name) ||
			charset.Find(lines[i], charactersOf(n.version)) != charset.Allowed {
			return // not a text, or one that is refused
		}
	}
	most := n.table.Field(lineNames[0]).Max
	wrapped, ok := charset.Wrap(lines, most)
	if !ok && isJoined {
		wrapped, ok = charset.Wrap([]string{strings.TrimSpace(strings.Join(lines, " ")), "", ""}, most)
	}
	if !ok {
		return
	}
	for i, name := range lineNames {
		switch {
		case wrapped[i] == lines[i]:
			continue
		case lines[i] == "":
			n.recordChange(name, -1, "continues the line before")
		default:
			n.recordChange(name, -1, "continued in the next line")
		}
		n.r.Set(name, wrapped[i])
	}
}
