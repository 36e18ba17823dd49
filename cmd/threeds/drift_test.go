package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A nodeIdentity is what /readyz says of what a node runs with.
type nodeIdentity struct {
	Config  string
	KeyFile struct{ Current, Previous, Next string }
	Build   string

	JournalKeyFile string
}

// identity is what a node runs with, by /readyz; the metrics must say the same.
func (s *site) identity() (got nodeIdentity) {
	s.t.Helper()
	res, err := http.Get(s.console + "/readyz")
	must(s.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	must(s.t, err)
	must(s.t, json.Unmarshal(data, &got))
	text := s.exposed()
	for _, want := range []string{
		fmt.Sprintf("threeds_config_info{hash=%q} 1\n", got.Config),
		fmt.Sprintf("threeds_key_file_info{current=%q,next=%q,previous=%q} 1\n", got.KeyFile.Current, got.KeyFile.Next, got.KeyFile.Previous),
		fmt.Sprintf("threeds_build_info{version=%q} 1\n", got.Build),
		fmt.Sprintf("threeds_journal_key_file_info{id=%q} 1\n", got.JournalKeyFile),
	} {
		if got.JournalKeyFile == "" && strings.HasPrefix(want, "threeds_journal") {
			continue // its keys could not be read
		}
		if !strings.Contains(text, want) {
			s.t.Errorf("/metrics lacks %q", want)
		}
	}
	if got.Config == "" || got.KeyFile.Current == "" || got.Build == "" {
		s.t.Errorf("/readyz says %+v of what the node runs with", got)
	}
	return got
}

// TestD108NodesThatDifferAreSeen: two nodes with the same files in different directories, at different addresses, look
// the same. With another limit, another CA or another key file they do not, from the reload on.
func TestD108NodesThatDifferAreSeen(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ds := newWire(t, ca)
	one := startSite(t, ca, ds, plan{unready: true})
	from := filepath.Dir(one.config)
	two := startSite(t, ca, ds, plan{unready: true, prepare: func(dir string) {
		files, err := filepath.Glob(filepath.Join(from, "*.pem"))
		must(t, err)
		for _, file := range files {
			write(t, filepath.Join(dir, filepath.Base(file)), contents(t, file))
		}
		must(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
		for _, name := range []string{"keys.json", "journal-keys.json"} {
			must(t, os.WriteFile(filepath.Join(dir, "data", name), contents(t, filepath.Join(from, "data", name)), 0o600))
		}
	}})
	want := one.identity()
	if got := two.identity(); got != want {
		t.Fatalf("the second node runs with %+v, the first with %+v", got, want)
	}

	dir := filepath.Dir(two.config)
	good := string(contents(t, two.config))
	bundle := contents(t, filepath.Join(dir, "ca.pem"))
	secret := strings.Repeat("A", 43) + "="
	keys := filepath.Join(dir, "data", "keys.json")
	keyFile := string(contents(t, keys))
	seen := []nodeIdentity{want}
	for _, change := range []struct {
		name string
		do   func()
	}{
		{"a limit", func() { write(t, two.config, []byte(good+"\nlimits: {per_directory: 7}\n")) }},
		{"a CA", func() {
			write(t, two.config, []byte(good))
			write(t, filepath.Join(dir, "ca.pem"), slices.Concat(bundle, newAuthority(t).pem()))
		}},
		{"a secret in the key file", func() {
			write(t, filepath.Join(dir, "ca.pem"), bundle)
			must(t, os.WriteFile(keys, []byte(strings.Replace(keyFile, "{", `{"next": "`+secret+`", `, 1)), 0o600))
		}},
	} {
		before := two.metric(`threeds_config_reloads_total{result="applied"}`)
		change.do()
		waitFor(t, change.name+": the reload; the log:\n"+two.log.String(), func() bool {
			return two.metric(`threeds_config_reloads_total{result="applied"}`) > before
		})
		got := two.identity()
		if slices.Contains(seen, got) {
			t.Errorf("with %s changed the node runs with %+v, as before", change.name, got)
		}
		seen = append(seen, got)
	}
	last := seen[len(seen)-1]
	if last.Config != want.Config || last.KeyFile.Current != want.KeyFile.Current || last.KeyFile.Next == "" {
		t.Errorf("with a next secret alone the node runs with %+v, before with %+v", last, want)
	}
	if text := two.exposed(); strings.Contains(text, secret) {
		t.Error("the metrics hold a secret of the key file")
	}
}
