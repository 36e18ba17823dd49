package main

import "time"

// A plan is how long and how much is measured.
type plan struct {
	sandboxStarts int // how often the sandbox is started

	ranges        int           // card ranges that are loaded for /preauth
	conns         int           // connections that /preauth is asked on
	rounds        int           // how many rounds compare the two handlers of /preauth
	roundTime     time.Duration // how long each of the two handlers is called in a round
	turnsPerRound int           // how many turns each of the two handlers gets in a round

	presRate        int64         // bytes per second of a PRes with those ranges
	preauthRate     float64       // requests per second while ranges are loaded
	reloads         int           // how often the ranges of each protocol version are loaded again
	beforeReload    time.Duration // how long the load runs before a reload, as the comparison
	memorySteadyFor time.Duration // how long memory has to stay as it is before it is read

	inPlaceLoads int           // how often each protocol version is loaded in this process
	beforeLoad   time.Duration // how long the handler is called before a load, as the comparison

	authRate  float64 // /auth per second
	auths     int     // how many /auth are measured
	warmAuths int     // how many /auth come before those that are measured

	inFlight   int           // /auth that wait at the same time while memory is measured
	slowAnswer time.Duration // how long the directory server takes meanwhile
	coldRate   float64       // /auth per second while connections are made
	warmRate   float64       // /auth per second when all connections are there
	warmTimes  int           // how often that is repeated

	resultRate  float64 // RReq per second
	results     int     // how many RReqs are measured at that rate
	resultBurst int     // RReq that are sent at once
	resultConns int     // connections of a burst
	bursts      int     // how many bursts are measured

	costTurns int // how often each way to authenticate has its turn
	costBurst int // authentications of a turn

	inserts         int           // bare ones into PostgreSQL, by each number of writers
	snapshot        int           // bytes of card ranges that PostgreSQL stores
	shoppersFrom    float64       // shoppers per second that the search for capacity begins with
	shoppersTo      float64       // shoppers per second that the search ends with at the latest
	searchStep      time.Duration // how long each rate of the search lasts
	overloadStep    time.Duration // how long each multiple of the capacity lasts
	recoveryTime    time.Duration // how long the load is normal after the highest
	slowClients     int           // connections on which next to nothing is sent
	slowClientsStay time.Duration // how long they stay

	waiters     int           // connections on which one party waits
	othersRate  float64       // requests of others per second meanwhile
	waitersStay time.Duration // how long others are asked

	waitersSettle time.Duration // from when all wait until others are asked

	keyCounts []int         // how many API keys there are, beside the one that load is made with
	idleTime  time.Duration // how long there are no requests while idle load is measured
}

// challenges is how many results are sent in all; PostgreSQL has one burst more.
func (p *plan) challenges() int { return p.warmResults() + p.results + (p.bursts+1)*p.resultBurst }

func (p *plan) warmResults() int { return p.results / 10 }

var fullPlan = plan{
	sandboxStarts: 5,
	ranges:        2_000_000, conns: 64, rounds: 15, roundTime: 2 * time.Second, turnsPerRound: 40,
	presRate: 125_000_000, preauthRate: 500, reloads: 5, beforeReload: 6 * time.Second, memorySteadyFor: 3 * time.Second,
	inPlaceLoads: 9, beforeLoad: 2 * time.Second,
	authRate: 200, auths: 4000, warmAuths: 200,
	inFlight: 5000, slowAnswer: 2 * time.Second, coldRate: 400, warmRate: 2800, warmTimes: 3,
	resultRate: 500, results: 5000, resultBurst: 5000, resultConns: 256, bursts: 5,
	costTurns: 12, costBurst: 1000,
	inserts: 5000, snapshot: 40 << 20,
	keyCounts: []int{0, 100, 2000, 20_000}, idleTime: 12 * time.Second,
	shoppersFrom: 200, shoppersTo: 20_000, searchStep: 3 * time.Second, overloadStep: 10 * time.Second, recoveryTime: 10 * time.Second,
	slowClients: 10_000, slowClientsStay: 20 * time.Second,
	waiters: 4200, othersRate: 20, waitersStay: 20 * time.Second, waitersSettle: 10 * time.Second,
}

var quickPlan = plan{
	sandboxStarts: 1,
	ranges:        20_000, conns: 8, rounds: 1, roundTime: 50 * time.Millisecond, turnsPerRound: 2,
	presRate: 125_000_000, preauthRate: 200, reloads: 1, beforeReload: 200 * time.Millisecond, memorySteadyFor: 200 * time.Millisecond,
	inPlaceLoads: 1, beforeLoad: 50 * time.Millisecond,
	authRate: 200, auths: 40, warmAuths: 10,
	inFlight: 50, slowAnswer: 300 * time.Millisecond, coldRate: 400, warmRate: 400, warmTimes: 1,
	resultRate: 200, results: 40, resultBurst: 60, resultConns: 8, bursts: 1,
	costTurns: 1, costBurst: 40,
	inserts: 60, snapshot: 1 << 20,
	shoppersFrom: 50, shoppersTo: 50, searchStep: 200 * time.Millisecond, overloadStep: 200 * time.Millisecond, recoveryTime: 500 * time.Millisecond,
	slowClients: 60, slowClientsStay: 500 * time.Millisecond,
	waiters: 60, othersRate: 20, waitersStay: 500 * time.Millisecond,
	keyCounts: []int{0, 40}, idleTime: 200 * time.Millisecond,
}
