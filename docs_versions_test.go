package threeds_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDocsOfEachReleaseArePublished: .ci/docs-versions makes one site of the documentation of main and of the newest
// releases, whose root is that of the newest release, and in the order of their numbers.
func TestDocsOfEachReleaseArePublished(t *testing.T) {
	for _, tool := range []string{"git", "make", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT TESTED: publishing the documentation: there is no %s", tool)
		}
	}
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	write := func(name, text string, mode fs.FileMode) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	run("git", "init", "--quiet", ".")
	write(".ci/docs-versions", text(t, ".ci/docs-versions"), 0o755)
	write(".gitignore", "/artifacts\n", 0o644)
	write("Makefile", "docs:\n\tmkdir -p artifacts/docs/assets\n\tcp page.md artifacts/docs/index.html\n"+
		"\ttouch artifacts/docs/assets/docs.css\n", 0o644)
	for _, version := range []string{"v0.1.0", "v0.2.0", "v0.9.0", "v0.10.0", "v0.10.1", "v0.11.0-rc.1", "v0.3.1", "main"} {
		write("page.md", "page of "+version, 0o644)
		run("git", "add", ".")
		run("git", "commit", "--quiet", "--message", version)
		if version != "main" {
			run("git", "tag", version)
		}
	}
	site := filepath.Join(dir, "artifacts", "site")
	run("bash", ".ci/docs-versions", "artifacts/site")
	entries, err := os.ReadDir(site)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"assets", "index.html", "main", "v0.10.0", "v0.10.1", "v0.2.0", "v0.3.1", "v0.9.0", "versions.html"}
	if !slices.Equal(names, want) {
		t.Errorf("the site has %q, want %q", names, want)
	}
	for page, want := range map[string]string{
		"index.html": "page of v0.10.1", "main/index.html": "page of main", "v0.9.0/index.html": "page of v0.9.0", "v0.10.0/assets/docs.css": "",
	} {
		if got := text(t, filepath.Join(site, page)); got != want {
			t.Errorf("%s is %q, want %q", page, got, want)
		}
	}
	list := text(t, filepath.Join(site, "versions.html"))
	if at := []int{strings.Index(list, ">main<"), strings.Index(list, ">v0.10.1<"), strings.Index(list, ">v0.9.0<")}; at[0] < 0 || !slices.IsSorted(at) {
		t.Errorf("the list of versions is %s", list)
	}
}
