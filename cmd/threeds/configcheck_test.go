package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/server"
)

// configurationLines are the lines of a log that say something of a configuration, without their times.
func configurationLines(t *testing.T, log string) (lines []string) {
	t.Helper()
	for text := range strings.Lines(log) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("a line of the log is not JSON: %s", text)
		}
		if line["msg"] != "configuration" && line["msg"] != "a part of the server is degraded" {
			continue
		}
		delete(line, "time")
		data, err := json.Marshal(line)
		must(t, err)
		lines = append(lines, string(data))
	}
	return lines
}

// checkSite writes the files of a site that is not started and returns its configuration.
func checkSite(t *testing.T, p plan) (file string) {
	t.Helper()
	ca, dir := newAuthority(t), t.TempDir()
	s := &site{world: &world{t: t}, ds: newWire(t, ca), ca: ca}
	file = filepath.Join(dir, "threeds.yaml")
	write(t, file, []byte(s.yaml(dir, p)))
	return file
}

// TestD109ConfigCheckSaysWhatServeSays: of a good configuration with warnings, config check logs what serve logs, exits
// with 0, and has opened and created nothing.
func TestD109ConfigCheckSaysWhatServeSays(t *testing.T) {
	file := checkSite(t, plan{visa: "    lab: true"})
	dir := filepath.Dir(file)
	expired := expiredCA(t)
	write(t, filepath.Join(dir, "ca.pem"), slices.Concat(contents(t, filepath.Join(dir, "ca.pem")), expired))
	before, err := os.ReadDir(dir)
	must(t, err)

	var out, said strings.Builder
	if code := run(t.Context(), []string{"config", "check", "--config", file}, strings.NewReader(""), &out, &said); code != 0 {
		t.Fatalf("config check: exit status %d\n%s", code, said.String())
	}
	if want := file + ": ok\n"; out.String() != want {
		t.Errorf("config check prints %q, want %q", out.String(), want)
	}
	after, err := os.ReadDir(dir)
	must(t, err)
	if len(after) != len(before) {
		t.Errorf("config check left %d files, there were %d", len(after), len(before))
	}

	ctx, cancel := context.WithCancel(t.Context())
	log := new(lockedBuffer)
	must(t, serve(ctx, file, log, func(*server.Config) { cancel() }))
	got, want := configurationLines(t, said.String()), configurationLines(t, log.String())
	if !slices.Equal(got, want) || len(want) < 2 {
		t.Errorf("config check says\n%s\nserve says\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestD109ConfigCheckFailsAsServe: what serve refuses to start with, config check names in the same lines, and it exits
// with 1.
func TestD109ConfigCheckFailsAsServe(t *testing.T) {
	for name, test := range map[string]struct {
		plan   plan
		change func(dir string)
		want   string
	}{
		"two faults":         {plan: plan{sections: "limits: {per_directory: none}", visa: "    refresh: 1"}, want: "limits.per_directory"},
		"no certificate":     {change: func(dir string) { must(t, os.Remove(filepath.Join(dir, "client.pem"))) }, want: "client_cert.cert"},
		"no key file":        {plan: plan{store: `store: {url: "postgres://127.0.0.1:1/none?sslmode=disable"}` + "\nkeys: keys.json"}, want: "keys.json"},
		"key file for all":   {plan: plan{store: "keys: keys.json"}, change: func(dir string) { must(t, os.WriteFile(filepath.Join(dir, "keys.json"), nil, 0o644)) }, want: "mode 0644"},
		"key file of no use": {plan: plan{store: "keys: keys.json"}, change: func(dir string) { must(t, os.WriteFile(filepath.Join(dir, "keys.json"), []byte("{}"), 0o600)) }, want: "current: missing"},
	} {
		t.Run(name, func(t *testing.T) {
			file := checkSite(t, test.plan)
			if test.change != nil {
				test.change(filepath.Dir(file))
			}
			said := map[string]string{}
			for _, command := range []string{"config check", "serve"} {
				var out, errs strings.Builder
				code := run(t.Context(), append(strings.Fields(command), "--config", file), strings.NewReader(""), &out, &errs)
				if code != 1 || out.String() != "" || !strings.Contains(errs.String(), test.want) {
					t.Errorf("%s: exit status %d, %q, %q", command, code, out.String(), errs.String())
				}
				for line := range strings.Lines(errs.String()) {
					if strings.HasPrefix(line, "threeds: ") {
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
