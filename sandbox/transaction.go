package sandbox

import (
	"sync"
	"time"

	"github.com/openthreeds/threeds/sandbox/internal/cards"
	"github.com/openthreeds/threeds/sandbox/internal/scenario"
)

// channels as deviceChannel writes them.
const (
	app     = "01"
	browser = "02"
	threeRI = "03"
)

// A transaction is one AReq that was accepted, and what becomes of it.
type transaction struct {
	box     *Sandbox
	dir     *directory
	deed    cards.Outcome
	fault   scenario.Fault
	areq    received
	areqRaw []byte
	aresRaw []byte // as written, without what Alter made of it
	ids     ids
	version string
	channel string
	payment bool
	ares    string // transStatus of the ARes

	confirmation string // challenge of Secure Payment Confirmation that the ARes has

	render *object
	sdk    *sdkChallenge // of an app's challenge; nil if there is none

	mu       sync.Mutex
	phase    phase
	creq     []byte    // the first one; it must not change
	session  string    // threeDSSessionData as it came
	tries    int       // codes that were entered
	judged   [2]string // the last action of the cardholder, and the page that it came from
	note     string    // what the page says
	wrong    bool      // and whether that is bad news
	cres     []byte
	outcome  string // transStatus of the CRes
	round    int    // counts the waits
	stopWait func() // ends the present one
}

// A phase is how far a challenge has come.
type phase int

const (
	waiting phase = iota // for the first CReq, or for the result of a challenge elsewhere
	asking               // a person has the page
	ended                // the result has been sent, or there never was a challenge
)

// A verdict is how a challenge ended.
type verdict struct {
	status string // transStatus of the RReq
	reason string
	cancel string // challengeCancel
}

var (
	passed      = verdict{status: "Y"}
	failed      = verdict{status: "N", reason: "01"}
	tooMany     = verdict{status: "N", reason: "19"}
	cancelled   = verdict{status: "N", reason: "01", cancel: "01"}
	notBegun    = verdict{status: "N", reason: "14", cancel: "05"}
	notFinished = verdict{status: "N", reason: "14", cancel: "04"}
	fallsBack   = verdict{status: "D", reason: "29"}
)

// decoupledVerdicts are how a decoupled authentication ends, by the word of the card table.
var decoupledVerdicts = map[string]verdict{
	"passes":   passed,
	"fails":    failed,
	"expires":  {status: "U", reason: "24", cancel: "03"},
	"rejected": {status: "R", reason: "11"},
}

// verdictOf is how a challenge ends that no person decides.
func verdictOf(o cards.Outcome) verdict {
	switch o.How {
	case "fails":
		return failed
	case "decoupled":
		return fallsBack
	}
	return passed
}

// start is where a transaction stands before its ARes leaves.
func (t *transaction) start() {
	switch {
	case t.ares != "C" && t.ares != "D":
		t.phase = ended
	case t.channel == app && t.deed.HasPerson():
		t.phase = asking
	}
}

// startNext starts what comes after the ARes has left: a result without a page, or
// the wait for a CReq. By then the next step may have been taken.
func (t *transaction) startNext() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.phase == ended || t.round > 0:
	case t.ares == "D":
		t.wait(t.box.DecoupledDelay, decoupledVerdicts[t.deed.How])
	case t.channel == browser:
		t.wait(t.box.FirstCReqTimeout, notBegun)
	case t.deed.HasPerson():
		t.wait(t.box.StepTimeout, notFinished)
	default:
		t.wait(t.box.AppDelay, verdictOf(t.deed))
	}
}

// wait lets the transaction end with v after d, unless it ends or waits again before. The caller holds the lock.
func (t *transaction) wait(d time.Duration, v verdict) {
	if t.stopWait != nil {
		t.stopWait()
	}
	t.round++
	round := t.round
	t.stopWait = t.box.runAfter(d, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.phase != ended && t.round == round {
			t.finish(v)
		}
	})
}

// decide ends a challenge that waits for a person, and reports whether it did.
func (t *transaction) decide(v verdict) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase != asking {
		return false
	}
	if v == passed || v == failed {
		t.tries++ // as by hand
	}
	t.finish(v)
	return true
}

// finish sends the result: to the 3-D Secure server first, and only then may the browser have it. The caller holds the
// lock, so that no other goroutine decides in between.
func (t *transaction) finish(v verdict) {
	t.phase = ended
	if t.stopWait != nil {
		t.stopWait()
	}
	v = t.applyFault(v)
	t.deliver(t.rreq(v))
	t.outcome = t.browserStatus(v.status)
	t.cres = t.writeCRes(v)
}

// applyFault is the verdict with this merchant.
func (t *transaction) applyFault(v verdict) verdict {
	switch f := t.fault; {
	case f.Is("RReq", "cancel") && t.ares == "C":
		return cancelled
	case f.Is("RReq", "timeout") && t.ares == "C":
		return notFinished
	case f.Is("result", "reason") && v.reason != "" && v.cancel == "":
		v.reason = f.Code
	}
	return v
}

// deliver sends the result. For merchants with that scenario it waits until the result is answered.
func (t *transaction) deliver(rreq []byte) {
	switch f := t.fault; {
	case f.Is("RReq", "never"):
		t.record(t.dir.name(), "server", "RReq", nil, "never sent")
	case f.Is("RReq", "late"):
		t.box.runAfter(t.box.LateDelay, func() { t.dir.sendResult(t, rreq) })
	case f.Is("RReq", "twice"):
		t.dir.sendResult(t, rreq)
		t.dir.sendResult(t, rreq)
	default:
		t.dir.sendResult(t, rreq)
	}
}

// asks says whether an app's challenge waits for somebody to decide it.
func (t *transaction) asks() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.channel == app && t.phase == asking
}

// record writes down one message, or a note in place of one.
func (t *transaction) record(from, to, kind string, body []byte, note string) {
	t.box.record(t.ids.server, from, to, kind, body, note)
}
