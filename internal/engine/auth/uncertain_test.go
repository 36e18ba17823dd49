package auth_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/store"
)

var errFault = errors.New("store fault")

// doubtful has so many updates fail, of which the first is done or not; all that follow
// are not. If it is forever, nothing works after the first.
func doubtful(w *world, updates int, done bool) {
	w.fault = func(op string) (bool, error) {
		if op != "update" || updates == 0 {
			return true, nil
		}
		updates--
		w.down = updates == forever-1
		was := done
		done = false
		return was, errFault
	}
}

const forever = 1 << 30

// TestUncertainResult: the directory server hears of a result what is true of it, though
// the store did not know; and where that cannot be found out in time, its next delivery
// is acknowledged, once, on any node.
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
	w := newWorld()
	sent := challenged(t, w, w.engine(0), object{"messageVersion": version})
	first, second := rreq(sent, "Y", 1).json(), rreq(sent, "N", 2).json()
	post := func(e *auth.Engine, body []byte) string {
		o := parse(t, e.Receive(t.Context(), []string{"visa"}, body).Body)
		return o.text("messageType") + o.text("errorCode")
	}
	doubtful(w, failures, done)
	start := time.Now()
	got := post(w.engine(0), first)
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
	w.works()
	time.Sleep(time.Minute) // for what goes on behind
	synctest.Wait()
	twice := "Erro301"
	if version == "2.3.1" {
		twice = "Erro312"
	}
	if failures == forever {
		if got := post(w.engine(0), second); done && got != twice {
			t.Errorf("another result than the one that is stored: %s, want %s", got, twice)
		} else if !done {
			if got != "RRes" {
				t.Errorf("another result, with none stored: %s", got)
			}
			return
		}
		if got := post(w.engine(time.Second), first); got != "RRes" {
			t.Errorf("delivered again: %s, want RRes", got)
		}
	}
	for _, body := range [][]byte{first, second} {
		if got := post(w.engine(0), body); got != twice {
			t.Errorf("once more: %s, want %s", got, twice)
		}
	}
	result, err := w.engine(0).Result(t.Context(), shop, object{"threeDSServerTransID": sent["threeDSServerTransID"]}.json())
	if err != nil || string(result) != string(first) {
		t.Errorf("Result = %s, %v", result, err)
	}
}

// TestOtherResultAfterUncertainOne: while it is asked what became of one result, another is stored
// and acknowledged. That one stays as it is: sent again, it is no news.
func TestOtherResultAfterUncertainOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		sent := challenged(t, w, w.engine(0))
		post := func(n int) string {
			o := parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, rreq(sent, "Y", n).json()).Body)
			return o.text("messageType") + o.text("errorCode")
		}
		doubtful(w, forever, false)
		if got := post(1); got != "Erro403" {
			t.Fatalf("the first: %s, want Erro403", got)
		}
		w.works()
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
			w := newWorld()
			sent := challenged(t, w, w.engine(0))
			doubtful(w, 2, done)
			answers := make(chan string, 2)
			for i := range 2 {
				go func() {
					body := rreq(sent, "Y", i).json()
					got := parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, body).Body)
					if got.text("messageType") == "RRes" {
						answers <- string(body)
					} else {
						answers <- ""
					}
				}()
			}
			one, two := <-answers, <-answers
			result, err := w.engine(0).Result(t.Context(), shop, object{"threeDSServerTransID": sent["threeDSServerTransID"]}.json())
			if err != nil || (one == "") == (two == "") || one+two != string(result) {
				t.Errorf("done %t: acknowledged %q and %q, read %s, %v", done, one, two, result, err)
			}
		})
	}
}

// TestUncertainChallenge: the requestor gets an ARes of which the challenge is stored,
// though the store did not know. If that cannot be found out in time he gets none, and
// the directory server hears with the result that he did not.
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
	w := spcWorld()
	e := w.engine(0)
	var sent object
	w.reply = func(_ string, o object) ([]byte, error) {
		sent = o
		doubtful(w, failures, done)
		if status == "S" {
			return aresS(o), nil
		}
		return ares(o, status), nil
	}
	more := offered
	if status == "D" {
		more = object{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010"}
	}
	start := time.Now()
	got, err := try(t, e, shop, more)
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("answered after %v", took)
	}
	handed := failures != forever
	if handed && (err != nil || got.text("transStatus") != status) || !handed && codeOf(err) != "403" {
		t.Fatalf("Authenticate = %v, %v", got, err)
	}
	w.works()
	time.Sleep(time.Minute)
	synctest.Wait()
	result := rreq(sent, "Y", 1)
	if status == "D" {
		result = decoupledResult(sent)
	}
	answer := parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, result.json()).Body)
	want := map[bool]string{true: "RRes01", false: "RRes03"}[handed]
	if !handed && !done {
		want = "Erro301"
	}
	if said := answer.text("messageType") + answer.text("resultsStatus") + answer.text("errorCode"); said != want {
		t.Errorf("the result is answered with %s, want %s", said, want)
	}
}

// TestResultBeforeUncertainWriteIsResolved: a result that comes while it is not yet known whether
// its challenge is stored shows that it is.
func TestResultBeforeUncertainWriteIsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		got := make(chan string, 1)
		w.reply = func(_ string, o object) ([]byte, error) {
			doubtful(w, 1, true)
			go func() {
				time.Sleep(10 * time.Millisecond)
				got <- parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, rreq(o, "Y", 1).json()).Body).text("messageType")
			}()
			return ares(o, "C"), nil
		}
		answer, err := try(t, w.engine(0), shop)
		if said := <-got; said != "RRes" || err != nil || answer.text("transStatus") != "C" {
			t.Errorf("the result is answered with %s, /auth with %v, %v", said, answer, err)
		}
	})
}

// TestResultNotConfirmed: that a result can be read is no reason to acknowledge it. It may
// be on the server alone that is about to be lost.
func TestResultNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		sent := challenged(t, w, w.engine(0))
		body := rreq(sent, "Y", 1).json()
		post := func() string {
			o := parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, body).Body)
			return o.text("messageType") + o.text("errorCode")
		}
		writes := 0
		w.fault = func(string) (bool, error) {
			writes++
			return writes == 1, errFault
		}
		if got := post(); got != "Erro403" || writes < 2 {
			t.Errorf("answered with %s after %d writes that failed, want Erro403 after some", got, writes)
		}
		w.works()
		time.Sleep(time.Minute)
		if got := post(); got != "RRes" {
			t.Errorf("delivered again: %s, want RRes", got)
		}
	})
}

// TestLateCommit: a write that was answered for as failed, and not found, does not happen
// after that.
func TestLateCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		e := w.engine(0)
		sent := challenged(t, w, e)
		late := &underway{Store: w}
		e.Store = late
		doubtful(w, forever, false)
		got := parse(t, e.Receive(t.Context(), []string{"visa"}, rreq(sent, "Y", 1).json()).Body)
		if got.text("errorCode") != "403" || late.begun.Data == nil {
			t.Fatalf("answered with %v, begun %t", got, late.begun.Data != nil)
		}
		w.works()
		time.Sleep(time.Minute) // for what goes on behind
		if late.commit(w) {
			t.Error("the row could still be written")
		}
		_, err := e.Result(t.Context(), shop, object{"threeDSServerTransID": sent["threeDSServerTransID"]}.json())
		if codeOf(err) != "305" {
			t.Errorf("Result: %v, want that there is none", err)
		}
	})
}

// underway is a store with a database that still has the first update before it when
// its connection is lost.
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
func (s *underway) commit(w *world) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	unchanged := w.txns[s.begun.ID].Version == s.begun.Version
	if unchanged {
		w.txns[s.begun.ID] = s.begun
	}
	return unchanged
}

// TestUncertainErro: a transaction that the directory server has given up is so, though the
// store did not know whether that was noted.
func TestUncertainErro(t *testing.T) {
	for _, done := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			sent := challenged(t, w, w.engine(0))
			doubtful(w, 1, done)
			erro := object{"messageType": "Erro", "messageVersion": "2.3.1", "errorCode": "402", "errorComponent": "D",
				"threeDSServerTransID": sent["threeDSServerTransID"]}
			w.engine(0).Receive(t.Context(), []string{"visa"}, erro.json())
			_, err := w.engine(0).Result(t.Context(), shop, object{"threeDSServerTransID": sent["threeDSServerTransID"]}.json())
			if codeOf(err) != "402" {
				t.Errorf("done %t: Result: %v, want the 402", done, err)
			}
		})
	}
}

// TestCertainFailureIsNotRetried: where it is known that nothing was stored, 403 comes at once.
func TestCertainFailureIsNotRetried(t *testing.T) {
	for name, fault := range map[string]func(*world, *auth.Engine){
		"unreadable": func(_ *world, e *auth.Engine) { e.Store = unreadable{e.Store} },
		"undone": func(w *world, _ *auth.Engine) {
			w.fault = func(string) (bool, error) { return false, fmt.Errorf("no room: %w", store.ErrUndone) }
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			e := w.engine(0)
			sent := challenged(t, w, e)
			fault(w, e)
			start := time.Now()
			got := parse(t, e.Receive(t.Context(), []string{"visa"}, rreq(sent, "Y", 1).json()).Body)
			if took := time.Since(start); got.text("errorCode") != "403" || took > 0 {
				t.Errorf("%s: %v after %v, want 403 at once", name, got, took)
			}
		})
	}
}

// TestUndoneTryAfterUncertainOne: what is known of a later try says nothing about an earlier one.
func TestUndoneTryAfterUncertainOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		sent := challenged(t, w, w.engine(0))
		faults := []error{errFault, fmt.Errorf("no room: %w", store.ErrUndone)}
		w.fault = func(string) (bool, error) {
			if len(faults) == 0 {
				return true, nil
			}
			err := faults[0]
			faults = faults[1:]
			return false, err
		}
		got := parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, rreq(sent, "Y", 1).json()).Body)
		if got.text("messageType") != "RRes" {
			t.Errorf("a result that may have been stored at first: %v", got)
		}
	})
}

// unreadable is a store whose updates fail before they have read anything.
type unreadable struct{ txn.Store }

func (unreadable) Update(context.Context, store.Txn, func(*store.Txn) error) error { return errFault }
