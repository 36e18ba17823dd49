package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/store/storetest"
)

// A rotatingStore is one where a node gives the key another hash just before it is
// revoked.
type rotatingStore struct {
	store.Store
	old, hash []byte
}

func (s *rotatingStore) RevokeKey(ctx context.Context, hash []byte) error {
	if bytes.Equal(hash, s.old) {
		if err := s.RehashKey(ctx, s.old, s.hash, nil); err != nil {
			return err
		}
	}
	return s.Store.RevokeKey(ctx, hash)
}

// TestRevokeDuringRotation: a key is revoked though it changes its hash meanwhile.
func TestRevokeDuringRotation(t *testing.T) {
	st := &rotatingStore{storetest.NewMemory(time.Now), []byte("old"), []byte("new")}
	if err := st.PutKey(t.Context(), store.Key{Hash: st.old, Merchant: "Shop"}); err != nil {
		t.Fatal(err)
	}
	k, err := revoke(t.Context(), st, func(hash []byte) bool { return bytes.Equal(hash, st.old) || bytes.Equal(hash, st.hash) })
	if err != nil || k.Merchant != "Shop" || !bytes.Equal(k.Hash, st.hash) {
		t.Errorf("revoke = %+v, %v", k, err)
	}
	if keys, err := st.Keys(t.Context()); len(keys) > 0 || err != nil {
		t.Errorf("%d keys are left, %v", len(keys), err)
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
