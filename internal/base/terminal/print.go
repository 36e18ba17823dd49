package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// WriteJSON writes a value in JSON that people can read.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// NewTable returns a writer of columns, which tabs separate, below their heads.
func NewTable(w io.Writer, heads string) *tabwriter.Writer {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, heads)
	return table
}

// WriteList writes values in JSON, or a table of them: line returns the columns of one.
func WriteList[T any](w io.Writer, asJSON bool, all []T, heads string, line func(T) string) error {
	if asJSON {
		return WriteJSON(w, all)
	}
	table := NewTable(w, heads)
	for _, v := range all {
		fmt.Fprintln(table, line(v))
	}
	return table.Flush()
}

// OneLine returns a text that others wrote so that it fits a terminal and a table.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
}

// Count returns a number of things in words: the name of one becomes that of many, an entry that of entries.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "ry"); ok {
		return fmt.Sprintf("%d %sries", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
