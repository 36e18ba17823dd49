package journal

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
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
			u.write(Delivered("event", "endpoint", 1), 0) // An entry comes after the process died.
			if err := finish(u.st, u.at.AddDate(0, 0, 2)); err != nil {
				t.Fatal(err)
			}
			u.sign(2)
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

// TestJ6NobodyHasAnErasureFinishedWithoutTheKeys: somebody puts entries of an older copy back behind an erasure, and makes
// a mark as if the erasure had been interrupted. The server reports that.
func TestJ6NobodyHasAnErasureFinishedWithoutTheKeys(t *testing.T) {
	t.Parallel()
	u := newUnfinished(t)
	before := u.billing()
	u.die(func(ctx context.Context, day string, _ int64, do func(*sql.Tx, string) error) error {
		_, err := u.db.ExecContext(ctx, `INSERT INTO journal_erasing (name, day, seal, mac) VALUES ('mine', ?, 0, ?)`, day,
			make([]byte, MACLen))
		return errors.Join(err, u.db.inTx(ctx, func(tx *sql.Tx) error { return do(tx, "mine") }))
	})
	u.sign(2)
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
	u.sign(0)
	if err := u.db.inTx(t.Context(), func(tx *sql.Tx) error {
		return mark.takeBack(t.Context(), tx)
	}); !errors.Is(err, errMarkGone) {
		t.Errorf("the mark of an erasure that has not begun: %v", err)
	}
	tries := 0
	if err := u.db.inErasure(t.Context(), dayOf(u.at), 0, func(*sql.Tx, string) error {
		if tries++; tries < 3 {
			return errMarkGone
		}
		return nil
	}); err != nil || tries != 3 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	if err := u.db.inErasure(t.Context(), dayOf(u.at), 0, func(*sql.Tx, string) error {
		return errMarkGone
	}); !errors.Is(err, errMarkGone) {
		t.Errorf("the mark is always gone: %v", err)
	}
	u.sign(0) // It removes the marks of the tries that were undone.
	u.isDone()
}

// TestJ6AnErasureLeavesItsMarkFirst: while an erasure makes its tombstones, its mark is in the file of the month.
func TestJ6AnErasureLeavesItsMarkFirst(t *testing.T) {
	t.Parallel()
	u := newUnfinished(t)
	marks, seals := 0, u.db.sealsPart
	u.db.sealsPart = func(ctx context.Context, create bool) (*database, error) {
		marks = max(marks, u.marks())
		return seals(ctx, create)
	}
	before := u.billing()
	if n, _, err := u.st.Erase(t.Context(), Query{Merchant: "shop 0"}); err != nil || n != 5 || marks != 1 {
		t.Errorf("%d were erased, %v, with %d marks", n, err, marks)
	}
	if got := u.billing(); got != before || u.marks() > 0 {
		t.Errorf("%d are billed, want %d; %d marks are left", got, before, u.marks())
	}
}

// TestJ6AnErasureBeginsAndDiesWhileADayIsSigned: the server has found nothing to finish, and is about to check the chains
// of a day, when an erasure begins and dies behind its tombstone. The chain is not broken by that.
func TestJ6AnErasureBeginsAndDiesWhileADayIsSigned(t *testing.T) {
	t.Parallel()
	u := newUnfinished(t)
	before, parts := u.billing(), u.st.evidence.parts
	u.st.evidence.parts = &partsBeside{evidenceParts: parts, do: func() {
		u.die(u.db.inErasure)
		u.write(Delivered("event", "endpoint", 1), 0)
	}}
	u.sign(2)
	u.check("", before)
}

// TestJ6ATombstoneOfEarlierEntriesIsFinished: behind the mark of an erasure that died there is a tombstone of another one,
// which is about later entries of the same chain.
func TestJ6ATombstoneOfEarlierEntriesIsFinished(t *testing.T) {
	t.Parallel()
	u := newUnfinished(t)
	before := u.billing()
	if _, _, err := u.st.Erase(t.Context(), Query{Merchant: "shop 1"}); err != nil {
		t.Fatal(err)
	}
	u.die(u.db.inErasure)
	u.sign(2)
	page, err := u.st.Search(t.Context(), Query{})
	if faults := u.st.Faults(); err != nil || len(page.Records) > 0 || len(faults) > 0 || u.billing() != before {
		t.Errorf("%d are left, %v; %d are billed, want %d; faults %q", len(page.Records), err, u.billing(), before, faults)
	}
}

// TestJ6ACopyOfAMarkHidesNothing: somebody without the keys copies the mark of an erasure while it is at work, and what it
// erases. Later he puts both back. The server reports that as without the mark, and does not bill it for good.
func TestJ6ACopyOfAMarkHidesNothing(t *testing.T) {
	t.Parallel()
	u := newUnfinished(t)
	before, seals := u.billing(), u.db.sealsPart
	tables := []string{"journal_erasing", "journal_frames", "journal_places", "journal_records"}
	u.db.sealsPart = func(ctx context.Context, create bool) (*database, error) {
		for _, table := range tables {
			u.exec(`CREATE TABLE IF NOT EXISTS copies.` + table + ` AS SELECT * FROM main.` + table)
		}
		return seals(ctx, create)
	}
	if _, _, err := u.st.Erase(t.Context(), Query{Merchant: "shop 0"}); err != nil {
		t.Fatal(err)
	}
	u.db.sealsPart = seals
	for _, table := range tables {
		u.exec(`REPLACE INTO main.` + table + ` SELECT * FROM copies.` + table)
	}
	u.sign(2)
	u.exec(`DELETE FROM journal_frames`)
	u.check("was erased, and has its sealed text again", before/2)
}

// TestJ6AMarkIsOfItsOwnTombstones: somebody without the keys has a copy of a mark, and puts the seals of a copy of the
// journal, in which others were erased, into the place of those that there are. The server erases nothing by that.
func TestJ6AMarkIsOfItsOwnTombstones(t *testing.T) {
	t.Parallel()
	u := newUnfinished(t)
	before := u.billing()
	u.die(func(ctx context.Context, day string, seal int64, do func(*sql.Tx, string) error) error {
		_, err := u.db.leaveMark(ctx, day, seal)
		return errors.Join(err, u.db.inTx(ctx, func(tx *sql.Tx) error { return do(tx, "another") }))
	})
	u.sign(2)
	u.check("was erased, and has content again", before)
	page, err := u.st.Search(t.Context(), Query{Merchant: "shop 0"})
	if err != nil || len(page.Records) != 5 {
		t.Errorf("%d of 5 are left: %v", len(page.Records), err)
	}
}

// TestJ6OtherKeysLeaveMarks: a server with another file of keys runs once behind an erasure that died. The mark stays for
// the server with the right keys.
func TestJ6OtherKeysLeaveMarks(t *testing.T) {
	t.Parallel()
	u := newUnfinished(t)
	before := u.billing()
	u.die(u.db.inErasure)
	u.write(Delivered("event", "endpoint", 1), 0)
	other, err := OpenFiles(u.st.dir, NewKeys())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, _, failed := other.Erase(t.Context(), Query{Merchant: "shop 1"})
	if err := other.Sign(t.Context(), u.at); err != nil || !errors.Is(failed, ErrHoldsUnknown) || u.marks() != 1 {
		t.Errorf("%v, %v; %d marks are left", err, failed, u.marks())
	}
	u.sign(2)
	u.check("", before)
}

// killsEnv names the folder in which a test binary erases until it is killed.
const killsEnv = "THREEDS_TEST_KILLS"

// TestJ6AnErasureThatIsKilledIsFinished: a process is killed while it erases, again and again and at any moment. The next
// duty of the server brings the journal right each time.
func TestJ6AnErasureThatIsKilledIsFinished(t *testing.T) {
	const shops, perShop, days = 24, 8, 2
	if dir := os.Getenv(killsEnv); dir != "" {
		st := openUnfinished(t, dir, shops, days).st
		for n := range shops {
			q := Query{Merchant: fmt.Sprint("shop ", n)}
			if page, err := st.Search(t.Context(), q); err == nil && len(page.Records) == 0 {
				continue
			}
			fmt.Println("erase", n)
			if _, _, err := st.Erase(t.Context(), q); err != nil {
				fmt.Println("failed", err)
			}
		}
		fmt.Println("done")
		select {} // The test kills the process.
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	u := openUnfinished(t, dir, shops, days)
	for n := range shops * perShop {
		u.write(Answered, n)
		u.write(Delivered("event", "endpoint", 1), n)
	}
	u.erased = 2 * shops * perShop
	before, marks, kills := u.billing(), 0, 0
	for isDone := false; !isDone; kills++ {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), killsEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		for lines, n := bufio.NewScanner(out), rand.IntN(3); n >= 0 && !isDone; n-- {
			if !lines.Scan() || strings.HasPrefix(lines.Text(), "failed") {
				t.Fatalf("the process that erases ended, or said %q", lines.Text())
			}
			isDone = lines.Text() == "done"
		}
		for range rand.IntN(4000) { // The process is killed at any moment.
			_, _ = os.Stat(dir)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // The error says that the process was killed.
		marks += u.marks()
		u.sign(1)
		if got := u.billing(); got != before {
			t.Fatalf("%d are billed, want %d", got, before)
		}
	}
	t.Logf("it was killed %d times, and left %d marks", kills, marks)
	u.sign(2)
	u.check("", before)
	if n := CountForgotten(u.keys); n != shops*perShop {
		t.Errorf("%d keys were forgotten, want %d", n, shops*perShop)
	}
}

// unfinished is a journal of some merchants, whose authentications are of some days.
type unfinished struct {
	*testing.T
	st          *fileStore
	keys        *Keys
	db          *database
	at          time.Time // at is in the first day.
	shops, days int
	erased      int // erased is how many entries are erased in the end.
}

// newUnfinished returns a journal with ten authentications of two merchants.
func newUnfinished(t *testing.T) *unfinished {
	t.Helper()
	u := openUnfinished(t, t.TempDir(), 2, 1)
	for n := range 10 {
		u.write(Answered, n)
	}
	u.erased = 6
	return u
}

// openUnfinished opens the journal of a folder, and its file of keys.
func openUnfinished(t *testing.T, dir string, shops, days int) *unfinished {
	t.Helper()
	keys, err := (KeyFile{Path: filepath.Join(dir, "journal-keys.json")}).LoadOrCreate()
	if err != nil {
		t.Fatal(err)
	}
	st, err := OpenFiles(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	db, err := st.(*fileStore).month(t.Context(), "2026-03", true)
	if err != nil {
		t.Fatal(err)
	}
	return &unfinished{T: t, st: st.(*fileStore), keys: keys, db: db, shops: shops, days: days,
		at: time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)}
}

func (u *unfinished) id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// write writes an entry of an authentication.
func (u *unfinished) write(kind Kind, n int) {
	u.Helper()
	made := u.at.AddDate(0, 0, n/u.shops%u.days)
	if _, err := u.st.Write(u.Context(), []Entry{{Kind: kind, Record: Record{
		ID: u.id(n), Created: made, Updated: made, API: "emv", Merchant: fmt.Sprint("shop ", n%u.shops),
		Status: "completed", TransStatus: "Y",
	}}}); err != nil {
		u.Fatal(err)
	}
}

// sign does the duty of a server that signs days, some days after the first one.
func (u *unfinished) sign(days int) {
	u.Helper()
	if err := u.st.Sign(u.Context(), u.at.AddDate(0, 0, days)); err != nil {
		u.Fatal(err)
	}
}

// die erases what the first merchant has, in a transaction that is undone behind its tombstone.
func (u *unfinished) die(in func(ctx context.Context, day string, seal int64, do func(*sql.Tx, string) error) error) {
	u.Helper()
	crash := errors.New("crash")
	e := erasureOf(u.db, Query{Merchant: "shop 0"}, u.at)
	if err := in(u.Context(), dayOf(u.at), 0, func(tx *sql.Tx, mark string) error {
		e.mark = mark
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
		if got, err := Verify(bytes.NewReader(file.Bytes()), u.keys.PublicKey()); err != nil || got.Erased != u.erased {
			u.Errorf("an export has %d entries that were erased, want %d: %v", got.Erased, u.erased, err)
		}
	}
	if got := u.billing(); got != billed {
		u.Errorf("%d are billed, want %d", got, billed)
	}
	u.isDone()
}

// isDone checks that there is no mark.
func (u *unfinished) isDone() {
	u.Helper()
	if n := u.marks(); n != 0 {
		u.Errorf("%d marks are left", n)
	}
}

// marks returns how many marks there are.
func (u *unfinished) marks() (n int) {
	u.Helper()
	if err := u.db.QueryRowContext(u.Context(), `SELECT count(*) FROM journal_erasing`).Scan(&n); err != nil {
		u.Fatal(err)
	}
	return n
}

// exec runs a statement beside a database "copies", as somebody does who has the files alone.
func (u *unfinished) exec(text string) {
	u.Helper()
	conn, err := u.db.Conn(u.Context())
	if err != nil {
		u.Fatal(err)
	}
	defer conn.Close()
	for _, text := range []string{`ATTACH '` + filepath.Join(u.st.dir, "copies") + `' AS copies`, text, `DETACH copies`} {
		if _, err := conn.ExecContext(u.Context(), text); err != nil {
			u.Fatal(text, err)
		}
	}
}

func (u *unfinished) billing() (n int64) {
	u.Helper()
	return billed(u.T, u.st, u.at)
}
