// Package difftest shows in tests what differs between two values. Use [Diff] where a test has a value that it wants
// and one that it got, and both are long. [SumFiles] sums up a folder.
package difftest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// contextLines is how many equal lines are shown before and after those that differ.
const contextLines = 3

// Diff returns "" if the values are equal in the sense of [reflect.DeepEqual]. Otherwise it returns their text, line by
// line: a line of want begins with "-", one of got with "+", and one of both with a space. Equal lines at the beginning
// and at the end are left out, except three.
//
// An empty slice and nil are different values, as are values of different types.
func Diff(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	wantText, gotText := pretty(want), pretty(got)
	if wantText == gotText { // JSON shows neither types nor fields that are not exported
		wantText, gotText = fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", got)
	}
	return lines(strings.Split(wantText, "\n"), strings.Split(gotText, "\n"))
}

// pretty returns the text of a value: a string as it is, anything else as indented JSON or, if it has no
// JSON, in the way of fmt.
func pretty(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprintf("%+v", value)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// lines returns the difference between two lists of lines that differ, or whose values differ
// although the lines do not.
func lines(want, got []string) string {
	first := 0
	for first < min(len(want), len(got)) && want[first] == got[first] {
		first++
	}
	last := 0 // counted from the end
	for last < min(len(want), len(got))-first && want[len(want)-1-last] == got[len(got)-1-last] {
		last++
	}
	var text strings.Builder
	show := func(sign string, lines []string) {
		for _, line := range lines {
			text.WriteString(sign + line + "\n")
		}
	}
	if first > contextLines {
		text.WriteString("  ...\n")
	}
	show("  ", want[max(0, first-contextLines):first])
	show("- ", want[first:len(want)-last])
	show("+ ", got[first:len(got)-last])
	show("  ", want[len(want)-last:len(want)-last+min(last, contextLines)])
	if last > contextLines {
		text.WriteString("  ...\n")
	}
	return text.String()
}
