package build

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
		if err != nil {
			t.Fatal(err)
		}
		if all[0] != (Module{"own", "v0.1.0", "Apache-2.0", "two share"}) || all[2] != (Module{"dep", "v1.0.0", "MIT AND BSD-3-Clause", "another"}) {
			t.Errorf("the licences are %q", all)
		}
	}
}

func TestDescribeBuild(t *testing.T) {
	for _, tt := range []struct {
		version, told string
		settings      []debug.BuildSetting
		want          string
	}{
		{"", "", nil, "threeds development, go1.26"},
		{"(devel)", "", []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}}, "threeds development, commit 0123456789ab, go1.26"},
		{"v0.1.0", "", []debug.BuildSetting{{Key: "vcs.revision", Value: "01234"}, {Key: "vcs.modified", Value: "true"}},
			"threeds v0.1.0, commit 01234 with changes, go1.26"},
		{"v0.1.0", "", []debug.BuildSetting{{Key: "vcs.modified", Value: "false"}, {Key: "-trimpath", Value: "true"}}, "threeds v0.1.0, go1.26"},
		{"v0.1.0", "", []debug.BuildSetting{{Key: "vcs.revision", Value: "01234"}, {Key: "vcs.time", Value: "2026-11-29T08:00:00Z"}},
			"threeds v0.1.0, commit 01234, 2026-11-29T08:00:00Z, go1.26"},
		{"(devel)", "v0.1.0-3-g0123456", nil, "threeds v0.1.0-3-g0123456, go1.26"},
		{"v0.1.0", "v0.1.1", nil, "threeds v0.1.1, go1.26"},
	} {
		info := &debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: tt.version}, Settings: tt.settings}
		if got := newInfo(info, tt.told).String(); got != tt.want {
			t.Errorf("newInfo(%q, %v, %q) = %q, want %q", tt.version, tt.settings, tt.told, got, tt.want)
		}
	}
}
