package auth_test

import (
	"context"
	"testing"
	"time"
)

// challengedAt is challenged for one version: a challenge without a result, and its AReq.
func challengedAt(t *testing.T, w *world, version string) object {
	t.Helper()
	e := w.engine(0)
	req := areq(version, preauth(t, e, shop))
	w.reply = func(_ string, o object) ([]byte, error) { return ares(o, "C"), nil }
	if _, _, err := e.Authenticate(t.Context(), shop, req.json()); err != nil {
		t.Fatal(err)
	}
	return req
}

// TestP1RefusedResultIsTold: case 12 and its siblings. The requestor hears that an RReq was refused, on every node,
// until a valid one has come. An RReq of another directory server is none.
func TestP1RefusedResultIsTold(t *testing.T) {
	for name, change := range map[string]object{
		"an empty challengeCancel":    {"challengeCancel": ""},
		"an empty transStatusReason":  {"transStatusReason": ""},
		"no transStatusReason":        {"transStatusReason": nil},
		"a count that is no number":   {"interactionCounter": "x"},
		"a transStatus of challenges": {"transStatus": "C"},
		"an eci of three characters":  {"eci": "055"},
	} {
		t.Run(name, func(t *testing.T) { wantRefusedResultTold(t, change) })
	}
}

func wantRefusedResultTold(t *testing.T, change object) {
	const pending = "305 No response from directory server yet"
	const refused = "305 A result was received and refused; no valid one has been received yet"
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		w := newWorld()
		req := challengedAt(t, w, version)
		ask := object{"threeDSServerTransID": req["threeDSServerTransID"]}.json()
		say := func(when, want string) {
			t.Helper()
			if _, err := w.engine(0).Result(t.Context(), shop, ask); told(err) != want {
				t.Errorf("%s, %s: %s, want %s", version, when, told(err), want)
			}
		}
		say("before", pending)
		broken := rreq(req, "N", 1)
		for member, value := range change {
			if broken[member] = value; value == nil {
				delete(broken, member)
			}
		}
		bad := broken.json()
		w.engine(0).Receive(t.Context(), []string{"mastercard"}, bad)
		say("after an RReq of another directory", pending)
		for range 2 {
			got := parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, bad).Body)
			if got.text("messageType") != "Erro" {
				t.Fatalf("%s: %v, want an Erro", version, got)
			}
			say("after a refused RReq", refused)
		}
		if got := parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, rreq(req, "Y", 1).json()).Body); got.text("messageType") != "RRes" {
			t.Fatalf("%s: a valid RReq afterwards: %v", version, got)
		}
		say("after a valid one", "<nil>")
	}
}

// TestP1RefusedResultWithoutStore: a store that cannot note the refusal changes nothing of the answer
// to the directory server.
func TestP1RefusedResultWithoutStore(t *testing.T) {
	w := newWorld()
	req := challengedAt(t, w, "2.2.0")
	w.fault = func(string) (bool, error) { return false, errFault }
	got := parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, with(rreq(req, "N", 1), "challengeCancel", "").json()).Body)
	if got.text("errorCode") != "203" && got.text("errorCode") != "201" {
		t.Errorf("%v, want the Erro about the RReq", got)
	}
	w.works()
	if got := parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, rreq(req, "Y", 1).json()).Body); got.text("messageType") != "RRes" {
		t.Errorf("a valid RReq afterwards: %v", got)
	}
}

// TestP1ExpiredIsToldToTheOwner: when a challenge has ended without a result, its owner hears for a
// day that it has expired, and everybody else what they hear of an unknown id.
func TestP1ExpiredIsToldToTheOwner(t *testing.T) {
	const unknown, expired = "203 Unknown threeDSServerTransID", "203 Expired"
	for name, wait := range map[string]time.Duration{"C": 24 * time.Hour, "D": 10*time.Minute + time.Hour + 30*time.Second, "Erro": 300 * time.Second} {
		w := newWorld()
		var req object
		if name == "D" {
			req = decoupled(t, w, "2.2.0", 10)
		} else {
			req = challengedAt(t, w, "2.2.0")
		}
		ask := object{"threeDSServerTransID": req["threeDSServerTransID"]}
		if name == "Erro" {
			erro := with(ask, "messageType", "Erro")
			erro["messageVersion"], erro["errorCode"], erro["errorComponent"] = "2.2.0", "402", "D"
			w.engine(0).Receive(context.Background(), []string{"visa"}, erro.json())
			delete(ask, "messageType")
		}
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{wait, expired}, {24*time.Hour - time.Millisecond, expired}, {time.Millisecond, unknown}} {
			w.pass(step.after)
			if _, err := w.engine(0).Result(t.Context(), shop, ask.json()); told(err) != step.want {
				t.Errorf("%s, %v later: %s, want %s", name, step.after, told(err), step.want)
			}
			if _, err := w.engine(0).Result(t.Context(), other, ask.json()); told(err) != unknown {
				t.Errorf("%s, another merchant: %s, want %s", name, told(err), unknown)
			}
		}
	}
}
