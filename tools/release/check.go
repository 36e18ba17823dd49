package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Limits of what people download and install, in bytes. The documentation takes 3 MiB of both: it has a checker of
// messages for browsers, and pictures.
const (
	mostBinary = 44 << 20
	mostPacked = 19 << 20
)

// A row is one line of the report: what was tried with an artefact, and what came out.
type row struct {
	artefact string
	size     int64 // 0 if it has none
	tried    string
	took     time.Duration
	err      error // nil if all is well
}

// result says on one line what came out.
func (r *row) result() string {
	if r.err == nil {
		return "good"
	}
	return "FAILED: " + strings.ReplaceAll(r.err.Error(), "\n", " | ")
}

// A trial is all that a check has made, and the rows of its report.
type trial struct {
	work     string // a folder of its own
	source   string // the repository that is tried
	commit   string // the one that is tried
	platform string // the only one that is built, "" for all
	rev      *revision
	root     string // of the clone whose release is tried
	debian   string // the root of a Debian system that others copy
	rows     []row
	since    time.Time // when what the next row is about began
}

// release returns the path of a file of the release.
func (t *trial) release(name string) string { return filepath.Join(t.root, releaseDir, name) }

// add adds a row, and prints it for those who wait. It took the time since the row before. An artefact that is a file
// of the release has its size.
func (t *trial) add(artefact, tried string, err error) {
	r := row{artefact: artefact, tried: tried, took: time.Since(t.since), err: err}
	t.since = time.Now()
	if info, statErr := os.Stat(t.release(artefact)); statErr == nil {
		r.size = info.Size()
	}
	t.rows = append(t.rows, r)
	fmt.Fprintf(os.Stderr, "%s: %s: %s\n", r.artefact, r.tried, r.result())
}

// A part tries one kind of artefacts. It adds its rows to the trial, and returns an error only if it cannot go on.
type part struct {
	name string
	try  func(context.Context, *trial) error
}

// parts are done one after the other. What is released in another form than those here gets a part of its own.
var parts = []part{
	{"archives", tryArchives},
	{"packages", tryPackages},
	{"debian", tryDebian},
	{"image", tryImage},
	{"npm", tryNPM},
	{"chart", tryChart},
	{"bills", tryBills},
	{"sources", trySources},
}

// check makes a release of the commit that is checked out, twice and in two folders, and tries all of it.
func check(ctx context.Context, source string, args []string) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	platform := flags.String("platform", "", "build for `OS/ARCH` alone, such as linux/amd64, and with the user's build cache")
	version := flags.String("version", "0.1.0", "the version that the trial has, `MAJOR.MINOR.PATCH`; it is above 0.0.9")
	work := flags.String("work", "", "keep all that is made in `DIR`, and take from there what is made already")
	only := flags.String("only", "", "do these `PARTS` alone, with commas between them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	t := &trial{work: *work, source: source, platform: *platform, since: time.Now()}
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return errors.New("check mounts and installs: it needs Linux and root")
	}
	if t.work == "" {
		dir, err := os.MkdirTemp("", "threeds-release-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		t.work = dir
	}
	var err error
	if t.commit, err = output(ctx, source, nil, "git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	if err := t.makeReleases(ctx, *version); err != nil {
		return err
	}
	for _, p := range parts {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), p.name) {
			continue
		}
		t.since = time.Now()
		if err := p.try(ctx, t); err != nil {
			t.add(p.name, "all of it", err)
		}
	}
	return t.report(os.Stdout)
}

// makeReleases makes the release twice and compares, and the package of an earlier version that is upgraded from.
func (t *trial) makeReleases(ctx context.Context, version string) error {
	tools, err := findTools(ctx, t.source)
	if err != nil {
		return err
	}
	first, again := &job{tools: tools, platform: t.platform}, &job{tools: tools, platform: t.platform}
	if t.platform == "" {
		// What was compiled in one folder would be found in the other by the same cache.
		again.cache = filepath.Join(t.work, "cache")
	}
	t.root = filepath.Join(t.work, "one")
	first.root, again.root = t.root, filepath.Join(t.work, "another", "folder")
	for _, j := range []*job{first, again} {
		if err := t.makeRelease(ctx, j, version, nil); err != nil {
			return err
		}
	}
	os.RemoveAll(filepath.Join(t.work, "cache"))
	if t.rev, err = readRevision(ctx, t.root); err != nil {
		return err
	}
	for _, dir := range []string{releaseDir, npmDir} {
		err = errors.Join(err, compare(filepath.Join(first.root, dir), filepath.Join(again.root, dir)))
	}
	t.add("all files", "built twice, in two folders, and compared", err)

	earlier := &job{root: filepath.Join(t.work, "earlier"), tools: tools, platform: "linux/" + runtime.GOARCH}
	return t.makeRelease(ctx, earlier, earlierVersion, func(root string) error {
		f, err := os.OpenFile(filepath.Join(root, "deploy/systemd/threeds.yaml"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("# The example of an earlier release.\n")
		return errors.Join(err, f.Close())
	})
}

// earlierVersion is the version that is upgraded from.
const earlierVersion = "0.0.9"

// makeRelease clones the commit that is tried, and makes a release of it, unless that was done before. change
// changes the clone; nil leaves it as it is.
func (t *trial) makeRelease(ctx context.Context, j *job, version string, change func(root string) error) error {
	if _, err := os.Stat(filepath.Join(j.root, releaseDir, sumsFile)); err == nil {
		// A clone that was changed has one commit more.
		commits, err := output(ctx, j.root, nil, "git", "log", "-2", "--format=%H")
		if err == nil && slices.Contains(strings.Fields(commits), t.commit) {
			return nil
		}
	}
	if err := os.RemoveAll(j.root); err != nil {
		return err
	}
	if _, err := output(ctx, t.source, nil, "git", "clone", "--quiet", "--no-tags", "--no-checkout", ".", j.root); err != nil {
		return err
	}
	if _, err := output(ctx, j.root, nil, "git", "checkout", "--quiet", "--detach", t.commit); err != nil {
		return err
	}
	if change != nil {
		if err := change(j.root); err != nil {
			return err
		}
		if _, err := output(ctx, j.root, nil, "git", "-c", "user.name=release", "-c", "user.email=release@localhost", "commit",
			"--quiet", "--all", "--message=An earlier release"); err != nil {
			return err
		}
	}
	if _, err := output(ctx, j.root, nil, "git", "tag", "v"+version); err != nil {
		return err
	}
	return build(ctx, j)
}

// compare says how the files of two folders differ.
func compare(one, another string) error {
	a, err := sumFiles(one)
	if err != nil {
		return err
	}
	b, err := sumFiles(another)
	if err != nil {
		return err
	}
	var names []string
	for _, of := range [][2][]summedFile{{a, b}, {b, a}} {
		for _, f := range of[0] {
			if !slices.Contains(of[1], f) && !slices.Contains(names, f.name) {
				names = append(names, f.name)
			}
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("differ: %s", strings.Join(names, ", "))
	}
	return nil
}

// report prints the table.
func (t *trial) report(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ARTEFACT\tMiB\tTRIED\tSECONDS\tRESULT")
	failed := 0
	for _, r := range t.rows {
		size := ""
		if r.size > 0 {
			size = fmt.Sprintf("%.1f", float64(r.size)/(1<<20))
		}
		if r.err != nil {
			failed++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t%s\n", r.artefact, size, r.tried, r.took.Seconds(), r.result())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d failed", failed, len(t.rows))
	}
	return nil
}

// atMost says when a file is larger than it may be.
func atMost(size, most int64) error {
	if size > most {
		return fmt.Errorf("has %.1f MiB, want %d at most", float64(size)/(1<<20), most>>20)
	}
	return nil
}
