package auth_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/session"
)

// TestP2WaitEndsWhenThereIsSomethingToSay: a wait ends immediately when a result, or an Erro in its place, comes to the
// same node, and within one poll when it comes to another node. A result that is refused does not end it.
func TestP2WaitEndsWhenThereIsSomethingToSay(t *testing.T) {
	for _, tt := range []struct {
		name      string
		otherNode bool
		post      func(req authtest.Object) authtest.Object
		within    time.Duration
		want      string
	}{
		{"result", false, func(req authtest.Object) authtest.Object { return authtest.RReq(req, "Y", 1) }, 0, ""},
		{"result on another node", true, func(req authtest.Object) authtest.Object { return authtest.RReq(req, "Y", 1) }, 600 * time.Millisecond, ""},
		{"Erro", false, func(req authtest.Object) authtest.Object {
			return authtest.Object{"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "402", "threeDSServerTransID": req["threeDSServerTransID"]}
		}, 0, "402"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := authtest.NewWorld()
			req := challengedAt(t, w, "2.2.0")
			e, receiver := w.NewEngine(0), w.NewEngine(0)
			if !tt.otherNode {
				receiver = e
			}
			pending := pendingOf(t, e, req)
			began := time.Now()
			const after = 1234 * time.Millisecond
			go func() {
				receiver.Receive(context.Background(), []string{"visa"}, authtest.With(authtest.RReq(req, "N", 1), "challengeCancel", "").JSON())
				time.Sleep(after)
				receiver.Receive(context.Background(), []string{"visa"}, tt.post(req).JSON())
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := e.WaitForResult(ctx, authtest.Shop, pending)
			if took := time.Since(began); authtest.CodeOf(err) != tt.want || took < after || took > after+tt.within {
				t.Errorf("%s: %v after %v, want %q between %v and %v", tt.name, err, took, tt.want, after, after+tt.within)
			}
		})
	}
}

// TestP2WaitEndsWithItsContext: when the time of a wait is over, or the client has gone, the answer is that
// there is no result yet.
func TestP2WaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := authtest.NewWorld()
		req := challengedAt(t, w, "2.2.0")
		e := w.NewEngine(0)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := e.WaitForResult(ctx, authtest.Shop, pendingOf(t, e, req)); authtest.CodeOf(err) != "305" || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v, want 305 after 3s", err, time.Since(began))
		}
	})
}

// TestP2WaitAsksTheStoreGently: a request that waits asks the store about twice a second.
func TestP2WaitAsksTheStoreGently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := authtest.NewWorld()
		req := challengedAt(t, w, "2.2.0")
		e := w.NewEngine(0)
		s := &spy{Store: e.Store, Sealer: e.Sealer}
		e.Store, e.Sealer = s, s
		pending := pendingOf(t, e, req)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _ = e.WaitForResult(ctx, authtest.Shop, pending)
		if n := len(s.read); n < 100 || n > 152 {
			t.Errorf("%d reads in a minute, want about 120", n)
		}
	})
}

// TestP2WaitDuringAnAuth: a /postauth that waits while the /auth is in work hears immediately that no challenge took
// place.
func TestP2WaitDuringAnAuth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := authtest.NewWorld()
		e := w.NewEngine(0)
		req := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop))
		w.Reply = func(_ string, o authtest.Object) ([]byte, error) {
			time.Sleep(2 * time.Second)
			return authtest.ARes(o, "Y"), nil
		}
		go e.Authenticate(context.Background(), authtest.Shop, req.JSON())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := e.WaitForResult(ctx, authtest.Shop, pendingOf(t, e, req))
		if want := "203 No challenge took place, the result is in the ARes"; authtest.Told(err) != want || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v, want %s after 2s", err, time.Since(began), want)
		}
	})
}

// pendingOf is what Result says of a transaction whose result has not come yet.
func pendingOf(t *testing.T, e *session.Engine, req authtest.Object) *auth.PendingError {
	t.Helper()
	_, err := e.Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": req["threeDSServerTransID"]}.JSON())
	pending, ok := errors.AsType[*auth.PendingError](err)
	if !ok {
		t.Fatalf("%v, want a PendingError", err)
	}
	return pending
}

// noted is a recorder that keeps the last value of each name.
type noted map[string]string

func (n noted) Note(_ context.Context, name, value string)   { n[name] = value }
func (n noted) NoteDirectory(context.Context, time.Duration) {}
func (n noted) NoteChanges(context.Context, []string)        {}

// TestD106ReferenceIsKeptWithTheTransaction: the reference of an /auth is noted for its result, and for each
// /postauth, on every node.
func TestD106ReferenceIsKeptWithTheTransaction(t *testing.T) {
	w := authtest.NewWorld()
	w.Reply = func(_ string, o authtest.Object) ([]byte, error) { return authtest.ARes(o, "C"), nil }
	req := authtest.AReq("2.2.0", authtest.Preauth(t, w.NewEngine(0), authtest.Shop))
	if _, _, err := w.NewEngine(0).Authenticate(auth.WithReference(t.Context(), "order 7"), authtest.Shop, req.JSON()); err != nil {
		t.Fatal(err)
	}
	node := func() (*session.Engine, noted) {
		e, n := w.NewEngine(0), noted{}
		e.Recorder = n
		return e, n
	}
	e, n := node()
	e.Receive(t.Context(), []string{"visa"}, authtest.RReq(req, "Y", 1).JSON())
	if n["reference"] != "order 7" {
		t.Errorf("of the result: %v", n)
	}
	e, n = node()
	if _, err := e.Result(t.Context(), authtest.Shop,
		authtest.Object{"threeDSServerTransID": req["threeDSServerTransID"]}.JSON()); err != nil || n["reference"] != "order 7" {
		t.Errorf("of the /postauth: %v, %v", err, n)
	}
}
