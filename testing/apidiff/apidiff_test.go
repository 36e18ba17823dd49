package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A clone is a repository with a module of its own.
type clone struct {
	t   *testing.T
	dir string
}

func newClone(t *testing.T) *clone {
	t.Helper()
	c := &clone{t, t.TempDir()}
	c.git("init", "--quiet")
	c.write("go.mod", "module example.com/threeds\n\ngo 1.26\n")
	c.write("api/api.go", "package api\n\ntype Answer struct{ Status string }\n")
	c.write("client/client.go", "package client\n\nfunc Call() {}\n")
	return c
}

func (c *clone) git(args ...string) {
	c.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = c.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func (c *clone) write(file, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clone) release(tag string) {
	c.t.Helper()
	c.git("add", "--all")
	c.git("commit", "--quiet", "--allow-empty", "--message", tag)
	c.git("tag", tag)
}

func (c *clone) compare(next string) (string, error) {
	var out strings.Builder
	err := run(c.t.Context(), &out, c.dir, next)
	return out.String(), err
}

// TestApidiffNeedsARelease: before the first release there is nothing to compare with, and a prerelease is none.
func TestApidiffNeedsARelease(t *testing.T) {
	t.Parallel()
	c := newClone(t)
	c.release("v0.1.0-rc.1")
	if out, err := c.compare(""); err != nil || !strings.HasPrefix(out, "no tag yet") {
		t.Errorf("%q, %v", out, err)
	}
}

// TestApidiffSaysWhichVersionChangesNeed: a change that breaks programs needs a version that says so, and each change
// of a public package has a line.
func TestApidiffSaysWhichVersionChangesNeed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ tag, file, text, line, need, low string }{
		{"v0.1.0", "internal/x/x.go", "package x\n", "", "v0.1.1", "v0.1.0"},
		{"v0.1.0", "client/more.go", "package client\n\nfunc More() {}\n", "compatible    example.com/threeds/client: More: added", "v0.1.1", "v0.1.0"},
		{"v0.1.0", "client/client.go", "package client\n", "incompatible  example.com/threeds/client: Call: removed", "v0.2.0", "v0.1.9"},
		{"v1.2.3", "client/more.go", "package client\n\nfunc More() {}\n", "compatible    example.com/threeds/client: More: added", "v1.3.0", "v1.2.4"},
		{
			"v1.2.3", "api/api.go", "package api\n\ntype Answer struct{ Status int }\n",
			"incompatible  example.com/threeds/api: Answer.Status: changed", "v2.0.0", "v1.9.0",
		},
		{"v1.2.3", "message/message.go", "package message\n", "compatible    example.com/threeds/message: new package", "v1.3.0", "v1.2.9"},
	} {
		c := newClone(t)
		c.release("v0.0.9")
		c.release(tt.tag)
		c.write(tt.file, tt.text)
		out, err := c.compare(tt.need)
		want := "since " + tt.tag + ": the next release is " + tt.need + " or higher\n"
		if err != nil || !strings.Contains(out, tt.line) || !strings.HasSuffix(out, want) {
			t.Errorf("%s, %s: %q, %v; want %q and %q", tt.tag, tt.file, out, err, tt.line, want)
		}
		if _, err := c.compare(tt.low); err == nil || !strings.Contains(err.Error(), "need "+tt.need) {
			t.Errorf("%s, %s: %v with %s, want an error that names %s", tt.tag, tt.file, err, tt.low, tt.need)
		}
	}
}

// TestApidiffNoticesAPackageThatIsGone: that breaks programs, too.
func TestApidiffNoticesAPackageThatIsGone(t *testing.T) {
	t.Parallel()
	c := newClone(t)
	c.release("v0.1.0")
	if err := os.RemoveAll(filepath.Join(c.dir, "client")); err != nil {
		t.Fatal(err)
	}
	if out, err := c.compare("v0.1.1"); err == nil || !strings.Contains(out, "incompatible  example.com/threeds/client: the package is gone") {
		t.Errorf("%q, %v", out, err)
	}
}

// TestPublicPackagesAreThere: each of them is a package of this module.
func TestPublicPackagesAreThere(t *testing.T) {
	t.Parallel()
	for _, pattern := range public {
		if files, err := filepath.Glob(filepath.Join("../..", pattern, "*.go")); err != nil || len(files) == 0 {
			t.Errorf("%s: %v, %v", pattern, files, err)
		}
	}
}
