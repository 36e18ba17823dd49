package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/idempotency"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// newRing returns the secrets of a new key file.
func newRing(t *testing.T) *keyring.Ring {
	t.Helper()
	ring, err := keyring.LoadOrCreate(filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// A world is a keeper whose clock the test sets.
type world struct {
	*idempotency.Keeper
	t   *testing.T
	now time.Time
	db  *storetest.Memory
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return w.now }
	w.db = storetest.NewMemory(clock)
	w.Keeper = &idempotency.Keeper{Store: w.db, Sealer: newRing(t), Now: clock, Keep: 24 * time.Hour}
	return w
}

// order is a request of a merchant.
func order() idempotency.Request {
	return idempotency.Request{
		Merchant: "Shop", APIKey: "5a5a5a5a-0000-4000-8000-000000000001", Key: "order-17", Method: "POST", Path: "/lookup", Body: []byte("{}"),
	}
}

// begin wants a claim, an answer with a status, or an error.
func (w *world) claimKey(r idempotency.Request, status int, want error) *idempotency.Claim {
	w.t.Helper()
	c, kept, err := w.Begin(w.t.Context(), r)
	got := 0
	if kept != nil {
		got = kept.Status
	}
	if got != status || !errors.Is(err, want) || (c != nil) != (status == 0 && want == nil) {
		w.t.Fatalf("claim %t, status %d, %v, want status %d, %v", c != nil, got, err, status, want)
	}
	return c
}

func (w *world) finish(c *idempotency.Claim, status int) {
	w.t.Helper()
	header := http.Header{"Content-Type": {"application/json"}}
	if err := c.Finish(w.t.Context(), &idempotency.Answer{Status: status, Header: header, Body: []byte("secret answer")}); err != nil {
		w.t.Fatal(err)
	}
}

// TestF5KeyStandsForOneRequest: the key answers, waits or refuses for as long as answers are kept, and is then new.
func TestF5KeyStandsForOneRequest(t *testing.T) {
	w := newWorld(t)
	c := w.claimKey(order(), 0, nil)
	w.claimKey(order(), 0, idempotency.ErrInProgress)
	w.finish(c, 201)
	w.now = w.now.Add(24*time.Hour - time.Second)
	w.claimKey(order(), 201, nil)
	if _, kept, _ := w.Begin(t.Context(), order()); kept == nil || string(kept.Body) != "secret answer" || kept.Header.Get("Content-Type") == "" {
		t.Errorf("kept is %+v", kept)
	}
	w.now = w.now.Add(time.Second)
	if c = w.claimKey(order(), 0, nil); c.IsRepeat {
		t.Error("a key that is used anew repeats nothing")
	}
	w.finish(c, 200)
	w.now = w.now.Add(48 * time.Hour)
	w.claimKey(order(), 0, idempotency.ErrInProgress) // the row is expired, and its id is taken until the store sweeps
	if _, err := w.db.Sweep(t.Context(), w.now); err != nil {
		t.Fatal(err)
	}
	w.finish(w.claimKey(order(), 0, nil), 200)
}

// TestF5KeysBelongToAMerchant: another merchant's requests with the same key have nothing to do with it.
func TestF5KeysBelongToAMerchant(t *testing.T) {
	w := newWorld(t)
	w.finish(w.claimKey(order(), 0, nil), 201)
	other := order()
	other.Merchant, other.APIKey = "Other", "5a5a5a5a-0000-4000-8000-000000000002"
	w.finish(w.claimKey(other, 0, nil), 404)
	w.claimKey(order(), 201, nil)
	w.claimKey(other, 404, nil)
}

// TestD17OtherRequestIsRefused: method, path and body are compared, while the first is in work and afterwards.
func TestD17OtherRequestIsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.claimKey(order(), 0, nil)
	for range 2 {
		for name, change := range map[string]func(*idempotency.Request){
			"method":                              func(r *idempotency.Request) { r.Method = "PUT" },
			"path":                                func(r *idempotency.Request) { r.Path = "/explain" },
			"body":                                func(r *idempotency.Request) { r.Body = []byte("{ }") },
			"D1, another API key of the merchant": func(r *idempotency.Request) { r.APIKey = "5a5a5a5a-0000-4000-8000-000000000003" },
		} {
			r := order()
			change(&r)
			if _, kept, err := w.Begin(t.Context(), r); kept != nil || !errors.Is(err, idempotency.ErrMismatch) {
				t.Errorf("another %s: %+v, %v", name, kept, err)
			}
		}
		capitals := order()
		capitals.APIKey = "5A5A5A5A-0000-4000-8000-000000000001"
		if c != nil {
			w.claimKey(capitals, 0, idempotency.ErrInProgress)
			w.finish(c, 200)
			c = nil
			continue
		}
		w.claimKey(capitals, 200, nil)
	}
}

// TestD17DeadNodeLosesItsClaim: a claim counts for 60 s after its node was last seen. The next request repeats it, with
// the same secret, and the first one can no longer answer.
func TestD17DeadNodeLosesItsClaim(t *testing.T) {
	w := newWorld(t)
	dead := w.claimKey(order(), 0, nil)
	if err := dead.Note(t.Context(), "made"); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(59 * time.Second)
	w.claimKey(order(), 0, idempotency.ErrInProgress)
	w.now = w.now.Add(time.Second)
	next := w.claimKey(order(), 0, nil)
	if next.Noted() != "made" {
		t.Errorf("the second request finds the note %q", next.Noted())
	}
	if !next.IsRepeat || next.Derive("id") != dead.Derive("id") || next.Derive("id") == next.Derive("secret") {
		t.Error("the second request does not find what the first has made")
	}
	w.claimKey(order(), 0, idempotency.ErrInProgress)
	if err := dead.Finish(t.Context(), &idempotency.Answer{Status: 500}); err == nil {
		t.Error("the first request has overwritten the claim of the second")
	}
	w.finish(next, 201)
	w.claimKey(order(), 201, nil)
}

// TestD17ReleasedKeyIsFree: after an answer that is not kept the same request repeats it, and another one is new.
func TestD17ReleasedKeyIsFree(t *testing.T) {
	w := newWorld(t)
	first := w.claimKey(order(), 0, nil)
	seed := first.Derive("id")
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := w.claimKey(order(), 0, nil)
	if !again.IsRepeat || again.Derive("id") != seed {
		t.Error("the same request does not repeat the first")
	}
	if err := again.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := order()
	other.Body = []byte("[]")
	if c := w.claimKey(other, 0, nil); c.IsRepeat || c.Derive("id") == seed {
		t.Error("another request repeats the first")
	}
}

func TestD17WhatIsKept(t *testing.T) {
	for status, want := range map[int]bool{
		200: true, 201: true, 204: true, 400: true, 404: true, 422: true,
		0: false, 303: false, 401: false, 409: false, 429: false, 500: false, 503: false,
	} {
		if idempotency.IsKept(status) != want {
			t.Errorf("%d is kept: %t", status, !want)
		}
	}
}

// TestD1KeptAnswerNeedsTheAPIKey: the row has nothing readable. The key file alone opens neither the answer nor
// anything from which the body could be guessed.
func TestD1KeptAnswerNeedsTheAPIKey(t *testing.T) {
	w := newWorld(t)
	spy := &spySealer{Sealer: w.Sealer}
	w.Sealer = spy
	r := order()
	r.Body = []byte(`{"acctNumber":"3000100000000103"}`)
	w.finish(w.claimKey(r, 0, nil), 201)
	if len(spy.names) == 0 {
		t.Fatal("nothing was sealed")
	}
	isSecretUsed := false
	for name, plain := range spy.names {
		isSecretUsed = isSecretUsed || bytes.Contains([]byte(name), []byte(r.APIKey)) && bytes.Contains([]byte(name), []byte(r.Key))
		if !bytes.Contains([]byte(name), []byte(r.APIKey)) && (bytes.Contains(plain, []byte("secret answer")) || bytes.Contains(plain, []byte("fingerprint"))) {
			t.Errorf("the key file alone opens %q", plain)
		}
	}
	if !isSecretUsed {
		t.Error("nothing is sealed under the API key and the Idempotency-Key")
	}
}

// A spySealer remembers what was sealed under which name.
type spySealer struct {
	Sealer interface {
		Seal(name string, plain []byte) []byte
		Open(name string, sealed []byte) ([]byte, error)
	}
	names map[string][]byte
}

func (s *spySealer) Seal(name string, plain []byte) []byte {
	if s.names == nil {
		s.names = map[string][]byte{}
	}
	s.names[name] = plain
	return s.Sealer.Seal(name, plain)
}

func (s *spySealer) Open(name string, sealed []byte) ([]byte, error) {
	return s.Sealer.Open(name, sealed)
}

func TestIsKey(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 255))
	for key, want := range map[string]bool{"a": true, "a b~!": true, long: true, "": false, long + "x": false, "ä": false, "a\tb": false} {
		if idempotency.IsKey(key) != want {
			t.Errorf("%q is a key: %t", key, !want)
		}
	}
}

// TestF5ManyRequestsHaveOneEffectEach: 1,000 requests with 100 keys at once, at two keepers on one SQLite store.
func TestF5ManyRequestsHaveOneEffectEach(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.TempDir(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	requestAtOnce(t, db, db)
}

// requestAtOnce sends 1,000 requests with 100 keys at once to a keeper for each store.
func requestAtOnce(t *testing.T, stores ...store.Store) {
	ring := newRing(t)
	var effects atomic.Int64
	var all sync.WaitGroup
	var answers [100]sync.Map
	var finished [100]chan struct{} // closed when the request that holds the claim of a key has ended
	for i := range finished {
		finished[i] = make(chan struct{})
	}
	for i := range 1000 {
		all.Go(func() {
			k := &idempotency.Keeper{Store: stores[i%len(stores)], Sealer: ring, Now: time.Now, Keep: time.Hour}
			r := order()
			r.Key = fmt.Sprint("order-", i%100)
			for {
				claim, kept, err := k.Begin(context.Background(), r)
				switch {
				case errors.Is(err, idempotency.ErrInProgress):
					<-finished[i%100]
					continue
				case err != nil:
					t.Error(err)
				case kept != nil:
					answers[i%100].Store(string(kept.Body), true)
				default:
					body := fmt.Sprint("effect ", effects.Add(1))
					answers[i%100].Store(body, true)
					if err := claim.Finish(context.Background(), &idempotency.Answer{Status: 201, Body: []byte(body)}); err != nil {
						t.Error(err)
					}
					close(finished[i%100])
				}
				return
			}
		})
	}
	all.Wait()
	if n := effects.Load(); n != 100 {
		t.Errorf("%d effects, want 100", n)
	}
	for i := range answers {
		n := 0
		answers[i].Range(func(_, _ any) bool { n++; return true })
		if n != 1 {
			t.Errorf("key %d has %d answers", i, n)
		}
	}
}

// TestD127EraseFreesTheKeyOfAKeptAnswer: answers about a card, about an authentication or to a merchant are removed,
// and their keys may be used again. Other answers stay, and so does the claim of a request that is in progress.
func TestD127EraseFreesTheKeyOfAKeptAnswer(t *testing.T) {
	const pan, id = "4000000000000002", "00000000-0000-4000-8000-00000000ABCD"
	hashOf := func(pan string) []byte { return []byte("hash of " + pan) }
	newRequest := func(key, merchant, path, body string) idempotency.Request {
		r := order()
		r.Key, r.Merchant, r.Path, r.Body = key, merchant, path, []byte(body)
		return r
	}
	byCard := newRequest("card", "Shop", "/lookup", `{"acctNumber":"`+pan+`"}`)
	escaped := newRequest("escaped", "Shop", "/lookup", `{"acctNumber":"\u0034000000000000002"}`)
	separated := newRequest("separated", "Shop", "/lookup", `{"acctNumber":"4000 0000-0000 0002"}`)
	ofAgent := newRequest("agent", "Shop", "/delegate_authentication", `{"payment_method":{"number":"4000 0000 0000 0002"}}`)
	byPath := newRequest("path", "Shop", "/authentications/"+strings.ToLower(id)+"/cancel", "")
	byAnswer := newRequest("answer", "Shop", "/authentications/search", "{}")
	other := newRequest("other", "Shop", "/lookup", `{"acctNumber":"4000000000000010"}`)
	ofOther := newRequest("card", "Other", "/lookup", `{"acctNumber":"4000000000000010"}`)
	inWork := newRequest("in work", "Shop", "/lookup", `{"acctNumber":"`+pan+`"}`)
	for _, tt := range []struct {
		name     string
		merchant string
		ids      []string
		cards    [][]byte
		want     int
		gone     []idempotency.Request
	}{
		{"nothing", "", nil, nil, 0, nil},
		{"a card", "", nil, [][]byte{hashOf("another"), hashOf(pan)}, 4, []idempotency.Request{byCard, escaped, separated, ofAgent}},
		{"an authentication", "", []string{strings.ToUpper(id)}, nil, 2, []idempotency.Request{byPath, byAnswer}},
		{"a merchant", "Other", nil, nil, 1, []idempotency.Request{ofOther}},
	} {
		w := newWorld(t)
		db, err := sqlite.Open(t.TempDir(), sqlite.Options{Now: w.Now})
		if err != nil {
			t.Fatal(err)
		}
		w.Store, w.CardHash = db, hashOf
		answers := []idempotency.Request{byCard, escaped, separated, ofAgent, byPath, byAnswer, other, ofOther}
		for i := range answers {
			body := "{}"
			if answers[i].Key == byAnswer.Key {
				body = `{"data":[{"id":"` + id + `"}]}`
			}
			if err := w.claimKey(answers[i], 0, nil).Finish(t.Context(), &idempotency.Answer{Status: 200, Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
		}
		claim := w.claimKey(inWork, 0, nil)
		for _, want := range []int{tt.want, 0} { // a second time nothing is left
			if n, err := w.Erase(t.Context(), db, tt.merchant, tt.ids, tt.cards); n != want || err != nil {
				t.Errorf("%s: %d erased, %v, want %d", tt.name, n, err, want)
			}
		}
		isGone := func(r idempotency.Request) bool {
			return slices.ContainsFunc(tt.gone, func(g idempotency.Request) bool { return g.Key == r.Key && g.Merchant == r.Merchant })
		}
		for _, r := range answers {
			if !isGone(r) {
				w.claimKey(r, 200, nil)
			} else if c := w.claimKey(r, 0, nil); c == nil || c.IsRepeat {
				t.Errorf("%s: the key %q is not free", tt.name, r.Key)
			}
		}
		w.claimKey(inWork, 0, idempotency.ErrInProgress)
		if err := claim.Finish(t.Context(), &idempotency.Answer{Status: 200}); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
