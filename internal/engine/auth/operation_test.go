package auth_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/session"
)

// TestOperationMessages posts sequences, and checks the answer to each message (OP-02, OP-03, OP-06, OP-07, VO-02,
// VO-03, MX-14).
func TestOperationMessages(t *testing.T) {
	const silent = "200" // and nothing else
	for _, tt := range []struct {
		name string
		post []authtest.Object
		want []string
	}{
		{"one alone", []authtest.Object{authtest.OReq(1, 1)}, []string{"ORes 01"}},
		{"three in order", []authtest.Object{authtest.OReq(1, 3), authtest.OReq(2, 3), authtest.OReq(3, 3)}, []string{silent, silent, "ORes 01"}},
		{"one is missing", []authtest.Object{authtest.OReq(1, 3), authtest.OReq(3, 3)}, []string{silent, "ORes 02"}},
		{"out of order", []authtest.Object{authtest.OReq(2, 3), authtest.OReq(1, 3), authtest.OReq(3, 3)}, []string{silent, silent, "ORes 02"}},
		{"the first is missing", []authtest.Object{authtest.OReq(2, 2)}, []string{"ORes 02"}},
		{"another total", []authtest.Object{authtest.OReq(1, 3), authtest.OReq(2, 2)}, []string{silent, "ORes 02"}},
		{"beyond the total", []authtest.Object{authtest.OReq(1, 2), authtest.OReq(3, 2)}, []string{silent, "ORes 02"}},
		{"delivered twice",
			[]authtest.Object{authtest.OReq(1, 2), authtest.OReq(1, 2), authtest.OReq(2, 2), authtest.OReq(2, 2)},
			[]string{silent, silent, "ORes 01", "ORes 01"}},
		{"begun anew", []authtest.Object{authtest.OReq(1, 2), authtest.OReq(3, 3), authtest.OReq(1, 2), authtest.OReq(2, 2)},
			[]string{silent, "ORes 02", silent, "ORes 01"}},
		{"a fault", []authtest.Object{authtest.With(authtest.OReq(1, 2), "opSeverity", "09")}, []string{"Erro 207 opSeverity"}},
		{"a fault on the way",
			[]authtest.Object{authtest.OReq(1, 3), authtest.With(authtest.OReq(2, 3), "opSeverity", "09"), authtest.OReq(2, 3), authtest.OReq(3, 3)},
			[]string{silent, "Erro 207 opSeverity", silent, "ORes 02"}},
		{"a fault after the end",
			[]authtest.Object{authtest.OReq(1, 2), authtest.OReq(2, 2), authtest.With(authtest.OReq(2, 2), "opSeverity", "09"), authtest.OReq(2, 2)},
			[]string{silent, "ORes 01", "Erro 207 opSeverity", "ORes 01"}},
		{"an older version", []authtest.Object{authtest.With(authtest.OReq(1, 1), "messageVersion", "2.2.0")}, []string{"Erro 101 Invalid Message Type"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := authtest.NewWorld()
			nodes := []*session.Engine{w.NewEngine(0), w.NewEngine(time.Second)} // in turns: any node takes any message
			ids := make(map[string]bool)
			for i, post := range tt.post {
				got := nodes[i%2].Receive(t.Context(), []string{"visa"}, post.JSON())
				word := silent
				if len(got.Body) > 0 {
					o := authtest.Parse(t, got.Body)
					word = strings.TrimSpace(strings.Join([]string{o.Text("messageType"), o.Text("errorCode") + o.Text("opStatus"), o.Text("errorDetail")}, " "))
					if o.Text("messageType") == "ORes" {
						id := o.Text("threeDSServerTransID")
						if ids[id] || id != got.ServerTransID || got.DSTransID != post.Text("dsTransID") || o.Text("dsTransID") != got.DSTransID ||
							o.Text("threeDSServerRefNumber") != "REF-2.3.1" || o.Text("messageVersion") != "2.3.1" || len(o) != 6 {
							t.Errorf("ORes %v with X-Request-ID %s, X-Response-ID %s", o, got.DSTransID, got.ServerTransID)
						}
						ids[id] = true
					}
				}
				if word != tt.want[i] {
					t.Errorf("message %d answered with %q, want %q", i+1, word, tt.want[i])
				}
			}
		})
	}
}

// TestOP05SequenceTimesOut: when the next message does not come within 3 s the directory server
// hears of it, once, and the sequence is over.
func TestOP05SequenceTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := authtest.NewWorld()
		e := w.NewEngine(0)
		e.Receive(t.Context(), []string{"visa"}, authtest.OReq(1, 3).JSON())
		time.Sleep(2 * time.Second)
		e.Receive(t.Context(), []string{"visa"}, authtest.OReq(2, 3).JSON())
		time.Sleep(2999 * time.Millisecond)
		synctest.Wait()
		if len(w.Reported()) != 0 {
			t.Fatalf("told too early: %v", w.Reported())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		told := w.Reported()
		if len(told) != 1 || told[0].Code.String() != "402" || told[0].Component != "S" || told[0].DSTransID != authtest.OReq(2, 3).Text("dsTransID") {
			t.Fatalf("told %+v, want one Erro 402", told)
		}
		if got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, authtest.OReq(3, 3).JSON()).Body); got.Text("opStatus") != "02" {
			t.Errorf("the late one is answered with %v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(w.Reported()); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}

// TestFaultEndsOperations: after a sequence that ended with a faulty message, the directory server gets only the Erro
// that answered it (OP-06), whichever node got the message before.
func TestFaultEndsOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := authtest.NewWorld()
		nodes := []*session.Engine{w.NewEngine(0), w.NewEngine(-5 * time.Second)}
		nodes[0].Receive(t.Context(), []string{"visa"}, authtest.OReq(1, 3).JSON())
		time.Sleep(time.Second)
		bad := authtest.With(authtest.OReq(2, 3), "opExpDate", "20260230")
		if got := authtest.Parse(t, nodes[1].Receive(t.Context(), []string{"visa"}, bad.JSON()).Body); got.Text("errorCode") != "203" {
			t.Errorf("answered with %v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if told := w.Reported(); len(told) > 0 {
			t.Errorf("told the directory server %v", told)
		}
	})
}

// TestOperationStoreGone: a message that cannot be recorded is not acknowledged, whether it is the first or the last.
func TestOperationStoreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := authtest.NewWorld()
		fault := func(string) (bool, error) { return false, errors.New("store fault") }
		for n := 1; n <= 2; n++ {
			w.Fault = fault
			got := authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"}, authtest.OReq(n, 2).JSON()).Body)
			if got.Text("errorCode") != "403" {
				t.Errorf("%d of 2: answered with %v, want 403", n, got)
			}
			w.Works()
			w.NewEngine(0).Receive(t.Context(), []string{"visa"}, authtest.OReq(n, 2).JSON())
		}
	})
}

// TestOperationsAgain: a sequence may start again at any time, even while its id is still taken by one that is over. A
// sequence goes on across any boundary of time, also between nodes whose clocks differ.
func TestOperationsAgain(t *testing.T) {
	for _, tt := range []struct {
		begin time.Duration // from the full hour
		gap   time.Duration // between two messages
		again time.Duration // from the end of the first to the second sequence
	}{
		{0, time.Second, 10*time.Minute - time.Second},
		{0, time.Second, 10 * time.Minute},
		{0, time.Second, 10*time.Minute + 5*time.Second},
		{0, time.Second, 10*time.Minute + 15*time.Second},
		{10*time.Minute - time.Second, time.Second, 10*time.Minute + 30*time.Second},
		{10*time.Minute - time.Millisecond, time.Millisecond, 20 * time.Minute},
		{10 * time.Minute, 2 * time.Second, 19*time.Minute + 59*time.Second},
		{10*time.Minute - 5*time.Second, 2900 * time.Millisecond, 25 * time.Hour},
		{5 * time.Second, time.Millisecond, 9*time.Minute + 57*time.Second},
		{10*time.Minute - 5*time.Second, time.Millisecond, time.Second},
	} {
		for first := range 3 { // of the nodes
			synctest.Test(t, func(t *testing.T) {
				w := authtest.NewWorld()
				w.Unswept = true
				w.Pass(tt.begin)
				nodes := []*session.Engine{w.NewEngine(0), w.NewEngine(-5 * time.Second), w.NewEngine(5 * time.Second)}
				for range 3 {
					for n := 1; n <= 4; n++ {
						got := nodes[(n+first)%3].Receive(t.Context(), []string{"visa"}, authtest.OReq(n, 4).JSON())
						switch {
						case n < 4 && len(got.Body) > 0:
							t.Fatalf("%v: message %d, at %v: %s", tt, n, w.Clock(), got.Body)
						case n == 4 && authtest.Parse(t, got.Body).Text("opStatus") != "01":
							t.Fatalf("%v: the last, at %v: %s", tt, w.Clock(), got.Body)
						}
						w.Pass(tt.gap)
						time.Sleep(tt.gap)
					}
					w.Pass(tt.again)
					time.Sleep(tt.again)
				}
				if told := w.Reported(); len(told) > 0 {
					t.Errorf("%v: told the directory server %v", tt, told)
				}
			})
		}
	}
}
