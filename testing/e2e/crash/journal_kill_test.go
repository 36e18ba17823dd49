package crash

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD125NothingIsLostFromTheJournalWhenTheServerIsKilled: each AReq that the directory server got, and each result
// that the server acknowledged, is in the journal after the next start, though the server died by SIGKILL under load,
// before it could write. JOURNAL_KILLS is how often.
func TestD125NothingIsLostFromTheJournalWhenTheServerIsKilled(t *testing.T) {
	kills := rig.ReadCount(t, "JOURNAL_KILLS", 4)
	p := rig.NewPeer(t, rig.NewAuthority(t))
	p.SetAnswer(rig.AnswerChallenge)
	v := rig.NewVictimAt(t, p.CA, p, `store: {url: "file:data"}`)
	led := rig.NewLedger(p)
	acknowledged := led.Watch()
	random := rand.New(rand.NewPCG(3, 4))
	v.Start()
	for range kills {
		v.UnderLoad(led, func() {
			<-acknowledged
			time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond)))) // any moment will do
			v.Kill()
		})
		v.Start()
		v.Check(led, 0)
	}
	awaitJournal(v, led)
	if led.Lost+led.Changed > 0 || len(led.Kept) < kills {
		t.Errorf("%d results, %d lost, %d changed", len(led.Kept), led.Lost, led.Changed)
	}
	led.Mu.Lock()
	sent := slices.Collect(maps.Keys(led.AReqs))
	led.Mu.Unlock()
	rig.Must(t, rig.WithJournal(t.Context(), v.ConfigFile, func(st journal.Store, _ *journal.Keys) error {
		for _, id := range sent {
			waittest.Until(t, "the AReq of "+id, func() bool {
				d, err := st.Show(t.Context(), id)
				return err == nil && slices.ContainsFunc(d.Steps, func(s journal.Step) bool { return s.Step == "areq" })
			})
		}
		return nil
	}))
	if len(sent) < len(led.Kept) {
		t.Errorf("%d AReqs, fewer than the %d results", len(sent), len(led.Kept))
	}
	t.Logf("kills=%d AReqs=%d results=%d, all in the journal", kills, len(sent), len(led.Kept))
}

// TestJ3NoAuthenticationFailsWhileTheJournalIsAway: while the database of the journal is down under load, each /auth
// and each RReq is answered as ever. What happened meanwhile is in the journal once the database is back.
func TestJ3NoAuthenticationFailsWhileTheJournalIsAway(t *testing.T) {
	database := pgtest.Start(t)
	p := rig.NewPeer(t, rig.NewAuthority(t))
	p.SetAnswer(rig.AnswerChallenge)
	place := fmt.Sprintf("store: {url: \"file:data\"}\njournal: {url: %q, keys: journal-keys.json}", database.URL())
	v := rig.NewVictimAt(t, p.CA, p, place)
	led := rig.NewLedger(p)
	acknowledged := led.Watch()
	more := func(n int) {
		for first := <-acknowledged; <-acknowledged < first+n; {
		}
	}
	v.Start()
	v.UnderLoad(led, func() {
		more(20)
		rig.Must(t, database.Halt())
		more(200)
		rig.Must(t, database.Start())
		more(20)
	})
	v.Check(led, 0)
	awaitJournal(v, led)
	kinds := slices.Sorted(maps.Keys(led.Answers))
	if want := []string{"RReq RRes", "auth ARes"}; !slices.Equal(kinds, want) {
		t.Errorf("answers of other kinds than %q: %v", want, led.Answers)
	}
	if led.Lost+led.Changed > 0 || len(led.Kept) < 240 {
		t.Errorf("%d results, %d lost, %d changed", len(led.Kept), led.Lost, led.Changed)
	}
}

// awaitJournal waits until each result of the ledger is in the journal, with its RReq.
func awaitJournal(v *rig.Victim, led *rig.Ledger) {
	v.T.Helper()
	rig.Must(v.T, rig.WithJournal(v.T.Context(), v.ConfigFile, func(st journal.Store, _ *journal.Keys) error {
		for id := range led.Kept {
			waittest.Until(v.T, "the result of "+id+" in the journal", func() bool { // a sweep comes once a minute
				d, err := st.Show(v.T.Context(), id)
				return err == nil && slices.ContainsFunc(d.Steps, func(s journal.Step) bool { return s.Step == "rreq" })
			})
		}
		return nil
	}))
}
