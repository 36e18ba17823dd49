package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.Stop()
	os.Exit(code)
}

// An archive is a store with whole rows.
type archive interface {
	store.Store
	store.Archive
}

var at = time.Date(2026, 11, 25, 17, 0, 0, 0, time.UTC)

// openDir opens a new store in a directory.
func openDir(t *testing.T) archive {
	t.Helper()
	db, err := sqlite.Open(t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// openDatabase opens a new store in PostgreSQL.
func openDatabase(t *testing.T) archive {
	t.Helper()
	db, err := postgres.Open(t.Context(), pgtest.Get(t).Schema(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func key(n byte) store.Key {
	return store.Key{
		Hash: bytes.Repeat([]byte{n}, 32), Merchant: fmt.Sprintf("Shop %d", n), Strict: n%2 == 1,
		Created: at.Add(time.Duration(n) * time.Second), Seal: bytes.Repeat([]byte{n, 0xff}, 20),
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rangeContent is that of a snapshot: three chunks.
var rangeContent = bytes.Repeat([]byte("card ranges "), 50_000)

// endpoint is the webhook endpoint of a merchant.
var endpoint = store.Endpoint{ID: "ep_1", Merchant: "Shop 1", Created: at, Data: []byte("sealed")}

// merchant is the profile of a merchant.
var merchant = store.Merchant{Name: "Shop 1", Data: []byte("sealed profile")}

// fill puts two keys, a revoked one, a merchant, a webhook endpoint, card ranges with their status, and things that no
// backup holds into a store.
func fill(t *testing.T, st archive) {
	t.Helper()
	ctx := t.Context()
	for n := range byte(3) {
		must(t, st.PutKey(ctx, key(n)))
	}
	must(t, st.RevokeKey(ctx, key(2).Hash))
	must(t, st.AddMerchant(ctx, merchant))
	must(t, st.AddEndpoint(ctx, endpoint))
	lease, err := st.Acquire(ctx, "ranges/visa", "me", time.Hour)
	must(t, err)
	must(t, st.PutState(ctx, "ranges/visa", []byte(`{"generation":7}`), lease))
	must(t, st.PutState(ctx, "keys/uses/00", []byte("uses"), lease))
	must(t, st.PutState(ctx, "sealed secret", []byte("never in a backup"), lease))
	for _, n := range []int64{6, 7} {
		s := store.Snapshot{Scheme: "visa", Generation: n, Created: at, Note: []byte("note")}
		must(t, st.PutSnapshot(ctx, s, lease, bytes.NewReader(rangeContent[n:]), 3))
	}
	must(t, st.Create(ctx, store.Txn{ID: "never-in-a-backup", Expires: time.Now().Add(time.Hour)}))
}

// backUp returns a backup of a store.
func backUp(t *testing.T, st archive) string {
	t.Helper()
	var b strings.Builder
	_, err := Write(t.Context(), &b, st, nil, at)
	must(t, err)
	return b.String()
}

// checkFilled checks that a store has what fill has put into another.
func checkFilled(t *testing.T, st archive) {
	t.Helper()
	ctx := t.Context()
	keys, err := st.Keys(ctx)
	must(t, err)
	if len(keys) != 2 || fmt.Sprint(keys[0]) != fmt.Sprint(key(0)) || fmt.Sprint(keys[1]) != fmt.Sprint(key(1)) {
		t.Errorf("keys are %v", keys)
	}
	if value, err := st.State(ctx, "ranges/visa"); err != nil || string(value) != `{"generation":7}` {
		t.Errorf("state is %q, %v", value, err)
	}
	if value, err := st.State(ctx, "keys/uses/00"); err != nil || string(value) != "uses" {
		t.Errorf("the uses of keys are %q, %v", value, err)
	}
	if got, err := st.Endpoints(ctx); err != nil || len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(endpoint) {
		t.Errorf("endpoints are %v, %v", got, err)
	}
	if got, err := st.Merchants(ctx); err != nil || len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(merchant) {
		t.Errorf("merchants are %v, %v", got, err)
	}
	all, err := st.Snapshots(ctx, "visa")
	if err != nil || len(all) != 2 || all[0].Generation != 7 || !all[0].Created.Equal(at) || string(all[0].Note) != "note" {
		t.Fatalf("snapshots are %v, %v", all, err)
	}
	for _, s := range all {
		r, err := st.OpenSnapshot(ctx, "visa", s.Generation)
		must(t, err)
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, rangeContent[s.Generation:]) {
			t.Errorf("generation %d has %d bytes, %v", s.Generation, len(got), err)
		}
		must(t, r.Close())
	}
}

// TestD109BackupOfOneKindIntoTheOther copies either kind of store into the other and back, and nothing is lost on the
// way.
func TestD109BackupOfOneKindIntoTheOther(t *testing.T) {
	kinds := map[string]func(*testing.T) archive{"sqlite": openDir, "postgres": openDatabase}
	for _, way := range [][2]string{{"sqlite", "postgres"}, {"postgres", "sqlite"}} {
		t.Run(way[0]+" to "+way[1], func(t *testing.T) {
			from, to := kinds[way[0]](t), kinds[way[1]](t)
			fill(t, from)
			text := backUp(t, from)
			if strings.Contains(text, "never") || strings.Contains(text, "sealed secret") {
				t.Error("the backup has a transaction or a value that is not about card ranges")
			}
			report, err := Restore(t.Context(), to, strings.NewReader(text), false, nil)
			must(t, err)
			checkFilled(t, to)
			if len(report.Revoked) != 1 || report.Revoked[0].Merchant != "Shop 2" || time.Since(report.Revoked[0].At) > time.Minute {
				t.Errorf("revoked keys are %v, want that of Shop 2", report.Revoked)
			}
			if got := report.Added; got[store.KeyRows] != 2 || got[store.RevokedRows] != 1 || got[store.RangeRows] != 2 || len(report.Replaced) > 0 {
				t.Errorf("report is %v", report)
			}
			if again := backUp(t, to); again != text {
				t.Errorf("a backup of the restored store differs: %d bytes, want %d", len(again), len(text))
			}

			// What is restored can be worked with: the next generation comes, and old ones go.
			lease, err := to.Acquire(t.Context(), "ranges/visa", "me", time.Hour)
			must(t, err)
			next := store.Snapshot{Scheme: "visa", Generation: 8, Created: at}
			must(t, to.PutSnapshot(t.Context(), next, lease, strings.NewReader("new"), 1))
			if all, err := to.Snapshots(t.Context(), "visa"); err != nil || len(all) != 1 {
				t.Errorf("snapshots are %v, %v, want the new one", all, err)
			}
		})
	}
}

// TestD109RestoreRefusesAStoreThatIsNotEmpty: the backup takes the place of existing rows only with replace, and
// transactions stay in any case.
func TestD109RestoreRefusesAStoreThatIsNotEmpty(t *testing.T) {
	from, to := openDir(t), openDir(t)
	fill(t, from)
	text := backUp(t, from)
	ctx := t.Context()
	must(t, to.PutKey(ctx, key(9)))
	must(t, to.Create(ctx, store.Txn{ID: "stays", Expires: time.Now().Add(time.Hour)}))
	before := backUp(t, to)
	if _, err := Restore(ctx, to, strings.NewReader(text), false, nil); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("error is %v, want %v", err, ErrNotEmpty)
	}
	if backUp(t, to) != before {
		t.Error("a refused restore has changed the store")
	}
	_, mark, err := to.KeysUnless(ctx, "")
	must(t, err)
	report, err := Restore(ctx, to, strings.NewReader(text), true, nil)
	must(t, err)
	if report.Replaced[store.KeyRows] != 1 {
		t.Errorf("replaced is %v, want one key", report.Replaced)
	}
	checkFilled(t, to)
	if _, err := to.Get(ctx, "stays"); err != nil {
		t.Errorf("the transaction: %v", err)
	}
	if _, now, err := to.KeysUnless(ctx, mark); err != nil || now == mark {
		t.Errorf("nodes do not hear of the restored keys: %v", err)
	}
}

// TestD109RevokedKeyStaysRevoked: an old backup does not bring back a key that the store knows
// as revoked, and says so.
func TestD109RevokedKeyStaysRevoked(t *testing.T) {
	st := openDir(t)
	fill(t, st)
	text := backUp(t, st)
	ctx := t.Context()
	must(t, st.RevokeKey(ctx, key(1).Hash))
	report, err := Restore(ctx, st, strings.NewReader(text), true, nil)
	must(t, err)
	if _, err := st.Key(ctx, key(1).Hash); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the revoked key: %v, want %v", err, store.ErrNotFound)
	}
	if len(report.Refused) != 1 || report.Refused[0].Merchant != "Shop 1" {
		t.Errorf("not brought back are %v, want the key of Shop 1", report.Refused)
	}
	isOfShop1 := func(k RevokedKey) bool { return k.Merchant == "Shop 1" }
	if len(report.Revoked) != 2 || !slices.ContainsFunc(report.Revoked, isOfShop1) {
		t.Errorf("revoked keys are %v, want those of Shop 1 and Shop 2", report.Revoked)
	}
}

// resum returns a backup with the right last line for the lines before it.
func resum(text string) string {
	lines := strings.SplitAfter(text, "\n")
	body := strings.Join(lines[:len(lines)-2], "")
	return fmt.Sprintf("%s{\"type\":\"end\",\"lines\":%d,\"sha256\":%q}\n", body, len(lines)-2, hexSum(body))
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestD109DamagedBackup: a backup that was cut or changed is refused with the reason, and the store stays as it was.
func TestD109DamagedBackup(t *testing.T) {
	from, to := openDir(t), openDir(t)
	fill(t, from)
	text := backUp(t, from)
	if resum(text) != text {
		t.Fatal("resum does not make the last line")
	}
	before := backUp(t, to)
	lines := strings.SplitAfter(text, "\n")
	swap := strings.NewReplacer("Shop 0", "Shop 1", "Shop 1", "Shop 0")
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "line 1: is empty, and no backup"},
		{"another file", "CREATE TABLE api_keys ();\n", "line 1: is no backup of threeds"},
		{"JSON", "{\"type\":\"header\",\"format\":\"journal\",\"version\":1}\n", "line 1: is no backup of threeds"},
		{"version", strings.Replace(text, `"version":1`, `"version":2`, 1), "line 1: is a backup of version 2, and this release reads version 1"},
		{"cut in a line", text[:len(text)/2], "it was cut off"},
		{"cut after a line", strings.Join(lines[:4], ""), "line 5: is where the backup stops, without its last line: it was cut off"},
		{"a line is missing", strings.Join(slices.Delete(slices.Clone(lines), 2, 3), ""), errChanged.Error()},
		{"a merchant was changed", swap.Replace(text), errChanged.Error()},
		{"a kind was changed", strings.Replace(text, `"type":"key"`, `"type":"kex"`, 1), errChanged.Error()},
		{"no JSON any more", strings.Replace(text, `{"type":"key"`, `{"type:"key"`, 1), errChanged.Error()},
		{"two at once", text + text, "more comes after it"},
		{"a long line", strings.Replace(text, `"Shop 0"`, `"`+strings.Repeat("x", maxLine)+`"`, 1), errChanged.Error()},
		{"unknown kind", resum(strings.Replace(text, `"type":"key"`, `"type":"operator"`, 1)),
			`line 3: a row of type "operator": this release does not know it`},
		{"unknown column", resum(strings.Replace(text, `"merchant":"Shop 0"`, `"colour":"red","merchant":"Shop 0"`, 1)),
			`line 3: column "colour" of a row of type "key": this release does not know it`},
		{"unknown member", resum(strings.Replace(text, `"type":"key"`, `"type":"key","real":{}`, 1)), `unknown field "real"`},
		{"ranges not whole", resum(strings.Replace(text, `"size":599994`, `"size":599993`, 1)), errContent.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Restore(t.Context(), to, strings.NewReader(test.text), false, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
			if backUp(t, to) != before {
				t.Error("the store has changed")
			}
		})
	}
}
