package auth_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
)

// TestTasksEndWithProcess: a process that ends asks its store nothing any more, whichever of its
// engines was about to, and says what it leaves unknown; no directory server hears
// anything either.
func TestTasksEndWithProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var group tasks.Group
		var log bytes.Buffer
		post := func(body object) {
			e := w.engine(0)
			e.Tasks, e.Log = &group, slog.New(slog.NewTextHandler(&log, nil))
			e.Receive(t.Context(), []string{"visa"}, body.json())
		}
		inDoubt := func() {
			sent := challenged(t, w, w.engine(0))
			doubtful(w, forever, true)
			post(rreq(sent, "Y", 1))
		}
		unknown := func() int { return strings.Count(log.String(), "outcome of a write is not known") }

		inDoubt()
		time.Sleep(time.Minute)
		w.works()
		post(oreq(1, 2))
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
		w.works()
		w.fault = func(op string) (bool, error) {
			t.Errorf("%s after the end", op)
			return true, nil
		}
		time.Sleep(time.Hour)
		if len(w.reported()) > 0 {
			t.Error("a directory server was told of something")
		}
	})
}
