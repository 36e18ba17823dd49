package npm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

const packedVersion = "0.1.0"

// node returns a command of Node, npm or npx that runs in a folder, without a network and with the given variables.
func node(t *testing.T, dir string, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rig.FindTool(t, name, "the npm packages"), args...)
	cmd.Dir = dir
	cmd.Env = slices.Concat(os.Environ(), []string{"npm_config_offline=true", "npm_config_update_notifier=false", "npm_config_audit=false",
		"npm_config_fund=false", "THREEDS_BINARY=", "npm_config_cache=" + filepath.Join(rig.TempDir(), "npm-cache")}, env)
	return cmd
}

// output runs a command, which must succeed, and returns what it writes.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// tarballs are those of the program that these tests run, packed once.
var tarballs = sync.OnceValues(func() ([]string, error) {
	dir := filepath.Join(rig.TempDir(), "npm")
	return pack(dir, filepath.Join(dir, "tarballs"))
})

// pack writes the packages of the program into a folder. The other folder is for the program, in the place
// that tools/npm searches.
func pack(dir, out string) ([]string, error) {
	binary, err := exec.LookPath("threeds")
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	built := filepath.Join(dir, "dist", "some_platform")
	if err := errors.Join(os.MkdirAll(built, 0o700), os.WriteFile(filepath.Join(built, "threeds"), program, 0o600)); err != nil {
		return nil, err
	}
	args := []string{"-binaries", filepath.Join(dir, "dist"), "-version", packedVersion, "-out", out}
	if os.Getenv("CHECKER") == "" {
		// The checker takes a compiler for another platform: files in its place show that it is packed.
		checker := filepath.Join(dir, "checker")
		if err := writeFalseChecker(checker); err != nil {
			return nil, err
		}
		args = append(args, "-checker", checker)
	}
	return runPacker(args...)
}

// falseProgram is packed in the place of the checker.
const falseProgram = "\x00asm, but no program"

// writeFalseChecker writes what tools/checker writes, without a program in it.
func writeFalseChecker(dir string) error {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, falseProgram)
	return errors.Join(err, w.Close(), os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "checker.wasm.gz"), packed.Bytes(), 0o600),
		os.WriteFile(filepath.Join(dir, "wasm_exec.js"), []byte("globalThis.Go = class {};\n"), 0o600))
}

func runPacker(args ...string) ([]string, error) {
	cmd := exec.Command("go", append([]string{"run", "./tools/npm"}, args...)...)
	cmd.Dir = rig.Root
	var errs bytes.Buffer
	cmd.Stderr = &errs
	written, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, errs.Bytes())
	}
	return strings.Fields(string(written)), nil
}

// install installs the tarballs into an empty folder, and returns it. Those whose names have a word of without are left
// out.
func install(t *testing.T, without ...string) string {
	t.Helper()
	all, err := tarballs()
	rig.Must(t, err)
	dir, err := os.MkdirTemp(rig.TempDir(), "project-")
	rig.Must(t, err)
	rig.WriteFile(t, filepath.Join(dir, "package.json"), []byte(`{"private": true, "type": "module"}`))
	args := []string{"install", "--save-dev"}
	for _, file := range all {
		if !slices.ContainsFunc(without, func(word string) bool { return strings.Contains(filepath.Base(file), word) }) {
			args = append(args, file)
		}
	}
	output(t, node(t, dir, nil, "npm", args...))
	return dir
}

// project is the folder with all packages, which tests share, once it is there.
var (
	project     string
	makeProject sync.Mutex
)

// installed returns a folder of the test's own in a project that has all packages.
func installed(t *testing.T) string {
	t.Helper()
	makeProject.Lock()
	defer makeProject.Unlock()
	if project == "" {
		project = install(t)
	}
	dir, err := os.MkdirTemp(project, "test-")
	rig.Must(t, err)
	return dir
}

// TestProgramOfTheNpmPackageRuns: npx threeds is the program of this platform, with its arguments, output and exit
// status.
func TestProgramOfTheNpmPackageRuns(t *testing.T) {
	t.Parallel()
	dir := installed(t)
	out := output(t, node(t, dir, nil, "npx", "--no", "threeds", "version"))
	if want := "threeds " + rig.ReleaseVersion(t) + ", "; !strings.HasPrefix(out, want) {
		t.Errorf("npx threeds version says %q, want %q", out, want)
	}
	refused := node(t, dir, nil, "npx", "--no", "threeds", "sandbx")
	said, err := refused.CombinedOutput()
	if refused.ProcessState.ExitCode() != 2 || !strings.Contains(string(said), `did you mean "sandbox"`) {
		t.Errorf("an unknown command: %v, %q; want exit status 2 and the program's own words", err, said)
	}
}

// TestNpmPackageNamesAMissingProgram: whoever has no program learns which package is missing and why, or for which
// platforms there are packages.
func TestNpmPackageNamesAMissingProgram(t *testing.T) {
	t.Parallel()
	dir := install(t, "threeds-linux", "threeds-darwin", "threeds-win32")
	cmd := node(t, dir, nil, "npx", "--no", "threeds", "version")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "The package @openthreeds/threeds-") ||
		!strings.Contains(string(out), "--omit=optional") {
		t.Errorf("without the package of the platform: %v, %s", err, out)
	}
	out = []byte(output(t, node(t, dir, nil, "node", "--input-type=module", "-e", `
		import { findBinary } from "./node_modules/@openthreeds/threeds/binary.js";
		try { findBinary({ platform: "sunos", arch: "x64" }) } catch (err) { console.log(err.message) }`)))
	if !strings.Contains(string(out), "no program for sunos x64") || !strings.Contains(string(out), "THREEDS_BINARY") {
		t.Errorf("an unknown platform: %s", out)
	}
	binary, err := exec.LookPath("threeds")
	rig.Must(t, err)
	output(t, node(t, dir, []string{"THREEDS_BINARY=" + binary}, "npx", "--no", "threeds", "version"))
}

// TestSandboxOfTheNpmPackageEndsBySignal: the end of the script is the end of the sandbox, in good order.
func TestSandboxOfTheNpmPackageEndsBySignal(t *testing.T) {
	t.Parallel()
	dir := installed(t)
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		file := filepath.Join(t.TempDir(), "ready.json")
		cmd := node(t, dir, nil, "node", "../node_modules/.bin/threeds", "sandbox", "--listen", "127.0.0.1:0", "--ready-file", file)
		p := &rig.Process{T: t, Cmd: cmd}
		p.Start()
		waittest.Until(t, "the ready file", func() bool { _, err := os.Stat(file); return err == nil })
		p.End(signal)
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%v: the ready file is still there: the sandbox goes on", signal)
		}
	}
}

// TestStartSandboxOfTheNpmPackage: startSandbox returns when the API answers, and stop when it has ended. A sandbox
// that cannot start says why, and an aborted one is gone.
func TestStartSandboxOfTheNpmPackage(t *testing.T) {
	t.Parallel()
	dir := installed(t)
	temp := t.TempDir()
	rig.WriteFile(t, filepath.Join(dir, "start.js"), []byte(`
		import assert from "node:assert/strict";
		import { Client } from "@openthreeds/node";
		import { startSandbox } from "@openthreeds/threeds/testing";

		const began = performance.now();
		let lines = "";
		const sandbox = await startSandbox({ log: (text) => (lines += text) });
		console.log("ready after", Math.round(performance.now() - began), "ms");
		const { threeDSServerTransID } = await new Client(sandbox).preauth({ acctNumber: "4000000000000103" });
		assert.ok(threeDSServerTransID);
		const other = await startSandbox();
		assert.notEqual(other.url, sandbox.url);
		for (const { shop, console, control, ds } of [sandbox, other]) {
			for (const url of [shop, console, control]) assert.equal((await fetch(url)).status, 200, url);
			assert.match(ds.visa, /^https:/);
		}
		await Promise.all([sandbox.stop(), other.stop()]);
		await sandbox.stop();
		assert.match(lines, /POST \/preauth 200/);
		await assert.rejects(fetch(sandbox.url), /fetch failed/);

		await assert.rejects(startSandbox({ args: ["--rate-limit", "-1"] }), /--rate-limit -1: want requests/);
		await assert.rejects(startSandbox({ signal: AbortSignal.abort() }), { name: "AbortError" });
		const abort = new AbortController();
		const aborted = startSandbox({ signal: abort.signal });
		setImmediate(() => abort.abort());
		await assert.rejects(aborted, { name: "AbortError" });
		await startSandbox(); // It does not keep this process.
		console.log("done");`))
	out := output(t, node(t, dir, []string{"TMPDIR=" + temp}, "node", "start.js"))
	t.Log(out)
	if !strings.HasSuffix(out, "done\n") {
		t.Errorf("the script has not come to its end: %s", out)
	}
	waittest.Until(t, "the end of all sandboxes, which leave nothing", func() bool { return len(rig.ListFiles(t, temp)) == 0 })
}

// TestStopOfTheNpmPackageComesToItsEnd: a script that waits for stop goes on after it, also when the program's output
// ends later than the program, and nothing else keeps the script alive.
func TestStopOfTheNpmPackageComesToItsEnd(t *testing.T) {
	t.Parallel()
	dir := installed(t)
	program := filepath.Join(dir, "program.sh")
	rig.WriteFile(t, program, []byte(`#!/bin/sh
		while [ "$1" != --ready-file ]; do shift; done
		echo '{}' > "$2"
		echo ready
		cat # until its standard input ends
		tail --pid=$$ -s 0.1 -f /dev/null >&2 & # something that ends after the program, and has the same outputs
	`))
	rig.Must(t, os.Chmod(program, 0o755))
	out := output(t, node(t, dir, []string{"THREEDS_BINARY=" + program}, "node", "--input-type=module", "-e", `
		import { startSandbox } from "@openthreeds/threeds/testing";
		await (await startSandbox()).stop();
		console.log("done");`))
	if out != "done\n" {
		t.Errorf("the script has not come to its end: %s", out)
	}
}

// TestSandboxOfTheNpmPackageEndsWithItsTest: a test that is killed leaves no sandbox.
func TestSandboxOfTheNpmPackageEndsWithItsTest(t *testing.T) {
	t.Parallel()
	dir := installed(t)
	cmd := node(t, dir, nil, "node", "--input-type=module", "-e", `
		import { startSandbox } from "@openthreeds/threeds/testing";
		const { url } = await startSandbox();
		console.log(url);
		setInterval(() => {}, 1e6);`)
	stdout, err := cmd.StdoutPipe()
	rig.Must(t, err)
	rig.Must(t, cmd.Start())
	url := make([]byte, 256)
	n, err := stdout.Read(url)
	rig.Must(t, err)
	answer, err := http.Get(strings.TrimSpace(string(url[:n])))
	rig.Must(t, err)
	answer.Body.Close()
	rig.Must(t, cmd.Process.Kill())
	waittest.Until(t, "the end of the sandbox", func() bool { return rig.IsRefusing(rig.HostOf(t, strings.TrimSpace(string(url[:n])))) })
	_ = cmd.Wait()
}

// TestNpmTarballsAreTheSameEachTime: the same input gives the same bytes. In each package is what npm expects of it.
func TestNpmTarballsAreTheSameEachTime(t *testing.T) {
	t.Parallel()
	first, err := tarballs()
	rig.Must(t, err)
	dir := t.TempDir()
	second, err := pack(dir, filepath.Join(dir, "out"))
	rig.Must(t, err)
	var names []string
	for i := range first {
		a, b := rig.ReadFile(t, first[i]), rig.ReadFile(t, second[i])
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs", first[i])
		}
		names = append(names, filepath.Base(first[i]))
		files := listTarball(t, a)
		for _, want := range []string{"package/package.json 0644", "package/README.md 0644", "package/LICENSE 0644"} {
			if !slices.Contains(files, want) {
				t.Errorf("%s has no %s: %v", first[i], want, files)
			}
		}
	}
	if n := len(names); n != 4 || !slices.IsSorted(names[1:]) || !strings.HasPrefix(names[0], "openthreeds-threeds-") {
		t.Errorf("packed %v, want the program's package first, and three others", names)
	}
	if files := listTarball(t, rig.ReadFile(t, first[0])); !slices.Contains(files, "package/bin/threeds 0755") {
		t.Errorf("%s has no program that can be run: %v", first[0], files)
	}
	files := listTarball(t, rig.ReadFile(t, first[3]))
	for _, want := range []string{
		"package/bin/threeds.js 0755", "package/check.js 0644", "package/checker.wasm 0644", "package/wasm_exec.js 0644",
		"package/LICENSES-OF-MODULES.txt 0644",
	} {
		if !slices.Contains(files, want) {
			t.Errorf("%s has no %s: %v", first[3], want, files)
		}
	}
}

// listTarball returns the files of a tarball with their modes.
func listTarball(t *testing.T, data []byte) (files []string) {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	rig.Must(t, err)
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return files
		}
		rig.Must(t, err)
		files = append(files, fmt.Sprintf("%s %04o", header.Name, header.Mode))
	}
}

// TestNpmPackerRefuses: a release is not packed from a program that is none of ours, from two for one platform, from
// none, or with a version that npm does not take. Nor is it packed without the checker of messages.
func TestNpmPackerRefuses(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("threeds")
	rig.Must(t, err)
	program := rig.ReadFile(t, binary)
	empty, foreign, twice := t.TempDir(), t.TempDir(), t.TempDir()
	rig.WriteFile(t, filepath.Join(foreign, "threeds"), []byte("#!/bin/sh\n"))
	for _, sub := range []string{"v1", "v3"} {
		rig.Must(t, os.Mkdir(filepath.Join(twice, sub), 0o700))
		rig.WriteFile(t, filepath.Join(twice, sub, "threeds"), program)
	}
	one, checker := filepath.Join(twice, "v1"), t.TempDir()
	rig.Must(t, writeFalseChecker(checker))
	for _, tt := range []struct{ binaries, version, checker, want string }{
		{empty, "0.1.0", checker, "has no program"},
		{foreign, "0.1.0", checker, "no program that Go built"},
		{twice, "0.1.0", checker, "for the same platform"},
		{twice, "v0.1.0", checker, "want three numbers"},
		{one, "0.1.0", empty, "go run ./tools/checker builds it"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		_, err := runPacker("-binaries", tt.binaries, "-version", tt.version, "-checker", tt.checker, "-out", out)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %s: %v, want %q", tt.binaries, tt.version, err, tt.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: something was written", tt.want)
		}
	}
}
