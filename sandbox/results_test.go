package sandbox_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/sandbox"
)

// follow sends an AReq and checks the RReq that comes of it.
func (s *server) follow(areq members, between func(ares members)) (ares members, rreq result) {
	s.t.Helper()
	ares = s.ask(areq)
	if between != nil {
		between(ares)
	}
	rreq = s.result()
	valid(s.t, rreq.raw, message.Context{AReq: parse(s.t, areq.json(s.t)), ARes: parse(s.t, ares.json(s.t))})
	for _, name := range []string{"acsTransID", "dsTransID"} {
		if rreq.message[name] != ares[name] {
			s.t.Errorf("%s differs between ARes and RReq", name)
		}
	}
	return ares, rreq
}

// TestAppResults is the challenge in an app, whose result comes by itself or
// by the control port.
func TestAppResults(t *testing.T) {
	box := start(t, nil)
	s := newServer(t, box)
	decide := func(id, result string) int {
		answer, err := http.PostForm(box.ControlURL()+"/app", url.Values{"transID": {id}, "result": {result}})
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for _, test := range []struct{ end, control, status string }{
			{"70", "", "Y"}, {"71", "", "N"}, {"72", "pass", "Y"}, {"72", "fail", "N"}, {"72", "cancel", "N"}, {"72", "timeout", "N"},
		} {
			areq := s.areq(version, "01", "40000000000001"+test.end)
			_, rreq := s.follow(areq, func(ares members) {
				if test.control == "" {
					return
				}
				if got := decide(ares["acsTransID"].(string), test.control); got != http.StatusOK {
					t.Errorf("control port: status %d", got)
				}
			})
			tried := map[string]any{"timeout": "00"}[test.control]
			if tried == nil {
				tried = "01"
			}
			if rreq.message["transStatus"] != test.status || rreq.message["interactionCounter"] != tried || rreq.client != "rreq.visa.sandbox.test" {
				t.Errorf("%s %v: %s from %s", version, test, rreq.raw, rreq.client)
			}
			if want := map[string]any{"cancel": "01", "timeout": "04"}[test.control]; rreq.message["challengeCancel"] != want {
				t.Errorf("%s %v: challengeCancel %v, want %v", version, test, rreq.message["challengeCancel"], want)
			}
			if test.control != "" && decide(rreq.message["dsTransID"].(string), "pass") != http.StatusNotFound {
				t.Error("a challenge was decided twice")
			}
		}
	}
	if decide(newID(), "pass") != http.StatusNotFound || decide(newID(), "maybe") != http.StatusBadRequest {
		t.Error("the control port takes anything")
	}
}

// TestResultReachesASlowServer: a server that takes three seconds to answer the TLS handshake, because it gets little
// processor time, still gets the result. Only ResultTimeout ends the wait.
func TestResultReachesASlowServer(t *testing.T) {
	t.Parallel()
	s := newServer(t, start(t, func(box *sandbox.Sandbox) { box.ResultTimeout = time.Hour }))
	s.greeted = func(conn net.Conn) { // the client says nothing before it has an answer
		_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after its greeting the client sent %d bytes, %v", n, err)
		}
		_ = conn.SetReadDeadline(time.Time{})
	}
	if _, rreq := s.follow(s.areq("2.2.0", "01", "4000000000000170"), nil); rreq.message["transStatus"] != "Y" {
		t.Errorf("%s", rreq.raw)
	}
}

// TestBrowserDecided: a page that waits in a browser is decided at the control port
// as well, so that a test need not wait for its time to be over.
func TestBrowserDecided(t *testing.T) {
	box := start(t, nil)
	s := newServer(t, box)
	for _, test := range []struct{ result, status, cancel, asked string }{
		{"pass", "Y", "", "01"}, {"fail", "N", "", "01"}, {"cancel", "N", "01", "00"}, {"timeout", "N", "04", "00"},
	} {
		areq, ares := s.challenged("2.2.0", "4000000000000172")
		form := url.Values{"transID": {ares["acsTransID"].(string)}, "result": {test.result}}
		if p := send(t, box.ControlURL()+"/app", form); p.status != http.StatusNotFound {
			t.Errorf("%s before the CReq: %d", test.result, p.status)
		}
		page := send(t, ares["acsURL"].(string), s.form(creq(ares), "YQ"))
		if p := send(t, box.ControlURL()+"/app", form); p.status != http.StatusOK {
			t.Errorf("%s: %d %s", test.result, p.status, p.text)
		}
		rreq, _ := s.over(get(t, page.url.String()), areq, ares, test.status, "YQ")
		if cancel, _ := rreq["challengeCancel"].(string); cancel != test.cancel {
			t.Errorf("%s: challengeCancel %q, want %q", test.result, cancel, test.cancel)
		}
		if rreq["interactionCounter"] != test.asked {
			t.Errorf("%s: interactionCounter %v, want %s", test.result, rreq["interactionCounter"], test.asked)
		}
	}
}

// TestAppPage is the same by hand.
func TestAppPage(t *testing.T) {
	box := start(t, nil)
	s := newServer(t, box)
	areq := s.areq("2.2.0", "01", "4000000000000172")
	s.follow(areq, func(ares members) {
		p := get(t, box.ControlURL()+"/app?transID="+ares["acsTransID"].(string))
		p.guarded()
		if p.testID("merchant") != "Bicycles & Sons" || !strings.Contains(p.text, `data-testid="challenge-pass"`) {
			t.Errorf("page %s", p.text)
		}
		to, err := p.url.Parse(p.action())
		if err != nil {
			t.Fatal(err)
		}
		if p := send(t, to.String(), url.Values{"result": {"pass"}}); p.status != http.StatusOK {
			t.Errorf("status %d", p.status)
		}
	})
}

func TestDecoupled(t *testing.T) {
	s := newServer(t, start(t, nil))
	for _, version := range []string{"2.2.0", "2.3.1"} {
		for _, channel := range []string{"01", "02"} {
			_, rreq := s.follow(s.areq(version, channel, "5200000000000183"), nil)
			if rreq.message["transStatus"] != "Y" || rreq.message["eci"] != "02" || rreq.message["interactionCounter"] != nil {
				t.Errorf("%s", rreq.raw)
			}
			if version == "2.2.0" && rreq.message["authenticationType"] != "04" {
				t.Errorf("authenticationType in %s", rreq.raw)
			}
		}
	}
}

// TestTimeouts leaves challenges alone.
func TestTimeouts(t *testing.T) {
	s := newServer(t, start(t, func(s *sandbox.Sandbox) {
		s.FirstCReqTimeout, s.StepTimeout = 2*time.Millisecond, 3*time.Millisecond
	}))
	for _, test := range []struct{ channel, cancel string }{{"02", "05"}, {"01", "04"}} {
		_, rreq := s.follow(s.areq("2.2.0", test.channel, "4000000000000172"), nil)
		if rreq.message["transStatus"] != "N" || rreq.message["transStatusReason"] != "14" || rreq.message["challengeCancel"] != test.cancel {
			t.Errorf("channel %s: %s", test.channel, rreq.raw)
		}
	}
}

// TestBadRRes answers an RReq badly: the directory server says so.
func TestBadRRes(t *testing.T) {
	box := start(t, nil)
	s := newServer(t, box)
	s.answer = func(m members) (int, []byte) {
		if m["messageType"] == "Erro" {
			return http.StatusOK, nil
		}
		return http.StatusOK, rres(m).with(members{"acsTransID": newID()}).json(t)
	}
	areq := s.areq("2.2.0", "02", "4000000000000183")
	s.follow(areq, nil)
	erro := s.result()
	valid(t, erro.raw, message.Context{})
	if erro.message["errorCode"] != "301" || erro.message["errorMessageType"] != "RRes" || erro.message["errorComponent"] != "D" {
		t.Errorf("got %s", erro.raw)
	}
}

// TestNoRRes counts how often an RReq is tried.
func TestNoRRes(t *testing.T) {
	box := start(t, nil)
	s := newServer(t, box)
	s.answer = func(members) (int, []byte) { return http.StatusInternalServerError, nil }
	_, rreq := s.follow(s.areq("2.2.0", "02", "4000000000000183"), nil)
	id := rreq.message["threeDSServerTransID"].(string)
	waitFor(t, box, id, func(all []sandbox.Exchange) bool {
		return strings.Contains(all[len(all)-1].Note, "no answer: status 500")
	})
	s.none() // it arrived, so it is not sent again

	// No listener: tried twice, then given up.
	areq := s.areq("2.2.0", "02", "4000000000000183").with(members{"threeDSServerURL": "https://127.0.0.1:1/"})
	s.ask(areq)
	waitFor(t, box, areq["threeDSServerTransID"].(string), func(all []sandbox.Exchange) bool {
		return strings.Contains(all[len(all)-1].Note, "no answer:")
	})
	// Not on this machine: not even tried.
	areq = s.areq("2.2.0", "02", "4000000000000183").with(members{"threeDSServerURL": "https://192.0.2.1/"})
	s.ask(areq)
	waitFor(t, box, areq["threeDSServerTransID"].(string), func(all []sandbox.Exchange) bool {
		return strings.Contains(all[len(all)-1].Note, "not on this machine")
	})
}

// waitFor waits until what was recorded is as it should be.
func waitFor(t *testing.T, box *sandbox.Sandbox, id string, ok func([]sandbox.Exchange) bool) {
	t.Helper()
	done := eventually(func() bool {
		all := box.Received(id)
		return len(all) > 0 && ok(all)
	})
	if !done {
		t.Fatalf("waited in vain: %+v", box.Received(id))
	}
}

// eventually asks until it is so, for some seconds.
func eventually(ok func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 5000 {
		if ok() {
			return true
		}
		<-tick.C
	}
	return false
}

// TestReceivedTellsWhatPassed looks at what is remembered, here and on the control port.
func TestReceivedTellsWhatPassed(t *testing.T) {
	box := start(t, nil)
	s := newServer(t, box)
	areq := s.areq("2.2.0", "02", "4000000000000183")
	ares, rreq := s.follow(areq, nil)
	id := ares["dsTransID"].(string)
	waitFor(t, box, id, func(all []sandbox.Exchange) bool { return len(all) == 4 })
	all := box.Received(id)
	var seen []string
	for _, e := range all {
		seen = append(seen, e.From+" "+e.Type+" "+e.To)
	}
	want := []string{"server AReq ds visa", "ds visa ARes server", "ds visa RReq server", "server RRes ds visa"}
	if !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
	if all[0].Body != string(areq.json(t)) || all[2].Body != string(rreq.raw) {
		t.Error("bodies differ from what was on the wire")
	}
	var told []sandbox.Exchange
	answer, err := http.Get(box.ControlURL() + "/exchanges?transID=" + id)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&told); err != nil || len(told) != 4 || told[2].Body != all[2].Body {
		t.Errorf("the control port tells %+v, %v", told, err)
	}
	for _, tt := range []struct {
		path   string
		status int
		says   string
		isJSON bool
	}{
		{"/exchanges?transID=x", 404, "no transaction with this transID", true},
		{"/transactions", 200, areq["threeDSServerTransID"].(string), true},
		{"/cards", 200, sandbox.CardTable(), false},
		{"/v1", 200, sandbox.V1Table(), false},
		{"/app?transID=" + id, 404, "No challenge in an app waits here.", false},
	} {
		answer, err := http.Get(box.ControlURL() + tt.path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != tt.status || !strings.Contains(string(text), tt.says) || json.Valid(text) != tt.isJSON {
			t.Errorf("GET %s: %s, %v: %s", tt.path, answer.Status, err, text)
		}
	}
}

// TestControlTextListsWhatIsThere: the page at the address that the sandbox prints lists
// what is there, and all of that is there.
func TestControlTextListsWhatIsThere(t *testing.T) {
	box := start(t, nil)
	ask := func(method, path string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, box.ControlURL()+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	routes := 0
	for line := range strings.Lines(ask("GET", "/")) {
		words := strings.Fields(line)
		if len(words) < 2 || !slices.Contains([]string{"GET", "POST", "PUT"}, words[0]) {
			continue
		}
		routes++
		path := strings.ReplaceAll(words[1], "SCHEME", "visa")
		if got := ask(words[0], path); got == "404 page not found\n" || got == "Method Not Allowed\n" {
			t.Errorf("%s %s: %s", words[0], path, got)
		}
	}
	if routes < 12 {
		t.Errorf("%d routes are told of, want 12", routes)
	}
}

// TestOldestTransactionsAreForgotten forgets the oldest transactions.
func TestOldestTransactionsAreForgotten(t *testing.T) {
	box := start(t, func(s *sandbox.Sandbox) { s.Keep = 2 })
	s := newServer(t, box)
	var ids []string
	for range 3 {
		areq := s.areq("2.2.0", "02", "4000000000000103")
		s.ask(areq)
		ids = append(ids, areq["threeDSServerTransID"].(string))
	}
	if box.Received(ids[0]) != nil || box.Received(ids[1]) == nil || box.Received(ids[2]) == nil {
		t.Error("the wrong transactions were forgotten")
	}
}
