package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

const (
	shopperPatience = 2 * time.Second        // a shopper waits so long for each answer, and for all together
	quickDS         = 50 * time.Millisecond  // from an AReq to its ARes
	challenged      = 5                      // one in so many AReqs gets a challenge
	highest         = 5.0                    // load, in multiples of the capacity
	normal          = 0.8                    // the same
	onset           = time.Second            // how long the load shedder has to find its level
	refusal         = 250 * time.Millisecond // a refusal waits for a processor as every request of net/http does, behind what was let in
	manyConns       = ", connections: 10000" // configuration: each shopper waits on a connection of its own
	allCome         = ", wait: 1m"           // a setting of limits with which nobody is refused for overload
)

// An overloadRun is one testbed under loads around its capacity.
type overloadRun struct {
	*testbed
	b    *bench
	peak float64       // the most shoppers per second that got through
	cost time.Duration // processor time of the program for each shopper that got through, in the last run
}

// overload measures what the program serves when more comes than it can serve, how soon
// all is well afterwards, the same without shedding, and what slow connections cost. The
// program under test has one processor for itself.
func overload(ctx context.Context, b *bench) (rows []row, err error) {
	if err := raiseFiles(uint64(b.plan.slowClients) + 8000); err != nil {
		return nil, err
	}
	rows, capacity, usual, err := underOverload(ctx, b)
	if err != nil {
		return nil, err
	}
	b.printf("the same without shedding")
	h, err := newOverloadRun(ctx, b, manyConns+allCome)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	got, err := h.run(ctx, Phase{highest * capacity, b.plan.overloadStep}, Phase{normal * capacity, b.plan.recoveryTime})
	if err != nil {
		return nil, err
	}
	without := got.through(0, b.plan.overloadStep) / usual.peak
	slow, err := slowConnections(ctx, b, 0.3*capacity)
	if err != nil {
		return nil, err
	}
	rows[1].note += fmt.Sprintf("; without shedding %.2f, back to normal %s", without, got.recovery(b.plan, usual.p99))
	return append(rows, slow), nil
}

// A reference is what loads are compared with.
type reference struct {
	peak float64       // the most shoppers per second that got through
	p99  time.Duration // how long a shopper takes at normal load, at most in 99 % of the cases
}

// underOverload measures the program as it is, with shedding.
func underOverload(ctx context.Context, b *bench) (rows []row, capacity float64, ref reference, err error) {
	h, err := newOverloadRun(ctx, b, manyConns)
	if err != nil {
		return nil, 0, ref, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if capacity, err = h.findCapacity(ctx); err != nil {
		return nil, 0, ref, err
	}
	b.printf("capacity %.0f shoppers/s", capacity)
	const mostCost = 600 * time.Microsecond
	var usual ShopperResult
	var cost time.Duration // processor time of an authentication at capacity
	for _, load := range []float64{normal, 1, 2} {
		got, err := h.run(ctx, Phase{load * capacity, b.plan.overloadStep})
		if err != nil {
			return nil, 0, ref, err
		}
		switch load {
		case normal:
			usual = got
		case 1:
			cost = h.cost
		}
	}
	ref.p99 = percentile(usual.took(0, b.plan.overloadStep), 0.99)
	got, err := h.run(ctx, Phase{highest * capacity, b.plan.overloadStep}, Phase{normal * capacity, b.plan.recoveryTime})
	if err != nil {
		return nil, 0, ref, err
	}
	ref.peak = h.peak
	ratio := got.through(0, b.plan.overloadStep) / h.peak
	lost := len(got.Kinds[anRReq].Refused) + got.Kinds[anRReq].Failed
	var refused []time.Duration
	for _, k := range got.Kinds {
		refused = append(refused, k.Refused...)
	}
	var later []time.Duration // of those who came after the onset
	for _, s := range got.Shoppers {
		if !s.Through && s.Due > onset && s.Due < b.plan.overloadStep {
			later = append(later, s.Took)
		}
	}
	back := got.recovery(b.plan, ref.p99)
	rows = []row{{
		what: "a whole authentication at capacity, processor time", target: fmt.Sprintf("<= %.1f ms", ms(mostCost)),
		measured: fmt.Sprintf("%.2f ms", ms(cost)), good: cost <= mostCost,
		note: fmt.Sprintf("/preauth, /auth, and for one in %d the RReq of a challenge and /postauth", challenged),
	}, {
		what: "goodput at 5x capacity, ratio to peak", target: ">= 0.6", measured: fmt.Sprintf("%.2f", ratio), good: ratio >= 0.6,
		note: fmt.Sprintf("capacity %.0f shoppers/s, peak %.0f/s", capacity, h.peak),
	}, {
		what: "RReqs refused or lost at 5x", target: "0", measured: fmt.Sprint(lost), good: lost == 0,
		note: fmt.Sprintf("of %d; p99 %.0f ms", lost+len(got.Kinds[anRReq].Good), ms(percentile(got.Kinds[anRReq].Good, 0.99))),
	}, {
		what: "refused at 5x, p99 of the answer", target: fmt.Sprintf("< %.0f ms", ms(refusal)), measured: fmt.Sprintf("%.0f ms", ms(percentile(refused, 0.99))),
		good: percentile(refused, 0.99) < refusal,
		note: fmt.Sprintf("p50 %.1f ms of %d; after the first second p99 %.0f ms; /preauth served p99 %.0f ms", ms(median(refused)), len(refused),
			ms(percentile(later, 0.99)), ms(percentile(got.Kinds[aPreauth].Good, 0.99))),
	}, {
		what: "from 5x to 0.8x, normal p99 after", target: "<= 5 s", measured: back.String(), good: back <= 5*time.Second,
		note: fmt.Sprintf("normal is twice the p99 at 0.8x before, %.0f ms", ms(ref.p99)),
	}}
	return rows, capacity, ref, nil
}

// newOverloadRun starts a testbed, the program under test on the first processor, load and
// directory server on the second. GOMAXPROCS of the program is that of the whole machine
// nevertheless: with one, a goroutine that waits for the disk would hold up all others.
func newOverloadRun(ctx context.Context, b *bench, limits string) (*overloadRun, error) {
	w, err := newTestbedOf(ctx, b, setup{
		versions: "2.1.0, 2.2.0", limits: limits, env: []string{fmt.Sprint("GOMAXPROCS=", runtime.NumCPU())},
	})
	if err != nil {
		return nil, err
	}
	h := &overloadRun{testbed: w, b: b}
	err = errors.Join(
		pin(w.cmd.Process.Pid, 0), pin(w.load.cmd.Process.Pid, 1), pin(w.directory.cmd.Process.Pid, 1),
		w.directory.ask(ctx, "Directory.SetBehaviour", Behaviour{Status: "Y", Delay: quickDS, Every: challenged}, new(int)))
	if err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return h, nil
}

// findCapacity raises the load until clearly more comes than gets through, and returns how many
// shoppers per second got through at the highest load that nearly all of them survived.
func (h *overloadRun) findCapacity(ctx context.Context) (capacity float64, err error) {
	for rate := h.b.plan.shoppersFrom; ; rate *= 1.25 {
		got, err := h.run(ctx, Phase{rate, h.b.plan.searchStep})
		if err != nil {
			return 0, err
		}
		through := got.through(0, h.b.plan.searchStep)
		if through > 0.95*rate || capacity == 0 {
			capacity = through
		}
		if rate > 1.5*capacity || rate >= h.b.plan.shoppersTo {
			return capacity, nil
		}
	}
}

// run makes one load, notes the peak, and says how it went.
func (h *overloadRun) run(ctx context.Context, phases ...Phase) (got ShopperResult, err error) {
	first := phases[0]
	used := h.watchProcesses(first.For)
	if err := h.ask(ctx, "Load.RunShoppers", ShopperLoad{phases, shopperPatience}, &got); err != nil {
		return got, err
	}
	shares, err := used()
	if err != nil {
		return got, err
	}
	through := got.through(0, first.For)
	h.peak = max(h.peak, through)
	if through > 0 {
		h.cost = time.Duration(shares[0] / 100 / through * float64(time.Second))
	}
	took := got.took(0, first.For)
	h.b.printf("%6.0f shoppers/s: %5.0f/s through, p50 %.0f ms, p99 %.0f ms; generator late by %.0f ms", first.Rate, through,
		ms(median(took)), ms(percentile(took, 0.99)), ms(percentile(got.Late, 0.99)))
	h.b.printf("        of a processor: program %.0f %%, load %.0f %%, directory server %.0f %%", shares[0], shares[1], shares[2])
	for i, name := range []string{"/preauth", "/auth", "RReq", "/postauth"} {
		k := got.Kinds[i]
		if len(k.Refused)+k.Failed == 0 && len(phases) == 1 {
			continue
		}
		h.b.printf("        %-9s %6d served, p50 %.1f ms, p99 %.0f ms; %6d refused, p50 %.1f ms, p99 %.0f ms; %d failed", name,
			len(k.Good), ms(median(k.Good)), ms(percentile(k.Good, 0.99)), len(k.Refused), ms(median(k.Refused)), ms(percentile(k.Refused, 0.99)), k.Failed)
	}
	if got.Example != "" {
		h.b.printf("        a failure: %s", got.Example)
	}
	return got, nil
}

// watchProcesses measures how much of a processor the program under test, load and directory server
// use during d from now on, in percent. The function it returns waits until that is over.
func (h *overloadRun) watchProcesses(d time.Duration) (used func() (shares [3]float64, err error)) {
	read := func() (took [3]time.Duration, err error) {
		for i, cmd := range []*exec.Cmd{h.cmd, h.load.cmd, h.directory.cmd} {
			var bad error
			took[i], bad = processorTimeOf(cmd.Process.Pid)
			err = errors.Join(err, bad)
		}
		return took, err
	}
	var shares [3]float64
	start := time.Now()
	before, err := read()
	done := make(chan struct{})
	time.AfterFunc(d, func() {
		defer close(done)
		after, bad := read()
		err = errors.Join(err, bad)
		for i := range shares {
			shares[i] = 100 * (after[i] - before[i]).Seconds() / time.Since(start).Seconds()
		}
	})
	return func() ([3]float64, error) {
		<-done
		return shares, err
	}
}

// slowConnections measures the memory of the program while many hold connections that they
// hardly use, and others shop at a rate.
func slowConnections(ctx context.Context, b *bench, rate float64) (_ row, err error) {
	h, err := newOverloadRun(ctx, b, "")
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	pid := h.cmd.Process.Pid
	if _, err := h.run(ctx, Phase{rate, b.plan.searchStep}); err != nil { // makes what is made only once
		return row{}, err
	}
	before, _, err := memory(pid)
	if err != nil {
		return row{}, err
	}
	h.b.printf("%d slow connections", h.b.plan.slowClients)
	slow, err := startChild(ctx) // in the process of the shoppers, they would have to wait for it
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, slow.stop()) }()
	err = errors.Join(pin(slow.cmd.Process.Pid, 1), slow.ask(ctx, "Load.StartSlowClients", SlowClientLoad{h.b.plan.slowClients, h.api, apiKey}, new(int)))
	if err != nil {
		return row{}, err
	}
	got, err := h.run(ctx, Phase{rate, h.b.plan.slowClientsStay})
	var opened int64
	if err := errors.Join(err, slow.ask(ctx, "Load.StopSlowClients", 0, &opened)); err != nil {
		return row{}, err
	}
	_, most, err := memory(pid)
	share := float64(len(got.took(0, h.b.plan.slowClientsStay))) / float64(len(got.Shoppers))
	return row{
		what: fmt.Sprintf("memory with %d slow connections", h.b.plan.slowClients), target: "< 256 MiB",
		measured: fmt.Sprintf("%d MiB", most>>20), good: most < 256<<20 && share > 0.999,
		note: fmt.Sprintf("%d MiB before; %d connections in %.0f s; %.1f%% of %.0f shoppers/s got through, p99 %.0f ms", before>>20, opened,
			h.b.plan.slowClientsStay.Seconds(), 100*share, rate, ms(percentile(got.took(0, h.b.plan.slowClientsStay), 0.99))),
	}, err
}

// through is how many of the shoppers due between two times got through, per second.
func (r *ShopperResult) through(from, to time.Duration) float64 {
	return float64(len(r.took(from, to))) / (to - from).Seconds()
}

// took is how long each of those took that got through in time.
func (r *ShopperResult) took(from, to time.Duration) (took []time.Duration) {
	for _, s := range r.Shoppers {
		if s.Through && s.Took <= shopperPatience && from <= s.Due && s.Due < to {
			took = append(took, s.Took)
		}
	}
	return took
}

// recovery is how long after the first phase a second began in which nobody was refused and
// the p99 was at most twice the usual. If there was none, it is the length of the second
// phase.
func (r *ShopperResult) recovery(p plan, usual time.Duration) time.Duration {
	const window = 500 * time.Millisecond
	well := 0 // windows in a row
	for from := p.overloadStep; from+window <= p.overloadStep+p.recoveryTime; from += window {
		sent := 0
		for _, s := range r.Shoppers {
			if from <= s.Due && s.Due < from+window {
				sent++
			}
		}
		took := r.took(from, from+window)
		if len(took) < sent || percentile(took, 0.99) > 2*usual {
			well = 0
			continue
		}
		if well++; well == 2 {
			return from - window - p.overloadStep
		}
	}
	return p.recoveryTime
}
