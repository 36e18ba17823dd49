package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
)

// TestStoreMetrics has a server on each store tell of it on /metrics.
func TestStoreMetrics(t *testing.T) {
	ca := newAuthority(t)
	for name, tt := range map[string]struct {
		at       func(t *testing.T) storeAt // zero: as configured
		positive []string                   // what a server that has just read its card ranges has done
		others   []string
		never    string // of the other store
	}{
		"sqlite": {
			positive: []string{"threeds_store_writes_total", "threeds_store_commits_total"},
			others:   []string{"threeds_store_commits_failed_total", "threeds_store_writes_waiting"},
			never:    "threeds_store_connections",
		},
		"postgres": {
			at: func(t *testing.T) storeAt { return storeAt{Postgres: pgtest.Get(t).Schema(t) + "&pool_max_conns=7"} },
			positive: []string{
				`threeds_store_connections{state="idle"}`, "threeds_store_connections_max",
				"threeds_store_connections_opened_total", "threeds_store_acquires_total",
			},
			others: []string{
				`threeds_store_connections{state="in_use"}`, `threeds_store_connections{state="opening"}`,
				"threeds_store_acquires_waited_total", "threeds_store_acquire_wait_seconds_total", "threeds_store_acquires_cancelled_total",
			},
			never: "threeds_store_writes_total",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p plan
			if tt.at != nil {
				at := tt.at(t)
				p.change = func(cfg *nodeConfig) { cfg.At = at }
			}
			s := startSite(t, ca, newWire(t, ca), p)
			got := s.metrics()
			for _, metric := range slices.Concat(tt.positive, tt.others) {
				if value, ok := got[metric]; !ok {
					t.Errorf("/metrics lacks %s", metric)
				} else if value <= 0 && slices.Contains(tt.positive, metric) {
					t.Errorf("%s is %v", metric, value)
				}
			}
			if name == "postgres" && got["threeds_store_connections_max"] != 7 {
				t.Errorf("threeds_store_connections_max is %v, want 7", got["threeds_store_connections_max"])
			}
			if got["threeds_store_writes_total"] < got["threeds_store_commits_total"] {
				t.Errorf("%v writes in %v commits", got["threeds_store_writes_total"], got["threeds_store_commits_total"])
			}
			if _, ok := got[tt.never]; ok {
				t.Errorf("/metrics has %s", tt.never)
			}
		})
	}
}

// metrics are the values that the console exposes, by name and labels.
func (s *site) metrics() map[string]float64 {
	got := make(map[string]float64)
	for lines := bufio.NewScanner(strings.NewReader(s.exposed())); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			got[name] = n
		}
	}
	return got
}

// swept is a store that notes as of when it was swept.
type swept struct {
	store.Store
	times chan time.Time
}

func (s swept) Sweep(_ context.Context, now time.Time) (int, error) {
	s.times <- now
	return 0, nil
}

// TestSweepByTheStamp: what expires by one clock is freed by the same, wherever that
// of the machine is.
func TestSweepByTheStamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := func() time.Time { return time.Now().Add(48 * time.Hour) }
		s := swept{times: make(chan time.Time, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			(&node{db: s, stamp: ahead}).sweep(ctx)
		}()
		if got := <-s.times; !got.Equal(ahead()) {
			t.Errorf("swept as of %v, want %v", got, ahead())
		}
		cancel()
		<-ended
	})
}

// unswept is a store that cannot be swept, a certain number of times.
type unswept struct {
	store.Store
	tries, failing int
}

func (s *unswept) Sweep(ctx context.Context, _ time.Time) (int, error) {
	if s.tries++; s.tries > s.failing {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return 0, errors.New("disk full")
}

// TestSweepFails: operators read each minute that what has expired stays, and nothing
// of a node that just ends; the next try comes all the same.
func TestSweepFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &unswept{failing: 2}
		n := &node{db: s, stamp: time.Now, cfg: nodeConfig{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+time.Second)
		defer cancel()
		n.sweep(ctx)
		if got := strings.Count(log.String(), `level=ERROR msg="expired transactions not swept" err="disk full"`); got != 2 || s.tries != 3 || strings.Count(log.String(), "\n") != 2 {
			t.Errorf("%d of 3 tries, log:\n%s", s.tries, log.String())
		}
	})
}
