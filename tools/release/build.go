package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Files and folders of a release, from the root of the repository.
const (
	configFile  = ".goreleaser.yaml"
	scriptsDir  = "deploy/packages"      // scripts of the packages
	pagesDir    = "artifacts/pages"      // completions and manual pages, which goreleaser packs
	distDir     = "artifacts/goreleaser" // what goreleaser leaves
	releaseDir  = "artifacts/release"    // what is published
	imageDir    = "artifacts/image"      // the image as a layout of OCI, which is pushed
	npmDir      = "artifacts/npm"        // the npm packages, which are published
	sumsFile    = "SHA256SUMS"
	latestImage = "ghcr.io/openthreeds/threeds"
)

// platformLines are those of the configuration of goreleaser that say for which platforms it builds.
var platformLines = [2]string{"goos: [linux, darwin, windows, freebsd]", "goarch: [amd64, arm64]"}

// A job is the making of one release.
type job struct {
	root     string // of a clone
	tools    *tools
	platform string // the only one, such as linux/amd64; "" for all
	cache    string // the build cache, "" for that of the user
}

// Tools are programs that builds use. They are built once, whatever cache a build has.
type tools struct{ goreleaser string }

// findTools builds the tools of this module, unless that was done before.
func findTools(ctx context.Context, root string) (*tools, error) {
	path, err := output(ctx, filepath.Join(root, "tools/release"), []string{"CGO_ENABLED=0"}, "go", "tool", "-n", "goreleaser")
	return &tools{goreleaser: path}, err
}

// A revision is the commit that is released.
type revision struct {
	version string // such as 0.1.0
	commit  string
	date    time.Time
}

// readRevision returns what is checked out. It has to be a commit with a tag, without changes.
func readRevision(ctx context.Context, root string) (*revision, error) {
	git := func(args ...string) (string, error) { return output(ctx, root, nil, "git", args...) }
	if changed, err := git("status", "--porcelain"); err != nil || changed != "" {
		return nil, fmt.Errorf("a release is made of a commit, and this tree has changes: %w\n%s", err, changed)
	}
	tag, err := git("describe", "--tags", "--exact-match", "--match", "v[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("the commit needs a tag such as v0.1.0: %w", err)
	}
	line, err := git("log", "-1", "--format=%H %cI")
	if err != nil {
		return nil, err
	}
	commit, text, _ := strings.Cut(line, " ")
	date, err := time.Parse(time.RFC3339, text)
	return &revision{strings.TrimPrefix(tag, "v"), commit, date.UTC()}, err
}

// environment returns the variables of a build. What the user has set in GOFLAGS has no place in a release.
func (j *job) environment() []string {
	all := []string{"CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOTOOLCHAIN=" + toolchain, "GOWORK=off"}
	if j.cache != "" {
		all = append(all, "GOCACHE="+j.cache)
	}
	return all
}

// writers make a release, one after the other. What is made of the binaries that goreleaser leaves in distDir, in
// another form than those here, has its place before the sums.
var writers = []func(context.Context, *job, *revision) error{
	writePages, writeChecker, runGoreleaser, writeImages, writeNPM, writeBills, writeSums,
}

// build makes everything that is published of a release, in releaseDir, imageDir and npmDir.
func build(ctx context.Context, j *job) error {
	rev, err := readRevision(ctx, j.root)
	if err != nil {
		return err
	}
	for _, dir := range []string{pagesDir, releaseDir, imageDir, npmDir} {
		if err := os.RemoveAll(filepath.Join(j.root, dir)); err != nil {
			return err
		}
	}
	for _, write := range writers {
		if err := write(ctx, j, rev); err != nil {
			return err
		}
	}
	return nil
}

// checkerDir gets the checker of messages.
const checkerDir = "internal/edge/docsite/checker"

// writeChecker builds the checker of messages, which goreleaser builds into the programs. The npm package has it, too.
func writeChecker(ctx context.Context, j *job, _ *revision) error {
	_, err := output(ctx, j.root, j.environment(), "go", "run", "./tools/checker")
	return err
}

// writePages writes the completions of all shells, and the manual pages as they are and compressed.
func writePages(ctx context.Context, j *job, rev *revision) error {
	dir := filepath.Join(j.root, pagesDir)
	program := filepath.Join(dir, "threeds")
	if _, err := output(ctx, j.root, j.environment(), "go", "build", "-trimpath", "-buildvcs=true",
		"-ldflags=-s -w -buildid= -X main.version=v"+rev.version, "-o", program, "./cmd/threeds"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "completions"), 0o755); err != nil {
		return err
	}
	for shell, name := range map[string]string{
		"bash": "threeds.bash", "zsh": "_threeds", "fish": "threeds.fish", "powershell": "threeds.ps1",
	} {
		text, err := output(ctx, dir, nil, program, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "completions", name), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	if _, err := output(ctx, dir, nil, program, "man", "man"); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "man", "*.1"))
	if err != nil || len(pages) == 0 {
		return fmt.Errorf("no manual pages: %w", err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is one of the package
		w.Write(text)
		w.Close()
		if err := os.WriteFile(page+".gz", packed.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// runGoreleaser makes binaries, archives and packages.
func runGoreleaser(ctx context.Context, j *job, rev *revision) error {
	config := filepath.Join(j.root, configFile)
	if j.platform != "" {
		system, architecture, _ := strings.Cut(j.platform, "/")
		text, err := os.ReadFile(config)
		if err != nil {
			return err
		}
		for i, line := range []string{"goos: [" + system + "]", "goarch: [" + architecture + "]"} {
			if !bytes.Contains(text, []byte(platformLines[i])) {
				return fmt.Errorf("%s has no line %s", configFile, platformLines[i])
			}
			text = bytes.Replace(text, []byte(platformLines[i]), []byte(line), 1)
		}
		config = filepath.Join(j.root, pagesDir, "goreleaser.yaml")
		if err := os.WriteFile(config, text, 0o644); err != nil {
			return err
		}
	}
	// An apk has the scripts with the times that they have on disk.
	scripts, err := filepath.Glob(filepath.Join(j.root, scriptsDir, "*"))
	if err != nil {
		return err
	}
	for _, script := range scripts {
		if err := os.Chtimes(script, rev.date, rev.date); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, j.tools.goreleaser, "release", "--clean", "--skip=publish,announce", "--config", config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = j.root, os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), j.environment()...)
	cmd.Env = append(cmd.Env, "GORELEASER_CURRENT_TAG=v"+rev.version)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("goreleaser: %w", err)
	}
	for _, a := range []string{"*.tar.gz", "*.zip", "*.deb", "*.rpm", "*.apk"} {
		files, err := filepath.Glob(filepath.Join(j.root, distDir, a))
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := copyFile(file, filepath.Join(j.root, releaseDir, filepath.Base(file))); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeNPM packs the binaries, and the clients for JavaScript, as npm packages.
func writeNPM(ctx context.Context, j *job, rev *revision) error {
	_, err := output(ctx, j.root, j.environment(), "go", "run", "./tools/npm", "-binaries", distDir, "-version", rev.version, "-out", npmDir)
	return err
}

// A binary is one that goreleaser has built.
type binary struct {
	Path   string // absolute
	GOOS   string
	GOARCH string
	Type   string
}

// platform returns the words that file names have for the platform of a binary.
func (b *binary) platform() string { return b.GOOS + "_" + b.GOARCH }

// readBinaries returns the binaries that goreleaser has built, by platform.
func readBinaries(root string) ([]binary, error) {
	text, err := os.ReadFile(filepath.Join(root, distDir, "artifacts.json"))
	if err != nil {
		return nil, err
	}
	var all []binary
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(b binary) bool { return b.Type != "Binary" })
	for i := range all {
		all[i].Path = filepath.Join(root, all[i].Path)
	}
	slices.SortFunc(all, func(a, b binary) int { return strings.Compare(a.platform(), b.platform()) })
	if len(all) == 0 {
		return nil, fmt.Errorf("goreleaser has built no binary")
	}
	return all, nil
}

// writeBills writes a bill of materials for each platform. Archive, packages and image of a platform have the same
// binary, and so the same bill.
func writeBills(ctx context.Context, j *job, rev *revision) error {
	binaries, err := readBinaries(j.root)
	if err != nil {
		return err
	}
	for _, b := range binaries {
		file := filepath.Join(j.root, releaseDir, "threeds_"+rev.version+"_"+b.platform()+".cdx.json")
		if _, err := output(ctx, j.root, []string{"GOFLAGS="}, filepath.Join(j.root, ".ci/sbom"), b.Path, file); err != nil {
			return err
		}
	}
	return nil
}

// writeSums writes the SHA-256 sum of each file of the release, as sha256sum does.
func writeSums(_ context.Context, j *job, _ *revision) error {
	dir := filepath.Join(j.root, releaseDir)
	sums, err := sumFiles(dir)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, s := range sums {
		fmt.Fprintf(&lines, "%s  %s\n", s.sum, s.name)
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(lines.String()), 0o644)
}

// A summedFile is a file with its SHA-256 sum.
type summedFile struct{ name, sum string }

// sumFiles sums up the files of a folder, in the order of their names.
func sumFiles(dir string) ([]summedFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []summedFile
	for _, e := range entries {
		sum, err := sumFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, summedFile{e.Name(), sum})
	}
	return all, nil
}

// sumFile returns the SHA-256 sum of a file, in hexadecimal digits.
func sumFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, f)
	return fmt.Sprintf("%x", hash.Sum(nil)), err
}

// copyFile copies a file with its mode, and makes the folder that it goes to.
func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	return err
}
