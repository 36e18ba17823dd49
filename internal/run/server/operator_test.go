package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// plainSealer hides nothing.
type plainSealer struct{}

func (plainSealer) Seal(_ string, plain []byte) []byte { return plain }

func (plainSealer) Open(_ string, sealed []byte) ([]byte, error) { return sealed, nil }

// operatorNode returns a node that looks for events of the operator, on a store that nodes share.
func operatorNode(db store.Store, cfg Config) *Server {
	cfg.Log, cfg.Now = slog.New(slog.DiscardHandler), time.Now
	s := &Server{cfg: cfg, db: db, timestamp: time.Now, active: &runtime{cfg: cfg}}
	s.hooks = &webhook.Service{Store: db, Sealer: plainSealer{}, Log: cfg.Log, Now: time.Now}
	s.hooks.Configure(cfg.Webhooks.forDeliveries(time.Now))
	return s
}

// toldOperator returns the events that the operator got, the oldest first: type, and some members of the data.
func toldOperator(t *testing.T, db store.Events) (all []string) {
	t.Helper()
	events, err := db.FindEvents(t.Context(), store.EventQuery{Now: time.Now(), Limit: 100})
	must(t, err)
	for _, e := range slices.Backward(events) {
		var body struct{ Data map[string]any }
		must(t, json.Unmarshal(e.Data, &body))
		all = append(all, e.Type+" "+fmt.Sprint(body.Data))
	}
	return all
}

// TestW2OperatorIsToldOncePerOccurrence: of two nodes that see a certificate end and card ranges grow old, each notice
// reaches the operator once, even if the nodes are restarted.
func TestW2OperatorIsToldOncePerOccurrence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.NewMemory(time.Now)
		began := time.Now()
		lease, err := db.Acquire(t.Context(), "ranges/visa", "test", time.Minute)
		must(t, err)
		status := func(loaded time.Time, fault string) {
			text := fmt.Sprintf(`{"loaded": %q, "fault": %q}`, loaded.UTC().Format(time.RFC3339Nano), fault)
			lease, err = db.Acquire(t.Context(), "ranges/visa", "test", time.Minute)
			must(t, err)
			must(t, db.PutState(t.Context(), "ranges/visa", []byte(text), lease))
		}
		status(began.Add(-5*time.Hour), "no answer")
		cfg := Config{
			Directories:     []check.Directory{{Scheme: "visa"}, {Scheme: "jcb"}},
			CertificateEnds: map[string]time.Time{"directories[0].client_cert": began.Add(8 * 24 * time.Hour), "results.tls.cert": began.Add(40 * 24 * time.Hour)},
		}
		cfg.Webhooks.Operator = []*webhook.Endpoint{webhook.OperatorEndpoint("https://ops.example/", webhook.NewSecret(), nil)}
		for range 2 { // the nodes are restarted
			ctx, stop := context.WithCancel(t.Context())
			for range 2 {
				go operatorNode(db, cfg).watchForOperator(ctx)
			}
			time.Sleep(30 * time.Hour)
			stop()
			synctest.Wait()
		}
		status(time.Now(), "")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for range 2 {
			go operatorNode(db, cfg).watchForOperator(ctx)
		}
		time.Sleep(7*time.Hour - 60*time.Hour + 8*24*time.Hour)
		got := toldOperator(t, db)
		loaded := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }
		certificate := func(expired bool) string {
			return fmt.Sprintf("certificate.expiring map[expired:%t expires:%s key:directories[0].client_cert scheme:visa]",
				expired, loaded(began.Add(8*24*time.Hour)))
		}
		stale := func(severity, fault string, at time.Time) string {
			return fmt.Sprintf("ranges.stale map[fault:%s loaded:%s scheme:visa severity:%s]", fault, loaded(at), severity)
		}
		want := []string{
			certificate(false),
			stale("warning", "no answer", began.Add(-5*time.Hour)),
			stale("error", "no answer", began.Add(-5*time.Hour)),
			certificate(false), // 7 days before the end
			stale("warning", "", began.Add(60*time.Hour)),
			stale("error", "", began.Add(60*time.Hour)),
			certificate(false), // a day before the end
			certificate(true),
		}
		if !slices.Equal(got, want) {
			t.Errorf("the operator was told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// headStore is a journal that has a newer head whenever it is asked.
type headStore struct {
	expiringStore
	n *int64
}

func (headStore) Expire(context.Context, time.Time) error         { return nil }
func (headStore) ExpireMessages(context.Context, time.Time) error { return nil }

func (s headStore) Head(context.Context, time.Time, *journal.ChainEnd) (journal.Head, error) {
	*s.n++
	return journal.Head{N: *s.n, Hash: []byte{1}, At: time.Now()}, nil
}

// TestA2OperatorIsToldHowFarTheJournalHasCome: once a day, with a number that can be compared later.
func TestA2OperatorIsToldHowFarTheJournalHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.NewMemory(time.Now)
		cfg := Config{}
		cfg.Webhooks.Operator = []*webhook.Endpoint{webhook.OperatorEndpoint("https://ops.example/", webhook.NewSecret(), nil)}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s := operatorNode(db, cfg)
		s.journal = journal.New(headStore{n: new(int64)}, journal.NewKeys(), slog.New(slog.DiscardHandler), time.Now)
		go s.journal.RunDuties(ctx)
		go s.watchForOperator(ctx)
		time.Sleep(49 * time.Hour)
		got := toldOperator(t, db)
		if len(got) != 3 || !strings.HasPrefix(got[0], "journal.head map[at:") || !strings.Contains(got[2], "keyId:"+s.journal.Keys.KeyID()+" number:") {
			t.Errorf("the operator was told\n%s", strings.Join(got, "\n"))
		}
		stop()
		synctest.Wait()
	})
}
