package main

import (
	"flag"
	"fmt"
	"io"
	"runtime/debug"
)

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
	return describeBuild(info)
}

func describeBuild(info *debug.BuildInfo) string {
	version, commit, changed := info.Main.Version, "", ""
	if version == "" || version == "(devel)" {
		version = "development"
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = ", commit " + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	return fmt.Sprintf("threeds %s%s%s, %s", version, commit, changed, info.GoVersion)
}
