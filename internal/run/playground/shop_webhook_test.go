package playground

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/sandbox/shop"
)

// A delivery is a webhook that reached the demo shop.
type delivery struct {
	header http.Header
	body   []byte
	status int // of the answer
}

// A hookRecorder stands before the demo shop and keeps the deliveries. It counts how often the shop asks the API.
type hookRecorder struct {
	shop   atomic.Pointer[http.Handler]
	came   chan delivery
	isDeaf atomic.Bool // the shop does not get the deliveries
	asked  atomic.Int32
}

// newHookedShop runs the sandbox with a demo shop behind a recorder.
func newHookedShop(t *testing.T, demo *shop.Shop) (*hookRecorder, string) {
	t.Helper()
	h := &hookRecorder{came: make(chan delivery, 100)}
	demo.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/authentications") {
			h.asked.Add(1)
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
	return h, startSandboxWithShop(t, demo, func(pages http.Handler) http.Handler {
		h.shop.Store(&pages)
		return h
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (h *hookRecorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != shop.HookPath || r.Header.Get("User-Agent") != "threeds-webhook" {
		(*h.shop.Load()).ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || h.isDeaf.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	(*h.shop.Load()).ServeHTTP(answer, r)
	w.WriteHeader(answer.Code)
	h.came <- delivery{r.Header.Clone(), body, answer.Code}
}

// next waits for the delivery that is about an authentication.
func (h *hookRecorder) next(t *testing.T, id string) delivery {
	t.Helper()
	for d := range h.came {
		var event api.Event[api.AuthenticationSummary]
		must(t, json.Unmarshal(d.body, &event))
		if event.Data.ID == id {
			return d
		}
	}
	return delivery{}
}

// payAtShop begins a payment as the page of the shop does, and returns its id and the address for threeds.js.
func payAtShop(t *testing.T, base, card string) (id, url string) {
	t.Helper()
	answer, err := http.Post(base+"/pay", "text/plain", strings.NewReader(`{"card":"`+card+`","expiry":"3012"}`))
	must(t, err)
	defer answer.Body.Close()
	var got struct{ ID, URL string }
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || got.ID == "" {
		t.Fatalf("POST /pay: %s, %v", answer.Status, err)
	}
	return got.ID, got.URL
}

// beginAndLeave does what a browser without JavaScript does until the bank has answered, and never comes back.
func beginAndLeave(t *testing.T, url string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	page, err := browser.Get(url)
	must(t, err)
	must(t, page.Body.Close())
	page, err = browser.Post(url+"/begin", "application/x-www-form-urlencoded", nil)
	must(t, err)
	must(t, page.Body.Close())
}

// orderHead returns the part of the page of an order that says how it ended, without the lanes.
func orderHead(page string) string {
	head, _, _ := strings.Cut(page, `<div class="run">`)
	return head
}

// readOrder returns the page of an order.
func readOrder(t *testing.T, base, id string) string {
	t.Helper()
	answer, err := http.Get(base + "/order?authentication=" + id)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return string(text)
}

// TestW1TheShopLearnsByWebhook: the demo shop learns how payments ended by signed events alone. It never asks, though
// the browsers do not come back. What somebody else posts to it changes nothing, and what comes again neither.
func TestW1TheShopLearnsByWebhook(t *testing.T) {
	h, base := newHookedShop(t, &shop.Shop{})
	pages := make(map[string]string) // of the orders that have ended
	var genuine delivery
	for _, c := range []struct{ card, want string }{
		{"4000000000000103", "authenticated: authorise"},
		{"4000000000000113", "not_authenticated: do_not_authorise"},
		{"9000100111111111", "not_enrolled: authorise_without_authentication"}, // which ends before the answer
	} {
		id, url := payAtShop(t, base, c.card)
		if url != "" {
			beginAndLeave(t, url)
		}
		if genuine = h.next(t, id); genuine.status != 204 {
			t.Errorf("%s: the shop answered the event with %d", c.card, genuine.status)
		}
		pages[id] = readOrder(t, base, id)
		if event := genuine.header.Get("Webhook-Id"); !strings.Contains(pages[id], c.want) ||
			!strings.Contains(pages[id], "Pushed: ") || !strings.Contains(pages[id], "<code>"+event+"</code>") {
			t.Errorf("%s, %s: want %s by the event on the page\n%s", c.card, event, c.want, pages[id])
		}
		if strings.Contains(string(genuine.body), c.card) {
			t.Errorf("%s: the event has the card number", c.card)
		}
	}

	open, _ := payAtShop(t, base, "4000000000000103") // which no one continues
	var object struct{ Reference string }
	callAPI(t, "GET", base+"/authentications/"+open, "", &object)
	var event api.Event[api.AuthenticationSummary]
	must(t, json.Unmarshal(genuine.body, &event))
	forged := bytes.ReplaceAll(genuine.body, []byte(event.Data.ID), []byte(open))
	forged = bytes.ReplaceAll(forged, []byte(event.Data.Reference), []byte(object.Reference))
	forged = bytes.ReplaceAll(forged, []byte("not_enrolled"), []byte("authenticated"))
	unsigned := genuine.header.Clone()
	unsigned.Del("Webhook-Signature")
	for name, c := range map[string]struct {
		header http.Header
		body   []byte
		want   int
	}{
		"forged":   {genuine.header, forged, 401},
		"unsigned": {unsigned, forged, 401},
		"replayed": {genuine.header, genuine.body, 204},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+shop.HookPath, bytes.NewReader(c.body))
		must(t, err)
		r.Header = c.header.Clone()
		r.Header.Set("User-Agent", "somebody else")
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		must(t, answer.Body.Close())
		if answer.StatusCode != c.want {
			t.Errorf("%s: the shop answered %d, want %d", name, answer.StatusCode, c.want)
		}
	}
	callAPI(t, "POST", base+"/events/"+event.ID+"/resend", "", &struct{}{})
	if again := h.next(t, event.Data.ID); again.status != 204 || again.header.Get("Webhook-Id") != event.ID {
		t.Errorf("sent again: %d, %s", again.status, again.header.Get("Webhook-Id"))
	}
	callAPI(t, "POST", base+"/authentications/"+open+"/cancel", "", &struct{}{})
	h.next(t, open)
	if page := readOrder(t, base, open); !strings.Contains(page, "abandoned: do_not_authorise") || !strings.Contains(page, "Pushed: ") {
		t.Errorf("after what others posted, the order that was cancelled shows\n%s", page)
	}
	for id, page := range pages {
		if now := readOrder(t, base, id); orderHead(now) != orderHead(page) {
			t.Errorf("after what others posted, %s shows\n%s\nwas\n%s", id, now, page)
		}
	}
	if n := h.asked.Load(); n > 0 {
		t.Errorf("the shop has asked the API %d times", n)
	}
}

// TestW1TheShopAsksWithoutAnEvent: when no event comes, or the server delivers nowhere, the shop asks, and says so.
func TestW1TheShopAsksWithoutAnEvent(t *testing.T) {
	t.Run("not delivered", func(t *testing.T) {
		h, base := newHookedShop(t, &shop.Shop{EventWait: time.Millisecond})
		h.isDeaf.Store(true)
		id, url := payAtShop(t, base, "4000000000000103")
		beginAndLeave(t, url)
		if page := readOrder(t, base, id); !strings.Contains(page, "authenticated: authorise") || !strings.Contains(page, "Asked: ") || h.asked.Load() != 1 {
			t.Errorf("asked %d times\n%s", h.asked.Load(), page)
		}
		h.isDeaf.Store(false)
		var list struct {
			Data []api.Event[api.AuthenticationSummary]
		}
		callAPI(t, "GET", base+"/events?authentication="+id, "", &list)
		callAPI(t, "POST", base+"/events/"+list.Data[0].ID+"/resend", "", &struct{}{})
		h.next(t, id)
		if page := readOrder(t, base, id); !strings.Contains(page, "Asked: ") || !strings.Contains(page, list.Data[0].ID+"</code> came later") {
			t.Errorf("when the event came\n%s", page)
		}
	})
	t.Run("refused", func(t *testing.T) {
		h, base := newHookedShop(t, &shop.Shop{HookURL: "http://192.0.2.1" + shop.HookPath})
		id, url := payAtShop(t, base, "4000000000000103")
		beginAndLeave(t, url)
		if page := readOrder(t, base, id); !strings.Contains(page, "authenticated: authorise") || !strings.Contains(page, "Asked: ") || h.asked.Load() != 1 {
			t.Errorf("asked %d times\n%s", h.asked.Load(), page)
		}
	})
}

// TestW6TheShopHasOneEndpoint: the demo shop adds one endpoint, with its first payment, and takes that of an earlier
// start away. The other merchant has none.
func TestW6TheShopHasOneEndpoint(t *testing.T) {
	demo := &shop.Shop{}
	h, base := newHookedShop(t, demo)
	endpoints := func() []api.Endpoint {
		t.Helper()
		all, err := client.New(base, Key).WebhookEndpoints(t.Context())
		must(t, err)
		return all
	}
	if all := endpoints(); len(all) > 0 {
		t.Errorf("before the first payment: %v", all)
	}
	var payments sync.WaitGroup
	for range 8 {
		payments.Go(func() { payAtShop(t, base, "9000100111111111") })
	}
	payments.Wait()
	first := endpoints()
	if len(first) != 1 || first[0].URL != base+shop.HookPath || first[0].Secret != "" {
		t.Fatalf("after eight payments: %+v", first)
	}
	if others, err := client.New(base, OtherKey).WebhookEndpoints(t.Context()); err != nil || len(others) > 0 {
		t.Errorf("the other merchant has %v, %v", others, err)
	}
	next := &shop.Shop{API: base, APIKey: Key, PublicURL: base, HookURL: base + shop.HookPath}
	pages := next.Handler()
	h.shop.Store(&pages) // as after a restart
	defer func() { must(t, next.Close()) }()
	id, _ := payAtShop(t, base, "9000100111111111")
	h.next(t, id)
	if page := readOrder(t, base, id); !strings.Contains(page, "Pushed: ") {
		t.Errorf("after the next start\n%s", page)
	}
	if all := endpoints(); len(all) != 1 || all[0].ID == first[0].ID {
		t.Errorf("after the next start: %+v", all)
	}
}
