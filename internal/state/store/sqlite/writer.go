package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	queueLen = 1024 // writes that wait; further callers wait for room
	batchLen = 512  // writes in one commit
)

// A request is one write on its way.
//
// It makes its changes with exactly one statement. If that fails, SQLite undoes only this statement, so a request needs
// no savepoint to protect the others in its batch. A request that needs several statements uses the savepoint of
// atomically.
type request struct {
	// do runs it. A nil answer says that it is done. Any other answer is what the caller gets instead, such as a fact
	// of the contract. failed means that the statement did not run.
	do   func(w *writer) (answer, failed error)
	lazy bool // it need not be on disk when it is answered

	state atomic.Int32 // waiting until the writer or the caller takes it
	err   error        // set before done is closed
	done  chan struct{}
}

// States of a request.
const (
	waiting = iota
	started // the writer has it: there will be an answer
	dropped // the caller is gone: the writer must leave it
)

func (r *request) finish(err error) {
	r.err = err
	close(r.done)
}

// write is a call that has the writer do something, and waits until that is on disk.
func (db *DB) write(ctx context.Context, what string, do func(w *writer) (answer, failed error)) error {
	if err := db.beginCall(ctx); err != nil {
		return err
	}
	defer db.endCall()
	return db.withWriter(ctx, what, do)
}

// change is a call that has the writer run one statement. The answer is none when no row has changed.
func (db *DB) change(ctx context.Context, what string, none error, statement string, args ...any) error {
	return db.write(ctx, what, func(w *writer) (answer, failed error) {
		return changed(none)(w.exec(statement, args...))
	})
}

// withWriter is write within a call.
func (db *DB) withWriter(ctx context.Context, what string, do func(w *writer) (answer, failed error)) error {
	return db.submit(ctx, what, &request{do: do, done: make(chan struct{})})
}

// withLazyWriter is withWriter, but waits only until the data is with the operating system. From then on all processes
// see it. The next commit that is not lazy puts it on disk.
func (db *DB) withLazyWriter(ctx context.Context, what string, do func(w *writer) (answer, failed error)) error {
	return db.submit(ctx, what, &request{do: do, lazy: true, done: make(chan struct{})})
}

// submit gives a request to the writer and waits for its outcome. If ctx ends before
// the writer takes the request, it is never done; after that its outcome is waited for.
// An error that is not an answer of the request says what was being done.
func (db *DB) submit(ctx context.Context, what string, r *request) error {
	if err := ctx.Err(); err != nil { // where both are ready, select takes either
		return err
	}
	db.counts.begun.Add(1)
	defer db.counts.begun.Add(-1)
	select {
	case db.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, dropped) {
			return ctx.Err()
		}
		<-r.done
	}
	switch err := r.err.(type) {
	case failure:
		return fmt.Errorf("sqlite: %s: %w (%w)", what, err.error, store.ErrUndone)
	case doubt:
		return fmt.Errorf("sqlite: %s: %w", what, err.error)
	}
	return r.err
}

// failure marks an error of SQLite, as against an answer: nothing was written.
type failure struct{ error }

// doubt is an error of SQLite after which the write may still be there when the store is opened the next time.
type doubt struct{ error }

// A Stat says how busy the one connection is that writes.
type Stat struct {
	Writes  int64 // since Open, that are done
	Commits int64 // that it took
	Failed  int64 // commits that failed, with all writes in them
	Waiting int   // writes in a commit that has not begun
}

// Stat returns how busy the store is.
func (db *DB) Stat() Stat {
	commits := db.counts.commits.Load() // read first: the writes of each commit are counted before it
	return Stat{
		Writes: db.counts.writes.Load(), Commits: commits, Failed: db.counts.failed.Load(),
		Waiting: len(db.queue),
	}
}

// Queue returns how many writes are not done yet, and how many have been done since
// Open. Those of the commit under way count as not done: the others wait for it.
func (db *DB) Queue() (waiting int, served uint64) {
	return int(db.counts.begun.Load()), uint64(db.counts.writes.Load())
}

type counts struct {
	writes, commits, failed atomic.Int64
	begun                   atomic.Int64 // writes that are not done
}

// A writer is the connection that writes, and its statements. Only the goroutine
// of run uses it.
type writer struct {
	*statements
	place  place
	counts *counts
	lazy   bool // commits do not wait for the disk
}

const (
	sqlBegin            = "BEGIN IMMEDIATE"
	sqlCommit           = "COMMIT"
	sqlRollback         = "ROLLBACK"
	sqlSavepoint        = "SAVEPOINT several"
	sqlUndo             = "ROLLBACK TO several"
	sqlReleaseSavepoint = "RELEASE several"
)

// run writes batch after batch until the queue is closed and empty. A batch is all requests that came while the
// previous batch was written.
func (w *writer) run(queue <-chan *request) {
	batch := make([]*request, 0, batchLen)
	for first := range queue {
		batch = gather(append(batch[:0], first), queue)
		if len(batch) > 0 {
			w.writeBatch(batch)
		}
		clear(batch) // keeps no caller's memory
	}
}

// gather adds what is in the queue to batch, and starts or removes every request.
func gather(batch []*request, queue <-chan *request) []*request {
	for len(batch) < batchLen {
		select {
		case r, ok := <-queue:
			if ok {
				batch = append(batch, r)
				continue
			}
		default:
		}
		break
	}
	kept := batch[:0]
	for _, r := range batch {
		if r.state.CompareAndSwap(waiting, started) {
			kept = append(kept, r)
		}
	}
	return kept
}

// writeBatch does all requests in one transaction and answers them. A request that fails is answered with its error,
// and the others go on. If the transaction fails, all are answered with that error.
func (w *writer) writeBatch(batch []*request) {
	errs := make([]error, len(batch))
	err := w.transact(batch, errs)
	if err == nil {
		w.counts.writes.Add(int64(len(batch))) // before the commit that has them: see Stat
		w.counts.commits.Add(1)
	} else {
		w.counts.failed.Add(1)
	}
	for i, r := range batch {
		if err != nil {
			r.finish(err)
		} else {
			r.finish(errs[i])
		}
	}
}

// transact does a batch in one transaction. It returns nil when that is committed; then errs has the answer to each
// request. Any other error is a failure or a doubt that holds for all requests.
func (w *writer) transact(batch []*request, errs []error) error {
	if err := w.setLazy(!slices.ContainsFunc(batch, func(r *request) bool { return !r.lazy })); err != nil {
		return failure{err}
	}
	err := patiently(func() error {
		_, err := w.exec(sqlBegin)
		return err
	})
	if err != nil {
		return failure{err}
	}
	for i, r := range batch {
		answer, failed := r.do(w)
		errs[i] = answer
		if failed == nil {
			continue
		}
		errs[i] = failure{failed}
		// Some errors make SQLite undo the whole transaction. Then a new one can begin, and the writes before are lost.
		if _, err := w.exec(sqlBegin); err == nil {
			return w.abandon(failure{failed})
		}
	}
	if err := w.place.check(); err != nil {
		return w.abandon(failure{err})
	}
	if _, err := w.exec(sqlCommit); isFull(err) {
		return w.abandon(failure{err})
	} else if err != nil {
		return w.abandon(doubt{err}) // the log may have all of it
	}
	return nil
}

// setLazy sets whether the next commit waits for the disk. A commit that waits syncs the whole log, and with it all
// lazy commits before. SQLite also syncs the log before it moves its content into the database.
func (w *writer) setLazy(lazy bool) error {
	if lazy == w.lazy {
		return nil
	}
	set := func(level string) func() error { // not prepared: it works when it is compiled
		return func() error {
			_, err := w.conn.ExecContext(context.Background(), "PRAGMA synchronous = "+level)
			return err
		}
	}
	if lazy {
		w.lazy = true
		_ = set("NORMAL")() // else the commit takes longer
		return nil
	}
	err := patiently(set("FULL"))
	w.lazy = err != nil
	return err
}

// abandon undoes what is left of the transaction that failed with err, and returns err.
func (w *writer) abandon(err error) error {
	// Fails when SQLite has undone it already, which is as good.
	_, _ = w.exec(sqlRollback)
	return err
}

// atomically runs a request that needs several statements. If one of them fails, none has changed anything.
func (w *writer) atomically(do func() (answer, failed error)) (answer, failed error) {
	if _, err := w.exec(sqlSavepoint); err != nil {
		return nil, err
	}
	answer, failed = do()
	if failed == nil {
		_, err := w.exec(sqlReleaseSavepoint)
		return answer, err
	}
	_, err := w.exec(sqlUndo)
	if err == nil {
		_, err = w.exec(sqlReleaseSavepoint)
	}
	if err != nil {
		// A half-done request must not be committed: transact sees that nothing is left.
		failed = w.abandon(failed)
	}
	return nil, failed
}
