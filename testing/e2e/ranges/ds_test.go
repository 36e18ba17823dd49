package ranges

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func TestSpoiledARes(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	faults := append(rig.SpoiltMessages("ARes"),
		rig.SpoiltMessage{Name: "not asked for: D", Spoil: rig.SetMembers(rig.Object{"transStatus": "D", "acsChallengeMandated": "Y", "acsDecConInd": "Y",
			"cardholderInfo": "x", "authenticationType": "04", "eci": nil, "authenticationValue": nil}), Code: "203", Detail: "transStatus,acsDecConInd"},
		rig.SpoiltMessage{Name: "not asked for: I",
			Spoil: rig.SetMembers(rig.Object{"transStatus": "I", "eci": nil, "authenticationValue": nil}), Code: "203",
			Detail: "transStatus"},
		rig.SpoiltMessage{Name: "challenge without acsURL", Spoil: rig.SetMembers(rig.Object{"transStatus": "C", "acsChallengeMandated": "N",
			"authenticationType": "02", "eci": nil, "authenticationValue": nil}), Code: "201", Detail: "acsURL"},
		rig.SpoiltMessage{Name: "N without a reason",
			Spoil: rig.SetMembers(rig.Object{"transStatus": "N", "eci": nil, "authenticationValue": nil}), Code: "201",
			Detail: "transStatusReason"},
	)
	for _, f := range faults {
		t.Run(f.Name, func(t *testing.T) {
			s := s.In(t)
			var good rig.Object
			s.Directory.SetAnswer(func(areq rig.Object) (int, []byte) {
				good = rig.ARes(areq, "Y")
				return 200, f.Spoil(good)
			})
			req := s.Request("2.2.0")
			id := req.Text("threeDSServerTransID")
			want := rig.Expected{
				Code: f.Code, Description: "Invalid response from Directory Server", Detail: f.Detail, Msg: "ARes", TransID: id, Version: "2.2.0",
			}
			if f.Kind != "" {
				want.Msg = f.Kind
			}
			if f.Code == "202" {
				want.Detail = "messageExtension" // only the directory server is told the id
			}
			s.Refused("/auth", req, want)
			waittest.Until(t, "the Erro", func() bool { return len(s.Directory.Posted(id)) > 0 })
			f.Told(t, "ARes", id, "2.2.0", good, s.Directory.Posted(id)[0])
			s.Refused("/postauth", rig.Object{"threeDSServerTransID": id}, rig.Expected{Code: "203", Detail: "Unknown threeDSServerTransID"})
			s.Refused("/auth", req, rig.Expected{Code: "301"})
		})
	}
	t.Run("ids that are none are not repeated", func(t *testing.T) {
		s := s.In(t)
		s.Directory.SetAnswer(func(areq rig.Object) (int, []byte) {
			return 200, rig.Marshal(rig.ARes(areq, "Y").With(rig.Object{"dsTransID": "4000001234567890", "acsTransID": rig.EnrolledPAN}))
		})
		req := s.Request("2.2.0")
		s.Refused("/auth", req, rig.Expected{Code: "203", Detail: "acsTransID,dsTransID"})
		id := req.Text("threeDSServerTransID")
		waittest.Until(t, "the Erro", func() bool { return len(s.Directory.Posted(id)) > 0 })
		if got := s.Directory.Posted(id)[0]; got["dsTransID"] != nil || got["acsTransID"] != nil {
			t.Errorf("%v", got)
		}
	})
	t.Run("each once", func(t *testing.T) {
		if err := s.Stop(); err != nil { // after that no Erro is on its way
			t.Fatal(err)
		}
		times := make(map[string]int)
		for _, o := range s.Directory.Erros {
			times[o.Text("threeDSServerTransID")]++
		}
		for id, n := range times {
			if n != 1 {
				t.Errorf("%d Erros for %s", n, id)
			}
		}
	})
}

// TestNoARes has directory servers that give no ARes at all: the requestor
// learns it, and the directory server gets no Erro.
func TestNoARes(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	elsewhere := rig.NewWire(t, ca)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	var ids []string
	for _, tt := range []struct {
		name  string
		trick func(w http.ResponseWriter, areq rig.Object)
		want  rig.Expected
	}{
		{"Erro of the DS", erroOf(rig.Object{"errorCode": "305", "errorComponent": "D"}),
			rig.Expected{Code: "305", Component: "D", Description: "words of the DS", Detail: "more of them"}},
		{"Erro of the ACS", erroOf(rig.Object{"errorCode": "402", "errorComponent": "A"}), rig.Expected{Code: "402", Component: "A"}},
		{"Erro with a code that nobody knows", erroOf(rig.Object{"errorCode": "999", "errorComponent": "D"}), rig.Expected{Code: "999", Component: "D"}},
		{"Erro with members that nobody knows", erroOf(rig.Object{"errorCode": "303", "errorComponent": "D", "x": nil}), rig.Expected{Code: "303", Component: "D"}},
		{"HTTP 503", func(w http.ResponseWriter, _ rig.Object) { w.WriteHeader(503) },
			rig.Expected{Code: "405", Detail: "HTTP status 503 Service Unavailable", Msg: "AReq"}},
		{"HTTP 500 with a good ARes", func(w http.ResponseWriter, areq rig.Object) {
			w.WriteHeader(500)
			_, _ = w.Write(rig.Marshal(rig.ARes(areq, "Y")))
		}, rig.Expected{Code: "405", Detail: "HTTP status 500 Internal Server Error", Msg: "AReq"}},
		{"HTTP 204", func(w http.ResponseWriter, _ rig.Object) { w.WriteHeader(204) }, rig.Expected{Code: "405", Msg: "AReq"}},
		{"redirect", func(w http.ResponseWriter, _ rig.Object) {
			w.Header().Set("Location", elsewhere.Server.URL+"/")
			w.WriteHeader(307)
		}, rig.Expected{Code: "405", Detail: "HTTP status 307 Temporary Redirect", Msg: "AReq"}},
		{"10 MiB", func(w http.ResponseWriter, _ rig.Object) { _, _ = w.Write(bytes.Repeat([]byte(" "), 10<<20)) },
			rig.Expected{Code: "405", Detail: "Answer too large", Msg: "AReq"}},
		{"10 MiB around a good ARes", func(w http.ResponseWriter, areq rig.Object) {
			_, _ = w.Write(append(rig.Marshal(rig.ARes(areq, "Y")), bytes.Repeat([]byte(" "), 10<<20)...))
		}, rig.Expected{Code: "405", Detail: "Answer too large", Msg: "AReq"}},
		{"connection closed", func(http.ResponseWriter, rig.Object) { panic(http.ErrAbortHandler) },
			rig.Expected{Code: "405", Detail: "Connection closed", Msg: "AReq"}},
		{"connection closed in the answer", func(w http.ResponseWriter, areq rig.Object) {
			answer := rig.Marshal(rig.ARes(areq, "Y"))
			w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
			_, _ = w.Write(answer[:len(answer)-1])
			panic(http.ErrAbortHandler)
		}, rig.Expected{Code: "405", Detail: "Connection closed", Msg: "AReq"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := s.In(t)
			s.Directory.Play(tt.trick)
			req := s.Request("2.2.0")
			id := req.Text("threeDSServerTransID")
			ids = append(ids, id)
			if tt.want.Code == "405" {
				tt.want.Description, tt.want.Version = "Unable to contact Directory Server", "2.2.0"
			}
			tt.want.TransID = id
			s.Refused("/auth", req, tt.want)
			s.Directory.Play(nil)
			s.Refused("/auth", req, rig.Expected{Code: "301"})
			s.Refused("/postauth", rig.Object{"threeDSServerTransID": id}, rig.Expected{Code: "203", Detail: "Unknown threeDSServerTransID"})
			if n := len(s.Directory.Sent(id)); n != 1 {
				t.Errorf("%d AReqs came, want 1", n)
			}
		})
	}
	if len(elsewhere.AReqs) > 0 {
		t.Error("a redirect was followed with an AReq")
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if got := s.Directory.Posted(id); len(got) > 0 {
			t.Errorf("the directory server got %v", got)
		}
	}
}

// erroOf answers with an Erro.
func erroOf(o rig.Object) func(w http.ResponseWriter, areq rig.Object) {
	return func(w http.ResponseWriter, areq rig.Object) {
		_, _ = w.Write(rig.Marshal(rig.Object{
			"messageType": "Erro", "messageVersion": areq["messageVersion"], "threeDSServerTransID": areq["threeDSServerTransID"],
			"dsTransID": rig.NewUUID(), "errorDescription": "words of the DS", "errorDetail": "more of them", "errorMessageType": "AReq",
		}.With(o)))
	}
}

func TestSpoiledRReq(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	faults := append(rig.SpoiltMessages("RReq"),
		rig.SpoiltMessage{Name: "another category", Spoil: rig.SetMembers(rig.Object{"messageCategory": "02"}), Code: "203", Detail: "messageCategory"},
		rig.SpoiltMessage{Name: "another acsTransID",
			Spoil: rig.SetMembers(rig.Object{"acsTransID": "11111111-1111-4111-8111-111111111111"}), Code: "301", Detail: "acsTransID"},
	)
	areq, answer := s.Challenged("2.2.0")
	good := rig.RReq(areq, answer, "Y")
	id := areq.Text("threeDSServerTransID")
	for _, f := range faults {
		t.Run(f.Name, func(t *testing.T) {
			s := s.In(t)
			body := f.Spoil(good)
			got := s.Result(body)
			ids, version, transID := good, "2.2.0", id
			switch f.Name {
			case "foreign id":
				var sent rig.Object
				_ = rig.Unmarshal(body, &sent)
				transID = sent.Text("threeDSServerTransID")
			case "another acsTransID":
				ids = good.With(rig.Object{"acsTransID": "11111111-1111-4111-8111-111111111111"})
			}
			if f.NoIDs {
				transID, version = "", got.Text("messageVersion")
			}
			f.Told(t, "RReq", transID, version, ids, got)
			// The first of the faults is in an RReq of this transaction.
			s.Refused("/postauth", rig.Object{"threeDSServerTransID": id},
				rig.Expected{Code: "305", Detail: "A result was received and refused; no valid one has been received yet"})
		})
	}
	t.Run("10 MiB", func(t *testing.T) {
		if code, _, err := s.Directory.Post(s.ResultsURL, rig.PadTo(good, 10<<20)); err == nil && code != 413 {
			t.Errorf("%d, want 413", code)
		}
	})
	t.Run("Erros are not answered", func(t *testing.T) {
		for _, body := range []string{
			`{"messageType":"Erro"}`, `{"messageType":"Erro","threeDSServerTransID":"nonsense","errorCode":5}`,
			`{"messageType":"Erro","messageVersion":"9.9.9","errorCode":"101","errorCode":"102"}`,
		} {
			if got := s.In(t).Result([]byte(body)); got != nil {
				t.Errorf("%s was answered with %v", body, got)
			}
		}
	})
	t.Run("the good one after all that", func(t *testing.T) {
		s := s.In(t)
		if got := s.Result(rig.Marshal(good)); got.Text("messageType") != "RRes" {
			t.Fatalf("%v", got)
		}
		if code, got := s.Postauth(id); code != 200 || string(rig.Marshal(got)) != string(rig.Marshal(good)) {
			t.Errorf("/postauth: %d %v", code, got)
		}
	})
}
