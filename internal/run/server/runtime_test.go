package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	stdruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/openthreeds/threeds/internal/base/answered"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/edge/results"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/mpi"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/message"
)

// idleServer is a server that does not run, of a configuration in which no two values are
// the same.
func idleServer(t *testing.T) (*Server, Config) {
	t.Helper()
	n, cfg := newIdleServer(t)
	t.Cleanup(func() { must(t, n.Close()) })
	return n, cfg
}

func newIdleServer(t *testing.T) (*Server, Config) {
	t.Helper()
	ring, err := keyring.LoadOrCreate(filepath.Join(t.TempDir(), "keys.json"))
	must(t, err)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		return l
	}
	cert, pool := newCertificate(t)
	mutual := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}
	const nowhere = "https://127.0.0.1:1/"
	visa := directory.Peer{Scheme: "visa", AReqURL: nowhere, PReqURL: nowhere, Versions: message.Versions(), TLS: mutual}
	visa.RefNumber = func(message.Version) string { return "0" }
	cfg := Config{
		StoreURL: config.StoreURL{Dir: t.TempDir()}, Ring: ring, Server: check.Server{RequestorID: "1", RequestorName: "2"},
		Peers:         []directory.Peer{visa},
		Directories:   []check.Directory{{Scheme: "visa", OperatorID: "3"}},
		Clients:       []certs.Client{{Scheme: "visa", CA: x509.NewCertPool(), Names: []string{"4"}}},
		V1Peers:       []directory.V1Peer{{Scheme: "jcb", URL: nowhere, TLS: mutual}},
		V1Directories: []mpi.Directory{{Scheme: "jcb", Policy: func() xmldsig.Policy { return xmldsig.Policy{} }}},
		Timeouts:      txn.Timeouts{Authentication: 5 * time.Second, Preauth: 6 * time.Second, Challenge: 7 * time.Second},
		Limits: Limits{
			PerKey: 8, InFlight: 9, Connections: 10, Wait: 11 * time.Second, AuthBody: 12, Body: 13, Message: message.Limits{Depth: 14, Members: 15},
		},
		LeaseTime: 16 * time.Second, Loopback: true, API: listen(), Results: listen(), APICert: &cert, Certs: []tls.Certificate{cert},
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon },
	}
	n, err := New(t.Context(), cfg)
	must(t, err)
	return n, cfg
}

// TestRuntimeIsBuiltFromTheConfig: engines and handlers have what the configuration says,
// and what belongs to the node.
func TestRuntimeIsBuiltFromTheConfig(t *testing.T) {
	n, cfg := idleServer(t)
	g := n.active
	requests, received := g.api.(*api.Handler), g.results.(*results.Handler)
	for _, tt := range []struct {
		what      string
		got, want any
	}{
		{"engine: store", g.engine.Store, watchedStore{n.db, &n.writes}},
		{"engine: card ranges", g.engine.Cards, g.cards},
		{"engine: directories", g.engine.Directories, g.client},
		{"engine: keys", []any{g.engine.IDs, g.engine.Sealer}, []any{transIDs{&n.ring}, sealer{&n.ring, &n.refusedRecords}}},
		{"ring", n.ring.Load(), cfg.Ring},
		{"engine: who it is", g.engine.Server, cfg.Server},
		{"engine: peers", g.engine.Peers, cfg.Directories},
		{"engine: timeouts", g.engine.Timeouts, cfg.Timeouts},
		{"engine: limits", g.engine.Limits, cfg.Limits.Message},
		{"engine: loopback", g.engine.Loopback, true},
		{"engine: clock", g.engine.Now(), noon},
		{"engine: log and metrics", []any{g.engine.Log, g.engine.Observer}, []any{cfg.Log, observer{n.metrics}}},
		{"engine: tasks are those of the server", g.engine.Tasks == &n.tasks, true},

		{"1.0.2: directories", g.mpi.Directories[0].Scheme, "jcb"},
		{"1.0.2: client", g.mpi.Client, g.v1},
		{"1.0.2: store", g.mpi.Store, watchedStore{n.db, &n.writes}},
		{"1.0.2: keys", g.mpi.Sealer, sealer{&n.ring, &n.refusedRecords}},
		{"1.0.2: clock", g.mpi.Now(), noon},
		{"1.0.2: log", g.mpi.Log, cfg.Log},

		{"api: engines", []any{requests.Engine, requests.MPI}, []any{g.engine, g.mpi}},
		{"api: keys", requests.Keys, n.apiKeys},
		{"api: gate", requests.Gate, n.gate},
		{"api: rates", requests.Limits, g.limits},
		{"api: places", requests.MaxInFlight, cfg.Limits.InFlight},
		{"api: those taken", requests.InFlight, &n.inFlight},
		{"api: those taken by merchants", requests.Shares == &n.shares, true},
		{"api: bodies", []int64{requests.AuthBody, requests.Body}, []int64{cfg.Limits.AuthBody, cfg.Limits.Body}},
		{"api: log", requests.Log, cfg.Log},
		{"api: refusals are counted", requests.Refused != nil, true},
		{"api: certificate", g.apiTLS.Certificates, []tls.Certificate{*cfg.APICert}},
		{"api: TLS", []any{g.apiTLS.MinVersion, g.apiTLS.CipherSuites, g.apiTLS.NextProtos},
			[]any{uint16(tls.VersionTLS12), certs.StrongSuites(), []string{"h2", "http/1.1", "http/1.0"}}},

		{"results: engine", received.Engine, g.engine},
		{"results: who may post", received.Trust.Clients, cfg.Clients},
		{"results: clock", received.Trust.Now(), noon},
		{"results: body", received.Body, cfg.Limits.AuthBody},
		{"results: memory of long messages is shared", received.Memory != nil && received.Memory == n.longMessages, true},
		{"results: logs", []any{received.Log, received.Trust.Log}, []any{cfg.Log, cfg.Log}},

		{"client: lease", g.client.LeaseTime, cfg.LeaseTime},
		{"load is shed", n.gate != nil, true},
		{"how long a request may take", n.maxRequestTime, mpi.Longest},
		{"the clock to stamp by", n.timestamp(), noon},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, tt.got, tt.want)
		}
	}
}

// TestNextRuntimeTakesOver: what a changed configuration takes over, and what it replaces.
func TestNextRuntimeTakesOver(t *testing.T) {
	n, cfg := idleServer(t)
	next := func(change func(*Config)) *runtime {
		t.Helper()
		changed := cfg
		change(&changed)
		g, err := n.newRuntime(changed, n.active)
		must(t, err)
		return g
	}
	n.active.cards.MarkTried("visa")
	if g := next(func(*Config) {}); g.limits != n.active.limits || g.client.LeaseTime != cfg.LeaseTime || !g.cards.AnyTried() {
		t.Error("the rates of keys begin anew, the lease has another time, or what is known of card ranges is lost")
	}
	if g := next(func(cfg *Config) { cfg.Limits.PerKey++ }); g.limits == n.active.limits {
		t.Error("another rate is not taken up")
	}
	for _, tt := range []struct {
		name    string
		change  func(*Config)
		slowest time.Duration
	}{
		{"as it was", func(*Config) {}, mpi.Longest},
		{"longer, and 1.0.2 takes longer still", func(cfg *Config) { cfg.Timeouts.Authentication = mpi.Longest - 1 }, mpi.Longest},
		{"longer than 1.0.2 takes", func(cfg *Config) { cfg.Timeouts.Authentication = time.Minute }, time.Minute},
		{"without 1.0.2", func(cfg *Config) { cfg.V1Directories, cfg.V1Peers = nil, nil }, 5 * time.Second},
	} {
		g := next(tt.change)
		if got := g.maxRequestTime(); got != tt.slowest {
			t.Errorf("%s: a request may take %v, want %v", tt.name, got, tt.slowest)
		}
		if _, asBefore := g.api.(*api.Handler); asBefore != (tt.slowest == n.maxRequestTime) {
			t.Errorf("%s: requests are bounded as the servers were made for: %t", tt.name, asBefore)
		}
	}
}

// TestActivateReplacesTheRuntime: what a server reports about its schemes and certificates comes from the runtime in
// use. A new scheme has the card ranges that are in the store. The previous runtime does not end before its requests
// do.
func TestActivateReplacesTheRuntime(t *testing.T) {
	n, cfg := idleServer(t)
	var ended []*runtime
	n.startRuntime = func(g *runtime) { g.stopRefresh = func() { ended = append(ended, g) } }
	n.startRuntime(n.active)
	former := n.active
	former.requests.Add(1)
	n.metrics.Open("jcb", "VEReq", true)
	n.metrics.Open("sbn", "VEReq", true)

	var b ranges.Builder
	must(t, b.Add("3400000000000000", "3400009999999999", &ranges.Info{}))
	table, err := b.Build()
	must(t, err)
	_, err = directory.Import(t.Context(), n.db, "amex", "test", &ranges.Generation{Table: table, Version: message.V220})
	must(t, err)

	amex, upi, sbn := cfg.Peers[0], cfg.Peers[0], cfg.V1Peers[0]
	amex.Scheme, upi.Scheme, sbn.Scheme = "amex", "upi", "sbn"
	cfg.Peers, cfg.Directories = []directory.Peer{amex, upi}, []check.Directory{{Scheme: "amex"}, {Scheme: "upi"}}
	former.cfg.V1Directories = append(former.cfg.V1Directories, mpi.Directory{Scheme: "sbn"}) // which stays
	cfg.V1Peers, cfg.V1Directories = []directory.V1Peer{sbn}, []mpi.Directory{{Scheme: "sbn"}}
	cfg.CertificateEnds = map[string]time.Time{"api.tls.cert": noon}
	must(t, n.activate(t.Context(), cfg))

	if n.active == former || len(ended) != 1 || ended[0] != former {
		t.Errorf("%d runtimes were told to end, want the former one", len(ended))
	}
	if got := n.active.cards.Table("amex"); got == nil || got.Len() != 1 {
		t.Error("the card ranges in the store are not used")
	}
	exposed := metricsOf(n.metrics)
	for want, there := range map[string]bool{
		`threeds_card_ranges{scheme="amex"} 1`: true, `threeds_card_ranges{scheme="upi"} 0`: true, `threeds_card_ranges{scheme="visa"} `: false,
		`threeds_directory_open{message="VEReq",scheme="sbn"} `: true, `threeds_directory_open{message="VEReq",scheme="jcb"} `: false,
		`threeds_certificate_not_after_timestamp_seconds{key="api.tls.cert",scheme=""} `: true,
	} {
		if strings.Contains(exposed, "\n"+want) != there {
			t.Errorf("/metrics has %s: %t, want %t", want, !there, there)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.awaitDrained(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, and a request of the former runtime is not done", err)
	}
	former.requests.Done()
	must(t, n.awaitDrained(t.Context()))
}

// TestConnectionsAreCounted: connections of requestors and of directory servers are counted
// from their first byte to their last, and are among those that are parted with.
func TestConnectionsAreCounted(t *testing.T) {
	n, cfg := newIdleServer(t)
	var group errgroup.Group
	n.listen(&group)
	for _, l := range []net.Listener{cfg.API, cfg.Results} {
		c, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		waittest.Until(t, "the connection", func() bool { return n.connCount.Load() == 1 })
		// It is counted first, and then known to what parts with it.
		waittest.Until(t, "the connection to part with", func() bool { return n.keepAlive.CloseIdle() == 1 })
		must(t, c.Close())
		waittest.Until(t, "its end", func() bool { return n.connCount.Load() == 0 })
	}
	must(t, n.api.server.Close())
	must(t, n.results.server.Close())
	must(t, errors.Join(group.Wait(), n.active.client.Close(), n.active.v1.Close(), n.db.Close()))
}

// timed tells of the deadlines for reading that its connections are given.
type timed struct {
	net.Listener
	told chan<- time.Time
}

type timedConn struct {
	net.Conn
	told chan<- time.Time
}

func (l timed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return timedConn{c, l.told}, nil
}

func (c timedConn) SetReadDeadline(t time.Time) error {
	select {
	case c.told <- t:
	default:
	}
	return c.Conn.SetReadDeadline(t)
}

// TestNewConnectionMayBeSilent: a connection that nothing has come on has as long as one at rest,
// with requestors and directory servers alike.
func TestNewConnectionMayBeSilent(t *testing.T) {
	n, cfg := newIdleServer(t)
	told := make(chan time.Time, 1)
	n.api = n.newListener("api", timed{cfg.API, told}, 2, func(g *runtime) *tls.Config { return g.apiTLS })
	n.results = n.newListener("results", timed{cfg.Results, told}, 8, func(g *runtime) *tls.Config { return g.resultsTLS })
	var group errgroup.Group
	n.listen(&group)
	for _, l := range []net.Listener{cfg.API, cfg.Results} {
		start := time.Now()
		c, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		if got := (<-told).Sub(start); got < n.api.server.IdleTimeout {
			t.Errorf("%v for the first byte, want %v", got, n.api.server.IdleTimeout)
		}
		must(t, c.Close())
		waittest.Until(t, "its end", func() bool { return n.connCount.Load() == 0 })
		select {
		case <-told: // at its end
		default:
		}
	}
	must(t, n.api.server.Close())
	must(t, n.results.server.Close())
	must(t, errors.Join(group.Wait(), n.active.client.Close(), n.active.v1.Close(), n.db.Close()))
}

// TestListenerFails: a server that cannot accept any more does not stay, and says why.
func TestListenerFails(t *testing.T) {
	for name, broken := range map[string]func(Config) net.Listener{
		"api":     func(cfg Config) net.Listener { return cfg.API },
		"results": func(cfg Config) net.Listener { return cfg.Results },
	} {
		n, cfg := newIdleServer(t)
		n.active.cfg.LameDuck = time.Hour // not then
		must(t, broken(cfg).Close())
		if err := n.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "listener "+broken(cfg).Addr().String()) {
			t.Errorf("%s: %v, want an error of the listener", name, err)
		}
	}
}

// TestServerSweepsAndWatchesCertificates: a running node frees what has expired, and watches its certificates.
func TestServerSweepsAndWatchesCertificates(t *testing.T) {
	n, _ := newIdleServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- n.Run(ctx) }()
	for _, chore := range []string{"sweep", "watchExpiry"} {
		waittest.Until(t, chore, func() bool {
			stacks := make([]byte, 1<<20)
			return strings.Contains(string(stacks[:stdruntime.Stack(stacks, true)]), ".(*Server)."+chore+"(")
		})
	}
	cancel()
	must(t, <-ended)
}

// TestConfigThatCannotBeBuiltIsRefused: what no runtime can be made of is refused, at the start and at a
// reload; and so is a store that cannot be opened.
func TestConfigThatCannotBeBuiltIsRefused(t *testing.T) {
	n, cfg := idleServer(t)
	nowhere := cfg
	nowhere.StoreURL.Dir = filepath.Join(cfg.StoreURL.Dir, "threeds.db")
	if other, err := New(t.Context(), nowhere); err == nil || other != nil {
		t.Errorf("store: %v, want an error", err)
	}
	for what, change := range map[string]func(*Config){
		"directory server":       func(cfg *Config) { cfg.Peers = []directory.Peer{{Scheme: "visa"}} },
		"directory server of v1": func(cfg *Config) { cfg.V1Peers = []directory.V1Peer{{Scheme: "jcb"}} },
	} {
		changed := cfg
		change(&changed)
		changed.StoreURL.Dir = t.TempDir()
		if other, err := New(t.Context(), changed); err == nil || other != nil {
			t.Errorf("%s: %v, want an error at the start", what, err)
		}
		was := n.active
		if err := n.activate(t.Context(), changed); err == nil || n.active != was {
			t.Errorf("%s: %v, want an error at a reload, and the former runtime", what, err)
		}
	}
}

// A deadlined answer notes until when it may be written.
type deadlined struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlined) SetWriteDeadline(until time.Time) error {
	d.until = until
	return nil
}

// TestSlowerRuntimeHasTimeToAnswer: a request that may take longer than the servers were made for has as much
// time to be answered as it would have had there.
func TestSlowerRuntimeHasTimeToAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w deadlined
		served := false
		h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })
		withWriteTimeout(time.Minute, h).ServeHTTP(&answered.Writer{ResponseWriter: &w}, nil)
		if got, want := time.Until(w.until), listen.NewServer(h, time.Minute, slog.New(slog.DiscardHandler)).WriteTimeout; got != want || !served {
			t.Errorf("%v to answer, want %v; served: %t", got, want, served)
		}
	})
}

// metricsOf is what metrics expose.
func metricsOf(m *obs.Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// TestExchangesAreCounted: what happens at the directory servers, in the metrics.
func TestExchangesAreCounted(t *testing.T) {
	m := obs.NewMetrics()
	h := countingHooks(m)
	h.Exchanged("visa", "AReq", time.Second, nil)
	h.Exchanged("visa", "PReq", time.Second, &directory.Error{Kind: directory.Timeout})
	h.Exchanged("visa", "PReq", 0, &directory.Error{Kind: directory.Open})
	h.Exchanged("visa", "PReq", 0, &directory.Error{Kind: directory.Busy})
	h.Dropped("visa", "Erro")
	h.Refreshed("visa", 3, noon)
	h.Opened("visa", "AReq", true)
	h.Exchanged("jcb", "VEReq", time.Second, nil)
	h.Dropped("jcb", "Error")
	h.Opened("jcb", "VEReq", true)
	exposed := metricsOf(m)
	for _, want := range []string{
		`threeds_directory_requests_total{message="AReq",outcome="ok",scheme="visa"} 1`,
		`threeds_directory_requests_total{message="PReq",outcome="timeout",scheme="visa"} 1`,
		`threeds_directory_requests_total{message="Erro",outcome="dropped",scheme="visa"} 1`,
		`threeds_directory_requests_total{message="VEReq",outcome="ok",scheme="jcb"} 1`,
		`threeds_directory_requests_total{message="Error",outcome="dropped",scheme="jcb"} 1`,
		`threeds_directory_requests_total{message="PReq",outcome="open",scheme="visa"} 1`,
		`threeds_directory_seconds_sum{message="AReq",scheme="visa"} 1`,
		`threeds_directory_seconds_count{message="PReq",scheme="visa"} 1`, // of those that were begun
		`threeds_directory_seconds_count{message="VEReq",scheme="jcb"} 1`,
		`threeds_card_ranges{scheme="visa"} 3`,
		`threeds_directory_open{message="AReq",scheme="visa"} 1`,
		`threeds_directory_open{message="VEReq",scheme="jcb"} 1`,
	} {
		if !strings.Contains(exposed, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// TestD126PersonalDataByAReload: the engine of the next runtime gives the journal personal data, and the journal writes
// them, or neither does.
func TestD126PersonalDataByAReload(t *testing.T) {
	n, cfg := idleServer(t)
	var err error
	n.journal, err = n.newJournal(&JournalSettings{})
	must(t, err)
	n.startRuntime = func(g *runtime) { g.stopRefresh = func() {} }
	n.startRuntime(n.active)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for i, kept := range []time.Duration{0, 30 * 24 * time.Hour, 0} {
		cfg.Journal = &JournalSettings{Personal: kept}
		must(t, n.activate(t.Context(), cfg))
		if isOn := n.activeRuntime().engine.JournalsPersonal; isOn != (kept > 0) {
			t.Errorf("kept for %s: %t", kept, isOn)
		}
		id := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		n.journal.Add(journal.Entry{Kind: journal.Answered, Record: journal.Record{ID: id, Created: noon, Updated: noon}, Steps: []journal.Step{
			{Step: "areq", At: noon, Personal: []byte(`{"email":"ann@shop.example"}`)},
		}})
		n.journal.Run(ctx) // a journal that ends writes the entries that wait
		d, err := n.journal.Store.Show(t.Context(), id)
		must(t, err)
		if isWritten := d.Steps[0].Personal != nil; isWritten != (kept > 0) {
			t.Errorf("kept for %s: %s", kept, d.Steps[0].Personal)
		}
	}
	cfg.Journal = nil
	must(t, n.activate(t.Context(), cfg))
	if n.activeRuntime().engine.JournalsPersonal {
		t.Error("it keeps them although the next start has no journal")
	}
}
