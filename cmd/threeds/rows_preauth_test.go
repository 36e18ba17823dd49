package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// The tests of this file show docs/api.md, "/preauth".

func TestPreauth(t *testing.T) {
	w := startSandbox(t)
	t.Run("members", func(t *testing.T) {
		for _, pan := range []string{"4000001234560103", "4000001234560003", "4000001234561103", "3000100000000103", "5000001234560203", "9001100600000000"} {
			w := &world{w.ready, t}
			crd := w.preauth(pan)
			members(t, "CRD", crd, ofCRD, []string{"threeDSMethodURL", "acsInfoInd"})
			if !uuid.MatchString(crd.text("threeDSServerTransID")) {
				t.Errorf("threeDSServerTransID = %q", crd.text("threeDSServerTransID"))
			}
			for _, name := range []string{"dsProtocolVersions", "acsProtocolVersions", "threeDSServerProtocolVersions"} {
				ascending(t, crd, name)
			}
			for _, v := range crd["acsProtocolVersions"].([]any) {
				members(t, "acsProtocolVersions", v.(map[string]any), []string{"version"}, []string{"threeDSMethodURL", "acsInfoInd"})
			}
			nowhere(t, "CRD", map[string]any(crd))
		}
	})
	t.Run("a fresh id each call", func(t *testing.T) {
		seen := make(map[string]bool)
		for range 200 {
			id := (&world{w.ready, t}).preauth("4000001234560103").text("threeDSServerTransID")
			if seen[id] {
				t.Fatalf("%s came twice", id)
			}
			seen[id] = true
		}
	})
	t.Run("length of the card number", func(t *testing.T) {
		for n := 12; n <= 20; n++ {
			code, got := (&world{w.ready, t}).post("/preauth", object{"acctNumber": fmt.Sprintf("4%0*d", n-1, 103)})
			if good := n >= 13 && n <= 19; good != (code == 200) {
				t.Errorf("%d digits: %d %v", n, code, got)
			}
		}
	})
	t.Run("3DS Method", func(t *testing.T) {
		for pan, has := range map[string]bool{"4000001234560003": true, "4000001234560103": false, "4000001234560203": true} {
			crd := (&world{w.ready, t}).preauth(pan)
			if (crd.text("threeDSMethodURL") != "") != has {
				t.Errorf("%s: threeDSMethodURL = %v", pan[12:], crd["threeDSMethodURL"])
			}
		}
	})
	t.Run("versions of the card", func(t *testing.T) {
		for pan, want := range map[string][]string{
			"4000001234560103": allVersions, "4000001234561103": allVersions[:1], "4000001234562103": allVersions[1:2], "4000001234563103": allVersions[2:],
		} {
			crd := (&world{w.ready, t}).preauth(pan)
			var got []string
			for _, v := range crd["acsProtocolVersions"].([]any) {
				got = append(got, v.(map[string]any)["version"].(string))
			}
			if !slices.Equal(got, want) || crd.text("acsStartProtocolVersion") != want[0] || crd.text("acsEndProtocolVersion") != want[len(want)-1] {
				t.Errorf("%s: %v", pan[12:], crd)
			}
		}
	})
	t.Run("does nothing at a directory server", func(t *testing.T) {
		w := &world{w.ready, t}
		crd := w.preauth("4000001234560103")
		w.refused("/postauth", object{"threeDSServerTransID": crd["threeDSServerTransID"]}, expected{code: "203"})
	})
}

// nowhere checks that nothing in v is null or empty.
func nowhere(t *testing.T, at string, v any) {
	t.Helper()
	switch v := v.(type) {
	case nil:
		t.Errorf("%s is null", at)
	case string:
		if v == "" {
			t.Errorf("%s is empty", at)
		}
	case []any:
		if len(v) == 0 {
			t.Errorf("%s is empty", at)
		}
		for _, item := range v {
			nowhere(t, at, item)
		}
	case map[string]any:
		for name, item := range v {
			nowhere(t, at+"."+name, item)
		}
	}
}

// TestPreauthCoBadged has a card that two schemes hold: the order of the
// configuration decides, and ds.
func TestPreauthCoBadged(t *testing.T) {
	ca, ca2 := newAuthority(t), newAuthority(t)
	master := newWire(t, ca2)
	s := startSite(t, ca, newWire(t, ca), plan{master: master})
	for _, tt := range []struct{ ds, want string }{{"", "visa"}, {"visa", "visa"}, {"mastercard", "mastercard"}} {
		t.Run(tt.ds, func(t *testing.T) {
			s := s.in(t)
			code, crd := s.post("/preauth", object{"acctNumber": testPAN, "ds": tt.ds})
			if code != 200 || crd.text("scheme") != tt.want {
				t.Fatalf("%d %v, want scheme %s", code, crd, tt.want)
			}
			id := crd.text("threeDSServerTransID")
			if code, got := s.post("/auth", browser("2.2.0", testPAN, id, "U")); code != 200 {
				t.Fatalf("/auth: %d %v", code, got)
			}
			if visa, other := len(s.ds.sent(id)), len(master.sent(id)); visa+other != 1 || (visa == 1) != (tt.want == "visa") {
				t.Errorf("%d AReqs at visa, %d at mastercard", visa, other)
			}
		})
	}
	t.Run("with every directory down", func(t *testing.T) {
		before := len(s.ds.areqs)
		s.ds.server.Close()
		master.server.Close()
		for range 20 {
			s.in(t).preauth(testPAN)
		}
		if len(s.ds.areqs) != before {
			t.Error("a /preauth cost a call to a directory server")
		}
		req := s.in(t).request("2.2.0")
		s.in(t).refused("/auth", req, expected{code: "405", detail: "Connection refused", msg: "AReq", transID: req.text("threeDSServerTransID")})
	})
}

// TestPreauthBest has a range whose versions differ: the members at the top are
// of the highest version that all share.
func TestPreauthBest(t *testing.T) {
	ca := newAuthority(t)
	ds := newWire(t, ca)
	ds.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &reshaped{ResponseWriter: w}
		ds.ServeHTTP(rec, r)
		rec.send()
	})
	s := startSite(t, ca, ds)
	crd := s.preauth(testPAN)
	if got := crd.text("threeDSMethodURL"); got != "https://acs.example/method/2.2.0" {
		t.Errorf("threeDSMethodURL = %q, want that of 2.2.0", got)
	}
	for _, tt := range []struct{ version, sent, want string }{
		{"2.2.0", "Y", "Y"}, {"2.2.0", "N", "N"}, {"2.2.0", "U", "U"}, {"2.1.0", "Y", "U"}, {"2.1.0", "N", "U"},
	} {
		got := s.through(browser(tt.version, testPAN, s.id(), tt.sent))
		same(t, got, "threeDSCompInd", tt.want)
	}
	s.refused("/auth", s.request("2.3.1"), expected{code: "102", description: "Unsupported message version", detail: "2.1.0,2.2.0", version: "2.3.1"})
	t.Run("what was refused is still good", func(t *testing.T) {
		s := s.in(t)
		req := s.request("2.3.1")
		s.refused("/auth", req, expected{code: "102"})
		s.through(browser("2.2.0", testPAN, req.text("threeDSServerTransID"), "U"))
	})
}

// reshaped changes the card ranges of a PRes: 2.1.0 without a 3DS Method, 2.2.0
// with one, and no 2.3.1 at the ACS.
type reshaped struct {
	http.ResponseWriter
	body []byte
}

func (r *reshaped) Write(p []byte) (int, error) {
	r.body = append(r.body, p...)
	return len(p), nil
}

func (r *reshaped) send() {
	var o object
	if err := unmarshal(r.body, &o); err == nil && o.text("messageType") == "PRes" {
		card := o["cardRangeData"].([]any)[0].(map[string]any)
		if o.text("messageVersion") == "2.3.1" {
			card["acsProtocolVersions"] = []object{
				{"version": "2.1.0", "acsInfoInd": []string{"01"}},
				{"version": "2.2.0", "acsInfoInd": []string{"01"}, "threeDSMethodURL": "https://acs.example/method/2.2.0"},
			}
		}
		r.body = marshal(o)
	}
	_, _ = r.ResponseWriter.Write(r.body)
}
