package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/openthreeds/threeds/message"
)

// finderName is the page that has a row for whatever an error can name.
const finderName = "docs/error-finder.md"

const finderHead = `# Find an error

<!-- Made from the tables of other pages by go generate. Do not edit. -->

Look for what your error names, and read its row. The search of this documentation finds the rows, too.

| Your answer has | Look at |
| --- | --- |
| ` + "`errorCode`" + `, three digits | [error codes](#error-codes) |
| ` + "`type`" + `, which begins with ` + "`urn:threeds:problem:`" + ` | [types of problems](#types-of-problems) |
| ` + "`rule`" + ` in an entry of ` + "`errors`" + ` | [rules](#rules) |
| the name of an element, in ` + "`errorDetail`" + ` or ` + "`pointer`" + ` | [the cures of each element](reference/cures.md) |
| only a status of HTTP | [status](#status) |
| a limit or a time that is over | [limits and times](#limits-and-times) |
| ` + "`transStatusReason`" + ` | [codes](reference/codes.md#transstatusreason) |
| ` + "`type`" + ` and ` + "`code`" + ` of an agent's request | [ACP](acp.md) |
| a line of the log, or an alert | [logs](operating/logs.md), [alerts](operating/alerts.md), [troubleshooting](operating/troubleshooting.md) |

` + "`threeds check FILE`" + ` reads a message or a line of the log, and says what the code in it means.
`

// finderPage makes the page from the tables that explain errors, limits and times.
func finderPage(root string) ([]byte, error) {
	pages := map[string]string{}
	for _, name := range []string{"errors.md", "authentications.md", "configuration.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			return nil, err
		}
		pages[name] = linksFrom(name, string(text))
	}
	var b strings.Builder
	b.WriteString(finderHead)
	codes := codesByPart(pages["errors.md"])
	b.WriteString("\n## Error codes\n\n| Code | What it means | Where, and what to do |\n| --- | --- | --- |\n")
	for c := message.Code(100); c < 500; c++ {
		if c.Description() != message.Code(0).Description() {
			where := cmp.Or(strings.Join(codes[c.String()], " · "), betweenServers)
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c, c.Description(), where)
		}
	}
	b.WriteString("\nOther codes come from directory servers and issuers, and are passed on: their detail says why.\n")
	if err := finderTable(&b, pages["authentications.md"], "Types of problems", "| Status | `type` | When |", func(row []string) []string {
		if !strings.Contains(row[1], problemURN) {
			return nil
		}
		var rows []string
		for _, name := range problemName.FindAllString(row[1], -1) {
			if name = strings.Trim(name, "`"); !strings.HasPrefix(name, problemURN) {
				name = problemURN + name
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", name, row[0], row[2]))
		}
		return rows
	}, "| `type` | Status | When, and what to do |"); err != nil {
		return nil, err
	}
	if err := finderTable(&b, pages["authentications.md"], "Rules", "| `rule` | The value |", func(row []string) []string {
		var rows []string
		for name := range strings.SplitSeq(row[0], ", ") {
			rows = append(rows, fmt.Sprintf("| %s | %s |", name, row[1]))
		}
		return rows
	}, "| `rule` | The value |"); err != nil {
		return nil, err
	}
	if err := finderTable(&b, pages["errors.md"], "Status", "| Status | Body | Do |", func(row []string) []string {
		return []string{"| " + strings.Join(row, " | ") + " |"}
	}, "| Status | Body | Do |"); err != nil {
		return nil, err
	}
	if err := finderTable(&b, pages["configuration.md"], "Limits and times", "| Key | Value | Default | |", func(row []string) []string {
		if !limitKey.MatchString(row[0]) {
			return nil
		}
		return []string{fmt.Sprintf("| %s | %s | %s |", row[0], row[2], row[3])}
	}, "| Key of the [configuration](configuration.md#all-keys) | Default | What it limits |"); err != nil {
		return nil, err
	}
	b.WriteString("\n[Overload and limits](operating/overload.md) says what an operator does about them.\n")
	return []byte(b.String()), nil
}

// betweenServers is said of a code that no requestor gets from this server.
const betweenServers = "only between servers. If you received it, a directory server or an issuer sent it, and its `errorDetail` says why"

const problemURN = "urn:threeds:problem:"

var (
	problemName = regexp.MustCompile("`" + problemURN + "[a-z-]+`|`[a-z-]+`")
	limitKey    = regexp.MustCompile("^`(?:limits|timeouts)\\.")
	codeOfRow   = regexp.MustCompile(`\b[1-4]\d\d\b`)
	codeOfErro  = regexp.MustCompile("`Erro` ([1-4]\\d\\d)")
	ownAnchor   = regexp.MustCompile(`\]\(#`)
)

// linksFrom makes the links of a page to itself into links that lead there from another page.
func linksFrom(name, text string) string { return ownAnchor.ReplaceAllString(text, "]("+name+"#") }

// finderTable writes a section with what rows makes of each row of a table, which begins with a head.
func finderTable(b *strings.Builder, page, section, head string, rows func(cells []string) []string, newHead string) error {
	_, table, isThere := strings.Cut(page, "\n"+head+"\n")
	if !isThere {
		return fmt.Errorf("docgen: %s: no table begins with %s", finderName, head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	fmt.Fprintf(b, "\n## %s\n\n%s\n%s", section, newHead, divider(newHead))
	n := 0
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| ---") {
			continue
		}
		for _, row := range rows(cellsOf(line)) {
			b.WriteString(row + "\n")
			n++
		}
	}
	if n == 0 {
		return fmt.Errorf("docgen: %s: the table %s has no row", finderName, head)
	}
	return nil
}

// cellsOf returns the cells of a line of a table.
func cellsOf(line string) []string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// codesByPart returns for each error code the parts of errors.md that have a row for it, each with what to do.
func codesByPart(page string) map[string][]string {
	all := map[string][]string{}
	var part string
	for line := range strings.Lines(page) {
		if heading, isHeading := strings.CutPrefix(line, "## "); isHeading {
			part = strings.TrimSpace(heading)
		}
		cells := cellsOf(line)
		if !strings.HasPrefix(line, "| ") || len(cells) < 3 || part == "" {
			continue
		}
		found := codeOfRow.FindAllString(cells[0], -1)
		if part == "Status" {
			found = nil
			for _, m := range codeOfErro.FindAllStringSubmatch(cells[1], -1) {
				found = append(found, m[1])
			}
		}
		for _, code := range found {
			all[code] = append(all[code], fmt.Sprintf("[%s](errors.md#%s): %s", part, anchor(part), cells[len(cells)-1]))
		}
	}
	return all
}
