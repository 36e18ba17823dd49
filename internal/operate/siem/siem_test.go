package siem_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/siem"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// A received is a message that was parsed.
type received struct {
	priority                   int
	at, host, app, proc, msgID string
	fields                     map[string]string
	line                       string
}

// header is the strict form of what stands before structured data.
var header = regexp.MustCompile(
	`^<(\d{1,3})>1 (-|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ([!-~]{1,255}) ([!-~]{1,48}) ([!-~]{1,128}) ([!-~]{1,32}) \[threeds@32473`)

// field is a SD-PARAM: in its value quotes, backslashes and brackets stand behind a backslash.
var field = regexp.MustCompile(`^ ([!-~]{1,32}?)="((?:[^"\\\]]|\\["\\\]])*)"`)

// parse reads a message of RFC 5424.
func parse(text string) (r received, err error) {
	wrong := func() (received, error) { return r, fmt.Errorf("not a message of RFC 5424: %q", text) }
	if !utf8.ValidString(text) {
		return wrong()
	}
	h := header.FindStringSubmatch(text)
	if h == nil {
		return wrong()
	}
	r.priority, _ = strconv.Atoi(h[1])
	r.at, r.host, r.app, r.proc, r.msgID, r.fields = h[2], h[3], h[4], h[5], h[6], map[string]string{}
	rest := text[len(h[0]):]
	for {
		f := field.FindStringSubmatch(rest)
		if f == nil {
			break
		}
		r.fields[f[1]] = regexp.MustCompile(`\\(.)`).ReplaceAllString(f[2], "$1")
		rest = rest[len(f[0]):]
	}
	line, ok := strings.CutPrefix(rest, "] ")
	if !ok {
		return wrong()
	}
	var hasMark bool
	if r.line, hasMark = strings.CutPrefix(line, "\xEF\xBB\xBF"); !hasMark && strings.ContainsFunc(line, func(c rune) bool { return c > 127 }) {
		return wrong()
	}
	if !json.Valid([]byte(r.line)) || strings.Contains(r.line, "\n") {
		return wrong()
	}
	return r, nil
}

// readFrame reads a frame of RFC 5425: the length in octets without a leading zero, a space, and the message.
func readFrame(r *bufio.Reader) (string, error) {
	length, err := r.ReadString(' ')
	if err != nil {
		if length == "" {
			return "", err
		}
		return "", io.ErrUnexpectedEOF
	}
	n, err := strconv.Atoi(strings.TrimSuffix(length, " "))
	if err != nil || n <= 0 || length[0] == '0' {
		return "", fmt.Errorf("not a frame of RFC 5425: %q", length)
	}
	text := make([]byte, n)
	_, err = io.ReadFull(r, text)
	return string(text), err
}

// A receiver is a receiver of syslog over TLS. It keeps the messages of a connection when the sender has ended it, and
// loses them when it is killed before.
type receiver struct {
	t        *testing.T
	listener net.Listener
	tls      *tls.Config
	roots    *x509.CertPool

	mu     sync.Mutex
	kept   []received
	kill   func() int // how many bytes of the next connection are read until the receiver is killed; less than 0 means never
	isRude bool       // it ends connections without a close_notify
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	r := &receiver{t: t, tls: &tls.Config{Certificates: web.TLS.Certificates}, roots: x509.NewCertPool()}
	r.roots.AddCert(web.Certificate())
	r.listen("127.0.0.1:0")
	return r
}

func (r *receiver) listen(address string) {
	r.t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.listener = l
	r.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
}

// serve reads the messages of a connection.
func (r *receiver) serve(raw net.Conn) {
	defer raw.Close()
	conn := tls.Server(raw, r.tls)
	if conn.Handshake() != nil {
		return
	}
	r.mu.Lock()
	room, isRude := -1, r.isRude
	if r.kill != nil {
		room = r.kill()
	}
	r.mu.Unlock()
	var from io.Reader = conn
	if room >= 0 {
		from = io.LimitReader(conn, int64(room))
	}
	in := bufio.NewReader(from)
	var all []received
	for {
		text, err := readFrame(in)
		if errors.Is(err, io.EOF) && room < 0 {
			break
		}
		if err != nil {
			if room < 0 {
				r.t.Errorf("frame: %v", err)
			}
			return // killed
		}
		m, err := parse(text)
		if err != nil {
			r.t.Error(err)
			return
		}
		all = append(all, m)
	}
	r.mu.Lock()
	r.kept = append(r.kept, all...)
	r.mu.Unlock()
	if !isRude {
		_ = conn.Close()
	}
}

// messages returns what was kept.
func (r *receiver) messages() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.kept...)
}

// has reports whether the receiver has all numbers of a chain up to one. They must have come in their order: before an
// entry comes for the first time, all those before it have come.
func (r *receiver) has(chain string, last int64) bool {
	r.t.Helper()
	came := int64(0)
	for _, m := range r.messages() {
		if m.fields["chain"] != chain {
			continue
		}
		n, err := strconv.ParseInt(m.fields["number"], 10, 64)
		if err != nil || n > came+1 {
			r.t.Fatalf("after entry %d of the chain %s came %q", came, chain, m.fields["number"])
		}
		came = max(came, n)
	}
	return came >= last
}

func (r *receiver) sender() *siem.Syslog {
	return &siem.Syslog{Address: r.listener.Addr().String(), TLS: &tls.Config{RootCAs: r.roots, ServerName: "example.com"}, Host: "node-1"}
}

// A site has an audit trail and a journal, which nodes share.
type site struct {
	t     *testing.T
	db    *storetest.Memory
	ring  *keyring.Ring
	trail *operator.Service
	log   *waittest.Log

	mu      sync.Mutex
	journal journal.Store
	head    journal.Head
	now     time.Time
}

func newSite(t *testing.T) *site {
	t.Helper()
	ring, err := keyring.LoadOrCreate(filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	keys := journal.NewKeys()
	st, err := journal.OpenFiles(t.TempDir(), keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	// An empty journal has no seal.
	g := journal.Generation{Authentications: 1, Days: 1, Merchants: 1, Seed: 1}
	if err := journal.Generate(t.Context(), st, keys, g, time.Now(), func(int) {}); err != nil {
		t.Fatal(err)
	}
	db := storetest.NewMemory(time.Now)
	return &site{
		t: t, db: db, ring: ring, journal: st, now: time.Now(), log: &waittest.Log{},
		trail: &operator.Service{Store: db, Sealer: ring, Now: time.Now, Keys: keys},
	}
}

// act adds n entries to the trail, and a head to the journal.
func (s *site) act(n int, object string) {
	s.t.Helper()
	for range n {
		if err := s.trail.Record(s.t.Context(), operator.Entry{Who: "token:ci", Role: operator.Admin, Action: "key.create", Object: object}); err != nil {
			s.t.Fatal(err)
		}
	}
	end, err := s.trail.CheckTrail(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(2 * time.Minute)
	if s.head, err = s.journal.Head(s.t.Context(), s.now, &end); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) newest() (journal.Head, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head, true
}

// node returns a node that sends to a receiver.
func (s *site) node(to siem.Sender) *siem.Service {
	return &siem.Service{
		Store: s.db, Sealer: s.ring, Trail: s.trail, Journal: s.journal, Head: s.newest,
		Log: slog.New(slog.NewTextHandler(s.log, nil)), Now: time.Now, Poll: time.Millisecond,
		Sender: func() siem.Sender { return to },
	}
}

// start runs a node until stop is called, which waits for its end.
func start(t *testing.T, node *siem.Service) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { node.Run(ctx) })
	stop = func() {
		cancel()
		wg.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// TestSIEMGetsEveryEntry: through kills of the receiver at any byte, and restarts of two nodes, each entry of the trail
// and each seal of the journal comes at least once, in the order of its chain.
func TestSIEMGetsEveryEntry(t *testing.T) {
	t.Parallel()
	s, r := newSite(t), newReceiver(t)
	random := rand.New(rand.NewPCG(4, 4))
	kills, where := 0, rand.New(rand.NewPCG(5, 5))
	r.kill = func() int { // the receiver holds its lock
		if where.IntN(3) == 0 || kills == 30 {
			return -1
		}
		kills++
		return where.IntN(4000)
	}
	var stops []func()
	for range 2 {
		stops = append(stops, start(t, s.node(r.sender())))
	}
	for range 25 {
		s.act(1+random.IntN(5), "c0ffee")
		i := random.IntN(2)
		stops[i]()
		stops[i] = start(t, s.node(r.sender()))
		end, err := s.trail.CheckTrail(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, "the entries", func() bool { return r.has("audit", end.Seq) })
	}
	waittest.Until(t, "the seals", func() bool { return r.has("journal", s.head.N) })
	r.mu.Lock()
	if s.head.N < 12 || kills < 10 {
		t.Errorf("%d seals and %d kills: the test tries too little", s.head.N, kills)
	}
	r.mu.Unlock()
	first := r.messages()[0]
	if first.app != "threeds" || first.host != "node-1" || first.msgID != "key.create" || first.priority != 109 ||
		first.fields["who"] != "token:ci" || !strings.Contains(first.line, `"type":"record","chain":"audit","seq":1,`) {
		t.Errorf("the first message is %+v", first)
	}
	heads := 0
	for _, m := range r.messages() {
		if m.fields["chain"] == "journal" {
			if m.msgID == "journal.head" {
				heads++
			}
			if m.priority != 110 || !strings.Contains(m.line, `"signature":"`) || m.fields["fault"] != "" {
				t.Errorf("a seal is %+v", m)
			}
		}
	}
	if heads == 0 {
		t.Error("no head came")
	}
}

// TestSIEMGetsNothingTwiceInPeace: two nodes and a receiver that is not killed. When the nodes are restarted, nothing
// that was confirmed comes again.
func TestSIEMGetsNothingTwiceInPeace(t *testing.T) {
	t.Parallel()
	s, r := newSite(t), newReceiver(t)
	for round := range 3 {
		stops := []func(){start(t, s.node(r.sender())), start(t, s.node(r.sender()))}
		s.act(5, "c0ffee")
		waittest.Until(t, "entries and seals", func() bool {
			return r.has("audit", int64(5*(round+1))) && r.has("journal", s.head.N)
		})
		value, want := []byte(nil), fmt.Sprintf(`{"audit":{"number":%d,`, 5*(round+1))
		waittest.Until(t, "the position", func() bool {
			sealed, err := s.db.State(t.Context(), "siem")
			if err == nil {
				value, err = s.ring.Open("siem", sealed)
			}
			return err == nil && strings.HasPrefix(string(value), want) && strings.Contains(string(value), fmt.Sprintf(`"journal":{"number":%d,`, s.head.N))
		})
		for _, stop := range stops {
			stop()
		}
	}
	if got, want := len(r.messages()), 15+int(s.head.N); got != want {
		t.Errorf("%d messages came, want %d", got, want)
	}
}

// TestSIEMValuesAreEscaped: whatever an entry says, it stays inside its field, and no control character reaches the
// receiver.
func TestSIEMValuesAreEscaped(t *testing.T) {
	t.Parallel()
	s, r := newSite(t), newReceiver(t)
	const object = "a\"] \\ <109>1 b] [x y=\"z\"\n\x1b[2J Jørgen"
	s.act(1, object)
	start(t, s.node(r.sender()))
	waittest.Until(t, "the entry", func() bool { return r.has("audit", 1) })
	m := r.messages()[0]
	if want := strings.NewReplacer("\n", "\uFFFD", "\x1b", "\uFFFD").Replace(object); m.fields["object"] != want {
		t.Errorf("the object is %q, want %q", m.fields["object"], want)
	}
	var line struct{ Record operator.Entry }
	if err := json.Unmarshal([]byte(m.line), &line); err != nil || line.Record.Object != object {
		t.Errorf("the line says %q, %v", line.Record.Object, err)
	}
}

// TestSIEMWaitsForAReceiver: while the receiver is away the node says how many wait, since when and why, and nothing is
// lost.
func TestSIEMWaitsForAReceiver(t *testing.T) {
	t.Parallel()
	began := time.Now().Add(-time.Second) // seals have whole seconds
	s, r := newSite(t), newReceiver(t)
	address := r.listener.Addr().String()
	_ = r.listener.Close()
	s.act(7, "c0ffee")
	node := s.node(r.sender())
	start(t, node)
	waittest.Until(t, "failures", func() bool { _, _, failed := node.Counts(); return failed >= 3 })
	now := node.Status()
	if now.Audit != 7 || now.Journal != s.head.N || now.Since.Before(began) || now.Since.After(time.Now()) ||
		!strings.Contains(now.Fault, "connection refused") {
		t.Errorf("the status is %+v", now)
	}
	if problem := node.Problem(); problem != "" {
		t.Errorf("a failure that has just begun is a problem: %s", problem)
	}
	r.listen(address)
	waittest.Until(t, "the entries", func() bool { return r.has("audit", 7) && r.has("journal", s.head.N) })
	waittest.Until(t, "the end of the failure", func() bool {
		now := node.Status()
		return now.Failing.IsZero() && now.Audit == 0 && now.Journal == 0 && now.Since.IsZero()
	})
	waittest.Until(t, "the line of the log", func() bool { return strings.Contains(s.log.String(), "sent to the SIEM again") })
	if n := strings.Count(s.log.String(), "c0ffee"); n > 0 {
		t.Errorf("the log has %d entries in it", n)
	}
}

// TestSIEMFailureBecomesAProblem: readiness names a failure that lasts.
func TestSIEMFailureBecomesAProblem(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.act(2, "c0ffee")
	var mu sync.Mutex
	now := time.Now()
	node := s.node(senderFunc(func([]siem.Message) (int, error) { return 0, errors.New("away") }))
	node.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	start(t, node)
	waittest.Until(t, "a failure", func() bool { return !node.Status().Failing.IsZero() })
	mu.Lock()
	now = now.Add(2 * time.Minute)
	mu.Unlock()
	want := fmt.Sprintf("%d entries and seals are not sent since ", 2+s.head.N)
	if problem := node.Problem(); !strings.HasPrefix(problem, want) || !strings.HasSuffix(problem, ": away") {
		t.Errorf("the problem is %q", problem)
	}
}

// A senderFunc is a sender.
type senderFunc func([]siem.Message) (int, error)

func (f senderFunc) Send(_ context.Context, all []siem.Message) (int, error) { return f(all) }

// TestSIEMNeedsAnAnswerOfTLS: a receiver that ends the connection without a close_notify may have been killed, so the
// batch is sent again, unless the configuration says that the end is enough.
func TestSIEMNeedsAnAnswerOfTLS(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.isRude = true
	message := siem.Message{Chain: "audit", Number: 1, Line: []byte("{}"), Event: "key.create"}
	sender := r.sender()
	if n, err := sender.Send(t.Context(), []siem.Message{message}); n != 0 || err == nil || !strings.Contains(err.Error(), "siem.confirmation") {
		t.Errorf("%d messages, %v", n, err)
	}
	sender.EndIsEnough = true
	if n, err := sender.Send(t.Context(), []siem.Message{message}); n != 1 || err != nil {
		t.Errorf("the end is enough: %d messages, %v", n, err)
	}
	sender.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	if n, err := sender.Send(t.Context(), []siem.Message{message}); n != 0 || err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a receiver that nobody trusts: %d messages, %v", n, err)
	}
}

// changedStore is a store in which somebody has changed an entry.
type changedStore struct{ *storetest.Memory }

func (c changedStore) AuditEntries(ctx context.Context, q store.AuditQuery) ([]store.AuditEntry, error) {
	all, err := c.Memory.AuditEntries(ctx, q)
	for i := range all {
		if all[i].Seq == 2 {
			all[i].Data = bytes.Replace(all[i].Data, []byte("c0ffee"), []byte("decaf0"), 1)
		}
	}
	return all, err
}

// TestSIEMCannotBeStoppedInTheStore: an attacker who can write to the store, but has no keys, can neither skip entries
// by another position nor stop them by a changed entry, which comes with a fault.
func TestSIEMCannotBeStoppedInTheStore(t *testing.T) {
	t.Parallel()
	s, r := newSite(t), newReceiver(t)
	s.act(4, "c0ffee")
	third, err := s.db.AuditEntries(t.Context(), store.AuditQuery{After: 2, Oldest: true, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	position, err := json.Marshal(map[string]any{"audit": map[string]any{"number": 3, "link": operator.LinkOf(third[0].Link)}})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := s.db.Acquire(t.Context(), "siem", "attacker", time.Minute)
	if err == nil {
		err = s.db.PutState(t.Context(), "siem", position, lease)
	}
	if err := errors.Join(err, s.db.Release(t.Context(), lease)); err != nil {
		t.Fatal(err)
	}
	node := s.node(r.sender())
	node.Trail = &operator.Service{Store: changedStore{s.db}, Keys: s.trail.Keys, Now: time.Now}
	start(t, node)
	waittest.Until(t, "the entries", func() bool { return r.has("audit", 4) })
	for _, m := range r.messages()[:4] {
		isChanged := m.fields["number"] == "2"
		if (m.priority == 106) != isChanged || strings.Contains(m.fields["fault"], "does not fit") != isChanged {
			t.Errorf("entry %s has priority %d and the fault %q", m.fields["number"], m.priority, m.fields["fault"])
		}
	}
}

// TestSIEMBeginsAgainWithAnotherTrail: when the entry at the position is gone, as after the restore of another store,
// the whole trail is sent.
func TestSIEMBeginsAgainWithAnotherTrail(t *testing.T) {
	t.Parallel()
	s, other, r := newSite(t), newSite(t), newReceiver(t)
	s.act(9, "c0ffee")
	stop := start(t, s.node(r.sender()))
	waittest.Until(t, "the position", func() bool {
		_, err := s.db.State(t.Context(), "siem")
		return err == nil && r.has("journal", s.head.N)
	})
	stop()
	sealed, err := s.db.State(t.Context(), "siem")
	if err != nil {
		t.Fatal(err)
	}
	other.ring = s.ring
	lease, err := other.db.Acquire(t.Context(), "siem", "restore", time.Minute)
	if err == nil {
		err = other.db.PutState(t.Context(), "siem", sealed, lease)
	}
	if err := errors.Join(err, other.db.Release(t.Context(), lease)); err != nil {
		t.Fatal(err)
	}
	other.act(2, "decaf0")
	start(t, other.node(r.sender()))
	waittest.Until(t, "the other trail", func() bool {
		n := 0
		for _, m := range r.messages() {
			if m.fields["object"] == "decaf0" {
				n++
			}
		}
		return n >= 2
	})
	if !strings.Contains(other.log.String(), "all is sent again") {
		t.Errorf("the log says\n%s", other.log.String())
	}
}
