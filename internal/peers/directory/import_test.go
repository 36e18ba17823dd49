package directory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
	"github.com/openthreeds/threeds/message"
)

// elsewhere is a table from outside, of the range that otherCard is in.
func elsewhere(t *testing.T) *ranges.Table {
	t.Helper()
	var b ranges.Builder
	if err := b.Add("4100000000000000", "4100000999999999", &ranges.Info{ACSStart: "2.2.0", ACSEnd: "2.2.0"}); err != nil {
		t.Fatal(err)
	}
	table, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestImport: a generation from elsewhere is taken over by the nodes.
func TestImport(t *testing.T) {
	s := newShared(t, nil)
	a := s.start()
	table := elsewhere(t)
	s.change(func(now *RefreshStatus) { now.From = "https://elsewhere.example/preq" })
	before := s.refreshStatus()
	if _, err := Import(t.Context(), &fullKeeper{s.keeper, 1}, "visa", "operator",
		&ranges.Generation{Table: table}); err == nil || !reflect.DeepEqual(s.refreshStatus(), before) {
		t.Errorf("an import that there is no room for: %v, and the store says %+v", err, s.refreshStatus())
	}
	number, err := Import(t.Context(), s.keeper, "visa", "operator", &ranges.Generation{Table: table, Version: message.V220, Serial: "7"})
	if err != nil {
		t.Fatal(err)
	}
	if a.pollStore(t.Context()); a.storedGeneration != number || a.cards.Lookup(otherCard) == nil {
		t.Errorf("generation %d in use, want %d", a.storedGeneration, number)
	}
	s.due()
	a.pollStore(t.Context())
	a.refresh(t.Context())
	if got := s.ds.preqs[0].Text("serialNum"); got != "7" {
		t.Errorf("the next PReq goes on from serialNum %q, want that of the import", got)
	}
}

// TestImportThenAnotherDirectory: ranges of which nobody noted where they came from are
// those of the directory server that says that they still hold. When it moves, their
// serial number stays behind.
func TestImportThenAnotherDirectory(t *testing.T) {
	s := newShared(t, nil)
	s.says = func(w http.ResponseWriter, preq *message.Message) {
		fmt.Fprintf(w, `{"messageType":"PRes","messageVersion":"2.2.0","threeDSServerTransID":%q,"dsTransID":%q,`+
			`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0","serialNum":"7"}`, preq.Text("threeDSServerTransID"), dsID)
	}
	table := elsewhere(t)
	g := &ranges.Generation{Table: table, Version: message.V220, Serial: "7", DS: ranges.DS{Start: "2.1.0", End: "2.2.0"}}
	if _, err := Import(t.Context(), s.keeper, "visa", "operator", g); err != nil {
		t.Fatal(err)
	}
	s.start().refresh(t.Context())
	s.due()
	s.peer.PReqURL += "/next"
	s.start().refresh(t.Context())
	if len(s.ds.preqs) != 2 || s.ds.preqs[0].Text("serialNum") != "7" || s.ds.preqs[1].Has("serialNum") {
		t.Errorf("%d PReqs; to the next address since %q", len(s.ds.preqs), s.ds.preqs[len(s.ds.preqs)-1].Text("serialNum"))
	}
}

// A slowKeeper takes its time to store a generation, and lets nobody release a
// lease, as if the process had ended before.
type slowKeeper struct {
	*storetest.Memory
	took time.Duration
}

func (k slowKeeper) PutSnapshot(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
	select {
	case <-time.After(k.took):
		return k.Memory.PutSnapshot(ctx, s, l, content, keep)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (slowKeeper) Release(context.Context, store.Lease) error { return nil }

// TestKilledImport: an import keeps its scheme for as long as it takes, and one
// that was killed keeps it for seconds.
func TestKilledImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := slowKeeper{storetest.NewMemory(time.Now), 10 * time.Minute}
		ctx, kill := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := Import(ctx, k, "visa", "operator", &ranges.Generation{Version: message.V220})
			done <- err
		}()
		node := func() error {
			_, err := k.Acquire(t.Context(), statusKey("visa"), "node", time.Minute)
			return err
		}
		time.Sleep(9 * time.Minute)
		if err := node(); !errors.Is(err, store.ErrHeld) {
			t.Errorf("while it is stored: %v, want ErrHeld", err)
		}
		kill()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Import = %v", err)
		}
		time.Sleep(defaultLeaseTime)
		if err := node(); err != nil {
			t.Errorf("%v after it was killed: %v", defaultLeaseTime, err)
		}
	})
}
