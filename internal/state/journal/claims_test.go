package journal_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// kindStore is a memoryStore that knows the kinds of what was written.
type kindStore struct {
	memoryStore
	mu    sync.Mutex
	kinds []string
}

// drain returns the kinds, and forgets them.
func (s *kindStore) drain() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds := s.kinds
	s.kinds = nil
	return kinds
}

func (s *kindStore) Write(ctx context.Context, entries []journal.Entry) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		s.kinds = append(s.kinds, string(e.Kind)+" "+e.Record.ID[len(e.Record.ID)-1:])
	}
	return s.memoryStore.Write(ctx, entries)
}

// TestJ4AnAnswerIsWrittenInPlaceOfItsClaim: of an authentication there is one entry, also if its directory takes
// seconds to answer. A claim whose answer does not come in its time, or before the server ends, is written; and so is
// one for which there is no room.
func TestJ4AnAnswerIsWrittenInPlaceOfItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &kindStore{}
		j := journal.New(st, journal.NewKeys(), slog.New(slog.DiscardHandler), time.Now)
		ctx, stop := context.WithCancel(t.Context())
		claim := func(n int) {
			e := entry(j.Keys, n, journal.Claimed)
			j.AddClaim(e.Record.ID, 10*time.Second, func() []journal.Entry { return []journal.Entry{e} })
		}
		want := func(when string, kinds ...string) {
			t.Helper()
			synctest.Wait()
			got := st.drain()
			if slices.Sort(got); !slices.Equal(got, kinds) {
				t.Errorf("%s: wrote %q, want %q", when, got, kinds)
			}
		}
		ended := make(chan struct{})
		go func() { j.Run(ctx); close(ended) }()
		claim(1)
		claim(2)
		j.Add(entry(j.Keys, 1, journal.Answered))
		j.Add(entry(j.Keys, 2, journal.Shown)) // a moment takes no claim's place
		time.Sleep(500 * time.Millisecond)
		want("soon", "answered 1", "shown 2")
		claim(5)
		time.Sleep(3 * time.Second)
		want("while the directory takes its time")
		j.Add(entry(j.Keys, 5, journal.Answered))
		time.Sleep(500 * time.Millisecond)
		want("from a slow directory", "answered 5")
		time.Sleep(7 * time.Second)
		want("when the time is over", "claimed 2")
		j.Add(entry(j.Keys, 2, journal.Answered))
		time.Sleep(time.Second)
		want("a late answer", "answered 2")
		claim(6)
		time.Sleep(5 * time.Second)
		j.Add(entry(j.Keys, 6, journal.Answered))
		claim(6) // once more
		time.Sleep(6 * time.Second)
		want("an authentication that is claimed again", "answered 6")
		time.Sleep(5 * time.Second)
		want("when the time of that is over, too", "claimed 6")
		claim(3)
		claim(4)
		time.Sleep(time.Millisecond)
		j.Add(entry(j.Keys, 4, journal.Answered))
		synctest.Wait()
		stop()
		<-ended
		want("at the end", "answered 4", "claimed 3")
	})
	synctest.Test(t, func(t *testing.T) {
		st := &kindStore{}
		j := journal.New(st, journal.NewKeys(), slog.New(slog.DiscardHandler), time.Now)
		ctx, stop := context.WithCancel(t.Context())
		go j.Run(ctx)
		const room, more = 8192, 300
		for n := range room + more {
			if n%1000 == 0 {
				synctest.Wait() // the writer has taken those before
			}
			e := entry(j.Keys, n, journal.Claimed)
			j.AddClaim(e.Record.ID, 10*time.Second, func() []journal.Entry { return []journal.Entry{e} })
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(st.drain()); n != more {
			t.Errorf("of %d claims %d are written before their time, want those for which there is no room, %d", room+more, n, more)
		}
		for n := range room {
			if n%1000 == 0 {
				synctest.Wait()
			}
			j.Add(entry(j.Keys, n, journal.Answered))
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if kinds := st.drain(); len(kinds) != room || slices.ContainsFunc(kinds, func(k string) bool { return !strings.HasPrefix(k, "answered") }) {
			t.Errorf("%d entries are written for %d answers", len(kinds), room)
		}
		stop()
	})
}

// TestJ4StepsOfAClaimAreShownOnce: the answer has them, too, and what the claim's own entry says of them is shown.
func TestJ4StepsOfAClaimAreShownOnce(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		claimed, answered := entry(keys, 1, journal.Claimed), entry(keys, 1, journal.Answered)
		areq := journal.Step{Step: "areq", At: claimed.Record.Created, Message: json.RawMessage(`{"messageType":"AReq","mcc":"5411"}`)}
		claimed.Steps = []journal.Step{areq}
		areq.Message = json.RawMessage(`{"messageType":"AReq"}`)
		answered.Steps = []journal.Step{areq, {Step: "ares", At: areq.At.Add(time.Second)}}
		steps := func() (all string) {
			d, err := st.Show(t.Context(), claimed.Record.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range d.Steps {
				all += s.Step + string(s.Message) + " "
			}
			return strings.TrimSpace(all)
		}
		write(t, st, answered)
		if got := steps(); got != `areq{"messageType":"AReq"} ares` {
			t.Errorf("the answer alone: %s", got)
		}
		write(t, st, claimed)
		if got := steps(); got != `areq{"messageType":"AReq","mcc":"5411"} ares` {
			t.Errorf("both: %s", got)
		}
	})
}
