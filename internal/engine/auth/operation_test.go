package auth_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
)

const seqID = "50000000-0000-4000-8000-000000000001"

// oreq is message n of a sequence.
func oreq(n, total int) object {
	return object{
		"messageType": "OReq", "messageVersion": "2.3.1", "dsReferenceNumber": "DS",
		"dsTransID":  fmt.Sprintf("d0000000-0000-4000-8000-0000000000%02d", n),
		"opSeq":      object{"seqId": seqID, "seqNum": fmt.Sprintf("%02d", n), "seqTotal": fmt.Sprintf("%02d", total)},
		"opCategory": "02", "opDescription": "Maintenance on Sunday", "opExpDate": "20261231", "opSeverity": "03",
	}
}

// TestOperationMessages posts sequences: what each message is answered with
// (OP-02, OP-03, OP-06, OP-07, VO-02, VO-03, MX-14).
func TestOperationMessages(t *testing.T) {
	const silent = "200" // and nothing else
	for _, tt := range []struct {
		name string
		post []object
		want []string
	}{
		{"one alone", []object{oreq(1, 1)}, []string{"ORes 01"}},
		{"three in order", []object{oreq(1, 3), oreq(2, 3), oreq(3, 3)}, []string{silent, silent, "ORes 01"}},
		{"one is missing", []object{oreq(1, 3), oreq(3, 3)}, []string{silent, "ORes 02"}},
		{"out of order", []object{oreq(2, 3), oreq(1, 3), oreq(3, 3)}, []string{silent, silent, "ORes 02"}},
		{"the first is missing", []object{oreq(2, 2)}, []string{"ORes 02"}},
		{"another total", []object{oreq(1, 3), oreq(2, 2)}, []string{silent, "ORes 02"}},
		{"beyond the total", []object{oreq(1, 2), oreq(3, 2)}, []string{silent, "ORes 02"}},
		{"delivered twice", []object{oreq(1, 2), oreq(1, 2), oreq(2, 2), oreq(2, 2)}, []string{silent, silent, "ORes 01", "ORes 01"}},
		{"begun anew", []object{oreq(1, 2), oreq(3, 3), oreq(1, 2), oreq(2, 2)}, []string{silent, "ORes 02", silent, "ORes 01"}},
		{"a fault", []object{with(oreq(1, 2), "opSeverity", "09")}, []string{"Erro 207 opSeverity"}},
		{"a fault on the way", []object{oreq(1, 3), with(oreq(2, 3), "opSeverity", "09"), oreq(2, 3), oreq(3, 3)},
			[]string{silent, "Erro 207 opSeverity", silent, "ORes 02"}},
		{"a fault after the end", []object{oreq(1, 2), oreq(2, 2), with(oreq(2, 2), "opSeverity", "09"), oreq(2, 2)},
			[]string{silent, "ORes 01", "Erro 207 opSeverity", "ORes 01"}},
		{"an older version", []object{with(oreq(1, 1), "messageVersion", "2.2.0")}, []string{"Erro 101 Invalid Message Type"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			nodes := []*auth.Engine{w.engine(0), w.engine(time.Second)} // in turns: any node takes any message
			ids := make(map[string]bool)
			for i, post := range tt.post {
				got := nodes[i%2].Receive(t.Context(), []string{"visa"}, post.json())
				word := silent
				if len(got.Body) > 0 {
					o := parse(t, got.Body)
					word = strings.TrimSpace(strings.Join([]string{o.text("messageType"), o.text("errorCode") + o.text("opStatus"), o.text("errorDetail")}, " "))
					if o.text("messageType") == "ORes" {
						id := o.text("threeDSServerTransID")
						if ids[id] || id != got.ServerTransID || got.DSTransID != post.text("dsTransID") || o.text("dsTransID") != got.DSTransID ||
							o.text("threeDSServerRefNumber") != "REF-2.3.1" || o.text("messageVersion") != "2.3.1" || len(o) != 6 {
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

func with(o object, name string, value any) object {
	o[name] = value
	return o
}

// TestOP05SequenceTimesOut: when the next message does not come within 3 s the directory server
// hears of it, once, and the sequence is over.
func TestOP05SequenceTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		e := w.engine(0)
		e.Receive(t.Context(), []string{"visa"}, oreq(1, 3).json())
		time.Sleep(2 * time.Second)
		e.Receive(t.Context(), []string{"visa"}, oreq(2, 3).json())
		time.Sleep(2999 * time.Millisecond)
		synctest.Wait()
		if len(w.reported()) != 0 {
			t.Fatalf("told too early: %v", w.reported())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		told := w.reported()
		if len(told) != 1 || told[0].Code.String() != "402" || told[0].Component != "S" || told[0].DSTransID != oreq(2, 3).text("dsTransID") {
			t.Fatalf("told %+v, want one Erro 402", told)
		}
		if got := parse(t, e.Receive(t.Context(), []string{"visa"}, oreq(3, 3).json()).Body); got.text("opStatus") != "02" {
			t.Errorf("the late one is answered with %v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(w.reported()); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}

// TestFaultEndsOperations: of a sequence that ended with a faulty message the directory
// server hears no more than the Erro it was answered with (OP-06), on whichever node
// the message before had come in.
func TestFaultEndsOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		nodes := []*auth.Engine{w.engine(0), w.engine(-5 * time.Second)}
		nodes[0].Receive(t.Context(), []string{"visa"}, oreq(1, 3).json())
		time.Sleep(time.Second)
		bad := with(oreq(2, 3), "opExpDate", "20260230")
		if got := parse(t, nodes[1].Receive(t.Context(), []string{"visa"}, bad.json()).Body); got.text("errorCode") != "203" {
			t.Errorf("answered with %v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if told := w.reported(); len(told) > 0 {
			t.Errorf("told the directory server %v", told)
		}
	})
}

// TestOperationStoreGone: a message that cannot be noted is not acknowledged, be it the
// first or the last.
func TestOperationStoreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		fault := func(string) (bool, error) { return false, errors.New("store fault") }
		for n := 1; n <= 2; n++ {
			w.fault = fault
			got := parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, oreq(n, 2).json()).Body)
			if got.text("errorCode") != "403" {
				t.Errorf("%d of 2: answered with %v, want 403", n, got)
			}
			w.works()
			w.engine(0).Receive(t.Context(), []string{"visa"}, oreq(n, 2).json())
		}
	})
}

// TestOperationsAgain: a sequence may begin anew whenever it likes, though its id is
// still taken by one that is over; and one goes on across any boundary of time, also
// between nodes whose clocks differ.
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
				w := newWorld()
				w.unswept = true
				w.pass(tt.begin)
				nodes := []*auth.Engine{w.engine(0), w.engine(-5 * time.Second), w.engine(5 * time.Second)}
				for range 3 {
					for n := 1; n <= 4; n++ {
						got := nodes[(n+first)%3].Receive(t.Context(), []string{"visa"}, oreq(n, 4).json())
						switch {
						case n < 4 && len(got.Body) > 0:
							t.Fatalf("%v: message %d, at %v: %s", tt, n, w.clock(), got.Body)
						case n == 4 && parse(t, got.Body).text("opStatus") != "01":
							t.Fatalf("%v: the last, at %v: %s", tt, w.clock(), got.Body)
						}
						w.pass(tt.gap)
						time.Sleep(tt.gap)
					}
					w.pass(tt.again)
					time.Sleep(tt.again)
				}
				if told := w.reported(); len(told) > 0 {
					t.Errorf("%v: told the directory server %v", tt, told)
				}
			})
		}
	}
}
