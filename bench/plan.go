package main

import "time"

// A plan is how long and how much is measured.
type plan struct {
	starts int // of the sandbox

	ranges int           // card ranges loaded for preauth
	conns  int           // connections of preauth
	rounds int           // of preauth
	round  time.Duration // each, for each of the two handlers
	turns  int           // of each of them in a round

	presRate    int64         // bytes per second of a PRes with those ranges
	preauthRate float64       // /preauth per second meanwhile
	reloads     int           // of each version
	calm        time.Duration // before each
	settle      time.Duration // how long memory has to stay as it is

	loads int           // of each version, in this process
	quiet time.Duration // before each

	authRate float64 // /auth per second
	auths    int     // measured
	warm     int     // before

	inFlight  int           // of memory
	slow      time.Duration // what the directory server takes there
	coldRate  float64       // /auth per second while connections are made
	warmRate  float64       // and when they are there
	warmTimes int           // how often the latter

	resultRate  float64 // RReq per second
	results     int     // measured at that rate
	resultBurst int     // sent at once, each time
	resultConns int     // connections of a burst
	bursts      int

	inserts   int           // bare ones into PostgreSQL, by each number of writers
	snapshot  int           // bytes of card ranges, with PostgreSQL
	rushFrom  float64       // shoppers per second that the search for capacity begins with
	rushTo    float64       // and ends with at the latest
	search    time.Duration // each step of it
	rush      time.Duration // each load
	after     time.Duration // how long the load is normal after the highest
	loiterers int           // slow connections
	loiter    time.Duration // how long they stay

	keys []int         // how many API keys there are, beside the one that load is made with
	rest time.Duration // how long there are no requests
}

// challenges is how many results are sent in all; PostgreSQL has one burst more.
func (p *plan) challenges() int { return p.warmResults() + p.results + (p.bursts+1)*p.resultBurst }

func (p *plan) warmResults() int { return p.results / 10 }

var fullPlan = plan{
	starts: 5,
	ranges: 2_000_000, conns: 64, rounds: 15, round: 2 * time.Second, turns: 40,
	presRate: 125_000_000, preauthRate: 500, reloads: 5, calm: 6 * time.Second, settle: 3 * time.Second,
	loads: 9, quiet: 2 * time.Second,
	authRate: 200, auths: 4000, warm: 200,
	inFlight: 5000, slow: 2 * time.Second, coldRate: 400, warmRate: 2800, warmTimes: 3,
	resultRate: 500, results: 5000, resultBurst: 5000, resultConns: 256, bursts: 5,
	inserts: 5000, snapshot: 40 << 20,
	keys: []int{0, 100, 2000, 20_000}, rest: 12 * time.Second,
	rushFrom: 200, rushTo: 20_000, search: 3 * time.Second, rush: 10 * time.Second, after: 10 * time.Second,
	loiterers: 10_000, loiter: 20 * time.Second,
}

var quickPlan = plan{
	starts: 1,
	ranges: 20_000, conns: 8, rounds: 1, round: 50 * time.Millisecond, turns: 2,
	presRate: 125_000_000, preauthRate: 200, reloads: 1, calm: 200 * time.Millisecond, settle: 200 * time.Millisecond,
	loads: 1, quiet: 50 * time.Millisecond,
	authRate: 200, auths: 40, warm: 10,
	inFlight: 50, slow: 300 * time.Millisecond, coldRate: 400, warmRate: 400, warmTimes: 1,
	resultRate: 200, results: 40, resultBurst: 60, resultConns: 8, bursts: 1,
	inserts: 60, snapshot: 1 << 20,
	rushFrom: 50, rushTo: 50, search: 200 * time.Millisecond, rush: 200 * time.Millisecond, after: 500 * time.Millisecond,
	loiterers: 60, loiter: 500 * time.Millisecond,
	keys: []int{0, 40}, rest: 200 * time.Millisecond,
}
