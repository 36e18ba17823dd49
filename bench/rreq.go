package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/store/sqlite"
)

// resultTime measures how long an RReq takes to its RRes, at a steady rate, and
// how many are committed in a second, against bare inserts into a store of the
// same kind.
func resultTime(ctx context.Context, b *bench) (rows []row, err error) {
	w, err := newWorld(ctx, b, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	if err := w.challenge(ctx, b); err != nil {
		return nil, err
	}
	steady, err := w.results(ctx, b, "RReq", 20*time.Millisecond)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "inserts-")
	if err != nil {
		return nil, err
	}
	db, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close(), os.RemoveAll(dir)) }()
	speed, err := w.bursts(ctx, b, db)
	if err != nil {
		return nil, err
	}
	speed.what, speed.target = "RReq committed/s, ratio to bare inserts", ">= 0.5"
	return []row{steady, speed}, nil
}

// challenge makes all challenges whose results will be sent.
func (w *world) challenge(ctx context.Context, b *bench) error {
	if err := w.directory.ask(ctx, "Directory.Behave", Manner{Status: "C"}, new(int)); err != nil {
		return err
	}
	b.say("%d challenges are prepared", b.plan.challenges())
	return w.ask(ctx, "Load.Challenge", b.plan.challenges(), new(int))
}

// results measures how long an RReq takes at a steady rate.
func (w *world) results(ctx context.Context, b *bench, name string, most time.Duration) (row, error) {
	var steady Timed
	for _, n := range []int{b.plan.warmResults(), b.plan.results} {
		steady = Timed{}
		if err := w.ask(ctx, "Load.Deliver", Deliveries{Count: n, Rate: b.plan.resultRate, Dir: w.dir}, &steady); err != nil {
			return row{}, err
		}
	}
	p99 := percentile(steady.Calm, 0.99)
	return row{
		what: fmt.Sprintf("%s to RRes at %.0f/s, p99", name, b.plan.resultRate), target: fmt.Sprintf("<= %.0f ms", ms(most)),
		measured: fmt.Sprintf("%.2f ms", ms(p99)), good: p99 <= most,
		note: fmt.Sprintf("p50 %.2f ms; ", ms(median(steady.Calm))) + steady.circumstances(),
	}, nil
}

// bursts compares how many results a second the program takes with how many bare inserts db,
// a store of the same kind, takes. The two take turns.
func (w *world) bursts(ctx context.Context, b *bench, db store.Store) (_ row, err error) {
	p := b.plan
	var ratios, ours []float64
	for i := range p.bursts {
		var got Timed
		var bare float64
		results := func() error {
			return w.ask(ctx, "Load.Deliver", Deliveries{Count: p.resultBurst, Conns: p.resultConns}, &got)
		}
		inserts := func() (err error) {
			bare, err = insert(ctx, db, p.resultBurst, p.resultConns)
			return err
		}
		if i%2 == 0 {
			err = errors.Join(results(), inserts())
		} else {
			err = errors.Join(inserts(), results())
		}
		if err != nil {
			return row{}, err
		}
		speed := float64(p.resultBurst) / got.Wall.Seconds()
		b.say("round %d: %.0f results/s, %.0f inserts/s", i+1, speed, bare)
		ratios, ours = append(ratios, speed/bare), append(ours, speed)
	}
	return row{
		measured: fmt.Sprintf("%.2f", median(ratios)), good: median(ratios) >= 0.5,
		note: fmt.Sprintf("rounds %.2f to %.2f; %.0f/s on %d connections",
			percentile(ratios, 0), percentile(ratios, 1), median(ours), p.resultConns),
	}, nil
}

// insert creates n transactions in db, as many at once as there are writers, each
// of the size of one with a result, and returns how many a second.
func insert(ctx context.Context, db store.Store, n, writers int) (float64, error) {
	data := make([]byte, 2048)
	ends := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	var faults faults
	start := time.Now()
	closedLoop(writers, n, func(int) {
		faults.note(db.Create(ctx, store.Txn{ID: newUUID(), Owner: "Bench", Scheme: "visa", State: "result", Data: data, Expires: ends}))
	})
	return float64(n) / time.Since(start).Seconds(), faults.err()
}
