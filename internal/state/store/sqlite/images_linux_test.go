package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/store"
)

// recordedDir names the directory of the store to the process whose calls are recorded.
const recordedDir = "THREEDS_RECORDED_DIR"

// recordedTxns is how many transactions that process makes, each with three commits.
const recordedTxns = 200

// sector is what a disk writes whole or not at all, in bytes.
const sector = 512

// recordedStates are the states of a recorded transaction, one per commit.
var recordedStates = []store.State{"sent", "challenge", "result"}

// TestRecordedChild is the process whose calls recordCalls records. It reports each commit once the store has
// acknowledged it, and ends without closing the store.
func TestRecordedChild(t *testing.T) {
	dir := os.Getenv(recordedDir)
	if dir == "" {
		return
	}
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range recordedTxns {
		for n, state := range recordedStates {
			want := txn(fmt.Sprint(i))
			want.State, want.Data = state, recordedData(i, n)
			if n == 0 {
				err = db.Create(t.Context(), want)
			} else {
				err = db.Update(t.Context(), store.Txn{ID: want.ID}, func(to *store.Txn) error {
					to.State, to.Data = want.State, want.Data
					return nil
				})
			}
			if err != nil {
				t.Fatal(err)
			}
			fmt.Printf("ack %d %d\n", i, n)
		}
	}
	os.Exit(0)
}

// recordedData is what transaction i has after its commit n: about as much as a sealed record.
func recordedData(i, n int) []byte {
	return fmt.Appendf(nil, "%0900d", i*10+n)
}

// A recordedCall is a call of the system that changes a file, or an acknowledgement.
type recordedCall struct {
	kind string // write, sync, truncate, remove or ack
	file string // base name
	at   int64  // of a write, or the size after a truncation
	data []byte
	txn  int // of an acknowledgement
	step int
}

var (
	straceLine    = regexp.MustCompile(`^\d+ +(\w+)\((.*)$`)
	straceResumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>.*= 0$`)
	stracePath    = regexp.MustCompile(`^\d+<([^>]*)>`)
	straceWritten = regexp.MustCompile(`^\d+<[^>]*>, "([^"]*)", \d+(?:, (\d+))?`)
)

// recordCalls runs TestRecordedChild on a store in dir and returns what it did to the files.
func recordCalls(t *testing.T, dir string) []recordedCall {
	t.Helper()
	strace, err := osexec.LookPath("strace")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("strace is not installed")
		}
		t.Skip("NOT TESTED: images of a crash: no strace")
	}
	log := filepath.Join(t.TempDir(), "strace")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(strace, "-f", "-qq", "-y", "-xx", "-s", "10000000", "--seccomp-bpf", "-o", log,
		"-e", "trace=pwrite64,write,fdatasync,fsync,ftruncate,unlink,unlinkat,rename,renameat,pwritev,writev,fallocate",
		self, "-test.run=^TestRecordedChild$")
	cmd.Env = append(os.Environ(), recordedDir+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: images of a crash: strace: %v: %.300s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var calls []recordedCall
	syncing := make(map[string]recordedCall) // by thread, until the call returns
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if m := straceResumed.FindStringSubmatch(line); m != nil {
			if c, isSync := syncing[m[1]]; isSync {
				calls = append(calls, c)
				delete(syncing, m[1])
			}
			continue
		}
		m := straceLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		c, err := readCall(m[1], m[2], dir)
		switch thread, _, _ := strings.Cut(line, " "); {
		case err != nil:
			t.Fatalf("%.200s: %v", line, err)
		case c.kind == "":
		case c.kind == "sync" && strings.HasSuffix(line, "<unfinished ...>"):
			syncing[thread] = c
		default:
			calls = append(calls, c)
		}
	}
	return calls
}

// readCall reads a call as strace writes it. A call that is of no interest has no kind.
func readCall(name, arguments, dir string) (c recordedCall, err error) {
	m := stracePath.FindStringSubmatch(arguments)
	if m == nil {
		return c, fmt.Errorf("%s names no file by its descriptor", name)
	}
	path := decodeHex(m[1])
	if filepath.Dir(path) == dir {
		c.file = filepath.Base(path)
	}
	switch name {
	case "write", "pwrite64":
		w := straceWritten.FindStringSubmatch(arguments)
		if w == nil {
			return c, errors.New("cannot be read")
		}
		data := decodeHex(w[1])
		if _, err := fmt.Sscanf(data, "ack %d %d", &c.txn, &c.step); err == nil && c.file == "" {
			c.kind = "ack"
			return c, nil
		}
		if c.file == "" || strings.HasSuffix(c.file, "-shm") {
			return c, nil
		}
		c.kind, c.data = "write", []byte(data)
		c.at, err = strconv.ParseInt(w[2], 10, 64)
	case "fdatasync", "fsync":
		if c.file != "" {
			c.kind = "sync"
		}
	case "ftruncate":
		if c.file == "" || strings.HasSuffix(c.file, "-shm") {
			return c, nil
		}
		c.kind = "truncate"
		_, size, _ := strings.Cut(arguments, ">, ")
		size, _, _ = strings.Cut(size, ")")
		c.at, err = strconv.ParseInt(size, 10, 64)
	default:
		err = errors.New("is a call that images do not have yet")
	}
	return c, err
}

// decodeHex decodes the bytes \x61 of strace; others stand for themselves.
func decodeHex(text string) string {
	if !strings.Contains(text, `\x`) {
		return text
	}
	b := make([]byte, 0, len(text)/4)
	for i := 0; i < len(text); {
		if strings.HasPrefix(text[i:], `\x`) {
			n, _ := strconv.ParseUint(text[i+2:i+4], 16, 8)
			b = append(b, byte(n))
			i += 4
			continue
		}
		b = append(b, text[i])
		i++
	}
	return string(b)
}

// An image is the content of the files of a store by their names.
type image map[string][]byte

// apply does a write or a truncation.
func (m image) apply(c recordedCall) {
	content := m[c.file]
	switch end := c.at + int64(len(c.data)); c.kind {
	case "write":
		if grow := end - int64(len(content)); grow > 0 {
			content = append(content, make([]byte, grow)...)
		}
		copy(content[c.at:], c.data)
	case "truncate":
		if c.at <= int64(len(content)) {
			content = content[:c.at]
		} else {
			content = append(content, make([]byte, c.at-int64(len(content)))...)
		}
	}
	m[c.file] = content
}

// clone copies an image.
func (m image) clone() image {
	to := make(image, len(m))
	for name, content := range m {
		to[name] = slices.Clone(content)
	}
	return to
}

// tear applies any subset of the sectors of calls, each sector of each with a chance of a half.
func (m image) tear(calls []recordedCall, random *rand.Rand) {
	for _, c := range calls {
		if c.kind == "truncate" {
			if random.IntN(2) == 0 {
				m.apply(c)
			}
			continue
		}
		for from := int64(0); from < int64(len(c.data)); {
			to := min(int64(len(c.data)), (c.at+from)/sector*sector+sector-c.at)
			if random.IntN(2) == 0 {
				m.apply(recordedCall{kind: "write", file: c.file, at: c.at + from, data: c.data[from:to]})
			}
			from = to
		}
	}
}

// countLost opens a store with the files of an image, and returns how many acknowledged commits are
// not in it. acked has the last commit of each transaction.
func countLost(t *testing.T, files image, acked []int) (lost int, err error) {
	t.Helper()
	dir, err := os.MkdirTemp(imagesDir(t), "image")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := Open(dir, Options{})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	for i, step := range acked {
		if got, err := db.Get(t.Context(), fmt.Sprint(i)); err != nil || !hasCommit(got, i, step) {
			lost++
		}
	}
	return lost, nil
}

// hasCommit reports whether a transaction is as it was after that commit or a later one.
func hasCommit(got store.Txn, i, step int) bool {
	n := slices.Index(recordedStates, got.State)
	return n >= step && string(got.Data) == string(recordedData(i, n))
}

// imagesDir is where images are written: in memory, where there is such a place.
func imagesDir(t *testing.T) string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return t.TempDir()
}

// countImages is how many images are tried: few of those that IMAGES=N asks for.
func countImages(t *testing.T, few int) int {
	text := os.Getenv("IMAGES")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("IMAGES=%s is not a number of images", text)
	}
	return n
}

// TestCrashImages records every write and every sync of 200 transactions. Then it opens what a crash would leave, and
// checks that everything acknowledged before is there.
func TestCrashImages(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	db, err := Open(dir, Options{})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	start := make(image)
	content, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	start[fileName] = content
	calls := recordCalls(t, dir)
	syncs, checkpoints, acks := 0, 0, 0
	for _, c := range calls {
		switch {
		case c.kind == "sync":
			syncs++
		case c.kind == "ack":
			acks++
		case c.kind == "write" && c.file == fileName:
			checkpoints++
		}
	}
	t.Logf("calls=%d of them syncs=%d, acknowledgements=%d, pages written to the database=%d", len(calls), syncs, acks, checkpoints)
	if acks != recordedTxns*len(recordedStates) || syncs < acks || checkpoints == 0 {
		t.Fatal("the recording has no commit for each acknowledgement, or no checkpoint")
	}
	t.Run("killed at any call", func(t *testing.T) {
		points := min(len(calls), countImages(t, 30))
		lost := replay(t, start, calls, points, func(c *crashPoint) image { return c.cached })
		if t.Logf("points=%d lost=%d", points, lost); lost > 0 {
			t.Errorf("%d acknowledged commits are lost", lost)
		}
	})
	t.Run("power lost, any sectors written", func(t *testing.T) {
		random := rand.New(rand.NewPCG(7, 8))
		images := countImages(t, 50)
		lost := replay(t, start, calls, images, func(c *crashPoint) image {
			torn := c.durable.clone()
			torn.tear(c.pending, random)
			return torn
		})
		if t.Logf("images=%d lost=%d", images, lost); lost > 0 {
			t.Errorf("%d acknowledged commits are lost", lost)
		}
	})
	t.Run("control: no sync does anything", func(t *testing.T) {
		random := rand.New(rand.NewPCG(9, 10))
		var deaf []recordedCall
		for _, c := range calls {
			if c.kind != "sync" {
				deaf = append(deaf, c)
			}
		}
		lost := replay(t, start, deaf, 10, func(c *crashPoint) image {
			torn := c.durable.clone()
			torn.tear(c.pending, random)
			return torn
		})
		if t.Logf("lost=%d", lost); lost == 0 {
			t.Error("nothing is lost without syncs: the test shows nothing")
		}
	})
}

// A crashPoint is what there is after some of the calls.
type crashPoint struct {
	cached  image          // what other processes see
	durable image          // what is on the disk for certain
	pending []recordedCall // what may be there or not
}

// replay makes images after calls that are spread evenly over the recording, or several after the same call if there
// are more images than calls. It returns how many acknowledged commits are lost.
func replay(t *testing.T, start image, calls []recordedCall, images int, of func(*crashPoint) image) (lost int) {
	t.Helper()
	at := &crashPoint{cached: start.clone(), durable: start.clone()}
	acked := make([]int, 0, recordedTxns)
	for i, c := range calls {
		switch c.kind {
		case "ack":
			if c.step == 0 {
				acked = append(acked, 0)
			} else {
				acked[c.txn] = c.step
			}
		case "sync":
			var others []recordedCall
			for _, p := range at.pending {
				if p.file == c.file {
					at.durable.apply(p)
				} else {
					others = append(others, p)
				}
			}
			at.pending = others
		default:
			at.cached.apply(c)
			at.pending = append(at.pending, c)
		}
		for range images*(i+1)/len(calls) - images*i/len(calls) {
			n, err := countLost(t, of(at), acked)
			if err != nil {
				lost += len(acked) + 1
				t.Logf("after call %d the store does not open: %v", i, err)
			} else if n > 0 {
				lost += n
				t.Logf("after call %d, %s of %s: %d lost", i, c.kind, c.file, n)
			}
		}
	}
	return lost
}
