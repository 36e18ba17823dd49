package extension

import (
	"fmt"
	"io"
	"strings"

	"github.com/openthreeds/threeds/message"
)

// A Description explains one item of messageExtension.
type Description struct {
	Index    int    // in messageExtension, from 0
	ID       string // as in the message
	Name     string // as in the list of [All]
	Doc      string // what the extension is for, in a few English words
	Version  string // of the data; "" if it has none
	Elements []Element
	Others   int // members of the data that are not explained
}

// An Element is one value of an extension, in words.
type Element struct {
	Path    message.Path // from the top of the message
	Doc     string       // what the element says
	Value   string       // masked if it must not be shown
	Meaning string       // of a code; "" if the value is none
}

// Describe explains the extensions of a message that are in the list, and skips others. Values that are not valid, or
// must not be shown, are "***".
func Describe(m *message.Message) []Description {
	var all []Description
	for _, x := range findItems(m) {
		id := m.Text(string(indexPath("messageExtension", x.index)) + ".id")
		version := m.Text(string(x.fields) + ".version")
		d := Description{Index: x.index, ID: id, Name: x.Name, Doc: x.Doc, Version: version}
		if x.table != nil {
			d.Others = m.DescribeObject(x.fields, x.table, func(path message.Path, f *message.Field, text string) {
				d.Elements = append(d.Elements, Element{Path: path, Doc: f.Doc, Value: text, Meaning: meaningOf(f, text)})
			})
		}
		if x.Versions != nil && !versionForm.MatchString(d.Version) {
			d.Version = ""
		}
		all = append(all, d)
	}
	return all
}

// meaningOf returns what the codes of a value mean, with commas between.
func meaningOf(f *message.Field, text string) string {
	if f.Codes == nil {
		return ""
	}
	var all []string
	for code := range strings.SplitSeq(text, ", ") {
		for _, v := range f.Codes.Values {
			if v.Value == code {
				all = append(all, v.Meaning)
			}
		}
	}
	return strings.Join(all, ", ")
}

// Write writes d as text for people: a line for the extension, and one per element.
func (d Description) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", indexPath("messageExtension", d.Index), d.Name)
	if d.Version != "" {
		fmt.Fprintf(&b, " %s", d.Version)
	}
	fmt.Fprintf(&b, ": %s\n", d.Doc)
	for _, e := range d.Elements {
		fmt.Fprintf(&b, "  %s: %s: %s", e.Path, e.Doc, e.Value)
		if e.Meaning != "" {
			fmt.Fprintf(&b, " (%s)", e.Meaning)
		}
		b.WriteByte('\n')
	}
	if d.Others > 0 {
		fmt.Fprintf(&b, "  further members of the data: %d\n", d.Others)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
