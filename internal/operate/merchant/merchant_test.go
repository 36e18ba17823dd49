package merchant_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// newRegistry returns a registry with a merchant of the file, "filed".
func newRegistry(t *testing.T) (*merchant.Registry, *storetest.Memory) {
	t.Helper()
	ring, err := keyring.LoadOrCreate(filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	st := storetest.NewMemory(time.Now)
	return &merchant.Registry{
		Store: st, Ring: ring, InFile: []account.Merchant{{Name: "filed", MCC: "5411"}},
		Schemes: []string{"bancontact"}, CheckProfile: config.CheckProfile,
	}, st
}

// put adds or changes a merchant.
func put(t *testing.T, r *merchant.Registry, m account.Merchant, version string) merchant.Entry {
	t.Helper()
	e, err := r.Put(t.Context(), m, version)
	if err != nil {
		t.Fatalf("Put(%s): %v", m.Name, err)
	}
	return e
}

func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestD148FileWinsAndIsNotChangedHere: a merchant of the file is shown as such and hides one of the store, and a change
// of it is refused.
func TestD148FileWinsAndIsNotChangedHere(t *testing.T) {
	t.Parallel()
	r, _ := newRegistry(t)
	inFile := r.InFile
	r.InFile = nil
	hidden := put(t, r, account.Merchant{Name: "filed", MCC: "5999"}, "")
	put(t, r, account.Merchant{Name: "stored"}, "")
	r.InFile = inFile
	all, err := r.List(t.Context())
	if err != nil || len(all) != 2 || all[0].Source != merchant.File || all[0].MCC != "5411" || !all[0].IsHidden ||
		all[1].Source != merchant.Store || all[1].Version == "" || all[1].IsHidden {
		t.Errorf("List = %+v, %v", all, err)
	}
	for _, version := range []string{"", hidden.Version} {
		_, err = r.Put(t.Context(), account.Merchant{Name: "filed"}, version)
		wantError(t, "Put", err, merchant.ErrInFile)
	}
	wantError(t, "Remove", r.Remove(t.Context(), "filed", hidden.Version), merchant.ErrInFile)
}

// TestMerchantFaultsComeAtOnce: the rules are those of the configuration, and all faults are named by its keys.
func TestMerchantFaultsComeAtOnce(t *testing.T) {
	t.Parallel()
	r, st := newRegistry(t)
	_, err := r.Put(t.Context(), account.Merchant{
		Name: " x", MCC: "541", MerchantCountry: "FR", RequestorURL: "shop", Origins: []string{"https://a.example", "x"},
		SchemeRules:  "enforced",
		Page:         account.Page{Logo: []byte("<html/>"), Colour: "red"},
		PerDirectory: map[string]account.Requestor{"visa": {AcquirerBIN: "x"}, "vsia": {ID: "1"}, "bancontact": {ID: "1"}},
	}, "")
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("Put: %v, want faults", err)
	}
	got := map[string]bool{}
	for _, f := range faults {
		got[f.Key] = true
		if f.Text == "" || strings.Contains(f.String(), ":0") || strings.Contains(f.String(), "red") {
			t.Errorf("fault %q", f)
		}
	}
	want := map[string]bool{}
	for _, key := range strings.Fields("name mcc merchant_country requestor_url origins[1] scheme_rules page.logo" +
		" page.colour per_directory.visa.acquirer_bin per_directory.vsia") {
		want[key] = true
	}
	if diff := difftest.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if rows, err := st.Merchants(t.Context()); err != nil || len(rows) > 0 {
		t.Errorf("the store has %v, %v", rows, err)
	}
}

// TestMerchantValuesAreKept: whatever is allowed comes back as it was, in its usual form.
func TestMerchantValuesAreKept(t *testing.T) {
	t.Parallel()
	r, _ := newRegistry(t)
	m := account.Merchant{
		Name: `B&B "Zum <Löwen>" \ #1: {x} ` + "日本", MCC: "0742", SchemeRules: "enforce", Bridging: true,
		Origins: []string{"https://SHOP.example:443"}, Page: account.Page{Colour: "#AABBCC"},
		PerDirectory: map[string]account.Requestor{"visa": {AcquirerBIN: "0012345", AcquirerMerchantID: "007"}},
	}
	put(t, r, m, "")
	got, err := r.Get(t.Context(), m.Name)
	m.Origins[0], m.Page.Colour = "https://shop.example", "#aabbcc"
	if diff := difftest.Diff(m, got.Merchant); err != nil || diff != "" {
		t.Errorf("Get: %v (-want +got):\n%s", err, diff)
	}
	var shown map[string]any
	text, err := json.Marshal(got)
	if err == nil {
		err = json.Unmarshal(text, &shown)
	}
	if err != nil || shown["mcc"] != "0742" || shown["source"] != "store" || shown["version"] != got.Version {
		t.Errorf("JSON %s, %v", text, err)
	}
}

// TestMerchantChangesAreNotLost: of several changes to the same version one succeeds. Resealing a row is no change.
func TestMerchantChangesAreNotLost(t *testing.T) {
	t.Parallel()
	r, st := newRegistry(t)
	first := put(t, r, account.Merchant{Name: "shop", MCC: "5411"}, "")
	_, err := r.Put(t.Context(), account.Merchant{Name: "shop"}, "")
	wantError(t, "Put of one that is there", err, merchant.ErrExists)
	_, err = r.Put(t.Context(), account.Merchant{Name: "nobody"}, first.Version)
	wantError(t, "Put of nobody", err, merchant.ErrNotFound)

	rows, err := st.Merchants(t.Context())
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	plain, err := r.Ring.Open(rows[0].SealName(), rows[0].Data)
	if err == nil {
		err = st.ChangeMerchant(t.Context(), "shop", rows[0].Data, r.Ring.Seal(rows[0].SealName(), plain))
	}
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for i := range 8 {
		wg.Go(func() {
			_, err := r.Put(t.Context(), account.Merchant{Name: "shop", MCC: "100" + string(rune('0'+i))}, first.Version)
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	good := 0
	for err := range errs {
		if err == nil {
			good++
		} else {
			wantError(t, "Put at once", err, merchant.ErrChanged)
		}
	}
	if good != 1 {
		t.Errorf("%d of 8 changes were made, want 1", good)
	}
	wantError(t, "Remove of a former version", r.Remove(t.Context(), "shop", first.Version), merchant.ErrChanged)
	now, err := r.Get(t.Context(), "shop")
	wantError(t, "Get", err, nil)
	wantError(t, "Remove", r.Remove(t.Context(), "shop", now.Version), nil)
	_, err = r.Get(t.Context(), "shop")
	wantError(t, "Get of what was removed", err, merchant.ErrNotFound)
}

// TestRefusedMerchantIsShownAndRemoved: of a row that somebody has changed, only the name is shown, and it can go.
func TestRefusedMerchantIsShownAndRemoved(t *testing.T) {
	t.Parallel()
	r, st := newRegistry(t)
	put(t, r, account.Merchant{Name: "shop", MCC: "5411"}, "")
	rows, err := st.Merchants(t.Context())
	if err == nil {
		err = st.ChangeMerchant(t.Context(), "shop", rows[0].Data, []byte("forged"))
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := r.Get(t.Context(), "shop")
	if err != nil || !e.IsRefused || e.MCC != "" {
		t.Errorf("Get = %+v, %v", e, err)
	}
	_, err = r.Put(t.Context(), account.Merchant{Name: "shop"}, e.Version)
	wantError(t, "Put", err, merchant.ErrRefused)
	wantError(t, "Remove", r.Remove(t.Context(), "shop", e.Version), nil)
}
