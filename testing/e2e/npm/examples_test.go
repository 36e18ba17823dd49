package npm

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/openthreeds/threeds/testing/browsertest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// toolsDir is where .ci/javascript/install puts the test runners of others.
const toolsDir = "/usr/local/lib/threeds-javascript"

// linkTools puts the test runners into the node_modules of a folder. It skips the test if they are not there, also in
// CI: a registry that is away says nothing about our packages.
func linkTools(t *testing.T, dir string) {
	t.Helper()
	want := rig.ReadFile(t, rig.Root+"/.ci/javascript/package-lock.json")
	have, err := os.ReadFile(toolsDir + "/package-lock.json")
	if err != nil || !bytes.Equal(have, want) {
		t.Skipf("NOT TESTED: examples of the npm packages: no %s as .ci/javascript/package-lock.json says "+
			"(as root: .ci/javascript/install %s)", toolsDir, toolsDir)
	}
	rig.Must(t, os.MkdirAll(filepath.Join(dir, "node_modules/@playwright"), 0o700))
	for _, name := range []string{"vitest", "playwright", "playwright-core", "@playwright/test", "typescript"} {
		rig.Must(t, os.Symlink(filepath.Join(toolsDir, "node_modules", name), filepath.Join(dir, "node_modules", name)))
	}
}

// copyExample copies the files of an example into a folder.
func copyExample(t *testing.T, name, dir string) {
	t.Helper()
	rig.Must(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(rig.Root+"/web/npm/examples/"+name)))
}

// TestNpmExampleForVitestRuns runs the example with the packages as they are installed.
func TestNpmExampleForVitestRuns(t *testing.T) {
	t.Parallel()
	dir := installed(t)
	linkTools(t, dir)
	copyExample(t, "vitest", dir)
	out := output(t, node(t, filepath.Join(dir, "vitest"), []string{"NO_COLOR=1", "CI=true"}, "node", "../node_modules/vitest/vitest.mjs", "run",
		"--hookTimeout=0", "--testTimeout=0"))
	if !bytes.Contains([]byte(out), []byte("3 passed")) {
		t.Errorf("want 3 tests that pass: %s", out)
	}
}

// TestNpmExampleForPlaywrightRuns runs the example with the packages as they are installed, in the browser of the
// tests.
func TestNpmExampleForPlaywrightRuns(t *testing.T) {
	t.Parallel()
	chromium := browsertest.FindChromium(t)
	dir := installed(t)
	linkTools(t, dir)
	copyExample(t, "playwright", dir)
	out := output(t, node(t, filepath.Join(dir, "playwright"), []string{"NO_COLOR=1", "CHROMIUM=" + chromium}, "node",
		"../node_modules/@playwright/test/cli.js", "test", "--timeout=0", "--reporter=line"))
	if !bytes.Contains([]byte(out), []byte("2 passed")) {
		t.Errorf("want 2 tests that pass: %s", out)
	}
}

// TestNpmPackageHasTypes compiles a program that uses each member of a sandbox.
func TestNpmPackageHasTypes(t *testing.T) {
	t.Parallel()
	dir := installed(t)
	linkTools(t, dir)
	rig.WriteFile(t, filepath.Join(dir, "use.ts"), []byte(`
		import { Client } from "@openthreeds/node";
		import { check, explain, type CheckOptions, type Verdict } from "@openthreeds/threeds/check";
		import { startSandbox, type Sandbox, type SandboxOptions } from "@openthreeds/threeds/testing";
		const options: SandboxOptions = { args: ["--strict"], log: (text) => text.trim() };
		const sandbox: Sandbox = await startSandbox(options);
		const texts: string[] = [sandbox.url, sandbox.apiKey, sandbox.otherApiKey, sandbox.shop, sandbox.console, sandbox.control,
			sandbox.ca, sandbox.results, sandbox.acs, sandbox.directories, sandbox.ds.visa ?? ""];
		new Client(sandbox);
		await sandbox.stop();
		const asked: CheckOptions = { scheme: "visa", now: new Date() };
		const verdicts: Verdict[] = [await check("{}", asked), await explain("{}")];
		for (const { status, summary, findings, stdout, stderr } of verdicts) if (status > 0) texts.push(summary, ...findings, stdout, stderr);
		// @ts-expect-error there is no such member
		texts.push(sandbox.adress);
		export {};`))
	output(t, node(t, dir, nil, "node", "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--module", "nodenext", "--target", "esnext",
		"--lib", "esnext,dom", "use.ts"))
}
