package operator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A trailReader takes the lines of a Follower until it is killed, and keeps what it has.
type trailReader struct {
	last    int64 // the number of the last entry whose whole line it has
	objects []string
	room    int // bytes until it is killed
	part    []byte
}

var errKilled = errors.New("killed")

func (r *trailReader) Write(p []byte) (int, error) {
	n := min(len(p), r.room)
	r.room -= n
	r.part = append(r.part, p[:n]...)
	for {
		line, rest, isWhole := bytes.Cut(r.part, []byte("\n"))
		if !isWhole {
			break
		}
		r.part = rest
		var l struct {
			Type, Chain string
			Seq         int64
			Record      operator.Entry
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return 0, err
		}
		if l.Type != "record" || l.Chain != journal.AuditChain || l.Seq != r.last+1 {
			return 0, errors.New("not the next entry: " + string(line))
		}
		r.last, r.objects = l.Seq, append(r.objects, l.Record.Object)
	}
	if n < len(p) {
		return n, errKilled
	}
	return n, nil
}

// TestAuditFollowMissesNothing: through forty kills of the reader, at any byte, each entry comes, in order. A reader
// that continues after the last whole line gets none twice.
func TestAuditFollowMissesNothing(t *testing.T) {
	t.Parallel()
	s, _, _ := newService(t)
	random := rand.New(rand.NewPCG(9, 9))
	r, total := &trailReader{}, 0
	follow := func(room int) error {
		r.part, r.room = nil, room // a killed reader has no part of a line
		f := operator.Follower{Service: s, From: r.last, To: r}
		return f.Run(t.Context())
	}
	for range 40 {
		n := random.IntN(8)
		record(t, s, n)
		total += n
		if err := follow(random.IntN(3000)); err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
	}
	if err := follow(1 << 30); err != nil {
		t.Fatal(err)
	}
	if len(r.objects) != total {
		t.Errorf("%d entries came, want %d", len(r.objects), total)
	}
}

// TestAuditFollowGoesOn: a follower that waits writes what came meanwhile, and ends with its context.
func TestAuditFollowGoesOn(t *testing.T) {
	t.Parallel()
	s, _, _ := newService(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, looks := &trailReader{room: 1 << 30}, 0
	f := operator.Follower{Service: s, To: r, Wait: func(ctx context.Context) error {
		if looks++; looks == 4 {
			cancel()
			return ctx.Err()
		}
		record(t, s, 2)
		return nil
	}}
	if err := f.Run(ctx); !errors.Is(err, context.Canceled) || r.last != 6 {
		t.Errorf("%d entries, want 6; %v", r.last, err)
	}
}

// TestAuditFollowStopsAtWhatWasChanged: an entry that was changed in the store is not written as true, and neither is
// any after it.
func TestAuditFollowStopsAtWhatWasChanged(t *testing.T) {
	t.Parallel()
	s, db, _ := newService(t)
	record(t, s, 5)
	changed := &operator.Service{Now: s.Now, Keys: s.Keys, Store: changedAudit{db, func(e *store.AuditEntry) {
		if e.Seq == 3 {
			e.Data = bytes.Replace(e.Data, []byte("c0ffee"), []byte("c0ffef"), 1)
		}
	}}}
	var b bytes.Buffer
	f := operator.Follower{Service: changed, From: 1, To: &b}
	if err := f.Run(t.Context()); !journal.IsChanged(err) || !strings.Contains(err.Error(), "entry 3") {
		t.Errorf("entry 3 was changed: %v", err)
	}
	if n := strings.Count(b.String(), "\n"); n != 1 {
		t.Errorf("%d entries behind entry 1 were written, want 1", n)
	}
	for from, want := range map[int64]string{5: "", 6: "there is no entry 6, the newest is 5"} {
		other := operator.Follower{Service: s, From: from, To: &b}
		if err := other.Run(t.Context()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("behind entry %d: %v", from, err)
		}
	}
}

// TestAuditFollowNoticesAShorterTrail: a follower that has seen an entry reports that it is gone.
func TestAuditFollowNoticesAShorterTrail(t *testing.T) {
	t.Parallel()
	s, _, _ := newService(t)
	record(t, s, 5)
	other, _, _ := newService(t)
	other.Keys = s.Keys
	record(t, other, 3)
	var b bytes.Buffer
	f := operator.Follower{Service: s, To: &b}
	f.Wait = func(context.Context) error {
		if f.Service == other {
			return errors.New("nothing was noticed")
		}
		f.Service = other
		return nil
	}
	if err := f.Run(t.Context()); !journal.IsChanged(err) || !strings.Contains(err.Error(), "entry 5 is not there any more") {
		t.Errorf("the trail has lost entries: %v", err)
	}
}
