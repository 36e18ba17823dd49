package account_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store"
)

// addMerchant puts a merchant into the store and returns its row.
func (w *world) addMerchant(t *testing.T, r ring, m account.Merchant) store.Merchant {
	t.Helper()
	row, err := account.NewMerchantRow(r, &m)
	if err == nil {
		err = w.store.AddMerchant(t.Context(), row)
	}
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// wantMCC checks what merchant category code a key stands for.
func (w *world) wantMCC(t *testing.T, key, want string) {
	t.Helper()
	if a, err := w.cache.Authenticate(t.Context(), key); err != nil || a.Merchant.MCC != want {
		t.Errorf("Authenticate = %+v, %v; want the mcc %q", a, err, want)
	}
}

// TestStoreMerchantWorksWithinASecond: merchants are added, changed and removed while a server runs, and a new
// merchant's key works immediately.
func TestStoreMerchantWorksWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(account.Merchant{Name: "in the file", MCC: "1111"})
		inFile, early := w.create(t, "in the file", false), w.create(t, "shop", false)
		defer w.run(t)()
		time.Sleep(1200 * time.Millisecond)
		synctest.Wait()
		w.wantMCC(t, early, "")
		row := w.addMerchant(t, w.ring, account.Merchant{Name: "shop", MCC: "5411"})
		w.wantMCC(t, w.create(t, "shop", false), "5411") // immediately, for the key is looked up
		time.Sleep(time.Second)
		synctest.Wait()
		w.wantMCC(t, early, "5411")
		changed, err := account.NewMerchantRow(w.ring, &account.Merchant{Name: "shop", MCC: "5999"})
		if err == nil {
			err = w.store.ChangeMerchant(t.Context(), "shop", row.Data, changed.Data)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.addMerchant(t, w.ring, account.Merchant{Name: "in the file", MCC: "2222"})
		time.Sleep(time.Second)
		synctest.Wait()
		w.wantMCC(t, early, "5999")
		w.wantMCC(t, inFile, "1111") // the file wins
		w.cache.SetMerchants(nil)
		w.wantMCC(t, inFile, "2222")
		if err := w.store.RemoveMerchant(t.Context(), "shop", changed.Data); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		w.wantMCC(t, early, "")
	})
}

// TestStoreMerchantIsSealed: an attacker who can write to the database, but has no key file, cannot change a merchant,
// nor make a merchant from the row of another.
func TestStoreMerchantIsSealed(t *testing.T) {
	w := newWorld()
	key, other := w.create(t, "shop", false), w.create(t, "other", false)
	row := w.addMerchant(t, w.ring, account.Merchant{Name: "shop", MCC: "5411"})
	w.refresh(t)
	w.wantMCC(t, key, "5411")
	forged := []byte(strings.Replace(string(row.Data), "5411", "5999", 1))
	if err := w.store.ChangeMerchant(t.Context(), "shop", row.Data, forged); err != nil {
		t.Fatal(err)
	}
	if err := w.store.AddMerchant(t.Context(), store.Merchant{Name: "other", Data: row.Data}); err != nil {
		t.Fatal(err)
	}
	w.refresh(t)
	w.wantMCC(t, key, "")
	w.wantMCC(t, other, "")
	for _, name := range []string{"merchant=shop", "merchant=other"} {
		if n := strings.Count(w.log.String(), name); n != 1 {
			t.Errorf("%d lines in the log with %s, want 1:\n%s", n, name, w.log)
		}
	}
}

// TestStoreMerchantsAreResealed: so that the previous secret may leave the file, by a server and by a rotation.
func TestStoreMerchantsAreResealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		key := w.create(t, "a", false)
		w.addMerchant(t, w.ring[1:], account.Merchant{Name: "a", MCC: "5411"})
		wantSecret := func(name, want string) {
			t.Helper()
			all, err := w.store.Merchants(t.Context())
			for _, m := range all {
				if m.Name == name && strings.HasPrefix(string(m.Data), want+"|") {
					return
				}
			}
			t.Errorf("%s is not sealed under %s: %v, %v", name, want, all, err)
		}
		stop := w.run(t)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantSecret("a", "current")
		stop()
		w.addMerchant(t, w.ring[1:], account.Merchant{Name: "b"})
		if _, _, err := account.Reseal(t.Context(), w.store, w.ring); err != nil {
			t.Error(err)
		}
		wantSecret("b", "current")
		w.cache.SetRing(w.ring[:1])
		w.wantMCC(t, key, "5411")
	})
}

// TestMerchantGoesThereAndBack: a row keeps every setting, under the names that the configuration has.
func TestMerchantGoesThereAndBack(t *testing.T) {
	t.Parallel()
	m := account.Merchant{
		Name: "shop", RequestorID: "r", RequestorName: "R", AcquirerCountry: "208", SchemeRules: "enforce", Bridging: true,
		Transliterate: true, Rate: account.Rate{Count: 20, Per: time.Minute}, InFlight: 50,
		MerchantName: "The Shop", MCC: "0742", MerchantCountry: "250", RequestorURL: "https://shop.example",
		Origins: []string{"https://shop.example"},
		Page:    account.Page{Logo: []byte{0, 1, 0xff}, LogoType: "image/png", Colour: "#0a5c36", Accent: "#ffb000"},
		PerDirectory: map[string]account.Requestor{
			"visa": {ID: "v", Name: "V", AcquirerBIN: "400551", AcquirerMerchantID: "M"},
		},
	}
	r := ring{"current"}
	row, err := account.NewMerchantRow(r, &m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := account.OpenMerchant(r, &row)
	if diff := difftest.Diff(m, *got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
