package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// A watcher remembers the mark of the keys, as a node does, and what it stood for.
type watcher struct {
	*testing.T
	db   *DB
	url  string
	mark string
}

// look checks what the next reading finds: keys of these merchants or, without merchants, that nothing has changed.
func (w *watcher) look(what string, want ...string) {
	w.Helper()
	keys, now, err := w.db.KeysUnless(w.Context(), w.mark)
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
	var got []string
	for _, k := range keys {
		got = append(got, k.Merchant)
	}
	switch changed := now == "" || now != w.mark; {
	case changed != (want != nil):
		w.Errorf("%s: the mark has changed: %t", what, changed)
	case !slices.Equal(got, want):
		w.Errorf("%s: keys of %q, want %q", what, got, want)
	}
	w.mark = now
}

// key is one of a merchant.
func key(merchant string) store.Key { return store.Key{Hash: []byte(merchant), Merchant: merchant} }

// watch returns a watcher of a new store that has keys of a, b and c, and another user's connection.
func watch(t *testing.T) (*watcher, *pgx.Conn) {
	t.Helper()
	url := pgtest.Get(t).Schema(t)
	db := openAt(t, url, Options{Timeout: time.Minute})
	for _, merchant := range []string{"a", "b", "c"} {
		if err := db.PutKey(t.Context(), key(merchant)); err != nil {
			t.Fatal(err)
		}
	}
	w := &watcher{T: t, db: db, url: url}
	w.look("first", "a", "b", "c")
	return w, connect(t, url)
}

func (w *watcher) exec(conn *pgx.Conn, sql string) {
	w.Helper()
	if _, err := conn.Exec(w.Context(), sql); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

const insertD = `INSERT INTO api_keys VALUES ('d', 'd', false, 0, '')`

// TestMarkByHand: nodes notice every change of keys, whoever makes it and however, and notice nothing that did not
// happen.
func TestMarkByHand(t *testing.T) {
	w, conn := watch(t)
	w.look("nothing")
	steps := []struct {
		sql  string
		want []string // nil: nothing to hear of
	}{
		{insertD, []string{"a", "b", "c", "d"}},
		{`UPDATE api_keys SET merchant = 'e' WHERE merchant = 'd'`, []string{"a", "b", "c", "e"}},
		{`DELETE FROM api_keys WHERE merchant = 'e'`, []string{"a", "b", "c"}},
		{`BEGIN; ` + insertD + `; ROLLBACK`, nil},
		{`BEGIN; SAVEPOINT s; DELETE FROM api_keys; ROLLBACK TO s; COMMIT`, nil},
		{`BEGIN; SAVEPOINT s; DELETE FROM api_keys; ROLLBACK TO s; DELETE FROM api_keys WHERE merchant = 'c'; COMMIT`, []string{"a", "b"}},
		{`WITH gone AS (DELETE FROM api_keys WHERE merchant = 'b') SELECT 1`, []string{"a"}},
		{`SET session_replication_role = replica; DELETE FROM api_keys; RESET session_replication_role`, []string{}},
		{insertD, []string{"d"}},
		{`TRUNCATE api_keys`, []string{}},
		{`INSERT INTO txns VALUES ('a', '', '', '', '', 0, 0); VACUUM api_keys`, nil},
	}
	for _, step := range steps {
		for statement := range strings.SplitSeq(step.sql, "; ") {
			w.exec(conn, statement)
		}
		w.look(step.sql, step.want...)
		if step.want != nil && len(step.want) == 0 {
			if keys, err := w.db.Keys(t.Context()); len(keys) > 0 || err != nil {
				t.Errorf("%s: Keys = %v, %v", step.sql, keys, err)
			}
		}
	}
	schema := strings.Trim(func() (name string) {
		if err := conn.QueryRow(t.Context(), `SELECT current_schema()`).Scan(&name); err != nil {
			t.Fatal(err)
		}
		return name
	}(), `"`)
	w.exec(conn, `SET search_path = ''`) // as dumps do
	if _, err := conn.CopyFrom(t.Context(), pgx.Identifier{schema, "api_keys"}, []string{"hash", "merchant", "strict", "created", "seal"},
		pgx.CopyFromRows([][]any{{[]byte("x"), "x", false, 0, []byte{}}, {[]byte("y"), "y", false, 0, []byte{}}})); err != nil {
		t.Fatal(err)
	}
	w.look("COPY", "x", "y")
}

// TestMarkInOrder: of two transactions that change keys, one waits until the other has committed, so that no reader
// sees a mark without its keys. Readers do not wait.
func TestMarkInOrder(t *testing.T) {
	w, conn := watch(t)
	w.exec(conn, `BEGIN`)
	w.exec(conn, `DELETE FROM api_keys WHERE merchant = 'a'`)
	w.look("before the commit")
	put := make(chan error, 1)
	go func() { put <- w.db.PutKey(context.WithoutCancel(t.Context()), key("d")) }()
	third := connect(t, w.url) // within a transaction the view stays as it was
	eventually(t, "the second waits", func() error {
		var n int
		err := third.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO api_keys%'`).Scan(&n)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d wait", n)
		}
		return err
	})
	w.look("while another waits")
	w.exec(conn, `COMMIT`)
	if err := <-put; err != nil {
		t.Fatal(err)
	}
	w.look("after both", "b", "c", "d")
}

// TestMarkGoesBack: a backup, or a standby that was behind, may take a database back to an earlier state. Later changes
// are not mistaken for the lost ones.
func TestMarkGoesBack(t *testing.T) {
	w, conn := watch(t)
	w.exec(conn, `CREATE TEMP TABLE keys_then AS TABLE api_keys`)
	w.exec(conn, `CREATE TEMP TABLE states_then AS TABLE small_states`)
	then := w.mark
	w.exec(conn, insertD)
	w.look("later", "a", "b", "c", "d")
	later := w.mark
	for _, sql := range []string{
		`BEGIN`, `DELETE FROM api_keys`, `INSERT INTO api_keys TABLE keys_then`,
		`DELETE FROM small_states`, `INSERT INTO small_states TABLE states_then`, `COMMIT`,
	} {
		w.exec(conn, sql)
	}
	w.look("back", "a", "b", "c")
	if w.mark != then {
		t.Errorf("the mark is %q, want the one of then, %q: this test is not what it was", w.mark, then)
	}
	w.exec(conn, `DELETE FROM api_keys WHERE merchant = 'a'`)
	if w.mark = later; w.mark == then {
		t.Error("two marks are the same")
	}
	w.look("one who has seen what never was", "b", "c")
}

// TestNoMark: if no trigger reports changes, all keys are read each time, and a trigger that was off for a while is
// noticed.
func TestNoMark(t *testing.T) {
	for name, sql := range map[string]string{
		"no trigger":               `DROP TRIGGER mark ON api_keys`,
		"trigger is off":           `ALTER TABLE api_keys DISABLE TRIGGER mark`,
		"trigger does not always":  `ALTER TABLE api_keys ENABLE TRIGGER mark`,
		"mark was deleted":         `DELETE FROM small_states`,
		"another table, as it was": `ALTER TABLE api_keys RENAME TO old; CREATE TABLE api_keys (LIKE old INCLUDING ALL); INSERT INTO api_keys TABLE old`,
	} {
		t.Run(name, func(t *testing.T) {
			w, conn := watch(t)
			w.exec(conn, sql)
			for range 2 {
				w.look(name, "a", "b", "c")
				if w.mark != "" {
					t.Errorf("the mark is %q, want none", w.mark)
				}
			}
			w.exec(conn, `DELETE FROM api_keys WHERE merchant = 'a'`)
			w.look("after a change", "b", "c")
		})
	}
	w, conn := watch(t)
	for _, sql := range []string{
		`BEGIN`, `ALTER TABLE api_keys DISABLE TRIGGER ALL`, `DELETE FROM api_keys WHERE merchant = 'a'`,
		`ALTER TABLE api_keys ENABLE ALWAYS TRIGGER mark`, `COMMIT`,
	} {
		w.exec(conn, sql)
	}
	w.look("with the trigger off for a while", "b", "c")
	w.look("nothing")
}

// TestEndpointMarksByHand: nodes notice every change of webhook endpoints, whoever makes it and however, and of which
// merchant. If no trigger reports changes, there are no marks. What was changed while the triggers were off is noticed.
func TestEndpointMarksByHand(t *testing.T) {
	db, url := openNew(t)
	conn := connect(t, url)
	w := &watcher{T: t, db: db}
	before := make(map[string]string)
	const insert = `INSERT INTO endpoints VALUES ('ep_c', 'c', 0, '')`
	for _, step := range []struct {
		sql, changed, all string // the merchants, one letter each; changed "?": there are no marks
	}{
		{`INSERT INTO endpoints VALUES ('ep_a', 'a', 0, ''), ('ep_b', 'b', 0, '')`, "ab", "ab"},
		{`SELECT 1`, "", ""},
		{insert, "c", "abc"},
		{`UPDATE endpoints SET data = 'x' WHERE merchant = 'b'`, "b", "abc"},
		{`UPDATE endpoints SET merchant = 'a' WHERE merchant = 'b'`, "a", "ac"},
		{`SET session_replication_role = replica; DELETE FROM endpoints WHERE merchant = 'c'; RESET session_replication_role`, "", "a"},
		{`BEGIN; ` + insert + `; ROLLBACK`, "", ""},
		{`ALTER TABLE endpoints DISABLE TRIGGER ALL; UPDATE endpoints SET data = 'y' WHERE id = 'ep_a'; ALTER TABLE endpoints ENABLE ALWAYS TRIGGER mark;
			ALTER TABLE endpoints ENABLE ALWAYS TRIGGER mark_merchant`, "a", "a"},
		{`TRUNCATE endpoints; ` + insert, "c", "c"},
		{`ALTER TABLE endpoints ENABLE TRIGGER mark_merchant`, "?", "c"},
		{`DROP TRIGGER mark ON endpoints`, "?", "c"},
	} {
		for statement := range strings.SplitSeq(step.sql, "; ") {
			w.exec(conn, statement)
		}
		marks, now, err := db.EndpointMarksUnless(t.Context(), w.mark)
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
		if w.mark = now; len(marks) > 0 {
			before = marks
		}
	}
}
