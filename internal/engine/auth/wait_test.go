package auth_test

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// The duties whose time nobody can sit out, groups DA, TO, VR and TM.

// decoupled begins a decoupled authentication of at most so many minutes.
func decoupled(t *testing.T, w *world, version string, minutes int) object {
	t.Helper()
	e := w.engine(0)
	req := areq(version, preauth(t, e, shop))
	req["threeDSRequestorDecReqInd"], req["threeDSRequestorDecMaxTime"] = "Y", fmt.Sprintf("%05d", minutes)
	w.reply = func(_ string, o object) ([]byte, error) { return ares(o, "D"), nil }
	if _, _, err := e.Authenticate(t.Context(), shop, req.json()); err != nil {
		t.Fatal(err)
	}
	return req
}

// decoupledResult is what the issuer sends at the end of it.
func decoupledResult(req object) object {
	o := rreq(req, "Y", 1)
	delete(o, "interactionCounter")
	if req.text("messageVersion") == "2.2.0" {
		o["authenticationType"] = "04"
	}
	return o
}

// TestDecoupledWait: the result of a decoupled authentication is taken until
// DecMaxTime, an hour and 30 s are over, and refused afterwards; until it is
// there the requestor hears that it is pending, and when the wait is over that
// nothing will come (DA-03, DA-04, DA-10, TO-09, VR-19, ID-07).
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
					w := newWorld()
					req := decoupled(t, w, version, minutes)
					w.pass(tt.at)
					e := w.engine(0)
					ask := object{"threeDSServerTransID": req["threeDSServerTransID"]}.json()
					if _, err := e.Result(t.Context(), shop, ask); codeOf(err) != tt.got {
						t.Errorf("Result: %v, want %s", err, tt.got)
					}
					answer := parse(t, e.Receive(context.Background(), []string{"visa"}, decoupledResult(req).json()).Body)
					if said := answer.text("messageType") + answer.text("errorCode"); said != tt.msg {
						t.Errorf("Receive = %v, want %s", answer, tt.msg)
					}
					if tt.msg == "RRes" && answer.text("resultsStatus") != "01" {
						t.Errorf("resultsStatus %q, want 01", answer.text("resultsStatus"))
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
		w := newWorld()
		e := w.engine(0)
		req := areq("2.3.1", preauth(t, e, shop))
		w.reply = func(_ string, o object) ([]byte, error) { return ares(o, "C"), nil }
		if _, _, err := e.Authenticate(t.Context(), shop, req.json()); err != nil {
			t.Fatal(err)
		}
		w.pass(after)
		got := parse(t, e.Receive(context.Background(), []string{"visa"}, rreq(req, "Y", 1).json()).Body)
		if got.text("messageType") != "RRes" {
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
		w := newWorld()
		e := w.engine(0)
		req := areq("2.3.1", preauth(t, e, shop))
		w.pass(tt.after)
		if _, _, err := e.Authenticate(t.Context(), shop, req.json()); codeOf(err) != tt.code {
			t.Errorf("after %v: %v, want %q", tt.after, err, tt.code)
		}
	}
}
