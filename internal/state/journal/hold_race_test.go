package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// partsWithOther are the parts of a store beside which another process does something before the second look at the
// seals. The first one is that of an erasure for legal holds.
type partsWithOther struct {
	evidenceParts
	looks int
	do    func()
}

func (p *partsWithOther) sealsPart(ctx context.Context, create bool) (*database, error) {
	if p.looks++; p.looks == 2 {
		p.do()
	}
	return p.evidenceParts.sealsPart(ctx, create)
}

// raceDay is the day of a test of this file.
var raceDay = time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)

// openRace opens a store twice, and writes four authentications of a card, of which two are of the merchant "shop 0".
func openRace(t *testing.T, keys *Keys, open func() (Store, error)) (st, other Store) {
	t.Helper()
	for _, to := range []*Store{&st, &other} {
		var err error
		if *to, err = open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*to).Close() })
	}
	for n := range 4 {
		e := Entry{Kind: Answered, CardHash: keys.CardHash("4000000000000002"), Record: Record{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Created: raceDay, Updated: raceDay, API: "emv",
			Merchant: fmt.Sprint("shop ", n%2), Status: "completed", TransStatus: "Y",
		}, Steps: []Step{{
			Step: "areq", At: raceDay, Message: []byte(`{"messageType":"AReq"}`), Personal: []byte(`{"email":"jo@example.com"}`),
		}}}
		if _, err := st.Write(t.Context(), []Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := st.Head(t.Context(), raceDay, nil); err != nil {
		t.Fatal(err)
	}
	return st, other
}

// eraseBeside erases the card while another process does something just before the first tombstone. It returns how
// often the erasure has begun, and how many authentications are left.
func eraseBeside(t *testing.T, keys *Keys, open func() (Store, error),
	do func(other Store)) (begun, left int, err error) {
	t.Helper()
	st, other := openRace(t, keys, open)
	_, _, err = eraseUnheld(t.Context(), st.(heldParts), Query{Card: "4000000000000002"},
		func(plan erasurePlan) (int, int, error) {
			if begun++; begun == 1 {
				do(other)
			}
			if files, ok := st.(*fileStore); ok {
				return files.erase(t.Context(), plan)
			}
			a, r, _, err := st.(*tableStore).erase(t.Context(), plan)
			return a, r, err
		})
	page, failed := other.Search(t.Context(), Query{})
	if failed != nil {
		t.Fatal(failed)
	}
	return begun, len(page.Records), err
}

// setHoldBeside has another process set a hold of the merchant "shop 0" after a store has read which holds there are. It
// returns whether that has happened.
func setHoldBeside(t *testing.T, st, other Store) *bool {
	e, isSet := st.(heldParts).evidenceOf(), new(bool)
	e.parts = &partsWithOther{evidenceParts: e.parts, do: func() {
		if _, err := other.AddHold(t.Context(), Hold{Name: "case 1", Merchant: "shop 0"}); err != nil {
			t.Fatal(err)
		}
		*isSet = true
	}}
	return isSet
}

// eachTwice runs a test with what opens a store of each kind, which several processes may do.
func eachTwice(t *testing.T, test func(t *testing.T, keys *Keys, open func() (Store, error))) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir, keys := t.TempDir(), NewKeys()
		test(t, keys, func() (Store, error) { return OpenFiles(dir, keys) })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		at, keys := pgtest.Get(t).Schema(t), NewKeys()
		test(t, keys, func() (Store, error) { return OpenPostgres(t.Context(), at, keys) })
	})
}

// TestJ6AHoldThatIsSetWhileAnErasureBeginsHolds: an erasure has read which holds there are. Before it erases the first
// day somebody sets a hold, and is told that it is set. What it holds stays, and its keys, too: else evidence that a
// court wants would be gone.
func TestJ6AHoldThatIsSetWhileAnErasureBeginsHolds(t *testing.T) {
	t.Parallel()
	eachTwice(t, func(t *testing.T, keys *Keys, open func() (Store, error)) {
		st, other := openRace(t, keys, open)
		isSet := setHoldBeside(t, st, other)
		n, _, err := st.Erase(t.Context(), Query{Card: "4000000000000002"})
		page, failed := other.Search(t.Context(), Query{Merchant: "shop 0"})
		if err := errors.Join(err, failed); err != nil || !*isSet || n != 2 || len(page.Records) != 2 ||
			CountForgotten(keys) != 2 {
			t.Errorf("the hold was set: %t; %d were erased, %v; %d of 2 that are held are left, and %d keys were forgotten",
				*isSet, n, err, len(page.Records), CountForgotten(keys))
		}
	})
}

// TestJ6AHoldThatIsSetWhileRetentionBeginsHolds: retention has read which holds there are. Before it notes which days
// go, somebody sets a hold, and is told that it is set. The day that it holds stays: else evidence that a court wants
// would be gone.
func TestJ6AHoldThatIsSetWhileRetentionBeginsHolds(t *testing.T) {
	t.Parallel()
	eachTwice(t, func(t *testing.T, keys *Keys, open func() (Store, error)) {
		st, other := openRace(t, keys, open)
		isSet := setHoldBeside(t, st, other)
		for range 2 { // as the next minute does
			if err := st.Expire(t.Context(), raceDay.AddDate(0, 2, 0)); err != nil {
				t.Fatal(err)
			}
		}
		page, err := other.Search(t.Context(), Query{Merchant: "shop 0"})
		if err != nil || !*isSet || len(page.Records) != 2 {
			t.Errorf("the hold was set: %t; %d of 2 that are held are left, %v", *isSet, len(page.Records), err)
		}
	})
}

// partsBeside are the parts of a store beside which another process does something before the store looks at all of them
// for the first time.
type partsBeside struct {
	evidenceParts
	do func()
}

func (p *partsBeside) eachPart(ctx context.Context, do func(name string, db *database) error) error {
	if p.do != nil {
		p.do()
		p.do = nil
	}
	return p.evidenceParts.eachPart(ctx, do)
}

// TestJ6AHoldThatIsSetWhileMessagesGoHolds: retention of messages and of personal data has read which holds there are.
// Before it deletes them, somebody sets a hold, and is told that it is set. What stands beside the entries that it holds
// stays.
func TestJ6AHoldThatIsSetWhileMessagesGoHolds(t *testing.T) {
	t.Parallel()
	eachTwice(t, func(t *testing.T, keys *Keys, open func() (Store, error)) {
		st, other := openRace(t, keys, open)
		if _, err := other.AddHold(t.Context(), Hold{Name: "case 0", Merchant: "nobody"}); err != nil {
			t.Fatal(err)
		}
		e := st.(heldParts).evidenceOf()
		parts := e.parts
		for name, expire := range map[string]func(context.Context, time.Time) error{
			"journal_messages": st.ExpireMessages, "journal_personal": st.ExpirePersonal,
		} {
			h, isSet := Hold{Name: "case of " + name, Merchant: "shop 0"}, false
			e.parts = &partsBeside{evidenceParts: parts, do: func() {
				if _, err := other.AddHold(t.Context(), h); err != nil {
					t.Fatal(err)
				}
				isSet = true
			}}
			rows := func() (n int) {
				t.Helper()
				if err := parts.eachPart(t.Context(), func(_ string, db *database) error {
					some := 0
					err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+name).Scan(&some)
					n += some
					return err
				}); err != nil {
					t.Fatal(err)
				}
				return n
			}
			before := rows()
			for range 2 { // as the next minute does
				if err := expire(t.Context(), raceDay.AddDate(0, 2, 0)); err != nil {
					t.Fatal(err)
				}
			}
			if n := rows(); n != before || before == 0 || !isSet {
				t.Errorf("the hold was set: %t; of %d rows of %s %d are left", isSet, before, name, n)
			}
			if err := other.LiftHold(t.Context(), h.Name, "jo"); err != nil {
				t.Fatal(err)
			}
			if err := expire(t.Context(), raceDay.AddDate(0, 2, 0)); err != nil {
				t.Fatal(err)
			}
			if n := rows(); n != 0 {
				t.Errorf("%d rows of %s are left when no hold holds them", n, name)
			}
		}
	})
}

// TestJ6AHeadDoesNotMakeAnErasureBeginAgain: the seal of each minute comes while an erasure begins. If it made it begin
// again, an erasure of many days would never end.
func TestJ6AHeadDoesNotMakeAnErasureBeginAgain(t *testing.T) {
	t.Parallel()
	eachTwice(t, func(t *testing.T, keys *Keys, open func() (Store, error)) {
		begun, left, err := eraseBeside(t, keys, open, func(other Store) {
			trail := &ChainEnd{Chain: AuditChain, Seq: 1, Link: []byte{1}}
			if h, err := other.Head(t.Context(), raceDay.Add(2*time.Minute), trail); err != nil || h.N != 2 {
				t.Fatal(h, err)
			}
		})
		if err != nil || left != 0 || begun != 1 {
			t.Errorf("%v; %d are left, and it has begun %d times", err, left, begun)
		}
	})
}

// TestJ6ASealThatNobodySignedEndsAnErasure: somebody with the database alone adds a seal of a hold while an erasure
// begins. The erasure ends with the error that says so. Without that it would begin again for ever.
func TestJ6ASealThatNobodySignedEndsAnErasure(t *testing.T) {
	t.Parallel()
	eachTwice(t, func(t *testing.T, keys *Keys, open func() (Store, error)) {
		begun, left, err := eraseBeside(t, keys, open, func(other Store) {
			db, err := other.(evidenceParts).sealsPart(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			var newest Seal
			if err := db.readSeals(t.Context(), 1, func(s Seal) error { newest = s; return nil }); err != nil {
				t.Fatal(err)
			}
			s := statement{n: newest.N + 1, kind: HoldSeal, before: newest.Hash(), at: raceDay, by: "cli:jo"}
			s.hold = "AAAA"
			if _, err := db.ExecContext(t.Context(),
				db.query(`INSERT INTO journal_seals (n, text, key_id, signature) VALUES (?, ?, ?, ?)`), s.n, s.sealText(),
				keys.KeyID(), newest.Signature); err != nil {
				t.Fatal(err)
			}
		})
		if !errors.Is(err, ErrHoldsUnknown) || left != 4 || begun != 1 || CountForgotten(keys) != 0 {
			t.Errorf("%v; %d are left, and it has begun %d times", err, left, begun)
		}
	})
}

// TestJ2AWriterOfADayThatGoesHasItsKey: entries of a day are written while the day goes by retention, beside one that a
// hold keeps. A writer that loses the key of its day on the way would end the server.
func TestJ2AWriterOfADayThatGoesHasItsKey(t *testing.T) {
	t.Parallel()
	OnFiles(t, func(t *testing.T, st Store, keys *Keys) {
		at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
		write := func(n int, made time.Time, shop string) error {
			_, err := st.Write(t.Context(), []Entry{{Kind: Answered, Record: Record{
				ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Created: made, Updated: made, API: "emv", Merchant: shop,
				Status: "completed", TransStatus: "Y",
			}}})
			return err
		}
		if err := write(0, at.AddDate(0, 0, -1), "shop 0"); err != nil {
			t.Fatal(err)
		}
		if _, err := st.AddHold(t.Context(), Hold{Name: "case 1", Merchant: "shop 0"}); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			var err error
			for n := range 60 {
				err = errors.Join(err, write(n+1, at, "shop 1"))
			}
			done <- err
		}()
		for isWriting := true; isWriting; {
			if err := st.Expire(t.Context(), at.AddDate(0, 0, 3)); err != nil {
				t.Error(err)
			}
			select {
			case err := <-done:
				if isWriting = false; err != nil {
					t.Error(err)
				}
			default:
			}
		}
	})
}

// TestJ6AHoldThatIsSetInsideASweepHolds: a sweep has begun to delete when somebody sets a hold, also in a database whose
// transactions see only what there was when they began. What the sweep would delete stays.
func TestJ6AHoldThatIsSetInsideASweepHolds(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, keys *Keys, open func() (Store, error)) {
		st, other := openRace(t, keys, open)
		db, err := st.(heldParts).partOf(t.Context(), dayOf(raceDay))
		if err != nil {
			t.Fatal(err)
		}
		_, seal, err := st.(heldParts).evidenceOf().readHolds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := db.unlessHeld(t.Context(), seal, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), `DELETE FROM journal_messages`)
			if err == nil {
				_, err = other.AddHold(t.Context(), Hold{Name: "case 1", Merchant: "shop 0"})
			}
			return err
		}); !errors.Is(err, errNewHold) {
			t.Errorf("%v, want %v", err, errNewHold)
		}
	}
	eachTwice(t, test)
	t.Run("repeatable read", func(t *testing.T) {
		t.Parallel()
		at, keys := pgtest.Get(t).Schema(t)+"&default_transaction_isolation=repeatable%20read", NewKeys()
		test(t, keys, func() (Store, error) { return OpenPostgres(t.Context(), at, keys) })
	})
}
