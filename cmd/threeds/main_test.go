package main

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childArgs) != "" {
		os.Exit(runChild())
	}
	testscript.Main(stopping{m}, map[string]func(){"threeds": main})
}

// stopping ends what the tests have started for all of them.
type stopping struct{ *testing.M }

func (m stopping) Run() int {
	defer pgtest.Stop()
	return m.M.Run()
}

// TestScripts runs the scripts in testdata: what is typed, what is said, how
// the process ends.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", UpdateScripts: *update, Cmds: rangeCommands})
}

func TestDescribeBuild(t *testing.T) {
	for _, tt := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"", nil, "threeds development, go1.26"},
		{"(devel)", []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}}, "threeds development, commit 0123456789ab, go1.26"},
		{"v0.1.0", []debug.BuildSetting{{Key: "vcs.revision", Value: "01234"}, {Key: "vcs.modified", Value: "true"}},
			"threeds v0.1.0, commit 01234 with changes, go1.26"},
	} {
		info := &debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: tt.version}, Settings: tt.settings}
		if got := describeBuild(info); got != tt.want {
			t.Errorf("describeBuild(%q, %v) = %q, want %q", tt.version, tt.settings, got, tt.want)
		}
	}
}

func TestHint(t *testing.T) {
	for _, tt := range []struct{ typed, want string }{
		{"sevre", `, did you mean "serve"?`},
		{"snadbox", `, did you mean "sandbox"?`},
		{"SERVE", `, did you mean "serve"?`},
		{"chekc", `, did you mean "check"?`},
		{"frobnicate", ""},
		{"", ""},
		{"k", ""},
	} {
		if got := hint(tt.typed, "serve", "sandbox", "check", "key"); got != tt.want {
			t.Errorf("hint(%q) = %q, want %q", tt.typed, got, tt.want)
		}
	}
}
