package server

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// An expiringStore tells from which times on a journal is kept.
type expiringStore struct {
	journal.Store
	before chan time.Time
}

func (expiringStore) Sign(context.Context, time.Time) error { return nil }
func (expiringStore) Faults() []string                      { return nil }

func (expiringStore) EraseDue(context.Context) (journal.ErasedDue, error) {
	return journal.ErasedDue{}, nil
}

func (expiringStore) Holds(context.Context) (journal.Holds, error) { return journal.Holds{}, nil }

func (expiringStore) ExpirePersonal(context.Context, time.Time) error { return nil }

func (expiringStore) Head(context.Context, time.Time, *journal.ChainEnd) (journal.Head, error) {
	return journal.Head{}, nil
}

func (expiringStore) Roll(context.Context, time.Time, time.Duration) error { return nil }

func (s expiringStore) Expire(_ context.Context, before time.Time) error {
	s.before <- before
	return nil
}

func (s expiringStore) ExpireMessages(_ context.Context, before time.Time) error {
	s.before <- before
	return nil
}

// TestAReloadChangesHowLongTheJournalIsKept: entries, and their messages.
func TestAReloadChangesHowLongTheJournalIsKept(t *testing.T) {
	s, cfg := idleServer(t)
	st := expiringStore{before: make(chan time.Time, 2)}
	s.journal = journal.New(st, journal.NewKeys(), slog.New(slog.DiscardHandler), func() time.Time { return noon })
	defer func() { s.journal = nil }()
	s.startRuntime = func(rt *runtime) { rt.stopRefresh = func() {} }
	s.startRuntime(s.active)
	const day = 24 * time.Hour
	cfg.Journal = &JournalSettings{Keep: 10 * day, Messages: 5 * day}
	must(t, s.activate(t.Context(), cfg))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		s.journal.RunDuties(ctx)
		close(ended)
	}()
	if entries, messages := <-st.before, <-st.before; noon.Sub(entries) != 10*day || noon.Sub(messages) != 5*day {
		t.Errorf("kept are entries for %v, and messages for %v", noon.Sub(entries), noon.Sub(messages))
	}
	stop()
	<-ended
}
