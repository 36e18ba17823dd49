package sqlite

import (
	"slices"
	"testing"

	"github.com/openthreeds/threeds/internal/state/store"
)

// TestMarkByHand: servers notice every change of keys, whoever makes it and however, and notice nothing that did not
// happen.
func TestMarkByHand(t *testing.T) {
	dir := t.TempDir()
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
	look("first", []string{}...)
	look("nothing")
	for _, step := range []struct {
		sql  string
		want []string // nil: nothing to hear of
	}{
		{`INSERT INTO api_keys VALUES (x'61', 'shop', 1, 1700000000123, x'')`, []string{"shop"}},
		{`INSERT INTO api_keys VALUES (x'62', 'b', 0, 1800000000000, x''), (x'63', 'c', 0, 1900000000000, x'')`, []string{"shop", "b", "c"}},
		{`INSERT OR REPLACE INTO api_keys VALUES (x'63', 'd', 0, 1900000000000, x'')`, []string{"shop", "b", "d"}},
		{`INSERT OR IGNORE INTO api_keys VALUES (x'63', 'e', 0, 1900000000000, x'')`, nil},
		{`UPDATE api_keys SET merchant = 'e' WHERE merchant = 'd'`, []string{"shop", "b", "e"}},
		{`UPDATE OR REPLACE api_keys SET hash = x'63' WHERE merchant = 'b'`, []string{"shop", "b"}},
		{`BEGIN; DELETE FROM api_keys; ROLLBACK`, nil},
		{`DELETE FROM api_keys WHERE merchant = 'nobody'`, nil},
		{`DELETE FROM api_keys WHERE merchant = 'shop'`, []string{"b"}},
		{`DELETE FROM api_keys`, []string{}},
		{`INSERT INTO api_keys VALUES (x'63', 'c', 0, 1900000000000, x'')`, []string{"c"}},
		{`DELETE FROM txns; VACUUM`, nil},
	} {
		exec(t, dir, step.sql)
		look(step.sql, step.want...)
	}
	if err := db.PutKey(t.Context(), store.Key{Hash: []byte("c"), Merchant: "f"}); err != store.ErrExists {
		t.Errorf("PutKey of one that is there: %v", err)
	}
	look("a key that was not taken")
	exec(t, dir, `DELETE FROM small_states`)
	for range 2 {
		look("without a mark", "c")
		if mark != "" {
			t.Errorf("the mark is %q, want none", mark)
		}
	}
	exec(t, dir, `DELETE FROM api_keys`)
	look("after a change", []string{}...)
}

// TestEndpointMarksByHand: servers notice every change of webhook endpoints, whoever makes it and however, and of which
// merchant.
func TestEndpointMarksByHand(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var mark string
	before := make(map[string]string)
	for _, step := range []struct {
		sql, changed, all string // the merchants, one letter each; changed "?": there is no mark of all
	}{
		{`INSERT INTO endpoints VALUES ('ep_a', 'a', 0, x''), ('ep_b', 'b', 0, x'')`, "ab", "ab"},
		{`SELECT 1`, "", ""},
		{`INSERT OR IGNORE INTO endpoints VALUES ('ep_a', 'a', 0, x''), ('ep_c', 'c', 0, x'')`, "c", "abc"},
		{`INSERT OR REPLACE INTO endpoints VALUES ('ep_b', 'b', 0, x'01')`, "b", "abc"},
		{`UPDATE OR IGNORE endpoints SET data = x'02' WHERE merchant = 'b'`, "b", "abc"},
		{`UPDATE endpoints SET merchant = 'a' WHERE merchant = 'b'`, "a", "ac"},
		{`BEGIN; DELETE FROM endpoints; ROLLBACK`, "", ""},
		{`DELETE FROM endpoints WHERE merchant = 'a'`, "", "c"},
		{`DELETE FROM endpoints`, "", ""},
		{`INSERT INTO endpoints VALUES ('ep_a', 'a', 0, x'')`, "a", "a"},
		{`DELETE FROM small_states`, "?", "a"},
	} {
		exec(t, dir, step.sql)
		marks, now, err := db.EndpointMarksUnless(t.Context(), mark)
		changed, all := "", ""
		for _, merchant := range []string{"a", "b", "c"} {
			if mark, isThere := marks[merchant]; isThere {
				all += merchant
				if mark != before[merchant] && mark != "" {
					changed += merchant
				}
			}
		}
		if now == "" {
			changed = "?"
		}
		if err != nil || changed != step.changed || all != step.all {
			t.Errorf("%s: the marks of %q have changed of those of %q, %v; want %q of %q", step.sql, changed, all, err, step.changed, step.all)
		}
		if mark = now; len(marks) > 0 {
			before = marks
		}
	}
}
