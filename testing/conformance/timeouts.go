package conformance

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// timeoutChecks is timeouts.
var timeoutChecks = []check{
	{id: "TO-01", waits: true, do: func(t *T) { // the time limit of an AReq is configured, for each directory or for all
		l := t.ownLab(plan{
			sections:    map[string]string{"timeouts": "{authentication: 4s}"},
			directories: []directory{{scheme: "visa"}, {scheme: "mastercard", keys: map[string]string{"timeout": "1s"}}},
		})
		t.flowIn(l, v220, "BRW").card("mastercard", cardMastercard).wantTimeout(time.Second)
		x := t.flowIn(l, v220, "BRW")
		say := x.say
		x.setAnswer(func(q *request) reply {
			beSlow(1200 * time.Millisecond)
			return say(q)
		}).wantAccepted()
		t.flowIn(l, v220, "BRW").wantTimeout(4 * time.Second)
	}},
	{id: "TO-02", waits: true, do: func(t *T) { // 10 s unless configured
		l := t.ownLab(plan{sections: map[string]string{"timeouts": "{}"}})
		t.flowIn(l, v220, "BRW").wantTimeout(10 * time.Second)
	}},
	{id: "TO-03", waits: true, do: func(t *T) { // when the time is over the connection is closed, and what comes later is ignored
		var all []func()
		for _, v := range allVersions {
			all = append(all, func() { t.flow(v, "BRW").wantClosedAfterTimeout() })
		}
		t.runTogether(all...)
	}},
	{id: "TO-04", waits: true, do: func(t *T) { // an RReq is answered within 3 s, under load too
		const many = 60
		flows := make([]*flow, many)
		for i := range flows {
			flows[i] = t.flow(allVersions[i%3], "BRW").startChallenge()
		}
		// Beside them go as many bodies that are no message and need no work. How long these take is the machine's doing.
		took, idle := make([]time.Duration, many), make([]time.Duration, many)
		var all sync.WaitGroup
		for i, x := range flows {
			body := x.rreqOf("Y").bytes()
			all.Go(func() {
				start := time.Now()
				got, err := x.d.post(x.l.results, body)
				if took[i] = time.Since(start); err != nil {
					t.Errorf("%s: %v", x, err)
					return
				}
				x.wantRRes(got, "01")
			})
			all.Go(func() {
				start := time.Now()
				if _, err := x.d.post(x.l.results, []byte("{}")); err != nil {
					t.Errorf("%s: a body that is no message: %v", x, err)
				}
				idle[i] = time.Since(start)
			})
		}
		all.Wait()
		if most := 3*time.Second + slices.Max(idle); slices.Max(took) > most {
			t.Errorf("the slowest RRes took %v, want 3 s at the most; a body that needs no work took %v", slices.Max(took), slices.Max(idle))
		}
	}},
	{id: "TO-06", waits: true, do: func(t *T) { shopMethodLimit(t, allVersions...) }},
	{id: "TO-11", waits: true, do: func(t *T) { // a PRes may take longer than an ARes
		a := t.scriptedDS(v231, nil, map[string]string{"timeouts": "{authentication: 1s}"})
		q := a.nextPReq(t)
		beSlow(2500 * time.Millisecond)
		q.answer <- reply{body: a.pres("", a.entries(0, 1))(q.o)}
		a.awaitOutcome(t, q)
		a.wantRanges(t, 0, 1)
	}},
	{id: "TO-13", waits: true, do: func(t *T) { // sdkMaxTimeout is 5 minutes at least
		for _, v := range allVersions {
			t.flow(v, "APP", set("sdkMaxTimeout", "04")).wantRefused("203", "sdkMaxTimeout")
			t.flow(v, "APP", set("sdkMaxTimeout", "4")).wantRefused("203", "sdkMaxTimeout")
			if got := t.flow(v, "APP", set("sdkMaxTimeout", "05")).areq().text("sdkMaxTimeout"); got != "05" {
				t.Errorf("%s: sdkMaxTimeout %q, want 05", v, got)
			}
		}
	}},
}

// beSlow is how long a directory server takes for an answer. The server under test has a limit for that, in real time.
func beSlow(d time.Duration) { time.Sleep(d) }

// wantClosedAfterTimeout has the directory server be silent until the time limit is over, and wants the
// transaction to be closed then.
func (x *flow) wantClosedAfterTimeout() {
	var ended atomic.Bool
	x.setAnswer(func(*request) reply { return reply{silent: true, ended: func() { ended.Store(true) }} })
	got := x.auth()
	if got.status != 400 || got.o.text("errorCode") != "405" || got.o.text("errorDetail") != "Connection timeout" || got.o.text("errorMessageType") != "AReq" {
		x.t.Errorf("%s: %d %s, want Erro 405, Connection timeout", x, got.status, got.body)
	}
	if !waitUntil(stepTimeout, ended.Load) {
		x.t.Errorf("%s: %v after the limit the connection is still open", x, stepTimeout)
	}
	// Usually at once, but a server under load may take a while to store it.
	if !waitUntil(2*stepTimeout, func() bool { return x.result().o.text("errorCode") == "203" }) {
		x.t.Errorf("%s: /postauth after the time limit: %s, want Erro 203", x, x.result().body)
	}
	if got := x.call("/auth", x.req.bytes(x.edits...)); got.o.text("errorCode") != "301" {
		x.t.Errorf("%s: /auth again: %s, want Erro 301", x, got.body)
	}
}

// wantTimeout wants an authentication to end with Erro 405 when the time limit is over, and
// not before.
func (x *flow) wantTimeout(limit time.Duration) {
	x.preauth()
	start := time.Now()
	x.setAnswer(func(*request) reply { return reply{silent: true} })
	got := x.auth()
	took := time.Since(start)
	if got.status != 400 || got.o.text("errorCode") != "405" {
		x.t.Errorf("%s: %d %s, want Erro 405", x, got.status, got.body)
	}
	if took < limit-50*time.Millisecond || took > limit+3*time.Second-time.Millisecond {
		x.t.Errorf("%s: /auth took %v, want %v", x, took, limit)
	}
}
