package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/journal"
	"github.com/openthreeds/threeds/internal/operator"
)

// The canaries: nothing but the answers that have to carry them may hold one.
const (
	canaryPAN   = "4000001122334455"
	canaryOther = "4000006677889900"
	canaryValue = "Q0FOQVJZVkFMVUVDQU5BUlk9PT0="
	canaryName  = "Canary Cardholder"
	canaryText  = "Canary in a text of the other side" // the journal keeps texts that have no form to be known by
	canaryEmail = "canary.zyx@cardholder.example"
	canaryWrong = "cafecafe-dead-4bad-8bad-cafedeadbeef" // a key that is not good
)

// textSecret names the secret that the journal may show.
const textSecret = "text of the other side"

// isOfJournal reports whether a text shows what is in the journal.
func isOfJournal(from string) bool {
	for _, prefix := range []string{"record", "journal ", "GET /authentications/", "GET /admin/v1/authentications/"} {
		if strings.HasPrefix(from, prefix) {
			return true
		}
	}
	return false
}

// An aviary collects what a server wrote while canaries flew through it.
type aviary struct {
	*site
	proc *process

	numbered *atomic.Int64     // requests
	secrets  map[string]string // by name
	spans    *collector
	v1       *v1DS
	pages    string // where browsers come
	mu       *sync.Mutex
	written  map[string][]byte // what is to be searched, by where it comes from
}

// addSecret has everything searched for a secret that was made on the way.
func (a *aviary) addSecret(name, secret string) {
	a.t.Helper()
	if len(secret) < 16 {
		a.t.Errorf("no %s to search for", name)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.secrets[fmt.Sprintf("%s, %d", name, len(a.secrets))] = secret
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
	isMade := res.StatusCode == http.StatusCreated && path == "/authentications"
	if kind := o.text("messageType"); kind != "ARes" && kind != "RReq" && !isMade {
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
		"cardholderName": canaryName, "email": canaryEmail, "acctID": canaryOther, "merchantName": "Shop of " + pan,
		"messageExtension": []object{{"id": "A1", "name": "n", "criticalityIndicator": false, "data": object{"pan": pan}}},
	})
}

// TestJ6CanariesAreNowhere: what has to stay secret is in no answer that need not carry it, and in nothing that the server
// writes (I9): neither in files, log and spans, nor, with what they hold in clear, in the journal, its exports, backups,
// the audit trail, the admin API and the pages of the console. It is in none of the encodings of scan.
func TestJ6CanariesAreNowhere(t *testing.T) {
	ca := newAuthority(t)
	spans, v1 := newCollector(t), newV1DS(t, ca)
	s, proc := spawnSite(t, ca, newWire(t, ca), plan{
		console: `console: {listen: "127.0.0.1:0", url: "http://localhost:9090"}`,
		sections: "limits: {in_flight: 8}\nbrowser: {listen: 127.0.0.1:0, url: \"https://pay.example\"}\n" +
			"webhooks: {allow: [127.0.0.0/8], http: true}\n" + v1Section(t, ca, v1.server.URL) + spans.section("1"),
	})
	listener := regexp.MustCompile(`browser: \{listen: (\S+),`).FindStringSubmatch(s.text())
	revoked := s.key("Shop")
	a := &aviary{site: s, proc: proc, spans: spans, v1: v1, pages: "http://" + listener[1], numbered: new(atomic.Int64), mu: new(sync.Mutex), written: make(map[string][]byte), secrets: map[string]string{
		"PAN": canaryPAN, "other PAN": canaryOther, "authenticationValue": canaryValue, "name": canaryName, "e-mail": canaryEmail,
		textSecret: canaryText,
		"API key":  s.APIKey, "other merchant's key": s.OtherAPIKey, "revoked key": revoked, "wrong key": canaryWrong,
	}}
	for name, fly := range map[string]func(*aviary){
		"good": (*aviary).good, "bad requests": (*aviary).badRequests, "bad answers": (*aviary).badAnswers,
		"bad results": (*aviary).badResults, "overload": (*aviary).overload, "silence": (*aviary).silence,
		"keys": func(a *aviary) { a.keys(revoked) }, "authentications": (*aviary).authentications, "version 1": (*aviary).version1,
	} {
		t.Run(name, func(t *testing.T) {
			b := *a
			b.site = s.in(t)
			fly(&b)
		})
	}
	for _, path := range []string{"/metrics", "/readyz", "/livez"} {
		a.get(path)
	}
	if res, err := http.Get(a.console + "/" + canaryPAN); err != nil || res.Body.Close() != nil { // the login leads back there
		t.Errorf("%v", err)
	}
	a.askConsole()
	a.commands()
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
		views := viewsOf(data)
		for name, secret := range a.secrets {
			if name == textSecret && isOfJournal(from) {
				continue
			}
			if in := scanViews(views, secret); in != "" {
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
			if scanViews([]view{newView("", append(bytes.Clone(data), " "+secret+" "...))}, secret) == "" {
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
		"errorDescription": "bad card " + canaryPAN, "errorDetail": canaryText + " " + canaryEmail + " " + canaryValue,
	}
	req := a.carrier("2.2.0", canaryPAN)
	a.ds.setAnswer(func(object) (int, []byte) { return 200, marshal(leaky) })
	_, _ = a.call(http.MethodPost, "/auth", a.APIKey, req) // relayed word by word
	for _, spoil := range spoilt("ARes") {
		a.ds.setAnswer(func(areq object) (int, []byte) {
			good := answerTo(areq, "Y").with(object{"authenticationValue": canaryValue, "unknown": canaryPAN, "cardholderInfo": canaryText + " " + canaryEmail + canaryPAN})
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
		"errorDetail": canaryText + " " + canaryEmail, "threeDSServerTransID": areq["threeDSServerTransID"], "dsTransID": answer["dsTransID"],
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

// authentications has what is said in the Authentications API, with a browser and without one.
func (a *aviary) authentications() {
	res, data := a.call(http.MethodPost, "/webhook-endpoints", a.APIKey, object{"url": "http://127.0.0.1:9/hook"})
	endpoint := parseObject(a.t, data)
	secret := strings.TrimPrefix(endpoint.text("secret"), "whsec_")
	raw, err := base64.StdEncoding.DecodeString(secret)
	if res.StatusCode != http.StatusCreated || err != nil {
		a.t.Fatalf("endpoint: %d %s", res.StatusCode, data)
	}
	a.addSecret("webhook secret", secret)
	a.addSecret("webhook secret as bytes", string(raw))
	a.ds.setAnswer(func(areq object) (int, []byte) {
		return 200, marshal(answerTo(areq, "Y").with(object{"authenticationValue": canaryValue}))
	})
	defer a.ds.setAnswer(nil)
	create := func(body object, header ...string) object {
		_, data := a.call(http.MethodPost, "/authentications", a.APIKey, body, append(a.trace(), header...)...)
		return parseObject(a.t, data)
	}
	more := object{
		"messageType": nil, "threeDSServerTransID": nil, "cardholderName": canaryName, "email": canaryEmail, "acctID": canaryOther,
		"messageExtension": []object{{"id": "A1", "name": "n", "criticalityIndicator": false, "data": object{"pan": canaryPAN}}},
	}
	direct := threeRI("2.2.0", canaryPAN, "").with(more)
	if got := create(direct, "Idempotency-Key", "order of "+canaryPAN); !strings.Contains(string(marshal(got)), canaryValue) {
		a.t.Errorf("%v", got)
	}
	for _, reference := range []string{canaryPAN, "order 4000-0011 2233/4455"} {
		if got := create(direct.with(object{"reference": reference})); got.text("id") == "" {
			a.t.Errorf("%v", got)
		}
	}
	for _, bad := range []object{
		{"mcc": canaryPAN}, {"reference": strings.Repeat(canaryPAN, 5)}, {"acctNumber": canaryPAN + "0000"}, {canaryPAN: canaryPAN},
		{"email": canaryEmail + " "}, {"ds": canaryOther}, {"purchaseCurrency": canaryValue}, {"messageVersion": canaryPAN},
	} {
		a.send("/authentications", a.APIKey, direct.with(bad))
		a.send("/explain", a.APIKey, direct.with(bad))
	}
	paged := core("2.2.0", canaryPAN, "").with(more).with(object{
		"deviceChannel": nil, "messageCategory": nil, "messageVersion": nil, "threeDSCompInd": nil, "returnUrl": "https://shop.example/back",
	})
	var made object
	for range 2 { // one whose browser comes, and one that is cancelled
		made = create(paged)
		page, _ := made["browser"].(map[string]any)
		token, _ := page["token"].(string)
		a.addSecret("browser token", token)
		for _, path := range []string{"/a/" + token, "/a/" + token + "x", "/a/" + token + "/state", "/" + token} {
			res, err := http.Get(a.pages + path)
			if err != nil {
				a.t.Fatal(err)
			}
			_ = res.Body.Close()
		}
	}
	id := made.text("id")
	a.send("/authentications/"+id+"/cancel", a.APIKey, object{})
	for _, path := range []string{"/authentications/" + id, "/authentications", "/authentications?last4=4455", "/events", "/webhook-endpoints", "/authentications/" + canaryPAN} {
		_, data := a.call(http.MethodGet, path, a.APIKey, "", a.trace()...)
		a.keep("answer of GET "+path, data)
	}
	a.send("/authentications/search", a.APIKey, object{"acctNumber": canaryPAN})
	a.send("/authentications/search", a.APIKey, object{"acctNumber": canaryPAN + "x", "last4": canaryPAN})
	a.send("/lookup", a.APIKey, object{"acctNumber": canaryPAN})
	a.send("/explain", a.APIKey, a.carrier("2.2.0", canaryPAN))
	a.send("/outcome", a.APIKey, object{"threeDSServerTransID": canaryPAN})
}

// version1 has the operations of 3-D Secure 1.0.2.
func (a *aviary) version1() {
	s := &legacySite{a.site, a.v1}
	form := but(purchase(canaryPAN), "order_id", "canary")
	asked := s.enroll(form)
	paid := asked.Answer(canaryPAN, "Y")
	paid.CAVV = canaryValue
	if code, got := s.check("visa", paid); code != 200 || got.text("cavv") != canaryValue {
		a.t.Errorf("%d %v", code, got)
	}
	paid.Amount = canaryPAN
	for _, param := range []string{"order_id", "amount", "merchant[name]", "card[expire_month]", canaryPAN} {
		_, got := s.form("/enrolled", but(form, param, canaryPAN, canaryValue))
		a.keep("answer of /enrolled", marshal(got))
	}
	_, got := s.check("visa", paid)
	a.keep("answer of /check", marshal(got))
}

// commands has what the commands print that read the journal, the audit trail and the store.
func (a *aviary) commands() {
	want := `"api":"v1"`
	waitFor(a.t, "the journal", func() bool {
		export := a.command("", "journal", "export")
		return strings.Contains(export, want) && strings.Contains(export, `"kind":"resulted"`) && strings.Contains(export, `"api":"authentications"`)
	})
	for _, args := range [][]string{
		{"journal", "export"}, {"journal", "export", "--format", "csv"}, {"journal", "search", "--limit", "1000"},
		{"journal", "search", "--card", "-", "--limit", "1000", "--json"}, {"audit", "export"}, {"audit", "search"}, {"backup", "-"},
		{"key", "list", "--json"}, {"webhook", "list", "--merchant", "Shop"}, {"token", "list"}, {"operator", "list"}, {"ranges", "status"},
	} {
		a.keep(strings.Join(args, " "), []byte(a.command(canaryPAN, args...)))
	}
	ids := regexp.MustCompile(`"id": ?"([^"]*)"`).FindAllStringSubmatch(a.command(canaryPAN, "journal", "search", "--card", "-", "--limit", "1000", "--json"), -1)
	must(a.t, withJournal(a.t.Context(), a.config, func(st journal.Store, _ *journal.Keys) error {
		for _, id := range ids {
			d, err := st.Show(a.t.Context(), id[1])
			if err != nil {
				return err
			}
			text, err := json.Marshal(d)
			if err != nil {
				return err
			}
			a.keep("record", text)
		}
		return nil
	}))
	if len(ids) < 20 {
		a.t.Errorf("%d records of the card: too few, the test shows nothing of them", len(ids))
	}
}

// askConsole has the pages and the admin API that an admin sees, with the timeline of records of each kind.
func (a *aviary) askConsole() {
	token := strings.TrimSpace(a.command("", "token", "create", "--name", "canary", "--role", "admin"))
	a.addSecret("admin token", token)
	var session string
	must(a.t, withOperators(a.t.Context(), a.config, func(o *operator.Service) error {
		user := operator.User{Name: "jo", Role: operator.Admin}
		err := o.AddUser(a.t.Context(), &user)
		if err == nil {
			session, err = o.StartSession(a.t.Context(), &user, nil, time.Hour)
		}
		return err
	}))
	a.addSecret("session", session)
	ask := func(method, path, body string) []byte {
		r, err := http.NewRequestWithContext(a.t.Context(), method, a.console+path, strings.NewReader(body))
		must(a.t, err)
		if strings.HasPrefix(path, "/admin/") {
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
		} else {
			r.AddCookie(&http.Cookie{Name: "threeds", Value: session})
		}
		res, err := http.DefaultClient.Do(r)
		must(a.t, err)
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		must(a.t, err)
		a.keep(fmt.Sprintf("%s %s, %d", method, path, res.StatusCode), data)
		if res.StatusCode != 200 {
			a.t.Errorf("%s %s: %d %.200s", method, path, res.StatusCode, data)
		}
		return data
	}
	for _, path := range []string{
		"/", "/authentications", "/reports", "/reports.csv", "/directories", "/ranges", "/merchants", "/keys", "/webhooks", "/audit", "/audit.jsonl",
		"/operators", "/tokens", "/explain", "/admin/v1/overview", "/admin/v1/keys", "/admin/v1/webhook-endpoints", "/admin/v1/audit", "/admin/v1/operators",
	} {
		ask("GET", path, "")
	}
	records := ask("POST", "/admin/v1/authentications/search", `{"acctNumber":"`+canaryPAN+`","limit":100}`)
	seen := 0
	for n, id := range regexp.MustCompile(`"id":"([^"]*)"`).FindAllStringSubmatch(string(records), -1) {
		ask("GET", "/admin/v1/authentications/"+id[1], "")
		page := ask("GET", "/authentications/"+id[1], "")
		if n%6 != 0 {
			continue // the pages of its steps have no more than those two
		}
		for _, step := range slices.Compact(regexp.MustCompile(`step=[a-z0-9-]+`).FindAllString(string(page), -1)) {
			ask("GET", "/authentications/"+id[1]+"?"+step, "")
			seen++
		}
	}
	if seen < 40 {
		a.t.Errorf("%d steps on pages: too few, the test shows nothing of them", seen)
	}
}
