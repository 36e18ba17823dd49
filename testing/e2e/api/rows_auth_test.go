package api

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestAuthPassesTheARes(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Visa: "    informational: any\n"})
	for _, v := range rig.AllVersions {
		for _, status := range []string{"Y", "N", "U", "A", "C", "R", "I", "D", "S"} {
			if v == "2.1.0" && strings.Contains("IDS", status) || v == "2.2.0" && status == "S" {
				continue // not in that version
			}
			t.Run(v+" "+status, func(t *testing.T) {
				s := s.In(t)
				var sent []byte
				s.Directory.SetAnswer(func(areq rig.Object) (int, []byte) {
					answer := rig.AnswerTo(areq, status)
					switch status {
					case "I":
						answer["transStatusReason"] = "80"
					case "D":
						answer = answer.With(rig.Object{"acsChallengeMandated": "Y", "acsDecConInd": "Y", "cardholderInfo": "Use your phone", "authenticationType": "04"})
						if v == "2.3.1" {
							answer = answer.With(
								rig.Object{"cardholderInfo": rig.Object{"text": "Use your phone"}, "authenticationType": nil, "authenticationMethod": []string{"02"}})
						}
					case "S":
						answer = answer.With(spc)
					}
					// Members that nobody knows, nulls, and an order of its own.
					sent = rig.InsertText(answer, `, "unknown" : {"a":[1.50, null ], "b":{}},"zzz":null,"é":"\u00e9"`)
					return 200, sent
				})
				req := s.Request(v).With(rig.Object{"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010"})
				if v == "2.3.1" {
					req["threeDSRequestorSpcSupport"], req["payeeOrigin"] = "Y", "https://shop.example"
				}
				res, got := s.Call(http.MethodPost, "/auth", s.APIKey, req)
				if res.StatusCode != 200 || !bytes.Equal(got, sent) {
					t.Errorf("%d %s, the DS sent %s", res.StatusCode, got, sent)
				}
			})
		}
	}
}

// spc is what an ARes of Secure Payment Confirmation has to have.
var spc = rig.Object{
	"webAuthnCredList": []rig.Object{{"rpID": "acs.example", "credentialIds": []string{"Y3JlZGVudGlhbGNyZWRlbnRpYWw"}}},
	"spcTransData": rig.Object{
		"challenge": "Y2hhbGxlbmdlY2hhbGxlbmdlY2hhbGxlbmdlY2hhbGxlbmdl", "payeeName": "Shop", "payeeOrigin": "https://shop.example",
		"currency": "EUR", "value": "10.99", "displayName": "Card", "icon": "https://acs.example/i.png", "timeout": "60000",
	},
}

func TestAuthOnce(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	second := rig.StartSite(t, ca, s.Directory, rig.Plan{Beside: s})
	t.Run("at most one AReq, on whichever node", func(t *testing.T) {
		for range 5 {
			req := s.In(t).Request("2.2.0")
			codes := make(chan string, 24)
			var all sync.WaitGroup
			for i := range cap(codes) {
				node := s
				if i%2 == 1 {
					node = second
				}
				all.Go(func() {
					code, got := node.In(t).Post("/auth", req)
					codes <- fmt.Sprint(code, got.Text("errorCode"))
				})
			}
			all.Wait()
			close(codes)
			count := make(map[string]int)
			for c := range codes {
				count[c]++
			}
			if count["200"] != 1 || count["400301"] != cap(codes)-1 || len(s.Directory.Sent(req.Text("threeDSServerTransID"))) != 1 {
				t.Errorf("answers %v, %d AReqs", count, len(s.Directory.Sent(req.Text("threeDSServerTransID"))))
			}
		}
	})
	t.Run("a refused request does not use the id up", func(t *testing.T) {
		s := s.In(t)
		req := s.Request("2.2.0")
		for _, bad := range []rig.Object{{"mcc": nil}, {"mcc": "x"}, {"messageVersion": "9.9.9"}, {"acctNumber": "4000001234567899"}, {"purchaseCurrency": "999"}} {
			code, got := s.Post("/auth", req.With(bad))
			if code != 400 || got.Text("messageType") != "Erro" {
				t.Errorf("%v: %d %v", bad, code, got)
			}
		}
		other := *s.World
		other.APIKey = s.OtherAPIKey
		other.Refused("/auth", req, rig.Expected{Code: "301"})
		s.Through(req)
	})
	t.Run("a failed one does", func(t *testing.T) {
		s := s.In(t)
		s.Directory.SetAnswer(func(rig.Object) (int, []byte) { return 503, nil })
		req := s.Request("2.2.0")
		s.Refused("/auth", req, rig.Expected{Code: "405"})
		s.Directory.SetAnswer(nil)
		s.Refused("/auth", req, rig.Expected{Code: "301"})
		if n := len(s.Directory.Sent(req.Text("threeDSServerTransID"))); n != 1 {
			t.Errorf("%d AReqs", n)
		}
	})
	t.Run("an id in capitals is the same id", func(t *testing.T) {
		s := s.In(t)
		req := s.Request("2.2.0")
		s.Through(req)
		s.Refused("/auth", req.With(rig.Object{"threeDSServerTransID": strings.ToUpper(req.Text("threeDSServerTransID"))}), rig.Expected{Code: "301"})
	})
}

func TestAuthChannels(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	eachVersion(t, s, func(s *rig.Site, v string) {
		for name, make := range map[string]func(version, pan, transID string) rig.Object{"app": rig.AppRequest, "3RI": rig.ThreeRIRequest} {
			made := s.Through(make(v, rig.EnrolledPAN, ""))
			if id := made.Text("threeDSServerTransID"); !rig.UUIDPattern.MatchString(id) {
				s.T.Errorf("%s without an id: it went out as %q", name, id)
			}
			id := s.NewTransactionID()
			if got := s.Through(make(v, rig.EnrolledPAN, id)).Text("threeDSServerTransID"); got != id {
				s.T.Errorf("%s with an id of /preauth: it went out as %q, want %q", name, got, id)
			}
		}
		s.Refused("/auth", s.Request(v).With(rig.Object{"threeDSServerTransID": nil}), rig.Expected{Code: "201", Detail: "threeDSServerTransID"})
	})
	t.Run("non-payment", func(t *testing.T) {
		for _, category := range []string{"02", "80", "99"} {
			s := s.In(t)
			req := s.Request("2.2.0").With(rig.Object{
				"messageCategory": category, "purchaseAmount": nil, "purchaseCurrency": nil, "purchaseExponent": nil, "purchaseDate": nil,
				"threeDSRequestorAuthenticationInd": "04",
			})
			s.Directory.SetAnswer(func(areq rig.Object) (int, []byte) {
				return 200, rig.Marshal(rig.ARes(areq, "Y").With(rig.Object{"eci": nil, "authenticationValue": nil}))
			})
			same(t, s.Through(req), "messageCategory", category)
			s.Directory.SetAnswer(nil)
		}
	})
}

// hangUp posts an /auth and hangs up when its AReq is at the directory server.
func hangUp(s *rig.Site, req rig.Object, entered <-chan bool) {
	s.T.Helper()
	ctx, cancel := context.WithCancel(s.T.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.API+"/auth", bytes.NewReader(rig.Marshal(req)))
	if err != nil {
		s.T.Fatal(err)
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
		s.T.Fatal("the answer came before we hung up")
	}
}

func TestAuthGoesOn(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	entered, leave, answers := make(chan bool), make(chan bool), make(chan rig.Object, 1)
	s.Directory.Play(func(w http.ResponseWriter, areq rig.Object) {
		entered <- true
		<-leave
		answer := rig.ARes(areq, "C")
		answers <- answer
		_, _ = w.Write(rig.Marshal(answer))
	})
	req := s.Request("2.2.0")
	hangUp(s, req, entered)
	if got := s.Result(rig.Marshal(rig.RReq(req, rig.ARes(req, "C"), "Y"))); got.Text("errorCode") != "301" {
		t.Errorf("an RReq before the ARes: %v, want 301", got)
	}
	s.Refused("/auth", req, rig.Expected{Code: "301"})
	leave <- true
	answer := <-answers
	result := rig.Marshal(rig.RReq(req, answer, "Y"))
	var got rig.Object
	waittest.Until(t, "the ARes to be committed", func() bool {
		got = s.Result(result)
		return got.Text("messageType") == "RRes"
	})
	if code, back := s.Postauth(req.Text("threeDSServerTransID")); code != 200 || string(rig.Marshal(back)) != string(result) {
		t.Errorf("/postauth: %d %v", code, back)
	}
	if n := len(s.Directory.Sent(req.Text("threeDSServerTransID"))); n != 1 {
		t.Errorf("%d AReqs", n)
	}
}

func TestAuthCommitsFirst(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	f, p := rig.NewFaulty()
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), p)
	for status, want := range map[string]string{"C": "403", "Y": ""} {
		t.Run(status, func(t *testing.T) {
			s := s.In(t)
			s.Directory.SetAnswer(func(areq rig.Object) (int, []byte) {
				f.Down.Store(true) // the claim is written, the outcome will not be
				return 200, rig.Marshal(rig.ARes(areq, status))
			})
			defer f.Down.Store(false)
			code, got := s.Post("/auth", s.Request("2.2.0"))
			if want == "" && code != 200 || want != "" && got.Text("errorCode") != want {
				t.Errorf("%d %v, want code %q", code, got, want)
			}
		})
	}
}

// TestAuthTime: an /auth to a directory server that is silent in one way or another ends after the time limit, here a
// second. The same at a server with a limit of a minute, which is asked before, still waits then.
func TestAuthTime(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	for _, tt := range []struct {
		name  string
		trick func(leave <-chan bool) func(http.ResponseWriter, rig.Object) // nil: the server connects and never says a word
	}{
		{"silent", func(leave <-chan bool) func(http.ResponseWriter, rig.Object) {
			return func(http.ResponseWriter, rig.Object) { <-leave }
		}},
		{"half an answer", func(leave <-chan bool) func(http.ResponseWriter, rig.Object) {
			return func(w http.ResponseWriter, areq rig.Object) {
				answer := rig.Marshal(rig.ARes(areq, "Y"))
				_, _ = w.Write(answer[:20])
				_ = http.NewResponseController(w).Flush()
				<-leave
			}
		}},
		{"no TLS", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			mute, err := net.Listen("tcp", "127.0.0.1:0")
			rig.Must(t, err)
			defer mute.Close()
			leave := make(chan bool)
			start := func(limit time.Duration) *rig.Site {
				ca := rig.NewAuthority(t)
				p := rig.Plan{Sections: fmt.Sprintf("timeouts: {authentication: %v}", limit)}
				if tt.trick == nil {
					p.Change = func(cfg *server.Config) { cfg.Peers[0].AReqURL = "https://" + mute.Addr().String() + "/" }
				}
				s := rig.StartSite(t, ca, rig.NewWire(t, ca), p)
				if tt.trick != nil {
					s.Directory.Play(tt.trick(leave))
				}
				return s
			}
			patient, s := start(time.Minute), start(limit)
			control, ended := patient.Request("2.2.0"), make(chan struct{})
			ctx, hangUp := context.WithCancel(t.Context())
			go func() {
				defer close(ended)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, patient.API+"/auth", bytes.NewReader(rig.Marshal(control)))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("APIKey", patient.APIKey)
				if res, err := http.DefaultClient.Do(req); err == nil {
					res.Body.Close()
				}
			}()
			req := s.Request("2.2.0")
			begin := time.Now()
			s.Refused("/auth", req, rig.Expected{Code: "405", Detail: "Connection timeout", Msg: "AReq"})
			if took := time.Since(begin); took < limit {
				t.Errorf("it took %v, want %v", took, limit)
			}
			select {
			case <-ended:
				t.Error("it took as long as with a limit of a minute")
			default:
			}
			hangUp()
			close(leave)
			<-ended
		})
	}
}
