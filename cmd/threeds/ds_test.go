package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// A spoiled message is one that a directory server got wrong: spoil makes of a
// good message the bytes that are sent, the rest says what is to be told of them.
type spoiled struct {
	name   string
	spoil  func(good object) []byte
	code   string
	detail string // "": anything
	kind   string // errorMessageType: "" that of the message, "-" none
	noIDs  bool   // the ids cannot be read
}

func set(changes object) func(object) []byte {
	return func(good object) []byte { return marshal(good.with(changes)) }
}

func plant(text string) func(object) []byte {
	return func(good object) []byte { return insert(good, text) }
}

func fixed(body string) func(object) []byte { return func(object) []byte { return []byte(body) } }

const versionList = "2.1.0,2.2.0,2.3.1"

// spoilt are the faults that an ARes and an RReq have in common.
func spoilt(kind string) []spoiled {
	return []spoiled{
		{name: "duplicate", spoil: plant(`,"transStatus":"Y"`), code: "204", detail: "transStatus"},
		{name: "duplicate, null", spoil: plant(`,"eci":null`), code: "204", detail: "eci"},
		{name: "foreign id", spoil: set(object{"threeDSServerTransID": newUUID()}), code: "301", detail: "threeDSServerTransID"},
		{name: "critical unknown extension", code: "202", detail: "A000-critical", spoil: set(object{"messageExtension": []object{
			{"id": "A000-critical", "name": "n", "criticalityIndicator": true, "data": object{"a": 1}}, {"id": "A000-other", "name": "n", "criticalityIndicator": false, "data": object{"a": 1}},
		}})},
		{name: "another active version", spoil: set(object{"messageVersion": "2.1.0"}), code: "203", detail: "messageVersion"},
		{name: "an inactive version", spoil: set(object{"messageVersion": "2.0.0"}), code: "102", detail: versionList},
		{name: "version of 3-D Secure 1", spoil: set(object{"messageVersion": "1.0.2"}), code: "102", detail: versionList},
		{name: "no version", spoil: set(object{"messageVersion": nil}), code: "201", detail: "messageVersion"},
		{name: "garbage", spoil: fixed("garbage"), code: "101", detail: "Invalid Formatted Message", kind: "-", noIDs: true},
		{name: "nothing", spoil: fixed(""), code: "101", kind: "-", noIDs: true},
		{name: "HTML", spoil: fixed("<html><body>Bad Gateway</body></html>"), code: "101", kind: "-", noIDs: true},
		{name: "an array", spoil: fixed("[]"), code: "101", kind: "-", noIDs: true},
		{name: "cut off", spoil: func(o object) []byte { b := marshal(o); return b[:len(b)/2] }, code: "101", kind: "-", noIDs: true},
		{name: "not UTF-8", spoil: plant(`,"x":"` + "\xff\xfe" + `"`), code: "101", kind: "-", noIDs: true},
		{name: "too deep", spoil: plant(`,"x":` + strings.Repeat("[", 50) + strings.Repeat("]", 50)), code: "101", kind: "-", noIDs: true},
		{name: "too many members", spoil: plant(more(2000)), code: "101", kind: "-", noIDs: true},
		{name: "unknown type", spoil: set(object{"messageType": "XRes"}), code: "101", detail: "Invalid Message Type", kind: "-"},
		{name: "no type", spoil: set(object{"messageType": nil}), code: "201", detail: "messageType"},
		{name: "another type", spoil: set(object{"messageType": "CRes"}), code: "101", detail: "Invalid Message for the receiving component", kind: "CRes"},
		{name: "missing", spoil: set(object{"transStatus": nil}), code: "201", detail: "transStatus"},
		{name: "missing, null", spoil: plantOver("dsTransID", "null"), code: "201", detail: "dsTransID"},
		{name: "missing, empty", spoil: set(object{"acsTransID": ""}), code: "201", detail: "acsTransID"},
		{name: "missing by a condition", spoil: set(object{"authenticationValue": nil}), code: "201", detail: "authenticationValue"},
		{name: "bad format", spoil: set(object{"transStatus": "Q"}), code: "203", detail: "transStatus"},
		{name: "of another JSON type", spoil: set(object{"transStatus": 1}), code: "203", detail: "transStatus"},
		{name: "optional and empty", spoil: set(object{"eci": ""}), code: "203", detail: "eci"},
		{name: "too long", spoil: set(object{"eci": "055"}), code: "203", detail: "eci"},
		{name: "two faults", spoil: set(object{"eci": "055", "transStatus": nil}), code: "203"},
		{name: "a request of ours", spoil: set(object{"messageType": "AReq"}), code: "101", kind: "AReq"},
		{name: "in its place: " + other(kind), spoil: set(object{"messageType": other(kind)}), code: "101", kind: other(kind)},
	}
}

func other(kind string) string {
	if kind == "ARes" {
		return "RReq"
	}
	return "ARes"
}

// plantOver gives a member another JSON text.
func plantOver(name, text string) func(object) []byte {
	return func(good object) []byte {
		return insert(good.with(object{name: nil}), fmt.Sprintf(`,%q:%s`, name, text))
	}
}

// told holds what a directory server is told of its message against it.
func (f spoiled) told(t *testing.T, kind, transID, version string, good, erro object) {
	t.Helper()
	if erro == nil {
		t.Error("the directory server was told nothing")
		return
	}
	members(t, "Erro", erro, ofErro, append(mayErro, peersErro...))
	want := object{
		"errorCode": f.code, "errorComponent": "S", "messageVersion": version, "errorMessageType": kind,
		"threeDSServerTransID": transID, "dsTransID": good.text("dsTransID"), "acsTransID": good.text("acsTransID"),
	}
	for c := range message.Code(1000) {
		if c.String() == f.code {
			want["errorDescription"] = c.Description()
		}
	}
	if f.detail != "" {
		want["errorDetail"] = f.detail
	}
	switch f.kind {
	case "":
	case "-":
		want["errorMessageType"] = ""
	default:
		want["errorMessageType"] = f.kind
	}
	if f.noIDs {
		want["dsTransID"], want["acsTransID"] = "", ""
	}
	switch kind + " " + f.name { // of an RReq the ids are known without it
	case "ARes missing, null":
		want["dsTransID"] = ""
	case "ARes missing, empty":
		want["acsTransID"] = ""
	}
	for name, w := range want {
		if erro.text(name) != w {
			t.Errorf("the directory server was told %s = %q, want %q", name, erro.text(name), w)
		}
	}
}

func TestSpoiledARes(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	faults := append(spoilt("ARes"),
		spoiled{name: "not asked for: D", spoil: set(object{"transStatus": "D", "acsChallengeMandated": "Y", "acsDecConInd": "Y",
			"cardholderInfo": "x", "authenticationType": "04", "eci": nil, "authenticationValue": nil}), code: "203", detail: "transStatus,acsDecConInd"},
		spoiled{name: "not asked for: I", spoil: set(object{"transStatus": "I", "eci": nil, "authenticationValue": nil}), code: "203", detail: "transStatus"},
		spoiled{name: "challenge without acsURL", spoil: set(object{"transStatus": "C", "acsChallengeMandated": "N",
			"authenticationType": "02", "eci": nil, "authenticationValue": nil}), code: "201", detail: "acsURL"},
		spoiled{name: "N without a reason", spoil: set(object{"transStatus": "N", "eci": nil, "authenticationValue": nil}), code: "201", detail: "transStatusReason"},
	)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			s := s.in(t)
			var good object
			s.ds.setAnswer(func(areq object) (int, []byte) {
				good = ares(areq, "Y")
				return 200, f.spoil(good)
			})
			req := s.request("2.2.0")
			id := req.text("threeDSServerTransID")
			want := expected{
				code: f.code, description: "Invalid response from Directory Server", detail: f.detail, msg: "ARes", transID: id, version: "2.2.0",
			}
			if f.kind != "" {
				want.msg = f.kind
			}
			if f.code == "202" {
				want.detail = "messageExtension" // only the directory server is told the id
			}
			s.refused("/auth", req, want)
			waitFor(t, "the Erro", func() bool { return len(s.ds.posted(id)) > 0 })
			f.told(t, "ARes", id, "2.2.0", good, s.ds.posted(id)[0])
			s.refused("/postauth", object{"threeDSServerTransID": id}, expected{code: "203", detail: "Unknown threeDSServerTransID"})
			s.refused("/auth", req, expected{code: "301"})
		})
	}
	t.Run("ids that are none are not repeated", func(t *testing.T) {
		s := s.in(t)
		s.ds.setAnswer(func(areq object) (int, []byte) {
			return 200, marshal(ares(areq, "Y").with(object{"dsTransID": "4000001234567890", "acsTransID": testPAN}))
		})
		req := s.request("2.2.0")
		s.refused("/auth", req, expected{code: "203", detail: "acsTransID,dsTransID"})
		id := req.text("threeDSServerTransID")
		waitFor(t, "the Erro", func() bool { return len(s.ds.posted(id)) > 0 })
		if got := s.ds.posted(id)[0]; got["dsTransID"] != nil || got["acsTransID"] != nil {
			t.Errorf("%v", got)
		}
	})
	t.Run("each once", func(t *testing.T) {
		if err := s.stop(); err != nil { // after that no Erro is on its way
			t.Fatal(err)
		}
		times := make(map[string]int)
		for _, o := range s.ds.erros {
			times[o.text("threeDSServerTransID")]++
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
	ca := newAuthority(t)
	elsewhere := newWire(t, ca)
	s := startSite(t, ca, newWire(t, ca))
	var ids []string
	for _, tt := range []struct {
		name  string
		trick func(w http.ResponseWriter, areq object)
		want  expected
	}{
		{"Erro of the DS", erroOf(object{"errorCode": "305", "errorComponent": "D"}), expected{code: "305", component: "D", description: "words of the DS", detail: "more of them"}},
		{"Erro of the ACS", erroOf(object{"errorCode": "402", "errorComponent": "A"}), expected{code: "402", component: "A"}},
		{"Erro with a code that nobody knows", erroOf(object{"errorCode": "999", "errorComponent": "D"}), expected{code: "999", component: "D"}},
		{"Erro with members that nobody knows", erroOf(object{"errorCode": "303", "errorComponent": "D", "x": nil}), expected{code: "303", component: "D"}},
		{"HTTP 503", func(w http.ResponseWriter, _ object) { w.WriteHeader(503) }, expected{code: "405", detail: "HTTP status 503 Service Unavailable", msg: "AReq"}},
		{"HTTP 500 with a good ARes", func(w http.ResponseWriter, areq object) {
			w.WriteHeader(500)
			_, _ = w.Write(marshal(ares(areq, "Y")))
		}, expected{code: "405", detail: "HTTP status 500 Internal Server Error", msg: "AReq"}},
		{"HTTP 204", func(w http.ResponseWriter, _ object) { w.WriteHeader(204) }, expected{code: "405", msg: "AReq"}},
		{"redirect", func(w http.ResponseWriter, _ object) {
			w.Header().Set("Location", elsewhere.server.URL+"/")
			w.WriteHeader(307)
		}, expected{code: "405", detail: "HTTP status 307 Temporary Redirect", msg: "AReq"}},
		{"10 MiB", func(w http.ResponseWriter, _ object) { _, _ = w.Write(bytes.Repeat([]byte(" "), 10<<20)) },
			expected{code: "405", detail: "Answer too large", msg: "AReq"}},
		{"10 MiB around a good ARes", func(w http.ResponseWriter, areq object) {
			_, _ = w.Write(append(marshal(ares(areq, "Y")), bytes.Repeat([]byte(" "), 10<<20)...))
		}, expected{code: "405", detail: "Answer too large", msg: "AReq"}},
		{"connection closed", func(http.ResponseWriter, object) { panic(http.ErrAbortHandler) }, expected{code: "405", detail: "Connection closed", msg: "AReq"}},
		{"connection closed in the answer", func(w http.ResponseWriter, areq object) {
			answer := marshal(ares(areq, "Y"))
			w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
			_, _ = w.Write(answer[:len(answer)-1])
			panic(http.ErrAbortHandler)
		}, expected{code: "405", detail: "Connection closed", msg: "AReq"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := s.in(t)
			s.ds.play(tt.trick)
			req := s.request("2.2.0")
			id := req.text("threeDSServerTransID")
			ids = append(ids, id)
			if tt.want.code == "405" {
				tt.want.description, tt.want.version = "Unable to contact Directory Server", "2.2.0"
			}
			tt.want.transID = id
			s.refused("/auth", req, tt.want)
			s.ds.play(nil)
			s.refused("/auth", req, expected{code: "301"})
			s.refused("/postauth", object{"threeDSServerTransID": id}, expected{code: "203", detail: "Unknown threeDSServerTransID"})
			if n := len(s.ds.sent(id)); n != 1 {
				t.Errorf("%d AReqs came, want 1", n)
			}
		})
	}
	if len(elsewhere.areqs) > 0 {
		t.Error("a redirect was followed with an AReq")
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if got := s.ds.posted(id); len(got) > 0 {
			t.Errorf("the directory server got %v", got)
		}
	}
}

// erroOf answers with an Erro.
func erroOf(o object) func(w http.ResponseWriter, areq object) {
	return func(w http.ResponseWriter, areq object) {
		_, _ = w.Write(marshal(object{
			"messageType": "Erro", "messageVersion": areq["messageVersion"], "threeDSServerTransID": areq["threeDSServerTransID"],
			"dsTransID": newUUID(), "errorDescription": "words of the DS", "errorDetail": "more of them", "errorMessageType": "AReq",
		}.with(o)))
	}
}

func TestSpoiledRReq(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	faults := append(spoilt("RReq"),
		spoiled{name: "another category", spoil: set(object{"messageCategory": "02"}), code: "203", detail: "messageCategory"},
		spoiled{name: "another acsTransID", spoil: set(object{"acsTransID": "11111111-1111-4111-8111-111111111111"}), code: "301", detail: "acsTransID"},
	)
	areq, answer := s.challenged("2.2.0")
	good := rreq(areq, answer, "Y")
	id := areq.text("threeDSServerTransID")
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			s := s.in(t)
			body := f.spoil(good)
			got := s.result(body)
			ids, version, transID := good, "2.2.0", id
			switch f.name {
			case "foreign id":
				var sent object
				_ = unmarshal(body, &sent)
				transID = sent.text("threeDSServerTransID")
			case "another acsTransID":
				ids = good.with(object{"acsTransID": "11111111-1111-4111-8111-111111111111"})
			}
			if f.noIDs {
				transID, version = "", got.text("messageVersion")
			}
			f.told(t, "RReq", transID, version, ids, got)
			// The first of the faults is in an RReq of this transaction.
			s.refused("/postauth", object{"threeDSServerTransID": id},
				expected{code: "305", detail: "A result was received and refused; no valid one has been received yet"})
		})
	}
	t.Run("10 MiB", func(t *testing.T) {
		if code, _, err := s.ds.post(s.results, padded(good, 10<<20)); err == nil && code != 413 {
			t.Errorf("%d, want 413", code)
		}
	})
	t.Run("Erros are not answered", func(t *testing.T) {
		for _, body := range []string{
			`{"messageType":"Erro"}`, `{"messageType":"Erro","threeDSServerTransID":"nonsense","errorCode":5}`,
			`{"messageType":"Erro","messageVersion":"9.9.9","errorCode":"101","errorCode":"102"}`,
		} {
			if got := s.in(t).result([]byte(body)); got != nil {
				t.Errorf("%s was answered with %v", body, got)
			}
		}
	})
	t.Run("the good one after all that", func(t *testing.T) {
		s := s.in(t)
		if got := s.result(marshal(good)); got.text("messageType") != "RRes" {
			t.Fatalf("%v", got)
		}
		if code, got := s.postauth(id); code != 200 || string(marshal(got)) != string(marshal(good)) {
			t.Errorf("/postauth: %d %v", code, got)
		}
	})
}
