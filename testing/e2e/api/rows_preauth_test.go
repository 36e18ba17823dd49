package api

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// The tests of this file show docs/api.md, "/preauth".

func TestPreauth(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	t.Run("members", func(t *testing.T) {
		for _, pan := range []string{"4000001234560103", "4000001234560003", "4000001234561103", "3000100000000103", "5000001234560203", "9001100600000000"} {
			w := &rig.World{ReadyFile: w.ReadyFile, T: t}
			crd := w.Preauth(pan)
			rig.CheckMembers(t, "CRD", crd, ofCRD, []string{"threeDSMethodURL", "acsInfoInd"})
			if !rig.UUIDPattern.MatchString(crd.Text("threeDSServerTransID")) {
				t.Errorf("threeDSServerTransID = %q", crd.Text("threeDSServerTransID"))
			}
			for _, name := range []string{"dsProtocolVersions", "acsProtocolVersions", "threeDSServerProtocolVersions"} {
				ascending(t, crd, name)
			}
			for _, v := range crd["acsProtocolVersions"].([]any) {
				rig.CheckMembers(t, "acsProtocolVersions", v.(map[string]any), []string{"version"}, []string{"threeDSMethodURL", "acsInfoInd"})
			}
			nowhere(t, "CRD", map[string]any(crd))
		}
	})
	t.Run("a fresh id each call", func(t *testing.T) {
		seen := make(map[string]bool)
		for range 200 {
			id := (&rig.World{ReadyFile: w.ReadyFile, T: t}).Preauth("4000001234560103").Text("threeDSServerTransID")
			if seen[id] {
				t.Fatalf("%s came twice", id)
			}
			seen[id] = true
		}
	})
	t.Run("length of the card number", func(t *testing.T) {
		for n := 12; n <= 20; n++ {
			code, got := (&rig.World{ReadyFile: w.ReadyFile, T: t}).Post("/preauth", rig.Object{"acctNumber": fmt.Sprintf("4%0*d", n-1, 103)})
			if good := n >= 13 && n <= 19; good != (code == 200) {
				t.Errorf("%d digits: %d %v", n, code, got)
			}
		}
	})
	t.Run("3DS Method", func(t *testing.T) {
		for pan, has := range map[string]bool{"4000001234560003": true, "4000001234560103": false, "4000001234560203": true} {
			crd := (&rig.World{ReadyFile: w.ReadyFile, T: t}).Preauth(pan)
			if (crd.Text("threeDSMethodURL") != "") != has {
				t.Errorf("%s: threeDSMethodURL = %v", pan[12:], crd["threeDSMethodURL"])
			}
		}
	})
	t.Run("versions of the card", func(t *testing.T) {
		for pan, want := range map[string][]string{
			"4000001234560103": rig.AllVersions, "4000001234561103": rig.AllVersions[:1],
			"4000001234562103": rig.AllVersions[1:2], "4000001234563103": rig.AllVersions[2:],
		} {
			crd := (&rig.World{ReadyFile: w.ReadyFile, T: t}).Preauth(pan)
			var got []string
			for _, v := range crd["acsProtocolVersions"].([]any) {
				got = append(got, v.(map[string]any)["version"].(string))
			}
			if !slices.Equal(got, want) || crd.Text("acsStartProtocolVersion") != want[0] || crd.Text("acsEndProtocolVersion") != want[len(want)-1] {
				t.Errorf("%s: %v", pan[12:], crd)
			}
		}
	})
	t.Run("does nothing at a directory server", func(t *testing.T) {
		w := &rig.World{ReadyFile: w.ReadyFile, T: t}
		crd := w.Preauth("4000001234560103")
		w.Refused("/postauth", rig.Object{"threeDSServerTransID": crd["threeDSServerTransID"]}, rig.Expected{Code: "203"})
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
	t.Parallel()
	ca, ca2 := rig.NewAuthority(t), rig.NewAuthority(t)
	master := rig.NewWire(t, ca2)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Master: master})
	for _, tt := range []struct{ ds, want string }{{"", "visa"}, {"visa", "visa"}, {"mastercard", "mastercard"}} {
		t.Run(tt.ds, func(t *testing.T) {
			s := s.In(t)
			code, crd := s.Post("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN, "ds": tt.ds})
			if code != 200 || crd.Text("scheme") != tt.want {
				t.Fatalf("%d %v, want scheme %s", code, crd, tt.want)
			}
			id := crd.Text("threeDSServerTransID")
			if code, got := s.Post("/auth", rig.BrowserRequest("2.2.0", rig.EnrolledPAN, id, "U")); code != 200 {
				t.Fatalf("/auth: %d %v", code, got)
			}
			if visa, other := len(s.Directory.Sent(id)), len(master.Sent(id)); visa+other != 1 || (visa == 1) != (tt.want == "visa") {
				t.Errorf("%d AReqs at visa, %d at mastercard", visa, other)
			}
		})
	}
	t.Run("with every directory down", func(t *testing.T) {
		before := len(s.Directory.AReqs)
		s.Directory.Server.Close()
		master.Server.Close()
		for range 20 {
			s.In(t).Preauth(rig.EnrolledPAN)
		}
		if len(s.Directory.AReqs) != before {
			t.Error("a /preauth cost a call to a directory server")
		}
		req := s.In(t).Request("2.2.0")
		s.In(t).Refused("/auth", req, rig.Expected{Code: "405", Detail: "Connection refused", Msg: "AReq", TransID: req.Text("threeDSServerTransID")})
	})
}

// TestPreauthBest has a range whose versions differ: the members at the top are
// of the highest version that all share.
func TestPreauthBest(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	ds.Server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &reshaped{ResponseWriter: w}
		ds.ServeHTTP(rec, r)
		rec.send()
	})
	s := rig.StartSite(t, ca, ds)
	crd := s.Preauth(rig.EnrolledPAN)
	if got := crd.Text("threeDSMethodURL"); got != "https://acs.example/method/2.2.0" {
		t.Errorf("threeDSMethodURL = %q, want that of 2.2.0", got)
	}
	for _, tt := range []struct{ version, sent, want string }{
		{"2.2.0", "Y", "Y"}, {"2.2.0", "N", "N"}, {"2.2.0", "U", "U"}, {"2.1.0", "Y", "U"}, {"2.1.0", "N", "U"},
	} {
		got := s.Through(rig.BrowserRequest(tt.version, rig.EnrolledPAN, s.NewTransactionID(), tt.sent))
		same(t, got, "threeDSCompInd", tt.want)
	}
	s.Refused("/auth", s.Request("2.3.1"), rig.Expected{Code: "102", Description: "Unsupported message version", Detail: "2.1.0,2.2.0", Version: "2.3.1"})
	t.Run("what was refused is still good", func(t *testing.T) {
		s := s.In(t)
		req := s.Request("2.3.1")
		s.Refused("/auth", req, rig.Expected{Code: "102"})
		s.Through(rig.BrowserRequest("2.2.0", rig.EnrolledPAN, req.Text("threeDSServerTransID"), "U"))
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
	var o rig.Object
	if err := rig.Unmarshal(r.body, &o); err == nil && o.Text("messageType") == "PRes" {
		card := o["cardRangeData"].([]any)[0].(map[string]any)
		if o.Text("messageVersion") == "2.3.1" {
			card["acsProtocolVersions"] = []rig.Object{
				{"version": "2.1.0", "acsInfoInd": []string{"01"}},
				{"version": "2.2.0", "acsInfoInd": []string{"01"}, "threeDSMethodURL": "https://acs.example/method/2.2.0"},
			}
		}
		r.body = rig.Marshal(o)
	}
	_, _ = r.ResponseWriter.Write(r.body)
}
