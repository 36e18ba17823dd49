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

// tryNPM installs the npm packages into an empty folder, from the tarballs alone, and runs the program by npx.
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
	return nil
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
