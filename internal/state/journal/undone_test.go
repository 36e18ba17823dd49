package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestK5AnErasureThatIsUndoneAfterItsTombstoneLosesNoBilling: the tombstone of SQLite is in another file. If the
// transaction that it belongs to is undone, by a crash or a full disk, no counter for billing gets smaller.
func TestK5AnErasureThatIsUndoneAfterItsTombstoneLosesNoBilling(t *testing.T) {
	st, keys := openTestFiles(t)
	at := time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)
	var all []Entry
	for n := range 10 {
		all = append(all, Entry{Kind: Answered, CardHash: keys.CardHash("4000000000000002"), Record: Record{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Created: at, Updated: at, API: "emv", Merchant: "shop",
			Status: "completed", TransStatus: "Y",
		}})
	}
	if _, err := st.Write(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	billing := func() int64 { return billed(t, st, at) }
	before := billing()
	files := st.(*fileStore)
	db, err := files.month(t.Context(), "2026-03", false)
	if err != nil {
		t.Fatal(err)
	}
	q := Query{Merchant: "shop"}
	eraseUndone(t, db, q, at)
	if got := billing(); got != before {
		t.Fatalf("at once: %d, want %d", got, before)
	}
	if err := st.Sign(t.Context(), at); err != nil { // the duty of the next minute reads the tombstone
		t.Fatal(err)
	}
	if got := billing(); got != before {
		t.Errorf("after the next duty billing has %d, want %d", got, before)
	}
	if _, _, err := st.Erase(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if got := billing(); got != before {
		t.Errorf("after the erasure was asked for again billing has %d, want %d", got, before)
	}
}

// TestJ6AnErasureOfManyEntriesThatIsUndoneForgetsNoKey: a tombstone names ten thousand spans of entries at most. The
// erasure of more of them is undone behind its tombstones. If the first one named all keys, those of the entries that
// the others name would be forgotten, though they are there, and a hold may be set on them meanwhile.
func TestJ6AnErasureOfManyEntriesThatIsUndoneForgetsNoKey(t *testing.T) {
	t.Parallel()
	st, keys := openTestFiles(t)
	at := time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)
	var all []Entry
	for n := range 2 * (sealLen + frameLen) { // each second one stays
		all = append(all, Entry{Kind: Answered, Record: Record{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Created: at, Updated: at, API: "emv",
			Merchant: fmt.Sprint("shop ", n%2), Status: "completed", TransStatus: "Y",
		}})
	}
	for some := range slices.Chunk(all, batchLen) {
		if _, err := st.Write(t.Context(), some); err != nil {
			t.Fatal(err)
		}
	}
	db, err := st.(*fileStore).month(t.Context(), "2026-03", false)
	if err != nil {
		t.Fatal(err)
	}
	eraseUndone(t, db, Query{Merchant: "shop 0"}, at)
	if err := st.Sign(t.Context(), at); err != nil { // the duty of the next minute reads the tombstones
		t.Fatal(err)
	}
	if n := CountForgotten(keys); n != 0 {
		t.Errorf("%d keys were forgotten, and all entries are there", n)
	}
}

// eraseUndone erases from a day in a transaction that is undone after its tombstones.
func eraseUndone(t *testing.T, db *database, q Query, at time.Time) {
	t.Helper()
	crash := errors.New("crash")
	e := erasureOf(db, q, at)
	if err := db.inTx(t.Context(), func(tx *sql.Tx) error {
		if _, _, err := e.do(context.Background(), tx); err != nil {
			t.Fatal(err)
		}
		return crash
	}); !errors.Is(err, crash) {
		t.Fatal(err)
	}
}

// erasureOf returns the erasure of what a query names from a day.
func erasureOf(db *database, q Query, at time.Time) dayErasure {
	begin, end := spanOfDay(at)
	condition, args := db.where(q.ofErasure())
	return dayErasure{
		erasurePlan: erasurePlan{query: q, isForgetting: true}, db: db, begin: begin, condition: recordsOfTime + condition,
		args: append([]any{begin, end, -begin, -end}, args...), by: "cli:jo",
	}
}

// billed returns how many authentications are billed about a time.
func billed(t *testing.T, st Store, at time.Time) (n int64) {
	t.Helper()
	counts, err := st.Billing(t.Context(), BillingQuery{From: at.AddDate(0, -1, 0), To: at.AddDate(0, 2, 0)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		n += c.Count
	}
	return n
}
