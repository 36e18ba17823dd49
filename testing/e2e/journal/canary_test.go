package journal

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/testing/e2e/rig"
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
	*rig.Site
	proc *rig.Process

	numbered *atomic.Int64     // requests
	secrets  map[string]string // by name
	spans    *rig.Collector
	v1       *rig.V1Directory
	pages    string // where browsers come
	mu       *sync.Mutex
	written  map[string][]byte // what is to be searched, by where it comes from
}

// addSecret has everything searched for a secret that was made on the way.
func (a *aviary) addSecret(name, secret string) {
	a.T.Helper()
	if len(secret) < 16 {
		a.T.Errorf("no %s to search for", name)
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
func (a *aviary) send(path, key string, body any) rig.Object {
	a.T.Helper()
	res, data := a.Call(http.MethodPost, path, key, body, a.trace()...)
	var o rig.Object
	_ = rig.Unmarshal(data, &o)
	isMade := res.StatusCode == http.StatusCreated && path == "/authentications"
	if kind := o.Text("messageType"); kind != "ARes" && kind != "RReq" && !isMade {
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
func (a *aviary) carrier(version, pan string) rig.Object {
	id := a.send("/preauth", a.APIKey, rig.Object{"acctNumber": pan}).Text("threeDSServerTransID")
	return rig.BrowserRequest(version, pan, id, "U").With(rig.Object{
		"cardholderName": canaryName, "email": canaryEmail, "acctID": canaryOther, "merchantName": "Shop of " + pan,
		"messageExtension": []rig.Object{{"id": "A1", "name": "n", "criticalityIndicator": false, "data": rig.Object{"pan": pan}}},
	})
}

// TestJ6CanariesAreNowhere: what has to stay secret is in no answer that need not carry it, and in nothing that the
// server writes (I9): neither in files, log and spans, nor, with what they hold in clear, in the journal, its exports,
// backups, the audit trail, the admin API and the pages of the console. It is in none of the encodings of scan.
func TestJ6CanariesAreNowhere(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	spans, v1 := rig.NewCollector(t), rig.NewV1Directory(t, ca)
	s, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{
		Console: `console: {listen: "127.0.0.1:0", url: "http://localhost:9090"}`,
		Sections: "limits: {in_flight: 8}\nbrowser: {listen: 127.0.0.1:0, url: \"https://pay.example\"}\n" +
			"webhooks: {allow: [127.0.0.0/8], http: true}\n" + rig.V1Section(t, ca, v1.Server.URL) + spans.Section("1"),
	})
	listener := regexp.MustCompile(`browser: \{listen: (\S+),`).FindStringSubmatch(s.ConfigText())
	revoked := s.CreateKey("Shop")
	a := &aviary{Site: s, proc: proc, spans: spans, v1: v1, pages: "http://" + listener[1], numbered: new(atomic.Int64),
		mu: new(sync.Mutex), written: make(map[string][]byte), secrets: map[string]string{
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
			b.Site = s.In(t)
			fly(&b)
		})
	}
	for _, path := range []string{"/metrics", "/readyz", "/livez"} {
		a.get(path)
	}
	if res, err := http.Get(a.ConsoleURL + "/" + canaryPAN); err != nil || res.Body.Close() != nil { // the login leads back there
		t.Errorf("%v", err)
	}
	a.askConsole()
	a.commands()
	a.files("while it runs")
	if proc.Log.String() == "" || !strings.Contains(proc.Log.String(), `"DEBUG"`) && !strings.Contains(proc.Log.String(), `"msg":"request"`) {
		t.Error("there is no log to search")
	}
	proc.End(syscall.SIGTERM)
	a.files("after its end")
	a.keep("log", []byte(proc.Log.String()))
	for _, data := range spans.Raw {
		a.keep("spans", data)
	}
	for _, s := range spans.Spans {
		a.keep("ids of a span", fmt.Appendf(nil, "%x %x %x", s.TraceId, s.SpanId, s.ParentSpanId))
	}
	if n := len(spans.Spans); n < 300 {
		t.Errorf("%d spans: too few, the test shows nothing of them", n)
	}
	size := 0
	for from, data := range a.written {
		size += len(data)
		views := rig.ViewsOf(data)
		for name, secret := range a.secrets {
			if name == textSecret && isOfJournal(from) {
				continue
			}
			if in := rig.FindSecretIn(views, secret); in != "" {
				t.Errorf("%s holds the %s: %s", from, name, in)
			}
		}
	}
	t.Logf("%d texts and files, %d bytes", len(a.written), size)
	if size < 10000 {
		t.Error("too little was written: the test shows nothing")
	}
	// The control: a canary planted anywhere is found.
	all := []byte(" " + strings.Join(slices.Collect(maps.Values(a.secrets)), " ") + " ")
	for from, data := range a.written {
		views := []rig.View{rig.NewView("", slices.Concat(data, all))}
		for name, secret := range a.secrets {
			if rig.FindSecretIn(views, secret) == "" {
				t.Fatalf("%s: a planted %s is not found", from, name)
			}
		}
	}
}

func (a *aviary) get(path string) {
	res, err := http.Get(a.ConsoleURL + path)
	if err != nil {
		a.T.Fatal(err)
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	a.keep(path, data)
}

// files keeps every file of the store.
func (a *aviary) files(when string) {
	dir := filepath.Join(filepath.Dir(a.ConfigFile), "data")
	n := 0
	for _, file := range rig.ListFiles(a.T, dir) {
		data, err := os.ReadFile(file)
		if err != nil {
			a.T.Error(err)
		}
		n++
		a.keep(filepath.Base(file)+" "+when, data)
	}
	if n < 2 {
		a.T.Errorf("%d files in the store %s", n, when)
	}
}

// good has what succeeds: without a challenge and with one, in every channel.
func (a *aviary) good() {
	for _, v := range rig.AllVersions {
		a.Directory.SetAnswer(func(areq rig.Object) (int, []byte) {
			return 200, rig.Marshal(rig.AnswerTo(areq, "Y").With(rig.Object{"authenticationValue": canaryValue}))
		})
		if got := a.send("/auth", a.APIKey, a.carrier(v, canaryPAN)); got.Text("authenticationValue") != canaryValue {
			a.T.Errorf("%v", got)
		}
		a.send("/auth", a.APIKey, rig.AppRequest(v, canaryPAN, "").With(rig.Object{"cardholderName": canaryName}))
		a.send("/auth", a.APIKey, rig.ThreeRIRequest(v, canaryPAN, "").With(rig.Object{"email": canaryEmail}))
		areq, answer := a.challengedBy(v)
		result := rig.RReq(areq, answer, "Y").With(rig.Object{"authenticationValue": canaryValue, "unknown": canaryPAN})
		a.keep("RRes", rig.Marshal(a.Result(rig.Marshal(result))))
		a.keep("second RReq's Erro", rig.Marshal(a.Result(rig.Marshal(result))))
		for range 2 {
			if got := a.send("/postauth", a.APIKey, rig.Object{"threeDSServerTransID": areq["threeDSServerTransID"]}); got.Text("authenticationValue") != canaryValue {
				a.T.Errorf("%v", got)
			}
		}
	}
}

func (a *aviary) challengedBy(version string) (areq, answer rig.Object) {
	a.Directory.SetAnswer(rig.AnswerStatus("C"))
	defer a.Directory.SetAnswer(nil)
	answer = a.send("/auth", a.APIKey, a.carrier(version, canaryPAN))
	return a.Directory.Sent(answer.Text("threeDSServerTransID"))[0], answer
}

// badRequests has what is refused before anything leaves.
func (a *aviary) badRequests() {
	good := a.carrier("2.2.0", canaryPAN)
	for _, body := range []any{
		`{"acctNumber":"` + canaryPAN, `{"acctNumber":"` + canaryPAN + `"]`, canaryPAN, `"` + canaryEmail + `"`, "\xff" + canaryPAN,
		rig.Object{"acctNumber": canaryPAN + "0000"}, rig.Object{"acctNumber": canaryPAN, "ds": canaryOther},
		rig.Object{"acctNumber": canaryPAN, canaryOther: canaryPAN}, `{"` + canaryPAN + `":1,"` + canaryPAN + `":2}`,
		rig.Object{"acctNumber": []string{canaryPAN}}, rig.Object{"acctNumber": "5" + canaryPAN[1:]},
		good.With(rig.Object{"mcc": canaryPAN, "email": canaryEmail + " "}), good.With(rig.Object{"messageVersion": canaryPAN}),
		good.With(rig.Object{"acctNumber": canaryOther}), good.With(rig.Object{"threeDSServerTransID": canaryPAN}),
		good.With(rig.Object{"cardExpiryDate": canaryPAN, "cardholderName": strings.Repeat(canaryName, 20)}),
		good.With(rig.Object{"acctInfo": rig.Object{canaryPAN: canaryPAN, "chAccAgeInd": canaryPAN}, "purchaseCurrency": canaryPAN}),
		good.With(rig.Object{"messageExtension": []rig.Object{{"id": canaryName, "name": canaryPAN, "criticalityIndicator": false, "data": canaryPAN}}}),
		rig.InsertText(good, `,"acctnumber":"`+canaryPAN+`"`), rig.Object{"threeDSServerTransID": canaryPAN}, strings.Repeat(canaryPAN, 20000),
	} {
		for _, path := range []string{"/preauth", "/auth", "/postauth"} {
			a.send(path, a.APIKey, body)
		}
	}
	a.send("/"+canaryPAN+"?pan="+canaryPAN, a.APIKey, good)
	a.send("/auth?pan="+canaryPAN, a.APIKey, good.With(rig.Object{"mcc": nil}))
}

// badAnswers has directory servers that give away what they got.
func (a *aviary) badAnswers() {
	leaky := rig.Object{
		"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "305", "errorComponent": "D", "errorMessageType": "AReq",
		"errorDescription": "bad card " + canaryPAN, "errorDetail": canaryText + " " + canaryEmail + " " + canaryValue,
	}
	req := a.carrier("2.2.0", canaryPAN)
	a.Directory.SetAnswer(func(rig.Object) (int, []byte) { return 200, rig.Marshal(leaky) })
	_, _ = a.Call(http.MethodPost, "/auth", a.APIKey, req) // relayed word by word
	for _, spoil := range rig.SpoiltMessages("ARes") {
		a.Directory.SetAnswer(func(areq rig.Object) (int, []byte) {
			good := rig.AnswerTo(areq, "Y").With(
				rig.Object{"authenticationValue": canaryValue, "unknown": canaryPAN, "cardholderInfo": canaryText + " " + canaryEmail + canaryPAN})
			return 200, spoil.Spoil(good)
		})
		a.send("/auth", a.APIKey, a.carrier("2.2.0", canaryPAN))
	}
	for _, bad := range []rig.Object{
		{"authenticationValue": canaryValue + canaryValue}, {"eci": canaryPAN}, {"dsTransID": canaryPAN}, {"acsTransID": canaryName},
		{"messageVersion": canaryPAN}, {"messageType": canaryPAN}, {canaryPAN: 1},
		{"messageExtension": []rig.Object{{"id": "A", "name": canaryPAN, "criticalityIndicator": true, "data": canaryValue}}},
	} {
		a.Directory.SetAnswer(func(areq rig.Object) (int, []byte) {
			return 200, rig.InsertText(rig.AnswerTo(areq, "Y").With(bad), `,"authenticationvalue":"`+canaryValue+`"`)
		})
		a.send("/auth", a.APIKey, a.carrier("2.2.0", canaryPAN))
	}
	a.Directory.SetAnswer(func(rig.Object) (int, []byte) { return 500, []byte(canaryPAN) })
	a.send("/auth", a.APIKey, a.carrier("2.2.0", canaryPAN))
	a.Directory.SetAnswer(nil)
	a.Directory.Peer.Mu.Lock()
	defer a.Directory.Peer.Mu.Unlock()
	for _, erro := range a.Directory.Erros {
		a.keep("Erro at the DS", rig.Marshal(erro))
	}
}

// badResults is badAnswers for what is posted to us.
func (a *aviary) badResults() {
	areq, answer := a.challengedBy("2.2.0")
	good := rig.RReq(areq, answer, "Y").With(rig.Object{"authenticationValue": canaryValue, "unknown": canaryPAN})
	for _, spoil := range rig.SpoiltMessages("RReq") {
		a.keep("Erro for an RReq", rig.Marshal(a.Result(spoil.Spoil(good))))
	}
	for _, bad := range []rig.Object{
		{"authenticationValue": canaryValue + canaryValue}, {"eci": canaryPAN}, {"dsTransID": canaryPAN}, {"messageVersion": canaryPAN},
		{"messageType": canaryPAN}, {"threeDSServerTransID": canaryPAN}, {"messageCategory": canaryName},
	} {
		a.keep("Erro for an RReq", rig.Marshal(a.Result(rig.Marshal(good.With(bad)))))
	}
	a.Result(rig.Marshal(rig.Object{
		"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "402", "errorComponent": "D", "errorDescription": canaryPAN,
		"errorDetail": canaryText + " " + canaryEmail, "threeDSServerTransID": areq["threeDSServerTransID"], "dsTransID": answer["dsTransID"],
	}))
}

// overload has more at once than is allowed: until one is turned away.
func (a *aviary) overload() {
	var reqs [32]rig.Object
	for i := range reqs { // made before, for these would be turned away too
		reqs[i] = a.carrier("2.2.0", canaryPAN)
	}
	leave := make(chan bool)
	enough := sync.OnceFunc(func() { close(leave) })
	a.Directory.Play(func(w http.ResponseWriter, areq rig.Object) {
		<-leave
		_, _ = w.Write(rig.Marshal(rig.ARes(areq, "Y")))
	})
	defer a.Directory.Play(nil)
	var all sync.WaitGroup
	for i := range reqs {
		req := reqs[i]
		all.Go(func() {
			for range 3 {
				if got := a.send("/auth", a.APIKey, req); got.Text("errorCode") == "403" {
					enough()
				}
			}
		})
	}
	all.Wait()
	select {
	case <-leave:
	default:
		a.T.Error("nothing was turned away")
		enough()
	}
}

// silence has a directory server that says nothing, and one that hangs up.
func (a *aviary) silence() {
	patient := a.ConfigText()
	rig.WriteFile(a.T, a.ConfigFile, []byte(strings.Replace(patient, "authentication: 60s", "authentication: 1s", 1)))
	a.Reload(a.proc, rig.ReloadApplied)
	defer func() {
		rig.WriteFile(a.T, a.ConfigFile, []byte(patient))
		a.Reload(a.proc, rig.ReloadApplied)
	}()
	leave := make(chan bool)
	a.Directory.Play(func(http.ResponseWriter, rig.Object) { <-leave })
	a.send("/auth", a.APIKey, a.carrier("2.2.0", canaryPAN))
	a.Directory.Play(func(http.ResponseWriter, rig.Object) { panic(http.ErrAbortHandler) })
	a.send("/auth", a.APIKey, a.carrier("2.2.0", canaryPAN))
	close(leave)
	a.Directory.Play(nil)
}

// keys has good, revoked and wrong API keys.
func (a *aviary) keys(revoked string) {
	req := a.carrier("2.2.0", canaryPAN)
	a.send("/auth", a.OtherAPIKey, req)
	a.send("/preauth", revoked, rig.Object{"acctNumber": canaryPAN})
	a.RevokeKey(revoked)
	waittest.Until(a.T, "the key to stop", func() bool {
		res, data := a.Call(http.MethodPost, "/preauth", revoked, rig.Object{"acctNumber": canaryPAN})
		a.keep("answer to a revoked key", data)
		return res.StatusCode == 401
	})
	a.send("/auth", canaryWrong, req)
	a.send("/"+canaryWrong, canaryWrong, req)
	var out strings.Builder
	if code := rig.Run(a.T.Context(), []string{"key", "list", "--config", a.ConfigFile}, strings.NewReader(""), &out, &out); code != 0 {
		a.T.Errorf("key list: %d", code)
	}
	a.keep("key list", []byte(out.String()))
}

// authentications has what is said in the Authentications API, with a browser and without one.
func (a *aviary) authentications() {
	res, data := a.Call(http.MethodPost, "/webhook-endpoints", a.APIKey, rig.Object{"url": "http://127.0.0.1:9/hook"})
	endpoint := rig.ParseObject(a.T, data)
	secret := strings.TrimPrefix(endpoint.Text("secret"), "whsec_")
	raw, err := base64.StdEncoding.DecodeString(secret)
	if res.StatusCode != http.StatusCreated || err != nil {
		a.T.Fatalf("endpoint: %d %s", res.StatusCode, data)
	}
	a.addSecret("webhook secret", secret)
	a.addSecret("webhook secret as bytes", string(raw))
	a.Directory.SetAnswer(func(areq rig.Object) (int, []byte) {
		return 200, rig.Marshal(rig.AnswerTo(areq, "Y").With(rig.Object{"authenticationValue": canaryValue}))
	})
	defer a.Directory.SetAnswer(nil)
	create := func(body rig.Object, header ...string) rig.Object {
		_, data := a.Call(http.MethodPost, "/authentications", a.APIKey, body, append(a.trace(), header...)...)
		return rig.ParseObject(a.T, data)
	}
	more := rig.Object{
		"messageType": nil, "threeDSServerTransID": nil, "cardholderName": canaryName, "email": canaryEmail, "acctID": canaryOther,
		"messageExtension": []rig.Object{{"id": "A1", "name": "n", "criticalityIndicator": false, "data": rig.Object{"pan": canaryPAN}}},
	}
	direct := rig.ThreeRIRequest("2.2.0", canaryPAN, "").With(more)
	if got := create(direct, "Idempotency-Key", "order of "+canaryPAN); !strings.Contains(string(rig.Marshal(got)), canaryValue) {
		a.T.Errorf("%v", got)
	}
	for _, reference := range []string{canaryPAN, "order 4000-0011 2233/4455"} {
		if got := create(direct.With(rig.Object{"reference": reference})); got.Text("id") == "" {
			a.T.Errorf("%v", got)
		}
	}
	for _, bad := range []rig.Object{
		{"mcc": canaryPAN}, {"reference": strings.Repeat(canaryPAN, 5)}, {"acctNumber": canaryPAN + "0000"}, {canaryPAN: canaryPAN},
		{"email": canaryEmail + " "}, {"ds": canaryOther}, {"purchaseCurrency": canaryValue}, {"messageVersion": canaryPAN},
	} {
		a.send("/authentications", a.APIKey, direct.With(bad))
		a.send("/explain", a.APIKey, direct.With(bad))
	}
	paged := rig.CoreRequest("2.2.0", canaryPAN, "").With(more).With(rig.Object{
		"deviceChannel": nil, "messageCategory": nil, "messageVersion": nil, "threeDSCompInd": nil, "returnUrl": "https://shop.example/back",
	})
	var made rig.Object
	for range 2 { // one whose browser comes, and one that is cancelled
		made = create(paged)
		page, _ := made["browser"].(map[string]any)
		token, _ := page["token"].(string)
		a.addSecret("browser token", token)
		for _, path := range []string{"/a/" + token, "/a/" + token + "x", "/a/" + token + "/state", "/" + token} {
			res, err := http.Get(a.pages + path)
			if err != nil {
				a.T.Fatal(err)
			}
			_ = res.Body.Close()
		}
	}
	id := made.Text("id")
	a.send("/authentications/"+id+"/cancel", a.APIKey, rig.Object{})
	for _, path := range []string{"/authentications/" + id, "/authentications", "/authentications?last4=4455", "/events",
		"/webhook-endpoints", "/authentications/" + canaryPAN} {
		_, data := a.Call(http.MethodGet, path, a.APIKey, "", a.trace()...)
		a.keep("answer of GET "+path, data)
	}
	a.send("/authentications/search", a.APIKey, rig.Object{"acctNumber": canaryPAN})
	a.send("/authentications/search", a.APIKey, rig.Object{"acctNumber": canaryPAN + "x", "last4": canaryPAN})
	a.send("/lookup", a.APIKey, rig.Object{"acctNumber": canaryPAN})
	a.send("/explain", a.APIKey, a.carrier("2.2.0", canaryPAN))
	a.send("/outcome", a.APIKey, rig.Object{"threeDSServerTransID": canaryPAN})
}

// version1 has the operations of 3-D Secure 1.0.2.
func (a *aviary) version1() {
	s := &rig.LegacySite{Site: a.Site, V1: a.v1}
	form := rig.With(rig.Purchase(canaryPAN), "order_id", "canary")
	asked := s.Enroll(form)
	paid := asked.Answer(canaryPAN, "Y")
	paid.CAVV = canaryValue
	if code, got := s.Check("visa", paid); code != 200 || got.Text("cavv") != canaryValue {
		a.T.Errorf("%d %v", code, got)
	}
	paid.Amount = canaryPAN
	for _, param := range []string{"order_id", "amount", "merchant[name]", "card[expire_month]", canaryPAN} {
		_, got := s.Form("/enrolled", rig.With(form, param, canaryPAN, canaryValue))
		a.keep("answer of /enrolled", rig.Marshal(got))
	}
	_, got := s.Check("visa", paid)
	a.keep("answer of /check", rig.Marshal(got))
}

// commands has what the commands print that read the journal, the audit trail and the store.
func (a *aviary) commands() {
	want := `"api":"v1"`
	waittest.Until(a.T, "the journal", func() bool {
		export := command(a.Site, "", "journal", "export")
		return strings.Contains(export, want) && strings.Contains(export, `"kind":"resulted"`) && strings.Contains(export, `"api":"authentications"`)
	})
	for _, args := range [][]string{
		{"journal", "export"}, {"journal", "export", "--format", "csv"}, {"journal", "search", "--limit", "1000"},
		{"journal", "search", "--card", "-", "--limit", "1000", "--json"}, {"audit", "export"}, {"audit", "search"}, {"backup", "-"},
		{"key", "list", "--json"}, {"webhook", "list", "--merchant", "Shop"}, {"token", "list"}, {"operator", "list"}, {"ranges", "status"},
	} {
		a.keep(strings.Join(args, " "), []byte(command(a.Site, canaryPAN, args...)))
	}
	ids := regexp.MustCompile(`"id": ?"([^"]*)"`).FindAllStringSubmatch(
		command(a.Site, canaryPAN, "journal", "search", "--card", "-", "--limit", "1000", "--json"), -1)
	rig.Must(a.T, rig.WithJournal(a.T.Context(), a.ConfigFile, func(st journal.Store, _ *journal.Keys) error {
		for _, id := range ids {
			d, err := st.Show(a.T.Context(), id[1])
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
		a.T.Errorf("%d records of the card: too few, the test shows nothing of them", len(ids))
	}
}

// askConsole has the pages and the admin API that an admin sees, with the timeline of records of each kind.
func (a *aviary) askConsole() {
	token := strings.TrimSpace(command(a.Site, "", "token", "create", "--name", "canary", "--role", "admin"))
	a.addSecret("admin token", token)
	var session string
	rig.Must(a.T, rig.WithOperators(a.T.Context(), a.ConfigFile, func(o *operator.Service) error {
		user := operator.User{Name: "jo", Role: operator.Admin}
		err := o.AddUser(a.T.Context(), &user)
		if err == nil {
			session, err = o.StartSession(a.T.Context(), &user, nil, time.Hour)
		}
		return err
	}))
	a.addSecret("session", session)
	ask := func(method, path, body string) []byte {
		r, err := http.NewRequestWithContext(a.T.Context(), method, a.ConsoleURL+path, strings.NewReader(body))
		rig.Must(a.T, err)
		if strings.HasPrefix(path, "/admin/") {
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
		} else {
			r.AddCookie(&http.Cookie{Name: "threeds", Value: session})
		}
		res, err := http.DefaultClient.Do(r)
		rig.Must(a.T, err)
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		rig.Must(a.T, err)
		a.keep(fmt.Sprintf("%s %s, %d", method, path, res.StatusCode), data)
		if res.StatusCode != 200 {
			a.T.Errorf("%s %s: %d %.200s", method, path, res.StatusCode, data)
		}
		return data
	}
	for _, path := range []string{
		"/", "/authentications", "/reports", "/reports.csv", "/directories", "/ranges", "/merchants", "/keys", "/webhooks", "/audit", "/audit.jsonl",
		"/nodes", "/operators", "/tokens", "/explain", "/admin/v1/nodes",
		"/admin/v1/overview", "/admin/v1/keys", "/admin/v1/webhook-endpoints", "/admin/v1/audit", "/admin/v1/operators",
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
		a.T.Errorf("%d steps on pages: too few, the test shows nothing of them", seen)
	}
}
