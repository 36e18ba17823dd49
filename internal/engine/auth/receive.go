package auth

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// A Receipt is the answer to what a directory server posted.
type Receipt struct {
	Body          []byte // RRes, ORes or Erro; empty when an Erro was received, or an OReq before the last
	ServerTransID string // threeDSServerTransID of the RRes or ORes, for X-Response-ID
	DSTransID     string // dsTransID of the request, for X-Request-ID
	Version       message.Version
	// the Erro in Body, without the id of a critical extension; nil when the message was accepted
	Refused *message.Error
}

// A receipt is one posted message on its way through the engine.
type receipt struct {
	*Engine
	schemes []string // the schemes that the client certificate belongs to
	msg     *message.Message
	version message.Version
	txn     store.Txn
	rec     *txn.Record
	facts   message.Context // facts of the AReq and ARes, once the transaction was read

	isSuperseded bool // the message names the first AReq of an authentication that has since sent its second one
}

// Receive takes an RReq, an OReq or an Erro that one of the given schemes'
// directory servers posted. The result is committed before the RRes is returned. Every
// fault is answered with an Erro in the Receipt; there is no error.
func (e *Engine) Receive(ctx context.Context, schemes []string, body []byte) Receipt {
	r := &receipt{Engine: e, schemes: schemes}
	r.version = r.newestVersion()
	got, outcome := r.run(ctx, body)
	r.noteMessage(ctx)
	operation := "rreq"
	if r.msg != nil {
		if kind, known := r.msg.Type(); known && kind == message.OReq {
			operation = "oreq"
		}
	}
	e.NoteEnd(ctx, operation, r.txn.Scheme, outcome)
	return got
}

// noteMessage records which message it was, and which transaction it is about.
func (r *receipt) noteMessage(ctx context.Context) {
	if r.Recorder == nil || r.msg == nil {
		return
	}
	if kind, known := r.msg.Type(); known {
		r.Note(ctx, "message", kind.String())
	}
	if r.rec != nil {
		r.noteRecord(ctx, &r.txn, r.rec)
	}
	for _, name := range []string{"threeDSServerTransID", "acsTransID", "dsTransID"} {
		r.Note(ctx, name, idOf(r.msg, name))
	}
	r.Note(ctx, "messageVersion", r.version.String())
	r.Note(ctx, "merchant", r.txn.Owner)
}

// run returns the answer, and how it ended, for the metrics.
func (r *receipt) run(ctx context.Context, body []byte) (Receipt, string) {
	m, err := message.Parse(body, r.Limits)
	if err != nil {
		return r.refuse(ctx, message.InvalidMessage, "Invalid Formatted Message", "")
	}
	r.msg = m
	v, versioned := m.Version()
	if versioned {
		r.version = v
	}
	kind, known := m.Type()
	lacking := known && versioned && !kind.In(v) // the version has no such message
	switch {
	case known && kind == message.Erro:
		r.takeErro(ctx)
		return Receipt{Version: r.version}, "erro"
	case known && kind == message.OReq && !lacking:
		return r.takeOReq(ctx)
	case lacking:
		return r.refuse(ctx, message.InvalidMessage, "Invalid Message Type", "")
	case known && kind != message.RReq:
		return r.refuse(ctx, message.InvalidMessage, "Invalid Message for the receiving component", kind.String())
	case !known && m.Has("messageType"):
		return r.refuse(ctx, message.InvalidMessage, "Invalid Message Type", "")
	}
	err = r.load(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		r.LogStoreFailure(ctx, "transaction not read", err)
		return r.refuse(ctx, message.TransientFailure, "The server could not reach its own data", "RReq")
	}
	return r.takeRReq(ctx, err == nil)
}

// load reads the transaction that the message names, if the poster's directory
// is the one its AReq went to (invariant I7).
func (r *receipt) load(ctx context.Context) error {
	id := strings.ToLower(idOf(r.msg, "threeDSServerTransID"))
	if id == "" {
		return store.ErrNotFound
	}
	t, err := r.Store.Get(ctx, id)
	if err == nil && t.State == txn.Second {
		t, err = r.FollowSecond(ctx, t)
	}
	if err != nil {
		return err
	}
	if !slices.Contains(r.schemes, t.Scheme) {
		r.Log.WarnContext(ctx, "RReq from a directory that has no part in the transaction",
			"threeDSServerTransID", id, "schemes", r.schemes)
		return store.ErrNotFound
	}
	rec, err := r.Unseal(&t)
	if err != nil {
		return err
	}
	if r.IsOver(rec) && !isLate(&t, rec, true) {
		return store.ErrNotFound
	}
	if err := r.CheckPutBack(ctx, &t, rec); err != nil {
		return err
	}
	if current := rec.CurrentID(t.ID); id != current {
		if id != t.ID {
			return store.ErrNotFound // the second AReq has not left
		}
		rec, r.isSuperseded = rec.First(), true
	}
	r.txn, r.rec = t, rec
	return nil
}

// takeRReq checks an RReq, first by itself and against its transaction, then by
// the transaction's state, and commits it.
func (r *receipt) takeRReq(ctx context.Context, known bool) (Receipt, string) {
	if known {
		c, err := r.rec.Context()
		if err != nil {
			r.Log.ErrorContext(ctx, "transaction not read", "threeDSServerTransID", r.txn.ID, "err", err)
			return r.refuse(ctx, message.PermanentFailure, "The server could not read its own data", "RReq")
		}
		r.facts = c
	}
	c := r.facts
	if peer, ok := r.Peer(r.txn.Scheme); ok {
		c = peer.Context(c)
		// What began in a version ends in it, though it is no longer configured.
		if known && !slices.Contains(c.Versions, r.rec.MessageVersion()) {
			c.Versions = append(slices.Clone(c.Versions), r.rec.MessageVersion())
		}
	}
	if found := r.msg.Check(c); len(found) > 0 {
		code, detail := found.Pick(message.ForPeer)
		r.storeRefusal(ctx, code, detail)
		return r.refuse(ctx, code, detail, "RReq")
	}
	if known && (r.isSuperseded || isLate(&r.txn, r.rec, r.IsOver(r.rec))) {
		return r.acknowledgeLate(ctx)
	}
	if code, detail := r.refusalIn(r.txn.State); code != 0 && !r.isRepeated() {
		return r.refuse(ctx, code, detail, "RReq")
	}
	if r.msg.Text("transStatus") == "D" {
		if err := r.storeFirst(ctx, check.Fallback, r.msg.Text("acsTransID"), &r.txn, r.rec.Purchase); err != nil {
			r.LogStoreFailure(ctx, "first leg not stored", err, "threeDSServerTransID", r.txn.ID)
			return r.refuse(ctx, message.TransientFailure, "The server could not store the result", "RReq")
		}
	}
	state, err := r.commitResult(ctx)
	r.Notify(r.txn.ID)
	switch {
	case errors.Is(err, txn.ErrSuperseded):
		return r.acknowledgeLate(ctx)
	case errors.Is(err, txn.ErrArrow):
		code, detail := r.refusalIn(state)
		return r.refuse(ctx, code, detail, "RReq")
	case errors.Is(err, store.ErrNotFound):
		return r.refuse(ctx, message.UnknownTransaction, "threeDSServerTransID", "RReq")
	case err != nil:
		r.LogStoreFailure(ctx, "result not stored", err, "threeDSServerTransID", r.txn.ID)
		return r.refuse(ctx, message.TransientFailure, "The server could not store the result", "RReq")
	}
	return r.acknowledge(ctx)
}

// isLate reports whether a result is for an authentication of the Authentications API that was cancelled, or whose time
// for the challenge is over. The result then changes nothing, and the directory server need not know.
func isLate(t *store.Txn, rec *txn.Record, isOver bool) bool {
	return rec.API != "" && (t.State == txn.Cancelled || t.State == txn.Challenge && isOver)
}

// acknowledgeLate answers a result that comes after the end as any other: 02 says that the challenge was never begun.
func (r *receipt) acknowledgeLate(ctx context.Context) (Receipt, string) {
	r.Log.InfoContext(ctx, "result of an authentication that is over", "threeDSServerTransID", r.txn.ID,
		"state", r.txn.State)
	status := "01"
	if r.facts.ARes == nil {
		status = "02"
	}
	receipt := r.newRRes(ctx, status)
	r.AddMoment(&r.txn, r.rec, journal.LateResult,
		journal.Step{Step: "rreq", Message: r.journalMessage(r.msg), Findings: []string{"after the end: it changes nothing"}},
		journal.Step{Step: "rres", Message: r.MaskedMessage(receipt.Body)})
	return receipt, r.msg.Text("transStatus")
}

// refusalTime is how long storeRefusal may take. The directory server waits for its Erro meanwhile.
const refusalTime = 500 * time.Millisecond

// storeRefusal notes in a transaction that waits for its result that one was refused, so that the
// requestor hears of it (docs/api.md, P1). If that fails, the requestor hears only that there is no result.
func (r *receipt) storeRefusal(ctx context.Context, code message.Code, detail string) {
	if r.rec == nil || r.txn.State != txn.Challenge || r.rec.BadResult != nil || r.isSuperseded {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, refusalTime)
	defer cancel()
	err := r.Store.Update(ctx, r.txn, func(t *store.Txn) error {
		if t.State != txn.Challenge {
			return txn.ErrArrow // a valid result has come at the same time
		}
		rec, err := r.Unseal(t)
		if err != nil {
			return err
		}
		rec.BadResult, t.Lazy = &journal.Refusal{
			At: r.Now().UTC().Truncate(time.Millisecond), Code: code.String(), Description: code.Description(),
			Detail: journalDetail(ownDetail(code, detail)),
		}, true
		return r.Seal(t, rec)
	})
	if err != nil && !errors.Is(err, txn.ErrArrow) && !errors.Is(err, store.ErrNotFound) {
		r.Log.WarnContext(ctx, "refusal of a result not stored", "threeDSServerTransID", r.txn.ID, "err", err)
	}
}

// refusalIn returns the error with which a transaction in state refuses an RReq. The state
// is "" when no transaction is known. Code 0 means that the transaction takes an RReq.
func (r *receipt) refusalIn(state store.State) (message.Code, string) {
	switch state {
	case txn.Challenge:
		return 0, ""
	case txn.Result:
		if r.version >= message.V231 {
			return message.DuplicateMessage, "threeDSServerTransID"
		}
	case txn.Final, txn.Failed:
		if r.version >= message.V231 {
			return message.Inconsistent, "No challenge is pending for the transaction"
		}
	}
	return message.UnknownTransaction, "threeDSServerTransID"
}

// keepFor is how long an RReq, or the Erro that came instead, is kept.
func (r *receipt) keepFor() time.Duration {
	if r.rec.Decoupled {
		return r.Timeouts.DecoupledResult
	}
	return r.Timeouts.Result
}

// isRepeated reports whether the message is the very result that is stored, although we told the directory server that
// it was not. When it is sent again, it is acknowledged.
func (r *receipt) isRepeated() bool {
	return r.txn.State == txn.Result && r.rec.Refused && bytes.Equal(r.rec.RReq, r.msg.Bytes())
}

// commitResult stores the result, if the transaction is still waiting for it, and
// returns the state it found. The first RReq wins, byte for byte (I2).
func (r *receipt) commitResult(ctx context.Context) (store.State, error) {
	rec, again := *r.rec, r.isRepeated()
	rec.SetRReq(r.msg)
	rec.Refused = false
	var found store.State
	w := r.NewWrite(r.txn, func(t *store.Txn) error {
		found = t.State
		if again && bytes.Equal(t.Data, r.txn.Data) {
			return r.Seal(t, &rec)
		}
		return r.endWait(t, &rec, txn.Result)
	})
	sure, err := w.Run(ctx)
	if !sure {
		w.ResolveLater(func(rec *txn.Record) { rec.Refused = true })
	}
	return found, err
}

// endWait makes the change of a row whose wait for a result ends in a state.
func (r *receipt) endWait(t *store.Txn, rec *txn.Record, to store.State) error {
	if r.IsOver(r.rec) {
		return store.ErrNotFound // the wait has ended since the row was read
	}
	if err := r.CheckLeg(t, rec); err != nil {
		return err
	}
	return r.AdvanceRow(t, rec, to, r.keepFor())
}

// acknowledge acknowledges a committed result.
func (r *receipt) acknowledge(ctx context.Context) (Receipt, string) {
	m := r.msg
	r.Acknowledge(r.txn.ID, m.Bytes())
	status := "01"
	switch {
	case m.Text("transStatus") == "D":
		status = "04" // the requestor continues with a decoupled 3RI
	case r.rec.Undelivered, r.rec.Gone && !r.hasBegun():
		status = "03"
	}
	receipt := r.newRRes(ctx, status)
	r.explainReason(ctx, r.txn.ID, r.txn.Scheme, m)
	return receipt, m.Text("transStatus")
}

// newRRes returns the RRes with a status.
func (r *receipt) newRRes(ctx context.Context, status string) Receipt {
	m := r.msg
	members := []message.Member{
		{Name: "threeDSServerTransID", Raw: m.Raw("threeDSServerTransID")},
		{Name: "acsTransID", Raw: m.Raw("acsTransID")},
		{Name: "dsTransID", Raw: m.Raw("dsTransID")},
		{Name: "resultsStatus", Text: status},
	}
	// The sdkTransID of an RReq is ignored if its AReq had none.
	if r.version >= message.V220 && m.Has("sdkTransID") && r.facts.AReq.Has("sdkTransID") {
		members = append(members, message.Member{Name: "sdkTransID", Raw: m.Raw("sdkTransID")})
	}
	r.noteResult(ctx, m)
	r.Note(ctx, "resultsStatus", status)
	return Receipt{
		Body:          message.MustCompose(message.RRes, r.version, members...),
		ServerTransID: m.Text("threeDSServerTransID"), DSTransID: m.Text("dsTransID"), Version: r.version,
	}
}

// hasBegun reports whether the challenge was begun: then the ARes has reached the requestor, even if the requestor
// seemed to have gone. It seems so when it closes its sending side of the connection early.
func (r *receipt) hasBegun() bool {
	const noCReq = "05" // a challengeCancel: the ACS has waited for the first CReq in vain
	return r.facts.ARes.Text("transStatus") == "C" && r.msg.Text("challengeCancel") != noCReq
}

// newestVersion is the highest version in use with the directories that may have posted, or
// 2.3.1 when none of them is configured any more.
func (r *receipt) newestVersion() message.Version {
	var used []message.Version
	for _, scheme := range r.schemes {
		if peer, ok := r.Peer(scheme); ok {
			used = append(used, peer.Versions...)
		}
	}
	if len(used) == 0 {
		return message.V231
	}
	return slices.Max(used)
}

// refuse answers with an Erro. Its ids are those of the message, or else the
// transaction's; its version is the transaction's, or else the message's, or else the
// newest that the directory server reads.
func (r *receipt) refuse(ctx context.Context, code message.Code, detail, kind string) (Receipt, string) {
	version := r.version
	if r.rec != nil {
		version = r.rec.MessageVersion()
	}
	bad := message.Error{
		Version: version, Code: code, Component: check.Component,
		Description: code.Description(), Detail: detail, MessageType: kind,
	}
	if r.msg != nil {
		bad.ServerTransID = idOf(r.msg, "threeDSServerTransID")
		bad.DSTransID = r.idOf("dsTransID", r.facts.ARes)
		bad.ACSTransID = r.idOf("acsTransID", r.facts.ARes)
		if r.facts.AReq == nil || r.facts.AReq.Has("sdkTransID") {
			bad.SDKTransID = r.idOf("sdkTransID", r.facts.AReq)
		}
	}
	body := bad.JSON()
	bad.Detail = ownDetail(code, detail)
	if r.rec != nil {
		refused := journal.Step{Step: strings.ToLower(kind), Message: r.journalMessage(r.msg), Findings: []string{
			"refused: " + code.String() + " " + journalDetail(bad.Detail)}}
		r.AddMoment(&r.txn, r.rec, journal.RefusedResult, refused)
	}
	r.Log.WarnContext(ctx, "message of a directory refused", "schemes", r.schemes,
		"threeDSServerTransID", bad.ServerTransID,
		"errorCode", code, "errorDetail", bad.Detail)
	return Receipt{Body: body, Version: version, Refused: &bad}, code.String()
}

// idOf is an id of the message, or else that of an earlier one, which may be nil.
func (r *receipt) idOf(name string, earlier *message.Message) string {
	if id := idOf(r.msg, name); id != "" || earlier == nil {
		return id
	}
	return earlier.Text(name)
}

// takeErro handles an Erro posted by a directory server: if the transaction it names waits
// for a result, it has failed. An Erro is never answered with an Erro.
func (r *receipt) takeErro(ctx context.Context) {
	bad := erroOf(r.msg)
	r.Note(ctx, "errorCode", bad.Code.String())
	r.Note(ctx, "errorComponent", bad.Component)
	log := r.Log.With("schemes", r.schemes, "threeDSServerTransID", bad.ServerTransID,
		"errorCode", bad.Code, "errorComponent", bad.Component, "errorDetail", logDetail(bad))
	if err := r.load(ctx); err != nil {
		log.WarnContext(ctx, "Erro from a directory for no transaction of ours", "err", err)
		return
	}
	if facts, err := r.rec.Context(); err != nil || r.isSuperseded || namesOtherIDs(r.msg, facts.ARes) {
		log.WarnContext(ctx, "Erro from a directory with ids of another transaction", "err", err)
		return
	}
	rec := *r.rec
	rec.Erro, rec.Failure = bad.JSON(), FailureOf(bad)
	_, err := r.NewWrite(r.txn, func(t *store.Txn) error {
		if t.State != txn.Challenge {
			return txn.ErrArrow // an Erro ends a wait, not an /auth in flight
		}
		return r.endWait(t, &rec, txn.Failed)
	}).Run(ctx)
	r.Notify(r.txn.ID)
	log.WarnContext(ctx, "Erro from a directory", "err", err)
}

// namesOtherIDs reports whether m names an id that is not the one of the ARes.
func namesOtherIDs(m, ares *message.Message) bool {
	for _, name := range []string{"acsTransID", "dsTransID"} {
		if id := m.Text(name); id != "" && ares != nil && !strings.EqualFold(id, ares.Text(name)) {
			return true
		}
	}
	return false
}

// idOf returns the element of m with this name if it has the form of a transaction id, else "". We repeat to other
// parties only what has that form.
func idOf(m *message.Message, name string) string {
	id := m.Text(name)
	if !message.IsUUID(id) {
		return ""
	}
	return id
}
