// Package auth is the engine of EMV 3-D Secure 2.x. Set the fields of an [Engine]. Then
// call [Engine.Preauth] to learn whether a card is enrolled, [Engine.Authenticate] for one
// authentication, [Engine.Receive] for what a directory server posts, such as the result
// of a challenge, and [Engine.Result] to fetch that result.
//
// Package check judges the requests, package txn keeps the transactions, and package session carries out what is done
// step by step. None of them knows HTTP, SQL or TLS. Each declares what it needs of a store, of the
// directory servers and of the card ranges; internal/run/server plugs them in.
//
//	requestor          Engine                    directory server
//	    │ Preauth ──────▶│ ranges, transid            │
//	    │ Authenticate ─▶│ check → claim ── AReq ────▶│
//	    │◀── ARes ───────│ commit ◀───────── ARes ────│
//	    │                │ Receive ◀──────── RReq ────│
//	    │                │ commit ────────── RRes ───▶│
//	    │ Result ───────▶│                            │
//
// What a caller gets is either bytes to send or a [message.Error], which the
// listener turns into an answer; any other error is a fault of the server.
package auth

import (
	"context"
	"encoding/hex"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// Directories reaches the directory servers.
type Directories interface {
	// Enter takes a place among the AReqs of a merchant that are on their way to the scheme's directory server. Leave
	// gives it back. If ok is false, the merchant has no place left.
	Enter(scheme, merchant string) (leave func(), ok bool)
	// Send posts an AReq of a merchant and returns the answer's body. Country is that of the
	// card's issuer, numeric by ISO 3166-1, "" when it is not known. An error means
	// that there is no answer; if it has a method Detail() string, that text goes
	// into the requestor's errorDetail.
	Send(ctx context.Context, scheme, merchant string, areq []byte, transID string, v message.Version,
		country string) ([]byte, error)
	// Report posts an Erro in the background, to the address that an AReq for the same
	// country goes to. It returns immediately, and goes on when ctx ends.
	Report(ctx context.Context, scheme, country string, erro []byte)
}

// decoupledGrace is how long an RReq is awaited beyond threeDSRequestorDecMaxTime: an
// hour for the ACS and half a minute for transmission (EMV 3DS 2.3.1, Req 346; we apply
// it to 2.2.0 as well).
const decoupledGrace = time.Hour + 30*time.Second

// An Observer is called with what requests lack, and with the outcomes of AReqs that did not come from an /auth. Its
// methods must not block.
type Observer interface {
	// Observe is called for each of these AReqs, with the outcome that an /auth would have noted, and with the
	// errorComponent of its Erro, "" if there is none. The name is "auth".
	Observe(name, scheme, outcome, component string, took time.Duration)
	// RulesChecked is called for each AReq that is checked against the rules of its scheme, with
	// what does not agree with them. The findings are shared: read only.
	RulesChecked(merchant, scheme string, findings []*scheme.Finding)
}

// A Recorder records what becomes known of a request on its way. Its methods must not
// block; they find the request by its context.
type Recorder interface {
	// Note notes an id, a word or a code, by the name that the messages have for it.
	// There are also "outcome": a transStatus, the opStatus of an ORes, an error code, "internal", "erro", "received",
	// "no_ranges" or "ok"; and "merchant", "scheme", "bin", "last4" and "cardHash", in hexadecimal.
	Note(ctx context.Context, name, value string)
	// NoteDirectory notes how long the directory server took.
	NoteDirectory(ctx context.Context, took time.Duration)
	// NoteChanges notes what was corrected in the request, without values.
	NoteChanges(ctx context.Context, changes []string)
}

// An Announcer makes events of authentications. Its methods must not block.
type Announcer interface {
	// Wants reports whether a merchant receives events.
	Wants(merchant string) bool
	// NewEvent returns the event of an authentication at its end, which comes, or will come, at a time.
	NewEvent(merchant string, a *Authentication, at time.Time) (*store.Event, error)
	// Announced is called when an event was stored.
	Announced()
}

// An Engine does the work. Set all fields but the optional ones before use; it
// is then safe for concurrent calls.
type Engine struct {
	check.Checker
	txn.Rows
	Directories Directories
	Observer    Observer // nil means that there is no observer
	Recorder    Recorder // nil means that nothing is recorded
	// Announcer makes the events for merchants; nil means that there are none.
	Announcer Announcer
	// CardHash returns the hash by which the journal finds a card; nil means that there is no journal.
	CardHash func(pan string) []byte
	// AddToJournal adds an entry to the journal, without waiting; nil means that there is no journal.
	AddToJournal func(journal.Entry)
	// JournalsPersonal is set where the operator has the journal keep the personal data of an AReq.
	JournalsPersonal bool
	// Journal has the authentications whose rows are gone; nil means that there is none.
	Journal Journal
	// Findings limits lines of the log; nil is no limit. Engines that follow each other in one process share it.
	Findings *FindingLimit

	inFlight sync.WaitGroup
}

// Drain waits until every AReq that has left has been answered and its outcome
// committed, or until ctx ends. It does not wait for Tasks.
func (e *Engine) Drain(ctx context.Context) error {
	return tasks.Wait(ctx, &e.inFlight)
}

// Note records what is known of the request of a context; nothing when value is "".
func (e *Engine) Note(ctx context.Context, name, value string) {
	if e.Recorder != nil && value != "" {
		e.Recorder.Note(ctx, name, value)
	}
}

// NoteEnd records how an operation ended: preauth, auth, postauth, rreq or oreq.
func (e *Engine) NoteEnd(ctx context.Context, operation, scheme, outcome string) {
	e.Note(ctx, "operation", operation)
	e.Note(ctx, "scheme", scheme)
	e.Note(ctx, "outcome", outcome)
}

// noteCard records as much of a card number as may be shown: the first eight digits
// and the last four; of one shorter than 16 digits the first six (PCI DSS 4.0, 3.4.1).
func (e *Engine) noteCard(ctx context.Context, pan string) {
	if e.Recorder == nil || !check.IsCardNumber(pan) {
		return
	}
	e.Note(ctx, "bin", check.BINOf(pan))
	e.Note(ctx, "last4", pan[len(pan)-4:])
	e.Note(ctx, "cardHash", hex.EncodeToString(e.HashCard(pan)))
}

// noteResult records the outcome of an authentication as a message tells it, after it
// was checked.
func (e *Engine) noteResult(ctx context.Context, m *message.Message) {
	if e.Recorder == nil {
		return
	}
	for _, name := range []string{"transStatus", "transStatusReason", "eci", "acsTransID", "dsTransID"} {
		e.Note(ctx, name, m.Text(name))
	}
}
