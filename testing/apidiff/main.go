// Apidiff says how the public Go packages have changed since the last release, and which version the next release has
// to have at least. docs/project/versions.md says what a version promises.
//
//	go -C testing run ./apidiff               # what has changed since the last tag
//	go -C testing run ./apidiff -next v0.2.0  # fails if the changes need a higher version
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/mod/semver"
	"golang.org/x/tools/go/packages"
)

// public are the packages whose exported names are promised.
var public = []string{"./api", "./client", "./message", "./message/extension", "./sandbox", "./threedstest"}

func main() {
	root := flag.String("root", "..", "`DIR` of the module, in a clone that has the tags of releases")
	next := flag.String("next", "", "`VERSION` that the next release shall have, such as v0.2.0")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *root, *next); err != nil {
		fmt.Fprintln(os.Stderr, "apidiff:", err)
		os.Exit(1)
	}
}

// run writes what has changed, and returns an error if the version next is too low for that.
func run(ctx context.Context, out io.Writer, root, next string) error {
	if next != "" && !semver.IsValid(next) {
		return fmt.Errorf("-next %s: want a version such as v0.2.0", next)
	}
	tag, err := findLastTag(ctx, root)
	if err != nil {
		return err
	}
	if tag == "" {
		fmt.Fprintln(out, "no tag yet: there is no release to compare with")
		return nil
	}
	old, err := os.MkdirTemp("", "apidiff-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(old)
	if err := export(ctx, root, tag, old); err != nil {
		return err
	}
	before, err := load(ctx, old)
	if err != nil {
		return fmt.Errorf("%s: %w", tag, err)
	}
	after, err := load(ctx, root)
	if err != nil {
		return err
	}
	isBroken, isChanged := writeChanges(out, before, after)
	need := nextVersion(tag, isBroken, isChanged)
	fmt.Fprintf(out, "since %s: the next release is %s or higher\n", tag, need)
	if next != "" && semver.Compare(next, need) < 0 {
		return fmt.Errorf("-next %s: the changes since %s need %s or higher", next, tag, need)
	}
	return nil
}

// findLastTag returns the tag of the last release before the commit that is checked out; "" means that there is none.
func findLastTag(ctx context.Context, root string) (string, error) {
	tags, err := git(ctx, root, "tag", "--list", "v*", "--merged", "HEAD")
	if err != nil {
		return "", err
	}
	releases := slices.DeleteFunc(strings.Fields(string(tags)), func(tag string) bool {
		return !semver.IsValid(tag) || semver.Prerelease(tag) != ""
	})
	if len(releases) == 0 {
		return "", nil
	}
	return slices.MaxFunc(releases, semver.Compare), nil
}

// export writes the files of a tag into a folder.
func export(ctx context.Context, root, tag, to string) error {
	top, err := git(ctx, root, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	archive, err := git(ctx, strings.TrimSpace(string(top)), "archive", "--format=tar", tag)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "tar", "-x", "-C", to)
	cmd.Stdin = bytes.NewReader(archive)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, said)
	}
	return nil
}

func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(said.Bytes()))
	}
	return out, nil
}

// load returns the public packages in a folder, by path.
func load(ctx context.Context, dir string) (map[string]*types.Package, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var patterns []string
	for _, pattern := range public {
		if _, err := os.Stat(filepath.Join(dir, pattern)); err == nil {
			patterns = append(patterns, pattern)
		}
	}
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: dir, Env: append(os.Environ(), "GOWORK=off"), // what is compared is in no workspace
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps,
	}, patterns...)
	if err != nil {
		return nil, err
	}
	all := map[string]*types.Package{}
	var errs []error
	for _, p := range loaded {
		for _, err := range p.Errors {
			errs = append(errs, err)
		}
		all[p.PkgPath] = p.Types
	}
	return all, errors.Join(errs...)
}

// writeChanges writes a line for each change. It reports whether one breaks a program that uses the packages,
// and whether there is any.
func writeChanges(out io.Writer, before, after map[string]*types.Package) (isBroken, isChanged bool) {
	var paths []string
	for path := range before {
		paths = append(paths, path)
	}
	for path := range after {
		if before[path] == nil {
			fmt.Fprintf(out, "compatible    %s: new package\n", path)
			isChanged = true
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		if after[path] == nil {
			fmt.Fprintf(out, "incompatible  %s: the package is gone\n", path)
			isBroken, isChanged = true, true
			continue
		}
		for _, change := range apidiff.Changes(before[path], after[path]).Changes {
			kind := "compatible  "
			if !change.Compatible {
				kind, isBroken = "incompatible", true
			}
			isChanged = true
			fmt.Fprintf(out, "%s  %s: %s\n", kind, path, change.Message)
		}
	}
	return isBroken, isChanged
}

// nextVersion returns the lowest version that may follow a release: before 1.0.0 the second number says that a program
// may have to be changed, and from then on the first one does.
func nextVersion(tag string, isBroken, isChanged bool) string {
	var major, minor, patch int
	if _, err := fmt.Sscanf(semver.Canonical(tag), "v%d.%d.%d", &major, &minor, &patch); err != nil {
		panic(err) // a valid version has three numbers
	}
	switch {
	case isBroken && major > 0:
		return fmt.Sprintf("v%d.0.0", major+1)
	case isBroken || isChanged && major > 0:
		return fmt.Sprintf("v%d.%d.0", major, minor+1)
	}
	return fmt.Sprintf("v%d.%d.%d", major, minor, patch+1)
}
