package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// licenseTexts are the licences of the modules of all builds, as tools/licenses writes them.
//
//go:embed licenses.txt
var licenseTexts string

// A moduleLicense is one module of a build with its licence.
type moduleLicense struct{ path, version, license, text string }

// runLicenses prints each module that this program is built from with its version, its licence and the text of that.
func runLicenses(_ context.Context, cmd *invocation) error {
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("this build does not say which modules it has")
	}
	all, err := licensesOf(info, releaseVersion(), licenseTexts)
	if err != nil {
		return err
	}
	for _, m := range all {
		if _, err := fmt.Fprintf(cmd.stdout, "%s %s %s\n\n%s\n\n", m.path, m.version, m.license, m.text); err != nil {
			return err
		}
	}
	return nil
}

// licensesOf returns the modules of a build, the program's own first, then the standard library. Texts are those of
// licenses.txt.
func licensesOf(info *debug.BuildInfo, release, texts string) ([]moduleLicense, error) {
	known := parseLicenses(texts)
	own := []*debug.Module{{Path: info.Main.Path, Version: "-"}, {Path: "std", Version: "-"}}
	var all []moduleLicense
	for _, m := range slices.Concat(own, info.Deps) {
		if m.Replace != nil {
			m = m.Replace
		}
		found, ok := known[m.Path+" "+m.Version]
		if !ok {
			return nil, fmt.Errorf("no licence of %s %s is in this build (go generate ./... collects them)", m.Path, m.Version)
		}
		all = append(all, found)
	}
	all[0].version, all[1].version = release, runtime.Version()
	return all, nil
}

// parseLicenses returns what licenses.txt holds, by path and version: lines that begin with @@, each with a module, its
// version and its licence, and behind one or more of them their text.
func parseLicenses(texts string) map[string]moduleLicense {
	known := map[string]moduleLicense{}
	var of []moduleLicense
	var text strings.Builder
	finish := func() {
		for _, m := range of {
			m.text = strings.TrimSpace(text.String())
			known[m.path+" "+m.version] = m
		}
		of = nil
		text.Reset()
	}
	for line := range strings.Lines(texts) {
		head, isHead := strings.CutPrefix(line, "@@ ")
		if !isHead {
			text.WriteString(line)
			continue
		}
		if text.Len() > 0 {
			finish()
		}
		path, rest, _ := strings.Cut(strings.TrimSpace(head), " ")
		version, license, _ := strings.Cut(rest, " ")
		of = append(of, moduleLicense{path: path, version: version, license: license})
	}
	finish()
	return known
}

// version is set by the linker for a build that cannot know it, such as that of the
// container image, whose tree has no history.
var version string

// runVersion prints the version that the build recorded: no number is kept in the source.
func runVersion(_ context.Context, cmd *invocation) error {
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	_, err := fmt.Fprintln(cmd.stdout, buildInfo())
	return err
}

// buildInfo returns this build in words: its version, its commit, and the version of Go.
func buildInfo() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "threeds (unknown build)"
	}
	return describeBuild(info, version)
}

// releaseVersion returns the version alone.
func releaseVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info, version)
}

func describeBuild(info *debug.BuildInfo, told string) string {
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = ", commit " + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	return fmt.Sprintf("threeds %s%s%s, %s", versionOf(info, told), commit, changed, info.GoVersion)
}

func versionOf(info *debug.BuildInfo, told string) string {
	known := info.Main.Version
	if known == "(devel)" {
		known = ""
	}
	return cmp.Or(told, known, "development")
}
