package main

import (
	"debug/buildinfo"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// TestD114LicensesOfTheBinary builds the program as users do: it prints each module that go version -m lists, its own
// and the standard library, each with version, licence and text.
func TestD114LicensesOfTheBinary(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "threeds")
	build := exec.Command("go", "build", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	info, err := buildinfo.ReadFile(binary)
	must(t, err)
	out, err := exec.Command(binary, "licenses").Output()
	must(t, err)
	printed := string(out)
	if len(info.Deps) < 20 || !strings.HasPrefix(printed, info.Main.Path+" ") || !strings.Contains(printed, "\nstd "+info.GoVersion+" BSD-3-Clause\n\nCopyright") {
		t.Errorf("%d modules; threeds licenses begins with %.300q", len(info.Deps), printed)
	}
	for _, m := range info.Deps {
		_, after, isPrinted := strings.Cut(printed, fmt.Sprintf("\n%s %s ", m.Path, m.Version))
		license, text, _ := strings.Cut(after, "\n\n")
		if !isPrinted || license == "" || len(license) > 40 || len(text) < 500 {
			t.Errorf("%s %s: %t, %q", m.Path, m.Version, isPrinted, license)
		}
	}
}

// TestD114ModuleWithoutLicenseFails: a build of modules that licenses.txt lacks, or has in another version, says so.
func TestD114ModuleWithoutLicenseFails(t *testing.T) {
	const texts = "@@ own - Apache-2.0\n@@ std - BSD-3-Clause\ntwo share\n\n@@ dep v1.0.0 MIT AND BSD-3-Clause\nanother\n"
	for version, want := range map[string]string{"v1.0.0": "", "v1.0.1": "no licence of dep v1.0.1"} {
		info := &debug.BuildInfo{Main: debug.Module{Path: "own"}, Deps: []*debug.Module{{Path: "dep", Version: version}}}
		all, err := licensesOf(info, "v0.1.0", texts)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("dep %s: %v, want %q", version, err, want)
			}
			continue
		}
		must(t, err)
		if all[0] != (moduleLicense{"own", "v0.1.0", "Apache-2.0", "two share"}) || all[2] != (moduleLicense{"dep", "v1.0.0", "MIT AND BSD-3-Clause", "another"}) {
			t.Errorf("the licences are %q", all)
		}
	}
}
