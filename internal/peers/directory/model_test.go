package directory

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
	"github.com/openthreeds/threeds/message"
)

// A dice is a random number generator for many.
type dice struct {
	mu  sync.Mutex
	rnd *rand.Rand
}

func (d *dice) IntN(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rnd.IntN(n)
}

// A modelDS is a directory server that remembers all sets of ranges that it ever had.
// A set says of some places which word the range there has.
type modelDS struct {
	name string
	sets []map[int]string // by serial number
}

// ask answers a PReq: nil is silence.
func (d *modelDS) ask(rnd *dice, preq *message.Message) []byte {
	now := len(d.sets) - 1
	serial, asked := -1, preq.Has("serialNum")
	if asked {
		fmt.Sscanf(preq.Text("serialNum"), "%d", &serial)
	}
	since := map[int]string{}
	if asked {
		since = d.sets[serial]
	}
	var entries []string
	say := func(place int, action, word string) {
		entries = append(entries, fmt.Sprintf(`{"startRange":"40000%02d000000000","endRange":"40000%02d999999999","actionInd":%q,`+
			`"acsStartProtocolVersion":"2.1.0","acsEndProtocolVersion":"2.2.0","threeDSMethodURL":"https://%s.example/%s"}`, place, place, action, d.name, word))
	}
	set := d.sets[now]
	luck := rnd.IntN(100)
	said := fmt.Sprintf(`,"serialNum":"%d"`, now)
	switch {
	case luck < 5:
		return nil
	case luck < 10:
		return []byte("<html>")
	case luck < 15 && asked:
		return []byte(`{"messageType":"Erro","messageVersion":"2.2.0","errorCode":"307","errorComponent":"D","errorDescription":"x","errorDetail":"y"}`)
	case luck < 20 && asked: // an update that cannot be
		said, set, since = fmt.Sprintf(`,"serialNum":"%d"`, now), nil, nil
		say(99, "D", "x")
	case luck < 30 && asked: // all, though changes were asked for
		said, since = "", nil
	}
	for place, word := range since {
		if _, still := set[place]; !still {
			say(place, "D", word)
		}
	}
	for place, word := range set {
		switch before, there := since[place]; {
		case !there:
			say(place, "A", word)
		case before != word:
			say(place, "M", word)
		}
	}
	data := ""
	if len(entries) > 0 {
		data = `,"cardRangeData":[` + strings.Join(entries, ",") + `]`
	} else if !asked || said == "" {
		return nil // it has nothing to give
	}
	return fmt.Appendf(nil, `{"messageType":"PRes","messageVersion":"2.2.0","threeDSServerTransID":%q,"dsTransID":%q,`+
		`"dsStartProtocolVersion":"2.1.0","dsEndProtocolVersion":"2.2.0"%s%s}`, preq.Text("threeDSServerTransID"), dsID, said, data)
}

// change makes the next set of the last.
func (d *modelDS) change(rnd *dice) {
	next := maps.Clone(d.sets[len(d.sets)-1])
	for range 1 + rnd.IntN(8) {
		place := rnd.IntN(12)
		if rnd.IntN(2) == 0 {
			delete(next, place)
		} else {
			next[place] = fmt.Sprint(len(d.sets))
		}
	}
	if len(next) > 0 {
		d.sets = append(d.sets, next)
	}
}

// badKeeper fails now and then, before or after it has done what it was asked to.
type badKeeper struct {
	*storetest.Memory
	rnd *dice
	bad int // of a hundred
}

var errBad = errors.New("the store has no time")

func (k *badKeeper) fails() bool { return k.rnd.IntN(100) < k.bad }

func (k *badKeeper) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	if k.fails() {
		return store.Lease{}, errBad
	}
	l, err := k.Memory.Acquire(ctx, name, holder, ttl)
	if err == nil && k.fails() {
		return store.Lease{}, errBad
	}
	return l, err
}

func (k *badKeeper) Release(ctx context.Context, l store.Lease) error {
	if k.fails() {
		return errBad
	}
	return k.Memory.Release(ctx, l)
}

func (k *badKeeper) PutState(ctx context.Context, key string, value []byte, l store.Lease) error {
	if k.fails() {
		return errBad
	}
	if err := k.Memory.PutState(ctx, key, value, l); err != nil {
		return err
	}
	if k.fails() {
		return errBad
	}
	return nil
}

func (k *badKeeper) State(ctx context.Context, key string) ([]byte, error) {
	if k.fails() {
		return nil, errBad
	}
	return k.Memory.State(ctx, key)
}

func (k *badKeeper) PutSnapshot(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
	if k.fails() {
		return errBad
	}
	if k.fails() { // it is damaged on the way
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		data[k.rnd.IntN(len(data))] ^= 1 << k.rnd.IntN(8)
		content = bytes.NewReader(data)
	}
	if err := k.Memory.PutSnapshot(ctx, s, l, content, keep); err != nil {
		return err
	}
	if k.fails() {
		return errBad
	}
	return nil
}

func (k *badKeeper) Snapshots(ctx context.Context, scheme string) ([]store.Snapshot, error) {
	if k.fails() {
		return nil, errBad
	}
	return k.Memory.Snapshots(ctx, scheme)
}

func (k *badKeeper) OpenSnapshot(ctx context.Context, scheme string, number int64) (io.ReadCloser, error) {
	if k.fails() {
		return nil, errBad
	}
	return k.Memory.OpenSnapshot(ctx, scheme, number)
}

// holds is the name of the directory server, and the set, that a table is of.
func holds(t *ranges.Table) (string, map[int]string) {
	name, set := "", map[int]string{}
	for r, info := range t.All() {
		var place int
		fmt.Sscanf(r.String(), "40000%2d", &place)
		method := strings.Split(strings.TrimPrefix(info.ACS[0].MethodURL, "https://"), ".example/")
		name += method[0]
		set[place] = method[1]
	}
	if name != "" && strings.Trim(name, name[:1]) != "" {
		return "mixed", set
	}
	return name[:min(len(name), 1)], set
}

var modelSeeds = flag.Int("model.seeds", 8, "how many worlds TestModel lives through")

// TestModel: nodes come and go, directory servers change, move and talk nonsense, and the
// store fails at any step. What a node uses is always one set that a directory server had,
// whole; the changes that it asks for are those since that set, of that directory server;
// none is asked sooner than it may be; and when all is well again every node has the latest.
func TestModel(t *testing.T) {
	for seed := range *modelSeeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newModel(t, uint64(seed)).live() })
		})
	}
}

type model struct {
	t      *testing.T
	rnd    *dice
	ds     map[string]*modelDS
	keeper *badKeeper
	at     string // which of them is configured
	nodes  []*node
	moved  time.Time

	mu    sync.Mutex
	asked map[string]time.Time // when the latest PReq left that was answered
}

func newModel(t *testing.T, seed uint64) *model {
	rnd := &dice{rnd: rand.New(rand.NewPCG(seed, 1))}
	return &model{
		t: t, rnd: rnd, at: "a", asked: map[string]time.Time{},
		ds: map[string]*modelDS{
			"a": {"a", []map[int]string{{1: "0", 2: "0", 3: "0"}}}, "b": {"b", []map[int]string{{1: "0", 4: "0", 5: "0"}}},
		},
		keeper: &badKeeper{storetest.NewMemory(time.Now), rnd, rnd.IntN(3) * 10},
	}
}

func (m *model) start() { m.nodes = append(m.nodes, m.newNode()) }

func (m *model) newNode() *node {
	c := &Client{cards: ranges.NewSchemes("visa"), keeper: m.keeper, node: newNodeID(), log: slog.New(slog.DiscardHandler), reports: new(tasks.Group)}
	c.reports.End() // no Erro leaves
	p := &peer{Peer: Peer{Scheme: "visa", PReqURL: m.at, Versions: []message.Version{message.V210, message.V220},
		RefNumber: func(message.Version) string { return "ref" }, MaxPRes: 1 << 20, Refresh: 4 * time.Hour}}
	r := newRefresher(c, p)
	r.exchange = func(ctx context.Context, _ int) outcome { return m.exchange(ctx, r) }
	r.pollStore(m.t.Context())
	return &node{r, c.cards}
}

// pass lets time pass. Some nodes look, all at once, and some of them do not live to see
// what comes of it.
func (m *model) pass(d time.Duration) {
	const step = 5 * time.Minute
	for ; d > 0; d -= step {
		time.Sleep(step)
		var wg sync.WaitGroup
		for i := range m.nodes {
			n := m.nodes[i]
			ctx, stop := context.WithCancel(m.t.Context())
			if m.keeper.bad > 0 && m.rnd.IntN(20) == 0 {
				time.AfterFunc(time.Duration(m.rnd.IntN(20))*time.Second, stop)
				m.nodes[i] = m.newNode()
			}
			wg.Go(func() {
				n.live(ctx)
				stop()
			})
		}
		wg.Wait()
	}
}

// live is what run does once.
func (n *node) live(ctx context.Context) {
	n.pollStore(ctx)
	if n.isDue(n.status) {
		n.refresh(ctx)
	}
}

// end ends a node, the first of them.
func (m *model) end() { m.nodes = m.nodes[1:] }

// exchange is that of a refresher, without a network.
func (m *model) exchange(ctx context.Context, r *refresher) outcome {
	d := m.ds[r.peer.PReqURL]
	raw := message.MustCompose(message.PReq, message.V220, r.preqMembers(message.V220, newTransID())...)
	preq, err := message.Parse(raw, message.Limits{})
	if err != nil {
		m.t.Fatal(err)
	}
	if serial := preq.Text("serialNum"); serial != "" {
		var n int
		fmt.Sscanf(serial, "%d", &n)
		name, set := holds(r.cards.Table("visa"))
		if name != d.name || n >= len(d.sets) || !maps.Equal(set, d.sets[n]) {
			m.t.Errorf("%s is asked for changes since %s by one who has %v of %s", d.name, serial, set, name)
			return refused
		}
	}
	start := time.Now()
	m.mu.Lock()
	last, ok := m.asked[d.name]
	m.mu.Unlock()
	if ok && m.keeper.bad == 0 && start.Sub(last) < minPReqInterval && start.Sub(m.moved) > minPReqInterval {
		m.t.Errorf("%s is asked %v after it was asked and answered", d.name, start.Sub(last))
	}
	time.Sleep(time.Duration(m.rnd.IntN(20)) * time.Second)
	if ctx.Err() != nil {
		return unreachable
	}
	answer := d.ask(m.rnd, preq)
	if answer == nil {
		return unreachable
	}
	m.mu.Lock()
	m.asked[d.name] = start
	m.mu.Unlock()
	v, err := r.receivePRes(ctx, raw, bytes.NewReader(answer))
	if err != nil && ctx.Err() == nil {
		m.t.Error(err)
	}
	return v
}

func (m *model) live() {
	m.start()
	for range 40 {
		switch m.rnd.IntN(8) {
		case 0:
			m.start()
		case 1:
			if len(m.nodes) > 1 {
				m.end()
			}
		case 2: // the directory moves, for all nodes
			if m.rnd.IntN(3) == 0 {
				m.moved = time.Now()
				m.at = []string{"a", "b"}[m.rnd.IntN(2)]
				for n := len(m.nodes); n > 0; n-- {
					m.start()
					m.end()
				}
			}
		case 3:
			s, err := ReadRefreshStatus(m.t.Context(), m.keeper.Memory, "visa")
			if err != nil {
				m.t.Fatal(err)
			}
			_ = PutRefreshRequest(m.t.Context(), m.keeper, "visa", "operator", RefreshRequest{At: time.Now(), Refresh: m.rnd.IntN(2) == 0, Accept: s.Held})
		default:
			m.ds[[]string{"a", "b"}[m.rnd.IntN(2)]].change(m.rnd)
		}
		m.pass(time.Duration(m.rnd.IntN(120)) * time.Minute)
		m.check()
	}
	// Peace: what shrank is accepted, and at last all nodes have the latest.
	m.keeper.bad = 0
	for range 12 {
		m.pass(6 * time.Hour)
		s, err := ReadRefreshStatus(m.t.Context(), m.keeper.Memory, "visa")
		if err == nil && s.Held != 0 {
			err = PutRefreshRequest(m.t.Context(), m.keeper, "visa", "operator", RefreshRequest{At: time.Now(), Accept: s.Held})
		}
		if err != nil {
			m.t.Error(err)
		}
		m.pass(5 * time.Minute)
		m.check()
	}
	d := m.ds[m.at]
	for i, n := range m.nodes {
		name, set := holds(n.cards.Table("visa"))
		if name != d.name || !maps.Equal(set, d.sets[len(d.sets)-1]) {
			m.t.Errorf("node %d of %d has %v of %s at last, want %v of %s", i, len(m.nodes), set, name, d.sets[len(d.sets)-1], d.name)
		}
		if g := n.cards.Generation("visa"); time.Since(g.Loaded) > 26*time.Hour {
			m.t.Errorf("node %d takes its ranges for %v old", i, time.Since(g.Loaded))
		}
	}
}

// check is whether each node has one set, whole.
func (m *model) check() {
	m.t.Helper()
	for i, n := range m.nodes {
		g := n.cards.Generation("visa")
		if g == nil {
			continue
		}
		name, set := holds(g.Table)
		d := m.ds[name]
		if d == nil || !slices.ContainsFunc(d.sets, func(one map[int]string) bool { return maps.Equal(one, set) }) {
			m.t.Errorf("node %d has %v of %q: no directory server ever had that", i, set, name)
		}
	}
}
