package main

import "time"

// A station does as many jobs at once as it has servers, first come, first served: the
// cores of a machine, a wire.
type station struct {
	s       *sim
	servers int
	busy    gauge
	queue   fifo[job]
}

type job struct {
	takes time.Duration
	done  func()
}

func newStation(s *sim, servers int) *station {
	return &station{s: s, servers: servers, busy: newGauge(s)}
}

// serve calls done when a server has been free and the job has taken its time.
func (st *station) serve(takes time.Duration, done func()) {
	if st.busy.n >= st.servers {
		st.queue.push(job{takes, done})
		return
	}
	st.begin(job{takes, done})
}

func (st *station) begin(j job) {
	st.busy.add(1)
	st.s.after(j.takes, func() {
		st.busy.add(-1)
		if st.queue.len() > 0 {
			st.begin(st.queue.pop())
		}
		j.done()
	})
}

// load is the share of the time that the servers worked.
func (st *station) load() float64 { return st.busy.mean() / float64(st.servers) }

// A log is synced to disk for all commits at once that are waiting when the sync begins. A
// later one waits for the next sync.
type log struct {
	s       *sim
	takes   func() time.Duration
	syncing bool
	waiting []func()
	syncs   int
}

// commit calls done when what was written is on disk.
func (l *log) commit(done func()) {
	l.waiting = append(l.waiting, done)
	if !l.syncing {
		l.sync()
	}
}

func (l *log) sync() {
	batch := l.waiting
	l.waiting, l.syncing = nil, true
	l.syncs++
	l.s.after(l.takes(), func() {
		l.syncing = false
		if len(l.waiting) > 0 {
			l.sync()
		}
		for _, done := range batch {
			done()
		}
	})
}
