package crash

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

	"github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
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
func (r *hookReceiver) register(t *testing.T, v *rig.Victim) {
	t.Helper()
	status, made := v.Call("/webhook-endpoints", rig.Object{"url": r.URL})
	if r.secret = made.Text("secret"); status != http.StatusCreated || r.secret == "" {
		t.Fatalf("no endpoint: %d %v", status, made)
	}
}

// count returns how many transactions have an event, how many have events of two ids, and how many deliveries there
// were of those that are asked for.
func (r *hookReceiver) count(ids map[string]rig.Object) (told, ambiguous, deliveries int) {
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
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	p.SetAnswer(rig.AnswerChallenge)
	r := newHookReceiver(t)
	v := rig.NewVictimAt(t, ca, p, place+
		"\nwebhooks: {allow: [127.0.0.0/8], http: true, timeout: 10s, retry: [1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s]}")
	led := rig.NewLedger(p)
	acknowledged := led.Watch()
	random := rand.New(rand.NewPCG(1, 2))
	v.Start()
	r.register(t, v)
	for i := range kills {
		v.UnderLoad(led, func() {
			if i%2 == 0 {
				select {
				case <-acknowledged:
				default:
				}
				<-acknowledged
				time.Sleep(time.Duration(random.Int64N(int64(2 * time.Millisecond)))) // any moment will do
				v.Kill()
				return
			}
			release := r.hold()
			<-r.arrived
			v.Kill()
			release()
		})
		v.Start()
		v.Check(led, 0)
	}
	v.Kill()
	v.Env = append(v.Env, rig.ChildClock+"=2m") // what the killed ones had begun to deliver is due again
	v.Start()
	waittest.Until(t, "an event of each result", func() bool {
		told, ambiguous, deliveries := r.count(led.Kept)
		if ambiguous > 0 {
			t.Fatalf("%d transactions have events of different ids", ambiguous)
		}
		if told < len(led.Kept) {
			return false
		}
		t.Logf("kills=%d results=%d deliveries=%d lost=0, one id each", kills, len(led.Kept), deliveries)
		return true
	})
	if led.Lost+led.Changed > 0 || len(led.Kept) < kills {
		t.Errorf("%d results, %d lost, %d changed", len(led.Kept), led.Lost, led.Changed)
	}
}

// TestW3NoEventIsLostWhenTheServerIsKilled: a result that /postauth hands out has its event, delivered at least once
// and always under one id, though the server dies by SIGKILL between the commit of the result and its delivery.
// HOOK_KILLS is how often.
func TestW3NoEventIsLostWhenTheServerIsKilled(t *testing.T) {
	t.Parallel() // what was cut on PostgreSQL is due 40 s later, by the clock of the database
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		killBeforeDelivery(t, rig.ReadCount(t, "HOOK_KILLS", 4), `store: {url: "file:data"}`)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		killBeforeDelivery(t, rig.ReadCount(t, "HOOK_KILLS", 2), rig.OnPostgres(t, pgtest.Get(t).Schema(t)))
	})
	if os.Getenv(pgtest.CitusVariable) != "" {
		t.Run("Citus", func(t *testing.T) {
			t.Parallel()
			killBeforeDelivery(t, rig.ReadCount(t, "HOOK_KILLS", 4), rig.OnCitus(t, pgtest.Citus(t)))
		})
	}
	if os.Getenv("HOOK_KILLS") == "" {
		return
	}
	t.Run("PostgreSQL 18", func(t *testing.T) {
		t.Parallel()
		killBeforeDelivery(t, 2, rig.OnPostgres(t, pgtest.Start18(t).Schema(t)))
	})
}
