package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// copyConfig copies a configuration and its files into another directory, with texts of the configuration replaced, and
// loads it there.
func copyConfig(t *testing.T, file string, replace ...string) *Config {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Dir(file))))
	for _, private := range []string{"proxy.secret", "collector.secret"} {
		must(t, os.Chmod(filepath.Join(dir, private), 0o600))
	}
	copied := filepath.Join(dir, "threeds.yaml")
	data, err := os.ReadFile(copied)
	must(t, err)
	text := string(data)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("the configuration has no %q", replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	write(t, copied, []byte(text))
	c, _, err := loadConfig(copied, noon)
	must(t, err)
	return c
}

// TestD108HashLeavesOutWhatNodesHaveOfTheirOwn: addresses to listen on, the store, log, traces, paths of files and
// secrets are the node's own. The full configuration names every key, so a path in the hash would show here.
func TestD108HashLeavesOutWhatNodesHaveOfTheirOwn(t *testing.T) {
	file, c := fullConfig(t)
	want := c.Hash()
	if len(want) != 2*hashLen || c.Hash() != want {
		t.Fatalf("the hash is %q, then %q", want, c.Hash())
	}
	dir := filepath.Dir(file)
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	must(t, err)
	write(t, filepath.Join(dir, "again.pem"), slices.Concat([]byte("# a comment\n"), ca))
	write(t, filepath.Join(dir, "other.secret"), []byte("other:password"))
	must(t, os.Chmod(filepath.Join(dir, "other.secret"), 0o600))
	write(t, filepath.Join(dir, "other-hook.secret"), []byte("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"))
	for name, replace := range map[string][]string{
		"another directory": nil,
		"listen": {"listen: 127.0.0.1:8080", "listen: 127.0.0.1:8081", "listen: :8443", "listen: :8444",
			"console: {listen: 127.0.0.1:9090", "console: {listen: 127.0.0.1:9099", "127.0.0.1:9091", "127.0.0.1:9092"},
		"log":                 {"log: {level: debug}", "log: {level: warn}"},
		"tracing":             {"sampling_fraction: 0.25", "sampling_fraction: 0.5"},
		"store":               {"file:threeds-data", "postgres://user@db.example/threeds?sslmode=verify-full"},
		"name of a CA file":   {"server_ca: ca.pem", "server_ca: again.pem"},
		"proxy's password":    {"proxy.secret", "other.secret"},
		"secrets of others":   {"webhook.secret", "other-hook.secret"}, // of webhooks and of the issuer
		"written-out default": {"in_flight: 100", "in_flight: 100\n  connections: 4096"},
	} {
		if got := copyConfig(t, file, replace...).Hash(); got != want {
			t.Errorf("%s: the hash is %s, not %s", name, got, want)
		}
	}
}

// TestD108HashCountsContents: other certificates under the same names are another configuration.
func TestD108HashCountsContents(t *testing.T) {
	file, c := fullConfig(t)
	other := makeCertificates(t)
	seen := map[string]string{c.Hash(): "the configuration"}
	for _, names := range [][]string{{"server.pem", "server.key"}, {"client.pem", "client.key"}, {"root.pem"}} {
		dir := t.TempDir()
		must(t, os.CopyFS(dir, os.DirFS(filepath.Dir(file))))
		for _, name := range names {
			write(t, filepath.Join(dir, name), other[name])
		}
		changed, _, err := loadConfig(filepath.Join(dir, "threeds.yaml"), noon)
		must(t, err)
		if same := seen[changed.Hash()]; same != "" {
			t.Errorf("%s: the hash is that of %s", names[0], same)
		}
		seen[changed.Hash()] = names[0]
	}
	for i, ca := range []*CAFile{&c.Directories[0].ServerCA, &c.Directories[0].ClientCA, &c.V1[0].ServerCA, &c.ForwardProxy.CA} {
		was := ca.Certs
		ca.Certs = append(slices.Clone(was), c.Directories[0].ClientCert.Certificate.Leaf)
		if same := seen[c.Hash()]; same != "" {
			t.Errorf("CA file %d: the hash is that of %s", i, same)
		}
		slices.Reverse(ca.Certs)
		reversed := c.Hash()
		slices.Reverse(ca.Certs)
		if reversed != c.Hash() {
			t.Errorf("CA file %d: the order of its certificates counts", i)
		}
		ca.Certs = was
	}
}

// TestD108HashCountsEveryValue changes each value of the configuration that is not a node's own, one by one.
func TestD108HashCountsEveryValue(t *testing.T) {
	_, c := fullConfig(t)
	want, changed := c.Hash(), 0
	changeValues(reflect.ValueOf(c).Elem(), "", func(key string) {
		own := slices.ContainsFunc(ownKeys, func(own string) bool { return key == own || strings.HasPrefix(key, own+".") })
		if got := c.Hash(); (got == want) != own {
			t.Errorf("%s: hash %s, it was %s", key, got, want)
		}
		changed++
	})
	if changed < 60 || c.Hash() != want {
		t.Errorf("%d values were changed, and the hash is %s in the end, not %s", changed, c.Hash(), want)
	}
}

// changeValues gives each value in v another one, calls check with its key, and restores it.
func changeValues(v reflect.Value, key string, check func(key string)) {
	switch v.Interface().(type) {
	case KeyPair, CAFile, CRLFile, RulesFile, RootFile, LogoFile:
		return // TestD108HashCountsContents is about them
	case SigningSecret, AgentSecret:
		return // no secret counts
	}
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	defer v.Set(was)
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		changeValues(v.Elem(), key, check)
	case reflect.Slice:
		for i := range v.Len() {
			changeValues(v.Index(i), key+"[]", check)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name := f.Tag.Get("yaml")
			if (name != "" || key != "") && f.IsExported() && f.Name != "User" && f.Name != "Password" &&
				f.Name != "Credentials" && f.Name != "Header" && f.Name != "Secret" {
				changeValues(v.Field(i), strings.Trim(key+"."+name, "."), check)
			}
		}
	case reflect.Map:
		v.Set(reflect.Zero(v.Type()))
		check(key)
	case reflect.String:
		v.SetString(v.String() + "x")
		check(key)
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
		check(key)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
		check(key)
	case reflect.Bool:
		v.SetBool(!v.Bool())
		check(key)
	}
}
