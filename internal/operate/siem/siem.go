// Package siem sends the audit trail and the seals of the journal to a SIEM, which collects the security events of a
// company. Use a [Service] with a [Syslog] or a [Webhook] as its sender.
//
// Each entry and each seal is sent at least once, in the order of its chain. Nodes share one position, which is in the
// store. One node sends at a time, under a lease. The position moves once the receiver has confirmed a batch, so a
// batch may be sent again after a failure. A receiver knows an entry by its chain and its number. What was changed in
// the store is sent, too, and says so: an attacker who can write to the store cannot stop the messages.
package siem

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// JournalChain is the chain of the seals of the journal in messages. Entries of the audit trail have
// [journal.AuditChain].
const JournalChain = "journal"

// A Message is an entry of the audit trail, or a seal of the journal, on its way to a receiver.
type Message struct {
	Chain  string // Chain is journal.AuditChain or JournalChain.
	Number int64
	Link   []byte // Link is the link of an entry, or the hash of a seal.
	At     time.Time
	Event  string // Event is the action of an entry, or such as journal.head.
	Fields []Field
	Line   []byte // Line is the JSON text that an export has, without a line feed.
	Fault  string // Fault says how it is not as it was written; "" means that it is.
}

// A Field is a part of a message by which receivers search.
type Field struct{ Name, Value string }

// A Sender sends messages, in their order.
type Sender interface {
	// Send returns how many messages, from the first one on, the receiver has confirmed. Without an error that is all.
	Send(ctx context.Context, all []Message) (int, error)
}

// A Store is what a Service needs of a store.
type Store interface {
	store.Leases
	store.States
	store.Audit
}

const (
	// name is the name of the lease, the key of the position, and what the position is sealed under.
	name = "siem"

	sendTimeout = 30 * time.Second // of a batch
	leaseTime   = time.Minute      // longer than sendTimeout: when a node dies, the others wait so long
	maxBackoff  = 60               // the longest time between attempts, in times of Poll
	storeTime   = 5 * time.Second  // of a write to the store when the process is about to end

	batchLen   = 200       // messages of a batch
	batchBytes = 256 << 10 // a batch ends with the message that exceeds this

	// patience is how long a failure lasts until it is a problem of readiness.
	patience = time.Minute
)

// A Service sends what is new until its context ends. Set its fields before use.
type Service struct {
	Store   Store
	Sealer  store.Sealer
	Trail   *operator.Service
	Journal journal.Store               // nil means that there is no journal
	Head    func() (journal.Head, bool) // Head returns the newest seal that this node has seen.
	Log     *slog.Logger
	Now     func() time.Time
	Sender  func() Sender // Sender returns the sender of the configuration; nil means that nothing is sent.
	Poll    time.Duration // Poll is how often a node looks for something to send; 0 means each second.

	mu     sync.Mutex
	status Status
	sent   [2]atomic.Uint64 // by the index in chains
	failed atomic.Uint64
}

// A Status is what waits to be sent by all nodes, as this node knows it.
type Status struct {
	Audit, Journal int64     // how many entries and seals wait
	Since          time.Time // when the oldest of them was made; zero means that none waits
	Failing        time.Time // since when this node has failed; zero means that it does not
	Fault          string    // why
}

// Status returns what waits to be sent.
func (s *Service) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Problem says what is wrong for readiness; "" means that nothing is.
func (s *Service) Problem() string {
	now := s.Status()
	if now.Failing.IsZero() || s.Now().Sub(now.Failing) < patience {
		return ""
	}
	return fmt.Sprintf("%d entries and seals are not sent since %s: %s", now.Audit+now.Journal,
		now.Failing.UTC().Format(time.RFC3339), now.Fault)
}

// Counts returns how many entries of the audit trail and seals this process has sent, and how many attempts failed.
func (s *Service) Counts() (audit, seals, failed uint64) {
	return s.sent[0].Load(), s.sent[1].Load(), s.failed.Load()
}

// Run sends until ctx ends.
func (s *Service) Run(ctx context.Context) {
	poll := cmp.Or(s.Poll, time.Second)
	holder, failures, wait := rand.Text(), 0, time.Duration(0)
	for tasks.Sleep(ctx, wait) {
		sender := s.Sender()
		if sender == nil {
			failures, wait = 0, poll
			s.setStatus(Status{})
			continue
		}
		hasMore, err := s.sendBatch(ctx, sender, holder)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, store.ErrHeld) {
			wait = poll
			continue
		}
		s.noteResult(ctx, err)
		switch {
		case err != nil:
			wait = poll * time.Duration(min(1<<min(failures, 10), maxBackoff))
			wait += mathrand.N(wait/5 + 1) // nodes that failed together do not try again together
			failures++
		case hasMore:
			failures, wait = 0, 0
		default:
			failures, wait = 0, poll
		}
	}
}

// setStatus replaces the status.
func (s *Service) setStatus(now Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = now
}

// noteResult notes how an attempt has ended, and logs a failure and the end of one.
func (s *Service) noteResult(ctx context.Context, err error) {
	now := s.Status()
	switch {
	case err != nil:
		s.failed.Add(1)
		now.Failing, now.Fault = cmp.Or(now.Failing, s.Now()), err.Error()
		s.Log.WarnContext(ctx, "not sent to the SIEM", "err", err, "waiting", now.Audit+now.Journal, "since", now.Since)
	case !now.Failing.IsZero():
		s.Log.InfoContext(ctx, "sent to the SIEM again", "since", now.Failing)
		now.Failing, now.Fault = time.Time{}, ""
	}
	s.setStatus(now)
}

// sendBatch sends the next messages, and reports whether there are more. It returns store.ErrHeld while another node
// sends.
func (s *Service) sendBatch(ctx context.Context, sender Sender, holder string) (hasMore bool, err error) {
	if due, err := s.readDue(ctx); err != nil || len(due.batch) == 0 {
		return false, err
	}
	lease, err := s.Store.Acquire(ctx, name, holder, leaseTime)
	if err != nil {
		return false, err
	}
	defer s.release(ctx, lease)
	due, err := s.readDue(ctx) // another node may have sent meanwhile
	if err != nil || len(due.batch) == 0 {
		return false, err
	}
	sending, cancel := context.WithTimeout(ctx, sendTimeout)
	n, err := sender.Send(sending, due.batch)
	cancel()
	if n > 0 {
		err = errors.Join(err, s.move(ctx, due, n, lease))
	}
	return due.hasMore, err
}

// release releases the lease, even if ctx has ended.
func (s *Service) release(ctx context.Context, lease store.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	if err := s.Store.Release(ctx, lease); err != nil {
		s.Log.WarnContext(ctx, "lease of the SIEM not released: nodes wait until it is over", "err", err)
	}
}

// A mark is the last entry of a chain that a receiver has confirmed.
type mark struct {
	Number int64  `json:"number"`
	Link   []byte `json:"link"`
}

// A position is how far the messages have come.
type position struct {
	Audit   mark `json:"audit"`
	Journal mark `json:"journal"`
}

// of returns the mark of a chain.
func (p *position) of(chain string) *mark {
	if chain == JournalChain {
		return &p.Journal
	}
	return &p.Audit
}

// readPosition reads the position. One that does not open stands at the beginning: everything is sent again, and
// nobody who can write to the store, but has no keys, can have an entry left out.
func (s *Service) readPosition(ctx context.Context) (p position, err error) {
	value, err := s.Store.State(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return p, nil
	} else if err != nil {
		return p, err
	}
	plain, err := s.Sealer.Open(name, value)
	if err == nil {
		err = json.Unmarshal(plain, &p)
	}
	if err != nil {
		s.Log.WarnContext(ctx, "position of the SIEM not read: all is sent again", "err", err)
		return position{}, nil
	}
	return p, nil
}

// move stores the position behind the first n messages. It is stored even if ctx has ended.
func (s *Service) move(ctx context.Context, due *due, n int, lease store.Lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	p := due.position
	for _, m := range due.batch[:n] {
		*p.of(m.Chain) = mark{m.Number, m.Link}
	}
	plain, err := json.Marshal(p)
	if err == nil {
		err = s.Store.PutState(ctx, name, s.Sealer.Seal(name, plain), lease)
	}
	if err != nil {
		return fmt.Errorf("position of the SIEM not stored, so that the same is sent again: %w", err)
	}
	for _, m := range due.batch[:n] {
		now := &s.sent[0]
		if m.Chain == JournalChain {
			now = &s.sent[1]
		}
		now.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Audit = max(due.newest.Audit.Number-p.Audit.Number, 0)
	s.status.Journal = max(due.newest.Journal.Number-p.Journal.Number, 0)
	s.status.Since = time.Time{}
	if n < len(due.batch) {
		s.status.Since = due.batch[n].At
	}
	return nil
}

// due is what has to be sent next.
type due struct {
	position position
	newest   position // how far the chains have come; its links are not set
	batch    []Message
	hasMore  bool
}

// errFull ends the reading of a batch.
var errFull = errors.New("the batch is full")

// readDue reads the position and what is behind it, and sets the status.
func (s *Service) readDue(ctx context.Context) (*due, error) {
	d := &due{}
	p, err := s.readPosition(ctx)
	if err != nil {
		return d, err
	}
	d.position = p
	last, err := s.Store.AuditEntries(ctx, store.AuditQuery{Limit: 1})
	if err != nil {
		return d, err
	}
	if len(last) > 0 {
		d.newest.Audit.Number = last[0].Seq
	}
	if h, ok := s.Head(); ok {
		d.newest.Journal.Number = h.N
	}
	if d.newest.Audit.Number != p.Audit.Number {
		err = s.readChain(ctx, d, journal.AuditChain, s.readTrail)
	}
	if err == nil && s.Journal != nil && d.newest.Journal.Number > 0 && d.newest.Journal.Number != p.Journal.Number {
		err = s.readChain(ctx, d, JournalChain, s.readSeals)
	}
	if err != nil {
		return d, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Audit = max(d.newest.Audit.Number-d.position.Audit.Number, 0)
	s.status.Journal = max(d.newest.Journal.Number-d.position.Journal.Number, 0)
	s.status.Since = time.Time{}
	for _, m := range d.batch {
		if s.status.Since.IsZero() || m.At.Before(s.status.Since) {
			s.status.Since = m.At
		}
	}
	return d, nil
}

// A chainReader adds what is behind the position to the batch. It returns errGone when the entry at the position is not
// there any more, and errFull when the batch is full.
type chainReader func(ctx context.Context, d *due) error

// errGone says that the last entry that a receiver has is not in the store: it is another store, or it was changed.
var errGone = errors.New("the last entry that was sent is not there any more")

// readChain reads a chain into the batch. When the entry at the position is gone, it begins with the first one.
func (s *Service) readChain(ctx context.Context, d *due, chain string, read chainReader) error {
	err := read(ctx, d)
	if errors.Is(err, errGone) {
		s.Log.WarnContext(ctx, "the last entry that the SIEM has is not in the store any more: all is sent again",
			"chain", chain, "number", d.position.of(chain).Number)
		*d.position.of(chain) = mark{}
		err = read(ctx, d)
	}
	if errors.Is(err, errFull) {
		d.hasMore = true
		return nil
	}
	return err
}

// add adds a message to the batch, unless that is full.
func (d *due) add(m Message) error {
	size := 0
	for i := range d.batch {
		size += len(d.batch[i].Line)
	}
	if len(d.batch) >= batchLen || size >= batchBytes {
		return errFull
	}
	m.Line = bytes.TrimSuffix(m.Line, []byte("\n"))
	d.batch = append(d.batch, m)
	return nil
}

// readTrail is the reader of the audit trail.
func (s *Service) readTrail(ctx context.Context, d *due) error {
	at := d.position.Audit
	_, err := s.Trail.EachChecked(ctx, journal.ChainEnd{Chain: journal.AuditChain, Seq: at.Number, Link: at.Link},
		func(row *journal.ExportedEntry, fault error) error {
			m := Message{Chain: journal.AuditChain, Number: row.Seq, Link: row.Link}
			var e operator.Entry
			if err := json.Unmarshal(row.Content, &e); err == nil {
				m.At, m.Event = e.At, e.Action
			} else {
				m.Event, row.IsLeftOut = "unreadable", true
			}
			m.Fields = []Field{{"who", e.Who}, {"role", string(e.Role)}, {"from", e.From}, {"object", e.Object}}
			if fault != nil {
				m.Fault = fault.Error()
			}
			var err error
			if m.Line, err = row.Line(); err != nil {
				return err
			}
			return d.add(m)
		})
	if _, isGone := errors.AsType[*journal.ChainError](err); isGone {
		return errGone
	}
	return err
}

// readSeals is the reader of the seals of the journal.
func (s *Service) readSeals(ctx context.Context, d *due) error {
	at := d.position.Journal
	err := journal.EachSeal(ctx, s.Journal, s.Trail.Keys, journal.Head{N: at.Number, Hash: at.Link},
		func(seal *journal.Seal, note journal.SealNote) error {
			line, err := seal.Line()
			if err != nil {
				return err
			}
			d.newest.Journal.Number = max(d.newest.Journal.Number, seal.N)
			return d.add(Message{
				Chain: JournalChain, Number: seal.N, Link: seal.Hash(), At: note.At, Event: "journal." + note.Kind,
				Fields: []Field{{"keyId", seal.KeyID}}, Line: line, Fault: note.Fault,
			})
		})
	if errors.Is(err, journal.ErrSealGone) {
		return errGone
	}
	return err
}
