package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/openthreeds/threeds/internal/base/uuid"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
)

// addedTime measures what /auth adds to the time that the directory server takes
// itself, at a steady rate.
func addedTime(ctx context.Context, b *bench) (rows []row, err error) {
	w, err := newTestbed(ctx, b, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	return w.measureAdded(ctx, b, "/auth", 2*time.Millisecond, 10*time.Millisecond)
}

// measureAdded is addedTime in a testbed that runs already. The targets are those of p50 and p99.
func (w *testbed) measureAdded(ctx context.Context, b *bench, name string, most50, most99 time.Duration) ([]row, error) {
	warm := Authentications{Count: b.plan.warmAuths, Rate: b.plan.authRate, Every: 10, Dir: w.dir}
	if err := w.ask(ctx, "Load.Authenticate", warm, new(Authenticated)); err != nil {
		return nil, err
	}
	var got Authenticated
	all := Authentications{Count: b.plan.auths, Rate: b.plan.authRate, Every: 10, Dir: w.dir}
	if err := w.ask(ctx, "Load.Authenticate", all, &got); err != nil {
		return nil, err
	}
	what := fmt.Sprintf("time added by %s at %.0f/s, ", name, b.plan.authRate)
	p50, p99 := median(got.Added.Calm), percentile(got.Added.Calm, 0.99)
	return []row{{
		what: what + "p50", target: fmt.Sprintf("<= %.0f ms", ms(most50)), measured: fmt.Sprintf("%.2f ms", ms(p50)), good: p50 <= most50,
		note: fmt.Sprintf("an exchange with the directory alone %.2f ms, a sync of the disk %.2f ms", ms(median(got.Direct)), ms(median(got.Added.Syncs))),
	}, {
		what: what + "p99", target: fmt.Sprintf("<= %.0f ms", ms(most99)), measured: fmt.Sprintf("%.2f ms", ms(p99)), good: p99 <= most99,
		note: got.Added.describe(),
	}}, nil
}

// inFlightMemory measures how much memory the server needs at the most while very many
// /auth wait for a slow directory server: first with connections still to be made, then
// with all of them open.
func inFlightMemory(ctx context.Context, b *bench) (rows []row, err error) {
	p := b.plan
	if err := raiseFiles(uint64(2*p.inFlight + 1000)); err != nil {
		return nil, err
	}
	w, err := newTestbedOf(ctx, b, setup{versions: "2.1.0, 2.2.0", limits: manyConns + allCome})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	// A few first, so that what is made only once is not counted.
	few := Authentications{Count: 20, Rate: 100}
	if err := w.ask(ctx, "Load.Authenticate", few, new(Authenticated)); err != nil {
		return nil, err
	}
	before, _, err := memory(w.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	// All of them wait until the last one has come.
	arrive := time.Duration(float64(p.inFlight) / p.coldRate * float64(time.Second))
	most, _, err := w.sendWave(ctx, b, p.coldRate, arrive+2*p.slowAnswer)
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for range p.warmTimes {
		_, t, err := w.sendWave(ctx, b, p.warmRate, p.slowAnswer)
		if err != nil {
			return nil, err
		}
		took = append(took, percentile(t, 0.99))
	}
	after, highest, err := memory(w.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	each := float64(highest-before) / float64(p.inFlight) / 1024
	return []row{{
		what: fmt.Sprintf("memory per /auth in flight, %d", p.inFlight), target: "<= 150 KiB",
		measured: fmt.Sprintf("%.1f KiB", each), good: each <= 150 && most >= int64(p.inFlight),
		note: fmt.Sprintf("0 errors; resident %d MiB before, %d at its highest, %d after; directory %.0f s: /auth p99 %.2f s",
			before>>20, highest>>20, after>>20, p.slowAnswer.Seconds(), median(took).Seconds()),
	}}, nil
}

// sendWave sends plan.inFlight /auth and waits for all answers. It returns how many the
// directory server had in flight at once, and how long each took.
func (w *testbed) sendWave(ctx context.Context, b *bench, rate float64, delay time.Duration) (int64, []time.Duration, error) {
	if err := w.directory.ask(ctx, "Directory.SetBehaviour", Behaviour{Status: "Y", Delay: delay}, new(int)); err != nil {
		return 0, nil, err
	}
	var got Authenticated
	if err := w.ask(ctx, "Load.Authenticate", Authentications{Count: b.plan.inFlight, Rate: rate}, &got); err != nil {
		return 0, nil, err
	}
	var most int64
	if err := w.directory.ask(ctx, "Directory.MaxInFlight", 0, &most); err != nil {
		return 0, nil, err
	}
	now, highest, err := memory(w.cmd.Process.Pid)
	b.printf("%d at %.0f/s: %d at once, p50 %.3f s, p99 %.3f s, generator late by %.0f ms, resident %d MiB, at its highest %d",
		b.plan.inFlight, rate, most, median(got.Took).Seconds(), percentile(got.Took, 0.99).Seconds(),
		ms(percentile(got.Added.Late, 1)), now>>20, highest>>20)
	return most, got.Took, err
}

// resultTime measures how long an RReq takes to its RRes, at a steady rate, and
// how many are committed in a second, against bare inserts into a store of the
// same kind.
func resultTime(ctx context.Context, b *bench) (rows []row, err error) {
	w, err := newTestbed(ctx, b, "")
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
	speed.what, speed.target = "RReq committed/s, ratio to bare inserts", ">= 0.25"
	return []row{steady, speed}, nil
}

// challenge makes all challenges whose results will be sent.
func (w *testbed) challenge(ctx context.Context, b *bench) error {
	if err := w.directory.ask(ctx, "Directory.SetBehaviour", Behaviour{Status: "C"}, new(int)); err != nil {
		return err
	}
	b.printf("%d challenges are prepared", b.plan.challenges())
	return w.ask(ctx, "Load.Challenge", b.plan.challenges(), new(int))
}

// results measures how long an RReq takes at a steady rate.
func (w *testbed) results(ctx context.Context, b *bench, name string, most time.Duration) (row, error) {
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
		note: fmt.Sprintf("p50 %.2f ms; ", ms(median(steady.Calm))) + steady.describe(),
	}, nil
}

// bursts compares how many results a second the program takes with how many bare inserts db,
// a store of the same kind, takes. The two take turns.
func (w *testbed) bursts(ctx context.Context, b *bench, db store.Store) (_ row, err error) {
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
		b.printf("round %d: %.0f results/s, %.0f inserts/s", i+1, speed, bare)
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
		faults.note(db.Create(ctx, store.Txn{ID: uuid.New(), Owner: "Bench", Scheme: "visa", State: "result", Data: data, Expires: ends}))
	})
	return float64(n) / time.Since(start).Seconds(), faults.err()
}
