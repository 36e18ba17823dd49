package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
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

// Span returns a duration as people say it. One below zero is none.
func Span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Bytes returns a size as people say it, "-" if it is not known.
func Bytes(size *int64) string {
	if size == nil {
		return "-"
	}
	n, unit := float64(*size)/1024, "KiB"
	for _, next := range []string{"MiB", "GiB", "TiB"} {
		if n < 1024 {
			break
		}
		n, unit = n/1024, next
	}
	return fmt.Sprintf("%.0f %s", n, unit)
}
