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
	path   string // in the repository, such as internal/engine/auth
	module string // the folder of its module, such as testing
	inside string // the path in the module, such as ./internal/engine/auth
}

//go:embed race.txt
var raceText string

// A raceList says what is tested under the race detector.
type raceList struct {
	packages map[string]string // to the reason why
	without  []raceException
}

// A raceException is a test that runs without the detector though its package runs under it.
type raceException struct{ pkg, test string }

// readRaceList reads race.txt: a package a line, and why it is tested under the race detector; or "-", a package, a
// test of it, and why this one is not.
func readRaceList(text string) (*raceList, error) {
	list := &raceList{packages: map[string]string{}}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case words[0] == "-" && len(words) > 3:
			list.without = append(list.without, raceException{words[1], words[2]})
		case words[0] == "-" || len(words) < 2:
			return nil, fmt.Errorf("race.txt: %s: a reason is missing", strings.TrimSpace(line))
		case list.packages[words[0]] != "":
			return nil, fmt.Errorf("race.txt has %s twice", words[0])
		default:
			list.packages[words[0]] = strings.Join(words[1:], " ")
		}
	}
	for _, e := range list.without {
		if list.packages[e.pkg] == "" {
			return nil, fmt.Errorf("race.txt leaves %s out, whose package %s is not tested under the detector", e.test, e.pkg)
		}
	}
	return list, nil
}

// pattern returns a regular expression of the tests that run without the detector.
func (l *raceList) pattern() string {
	var names []string
	for _, e := range l.without {
		names = append(names, e.test)
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// hasException reports whether a package has tests that run without the detector.
func (l *raceList) hasException(path string) bool {
	return slices.ContainsFunc(l.without, func(e raceException) bool { return e.pkg == path })
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
	case has("internal/state/store") || has("internal/state/journal") || has("testing/linear"):
		return database
	}
	return plain
}

// groupPackages lists the packages with tests of all modules, by group. With a shard such as 2/4 it leaves out those of
// other shards.
func groupPackages(ctx context.Context, root, shard string, list *raceList) (map[group][]testPackage, error) {
	part, parts := 1, 1
	if shard != "" {
		if n, err := fmt.Sscanf(shard, "%d/%d", &part, &parts); n != 2 || err != nil || part < 1 || part > parts {
			return nil, fmt.Errorf("-shard %s: want N/M, such as 2/4", shard)
		}
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	groups := map[group][]testPackage{}
	found := map[string]bool{}
	for _, module := range modules {
		packages, err := listPackages(ctx, root, module)
		if err != nil {
			return nil, err
		}
		for _, p := range packages {
			isRace := list.packages[p.path] != ""
			g := groupOf(p.path, isRace)
			if g != race && isRace {
				return nil, fmt.Errorf("race.txt: %s is tested in the step %s", p.path, g)
			}
			groups[g] = append(groups[g], p)
			found[p.path] = true
		}
	}
	for path := range list.packages {
		if !found[path] {
			return nil, fmt.Errorf("race.txt: %s is no package with tests", path)
		}
	}
	for g, packages := range groups {
		var mine []testPackage
		for i, p := range packages {
			if i%parts == part-1 {
				mine = append(mine, p)
			}
		}
		groups[g] = mine
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
