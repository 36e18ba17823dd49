package directory

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/message"
)

// A trialled breaker, and what it told.
type trialled struct {
	*breaker
	told []string
}

func newTrialled() *trialled {
	b := &trialled{breaker: new(breaker)}
	b.setNotifications(slog.New(slog.DiscardHandler), "visa", "AReq", func(scheme, message string, open bool) {
		b.told = append(b.told, fmt.Sprint(scheme, " ", message, " ", open))
	})
	b.publishState()
	return b
}

// ask is a request that takes its time and ends so; it reports whether it was
// made at all.
func (b *trialled) ask(took time.Duration, err error) bool {
	return b.askFor("Shop", took, err)
}

// askFor is ask for a request of a merchant.
func (b *trialled) askFor(merchant string, took time.Duration, err error) bool {
	start := time.Now()
	if b.admit(start, merchant) != nil {
		return false
	}
	time.Sleep(took)
	b.record(start, time.Now(), 10*time.Second, err)
	return true
}

// failing is a failure after the request may have been delivered, if there are such of its kind.
func failing(kind Kind) error {
	return &Error{Scheme: "visa", Kind: kind, Text: "words", gone: kind == Connect || kind == Proxy}
}

// unreached is a failure that speaks of the directory server being gone.
func unreached(kind Kind) error { return &Error{Scheme: "visa", Kind: kind, Text: "words", gone: true} }

// TestBreakerOpens: at the limit, not before.
func TestBreakerOpens(t *testing.T) {
	const gap = breakTime / (breakFailures - 1)
	for _, test := range []struct {
		name  string
		fails func(b *trialled)
		want  bool
	}{
		{"so many, for so long", func(b *trialled) {
			for range breakFailures {
				b.ask(0, failing(Connect))
				time.Sleep(gap + 1)
			}
		}, true},
		{"one less", func(b *trialled) {
			for range breakFailures - 1 {
				b.ask(0, failing(Connect))
				time.Sleep(time.Minute)
			}
		}, false},
		{"many, but for a moment less", func(b *trialled) {
			for range 1000 {
				b.ask(0, failing(Connect))
			}
			time.Sleep(breakTime - 1)
			b.ask(0, failing(Connect))
		}, false},
		{"many, for that long", func(b *trialled) {
			for range 1000 {
				b.ask(0, failing(Connect))
			}
			time.Sleep(breakTime)
			b.ask(0, failing(Connect))
		}, true},
		{"no connection in time", func(b *trialled) {
			for range breakFailures {
				b.ask(10*time.Second, unreached(Timeout))
			}
		}, true},
		{"no connection in time for those who had no time", func(b *trialled) {
			for range 10 * breakFailures {
				b.ask(5*time.Second-1, unreached(Timeout))
			}
		}, false},
		{"no answer in time", func(b *trialled) {
			for range 10 * breakFailures {
				b.ask(10*time.Second, failing(Timeout))
			}
		}, false},
		{"new connections that end before an answer", func(b *trialled) {
			for range breakFailures {
				b.connected(time.Now())
				b.ask(time.Second, unreached(Broken))
			}
		}, true},
		{"used connections that end", func(b *trialled) {
			for range 10 * breakFailures {
				b.ask(time.Second, failing(Broken))
			}
		}, false},
		{"one connection among failures to connect", func(b *trialled) {
			for i := range 2*breakFailures - 2 {
				if i == breakFailures-1 {
					b.connected(time.Now())
				}
				b.ask(time.Second, failing(Connect))
			}
		}, false},
		{"one silent connection among those that end", func(b *trialled) {
			for i := range 2*breakFailures - 2 {
				if i == breakFailures-1 {
					b.ask(10*time.Second, failing(Timeout))
				}
				b.ask(time.Second, unreached(Broken))
			}
		}, false},
		{"one answer among them", func(b *trialled) {
			for i := range 2*breakFailures - 2 {
				if i == breakFailures-1 {
					b.ask(0, nil)
				}
				b.ask(time.Second, failing(Connect))
			}
		}, false},
		{"switched off", func(b *trialled) {
			b.disabled = true
			for range 10 * breakFailures {
				b.ask(time.Second, failing(Connect))
			}
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTrialled()
				test.fails(b)
				if b.isOpen != test.want || len(b.told) != map[bool]int{false: 1, true: 2}[test.want] {
					t.Errorf("open: %t, want %t; told %q", b.isOpen, test.want, b.told)
				}
			})
		})
	}
}

// TestBreakerCounts: what is an answer, what is none, and what says nothing.
func TestBreakerCounts(t *testing.T) {
	for kind := range Kind(len(kindNames)) {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var err error
				if kind != 0 {
					err = failing(kind)
				}
				fails, answers := kind == Connect || kind == Proxy, kind == 0 || kind == Status || kind == TooLarge || kind == Encoding
				b := newTrialled()
				for range 10 * breakFailures {
					b.ask(10*time.Second, err)
				}
				if b.isOpen != fails {
					t.Errorf("alone: open %t", b.isOpen)
				}
				b = newTrialled()
				for range 10 * breakFailures {
					b.ask(time.Second, failing(Connect))
					b.ask(10*time.Second, err)
				}
				if b.isOpen == answers {
					t.Errorf("among failures: open %t", b.isOpen)
				}
			})
		})
	}
}

// TestTrialsAreSharedAmongMerchants: one merchant asks all the time. Others who ask get trials all the same, in turns.
func TestTrialsAreSharedAmongMerchants(t *testing.T) {
	for _, test := range []struct {
		name  string
		every map[string]time.Duration // how often each merchant asks
		least map[string]int           // trials of each in a minute, at least
		all   int                      // trials in a minute, at least
	}{
		{"one alone", map[string]time.Duration{"A": time.Millisecond}, map[string]int{"A": 29}, 29},
		{"another asks each half second", map[string]time.Duration{"A": time.Millisecond, "B": 500 * time.Millisecond}, map[string]int{"A": 12, "B": 12}, 24},
		{"many at the same pace", map[string]time.Duration{"A": time.Millisecond, "B": time.Millisecond, "C": time.Millisecond, "D": time.Millisecond},
			map[string]int{"A": 7, "B": 7, "C": 7, "D": 7}, 29},
		{"one of three seldom asks", map[string]time.Duration{"A": time.Millisecond, "B": time.Millisecond, "C": 1900 * time.Millisecond},
			map[string]int{"A": 5, "B": 5, "C": 5}, 20},
		{"one has asked once and is gone", map[string]time.Duration{"A": time.Millisecond, "B": time.Hour}, map[string]int{"A": 28}, 28},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTrialled()
				for !b.isOpen {
					b.askFor("A", time.Second, failing(Connect))
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var mu sync.Mutex
				trials, all := make(map[string]int), 0
				var merchants sync.WaitGroup
				for name, every := range test.every {
					merchants.Go(func() {
						for ctx.Err() == nil {
							if b.askFor(name, 0, failing(Connect)) {
								mu.Lock()
								trials[name]++
								all++
								mu.Unlock()
							}
							select {
							case <-time.After(every):
							case <-ctx.Done():
							}
						}
					})
				}
				merchants.Wait()
				for name, least := range test.least {
					if trials[name] < least {
						t.Errorf("%s had %d trials of %d, want %d at least", name, trials[name], all, least)
					}
				}
				if all < test.all || all > 30 {
					t.Errorf("%d trials in a minute, want %d to 30", all, test.all)
				}
			})
		})
	}
}

// TestBreakerHeals: while it is open one request in two seconds is made; the
// first that is answered closes it, within five seconds.
func TestBreakerHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTrialled()
		for !b.isOpen {
			b.ask(time.Second, failing(Connect))
		}
		if err := b.admit(time.Now(), "Shop"); err == nil || err.(*Error).Kind != Open || err.(*Error).Text != "words" || !errors.Is(err, b.last) {
			t.Errorf("refused with %#v, want the words of the failure", err)
		}
		made := 0
		for range 1001 { // of a dead directory server, for a hundred seconds
			if b.ask(0, unreached(Timeout)) {
				made++
			}
			time.Sleep(100 * time.Millisecond)
		}
		if made != 50 {
			t.Errorf("%d trials in 100 s, want 50", made)
		}
		// Trials that hang do not keep the next from being made.
		var hanging sync.WaitGroup
		for range 3 {
			time.Sleep(trialInterval)
			hanging.Go(func() {
				if !b.ask(10*time.Second, unreached(Timeout)) {
					t.Error("no trial, for another one hangs")
				}
			})
		}
		time.Sleep(time.Second)
		healed := time.Now()
		for !b.ask(time.Second, nil) {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(healed); b.isOpen || took > 5*time.Second {
			t.Errorf("open: %t, %v after it had healed", b.isOpen, took)
		}
		for range 100 {
			if !b.ask(0, nil) {
				t.Error("refused, though it is closed")
			}
		}
		hanging.Wait() // what began before the answer is no failure of now
		if b.failures != 0 {
			t.Errorf("%d failures since the last answer", b.failures)
		}
		if got := strings.Join(b.told, ", "); got != "visa AReq false, visa AReq true, visa AReq false" {
			t.Errorf("told %s", got)
		}
	})
}

// TestBreakerCrowd: many at once. It opens once, lets one in two seconds through,
// and closes once.
func TestBreakerCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTrialled()
		var dead atomic.Bool
		var made atomic.Int64
		dead.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		var crowd sync.WaitGroup
		for i := range 200 {
			crowd.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				for ctx.Err() == nil {
					err := failing(Connect)
					if !dead.Load() {
						err = nil
					}
					if b.ask(0, err) {
						made.Add(1)
					}
					time.Sleep(200 * time.Millisecond)
				}
			})
		}
		time.Sleep(2*breakTime + time.Millisecond/2) // when nobody else does anything
		before := made.Load()
		time.Sleep(20 * time.Second)
		if n := made.Load() - before; n != 10 {
			t.Errorf("%d trials in 20 s, want 10", n)
		}
		dead.Store(false)
		time.Sleep(5 * time.Second)
		before = made.Load()
		time.Sleep(time.Second)
		if n := made.Load() - before; n != 1000 {
			t.Errorf("%d requests a second after it has healed, want 1000", n)
		}
		cancel()
		crowd.Wait()
		if len(b.told) != 3 {
			t.Errorf("told %q", b.told)
		}
	})
}

// TestBreakerTells: the log says how many requests failed, not how many it takes.
func TestBreakerTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		b := &trialled{breaker: new(breaker)}
		b.setNotifications(slog.New(slog.NewTextHandler(&out, nil)), "visa", "AReq", nil)
		for range 2*breakFailures + 1 {
			b.ask(breakTime/(2*breakFailures), failing(Connect))
		}
		if want := fmt.Sprint("failures=", 2*breakFailures+1); !b.isOpen || !strings.Contains(out.String(), want) {
			t.Errorf("open: %t, the log says %q, want %s", b.isOpen, out.String(), want)
		}
	})
}

// forceOpen opens a breaker.
func (b *breaker) forceOpen(failed *Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = failed
	b.trip(time.Now())
	b.onChange(true, failed, 0)
}

// TestOpenSpares: AReqs and VEReqs are refused with nothing sent. Card ranges are
// asked for and Erros delivered as ever, and the scheme's other protocol and
// other schemes go on.
func TestOpenSpares(t *testing.T) {
	var areqs atomic.Int64
	d, c, cards := newDS(t, nil, func(w http.ResponseWriter, preq *message.Message) { io.WriteString(w, pres(preq, entry)) })
	var told []string
	c.hooks.Exchanged = func(_, name string, _ time.Duration, err error) {
		if name == "AReq" {
			told = append(told, err.(*Error).Kind.String())
		}
	}
	c.peers["visa"].breaker.forceOpen(&Error{Scheme: "visa", Kind: Connect, Text: "Connection refused"})
	_, err := send(t, c, "visa")
	if err == nil || err.Kind != Open || err.Detail() != "Connection refused" || len(told) != 1 || told[0] != "open" {
		t.Errorf("AReq: %v, told %q", err, told)
	}
	if v := refreshOnce(t, c); v != fresh || cards.Lookup(card) == nil {
		t.Errorf("PReq: verdict %d", v)
	}
	c.Report(t.Context(), "visa", "", []byte(`{"messageType":"Erro"}`))
	c.Close()
	if len(d.erros) != 1 {
		t.Errorf("%d messages came beside the PReq, want the Erro", len(d.erros))
	}

	ca := newAuthority(t)
	address := serve(t, ca.server(), func(w http.ResponseWriter, _ *http.Request) {
		areqs.Add(1)
		io.WriteString(w, "<answer/>")
	})
	v1, _ := newV1(t, V1Peer{Scheme: "visa", URL: address, TLS: ca.client()}, V1Peer{Scheme: "jcb", URL: address, TLS: ca.client()})
	v1.peers["visa"].breaker.forceOpen(&Error{Scheme: "visa", Kind: Timeout, Text: "Connection timeout"})
	for _, test := range []struct {
		scheme, name string
		want         bool
	}{{"visa", "VEReq", false}, {"visa", "CRReq", true}, {"jcb", "VEReq", true}} {
		before := areqs.Load()
		_, err := v1.Exchange(t.Context(), test.scheme, "Shop", test.name, "", []byte("<m/>"))
		if (err == nil) != test.want || areqs.Load()-before != map[bool]int64{true: 1}[test.want] {
			t.Errorf("%s of %s: %v, %d sent", test.name, test.scheme, err, areqs.Load()-before)
		}
	}
}

// openByNow has a breaker that failed often enough open with the next failure, as if five seconds had passed.
func (b *breaker) openByNow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = b.since.Add(-breakTime)
}

// trialByNow has the next trial of an open breaker be due.
func (b *breaker) trialByNow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastTrial = b.lastTrial.Add(-trialInterval - trialReserve)
}

// TestDeadDirectory: one directory server takes connections and hangs up after a while, without an answer.
// It gets five times the requests of the other, whose own are all answered, in
// order, and never wait for the dead one's; when it lives again the next trial
// closes the breaker, over a new connection.
func TestDeadDirectory(t *testing.T) {
	ca := newAuthority(t)
	var dead atomic.Bool
	hangUp := make(chan struct{}) // the dead directory server hangs up on one request for each value
	serving := serve(t, ca.server(), func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if dead.Load() {
			<-hangUp
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "{}")
	})
	var order []string
	var mu sync.Mutex
	quick := serve(t, ca.server(), func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, r.Header.Get("X-Request-ID"))
		io.WriteString(w, "{}")
	})
	a, b := peerAt("visa", serving, ca.client()), peerAt("mastercard", quick, ca.client())
	a.MaxInFlight, a.Timeout = 20, time.Hour
	c, _ := newClient(t, Hooks{}, a, b)
	p := c.peers["visa"]
	if _, err := send(t, c, "visa"); err != nil {
		t.Fatal(err)
	}
	dead.Store(true)
	var load sync.WaitGroup
	kinds := make(map[Kind]int)
	count := func(kind Kind) int {
		mu.Lock()
		defer mu.Unlock()
		return kinds[kind]
	}
	turns := make(chan struct{}) // one for each request to the dead directory server
	for range 50 {
		load.Go(func() {
			for range turns {
				_, err := c.Send(t.Context(), "visa", "Shop", []byte("{}"), transID, message.V220, "")
				if e, ok := errors.AsType[*Error](err); ok {
					mu.Lock()
					kinds[e.Kind]++
					mu.Unlock()
				}
			}
		})
	}
	ask := func() {
		for range 5 {
			turns <- struct{}{}
		}
		select {
		case hangUp <- struct{}{}:
		default: // no request waits
		}
	}
	var want []string
	for range 100 {
		id := newTransID()
		want = append(want, id)
		if _, err := c.Send(t.Context(), "mastercard", "Shop", []byte("{}"), id, message.V231, ""); err != nil {
			t.Errorf("the other directory server: %v", err)
		}
		ask()
	}
	if strings.Join(order, " ") != strings.Join(want, " ") {
		t.Errorf("the other directory server got %d requests, want %d in order", len(order), len(want))
	}
	waittest.Until(t, "failures", func() bool { ask(); return count(Broken) >= breakFailures })
	p.breaker.openByNow()
	waittest.Until(t, "the breaker to open", func() bool { ask(); return count(Open) > 0 })
	dead.Store(false)
	close(hangUp)
	waittest.Until(t, "the breaker to close", func() bool {
		p.breaker.trialByNow()
		_, err := c.Send(t.Context(), "visa", "Shop", []byte("{}"), transID, message.V220, "")
		return err == nil
	})
	close(turns)
	load.Wait()
	t.Logf("of the dead directory: %v", kinds)
	if kinds[Broken] == 0 || kinds[Busy] == 0 {
		t.Errorf("of the dead directory: %v, want some that it hung up on, some busy, then open", kinds)
	}
}

// TestGoneDirectoryOpensTheBreaker: a directory server that makes no connection, or ends each new one without a byte
// of an answer, is not asked any more but for trials. It is again as soon as a connection to it is made, though no
// answer has come on it yet; one that ended them has to keep one. What was seen on the way of another message, a PReq
// say, does not count.
func TestGoneDirectoryOpensTheBreaker(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	good, foreign, strict := ca.server(), other.server(), ca.server()
	strict.ClientCAs = other.pool
	hangUp := func(conn net.Conn) { readRequest(bufio.NewReader(conn)) }
	for _, test := range []struct {
		name    string
		gone    func(conn net.Conn)
		kind    Kind
		text    string
		hangsUp bool // after the handshake
	}{
		{"resets connections", func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) }, Connect, "Connection reset", false},
		{"has another certificate", func(conn net.Conn) { _ = tls.Server(conn, foreign).Handshake() }, Connect,
			"Certificate of the directory server is not trusted", false},
		{"speaks no TLS", func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") }, Connect, "TLS handshake failed", false},
		{"refuses our certificate", func(conn net.Conn) { _ = tls.Server(conn, strict).Handshake() }, Broken, "", true},
		{"ends the connection after the request", func(conn net.Conn) { hangUp(tls.Server(conn, good)) }, Broken, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var healed atomic.Bool
			silent := make(chan bool, 100)
			end := make(chan struct{}) // closed when the silent directory servers may end
			defer close(end)
			address := serveRaw(t, nil, func(conn net.Conn) {
				if !healed.Load() {
					test.gone(conn)
					return
				}
				secured := tls.Server(conn, good)
				if hangUp(secured); secured.ConnectionState().HandshakeComplete {
					silent <- true
					go func() {
						<-end
						_ = conn.Close()
					}()
					_, _ = io.Copy(io.Discard, secured)
				}
			})
			opened := make(chan bool, 100)
			peer := peerAt("visa", address, ca.client())
			if peer.Timeout = time.Hour; test.hangsUp {
				peer.Timeout = 2 * time.Second
			}
			c, _ := newClient(t, Hooks{Opened: func(_, _ string, open bool) { opened <- open }}, peer)
			<-opened // what it is from the start
			b := &c.peers["visa"].breaker
			for i := range breakFailures {
				if i == breakFailures-1 {
					b.openByNow()
				}
				if _, err := send(t, c, "visa"); err == nil || err.Kind != test.kind || test.text != "" && err.Text != test.text {
					t.Fatalf("failure %d: %#v, want one of kind %v", i+1, err, test.kind)
				}
			}
			if !<-opened {
				t.Fatal("it does not open")
			}
			if _, err := send(t, c, "visa"); err == nil || err.Kind != Open {
				t.Fatalf("after that: %v, want a refusal", err)
			}
			b.trialByNow()
			if _, err := send(t, c, "visa"); err == nil || err.Kind != test.kind {
				t.Errorf("a trial: %v, want kind %v", err, test.kind)
			}
			healed.Store(true)
			c.Report(t.Context(), "visa", "", []byte("{}"))
			<-silent
			if len(opened) > 0 {
				t.Error("it closes for the connection of an Erro")
			}
			b.trialByNow()
			var trial sync.WaitGroup
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			trial.Go(func() {
				_, err := c.Send(ctx, "visa", "Shop", []byte("{}"), transID, message.V220, "")
				if e, ok := errors.AsType[*Error](err); test.hangsUp && (!ok || e.Kind != Timeout) || err == nil {
					t.Errorf("the trial that heals it: %v, want a time-out, or the end of the caller", err)
				}
			})
			<-silent
			if test.hangsUp {
				trial.Wait()
			}
			if <-opened {
				t.Error("it opens again")
			}
			giveUp()
			trial.Wait()
		})
	}
}

// TestOnlyAnUndeliveredTimeoutSpeaksOfAGoneDirectory: a directory server that takes a request and is silent is there.
// One that takes TCP connections and makes no handshake is not.
func TestOnlyAnUndeliveredTimeoutSpeaksOfAGoneDirectory(t *testing.T) {
	ca := newAuthority(t)
	good := ca.server()
	for name, test := range map[string]struct {
		take func(conn net.Conn)
		gone bool
	}{
		"silent after the request": {func(conn net.Conn) {
			secured := tls.Server(conn, good)
			readRequest(bufio.NewReader(secured))
			_, _ = io.Copy(io.Discard, secured)
		}, false},
		"silent after some of the answer": {func(conn net.Conn) {
			secured := tls.Server(conn, good)
			readRequest(bufio.NewReader(secured))
			_, _ = io.WriteString(secured, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{")
			_, _ = io.Copy(io.Discard, secured)
		}, false},
		"no handshake": {func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := peerAt("visa", serveRaw(t, nil, test.take), ca.client())
			p.Timeout = time.Second
			c, _ := newClient(t, Hooks{}, p)
			if _, err := send(t, c, "visa"); err == nil || err.Kind != Timeout || err.gone != test.gone {
				t.Errorf("%#v, want a time-out that speaks of a gone directory server: %t", err, test.gone)
			}
		})
	}
}

// TestForgottenConnections: a firewall has forgotten the connections that were
// open, and lets packets vanish. One request pays for it, the next one goes over
// a new connection.
func TestForgottenConnections(t *testing.T) {
	ca := newAuthority(t)
	var forgotten atomic.Bool
	var connects atomic.Int64
	three := make(chan struct{}) // closed when so many requests are there, which need as many connections
	enough := sync.OnceFunc(func() { close(three) })
	address := serveRaw(t, ca.server(), func(conn net.Conn) {
		n := connects.Add(1)
		first := n <= 3
		r := bufio.NewReader(conn)
		for readRequest(r) != nil {
			if first && forgotten.Load() {
				io.Copy(io.Discard, conn)
				return
			}
			if n == 3 {
				enough()
			}
			select {
			case <-three:
			case <-t.Context().Done():
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 36\r\n\r\n"+transID)
		}
	})
	p := peerAt("visa", address, ca.client())
	p.Timeout = 2 * time.Second
	c, _ := newClient(t, Hooks{}, p)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { send(t, c, "visa") })
	}
	wg.Wait()
	forgotten.Store(true)
	if _, err := send(t, c, "visa"); err == nil || err.Kind != Timeout {
		t.Errorf("over a forgotten connection: %v", err)
	}
	if _, err := send(t, c, "visa"); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// TestBreakerLog: operators read when requests are refused, and of how many when it is
// over.
func TestBreakerLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := newTrialled()
		b.setNotifications(slog.New(slog.NewTextHandler(&log, nil)), "visa", "AReq", nil)
		for range breakFailures {
			b.ask(time.Second, failing(Connect))
		}
		for range 3 { // within the time of a trial
			b.ask(0, nil)
		}
		time.Sleep(trialInterval)
		b.ask(0, nil)
		got := strings.Split(strings.TrimSpace(log.String()), "\n")
		want := []string{
			`level=ERROR msg="directory cannot be reached, requests are refused immediately" scheme=visa message=AReq failures=10 `,
			`level=WARN msg="directory can be reached again" scheme=visa message=AReq refused=3`,
		}
		if len(got) != len(want) || !strings.Contains(got[0], want[0]) || !strings.HasSuffix(got[1], want[1]) {
			t.Errorf("the log is\n%s\nwant\n%s", log.String(), strings.Join(want, "\n"))
		}
	})
}

// TestDeadConnections: connections are given up when a request had its time and in all
// of it nobody got an answer.
func TestDeadConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 10 * time.Second
		b := newTrialled()
		ends := func(took time.Duration, answered bool, err error) bool {
			start := time.Now()
			time.Sleep(took)
			if answered {
				b.record(start, time.Now(), patience, nil)
			}
			return b.record(start, time.Now(), patience, err)
		}
		for _, tt := range []struct {
			name     string
			took     time.Duration
			answered bool // was another meanwhile
			err      error
			want     bool
		}{
			{"no answer in time", patience, false, failing(Timeout), true},
			{"in half of the time", patience / 2, false, failing(Timeout), true},
			{"it was not given its time", patience/2 - 1, false, failing(Timeout), false},
			{"another was answered", patience, true, failing(Timeout), false},
			{"no connection", patience, false, failing(Connect), false},
			{"an answer", patience, false, failing(Status), false},
		} {
			if got := ends(tt.took, tt.answered, tt.err); got != tt.want {
				t.Errorf("%s: dead: %t, want %t", tt.name, got, tt.want)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestBreakerStateNamesTheFirstFailure: the state of a breaker says since when requests fail, and how, from the first
// failure on; after an answer it says nothing of them.
func TestBreakerStateNamesTheFirstFailure(t *testing.T) {
	p := &peer{}
	p.breaker.onChange, p.breaker.publish = func(bool, *Error, int64) {}, func() {}
	c := &Client{peers: map[string]*peer{"visa": p}}
	start := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	p.breaker.record(start, start.Add(time.Second), 10*time.Second, failing(Connect))
	if got := c.Breaker("visa"); !got.Since.Equal(start.Add(time.Second)) || got.Fault != "words" || got.Open {
		t.Errorf("after a failure: %+v, want its time and its words", got)
	}
	p.breaker.record(start.Add(time.Minute), start.Add(time.Minute), 10*time.Second, nil)
	if got := c.Breaker("visa"); !got.Since.IsZero() || got.Fault != "" {
		t.Errorf("after an answer: %+v, want nothing of the failure", got)
	}
}
