package cmdline

import (
	"strings"
)

// The widths of what [Usage] prints, in characters.
const (
	usageWidth  = 96
	indentForm  = 4
	indentMore  = 20 // lines of a form that continue it
	indentWords = 8
)

// Usage returns how each command is called and what it does. Commands of a group that stand together with the same
// words are one entry, such as "merchant add|set".
func Usage(all []Command) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	writeUsage(&b, "threeds", all)
	return b.String()
}

func writeUsage(b *strings.Builder, of string, all []Command) {
	for len(all) > 0 {
		c, names := all[0], all[0].Name
		for all = all[1:]; len(all) > 0 && c.Takes == all[0].Takes && c.Does == all[0].Does; all = all[1:] {
			names += "|" + all[0].Name
		}
		if len(c.Commands) > 0 {
			writeUsage(b, of+" "+names, c.Commands)
			continue
		}
		for _, form := range c.forms() {
			wrap(b, append([]string{of + " " + names}, splitForm(form.Takes)...), indentForm, indentMore)
			wrap(b, strings.Fields(form.Does), indentWords, indentWords)
		}
	}
}

// forms returns all ways to call a command.
func (c *Command) forms() []Form { return append([]Form{{c.Takes, c.Does}}, c.Other...) }

// splitForm splits a form where a line may be broken: not in brackets, nor between a flag and its value.
func splitForm(takes string) (parts []string) {
	depth, isFlag := 0, false
	for _, word := range strings.Fields(takes) {
		if depth > 0 || isFlag && !strings.HasPrefix(word, "[") {
			parts[len(parts)-1] += " " + word
		} else {
			parts = append(parts, word)
		}
		isFlag = strings.HasPrefix(word, "--")
		depth += strings.Count(word, "[") + strings.Count(word, "(") - strings.Count(word, "]") - strings.Count(word, ")")
	}
	return parts
}

// wrap writes parts in lines of at most usageWidth characters. The first line is indented by first, the others by more.
func wrap(b *strings.Builder, parts []string, first, more int) {
	line := strings.Repeat(" ", first)
	for i, part := range parts {
		switch {
		case i == 0:
			line += part
		case len(line)+1+len(part) > usageWidth:
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", more) + part
		default:
			line += " " + part
		}
	}
	b.WriteString(line + "\n")
}
