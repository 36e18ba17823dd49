// Package journaltest fills journals of a size in PostgreSQL, for benchmarks that read them. Use [Open].
package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// A Journal is one that is filled.
type Journal struct {
	URL        string // where the database of the journal is
	KeyFile    string
	Keys       *journal.Keys
	Store      journal.Store
	Generation journal.Generation
	Now        time.Time // when the generation ends
	IsKept     bool      // the database outlives the benchmark, so that nothing may be removed from it
}

// settings are what a filled database says of itself. Its keys are with it, for nothing in it is real.
type settings struct {
	Generation journal.Generation `json:"generation"`
	Now        time.Time          `json:"now"`
	Keys       json.RawMessage    `json:"keys"`
	Complete   bool               `json:"complete"`
}

// Number returns a number of the environment, or another one if there is none.
func Number(name string, or int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return or
}

// Open opens a journal of JOURNAL_RECORDS generated records of JOURNAL_DAYS days. With JOURNAL_DATABASE, the URL of a
// database, that one is filled if it is empty, and used as it is if an earlier call has filled it. Without, it is a
// database of the benchmark's own, which ends with it.
func Open(b *testing.B) *Journal {
	b.Helper()
	j := &Journal{URL: os.Getenv("JOURNAL_DATABASE"), KeyFile: filepath.Join(b.TempDir(), "journal-keys.json")}
	if j.IsKept = j.URL != ""; !j.IsKept {
		j.URL = pgtest.Get(b).Schema(b)
	}
	had, err := readSettings(b.Context(), j.URL)
	must(b, err)
	if had == nil {
		j.Generation = journal.Generation{
			Authentications: Number("JOURNAL_RECORDS", 2000), Days: Number("JOURNAL_DAYS", 30), Merchants: 500, Seed: 1,
		}
		j.Now = time.Now().UTC().Truncate(time.Millisecond)
		j.open(b)
		j.fill(b)
		return j
	}
	if !had.Complete {
		b.Fatal("the database of JOURNAL_DATABASE was not filled to the end: drop it, and fill it anew")
	}
	must(b, os.WriteFile(j.KeyFile, had.Keys, 0o600))
	j.Generation, j.Now = had.Generation, had.Now
	j.open(b)
	b.Logf("the database has %d records of %d days, which ended %s", j.Generation.Authentications, j.Generation.Days, j.Now)
	return j
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (j *Journal) open(b *testing.B) {
	b.Helper()
	var err error
	j.Keys, err = journal.LoadOrCreateKeys(j.KeyFile, "")
	must(b, err)
	j.Store, err = journal.OpenPostgres(b.Context(), j.URL, j.Keys)
	must(b, err)
	b.Cleanup(func() { _ = j.Store.Close() })
}

// fill fills the journal, and counts its hours and days.
func (j *Journal) fill(b *testing.B) {
	b.Helper()
	keys, err := os.ReadFile(j.KeyFile)
	must(b, err)
	is := settings{j.Generation, j.Now, keys, false}
	must(b, is.write(b.Context(), j.URL))
	began := time.Now()
	last := began
	must(b, journal.Generate(b.Context(), j.Store, j.Keys, j.Generation, j.Now, func(n int) {
		if time.Since(last) > time.Minute {
			last = time.Now()
			b.Logf("%d records after %s", n, time.Since(began).Round(time.Second))
		}
	}))
	b.Logf("%d records with their indexes after %s", j.Generation.Authentications, time.Since(began).Round(time.Second))
	rolled := time.Now()
	must(b, j.Store.Roll(b.Context(), j.Now, 24*time.Hour))
	b.Logf("the hours of %d days are counted after %s", j.Generation.Days, time.Since(rolled).Round(time.Millisecond))
	is.Complete = true
	must(b, is.write(b.Context(), j.URL))
}

// on calls do with a connection to a database.
func on(ctx context.Context, url string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close(context.WithoutCancel(ctx)))
}

// readSettings returns what a database says of itself; nil if it says nothing.
func readSettings(ctx context.Context, url string) (had *settings, err error) {
	err = on(ctx, url, func(conn *pgx.Conn) error {
		var text []byte
		if _, err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS journal_generated (settings text NOT NULL)`); err != nil {
			return err
		}
		err := conn.QueryRow(ctx, `SELECT settings FROM journal_generated`).Scan(&text)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		had = &settings{}
		return json.Unmarshal(text, had)
	})
	return had, err
}

func (s *settings) write(ctx context.Context, url string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return on(ctx, url, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `DELETE FROM journal_generated`); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, `INSERT INTO journal_generated (settings) VALUES ($1)`, string(text))
		return err
	})
}
