package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/cmdline"
)

// TestHelpNamesEveryFlag: "threeds help" has each command, and each flag that the command says it takes. The settings
// of a merchant are many, and "threeds merchant set --help" has them.
func TestHelpNamesEveryFlag(t *testing.T) {
	help := map[string]string{} // by command: its synopsis
	var usage, errs strings.Builder
	if code := run(t.Context(), []string{"help"}, nil, &usage, &errs); code != 0 {
		t.Fatalf("exit status %d, %s", code, errs.String())
	}
	for block := range strings.SplitSeq(usage.String(), "\n    threeds ") {
		synopsis, _, _ := strings.Cut(block, "\n        ") // the text is indented deeper, and lines of flags deeper still
		for rest := block[len(synopsis):]; strings.HasPrefix(strings.TrimSpace(rest), "["); {
			line, more, _ := strings.Cut(strings.TrimPrefix(rest, "\n"), "\n")
			synopsis, rest = synopsis+line, "\n"+more
		}
		words := strings.Fields(synopsis)
		name := words[0]
		isName := regexp.MustCompile(`^[a-z|]+$`)
		if len(words) > 1 && isName.MatchString(words[1]) {
			for sub := range strings.SplitSeq(words[1], "|") {
				help[name+" "+sub] += synopsis
				if len(words) > 2 && isName.MatchString(words[2]) { // a command of a group in a group
					help[name+" "+sub+" "+words[2]] += synopsis
				}
			}
		}
		help[name] += synopsis
	}
	checked := 0
	for name, flags := range flagsByCommand(t) {
		if help[name] == "" {
			t.Errorf("help does not name %s", name)
		}
		for _, flag := range flags {
			isSetting := strings.HasPrefix(name, "merchant ") && strings.Contains(help[name], "[--SETTING VALUE]")
			if !isSetting && !regexp.MustCompile(flag+`\b`).MatchString(help[name]) {
				t.Errorf("help does not say that %s takes %s", name, flag)
			}
			checked++
		}
	}
	if checked < 100 {
		t.Errorf("only %d flags were looked for: the test shows little", checked)
	}
}

// flagsByCommand returns the flags of each command, as its --help has them. A command of a group is "key create".
func flagsByCommand(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	var look func(name string)
	look = func(name string) {
		var out, errs strings.Builder
		if code := run(t.Context(), append(strings.Fields(name), "--help"), nil, &out, &errs); code != 0 {
			t.Errorf("%s --help: exit status %d, %s", name, code, errs.String())
			return
		}
		if _, list, isGroup := strings.Cut(out.String(), "takes a command: "); isGroup {
			for _, sub := range strings.Fields(strings.NewReplacer(",", "", " or ", " ").Replace(list)) {
				look(name + " " + sub)
			}
			return
		}
		all[name] = []string{}
		for _, m := range regexp.MustCompile(`(?m)^    (--[a-z0-9-]+): `).FindAllStringSubmatch(out.String(), -1) {
			all[name] = append(all[name], m[1])
		}
	}
	for _, name := range cmdline.Names(commands()) {
		look(name)
	}
	return all
}

// TestPagesNameCommandsAndFlagsThatExist: what the pages give to a shell, or name between backticks, is a command of
// the program with flags that it takes.
func TestPagesNameCommandsAndFlagsThatExist(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/design/*.md", "docs/operating/*.md", "deploy/*.yaml", "deploy/*/*"} {
		found, err := filepath.Glob("../../" + pattern)
		must(t, err)
		pages = append(pages, found...)
	}
	all := flagsByCommand(t)
	groups := map[string]bool{}
	for name := range all {
		for i := strings.LastIndexByte(name, ' '); i > 0; i = strings.LastIndexByte(name, ' ') {
			name = name[:i]
			groups[name] = true
		}
	}
	line := regexp.MustCompile("(?m)(?:^|^[$#] |`|[$]\\()threeds ([a-z]+)((?: [a-z]+){0,2})([^`\n]*)")
	flag := regexp.MustCompile(` (--[a-z][a-z0-9-]*)`)
	checked := 0
	for _, page := range pages {
		info, err := os.Stat(page)
		if err != nil || info.IsDir() {
			continue
		}
		text := strings.ReplaceAll(string(readFile(t, page)), "\\\n", " ")
		for _, m := range line.FindAllStringSubmatch(text, -1) {
			name := m[1]
			isTyped := m[0][0] != 't' || flag.MatchString(m[0]) // a sentence may begin with the name of the program
			for _, word := range strings.Fields(m[2]) {
				if groups[name] {
					name += " " + word
				}
			}
			flags, exists := all[name]
			if !exists && !groups[name] && name != "help" && isTyped {
				t.Errorf("%s: there is no command: %s", page, m[0])
			}
			for _, f := range flag.FindAllStringSubmatch(m[2]+m[3], -1) {
				if exists && f[1] != "--help" && !slices.Contains(flags, f[1]) {
					t.Errorf("%s: %s does not take %s: %s", page, name, f[1], m[0])
				}
				checked++
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d flags were looked at: the test shows little", checked)
	}
}

// TestUsageErrorsShowNoCardNumber: what is typed in the wrong place may be a card number, and errors go into logs.
func TestUsageErrorsShowNoCardNumber(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, line := range []string{
		"CARD", "journal CARD", "config CARD", "key CARD", "key list CARD", "key list --CARD", "key create --expires CARD",
		"key create --allow CARD", "journal search --last4 CARD", "journal search --limit CARD", "journal search --from CARD",
		"journal search --card CARD", "journal erase --yes --merchant CARD", "webhook events --limit CARD", "explain --as-of CARD x",
		"ranges lookup CARD x", "journal billing --from CARD", "journal forget --before CARD",
	} {
		var out, errs strings.Builder
		args := strings.Fields(strings.ReplaceAll(line, "CARD", "4000001234567899"))
		if code := run(t.Context(), args, strings.NewReader(""), &out, &errs); code != 2 {
			t.Errorf("%s: exit status %d, want 2: %s", line, code, errs.String())
		}
		if strings.Contains(out.String()+errs.String(), "1234567899") {
			t.Errorf("%s: the error shows the number: %s", line, errs.String())
		}
	}
}

// TestGroupsOfCommandsSayWhatTheyTake: help for a group is help, whichever group it is.
func TestGroupsOfCommandsSayWhatTheyTake(t *testing.T) {
	for _, group := range []string{"key", "merchant", "webhook", "ranges", "cert", "journal", "token", "operator", "audit", "config"} {
		for _, flag := range []string{"-h", "-help", "--help"} {
			var out, errs strings.Builder
			code := run(t.Context(), []string{group, flag}, nil, &out, &errs)
			if code != 0 || !strings.HasPrefix(out.String(), "threeds "+group+" takes a command: ") || errs.Len() > 0 {
				t.Errorf("%s %s: exit status %d, %q, %q", group, flag, code, out.String(), errs.String())
			}
		}
		if !slices.Contains(cmdline.Names(commands()), group) {
			t.Errorf("%s is no command", group)
		}
	}
}
