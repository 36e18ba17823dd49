package main

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
)

// A hookReceiver is the endpoint of a merchant. It notes what it was told.
type hookReceiver struct {
	*httptest.Server
	secret string

	mu       sync.Mutex
	events   map[string]map[string]int // deliveries by threeDSServerTransID and webhook-id
	isHeld   bool                      // deliveries wait until release, and are answered by nobody
	released chan struct{}
	arrived  chan struct{} // receives when a delivery came while isHeld
}

func newHookReceiver(t *testing.T) *hookReceiver {
	r := &hookReceiver{events: make(map[string]map[string]int), arrived: make(chan struct{}, 1)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sender was killed
		}
		r.mu.Lock()
		isHeld, released := r.isHeld, r.released
		r.mu.Unlock()
		if isHeld {
			select {
			case r.arrived <- struct{}{}:
			default:
			}
			<-released
			return
		}
		verifier, err := standardwebhooks.NewWebhook(r.secret)
		if err == nil {
			err = verifier.Verify(raw, req.Header)
		}
		var body struct {
			ID   string
			Data struct{ ID string }
		}
		if err == nil {
			err = json.Unmarshal(raw, &body)
		}
		if err != nil || body.ID != req.Header.Get("webhook-id") {
			t.Errorf("event %s: %v", body.ID, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.events[body.Data.ID] == nil {
			r.events[body.Data.ID] = make(map[string]int)
		}
		r.events[body.Data.ID][body.ID]++
	}))
	t.Cleanup(r.Close)
	return r
}

// hold has deliveries wait from now on, until release.
func (r *hookReceiver) hold() (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.arrived:
	default:
	}
	r.isHeld, r.released = true, make(chan struct{})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.isHeld = false
		close(r.released)
	}
}

// register adds the receiver to a server's endpoints.
func (r *hookReceiver) register(t *testing.T, v *victim) {
	t.Helper()
	status, made := v.call("/webhook-endpoints", object{"url": r.URL})
	if r.secret = made.text("secret"); status != http.StatusCreated || r.secret == "" {
		t.Fatalf("no endpoint: %d %v", status, made)
	}
}

// count returns how many transactions have an event, how many have events of two ids, and how many deliveries there were
// of those that are asked for.
func (r *hookReceiver) count(ids map[string]object) (told, ambiguous, deliveries int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range ids {
		if len(r.events[id]) > 0 {
			told++
		}
		if len(r.events[id]) > 1 {
			ambiguous++
		}
		for _, n := range r.events[id] {
			deliveries += n
		}
	}
	return told, ambiguous, deliveries
}

// killBeforeDelivery kills a server as often as kills says, in turns at once after it has acknowledged a result, and
// while it delivers. In the end each result that /postauth hands out was delivered, always under one id.
func killBeforeDelivery(t *testing.T, kills int, place string) {
	t.Helper()
	ca := newAuthority(t)
	p := newPeer(t, ca)
	p.setAnswer(challenges)
	r := newHookReceiver(t)
	v := newVictimAt(t, ca, p, place+keptLong+
		"\nwebhooks: {allow: [127.0.0.0/8], http: true, timeout: 1s, retry: [1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s]}")
	led := newLedger(p)
	acknowledged := led.watch()
	random := rand.New(rand.NewPCG(1, 2))
	v.start()
	r.register(t, v)
	for i := range kills {
		v.underLoad(led, func() {
			if i%2 == 0 {
				select {
				case <-acknowledged:
				default:
				}
				<-acknowledged
				time.Sleep(time.Duration(random.Int64N(int64(2 * time.Millisecond))))
				v.kill()
				return
			}
			release := r.hold()
			<-r.arrived
			v.kill()
			release()
		})
		v.start()
		v.check(led, 0)
	}
	v.kill()
	v.env = append(v.env, childClock+"=2m") // what the killed ones had begun to deliver is due again
	v.start()
	deadline := time.Now().Add(time.Minute)
	for {
		told, ambiguous, deliveries := r.count(led.kept)
		if ambiguous > 0 {
			t.Fatalf("%d transactions have events of different ids", ambiguous)
		}
		if told == len(led.kept) {
			t.Logf("kills=%d results=%d deliveries=%d lost=0, one id each", kills, len(led.kept), deliveries)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d results have no event", len(led.kept)-told, len(led.kept))
		}
		time.Sleep(20 * time.Millisecond)
	}
	if led.lost+led.changed > 0 || len(led.kept) < kills {
		t.Errorf("%d results, %d lost, %d changed", len(led.kept), led.lost, led.changed)
	}
}

// TestW3NoEventIsLostWhenTheServerIsKilled: a result that /postauth hands out has its event, delivered at least once and
// always under one id, though the server dies by SIGKILL between the commit of the result and its delivery. HOOK_KILLS is
// how often.
func TestW3NoEventIsLostWhenTheServerIsKilled(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		killBeforeDelivery(t, readCount(t, "HOOK_KILLS", 4), `store: {url: "file:data"}`)
	})
	if os.Getenv("HOOK_KILLS") == "" {
		return
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		database := pgtest.Get(t)
		killBeforeDelivery(t, readCount(t, "HOOK_KILLS", 4), onPostgres(t, database.Schema(t)))
	})
}
