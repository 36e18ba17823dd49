package directory

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
	"github.com/openthreeds/threeds/message"
)

// A node is a refresher of a process of its own, and what it has loaded.
type node struct {
	*refresher
	cards *ranges.Schemes
}

// A shared is a directory server, a store, and the nodes that use both.
type shared struct {
	t      *testing.T
	ds     *ds
	peer   Peer
	keeper *storetest.Memory
	says   func(w http.ResponseWriter, preq *message.Message)
}

// saysFile has PReqs answered with the address of a card range file.
func (s *shared) saysFile(url string) {
	s.says = func(w http.ResponseWriter, preq *message.Message) {
		fmt.Fprintf(w,
			`{"messageType":"PRes","messageVersion":"2.3.1","threeDSServerTransID":%q,"dsTransID":%q,"readOrder":"01","dsProtocolVersions":["2.2.0"],"cardRangeDataFileURL":%q}`,
			preq.Text("threeDSServerTransID"), dsID, url)
	}
}

// A fileHost has a card range file for anybody.
type fileHost struct {
	pool *x509.CertPool // whom to trust
	url  string
}

func newFileHost(t *testing.T, serves http.HandlerFunc) fileHost {
	t.Helper()
	ca := newAuthority(t)
	anybody := ca.server()
	anybody.ClientAuth = tls.NoClientCert
	return fileHost{ca.pool, serve(t, anybody, serves) + "/file"}
}

// fetch starts a process that makes one PReq, which is answered with the address of the file.
func (s *shared) fetch(host fileHost) *node {
	s.t.Helper()
	s.saysFile(host.url)
	a := s.start()
	a.peer.files.TLSClientConfig.RootCAs = host.pool
	a.refresh(s.t.Context())
	return a
}

func newShared(t *testing.T, change func(*Peer)) *shared {
	t.Helper()
	s := &shared{t: t, keeper: storetest.NewMemory(time.Now)}
	s.says = func(w http.ResponseWriter, preq *message.Message) { io.WriteString(w, pres(preq, entry)) }
	ca := newAuthority(t)
	s.ds = &ds{erros: make(chan string, 10), answer: func(w http.ResponseWriter, preq *message.Message) { s.says(w, preq) }}
	s.peer = peerAt("visa", serve(t, ca.server(), s.ds.ServeHTTP), ca.client())
	if change != nil {
		change(&s.peer)
	}
	return s
}

// start is a process that has just started.
func (s *shared) start() *node {
	s.t.Helper()
	c, cards := newClient(s.t, Hooks{}, s.peer)
	c.keeper = s.keeper
	r := newRefresher(c, c.peers["visa"])
	r.pollStore(s.t.Context())
	return &node{r, cards}
}

// due lets the time until the next PReq pass, for all nodes.
func (s *shared) due() {
	s.t.Helper()
	s.change(func(now *RefreshStatus) { now.Next, now.Asked, now.Earliest = time.Time{}, time.Time{}, time.Time{} })
}

func (s *shared) refreshStatus() RefreshStatus {
	s.t.Helper()
	now, err := ReadRefreshStatus(s.t.Context(), s.keeper, "visa")
	if err != nil {
		s.t.Fatal(err)
	}
	return now
}

func (s *shared) change(f func(*RefreshStatus)) {
	s.t.Helper()
	c, _ := newClient(s.t, Hooks{}, s.peer)
	c.keeper = s.keeper
	r := newRefresher(c, c.peers["visa"])
	lease, err := s.keeper.Acquire(s.t.Context(), statusKey("visa"), "test", time.Minute)
	if err != nil {
		s.t.Fatal(err)
	}
	r.lease, r.status = lease, s.refreshStatus()
	f(&r.status)
	if !r.saveStatus(s.t.Context()) {
		s.t.Fatal("refresh status not saved")
	}
	r.releaseLease(s.t.Context())
}

func (s *shared) putRequest(w RefreshRequest) {
	s.t.Helper()
	w.At = time.Now()
	if err := PutRefreshRequest(s.t.Context(), s.keeper, "visa", "operator", w); err != nil {
		s.t.Fatal(err)
	}
}

// TestPR32Restart: the ranges outlive the process while the directory server is
// gone, and so does the floor between PReqs (PR-32).
func TestPR32Restart(t *testing.T) {
	s := newShared(t, nil)
	a := s.start()
	a.refresh(t.Context())
	if a.cards.Lookup(card) == nil || len(s.ds.preqs) != 1 {
		t.Fatalf("%d PReqs, ranges there: %t", len(s.ds.preqs), a.cards.Lookup(card) != nil)
	}
	s.says = func(w http.ResponseWriter, _ *message.Message) { w.WriteHeader(http.StatusServiceUnavailable) }
	b := s.start()
	if b.cards.Lookup(card) == nil || !b.cards.AnyTried() {
		t.Error("the ranges are gone with the process")
	}
	if wait := time.Until(b.status.Next); wait < 3*time.Hour {
		t.Errorf("after the restart the next PReq may leave in %v, want about 4 h", wait)
	}
	b.refresh(t.Context())
	if len(s.ds.preqs) != 1 {
		t.Error("asked again before it was time")
	}
}

// TestRestartAfterFault: a directory server that gave no ranges is not asked again
// by a process that starts before it is time, which knows as much as the one before.
func TestRestartAfterFault(t *testing.T) {
	s := newShared(t, nil)
	s.says = func(w http.ResponseWriter, _ *message.Message) { w.WriteHeader(http.StatusNotFound) }
	if s.start().cards.AnyTried() {
		t.Error("tried, though nobody has asked yet")
	}
	a := s.start()
	a.refresh(t.Context())
	b := s.start()
	if wait := time.Until(b.status.Next); wait < 50*time.Minute || !b.cards.AnyTried() {
		t.Errorf("the next PReq may leave in %v, and no directory counts as asked", wait)
	}
	for _, step := range []struct {
		name   string
		change func(*RefreshStatus)
	}{
		{"asked again, with no answer yet", func(now *RefreshStatus) { now.Asked = now.FaultAt.Add(time.Millisecond) }},
		{"about to ask", func(now *RefreshStatus) { now.Asked, now.Next = time.Time{}, time.Now() }},
		{"about to ask another address", func(now *RefreshStatus) { now.Next, now.To = time.Now().Add(time.Hour), "https://old.example" }},
	} {
		s.change(step.change)
		if s.start().cards.AnyTried() {
			t.Errorf("%s: tried", step.name)
		}
	}
}

// TestShorterInterval: a configuration with a shorter interval need not wait for the
// end of the former one; the protocol's floor holds all the same, unless there is
// another.
func TestShorterInterval(t *testing.T) {
	s := newShared(t, func(p *Peer) { p.Refresh = 20 * time.Hour })
	s.start().refresh(t.Context())
	for _, step := range []struct {
		name           string
		refresh, least time.Duration
		want, atMost   time.Duration // until the next PReq
		earliest       time.Duration // until an operator's request for a refresh is granted
	}{
		{"as it was", 20 * time.Hour, 0, 18 * time.Hour, 22 * time.Hour, time.Hour},
		{"longer", 24 * time.Hour, 0, 18 * time.Hour, 22 * time.Hour, time.Hour},
		{"shorter", 2 * time.Hour, 0, 2 * time.Hour, 132 * time.Minute, time.Hour},
		{"under the floor", time.Minute, 0, 59 * time.Minute, time.Hour, time.Hour},
		{"another floor", 10 * time.Minute, time.Minute, 10 * time.Minute, 11 * time.Minute, time.Minute},
	} {
		s.peer.Refresh, s.peer.MinRefresh = step.refresh, step.least
		n := s.start()
		if wait := time.Until(n.status.Next); wait < step.want-time.Minute || wait > step.atMost {
			t.Errorf("%s: the next PReq leaves in %v, want %v to %v", step.name, wait, step.want, step.atMost)
		}
		if wait := time.Until(n.status.Earliest); wait < step.earliest-time.Minute || wait > step.earliest {
			t.Errorf("%s: a request is granted in %v, want %v", step.name, wait, step.earliest)
		}
	}
	s.change(func(now *RefreshStatus) { now.Asked = now.Asked.Add(-12 * time.Minute) })
	s.start().refresh(t.Context())
	if len(s.ds.preqs) != 2 {
		t.Errorf("%d PReqs, want another by the shorter interval", len(s.ds.preqs))
	}
}

// TestPR32NoFullLoadAfterRestart: a complete set of 2.3.1 is not asked for within
// 12 hours of the last, in however many processes.
func TestPR32NoFullLoadAfterRestart(t *testing.T) {
	s := newShared(t, func(p *Peer) { p.Versions, p.Refresh = message.Versions(), time.Minute })
	s.says = func(w http.ResponseWriter, preq *message.Message) {
		fmt.Fprintf(w, `{"messageType":"PRes","messageVersion":"2.3.1","threeDSServerTransID":%q,"dsTransID":%q,"readOrder":"01","dsProtocolVersions":["2.2.0"],`+
			`"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000000999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]}`,
			preq.Text("threeDSServerTransID"), dsID)
	}
	s.start().refresh(t.Context())
	for range 3 {
		b := s.start()
		wait := time.Until(b.status.Next)
		b.refresh(t.Context()) // though it is not due
		if wait < 12*time.Hour-time.Minute || b.cards.Lookup(card) == nil {
			t.Errorf("after a restart the next PReq may leave in %v, want 12 h", wait)
		}
	}
	if len(s.ds.preqs) != 1 {
		t.Errorf("%d PReqs, want one", len(s.ds.preqs))
	}
}

// TestEndedBeforeStanding: the process ended after it had stored the first
// generation and before it could note that: the ranges are used all the same.
func TestEndedBeforeStanding(t *testing.T) {
	s := newShared(t, nil)
	s.start().refresh(t.Context())
	s.change(func(now *RefreshStatus) { *now = RefreshStatus{Asked: now.Asked} })
	if s.start().cards.Lookup(card) == nil {
		t.Error("what was stored is not found")
	}
}

// TestOneNodeAsks: of several nodes one asks, the others take over what it
// loaded.
func TestOneNodeAsks(t *testing.T) {
	s := newShared(t, nil)
	a, b := s.start(), s.start()
	s.says = func(w http.ResponseWriter, preq *message.Message) {
		b.refresh(t.Context()) // while a is at work
		io.WriteString(w, pres(preq, entry))
	}
	a.refresh(t.Context())
	b.status.Next = time.Time{} // b may think that it is time
	b.refresh(t.Context())
	if len(s.ds.preqs) != 1 {
		t.Fatalf("%d PReqs, want one", len(s.ds.preqs))
	}
	if b.cards.Lookup(card) != nil {
		t.Error("loaded before a look")
	}
	if b.pollStore(t.Context()); b.cards.Lookup(card) == nil || b.storedGeneration != a.storedGeneration {
		t.Error("the other node's ranges were not taken over")
	}
}

// TestFencedNode: a node that lost its lease while it was asking keeps what it
// loaded to itself.
func TestFencedNode(t *testing.T) {
	s := newShared(t, nil)
	a := s.start()
	s.says = func(w http.ResponseWriter, preq *message.Message) {
		if err := s.keeper.Release(t.Context(), a.lease); err != nil { // as if its time had run out
			t.Error(err)
		}
		if _, err := s.keeper.Acquire(t.Context(), statusKey("visa"), "other", time.Minute); err != nil {
			t.Error(err)
		}
		io.WriteString(w, pres(preq, entry))
	}
	a.refresh(t.Context())
	if all, err := s.keeper.Snapshots(t.Context(), "visa"); err != nil || len(all) != 0 {
		t.Errorf("a node without the lease stored %d generations, %v", len(all), err)
	}
}

// many is n ranges in one PRes.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"startRange":"40%06d00000000","endRange":"40%06d99999999","acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0"}`, i, i)
	}
	return b.String()
}

// TestShrinking: a set of less than half of the ranges waits for an operator;
// exactly half does not.
func TestShrinking(t *testing.T) {
	s := newShared(t, nil)
	n := 0
	s.says = func(w http.ResponseWriter, preq *message.Message) { io.WriteString(w, pres(preq, many(n))) }
	a := s.start()
	in := func(count int) int {
		t.Helper()
		n = count
		s.due()
		a.pollStore(t.Context())
		a.refresh(t.Context())
		return a.cards.Table("visa").Len()
	}
	for _, few := range []struct{ before, after, want int }{{3, 1, 3}, {3, 2, 2}, {5, 2, 5}, {5, 3, 3}} {
		a.cards.Put("visa", nil)
		if in(few.before); in(few.after) != few.want {
			t.Errorf("%d ranges after %d: %d in use, want %d", few.after, few.before, a.cards.Table("visa").Len(), few.want)
		}
	}
	a.cards.Put("visa", nil)
	if got := in(20); got != 20 {
		t.Fatalf("%d ranges, want 20", got)
	}
	if got := in(10); got != 10 {
		t.Errorf("half of the ranges: %d in use, want 10", got)
	}
	if got := in(4); got != 10 {
		t.Errorf("less than half: %d in use, want the 10 as before", got)
	}
	held := s.refreshStatus()
	if held.Held == 0 || held.HeldRanges != 4 || held.Fault == "" {
		t.Fatalf("nothing is held: %+v", held)
	}
	var told []bool
	a.hooks.Held = func(_ string, is bool) { told = append(told, is) }
	a.pollStore(t.Context())
	s.putRequest(RefreshRequest{Accept: held.Held + 1})
	if a.pollStore(t.Context()); a.cards.Table("visa").Len() != 10 {
		t.Error("another number was accepted")
	}
	s.putRequest(RefreshRequest{Accept: held.Held})
	s.putRequest(RefreshRequest{Refresh: true}) // does not make the other forgotten
	b := s.start()                              // the node that looks first does it
	if got := b.cards.Table("visa").Len(); got != 4 {
		t.Errorf("after accepting: %d ranges, want 4", got)
	}
	if a.pollStore(t.Context()); a.cards.Table("visa").Len() != 4 || s.refreshStatus().Held != 0 {
		t.Errorf("the other node has %d ranges, held %d", a.cards.Table("visa").Len(), s.refreshStatus().Held)
	}
	if want := []bool{true, true, false}; !slices.Equal(told, want) { // the second with another number's wish
		t.Errorf("the hook is told %v, want %v", told, want)
	}
	if got := s.refreshStatus().From; got != s.peer.PReqURL {
		t.Errorf("after accepting: ranges from %q", got)
	}
}

// TestShrinkingToNothing: an update that deletes the only range waits, too.
func TestShrinkingToNothing(t *testing.T) {
	s := newShared(t, nil)
	a := s.start()
	for serial, entries := range []string{entry, `{"actionInd":"D",` + entry[1:]} {
		s.says = func(w http.ResponseWriter, preq *message.Message) {
			text := pres(preq, entries)
			fmt.Fprintf(w, `%s,"serialNum":"%d"}`, text[:len(text)-1], serial)
		}
		s.due()
		a.pollStore(t.Context())
		a.refresh(t.Context())
	}
	if a.cards.Lookup(card) == nil || s.refreshStatus().Held == 0 {
		t.Errorf("ranges there: %t, held: %d", a.cards.Lookup(card) != nil, s.refreshStatus().Held)
	}
}

// TestAcceptAgain: a store that has no time when a held generation is accepted does not
// make the operator's word forgotten. A damaged one is no use for ever.
func TestAcceptAgain(t *testing.T) {
	s := newShared(t, nil)
	n := 20
	s.says = func(w http.ResponseWriter, preq *message.Message) { io.WriteString(w, pres(preq, many(n))) }
	a := s.start()
	hold := func(count int) {
		t.Helper()
		n = count
		s.due()
		a.pollStore(t.Context())
		a.refresh(t.Context())
	}
	hold(20)
	hold(4)
	k := &closedKeeper{Memory: s.keeper, fails: 1}
	a.keeper = k
	s.putRequest(RefreshRequest{Accept: s.refreshStatus().Held})
	if a.pollStore(t.Context()); a.cards.Table("visa").Len() != 20 {
		t.Fatal("accepted what could not be read")
	}
	if a.pollStore(t.Context()); a.cards.Table("visa").Len() != 4 || s.refreshStatus().Held != 0 {
		t.Errorf("%d ranges, held %d: the wish is forgotten", a.cards.Table("visa").Len(), s.refreshStatus().Held)
	}
	hold(1)
	k.damaged = true
	s.putRequest(RefreshRequest{Accept: s.refreshStatus().Held})
	for range 3 {
		a.pollStore(t.Context())
	}
	if now := s.refreshStatus(); k.opened != 3 || now.Held == 0 || now.Fault == "" || a.cards.Table("visa").Len() != 4 {
		t.Errorf("a damaged one was opened %d times, want once: %+v", k.opened-2, now)
	}
}

// A closedKeeper opens nothing for some time, or what is damaged.
type closedKeeper struct {
	*storetest.Memory
	fails, opened int
	damaged       bool
}

func (k *closedKeeper) OpenSnapshot(ctx context.Context, scheme string, number int64) (io.ReadCloser, error) {
	k.opened++
	if k.fails--; k.fails >= 0 {
		return nil, errors.New("too many clients")
	}
	if k.damaged {
		return io.NopCloser(strings.NewReader("3dsranges")), nil
	}
	return k.Memory.OpenSnapshot(ctx, scheme, number)
}

// TestCorruptGeneration: what is damaged in the store is not used; the one
// before it is.
func TestCorruptGeneration(t *testing.T) {
	s := newShared(t, nil)
	a := s.start()
	a.refresh(t.Context())
	lease, err := s.keeper.Acquire(t.Context(), "test", "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.keeper.Snapshots(t.Context(), "visa")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d generations, %v", len(all), err)
	}
	r, err := s.keeper.OpenSnapshot(t.Context(), "visa", all[0].Generation)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	bad := all[0]
	bad.Generation++
	if err := s.keeper.PutSnapshot(t.Context(), bad, lease, bytes.NewReader(data), 3); err != nil {
		t.Fatal(err)
	}
	s.change(func(now *RefreshStatus) { now.Generation = bad.Generation })
	if b := s.start(); b.cards.Lookup(card) == nil || b.storedGeneration != all[0].Generation {
		t.Errorf("generation %d is in use, want the whole one, %d", b.storedGeneration, all[0].Generation)
	}
	k := &openKeeper{Memory: s.keeper}
	for _, n := range []int64{all[0].Generation, bad.Generation} {
		if _, err := OpenGeneration(t.Context(), k, "visa", n); (err == nil) != (n == all[0].Generation) || k.open > 0 {
			t.Errorf("generation %d: %v, %d readers left open", n, err, k.open)
		}
	}
}

// An openKeeper counts the snapshots that are open.
type openKeeper struct {
	*storetest.Memory
	open int
}

type openSnapshot struct {
	io.ReadCloser
	keeper *openKeeper
}

func (s openSnapshot) Close() error {
	s.keeper.open--
	return s.ReadCloser.Close()
}

func (k *openKeeper) OpenSnapshot(ctx context.Context, scheme string, number int64) (io.ReadCloser, error) {
	r, err := k.Memory.OpenSnapshot(ctx, scheme, number)
	k.open++
	return openSnapshot{r, k}, err
}

// A flakyKeeper cannot be read the first times.
type flakyKeeper struct {
	*storetest.Memory
	fails int
}

func (k *flakyKeeper) State(ctx context.Context, key string) ([]byte, error) {
	if k.fails--; k.fails >= 0 {
		return nil, errors.New("too many clients")
	}
	return k.Memory.State(ctx, key)
}

// TestResumeAgain: a store that has no time at first does not make a node begin
// without the ranges that it has; one that stays away does not keep it from
// beginning.
func TestResumeAgain(t *testing.T) {
	s := newShared(t, nil)
	s.start().refresh(t.Context())
	for fails, want := range map[int]bool{0: true, resumeAttempts - 1: true, resumeAttempts: false, 100: false} {
		synctest.Test(t, func(t *testing.T) {
			c, cards := newClient(t, Hooks{}, s.peer)
			c.keeper = &flakyKeeper{s.keeper, fails}
			c.Resume(t.Context())
			if got := cards.Lookup(card) != nil; got != want {
				t.Errorf("after %d failures the ranges are there: %t, want %t", fails, got, want)
			}
		})
	}
}

// TestHold: a node that another keeps from the lease, or that cannot read what the last
// holder left, asks nobody and looks again after a while; else it goes on from there.
func TestHold(t *testing.T) {
	s := newShared(t, nil)
	n := s.start()
	later := func(why string) {
		t.Helper()
		n.status.Next = time.Time{}
		n.refresh(t.Context())
		if wait := time.Until(n.status.Next); len(s.ds.preqs) > 0 || wait < pollInterval/2 {
			t.Errorf("%s: %d PReqs, and the next look in %v", why, len(s.ds.preqs), wait)
		}
	}
	take := func() store.Lease {
		t.Helper()
		lease, err := s.keeper.Acquire(t.Context(), statusKey("visa"), "another", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	lease := take()
	later("another node has the lease")
	if err := s.keeper.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	n.keeper = &flakyKeeper{s.keeper, 1}
	later("the store cannot be read")
	if err := s.keeper.Release(t.Context(), take()); err != nil {
		t.Fatal(err)
	}
	heard := time.Now().UTC()
	s.change(func(now *RefreshStatus) { now.Seen = heard })
	n.refresh(t.Context())
	if now := s.refreshStatus(); len(s.ds.preqs) != 1 || now.Generation != 1 || !now.Seen.Equal(heard) {
		t.Errorf("%d PReqs, and then it stands so: %+v", len(s.ds.preqs), now)
	}
}

// TestWishToRefresh: an operator may ask for a refresh, but not below the floor.
func TestWishToRefresh(t *testing.T) {
	s := newShared(t, nil)
	a := s.start()
	a.refresh(t.Context())
	s.putRequest(RefreshRequest{Refresh: true})
	a.pollStore(t.Context())
	if wait := time.Until(a.status.Next); wait < 59*time.Minute || wait > time.Hour {
		t.Errorf("the next PReq may leave in %v, want the floor of an hour after the last", wait)
	}
	s.change(func(now *RefreshStatus) { now.Earliest = now.Earliest.Add(-2 * time.Hour) })
	if err := PutRefreshRequest(t.Context(), s.keeper, "amex", "operator", RefreshRequest{At: time.Now(), Refresh: true}); err != nil {
		t.Fatal(err)
	}
	if a.pollStore(t.Context()); time.Until(a.status.Next) < 59*time.Minute {
		t.Error("what was wished of another scheme is done")
	}
	s.putRequest(RefreshRequest{Refresh: true})
	if a.pollStore(t.Context()); time.Until(a.status.Next) > 0 {
		t.Error("it is not time after the floor")
	}
}

// TestTwoWishes: of two commands at once, or of two machines whose clocks differ, neither
// is forgotten, whichever comes to the store last.
func TestTwoWishes(t *testing.T) {
	s := newShared(t, nil)
	a := s.start()
	now := time.Now()
	wish := func(at time.Time, w RefreshRequest) {
		t.Helper()
		w.At = at
		if err := PutRefreshRequest(t.Context(), s.keeper, "visa", "operator", w); err != nil {
			t.Fatal(err)
		}
	}
	asks := func() {
		s.change(func(now *RefreshStatus) { now.Next, now.Earliest = time.Now().Add(time.Hour), time.Time{} })
	}
	unseen := func(when string, want RefreshRequest) {
		t.Helper()
		got, err := ReadRefreshRequest(t.Context(), s.keeper, "visa", a.status)
		if got.At.IsZero() == want.At.IsZero() {
			got.At = want.At
		}
		if err != nil || got != want {
			t.Errorf("%s: nobody has seen %+v (%v), want %+v", when, got, err, want)
		}
	}
	asks()
	unseen("before", RefreshRequest{})
	wish(now.Add(time.Minute), RefreshRequest{Accept: 7})
	unseen("wished", RefreshRequest{At: now, Accept: 7})
	a.pollStore(t.Context())
	unseen("heard", RefreshRequest{})
	wish(now, RefreshRequest{Refresh: true})
	if a.pollStore(t.Context()); time.Until(a.status.Next) > 0 {
		t.Error("a request that came after another was read is forgotten")
	}
	asks()
	wish(now.Add(time.Hour), RefreshRequest{Accept: 7})
	a.keeper = &busyKeeper{s.keeper, func() { wish(now, RefreshRequest{Refresh: true}) }}
	a.pollStore(t.Context())
	if a.pollStore(t.Context()); time.Until(a.status.Next) > 0 {
		t.Error("a request that came while another was read is forgotten")
	}
}

// A busyKeeper lets something happen before a lease is taken for the first time.
type busyKeeper struct {
	*storetest.Memory
	before func()
}

func (k *busyKeeper) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	if k.before != nil {
		k.before()
		k.before = nil
	}
	return k.Memory.Acquire(ctx, name, holder, ttl)
}

// TestPR15PR23ForAllNodes: what a PRes without ranges says is known to all nodes, and
// to the next process: that the ranges still hold, and which versions and addresses the
// directory server has.
func TestPR15PR23ForAllNodes(t *testing.T) {
	s := newShared(t, func(p *Peer) { p.Versions = message.Versions() })
	says := func(more string) func(http.ResponseWriter, *message.Message) {
		return func(w http.ResponseWriter, preq *message.Message) {
			fmt.Fprintf(w, `{"messageType":"PRes","messageVersion":"2.3.1","threeDSServerTransID":%q,"dsTransID":%q,"readOrder":"01","serialNum":"1",%s}`,
				preq.Text("threeDSServerTransID"), dsID, more)
		}
	}
	s.says = says(
		`"dsProtocolVersions":["2.2.0"],"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000000999999999"}],"acsProtocolVersions":[{"version":"2.2.0"}]}]`)
	a, b := s.start(), s.start()
	a.refresh(t.Context())
	b.pollStore(t.Context())
	for _, step := range []struct {
		name, more, url string
		versions        []string
		kept            int
	}{
		{"nothing new", `"dsProtocolVersions":["2.2.0"]`, "", []string{"2.2.0"}, 1},
		{"an address", `"dsProtocolVersions":["2.2.0"],"dsUrlList":[{"threeDSServerToDsUrl":"https://ds.example/"}]`, "https://ds.example/", []string{"2.2.0"}, 2},
		{"a version", `"dsProtocolVersions":["2.2.0","2.3.1"],"dsUrlList":[{"threeDSServerToDsUrl":"https://ds.example/"}]`,
			"https://ds.example/", []string{"2.2.0", "2.3.1"}, 3},
		{"both as at first", `"dsProtocolVersions":["2.2.0"]`, "", []string{"2.2.0"}, 3},
	} {
		s.says = says(step.more)
		s.due()
		a.pollStore(t.Context())
		a.refresh(t.Context())
		b.pollStore(t.Context())
		for name, n := range map[string]*node{"the node that asked": a, "another": b, "the next process": s.start()} {
			g := n.cards.Generation("visa")
			hits := n.cards.Lookup(card)
			if len(hits) == 0 || !slices.Equal(hits[0].Info.DSVersions, step.versions) || !slices.Equal(g.DS.Versions, step.versions) {
				t.Errorf("%s: %s: %+v of %+v", step.name, name, hits, g)
				continue
			}
			if urls := strings.Join(g.URLs(""), " "); urls != step.url {
				t.Errorf("%s: %s: addresses %q, want %q", step.name, name, urls, step.url)
			}
			if !g.Loaded.Equal(s.refreshStatus().Loaded) || g.Serial != "1" {
				t.Errorf("%s: %s: loaded %v, want %v; serial number %q", step.name, name, g.Loaded, s.refreshStatus().Loaded, g.Serial)
			}
		}
		if all, err := s.keeper.Snapshots(t.Context(), "visa"); err != nil || len(all) != step.kept {
			t.Errorf("%s: %d generations in the store, want %d; %v", step.name, len(all), step.kept, err)
		}
	}
}

// TestWishAfterDeath: the node that asked ended before there was an answer. An
// operator's wish does not make another one ask before the floor.
func TestWishAfterDeath(t *testing.T) {
	s := newShared(t, nil)
	s.start().refresh(t.Context())
	s.due()
	ctx, kill := context.WithCancel(t.Context())
	s.says = func(http.ResponseWriter, *message.Message) { kill() }
	a := s.start()
	a.refresh(ctx)
	s.putRequest(RefreshRequest{Refresh: true})
	if b := s.start(); time.Until(b.status.Next) < 59*time.Minute {
		t.Errorf("the next PReq may leave in %v, want the floor", time.Until(b.status.Next))
	}
}

// TestClockSetBack: a PReq that was put off by a clock which was wrong does not wait until
// that clock would be right, nor do two nodes that disagree ask one after the other.
func TestClockSetBack(t *testing.T) {
	s := newShared(t, nil)
	s.start().refresh(t.Context())
	asked := 1
	for _, step := range []struct {
		name string
		next time.Duration
		want bool
	}{
		{"another clock goes before", maxInterval + maxClockAhead - time.Minute, false},
		{"an hour and more", maxInterval + maxClockAhead + time.Minute, true},
		{"years", 5 * 365 * 24 * time.Hour, true},
	} {
		ahead := func(now *RefreshStatus) {
			now.Next = time.Now().Add(step.next)
			now.Asked, now.Earliest = now.Next, now.Next
		}
		s.change(ahead)
		a := s.start()
		if due := a.isDue(a.status); due != step.want {
			t.Errorf("%s: due: %t, want %t", step.name, due, step.want)
		}
		if step.want {
			asked++
		}
		if a.refresh(t.Context()); len(s.ds.preqs) != asked {
			t.Fatalf("%s: %d PReqs, want %d", step.name, len(s.ds.preqs), asked)
		}
		if !step.want {
			continue
		}
		if wait := time.Until(s.refreshStatus().Next); wait < 3*time.Hour || wait > 5*time.Hour {
			t.Errorf("%s: the one after that may leave in %v, want about 4 h", step.name, wait)
		}
		s.change(ahead)
		a.pollStore(t.Context())
		if a.refresh(t.Context()); len(s.ds.preqs) != asked {
			t.Fatalf("%s: asked twice within the floor", step.name)
		}
		a.lastPReq = a.lastPReq.Add(-minPReqInterval)
		a.pollStore(t.Context())
		asked++
		if a.refresh(t.Context()); len(s.ds.preqs) != asked {
			t.Errorf("%s: not asked after the floor", step.name)
		}
	}
}

// TestAgeAfterClockSetBack: when a node with a right clock hears that the ranges still
// hold, they are that old on all nodes and in the next process, though a clock that was
// ahead wrote that they came later.
func TestAgeAfterClockSetBack(t *testing.T) {
	s := newShared(t, nil)
	with := func(data string) func(http.ResponseWriter, *message.Message) {
		return func(w http.ResponseWriter, preq *message.Message) {
			fmt.Fprintf(w, `{"messageType":"PRes","messageVersion":"2.2.0","threeDSServerTransID":%q,"dsTransID":%q,`+
				`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0","serialNum":"1"%s}`, preq.Text("threeDSServerTransID"), dsID, data)
		}
	}
	s.says = with(`,"cardRangeData":[` + entry + `]`)
	a, b := s.start(), s.start()
	a.refresh(t.Context())
	ahead := *a.cards.Generation("visa")
	ahead.Loaded = time.Now().Add(365 * 24 * time.Hour).UTC()
	lease, err := s.keeper.Acquire(t.Context(), "test", "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	number, err := storeGeneration(t.Context(), s.keeper, "visa", &ahead, lease, maxGenerations)
	if err != nil {
		t.Fatal(err)
	}
	s.change(func(now *RefreshStatus) { now.Generation, now.Loaded = number, ahead.Loaded })
	s.due()
	a.pollStore(t.Context())
	b.pollStore(t.Context())
	s.says = with("")
	a.refresh(t.Context())
	if now := s.refreshStatus(); now.Generation != number || time.Until(now.Loaded) > time.Minute {
		t.Fatalf("heard that they still hold: %+v", now)
	}
	b.pollStore(t.Context())
	for name, n := range map[string]*node{"the node that asked": a, "another": b, "the next process": s.start()} {
		if left := time.Until(n.cards.Generation("visa").Loaded); left > time.Minute {
			t.Errorf("%s: the ranges come in %v", name, left)
		}
	}
}

// TestStoreGone: without the store nothing is asked, for the floor could not be
// kept; what is in use stays.
func TestStoreGone(t *testing.T) {
	s := newShared(t, nil)
	a := s.start()
	if err := s.keeper.Close(); err != nil {
		t.Fatal(err)
	}
	a.refresh(t.Context())
	if len(s.ds.preqs) != 0 {
		t.Error("asked although nothing could be remembered")
	}
	if wait := time.Until(a.status.Next); wait <= 0 || wait > pollInterval {
		t.Errorf("next try in %v", wait)
	}
}

// TestPR23PR24DSURLs: the addresses that a PRes gave are used for the issuer's country,
// and when the configured one cannot be reached (PR-23, PR-24, RT-04).
func TestPR23PR24DSURLs(t *testing.T) {
	ca := newAuthority(t)
	erros := make(chan string, 1)
	says := func(name string) string {
		return serve(t, ca.server(), func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "Erro") {
				erros <- name
				return
			}
			io.WriteString(w, name)
		})
	}
	configured, india, spare := says("configured"), says("india"), says("spare")
	dead := "https://127.0.0.1:1"
	for _, tt := range []struct {
		name, configured, country string
		urls                      []ranges.DSURL
		from                      string
		want                      string
	}{
		{"no list", configured, "356", nil, "", "configured"},
		{"country", configured, "356", []ranges.DSURL{{URL: spare}, {URL: india, Country: "356"}}, "", "india"},
		{"other country", configured, "840", []ranges.DSURL{{URL: spare}, {URL: india, Country: "356"}}, "", "configured"},
		{"country unknown", configured, "", []ranges.DSURL{{URL: india, Country: "356"}}, "", "configured"},
		{"configured one is dead", dead, "840", []ranges.DSURL{{URL: spare}}, "", "spare"},
		{"country's is dead", configured, "356", []ranges.DSURL{{URL: dead, Country: "356"}}, "", "configured"},
		{"country's are not https", configured, "356",
			[]ranges.DSURL{{URL: "http://127.0.0.1:1", Country: "356"}, {URL: "http://[::1", Country: "356"}}, "", "configured"},
		{"country's other is not https", configured, "356", []ranges.DSURL{{URL: "http://127.0.0.1:1", Country: "356"}, {URL: india, Country: "356"}}, "", "india"},
		{"list of the same address", configured, "356", []ranges.DSURL{{URL: india, Country: "356"}}, configured + "/preq", "india"},
		{"list of another directory server", configured, "356", []ranges.DSURL{{URL: india, Country: "356"}}, india + "/preq", "configured"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := peerAt("visa", tt.configured, ca.client())
			c, cards := newClient(t, Hooks{}, p)
			cards.Put("visa", &ranges.Generation{DSURLs: tt.urls, From: tt.from})
			got, err := c.Send(t.Context(), "visa", "Shop", []byte("{}"), transID, message.V231, tt.country)
			if err != nil || string(got) != tt.want {
				t.Errorf("answer %q, %v; want %q", got, err, tt.want)
			}
			c.Report(t.Context(), "visa", tt.country, []byte(`{"messageType":"Erro"}`))
			c.Close() // waits for the Erro
			select {
			case got := <-erros:
				if got != tt.want {
					t.Errorf("the Erro went to %q, want %q", got, tt.want)
				}
			default:
				t.Error("the Erro did not arrive")
			}
		})
	}
}
