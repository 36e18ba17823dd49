package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
)

// version is what the linker was told of a build that cannot know by itself, as that of
// the container's image, whose tree has no history.
var version string

// runVersion prints what the build knows of itself: nobody keeps a number.
func runVersion(args []string, stdout io.Writer) error {
	if _, err := parse(flag.NewFlagSet("version", flag.ContinueOnError), args, 0); err != nil {
		return err
	}
	_, err := fmt.Fprintln(stdout, build())
	return err
}

// build is this build in words: version, commit, the Go it was made with.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "threeds (unknown build)"
	}
	return describeBuild(info, version)
}

// release is its version alone.
func release() string {
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
