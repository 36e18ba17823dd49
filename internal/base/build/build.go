// Package build says what this program was built of: its version, commit and date, see [Read], [Describe] and
// [Release], and its modules with their licences, see [Licenses].
package build

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
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

// An Info says which build of the program this is.
type Info struct {
	Version  string    `json:"version"`
	Commit   string    `json:"commit,omitzero"` // "" if the build does not know it
	Date     time.Time `json:"date,omitzero"`   // of the commit; zero if the build does not know it
	Modified bool      `json:"modified"`        // the source was not that of the commit
	Go       string    `json:"go"`              // the version of Go
}

// Read returns which build this is. told is the version that the linker was told, for a release or a build that cannot
// know it; "" for all others.
func Read(told string) Info {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Info{Version: cmp.Or(told, "unknown"), Go: runtime.Version()}
	}
	return newInfo(info, told)
}

// Describe returns this build in words, see [Read].
func Describe(told string) string { return Read(told).String() }

// Release returns the version alone.
func Release(told string) string { return Read(told).Version }

func newInfo(info *debug.BuildInfo, told string) Info {
	version := info.Main.Version
	if version == "(devel)" {
		version = ""
	}
	b := Info{Version: cmp.Or(told, version, "development"), Go: info.GoVersion}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date, _ = time.Parse(time.RFC3339, s.Value) // zero if it is no time
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String returns the build in words: version, commit, date, version of Go.
func (b Info) String() string {
	words := []string{"threeds " + b.Version}
	if b.Commit != "" {
		words = append(words, "commit "+b.Commit[:min(12, len(b.Commit))])
	}
	if b.Modified {
		words[len(words)-1] += " with changes"
	}
	if !b.Date.IsZero() {
		words = append(words, b.Date.Format(time.RFC3339))
	}
	return strings.Join(append(words, b.Go), ", ")
}
