package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/peers/ranges/rangestest"
)

// reloads measures the server while it loads a complete set of card ranges over the same
// set: how much memory it has at the most, and how long /preauth takes meanwhile.
func reloads(ctx context.Context, b *bench) ([]row, error) { return eachPRes(ctx, b, reloadsOf) }

// eachPRes measures with both forms of a PRes: that of 2.2.0, an entry for each range, and
// that of 2.3.1, entries with many.
func eachPRes(ctx context.Context, b *bench, measure func(ctx context.Context, b *bench, version string) ([]row, error)) (rows []row, err error) {
	for _, version := range []string{"2.2.0", "2.3.1"} {
		got, err := measure(ctx, b, version)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", version, err)
		}
		rows = append(rows, got...)
	}
	return rows, nil
}

func reloadsOf(ctx context.Context, b *bench, version string) (rows []row, err error) {
	set := rangestest.Set{Ranges: b.plan.ranges, Seed: 1}
	offer := Offer{File: filepath.Join(b.dir, "pres-"+version), Rate: b.plan.presRate}
	if offer.Size, err = writePRes(set, version, offer.File); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(offer.File)) }()
	versions := "2.1.0, 2.2.0"
	if version > "2.2.0" {
		versions += ", " + version
	}
	w, err := newTestbedOf(ctx, b, setup{versions: versions, refresh: "refresh: 24h\n    min_refresh: 1s", before: func(w *testbed) error {
		return errors.Join(rank(w.directory.cmd.Process.Pid, 19), w.directory.ask(ctx, "Directory.SetRanges", offer, new(int)))
	}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()

	settled, err := w.waitForMemory(ctx, b)
	if err != nil {
		return nil, err
	}
	if err := forgetHighest(w.cmd.Process.Pid); err != nil {
		return nil, err
	}
	steady, err := w.reloadUnderLoad(ctx, b, sample(set))
	if err != nil {
		return nil, err
	}
	now, highest, err := memory(w.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d ranges of %s, ", b.plan.ranges, version)
	const mostP99 = 5 * time.Millisecond
	grown, p99 := float64(highest)/float64(settled), median(steady.server.busy)
	return []row{{
		what: what + "peak memory of reloads, ratio", target: "<= 3",
		measured: fmt.Sprintf("%.2f", grown), good: grown <= 3,
		note: fmt.Sprintf("resident %d MiB with one generation, %d at its highest in %d reloads, %d after",
			settled>>20, highest>>20, b.plan.reloads, now>>20),
	}, {
		what: what + fmt.Sprintf("/preauth p99 at %.0f/s meanwhile", b.plan.preauthRate), target: fmt.Sprintf("<= %.0f ms", ms(mostP99)),
		measured: fmt.Sprintf("%.2f ms", ms(p99)), good: p99 <= mostP99,
		note: fmt.Sprintf("%.2f of the p99 before, %s; a control has %.2f ms, %.2f of its p99 before, %s; %d MB from PReq to use in %.1f s",
			median(steady.server.ratios), steady.server.describe(),
			ms(median(steady.control.busy)), median(steady.control.ratios), steady.control.describe(), offer.Size/1e6, median(steady.took).Seconds()),
	}}, nil
}

func writePRes(set rangestest.Set, version, file string) (int64, error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	err = errors.Join(set.Write(f, rangestest.PRes{Version: version}), f.Sync()) // or else the disk is busy later
	info, err2 := f.Stat()
	if err = errors.Join(err, err2, f.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// sample is requests for cards all over a set.
func sample(set rangestest.Set) [][]byte {
	var bodies [][]byte
	n := 0
	for r := range set.All() {
		if n++; n%max(set.Ranges/sampled, 1) == 0 {
			bodies = append(bodies, []byte(`{"acctNumber":"`+r.Start+`"}`))
		}
	}
	for i := range bodies { // neighbours are not asked for one after the other
		k := i * 7919 % len(bodies)
		bodies[i], bodies[k] = bodies[k], bodies[i]
	}
	return bodies
}

// waitForMemory waits until the resident memory of the server falls no further, and returns it.
func (w *testbed) waitForMemory(ctx context.Context, b *bench) (int64, error) {
	const step = 100 * time.Millisecond
	var lowest int64
	for calm := time.Duration(0); calm < b.plan.memorySteadyFor; calm += step {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(step):
		}
		now, _, err := memory(w.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		if lowest == 0 || now < lowest-lowest/100 {
			lowest, calm = now, 0
		}
	}
	return lowest, nil
}

// A steady compares requests during reloads with those before.
type steady struct {
	server, control reloadContrast
	took            []time.Duration // from the PReq to the ranges in use
}

// A reloadContrast is how long the requests of a series took during reloads and before them.
type reloadContrast struct {
	ratios     []float64        // of the p99 during each reload to that before it
	busy, calm []time.Duration  // the p99 of each
	late       []time.Duration  // p99 of how late the generator was, during each reload
	p50        [2]time.Duration // during all reloads, and before them
}

// describe is the note on a contrast.
func (c *reloadContrast) describe() string {
	return fmt.Sprintf("reloads %.2f to %.2f, p50 %.2f ms against %.2f, p99 of the quietest %.2f against %.2f, generator then late by %.2f",
		percentile(c.ratios, 0), percentile(c.ratios, 1), ms(c.p50[0]), ms(c.p50[1]),
		ms(percentile(c.busy, 0)), ms(percentile(c.calm, 0)), ms(percentile(c.late, 0)))
}

// A span is the time from one moment to another.
type span struct{ from, to time.Time }

// reloadUnderLoad has the server reload its ranges again and again while
// /preauth is asked steadily.
func (w *testbed) reloadUnderLoad(ctx context.Context, b *bench, bodies [][]byte) (all *steady, err error) {
	control, err := startChild(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, control.stop()) }()
	if os.Geteuid() == 0 { // in life clients have machines of their own
		if err := errors.Join(rank(w.load.cmd.Process.Pid, -10), rank(control.cmd.Process.Pid, -10)); err != nil {
			return nil, err
		}
	}
	load := Steady{Bodies: bodies, Rate: b.plan.preauthRate}
	if err := control.ask(ctx, "Control.Listen", 0, &load.Control); err != nil {
		return nil, err
	}
	var got SteadyResult
	done := make(chan error, 1)
	go func() { done <- w.ask(ctx, "Load.RunSteady", load, &got) }()
	var calm, busy []span
	for i := range b.plan.reloads {
		start := time.Now()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case err := <-done:
			return nil, errors.Join(errors.New("the load ended"), err)
		case <-time.After(b.plan.beforeReload):
		}
		calm = append(calm, span{start, time.Now()})
		s, err := w.reload(ctx, b)
		if err != nil {
			return nil, err
		}
		busy = append(busy, s)
		b.printf("reload %d: %.2f s", i+1, s.to.Sub(s.from).Seconds())
	}
	if err := w.ask(ctx, "Load.StopSteady", 0, new(int)); err != nil {
		return nil, err
	}
	if err := <-done; err != nil {
		return nil, err
	}
	all = &steady{server: got.Server.divide(calm, busy), control: got.Control.divide(calm, busy)}
	for _, s := range busy {
		all.took = append(all.took, s.to.Sub(s.from))
	}
	return all, nil
}

// divide compares the requests that were under way in each of the busy spans with those in
// the calm span before it.
func (s *Series) divide(calm, busy []span) reloadContrast {
	within := func(p span) (took, late []time.Duration) {
		for i, at := range s.Start {
			if at.Before(p.to) && p.from.Before(at.Add(s.Took[i])) {
				took, late = append(took, s.Took[i]), append(late, s.Late[i])
			}
		}
		return took, late
	}
	var all reloadContrast
	var during, before []time.Duration
	for i := range busy {
		b, late := within(busy[i])
		c, _ := within(calm[i])
		during, before = append(during, b...), append(before, c...)
		b99, c99 := percentile(b, 0.99), percentile(c, 0.99)
		all.busy, all.calm, all.late = append(all.busy, b99), append(all.calm, c99), append(all.late, percentile(late, 0.99))
		all.ratios = append(all.ratios, float64(b99)/float64(max(c99, 1)))
	}
	all.p50 = [2]time.Duration{median(during), median(before)}
	return all
}

// reload asks for the ranges with the operator's command, and returns the time that it took
// the server: from its PReq to the line in its log that says that they are in use.
func (w *testbed) reload(ctx context.Context, b *bench) (span, error) {
	before, _, err := w.refreshed()
	if err != nil {
		return span{}, err
	}
	cmd := exec.CommandContext(ctx, b.threeds, "ranges", "refresh", "visa", "--config", filepath.Join(w.dir, "threeds.yaml"))
	cmd.Stderr = b.progress
	if err := cmd.Run(); err != nil {
		return span{}, fmt.Errorf("ranges refresh: %w", err)
	}
	var s span
	err = poll(ctx, func() (bool, error) {
		n, at, err := w.refreshed()
		s.to = at
		return n > before, err
	})
	if err != nil {
		return span{}, fmt.Errorf("%w; the end of the server's log:\n%s", err, w.endOfLog())
	}
	return s, w.directory.ask(ctx, "Directory.CountPReqs", 0, &s.from)
}

// refreshed is how often the server has said that it uses new card ranges, and
// when it did so last. It is read from the log, which costs the server nothing.
func (w *testbed) refreshed() (n int, last time.Time, err error) {
	log, err := os.ReadFile(filepath.Join(w.dir, "log"))
	if err != nil {
		return 0, last, err
	}
	for line := range bytes.Lines(log) {
		if !bytes.Contains(line, []byte(`"card ranges refreshed"`)) {
			continue
		}
		var said struct{ Time time.Time }
		if err := json.Unmarshal(line, &said); err != nil {
			return 0, last, err
		}
		n, last = n+1, said.Time
	}
	return n, last, nil
}

// A cardSpace is how a scheme's card numbers look: BINs of six digits in one or
// two blocks, and their length.
type cardSpace struct {
	scheme string
	digits int
	blocks [][2]int // of BINs, first and last
	share  float64  // of all ranges
}

// issuances are roughly those of the world.
var issuances = []cardSpace{
	{"visa", 16, [][2]int{{400000, 499999}}, 0.52},
	{"mastercard", 16, [][2]int{{510000, 559999}, {222100, 272099}}, 0.33},
	{"upi", 16, [][2]int{{620000, 629999}}, 0.08},
	{"amex", 15, [][2]int{{340000, 349999}, {370000, 379999}}, 0.03},
	{"jcb", 16, [][2]int{{352800, 358999}}, 0.02},
	{"protectbuy", 16, [][2]int{{601100, 601199}, {644000, 659999}}, 0.02},
}

const (
	perBIN   = 400  // account ranges of a BIN, which has room for 1000
	payloads = 4000 // how many issuers there are: what is said of a range is the issuer's
	sampled  = 5000 // how many card numbers are asked for
)

// cards builds the tables of n ranges, and returns card numbers that are in them.
func cards(n int) (*ranges.Schemes, []string, error) {
	random := rand.New(rand.NewPCG(1, 2))
	var names, pans []string
	for _, i := range issuances {
		names = append(names, i.scheme)
	}
	schemes := ranges.NewSchemes(names...)
	for _, i := range issuances {
		infos := make([]*ranges.Info, payloads)
		for k := range infos {
			infos[k] = issuer(k)
		}
		table, some, err := i.table(int(float64(n)*i.share), sampled*int(100*i.share)/100, infos, random)
		if err != nil {
			return nil, nil, err
		}
		schemes.Swap(i.scheme, table)
		pans = append(pans, some...)
	}
	random.Shuffle(len(pans), func(i, j int) { pans[i], pans[j] = pans[j], pans[i] })
	return schemes, pans, nil
}

// issuer is what a directory says of the ranges of the i-th issuer. It has the same length
// for all.
func issuer(i int) *ranges.Info {
	info := &ranges.Info{ACSStart: "2.1.0", ACSEnd: "2.3.1", DSStart: "2.1.0", DSEnd: "2.3.1", DSVersions: []string{"2.1.0", "2.2.0", "2.3.1"}}
	for _, v := range info.DSVersions {
		info.ACS = append(info.ACS, ranges.ACSVersion{
			Version: v, InfoInd: []string{"01", "02"},
			MethodURL: fmt.Sprintf("https://acs%04d.issuers.example/3ds/method", i),
		})
	}
	return info
}

// table makes n ranges of a scheme and picks card numbers out of them.
func (s *cardSpace) table(n, pick int, infos []*ranges.Info, random *rand.Rand) (*ranges.Table, []string, error) {
	var bins []int
	for _, block := range s.blocks {
		for bin := block[0]; bin <= block[1]; bin++ {
			bins = append(bins, bin)
		}
	}
	random.Shuffle(len(bins), func(i, j int) { bins[i], bins[j] = bins[j], bins[i] })
	var b ranges.Builder
	var pans []string
	for i := range n {
		bin, account := bins[i/perBIN], i%perBIN*1000/perBIN
		number := func(rest int) string { return fmt.Sprintf("%06d%03d%0*d", bin, account, s.digits-9, rest) }
		last := 1
		for range s.digits - 9 {
			last *= 10
		}
		if err := b.Add(number(0), number(last-1), infos[i/perBIN%len(infos)]); err != nil {
			return nil, nil, err
		}
		if len(pans) < pick && (i+1)*pick/n > len(pans) {
			pans = append(pans, number(random.IntN(last)))
		}
	}
	t, err := b.Build()
	return t, pans, err
}
