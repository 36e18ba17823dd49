package directory

import (
	"bufio"
	"bytes"
	"context"
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

	"github.com/openthreeds/threeds/message"
)

// A trialled breaker, and what it told.
type trialled struct {
	*breaker
	told []string
}

func newTrialled() *trialled {
	b := &trialled{breaker: new(breaker)}
	b.announce(slog.New(slog.DiscardHandler), "visa", "AReq", func(scheme, message string, open bool) {
		b.told = append(b.told, fmt.Sprint(scheme, " ", message, " ", open))
	})
	b.begin()
	return b
}

// ask is a request that takes its time and ends so; it reports whether it was
// made at all.
func (b *trialled) ask(took time.Duration, err error) bool {
	start := time.Now()
	if b.enter(start) != nil {
		return false
	}
	time.Sleep(took)
	b.leave(start, time.Now(), 10*time.Second, err)
	return true
}

func failing(kind Kind) error { return &Error{"visa", kind, "words", 0, nil} }

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
		{"time-outs", func(b *trialled) {
			for range breakFailures {
				b.ask(10*time.Second, failing(Timeout))
			}
		}, true},
		{"time-outs of those who had no time", func(b *trialled) {
			for range 10 * breakFailures {
				b.ask(5*time.Second-1, failing(Timeout))
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
			b.off = true
			for range 10 * breakFailures {
				b.ask(time.Second, failing(Connect))
			}
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTrialled()
				test.fails(b)
				if b.open != test.want || len(b.told) != map[bool]int{false: 1, true: 2}[test.want] {
					t.Errorf("open: %t, want %t; told %q", b.open, test.want, b.told)
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
				fails, answers := kind == Connect || kind == Proxy || kind == Timeout, kind == 0 || kind == Status || kind == TooLarge || kind == Encoding
				b := newTrialled()
				for range 10 * breakFailures {
					b.ask(10*time.Second, err)
				}
				if b.open != fails {
					t.Errorf("alone: open %t", b.open)
				}
				b = newTrialled()
				for range 10 * breakFailures {
					b.ask(time.Second, failing(Connect))
					b.ask(10*time.Second, err)
				}
				if b.open == answers {
					t.Errorf("among failures: open %t", b.open)
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
		for !b.open {
			b.ask(time.Second, failing(Connect))
		}
		if err := b.enter(time.Now()); err == nil || err.(*Error).Kind != Open || err.(*Error).Text != "words" || !errors.Is(err, b.last) {
			t.Errorf("refused with %#v, want the words of the failure", err)
		}
		made := 0
		for range 1001 { // of a dead directory server, for a hundred seconds
			if b.ask(0, failing(Timeout)) {
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
			time.Sleep(trialEvery)
			hanging.Go(func() {
				if !b.ask(10*time.Second, failing(Timeout)) {
					t.Error("no trial, for another one hangs")
				}
			})
		}
		time.Sleep(time.Second)
		healed := time.Now()
		for !b.ask(time.Second, nil) {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(healed); b.open || took > 5*time.Second {
			t.Errorf("open: %t, %v after it had healed", b.open, took)
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
		b.announce(slog.New(slog.NewTextHandler(&out, nil)), "visa", "AReq", nil)
		for range 2*breakFailures + 1 {
			b.ask(breakTime/(2*breakFailures), failing(Connect))
		}
		if want := fmt.Sprint("failures=", 2*breakFailures+1); !b.open || !strings.Contains(out.String(), want) {
			t.Errorf("open: %t, the log says %q, want %s", b.open, out.String(), want)
		}
	})
}

// trip opens a breaker.
func (b *breaker) trip(failed *Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open, b.last, b.trial = true, failed, time.Now()
	b.told(true, failed, 0)
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
	c.peers["visa"].breaker.trip(&Error{"visa", Connect, "Connection refused", 0, nil})
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
	v1.peers["visa"].breaker.trip(&Error{"visa", Timeout, "Connection timeout", 0, nil})
	for _, test := range []struct {
		scheme, name string
		want         bool
	}{{"visa", "VEReq", false}, {"visa", "CRReq", true}, {"jcb", "VEReq", true}} {
		before := areqs.Load()
		_, err := v1.Exchange(t.Context(), test.scheme, test.name, "", []byte("<m/>"))
		if (err == nil) != test.want || areqs.Load()-before != map[bool]int64{true: 1}[test.want] {
			t.Errorf("%s of %s: %v, %d sent", test.name, test.scheme, err, areqs.Load()-before)
		}
	}
}

// TestDeadDirectory: one directory server takes connections and says nothing.
// It gets five times the requests of the other, whose own are all answered, in
// order, and never wait for the dead one's; when it lives again the next trial
// closes the breaker, over a new connection.
func TestDeadDirectory(t *testing.T) {
	ca := newAuthority(t)
	var dead atomic.Bool
	serving := serve(t, ca.server(), func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if dead.Load() {
			<-r.Context().Done()
			return
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
	a.MaxInFlight = 20
	c, _ := newClient(t, Hooks{}, a, b)
	p := c.peers["visa"]
	if _, err := send(t, c, "visa"); err != nil {
		t.Fatal(err)
	}
	p.Timeout = 500 * time.Millisecond // for silence; a first answer may take longer on a busy machine
	dead.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	kinds := make(map[Kind]int)
	for range 50 {
		load.Go(func() {
			for ctx.Err() == nil {
				_, err := c.Send(ctx, "visa", []byte("{}"), transID, message.V220, "")
				if e, ok := errors.AsType[*Error](err); ok {
					mu.Lock()
					kinds[e.Kind]++
					mu.Unlock()
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	var want []string
	for range 100 {
		id := newTransID()
		want = append(want, id)
		if _, err := c.Send(t.Context(), "mastercard", []byte("{}"), id, message.V231, ""); err != nil {
			t.Errorf("the other directory server: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if strings.Join(order, " ") != strings.Join(want, " ") {
		t.Errorf("the other directory server got %d requests, want %d in order", len(order), len(want))
	}
	p.breaker.mu.Lock()
	p.breaker.since = p.breaker.since.Add(-breakTime) // it has been dead for as long as it takes
	p.breaker.mu.Unlock()
	deadline := time.Now().Add(20 * time.Second)
	for refused := func() bool { mu.Lock(); defer mu.Unlock(); return kinds[Open] > 0 }; !refused(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not open")
		}
	}
	dead.Store(false)
	for err := error(failing(Open)); err != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not close")
		}
		_, err = c.Send(t.Context(), "visa", []byte("{}"), transID, message.V220, "")
	}
	cancel()
	load.Wait()
	t.Logf("of the dead directory: %v", kinds)
	if kinds[Timeout] == 0 || kinds[Busy] == 0 {
		t.Errorf("of the dead directory: %v, want time-outs, some busy, then open", kinds)
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
		b.announce(slog.New(slog.NewTextHandler(&log, nil)), "visa", "AReq", nil)
		for range breakFailures {
			b.ask(time.Second, failing(Connect))
		}
		for range 3 { // within the time of a trial
			b.ask(0, nil)
		}
		time.Sleep(trialEvery)
		b.ask(0, nil)
		got := strings.Split(strings.TrimSpace(log.String()), "\n")
		want := []string{
			`level=ERROR msg="directory cannot be reached, requests are refused at once" scheme=visa message=AReq failures=10 `,
			`level=WARN msg="directory answers again" scheme=visa message=AReq refused=3`,
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
				b.leave(start, time.Now(), patience, nil)
			}
			return b.leave(start, time.Now(), patience, err)
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
