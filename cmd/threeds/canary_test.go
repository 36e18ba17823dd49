package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// The canaries: nothing but the answers that have to carry them may hold one.
const (
	canaryPAN   = "4000001122334455"
	canaryOther = "4000006677889900"
	canaryValue = "Q0FOQVJZVkFMVUVDQU5BUlk9PT0="
	canaryName  = "Canary Cardholder"
	canaryEmail = "canary.zyx@cardholder.example"
	canaryWrong = "cafecafe-dead-4bad-8bad-cafedeadbeef" // a key that is not good
)

// An aviary collects what a server wrote while canaries flew through it.
type aviary struct {
	*site
	proc *process

	numbered *atomic.Int64     // requests
	secrets  map[string]string // by name
	spans    *collector
	mu       *sync.Mutex
	written  map[string][]byte // what is to be searched, by where it comes from
}

func (a *aviary) keep(from string, data []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written[fmt.Sprintf("%s, %d", from, len(a.written))] = data
}

// send posts to the API and keeps the answer, unless it is one that has to
// carry canaries.
func (a *aviary) send(path, key string, body any) object {
	a.t.Helper()
	res, data := a.call(http.MethodPost, path, key, body, a.trace()...)
	var o object
	_ = unmarshal(data, &o)
	if kind := o.text("messageType"); kind != "ARes" && kind != "RReq" {
		a.keep(fmt.Sprintf("answer of %s, %d", path, res.StatusCode), data)
	}
	return o
}

// trace are the headers by which a request says what trace it is part of, full of canaries:
// the ids of every second one are made of them.
func (a *aviary) trace() []string {
	parent := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if a.numbered.Add(1)%2 == 0 {
		parent = "00-0000000000000000" + canaryPAN + "-" + canaryPAN + "-01"
	}
	return []string{"Traceparent", parent, "Tracestate", "shop=" + canaryPAN, "Baggage", "pan=" + canaryPAN + ",name=" + canaryValue}
}

// carrier is a request full of canaries.
func (a *aviary) carrier(version, pan string) object {
	id := a.send("/preauth", a.APIKey, object{"acctNumber": pan}).text("threeDSServerTransID")
	return browser(version, pan, id, "U").with(object{
		"cardholderName": canaryName, "email": canaryEmail, "acctID": canaryOther,
		"messageExtension": []object{{"id": "A1", "name": "n", "criticalityIndicator": false, "data": object{"pan": pan}}},
	})
}

// TestCanaries: what has to stay secret is in no answer that need not carry it, and in
// nothing that the server writes (I9).
func TestCanaries(t *testing.T) {
	ca := newAuthority(t)
	spans := newCollector(t)
	s, proc := spawnSite(t, ca, newWire(t, ca), plan{sections: "limits: {in_flight: 8}\n" + spans.section("1")})
	revoked := s.key("Shop")
	a := &aviary{site: s, proc: proc, spans: spans, numbered: new(atomic.Int64), mu: new(sync.Mutex), written: make(map[string][]byte), secrets: map[string]string{
		"PAN": canaryPAN, "other PAN": canaryOther, "authenticationValue": canaryValue, "name": canaryName, "e-mail": canaryEmail,
		"API key": s.APIKey, "other merchant's key": s.OtherAPIKey, "revoked key": revoked, "wrong key": canaryWrong,
	}}
	for name, fly := range map[string]func(*aviary){
		"good": (*aviary).good, "bad requests": (*aviary).badRequests, "bad answers": (*aviary).badAnswers,
		"bad results": (*aviary).badResults, "overload": (*aviary).overload, "silence": (*aviary).silence,
		"keys": func(a *aviary) { a.keys(revoked) },
	} {
		t.Run(name, func(t *testing.T) {
			b := *a
			b.site = s.in(t)
			fly(&b)
		})
	}
	for _, path := range []string{"/metrics", "/readyz", "/livez", "/" + canaryPAN} {
		a.get(path)
	}
	a.files("while it runs")
	if proc.out.String() == "" || !strings.Contains(proc.out.String(), `"DEBUG"`) && !strings.Contains(proc.out.String(), `"msg":"request"`) {
		t.Error("there is no log to search")
	}
	proc.end(syscall.SIGTERM)
	a.files("after its end")
	a.keep("log", []byte(proc.out.String()))
	for _, data := range spans.raw {
		a.keep("spans", data)
	}
	for _, s := range spans.spans {
		a.keep("ids of a span", fmt.Appendf(nil, "%x %x %x", s.TraceId, s.SpanId, s.ParentSpanId))
	}
	if n := len(spans.spans); n < 300 {
		t.Errorf("%d spans: too few, the test shows nothing of them", n)
	}
	size := 0
	for from, data := range a.written {
		size += len(data)
		for name, secret := range a.secrets {
			if in := scan(data, secret); in != "" {
				t.Errorf("%s holds the %s: %s", from, name, in)
			}
		}
	}
	t.Logf("%d texts and files, %d bytes", len(a.written), size)
	if size < 10000 {
		t.Error("too little was written: the test shows nothing")
	}
	// The control: a canary planted anywhere is found.
	for from, data := range a.written {
		for name, secret := range a.secrets {
			if scan(append(bytes.Clone(data), " "+secret+" "...), secret) == "" {
				t.Fatalf("%s: a planted %s is not found", from, name)
			}
		}
	}
}

func (a *aviary) get(path string) {
	res, err := http.Get(a.console + path)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	a.keep(path, data)
}

// files keeps every file of the store.
func (a *aviary) files(when string) {
	dir := filepath.Join(filepath.Dir(a.config), "data")
	n := 0
	for _, file := range list(a.t, dir) {
		data, err := os.ReadFile(file)
		if err != nil {
			a.t.Error(err)
		}
		n++
		a.keep(filepath.Base(file)+" "+when, data)
	}
	if n < 2 {
		a.t.Errorf("%d files in the store %s", n, when)
	}
}

// good has what succeeds: without a challenge and with one, in every channel.
func (a *aviary) good() {
	for _, v := range allVersions {
		a.ds.setAnswer(func(areq object) (int, []byte) {
			return 200, marshal(answerTo(areq, "Y").with(object{"authenticationValue": canaryValue}))
		})
		if got := a.send("/auth", a.APIKey, a.carrier(v, canaryPAN)); got.text("authenticationValue") != canaryValue {
			a.t.Errorf("%v", got)
		}
		a.send("/auth", a.APIKey, app(v, canaryPAN, "").with(object{"cardholderName": canaryName}))
		a.send("/auth", a.APIKey, threeRI(v, canaryPAN, "").with(object{"email": canaryEmail}))
		areq, answer := a.challengedBy(v)
		result := rreq(areq, answer, "Y").with(object{"authenticationValue": canaryValue, "unknown": canaryPAN})
		a.keep("RRes", marshal(a.result(marshal(result))))
		a.keep("second RReq's Erro", marshal(a.result(marshal(result))))
		for range 2 {
			if got := a.send("/postauth", a.APIKey, object{"threeDSServerTransID": areq["threeDSServerTransID"]}); got.text("authenticationValue") != canaryValue {
				a.t.Errorf("%v", got)
			}
		}
	}
}

func (a *aviary) challengedBy(version string) (areq, answer object) {
	a.ds.setAnswer(says("C"))
	defer a.ds.setAnswer(nil)
	answer = a.send("/auth", a.APIKey, a.carrier(version, canaryPAN))
	return a.ds.sent(answer.text("threeDSServerTransID"))[0], answer
}

// badRequests has what is refused before anything leaves.
func (a *aviary) badRequests() {
	good := a.carrier("2.2.0", canaryPAN)
	for _, body := range []any{
		`{"acctNumber":"` + canaryPAN, `{"acctNumber":"` + canaryPAN + `"]`, canaryPAN, `"` + canaryEmail + `"`, "\xff" + canaryPAN,
		object{"acctNumber": canaryPAN + "0000"}, object{"acctNumber": canaryPAN, "ds": canaryOther}, object{"acctNumber": canaryPAN, canaryOther: canaryPAN},
		`{"` + canaryPAN + `":1,"` + canaryPAN + `":2}`, object{"acctNumber": []string{canaryPAN}}, object{"acctNumber": "5" + canaryPAN[1:]},
		good.with(object{"mcc": canaryPAN, "email": canaryEmail + " "}), good.with(object{"messageVersion": canaryPAN}),
		good.with(object{"acctNumber": canaryOther}), good.with(object{"threeDSServerTransID": canaryPAN}),
		good.with(object{"cardExpiryDate": canaryPAN, "cardholderName": strings.Repeat(canaryName, 20)}),
		good.with(object{"acctInfo": object{canaryPAN: canaryPAN, "chAccAgeInd": canaryPAN}, "purchaseCurrency": canaryPAN}),
		good.with(object{"messageExtension": []object{{"id": canaryName, "name": canaryPAN, "criticalityIndicator": false, "data": canaryPAN}}}),
		insert(good, `,"acctnumber":"`+canaryPAN+`"`), object{"threeDSServerTransID": canaryPAN}, strings.Repeat(canaryPAN, 20000),
	} {
		for _, path := range []string{"/preauth", "/auth", "/postauth"} {
			a.send(path, a.APIKey, body)
		}
	}
	a.send("/"+canaryPAN+"?pan="+canaryPAN, a.APIKey, good)
	a.send("/auth?pan="+canaryPAN, a.APIKey, good.with(object{"mcc": nil}))
}

// badAnswers has directory servers that give away what they got.
func (a *aviary) badAnswers() {
	leaky := object{
		"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "305", "errorComponent": "D", "errorMessageType": "AReq",
		"errorDescription": "bad card " + canaryPAN, "errorDetail": canaryName + " " + canaryEmail + " " + canaryValue,
	}
	req := a.carrier("2.2.0", canaryPAN)
	a.ds.setAnswer(func(object) (int, []byte) { return 200, marshal(leaky) })
	_, _ = a.call(http.MethodPost, "/auth", a.APIKey, req) // relayed word by word
	for _, spoil := range spoilt("ARes") {
		a.ds.setAnswer(func(areq object) (int, []byte) {
			good := answerTo(areq, "Y").with(object{"authenticationValue": canaryValue, "unknown": canaryPAN, "cardholderInfo": canaryName})
			return 200, spoil.spoil(good)
		})
		a.send("/auth", a.APIKey, a.carrier("2.2.0", canaryPAN))
	}
	for _, bad := range []object{
		{"authenticationValue": canaryValue + canaryValue}, {"eci": canaryPAN}, {"dsTransID": canaryPAN}, {"acsTransID": canaryName},
		{"messageVersion": canaryPAN}, {"messageType": canaryPAN}, {canaryPAN: 1},
		{"messageExtension": []object{{"id": "A", "name": canaryPAN, "criticalityIndicator": true, "data": canaryValue}}},
	} {
		a.ds.setAnswer(func(areq object) (int, []byte) {
			return 200, insert(answerTo(areq, "Y").with(bad), `,"authenticationvalue":"`+canaryValue+`"`)
		})
		a.send("/auth", a.APIKey, a.carrier("2.2.0", canaryPAN))
	}
	a.ds.setAnswer(func(object) (int, []byte) { return 500, []byte(canaryPAN) })
	a.send("/auth", a.APIKey, a.carrier("2.2.0", canaryPAN))
	a.ds.setAnswer(nil)
	a.ds.peer.mu.Lock()
	defer a.ds.peer.mu.Unlock()
	for _, erro := range a.ds.erros {
		a.keep("Erro at the DS", marshal(erro))
	}
}

// badResults is badAnswers for what is posted to us.
func (a *aviary) badResults() {
	areq, answer := a.challengedBy("2.2.0")
	good := rreq(areq, answer, "Y").with(object{"authenticationValue": canaryValue, "unknown": canaryPAN})
	for _, spoil := range spoilt("RReq") {
		a.keep("Erro for an RReq", marshal(a.result(spoil.spoil(good))))
	}
	for _, bad := range []object{
		{"authenticationValue": canaryValue + canaryValue}, {"eci": canaryPAN}, {"dsTransID": canaryPAN}, {"messageVersion": canaryPAN},
		{"messageType": canaryPAN}, {"threeDSServerTransID": canaryPAN}, {"messageCategory": canaryName},
	} {
		a.keep("Erro for an RReq", marshal(a.result(marshal(good.with(bad)))))
	}
	a.result(marshal(object{
		"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "402", "errorComponent": "D", "errorDescription": canaryPAN,
		"errorDetail": canaryName + canaryEmail, "threeDSServerTransID": areq["threeDSServerTransID"], "dsTransID": answer["dsTransID"],
	}))
}

// overload has more at once than is allowed: until one is turned away.
func (a *aviary) overload() {
	var reqs [32]object
	for i := range reqs { // made before, for these would be turned away too
		reqs[i] = a.carrier("2.2.0", canaryPAN)
	}
	leave := make(chan bool)
	enough := sync.OnceFunc(func() { close(leave) })
	a.ds.play(func(w http.ResponseWriter, areq object) {
		<-leave
		_, _ = w.Write(marshal(ares(areq, "Y")))
	})
	defer a.ds.play(nil)
	var all sync.WaitGroup
	for i := range reqs {
		req := reqs[i]
		all.Go(func() {
			for range 3 {
				if got := a.send("/auth", a.APIKey, req); got.text("errorCode") == "403" {
					enough()
				}
			}
		})
	}
	all.Wait()
	select {
	case <-leave:
	default:
		a.t.Error("nothing was turned away")
		enough()
	}
}

// silence has a directory server that says nothing, and one that hangs up.
func (a *aviary) silence() {
	patient := a.text()
	write(a.t, a.config, []byte(patient+"timeouts: {authentication: 1s}\n"))
	a.reload(a.proc, applied)
	defer func() {
		write(a.t, a.config, []byte(patient))
		a.reload(a.proc, applied)
	}()
	leave := make(chan bool)
	a.ds.play(func(http.ResponseWriter, object) { <-leave })
	a.send("/auth", a.APIKey, a.carrier("2.2.0", canaryPAN))
	a.ds.play(func(http.ResponseWriter, object) { panic(http.ErrAbortHandler) })
	a.send("/auth", a.APIKey, a.carrier("2.2.0", canaryPAN))
	close(leave)
	a.ds.play(nil)
}

// keys has good, revoked and wrong API keys.
func (a *aviary) keys(revoked string) {
	req := a.carrier("2.2.0", canaryPAN)
	a.send("/auth", a.OtherAPIKey, req)
	a.send("/preauth", revoked, object{"acctNumber": canaryPAN})
	a.revoke(revoked)
	waitFor(a.t, "the key to stop", func() bool {
		res, data := a.call(http.MethodPost, "/preauth", revoked, object{"acctNumber": canaryPAN})
		a.keep("answer to a revoked key", data)
		return res.StatusCode == 401
	})
	a.send("/auth", canaryWrong, req)
	a.send("/"+canaryWrong, canaryWrong, req)
	var out strings.Builder
	if code := run(a.t.Context(), []string{"key", "list", "--config", a.config}, strings.NewReader(""), &out, &out); code != 0 {
		a.t.Errorf("key list: %d", code)
	}
	a.keep("key list", []byte(out.String()))
}
