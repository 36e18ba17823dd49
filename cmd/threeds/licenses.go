package main

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/openthreeds/threeds/internal/base/build"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
)

// licenseTexts are the licences of the modules of all builds, as tools/licenses writes them.
//
//go:embed licenses.txt
var licenseTexts string

// runLicenses prints each module that this program is built from with its version, its licence and the text of that.
func runLicenses(_ context.Context, cmd *cmdline.Invocation) error {
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	all, err := build.Licenses(version, licenseTexts)
	if err != nil {
		return err
	}
	for _, m := range all {
		if _, err := fmt.Fprintf(cmd.Stdout, "%s %s %s\n\n%s\n\n", m.Path, m.Version, m.License, m.Text); err != nil {
			return err
		}
	}
	return nil
}

// version is set by the linker for a release, and for a build that cannot know it, such as that of a tree without
// history.
var version string

// runVersion prints which build this is, as the build recorded it: no number is kept in the source.
func runVersion(_ context.Context, cmd *cmdline.Invocation) error {
	asJSON := cmd.JSONFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	if *asJSON {
		return terminal.WriteJSON(cmd.Stdout, build.Read(version))
	}
	_, err := fmt.Fprintln(cmd.Stdout, build.Describe(version))
	return err
}
