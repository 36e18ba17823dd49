package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/extension"
)

// extensions returns the page of the message extensions whose content is public.
func extensions() []byte {
	var b bytes.Buffer
	b.WriteString("# Message extensions\n\n" + generated + `
These are the extensions whose content is public. A requestor writes the fields of those that an AReq carries in
` + "`extensions`" + `, or the whole extension in ` + "`messageExtension`" + `: see [message extensions](../api.md#message-extensions).

How to read the tables: [fields of every message](README.md). R is required; other members are optional.
`)
	for _, e := range extension.All() {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n| | |\n| --- | --- |\n", e.Word, upper(e.Doc))
		id := "`" + e.ID + "`"
		if e.ID == "" {
			id = "not public; `daf_extension` of the directory in the [configuration](../configuration.md)"
		}
		fmt.Fprintf(&b, "| Id | %s |\n| Name | %s |\n| Versions of the protocol | %s |\n", id, e.Name, versionList(versionsFrom(e.From, e.Until)))
		if e.Versions != nil {
			fmt.Fprintf(&b, "| Versions of the extension | %s |\n", strings.Join(e.Versions, ", "))
		}
		if e.Schemes != nil {
			fmt.Fprintf(&b, "| Schemes | `%s` |\n", strings.Join(e.Schemes, "`, `"))
		}
		if e.Channels != nil {
			fmt.Fprintf(&b, "| Channels | %v |\n", e.Channels)
		}
		if e.OnlyListed {
			b.WriteString("| Sent | only to cards whose range lists it |\n")
		}
		source := e.Source
		if !e.Sure {
			source += "; the form of the data is not certain"
		}
		fmt.Fprintf(&b, "| Source | %s |\n", source)
		for _, t := range e.Types() {
			fmt.Fprintf(&b, "\n**%s**\n\n| Member of the data | | Value | |\n| --- | --- | --- | --- |\n", t)
			prefix := ""
			if e.Keyed {
				prefix = e.ID + "."
			}
			extensionRows(&b, e.Table(t), prefix)
		}
	}
	return b.Bytes()
}

// extensionRows writes the rows of a table, and those of the tables in it, with whole paths.
func extensionRows(b *bytes.Buffer, t *message.Table, prefix string) {
	for i := range t.Fields {
		f := &t.Fields[i]
		need := ""
		if f.Need.At(message.BRW, message.PA) == 'R' {
			need = "R"
		}
		value := ""
		switch {
		case f.Of != nil && f.Array:
			value = "array" + countOf(f) + " of objects"
		case f.Of != nil:
			value = "object"
		case f.Kind == message.OneOf && f.List == "":
			value = inlineCodes(f.Codes)
		default:
			value = valueOf(f)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s. |\n", prefix+f.Name, need, strings.ReplaceAll(value, "|", "\\|"), upper(f.Doc))
		if f.Of != nil {
			inner := prefix + f.Name
			if f.Array {
				inner += "[]"
			}
			extensionRows(b, f.Of, inner+".")
		}
	}
}

// inlineCodes returns the codes of a list that only one extension has.
func inlineCodes(c *message.Codes) string {
	var words []string
	for _, v := range c.Values {
		words = append(words, strings.TrimSpace(fmt.Sprintf("`%s` %s", v.Value, v.Meaning)))
	}
	return strings.Join(words, "; ")
}

// versionsFrom returns the versions from one to another.
func versionsFrom(from, until message.Version) []message.Version {
	var all []message.Version
	for _, v := range message.Versions() {
		if from <= v && v <= until {
			all = append(all, v)
		}
	}
	return all
}
