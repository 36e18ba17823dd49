package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// sqlOf returns the SQL below a heading of a page.
func sqlOf(t *testing.T, file, heading string) string {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/" + file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n"+heading+"\n")
	_, rest, _ = strings.Cut(rest, "```sql\n")
	sql, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatalf("docs/%s has no SQL below %q", file, heading)
	}
	return sql
}

// as returns the URL with another user.
func as(t *testing.T, text, user string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(user)
	return u.String()
}

// TestPrivilegesFromNothing goes through what the pages say in their order: roles, the
// tables by the owner's command, the nodes; and later the largest table in parts.
func TestPrivilegesFromNothing(t *testing.T) {
	server := pgtest.Get(t)
	server.Exec(t, server.URL(), "CREATE DATABASE narrow")
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path, u.RawQuery = "/narrow", "sslmode=disable"
	at := u.String()
	t.Cleanup(func() {
		server.Exec(t, at, "DROP OWNED BY threeds_owner, threeds_node")
		server.Exec(t, at, "DROP ROLE threeds_owner, threeds_node")
		server.Exec(t, server.URL(), "DROP DATABASE narrow WITH (FORCE)")
	})
	first, later, ok := strings.Cut(sqlOf(t, "postgres.md", "## Privileges"), "-- as threeds_owner")
	if !ok {
		t.Fatal("the page does not say what the owner does")
	}
	_, later, _ = strings.Cut(later, "\n")
	server.Exec(t, at, first)
	open := func(user, id string) error {
		db, err := Open(t.Context(), as(t, at, user), Options{})
		if err != nil {
			return err
		}
		return errors.Join(db.Create(t.Context(), txn(id)), db.Close())
	}
	if err := open("threeds_node", "early"); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a node ahead of the tables: %v", err)
	}
	if err := open("threeds_owner", "owner"); err != nil {
		t.Errorf("the owner: %v", err)
	}
	server.Exec(t, as(t, at, "threeds_owner"), later)
	if err := open("threeds_node", "node"); err != nil {
		t.Errorf("a node: %v", err)
	}
	parts := sqlOf(t, "operating/database.md", "### Size")
	server.Exec(t, as(t, at, "threeds_owner"), strings.Replace(parts, "-- GRANT", "GRANT", 1))
	if err := open("threeds_node", "node"); !errors.Is(err, store.ErrExists) {
		t.Errorf("the id of a node that was there before: %v, want ErrExists", err)
	}
	if err := open("threeds_node", "part"); err != nil {
		t.Errorf("a node, on a table in parts: %v", err)
	}
}

// TestReadOnlyUser: a store that may only be read opens, but is not ready for requests, from the start or as soon as
// privileges are taken away.
func TestReadOnlyUser(t *testing.T) {
	server := pgtest.Get(t)
	_, url := openNew(t)
	_, schema, _ := strings.Cut(url, "search_path=")
	schema, _, _ = strings.Cut(schema, ",")
	grant := func(sql string) {
		t.Helper()
		server.Exec(t, url, strings.ReplaceAll(sql, "ALL TABLES", "ALL TABLES IN SCHEMA "+schema))
	}
	t.Cleanup(func() { grant("DROP OWNED BY only_reads; DROP ROLE only_reads") })
	grant("CREATE ROLE only_reads LOGIN; GRANT USAGE ON SCHEMA " + schema + " TO only_reads; GRANT SELECT ON ALL TABLES TO only_reads")
	db := openAt(t, as(t, url, "only_reads"), Options{})
	for _, step := range []struct {
		sql   string
		ready bool
	}{
		{"SELECT 1", false},
		{"GRANT INSERT, UPDATE, DELETE ON ALL TABLES TO only_reads", true},
		{"REVOKE INSERT ON txns FROM only_reads", false},
		{"GRANT INSERT ON txns TO only_reads", true},
		{"REVOKE UPDATE ON txns FROM only_reads", false},
		{"GRANT UPDATE ON txns TO only_reads; REVOKE SELECT ON txns FROM only_reads", false},
	} {
		grant(step.sql)
		if err := db.Ping(t.Context()); errors.Is(err, store.ErrReadOnly) == step.ready || (err == nil) != step.ready {
			t.Errorf("after %s: Ping: %v, want ready: %t", step.sql, err, step.ready)
		}
	}
}

// TestPassfileMissing: the driver would ignore a missing file, and the server would then say that the password is
// wrong.
func TestPassfileMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pgpass")
	if _, err := configure("postgres://u@db1/threeds?passfile="+file, callTimeout); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "passfile") {
		t.Errorf("configure: %v, want that there is no passfile", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := configure("postgres://u@db1/threeds?passfile="+file, callTimeout); err != nil {
		t.Error(err)
	}
}

// TestCheck: faults in a URL are found without a server. Files are not looked for, and no value is quoted.
func TestCheck(t *testing.T) {
	const unreadable = "the URL cannot be read"
	for _, tt := range []struct{ url, want string }{
		{"postgres://u@a,b:5432/x", ""},
		{"postgres://u@a/x?sslmode=verify-full&sslrootcert=none.pem&sslcert=none.pem&sslkey=none.key&passfile=none", ""},
		{"postgres://u@a/x?pool_max_conns=1&default_transaction_isolation=read%20committed", ""},
		{"postgres://u@a/x?pool_max_conns=0", "pool_max_conns in the URL: no such value"},
		{"postgres://u@a/x?target_session_attrs=geheim&sslmode=geheim&connect_timeout=3", "sslmode, target_session_attrs in the URL: no such value"},
		{"postgres://u@a/x?pool_max_conns=2&pool_min_conns=3x", "pool_min_conns in the URL: no such value"},
		{"postgres://u@a/x?synchronous_commit=off", "synchronous_commit in the URL is neither on nor remote_apply: acknowledged results could be lost"},
		{"postgres://u@a:99999/x", unreadable},
		{"postgres://u@a:b/x", unreadable},
	} {
		said := ""
		if err := Check(tt.url); err != nil {
			said = err.Error()
		}
		if said != tt.want {
			t.Errorf("%s: %q, want %q", tt.url, said, tt.want)
		}
	}
}

// TestNoSQLState: what stands between may refuse without a code of five letters.
func TestNoSQLState(t *testing.T) {
	for code, want := range map[string]bool{"": false, "5": false, "57P01": true, "08P01": false} {
		if got := connectionFailed(&pgconn.PgError{Severity: "FATAL", Code: code}); got != want {
			t.Errorf("connectionFailed of code %q = %t", code, got)
		}
	}
}

// TestTriedAgain: what the server has undone because of other transactions is tried again, at most four times; any
// other refusal is final.
func TestTriedAgain(t *testing.T) {
	server := pgtest.Get(t)
	db, at := openNew(t)
	ctx := context.Background()
	for _, tt := range []struct {
		code     string
		refusals int
		ok       bool
	}{
		{serializationFailure, tries - 2, true}, {serializationFailure, tries - 1, true}, {serializationFailure, tries, false},
		{deadlockDetected, tries - 1, true}, {deadlockDetected, tries, false},
		{"53100", 1, false}, // disk full
		{completionUnknown, 1, false}, {"08006", 1, false},
	} {
		t.Run(fmt.Sprint(tt.code, " ", tt.refusals), func(t *testing.T) {
			// A sequence counts even if its transaction is undone.
			server.Exec(t, at, `DROP SEQUENCE IF EXISTS refusals`)
			server.Exec(t, at, `CREATE SEQUENCE refusals`)
			server.Exec(t, at, fmt.Sprintf(`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN
					IF nextval('refusals') <= %d THEN
						RAISE EXCEPTION 'refused' USING ERRCODE = '%s';
					END IF;
					RETURN NEW;
				END $$`, tt.refusals, tt.code))
			server.Exec(t, at, `CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON txns FOR EACH ROW EXECUTE FUNCTION refuse()`)
			err := db.Create(ctx, txn(t.Name()))
			if (err == nil) != tt.ok || known(err) {
				t.Errorf("Create: %v, want success: %v", err, tt.ok)
			}
			// With these codes, the engine behind a proxy may have failed.
			doubt := tt.code == completionUnknown || tt.code == "08006"
			if undone := errors.Is(err, store.ErrUndone); undone != (!tt.ok && !doubt) {
				t.Errorf("Create: %v, ErrUndone in it is %t", err, undone)
			}
			if _, err := db.Get(ctx, t.Name()); (err == nil) != tt.ok {
				t.Errorf("Get after it: %v", err)
			}
		})
	}
}
