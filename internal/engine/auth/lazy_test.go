package auth_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A watched store notes how it is written to.
type watched struct {
	*authtest.World
	writes []string
}

func (w *watched) Create(ctx context.Context, t store.Txn) error {
	w.writes = append(w.writes, "create")
	return w.World.Create(ctx, t)
}

func (w *watched) Get(ctx context.Context, id string) (store.Txn, error) {
	w.writes = append(w.writes, "get")
	return w.World.Get(ctx, id)
}

func (w *watched) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	return w.World.Update(ctx, was, func(t *store.Txn) error {
		err := change(t)
		how := string(t.State)
		if was.Version == 0 {
			how = "read, " + how
		}
		if t.Lazy {
			how += ", lazily"
		}
		w.writes = append(w.writes, how)
		return err
	})
}

// TestStoreOperationsOfAnAuth checks which operations an /auth and an RReq make on the store: the shopper waits for
// each. Only a write that may be lost without harm is lazy.
func TestStoreOperationsOfAnAuth(t *testing.T) {
	for _, test := range []struct {
		name  string
		reply func(req authtest.Object) ([]byte, error)
		want  []string
	}{
		{"frictionless", func(req authtest.Object) ([]byte, error) { return authtest.AResObject(req, "Y").JSON(), nil }, []string{"create", "read, final, lazily"}},
		{"refused", func(req authtest.Object) ([]byte, error) { return authtest.AResObject(req, "N").JSON(), nil }, []string{"create", "read, final, lazily"}},
		{"challenge", func(req authtest.Object) ([]byte, error) { return authtest.AResObject(req, "C").JSON(), nil }, []string{"create", "read, challenge"}},
		{"no answer", func(authtest.Object) ([]byte, error) { return nil, errors.New("reset") }, []string{"create", "read, failed, lazily"}},
		{"bad answer", func(authtest.Object) ([]byte, error) { return []byte("{"), nil }, []string{"create", "read, failed, lazily"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &watched{World: authtest.NewWorld()}
			w.Reply = func(_ string, req authtest.Object) ([]byte, error) { return test.reply(req) }
			e := w.NewEngine(0)
			e.Store = w
			req := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop))
			_, _, _ = e.Authenticate(t.Context(), authtest.Shop, req.JSON()) // some fail
			if !slices.Equal(w.writes, test.want) {
				t.Errorf("/auth: %q, want %q", w.writes, test.want)
			}
			if test.name != "challenge" {
				return
			}
			w.writes = nil
			e.Receive(t.Context(), []string{"visa"}, authtest.RReq(req, "Y", 1).JSON())
			if want := []string{"get", "result"}; !slices.Equal(w.writes, want) {
				t.Errorf("RReq: %q, want %q", w.writes, want)
			}
		})
	}
}

// TestClaimWithoutOutcome: for as long as an /auth may take, on a node whose clock is ahead, a claim counts as an /auth
// in flight. Then it counts as one that has failed.
func TestClaimWithoutOutcome(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	id := authtest.Preauth(t, e, authtest.Shop)
	w.Reply = func(string, authtest.Object) ([]byte, error) {
		w.Down = true
		return nil, authtest.ErrFault
	}
	if _, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", id).JSON()); authtest.CodeOf(err) != "405" {
		t.Fatal(err)
	}
	w.Works()
	const longest = 10*time.Second + 200*time.Millisecond + transid.MaxSkew
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{
		{0, "305 No response from directory server yet"},
		{longest, "305 No response from directory server yet"},
		{time.Millisecond, "203 Unknown threeDSServerTransID"},
	} {
		w.Pass(tt.after)
		if _, err := e.Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": id}.JSON()); authtest.Told(err) != tt.want {
			t.Errorf("after %v: %s, want %s", tt.after, authtest.Told(err), tt.want)
		}
	}
}
