package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// A reader takes the lines of a Follower until it is killed, and keeps what it has.
type reader struct {
	position int64          // the number of the last seal that it has
	entries  map[string]int // how often each entry came, by chain and number
	record   map[string]string
	room     int // bytes until it is killed
	part     []byte
}

var errKilled = errors.New("killed")

func (r *reader) Write(p []byte) (int, error) {
	n := min(len(p), r.room)
	r.room -= n
	r.part = append(r.part, p[:n]...)
	for {
		line, rest, ok := bytes.Cut(r.part, []byte("\n"))
		if !ok {
			break
		}
		r.part = rest
		var l struct {
			Type, Chain string
			Seq         int64
			Erased      bool
			Record      json.RawMessage
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return 0, err
		}
		name := fmt.Sprintf("%s %d", l.Chain, l.Seq)
		switch l.Type {
		case "seal":
			r.position = l.Seq
		case "record", "link":
			if was, ok := r.record[name]; ok && was != string(l.Record) && !l.Erased {
				return 0, fmt.Errorf("%s came twice, and is not the same", name)
			}
			r.entries[name]++
			r.record[name] = string(l.Record)
		}
	}
	if n < len(p) {
		return n, errKilled
	}
	return n, nil
}

func newReader() *reader { return &reader{entries: map[string]int{}, record: map[string]string{}} }

// TestJ9FollowMissesNothing: through twenty kills of the server and of the reader, at any byte, each entry comes at
// least once, in the order of its chain, and what comes twice is the same.
func TestJ9FollowMissesNothing(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		random := rand.New(rand.NewPCG(9, 9))
		r, n, now := newReader(), 0, day
		follow := func() error {
			r.part = nil // a killed reader has no part of a line
			f := journal.Follower{Store: st, Keys: keys, From: r.position, To: r}
			return f.Run(t.Context())
		}
		for range 20 {
			journal.BeginChains(t, st) // as a server that starts again
			for range 1 + random.IntN(3) {
				var batch []journal.Entry
				for range 1 + random.IntN(40) {
					e := entry(keys, n, journal.Claimed)
					e.Record.Created = day.Add(time.Duration(n) * time.Second)
					batch, n = append(batch, e), n+1
				}
				write(t, st, batch...)
			}
			now = now.Add(2 * time.Minute)
			if _, err := st.Head(t.Context(), now, nil); err != nil {
				t.Fatal(err)
			}
			if r.room = random.IntN(60_000); random.IntN(4) == 0 {
				r.room = 1 << 30
			}
			if err := follow(); err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		}
		if err := st.Sign(t.Context(), now.AddDate(0, 0, 2)); err != nil {
			t.Fatal(err)
		}
		r.room = 1 << 30
		if err := follow(); err != nil {
			t.Fatal(err)
		}
		if len(r.entries) != n {
			t.Errorf("%d entries came, want %d", len(r.entries), n)
		}
		before := len(r.entries)
		if err := follow(); err != nil || len(r.entries) != before {
			t.Errorf("at the end: %d entries more, %v", len(r.entries)-before, err)
		}
	})
}

// TestJ9FollowTellsErasures: what was erased comes without content, and the seal of the erasure comes, too.
func TestJ9FollowTellsErasures(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForInsider(t, st, keys)
		var b bytes.Buffer
		f := journal.Follower{Store: st, Keys: keys, To: &b}
		if err := f.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if n := strings.Count(text, `"erased":true`); n != 2 || !strings.Contains(text, `kind erasure`) {
			t.Errorf("%d entries are told as erased, want 2:\n%s", n, text)
		}
		if n := strings.Count(text, `"type":"record"`); n != 10 {
			t.Errorf("%d records, want 10", n)
		}
	})
}

// TestJ9FollowStopsAtWhatWasChanged: of a chain that was changed in the store nothing is told as true.
func TestJ9FollowStopsAtWhatWasChanged(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		i := fillForInsider(t, st, keys)
		i.do(`UPDATE journal_frames SET body = '' WHERE` + frameOf(1))
		var b bytes.Buffer
		f := journal.Follower{Store: st, Keys: keys, To: &b}
		if err := f.Run(t.Context()); !journal.IsChanged(err) || !strings.Contains(err.Error(), "entry 2") {
			t.Errorf("an entry was changed: %v", err)
		}
		if n := strings.Count(b.String(), `"type":"record"`); n != 1 {
			t.Errorf("%d records before it, want 1", n)
		}
		other := journal.Follower{Store: st, Keys: keys, From: 1000, To: &b}
		if err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no seal 1000") {
			t.Errorf("from a seal that is not there: %v", err)
		}
	})
}

// TestJ9FollowNoticesThatTheFirstSealsAreGone: a chain that only they name would be missing, and nothing would say so.
func TestJ9FollowNoticesThatTheFirstSealsAreGone(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		i := fillForInsider(t, st, keys)
		newest := i.ask(`SELECT max(n) FROM journal_seals WHERE text LIKE '%kind day%' HAVING count(*) > 0`)[0]
		i.do(`DELETE FROM journal_seals WHERE n <= ` + newest)
		i.do(`DELETE FROM journal_frames WHERE chain LIKE '` + signedDay + `%'`)
		var b bytes.Buffer
		f := journal.Follower{Store: st, Keys: keys, To: &b}
		if err := f.Run(t.Context()); !journal.IsChanged(err) || b.Len() > 0 {
			t.Errorf("a day is gone with its seals: %v, and %d bytes", err, b.Len())
		}
	})
}
