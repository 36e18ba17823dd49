package journal

import (
	"database/sql"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// EachStore runs a test with a journal of each kind.
func EachStore(t *testing.T, test func(t *testing.T, st Store, keys *Keys)) {
	t.Helper()
	OnFiles(t, test)
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		st, keys := openTestPostgres(t)
		test(t, st, keys)
	})
}

// OnFiles runs a test with a journal in files.
func OnFiles(t *testing.T, test func(t *testing.T, st Store, keys *Keys)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		st, keys := openTestFiles(t)
		test(t, st, keys)
	})
}

// openTestFiles opens a journal in files until the test ends.
func openTestFiles(t *testing.T) (Store, *Keys) {
	t.Helper()
	keys := NewKeys()
	st, err := OpenFiles(t.TempDir(), keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st, keys
}

// openTestPostgres opens a journal in a schema of PostgreSQL until the test ends.
func openTestPostgres(t *testing.T) (Store, *Keys) {
	t.Helper()
	keys := NewKeys()
	st, err := OpenPostgres(t.Context(), pgtest.Get(t).Schema(t), keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st, keys
}

// Databases returns the databases of a store.
func Databases(t *testing.T, st Store) (all []*sql.DB) {
	t.Helper()
	if st, ok := st.(*tableStore); ok {
		return []*sql.DB{st.DB}
	}
	if err := st.(*fileStore).each(t.Context(), func(db *database) (bool, error) {
		all = append(all, db.DB)
		return false, nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// AllDatabases returns the databases of a store with those of seals and of counters for billing.
func AllDatabases(t *testing.T, st Store) []*sql.DB {
	t.Helper()
	all := Databases(t, st)
	if files, ok := st.(*fileStore); ok {
		for _, name := range []string{sealsFile, billingFile} {
			db, err := files.month(t.Context(), name, true)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, db.DB)
		}
	}
	return all
}

// RollBlock makes the rollups of the block of days that a time is in, in all databases of a store.
func RollBlock(t *testing.T, st Store, at time.Time) {
	t.Helper()
	roll := func(db *database) error {
		return db.inTx(t.Context(), func(tx *sql.Tx) error { return db.rollBlock(t.Context(), tx, at.UnixMilli()/blockLen) })
	}
	var err error
	if one, ok := st.(*tableStore); ok {
		err = roll(one.database)
	} else {
		err = st.(*fileStore).each(t.Context(), func(db *database) (bool, error) { return false, roll(db) })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// BeginChains has all databases of a store begin other chains, as after a start of the server.
func BeginChains(t *testing.T, st Store) {
	t.Helper()
	if st, ok := st.(*tableStore); ok {
		st.beginChains()
		return
	}
	for _, db := range st.(*fileStore).months {
		db.beginChains()
	}
}

// FailSteps has an Archiver write through a writer, and call other functions to rename a file and before a day is
// removed. Nil ones change nothing.
func FailSteps(a *Archiver, write func(io.Writer) io.Writer, rename func(from, to string) error, commit func() error) {
	a.steps = diskSteps{write, rename, commit}
}

// SealsSync returns how carefully a journal in files writes its seals to the disk, as PRAGMA synchronous says it.
func SealsSync(t *testing.T, st Store) (level int) {
	t.Helper()
	db, err := st.(*fileStore).sealsPart(t.Context(), true)
	if err == nil {
		err = db.QueryRowContext(t.Context(), `PRAGMA synchronous`).Scan(&level)
	}
	if err != nil {
		t.Fatal(err)
	}
	return level
}

// FailRename has a Folder call another function to rename a file; nil is that of the system.
func FailRename(f *Folder, rename func(from, to string) error) { f.rename = rename }

// WithOtherWrapping returns keys that sign as some others do, and open nothing of theirs.
func WithOtherWrapping(keys *Keys) *Keys {
	other := NewKeys()
	other.hash, other.signing = keys.hash, keys.signing
	return other
}

// ForgetSeals has a store know no seals, as after a start of the server.
func ForgetSeals(t *testing.T, st Store) {
	t.Helper()
	e := st.(heldParts).evidenceOf()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known, e.seen, e.hash, e.faults = newKnown(), 0, nil, nil
}

// OpenedTexts returns all texts that the keys of a store open of its frames, however these say what was erased.
func OpenedTexts(t *testing.T, st Store) string {
	t.Helper()
	var all []byte
	if err := st.(evidenceParts).eachPart(t.Context(), func(_ string, db *database) error {
		return db.eachFrame(t.Context(), db, wholeFrames, func(f *frame) error {
			items, err := db.openItems(t.Context(), f, isAny)
			if err != nil {
				return err
			}
			for i := range items {
				all = append(all, items[i].content...)
			}
			for table, body := range map[string][]byte{"journal_messages": f.messages, "journal_personal": f.personal} {
				texts, err := db.openTexts(t.Context(), f, table, body, items)
				if err != nil {
					return err
				}
				for _, text := range texts {
					all = append(all, text...)
				}
			}
			return nil
		}, `made >= 0`)
	}); err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// WithoutFile has keys write no file from now on: a process that is killed between an erasure and its file leaves the
// file as it was.
func WithoutFile(keys *Keys) *Keys {
	keys.kept.file = nil
	return keys
}

// CountForgotten returns how many keys were forgotten one by one.
func CountForgotten(keys *Keys) int {
	_, all := keys.tree.countForgotten()
	return all
}

// LimitForgotten sets how many keys may be forgotten one by one. The function that it returns undoes that.
func LimitForgotten(keys *Keys, n int) (undo func()) {
	was := keys.maxForgotten
	keys.maxForgotten = n
	return func() { keys.maxForgotten = was }
}

// WriteForgotten brings the file of keys up to date.
func WriteForgotten(keys *Keys) { keys.checkFile() }

// ForgetSome forgets the keys of some authentications of one day.
func ForgetSome(t *testing.T, keys *Keys, n int) {
	t.Helper()
	var spent []spentLeaf
	for i := range n {
		spent = append(spent, spentLeaf{keys.tree.name, keys.tree.leafOf(20_000, fmt.Sprint(i))})
	}
	keys.forget(spent)
	if problem := keys.FileProblem(); problem != "" {
		t.Fatal(problem)
	}
}

// LeafOf returns the leaf of an authentication of a day.
func LeafOf(keys *Keys, day, id string) uint64 {
	at, _ := time.Parse(time.DateOnly, day)
	return keys.tree.leafOf(dayNumber(at.UnixMilli()), id)
}

// DirOf returns the folder of a store of files.
func DirOf(st Store) string { return st.(*fileStore).dir }

// CopyRows returns the rows of tables, by their names.
func CopyRows(t *testing.T, db *sql.DB, tables []string) map[string][]map[string]any {
	t.Helper()
	all := map[string][]map[string]any{}
	for _, table := range tables {
		rows, err := db.QueryContext(t.Context(), `SELECT * FROM `+table)
		if err != nil {
			t.Fatal(err)
		}
		names, _ := rows.Columns()
		for rows.Next() {
			values, places := make([]any, len(names)), make([]any, len(names))
			for c := range values {
				places[c] = &values[c]
			}
			if err := rows.Scan(places...); err != nil {
				t.Fatal(err)
			}
			row := map[string]any{}
			for c, name := range names {
				row[name] = values[c]
			}
			all[table] = append(all[table], row)
		}
		_ = rows.Close()
	}
	return all
}

// PutRows puts rows in the place of those of tables.
func PutRows(t *testing.T, db *sql.DB, tables []string, all map[string][]map[string]any) {
	t.Helper()
	for _, table := range tables {
		if _, err := db.ExecContext(t.Context(), `DELETE FROM `+table); err != nil {
			t.Fatal(err)
		}
		for _, row := range all[table] {
			var names, marks []string
			var values []any
			for name, value := range row {
				names, values = append(names, name), append(values, value)
				marks = append(marks, fmt.Sprintf("$%d", len(values)))
			}
			if _, err := db.ExecContext(t.Context(), `INSERT INTO `+table+` (`+strings.Join(names, ", ")+
				`) VALUES (`+strings.Join(marks, ", ")+`)`, values...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// ForgetLeaf forgets one leaf.
func ForgetLeaf(keys *Keys, leaf uint64) { keys.forget([]spentLeaf{{keys.tree.name, leaf}}) }
