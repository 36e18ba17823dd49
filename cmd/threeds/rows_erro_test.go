package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/server"
	"github.com/openthreeds/threeds/message"
)

// TestErroTable shows each line of docs/api.md, "Erro", that takes no time.
func TestErroTable(t *testing.T) {
	ca, ca2 := newAuthority(t), newAuthority(t)
	f, p := newFaulty()
	p.master = newWire(t, ca2)
	s := startSite(t, ca, newWire(t, ca), p)
	hasty := startSite(t, ca, s.ds, plan{beside: s, change: func(cfg *server.Config) {
		cfg.Timeouts.Authentication, cfg.Peers[0].Timeout = time.Second, time.Second
	}})
	const none = "No response from directory server yet"
	unknown := expected{code: "203", description: "Unknown threeDSServerTransID", detail: "Unknown threeDSServerTransID"}
	for _, tt := range []struct {
		name string
		try  func(s *site)
	}{
		{"not JSON", func(s *site) {
			for _, path := range []string{"/preauth", "/auth", "/postauth"} {
				for _, body := range []string{"", "x", "{", `{"acctNumber":}`, "[]", `"text"`, "null", `{"a":1}{"b":2}`, `{"a":1,}`, `{'a':1}`, `{"a":01}`} {
					got := s.refused(path, body, expected{code: "203", description: "Invalid JSON", version: "2.2.0", transID: "-"})
					if detail := got.text("errorDetail"); !strings.Contains(detail, "byte") {
						s.t.Errorf("%q: errorDetail = %q, without the offset", body, detail)
					}
				}
			}
		}},
		{"card in no range, preauth", func(s *site) {
			s.refused("/preauth", object{"acctNumber": "5000001234567890"}, expected{code: "305", description: "Unknown BIN",
				detail: "No CRD found, card with BIN ****** is not enrolled with any known DS", transID: "-"})
		}},
		{"element missing", func(s *site) {
			s.refused("/preauth", object{}, expected{code: "201", detail: "acctNumber", description: message.Missing.Description()})
			s.refused("/auth", s.request("2.2.0").with(object{"mcc": nil}), expected{code: "201", detail: "mcc", version: "2.2.0"})
			s.refused("/auth", s.request("2.1.0").with(object{"mcc": nil}), expected{code: "201", detail: "mcc", version: "2.1.0"})
			s.refused("/auth", s.request("2.2.0").with(object{"threeDSServerTransID": nil}), expected{code: "201", detail: "threeDSServerTransID"})
		}},
		{"element malformed", func(s *site) {
			for _, pan := range []any{"4000", "40000012345678901234", "400000123456789x", 4000001234567890, "4000 0012 3456 7890", []string{"4000001234567890"}} {
				s.refused("/preauth", object{"acctNumber": pan}, expected{code: "203", detail: "acctNumber", description: message.Format.Description()})
			}
			s.refused("/auth", s.request("2.2.0").with(object{"mcc": "54111"}), expected{code: "203", detail: "mcc"})
		}},
		{"ISO code excluded", func(s *site) {
			s.refused("/auth", s.request("2.2.0").with(object{"purchaseCurrency": "964"}), expected{code: "304", detail: "purchaseCurrency", description: message.ISOCode.Description()})
		}},
		{"version unknown", func(s *site) {
			for _, v := range []string{"2.0.0", "1.0.2", "2.3.0", "3.0.0", "x"} {
				s.refused("/auth", s.request("2.2.0").with(object{"messageVersion": v}),
					expected{code: "102", description: "Unsupported message version", detail: "2.1.0,2.2.0,2.3.1", version: "2.2.0"})
			}
		}},
		{"id unknown", func(s *site) {
			for _, id := range []string{newUUID(), "00000000-0000-4000-8000-000000000000"} {
				s.refused("/auth", s.request("2.2.0").with(object{"threeDSServerTransID": id}), expected{code: "301", description: "No transaction found"})
			}
		}},
		{"id of another key", func(s *site) {
			req := s.request("2.2.0")
			code, unknown := s.post("/auth", req.with(object{"threeDSServerTransID": newUUID()}))
			expected{code: "301"}.check(s.t, code, unknown)
			s.APIKey = s.OtherAPIKey
			foreign := s.refused("/auth", req, expected{code: "301", description: "No transaction found"})
			if string(marshal(foreign)) != string(marshal(unknown)) {
				s.t.Errorf("another merchant's id tells %v, an unknown one %v", foreign, unknown)
			}
		}},
		{"id already used", func(s *site) {
			req := s.request("2.2.0")
			s.through(req)
			s.refused("/auth", req, expected{code: "301", description: "No transaction found", transID: req.text("threeDSServerTransID")})
		}},
		{"other card than in preauth", func(s *site) {
			s.refused("/auth", s.request("2.2.0").with(object{"acctNumber": "4000001234567899"}),
				expected{code: "305", description: "Transaction data not valid", detail: "acctNumber"})
		}},
		{"DS silent", func(s *site) {
			leave := make(chan bool)
			s.ds.play(func(w http.ResponseWriter, _ object) { <-leave })
			defer s.ds.play(nil)
			defer close(leave)
			req := s.request("2.2.0")
			hasty.in(s.t).refused("/auth", req, expected{code: "405", description: "Unable to contact Directory Server",
				detail: "Connection timeout", msg: "AReq", transID: req.text("threeDSServerTransID"), version: "2.2.0"})
			s.spent(req.text("threeDSServerTransID"))
			s.refused("/postauth", object{"threeDSServerTransID": req["threeDSServerTransID"]}, unknown)
		}},
		{"ARes invalid", func(s *site) {
			req := s.request("2.2.0")
			s.ds.setAnswer(func(areq object) (int, []byte) {
				return 200, marshal(ares(areq, "Y").with(object{"eci": nil, "transStatus": "Q"}))
			})
			defer s.ds.setAnswer(nil)
			got := s.refused("/auth", req, expected{code: "203", description: "Invalid response from Directory Server", detail: "transStatus", msg: "ARes"})
			id := req.text("threeDSServerTransID")
			waitFor(s.t, "the Erro at the directory server", func() bool { return len(s.ds.posted(id)) == 1 })
			if erro := s.ds.posted(id)[0]; erro.text("errorCode") != got.text("errorCode") {
				s.t.Errorf("the directory server got code %s, the requestor %s", erro.text("errorCode"), got.text("errorCode"))
			}
			s.refused("/postauth", object{"threeDSServerTransID": id}, unknown)
		}},
		{"nothing received yet", func(s *site) {
			areq, _ := s.challenged("2.2.0")
			id := areq.text("threeDSServerTransID")
			s.refused("/postauth", object{"threeDSServerTransID": id},
				expected{code: "305", description: "No RReq has been received", detail: none, transID: id, version: "2.2.0"})
		}},
		{"id unknown, postauth", func(s *site) {
			for _, id := range []any{newUUID(), "nonsense", s.id(), 5} {
				s.refused("/postauth", object{"threeDSServerTransID": id}, unknown)
			}
		}},
		{"frictionless, postauth", func(s *site) {
			for _, status := range []string{"Y", "N", "A", "U", "R"} {
				s.ds.setAnswer(says(status))
				id := s.through(s.request("2.2.0"))["threeDSServerTransID"]
				s.refused("/postauth", object{"threeDSServerTransID": id}, expected{code: "203",
					description: "Unknown threeDSServerTransID", detail: "No challenge took place, the result is in the ARes"})
			}
			s.ds.setAnswer(nil)
		}},
		{"own store unreachable", func(s *site) {
			req := s.request("2.2.0")
			areq, _ := s.challenged("2.2.0")
			f.down.Store(true)
			defer f.down.Store(false)
			s.refused("/auth", req, expected{code: "403", description: "Transient system failure"})
			s.refused("/postauth", object{"threeDSServerTransID": areq["threeDSServerTransID"]}, expected{code: "403", description: "Transient system failure"})
			s.refused("/postauth", object{"threeDSServerTransID": newUUID()}, expected{code: "403"})
			f.down.Store(false)
			s.through(req)
		}},
		{"card in no range, auth", func(s *site) {
			for _, req := range []object{
				app("2.2.0", "5000001234567890", ""), threeRI("2.2.0", "5000001234567890", ""),
			} {
				s.refused("/auth", req, expected{code: "305", description: "Transaction data not valid", detail: "acctNumber"})
			}
		}},
		{"threeDSServerTransID absent, postauth", func(s *site) {
			for _, body := range []string{`{}`, `{"threeDSServerTransID":null}`, `{"threeDSServerTransID":""}`, `{"x":1}`} {
				s.refused("/postauth", body, expected{code: "201", detail: "threeDSServerTransID", description: message.Missing.Description()})
			}
		}},
		{"auth in flight, postauth", func(s *site) {
			entered, leave := make(chan bool), make(chan bool)
			s.ds.play(func(w http.ResponseWriter, areq object) {
				entered <- true
				<-leave
				_, _ = w.Write(marshal(ares(areq, "Y")))
			})
			defer s.ds.play(nil)
			req, done := s.request("2.2.0"), make(chan bool)
			go func() {
				defer close(done)
				s.post("/auth", req)
			}()
			<-entered
			s.refused("/postauth", object{"threeDSServerTransID": req["threeDSServerTransID"]},
				expected{code: "305", description: "No RReq has been received", detail: none})
			close(leave)
			<-done
		}},
		{"the RReq that came was bad, postauth", func(s *site) {
			areq, answer := s.challenged("2.2.0")
			if got := s.result(marshal(rreq(areq, answer, "Y").with(object{"transStatus": "Q"}))); got.text("errorCode") != "203" {
				s.t.Fatalf("the bad RReq: %v", got)
			}
			s.refused("/postauth", object{"threeDSServerTransID": areq["threeDSServerTransID"]}, expected{code: "305",
				description: "No RReq has been received", detail: "A result was received and refused; no valid one has been received yet"})
		}},
		{"the DS posted an Erro, postauth", func(s *site) {
			areq, answer := s.challenged("2.2.0")
			posted := object{
				"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "402", "errorComponent": "D", "errorMessageType": "CReq",
				"errorDescription": "Transaction timed out", "errorDetail": "ACS gave up", "acsTransID": answer["acsTransID"],
				"dsTransID": answer["dsTransID"], "threeDSServerTransID": answer["threeDSServerTransID"],
			}
			if got := s.result(marshal(posted)); got != nil {
				s.t.Errorf("an Erro was answered with %v", got)
			}
			got := s.refused("/postauth", object{"threeDSServerTransID": areq["threeDSServerTransID"]}, expected{code: "402", component: "D"})
			if string(marshal(got)) != string(marshal(posted)) {
				s.t.Errorf("relayed as %v, was %v", got, posted)
			}
		}},
		{"a known ds word that does not hold the card", func(s *site) {
			for _, ds := range []string{"standin", "jcb", "upi", "amex", "protectbuy", "sbn"} {
				s.refused("/preauth", object{"acctNumber": testPAN, "ds": ds}, expected{code: "305", description: "Unknown BIN",
					detail: "No CRD found, card with BIN ****** is not enrolled with any known DS"})
			}
		}},
		{"an unknown ds word", func(s *site) {
			for _, ds := range []any{"Visa", "maestro", " visa", 1, []string{"visa"}} {
				s.refused("/preauth", object{"acctNumber": testPAN, "ds": ds}, expected{code: "203", detail: "ds", description: message.Format.Description()})
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.try(s.in(t)) })
	}
}

// TestErroOfTime shows the lines of docs/api.md, "Erro", that take time: a site of its own
// lives faster than any configuration allows.
func TestErroOfTime(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca), plan{change: func(cfg *server.Config) {
		cfg.Timeouts.Challenge, cfg.Timeouts.Result = time.Second, time.Second
	}})
	t.Run("id expired", func(t *testing.T) {
		s, start := startSite(t, ca, s.ds, plan{beside: s, change: func(cfg *server.Config) { cfg.Timeouts.Preauth = time.Second }}), time.Now()
		req := s.request("2.2.0")
		since(t, start, 1100*time.Millisecond)
		s.refused("/auth", req, expected{code: "301", description: "No transaction found"})
		if n := len(s.ds.sent(req.text("threeDSServerTransID"))); n > 0 {
			t.Errorf("%d AReqs left", n)
		}
	})
	t.Run("the wait is over, postauth", func(t *testing.T) {
		s := s.in(t)
		areq, answer := s.challenged("2.2.0")
		waitFor(t, "the end of the wait", func() bool {
			_, got := s.postauth(areq.text("threeDSServerTransID"))
			return got.text("errorCode") == "203"
		})
		s.refused("/postauth", object{"threeDSServerTransID": areq["threeDSServerTransID"]},
			expected{code: "203", description: "Unknown threeDSServerTransID", detail: "Expired"})
		if got := s.result(marshal(rreq(areq, answer, "Y"))); got.text("errorCode") != "301" {
			t.Errorf("a result after the wait: %v, want 301", got)
		}
	})
	t.Run("result expired, postauth", func(t *testing.T) {
		s := s.in(t)
		areq, answer := s.challenged("2.2.0")
		s.result(marshal(rreq(areq, answer, "Y")))
		waitFor(t, "the result to go", func() bool {
			code, got := s.postauth(areq.text("threeDSServerTransID"))
			if code != 200 {
				expected{code: "203", description: "Unknown threeDSServerTransID", detail: "Unknown threeDSServerTransID"}.check(t, code, got)
			}
			return code != 200
		})
	})
}

// TestErroOfStart has what a server says before and after the first answer of
// its directories.
func TestErroOfStart(t *testing.T) {
	ca := newAuthority(t)
	t.Run("no directory has been tried yet", func(t *testing.T) {
		ds, leave := newWire(t, ca), make(chan bool)
		ds.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-leave
			ds.ServeHTTP(w, r)
		})
		s := startSite(t, ca, ds, plan{unready: true})
		waitFor(t, "an answer", func() bool { res, err := http.Get(s.console + "/readyz"); return err == nil && res.Body.Close() == nil })
		if got := s.readiness(); !strings.Contains(got, "unready") {
			t.Errorf("ready without having asked a directory: %s", got)
		}
		transient := expected{code: "403", description: "Transient system failure"}
		s.refused("/preauth", object{"acctNumber": testPAN}, transient)
		s.refused("/auth", app("2.2.0", testPAN, newUUID()), transient)
		close(leave)
		waitFor(t, "the card ranges", func() bool { return s.readiness() == `{"status":"ready"}` })
		s.preauth(testPAN)
	})
	t.Run("a directory that gave no ranges", func(t *testing.T) {
		ds := newWire(t, ca)
		ds.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
		s := startSite(t, ca, ds, plan{unready: true})
		waitFor(t, "the first attempt", func() bool { return strings.Contains(s.readiness(), "degraded") })
		s.refused("/preauth", object{"acctNumber": testPAN}, expected{code: "305", description: "Unknown BIN"})
		for _, name := range []string{"threeds_card_ranges", "threeds_card_ranges_loaded_timestamp_seconds"} {
			if n := s.metric(name + `{scheme="visa"}`); n != 0 {
				t.Errorf("%s is %v, and an alert waits for 0", name, n)
			}
		}
		if !strings.Contains(s.log.String(), "ranges") {
			t.Error("no log line tells of it")
		}
	})
}
