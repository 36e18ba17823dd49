package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/web"
)

// TestB1ScriptsAreCurrent: what is committed is what go generate makes of the source.
func TestB1ScriptsAreCurrent(t *testing.T) {
	for _, name := range scripts {
		want, err := bundleScript(webDir, name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(webDir, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("web/%s is not made of web/src: run go generate ./web (%v)", name, err)
		}
	}
}

// TestD75ReleaseKeepsTheLastFive: each release keeps its script, the sixth takes the first one's place, and the list
// has the integrity of each. A version is released once. Versions are ordered by number, not as texts.
func TestD75ReleaseKeepsTheLastFive(t *testing.T) {
	dir := t.TempDir()
	releases := filepath.Join(dir, "releases")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(releases, 0o700); err != nil {
		t.Fatal(err)
	}
	release := func(version, script string) error {
		write("package.json", `{"version": "`+version+`"}`)
		write("threeds.js", script)
		return keepRelease(dir)
	}
	versions := []string{"0.1.0", "0.2.0", "0.9.0", "0.10.0", "1.0.0", "1.0.1"}
	for i, version := range versions {
		if err := release(version, "export const n = "+version); err != nil {
			t.Fatal(err)
		}
		all, err := web.ReadReleases(os.DirFS(releases))
		if err != nil || len(all) != min(i+1, web.KeptReleases) || all[0].Version != version {
			t.Fatalf("after %s: %d releases, %v, want the last five, the newest first", version, len(all), err)
		}
	}
	all, err := web.ReadReleases(os.DirFS(releases))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range all {
		if want := versions[len(versions)-1-i]; r.Version != want || string(r.Script) != "export const n = "+want {
			t.Errorf("release %d is %s: %s, want %s", i, r.Version, r.Script, want)
		}
	}
	if _, err := os.Stat(filepath.Join(releases, "0.1.0.js")); err == nil {
		t.Error("the first of six releases is still there")
	}
	if err := release("1.0.1", "export const n = 1.0.1"); err != nil {
		t.Errorf("the same release again: %v", err)
	}
	if err := release("1.0.1", "export const n = 2"); err == nil {
		t.Error("1.0.1 could be released with another script")
	}
	if err := release("next", "export const n = 3"); err == nil {
		t.Error("a version that is no number could be released")
	}
	if err := os.WriteFile(filepath.Join(releases, "1.0.0.js"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := web.ReadReleases(os.DirFS(releases)); err == nil {
		t.Error("a release that was changed is read")
	}
}

// TestD75ReleasesOfThisProgram: what is built in can be served, and fits its list.
func TestD75ReleasesOfThisProgram(t *testing.T) {
	if _, err := web.ReadReleases(os.DirFS(filepath.Join(webDir, "releases"))); err != nil {
		t.Fatal(err)
	}
	for _, r := range web.Releases() {
		if _, err := readNumbers(r.Version); err != nil {
			t.Error(err)
		}
	}
}

// TestD75SizeOfScript: threeds.js has at most 12,288 bytes of gzip -9.
func TestD75SizeOfScript(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(webDir, "threeds.js"))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	_, _ = w.Write(script)
	_ = w.Close()
	t.Logf("threeds.js: %d bytes, %d of gzip -9, at most 12288", len(script), packed.Len())
	if packed.Len() > 12288 {
		t.Errorf("threeds.js has %d bytes of gzip -9, want at most 12288", packed.Len())
	}
}

// TestB1NoEvalNoInlineStyle: no script does what a strict Content-Security-Policy or Trusted Types refuse.
func TestB1NoEvalNoInlineStyle(t *testing.T) {
	refused := regexp.MustCompile(`\beval\(|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write|cssText|setAttribute\(["']style|srcdoc`)
	for _, name := range scripts {
		script, err := os.ReadFile(filepath.Join(webDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if found := refused.Find(script); found != nil {
			t.Errorf("%s has %s", name, found)
		}
	}
}

// TestD77MerchantColourFillsTheButtonAlone: text, focus and spinner keep colours that can be read on light and on dark.
// A merchant's dark green made Cancel unreadable on the dark page.
func TestD77MerchantColourFillsTheButtonAlone(t *testing.T) {
	set := regexp.MustCompile(`setProperty\(["'` + "`" + `](--[a-z]+)`)
	for _, name := range scripts {
		script, err := os.ReadFile(filepath.Join(webDir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, property := range set.FindAllSubmatch(script, -1) {
			if p := string(property[1]); p != "--main" && p != "--on" {
				t.Errorf("%s sets %s to a colour of the merchant", name, p)
			}
		}
	}
}

// TestD75NpmPack: the package has five files, and no dependencies.
func TestD75NpmPack(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(webDir, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var pkg map[string]any
	if err := json.Unmarshal(content, &pkg); err != nil {
		t.Fatal(err)
	}
	if pkg["name"] != "@openthreeds/browser" || pkg["type"] != "module" || pkg["dependencies"] != nil {
		t.Errorf("package.json: name %v, type %v, dependencies %v", pkg["name"], pkg["type"], pkg["dependencies"])
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed")
	}
	pack := exec.Command(npm, "pack", "--dry-run", "--json", "--offline")
	pack.Dir = webDir
	out, err := pack.Output()
	var packed []struct{ Files []struct{ Path string } }
	if err != nil || json.Unmarshal(out, &packed) != nil || len(packed) != 1 {
		t.Fatalf("npm pack: %v\n%s", err, out)
	}
	var names []string
	for _, f := range packed[0].Files {
		names = append(names, f.Path)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "LICENSE README.md package.json threeds.d.ts threeds.js" {
		t.Errorf("npm pack: %s", got)
	}
}
