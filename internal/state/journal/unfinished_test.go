package journal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestJ6AnErasureThatDiedBehindItsTombstoneIsFinished: in SQLite a tombstone is in another file than its entries. A
// process that dies between the two leaves entries that were erased by the tombstone, and that have their content. The
// next duty of a server removes them before the day is signed. Else their chain would be broken for good.
func TestJ6AnErasureThatDiedBehindItsTombstoneIsFinished(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]func(*fileStore, time.Time) error{
		"by a server": func(st *fileStore, now time.Time) error { return st.Sign(t.Context(), now) },
		"by an erasure of something else": func(st *fileStore, _ time.Time) error {
			_, _, err := st.Erase(t.Context(), Query{Merchant: "shop 9"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUnfinished(t)
			before := u.billing()
			u.die(u.db.inErasure)
			u.write(Delivered("event", "endpoint", 1), 0) // somebody writes more of one of the authentications
			if err := finish(u.st, u.at.AddDate(0, 0, 2)); err != nil {
				t.Fatal(err)
			}
			if err := u.st.Sign(t.Context(), u.at.AddDate(0, 0, 2)); err != nil {
				t.Fatal(err)
			}
			u.check("", before)
			for n := range 10 {
				_, err := u.st.Show(t.Context(), u.id(n))
				if isErased := errors.Is(err, ErrNotFound); isErased != (n%2 == 0) {
					t.Errorf("record %d: %v", n, err)
				}
			}
			if n := CountForgotten(u.keys); n != 5 {
				t.Errorf("%d keys were forgotten, want 5", n)
			}
		})
	}
}

// TestJ6NobodyHasAnErasureFinishedWithoutTheKeys: who puts entries of an older copy back behind an erasure, and makes a
// mark as if it had been interrupted, is noticed.
func TestJ6NobodyHasAnErasureFinishedWithoutTheKeys(t *testing.T) {
	t.Parallel()
	u := newUnfinished(t)
	before := u.billing()
	u.die(func(ctx context.Context, day string, _ int64, do func(*sql.Tx) error) error {
		_, err := u.db.ExecContext(ctx, `INSERT INTO journal_erasing (name, day, seal, mac) VALUES ('mine', ?, 0, ?)`, day,
			make([]byte, MACLen))
		return errors.Join(err, u.db.inTx(ctx, do))
	})
	if err := u.st.Sign(t.Context(), u.at.AddDate(0, 0, 2)); err != nil {
		t.Fatal(err)
	}
	u.check("was erased, and has content again", before)
}

// TestJ6AMarkIsOfOneErasure: a mark without a tombstone goes, and an erasure that has lost its mark leaves another one.
func TestJ6AMarkIsOfOneErasure(t *testing.T) {
	t.Parallel()
	u := newUnfinished(t)
	mark, err := u.db.leaveMark(t.Context(), dayOf(u.at), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := u.st.Sign(t.Context(), u.at); err != nil {
		t.Fatal(err)
	}
	if err := u.db.inTx(t.Context(), func(tx *sql.Tx) error {
		return mark.takeBack(t.Context(), tx)
	}); !errors.Is(err, errMarkGone) {
		t.Errorf("the mark of an erasure that has not begun: %v", err)
	}
	tries := 0
	if err := u.db.inErasure(t.Context(), dayOf(u.at), 0, func(*sql.Tx) error {
		if tries++; tries < 3 {
			return errMarkGone
		}
		return nil
	}); err != nil || tries != 3 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	if err := u.st.Sign(t.Context(), u.at); err != nil { // the tries that were undone have left theirs
		t.Fatal(err)
	}
	u.isDone(t.Context())
}

// unfinished is a journal of ten authentications of two merchants, of which those of one are erased.
type unfinished struct {
	*testing.T
	st   *fileStore
	keys *Keys
	db   *database
	at   time.Time
}

func newUnfinished(t *testing.T) *unfinished {
	t.Helper()
	st, keys := openTestFiles(t)
	u := &unfinished{T: t, st: st.(*fileStore), keys: keys, at: time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)}
	for n := range 10 {
		u.write(Answered, n)
	}
	db, err := u.st.month(t.Context(), "2026-03", false)
	if err != nil {
		t.Fatal(err)
	}
	u.db = db
	return u
}

func (u *unfinished) id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// write writes an entry of an authentication.
func (u *unfinished) write(kind Kind, n int) {
	u.Helper()
	if _, err := u.st.Write(u.Context(), []Entry{{Kind: kind, Record: Record{
		ID: u.id(n), Created: u.at, Updated: u.at, API: "emv", Merchant: fmt.Sprint("shop ", n%2), Status: "completed",
		TransStatus: "Y",
	}}}); err != nil {
		u.Fatal(err)
	}
}

// die erases what the first merchant has, in a transaction that is undone behind its tombstone.
func (u *unfinished) die(in func(ctx context.Context, day string, seal int64, do func(*sql.Tx) error) error) {
	u.Helper()
	crash := errors.New("crash")
	e := erasureOf(u.db, Query{Merchant: "shop 0"}, u.at)
	if err := in(u.Context(), dayOf(u.at), 0, func(tx *sql.Tx) error {
		if _, n, err := e.do(u.Context(), tx); err != nil || n != 5 {
			u.Fatalf("%d entries: %v", n, err)
		}
		return crash
	}); !errors.Is(err, crash) {
		u.Fatal(err)
	}
}

// check looks for a fault, "" for none, and for what is billed. No mark may be left.
func (u *unfinished) check(fault string, billed int64) {
	u.Helper()
	switch faults := strings.Join(u.st.Faults(), "\n"); {
	case !strings.Contains(faults, fault) || fault == "" && faults != "":
		u.Errorf("the faults are %q, want %q", faults, fault)
	case fault == "":
		var file bytes.Buffer
		if _, err := WriteJSONLines(u.Context(), &file, u.st, u.keys, Query{At: u.at.AddDate(0, 0, 2)}); err != nil {
			u.Fatal(err)
		}
		if got, err := Verify(bytes.NewReader(file.Bytes()), u.keys.PublicKey()); err != nil || got.Erased != 6 {
			u.Errorf("an export has %d entries that were erased, want 6: %v", got.Erased, err)
		}
	}
	if got := u.billing(); got != billed {
		u.Errorf("%d are billed, want %d", got, billed)
	}
	u.isDone(u.Context())
}

// isDone checks that there is no mark.
func (u *unfinished) isDone(ctx context.Context) {
	u.Helper()
	n := 0
	if err := u.db.QueryRowContext(ctx, `SELECT count(*) FROM journal_erasing`).Scan(&n); err != nil || n != 0 {
		u.Errorf("%d marks: %v", n, err)
	}
}

func (u *unfinished) billing() (n int64) {
	u.Helper()
	return billed(u.T, u.st, u.at)
}
