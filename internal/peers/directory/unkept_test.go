package directory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"testing"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
	"github.com/openthreeds/threeds/message"
)

// A fullKeeper has no room for generations for some time.
type fullKeeper struct {
	*storetest.Memory
	fails int
}

func (k *fullKeeper) PutSnapshot(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
	if k.fails--; k.fails >= 0 {
		return errors.New("no space left")
	}
	return k.Memory.PutSnapshot(ctx, s, l, content, keep)
}

// TestNotKept: what the store has no room for is used by the node that loaded it. The
// store goes on saying what it has, until it can be kept.
func TestNotKept(t *testing.T) {
	s := newShared(t, nil)
	with := func(serial, data string) func(http.ResponseWriter, *message.Message) {
		return func(w http.ResponseWriter, preq *message.Message) {
			fmt.Fprintf(w, `{"messageType":"PRes","messageVersion":"2.2.0","threeDSServerTransID":%q,"dsTransID":%q,`+
				`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0","serialNum":%q%s}`, preq.Text("threeDSServerTransID"), dsID, serial, data)
		}
	}
	s.says = with("1", `,"cardRangeData":[`+entry+`]`)
	s.start().refresh(t.Context())
	former := s.refreshStatus()

	s.peer.PReqURL += "/next"
	s.says = with("5",
		`,"cardRangeData":[{"startRange":"4100000000000000","endRange":"4100000999999999","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0"}]`)
	a := s.start()
	a.keeper = &fullKeeper{s.keeper, 1}
	if a.refresh(t.Context()); a.cards.Lookup(otherCard) == nil {
		t.Fatal("the node does not use what it got")
	}
	if now := s.refreshStatus(); now.Generation != former.Generation || now.Serial != "1" || now.From != former.From || now.Fault == "" {
		t.Errorf("the store has generation 1 and says %+v", now)
	}
	s.due()
	b := s.start()
	if got := b.nextSerial(); got != "" {
		t.Errorf("after a restart the new directory server is asked for changes since %q, a serial number of the former", got)
	}
	s.says = with("5", "")
	a.pollStore(t.Context())
	if a.refresh(t.Context()); s.ds.preqs[len(s.ds.preqs)-1].Text("serialNum") != "5" || a.cards.Lookup(otherCard) == nil {
		t.Error("the node does not go on from what it got")
	}
	if b.pollStore(t.Context()); b.cards.Lookup(otherCard) == nil || b.nextSerial() != "5" || s.refreshStatus().Generation != 2 {
		t.Errorf("what still holds was not kept when it could be: %+v", s.refreshStatus())
	}
	s.due()
	a.pollStore(t.Context())
	if a.refresh(t.Context()); s.refreshStatus().Generation != 2 {
		t.Error("it was kept twice")
	}
}

// TestNotKeptAtFirst: what the store could not keep is stored as soon as it can be, and
// not with the next PReq, which is hours away: other nodes may have no ranges at all. What
// the store has learned since stays.
func TestNotKeptAtFirst(t *testing.T) {
	for name, gone := range map[string]int{"no space": 0, "no store": 1} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t, nil)
			a, b := s.start(), s.start()
			a.keeper = &failover{forgetful{s.keeper, -1}, fullKeeper{s.keeper, 1}, gone}
			if a.refresh(t.Context()); a.cards.Lookup(card) == nil || s.refreshStatus().Generation != 0 {
				t.Fatalf("the node does not use what it got, or the store has it: %+v", s.refreshStatus())
			}
			loaded := a.cards.Generation("visa").Loaded
			s.change(func(now *RefreshStatus) { now.Held, now.HeldRanges = 3, 1 })
			next := s.refreshStatus().Next
			if a.pollStore(t.Context()); s.refreshStatus().Generation != 0 {
				t.Error("tried again within seconds")
			}
			a.storeTried = a.storeTried.Add(-retryInterval)
			a.pollStore(t.Context())
			now := s.refreshStatus()
			if now.Generation != 1 || now.Fault != "" || now.Ranges != 1 || now.Held != 3 || !now.Next.Equal(next) || !now.Loaded.Equal(loaded) {
				t.Errorf("kept at last: %+v", now)
			}
			if b.pollStore(t.Context()); b.cards.Lookup(card) == nil {
				t.Error("the other node has no ranges")
			}
			a.storeTried = a.storeTried.Add(-retryInterval)
			if a.pollStore(t.Context()); s.refreshStatus().Generation != 1 || len(s.ds.preqs) != 1 {
				t.Error("it was kept twice")
			}
		})
	}
}

// TestNotKeptForLong: what cannot be kept the second time either leaves the store as it
// is, and nobody waits for the lease.
func TestNotKeptForLong(t *testing.T) {
	s := newShared(t, nil)
	a := s.start()
	a.keeper = &fullKeeper{s.keeper, 2}
	a.refresh(t.Context())
	before := s.refreshStatus()
	a.storeTried = a.storeTried.Add(-retryInterval)
	if a.pollStore(t.Context()); !reflect.DeepEqual(s.refreshStatus(), before) {
		t.Errorf("the store says %+v, and said %+v", s.refreshStatus(), before)
	}
	s.change(func(*RefreshStatus) {}) // takes the lease
	a.storeTried = a.storeTried.Add(-retryInterval)
	if a.pollStore(t.Context()); s.refreshStatus().Generation != 1 {
		t.Errorf("not kept when it could be: %+v", s.refreshStatus())
	}
}

// A failover has no room for a generation, and then for as many standings.
type failover struct {
	forgetful
	full fullKeeper
	gone int
}

func (k *failover) PutSnapshot(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
	err := k.full.PutSnapshot(ctx, s, l, content, keep)
	if err != nil {
		k.fails = k.gone
	}
	return err
}
