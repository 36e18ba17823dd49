// Package build says what this program was built of: its version and commit, see [Describe] and [Release], and its
// modules with their licences, see [Licenses].
package build

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// A Module is one module of a build with its licence.
type Module struct{ Path, Version, License, Text string }

// Licenses returns the modules that this program is built from, its own first, then the standard library. told is the
// version that the linker was told, and texts is what tools/licenses has written.
func Licenses(told, texts string) ([]Module, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, errors.New("this build does not say which modules it has")
	}
	return licensesOf(info, Release(told), texts)
}

// licensesOf returns the modules of a build, the program's own first, then the standard library. Texts are those of
// licenses.txt.
func licensesOf(info *debug.BuildInfo, release, texts string) ([]Module, error) {
	known := parseLicenses(texts)
	own := []*debug.Module{{Path: info.Main.Path, Version: "-"}, {Path: "std", Version: "-"}}
	var all []Module
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
	all[0].Version, all[1].Version = release, runtime.Version()
	return all, nil
}

// parseLicenses returns what licenses.txt holds, by path and version: lines that begin with @@, each with a module, its
// version and its licence, and behind one or more of them their text.
func parseLicenses(texts string) map[string]Module {
	known := map[string]Module{}
	var of []Module
	var text strings.Builder
	finish := func() {
		for _, m := range of {
			m.Text = strings.TrimSpace(text.String())
			known[m.Path+" "+m.Version] = m
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
		of = append(of, Module{Path: path, Version: version, License: license})
	}
	finish()
	return known
}

// Describe returns this build in words: its version, its commit, and the version of Go. told is the version that the
// linker was told, for a build that cannot know it; "" for all others.
func Describe(told string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "threeds (unknown build)"
	}
	return describeBuild(info, told)
}

// Release returns the version alone.
func Release(told string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info, told)
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
