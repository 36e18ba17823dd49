package operators

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// configurationLines returns what a log says of a configuration, as config check prints it.
func configurationLines(t *testing.T, log string) (lines []string) {
	t.Helper()
	for text := range strings.Lines(log) {
		var line struct{ Msg, Warning, What, Fault string }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("a line of the log is not JSON: %s", text)
		}
		switch line.Msg {
		case "configuration":
			lines = append(lines, "threeds: warning: "+line.Warning)
		case "a part of the server is degraded":
			lines = append(lines, "threeds: warning: "+line.Msg+": "+line.What+": "+line.Fault)
		}
	}
	return lines
}

// checkSite writes the files of a site that is not started and returns its configuration.
func checkSite(t *testing.T, p rig.Plan) (file string) {
	t.Helper()
	ca, dir := rig.NewAuthority(t), t.TempDir()
	s := &rig.Site{World: &rig.World{T: t}, Directory: rig.NewWire(t, ca), Authority: ca}
	file = filepath.Join(dir, "threeds.yaml")
	rig.WriteFile(t, file, []byte(s.WriteConfiguration(dir, p)))
	return file
}

// TestD109ConfigCheckSaysWhatServeSays: of a good configuration with warnings, config check prints what serve logs as
// plain text, exits with 0, and has opened and created nothing.
func TestD109ConfigCheckSaysWhatServeSays(t *testing.T) {
	t.Parallel()
	file := checkSite(t, rig.Plan{Visa: "    lab: true"})
	dir := filepath.Dir(file)
	expired := rig.ExpiredCA(t)
	rig.WriteFile(t, filepath.Join(dir, "ca.pem"), slices.Concat(rig.ReadFile(t, filepath.Join(dir, "ca.pem")), expired))
	before, err := os.ReadDir(dir)
	rig.Must(t, err)

	var out, said strings.Builder
	if code := rig.Run(t.Context(), []string{"config", "check", "--config", file}, strings.NewReader(""), &out, &said); code != 0 {
		t.Fatalf("config check: exit status %d\n%s", code, said.String())
	}
	if want := file + ": ok\n"; out.String() != want {
		t.Errorf("config check prints %q, want %q", out.String(), want)
	}
	after, err := os.ReadDir(dir)
	rig.Must(t, err)
	if len(after) != len(before) {
		t.Errorf("config check left %d files, there were %d", len(after), len(before))
	}

	proc := rig.Launch(t, nil, "serve", "--config", file)
	waittest.Until(t, "the server", func() bool { return strings.Contains(proc.Log.String(), `"msg":"serving"`) })
	proc.End(syscall.SIGTERM)
	shorten := func(lines []string) []string { // the log masks directories whose names look like card numbers
		for i := range lines {
			lines[i] = regexp.MustCompile(` /\S*/threeds\.yaml:`).ReplaceAllString(lines[i], " threeds.yaml:")
		}
		return lines
	}
	got := shorten(strings.Split(strings.TrimSpace(said.String()), "\n"))
	want := shorten(configurationLines(t, proc.Log.String()))
	if !slices.Equal(got, want) || len(want) < 2 {
		t.Errorf("config check says\n%s\nserve says\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestConfigDiffSaysWhatAReloadDoes: what config diff says of a changed file is what the running server then takes up,
// or refuses, and the line of the log has the same keys with the hashes of before and after. Its exit status says
// whether something differs, and whether a file is wrong.
func TestConfigDiffSaysWhatAReloadDoes(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	text, next := s.ConfigText(), filepath.Join(filepath.Dir(s.ConfigFile), "next.yaml")
	before := s.Identity().Config
	diff := func(changed string, wantCode int) (changes []config.Change, errs string) {
		t.Helper()
		rig.WriteFile(t, next, []byte(changed))
		var out, said strings.Builder
		code := rig.Run(t.Context(), []string{"config", "diff", "--json", "--config", s.ConfigFile, next}, strings.NewReader(""), &out, &said)
		if code != wantCode {
			t.Fatalf("config diff: exit status %d, want %d\n%s%s", code, wantCode, out.String(), said.String())
		}
		if code != 2 {
			rig.Must(t, json.Unmarshal([]byte(out.String()), &changes))
		}
		return changes, said.String()
	}
	if changes, errs := diff("# the same\n"+text, 0); len(changes) != 0 || errs != "" {
		t.Errorf("the same: %+v, %s", changes, errs)
	}
	if _, errs := diff(text+"nonsense: true\n", 2); !strings.Contains(errs, "next.yaml") || !strings.Contains(errs, "nonsense: unknown key") {
		t.Errorf("a wrong file: %s", errs)
	}

	other := strings.Replace(text, "requestor_id: ServerID", "requestor_id: AnotherID", 1)
	changes, errs := diff(other, 1)
	if len(changes) != 1 || changes[0].Key != "server.requestor_id" || changes[0].Before != "ServerID" || changes[0].After != "AnotherID" ||
		changes[0].NeedsRestart || changes[0].Line == 0 || !strings.Contains(errs, "1 change") {
		t.Fatalf("%+v, %s", changes, errs)
	}
	rig.WriteFile(t, s.ConfigFile, []byte(other))
	waittest.Until(t, "the reload", func() bool { return s.Metric(rig.ReloadApplied) == 1 })
	want := `"former":"` + before + `","config":"` + s.Identity().Config + `","changed":["server.requestor_id"]`
	waittest.Until(t, "its line with "+want, func() bool { return strings.Contains(s.Log.String(), want) })

	moved := strings.Replace(other, "wait: 1m", "wait: 9s", 1)
	changes, errs = diff(moved, 1)
	if len(changes) != 1 || changes[0].Key != "limits.wait" || !changes[0].NeedsRestart || !strings.Contains(errs, "until it is restarted") {
		t.Fatalf("%+v, %s", changes, errs)
	}
	rig.WriteFile(t, s.ConfigFile, []byte(moved))
	waittest.Until(t, "the refusal", func() bool { return s.Metric(rig.ReloadRefused) == 1 })
}

// TestConfigShowSaysWhereValuesComeFrom: the table names lines of the file, and the JSON has the same settings.
func TestConfigShowSaysWhereValuesComeFrom(t *testing.T) {
	t.Parallel()
	file := checkSite(t, rig.Plan{Visa: "    lab: true"})
	show := func(args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		if code := rig.Run(t.Context(), append([]string{"config", "show"}, args...), strings.NewReader(""), &out, &errs); code != 0 || errs.String() != "" {
			t.Fatalf("config show: exit status %d\n%s", code, errs.String())
		}
		return out.String()
	}
	table := show(file)
	line := 1 + strings.Count(strings.Split(string(rig.ReadFile(t, file)), "    lab: true")[0], "\n")
	for _, want := range []string{
		`(?m)^KEY +VALUE +FROM$`,
		`(?m)^limits\.in_flight +10000 +default$`,
		`(?m)^directories\[visa\]\.lab +true +` + regexp.QuoteMeta(fmt.Sprintf("%s:%d", file, line)) + `$`,
		`(?m)^results\.tls\.key +set, in \S+ +\S+:\d+$`,
	} {
		if !regexp.MustCompile(want).MatchString(table) {
			t.Errorf("no line %s in\n%s", want, table)
		}
	}
	var all []config.Setting
	rig.Must(t, json.Unmarshal([]byte(show("--json", "--config", file)), &all))
	if n := strings.Count(table, "\n") - 1; n != len(all) || n < 80 {
		t.Errorf("the table has %d settings, and the JSON %d", n, len(all))
	}
}

// TestD109ConfigCheckFailsAsServe: what serve refuses to start with, config check names in the same lines, and it exits
// with 1.
func TestD109ConfigCheckFailsAsServe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		plan   rig.Plan
		change func(dir string)
		want   string
	}{
		"two faults":     {plan: rig.Plan{Sections: "limits: {per_directory: none}", Visa: "    refresh: 1"}, want: "limits.per_directory"},
		"no certificate": {change: func(dir string) { rig.Must(t, os.Remove(filepath.Join(dir, "client.pem"))) }, want: "client_cert.cert"},
		"no key file":    {plan: rig.Plan{Store: `store: {url: "postgres://127.0.0.1:1/none?sslmode=disable"}` + "\nkeys: keys.json"}, want: "keys.json"},
		"key file for all": {plan: rig.Plan{Store: "keys: keys.json"},
			change: func(dir string) { rig.Must(t, os.WriteFile(filepath.Join(dir, "keys.json"), nil, 0o644)) }, want: "mode 0644"},
		"key file of no use": {plan: rig.Plan{Store: "keys: keys.json"},
			change: func(dir string) { rig.Must(t, os.WriteFile(filepath.Join(dir, "keys.json"), []byte("{}"), 0o600)) },
			want:   "current: missing"},
	} {
		t.Run(name, func(t *testing.T) {
			file := checkSite(t, test.plan)
			if test.change != nil {
				test.change(filepath.Dir(file))
			}
			said := map[string]string{}
			for _, command := range []string{"config check", "serve"} {
				var out, errs strings.Builder
				code := rig.Run(t.Context(), append(strings.Fields(command), "--config", file), strings.NewReader(""), &out, &errs)
				if code != 1 || out.String() != "" || !strings.Contains(errs.String(), test.want) {
					t.Errorf("%s: exit status %d, %q, %q", command, code, out.String(), errs.String())
				}
				for line := range strings.Lines(errs.String()) {
					if strings.HasPrefix(line, "threeds: ") && !strings.HasPrefix(line, "threeds: warning: ") {
						said[command] += line
					}
				}
			}
			if said["config check"] != said["serve"] {
				t.Errorf("config check says\n%s\nserve says\n%s", said["config check"], said["serve"])
			}
		})
	}
}
