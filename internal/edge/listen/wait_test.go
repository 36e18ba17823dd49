package listen_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/edge/listen"
)

// waitRoom is a server whose /wait waits until the request's time is over, and whose / answers immediately.
type waitRoom struct {
	t        *testing.T
	address  string
	waiting  chan string // the name of each request that waits from now on
	cutShort chan string // the names of those that were answered early
}

func newWaitRoom(t *testing.T, most int) *waitRoom {
	t.Helper()
	w := &waitRoom{t: t, waiting: make(chan string, 1000), cutShort: make(chan string, 1000)}
	s := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/wait" {
			return
		}
		name := r.URL.Query().Get("name")
		ctx, done := listen.Wait(rw, r)
		w.waiting <- name
		<-ctx.Done()
		if done() {
			w.cutShort <- name
		}
		_, _ = io.WriteString(rw, "as things stand")
	})}
	limiter := &listen.Limiter{Max: most, MaxHTTP2: most}
	limiter.Attach(s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.Serve(limiter.Listener(l)) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
	})
	return w
}

// waits opens a connection whose request waits.
func (w *waitRoom) waits(name string) net.Conn {
	w.t.Helper()
	c := w.sends("/wait?name=" + name)
	if got := <-w.waiting; got != name {
		w.t.Fatalf("%s waits, want %s", got, name)
	}
	return c
}

// sends opens a connection, and sends a request on it.
func (w *waitRoom) sends(path string) net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// TestOV6WaitersDoNotStarveOthers: when all connections wait, a request on a new one is served. The request that has
// waited longest is answered early, with the present state, and its connection ends.
func TestOV6WaitersDoNotStarveOthers(t *testing.T) {
	const most = 8
	w := newWaitRoom(t, most)
	var conns []net.Conn
	for i := range most {
		conns = append(conns, w.waits(fmt.Sprint(i)))
	}
	for i := range 3 {
		c := w.sends("/")
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("request %d of another: %v, %v", i, answer, err)
		}
		// An idle connection goes before one that waits longer if it was idle longer; this one is not.
		early := conns[i]
		answer, err = http.ReadResponse(bufio.NewReader(early), nil)
		if err != nil || answer.StatusCode != http.StatusOK || !answer.Close {
			t.Fatalf("the one that waited longest: %v, %v, want 200 and the end of the connection", answer, err)
		}
		if name := <-w.cutShort; name != fmt.Sprint(i) {
			t.Errorf("%s was answered early, want %d", name, i)
		}
		if text, err := io.ReadAll(early); err != nil {
			t.Errorf("after the answer: %q, %v, want the end", text, err)
		}
	}
}

// TestOV6AWaiterThatGoesOnIsInWork: a request that waits no more, and is not yet answered, is never evicted.
func TestOV6AWaiterThatGoesOnIsInWork(t *testing.T) {
	limiter := &listen.Limiter{Max: 1}
	goesOn, answers := make(chan bool), make(chan bool)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, done := listen.Wait(w, r)
		if done() {
			t.Error("the wait was cut short")
		}
		goesOn <- true
		<-answers
	})}
	closed := make(chan bool, 1)
	limiter.Closed = func() { closed <- true }
	limiter.Attach(s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(limiter.Listener(l)) }()
	defer func() { _ = s.Shutdown(context.Background()); <-served }()
	w := &waitRoom{t: t, address: l.Addr().String()}
	c := w.sends("/")
	<-goesOn
	other := w.sends("/")
	<-closed
	if text, err := io.ReadAll(other); len(text) > 0 {
		t.Errorf("the other was answered: %q, %v", text, err)
	}
	answers <- true
	if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%v, %v, want 200", answer, err)
	}
	_ = c.Close()
	waittest.Until(t, "the connection to be gone", func() bool { return limiter.Len() == 0 })
}

// TestOV6WaitersOfAParty: a party has Max places, and each place is free again when its request leaves.
func TestOV6WaitersOfAParty(t *testing.T) {
	w := &listen.Waiters{Max: 2}
	first, ok1 := w.Enter("shop")
	_, ok2 := w.Enter("shop")
	_, ok3 := w.Enter("shop")
	_, other := w.Enter("other")
	if !ok1 || !ok2 || ok3 || !other {
		t.Errorf("entered: %t, %t, %t, other %t, want two of the shop and one of the other", ok1, ok2, ok3, other)
	}
	first()
	if _, ok := w.Enter("shop"); !ok {
		t.Error("a place that was left is not free")
	}
}
