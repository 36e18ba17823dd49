package auth_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/txn"
)

// TestRowPutBackIsNoticed: whoever puts an old row in place of a newer one turns no acknowledged N into an
// acknowledged Y at the node that acknowledged the N: that node refuses the row, logs it and counts it. So
// does the engine that follows at a reload.
func TestRowPutBackIsNoticed(t *testing.T) {
	w := newWorld()
	req := challengedAt(t, w, "2.2.0")
	id := req.text("threeDSServerTransID")
	ask := object{"threeDSServerTransID": id}.json()
	old := w.txns[id]
	var shared txn.Acknowledged
	var log bytes.Buffer
	counted := 0
	node := func() *auth.Engine {
		e := w.engine(0)
		e.Acknowledged, e.PutBack, e.Log = &shared, func() { counted++ }, slog.New(slog.NewJSONHandler(&log, nil))
		return e
	}
	first := rreq(req, "N", 1).json()
	if got := parse(t, node().Receive(t.Context(), []string{"visa"}, first).Body); got.text("messageType") != "RRes" {
		t.Fatalf("the N: %v", got)
	}
	if _, err := node().Result(t.Context(), shop, ask); err != nil || counted != 0 {
		t.Fatalf("before: %v, counted %d", err, counted)
	}
	w.txns[id] = old
	for i, body := range [][]byte{rreq(req, "Y", 1).json(), first} {
		got := parse(t, node().Receive(t.Context(), []string{"visa"}, body).Body)
		if got.text("errorCode") != "403" || counted != i+1 {
			t.Errorf("RReq %d: %v, counted %d, want 403 and %d", i, got, counted, i+1)
		}
	}
	if _, err := node().Result(t.Context(), shop, ask); codeOf(err) != "?" || counted != 3 {
		t.Errorf("/postauth: %v, counted %d, want an internal fault and 3", err, counted)
	}
	if n := strings.Count(log.String(), "row of a transaction was put back"); n != 3 {
		t.Errorf("the log has %d lines of it, want 3: %s", n, &log)
	}
	// Nodes that have not acknowledged the result cannot know.
	if got := parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, rreq(req, "Y", 1).json()).Body); got.text("messageType") != "RRes" {
		t.Fatalf("another node: %v", got)
	}
	if _, err := node().Result(t.Context(), shop, ask); codeOf(err) != "?" {
		t.Errorf("the Y that another node has acknowledged: %v, want an internal fault", err)
	}
}
