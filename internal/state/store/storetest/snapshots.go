package storetest

// This file is one idea: a test for each sentence about snapshots and states.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing/iotest"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// Sizes of content: large is more than an implementation may want to write in one step, and full is a multiple of such
// a step.
const (
	large = 1<<20 + 12345
	full  = 1 << 20
)

// contentOf returns pseudorandom bytes, different for each generation, so that a part of
// them at the wrong place is noticed.
func contentOf(generation int64, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(generation), byte(generation >> 8)}).Read(data)
	return data
}

// snapshot returns a snapshot of visa with something in every field.
func (c *check) snapshot(generation int64, size int) store.Snapshot {
	return store.Snapshot{
		Scheme: "visa", Generation: generation, Created: c.Now().UTC().Truncate(time.Millisecond),
		Size: int64(size), Note: fmt.Append(nil, "note ", generation),
	}
}

// put adds a snapshot, which must succeed.
func (c *check) put(s store.Snapshot, l store.Lease, keep int) store.Snapshot {
	c.Helper()
	content := bytes.NewReader(contentOf(s.Generation, int(s.Size)))
	if err := c.s.PutSnapshot(c.Context(), s, l, content, keep); err != nil {
		c.Fatalf("PutSnapshot of generation %d: %v", s.Generation, err)
	}
	return s
}

// wantSnapshots checks the list of a scheme, and what each holds.
func (c *check) wantSnapshots(scheme string, want ...store.Snapshot) {
	c.Helper()
	got, err := c.s.Snapshots(c.Context(), scheme)
	equal := err == nil && len(got) == len(want)
	for i := 0; equal && i < len(got); i++ {
		equal = sameSnapshot(got[i], want[i])
	}
	if !equal {
		c.Errorf("Snapshots(%q) = %+v, %v; want %+v", scheme, got, err, want)
	}
	for _, s := range want {
		c.wantContent(s, contentOf(s.Generation, int(s.Size)))
	}
}

func sameSnapshot(a, b store.Snapshot) bool {
	return a.Scheme == b.Scheme && a.Generation == b.Generation && a.Created == b.Created && a.Size == b.Size &&
		bytes.Equal(a.Note, b.Note)
}

func (c *check) wantContent(s store.Snapshot, want []byte) {
	c.Helper()
	got, err := c.content(s.Scheme, s.Generation)
	switch {
	case err != nil || len(got) != len(want):
		c.Errorf("generation %d has %d bytes of content, %v; want %d", s.Generation, len(got), err, len(want))
	case !bytes.Equal(got, want):
		c.Errorf("generation %d has other content than was put", s.Generation)
	}
}

// content reads a snapshot to its end.
func (c *check) content(scheme string, generation int64) ([]byte, error) {
	r, err := c.s.OpenSnapshot(c.Context(), scheme, generation)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(r)
	return got, errors.Join(err, r.Close())
}

func (c *check) wantNoSnapshot(scheme string, generation int64) {
	c.Helper()
	if r, err := c.s.OpenSnapshot(c.Context(), scheme, generation); !errors.Is(err, store.ErrNotFound) || r != nil {
		c.Errorf("OpenSnapshot(%q, %d) = %v, %v; want ErrNotFound", scheme, generation, r, err)
	}
}

// wantRefused checks that a PutSnapshot returns an error.
func (c *check) wantRefused(s store.Snapshot, l store.Lease, want error) {
	c.Helper()
	content := bytes.NewReader(contentOf(s.Generation, int(s.Size)))
	if err := c.s.PutSnapshot(c.Context(), s, l, content, 3); !errors.Is(err, want) {
		c.Errorf("PutSnapshot of generation %d: %v, want %v", s.Generation, err, want)
	}
}

func testSnapshot(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	c.wantSnapshots("visa")
	var want []store.Snapshot
	for i, size := range []int{0, 1, 4095, 256 << 10, 256<<10 + 1, 512<<10 - 1, large} {
		want = append([]store.Snapshot{c.put(c.snapshot(int64(i), size), l, 100)}, want...)
	}
	c.wantSnapshots("visa", want...)
	for _, scheme := range []string{"", "VISA", "mastercard"} {
		c.wantSnapshots(scheme)
		c.wantNoSnapshot(scheme, 1)
	}
	c.wantNoSnapshot("visa", 7)
	c.wantNoSnapshot("visa", -1)
	c.Pass(1000 * time.Hour)
	if n, err := c.s.Sweep(c.Context(), c.Now()); n != 0 || err != nil {
		c.Errorf("Sweep = %d, %v; want 0", n, err)
	}
	c.wantSnapshots("visa", want...)
}

func testSnapshotFields(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	s := c.snapshot(-5, 3)
	want := s
	s.Created, s.Size, s.Note = s.Created.Add(999_999).In(time.FixedZone("", 3600)), 1<<40, bytes.Clone(s.Note)
	if err := c.s.PutSnapshot(c.Context(), s, l, bytes.NewReader(contentOf(-5, 3)), 3); err != nil {
		c.Errorf("PutSnapshot: %v", err)
	}
	clear(s.Note)
	c.wantSnapshots("visa", want)
	if got, err := c.s.Snapshots(c.Context(), "visa"); err == nil && len(got) == 1 {
		clear(got[0].Note)
	}
	c.wantSnapshots("visa", want)

	odd := want
	odd.Scheme, odd.Note = "'; DROP TABLE x", nil
	c.put(odd, l, 3)
	c.wantSnapshots(odd.Scheme, odd)
	odd.Generation, odd.Note = 1<<60, make([]byte, store.MaxNote+1)
	c.wantRefused(odd, l, store.ErrTooLarge)
	odd.Note = contentOf(1, store.MaxNote)
	c.put(odd, l, 1)
	c.wantSnapshots(odd.Scheme, odd)
	c.wantSnapshots("visa", want)
}

// testSnapshotReaders puts content from readers with odd habits, and reads it byte by byte.
func testSnapshotReaders(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	data := contentOf(1, 300_000)
	for i, reader := range []io.Reader{
		iotest.OneByteReader(bytes.NewReader(data)), iotest.HalfReader(bytes.NewReader(data)),
		iotest.DataErrReader(bytes.NewReader(data)), &hesitant{r: bytes.NewReader(data)},
	} {
		s := c.snapshot(int64(i), 0)
		if err := c.s.PutSnapshot(c.Context(), s, l, reader, 10); err != nil {
			c.Errorf("PutSnapshot from %T: %v", reader, err)
		}
		c.wantContent(s, data)
	}
	r, err := c.s.OpenSnapshot(c.Context(), "visa", 0)
	if err != nil {
		c.Fatalf("OpenSnapshot: %v", err)
	}
	got, err := io.ReadAll(iotest.OneByteReader(r))
	if err != nil || !bytes.Equal(got, data) {
		c.Errorf("byte for byte there are %d, %v; want %d", len(got), err, len(data))
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF { // io.Reader says so
		c.Errorf("Read at the end = %d, %v; want EOF", n, err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			c.Errorf("Close: %v", err)
		}
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil || isContractError(err) || err == io.EOF { // as io.Reader says
		c.Errorf("Read after Close = %d, %v; want an error", n, err)
	}
}

// hesitant returns nothing every other time.
type hesitant struct {
	r     io.Reader
	pause bool
}

func (h *hesitant) Read(p []byte) (int, error) {
	if h.pause = !h.pause; h.pause {
		return 0, nil
	}
	return h.r.Read(p)
}

func testSnapshotGenerations(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	first, second := c.put(c.snapshot(5, 10), l, 3), c.put(c.snapshot(9, 20), l, 3)
	for _, generation := range []int64{9, 8, 7, 5, 4, 0, -1} {
		c.wantRefused(c.snapshot(generation, 11), l, store.ErrExists)
	}
	c.wantSnapshots("visa", second, first)
	other := c.snapshot(1, 10)
	other.Scheme = "mastercard"
	c.put(other, l, 3)
	c.wantSnapshots("mastercard", other)
	c.wantSnapshots("visa", second, first)
}

func testSnapshotKeep(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	other := c.snapshot(1, 10)
	other.Scheme = "mastercard"
	c.put(other, l, 1)
	one, two, three := c.put(c.snapshot(1, 300_000), l, 3), c.put(c.snapshot(2, 300_000), l, 3), c.put(c.snapshot(3, 300_000), l, 3)
	c.wantSnapshots("visa", three, two, one)
	four := c.put(c.snapshot(4, 300_000), l, 3)
	c.wantSnapshots("visa", four, three, two)
	c.wantNoSnapshot("visa", 1)
	six := c.put(c.snapshot(6, 1), l, 2)
	c.wantSnapshots("visa", six, four)
	for i, keep := range []int{1, 0, -1} {
		only := c.put(c.snapshot(int64(7+i), 1), l, keep)
		c.wantSnapshots("visa", only)
	}
	c.wantSnapshots("mastercard", other)
}

func testSnapshotReaderFails(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	kept := c.put(c.snapshot(1, 10), l, 1)
	for _, stop := range []error{
		errors.New("stop"), store.ErrExists, io.ErrUnexpectedEOF, fmt.Errorf("odd: %w", io.EOF), context.Canceled,
	} {
		for _, size := range []int{0, 10, large} {
			content := io.MultiReader(bytes.NewReader(contentOf(2, size)), iotest.ErrReader(stop))
			err := c.s.PutSnapshot(c.Context(), c.snapshot(2, size), l, content, 1)
			if err != stop { // the contract says: as it is
				c.Errorf("PutSnapshot: %v, want the error of the reader, %v, as it is", err, stop)
			}
			c.wantSnapshots("visa", kept)
			c.wantNoSnapshot("visa", 2)
		}
	}
	c.wantSnapshots("visa", c.put(c.snapshot(2, large), l, 1))
}

// A slow reader pauses in the middle of its content: it closes stopped, and goes on when
// goOn is closed.
type slow struct {
	content       io.Reader
	stopped, goOn chan struct{}
}

func slowReader(data []byte, at int) *slow {
	s := &slow{stopped: make(chan struct{}), goOn: make(chan struct{})}
	s.content = io.MultiReader(bytes.NewReader(data[:at]), s, bytes.NewReader(data[at:]))
	return s
}

// Read is the pause; it comes once.
func (s *slow) Read([]byte) (int, error) {
	close(s.stopped)
	<-s.goOn
	return 0, io.EOF
}

// during puts a snapshot and calls f when half of its content has been read.
func (c *check) during(ctx context.Context, s store.Snapshot, l store.Lease, keep int, f func()) error {
	c.Helper()
	return c.duringAt(ctx, s, l, keep, int(s.Size)/2, f)
}

// duringAt puts a snapshot and calls f when so much of its content has been read.
func (c *check) duringAt(ctx context.Context, s store.Snapshot, l store.Lease, keep, at int, f func()) error {
	c.Helper()
	r := slowReader(contentOf(s.Generation, int(s.Size)), at)
	ended := make(chan error, 1)
	go func() { ended <- c.s.PutSnapshot(ctx, s, l, r.content, keep) }()
	select {
	case <-r.stopped:
		func() {
			defer close(r.goOn)
			f()
		}()
	case err := <-ended:
		c.Errorf("PutSnapshot has ended before its content: %v", err)
		return err
	}
	return <-ended
}

func testSnapshotAllAtOnce(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	one := c.put(c.snapshot(1, 10), l, 1)
	two := c.snapshot(2, large)
	err := c.during(c.Context(), two, l, 1, func() {
		c.wantSnapshots("visa", one)
		c.wantNoSnapshot("visa", 2)
		c.want(c.create("t", time.Minute)) // others write and read meanwhile
		c.putState("k", "v", l)
	})
	if err != nil {
		c.Errorf("PutSnapshot: %v", err)
	}
	c.wantSnapshots("visa", two)
}

func testSnapshotFenced(c *check) {
	l := c.acquire("visa", "a", time.Second)
	one := c.put(c.snapshot(1, large), l, 3)
	c.wantRefused(c.snapshot(2, 10), store.Lease{}, store.ErrFenced)
	c.wantRefused(c.snapshot(2, 10), store.Lease{Name: "visa", Holder: "b", Token: l.Token}, store.ErrFenced)
	c.wantSnapshots("visa", one)

	// The lease is lost in the middle of the content, or at its end: then only the last
	// write can be refused.
	for i, lose := range []func(){
		func() { c.Pass(time.Second); l = c.acquire("visa", "b", time.Second) },
		func() { c.Pass(time.Second); l = c.acquire("visa", "b", time.Second) },
		func() { c.release(l) },
	} {
		for _, x := range []struct{ size, at int }{{0, 0}, {10, 5}, {large, large / 2}, {full, full}} {
			before := c.acquire("visa", l.Holder, time.Second)
			l = before
			if err := c.duringAt(c.Context(), c.snapshot(2, x.size), before, 1, x.at, lose); !errors.Is(err, store.ErrFenced) {
				c.Errorf("PutSnapshot under a lease lost (%d) after %d of %d bytes: %v, want ErrFenced", i, x.at, x.size, err)
			}
			c.wantSnapshots("visa", one)
		}
	}
	// The generation is too low as well, but the fence counts first.
	c.wantRefused(c.snapshot(1, 10), l, store.ErrFenced)

	l = c.acquire("visa", "c", time.Second)
	two := c.snapshot(2, large)
	if err := c.during(c.Context(), two, l, 3, func() { c.Pass(time.Second) }); err != nil {
		c.Errorf("PutSnapshot under a lease that is over, with none after it: %v", err)
	}
	c.Pass(1000 * time.Hour)
	three := c.put(c.snapshot(3, 10), l, 3)
	c.wantSnapshots("visa", three, two, one)
}

// testSnapshotFencedAtOnce: while an old holder goes on writing, nothing from it is added once a new holder has the
// lease, in whatever order their writes come.
func testSnapshotFencedAtOnce(c *check) {
	old := c.acquire("visa", "old", time.Second)
	c.Pass(time.Second)
	next := c.acquire("visa", "new", time.Hour)
	together(func(i int) {
		if i == 0 {
			for n := range int64(8) {
				data := contentOf(n, 1000)
				if err := c.s.PutSnapshot(c.Context(), c.snapshot(n, 1000), next, bytes.NewReader(data), 100); err != nil {
					c.Errorf("PutSnapshot: %v", err)
				}
			}
			return
		}
		s := c.snapshot(int64(1000+i), 1000)
		if err := c.s.PutSnapshot(c.Context(), s, old, bytes.NewReader(contentOf(1, 1000)), 1); !errors.Is(err, store.ErrFenced) {
			c.Errorf("PutSnapshot of the holder before: %v, want ErrFenced", err)
		}
	})
	if all, err := c.s.Snapshots(c.Context(), "visa"); err != nil || len(all) != 8 || all[0].Generation != 7 {
		c.Errorf("Snapshots = %+v, %v; want 8 of the new holder", all, err)
	}
}

func testSnapshotNextTakesOver(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	err := c.during(c.Context(), c.snapshot(1, large), l, 3, func() {
		c.wantRefused(c.snapshot(2, 10), store.Lease{}, store.ErrFenced) // does not count
		other := c.snapshot(2, 10)
		other.Scheme = "mastercard"
		c.put(other, l, 3)
	})
	if err != nil {
		c.Errorf("PutSnapshot: %v", err)
	}
	for i, x := range []struct{ size, at int }{{10, 5}, {large, large / 2}, {full, full}} {
		generation := int64(3 + i)
		var next store.Snapshot
		err = c.duringAt(c.Context(), c.snapshot(100, x.size), l, 3, x.at, func() {
			c.wantRefused(c.snapshot(1, 10), l, store.ErrExists) // does not count
			next = c.put(c.snapshot(generation, large), l, 1)
		})
		if !errors.Is(err, store.ErrFenced) {
			c.Errorf("PutSnapshot, %d of %d bytes read when another began: %v, want ErrFenced", x.at, x.size, err)
		}
		c.wantSnapshots("visa", next)
	}
}

func testSnapshotAtOnce(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	content := func(i int) []byte { return contentOf(int64(i), 1000+i) }
	winner := c.oneWins("PutSnapshot", func(i int) error {
		return c.s.PutSnapshot(c.Context(), c.snapshot(7, 0), l, bytes.NewReader(content(i)), 3)
	}, store.ErrExists, store.ErrFenced)
	c.wantContent(c.snapshot(7, 0), content(winner))
}

func testSnapshotContextEnds(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	one := c.put(c.snapshot(1, large), l, 1)
	ctx, cancel := context.WithCancel(c.Context())
	if err := c.during(ctx, c.snapshot(2, large), l, 1, cancel); !errors.Is(err, context.Canceled) {
		c.Errorf("PutSnapshot whose context ends: %v, want context.Canceled", err)
	}
	c.wantSnapshots("visa", one)

	ctx, cancel = context.WithCancel(c.Context())
	defer cancel()
	r, err := c.s.OpenSnapshot(ctx, "visa", 1)
	if err != nil {
		c.Fatalf("OpenSnapshot: %v", err)
	}
	defer r.Close() // tested elsewhere
	if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
		c.Errorf("Read: %v", err)
	}
	cancel()
	if got, err := io.ReadAll(r); !errors.Is(err, context.Canceled) || len(got) >= large-1000 {
		c.Errorf("%d bytes read after the context ended, %v; want context.Canceled before the end", len(got), err)
	}
	ctx, cancel = context.WithCancel(c.Context())
	if err := c.duringAt(ctx, c.snapshot(2, full), l, 1, full, cancel); !errors.Is(err, context.Canceled) {
		c.Errorf("PutSnapshot whose context ends with the content: %v, want context.Canceled", err)
	}
	c.wantSnapshots("visa", c.put(c.snapshot(2, large), l, 1))
}

// testSnapshotReplaced reads snapshots while they are replaced by others: what is
// read to its end is one of them, whole.
func testSnapshotReplaced(c *check) {
	const last, size = 8, 300_000
	l := c.acquire("visa", "a", time.Minute)
	c.put(c.snapshot(0, size), l, 1)
	held, err := c.s.OpenSnapshot(c.Context(), "visa", 0)
	if err != nil {
		c.Fatalf("OpenSnapshot: %v", err)
	}
	defer held.Close() // tested elsewhere
	begin := make([]byte, 1000)
	if _, err := io.ReadFull(held, begin); err != nil {
		c.Errorf("Read: %v", err)
	}
	var done atomic.Bool
	together(func(i int) {
		if i == 0 {
			defer done.Store(true)
			for n := int64(1); n <= last; n++ {
				err := c.s.PutSnapshot(c.Context(), c.snapshot(n, size), l, bytes.NewReader(contentOf(n, size)), 1)
				if err != nil {
					c.Errorf("PutSnapshot: %v", err)
				}
			}
			return
		}
		for rounds := 0; rounds < 3 && (rounds == 0 || !done.Load()); rounds++ {
			all, err := c.s.Snapshots(c.Context(), "visa")
			if err != nil || len(all) != 1 {
				c.Errorf("Snapshots = %+v, %v; want one", all, err)
				return
			}
			g := all[0].Generation
			got, err := c.content("visa", g)
			if err != nil && !errors.Is(err, store.ErrNotFound) || err == nil && !bytes.Equal(got, contentOf(g, size)) {
				c.Errorf("generation %d, while it is replaced, has %d bytes, %v; want its %d, or ErrNotFound", g, len(got), err, size)
			}
		}
	})
	rest, err := io.ReadAll(held)
	if got := append(begin, rest...); err != nil && !errors.Is(err, store.ErrNotFound) || err == nil && !bytes.Equal(got, contentOf(0, size)) {
		c.Errorf("a snapshot that was open while it was replaced has %d bytes, %v; want its %d, or ErrNotFound", len(got), err, size)
	}
	c.wantSnapshots("visa", c.snapshot(last, size))
}

// testSnapshotClosed: the reader of a snapshot fails when the store is closed.
func testSnapshotClosed(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	c.put(c.snapshot(1, large), l, 1)
	r, err := c.s.OpenSnapshot(c.Context(), "visa", 1)
	if err != nil {
		c.Fatalf("OpenSnapshot: %v", err)
	}
	if err := c.s.Close(); err != nil {
		c.Errorf("Close: %v", err)
	}
	if got, err := io.ReadAll(r); err == nil || isContractError(err) || len(got) == large {
		c.Errorf("%d bytes read from a closed store, %v; want an error that the contract does not name", len(got), err)
	}
	if err := r.Close(); err != nil {
		c.Errorf("Close of the reader: %v", err)
	}
}

// testSnapshotCloseWaits: Close waits for a PutSnapshot that has begun.
func testSnapshotCloseWaits(c *check) {
	l := c.acquire("visa", "a", time.Minute)
	one := c.snapshot(1, large)
	closed := make(chan error, 1)
	err := c.during(c.Context(), one, l, 1, func() {
		go func() { closed <- c.s.Close() }()
		for range 1000 {
			runtime.Gosched() // nothing tells that Close has begun to wait
		}
		select {
		case err := <-closed:
			c.Errorf("Close = %v before PutSnapshot has ended", err)
			closed <- err
		default:
		}
	})
	if err != nil {
		c.Errorf("PutSnapshot, while Close waits for it: %v", err)
	}
	if err := <-closed; err != nil {
		c.Errorf("Close: %v", err)
	}
	if c.Reopen != nil {
		c.s = c.Reopen(c, c.s)
		c.wantSnapshots("visa", one)
	}
}

func testReopenRanges(c *check) {
	if c.Reopen == nil {
		c.Skip("this store keeps nothing: what survives a restart was not tested")
	}
	l := c.acquire("visa", "a", time.Minute)
	gone := c.acquire("gone", "a", time.Minute)
	c.release(gone)
	c.put(c.snapshot(1, 10), l, 2)
	two, three := c.put(c.snapshot(2, large), l, 2), c.put(c.snapshot(3, 20), l, 2)
	stop := errors.New("stop")
	broken := io.MultiReader(bytes.NewReader(contentOf(4, large)), iotest.ErrReader(stop))
	if err := c.s.PutSnapshot(c.Context(), c.snapshot(4, large), l, broken, 2); err != stop { // as it is
		c.Errorf("PutSnapshot: %v, want the error of the reader", err)
	}
	c.putState("k", "one", l)
	c.putState("k", strings.Repeat("two", 1000), l)
	for range 2 {
		c.s = c.Reopen(c, c.s)
		c.wantSnapshots("visa", three, two)
		c.wantNoSnapshot("visa", 1)
		c.wantNoSnapshot("visa", 4)
		c.wantState("k", strings.Repeat("two", 1000))
		c.wantHeld("visa", "b")
		c.wantGood(l)
		c.wantFenced(gone)
		if got := c.acquire("visa", "a", time.Minute); got.Token != l.Token {
			c.Errorf("token is %d after reopening, want the same as before, %d", got.Token, l.Token)
		}
	}
	if next := c.acquire("gone", "a", time.Minute); next.Token <= gone.Token {
		c.Errorf("token is %d, want more than before reopening, %d", next.Token, gone.Token)
	}
	c.wantRefused(c.snapshot(3, 10), l, store.ErrExists)
	c.wantSnapshots("visa", c.put(c.snapshot(4, 10), l, 2), three)
}

// testShareSnapshots: what one open handle of the store puts, the other sees. A new holder on one side fences the old
// holder on the other side in the middle of its content.
func testShareSnapshots(c *check) {
	other := c.shared()
	defer other.s.Close() // the data is no longer needed
	l := c.acquire("visa", "a", time.Second)
	one := c.put(c.snapshot(1, large), l, 2)
	other.wantSnapshots("visa", one)
	two := other.snapshot(2, large)
	err := c.during(c.Context(), two, l, 2, func() {
		other.wantSnapshots("visa", one)
		// A third process opens the store meanwhile, and must not take this upload for one of a crashed process.
		third := c.shared()
		third.wantSnapshots("visa", one)
		if err := third.s.Close(); err != nil {
			c.Errorf("Close: %v", err)
		}
	})
	if err != nil {
		c.Errorf("PutSnapshot: %v", err)
	}
	other.wantSnapshots("visa", two, one)
	var three store.Snapshot
	err = c.during(c.Context(), c.snapshot(4, large), l, 2, func() {
		c.Pass(time.Second)
		three = other.put(other.snapshot(3, large), other.acquire("visa", "b", time.Second), 2)
	})
	if !errors.Is(err, store.ErrFenced) {
		c.Errorf("PutSnapshot of the holder before: %v, want ErrFenced", err)
	}
	c.wantSnapshots("visa", three, two)
	other.wantSnapshots("visa", three, two)
}
