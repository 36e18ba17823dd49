package main

import (
	"slices"
	"time"
)

// An outcome is how a request ended.
type outcome int

const (
	answered      outcome = iota
	refusedBusy           // 405 at once: the bulkhead is full
	refusedOpen           // 405 at once: the breaker is open
	failedTimeout         // 405: the directory gave no answer
	failedStore           // 403: no answer of the database
	shed                  // 503: too many in flight
	nowhere               // the balancer knows no node
	lost                  // no answer at all
	outcomes
)

// A kind is a request of requestors or directory servers.
type kind int

const (
	preauth kind = iota
	auth
	result
	fetch
	kinds
)

func (k kind) String() string { return [kinds]string{"/preauth", "/auth", "RReq", "/postauth"}[k] }

// phases is how many parts a run may have: before, during, after.
const phases = 4

// A tally counts requests by the phase in which they came.
type tally struct {
	arrived [phases][kinds]int
	ended   [phases][kinds][outcomes]int
	took    [phases][kinds + 1][]float32 // ms, of those answered; kinds is /auth of the sick directory
	sick    [phases][outcomes]int        // the part of ended that is /auth of the sick directory

	// By the second in which they came, how many were answered and how many not:
	// all requests, and /auth of the sick directory.
	all, ill [][2]int
}

// note keeps an outcome by the second in which the request came.
func (t *tally) note(came time.Duration, k kind, scheme int, o outcome) {
	bad := min(int(o), 1)
	t.all = grown(t.all, came)
	t.all[came/time.Second][bad]++
	if k == auth && scheme == 0 {
		t.ill = grown(t.ill, came)
		t.ill[came/time.Second][bad]++
	}
}

// grown extends a list with an entry for each second, so that it has one for the time.
func grown[T any](of []T, at time.Duration) []T {
	for len(of) <= int(at/time.Second) {
		of = append(of, *new(T))
	}
	return of
}

// well says how long after from it took until in each second, up to until, 99 % of the
// requests were answered.
func well(by [][2]int, from, until time.Duration) string {
	last := from
	for at := from; at < until && int(at/time.Second) < len(by); at += time.Second {
		if n := by[at/time.Second]; n[1]*100 > n[0]+n[1] {
			last = at.Truncate(time.Second) + time.Second
		}
	}
	if last >= until {
		return "not in " + within(until-from)
	}
	return within(last - from)
}

// sum counts an outcome in a phase, of requests of all kinds.
func (t *tally) sum(phase int, o outcome) (n int) {
	for k := range kinds {
		n += t.ended[phase][k][o]
	}
	return n
}

// join counts the times of /auth of the sick directory among those of all /auth.
func (t *tally) join(phase int) {
	t.took[phase][auth] = append(t.took[phase][auth], t.took[phase][kinds]...)
}

// quantile is a quantile of the times that requests of a kind took, in milliseconds.
func (t *tally) quantile(phase int, k kind, q float64) float64 {
	took := t.took[phase][k]
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return float64(took[min(int(q*float64(len(took))), len(took)-1)])
}

// balance returns how many of the requests that came have neither ended nor are anywhere in
// the fleet. It is 0 unless the simulation loses or invents requests.
func (f *fleet) balance() int {
	missing := -f.held.n
	for _, n := range f.nodes {
		missing -= n.inFlight.n
	}
	for phase := range phases {
		for k := range kinds {
			missing += f.arrived[phase][k]
			for _, n := range f.ended[phase][k] {
				missing -= n
			}
		}
	}
	return missing
}
