package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD108NodesThatDifferAreSeen: two nodes with the same files in different directories, at different addresses, look
// the same. With another limit, another CA or another key file they do not, from the reload on.
func TestD108NodesThatDifferAreSeen(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	one := rig.StartSite(t, ca, ds, rig.Plan{Unready: true})
	from := filepath.Dir(one.ConfigFile)
	two := rig.StartSite(t, ca, ds, rig.Plan{Unready: true, Prepare: func(dir string) {
		files, err := filepath.Glob(filepath.Join(from, "*.pem"))
		rig.Must(t, err)
		for _, file := range files {
			rig.WriteFile(t, filepath.Join(dir, filepath.Base(file)), rig.ReadFile(t, file))
		}
		rig.Must(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
		for _, name := range []string{"keys.json", "journal-keys.json"} {
			rig.Must(t, os.WriteFile(filepath.Join(dir, "data", name), rig.ReadFile(t, filepath.Join(from, "data", name)), 0o600))
		}
	}})
	want := one.Identity()
	if got := two.Identity(); got != want {
		t.Fatalf("the second node runs with %+v, the first with %+v", got, want)
	}

	dir := filepath.Dir(two.ConfigFile)
	good := string(rig.ReadFile(t, two.ConfigFile))
	bundle := rig.ReadFile(t, filepath.Join(dir, "ca.pem"))
	secret := strings.Repeat("A", 43) + "="
	keys := filepath.Join(dir, "data", "keys.json")
	keyFile := string(rig.ReadFile(t, keys))
	seen := []rig.NodeIdentity{want}
	for _, change := range []struct {
		name string
		do   func()
	}{
		{"a limit", func() {
			rig.WriteFile(t, two.ConfigFile, []byte(strings.Replace(good, "limits: {wait: 1m}", "limits: {wait: 1m, per_directory: 7}", 1)))
		}},
		{"a CA", func() {
			rig.WriteFile(t, two.ConfigFile, []byte(good))
			rig.WriteFile(t, filepath.Join(dir, "ca.pem"), slices.Concat(bundle, rig.NewAuthority(t).PEM()))
		}},
		{"a secret in the key file", func() {
			rig.WriteFile(t, filepath.Join(dir, "ca.pem"), bundle)
			rig.Must(t, os.WriteFile(keys, []byte(strings.Replace(keyFile, "{", `{"next": "`+secret+`", `, 1)), 0o600))
		}},
	} {
		before := two.Metric(`threeds_config_reloads_total{result="applied"}`)
		change.do()
		two.HangUp()
		waittest.Until(t, change.name+": the reload; the log:\n"+two.Log.String(), func() bool {
			return two.Metric(`threeds_config_reloads_total{result="applied"}`) > before
		})
		got := two.Identity()
		if slices.Contains(seen, got) {
			t.Errorf("with %s changed the node runs with %+v, as before", change.name, got)
		}
		seen = append(seen, got)
	}
	last := seen[len(seen)-1]
	if last.Config != want.Config || last.KeyFile.Current != want.KeyFile.Current || last.KeyFile.Next == "" {
		t.Errorf("with a next secret alone the node runs with %+v, before with %+v", last, want)
	}
	if text := two.Exposed(); strings.Contains(text, secret) {
		t.Error("the metrics hold a secret of the key file")
	}
}
