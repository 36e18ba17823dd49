package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/transid"
	"github.com/openthreeds/threeds/message"
)

// Operation messages (EMV 3DS 2.3.1, Req 438 and 439) come in sequences: all
// but the last are acknowledged by an empty answer, the last by one ORes.
const (
	// operationGap is how long the next message of a sequence may take.
	operationGap = 3 * time.Second
	// operationLife is how long a sequence is remembered, so that the same
	// message delivered again is known as such.
	operationLife = 10 * time.Minute

	// Operations is the state of a sequence in the store. It is none of a
	// transaction's: its row has no arrows.
	Operations store.State = "operations"
)

// A sequence is what is kept of operation messages while they come in.
type sequence struct {
	Next, Total int
	Broken      bool // one was missing, out of order or of another sequence
	Over        bool // answered, or given up
	DSTransID   string
}

// operate takes an OReq.
func (r *receipt) operate(ctx context.Context) (Receipt, string) {
	c := message.Context{}
	scheme := r.schemes[0]
	if peer, ok := r.peer(scheme); ok {
		c = peer.context(c)
	}
	r.txn.Scheme = scheme // for the metrics
	if found := r.msg.Check(c); len(found) > 0 {
		r.breakOff(ctx, scheme)
		code, detail := found.Pick(message.ForPeer)
		return r.refuse(code, detail, "OReq")
	}
	r.Log.Warn("operation message of a directory", "scheme", scheme, "dsTransID", r.msg.Text("dsTransID"),
		"opCategory", r.msg.Text("opCategory"), "opSeverity", r.msg.Text("opSeverity"),
		"opExpDate", r.msg.Text("opExpDate"), "opDescription", r.msg.Text("opDescription"),
		"seqNum", r.msg.Text("opSeq.seqNum"), "seqTotal", r.msg.Text("opSeq.seqTotal"))
	at, _ := strconv.Atoi(r.msg.Text("opSeq.seqNum")) // two digits each, as checked
	total, _ := strconv.Atoi(r.msg.Text("opSeq.seqTotal"))
	key, kept, err := r.follow(ctx, scheme, at, total)
	if err != nil {
		r.Log.ErrorContext(ctx, "operation message not stored", "scheme", scheme, "err", err)
		return r.refuse(message.TransientFailure, "The server could not reach its own data", "OReq")
	}
	if at < total {
		if !kept.Over {
			time.AfterFunc(operationGap, func() { r.expire(scheme, key, kept) })
		}
		return Receipt{Version: r.version}, "received"
	}
	status := "01"
	if kept.Broken {
		status = "02"
	}
	return r.operated(status), status
}

// operated is the ORes, with an id of its own.
func (r *receipt) operated(status string) Receipt {
	id := r.IDs.New(r.Now(), 0, r.rand(), 0, "", "")
	ds := r.msg.Text("dsTransID")
	return Receipt{
		Body: message.Compose(message.ORes, r.version,
			message.Member{Name: "dsTransID", Text: ds},
			message.Member{Name: "opStatus", Text: status},
			message.Member{Name: "threeDSServerRefNumber", Text: r.Server.RefNumber(r.version)},
			message.Member{Name: "threeDSServerTransID", Text: id}),
		ServerTransID: id, DSTransID: ds, Version: r.version,
	}
}

// sequenceKeys are where a sequence may be in the store: where it has begun by a clock
// that is ahead, where it begins now, and where it has a while ago. A key is one of
// ten minutes and its row lives through them, so that none is needed anew while its
// last life is over and not yet swept.
func (r *receipt) sequenceKeys(scheme string) (ahead, now, before string) {
	at := func(t time.Time) string {
		return fmt.Sprintf("op.%s.%s.%d", scheme, strings.ToLower(r.msg.Text("opSeq.seqId")), t.Unix())
	}
	t := r.Now().Truncate(operationLife)
	return at(t.Add(operationLife)), at(t), at(t.Add(-operationLife))
}

// follow notes that message at of total has come, on whichever node, and
// returns the sequence as it is then, and where. The first message begins it anew; the
// message that was last, delivered again, changes nothing.
func (r *receipt) follow(ctx context.Context, scheme string, at, total int) (key string, now sequence, err error) {
	step := func(t *store.Txn) error {
		var was sequence
		if err := r.open(t, &was); err != nil {
			return err
		}
		now = was.after(at, total)
		now.DSTransID = r.msg.Text("dsTransID")
		return r.close(t, now)
	}
	ahead, here, before := r.sequenceKeys(scheme)
	begun := []string{ahead, here, before} // the newest first
	if at == 1 {
		begun = begun[:1]
	}
	if key, err := r.advance(ctx, begun, step); !errors.Is(err, store.ErrNotFound) {
		return key, now, err
	}
	t := store.Txn{ID: here, Scheme: scheme, State: Operations}
	if err := step(&t); err != nil {
		return here, now, err
	}
	if err = r.Store.Create(ctx, t); errors.Is(err, store.ErrExists) {
		err = r.Store.Update(ctx, store.Txn{ID: here}, step) // it has come before, or another node was quicker
	}
	return here, now, err
}

// breakOff ends the sequence that a faulty message names, if it has begun: the Erro
// that the message is answered with is all that the directory server hears of it.
func (r *receipt) breakOff(ctx context.Context, scheme string) {
	if !message.IsUUID(r.msg.Text("opSeq.seqId")) {
		return
	}
	end := func(t *store.Txn) error {
		var s sequence
		if err := r.open(t, &s); err != nil || s.Over {
			return err
		}
		s.Over, s.Broken = true, true
		return r.close(t, s)
	}
	ahead, here, before := r.sequenceKeys(scheme)
	if _, err := r.advance(ctx, []string{ahead, here, before}, end); err != nil && !errors.Is(err, store.ErrNotFound) {
		r.Log.ErrorContext(ctx, "operation messages not given up", "scheme", scheme, "err", err)
	}
}

// advance makes a step of a sequence at the first of the keys that has one, and returns
// that key; [store.ErrNotFound] is that none has.
func (r *receipt) advance(ctx context.Context, keys []string, step func(*store.Txn) error) (key string, err error) {
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

// expire gives a sequence up of which the next message did not come in time,
// and tells the directory server so.
func (r *receipt) expire(scheme, key string, kept sequence) {
	ctx, cancel := context.WithTimeout(context.Background(), operationGap)
	defer cancel()
	errMoved := errors.New("the sequence has gone on")
	err := r.Store.Update(ctx, store.Txn{ID: key}, func(t *store.Txn) error {
		var now sequence
		if err := r.open(t, &now); err != nil {
			return err
		}
		if now != kept {
			return errMoved
		}
		now.Over, now.Broken = true, true
		return r.close(t, now)
	})
	switch {
	case errors.Is(err, errMoved):
		return
	case err != nil:
		r.Log.Error("operation messages not given up", "scheme", scheme, "err", err)
		return
	}
	r.Log.Warn("operation messages of a directory stopped", "scheme", scheme, "dsTransID", kept.DSTransID,
		"came", kept.Next-1, "of", kept.Total)
	r.Directories.Report(scheme, "", message.Error{
		Version: r.version, Code: message.TimedOut, Component: component,
		Description: message.TimedOut.Description(), Detail: "The next OReq of the sequence did not come within 3 s",
		DSTransID: kept.DSTransID, MessageType: "OReq",
	}.JSON())
}

// open reads what a row holds, nothing of a row that is new.
func (e *Engine) open(t *store.Txn, into any) error {
	if len(t.Data) == 0 {
		return nil
	}
	plain, err := e.Sealer.Open(t.Name(), t.Data)
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, into)
}

// close writes it.
func (r *receipt) close(t *store.Txn, s sequence) error {
	plain, err := json.Marshal(s)
	if err != nil {
		return err
	}
	t.Expires = r.in(operationLife + 2*transid.MaxSkew)
	t.Data = r.Sealer.Seal(t.Name(), plain)
	return nil
}
