package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// params are what a fleet is made of. What each means, and its unit, stands in all.
type params struct {
	Rate, Cells, Nodes, Cores             float64
	Challenge, Fetches                    float64
	Preauth, Auth, Result, Fetch          float64
	InFlight, PerDirectory, Breaker       float64
	Timeout, DialTimeout                  float64
	MaxDials, Warm, Handshake             float64
	Memory, Waiting                       float64
	DBCores, DBWrite, DBRead, DBDelete    float64
	DBSync, DBTrip, DBConnect             float64
	DBPool, DBMost, DBPatience, DBWire    float64
	WAL, WALResult                        float64
	Keys, Ranges, DBChunk                 float64
	DSMedian, DSSigma, DSTrip, DSHands    float64
	Check, Fall, BalancerTimeout, Reasked float64
	Warmup, Measure                       float64
}

func newParams() *params {
	p := new(params)
	p.each(func(x *param) { *x.at = x.def })
	return p
}

// A param is one of the params, with its default and where that comes from.
type param struct {
	name string
	at   *float64
	def  float64
	unit string
	from string
}

// Where figures come from. Machine is that of testing/bench/README.md.
const (
	assumed  = "assumed"
	planned  = "the plan"
	program  = "the program's default"
	measured = "measured, testing/bench/README.md"
)

// all lists the params in the order in which they are printed.
func (p *params) all() []param {
	return []param{
		{"rate", &p.Rate, 50_000, "/s", planned + ": authentications, each a /preauth and an /auth"},
		{"challenge", &p.Challenge, 0.2, "", assumed + ": share of authentications with a challenge"},
		{"fetches", &p.Fetches, 1.5, "", assumed + ": /postauth for each of those"},
		{"cells", &p.Cells, 6, "", planned + ": databases, each with nodes of its own; one cell is simulated"},
		{"nodes", &p.Nodes, 36, "", planned + ": in all cells"},
		{"cores", &p.Cores, 4, "", planned + ": of a node"},
		{"preauth", &p.Preauth, 35, "µs", measured + ": processor time of a /preauth"},
		{"auth", &p.Auth, 650, "µs", measured + ": of an /auth"},
		{"result", &p.Result, 405, "µs", measured + ": of an RReq"},
		{"fetch", &p.Fetch, 150, "µs", assumed + ": of a /postauth, a /preauth and a read"},
		{"in-flight", &p.InFlight, 10_000, "", program + ": limits.in_flight of a node"},
		{"per-directory", &p.PerDirectory, 5_000, "", program + ": limits.per_directory of a node; 0: none"},
		{"breaker", &p.Breaker, 1, "", program + ": 10 failures to connect in a row for 5 s, then a try every 2 s; 0: none"},
		{"timeout", &p.Timeout, 10, "s", program + ": timeouts.authentication"},
		{"dial-timeout", &p.DialTimeout, 5, "s", program},
		{"max-dials", &p.MaxDials, 64, "", program + ": connections being made, of a node to a directory"},
		{"warm", &p.Warm, 0, "", program + ": connections made before the first request, of a node to a directory"},
		{"handshake", &p.Handshake, 840, "µs", "measured on 2 cores: first request on a new connection, mutual TLS 1.3, P-256"},
		{"memory", &p.Memory, 100, "MiB", measured + ": of a node with two million card ranges"},
		{"waiting", &p.Waiting, 119, "KiB", measured + ": more for each /auth in flight; it has become 72 since"},
		{"db-cores", &p.DBCores, 16, "", planned + ": of a database"},
		{"db-write", &p.DBWrite, 190, "µs", measured + ": processor time of a claim, outcome or result"},
		{"db-read", &p.DBRead, 97, "µs", measured + ": of a read by id"},
		{"db-delete", &p.DBDelete, 50, "µs", assumed + ": to sweep a row and vacuum after it"},
		{"db-sync", &p.DBSync, 1.5, "ms", "0.6 ms measured for a disk, the way to a standby and its sync assumed"},
		{"db-trip", &p.DBTrip, 0.5, "ms", assumed + ": node to database and back"},
		{"db-connect", &p.DBConnect, 5, "ms", assumed + ": processor time of a new connection"},
		{"db-pool", &p.DBPool, 24, "", program + ": pool_max_conns"},
		{"db-most", &p.DBMost, 500, "", planned + ": max_connections"},
		{"db-patience", &p.DBPatience, 5, "s", program + ": wait for a connection"},
		{"db-wire", &p.DBWire, 10, "Gbit/s", planned},
		{"wal", &p.WAL, 1.9, "KiB", measured + ": write-ahead log of a claim and an outcome"},
		{"wal-result", &p.WALResult, 1.8, "KiB", measured + ": of a result"},
		{"keys", &p.Keys, 1000, "", assumed + ": API keys, read by each node twice a second"},
		{"ranges", &p.Ranges, 42, "MiB", measured + ": two million card ranges, 21.2 bytes each"},
		{"db-chunk", &p.DBChunk, 1250, "µs", assumed + ": processor time of 256 KiB of card ranges"},
		{"ds-median", &p.DSMedian, 500, "ms", assumed + ": answer to an AReq, lognormal"},
		{"ds-sigma", &p.DSSigma, 0.5, "", assumed + ": p99 is 3.2 times the median"},
		{"ds-trip", &p.DSTrip, 20, "ms", assumed + ": node to directory and back"},
		{"ds-hands", &p.DSHands, 10_000, "/s", assumed + ": handshakes that a directory does, for all cells"},
		{"check", &p.Check, 2, "s", planned + ": health check of the balancer"},
		{"fall", &p.Fall, 2, "", planned + ": checks that fail until a node is out"},
		{"balancer-timeout", &p.BalancerTimeout, 1, "s", planned + ": to connect to a node"},
		{"reasked", &p.Reasked, 1, "", planned + ": share of requests that the balancer takes to another node when it gets no connection"},
		{"warmup", &p.Warmup, 3, "s", "of each run"},
		{"measure", &p.Measure, 5, "s", "of each phase"},
	}
}

func (p *params) each(f func(*param)) {
	all := p.all()
	for i := range all {
		f(&all[i])
	}
}

// set sets one parameter from "name=value" or "name value".
func (p *params) set(text string) error {
	name, value, _ := strings.Cut(strings.TrimSpace(text), "=")
	if fields := strings.Fields(text); len(fields) == 2 {
		name, value = fields[0], fields[1]
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not NAME=NUMBER", text)
	}
	found := false
	p.each(func(x *param) {
		if x.name == name {
			*x.at, found = v, true
		}
	})
	if !found {
		return fmt.Errorf("there is no parameter %q", name)
	}
	return nil
}

// check returns what is wrong with the parameters, nil if they can be played.
func (p *params) check() error {
	positive := strings.Fields("rate cells nodes cores max-dials timeout db-cores db-pool db-most db-wire ds-median ds-hands measure")
	var faults []error
	p.each(func(x *param) {
		if *x.at <= 0 && slices.Contains(positive, x.name) {
			faults = append(faults, fmt.Errorf("%s must be more than 0", x.name))
		}
	})
	if p.Nodes < p.Cells {
		faults = append(faults, fmt.Errorf("%g nodes are too few for %g cells", p.Nodes, p.Cells))
	}
	return errors.Join(faults...)
}

// read sets a parameter per line; # begins a comment.
func (p *params) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(text) == "" {
			continue
		}
		if err := p.set(text); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

func (p *params) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	p.each(func(x *param) {
		from := x.from
		if *x.at != x.def {
			from = "given"
		}
		fmt.Fprintf(w, "%s\t%g %s\t%s\n", x.name, *x.at, x.unit, from)
	})
	return w.Flush()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
func ms(m float64) time.Duration      { return time.Duration(m * float64(time.Millisecond)) }
func us(u float64) time.Duration      { return time.Duration(u * float64(time.Microsecond)) }
