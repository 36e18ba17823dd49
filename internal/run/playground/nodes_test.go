package playground

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/sandbox"
)

// A turnedClock is that of this machine and of the database, ahead by what it was turned.
type turnedClock struct{ ahead atomic.Int64 }

func (c *turnedClock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// A turnedStore has the clock of its database turned.
type turnedStore struct {
	store.Store
	clock *turnedClock
}

func (s turnedStore) Now(context.Context) (time.Time, error) { return s.clock.now(), nil }

// A node is one of several servers of the sandbox on one database.
type node struct {
	*testing.T
	clock         *turnedClock
	base, console string
}

// startNodes starts nodes that share a PostgreSQL, key files, the directory servers of one sandbox, and a clock.
func startNodes(t *testing.T, n int) (nodes []*node) {
	t.Helper()
	database := config.StoreURL{Postgres: pgtest.Get(t).Schema(t)}
	dir, clock := t.TempDir(), new(turnedClock)
	ring, err := keyring.LoadOrCreate(filepath.Join(dir, "keys.json"))
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	peers := &sandbox.Sandbox{Log: log}
	must(t, peers.Start())
	t.Cleanup(func() { must(t, peers.Close()) })
	listen := func() net.Listener {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
		return l
	}
	for range n {
		api, results, console := listen(), listen(), listen()
		one := &node{t, clock, "http://" + api.Addr().String(), "http://" + console.Addr().String()}
		p := &Playground{Sandbox: peers, resultsURL: "https://" + results.Addr().String() + "/results"}
		cfg := p.serverConfig(Options{Dir: dir, API: api, Log: log}, ring, results)
		cfg.StoreURL, cfg.Now = database, clock.now
		cfg.Journal = &server.JournalSettings{Keys: filepath.Join(dir, "journal-keys.json")}
		cfg.Store = func(db store.Store) store.Store { return turnedStore{db, clock} }
		cfg.Console, cfg.OpenConsole = console, &server.OpenConsole{Origin: one.console}
		s, err := server.New(t.Context(), *cfg)
		must(t, err)
		must(t, putKeys(t.Context(), s.Store(), ring, nil))
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		nodes = append(nodes, one)
	}
	return nodes
}

// send posts to the API and returns the answer and its X-Request-Id.
func (n *node) send(path, key, kind string, body []byte) (data []byte, request string) {
	n.Helper()
	r, err := http.NewRequestWithContext(n.Context(), http.MethodPost, n.base+path, bytes.NewReader(body))
	must(n.T, err)
	r.Header.Set("Content-Type", kind)
	if r.Header.Set("APIKey", key); strings.HasPrefix(kind, "application/x-www") {
		r.SetBasicAuth(key, "")
	}
	res, err := http.DefaultClient.Do(r)
	must(n.T, err)
	defer res.Body.Close()
	data, err = io.ReadAll(res.Body)
	must(n.T, err)
	return data, res.Header.Get("X-Request-Id")
}

// page returns a page of the console.
func (n *node) page(path string) string {
	n.Helper()
	res, err := http.Get(n.console + path)
	must(n.T, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(n.T, err)
	if res.StatusCode != 200 {
		n.Fatalf("%s: %d %.500s", path, res.StatusCode, text)
	}
	return string(text)
}

// turn turns the clock of all nodes, and waits until they go by it.
func turn(t *testing.T, nodes []*node, by time.Duration) {
	t.Helper()
	nodes[0].clock.ahead.Add(int64(by))
	want := nodes[0].clock.now().Add(-time.Second).UTC().Format(time.RFC3339)
	for _, n := range nodes {
		var links []string // to what was sent
		waittest.Until(t, "a node to go by the clock", func() bool {
			_, id := n.send("/authentications", Key, "application/json", []byte(`{"acctNumber": "4000001234560103"}`))
			links = append(links, "/authentications/"+id)
			page := n.page("/authentications?" + url.Values{"from": {want}}.Encode())
			return slices.ContainsFunc(links, func(link string) bool { return strings.Contains(page, link) })
		})
	}
}

// A scenario is one authentication, as support people hear of it.
type scenario struct {
	name, id, merchant, last4 string
	begun, ended              time.Time
}

// query is a search by last four digits, merchant and minute, which may be off. A payment may go from one minute into
// the next, and the nodes read their clock at other times.
func (s *scenario) query(last4, merchant string, off time.Duration) string {
	const apart = 100 * time.Millisecond
	from := s.begun.Add(off - apart).Truncate(time.Minute)
	to := s.ended.Add(off + apart).Truncate(time.Minute).Add(time.Minute)
	return "/authentications?" + url.Values{
		"last4": {last4}, "merchant": {merchant}, "from": {from.UTC().Format(time.RFC3339)}, "to": {to.UTC().Format(time.RFC3339)},
	}.Encode()
}

// play does an authentication at a node: of EMV 3DS with its challenge, or of 1.0.2 up to the page of the issuer.
func (n *node) play(key, merchant, version, pan string) scenario {
	n.Helper()
	s := scenario{name: version + " " + pan + " " + merchant, merchant: merchant, last4: pan[len(pan)-4:], begun: n.clock.now()}
	if version == "1.0.2" {
		form := url.Values{}
		request := client.EnrolledRequest{
			Amount: "21601", Currency: "DKK", OrderID: "1234567890", Card: client.Card{Number: pan, ExpireMonth: "07", ExpireYear: "2031"},
			Merchant: client.Merchant{AcquirerBIN: "400551", ID: "M-1001", Name: "Shop", Country: "DK", URL: "https://shop.example/"},
		}
		for name, value := range request.Fields() {
			form.Set(name, value)
		}
		_, s.id = n.send("/enrolled", key, "application/x-www-form-urlencoded", []byte(form.Encode()))
		s.ended = n.clock.now()
		return s
	}
	var crd, ares struct{ ThreeDSServerTransID, TransStatus, ACSURL, ACSTransID string }
	data, _ := n.send("/preauth", key, "application/json", []byte(`{"acctNumber": "`+pan+`"}`))
	must(n.T, json.Unmarshal(data, &crd))
	s.id = crd.ThreeDSServerTransID
	areq := payment(s.id)
	areq["messageVersion"], areq["acctNumber"] = version, pan
	if version == "2.1.0" {
		delete(areq, "browserJavascriptEnabled")
	}
	body, err := json.Marshal(areq)
	must(n.T, err)
	s.begun = n.clock.now()
	data, _ = n.send("/auth", key, "application/json", body)
	s.ended = n.clock.now()
	must(n.T, json.Unmarshal(data, &ares))
	if ares.TransStatus == "C" {
		creq := fmt.Sprintf(`{"messageType": "CReq", "messageVersion": %q, "threeDSServerTransID": %q, "acsTransID": %q, "challengeWindowSize": "05"}`,
			version, s.id, ares.ACSTransID)
		res, err := http.PostForm(ares.ACSURL, url.Values{"creq": {base64.RawURLEncoding.EncodeToString([]byte(creq))}})
		must(n.T, err)
		must(n.T, res.Body.Close())
	}
	return s
}

// TestJ5TwoHundredScenariosAreFoundADayLater: what happened at one node is found at each, after a day, by what support
// people know: the last four digits, the merchant and the minute. With one of them wrong it is not.
func TestJ5TwoHundredScenariosAreFoundADayLater(t *testing.T) {
	nodes := startNodes(t, 2)
	merchants := []struct{ key, name string }{{Key, shopMerchant}, {OtherKey, otherMerchant}}
	type card struct{ version, pan string }
	var cards []card
	for _, ending := range strings.Fields("03 13 23 33 43 53 70 71 72 74 76 78 83 84 87") {
		for _, v := range [][2]string{{"0", "2.1.0"}, {"0", "2.2.0"}, {"0", "2.3.1"}, {"1", "2.1.0"}, {"2", "2.2.0"}, {"3", "2.3.1"}} {
			cards = append(cards, card{v[1], "400000123456" + v[0] + "1" + ending})
		}
	}
	for _, ending := range strings.Fields("0000 0010 0020 0001 0002 0003 0004 1000 2000 0099") {
		cards = append(cards, card{"1.0.2", "400000123456" + ending})
	}
	var all []scenario
	for i, c := range cards {
		if i%10 == 9 {
			turn(t, nodes, 3*time.Minute)
		}
		for j, m := range merchants {
			all = append(all, nodes[(i+j)%2].play(m.key, m.name, c.version, c.pan))
		}
	}
	if len(all) < 200 {
		t.Fatalf("%d scenarios", len(all))
	}
	turn(t, nodes, 24*time.Hour)
	const wrongQueries = 5
	seen := map[string]bool{}
	for number, s := range all {
		if s.id == "" || seen[s.id] {
			t.Fatalf("%s has the id %q", s.name, s.id)
		}
		seen[s.id] = true
		link := `href="/authentications/` + s.id + `"`
		for i, n := range nodes {
			page := n.page(s.query(s.last4, s.merchant, 0))
			if !strings.Contains(page, link) {
				t.Errorf("%s of %v is not found at node %d", s.name, s.begun, i)
				continue
			}
			if (number+i)%2 == 0 {
				continue // both nodes read the timeline out of the same tables, so each is read by one of them
			}
			if timeline := n.page("/authentications/" + s.id); !strings.Contains(timeline, s.last4) || strings.Contains(timeline, "400000123456"+s.last4) {
				t.Errorf("%s: the timeline at node %d has not the last four digits alone", s.name, i)
			}
		}
		// Both nodes search the same tables, so one wrong query for each scenario goes to one of them, each kind in turn.
		n := nodes[number/wrongQueries%2]
		other := merchants[slices.IndexFunc(merchants, func(m struct{ key, name string }) bool { return m.name != s.merchant })].name
		wrong := [wrongQueries]struct{ what, query string }{
			{"last four", s.query("9999", s.merchant, 0)}, {"merchant", s.query(s.last4, other, 0)},
			{"minute before", s.query(s.last4, s.merchant, -3*time.Minute)}, {"minute after", s.query(s.last4, s.merchant, 3*time.Minute)},
			{"day", s.query(s.last4, s.merchant, 24*time.Hour)},
		}[number%wrongQueries]
		if strings.Contains(n.page(wrong.query), link) {
			t.Errorf("%s is found at node %d by a wrong %s", s.name, number/wrongQueries%2, wrong.what)
		}
	}
}
