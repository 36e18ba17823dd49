package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// tryNPM installs the npm packages into an empty folder, from the tarballs alone, runs the program by npx, and uses it
// in a test.
func tryNPM(ctx context.Context, t *trial) (err error) {
	packages, err := filepath.Glob(filepath.Join(t.root, npmDir, "*.tgz"))
	if err != nil || len(packages) == 0 {
		return errors.Join(err, errors.New("there is no npm package"))
	}
	dir, err := os.MkdirTemp(t.work, "npm-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private": true}`), 0o644); err != nil {
		return err
	}
	// Packages of other platforms are refused, so they are not asked for: npm leaves them out when it takes them itself.
	ours := "-" + map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH] + "-"
	install := []string{"install", "--offline", "--no-audit", "--no-fund", "--omit=optional"}
	for _, file := range packages {
		name := filepath.Base(file)
		if !isOfPlatform(name) || strings.Contains(name, "-linux"+ours) {
			install = append(install, file)
		}
	}
	if _, err := output(ctx, dir, nil, "npm", install...); err != nil {
		t.add("npm packages", "installed into an empty folder", err)
		return nil
	}
	said, err := output(ctx, dir, nil, "npx", "--no-install", "threeds", "version")
	if err == nil && !strings.Contains(said, t.rev.version) {
		err = fmt.Errorf("npx threeds version says %s", said)
	}
	t.add("npm packages", "installed into an empty folder; npx threeds version", err)
	if err == nil {
		t.add("npm packages", "check judges a message in Node, without the program", tryChecker(ctx, dir))
		t.add("npm packages", "the example for Vitest starts a sandbox and passes", t.tryVitest(ctx, dir))
	}
	return nil
}

// tryChecker has a message judged by the package that is installed in a folder.
func tryChecker(ctx context.Context, dir string) error {
	said, err := output(ctx, dir, []string{"THREEDS_BINARY=/nowhere"}, "node", "--input-type=module", "--eval", `
		import { check } from "@openthreeds/threeds/check";
		const { status, summary } = await check('{"messageType": "AReq", "messageVersion": "2.2.0"}');
		console.log(status, summary);`)
	if err == nil && said != "1 4 faults" {
		err = fmt.Errorf("it says %q, want 1 4 faults", said)
	}
	return err
}

// tryVitest runs the tests of the example for Vitest in a folder in which our packages are installed.
func (t *trial) tryVitest(ctx context.Context, dir string) error {
	runners := filepath.Join(t.work, "javascript")
	if _, err := os.Stat(runners); err != nil {
		if _, err := output(ctx, t.root, nil, ".ci/javascript/install", runners); err != nil {
			return err
		}
	}
	if err := os.Symlink(filepath.Join(runners, "node_modules/vitest"), filepath.Join(dir, "node_modules/vitest")); err != nil {
		return err
	}
	example := filepath.Join(dir, "vitest")
	if err := os.CopyFS(example, os.DirFS(filepath.Join(t.root, "web/npm/examples/vitest"))); err != nil {
		return err
	}
	said, err := output(ctx, example, []string{"NO_COLOR=1", "CI=true"}, "node", "../node_modules/vitest/vitest.mjs", "run",
		"--hookTimeout=0", "--testTimeout=0")
	if err == nil && !strings.Contains(said, "3 passed") {
		err = fmt.Errorf("want 3 tests that pass: %s", said)
	}
	return err
}

// isOfPlatform reports whether a tarball is that of one platform.
func isOfPlatform(name string) bool {
	for _, system := range []string{"linux", "darwin", "win32", "freebsd"} {
		if strings.Contains(name, "-"+system+"-") {
			return true
		}
	}
	return false
}
