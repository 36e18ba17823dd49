package journal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

var (
	namedLine = regexp.MustCompile("\\blines? `([^`]+)`")
	inTicks   = regexp.MustCompile("`([^`]+)`")
)

// loggedMessages are the messages of all log lines in the source, and for each the names
// of its members.
func loggedMessages(t *testing.T) map[string][]string {
	t.Helper()
	logged := map[string][]string{}
	root := rig.Root
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			var texts []string
			for _, arg := range call.Args {
				if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						texts = append(texts, text)
					}
				}
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			levels := []string{"Debug", "Info", "Warn", "Error", "LogAttrs", "DebugContext", "InfoContext", "WarnContext", "ErrorContext"}
			if ok && slices.Contains(levels, method.Sel.Name) && len(texts) > 0 {
				logged[texts[0]] = append(logged[texts[0]], texts[1:]...)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return logged
}

// requestMembers are the members of the line "request", by the table of docs/operating/logs.md.
func requestMembers(t *testing.T, page string) []string {
	t.Helper()
	_, table, ok := strings.Cut(page, "| Member | What it is |\n")
	if !ok {
		t.Fatal("docs/operating/logs.md has no table of members")
	}
	var all []string
	for row := range strings.Lines(table) {
		if !strings.HasPrefix(row, "|") {
			break
		}
		for _, m := range inTicks.FindAllStringSubmatch(strings.SplitN(row, "|", 3)[1], -1) {
			all = append(all, m[1])
		}
	}
	return all
}

// runbooks are the sections of the alert pages in docs/operating, by alert.
func runbooks(page string) map[string]string {
	all := map[string]string{}
	for section := range strings.SplitSeq(page, "\n### ") {
		title, text, _ := strings.Cut(section, "\n")
		if strings.HasPrefix(title, "Threeds") {
			text, _, _ = strings.Cut(text, "\n## ")
			text = strings.ReplaceAll(text, "\n\n", ". ") // a paragraph ends a sentence
			all[title] = strings.ReplaceAll(text, "\n", " ")
		}
	}
	return all
}

// TestRunbooksNameLinesOfTheLog: each line of the log that a runbook sends an operator to
// is one that the program writes, and has the members that the runbook names.
func TestRunbooksNameLinesOfTheLog(t *testing.T) {
	t.Parallel()
	page := func(name string) string { return string(rig.ReadFile(t, "../../../docs/operating/"+name)) }
	logged, members, checked := loggedMessages(t), requestMembers(t, page("logs.md")), 0
	for alert, text := range runbooks(page("alerts.md") + "\n" + page("alerts-state.md")) {
		for sentence := range strings.SplitSeq(text, ". ") {
			lines := namedLine.FindAllStringSubmatch(sentence, -1)
			var may []string
			for _, line := range lines {
				message := strings.Join(strings.Fields(line[1]), " ")
				if _, ok := logged[message]; !ok {
					t.Errorf("%s names the line %q, which nothing writes", alert, message)
				}
				may = append(may, logged[message]...)
				if message == "request" {
					may = append(may, members...)
				}
				checked++
			}
			for _, tick := range inTicks.FindAllStringSubmatch(sentence, -1) {
				isLine := slices.ContainsFunc(lines, func(line []string) bool { return line[1] == tick[1] })
				isMember := regexp.MustCompile(`^[a-z][A-Za-z0-9]+$`).MatchString(tick[1]) && !strings.Contains(sentence, "`"+tick[1]+"` is")
				if len(lines) > 0 && !isLine && isMember && !slices.Contains(may, tick[1]) {
					t.Errorf("%s: the lines %v have no member %s: %s", alert, lines, tick[1], sentence)
				}
			}
		}
	}
	if checked < 8 {
		t.Errorf("only %d lines are named: the test shows little", checked)
	}
}

// TestG11MembersAreDocumented: the table of members in docs/operating/logs.md is complete, by a
// script of all kinds of request.
func TestG11MembersAreDocumented(t *testing.T) {
	t.Parallel()
	data := rig.ReadFile(t, "../../../docs/operating/logs.md")
	s := rig.StartLegacy(t)
	d := newDay(s)
	d.preauths()
	d.auths()
	d.directoryFaults()
	d.results()
	d.former()
	documented, seen := requestMembers(t, string(data)), map[string]bool{}
	for _, line := range requestLines(t, s.Log.String()) {
		for member := range line {
			if !slices.Contains([]string{"time", "level", "msg"}, member) {
				seen[member] = true
			}
		}
	}
	for member := range seen {
		if !slices.Contains(documented, member) {
			t.Errorf("the line has %s, which docs/operating/logs.md does not explain", member)
		}
	}
	for _, member := range documented {
		if !seen[member] {
			t.Errorf("docs/operating/logs.md explains %s, which no line has", member)
		}
	}
}
