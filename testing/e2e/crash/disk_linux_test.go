package crash

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A disk is an ext4 file system of its own, in a file, that may lose its power.
type disk struct {
	t     *testing.T
	image string
	at    string // where it is mounted
	leave func() // unmounts and removes it
}

// keepDisk removes a disk when its standard input ends, and so with the test binary,
// however that ends.
const keepDisk = `read -r word; umount -l "$1/at" 2>/dev/null; rm -rf --one-file-system "$1"`

// newDisk makes a disk and mounts it. Where that cannot be, the test is skipped.
func newDisk(t *testing.T, mebibytes int64) *disk {
	t.Helper()
	dir, err := os.MkdirTemp("", "threeds-disk-")
	if err != nil {
		t.Fatal(err)
	}
	keeper := exec.Command("/bin/sh", "-c", keepDisk, "sh", dir)
	keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	life, err := keeper.StdinPipe()
	if err == nil {
		err = keeper.Start()
	}
	if err != nil {
		t.Fatal(errors.Join(err, os.RemoveAll(dir)))
	}
	d := &disk{t: t, image: filepath.Join(dir, "image"), at: filepath.Join(dir, "at")}
	d.leave = sync.OnceFunc(func() {
		_ = life.Close()
		_ = keeper.Wait()
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", dir)
		}
	})
	t.Cleanup(d.leave)
	if err := os.Mkdir(d.at, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(d.image)
	if err == nil {
		err = errors.Join(f.Truncate(mebibytes<<20), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	rig.FindTool(t, "mkfs.ext4", "a disk that fails")
	// No block is kept for root: full is full.
	if err := runTool("mkfs.ext4", "-q", "-F", "-m", "0", d.image); err != nil {
		t.Fatal(err)
	}
	if err := d.mount(); err != nil { // no tool is missing then, in CI neither
		t.Skipf("NOT TESTED: it takes root and loop devices: %v", err)
	}
	return d
}

func runTool(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

func (d *disk) mount() error { return runTool("mount", "-o", "loop", d.image, d.at) }

// cut takes the power away: what was not flushed, the journal included, is gone, and
// everything fails from now on.
func (d *disk) cut() error {
	f, err := os.Open(d.at)
	if err != nil {
		return err
	}
	defer f.Close()
	const shutdown, noLogFlush = 0x8004587d, uint32(2) // FS_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
	flags := noLogFlush
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		return fmt.Errorf("shutdown of %s: %w", d.at, errno)
	}
	return nil
}

// restart mounts the disk again, which replays its journal.
func (d *disk) restart() {
	d.t.Helper()
	if err := errors.Join(runTool("umount", d.at), d.mount()); err != nil {
		d.t.Fatal(err)
	}
}

// store are lines of a configuration.
func (d *disk) store() string {
	return fmt.Sprintf("store: {url: %q}", "file:"+filepath.Join(d.at, "data"))
}

// fill takes all space that is left, and returns what gives it back.
func (d *disk) fill() (free func()) {
	d.t.Helper()
	name := filepath.Join(d.at, "filler")
	f, err := os.Create(name)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size >= 512; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			d.t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			d.t.Error(err)
		}
	}
}

// A lossPlan is what lossLoop does.
type lossPlan struct {
	losses int
	disks  int // how many losses a disk sees
	acks   int // results in each run, at most; at least half of it
	answer func(areq rig.Object) (int, []byte)
	env    []string
}

// lossLoop takes the power away again and again, in the moment in which a result is
// acknowledged, under concurrent challenges. It returns how often the server did not
// come back.
func lossLoop(t *testing.T, plan lossPlan) (led *rig.Ledger, unopenable int) {
	t.Helper()
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	p.SetAnswer(plan.answer)
	led = rig.NewLedger(p)
	random := rand.New(rand.NewPCG(5, 6))
	for left := plan.losses; left > 0; left -= plan.disks {
		unopenable += oneDisk(t, ca, led, random, lossPlan{losses: min(left, plan.disks), acks: plan.acks, env: plan.env})
	}
	return led, unopenable
}

func oneDisk(t *testing.T, ca *rig.Authority, led *rig.Ledger, random *rand.Rand, plan lossPlan) (unopenable int) {
	t.Helper()
	d := newDisk(t, 48)
	defer d.leave()
	clear(led.Kept)
	v := rig.NewVictimAt(t, ca, led.Peer, d.store(), plan.env...)
	defer v.Kill()
	v.Start()
	for range plan.losses {
		cut := make(chan error, 1)
		at := led.Acked + plan.acks/2 + random.IntN(plan.acks/2)
		light := func() {}
		led.Acknowledged = func(n int) {
			if n == at {
				light = led.Darken()
				cut <- d.cut()
			}
		}
		v.UnderLoad(led, func() {
			if err := <-cut; err != nil {
				t.Error(err)
			}
			v.Kill()
		})
		light()
		led.Acknowledged = nil
		d.restart()
		if err := v.TryStart(); err != nil {
			t.Log(err)
			led.Lost += len(led.Kept) + len(led.Fresh)
			return 1
		}
		v.Check(led, 100)
	}
	v.Check(led, math.MaxInt)
	return 0
}

// TestCrashPowerLoss takes the power from the file system that the store is on, in
// the moment of an acknowledgement: what was acknowledged is there afterwards, and
// the store opens.
func TestCrashPowerLoss(t *testing.T) {
	plan := lossPlan{losses: crashes(t, 40), disks: 8, acks: 60, answer: mixed()}
	if os.Getenv("CRASH") != "" {
		plan.losses, plan.acks = crashes(t, 100), 400
	}
	led, unopenable := lossLoop(t, plan)
	led.Verdict(t, fmt.Sprintf("power losses=%d unopenable=%d", plan.losses, unopenable), plan.losses*plan.acks/2)
	if unopenable > 0 {
		t.Errorf("%d stores did not open", unopenable)
	}
}

// TestCrashPowerLossControl is TestCrashPowerLoss with less than synchronous=FULL, which
// the server sets after each write that is lazy: there is none.
func TestCrashPowerLossControl(t *testing.T) {
	for _, mode := range []string{"NORMAL", "OFF"} {
		t.Run(mode, func(t *testing.T) {
			led, _ := lossLoop(t, lossPlan{losses: 2, disks: 1, acks: 50, answer: rig.AnswerChallenge, env: []string{rig.ChildSync + "=" + mode}})
			led.MustLose(t)
		})
	}
}

// TestCrashFullDisk fills the disk for a moment: nothing is acknowledged that is not
// kept, and what fails says so; once there is space the same process goes on.
func TestCrashFullDisk(t *testing.T) {
	d := newDisk(t, 24)
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	p.SetAnswer(rig.AnswerChallenge)
	v, led := rig.NewVictimAt(t, ca, p, d.store()), rig.NewLedger(p)
	v.Start()
	var waiting []rig.Object // results of challenges that had begun
	for len(waiting) < 16 {
		if result, ok := v.Begin(led); ok {
			waiting = append(waiting, result)
		}
	}
	first, ok := v.Begin(led)
	start := time.Now()
	if !ok || !v.Result(led, first) {
		t.Fatal("no result before the disk is full")
	}
	control := time.Since(start)
	var refused, back int
	var gap time.Duration
	v.UnderLoad(led, func() {
		waittest.Until(t, "load", func() bool { return led.Answered("RReq RRes") > 50 })
		free := d.fill()
		waittest.Until(t, "refusals", func() bool { return led.Answered("auth 403") > 50 })
		waittest.Until(t, "/readyz to name the store", func() bool {
			code, body := v.Readiness()
			return code == 200 && strings.Contains(body, `"store":"writes fail: `)
		})
		for _, result := range waiting[1:] {
			if !v.Result(led, result) {
				refused++
			}
		}
		known := maps.Clone(led.Fresh)
		rig.ForEach(known, func(id string, _ rig.Object) {
			if code, got := v.Call("/postauth", rig.Object{"threeDSServerTransID": id}); code != 200 {
				t.Errorf("a result cannot be read while the disk is full: %d %v", code, got)
			}
		})
		free()
		start := time.Now()
		waittest.Until(t, "recovery", func() bool { return v.Result(led, waiting[0]) })
		gap = time.Since(start)
		back = led.Answered("RReq RRes")
		waittest.Until(t, "load again", func() bool { return led.Answered("RReq RRes") > back+50 })
		waittest.Until(t, "/readyz to be well", func() bool {
			code, body := v.Readiness()
			return code == 200 && !strings.Contains(body, "writes fail")
		})
	})
	t.Logf("disk full: %d results of %d refused, the first one acknowledged %v after there was space; answers %v", refused, len(waiting)-1, gap, led.Answers)
	if refused == 0 {
		t.Error("no result was refused: the test shows nothing")
	}
	if gap > 5*time.Second+10*control {
		t.Errorf("it took %v to recover, and a result on an idle disk %v", gap, control)
	}
	onlyTransient(led, t)
	v.Check(led, math.MaxInt)
	v.Kill()
	v.Start()
	v.Check(led, math.MaxInt)
	led.Verdict(t, "disk full:", 100)
}

// onlyTransient fails the test when there were answers other than good ones and the
// 403 of a store in trouble.
func onlyTransient(led *rig.Ledger, t *testing.T) {
	t.Helper()
	for kind, n := range led.Answers {
		switch kind {
		case "auth ARes", "auth 403", "RReq RRes", "RReq 403":
		default:
			t.Errorf("%d answers %q", n, kind)
		}
	}
}

// TestCrashDiskErrors has calls of the system fail that write or sync: who asked is
// told so, the process goes on, and after a kill all that was acknowledged is there.
func TestCrashDiskErrors(t *testing.T) {
	strace := rig.FindTool(t, "strace", "calls that fail")
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	p.SetAnswer(rig.AnswerChallenge)
	v, led := rig.NewVictim(t, ca, p), rig.NewLedger(p)
	failed := 0
	for _, call := range []string{"fdatasync", "pwrite64"} {
		for _, when := range []string{"1", "2+3", "5+1", "7+20"} {
			v.Start()
			seen := filepath.Join(t.TempDir(), "strace")
			tracer := exec.Command(strace, "-f", "-qq", "-o", seen, "-e", "trace="+call, "-e",
				"inject="+call+":error=EIO:when="+when, "-p", strconv.Itoa(v.Cmd.Process.Pid))
			if err := tracer.Start(); err != nil {
				t.Fatal(err)
			}
			attached := make(chan error, 1)
			go func() { attached <- tracer.Wait() }()
			denied := false
			waittest.Until(t, "strace", func() bool {
				select {
				case <-attached:
					denied = true
					return true
				default:
				}
				status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.Cmd.Process.Pid))
				return err == nil && !strings.Contains(string(status), "TracerPid:\t0")
			})
			if denied {
				v.Kill()
				t.Skip("NOT TESTED: strace may not attach to a process here") // as in many a container: no tool is missing, in CI neither
			}
			v.UnderLoad(led, func() {
				want := led.Total() + 60
				waittest.Until(t, "answers", func() bool { return led.Total() >= want })
			})
			select {
			case <-v.Exited:
				t.Errorf("%s: the process has ended", call)
			default:
			}
			v.Kill()
			<-attached
			log, err := os.ReadFile(seen)
			if err != nil {
				t.Fatal(err)
			}
			failed += strings.Count(string(log), "INJECTED")
			v.Start()
			v.Check(led, math.MaxInt)
			v.Kill()
		}
	}
	t.Logf("disk errors: %d calls failed; answers %v", failed, led.Answers)
	onlyTransient(led, t)
	if said, err := os.ReadFile(v.LogFile); err != nil || strings.Contains(string(said), "panic") {
		t.Errorf("the log has a panic: %v", err)
	}
	led.Verdict(t, "disk errors:", 10)
	if failed == 0 || led.Answers["RReq 403"]+led.Answers["auth 403"] == 0 {
		t.Error("no call failed, or nobody noticed: the test shows nothing")
	}
}
