package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
)

// otherKey is the key of another merchant.
const otherKey = "b0b0b0b0-0000-4000-8000-000000000002"

// tlsSettings are the configuration of a listener with TLS.
const tlsSettings = ", tls: {cert: results.pem, key: results-key.pem}"

// waiting measures whether others are served while one shopper, or one merchant, holds more waiting connections
// than the program takes.
func waiting(ctx context.Context, b *bench) (rows []row, err error) {
	if err := raiseFiles(uint64(b.plan.waiters) + 8000); err != nil {
		return nil, err
	}
	for _, hasTLS := range []bool{false, true} {
		for _, isBrowser := range []bool{true, false} {
			r, err := waitersAt(ctx, b, isBrowser, hasTLS)
			if err != nil {
				return rows, err
			}
			b.printf("%s: %s; %s", r.what, r.measured, r.note)
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// putOtherKey puts the key of another merchant into the store.
func putOtherKey(w *testbed) error {
	ring, err := keyring.LoadOrCreate(filepath.Join(w.dir, "keys.json"))
	if err != nil {
		return err
	}
	db, err := sqlite.Open(filepath.Join(w.dir, "data"), sqlite.Options{})
	if err != nil {
		return err
	}
	return errors.Join(db.PutKey(context.Background(), account.NewRow(ring, otherKey, "Other", false, account.Terms{})), db.Close())
}

// waitersAt measures one listener.
func waitersAt(ctx context.Context, b *bench, isBrowser, hasTLS bool) (_ row, err error) {
	s := setup{versions: "2.1.0, 2.2.0", before: putOtherKey}
	if hasTLS {
		s.tls = tlsSettings
	}
	w, err := newTestbedOf(ctx, b, s)
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	var bad, good Payment
	err = w.directory.ask(ctx, "Directory.SetBehaviour", Behaviour{Status: "C"}, new(int))
	for _, p := range []*Payment{&bad, &good} {
		err = errors.Join(err, w.ask(ctx, "Load.BeginPayment", 0, p))
	}
	if err != nil {
		return row{}, err
	}
	others := OthersLoad{b.plan.othersRate, b.plan.waitersStay, isBrowser, otherKey, good}
	var before, during OthersResult
	if err := w.ask(ctx, "Load.RunOthers", others, &before); err != nil {
		return row{}, err
	}
	var held int64
	if err := w.ask(ctx, "Load.StartWaiters", WaiterLoad{b.plan.waiters, isBrowser, bad, b.plan.waitersSettle}, &held); err != nil {
		return row{}, err
	}
	used, err := processorTimeOf(w.cmd.Process.Pid)
	err = errors.Join(err, w.ask(ctx, "Load.RunOthers", others, &during))
	after, failed := processorTimeOf(w.cmd.Process.Pid)
	var counts [2]int64
	if err := errors.Join(err, failed, w.ask(ctx, "Load.StopWaiters", 0, &counts)); err != nil {
		return row{}, err
	}
	what := "others served, one API key waits on"
	if isBrowser {
		what = "others served, one shopper waits on"
	}
	protocol := "plain"
	if hasTLS {
		protocol = "TLS"
	}
	share := 100 * float64(len(during.Good)) / float64(len(during.Good)+during.Failed)
	note := fmt.Sprintf(
		"p50 %.1f ms, p99 %.0f ms of %d; %.1f and %.0f ms before; %d connections held at the beginning, %d at the end, %d opened; %.0f %% of a processor",
		ms(median(during.Good)), ms(percentile(during.Good, 0.99)), len(during.Good)+during.Failed, ms(median(before.Good)), ms(percentile(before.Good, 0.99)),
		held, counts[0], counts[1], 100*(after-used).Seconds()/b.plan.waitersStay.Seconds())
	if during.Example != "" {
		note += "; a failure: " + during.Example
	}
	return row{
		what: fmt.Sprintf("%s %d connections, %s", what, b.plan.waiters, protocol), target: ">= 99 %",
		measured: fmt.Sprintf("%.1f %%", share), good: share >= 99, note: note,
	}, nil
}
