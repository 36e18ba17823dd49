package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/server"
)

// The tests of this file show docs/api.md, "/auth".

func unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func TestAuthPassesTheARes(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca), plan{visa: "    informational: any\n"})
	for _, v := range allVersions {
		for _, status := range []string{"Y", "N", "U", "A", "C", "R", "I", "D", "S"} {
			if v == "2.1.0" && strings.Contains("IDS", status) || v == "2.2.0" && status == "S" {
				continue // not in that version
			}
			t.Run(v+" "+status, func(t *testing.T) {
				s := s.in(t)
				var sent []byte
				s.ds.setAnswer(func(areq object) (int, []byte) {
					answer := answerTo(areq, status)
					switch status {
					case "I":
						answer["transStatusReason"] = "80"
					case "D":
						answer = answer.with(object{"acsChallengeMandated": "Y", "acsDecConInd": "Y", "cardholderInfo": "Use your phone", "authenticationType": "04"})
						if v == "2.3.1" {
							answer = answer.with(object{"cardholderInfo": object{"text": "Use your phone"}, "authenticationType": nil, "authenticationMethod": []string{"02"}})
						}
					case "S":
						answer = answer.with(spc)
					}
					// Members that nobody knows, nulls, and an order of its own.
					sent = insert(answer, `, "unknown" : {"a":[1.50, null ], "b":{}},"zzz":null,"é":"\u00e9"`)
					return 200, sent
				})
				req := s.request(v).with(object{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010"})
				if v == "2.3.1" {
					req["threeDSRequestorSpcSupport"], req["payeeOrigin"] = "Y", "https://shop.example"
				}
				res, got := s.call(http.MethodPost, "/auth", s.APIKey, req)
				if res.StatusCode != 200 || !bytes.Equal(got, sent) {
					t.Errorf("%d %s, the DS sent %s", res.StatusCode, got, sent)
				}
			})
		}
	}
}

// spc is what an ARes of Secure Payment Confirmation has to have.
var spc = object{
	"webAuthnCredList": []object{{"rpID": "acs.example", "credentialIds": []string{"Y3JlZGVudGlhbGNyZWRlbnRpYWw"}}},
	"spcTransData": object{
		"challenge": "Y2hhbGxlbmdlY2hhbGxlbmdlY2hhbGxlbmdlY2hhbGxlbmdl", "payeeName": "Shop", "payeeOrigin": "https://shop.example",
		"currency": "EUR", "value": "10.99", "displayName": "Card", "icon": "https://acs.example/i.png", "timeout": "60000",
	},
}

func TestAuthOnce(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	second := startSite(t, ca, s.ds, plan{beside: s})
	t.Run("at most one AReq, on whichever node", func(t *testing.T) {
		for range 5 {
			req := s.in(t).request("2.2.0")
			codes := make(chan string, 24)
			var all sync.WaitGroup
			for i := range cap(codes) {
				node := s
				if i%2 == 1 {
					node = second
				}
				all.Go(func() {
					code, got := node.in(t).post("/auth", req)
					codes <- fmt.Sprint(code, got.text("errorCode"))
				})
			}
			all.Wait()
			close(codes)
			count := make(map[string]int)
			for c := range codes {
				count[c]++
			}
			if count["200"] != 1 || count["400301"] != cap(codes)-1 || len(s.ds.sent(req.text("threeDSServerTransID"))) != 1 {
				t.Errorf("answers %v, %d AReqs", count, len(s.ds.sent(req.text("threeDSServerTransID"))))
			}
		}
	})
	t.Run("a refused request does not use the id up", func(t *testing.T) {
		s := s.in(t)
		req := s.request("2.2.0")
		for _, bad := range []object{{"mcc": nil}, {"mcc": "x"}, {"messageVersion": "9.9.9"}, {"acctNumber": "4000001234567899"}, {"purchaseCurrency": "999"}} {
			code, got := s.post("/auth", req.with(bad))
			if code != 400 || got.text("messageType") != "Erro" {
				t.Errorf("%v: %d %v", bad, code, got)
			}
		}
		other := *s.world
		other.APIKey = s.OtherAPIKey
		other.refused("/auth", req, expected{code: "301"})
		s.through(req)
	})
	t.Run("a failed one does", func(t *testing.T) {
		s := s.in(t)
		s.ds.setAnswer(func(object) (int, []byte) { return 503, nil })
		req := s.request("2.2.0")
		s.refused("/auth", req, expected{code: "405"})
		s.ds.setAnswer(nil)
		s.refused("/auth", req, expected{code: "301"})
		if n := len(s.ds.sent(req.text("threeDSServerTransID"))); n != 1 {
			t.Errorf("%d AReqs", n)
		}
	})
	t.Run("an id in capitals is the same id", func(t *testing.T) {
		s := s.in(t)
		req := s.request("2.2.0")
		s.through(req)
		s.refused("/auth", req.with(object{"threeDSServerTransID": strings.ToUpper(req.text("threeDSServerTransID"))}), expected{code: "301"})
	})
}

func TestAuthChannels(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	eachVersion(t, s, func(s *site, v string) {
		for name, make := range map[string]func(version, pan, transID string) object{"app": app, "3RI": threeRI} {
			made := s.through(make(v, testPAN, ""))
			if id := made.text("threeDSServerTransID"); !uuid.MatchString(id) {
				s.t.Errorf("%s without an id: it went out as %q", name, id)
			}
			id := s.id()
			if got := s.through(make(v, testPAN, id)).text("threeDSServerTransID"); got != id {
				s.t.Errorf("%s with an id of /preauth: it went out as %q, want %q", name, got, id)
			}
		}
		s.refused("/auth", s.request(v).with(object{"threeDSServerTransID": nil}), expected{code: "201", detail: "threeDSServerTransID"})
	})
	t.Run("non-payment", func(t *testing.T) {
		for _, category := range []string{"02", "80", "99"} {
			s := s.in(t)
			req := s.request("2.2.0").with(object{
				"messageCategory": category, "purchaseAmount": nil, "purchaseCurrency": nil, "purchaseExponent": nil, "purchaseDate": nil,
				"threeDSRequestorAuthenticationInd": "04",
			})
			s.ds.setAnswer(func(areq object) (int, []byte) {
				return 200, marshal(ares(areq, "Y").with(object{"eci": nil, "authenticationValue": nil}))
			})
			same(t, s.through(req), "messageCategory", category)
			s.ds.setAnswer(nil)
		}
	})
}

// hangUp posts an /auth and hangs up when its AReq is at the directory server.
func (s *site) hangUp(req object, entered <-chan bool) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.API+"/auth", bytes.NewReader(marshal(req)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("APIKey", s.APIKey)
	done := make(chan error)
	go func() {
		res, err := http.DefaultClient.Do(r)
		if err == nil {
			res.Body.Close()
		}
		done <- err
	}()
	<-entered
	cancel()
	if err := <-done; err == nil {
		s.t.Fatal("the answer came before we hung up")
	}
}

func TestAuthGoesOn(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	entered, leave, answers := make(chan bool), make(chan bool), make(chan object, 1)
	s.ds.play(func(w http.ResponseWriter, areq object) {
		entered <- true
		<-leave
		answer := ares(areq, "C")
		answers <- answer
		_, _ = w.Write(marshal(answer))
	})
	req := s.request("2.2.0")
	s.hangUp(req, entered)
	if got := s.result(marshal(rreq(req, ares(req, "C"), "Y"))); got.text("errorCode") != "301" {
		t.Errorf("an RReq before the ARes: %v, want 301", got)
	}
	s.refused("/auth", req, expected{code: "301"})
	leave <- true
	answer := <-answers
	result := marshal(rreq(req, answer, "Y"))
	var got object
	waitFor(t, "the ARes to be committed", func() bool {
		got = s.result(result)
		return got.text("messageType") == "RRes"
	})
	if code, back := s.postauth(req.text("threeDSServerTransID")); code != 200 || string(marshal(back)) != string(result) {
		t.Errorf("/postauth: %d %v", code, back)
	}
	if n := len(s.ds.sent(req.text("threeDSServerTransID"))); n != 1 {
		t.Errorf("%d AReqs", n)
	}
}

func TestAuthCommitsFirst(t *testing.T) {
	ca := newAuthority(t)
	f, p := newFaulty()
	s := startSite(t, ca, newWire(t, ca), p)
	for status, want := range map[string]string{"C": "403", "Y": ""} {
		t.Run(status, func(t *testing.T) {
			s := s.in(t)
			s.ds.setAnswer(func(areq object) (int, []byte) {
				f.down.Store(true) // the claim is written, the outcome will not be
				return 200, marshal(ares(areq, status))
			})
			defer f.down.Store(false)
			code, got := s.post("/auth", s.request("2.2.0"))
			if want == "" && code != 200 || want != "" && got.text("errorCode") != want {
				t.Errorf("%d %v, want code %q", code, got, want)
			}
		})
	}
}

// TestAuthTime measures how long an /auth takes when the directory server is
// silent in one way or another. The limit is a second here, ten in production.
func TestAuthTime(t *testing.T) {
	const limit = time.Second
	worst := stalls(t)
	mute, err := net.Listen("tcp", "127.0.0.1:0") // connects, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, tt := range []struct {
		name  string
		trick func(leave <-chan bool) func(http.ResponseWriter, object)
		url   string
	}{
		{"silent", func(leave <-chan bool) func(http.ResponseWriter, object) {
			return func(http.ResponseWriter, object) { <-leave }
		}, ""},
		{"half an answer", func(leave <-chan bool) func(http.ResponseWriter, object) {
			return func(w http.ResponseWriter, areq object) {
				answer := marshal(ares(areq, "Y"))
				_, _ = w.Write(answer[:20])
				_ = http.NewResponseController(w).Flush()
				<-leave
			}
		}, ""},
		{"no TLS", nil, "https://" + mute.Addr().String() + "/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ca := newAuthority(t)
			p := plan{sections: "timeouts: {authentication: 1s}"}
			if tt.url != "" {
				p.change = func(cfg *server.Config) { cfg.Peers[0].AReqURL = tt.url }
			}
			s := startSite(t, ca, newWire(t, ca), p)
			leave := make(chan bool)
			defer close(leave)
			if tt.trick != nil {
				s.ds.play(tt.trick(leave))
			}
			req := s.request("2.2.0")
			start := time.Now()
			s.refused("/auth", req, expected{code: "405", detail: "Connection timeout", msg: "AReq"})
			// A machine that stands still says nothing about us.
			if took, most := time.Since(start), limit+250*time.Millisecond+3*worst(); took < limit || took > most {
				t.Errorf("it took %v, want %v to %v", took, limit, most)
			}
		})
	}
}
