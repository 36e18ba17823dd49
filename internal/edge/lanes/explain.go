package lanes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/message"
)

// A Field is one element of a message with what it means.
type Field struct {
	Name, Value, Meaning string
	Masked               bool
	Ref                  string // the address of the page that describes it; "" if there is none
}

// A Group is the elements that answer one question.
type Group struct {
	Name   string
	Fields []Field
}

// A Card is one step, with its message explained.
type Card struct {
	Row    *Row
	Plain  string // what it says, in a sentence
	Groups []Group
	Raw    string  // the message as JSON
	Others []Other // messages that may be shown next to it
}

// An Other is the address that shows another message, and its name.
type Other struct{ Link, Name string }

// NewCard returns the card of a row. The message is masked JSON; nil if none is kept.
func NewCard(r *Row, plain string, masked []byte, e Explainer) *Card {
	c := &Card{Row: r, Plain: plain}
	if len(masked) == 0 {
		return c
	}
	var raw bytes.Buffer
	if json.Indent(&raw, masked, "", "  ") == nil {
		c.Raw = raw.String()
	}
	c.Groups = e.Explain(masked)
	return c
}

// An Explainer says what elements of messages mean. Its zero value explains the messages of EMV 3DS from their tables.
type Explainer struct {
	// Docs is the address of the documentation, with a slash at the end. Without it, elements have no links.
	Docs string
	// Amount is purchaseAmount for people; "" if it is not known.
	Amount string
	// Meaning says what the card's scheme means by a value; "" where it says nothing. Nil says nothing.
	Meaning func(name, value string) string
	// Other explains an element of what is no message of EMV 3DS, by its path without indexes. Nil explains none.
	Other func(path string) (meaning, ref string)
}

// Explain returns the elements of a masked message in groups, each with its meaning.
func (e *Explainer) Explain(masked []byte) []Group {
	m, err := message.Parse(masked, message.Limits{})
	if err != nil {
		return nil
	}
	table := tableOf(m)
	byName := map[string][]Field{}
	walkMessage(json.NewDecoder(bytes.NewReader(masked)), func(path, value string) {
		f := Field{Name: path, Value: value, Masked: strings.HasPrefix(value, "[withheld") || strings.Trim(value, "*") == ""}
		f.Meaning, f.Ref = e.describe(table, path, value)
		name := groupOf(path)
		byName[name] = append(byName[name], f)
	})
	if t, ok := m.Type(); ok && (t == message.ARes || t == message.RReq) && !m.Has("authenticationValue") {
		f := Field{Name: "authenticationValue", Value: "absent", Meaning: "there is no value", Masked: true}
		_, f.Ref = e.describe(table, f.Name, "")
		byName[groupNames[0]] = append(byName[groupNames[0]], f)
	}
	var all []Group
	for _, name := range groupNames {
		if fields := byName[name]; len(fields) > 0 {
			all = append(all, Group{name, fields})
		}
	}
	return all
}

// ExplainPersonal returns the personal data of a masked message, by the paths of their elements, as a group.
func (e *Explainer) ExplainPersonal(masked, personal []byte) Group {
	g := Group{Name: "Personal data"}
	var table *message.Table
	if m, err := message.Parse(masked, message.Limits{}); err == nil {
		table = tableOf(m)
	}
	walkMessage(json.NewDecoder(bytes.NewReader(personal)), func(path, value string) {
		f := Field{Name: path, Value: value}
		f.Meaning, f.Ref = e.describe(table, path, value)
		g.Fields = append(g.Fields, f)
	})
	return g
}

// tableOf returns the table of a message; nil if it has none.
func tableOf(m *message.Message) *message.Table {
	t, hasType := m.Type()
	v, hasVersion := m.Version()
	if !hasType || !hasVersion {
		return nil
	}
	return message.TableOf(t, v)
}

// describe returns what an element is, what its code means, and where the reference describes it.
func (e *Explainer) describe(t *message.Table, path, value string) (meaning, ref string) {
	if t == nil && e.Other != nil {
		return e.Other(withoutIndexes(path))
	}
	var f *message.Field
	for i, part := range strings.Split(path, ".") {
		name, _, _ := strings.Cut(part, "[")
		if e.Docs != "" && t != nil {
			ref = e.Docs + "reference/objects.html#" + strings.ToLower(t.Name)
			if i == 0 {
				ref = e.Docs + "reference/" + strings.ToLower(t.Name) + ".html#" + strings.ReplaceAll(t.Version.String(), ".", "")
			}
		}
		if f = t.Field(name); f == nil {
			return "not of this message in this version", ref
		}
		if ref != "" {
			ref += "-" + strings.ToLower(name) // the row of the element
		}
		t = f.Of
	}
	return f.Doc + Prefix(": ", e.valueMeaning(f, value)), ref
}

// valueMeaning says what a value means; "" if there is nothing to say.
func (e *Explainer) valueMeaning(f *message.Field, value string) string {
	if f.Codes != nil {
		if meaning := codeMeaning(f.Codes, value); meaning != "" {
			return meaning
		}
	}
	if e.Meaning != nil {
		if meaning := e.Meaning(f.Name, value); meaning != "" {
			return meaning
		}
	}
	if f.Name == "purchaseAmount" {
		return e.Amount
	}
	return ""
}

// withoutIndexes returns a path such as card.schemes[0] without its indexes.
func withoutIndexes(path string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(path, "[")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		_, path, _ = strings.Cut(after, "]")
	}
}

// walkMessage calls visit for each value of a JSON object in its order, with its path.
func walkMessage(d *json.Decoder, visit func(path, value string)) {
	d.UseNumber()
	var walk func(path string) error
	walk = func(path string) error {
		token, err := d.Token()
		if err != nil {
			return err
		}
		delim, isDelim := token.(json.Delim)
		if !isDelim {
			text := fmt.Sprint(token)
			if token == nil {
				text = "null"
			}
			visit(path, text)
			return nil
		}
		for i := 0; d.More(); i++ {
			at := fmt.Sprintf("%s[%d]", path, i)
			if delim == '{' {
				name, err := d.Token()
				if err != nil {
					return err
				}
				at = strings.TrimPrefix(fmt.Sprintf("%s.%v", path, name), ".")
			}
			if err := walk(at); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	}
	_ = walk("") // what can be read is shown
}

func codeMeaning(codes *message.Codes, value string) string {
	i := slices.IndexFunc(codes.Values, func(c message.CodeValue) bool { return c.Value == value })
	if i < 0 {
		return ""
	}
	return codes.Values[i].Meaning
}
