package directory

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/peers/tunnel"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
	"github.com/openthreeds/threeds/message"
)

// fixed is what a peer needs whose certificate is there and not asked for.
func fixed(ca *authority) *tls.Config {
	return &tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{ca.issue(nil)}}
}

// follow has two clients, of both protocols, followed by those of other peers.
func follow(t *testing.T, c *Client, v1 *V1Client, peer Peer, v1Peer V1Peer, cards *ranges.Schemes) (*Client, *V1Client) {
	t.Helper()
	next, err := c.Next([]Peer{peer}, cards)
	if err != nil {
		t.Fatal(err)
	}
	v1Next, err := v1.Next([]V1Peer{v1Peer})
	if err != nil {
		t.Fatal(err)
	}
	c.Retire(next)
	v1.Retire(v1Next)
	return next, v1Next
}

// TestSame changes each field of a peer: none may be overlooked when a changed
// configuration decides which peers stay.
func TestSame(t *testing.T) {
	ca := newAuthority(t)
	certificate := fixed(ca)
	base := func() Peer {
		return Peer{
			Scheme: "visa", AReqURL: "https://a", PReqURL: "https://p", OperatorID: "1",
			RefNumber: func(message.Version) string { return "R" }, Versions: []message.Version{message.V210, message.V220},
			TLS: certificate, FileHosts: []string{"f"},
		}
	}
	if !base().equal(base()) {
		t.Error("two peers made alike differ")
	}
	for i := range reflect.TypeFor[Peer]().NumField() {
		p := base()
		v := reflect.ValueOf(&p).Elem().Field(i)
		name := reflect.TypeFor[Peer]().Field(i).Name
		switch f := v.Addr().Interface().(type) {
		case *string:
			*f += "x"
		case *int:
			*f++
		case *int64:
			*f++
		case *bool:
			*f = !*f
		case *time.Duration:
			*f++
		case *[]string:
			*f = append(*f, "x")
		case *[]message.Version:
			*f = (*f)[:1]
		case **message.Version:
			*f = new(message.V220)
		case *func(message.Version) string:
			*f = func(message.Version) string { return "other" }
		case **certs.RevocationPolicy:
			*f = ca.revokes()
		case **tls.Config:
			*f = fixed(ca) // another certificate of the same authority
		case **tunnel.Proxy:
			*f = &tunnel.Proxy{Address: "p:1"}
		default:
			t.Errorf("%s is of a type that the test does not know", name)
		}
		if base().equal(p) || p.equal(base()) {
			t.Errorf("another %s, and the peers count as the same", name)
		}
	}
	other := fixed(newAuthority(t))
	p := base()
	p.TLS = certificate.Clone()
	p.TLS.RootCAs = other.RootCAs
	if base().equal(p) {
		t.Error("another authority, and the peers count as the same")
	}
	v1 := V1Peer{Scheme: "visa", URL: "https://v", TLS: certificate}
	changed := v1
	changed.Fallback = "https://f"
	if !v1.equal(v1) || v1.equal(changed) {
		t.Error("peers of 3-D Secure 1 are not told apart")
	}
	changed = v1
	changed.Revoked = ca.revokes()
	if v1.equal(changed) || changed.equal(v1) {
		t.Error("another list, and the peers of 3-D Secure 1 count as the same")
	}
	changed = v1
	changed.Proxy = &tunnel.Proxy{Address: "p:1"}
	if v1.equal(changed) || changed.equal(v1) {
		t.Error("another proxy, and the peers of 3-D Secure 1 count as the same")
	}
	changed = v1
	changed.TLS = other
	if v1.equal(changed) {
		t.Error("another certificate, and the peers of 3-D Secure 1 count as the same")
	}
}

// TestNextBreaker: whether requests are refused is told of the peers in use alone. A
// configuration that is not taken up changes nothing of it, and neither do the last
// requests of a peer that was replaced because it was dead.
func TestNextBreaker(t *testing.T) {
	ca := newAuthority(t)
	open := make(map[string]bool)
	note := func(scheme, message string, is bool) { open[scheme+" "+message] = is }
	dead := &Error{Scheme: "visa", Kind: Timeout, Text: "words"}
	visa, jcb := peerAt("visa", "https://a", fixed(ca)), peerAt("jcb", "https://a", fixed(ca))
	log := slog.New(slog.DiscardHandler)
	first, err := New([]Peer{visa}, ranges.NewSchemes("visa"), storetest.NewMemory(time.Now), log, Hooks{Opened: note})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	first.peers["visa"].breaker.forceOpen(dead)
	visa.AReqURL = "https://b"
	if _, err := first.Next([]Peer{visa, jcb, {Scheme: "upi"}}, ranges.NewSchemes("visa", "jcb")); err == nil || len(open) != 1 || !open["visa AReq"] {
		t.Errorf("Next, that must fail: %v; open: %v", err, open)
	}
	next, err := first.Next([]Peer{visa, jcb}, ranges.NewSchemes("visa", "jcb"))
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	first.Retire(next)
	first.peers["visa"].breaker.forceOpen(dead)
	if len(open) != 2 || open["visa AReq"] || open["jcb AReq"] {
		t.Errorf("after the reload open: %v", open)
	}

	clear(open)
	v1 := V1Peer{Scheme: "visa", URL: "https://a", TLS: fixed(ca)}
	former, err := NewV1([]V1Peer{v1}, log, Hooks{Opened: note})
	if err != nil {
		t.Fatal(err)
	}
	defer former.Close()
	former.peers["visa"].breaker.forceOpen(dead)
	v1.URL = "https://b"
	later, err := former.Next([]V1Peer{v1})
	if err != nil || !open["visa VEReq"] {
		t.Fatalf("Next: %v; open: %v", err, open)
	}
	defer later.Close()
	former.Retire(later)
	former.peers["visa"].breaker.forceOpen(dead)
	if len(open) != 1 || open["visa VEReq"] {
		t.Errorf("after the reload open: %v", open)
	}
}

// TestNext: peers that stay keep their connections and are not asked for ranges
// anew; one that changes is begun anew with the ranges it had; what is on its way
// by the former client arrives.
func TestNext(t *testing.T) {
	ca := newAuthority(t)
	entered, leave := make(chan bool), make(chan bool)
	preqs := make(chan string, 10)
	at := func(scheme string) Peer {
		d := &ds{erros: make(chan string, 10), answer: func(w http.ResponseWriter, preq *message.Message) {
			preqs <- scheme
			io.WriteString(w, pres(preq, entry))
		}}
		return peerAt(scheme, serve(t, ca.server(), func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/areq/slow" {
				entered <- true
				<-leave
				io.WriteString(w, "late")
				return
			}
			d.ServeHTTP(w, r)
		}), fixed(ca))
	}
	visa, jcb := at("visa"), at("jcb")
	visa.AReqURL += "/slow"
	cards := ranges.NewSchemes("visa", "jcb")
	first, err := New([]Peer{visa, jcb}, cards, storetest.NewMemory(time.Now), slog.New(slog.DiscardHandler), Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	first.Resume(ctx)
	running.Go(func() { first.Run(ctx) })
	<-preqs
	<-preqs
	waittest.Until(t, "the card ranges of both", func() bool { return cards.Generation("visa") != nil && cards.Generation("jcb") != nil })
	answer := make(chan string)
	go func() {
		got, _ := send(t, first, "visa")
		answer <- got
	}()
	<-entered

	changed := visa
	changed.OperatorID = "other"
	if _, err := first.Next([]Peer{{Scheme: "visa"}}, cards); err == nil {
		t.Error("a peer without anything is taken")
	}
	next, err := first.Next([]Peer{jcb, changed}, cards.Next("jcb", "visa"))
	if err != nil {
		t.Fatal(err)
	}
	next.Resume(ctx)
	running.Go(func() { next.Run(ctx) })
	first.Retire(next)
	if next.node != first.node || next.node == "" {
		t.Errorf("the next client holds leases as %q, the first as %q", next.node, first.node)
	}
	if next.peers["jcb"] != first.peers["jcb"] || next.refreshers[0] != first.refreshers[1] {
		t.Error("a peer that has not changed was made anew")
	}
	if next.peers["visa"] == first.peers["visa"] {
		t.Error("a peer that has changed was kept")
	}
	if g := next.cards.Generation("visa"); g == nil || g != cards.Generation("visa") {
		t.Error("the card ranges of a peer that has changed are gone")
	}
	<-first.refreshers[0].done // ended by Retire
	close(leave)
	if got := <-answer; got != "late" {
		t.Errorf("what was on its way: %q", got)
	}
	first.Retire(next)
	cancel()
	running.Wait()
	if len(preqs) > 0 {
		t.Error("a directory server was asked for card ranges again")
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// stallingKeeper is a store that takes its time to keep the card ranges of one scheme.
type stallingKeeper struct {
	Keeper
	scheme         string
	entered, leave chan bool
}

func (k *stallingKeeper) PutSnapshot(ctx context.Context, s store.Snapshot, l store.Lease, content io.Reader, keep int) error {
	if s.Scheme == k.scheme {
		k.entered <- true
		<-k.leave
		return errors.New("away")
	}
	return k.Keeper.PutSnapshot(ctx, s, l, content, keep)
}

// TestNextNews: a PRes that is being stored when its directory is configured no more
// is told of to nobody; one whose directory has changed is, for its ranges are used.
func TestNextNews(t *testing.T) {
	for _, test := range []struct {
		name  string
		later []string // what is configured of visa, by operator, in one configuration after the other; "": nothing
		want  bool
	}{
		{"stays", nil, true},
		{"changed", []string{"other"}, true},
		{"gone", []string{""}, false},
		{"changed, then gone", []string{"other", ""}, false},
		{"gone, and back", []string{"", "other"}, false}, // by the one that was there before: the new one has yet to ask
	} {
		t.Run(test.name, func(t *testing.T) {
			ca := newAuthority(t)
			d := &ds{erros: make(chan string, 10), answer: func(w http.ResponseWriter, preq *message.Message) { io.WriteString(w, pres(preq, entry)) }}
			url := serve(t, ca.server(), d.ServeHTTP)
			visa, jcb := peerAt("visa", url, fixed(ca)), peerAt("jcb", url, fixed(ca))
			k := &stallingKeeper{storetest.NewMemory(time.Now), "visa", make(chan bool, 10), make(chan bool)}
			var mu sync.Mutex
			told := make(map[string]int)
			hooks := Hooks{Refreshed: func(scheme string, _ int, _ time.Time) {
				mu.Lock()
				defer mu.Unlock()
				told[scheme]++
			}}
			cards := ranges.NewSchemes("visa", "jcb")
			first, err := New([]Peer{visa, jcb}, cards, k, slog.New(slog.DiscardHandler), hooks)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				first.Run(ctx)
			}()
			<-k.entered
			now := first
			for _, operator := range test.later {
				peers, names := []Peer{jcb}, []string{"jcb"}
				if operator != "" {
					visa.OperatorID = operator
					peers, names = append(peers, visa), append(names, "visa")
				}
				next, err := now.Next(peers, now.cards.Next(names...))
				if err != nil {
					t.Fatal(err)
				}
				now.Retire(next)
				now = next
			}
			close(k.leave)
			if len(test.later) > 0 {
				<-first.refreshers[0].done // ended by Retire
			}
			got := func() int {
				mu.Lock()
				defer mu.Unlock()
				return told["visa"]
			}
			if test.want {
				waittest.Until(t, "the news", func() bool { return got() > 0 })
			}
			cancel()
			<-ended
			if n := got(); n > 0 != test.want {
				t.Errorf("told %d times, want any: %t", n, test.want)
			}
			now.Close()
			first.Close()
		})
	}
}
