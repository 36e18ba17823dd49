package conformance

import (
	"fmt"
	"io"
	"strings"
)

// Page writes the report as docs/conformance.md: for everybody who wants to
// know what is shown, and by what.
func (r *Report) Page(w io.Writer) error {
	var b strings.Builder
	b.WriteString(`# Conformance

What EMV 3-D Secure asks of a 3DS Server, one row for each obligation, and what shows that this server does it. Made from a
run of the suite in [testing/conformance](../testing/conformance); do not edit it. ` + "`make conformance`" + ` runs the suite as a test,
` + "`go -C testing run ./cmd/threeds-conform`" + ` as a program, which checks other servers, too.

- **black box**: a check that starts the program with directory servers under control, and changes one thing. Unit tests
  that are named beside it show what a check would have to wait for too long.
- **demo shop**: a check of the sandbox's shop. The duty is that of the requestor's page, and your page has it too; the
  row says nothing about the server.
- **unit test**: what cannot be seen from outside, such as a wait of a week.
- **docs**: what somebody else has to do is said there.
- **not applicable**: the row asks nothing of a server such as this one.
- **deviation**: the server deliberately does something else.
- **missing**: a feature that the server does not have.
- **open**: nothing shows it yet.

| Group | Rows | Black box | Demo shop | Unit test | Docs | Not applicable | Deviation | Missing | Open | Failing |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`)
	r.counts(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", "**all**")
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s: %s\n\n| Row | Versions | What | Shown by |\n| --- | --- | --- | --- |\n", g.prefix, g.name)
		for _, v := range r.of(g.prefix + "-") {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", v.ID, v.Versions, v.Text, v.shownBy())
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shownBy is the last cell of a row.
func (v Verdict) shownBy() string {
	tests := "unit test: `" + strings.Join(Row{How: v.How, By: v.By}.unitTests(), "`, `") + "`"
	switch v.How {
	case Box, Shop:
		cell := map[How]string{Box: "black box", Shop: "demo shop"}[v.How]
		if v.By != "" {
			cell += "; " + tests
		}
		if len(v.Faults) > 0 {
			cell += ": **failing**"
		}
		return cell
	case Unit:
		return tests
	case Docs:
		var links []string
		for file := range strings.FieldsSeq(v.By) {
			links = append(links, fmt.Sprintf("[%s](../%[1]s)", file))
		}
		return "docs: " + strings.Join(links, ", ")
	case NotApplicable:
		return "not applicable: " + v.By
	case Deviation:
		return "deviation: " + v.By
	case Missing:
		return "missing: " + v.By
	}
	return "open: " + v.By
}
