package crash

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestCrashDamagedPages zeroes each page of a database, and flips bits in it: every
// result is as it was or an error, and never another.
func TestCrashDamagedPages(t *testing.T) {
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	p.SetAnswer(rig.AnswerChallenge)
	v, led := rig.NewVictim(t, ca, p), rig.NewLedger(p)
	v.Start()
	for led.Acked < 20 {
		v.Challenge(led)
	}
	v.Kill()
	dir := filepath.Join(filepath.Dir(v.ConfigFile), "data")
	db, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil { // nothing is left in the log
		t.Fatal(err)
	}
	ring, err := keyring.Load(filepath.Join(dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "threeds.db"))
	if err != nil {
		t.Fatal(err)
	}

	random := rand.New(rand.NewPCG(7, 8))
	const pageLen = 4096
	images, unopened, refused, same := 0, 0, 0, 0
	look := func(image []byte) {
		images++
		damaged := t.TempDir()
		if err := os.WriteFile(filepath.Join(damaged, "threeds.db"), image, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := sqlite.Open(damaged, sqlite.Options{})
		if err != nil {
			unopened++
			return
		}
		defer db.Close()
		engine := &auth.Engine{
			Rows: txn.Rows{Store: db, Sealer: ring, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now}, Checker: check.Checker{IDs: ring.ID()},
		}
		shop := &account.Account{Merchant: &account.Merchant{Name: "Shop"}}
		for id, want := range led.Fresh {
			got, err := engine.Result(t.Context(), shop, rig.Marshal(rig.Object{"threeDSServerTransID": id}))
			switch {
			case err != nil:
				refused++
			case string(got) != string(rig.Marshal(want)):
				t.Errorf("%s is %s, want %s", id, got, rig.Marshal(want))
			default:
				same++
			}
		}
	}
	look(whole)
	if same != len(led.Fresh) {
		t.Fatalf("%d results of %d are in the undamaged database", same, len(led.Fresh))
	}
	for page := 0; page < len(whole); page += pageLen {
		image := slices.Clone(whole)
		clear(image[page : page+pageLen])
		look(image)
		for range crashes(t, 4) {
			image := slices.Clone(whole)
			image[page+random.IntN(pageLen)] ^= 1 << random.IntN(8)
			look(image)
		}
	}
	t.Logf("damaged pages: images=%d unopenable=%d, results refused=%d as they were=%d changed=0", images, unopened, refused, same)
	if unopened == 0 || refused == 0 {
		t.Error("no damage was noticed: the test shows nothing")
	}
}
