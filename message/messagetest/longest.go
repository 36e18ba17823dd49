package messagetest

import "github.com/openthreeds/threeds/message"

// Longest returns how long a valid message of the type may be by its table, in the channel
// and category with the longest messages. It counts bytes, without white space and needless
// escape sequences, and members and items of arrays, except in objects without a table. A
// character of free text takes width bytes: 1 in ASCII, up to 4 in UTF-8. A value or an
// array for which the table has no maximum has open characters or items.
func Longest(t message.Type, v message.Version, width, open int) (bytes, members int) {
	for _, ch := range message.Channels() {
		for _, cat := range message.Categories() {
			l := longest{typ: t, channel: ch, category: cat, width: width, open: open}
			b, m := l.object(message.TableOf(t, v))
			bytes, members = max(bytes, b), max(members, m)
		}
	}
	return bytes, members
}

// A longest computes the length of one message in one channel and category.
type longest struct {
	typ         message.Type
	channel     message.Channel
	category    message.Category
	width, open int
}

// object returns the length of an object with this table.
func (l longest) object(t *message.Table) (bytes, members int) {
	bytes = len("{}") - len(",")
	for i := range t.Fields {
		f := &t.Fields[i]
		if f.Need.At(l.channel, l.category) == '-' || f.DS || f.Leg == message.DSToACS || f.Leg == message.ACSToDS {
			continue
		}
		b, m := l.value(f)
		bytes += len(`"":,`) + len(f.Name) + b
		members += 1 + m
	}
	return bytes, members
}

// value returns the length of a member.
func (l longest) value(f *message.Field) (bytes, members int) {
	if !f.Array {
		return l.item(f, f.Max)
	}
	itemBytes, inner := l.item(f, f.ItemMax)
	n := f.Max
	if n == 0 {
		n = l.open
	}
	bytes = len("[]") - len(",") + n*(itemBytes+len(","))
	if f.MaxChars > 0 {
		bytes = min(bytes, f.MaxChars*l.width)
	}
	return bytes, n * (1 + inner)
}

// item returns the length of a value, or of one item of an array, with at most the number of
// characters that most says; 0 means that the table has no maximum.
func (l longest) item(f *message.Field, most int) (bytes, members int) {
	if f.Kind == message.Object {
		bytes, members = l.object(f.Of)
		if most > 0 {
			bytes = min(bytes, most*l.width)
		}
		return bytes, members
	}
	if most == 0 {
		most = l.open
	}
	width := 1
	switch f.Kind {
	case message.Bool:
		return len("false"), 0
	case message.JSON:
		return most * l.width, 0
	case message.Text, message.Email, message.URL, message.AppURL:
		if !f.Browser { // a URL for the browser is ASCII
			width = l.width
		}
	}
	return len(`""`) + most*width, 0
}
