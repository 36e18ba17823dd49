package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
	billing := func() (n int64) {
		counts, err := st.Billing(t.Context(), BillingQuery{From: at.AddDate(0, -1, 0), To: at.AddDate(0, 2, 0)})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range counts {
			n += c.Count
		}
		return n
	}
	before := billing()
	files := st.(*fileStore)
	db, err := files.month(t.Context(), "2026-03", false)
	if err != nil {
		t.Fatal(err)
	}
	crash := errors.New("crash")
	begin, _ := spanOfDay(at)
	q := Query{Merchant: "shop"}
	condition, args := db.where(q.ofErasure())
	e := dayErasure{erasurePlan: erasurePlan{query: q, isForgetting: true}, db: db, begin: begin,
		condition: `made >= ? AND made < ? AND -made <= ? AND -made > ? AND ` + condition,
		args:      append([]any{begin, begin + dayLen, -begin, -(begin + dayLen)}, args...), by: "cli:jo"}
	if err := db.inTx(t.Context(), func(tx *sql.Tx) error {
		if _, _, err := e.do(context.Background(), tx); err != nil {
			t.Fatal(err)
		}
		return crash
	}); !errors.Is(err, crash) {
		t.Fatal(err)
	}
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
