package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// journalSettle is how long the journal may go on with what a burst has left: entries are written within a second.
const journalSettle = time.Second

// journalCost measures what the journal costs with the embedded store: with a directory that answers immediately, and
// with one that takes its time, so that each claim waits for its answer.
func journalCost(ctx context.Context, b *bench) ([]row, error) {
	rows, err := compareJournals(ctx, b, comparedJournals{conns: 32})
	if err != nil {
		return nil, err
	}
	slow, err := compareJournals(ctx, b, comparedJournals{
		name:  fmt.Sprintf(", directory of %.1f s", b.plan.slowAnswer.Seconds()),
		delay: b.plan.slowAnswer, conns: min(b.plan.costBurst, 500),
	})
	return append(rows, slow...), err
}

// comparedJournals says how two servers are compared, one of which keeps no journal.
type comparedJournals struct {
	name   string        // name is what the rows of the table say of it.
	stores [2]string     // stores are URLs; "" is the embedded store.
	delay  time.Duration // delay is how long the directory server takes to answer.
	conns  int           // conns is on how many connections a burst comes.
}

// compareJournals measures processor time and latency of two servers, one of which keeps no journal. They take turns,
// since what else the machine does changes meanwhile.
func compareJournals(ctx context.Context, b *bench, c comparedJournals) (rows []row, err error) {
	var worlds [2]*testbed // without a journal, and with one
	for i, journal := range []string{"journal: off", ""} {
		w, err := newTestbedOf(ctx, b, setup{versions: "2.1.0, 2.2.0", limits: manyConns + allCome, store: c.stores[i], journal: journal})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, w.stop()) }()
		worlds[i] = w
		err = w.directory.ask(ctx, "Directory.SetBehaviour", Behaviour{Status: "Y", Delay: c.delay}, new(int))
		if err != nil {
			return nil, err
		}
	}
	var costs [2][]float64 // µs of a processor for each authentication, by world
	var latencies [2][]time.Duration
	var ratios []float64
	for turn := range b.plan.costTurns + 1 {
		var each [2]float64
		for i := range worlds {
			i := (i + turn) % len(worlds)
			used, took, err := worlds[i].turnOf(ctx, b, c.conns)
			if err != nil {
				return nil, err
			}
			if each[i] = float64(used.Microseconds()) / float64(b.plan.costBurst); turn > 0 {
				costs[i], latencies[i] = append(costs[i], each[i]), append(latencies[i], took...)
			}
		}
		if turn == 0 {
			continue // connections were made, and memory grew
		}
		b.printf("turn %d: %.0f µs without a journal, %.0f µs with one", turn, each[0], each[1])
		ratios = append(ratios, each[1]/each[0])
	}
	ratio, more := sum(costs[1])/sum(costs[0]), percentile(latencies[1], 0.99)-percentile(latencies[0], 0.99)
	return []row{{
		what: "processor time of /preauth and /auth with a journal, ratio" + c.name, target: "<= 1.25", measured: fmt.Sprintf("%.2f", ratio), good: ratio <= 1.25,
		note: fmt.Sprintf("of the whole run; turns %.2f to %.2f, median %.2f; medians %.0f µs to %.0f µs", percentile(ratios, 0),
			percentile(ratios, 1), median(ratios), median(costs[1]), median(costs[0])),
	}, {
		what: "p99 of /auth with a journal, more" + c.name, target: "<= 1 ms", measured: fmt.Sprintf("%.2f ms", ms(more)), good: more <= time.Millisecond,
		note: fmt.Sprintf("%.2f ms to %.2f ms at %.0f/s; p50 %.2f ms to %.2f ms", ms(percentile(latencies[1], 0.99)), ms(percentile(latencies[0], 0.99)),
			b.plan.authRate, ms(median(latencies[1])), ms(median(latencies[0]))),
	}}, nil
}

// turnOf returns what the program used of a processor for a burst and for the entries of its journal, and then how long
// /auth took at a steady rate, without the time of the directory server.
func (w *testbed) turnOf(ctx context.Context, b *bench, conns int) (used time.Duration, took []time.Duration, err error) {
	before, err := processorTimeOf(w.cmd.Process.Pid)
	if err != nil {
		return 0, nil, err
	}
	if err := w.ask(ctx, "Load.Authentications", Burst{Way: compatible, Count: b.plan.costBurst, Conns: conns}, new(int)); err != nil {
		return 0, nil, err
	}
	select {
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	case <-time.After(journalSettle):
	}
	after, err := processorTimeOf(w.cmd.Process.Pid)
	if err != nil {
		return 0, nil, err
	}
	var got Authenticated
	err = w.ask(ctx, "Load.Authenticate", Authentications{Count: b.plan.auths / 8, Rate: b.plan.authRate, Dir: w.dir}, &got)
	return after - before, got.Added.Calm, err
}

// journalAway measures how long /auth takes while the database of the journal is away, against the time while it is
// there. The store is the embedded one. A failed /auth ends the measurement.
func journalAway(ctx context.Context, b *bench) (rows []row, err error) {
	database, err := pgtest.Run()
	if err != nil {
		return nil, err
	}
	defer database.Close()
	w, err := newTestbedOf(ctx, b, setup{
		versions: "2.1.0, 2.2.0", limits: manyConns, journal: fmt.Sprintf("journal: {url: %q, keys: journal-keys.json}", database.URL()),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	var latencies [2][]time.Duration // while the database is there, and while it is away
	for turn := range b.plan.costTurns + 1 {
		for i, change := range []func() error{func() error { return nil }, database.Halt} {
			if err := change(); err != nil {
				return nil, err
			}
			var got Authenticated
			if err := w.ask(ctx, "Load.Authenticate", Authentications{Count: b.plan.auths / 8, Rate: b.plan.authRate, Dir: w.dir}, &got); err != nil {
				return nil, err
			}
			if turn > 0 { // connections are made in the first one
				latencies[i] = append(latencies[i], got.Added.Calm...)
			}
		}
		if err := database.Start(); err != nil {
			return nil, err
		}
		if err := w.awaitJournal(ctx); err != nil {
			return nil, err
		}
	}
	there, away := percentile(latencies[0], 0.99), percentile(latencies[1], 0.99)
	ratio := float64(away) / float64(there)
	return []row{{
		what: "p99 of /auth while the journal is away, ratio", target: "<= 1.05", measured: fmt.Sprintf("%.2f", ratio), good: ratio <= 1.05,
		note: fmt.Sprintf("%.2f ms to %.2f ms at %.0f/s, none of %d failed; p50 %.2f ms to %.2f ms", ms(away), ms(there), b.plan.authRate,
			len(latencies[1]), ms(median(latencies[1])), ms(median(latencies[0]))),
	}}, nil
}

// awaitJournal waits until the journal of the program has written what waited.
func (w *testbed) awaitJournal(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		res, err := http.Get("http://" + w.console + "/metrics")
		if err != nil {
			return false, err
		}
		metrics, err := io.ReadAll(res.Body)
		return bytes.Contains(metrics, []byte("\nthreeds_journal_waiting 0\n")), errors.Join(err, res.Body.Close())
	})
}

// sum adds numbers up.
func sum(all []float64) (total float64) {
	for _, n := range all {
		total += n
	}
	return total
}
