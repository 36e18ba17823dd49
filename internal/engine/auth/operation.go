package auth

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// Operation messages (EMV 3DS 2.3.1, Req 438 and 439) come in sequences: all
// but the last are acknowledged by an empty answer, the last by one ORes.
const (
	// operationGap is how long the next message of a sequence may take.
	operationGap = 3 * time.Second
	// operationLife is how long a sequence is remembered, so that a message that
	// is delivered twice is recognised.
	operationLife = 10 * time.Minute
)

// A sequence is what is kept of operation messages while they come in.
type sequence struct {
	Next, Total int  // seqNum of the message that is awaited, and seqTotal
	Broken      bool // one was missing, out of order or of another sequence
	Over        bool // answered, or given up
	DSTransID   string
}

// takeOReq handles an OReq.
func (r *receipt) takeOReq(ctx context.Context) (Receipt, string) {
	c := message.Context{}
	scheme := r.schemes[0]
	if peer, ok := r.Peer(scheme); ok {
		c = peer.Context(c)
	}
	r.txn.Scheme = scheme // for the metrics
	if found := r.msg.Check(c); len(found) > 0 {
		r.endSequence(ctx, scheme)
		code, detail := found.Pick(message.ForPeer)
		return r.refuse(ctx, code, detail, "OReq")
	}
	r.Log.WarnContext(ctx, "operation message of a directory", "scheme", scheme, "dsTransID", r.msg.Text("dsTransID"),
		"opCategory", r.msg.Text("opCategory"), "opSeverity", r.msg.Text("opSeverity"),
		"opExpDate", r.msg.Text("opExpDate"), "opDescription", r.msg.Text("opDescription"),
		"seqNum", r.msg.Text("opSeq.seqNum"), "seqTotal", r.msg.Text("opSeq.seqTotal"))
	at, _ := strconv.Atoi(r.msg.Text("opSeq.seqNum")) // two digits each, as checked
	total, _ := strconv.Atoi(r.msg.Text("opSeq.seqTotal"))
	key, kept, err := r.continueSequence(ctx, scheme, at, total)
	if err != nil {
		r.LogStoreFailure(ctx, "operation message not stored", err, "scheme", scheme)
		return r.refuse(ctx, message.TransientFailure, "The server could not reach its own data", "OReq")
	}
	if at < total {
		if !kept.Over {
			time.AfterFunc(operationGap, func() {
				r.TaskGroup().Start(func(ctx context.Context) { r.expireSequence(ctx, scheme, key, kept) })
			})
		}
		return Receipt{Version: r.version}, "received"
	}
	status := "01"
	if kept.Broken {
		status = "02"
	}
	return r.newORes(status), status
}

// newORes returns the ORes, with an id of its own.
func (r *receipt) newORes(status string) Receipt {
	id := r.IDs.New(r.Now(), 0, r.Random(), 0, "", "")
	ds := r.msg.Text("dsTransID")
	return Receipt{
		Body: message.MustCompose(message.ORes, r.version,
			message.Member{Name: "dsTransID", Text: ds},
			message.Member{Name: "opStatus", Text: status},
			message.Member{Name: "threeDSServerRefNumber", Text: r.Server.RefNumber(r.version)},
			message.Member{Name: "threeDSServerTransID", Text: id}),
		ServerTransID: id, DSTransID: ds, Version: r.version,
	}
}

// sequenceKeys are the ids under which the store may have a sequence. Each key stands for a window of operationLife:
// the next window, which a node whose clock is ahead may have used, the present one, and the one before. A row outlives
// its window, so that no id is needed again while an expired row, not yet swept, still takes it.
func (r *receipt) sequenceKeys(scheme string) (ahead, now, before string) {
	at := func(t time.Time) string {
		return fmt.Sprintf("op.%s.%s.%d", scheme, strings.ToLower(r.msg.Text("opSeq.seqId")), t.Unix())
	}
	t := r.Now().Truncate(operationLife)
	return at(t.Add(operationLife)), at(t), at(t.Add(-operationLife))
}

// continueSequence records that message number at of total has come, on whichever node. It
// returns the sequence as it is then, and its id in the store. The first message starts the sequence again; the latest
// one, delivered again, changes nothing.
func (r *receipt) continueSequence(ctx context.Context, scheme string,
	at, total int) (key string, now sequence, err error) {
	step := func(t *store.Txn) error {
		var was sequence
		if len(t.Data) > 0 { // a new row has none
			if err := r.Open(t, &was); err != nil {
				return err
			}
		}
		now = was.after(at, total)
		now.DSTransID = r.msg.Text("dsTransID")
		return r.sealSequence(t, now)
	}
	ahead, here, before := r.sequenceKeys(scheme)
	begun := []string{ahead, here, before} // the newest first
	if at == 1 {
		begun = begun[:1]
	}
	if key, err := r.updateFirst(ctx, begun, step); !errors.Is(err, store.ErrNotFound) {
		return key, now, err
	}
	t := store.Txn{ID: here, Scheme: scheme, State: txn.Operations}
	if err := step(&t); err != nil {
		return here, now, err
	}
	if err = r.Store.Create(ctx, t); errors.Is(err, store.ErrExists) {
		err = r.Store.Update(ctx, store.Txn{ID: here}, step) // another node, or the same message, was quicker
	}
	return here, now, err
}

// endSequence ends the sequence that a faulty message names, if it has begun: the message
// is answered with an Erro, and expireSequence must not report a second one.
func (r *receipt) endSequence(ctx context.Context, scheme string) {
	if !message.IsUUID(r.msg.Text("opSeq.seqId")) {
		return
	}
	end := func(t *store.Txn) error {
		var s sequence
		if err := r.Open(t, &s); err != nil || s.Over {
			return err
		}
		s.Over, s.Broken = true, true
		return r.sealSequence(t, s)
	}
	ahead, here, before := r.sequenceKeys(scheme)
	if _, err := r.updateFirst(ctx, []string{ahead, here, before}, end); err != nil && !errors.Is(err, store.ErrNotFound) {
		r.LogStoreFailure(ctx, "operation messages not given up", err, "scheme", scheme)
	}
}

// updateFirst applies step to the row of the first key that has one and returns that key, or
// [store.ErrNotFound] when none has.
func (r *receipt) updateFirst(ctx context.Context, keys []string, step func(*store.Txn) error) (key string, err error) {
	for _, key = range keys {
		if err = r.Store.Update(ctx, store.Txn{ID: key}, step); !errors.Is(err, store.ErrNotFound) {
			break
		}
	}
	return key, err
}

// after is the sequence with one more message.
func (s sequence) after(at, total int) sequence {
	switch {
	case at == 1:
		return sequence{Next: 2, Total: total, Over: total == 1, Broken: total < 1}
	case at == s.Next-1 && total == s.Total:
		return s
	}
	s.Broken = s.Broken || s.Over || at != s.Next || total != s.Total || at > total
	s.Next, s.Total = at+1, total
	s.Over = at >= total
	return s
}

// expireSequence gives up a sequence whose next message did not come in time, and reports that
// to the directory server. It does nothing if the sequence is no longer as kept says, or if ctx has already ended.
func (r *receipt) expireSequence(ctx context.Context, scheme, key string, kept sequence) {
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, operationGap)
	defer cancel()
	errMoved := errors.New("the sequence has gone on")
	err := r.Store.Update(ctx, store.Txn{ID: key}, func(t *store.Txn) error {
		var now sequence
		if err := r.Open(t, &now); err != nil {
			return err
		}
		if now != kept {
			return errMoved
		}
		now.Over, now.Broken = true, true
		return r.sealSequence(t, now)
	})
	switch {
	case errors.Is(err, errMoved):
		return
	case err != nil:
		r.LogStoreFailure(ctx, "operation messages not given up", err, "scheme", scheme)
		return
	}
	r.Log.WarnContext(ctx, "operation messages of a directory stopped", "scheme", scheme, "dsTransID", kept.DSTransID,
		"came", kept.Next-1, "of", kept.Total)
	r.Directories.Report(ctx, scheme, "", message.Error{
		Version: r.version, Code: message.TimedOut, Component: check.Component,
		Description: message.TimedOut.Description(), Detail: "The next OReq of the sequence did not come within 3 s",
		DSTransID: kept.DSTransID, MessageType: "OReq",
	}.JSON())
}

// sealSequence puts s into its row.
func (r *receipt) sealSequence(t *store.Txn, s sequence) error {
	t.Expires = r.ExpiryIn(operationLife + 2*transid.MaxSkew)
	return r.Seal(t, s)
}
