package api

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestErroTable shows each line of docs/api.md, "Erro", that takes no time.
func TestErroTable(t *testing.T) {
	t.Parallel()
	ca, ca2 := rig.NewAuthority(t), rig.NewAuthority(t)
	f, p := rig.NewFaulty()
	p.Master = rig.NewWire(t, ca2)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), p)
	hasty := rig.StartSite(t, ca, s.Directory, rig.Plan{Beside: s, Change: func(cfg *server.Config) {
		cfg.Timeouts.Authentication, cfg.Peers[0].Timeout = time.Second, time.Second
	}})
	const none = "No response from directory server yet"
	unknown := rig.Expected{Code: "203", Description: "Unknown threeDSServerTransID", Detail: "Unknown threeDSServerTransID"}
	for _, tt := range []struct {
		name string
		try  func(s *rig.Site)
	}{
		{"not JSON", func(s *rig.Site) {
			for _, path := range []string{"/preauth", "/auth", "/postauth"} {
				for _, body := range []string{"", "x", "{", `{"acctNumber":}`, "[]", `"text"`, "null", `{"a":1}{"b":2}`, `{"a":1,}`, `{'a':1}`, `{"a":01}`} {
					got := s.Refused(path, body, rig.Expected{Code: "203", Description: "Invalid JSON", Version: "2.2.0", TransID: "-"})
					if detail := got.Text("errorDetail"); !strings.Contains(detail, "byte") {
						s.T.Errorf("%q: errorDetail = %q, without the offset", body, detail)
					}
				}
			}
		}},
		{"card in no range, preauth", func(s *rig.Site) {
			s.Refused("/preauth", rig.Object{"acctNumber": "5000001234567890"}, rig.Expected{Code: "305", Description: "Unknown BIN",
				Detail: "No CRD found, card with BIN ****** is not enrolled with any known DS", TransID: "-"})
		}},
		{"element missing", func(s *rig.Site) {
			s.Refused("/preauth", rig.Object{}, rig.Expected{Code: "201", Detail: "acctNumber", Description: message.Missing.Description()})
			s.Refused("/auth", s.Request("2.2.0").With(rig.Object{"mcc": nil}), rig.Expected{Code: "201", Detail: "mcc", Version: "2.2.0"})
			s.Refused("/auth", s.Request("2.1.0").With(rig.Object{"mcc": nil}), rig.Expected{Code: "201", Detail: "mcc", Version: "2.1.0"})
			s.Refused("/auth", s.Request("2.2.0").With(rig.Object{"threeDSServerTransID": nil}), rig.Expected{Code: "201", Detail: "threeDSServerTransID"})
		}},
		{"element malformed", func(s *rig.Site) {
			for _, pan := range []any{"4000", "40000012345678901234", "400000123456789x", 4000001234567890, "4000.0012.3456.7890", []string{"4000001234567890"}} {
				s.Refused("/preauth", rig.Object{"acctNumber": pan}, rig.Expected{Code: "203", Detail: "acctNumber", Description: message.Format.Description()})
			}
			s.Refused("/auth", s.Request("2.2.0").With(rig.Object{"mcc": "54111"}), rig.Expected{Code: "203", Detail: "mcc"})
		}},
		{"ISO code excluded", func(s *rig.Site) {
			s.Refused("/auth", s.Request("2.2.0").With(rig.Object{"purchaseCurrency": "964"}),
				rig.Expected{Code: "304", Detail: "purchaseCurrency", Description: message.ISOCode.Description()})
		}},
		{"version unknown", func(s *rig.Site) {
			for _, v := range []string{"2.0.0", "1.0.2", "2.3.0", "3.0.0", "x"} {
				s.Refused("/auth", s.Request("2.2.0").With(rig.Object{"messageVersion": v}),
					rig.Expected{Code: "102", Description: "Unsupported message version", Detail: "2.1.0,2.2.0,2.3.1", Version: "2.2.0"})
			}
		}},
		{"id unknown", func(s *rig.Site) {
			for _, id := range []string{rig.NewUUID(), "00000000-0000-4000-8000-000000000000"} {
				s.Refused("/auth", s.Request("2.2.0").With(rig.Object{"threeDSServerTransID": id}), rig.Expected{Code: "301", Description: "No transaction found"})
			}
		}},
		{"id of another key", func(s *rig.Site) {
			req := s.Request("2.2.0")
			code, unknown := s.Post("/auth", req.With(rig.Object{"threeDSServerTransID": rig.NewUUID()}))
			rig.Expected{Code: "301"}.Check(s.T, code, unknown)
			s.APIKey = s.OtherAPIKey
			foreign := s.Refused("/auth", req, rig.Expected{Code: "301", Description: "No transaction found"})
			if string(rig.Marshal(foreign)) != string(rig.Marshal(unknown)) {
				s.T.Errorf("another merchant's id tells %v, an unknown one %v", foreign, unknown)
			}
		}},
		{"id already used", func(s *rig.Site) {
			req := s.Request("2.2.0")
			s.Through(req)
			s.Refused("/auth", req, rig.Expected{Code: "301", Description: "No transaction found", TransID: req.Text("threeDSServerTransID")})
		}},
		{"other card than in preauth", func(s *rig.Site) {
			s.Refused("/auth", s.Request("2.2.0").With(rig.Object{"acctNumber": "4000001234567899"}),
				rig.Expected{Code: "305", Description: "Transaction data not valid", Detail: "acctNumber"})
		}},
		{"DS silent", func(s *rig.Site) {
			leave := make(chan bool)
			s.Directory.Play(func(w http.ResponseWriter, _ rig.Object) { <-leave })
			defer s.Directory.Play(nil)
			defer close(leave)
			req := s.Request("2.2.0")
			hasty.In(s.T).Refused("/auth", req, rig.Expected{Code: "405", Description: "Unable to contact Directory Server",
				Detail: "Connection timeout", Msg: "AReq", TransID: req.Text("threeDSServerTransID"), Version: "2.2.0"})
			s.Spent(req.Text("threeDSServerTransID"))
			s.Refused("/postauth", rig.Object{"threeDSServerTransID": req["threeDSServerTransID"]}, unknown)
		}},
		{"ARes invalid", func(s *rig.Site) {
			req := s.Request("2.2.0")
			s.Directory.SetAnswer(func(areq rig.Object) (int, []byte) {
				return 200, rig.Marshal(rig.ARes(areq, "Y").With(rig.Object{"eci": nil, "transStatus": "Q"}))
			})
			defer s.Directory.SetAnswer(nil)
			got := s.Refused("/auth", req, rig.Expected{Code: "203", Description: "Invalid response from Directory Server", Detail: "transStatus", Msg: "ARes"})
			id := req.Text("threeDSServerTransID")
			waittest.Until(s.T, "the Erro at the directory server", func() bool { return len(s.Directory.Posted(id)) == 1 })
			if erro := s.Directory.Posted(id)[0]; erro.Text("errorCode") != got.Text("errorCode") {
				s.T.Errorf("the directory server got code %s, the requestor %s", erro.Text("errorCode"), got.Text("errorCode"))
			}
			s.Refused("/postauth", rig.Object{"threeDSServerTransID": id}, unknown)
		}},
		{"nothing received yet", func(s *rig.Site) {
			areq, _ := s.Challenged("2.2.0")
			id := areq.Text("threeDSServerTransID")
			s.Refused("/postauth", rig.Object{"threeDSServerTransID": id},
				rig.Expected{Code: "305", Description: "No RReq has been received", Detail: none, TransID: id, Version: "2.2.0"})
		}},
		{"id unknown, postauth", func(s *rig.Site) {
			for _, id := range []any{rig.NewUUID(), "nonsense", s.NewTransactionID(), 5} {
				s.Refused("/postauth", rig.Object{"threeDSServerTransID": id}, unknown)
			}
		}},
		{"frictionless, postauth", func(s *rig.Site) {
			for _, status := range []string{"Y", "N", "A", "U", "R"} {
				s.Directory.SetAnswer(rig.AnswerStatus(status))
				id := s.Through(s.Request("2.2.0"))["threeDSServerTransID"]
				s.Refused("/postauth", rig.Object{"threeDSServerTransID": id}, rig.Expected{Code: "203",
					Description: "Unknown threeDSServerTransID", Detail: "No challenge took place, the result is in the ARes"})
			}
			s.Directory.SetAnswer(nil)
		}},
		{"own store unreachable", func(s *rig.Site) {
			req := s.Request("2.2.0")
			areq, _ := s.Challenged("2.2.0")
			f.Down.Store(true)
			defer f.Down.Store(false)
			s.Refused("/auth", req, rig.Expected{Code: "403", Description: "Transient system failure"})
			s.Refused("/postauth", rig.Object{"threeDSServerTransID": areq["threeDSServerTransID"]}, rig.Expected{Code: "403", Description: "Transient system failure"})
			s.Refused("/postauth", rig.Object{"threeDSServerTransID": rig.NewUUID()}, rig.Expected{Code: "403"})
			f.Down.Store(false)
			s.Through(req)
		}},
		{"card in no range, auth", func(s *rig.Site) {
			for _, req := range []rig.Object{
				rig.AppRequest("2.2.0", "5000001234567890", ""), rig.ThreeRIRequest("2.2.0", "5000001234567890", ""),
			} {
				s.Refused("/auth", req, rig.Expected{Code: "305", Description: "Transaction data not valid", Detail: "acctNumber"})
			}
		}},
		{"threeDSServerTransID absent, postauth", func(s *rig.Site) {
			for _, body := range []string{`{}`, `{"threeDSServerTransID":null}`, `{"threeDSServerTransID":""}`, `{"x":1}`} {
				s.Refused("/postauth", body, rig.Expected{Code: "201", Detail: "threeDSServerTransID", Description: message.Missing.Description()})
			}
		}},
		{"auth in flight, postauth", func(s *rig.Site) {
			entered, leave := make(chan bool), make(chan bool)
			s.Directory.Play(func(w http.ResponseWriter, areq rig.Object) {
				entered <- true
				<-leave
				_, _ = w.Write(rig.Marshal(rig.ARes(areq, "Y")))
			})
			defer s.Directory.Play(nil)
			req, done := s.Request("2.2.0"), make(chan bool)
			go func() {
				defer close(done)
				s.Post("/auth", req)
			}()
			<-entered
			s.Refused("/postauth", rig.Object{"threeDSServerTransID": req["threeDSServerTransID"]},
				rig.Expected{Code: "305", Description: "No RReq has been received", Detail: none})
			close(leave)
			<-done
		}},
		{"the RReq that came was bad, postauth", func(s *rig.Site) {
			areq, answer := s.Challenged("2.2.0")
			if got := s.Result(rig.Marshal(rig.RReq(areq, answer, "Y").With(rig.Object{"transStatus": "Q"}))); got.Text("errorCode") != "203" {
				s.T.Fatalf("the bad RReq: %v", got)
			}
			s.Refused("/postauth", rig.Object{"threeDSServerTransID": areq["threeDSServerTransID"]}, rig.Expected{Code: "305",
				Description: "No RReq has been received", Detail: "A result was received and refused; no valid one has been received yet"})
		}},
		{"the DS posted an Erro, postauth", func(s *rig.Site) {
			areq, answer := s.Challenged("2.2.0")
			posted := rig.Object{
				"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "402", "errorComponent": "D", "errorMessageType": "CReq",
				"errorDescription": "Transaction timed out", "errorDetail": "ACS gave up", "acsTransID": answer["acsTransID"],
				"dsTransID": answer["dsTransID"], "threeDSServerTransID": answer["threeDSServerTransID"],
			}
			if got := s.Result(rig.Marshal(posted)); got != nil {
				s.T.Errorf("an Erro was answered with %v", got)
			}
			got := s.Refused("/postauth", rig.Object{"threeDSServerTransID": areq["threeDSServerTransID"]}, rig.Expected{Code: "402", Component: "D"})
			if string(rig.Marshal(got)) != string(rig.Marshal(posted)) {
				s.T.Errorf("relayed as %v, was %v", got, posted)
			}
		}},
		{"a known ds word that does not hold the card", func(s *rig.Site) {
			for _, ds := range []string{"standin", "jcb", "upi", "amex", "protectbuy", "sbn"} {
				s.Refused("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN, "ds": ds}, rig.Expected{Code: "305", Description: "Unknown BIN",
					Detail: "No CRD found, card with BIN ****** is not enrolled with any known DS"})
			}
		}},
		{"an unknown ds word", func(s *rig.Site) {
			for _, ds := range []any{"Visa", "maestro", " visa", 1, []string{"visa"}} {
				s.Refused("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN, "ds": ds},
					rig.Expected{Code: "203", Detail: "ds", Description: message.Format.Description()})
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.try(s.In(t)) })
	}
}

// TestErroOfTime shows the lines of docs/api.md, "Erro", that take time: a site of its own
// lives faster than any configuration allows.
func TestErroOfTime(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Change: func(cfg *server.Config) {
		cfg.Timeouts.Challenge, cfg.Timeouts.Result = time.Second, time.Second
	}})
	t.Run("id expired", func(t *testing.T) {
		var ahead atomic.Int64 // of the site's clock
		s := rig.StartSite(t, ca, s.Directory, rig.Plan{Beside: s, Change: func(cfg *server.Config) {
			cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		}})
		req := s.Request("2.2.0")
		ahead.Store(int64(61 * time.Minute)) // An id is good for twenty minutes here.
		s.Refused("/auth", req, rig.Expected{Code: "301", Description: "No transaction found"})
		if n := len(s.Directory.Sent(req.Text("threeDSServerTransID"))); n > 0 {
			t.Errorf("%d AReqs left", n)
		}
	})
	t.Run("the wait is over, postauth", func(t *testing.T) {
		s := s.In(t)
		areq, answer := s.Challenged("2.2.0")
		waittest.Until(t, "the end of the wait", func() bool {
			_, got := s.Postauth(areq.Text("threeDSServerTransID"))
			return got.Text("errorCode") == "203"
		})
		s.Refused("/postauth", rig.Object{"threeDSServerTransID": areq["threeDSServerTransID"]},
			rig.Expected{Code: "203", Description: "Unknown threeDSServerTransID", Detail: "Expired"})
		if got := s.Result(rig.Marshal(rig.RReq(areq, answer, "Y"))); got.Text("errorCode") != "301" {
			t.Errorf("a result after the wait: %v, want 301", got)
		}
	})
	t.Run("result expired, postauth", func(t *testing.T) {
		s := s.In(t)
		areq, answer := s.Challenged("2.2.0")
		s.Result(rig.Marshal(rig.RReq(areq, answer, "Y")))
		waittest.Until(t, "the result to go", func() bool {
			code, got := s.Postauth(areq.Text("threeDSServerTransID"))
			if code != 200 {
				rig.Expected{Code: "203", Description: "Unknown threeDSServerTransID", Detail: "Unknown threeDSServerTransID"}.Check(t, code, got)
			}
			return code != 200
		})
	})
}

// TestErroOfStart has what a server says before and after the first answer of
// its directories.
func TestErroOfStart(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	t.Run("no directory has been tried yet", func(t *testing.T) {
		ds, leave := rig.NewWire(t, ca), make(chan bool)
		ds.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-leave
			ds.ServeHTTP(w, r)
		})
		s := rig.StartSite(t, ca, ds, rig.Plan{Unready: true})
		waittest.Until(t, "an answer", func() bool {
			res, err := http.Get(s.ConsoleURL + "/readyz")
			return err == nil && res.Body.Close() == nil
		})
		if got := s.Readiness(); !strings.Contains(got, "unready") {
			t.Errorf("ready without having asked a directory: %s", got)
		}
		transient := rig.Expected{Code: "403", Description: "Transient system failure"}
		s.Refused("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN}, transient)
		s.Refused("/auth", rig.AppRequest("2.2.0", rig.EnrolledPAN, rig.NewUUID()), transient)
		close(leave)
		waittest.Until(t, "the card ranges", func() bool { return s.Readiness() == `{"status":"ready"}` })
		s.Preauth(rig.EnrolledPAN)
	})
	t.Run("a directory that gave no ranges", func(t *testing.T) {
		ds := rig.NewWire(t, ca)
		ds.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
		s := rig.StartSite(t, ca, ds, rig.Plan{Unready: true})
		waittest.Until(t, "the first attempt", func() bool { return strings.Contains(s.Readiness(), "degraded") })
		s.Refused("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN}, rig.Expected{Code: "305", Description: "Unknown BIN"})
		for _, name := range []string{"threeds_card_ranges", "threeds_card_ranges_loaded_timestamp_seconds"} {
			if n := s.Metric(name + `{scheme="visa"}`); n != 0 {
				t.Errorf("%s is %v, and an alert waits for 0", name, n)
			}
		}
		if !strings.Contains(s.Log.String(), "ranges") {
			t.Error("no log line tells of it")
		}
	})
}
