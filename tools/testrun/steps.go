package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// modules are the folders of the modules that are checked, from the root.
var modules = []string{".", "testing", "tools/bundle"}

// apart are modules outside the workspace, whose tests are each in a step of its own. The last one needs cgo: softhsm of
// testing/long tests it.
var apart = []string{"testing/helm", "testing/alerts", "testing/alerts/prometheus", "deploy/helpers/pkcs11"}

// garbage is how much garbage the programs of a run may collect, in percent of what they use. With four times the usual
// there is a tenth less to do for the processors.
const garbage = "GOGC=400"

// command makes a command that runs in a folder of the repository, without cgo, and says everything to log.
func (r *runner) command(ctx context.Context, log io.Writer, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(r.root, dir)
	cmd.Env = append([]string{garbage}, os.Environ()...) // what the caller says of garbage wins
	// What is built does not depend on the folder, so that a fresh clone finds in the build cache what another one built.
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " -trimpath")
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "GOFLAGS="+flags, "GOWORK="+r.workspace())
	if r.temporary != "" {
		cmd.Env = append(cmd.Env, "TMPDIR="+r.temporary)
	}
	cmd.Stdout, cmd.Stderr = log, log
	return cmd
}

// workspace is the file of a workspace of all modules. In it they share what is compiled. Without it the other modules
// compile the product again, for with -trimpath each package is compiled for a module and its version, and to them the
// product is a version of its own.
func (r *runner) workspace() string { return filepath.Join(r.artifacts, "go.work") }

// writeWorkspace writes the file of the workspace.
func (r *runner) writeWorkspace() error {
	mod, err := os.ReadFile(filepath.Join(r.root, "go.mod"))
	if err != nil {
		return err
	}
	version := regexp.MustCompile(`(?m)^go .*$`).Find(mod)
	text := fmt.Appendf(nil, "%s\n\nuse (\n", version)
	for _, dir := range modules {
		text = fmt.Appendf(text, "\t%s\n", strconv.Quote(filepath.Join(r.root, dir)))
	}
	return os.WriteFile(r.workspace(), append(text, ")\n"...), 0o644)
}

// script runs a program of the repository.
func script(path string, args ...string) func(context.Context, *runner, io.Writer) error {
	return func(ctx context.Context, r *runner, log io.Writer) error {
		return r.command(ctx, log, ".", filepath.Join(r.root, path), args...).Run()
	}
}

func checkFormat(ctx context.Context, r *runner, log io.Writer) error {
	var bad bytes.Buffer
	cmd := r.command(ctx, log, ".", "gofmt", "-l", ".")
	cmd.Stdout = &bad
	if err := cmd.Run(); err != nil {
		return err
	}
	if bad.Len() > 0 {
		fmt.Fprintf(log, "gofmt -w wants to change:\n%s", bad.Bytes())
		return errors.New("not formatted")
	}
	return nil
}

// lint runs the staticcheck that testing/go.mod names.
func lint(ctx context.Context, r *runner, log io.Writer) error {
	program := filepath.Join(r.artifacts, "staticcheck")
	if err := r.command(ctx, log, "testing", "go", "build", "-o", program, "honnef.co/go/tools/cmd/staticcheck").Run(); err != nil {
		return err
	}
	return r.command(ctx, log, ".", program, everything()...).Run()
}

// vet runs go vet on all modules at once, so that what they share is looked at once.
func vet(ctx context.Context, r *runner, log io.Writer) error {
	return r.command(ctx, log, ".", "go", append([]string{"vet"}, everything()...)...).Run()
}

// everything returns the patterns of all packages of all modules, for a command that runs in the workspace.
func everything() (patterns []string) {
	for _, dir := range modules {
		patterns = append(patterns, "./"+path.Join(dir, "..."))
	}
	return patterns
}

// binary is the program that tests of testing/e2e run.
func (r *runner) binary() string { return filepath.Join(r.artifacts, "threeds") }

func build(ctx context.Context, r *runner, log io.Writer) error {
	return r.command(ctx, log, ".", "go", "build", "-ldflags=-s -w", "-o", r.binary(), "./cmd/threeds").Run()
}

// raceAll tests the packages that make test runs without the race detector. The program that end-to-end tests run is
// built with it as well.
func raceAll(ctx context.Context, r *runner, log io.Writer) error {
	program := r.command(ctx, log, ".", "go", "build", "-race", withoutRace, "-o", r.binary(), "./cmd/threeds")
	program.Env = append(program.Env, "CGO_ENABLED=1")
	if err := program.Run(); err != nil {
		return err
	}
	others := slices.Concat(r.groups[plain], r.groups[database], r.groups[e2e], r.groups[browser])
	flags := append(r.flags(race), "-count=1")
	return errors.Join(r.testAll(ctx, log, "race-all", flags, others), build(ctx, r, log))
}

// smoke runs each benchmark once, so that none of them rots.
func smoke(ctx context.Context, r *runner, log io.Writer) error {
	args := []string{"test", "-vet=off", "-run=^$", "-bench=.", "-benchtime=1x"}
	return r.command(ctx, log, ".", "go", append(args, everything()...)...).Run()
}

// helm runs the tests of the Helm chart. They are a module of their own, for Helm takes minutes to be compiled.
func helm(ctx context.Context, r *runner, log io.Writer) error {
	cmd := r.command(ctx, log, apart[0], "go", "test", ".")
	cmd.Env = append(cmd.Env, "GOWORK=off")
	return cmd.Run()
}

// alerts runs the tests of the rules for Prometheus. They are a module of their own, so that no other module depends on
// that of Prometheus.
func alerts(ctx context.Context, r *runner, log io.Writer) error {
	cmd := r.command(ctx, log, apart[1], "go", "test", ".")
	cmd.Env = append(cmd.Env, "GOWORK=off")
	return cmd.Run()
}

// outages plays outages with a real Prometheus, which is built in a module of its own: it takes minutes to be compiled.
func outages(ctx context.Context, r *runner, log io.Writer) error {
	cmd := r.command(ctx, log, apart[2], "go", "test", ".")
	cmd.Env = append(cmd.Env, "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return err
	}
	return r.command(ctx, log, ".", "go", "-C", "testing", "run", "./long", "outages").Run()
}

// mutants runs the tests of testing/mutants with all faults.
func mutants(ctx context.Context, r *runner, log io.Writer) error {
	cmd := r.command(ctx, log, "testing", "go", "test", "-vet=off", "-count=1", "-timeout=4h", "-v", "./mutants")
	cmd.Env = append(cmd.Env, "MUTANTS=all")
	return cmd.Run()
}

// longForms are the variables that tests read for how long they go on. docs/goals.md says what their figures mean.
var longForms = []string{
	"CRASH=2000", "RESTARTS=200", "RELOADS=1000", "HOOK_KILLS=200", "JOURNAL_KILLS=200", "PAUSES=200", "BACKUPS=100",
	"UPGRADE_RECORDS=10000", "RANGE_KILLS=10", "CLUSTER=long", "LINEAR_CALLS=100000", "IMAGES=100000", "SEEDED=all", "WALKS=all", "BROWSERS=all",
	"FIGURES=all", "PAYMENTS=1000", "PAYMENTS_AT_ONCE=40", "CHECKER=node",
}

// long runs the long forms of tests, which takes hours.
func long(ctx context.Context, r *runner, log io.Writer) error {
	needs := r.command(ctx, log, ".", filepath.Join(r.root, ".ci/needs"), "browsers")
	checker := r.command(ctx, log, ".", "go", "run", "./tools/checker") // the npm package has it
	if err := errors.Join(needs.Run(), checker.Run()); err != nil {
		return err
	}
	for _, setting := range longForms {
		name, value, _ := strings.Cut(setting, "=")
		if os.Getenv(name) == "" { // what the caller says wins
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	flags := []string{"-vet=off", "-count=1", "-parallel=8", "-timeout=24h"}
	return r.testAll(ctx, log, "long", flags, slices.Concat(r.groups[database], r.groups[e2e], r.groups[browser]))
}
