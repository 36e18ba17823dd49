package npm

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/openthreeds/threeds/testing/browsertest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// needsChecker skips a test unless the packages have the checker itself.
func needsChecker(t *testing.T) {
	t.Helper()
	if os.Getenv("CHECKER") == "" {
		t.Skip("NOT TESTED: the checker of the npm package, which takes a compiler for another platform: go -C testing run ./long checker")
	}
}

// A verdict is what the checker or a command says of a text.
type verdict struct {
	Status                  int
	Summary, Stdout, Stderr string
	Findings                []string
}

// judged is a text with the options for its verdict.
type judged struct{ Command, Scheme, Text string }

// readJudged returns texts to be judged: each example of a message in testdata, some of them cut, and what is no message.
func readJudged(t *testing.T) (all []judged) {
	t.Helper()
	files, err := filepath.Glob(rig.Root + "/sandbox/shop/testdata/*.json")
	rig.Must(t, err)
	vectors, err := filepath.Glob(rig.Root + "/testdata/cases/*.json")
	rig.Must(t, err)
	for _, file := range append(files, vectors...) {
		text := string(rig.ReadFile(t, file))
		all = append(all, judged{"check", "", text}, judged{"explain", "visa", text}, judged{"check", "mastercard", text[:len(text)/2]})
	}
	if len(all) < 80 {
		t.Fatalf("%d texts, fewer than there must be", len(all))
	}
	return append(all, judged{"check", "", ""}, judged{"explain", "", "no message → at all"})
}

// askProgram has the program judge the text.
func (j judged) askProgram(t *testing.T, dir string) (v verdict) {
	t.Helper()
	rig.WriteFile(t, filepath.Join(dir, "text"), []byte(j.Text))
	binary, err := exec.LookPath("threeds")
	rig.Must(t, err)
	cmd := exec.CommandContext(t.Context(), binary, j.Command, "--scheme", j.Scheme, "text")
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	v = verdict{Status: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Findings: []string{}}
	for line := range strings.Lines(stderr.String()) {
		said, isLast := strings.CutPrefix(line, "threeds: ")
		v.Stderr += said
		if said = strings.TrimPrefix(strings.TrimSuffix(said, "\n"), "text: "); isLast {
			v.Summary = said
		} else {
			v.Findings = append(v.Findings, said)
		}
	}
	return v
}

// TestCheckOfTheNpmPackageSaysWhatTheCommandSays: check and explain of the package, in Node, have the verdict of the
// program in each text: status, output and findings.
func TestCheckOfTheNpmPackageSaysWhatTheCommandSays(t *testing.T) {
	t.Parallel()
	needsChecker(t)
	dir, all := installed(t), readJudged(t)
	data, err := json.Marshal(all)
	rig.Must(t, err)
	rig.WriteFile(t, filepath.Join(dir, "texts.json"), data)
	rig.WriteFile(t, filepath.Join(dir, "judge.js"), []byte(`
		import assert from "node:assert/strict";
		import { readFileSync, writeFileSync } from "node:fs";
		import { check, explain } from "@openthreeds/threeds/check";

		const all = [];
		for (const { Command, Scheme, Text } of JSON.parse(readFileSync("texts.json"))) {
			all.push(await (Command === "check" ? check : explain)(Text, { scheme: Scheme }));
		}
		writeFileSync("verdicts.json", JSON.stringify(all));
		await assert.rejects(check({}), TypeError);
		const { status, summary } = await check("{}", { scheme: "vsa" });
		assert.equal(status + summary, '2no scheme "vsa", did you mean "visa"?');
		console.log("done");`))
	if out := output(t, node(t, dir, nil, "node", "judge.js")); out != "done\n" {
		t.Errorf("the script says %q", out)
	}
	var got []verdict
	rig.Must(t, json.Unmarshal(rig.ReadFile(t, filepath.Join(dir, "verdicts.json")), &got))
	if len(got) != len(all) {
		t.Fatalf("%d verdicts, want %d", len(got), len(all))
	}
	seen := map[int]int{}
	for i, j := range all {
		want := j.askProgram(t, dir)
		seen[want.Status]++
		if diff := cmp.Diff(want, got[i]); diff != "" {
			t.Errorf("%s, scheme %q, of %.80q (-program +package):\n%s", j.Command, j.Scheme, j.Text, diff)
		}
	}
	if len(seen) < 3 {
		t.Errorf("the verdicts have these statuses: %v, want 0, 1 and 2", seen)
	}
}

// TestCheckOfTheNpmPackageRunsInABundle: a page that Vite bundles with the package judges a text in a browser.
func TestCheckOfTheNpmPackageRunsInABundle(t *testing.T) {
	t.Parallel()
	needsChecker(t)
	browsertest.FindChromium(t)
	dir := installed(t)
	linkTools(t, dir)
	rig.Must(t, os.Symlink(filepath.Join(toolsDir, "node_modules/vite"), filepath.Join(dir, "node_modules/vite")))
	rig.WriteFile(t, filepath.Join(dir, "index.html"), []byte(`<!doctype html><script type="module" src="page.js"></script>`))
	rig.WriteFile(t, filepath.Join(dir, "page.js"), []byte(`
		import { check } from "@openthreeds/threeds/check";
		check("{}").then((verdict) => { globalThis.verdict = verdict }, (err) => { globalThis.verdict = { summary: String(err) } });`))
	output(t, node(t, dir, nil, "node", "node_modules/vite/bin/vite.js", "build"))
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(dir, "dist"))))
	t.Cleanup(server.Close)
	tab := browsertest.NewBrowser(t)
	rig.Must(t, chromedp.Do(tab, chromedp.Navigate(server.URL), browsertest.Poll(`!!globalThis.verdict`)))
	got, err := chromedp.Run(tab, chromedp.Evaluate[verdict](`({ Status: verdict.status, Summary: verdict.summary, Stdout: verdict.stdout,
		Stderr: verdict.stderr, Findings: verdict.findings })`))
	rig.Must(t, err)
	want := judged{"check", "", "{}"}.askProgram(t, dir)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-program +page):\n%s", diff)
	}
}
