package auth_test

import (
	"context"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/authtest"
)

// challengedAt is challenged for one version: a challenge without a result, and its AReq.
func challengedAt(t *testing.T, w *authtest.World, version string) authtest.Object {
	t.Helper()
	e := w.NewEngine(0)
	req := authtest.AReq(version, authtest.Preauth(t, e, authtest.Shop))
	w.Reply = func(_ string, o authtest.Object) ([]byte, error) { return authtest.ARes(o, "C"), nil }
	if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); err != nil {
		t.Fatal(err)
	}
	return req
}

// TestP1RefusedResultIsTold: case 12 and its siblings. The requestor hears that an RReq was refused, on every node,
// until a valid one has come. An RReq of another directory server does not count.
func TestP1RefusedResultIsTold(t *testing.T) {
	for name, change := range map[string]authtest.Object{
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

func wantRefusedResultTold(t *testing.T, change authtest.Object) {
	const pending = "305 No response from directory server yet"
	const refused = "305 A result was received and refused; no valid one has been received yet"
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		w := authtest.NewWorld()
		req := challengedAt(t, w, version)
		ask := authtest.Object{"threeDSServerTransID": req["threeDSServerTransID"]}.JSON()
		say := func(when, want string) {
			t.Helper()
			if _, err := w.NewEngine(0).Result(t.Context(), authtest.Shop, ask); authtest.Told(err) != want {
				t.Errorf("%s, %s: %s, want %s", version, when, authtest.Told(err), want)
			}
		}
		say("before", pending)
		broken := authtest.RReq(req, "N", 1)
		for member, value := range change {
			if broken[member] = value; value == nil {
				delete(broken, member)
			}
		}
		bad := broken.JSON()
		w.NewEngine(0).Receive(t.Context(), []string{"mastercard"}, bad)
		say("after an RReq of another directory", pending)
		for range 2 {
			got := authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"}, bad).Body)
			if got.Text("messageType") != "Erro" {
				t.Fatalf("%s: %v, want an Erro", version, got)
			}
			say("after a refused RReq", refused)
		}
		if got := authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"},
			authtest.RReq(req, "Y", 1).JSON()).Body); got.Text("messageType") != "RRes" {
			t.Fatalf("%s: a valid RReq afterwards: %v", version, got)
		}
		say("after a valid one", "<nil>")
	}
}

// TestP1RefusedResultWithoutStore: if the store cannot record the refusal, the answer to the directory server stays the
// same.
func TestP1RefusedResultWithoutStore(t *testing.T) {
	w := authtest.NewWorld()
	req := challengedAt(t, w, "2.2.0")
	w.Fault = func(string) (bool, error) { return false, authtest.ErrFault }
	got := authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"}, authtest.With(authtest.RReq(req, "N", 1), "challengeCancel", "").JSON()).Body)
	if got.Text("errorCode") != "203" && got.Text("errorCode") != "201" {
		t.Errorf("%v, want the Erro about the RReq", got)
	}
	w.Works()
	if got := authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"}, authtest.RReq(req, "Y", 1).JSON()).Body); got.Text("messageType") != "RRes" {
		t.Errorf("a valid RReq afterwards: %v", got)
	}
}

// TestP1ExpiredIsToldToTheOwner: when a challenge has ended without a result, its owner hears for a day that it has
// expired, and all other merchants get the answer for an unknown id.
func TestP1ExpiredIsToldToTheOwner(t *testing.T) {
	const unknown, expired = "203 Unknown threeDSServerTransID", "203 Expired"
	for name, wait := range map[string]time.Duration{"C": 24 * time.Hour, "D": 10*time.Minute + time.Hour + 30*time.Second, "Erro": 300 * time.Second} {
		w := authtest.NewWorld()
		var req authtest.Object
		if name == "D" {
			req = authtest.Decoupled(t, w, "2.2.0", 10)
		} else {
			req = challengedAt(t, w, "2.2.0")
		}
		ask := authtest.Object{"threeDSServerTransID": req["threeDSServerTransID"]}
		if name == "Erro" {
			erro := authtest.With(ask, "messageType", "Erro")
			erro["messageVersion"], erro["errorCode"], erro["errorComponent"] = "2.2.0", "402", "D"
			w.NewEngine(0).Receive(context.Background(), []string{"visa"}, erro.JSON())
			delete(ask, "messageType")
		}
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{wait, expired}, {24*time.Hour - time.Millisecond, expired}, {time.Millisecond, unknown}} {
			w.Pass(step.after)
			if _, err := w.NewEngine(0).Result(t.Context(), authtest.Shop, ask.JSON()); authtest.Told(err) != step.want {
				t.Errorf("%s, %v later: %s, want %s", name, step.after, authtest.Told(err), step.want)
			}
			if _, err := w.NewEngine(0).Result(t.Context(), authtest.Other, ask.JSON()); authtest.Told(err) != unknown {
				t.Errorf("%s, another merchant: %s, want %s", name, authtest.Told(err), unknown)
			}
		}
	}
}
