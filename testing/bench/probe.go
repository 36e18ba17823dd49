package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	probeEvery = 10 * time.Millisecond
	stallTime  = 5 * time.Millisecond // a sync that takes longer is the disk's fault
)

// A probe watches the disk while something else is measured: it writes a page to
// a file of its own and waits until that is on disk, again and again. On a
// machine that is shared, a sync may take a hundred times longer than usual
// because others write; what is in flight then says nothing about us.
type probe struct {
	file  *os.File
	quit  chan struct{}
	ended sync.WaitGroup

	took   []time.Duration
	stalls [][2]time.Time
	err    error
}

// startProbe watches the disk that dir is on. If dir is empty it returns nil, a probe that
// finds nothing.
func startProbe(dir string) (*probe, error) {
	if dir == "" {
		return nil, nil
	}
	f, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return nil, err
	}
	p := &probe{file: f, quit: make(chan struct{})}
	p.ended.Go(p.run)
	return p, nil
}

func (p *probe) run() {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	page := make([]byte, 4096)
	for {
		select {
		case <-p.quit:
			return
		case <-ticker.C:
		}
		start := time.Now()
		_, err := p.file.Write(page)
		p.err = errors.Join(p.err, err, p.file.Sync())
		end := time.Now()
		p.took = append(p.took, end.Sub(start))
		if end.Sub(start) > stallTime {
			p.stalls = append(p.stalls, [2]time.Time{start, end})
		}
	}
}

// stop ends the probe. The other methods may be called only after it.
func (p *probe) stop() error {
	if p == nil {
		return nil
	}
	close(p.quit)
	p.ended.Wait()
	return errors.Join(p.err, p.file.Close(), os.Remove(p.file.Name()))
}

func (p *probe) syncs() []time.Duration {
	if p == nil {
		return nil
	}
	return p.took
}

// overlapsStall reports whether a sync that took longer than stall was under way at some time between
// start and end.
func (p *probe) overlapsStall(start, end time.Time) bool {
	if p == nil {
		return false
	}
	for _, s := range p.stalls {
		if start.Before(s[1]) && s[0].Before(end) {
			return true
		}
	}
	return false
}

// Timed is how long each of many things took, and what may have disturbed them.
type Timed struct {
	All   []time.Duration
	Calm  []time.Duration // those of All during which the disk did not stall
	Syncs []time.Duration // of the probe
	Late  []time.Duration // how late the generator began each
	Wall  time.Duration
}

// add notes one that began at start and was under way for took. What counts for it may be
// less.
func (t *Timed) add(p *probe, start time.Time, took, counts time.Duration) {
	t.All = append(t.All, counts)
	if !p.overlapsStall(start, start.Add(took)) {
		t.Calm = append(t.Calm, counts)
	}
}

// describe is the note beside the p99 of Calm.
func (t *Timed) describe() string {
	return fmt.Sprintf("%.1f%% in disk stalls and not counted, with them %.2f ms; p99 of a sync %.2f ms, generator late by %.2f ms",
		100*float64(len(t.All)-len(t.Calm))/float64(len(t.All)), ms(percentile(t.All, 0.99)),
		ms(percentile(t.Syncs, 0.99)), ms(percentile(t.Late, 0.99)))
}

// percentile returns the value below which the share p of the values lies.
func percentile[T cmp.Ordered](values []T, p float64) T {
	if len(values) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

func median[T cmp.Ordered](values []T) T { return percentile(values, 0.5) }

// ms is a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
