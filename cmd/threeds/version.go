package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
)

// version is set by the linker for a build that cannot know it, such as that of the
// container image, whose tree has no history.
var version string

// runVersion prints the version that the build recorded: no number is kept in the source.
func runVersion(args []string, stdout io.Writer) error {
	if _, err := parseFlags(flag.NewFlagSet("version", flag.ContinueOnError), args, 0); err != nil {
		return err
	}
	_, err := fmt.Fprintln(stdout, buildInfo())
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
