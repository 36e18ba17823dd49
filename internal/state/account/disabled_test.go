package account_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store"
)

// disable stores that a merchant is disabled.
func (w *world) disable(t *testing.T, r ring, merchant string) {
	t.Helper()
	why := account.Disabling{Since: time.Now().UTC(), Reason: "fraud", By: "cli:test"}
	if err := w.store.AddObject(t.Context(), account.NewDisabledObject(r, merchant, why)); err != nil {
		t.Fatal(err)
	}
}

// wantDisabled checks whether the merchant of a key is disabled.
func (w *world) wantDisabled(t *testing.T, key string, want bool) {
	t.Helper()
	if a, err := w.cache.Authenticate(t.Context(), key); err != nil || a.IsDisabled != want {
		t.Errorf("Authenticate = %+v, %v; want disabled %t", a, err, want)
	}
}

// TestDisabledMerchantIsKnownWithinASecond: wherever its settings are, and without a look at the store for a request.
func TestDisabledMerchantIsKnownWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(account.Merchant{Name: "in the file"})
		keys := map[string]string{}
		for _, name := range []string{"in the file", "in the store", "keys alone", "other"} {
			keys[name] = w.create(t, name, false)
		}
		w.addMerchant(t, w.ring, account.Merchant{Name: "in the store"})
		defer w.run(t)()
		pass := func() {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		pass()
		for name := range keys {
			if name != "other" {
				w.disable(t, w.ring, name)
			}
		}
		pass()
		for name, key := range keys {
			w.wantDisabled(t, key, name != "other")
		}
		if n := w.cache.CountDisabled(); n != 3 {
			t.Errorf("%d merchants are disabled, want 3", n)
		}
		w.wantDisabled(t, w.create(t, "keys alone", false), true) // a key that was made later
		w.cache.Configure(w.ring, []account.Merchant{{Name: "in the file", MCC: "5411"}})
		w.wantDisabled(t, keys["in the file"], true)
		if err := w.store.RemoveObject(t.Context(), store.DisabledObjects, "in the file"); err != nil {
			t.Fatal(err)
		}
		pass()
		w.wantDisabled(t, keys["in the file"], false)
		w.wantDisabled(t, keys["in the store"], true)
	})
}

// TestDisabledMerchantIsKnownFromTheFirstRequest: also before all rows were read, and when its row does not open.
func TestDisabledMerchantIsKnownFromTheFirstRequest(t *testing.T) {
	w := newWorld(account.Merchant{Name: "in the file"})
	key := w.create(t, "in the file", false)
	w.disable(t, ring{"lost"}, "in the file")
	w.wantDisabled(t, key, true)
	w.refresh(t)
	w.wantDisabled(t, key, true)
}
