package txn_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/store"
)

// doubtful makes a number of updates fail. The first of them is written if done is set; the others are not. If updates
// is forever, nothing works after the first.
func doubtful(w *authtest.World, updates int, done bool) {
	w.Fault = func(op string) (bool, error) {
		if op != "update" || updates == 0 {
			return true, nil
		}
		updates--
		w.Down = updates == forever-1
		was := done
		done = false
		return was, authtest.ErrFault
	}
}

const forever = 1 << 30

// TestUncertainResult: the directory server gets the true answer to a result, even though the store was not sure. If
// the truth cannot be found out in time, the next delivery of the result is acknowledged, once, on any node.
func TestUncertainResult(t *testing.T) {
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for _, done := range []bool{true, false} {
			for _, failures := range []int{1, 3, forever} {
				t.Run(fmt.Sprintf("%s, done %t, %d failures", version, done, failures), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { resultInDoubt(t, version, done, failures) })
				})
			}
		}
	}
}

func resultInDoubt(t *testing.T, version string, done bool, failures int) {
	w := authtest.NewWorld()
	sent := authtest.Challenged(t, w, w.NewEngine(0), authtest.Object{"messageVersion": version})
	first, second := authtest.RReq(sent, "Y", 1).JSON(), authtest.RReq(sent, "N", 2).JSON()
	post := func(e *session.Engine, body []byte) string {
		o := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, body).Body)
		return o.Text("messageType") + o.Text("errorCode")
	}
	doubtful(w, failures, done)
	start := time.Now()
	got := post(w.NewEngine(0), first)
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("answered after %v", took)
	}
	want := "RRes"
	if failures == forever {
		want = "Erro403"
	}
	if got != want {
		t.Fatalf("answered with %s, want %s", got, want)
	}
	w.Works()
	time.Sleep(time.Minute) // for what goes on behind
	synctest.Wait()
	twice := "Erro301"
	if version == "2.3.1" {
		twice = "Erro312"
	}
	if failures == forever {
		if got := post(w.NewEngine(0), second); done && got != twice {
			t.Errorf("another result than the one that is stored: %s, want %s", got, twice)
		} else if !done {
			if got != "RRes" {
				t.Errorf("another result, with none stored: %s", got)
			}
			return
		}
		if got := post(w.NewEngine(time.Second), first); got != "RRes" {
			t.Errorf("delivered again: %s, want RRes", got)
		}
	}
	for _, body := range [][]byte{first, second} {
		if got := post(w.NewEngine(0), body); got != twice {
			t.Errorf("once more: %s, want %s", got, twice)
		}
	}
	result, err := w.NewEngine(0).Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": sent["threeDSServerTransID"]}.JSON())
	if err != nil || string(result) != string(first) {
		t.Errorf("Result = %s, %v", result, err)
	}
}

// TestOtherResultAfterUncertainOne: while the engine finds out what became of one result, another is stored and
// acknowledged. The other one stays: when it is sent again, nothing changes.
func TestOtherResultAfterUncertainOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := authtest.NewWorld()
		sent := authtest.Challenged(t, w, w.NewEngine(0))
		post := func(n int) string {
			o := authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"}, authtest.RReq(sent, "Y", n).JSON()).Body)
			return o.Text("messageType") + o.Text("errorCode")
		}
		doubtful(w, forever, false)
		if got := post(1); got != "Erro403" {
			t.Fatalf("the first: %s, want Erro403", got)
		}
		w.Works()
		if got := post(2); got != "RRes" {
			t.Fatalf("the second: %s, want RRes", got)
		}
		time.Sleep(time.Minute) // for what goes on behind
		if got := post(2); got != "Erro312" {
			t.Errorf("the second again: %s, want Erro312", got)
		}
	})
}

// TestManyUncertainResults: of two results at once, each in doubt, one is acknowledged, and it is
// the one that is read (I2).
func TestManyUncertainResults(t *testing.T) {
	for _, done := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := authtest.NewWorld()
			sent := authtest.Challenged(t, w, w.NewEngine(0))
			doubtful(w, 2, done)
			answers := make(chan string, 2)
			for i := range 2 {
				go func() {
					body := authtest.RReq(sent, "Y", i).JSON()
					got := authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"}, body).Body)
					if got.Text("messageType") == "RRes" {
						answers <- string(body)
					} else {
						answers <- ""
					}
				}()
			}
			one, two := <-answers, <-answers
			result, err := w.NewEngine(0).Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": sent["threeDSServerTransID"]}.JSON())
			if err != nil || (one == "") == (two == "") || one+two != string(result) {
				t.Errorf("done %t: acknowledged %q and %q, read %s, %v", done, one, two, result, err)
			}
		})
	}
}

// TestUncertainChallenge: the requestor gets the ARes of a challenge that is stored, even though the store was not
// sure. If that cannot be found out in time, the requestor gets no ARes, and the directory server hears so in the
// answer to its result.
func TestUncertainChallenge(t *testing.T) {
	for _, status := range []string{"C", "D", "S"} {
		for _, done := range []bool{true, false} {
			for _, failures := range []int{1, 3, forever} {
				t.Run(fmt.Sprintf("%s, done %t, %d failures", status, done, failures), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { challengeInDoubt(t, status, done, failures) })
				})
			}
		}
	}
}

func challengeInDoubt(t *testing.T, status string, done bool, failures int) {
	w := authtest.SPCWorld()
	e := w.NewEngine(0)
	var sent authtest.Object
	w.Reply = func(_ string, o authtest.Object) ([]byte, error) {
		sent = o
		doubtful(w, failures, done)
		if status == "S" {
			return authtest.AResS(o), nil
		}
		return authtest.ARes(o, status), nil
	}
	more := authtest.Offered
	if status == "D" {
		more = authtest.Object{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010"}
	}
	start := time.Now()
	got, err := authtest.Try(t, e, authtest.Shop, more)
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("answered after %v", took)
	}
	handed := failures != forever
	if handed && (err != nil || got.Text("transStatus") != status) || !handed && authtest.CodeOf(err) != "403" {
		t.Fatalf("Authenticate = %v, %v", got, err)
	}
	w.Works()
	time.Sleep(time.Minute)
	synctest.Wait()
	result := authtest.RReq(sent, "Y", 1)
	if status == "D" {
		result = authtest.DecoupledResult(sent)
	}
	answer := authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"}, result.JSON()).Body)
	want := map[bool]string{true: "RRes01", false: "RRes03"}[handed]
	if !handed && !done {
		want = "Erro301"
	}
	if said := answer.Text("messageType") + answer.Text("resultsStatus") + answer.Text("errorCode"); said != want {
		t.Errorf("the result is answered with %s, want %s", said, want)
	}
}

// TestResultBeforeUncertainWriteIsResolved: a result that comes while it is not yet known whether
// its challenge is stored shows that it is.
func TestResultBeforeUncertainWriteIsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := authtest.NewWorld()
		got := make(chan string, 1)
		w.Reply = func(_ string, o authtest.Object) ([]byte, error) {
			doubtful(w, 1, true)
			go func() {
				time.Sleep(10 * time.Millisecond)
				got <- authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"}, authtest.RReq(o, "Y", 1).JSON()).Body).Text("messageType")
			}()
			return authtest.ARes(o, "C"), nil
		}
		answer, err := authtest.Try(t, w.NewEngine(0), authtest.Shop)
		if said := <-got; said != "RRes" || err != nil || answer.Text("transStatus") != "C" {
			t.Errorf("the result is answered with %s, /auth with %v, %v", said, answer, err)
		}
	})
}

// TestResultNotConfirmed: that a result can be read is no reason to acknowledge it. It may be only on the server that
// is about to be lost.
func TestResultNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := authtest.NewWorld()
		sent := authtest.Challenged(t, w, w.NewEngine(0))
		body := authtest.RReq(sent, "Y", 1).JSON()
		post := func() string {
			o := authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"}, body).Body)
			return o.Text("messageType") + o.Text("errorCode")
		}
		writes := 0
		w.Fault = func(string) (bool, error) {
			writes++
			return writes == 1, authtest.ErrFault
		}
		if got := post(); got != "Erro403" || writes < 2 {
			t.Errorf("answered with %s after %d writes that failed, want Erro403 after some", got, writes)
		}
		w.Works()
		time.Sleep(time.Minute)
		if got := post(); got != "RRes" {
			t.Errorf("delivered again: %s, want RRes", got)
		}
	})
}

// TestLateCommit: a write that was reported as failed, and was not found, does not happen later.
func TestLateCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := authtest.NewWorld()
		e := w.NewEngine(0)
		sent := authtest.Challenged(t, w, e)
		late := &underway{Store: w}
		e.Store = late
		doubtful(w, forever, false)
		got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, authtest.RReq(sent, "Y", 1).JSON()).Body)
		if got.Text("errorCode") != "403" || late.begun.Data == nil {
			t.Fatalf("answered with %v, begun %t", got, late.begun.Data != nil)
		}
		w.Works()
		time.Sleep(time.Minute) // for what goes on behind
		if late.commit(w) {
			t.Error("the row could still be written")
		}
		_, err := e.Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": sent["threeDSServerTransID"]}.JSON())
		if authtest.CodeOf(err) != "305" {
			t.Errorf("Result: %v, want that there is none", err)
		}
	})
}

// underway is a store whose database has not yet made the first update when its connection is lost.
type underway struct {
	txn.Store
	begun store.Txn
}

func (s *underway) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	return s.Store.Update(ctx, was, func(t *store.Txn) error {
		err := change(t)
		if err == nil && s.begun.Data == nil {
			s.begun = *t
		}
		return err
	})
}

// commit reports whether the update has happened: it does if the row is as it found it.
func (s *underway) commit(w *authtest.World) bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	unchanged := w.Txns[s.begun.ID].Version == s.begun.Version
	if unchanged {
		w.Txns[s.begun.ID] = s.begun
	}
	return unchanged
}

// TestUncertainErro: a transaction that the directory server has given up has failed, even if the store was not sure
// whether that was recorded.
func TestUncertainErro(t *testing.T) {
	for _, done := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := authtest.NewWorld()
			sent := authtest.Challenged(t, w, w.NewEngine(0))
			doubtful(w, 1, done)
			erro := authtest.Object{"messageType": "Erro", "messageVersion": "2.3.1", "errorCode": "402", "errorComponent": "D",
				"threeDSServerTransID": sent["threeDSServerTransID"]}
			w.NewEngine(0).Receive(t.Context(), []string{"visa"}, erro.JSON())
			_, err := w.NewEngine(0).Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": sent["threeDSServerTransID"]}.JSON())
			if authtest.CodeOf(err) != "402" {
				t.Errorf("done %t: Result: %v, want the 402", done, err)
			}
		})
	}
}

// TestCertainFailureIsNotRetried: where it is known that nothing was stored, 403 comes immediately.
func TestCertainFailureIsNotRetried(t *testing.T) {
	for name, fault := range map[string]func(*authtest.World, *session.Engine){
		"unreadable": func(_ *authtest.World, e *session.Engine) { e.Store = unreadable{e.Store} },
		"undone": func(w *authtest.World, _ *session.Engine) {
			w.Fault = func(string) (bool, error) { return false, fmt.Errorf("no room: %w", store.ErrUndone) }
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := authtest.NewWorld()
			e := w.NewEngine(0)
			sent := authtest.Challenged(t, w, e)
			fault(w, e)
			start := time.Now()
			got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, authtest.RReq(sent, "Y", 1).JSON()).Body)
			if took := time.Since(start); got.Text("errorCode") != "403" || took > 0 {
				t.Errorf("%s: %v after %v, want 403 at once", name, got, took)
			}
		})
	}
}

// TestUndoneTryAfterUncertainOne: what is known of a later try says nothing about an earlier one.
func TestUndoneTryAfterUncertainOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := authtest.NewWorld()
		sent := authtest.Challenged(t, w, w.NewEngine(0))
		faults := []error{authtest.ErrFault, fmt.Errorf("no room: %w", store.ErrUndone)}
		w.Fault = func(string) (bool, error) {
			if len(faults) == 0 {
				return true, nil
			}
			err := faults[0]
			faults = faults[1:]
			return false, err
		}
		got := authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"}, authtest.RReq(sent, "Y", 1).JSON()).Body)
		if got.Text("messageType") != "RRes" {
			t.Errorf("a result that may have been stored at first: %v", got)
		}
	})
}

// unreadable is a store whose updates fail before they have read anything.
type unreadable struct{ txn.Store }

func (unreadable) Update(context.Context, store.Txn, func(*store.Txn) error) error {
	return authtest.ErrFault
}

// TestTasksEndWithProcess: a process that ends no longer calls its store, whichever of its engines was about to, and
// logs what it leaves unknown. No directory server gets a message either.
func TestTasksEndWithProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := authtest.NewWorld()
		var group tasks.Group
		var log bytes.Buffer
		post := func(body authtest.Object) {
			e := w.NewEngine(0)
			e.Tasks, e.Log = &group, slog.New(slog.NewTextHandler(&log, nil))
			e.Receive(t.Context(), []string{"visa"}, body.JSON())
		}
		inDoubt := func() {
			sent := authtest.Challenged(t, w, w.NewEngine(0))
			doubtful(w, forever, true)
			post(authtest.RReq(sent, "Y", 1))
		}
		unknown := func() int { return strings.Count(log.String(), "outcome of a write is not known") }

		inDoubt()
		time.Sleep(time.Minute)
		w.Works()
		post(authtest.OReq(1, 2))
		if n := unknown(); n > 0 {
			t.Errorf("%d outcomes given up too soon", n)
		}
		start := time.Now()
		group.End()
		if took := time.Since(start); took > 0 || unknown() != 1 {
			t.Errorf("ended after %v with %d outcomes unknown, want at once with one", took, unknown())
		}
		inDoubt()
		if unknown() != 2 {
			t.Errorf("%d outcomes unknown, want two: the second is not asked for", unknown())
		}
		w.Works()
		w.Fault = func(op string) (bool, error) {
			t.Errorf("%s after the end", op)
			return true, nil
		}
		time.Sleep(time.Hour)
		if len(w.Reported()) > 0 {
			t.Error("a directory server was told of something")
		}
	})
}
