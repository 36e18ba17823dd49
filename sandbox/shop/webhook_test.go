package shop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// hookSecret signs the events of the notifier.
const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="

// A notifier plays the part of a 3DS server that the short way needs, in the same process and without a network.
type notifier struct {
	t *testing.T

	mu        sync.Mutex
	endpoints []string             // their ids
	added     int                  // endpoints, ever
	asked     int                  // for an authentication
	reference map[string]string    // of each authentication, by its id
	onCreate  func(id, ref string) // before the answer to POST /authentications
	refuses   bool                 // answers POST /authentications with a problem
}

// RoundTrip answers a call of the shop.
func (n *notifier) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.URL.Path == "/webhook-endpoints" {
		time.Sleep(time.Second) // in which other payments begin
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch call := r.Method + " " + r.URL.Path; {
	case call == "GET /webhook-endpoints":
		var all []object
		for _, id := range n.endpoints {
			all = append(all, object{"id": id, "description": hookDescription})
		}
		n.write(w, 200, object{"data": all, "next": nil})
	case call == "POST /webhook-endpoints":
		n.added++
		id := fmt.Sprintf("ep_%d", n.added)
		n.endpoints = append(n.endpoints, id)
		n.write(w, 201, object{"id": id, "secret": hookSecret})
	case r.Method == "DELETE":
		n.endpoints = nil
		w.WriteHeader(204)
	case call == "POST /authentications" && n.refuses:
		w.Header().Set("Content-Type", "application/problem+json")
		n.write(w, 400, object{"type": "urn:threeds:problem:invalid", "title": "no"})
	case call == "POST /authentications":
		var body struct{ Reference string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			n.t.Error(err)
		}
		id := fmt.Sprintf("6e1f0a52-97d8-4c00-8000-%012d", len(n.reference)+1)
		n.reference[id] = body.Reference
		if n.onCreate != nil {
			n.onCreate(id, body.Reference)
		}
		n.write(w, 201, object{"id": id, "status": "requires_browser"})
	default:
		n.asked++
		n.write(w, 200, authenticationObject(strings.TrimPrefix(r.URL.Path, "/authentications/"), "", "not_authenticated"))
	}
	return w.Result(), nil
}

func (n *notifier) write(w *httptest.ResponseRecorder, status int, body object) {
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		n.t.Error(err)
	}
}

// authenticationObject is an authentication that has ended.
func authenticationObject(id, reference, result string) object {
	return object{"id": id, "reference": reference, "status": "completed", "card": object{"last4": "7890"},
		"outcome": object{"result": result, "next": object{"action": "authorise", "because": "It is a test."}}}
}

// newNotifiedShop returns a shop that gets events from a notifier.
func newNotifiedShop(t *testing.T) (*Shop, *notifier) {
	n := &notifier{t: t, reference: make(map[string]string)}
	return &Shop{API: "http://127.0.0.1:8080", APIKey: testKey, HookURL: "http://127.0.0.1:8080/hooks", Client: &http.Client{Transport: n}}, n
}

// serve makes a request of the shop.
func serve(s *Shop, method, target, body string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1"+target, strings.NewReader(body))
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// beginPayment begins a payment of the short way and returns the id of its authentication.
func beginPayment(t *testing.T, s *Shop) string {
	t.Helper()
	w := serve(s, "POST", "/pay", `{"card":"4000 0012 3456 7890","expiry":"3012"}`, nil)
	var got struct{ ID string }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got.ID == "" {
		t.Fatalf("POST /pay: %d %s", w.Code, w.Body)
	}
	return got.ID
}

// signedEvent returns an event and the headers of its delivery.
func signedEvent(t *testing.T, event string, data object) (string, http.Header) {
	t.Helper()
	body, err := json.Marshal(object{"id": event, "type": "authentication.completed", "timestamp": time.Now(), "data": data})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := standardwebhooks.NewWebhook(hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer.Sign(event, time.Now(), body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), http.Header{
		"Webhook-Id": {event}, "Webhook-Timestamp": {fmt.Sprint(time.Now().Unix())}, "Webhook-Signature": {signature},
	}
}

// deliver delivers a signed event, and wants a status.
func deliver(t *testing.T, s *Shop, event string, data object, want int) {
	t.Helper()
	body, header := signedEvent(t, event, data)
	if w := serve(s, "POST", HookPath, body, header); w.Code != want {
		t.Errorf("%s: status %d, want %d: %s", event, w.Code, want, w.Body)
	}
}

// wantOrder wants texts on the page of an order.
func wantOrder(t *testing.T, s *Shop, id string, want ...string) {
	t.Helper()
	page := serve(s, "GET", "/order?authentication="+id, "", nil).Body.String()
	for _, text := range want {
		if !strings.Contains(page, text) {
			t.Errorf("the page of %s has no %q:\n%s", id, text, page)
		}
	}
}

// TestW1EventEndsThePayment: the first event ends a payment, and the page says so without asking the server. Another
// event, and the same one again, change nothing.
func TestW1EventEndsThePayment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newNotifiedShop(t)
		id := beginPayment(t, s)
		data := authenticationObject(id, n.reference[id], "authenticated")
		deliver(t, s, "evt_1", data, 204)
		at := time.Now().UTC().Format(time.TimeOnly)
		time.Sleep(time.Minute)
		deliver(t, s, "evt_1", data, 204)
		deliver(t, s, "evt_2", authenticationObject(id, n.reference[id], "rejected"), 204)
		wantOrder(t, s, id, "authenticated: authorise", "Pushed", "at "+at+" UTC", "<code>evt_1</code>")
		if n.asked > 0 {
			t.Errorf("the shop asked %d times", n.asked)
		}
	})
}

// TestW1WrongEventsChangeNothing: an event that is unsigned, changed, signed with another secret, too old, or about
// another authentication does not end a payment, even if it has the reference of the payment.
func TestW1WrongEventsChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newNotifiedShop(t)
		early, header := signedEvent(t, "evt_0", object{})
		if w := serve(s, "POST", HookPath, early, header); w.Code != 401 {
			t.Errorf("before there is an endpoint: %d", w.Code)
		}
		id := beginPayment(t, s)
		data := authenticationObject(id, n.reference[id], "authenticated")
		body, header := signedEvent(t, "evt_1", data)
		without := func(name string) http.Header {
			h := header.Clone()
			delete(h, name)
			return h
		}
		renamed := header.Clone()
		renamed.Set("Webhook-Id", "evt_2")
		foreign := header.Clone()
		signer, err := standardwebhooks.NewWebhookRaw([]byte("another secret"))
		if err != nil {
			t.Fatal(err)
		}
		signature, err := signer.Sign("evt_1", time.Now(), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		foreign.Set("Webhook-Signature", signature)
		for name, c := range map[string]struct {
			body   string
			header http.Header
		}{
			"unsigned":       {body, without("Webhook-Signature")},
			"without time":   {body, without("Webhook-Timestamp")},
			"without id":     {body, without("Webhook-Id")},
			"other id":       {body, renamed},
			"other secret":   {body, foreign},
			"other body":     {strings.Replace(body, "authenticated", "rejected", 1), header},
			"nothing at all": {"", nil},
		} {
			if w := serve(s, "POST", HookPath, c.body, c.header); w.Code != 401 {
				t.Errorf("%s: %d", name, w.Code)
			}
		}
		large := authenticationObject(id, n.reference[id], "authenticated")
		large["padding"] = strings.Repeat(" ", maxEvent)
		deliver(t, s, "evt_2", large, 401)
		time.Sleep(6 * time.Minute)
		if w := serve(s, "POST", HookPath, body, header); w.Code != 401 {
			t.Errorf("after six minutes: %d", w.Code)
		}
		other := "6e1f0a52-97d8-4c00-8000-ffffffffffff"
		deliver(t, s, "evt_3", authenticationObject(other, n.reference[id], "authenticated"), 204)
		deliver(t, s, "evt_4", object{"id": id, "reference": n.reference[id], "status": "challenge"}, 204)
		deliver(t, s, "evt_5", authenticationObject(id, "of-nobody", "authenticated"), 204)
		deliver(t, s, "evt_6", object{}, 204)
		wantOrder(t, s, id, "not_authenticated: authorise", "Asked")
		if n.asked != 1 {
			t.Errorf("the shop asked %d times, want 1", n.asked)
		}
	})
}

// TestW1EventBeforeTheAnswer: an event that overtakes the answer to POST /authentications ends the payment.
func TestW1EventBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newNotifiedShop(t)
		delivered := make(chan int, 1)
		n.onCreate = func(id, ref string) {
			body, header := signedEvent(t, "evt_1", authenticationObject(id, ref, "not_enrolled"))
			go func() { delivered <- serve(s, "POST", HookPath, body, header).Code }()
			time.Sleep(time.Second) // in which the event arrives
			select {
			case status := <-delivered:
				t.Errorf("the event was taken before its id was known: %d", status)
			default:
			}
		}
		id := beginPayment(t, s)
		if status := <-delivered; status != 204 {
			t.Errorf("status %d, want 204", status)
		}
		wantOrder(t, s, id, "not_enrolled: authorise", "Pushed")
		if n.asked > 0 {
			t.Errorf("the shop asked %d times", n.asked)
		}
	})
}

// TestW1LateEvent: a shop that has asked keeps that end, and says that the event came later.
func TestW1LateEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newNotifiedShop(t)
		id := beginPayment(t, s)
		before := time.Now()
		wantOrder(t, s, id, "not_authenticated: authorise", "Asked")
		if waited := time.Since(before); waited != s.EventWait {
			t.Errorf("the shop waited %v for the event, want %v", waited, s.EventWait)
		}
		deliver(t, s, "evt_1", authenticationObject(id, n.reference[id], "authenticated"), 204)
		wantOrder(t, s, id, "not_authenticated: authorise", "Asked", "evt_1</code> came later")
	})
}

// TestW6OneEndpoint: payments that begin together add one endpoint, and the next start of the shop replaces it.
func TestW6OneEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newNotifiedShop(t)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { serve(s, "POST", "/pay", `{"card":"4000001234567890","expiry":"3012"}`, nil) })
		}
		all.Wait()
		if n.added != 1 {
			t.Errorf("%d endpoints were added, want 1", n.added)
		}
		next := &Shop{API: s.API, APIKey: testKey, HookURL: s.HookURL, Client: s.Client}
		beginPayment(t, next)
		if n.added != 2 || len(n.endpoints) != 1 || n.endpoints[0] != "ep_2" {
			t.Errorf("%d endpoints were added, and %v are there", n.added, n.endpoints)
		}
	})
}

// TestPaymentsAreBounded: payments that have ended make room, a payment that the server has refused is forgotten, and
// the shop is full of payments that have not ended.
func TestPaymentsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newNotifiedShop(t)
		s.MaxCheckouts = 2
		n.refuses = true
		for range 3 {
			if w := serve(s, "POST", "/pay", `{"card":"4000001234567890","expiry":"3012"}`, nil); w.Code != 502 {
				t.Errorf("refused by the server: %d", w.Code)
			}
		}
		n.refuses = false
		first := beginPayment(t, s)
		deliver(t, s, "evt_1", authenticationObject(first, n.reference[first], "authenticated"), 204)
		second := beginPayment(t, s)
		third := beginPayment(t, s)
		if s.payments.findByID(first) != nil || s.payments.findByID(second) == nil || s.payments.findByID(third) == nil {
			t.Error("not the payment that has ended made room")
		}
		w := serve(s, "POST", "/pay", `{"card":"4000001234567890","expiry":"3012"}`, nil)
		if w.Code != 503 || !bytes.Contains(w.Body.Bytes(), []byte("full")) {
			t.Errorf("a third payment: %d %s", w.Code, w.Body)
		}
		time.Sleep(s.CheckoutAge)
		beginPayment(t, s)
		if len(s.payments.byID) != 1 || len(s.payments.byReference) != 1 {
			t.Errorf("%d and %d payments are kept", len(s.payments.byID), len(s.payments.byReference))
		}
	})
}
