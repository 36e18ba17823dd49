package threeds_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// A releaseConfig is what the tests below read of .goreleaser.yaml.
type releaseConfig struct {
	Version int
	Builds  []struct {
		Main         string
		GOOS, GOARCH []string
		Env, Flags   []string
		Tags         []string
		LDFlags      []string
	}
	NFPMs []struct {
		PackageName string `yaml:"package_name"`
		Bindir      string
		Formats     []string
		Scripts     map[string]string
		Contents    []releaseFile
	}
}

// A releaseFile is a file or folder of the packages.
type releaseFile struct {
	Src, Dst, Type string
	FileInfo       struct {
		Mode         uint32
		Owner, Group string
	} `yaml:"file_info"`
}

func readReleaseConfig(t *testing.T) *releaseConfig {
	t.Helper()
	c := new(releaseConfig)
	if err := yaml.Unmarshal([]byte(text(t, ".goreleaser.yaml")), c); err != nil {
		t.Fatal(err)
	}
	if c.Version != 2 || len(c.Builds) != 1 || len(c.NFPMs) != 1 {
		t.Fatalf("version %d, %d builds, %d packages; want 2, and one of each", c.Version, len(c.Builds), len(c.NFPMs))
	}
	return c
}

// TestReleaseIsForPlatformsWhoseLicencesAreKnown: licenses.txt has the modules of each platform that is released, and
// the binaries are static and say nothing of the folder in which they were built.
func TestReleaseIsForPlatformsWhoseLicencesAreKnown(t *testing.T) {
	build := readReleaseConfig(t).Builds[0]
	known := text(t, "tools/licenses/main.go")
	for _, system := range build.GOOS {
		for _, architecture := range build.GOARCH {
			if !strings.Contains(known, fmt.Sprintf("%q", system+"/"+architecture)) {
				t.Errorf("tools/licenses does not collect the licences of %s/%s", system, architecture)
			}
		}
	}
	if !slices.Contains(build.Env, "CGO_ENABLED=0") || !slices.Contains(build.Flags, "-trimpath") ||
		!slices.Contains(build.Flags, "-buildvcs=true") || !strings.Contains(strings.Join(build.LDFlags, " "), "-s -w ") {
		t.Errorf("built with %v, %v, %v", build.Env, build.Flags, build.LDFlags)
	}
	if !slices.Contains(build.Tags, "checker") {
		t.Error("the programs are built without the checker of the documentation")
	}
	if info, err := os.Stat(build.Main); err != nil || !info.IsDir() {
		t.Errorf("%s: %v", build.Main, err)
	}
}

// TestPackagesHaveWhatTheUnitsName: each file of deploy/systemd is in the packages, with the program, the
// configuration, the data and the user that the units name. Only the configuration, which has secrets next to
// it, is not for everybody.
func TestPackagesHaveWhatTheUnitsName(t *testing.T) {
	p := readReleaseConfig(t).NFPMs[0]
	to := map[string]releaseFile{}
	from := map[string]string{}
	for _, f := range p.Contents {
		to[f.Dst], from[f.Src] = f, f.Dst
		if f.Src != "" && !strings.HasPrefix(f.Src, "artifacts/") {
			if _, err := os.Stat(f.Src); err != nil {
				t.Error(err)
			}
		}
	}
	files, err := filepath.Glob("deploy/systemd/*")
	if err != nil {
		t.Fatal(err)
	}
	var units []string
	for _, file := range files {
		name := path.Base(filepath.ToSlash(file))
		want := "/usr/lib/systemd/system/" + name
		switch {
		case name == "threeds.yaml":
			want = "/etc/threeds/threeds.yaml"
		case name == "threeds.sysusers":
			want = "/usr/lib/sysusers.d/threeds.conf"
		default:
			units = append(units, name)
		}
		if got := from["deploy/systemd/"+name]; got != want {
			t.Errorf("%s is packed as %q, want %s", name, got, want)
		}
	}
	if len(units) != 5 {
		t.Errorf("units are %v", units)
	}

	unit := text(t, "deploy/systemd/threeds.service")
	setting := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(unit)
		if m == nil {
			t.Fatalf("the unit has no %s", name)
		}
		return m[1]
	}
	if want := p.Bindir + "/threeds serve --config /etc/threeds/threeds.yaml"; setting("ExecStart") != want {
		t.Errorf("the unit starts %s, want %s", setting("ExecStart"), want)
	}
	user, data := setting("User"), to["/var/lib/"+setting("StateDirectory")]
	if data.Type != "dir" || data.FileInfo.Mode != 0o700 || data.FileInfo.Owner != user || data.FileInfo.Group != user {
		t.Errorf("the data is in %+v", data)
	}
	for name, mode := range map[string]uint32{"/etc/threeds": 0o750, "/etc/threeds/threeds.yaml": 0o640} {
		if f := to[name]; f.FileInfo.Mode != mode || f.FileInfo.Owner != "" || f.FileInfo.Group != user {
			t.Errorf("%s is %+v", name, f)
		}
	}
	if kind := to["/etc/threeds/threeds.yaml"].Type; kind != "config|noreplace" {
		t.Errorf("the configuration is %q, and an upgrade replaces it", kind)
	}

	if !strings.Contains(text(t, p.Scripts["preinstall"]), " "+user+"\n") {
		t.Errorf("no script makes the user %s", user)
	}
	for _, script := range []string{"postinstall", "preremove"} {
		for _, name := range units {
			if said := text(t, p.Scripts[script]); !strings.Contains(said, strings.TrimSuffix(name, ".service")) {
				t.Errorf("%s does not name %s", script, name)
			}
		}
	}
}

// TestScriptsOfPackagesAct calls the scripts as dpkg and rpm do, with programs that only note how they were called: an
// upgrade restarts the server and never stops it, a removal stops it, and only a purge removes data.
func TestScriptsOfPackagesAct(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal("sh is missing, so the scripts of the packages are not tested")
	}
	if err != nil {
		t.Skip("SKIPPED: sh is not on this machine, so the scripts of the packages are not tested")
	}
	scripts := readReleaseConfig(t).NFPMs[0].Scripts
	for _, tt := range []struct {
		script, args string
		isRunning    bool // systemd
		want         string
	}{
		{"postinstall", "configure", true, "systemctl daemon-reload; systemctl try-restart threeds.service"},
		{"postinstall", "configure", false, ""},
		{"postinstall", "configure 0.0.9", true, "systemctl daemon-reload; systemctl try-restart threeds.service"},
		{"postinstall", "2", true, "systemctl daemon-reload; systemctl try-restart threeds.service"},
		{"preremove", "upgrade 0.1.0", true, ""},
		{"preremove", "1", true, ""},
		{"preremove", "remove", true, "systemctl --quiet stop UNITS; systemctl --quiet disable UNITS"},
		{"preremove", "0", true, "systemctl --quiet stop UNITS; systemctl --quiet disable UNITS"},
		{"preremove", "remove", false, "systemctl --quiet disable UNITS"},
		{"postremove", "remove", true, "systemctl daemon-reload"},
		{"postremove", "upgrade 0.1.0", false, ""},
		{"postremove", "0", false, ""},
		{"postremove", "purge", false, "rm -rf /var/lib/threeds"},
	} {
		dir := t.TempDir()
		log := filepath.Join(dir, "log")
		for _, name := range []string{"systemctl", "rm"} {
			program := "#!" + sh + "\necho \"" + name + " $*\" >>" + log + "\n"
			if err := os.WriteFile(filepath.Join(dir, name), []byte(program), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		running := filepath.Join(dir, "running")
		if tt.isRunning {
			if err := os.Mkdir(running, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		script := strings.ReplaceAll(text(t, scripts[tt.script]), "/run/systemd/system", running)
		cmd := exec.CommandContext(t.Context(), sh, append([]string{"-euc", script, tt.script}, strings.Fields(tt.args)...)...)
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s %s: %v\n%s", tt.script, tt.args, err, out)
		}
		said, _ := os.ReadFile(log) // which is missing if nothing was called
		units := "threeds.service threeds-api.socket threeds-results.socket threeds-browser.socket threeds-console.socket"
		got := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(string(said)), "\n", "; "), units, "UNITS")
		if got != tt.want {
			t.Errorf("%s %s calls %q, want %q", tt.script, tt.args, got, tt.want)
		}
		if isFirst := tt.script == "postinstall" && tt.args == "configure"; isFirst != strings.Contains(string(out), "does not run yet") {
			t.Errorf("%s %s says %s", tt.script, tt.args, out)
		}
	}
}

// TestWorkflowsPinTheSameActions: each action is named with its version, which is the same in all workflows.
func TestWorkflowsPinTheSameActions(t *testing.T) {
	files, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil || len(files) < 4 {
		t.Fatalf("workflows %v, %v", files, err)
	}
	versions := map[string]string{}
	for _, file := range files {
		content := text(t, file)
		var workflow map[string]any
		if err := yaml.Unmarshal([]byte(content), &workflow); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if workflow["permissions"] == nil {
			t.Errorf("%s gives each job all rights", file)
		}
		for _, m := range regexp.MustCompile(`uses: (\S+)`).FindAllStringSubmatch(content, -1) {
			name, version, _ := strings.Cut(m[1], "@")
			if !regexp.MustCompile(`^v\d+$|^[0-9a-f]{40}$`).MatchString(version) {
				t.Errorf("%s: %s names no version", file, m[1])
			}
			if other := versions[name]; other != "" && other != version {
				t.Errorf("%s: %s@%s, and another workflow has %s", file, name, version, other)
			}
			versions[name] = version
		}
	}
}
