package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/journal"
	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
)

// TestD125NothingIsLostFromTheJournalWhenTheServerIsKilled: each AReq that the directory server got, and each result that
// the server acknowledged, is in the journal after the next start, though the server died by SIGKILL under load, before it
// could write. JOURNAL_KILLS is how often.
func TestD125NothingIsLostFromTheJournalWhenTheServerIsKilled(t *testing.T) {
	kills := readCount(t, "JOURNAL_KILLS", 4)
	p := newPeer(t, newAuthority(t))
	p.setAnswer(challenges)
	v := newVictimAt(t, p.ca, p, `store: {url: "file:data"}`+keptLong)
	led := newLedger(p)
	acknowledged := led.watch()
	random := rand.New(rand.NewPCG(3, 4))
	v.start()
	for range kills {
		v.underLoad(led, func() {
			<-acknowledged
			time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
			v.kill()
		})
		v.start()
		v.check(led, 0)
	}
	v.awaitJournal(led)
	if led.lost+led.changed > 0 || len(led.kept) < kills {
		t.Errorf("%d results, %d lost, %d changed", len(led.kept), led.lost, led.changed)
	}
	led.mu.Lock()
	sent := slices.Collect(maps.Keys(led.areqs))
	led.mu.Unlock()
	must(t, withJournal(t.Context(), v.config, func(st journal.Store, _ *journal.Keys) error {
		for _, id := range sent {
			waitFor(t, "the AReq of "+id, func() bool {
				d, err := st.Show(t.Context(), id)
				return err == nil && slices.ContainsFunc(d.Steps, func(s journal.Step) bool { return s.Step == "areq" })
			})
		}
		return nil
	}))
	if len(sent) < len(led.kept) {
		t.Errorf("%d AReqs, fewer than the %d results", len(sent), len(led.kept))
	}
	t.Logf("kills=%d AReqs=%d results=%d, all in the journal", kills, len(sent), len(led.kept))
}

// TestJ3NoAuthenticationFailsWhileTheJournalIsAway: while the database of the journal is down under load, each /auth and
// each RReq is answered as ever. What happened meanwhile is in the journal once the database is back.
func TestJ3NoAuthenticationFailsWhileTheJournalIsAway(t *testing.T) {
	database := pgtest.Start(t)
	p := newPeer(t, newAuthority(t))
	p.setAnswer(challenges)
	v := newVictimAt(t, p.ca, p, fmt.Sprintf("store: {url: \"file:data\"}\njournal: {url: %q, keys: journal-keys.json}", database.URL())+keptLong)
	led := newLedger(p)
	acknowledged := led.watch()
	more := func(n int) {
		for first := <-acknowledged; <-acknowledged < first+n; {
		}
	}
	v.start()
	v.underLoad(led, func() {
		more(20)
		must(t, database.Halt())
		more(200)
		must(t, database.Start())
		more(20)
	})
	v.check(led, 0)
	v.awaitJournal(led)
	kinds := slices.Sorted(maps.Keys(led.answers))
	if want := []string{"RReq RRes", "auth ARes"}; !slices.Equal(kinds, want) {
		t.Errorf("answers of other kinds than %q: %v", want, led.answers)
	}
	if led.lost+led.changed > 0 || len(led.kept) < 240 {
		t.Errorf("%d results, %d lost, %d changed", len(led.kept), led.lost, led.changed)
	}
}

// awaitJournal waits until each result of the ledger is in the journal, with its RReq.
func (v *victim) awaitJournal(led *ledger) {
	v.t.Helper()
	must(v.t, withJournal(v.t.Context(), v.config, func(st journal.Store, _ *journal.Keys) error {
		ctx, stop := context.WithTimeout(v.t.Context(), 3*time.Minute) // a sweep comes once a minute
		defer stop()
		for id := range led.kept {
			for {
				d, err := st.Show(ctx, id)
				if err == nil && slices.ContainsFunc(d.Steps, func(s journal.Step) bool { return s.Step == "rreq" }) {
					break
				}
				if ctx.Err() != nil {
					return fmt.Errorf("%s: the result is not in the journal, which has %+v: %w", id, d.Steps, errors.Join(err, ctx.Err()))
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
		return nil
	}))
}
