package sqlite

import (
	"slices"
	"testing"

	"github.com/openthreeds/threeds/internal/store"
)

// TestMarkByHand: whoever changes keys, and how, servers hear of it; and of nothing that
// did not happen.
func TestMarkByHand(t *testing.T) {
	dir := oldStore(t) // has a key
	older := openRaw(t, dir)
	defer older.Close()
	insert, err := older.Prepare(sqlPutKey) // by a process that is older than the mark
	if err != nil {
		t.Fatal(err)
	}
	defer insert.Close()
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	mark := ""
	look := func(what string, want ...string) {
		t.Helper()
		keys, now, err := db.KeysUnless(t.Context(), mark)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var got []string
		for _, k := range keys {
			got = append(got, k.Merchant)
		}
		if changed := now == "" || now != mark; changed != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("%s: keys of %q, the mark has changed: %t; want %q", what, got, changed, want)
		}
		mark = now
	}
	look("first", "shop")
	look("nothing")
	if _, err := insert.Exec([]byte("b"), "b", false, int64(1800000000000), []byte{}); err != nil {
		t.Fatal(err)
	}
	look("by an older process", "shop", "b")
	for _, step := range []struct {
		sql  string
		want []string // nil: nothing to hear of
	}{
		{`INSERT INTO api_key VALUES (x'63', 'c', 0, 1900000000000, x'')`, []string{"shop", "b", "c"}},
		{`INSERT OR REPLACE INTO api_key VALUES (x'63', 'd', 0, 1900000000000, x'')`, []string{"shop", "b", "d"}},
		{`INSERT OR IGNORE INTO api_key VALUES (x'63', 'e', 0, 1900000000000, x'')`, nil},
		{`UPDATE api_key SET merchant = 'e' WHERE merchant = 'd'`, []string{"shop", "b", "e"}},
		{`UPDATE OR REPLACE api_key SET hash = x'63' WHERE merchant = 'b'`, []string{"shop", "b"}},
		{`BEGIN; DELETE FROM api_key; ROLLBACK`, nil},
		{`DELETE FROM api_key WHERE merchant = 'nobody'`, nil},
		{`DELETE FROM api_key WHERE merchant = 'shop'`, []string{"b"}},
		{`DELETE FROM api_key`, []string{}},
		{`INSERT INTO api_key VALUES (x'63', 'c', 0, 1900000000000, x'')`, []string{"c"}},
		{`DELETE FROM txn; VACUUM`, nil},
	} {
		exec(t, dir, step.sql)
		look(step.sql, step.want...)
	}
	if err := db.PutKey(t.Context(), store.Key{Hash: []byte("c"), Merchant: "f"}); err != store.ErrExists {
		t.Errorf("PutKey of one that is there: %v", err)
	}
	look("a key that was not taken")
	exec(t, dir, `DELETE FROM small_state`)
	for range 2 {
		look("without a mark", "c")
		if mark != "" {
			t.Errorf("the mark is %q, want none", mark)
		}
	}
	exec(t, dir, `DELETE FROM api_key`)
	look("after a change", []string{}...)
}
