package main

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// The tests of this file show docs/api.md, "/postauth" and "Results of directory servers".

func TestPostauth(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	second := startSite(t, ca, s.ds, plan{beside: s})
	eachVersion(t, s, func(s *site, v string) {
		areq, answer := s.challenged(v)
		sent := insert(rreq(areq, answer, "Y"), `, "unknown" : [1.50, null],"é":"\u00e9"`)
		if got := s.result(sent); got.text("messageType") != "RRes" {
			s.t.Fatalf("RReq: %v", got)
		}
		id := object{"threeDSServerTransID": areq["threeDSServerTransID"]}
		s.t.Run("any number of times, from any node, byte for byte", func(t *testing.T) {
			for i := range 20 {
				node := s.in(t)
				if i%2 == 1 {
					node = second.in(t)
				}
				res, got := node.call(http.MethodPost, "/postauth", s.APIKey, id)
				if res.StatusCode != 200 || !bytes.Equal(got, sent) {
					t.Fatalf("%d %s, the DS sent %s", res.StatusCode, got, sent)
				}
			}
		})
		s.t.Run("names in any case", func(t *testing.T) {
			if code, got := s.in(t).post("/postauth", object{"threeDsServerTransId": areq["threeDSServerTransID"]}); code != 200 {
				t.Errorf("%d %v", code, got)
			}
			if code, got := s.in(t).post("/postauth", object{"threeDSServerTransID": strings.ToUpper(areq.text("threeDSServerTransID"))}); code != 200 {
				t.Errorf("an id in capitals: %d %v", code, got)
			}
		})
		s.t.Run("ids of other merchants", func(t *testing.T) {
			pending, _ := s.in(t).challenged(v)
			final := s.in(t).through(s.request(v))
			unknown := newUUID()
			_, want := s.in(t).call(http.MethodPost, "/postauth", s.OtherAPIKey, object{"threeDSServerTransID": unknown})
			for _, o := range []object{areq, pending, final} {
				id := o.text("threeDSServerTransID")
				_, got := s.in(t).call(http.MethodPost, "/postauth", s.OtherAPIKey, object{"threeDSServerTransID": id})
				if string(got) != strings.ReplaceAll(string(want), unknown, id) {
					t.Errorf("another's id tells %s, an unknown one %s", got, want)
				}
			}
		})
	})
}

// dial posts to the results listener with a client of one's own.
func (s *site) dial(cert *tls.Certificate) (*http.Response, error) {
	conf := &tls.Config{RootCAs: s.ca.pool()}
	if cert != nil {
		conf.Certificates = []tls.Certificate{*cert}
	}
	transport := &http.Transport{TLSClientConfig: conf}
	defer transport.CloseIdleConnections()
	return (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Post(s.results, "application/json", strings.NewReader("{}"))
}

func TestResultsTLS(t *testing.T) {
	ca, ca2 := newAuthority(t), newAuthority(t)
	master := newWire(t, ca2)
	s := startSite(t, ca, newWire(t, ca), plan{master: master})
	good, wrongName, foreign := ca.issue("rreq.ds.example"), ca.issue("3dss.example"), newAuthority(t).issue("rreq.ds.example")
	for _, tt := range []struct {
		name string
		cert *tls.Certificate
		good bool
	}{
		{"no certificate", nil, false}, {"of a foreign CA", &foreign, false}, {"under another name", &wrongName, false}, {"good", &good, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, err := s.dial(tt.cert)
			if err == nil {
				res.Body.Close()
			}
			if (err == nil) != tt.good {
				t.Errorf("the connection: %v, want it to succeed: %v", err, tt.good)
			}
		})
	}
	t.Run("results from another directory", func(t *testing.T) {
		s := s.in(t)
		areq, answer := s.challenged("2.3.1")
		cert := ca2.issue("rreq.ds.example")
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{cert}}}}
		other := &peer{client: client}
		result := marshal(rreq(areq, answer, "Y"))
		code, got, err := other.post(s.results, result)
		if err != nil || code != 200 || got.text("errorCode") != "301" {
			t.Errorf("%d %v %v, want 301", code, got, err)
		}
		erro := marshal(object{"messageType": "Erro", "messageVersion": "2.3.1", "errorCode": "404", "errorComponent": "D",
			"errorDescription": "x", "errorDetail": "x", "threeDSServerTransID": areq["threeDSServerTransID"]})
		if code, got, err := other.post(s.results, erro); err != nil || code != 200 || got != nil {
			t.Errorf("a foreign Erro: %d %v %v", code, got, err)
		}
		s.refused("/postauth", object{"threeDSServerTransID": areq["threeDSServerTransID"]}, expected{code: "305"})
		if got := s.result(result); got.text("messageType") != "RRes" {
			t.Errorf("the right directory's result after it: %v", got)
		}
	})
	t.Run("methods", func(t *testing.T) {
		res, err := s.ds.client.Get(s.results)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != 405 || res.Header.Get("Allow") != "POST" {
			t.Errorf("GET: %d, Allow %q", res.StatusCode, res.Header.Get("Allow"))
		}
	})
	t.Run("HTTP 2", func(t *testing.T) {
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{good}}}
		defer transport.CloseIdleConnections()
		res, err := (&http.Client{Transport: transport}).Post(s.results, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.Proto != "HTTP/2.0" || res.StatusCode != 200 {
			t.Errorf("%s %d", res.Proto, res.StatusCode)
		}
	})
}

func TestResults(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	second := startSite(t, ca, s.ds, plan{beside: s})
	eachVersion(t, s, func(s *site, v string) {
		s.t.Run("RRes", func(t *testing.T) {
			s := s.in(t)
			areq, answer := s.challenged(v)
			start := time.Now()
			got := s.result(marshal(rreq(areq, answer, "Y")))
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("it took %v", took)
			}
			for _, name := range []string{"threeDSServerTransID", "acsTransID", "dsTransID", "messageVersion"} {
				if got[name] != answer[name] {
					t.Errorf("%s = %v, want %v", name, got[name], answer[name])
				}
			}
			if got.text("messageType") != "RRes" || got.text("resultsStatus") != "01" {
				t.Errorf("%v", got)
			}
		})
		s.t.Run("second", func(t *testing.T) {
			s := s.in(t)
			areq, answer := s.challenged(v)
			first := marshal(rreq(areq, answer, "N"))
			s.result(first)
			want := "301"
			if v == "2.3.1" {
				want = "312"
			}
			for _, again := range [][]byte{first, marshal(rreq(areq, answer, "Y"))} {
				for _, node := range []*site{s, second.in(t)} {
					if got := node.result(again); got.text("errorCode") != want || got.text("errorMessageType") != "RReq" {
						t.Errorf("%v, want %s", got, want)
					}
				}
			}
			_, kept := s.call(http.MethodPost, "/postauth", s.APIKey, object{"threeDSServerTransID": areq["threeDSServerTransID"]})
			if !bytes.Equal(kept, first) {
				t.Errorf("the result has become %s, was %s", kept, first)
			}
		})
		s.t.Run("many at once", func(t *testing.T) {
			s := s.in(t)
			areq, answer := s.challenged(v)
			var all sync.WaitGroup
			var mu sync.Mutex
			var won []byte
			for i := range 16 {
				body := marshal(rreq(areq, answer, "Y").with(object{"interactionCounter": "0" + string(rune('1'+i%9))}))
				all.Go(func() {
					code, got, err := s.ds.post(s.results, body)
					mu.Lock()
					defer mu.Unlock()
					if err != nil || code != 200 {
						t.Errorf("%d %v", code, err)
					} else if got.text("messageType") == "RRes" {
						if won != nil {
							t.Error("two results were acknowledged")
						}
						won = body
					}
				})
			}
			all.Wait()
			_, kept := s.call(http.MethodPost, "/postauth", s.APIKey, object{"threeDSServerTransID": areq["threeDSServerTransID"]})
			if !bytes.Equal(kept, won) {
				t.Errorf("kept is %s, acknowledged was %s", kept, won)
			}
		})
		s.t.Run("after a final ARes", func(t *testing.T) {
			s := s.in(t)
			code, answer := s.post("/auth", s.request(v))
			want := "301"
			if v == "2.3.1" {
				want = "313"
			}
			got := s.result(marshal(rreq(s.ds.sent(answer.text("threeDSServerTransID"))[0], answer, "Y")))
			if code != 200 || got.text("errorCode") != want {
				t.Errorf("%v, want %s", got, want)
			}
		})
		s.t.Run("ids of another transaction", func(t *testing.T) {
			s := s.in(t)
			areq, answer := s.challenged(v)
			for _, name := range []string{"acsTransID", "dsTransID", "threeDSServerTransID"} {
				got := s.result(marshal(rreq(areq, answer, "Y").with(object{name: newUUID()})))
				if got.text("errorCode") != "301" || got.text("errorDetail") != name {
					t.Errorf("another %s: %v, want 301", name, got)
				}
			}
			if got := s.result(marshal(rreq(areq, answer, "Y"))); got.text("messageType") != "RRes" {
				t.Errorf("the good one after it: %v", got)
			}
		})
	})
}

// TestP2WaitForAResult: a /postauth that waits is answered when the result comes, to this node or another, and
// when the server ends.
func TestP2WaitForAResult(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	second := startSite(t, ca, s.ds, plan{beside: s})
	type answer struct {
		code int
		body object
		took time.Duration
	}
	// ask sends a /postauth with a wait of a minute, and returns when it waits.
	ask := func(s *site, id string) <-chan answer {
		answers := make(chan answer, 1)
		go func() {
			began := time.Now()
			code, body := s.post("/postauth?wait=60", object{"threeDSServerTransID": id})
			answers <- answer{code, body, time.Since(began)}
		}()
		time.Sleep(300 * time.Millisecond)
		return answers
	}
	for name, receiver := range map[string]*site{"this node": s, "another node": second} {
		areq, ares := s.challenged("2.2.0")
		answers := ask(s, areq.text("threeDSServerTransID"))
		if got := receiver.result(marshal(rreq(areq, ares, "Y"))); got.text("messageType") != "RRes" {
			t.Fatalf("RReq to %s: %v", name, got)
		}
		if got := <-answers; got.code != 200 || got.body.text("transStatus") != "Y" || got.took > 10*time.Second {
			t.Errorf("a result that came to %s: %d %v after %v", name, got.code, got.body, got.took)
		}
	}
	s.refused("/postauth?wait=61", object{"threeDSServerTransID": newUUID()},
		expected{code: "203", detail: "The parameter wait must be a whole number of seconds from 0 to 60, and be given once"})
	areq, _ := s.challenged("2.2.0")
	answers := ask(second, areq.text("threeDSServerTransID"))
	if err := second.stop(); err != nil {
		t.Errorf("the end of a server with a request that waits: %v", err)
	}
	if got := <-answers; got.code != 400 || got.body.text("errorCode") != "305" || got.took > 20*time.Second {
		t.Errorf("at the end of the server: %d %v after %v, want 305", got.code, got.body, got.took)
	}
}
