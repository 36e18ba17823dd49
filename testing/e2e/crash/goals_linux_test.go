package crash

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

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// memory is a figure of the process in MiB, such as VmHWM, the most that it ever had in memory.
func memory(v *rig.Victim, figure string) float64 {
	v.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.Cmd.Process.Pid))
	rig.Must(v.T, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, figure+":"); ok {
			kibibytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			rig.Must(v.T, err)
			return kibibytes / 1024
		}
	}
	v.T.Fatalf("the process has no %s", figure)
	return 0
}

// descriptors is how many files and connections the process has open.
func descriptors(v *rig.Victim) int {
	v.T.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.Cmd.Process.Pid))
	rig.Must(v.T, err)
	return len(all)
}

// TestCrashManyRecords: after a crash a store with many results that have not expired is ready
// within 5 s, in 512 MiB, and has all that was acknowledged. RECORDS is how many there are.
func TestCrashManyRecords(t *testing.T) {
	t.Parallel()
	records := rig.ReadCount(t, "RECORDS", 20_000)
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	p.SetAnswer(rig.AnswerChallenge)
	v, led := rig.NewVictimAt(t, ca, p, `store: {url: "file:data"}`), rig.NewLedger(p)
	start := time.Now()
	v.Start()
	control := time.Since(start)
	file := filepath.Join(filepath.Dir(v.ConfigFile), "data", "threeds.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)")
	rig.Must(t, err)
	defer db.Close()
	_, err = db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO txns (id, owner, scheme, state, data, expires, ver)
		SELECT printf('00000000-0000-4000-8000-%012d', i), 'another', 'visa', 'result', randomblob(700), ?, 1 FROM n`,
		records, time.Now().Add(2*time.Hour).UnixMilli())
	rig.Must(t, err)
	v.UnderLoad(led, func() {
		waittest.Until(t, "results", func() bool { return led.Answered("RReq RRes") >= 50 })
		v.Kill()
	})
	start = time.Now()
	v.Start()
	took, most := time.Since(start), memory(v, "VmHWM")
	t.Logf("records=%d ready after %v, at most %.0f MiB", records, took.Round(time.Millisecond), most)
	if took > 5*time.Second+2*control || most > 512 { // a busy machine takes long for an empty store, too
		t.Errorf("ready after %v with %.0f MiB, want 5 s and 512 MiB at most; with an empty store it was %v", took, most, control)
	}
	v.Check(led, math.MaxInt)
	led.Verdict(t, "many records:", 50)
}

// TestCrashPaused: a process that was stopped for longer than a result lives does not give it out
// when it goes on. PAUSES is how often.
func TestCrashPaused(t *testing.T) {
	const lives = 2 * time.Second
	t.Parallel()
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	p.SetAnswer(rig.AnswerChallenge)
	v, led := rig.NewVictim(t, ca, p, rig.ChildResult+"="+lives.String()), rig.NewLedger(p)
	v.Start()
	for range rig.ReadCount(t, "PAUSES", 1) {
		for range 4 {
			v.Challenge(led)
		}
		if len(led.Fresh) == 0 {
			t.Fatal("no result was acknowledged")
		}
		read := 0
		for id := range led.Fresh {
			if code, _ := v.Call("/postauth", rig.Object{"threeDSServerTransID": id}); code == 200 {
				read++
			}
		}
		if read == 0 { // A busy machine may take longer for some of them than they live.
			t.Error("no result could be read before the pause")
		}
		rig.Must(t, rig.Suspend(v.Cmd.Process))
		time.Sleep(lives + 100*time.Millisecond) // nothing but time passes
		rig.Must(t, rig.Resume(v.Cmd.Process))
		for id := range led.Fresh {
			code, got := v.Call("/postauth", rig.Object{"threeDSServerTransID": id})
			if code == 200 || got.Text("messageType") != "Erro" {
				t.Errorf("after the pause an expired result is given out: %d %v", code, got)
			}
		}
		clear(led.Fresh)
	}
}

// TestD109BackupHasAllBefore: a backup that is taken while keys are made and revoked has every
// key that was made, and every revocation, before it began. BACKUPS is how often.
func TestD109BackupHasAllBefore(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	v, other := rig.NewVictim(t, ca, p), rig.NewVictim(t, ca, p)
	v.Start()
	runs := rig.ReadCount(t, "BACKUPS", 3)
	for i := range runs {
		v.Command("", "key", "create", "--name", fmt.Sprintf("before-%d-", i))
		revoked := v.Command("", "key", "create", "--name", fmt.Sprintf("revoked-%d-", i))
		v.Command(revoked, "key", "revoke")
		var beside errgroup.Group
		beside.Go(func() error {
			v.Command("", "key", "create", "--name", "beside")
			return nil
		})
		file := filepath.Join(t.TempDir(), "backup")
		v.Command("", "backup", file)
		rig.Must(t, beside.Wait())
		keys := func(v *rig.Victim) string { return filepath.Join(filepath.Dir(v.ConfigFile), "data", "keys.json") }
		rig.WriteFile(t, keys(other), rig.ReadFile(t, keys(v))) // a backup has no key file
		other.Command("", "restore", "--replace", file)
		live, gone := other.Command("", "key", "list"), other.Command("", "key", "list", "--revoked")
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
	length, isLong := time.Duration(0), false
	if text := os.Getenv("SOAK"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("SOAK=%s: %v", text, err)
		}
		isLong = true
	}
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	var asks atomic.Int64
	p.SetAnswer(func(areq rig.Object) (int, []byte) {
		if asks.Add(1)%100 == 0 {
			return http.StatusInternalServerError, []byte("broken")
		}
		return rig.AnswerChallenge(areq)
	})
	v, led := rig.NewVictimAt(t, ca, p, "store: {url: \"file:data\"}\ntimeouts: {result: 60s}"), rig.NewLedger(p)
	v.Start()
	// drive runs so many authentications, and more until the time is over, and calls each after every sixteenth.
	drive := func(least int64, d time.Duration, each func()) {
		var workers sync.WaitGroup
		var done atomic.Int64
		end := time.Now().Add(d)
		marks := make(chan struct{}, 1)
		for range 8 {
			workers.Go(func() {
				for done.Load() < least || time.Now().Before(end) {
					soak(v, led)
					if done.Add(1)%16 == 0 {
						select {
						case marks <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		go func() {
			workers.Wait()
			close(marks)
		}()
		for range marks {
			each()
		}
	}
	const few = 100
	drive(few, length/4, func() {})
	v.Client.CloseIdleConnections()
	before, start := descriptors(v), time.Now()
	var hours, mebibytes []float64
	drive(2*few, length, func() {
		hours, mebibytes = append(hours, time.Since(start).Hours()), append(mebibytes, memory(v, "VmRSS"))
	})
	v.Client.CloseIdleConnections()
	after := 0
	waittest.Until(t, "as many descriptors as before", func() bool {
		after = descriptors(v)
		return after <= before+5
	})
	t.Logf("%v: answers %v, descriptors %d and %d, %.0f MiB at the end",
		time.Since(start).Round(time.Second), led.Answers, before, after, mebibytes[len(mebibytes)-1])
	if isLong {
		slope := fitSlope(hours, mebibytes)
		if t.Logf("memory grows by %.2f MiB an hour", slope); slope > 1 {
			t.Error("memory grows by more than 1 MiB an hour")
		}
	}
	if led.Changed+led.Lost > 0 || led.Acked < 20 {
		t.Errorf("%d acknowledged, %d lost or changed: %v", led.Acked, led.Changed+led.Lost, led.Complaints)
	}
}

// soak is an authentication with a challenge whose result is read at once.
func soak(v *rig.Victim, led *rig.Ledger) {
	want, ok := v.Begin(led)
	if !ok || !v.Result(led, want) {
		return
	}
	id := want.Text("threeDSServerTransID")
	code, got := v.Call("/postauth", rig.Object{"threeDSServerTransID": id})
	led.Mu.Lock()
	defer led.Mu.Unlock()
	delete(led.Fresh, id)
	clear(led.Again)
	if code != 200 || string(rig.Marshal(got)) != string(rig.Marshal(want)) {
		led.Lost++
		led.Complain("%s: %d %v", id, code, got)
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
