package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/txtartest"
)

var itemInKey = regexp.MustCompile(`\[[^\]]*\]`)

// TestConfigShowHasEveryKey: of the configuration that names every key, each has a setting with its line. The keys are
// those of the reference page, so that a new one cannot be forgotten.
func TestConfigShowHasEveryKey(t *testing.T) {
	t.Parallel()
	_, c := fullConfig(t)
	shown := map[string]bool{}
	fromFile := 0
	for _, s := range c.Settings() {
		key := itemInKey.ReplaceAllString(s.Key, "[]")
		for at := key; at != ""; at = at[:max(strings.LastIndex(at, "."), 0)] {
			shown[at] = true
		}
		if s.Source == FromFile && s.Line > 0 {
			fromFile++
		}
		if (s.Line > 0) != (s.Source == FromFile) {
			t.Errorf("%s is of %s, in line %d", s.Key, s.Source, s.Line)
		}
	}
	names := strings.NewReplacer(".merchant_groups.GROUP", ".merchant_groups.acme-staff", ".VERSION", ".2.2.0", ".GROUP", ".group", ".SCHEME", ".visa")
	all := documentedKeys(t)
	for _, k := range all {
		if key := strings.TrimSuffix(names.Replace(k.Path), "[]"); !shown[key] {
			t.Errorf("%s is not shown", k.Path)
		}
	}
	if fromFile < 110 || len(all) < 150 {
		t.Errorf("of %d keys, %d settings are from the file", len(all), fromFile)
	}
}

// TestConfigShowSaysWhereAValueComesFrom: a line of the file, the store or a default; and what holds without a value.
func TestConfigShowSaysWhereAValueComesFrom(t *testing.T) {
	t.Parallel()
	a, err := txtartest.ParseFile("testdata/config/managed.txtar")
	must(t, err)
	text := strings.Replace(string(a.Files[0].Data), "manged", "managed", 1)
	c, err := Parse("threeds.yaml", []byte(text+"limits: {wait: 7ms, in_flight: }\njournal: off\n"))
	must(t, err)
	all := byKey(c.Settings())
	line := strings.Count(text, "\n") + 1
	for key, want := range map[string]Setting{
		"limits.wait":                           {Value: "7ms", Source: FromFile, Line: line},
		"limits.in_flight":                      {Value: "10000", Source: FromDefault}, // it is there without a value
		"limits.per_merchant":                   {Value: "2500", Source: FromDefault},
		"limits.per_key":                        {Value: "500/s", Source: FromDefault},
		"timeouts.values":                       {Value: "30m", Source: FromDefault},
		"timeouts.challenge":                    {Value: "24h", Source: FromDefault},
		"keys":                                  {SecretFile: "threeds-data/keys.json", Source: FromDefault},
		"browser":                               {Source: FromDefault},
		"journal":                               {Value: "off", Source: FromFile, Line: line + 1},
		"directories[visa].client_cert":         {Value: "managed", Source: FromStore},
		"directories[visa].timeout":             {Value: "10s", Source: FromDefault},
		"webhooks.retry":                        {Value: "5s, 30s, 2m, 10m, 1h, 3h, 8h, 12h, 12h, 12h, 12h, 12h, 12h", Source: FromDefault},
		"server.reference_numbers":              {Source: FromDefault},
		"console.oidc":                          {Source: FromDefault},
		"directories[visa].results":             {Source: FromDefault},
		"directories[visa].min_refresh":         {Value: "1h, and 12h between full loads of 2.3.1", Source: FromDefault},
		"directories[visa].critical_extensions": {Source: FromDefault},
	} {
		got := all[key]
		if got == nil {
			t.Errorf("%s is not shown", key)
			continue
		}
		if key == "directories[visa].client_cert" {
			got.Line = 0
		}
		if got.Value != want.Value || got.SecretFile != want.SecretFile || got.Source != want.Source || got.Line != want.Line {
			t.Errorf("%s is %+v, want %+v", key, *got, want)
		}
	}
	if all["journal.keep"] != nil || all["browser.listen"] != nil {
		t.Error("keys of a section that is not there are shown")
	}
}

// TestConfigShowHasNoSecret: of a secret there is the file, and nothing of its content. Which files hold secrets is
// asked of the reader: it warns of each that others may read.
func TestConfigShowHasNoSecret(t *testing.T) {
	t.Parallel()
	file, _ := fullConfig(t)
	dir := filepath.Dir(file)
	files, err := os.ReadDir(dir)
	must(t, err)
	for _, f := range files {
		must(t, os.Chmod(filepath.Join(dir, f.Name()), 0o644))
	}
	write(t, filepath.Join(dir, "proxy.secret"), []byte("canaryUser:canaryPassword"))
	c, _, err := Load(file, noon)
	must(t, err)
	secrets := map[string]string{}
	for _, s := range c.Settings() {
		if s.SecretFile != "" {
			if s.Value != "" {
				t.Errorf("%s is secret, and shown as %q", s.Key, s.Value)
			}
			secrets[itemInKey.ReplaceAllString(s.Key, "[]")] = s.SecretFile
		}
	}
	warned := 0
	for _, w := range c.Warnings {
		if m := regexp.MustCompile(`yaml:\d+:\d+: (\S+): every user`).FindStringSubmatch(w); m != nil {
			warned++
			if key := itemInKey.ReplaceAllString(m[1], "[]"); secrets[key] == "" {
				t.Errorf("%s holds a secret, and is not shown as one", key)
			}
		}
	}
	if warned < 8 {
		t.Errorf("the reader warns of %d files with secrets:\n%s", warned, strings.Join(c.Warnings, "\n"))
	}
	other := new(Config)
	shown, err := json.Marshal([]any{c.Settings(), other.Diff(c), c.Diff(other)})
	must(t, err)
	lines := 0
	for key, path := range secrets {
		content, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) { // of keys, which the server makes
			continue
		}
		must(t, err)
		for part := range strings.FieldsFuncSeq(string(content), func(r rune) bool { return strings.ContainsRune("\n\r:", r) }) {
			if part = strings.TrimSpace(part); len(part) >= 6 && !strings.HasPrefix(part, "-----") {
				lines++
				if strings.Contains(string(shown), part) {
					t.Errorf("what %s holds is shown", key)
				}
			}
		}
	}
	if len(secrets) < 10 || lines < 10 {
		t.Errorf("%d secrets with %d lines: the test shows little", len(secrets), lines)
	}
}

// TestConfigDiffAgreesWithReload: for each changed configuration a reload does what the diff says: it refuses those
// that need a restart, with the same keys, and takes up all others.
func TestConfigDiffAgreesWithReload(t *testing.T) {
	t.Parallel()
	file, _ := fullConfig(t)
	text, err := os.ReadFile(file)
	must(t, err)
	dir := filepath.Dir(file)
	write(t, filepath.Join(dir, "keys.json"), []byte("{}"))
	write(t, filepath.Join(dir, "other.json"), []byte("{}"))
	const pg = `postgres://user@db.example/threeds?sslmode=verify-full`
	restarts := map[string]bool{}
	for name, replace := range map[string][]string{
		"nothing":                    nil,
		"a comment":                  {"log: {", "# a comment\nlog: {"},
		"a default written":          {"in_flight: 100", "in_flight: 100\n  connections: 4096"},
		"api.listen":                 {"listen: 127.0.0.1:8080", "listen: 127.0.0.1:8081"},
		"results.listen":             {"listen: :8443", "listen: :8444"},
		"console.listen":             {"{listen: 127.0.0.1:9090", "{listen: 127.0.0.1:9099"},
		"metrics_listen":             {`"127.0.0.1:9091"`, `"127.0.0.1:9092"`},
		"console.url":                {"https://Console.example:443/", "https://other.example"},
		"console.url gone":           {`url: "https://Console.example:443/", `, "", "passkeys: true, ", "", ", oidc: {issuer", "}\n#"},
		"browser.listen":             {`":8447"`, `":8448"`},
		"browser.url":                {"https://pay.acquirer.example", "https://other.example"},
		"browser gone":               {"browser: {", "#"},
		"keys":                       {"keys: keys.json", "keys: other.json"},
		"store.url":                  {"file:threeds-data", "file:other-data"},
		"store is a database":        {"file:threeds-data", pg},
		"connections":                {"in_flight: 100", "in_flight: 100\n  connections: 5000"},
		"wait":                       {"in_flight: 100", "in_flight: 100\n  wait: 9ms"},
		"in_flight":                  {"in_flight: 100", "in_flight: 200"},
		"another key helper":         {"timeout: 3s", "timeout: 4s"},
		"no key helper":              {"key_helper: {", "#"},
		"tracing gone":               {"tracing: {", "#"},
		"tracing elsewhere":          {"https://collector.example:4318", "https://other.example:4318"},
		"tracing of more":            {"0.25", "0.5"},
		"tracing elsewhere, of more": {"https://collector.example:4318", "https://other.example:4318", "0.25", "0.5"},
		"no journal":                 {"acp: {", "journal: off\nacp: {"},
		"a journal elsewhere":        {"acp: {", "journal: {url: \"file:journal\"}\nacp: {"},
		"journal.keys":               {"acp: {", "journal: {keys: journal.json}\nacp: {"},
		"journal.keep":               {"acp: {", "journal: {keep: 500d}\nacp: {"},
		"another merchant":           {"merchants:\n", "merchants:\n  - {name: Other}\n"},
		"a merchant changes":         {"The Shop", "Another Shop"},
		"a scheme of 1.0.2":          {"  - scheme: mastercard\n", "  - scheme: jcb\n"},
		"a directory changes":        {"informational: any", "informational: strict"},
		"a proxy is gone":            {"forward_proxy: {url: \"https://proxy", "#"},
		"the log's level":            {"level: debug", "level: warn"},
		"a managed certificate":      {"    rules: visa.rules\n    client_cert: {cert: client.pem, key: client.key}", "    client_cert: managed"},
		"two at once":                {"in_flight: 100", "in_flight: 200\n  wait: 9ms"},
	} {
		t.Run(name, func(t *testing.T) {
			inUse, _, err := Load(file, noon)
			must(t, err)
			changed := string(text)
			for i := 0; i < len(replace); i += 2 {
				if !strings.Contains(changed, replace[i]) {
					t.Fatalf("the configuration has no %q", replace[i])
				}
				changed = strings.Replace(changed, replace[i], replace[i+1], 1)
			}
			next := filepath.Join(dir, "next.yaml")
			write(t, next, []byte(changed))
			c, _, err := Load(next, noon)
			must(t, err)
			changes := inUse.Diff(c)
			reloaded, _, err := inUse.Reload(next, noon, func(string) error { return nil })
			var refused Faults
			if err != nil && !errors.As(err, &refused) {
				t.Fatal(err)
			}
			for _, f := range refused {
				restarts[f.Key] = true
				if !slices.ContainsFunc(changes, func(ch Change) bool {
					return ch.NeedsRestart && (ch.Key == f.Key || strings.HasPrefix(f.Key, ch.Key+".") || strings.HasPrefix(ch.Key, f.Key+"."))
				}) {
					t.Errorf("a reload refuses %s, and the diff is %+v", f.Key, changes)
				}
			}
			needsRestart := slices.ContainsFunc(changes, func(ch Change) bool { return ch.NeedsRestart })
			if needsRestart != (err != nil) {
				t.Errorf("the diff is %+v, and a reload says %v", changes, err)
			}
			if slices.ContainsFunc(changes, func(ch Change) bool { return ch.NeedsRestart && ch.Key == "tracing.sampling_fraction" }) {
				t.Errorf("a reload takes up tracing.sampling_fraction, and the diff is %+v", changes)
			}
			if same := name == "nothing" || name == "a comment" || name == "a default written"; same != (len(changes) == 0) {
				t.Errorf("the diff is %+v", changes)
			}
			if err == nil && len(reloaded.Diff(c)) > 0 {
				t.Errorf("the reload leaves %+v", reloaded.Diff(c))
			}
		})
	}
	c := newParser("threeds.yaml").config
	for _, fixed := range c.fixedKeys(c) {
		if !restarts[fixed.path] && fixed.path != "store.engine" {
			t.Errorf("nothing here changes %s", fixed.path)
		}
	}
	// A database with and without Citus, for which there are no files here.
	one, two := new(Config), new(Config)
	one.Store.URL.Postgres, two.Store.URL.Postgres, two.Store.Engine = pg, pg, "citus"
	if changes := one.Diff(two); len(changes) != 1 || changes[0].Key != "store.engine" || !changes[0].NeedsRestart {
		t.Errorf("the diff is %+v", changes)
	}
}

// TestConfigDiffNamesSections: what is added or removed as a whole is one change.
func TestConfigDiffNamesSections(t *testing.T) {
	t.Parallel()
	file, full := fullConfig(t)
	less := copyConfig(t, file, "browser: {", "# browser: {", "  - scheme: mastercard\n", "  - scheme: jcb\n", "acp: {", "journal: off\nacp: {")
	for _, tt := range []struct {
		from, to *Config
		want     map[string][2]string
	}{
		{less, full, map[string][2]string{"browser": {"", Present}, "v1[mastercard]": {"", Present}, "v1[jcb]": {Present, ""}, "journal": {"off", Present}}},
		{full, less, map[string][2]string{"browser": {Present, ""}, "v1[mastercard]": {Present, ""}, "v1[jcb]": {"", Present}, "journal": {Present, "off"}}},
	} {
		got := map[string][2]string{}
		for _, ch := range tt.from.Diff(tt.to) {
			if !strings.HasPrefix(ch.After, "/") && !strings.HasPrefix(ch.After, "file:/") { // files are in two folders
				got[ch.Key] = [2]string{ch.Before, ch.After}
			}
		}
		for key, want := range tt.want {
			if got[key] != want {
				t.Errorf("%s: %q, want %q", key, got[key], want)
			}
		}
		if len(got) != len(tt.want) {
			t.Errorf("the changes are %v, want %v", got, tt.want)
		}
	}
}

// TestChangedKeysCountContents: a certificate in a file of the same name is a change of its key, a secret too.
func TestChangedKeysCountContents(t *testing.T) {
	t.Parallel()
	file, _ := fullConfig(t)
	dir := filepath.Dir(file)
	c, files, err := Load(file, noon)
	must(t, err)
	if keys := c.ChangedKeys(c, files, files); keys == nil || len(keys) != 0 {
		t.Errorf("%v have changed", keys)
	}
	write(t, filepath.Join(dir, "acp.secret"), []byte("another secret of more than 16 bytes"))
	write(t, filepath.Join(dir, "logo.svg"), []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`))
	next, nextFiles, err := Load(file, noon)
	must(t, err)
	if keys := c.ChangedKeys(next, files, nextFiles); !slices.Equal(keys, []string{"merchants[Shop].page.logo", "acp.signature"}) {
		t.Errorf("%v have changed", keys)
	}
}
