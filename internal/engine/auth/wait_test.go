package auth_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/authtest"
)

// The duties that take longer than a test can wait, groups DA, TO, VR and TM.

// TestDecoupledWait: the result of a decoupled authentication is taken until
// DecMaxTime, an hour and 30 s are over, and refused afterwards; until it is
// there the requestor hears that it is pending, and when the wait is over, that no result will come (DA-03, DA-04,
// DA-10, TO-09, VR-19, ID-07).
func TestDecoupledWait(t *testing.T) {
	const grace = time.Hour + 30*time.Second
	for _, version := range []string{"2.2.0", "2.3.1"} {
		for _, minutes := range []int{1, 60, 10080} {
			longest := time.Duration(minutes)*time.Minute + grace
			for _, tt := range []struct {
				name     string
				at       time.Duration
				msg, got string // the answer to the RReq, and to the requestor before it
			}{
				{"at once", time.Second, "RRes", "305"},
				{"when the cardholder's time is over", time.Duration(minutes) * time.Minute, "RRes", "305"},
				{"at the last moment", longest - time.Second, "RRes", "305"},
				{"too late", longest + time.Second, "Erro301", "203"},
			} {
				t.Run(fmt.Sprintf("%s, %d minutes, %s", version, minutes, tt.name), func(t *testing.T) {
					w := authtest.NewWorld()
					req := authtest.Decoupled(t, w, version, minutes)
					w.Pass(tt.at)
					e := w.NewEngine(0)
					ask := authtest.Object{"threeDSServerTransID": req["threeDSServerTransID"]}.JSON()
					if _, err := e.Result(t.Context(), authtest.Shop, ask); authtest.CodeOf(err) != tt.got {
						t.Errorf("Result: %v, want %s", err, tt.got)
					}
					answer := authtest.Parse(t, e.Receive(context.Background(), []string{"visa"}, authtest.DecoupledResult(req).JSON()).Body)
					if said := answer.Text("messageType") + answer.Text("errorCode"); said != tt.msg {
						t.Errorf("Receive = %v, want %s", answer, tt.msg)
					}
					if tt.msg == "RRes" && answer.Text("resultsStatus") != "01" {
						t.Errorf("resultsStatus %q, want 01", answer.Text("resultsStatus"))
					}
				})
			}
		}
	}
}

// TestChallengeWait: a challenge is remembered for longer than any may last: 30 s to the
// first CReq, ten minutes for each of many steps, and a minute for the RReq (ID-07, TO-05).
func TestChallengeWait(t *testing.T) {
	for _, after := range []time.Duration{30 * time.Second, 10*time.Minute - time.Second, 20 * 11 * time.Minute, 24*time.Hour - time.Second} {
		w := authtest.NewWorld()
		e := w.NewEngine(0)
		req := authtest.AReq("2.3.1", authtest.Preauth(t, e, authtest.Shop))
		w.Reply = func(_ string, o authtest.Object) ([]byte, error) { return authtest.ARes(o, "C"), nil }
		if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); err != nil {
			t.Fatal(err)
		}
		w.Pass(after)
		got := authtest.Parse(t, e.Receive(context.Background(), []string{"visa"}, authtest.RReq(req, "Y", 1).JSON()).Body)
		if got.Text("messageType") != "RRes" {
			t.Errorf("an RReq after %v: %v, want an RRes", after, got)
		}
	}
}

// TestMethodAge: an id, and with it what a 3DS Method learned, is good for 80 s,
// so that no AReq leaves more than ten minutes after its method (TM-13, TO-07).
func TestMethodAge(t *testing.T) {
	for _, tt := range []struct {
		after time.Duration
		code  string
	}{{79 * time.Second, ""}, {81 * time.Second, "301"}, {11 * time.Minute, "301"}} {
		w := authtest.NewWorld()
		e := w.NewEngine(0)
		req := authtest.AReq("2.3.1", authtest.Preauth(t, e, authtest.Shop))
		w.Pass(tt.after)
		if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); authtest.CodeOf(err) != tt.code {
			t.Errorf("after %v: %v, want %q", tt.after, err, tt.code)
		}
	}
}
