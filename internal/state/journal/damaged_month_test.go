package journal

import (
	"errors"
	"os"
	"testing"

	"github.com/openthreeds/threeds/internal/base/keyfile"
)

// TestJ6ADamagedMonthKeepsNoHoldFromBeingSet: a server comes up whose file of keys is from before an erasure, and the
// file of the month that this was about cannot be read. Seals are in another file, and a hold can be set. Else evidence
// of all other months could go by retention before somebody has mended that file.
func TestJ6ADamagedMonthKeepsNoHoldFromBeingSet(t *testing.T) {
	t.Parallel()
	dir, keys := t.TempDir(), NewKeys()
	content, err := keys.sealedFile(keyfile.Vault{})
	if err != nil {
		t.Fatal(err)
	}
	st, other := openRace(t, keys, func() (Store, error) { return OpenFiles(dir, keys) })
	if n, _, err := st.Erase(t.Context(), Query{Merchant: "shop 1"}); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	path := st.(*fileStore).path("2026-03")
	if err := errors.Join(st.Close(), other.Close(), os.WriteFile(path, []byte("no database"), 0o600)); err != nil {
		t.Fatal(err)
	}
	old, err := parseKeys(content)
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenFiles(dir, old)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.AddHold(t.Context(), Hold{Name: "case 1", Merchant: "shop 0"}); err != nil {
		t.Error(err)
	}
	if n := CountForgotten(old); n != 0 {
		t.Errorf("%d keys were forgotten, and nobody knows whether the erasure was finished", n)
	}
}
