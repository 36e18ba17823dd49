package journal

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	queueLen  = 8192                   // entries that may wait for the writer
	batchLen  = 500                    // entries that are written at once
	batchWait = 100 * time.Millisecond // how long an entry waits for others
	writeTime = 5 * time.Second        // how long one batch may take
	rollTime  = 5 * time.Second        // how long rollups are made in each minute
)

// A Journal takes entries from requests and writes them in the background. Make it with [New], and have [Journal.Run] run.
type Journal struct {
	Store Store
	Keys  *Keys
	Node  string // names this process in steps
	Log   *slog.Logger
	Now   func() time.Time
	Keep  time.Duration // how long entries are kept

	// Messages is how long the messages of entries are kept, Keep at most.
	Messages time.Duration

	// CatchUp adds what the journal lacks of the transactions that the store has. It is called at the start and after
	// entries were dropped with all set, and once a minute. Nil means that nothing is caught up.
	CatchUp func(ctx context.Context, all bool) error

	queue                    chan func() []Entry
	written, dropped, failed atomic.Uint64
	isFailing, hasGap        atomic.Bool
}

// New returns a journal over a store. Set Keep, Node and CatchUp before Run.
func New(st Store, keys *Keys, log *slog.Logger, now func() time.Time) *Journal {
	return &Journal{Store: st, Keys: keys, Log: log, Now: now, queue: make(chan func() []Entry, queueLen)}
}

// CardHash is [Keys.CardHash].
func (j *Journal) CardHash(pan string) []byte { return j.Keys.CardHash(pan) }

// Add adds an entry as [Journal.AddLater] does.
func (j *Journal) Add(e Entry) { j.AddLater(func() []Entry { return []Entry{e} }) }

// AddLater adds the entries that build returns; the writer calls it. AddLater never waits: what there is no room for is
// dropped and counted.
func (j *Journal) AddLater(build func() []Entry) {
	select {
	case j.queue <- build:
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
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	for len(j.queue) > 0 {
		var batch []Entry
		for len(batch) < batchLen && len(j.queue) > 0 {
			batch = append(batch, j.build(<-j.queue)...)
		}
		if !j.write(last, batch) {
			return
		}
	}
}

// build returns the entries of one call of AddLater, with the name of this node.
func (j *Journal) build(build func() []Entry) []Entry {
	entries := build()
	for _, e := range entries {
		for i := range e.Steps {
			e.Steps[i].Node = j.Node
		}
	}
	return entries
}

// collect waits for entries and returns those that came within batchWait.
func (j *Journal) collect(ctx context.Context) []Entry {
	var batch []Entry
	select {
	case <-ctx.Done():
		return nil
	case build := <-j.queue:
		batch = append(batch, j.build(build)...)
	}
	timer := time.NewTimer(batchWait)
	defer timer.Stop()
	for len(batch) < batchLen {
		select {
		case <-ctx.Done():
			return batch
		case <-timer.C:
			return batch
		case build := <-j.queue:
			batch = append(batch, j.build(build)...)
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
	if err == nil {
		j.isFailing.Store(false)
		return true
	}
	j.failed.Add(uint64(len(batch)))
	if !j.isFailing.Swap(true) {
		j.Log.WarnContext(ctx, "journal not written", "entries", len(batch), "err", err)
	}
	return false
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
	if err := j.Store.Expire(ctx, now.Add(-j.Keep)); err != nil {
		return err
	}
	if err := j.Store.ExpireMessages(ctx, now.Add(-j.Messages)); err != nil {
		return err
	}
	return j.Store.Roll(ctx, now, rollTime)
}
