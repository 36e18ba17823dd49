package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A group is a set of packages that are tested in one step. Each package with tests is in one group.
type group string

const (
	plain    group = "plain"
	race     group = "race"
	database group = "database"
	e2e      group = "e2e"
	browser  group = "browser"
)

// A testPackage is a package that has tests.
type testPackage struct {
	path   string // in the repository, such as internal/auth
	module string // the folder of its module, such as testing
	inside string // the path in the module, such as ./internal/auth
}

//go:embed race.txt
var raceList string

// racePackages reads race.txt: a package a line, and why it is tested under the race detector.
func racePackages(text string) (map[string]string, error) {
	reasons := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		path, reason, _ := strings.Cut(line, " ")
		reason = strings.TrimSpace(reason)
		if reason == "" {
			return nil, fmt.Errorf("race.txt: %s has no reason", path)
		}
		if reasons[path] != "" {
			return nil, fmt.Errorf("race.txt has %s twice", path)
		}
		reasons[path] = reason
	}
	return reasons, nil
}

// groupOf tells the group of a package by its path, and by whether race.txt has it.
func groupOf(path string, isRace bool) group {
	has := func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }
	switch {
	case has("testing/browser") || has("testing/browsertest") || has("testing/e2e/browser"):
		return browser
	case has("testing/e2e") || has("testing/conformance") || has("testing/bench"):
		return e2e
	case isRace:
		return race
	case has("internal/store") || has("internal/journal") || has("testing/linear"):
		return database
	}
	return plain
}

// groupPackages lists the packages with tests of all modules, by group. With a shard such as 2/4 it leaves out those of
// other shards.
func groupPackages(ctx context.Context, root, shard string) (map[group][]testPackage, error) {
	part, parts := 1, 1
	if shard != "" {
		if n, err := fmt.Sscanf(shard, "%d/%d", &part, &parts); n != 2 || err != nil || part < 1 || part > parts {
			return nil, fmt.Errorf("-shard %s: want N/M, such as 2/4", shard)
		}
	}
	reasons, err := racePackages(raceList)
	if err != nil {
		return nil, err
	}
	if root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	groups := map[group][]testPackage{}
	for _, module := range modules {
		packages, err := listPackages(ctx, root, module)
		if err != nil {
			return nil, err
		}
		for _, p := range packages {
			g := groupOf(p.path, reasons[p.path] != "")
			if g != race && reasons[p.path] != "" {
				return nil, fmt.Errorf("race.txt: %s is tested in the step %s", p.path, g)
			}
			groups[g] = append(groups[g], p)
			delete(reasons, p.path)
		}
	}
	for path := range reasons {
		return nil, fmt.Errorf("race.txt: %s is no package with tests", path)
	}
	for g, packages := range groups {
		groups[g] = slices.DeleteFunc(packages, func(p testPackage) bool { return slices.Index(packages, p)%parts != part-1 })
	}
	return groups, nil
}

func listPackages(ctx context.Context, root, module string) ([]testPackage, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-e", "-json=Dir,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = filepath.Join(root, module)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w\n%s", module, err, said.Bytes())
	}
	var packages []testPackage
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir                       string
			TestGoFiles, XTestGoFiles []string
		}
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		path, err := filepath.Rel(root, p.Dir)
		if err != nil {
			return nil, err
		}
		inside, err := filepath.Rel(filepath.Join(root, module), p.Dir)
		if err != nil {
			return nil, err
		}
		packages = append(packages, testPackage{filepath.ToSlash(path), module, "./" + filepath.ToSlash(inside)})
	}
}
