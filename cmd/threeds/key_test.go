package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/store/storetest"
)

// A racedStore is one where somebody else revokes each key just before it is revoked.
type racedStore struct{ store.Store }

func (s racedStore) RevokeKey(ctx context.Context, hash []byte) error {
	if err := s.Store.RevokeKey(ctx, hash); err != nil {
		return err
	}
	return s.Store.RevokeKey(ctx, hash)
}

// A fixedStore is one that can only be read.
type fixedStore struct{ store.Store }

var errFixed = errors.New("the disk is full")

func (fixedStore) RevokeKey(context.Context, []byte) error { return errFixed }

// TestNotRevoked: what was not revoked, for it is not clear which key is meant or the
// store fails, is not said to be.
func TestNotRevoked(t *testing.T) {
	st := storetest.NewMemory(time.Now)
	for _, hash := range []string{"abcdef1", "abcdef2"} {
		if err := st.PutKey(t.Context(), store.Key{Hash: []byte(hash), Merchant: "Shop"}); err != nil {
			t.Fatal(err)
		}
	}
	raced := storetest.NewMemory(time.Now)
	must(t, raced.PutKey(t.Context(), store.Key{Hash: []byte("abcdef1")}))
	begins := func(prefix string) func([]byte) bool {
		return func(hash []byte) bool { return bytes.HasPrefix(hash, []byte(prefix)) }
	}
	for _, tt := range []struct {
		st     store.Store
		prefix string
		want   string
	}{
		{st, "abcdef", "2 keys begin so"}, {st, "abcdef3", "no such key"}, {fixedStore{st}, "abcdef1", errFixed.Error()},
		{racedStore{raced}, "abcdef1", "no such key"},
	} {
		if k, err := revokeKey(t.Context(), tt.st, nil, begins(tt.prefix)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("revoke of %s: %s, %v; want %q", tt.prefix, k.Hash, err, tt.want)
		}
	}
	if keys, err := st.Keys(t.Context()); len(keys) != 2 || err != nil {
		t.Errorf("%d keys are left, %v; want both", len(keys), err)
	}
}

// TestKeyForNobody: a key that could not be told to anybody, for the reader of the pipe
// has gone, does not stay in the store.
func TestKeyForNobody(t *testing.T) {
	ca := newAuthority(t)
	s := &site{world: &world{t: t}, ds: newWire(t, ca), ca: ca, config: filepath.Join(t.TempDir(), "threeds.yaml")}
	write(t, s.config, []byte(s.yaml(filepath.Dir(s.config), plan{})))
	reader, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	reader.Close()
	create := exec.Command("threeds", "key", "create", "--name", "Shop", "--config", s.config)
	create.Stdout = out
	if err := create.Run(); create.ProcessState.ExitCode() != 1 {
		t.Errorf("key create into a broken pipe: %v, want exit status 1", err)
	}
	list, err := exec.Command("threeds", "key", "list", "--config", s.config).Output()
	if err != nil || strings.Contains(string(list), "Shop") {
		t.Errorf("keys after it, %v:\n%s", err, list)
	}
}

// TestNothingStaysWhoseSecretNobodyHas: so it is with a token and a webhook endpoint.
func TestNothingStaysWhoseSecretNobodyHas(t *testing.T) {
	file := checkSite(t, plan{})
	for make, list := range map[string]string{
		"token create --name nobodys --role viewer":                    "token list",
		"webhook add --merchant Shop https://nobodys.example/h":        "webhook list --merchant Shop",
		"webhook add --json --merchant Shop https://nobodys.example/h": "webhook list --merchant Shop",
	} {
		reader, out, err := os.Pipe()
		must(t, err)
		must(t, reader.Close())
		create := exec.Command("threeds", append(strings.Fields(make), "--config", file)...)
		create.Stdout = out
		err = create.Run()
		must(t, out.Close())
		if create.ProcessState.ExitCode() != 1 {
			t.Errorf("%s into a broken pipe: %v, want exit status 1", make, err)
		}
		after, err := exec.Command("threeds", append(strings.Fields(list), "--config", file)...).Output()
		if err != nil || strings.Contains(string(after), "nobodys") || !strings.Contains(string(after), "CREATED") {
			t.Errorf("%s: after it, %v:\n%s", make, err, after)
		}
	}
}

// TestKeyNotStored: a key that the store has not taken is not given out.
func TestKeyNotStored(t *testing.T) {
	ca := newAuthority(t)
	s := &site{world: &world{t: t}, ds: newWire(t, ca), ca: ca, config: filepath.Join(t.TempDir(), "threeds.yaml")}
	write(t, s.config, []byte(s.yaml(filepath.Dir(s.config), plan{})))
	s.key("Shop")
	db, err := sql.Open("sqlite", filepath.Join(filepath.Dir(s.config), "data", "threeds.db"))
	must(t, err)
	defer db.Close()
	_, err = db.Exec(`CREATE TRIGGER refuse BEFORE INSERT ON api_key BEGIN SELECT RAISE(ABORT, 'no more keys'); END`)
	must(t, err)
	var out, errs strings.Builder
	code := run(t.Context(), []string{"key", "create", "--name", "Shop", "--config", s.config}, nil, &out, &errs)
	if code != 1 || out.Len() > 0 || !strings.Contains(errs.String(), "no more keys") {
		t.Errorf("exit status %d, %q, %q; want no key and why", code, out.String(), errs.String())
	}
}

// TestForTheOwnerAlone: what the first command and the first start make of secrets,
// results and card ranges nobody but their owner may look at, whatever the umask is.
func TestForTheOwnerAlone(t *testing.T) {
	ca := newAuthority(t)
	s := &site{world: &world{t: t}, ds: newWire(t, ca), ca: ca, config: filepath.Join(t.TempDir(), "threeds.yaml")}
	write(t, s.config, []byte(s.yaml(filepath.Dir(s.config), plan{})))
	create := exec.Command("sh", "-c", `umask 0; exec threeds key create --name Shop --config "$0"`, s.config)
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	serve := &process{t: t, cmd: exec.Command("sh", "-c", `umask 0; exec threeds serve --config "$0"`, s.config)}
	serve.start()
	waitFor(t, "serving", func() bool { return strings.Contains(serve.out.String(), "card ranges refreshed") })
	files := 0
	err := filepath.WalkDir(filepath.Join(filepath.Dir(s.config), "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", filepath.Base(path), info.Mode())
		}
		files++
		return err
	})
	if err != nil || files < 4 { // the directory, keys, the database and its log
		t.Errorf("%d files, %v", files, err)
	}
	serve.end(os.Interrupt)
}
