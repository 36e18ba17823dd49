package main

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/cmdline"
)

// printed returns what a command line prints.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := run(t.Context(), args, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("threeds %s: exit status %d, %s", strings.Join(args, " "), code, errs.String())
	}
	return out.String()
}

// findProgram returns the path of a program, or skips the test.
func findProgram(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("SKIPPED: %s is not on this machine, so nothing is known of what it makes of our files", name)
	}
	return path
}

// TestEveryCompletionScriptHasAllCommandsAndFlags: no shell lacks a command or a flag that --help of the command names.
func TestEveryCompletionScriptHasAllCommandsAndFlags(t *testing.T) {
	flag := map[string]string{"bash": "--%", "zsh": "--%", "fish": "-l %", "powershell": "--%"}
	for _, shell := range cmdline.Shells() {
		script := printed(t, "completion", shell)
		// What a script says of a command stands behind its name.
		parts := regexp.MustCompile(`(?m)^ *\(?["']([a-z ]+)["'](?:\)| \{)$`).FindAllStringSubmatchIndex(script, -1)
		of := map[string]string{}
		for i, at := range parts {
			end := len(script)
			if i+1 < len(parts) {
				end = parts[i+1][0]
			}
			of[script[at[2]:at[3]]] = script[at[0]:end]
		}
		for _, line := range regexp.MustCompile(`(?m)^complete .*__threeds_is "([a-z ]*)"' (.*)$`).FindAllStringSubmatch(script, -1) {
			of[line[1]] += line[2] + "\n"
		}
		checked := 0
		for name, flags := range flagsByCommand(t) {
			if of[name] == "" {
				t.Errorf("%s does not complete %s", shell, name)
				continue
			}
			group, word := "", name
			if i := strings.LastIndex(name, " "); i >= 0 {
				group, word = name[:i], name[i+1:]
			}
			if group != "" && !regexp.MustCompile(`\b`+word+`\b`).MatchString(of[group]) {
				t.Errorf("%s does not offer %s behind %s", shell, word, group)
			}
			for _, f := range flags {
				want := strings.ReplaceAll(flag[shell], "%", strings.TrimPrefix(f, "--"))
				if !regexp.MustCompile(regexp.QuoteMeta(want) + `($|[^a-z-])`).MatchString(of[name]) {
					t.Errorf("%s does not offer %s of %s", shell, f, name)
				}
				checked++
			}
		}
		if checked < 100 {
			t.Errorf("%s: only %d flags were looked for", shell, checked)
		}
	}
}

// completions are command lines, the last word being typed, and what a shell offers. An empty word is one not begun.
var completions = []struct {
	line, want string
	isOnly     bool // nothing else is offered
}{
	{"hea", "health", true},
	{"", "serve key completion man", false},
	{"key ", "create list revoke rotate wrap", true},
	{"key cre", "create", true},
	{"key create --na", "--name", true},
	{"key create ", "--name --config --help", false},
	{"token create --role ", "viewer operator admin", true},
	{"token create --role op", "operator", true},
	{"journal export --format ", "jsonl csv", true},
	{"merchant set --scheme-rules ", "off warn enforce", true},
	{"check --scheme mas", "mastercard", true},
	{"ranges export vi", "visa", true},
	{"operator role jo ad", "admin", true},
	{"webhook events --type authentication.comp", "authentication.completed", true},
	{"audit search --action key.cr", "key.create", true},
	{"completion po", "powershell", true},
	{"serve --config some-f", "some-file.yaml", true},
	{"man som", "some-dir", true},
	{"journal archive som", "some-dir", true},
	{"journal ho", "hold", true},
	{"journal hold ", "add list lift", true},
	{"journal hold add --mer", "--merchant", true},
	{"journal archive --be", "--before", true},
	{"journal forget --be", "--before", true},
	{"journal verify --archive som", "some-dir", true},
	{"journal search --archive som", "some-dir", true},
	{"check some-f", "some-file.yaml", true},
	{"key create --name ", "", true},
}

// checkCompletions holds what a shell offers for each line against what it should.
func checkCompletions(t *testing.T, complete func(words []string) string) {
	t.Helper()
	for _, tt := range completions {
		words := append([]string{"threeds"}, strings.Split(tt.line, " ")...)
		var got []string
		for line := range strings.Lines(complete(words)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, strings.TrimSuffix(word, "/"))
		}
		want := strings.Fields(tt.want)
		for _, word := range want {
			if !slices.Contains(got, word) {
				t.Errorf("threeds %s: %q is not among %q", tt.line, word, got)
			}
		}
		if tt.isOnly && len(got) != len(want) {
			t.Errorf("threeds %s: offers %q, want %q", tt.line, got, want)
		}
	}
}

// prepareShell makes files to be completed in a new working directory, and the script of a shell beside it.
func prepareShell(t *testing.T, shell string) (script string) {
	t.Helper()
	script = filepath.Join(t.TempDir(), "script")
	writeFile(t, script, []byte(printed(t, "completion", shell)))
	dir := t.TempDir()
	t.Chdir(dir)
	writeFile(t, "some-file.yaml", nil)
	_ = printed(t, "man", "some-dir") // a directory with files
	return script
}

// runShell runs a line of a shell and returns what it prints.
func runShell(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", args[0], err, out)
	}
	return string(out)
}

// TestBashCompletesCommandLines: bash itself, with the script.
func TestBashCompletesCommandLines(t *testing.T) {
	bash := findProgram(t, "bash")
	script := prepareShell(t, "bash")
	if got := runShell(t, bash, "--norc", "-c", `source "$0"; complete -p threeds`, script); got != "complete -F _threeds threeds\n" {
		t.Errorf("registered: %q", got)
	}
	const ask = `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _threeds; printf '%s\n' "${COMPREPLY[@]}"`
	complete := func(words []string) string {
		return strings.TrimPrefix(runShell(t, append([]string{bash, "--norc", "-c", ask, script}, words...)...), "\n")
	}
	checkCompletions(t, complete)
	// Between a flag and its value bash makes a word of the equals sign.
	for last, want := range map[string]string{"=": "viewer\noperator\nadmin\n", "= vi": "viewer\n"} {
		words := append([]string{"threeds", "token", "create", "--role"}, strings.Fields(last)...)
		if got := complete(words); got != want {
			t.Errorf("--role%s: %q, want %q", last, got, want)
		}
	}
}

// TestZshCompletesCommandLines: zsh runs the function of the script. Functions of its own stand for those that show
// what is offered.
func TestZshCompletesCommandLines(t *testing.T) {
	zsh := findProgram(t, "zsh")
	script := prepareShell(t, "zsh")
	const ask = `
compdef() { registered=$1 }
offer() { local w; for w in "$@"; do [[ $w == $PREFIX* ]] && print -r -- $w; done; return 0 }
compadd() { offer ${(P)2} }
_describe() { offer ${${(P)@[-1]}%%:*} }
_files() { if [[ $1 == -/ ]]; then offer *(/N); else offer *(N); fi }
source $0
[[ $registered == _threeds ]] || exit 3
words=("$@") CURRENT=$# PREFIX=${@[-1]}
_threeds`
	checkCompletions(t, func(words []string) string {
		return runShell(t, append([]string{zsh, "-f", "-c", ask, script}, words...)...)
	})
}

// TestFishCompletesCommandLines: fish itself, with the script.
func TestFishCompletesCommandLines(t *testing.T) {
	fish := findProgram(t, "fish")
	script := prepareShell(t, "fish")
	t.Setenv("HOME", t.TempDir())
	checkCompletions(t, func(words []string) string {
		line := strings.Join(words, " ")
		if strings.HasSuffix(line, "create ") {
			line += "-" // fish offers flags when a dash is typed
		}
		return runShell(t, fish, "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", script, line)
	})
}

// TestPowerShellReadsTheScript: it has no error that PowerShell notices.
func TestPowerShellReadsTheScript(t *testing.T) {
	pwsh := findProgram(t, "pwsh")
	script := prepareShell(t, "powershell")
	const ask = `. ([scriptblock]::Create((Get-Content -Raw $args[0])))
(TabExpansion2 -inputScript 'threeds token create --role ' -cursorColumn 28).CompletionMatches.CompletionText`
	if got := runShell(t, pwsh, "-NoProfile", "-Command", "& {"+ask+"} "+script); strings.Join(strings.Fields(got), " ") != "viewer operator admin" {
		t.Errorf("offers %q", got)
	}
}

// TestManPagesHaveAllCommandsAndFlags: threeds.1 names each command, and its page has all of its flags.
func TestManPagesHaveAllCommandsAndFlags(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "man1")
	_ = printed(t, "man", dir)
	_ = printed(t, "man", dir) // takes the place of the first
	page := func(name string) string {
		return strings.ReplaceAll(string(readFile(t, filepath.Join(dir, name))), `\-`, "-")
	}
	overview := page("threeds.1")
	pages := map[string]bool{"threeds.1": true}
	for name, flags := range flagsByCommand(t) {
		first, _, isGrouped := strings.Cut(name, " ")
		file := "threeds-" + first + ".1"
		pages[file] = true
		text := page(file)
		if !strings.Contains(overview, ".BR threeds-"+first+" (1)\n") {
			t.Errorf("threeds.1 does not name %s", first)
		}
		if isGrouped {
			_, behind, ok := strings.Cut(text, ".SS \"threeds "+name+"\"\n")
			if !ok {
				t.Errorf("%s has no part for %s", file, name)
			}
			text, _, _ = strings.Cut(behind, "\n.SS ")
		}
		for _, f := range flags {
			if !regexp.MustCompile(`(?m)^\.BI? ` + f + `( |$)`).MatchString(text) {
				t.Errorf("%s does not name %s of %s", file, f, name)
			}
		}
	}
	if files := listFiles(t, dir); len(files) != len(pages) {
		t.Errorf("%d pages, want %q", len(files), slices.Sorted(maps.Keys(pages)))
	}
}

// TestManPagesAreReadWithoutWarnings: by the programs that show them.
func TestManPagesAreReadWithoutWarnings(t *testing.T) {
	dir := t.TempDir()
	_ = printed(t, "man", dir)
	for _, reader := range [][]string{{"groff", "-man", "-ww", "-Tutf8"}, {"mandoc", "-Tlint", "-Wwarning"}} {
		t.Run(reader[0], func(t *testing.T) {
			program := findProgram(t, reader[0])
			for _, file := range listFiles(t, dir) {
				cmd := exec.CommandContext(t.Context(), program, append(reader[1:], file)...)
				var warnings strings.Builder
				cmd.Stderr = &warnings
				out, err := cmd.Output()
				if reader[0] == "mandoc" {
					warnings.Write(out) // where it says what is wrong
				}
				if err != nil || warnings.Len() > 0 {
					t.Errorf("%s: %v\n%s", filepath.Base(file), err, warnings.String())
				}
			}
		})
	}
}

// TestVersionInJSONIsThatInWords: scripts read the same as people.
func TestVersionInJSONIsThatInWords(t *testing.T) {
	var b struct {
		Version, Commit, Date, Go string
		Modified                  bool
	}
	must(t, json.Unmarshal([]byte(printed(t, "version", "--json")), &b))
	words := printed(t, "version")
	if b.Version == "" || b.Go == "" || !strings.HasPrefix(words, "threeds "+b.Version) || !strings.HasSuffix(words, ", "+b.Go+"\n") {
		t.Errorf("%+v, in words %q", b, words)
	}
	if b.Commit != "" && !strings.Contains(words, ", commit "+b.Commit[:12]) || !strings.Contains(words, b.Date) {
		t.Errorf("%+v, in words %q", b, words)
	}
}
