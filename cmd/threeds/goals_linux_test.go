package main

import (
	"database/sql"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// memory is a figure of the process in MiB, such as VmHWM, the most that it ever had in memory.
func (v *victim) memory(figure string) float64 {
	v.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.cmd.Process.Pid))
	must(v.t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, figure+":"); ok {
			kibibytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			must(v.t, err)
			return kibibytes / 1024
		}
	}
	v.t.Fatalf("the process has no %s", figure)
	return 0
}

// descriptors is how many files and connections the process has open.
func (v *victim) descriptors() int {
	v.t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.cmd.Process.Pid))
	must(v.t, err)
	return len(all)
}

// TestCrashManyRecords: after a crash a store with many results that have not expired is ready
// within 5 s, in 512 MiB, and has all that was acknowledged. RECORDS is how many there are.
func TestCrashManyRecords(t *testing.T) {
	t.Parallel()
	records := readCount(t, "RECORDS", 50_000)
	ca := newAuthority(t)
	p := newPeer(t, ca)
	p.setAnswer(challenges)
	v, led := newVictimAt(t, ca, p, `store: {url: "file:data"}`+keptLong), newLedger(p)
	v.start()
	file := filepath.Join(filepath.Dir(v.config), "data", "threeds.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)")
	must(t, err)
	defer db.Close()
	_, err = db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO txn (id, owner, scheme, state, data, expires, ver)
		SELECT printf('00000000-0000-4000-8000-%012d', i), 'another', 'visa', 'result', randomblob(700), ?, 1 FROM n`,
		records, time.Now().Add(2*time.Hour).UnixMilli())
	must(t, err)
	v.underLoad(led, func() {
		waitFor(t, "results", func() bool { return led.answered("RReq RRes") >= 50 })
		v.kill()
	})
	start := time.Now()
	v.start()
	took, most := time.Since(start), v.memory("VmHWM")
	t.Logf("records=%d ready after %v, at most %.0f MiB", records, took.Round(time.Millisecond), most)
	if took > 5*time.Second || most > 512 {
		t.Errorf("ready after %v with %.0f MiB, want 5 s and 512 MiB at most", took, most)
	}
	v.check(led, math.MaxInt)
	led.verdict(t, "many records:", 50)
}

// TestCrashPaused: a process that was stopped for longer than a result lives does not give it out
// when it goes on. PAUSES is how often.
func TestCrashPaused(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	p := newPeer(t, ca)
	p.setAnswer(challenges)
	v, led := newVictimAt(t, ca, p, "store: {url: \"file:data\"}\ntimeouts: {result: 10s}"), newLedger(p)
	v.start()
	for range readCount(t, "PAUSES", 1) {
		for range 4 {
			v.challenge(led)
		}
		if len(led.fresh) == 0 {
			t.Fatal("no result was acknowledged")
		}
		for id := range led.fresh {
			if code, got := v.call("/postauth", object{"threeDSServerTransID": id}); code != 200 {
				t.Errorf("before the pause: %d %v", code, got)
			}
		}
		must(t, suspend(v.cmd.Process))
		time.Sleep(10*time.Second + 100*time.Millisecond)
		must(t, resume(v.cmd.Process))
		for id := range led.fresh {
			code, got := v.call("/postauth", object{"threeDSServerTransID": id})
			if code == 200 || got.text("messageType") != "Erro" {
				t.Errorf("after the pause an expired result is given out: %d %v", code, got)
			}
		}
		clear(led.fresh)
	}
}

// TestD109BackupHasAllBefore: a backup that is taken while keys are made and revoked has every
// key that was made, and every revocation, before it began. BACKUPS is how often.
func TestD109BackupHasAllBefore(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	p := newPeer(t, ca)
	v, other := newVictim(t, ca, p), newVictim(t, ca, p)
	v.start()
	runs := readCount(t, "BACKUPS", 3)
	for i := range runs {
		v.command("", "key", "create", "--name", fmt.Sprintf("before-%d-", i))
		revoked := v.command("", "key", "create", "--name", fmt.Sprintf("revoked-%d-", i))
		v.command(revoked, "key", "revoke")
		var beside errgroup.Group
		beside.Go(func() error {
			v.command("", "key", "create", "--name", "beside")
			return nil
		})
		file := filepath.Join(t.TempDir(), "backup")
		v.command("", "backup", file)
		must(t, beside.Wait())
		other.command("", "restore", "--replace", file)
		live, gone := other.command("", "key", "list"), other.command("", "key", "list", "--revoked")
		for j := range i + 1 {
			if name := fmt.Sprintf("before-%d-", j); !strings.Contains(live, name) {
				t.Errorf("backup %d has no key of %s", i, name)
			}
			if name := fmt.Sprintf("revoked-%d-", j); strings.Contains(live, name) || !strings.Contains(gone, name) {
				t.Errorf("backup %d does not have %s as revoked", i, name)
			}
		}
	}
	t.Logf("backups=%d", runs)
}

// TestSoak: under a steady load of which 1 % meets a directory server that fails, the process
// neither grows nor keeps connections. SOAK=2h is how long; then memory must not grow by more
// than 1 MiB an hour.
func TestSoak(t *testing.T) {
	t.Parallel()
	length, isLong := 4*time.Second, false
	if text := os.Getenv("SOAK"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("SOAK=%s: %v", text, err)
		}
		isLong = true
	}
	ca := newAuthority(t)
	p := newPeer(t, ca)
	var asks atomic.Int64
	p.setAnswer(func(areq object) (int, []byte) {
		if asks.Add(1)%100 == 0 {
			return http.StatusInternalServerError, []byte("broken")
		}
		return challenges(areq)
	})
	v, led := newVictimAt(t, ca, p, "store: {url: \"file:data\"}\ntimeouts: {result: 60s}"), newLedger(p)
	v.start()
	drive := func(d time.Duration, each func()) {
		var workers sync.WaitGroup
		end := time.Now().Add(d)
		for range 8 {
			workers.Go(func() {
				for time.Now().Before(end) {
					v.soak(led)
				}
			})
		}
		for time.Now().Before(end) {
			time.Sleep(d / 20)
			each()
		}
		workers.Wait()
	}
	drive(length/4, func() {})
	v.client.CloseIdleConnections()
	time.Sleep(100 * time.Millisecond)
	before, start := v.descriptors(), time.Now()
	var hours, mebibytes []float64
	drive(length, func() {
		hours, mebibytes = append(hours, time.Since(start).Hours()), append(mebibytes, v.memory("VmRSS"))
	})
	v.client.CloseIdleConnections()
	after := 0
	waitFor(t, "as many descriptors as before", func() bool {
		after = v.descriptors()
		return after <= before+5
	})
	t.Logf("%v: answers %v, descriptors %d and %d, %.0f MiB at the end",
		length, led.answers, before, after, mebibytes[len(mebibytes)-1])
	if isLong {
		slope := fitSlope(hours, mebibytes)
		if t.Logf("memory grows by %.2f MiB an hour", slope); slope > 1 {
			t.Error("memory grows by more than 1 MiB an hour")
		}
	}
	if led.changed+led.lost > 0 || led.acked < 20 {
		t.Errorf("%d acknowledged, %d lost or changed: %v", led.acked, led.changed+led.lost, led.complaints)
	}
}

// soak is an authentication with a challenge whose result is read at once.
func (v *victim) soak(led *ledger) {
	want, ok := v.begin(led)
	if !ok || !v.result(led, want) {
		return
	}
	id := want.text("threeDSServerTransID")
	code, got := v.call("/postauth", object{"threeDSServerTransID": id})
	led.mu.Lock()
	defer led.mu.Unlock()
	delete(led.fresh, id)
	clear(led.again)
	if code != 200 || string(marshal(got)) != string(marshal(want)) {
		led.lost++
		led.complain("%s: %d %v", id, code, got)
	}
}

// fitSlope is the slope of the straight line that lies closest to the points.
func fitSlope(x, y []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i := range x {
		sx, sy, sxx, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	n := float64(len(x))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
