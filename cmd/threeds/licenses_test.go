package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

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
