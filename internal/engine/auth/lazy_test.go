package auth_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A watched store notes how it is written to.
type watched struct {
	*world
	writes []string
}

func (w *watched) Create(ctx context.Context, t store.Txn) error {
	w.writes = append(w.writes, "create")
	return w.world.Create(ctx, t)
}

func (w *watched) Get(ctx context.Context, id string) (store.Txn, error) {
	w.writes = append(w.writes, "get")
	return w.world.Get(ctx, id)
}

func (w *watched) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	return w.world.Update(ctx, was, func(t *store.Txn) error {
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

// TestStoreOperationsOfAnAuth is what an /auth has the store do, and an RReq: what is waited for is
// seen by the shopper. Only what comes to nothing when it is lost is lazy.
func TestStoreOperationsOfAnAuth(t *testing.T) {
	for _, test := range []struct {
		name  string
		reply func(req object) ([]byte, error)
		want  []string
	}{
		{"frictionless", func(req object) ([]byte, error) { return aresObject(req, "Y").json(), nil }, []string{"create", "read, final, lazily"}},
		{"refused", func(req object) ([]byte, error) { return aresObject(req, "N").json(), nil }, []string{"create", "read, final, lazily"}},
		{"challenge", func(req object) ([]byte, error) { return aresObject(req, "C").json(), nil }, []string{"create", "read, challenge"}},
		{"no answer", func(object) ([]byte, error) { return nil, errors.New("reset") }, []string{"create", "read, failed, lazily"}},
		{"bad answer", func(object) ([]byte, error) { return []byte("{"), nil }, []string{"create", "read, failed, lazily"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &watched{world: newWorld()}
			w.reply = func(_ string, req object) ([]byte, error) { return test.reply(req) }
			e := w.engine(0)
			e.Store = w
			req := areq("2.2.0", preauth(t, e, shop))
			_, _, _ = e.Authenticate(t.Context(), shop, req.json()) // some fail
			if !slices.Equal(w.writes, test.want) {
				t.Errorf("/auth: %q, want %q", w.writes, test.want)
			}
			if test.name != "challenge" {
				return
			}
			w.writes = nil
			e.Receive(t.Context(), []string{"visa"}, rreq(req, "Y", 1).json())
			if want := []string{"get", "result"}; !slices.Equal(w.writes, want) {
				t.Errorf("RReq: %q, want %q", w.writes, want)
			}
		})
	}
}

// TestClaimWithoutOutcome: a claim is an /auth in flight for as long as one may take, on a
// node whose clock is ahead, and then one that has failed.
func TestClaimWithoutOutcome(t *testing.T) {
	w := newWorld()
	e := w.engine(0)
	id := preauth(t, e, shop)
	w.reply = func(string, object) ([]byte, error) {
		w.down = true
		return nil, errFault
	}
	if _, _, err := e.Authenticate(t.Context(), shop, areq("2.2.0", id).json()); codeOf(err) != "405" {
		t.Fatal(err)
	}
	w.works()
	const longest = 10*time.Second + 200*time.Millisecond + transid.MaxSkew
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{
		{0, "305 No response from directory server yet"},
		{longest, "305 No response from directory server yet"},
		{time.Millisecond, "203 Unknown threeDSServerTransID"},
	} {
		w.pass(tt.after)
		if _, err := e.Result(t.Context(), shop, object{"threeDSServerTransID": id}.json()); told(err) != tt.want {
			t.Errorf("after %v: %s, want %s", tt.after, told(err), tt.want)
		}
	}
}
