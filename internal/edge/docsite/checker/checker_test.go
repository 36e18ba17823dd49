package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/openthreeds/threeds/internal/engine/verdict"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

// root is the folder of the module.
const root = "../../../.."

// FuzzTheBrowserSaysWhatTheCommandSays: the checker as it is built for browsers, run by Node, gives the verdict of the
// native code on each text, byte for byte. The seeds are all messages of the tests of this module. It needs the
// compiler for another platform, so it runs if CHECKER is set or while it is fuzzed.
func FuzzTheBrowserSaysWhatTheCommandSays(f *testing.F) {
	if os.Getenv("CHECKER") == "" && flag.Lookup("test.fuzz").Value.String() == "" {
		f.Skip("NOT TESTED: the checker for browsers: go -C testing run ./long checker")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		f.Skip("NOT TESTED: the checker for browsers: there is no program node")
	}
	ask := start(f, node)
	seeds := 0
	for _, text := range messages(f) {
		for command := range commands {
			for _, of := range []int{0, 1 + seeds%len(scheme.Names())} {
				f.Add(text, command, of)
				seeds++
			}
		}
	}
	if seeds < 1000 {
		f.Fatalf("%d seeds, fewer than there must be", seeds)
	}
	f.Fuzz(func(t *testing.T, text string, command, of int) {
		if !utf8.ValidString(text) {
			t.Skip("a page hands over valid UTF-8 alone")
		}
		name := commands[uint(command)%uint(len(commands))]
		word := append([]string{""}, scheme.Names()...)[uint(of)%uint(len(scheme.Names())+1)]
		now := time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)
		var stdout, stderr bytes.Buffer
		o := verdict.Options{Name: "text", Scheme: word, Now: now}
		said := verdict.Check
		if name == "explain" {
			said = verdict.Explain
		}
		native := said([]byte(text), o, &stdout, &stderr)
		if native != nil {
			fmt.Fprintln(&stderr, native)
		}
		want := answer{verdict.Status(native), strings.ToValidUTF8(stdout.String(), "\uFFFD"), strings.ToValidUTF8(stderr.String(), "\uFFFD")}
		if got := ask(t, name, text, word, now.UnixMilli()); got != want {
			t.Errorf("%s, scheme %q: the browser says %+v, the command %+v: %q", name, word, got, want, text)
		}
	})
}

var commands = []string{"check", "explain"}

// An answer is what the checker returns.
type answer struct {
	Status         int
	Stdout, Stderr string
}

// start builds the checker, and returns what asks it.
func start(f *testing.F, node string) func(t *testing.T, args ...any) answer {
	f.Helper()
	program := filepath.Join(f.TempDir(), "checker.wasm")
	build := exec.Command("go", "build", "-gcflags=all=-l", "-trimpath", "-ldflags=-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		f.Fatalf("%v: %s", err, out)
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		f.Fatal(err)
	}
	script := filepath.Join(strings.TrimSpace(string(goroot)), "lib", "wasm", "wasm_exec.js")
	cmd := exec.Command(node, "testdata/run.js", script, program)
	cmd.Stderr = os.Stderr
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			f.Error(err)
		}
	})
	lines := bufio.NewReader(out)
	return func(t *testing.T, args ...any) (a answer) {
		question, err := json.Marshal(args)
		if err == nil {
			_, err = in.Write(append(question, '\n'))
		}
		if err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("the checker has ended: %v", err)
		}
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		return a
	}
}

// messages returns the texts in the testdata of the module that may be messages: files, and the parts of archives.
func messages(f *testing.F) (all []string) {
	f.Helper()
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.Contains(filepath.ToSlash(file), "/testdata/") ||
			!slices.Contains([]string{".json", ".txtar", ".b64", ".txt", ".xml"}, filepath.Ext(file)) {
			return err
		}
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(io.LimitReader(opened, 64<<10))
		for part := range strings.SplitSeq(string(text), "\n-- ") {
			if _, part, _ = strings.Cut(part, "--\n"); filepath.Ext(file) != ".txtar" {
				part = string(text)
			}
			if part != "" && utf8.ValidString(part) && !seen[part] {
				seen[part] = true
				all = append(all, part)
			}
		}
		return errors.Join(err, opened.Close())
	})
	if err != nil {
		f.Fatal(err)
	}
	return all
}
