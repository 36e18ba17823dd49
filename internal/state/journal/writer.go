package journal

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	queueLen  = 8192                   // entries that may wait for the writer
	batchLen  = 8 * frameLen           // entries that are written at once
	batchWait = 500 * time.Millisecond // how long an entry waits for others, so that they share a commit
	claimsLen = 8192                   // claims that may wait for their answers, which have their steps, too
	writeTime = 5 * time.Second        // how long one batch may take
	rollTime  = 5 * time.Second        // how long rollups are made in each minute
)

// A Journal takes entries from requests and writes them in the background. Make it with [New], and
// have [Journal.Run] run.
type Journal struct {
	Store Store
	Keys  *Keys
	Node  string // names this process in steps
	Log   *slog.Logger
	Now   func() time.Time
	// CatchUp adds what the journal lacks of the transactions that the store has. It is called at the start and after
	// entries were dropped with all set, and once a minute. Nil means that nothing is caught up.
	CatchUp func(ctx context.Context, all bool) error
	// Trail returns the end of the audit trail, which heads name too; nil when it is not as it was written.
	Trail func(ctx context.Context) *ChainEnd

	newestHead atomic.Pointer[Head]
	toldFaults []string // faults that are in the log
	toldDays   int      // how many days holds keep, as the log says

	queue                    chan later
	batch                    []Entry // room for the entries that are written at once
	claims                   claimQueue
	written, dropped, failed atomic.Uint64
	isFailing, hasGap        atomic.Bool
	keep                     atomic.Int64 // how long entries are kept
	messages                 atomic.Int64 // how long the messages of entries are kept
	personal                 atomic.Int64 // how long personal data are kept; 0 means that none are
}

// New returns a journal over a store. Set Node and CatchUp, and call KeepFor, before Run.
func New(st Store, keys *Keys, log *slog.Logger, now func() time.Time) *Journal {
	return &Journal{Store: st, Keys: keys, Log: log, Now: now, queue: make(chan later, queueLen)}
}

// KeepFor says how long entries are kept, and how long their messages, which is at most as long. It may
// be called at any time.
func (j *Journal) KeepFor(entries, messages time.Duration) {
	j.keep.Store(int64(entries))
	j.messages.Store(int64(messages))
}

// CardHash is [Keys.CardHash].
func (j *Journal) CardHash(pan string) []byte { return j.Keys.CardHash(pan) }

// Add adds an entry as [Journal.AddLater] does.
func (j *Journal) Add(e Entry) { j.AddLater(func() []Entry { return []Entry{e} }) }

// AddLater adds the entries that build returns; the writer calls it. AddLater never waits: what there is no room for is
// dropped and counted.
func (j *Journal) AddLater(build func() []Entry) { j.enqueue(later{build, nil}) }

// AddClaim is AddLater for the entry of the claim of an authentication, whose answer comes within a time. If it comes,
// it alone is written: the entry of an answer begins with the steps of the claim. The claim is written when the time is
// over, when Run ends, and at once if too many claims wait.
func (j *Journal) AddClaim(id string, within time.Duration, build func() []Entry) {
	j.enqueue(later{build, &waitingClaim{id, time.Now().Add(within), build}})
}

// A later is what becomes entries when the writer comes to it.
type later struct {
	build func() []Entry
	claim *waitingClaim // nil for all that is no claim
}

func (j *Journal) enqueue(l later) {
	select {
	case j.queue <- l:
	default:
		j.dropped.Add(1)
		j.hasGap.Store(true)
	}
}

// Counts returns how many entries were written, dropped, and failed to be written once, and how many wait.
func (j *Journal) Counts() (written, dropped, failed uint64, waiting int) {
	return j.written.Load(), j.dropped.Load(), j.failed.Load(), len(j.queue)
}

// IsFailing reports whether the last batch could not be written.
func (j *Journal) IsFailing() bool { return j.isFailing.Load() }

// Run writes entries until ctx ends, and then those that wait.
func (j *Journal) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if batch := j.collect(ctx); len(batch) > 0 {
			j.writeUntilDone(ctx, batch)
			clear(batch) // what is written may go before the next batch comes
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	for len(j.queue) > 0 || j.claims.len() > 0 {
		var batch []Entry
		for len(batch) < batchLen && len(j.queue) > 0 {
			batch = j.appendEntries(batch, <-j.queue)
		}
		for len(batch) < batchLen && len(j.queue) == 0 && j.claims.len() > 0 {
			batch = j.build(batch, j.claims.pop())
		}
		if len(batch) > 0 && !j.write(last, batch) {
			return
		}
	}
}

// appendEntries appends the entries of one call of AddLater. Those of a claim are kept back as long as there is room.
func (j *Journal) appendEntries(batch []Entry, l later) []Entry {
	if l.claim == nil || j.claims.len() >= claimsLen {
		return j.build(batch, l.build)
	}
	j.claims.push(l.claim)
	return batch
}

// build appends entries, with the name of this node. The claims of those that are answered are not needed any more.
func (j *Journal) build(batch []Entry, build func() []Entry) []Entry {
	for _, e := range build() {
		for i := range e.Steps {
			e.Steps[i].Node = j.Node
			if j.personal.Load() == 0 {
				e.Steps[i].Personal = nil
			}
		}
		if e.Kind == Answered {
			j.claims.remove(e.Record.ID)
		}
		batch = append(batch, e)
	}
	return batch
}

// collect waits for entries and returns those that came within batchWait, and claims that have waited long enough.
func (j *Journal) collect(ctx context.Context) []Entry {
	batch := j.batch[:0]
	defer func() { j.batch = batch }() // the next batch takes its room
	var timer <-chan time.Time         // ends the batch; nil before the first entry
	for len(batch) < batchLen {
		due := timer
		if timer == nil {
			due = j.claims.due()
		}
		select {
		case <-ctx.Done():
			return batch
		case <-due:
			for len(batch) < batchLen && j.claims.isDue(time.Now()) {
				batch = j.build(batch, j.claims.pop())
			}
			return batch
		case l := <-j.queue:
			if timer == nil {
				timer = time.After(batchWait)
			}
			batch = j.appendEntries(batch, l)
		}
	}
	return batch
}

// writeUntilDone writes a batch, again and again until it succeeds or ctx ends.
func (j *Journal) writeUntilDone(ctx context.Context, batch []Entry) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		if j.write(context.WithoutCancel(ctx), batch) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// write writes a batch and reports whether that succeeded.
func (j *Journal) write(ctx context.Context, batch []Entry) bool {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	n, err := j.Store.Write(ctx, batch)
	j.written.Add(uint64(n))
	if err = j.dropLost(ctx, err); err == nil {
		j.isFailing.Store(false)
		return true
	}
	j.failed.Add(uint64(len(batch)))
	if !j.isFailing.Swap(true) {
		j.Log.WarnContext(ctx, "journal not written", "entries", len(batch), "err", err)
	}
	return false
}

// dropLost counts entries that an error says cannot be written, for the keys of their days are gone, and returns any
// other error. To try them again would be of no use.
func (j *Journal) dropLost(ctx context.Context, err error) error {
	lost := &ForgottenDaysError{}
	if err := lost.add(err); err != nil || lost.Count() == 0 {
		return err
	}
	j.dropped.Add(uint64(lost.Count()))
	j.Log.ErrorContext(ctx, "journal entries dropped", "entries", lost.Count(), "err", lost)
	return nil
}

// WriteNow writes entries without waiting for Run. It counts what cannot be written as Run does.
func (j *Journal) WriteNow(ctx context.Context, entries []Entry) error {
	_, err := j.Store.Write(ctx, entries)
	return j.dropLost(ctx, err)
}

// RunDuties catches up what is missing, signs the days that are over, removes those that are too old and counts what is
// over, until ctx ends.
func (j *Journal) RunDuties(ctx context.Context) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	isFirst := true
	for {
		if err := j.doDuties(ctx, isFirst); err != nil && ctx.Err() == nil {
			j.Log.WarnContext(ctx, "journal not brought up to date", "err", err)
		} else {
			isFirst = false
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (j *Journal) doDuties(ctx context.Context, isFirst bool) error {
	if j.CatchUp != nil {
		hasGap := j.hasGap.Swap(false)
		if err := j.CatchUp(ctx, isFirst || hasGap); err != nil {
			j.hasGap.Store(true)
			return err
		}
	}
	now := j.Now()
	if err := j.Store.Sign(ctx, now); err != nil {
		return err
	}
	if err := j.makeHead(ctx, now); err != nil {
		return err
	}
	if err := j.Store.Expire(ctx, now.Add(-time.Duration(j.keep.Load()))); err != nil {
		return err
	}
	if err := j.Store.ExpireMessages(ctx, now.Add(-time.Duration(j.messages.Load()))); err != nil {
		return err
	}
	if err := j.expirePersonal(ctx, now); err != nil {
		return err
	}
	if err := j.heedHolds(ctx); err != nil {
		return err
	}
	j.Keys.checkFile()
	return j.Store.Roll(ctx, now, rollTime)
}
