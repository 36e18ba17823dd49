package sandbox

import (
	"encoding/json"
	"fmt"
	"github.com/openthreeds/threeds/sandbox/shop"
	"html/template"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

const testKey = "3f2a9c1e-5b7d-4e8f-a6c4-0d1e2f3a4b5c"

// A bank is what is on the other side of the shop: it plays the API of a 3DS
// server and an ACS, as far as a merchant sees them. The last four digits of
// the card number decide.
type bank struct {
	API, ACS *httptest.Server

	mu    sync.Mutex
	count int
	calls []apiCall
	trans map[string]*bankTransaction
	echo  string // put into every Erro

	headers map[string]string // of every answer
}

type apiCall struct {
	path string
	key  string
	body map[string]any
}

type bankTransaction struct {
	id, acsID, card, version, notification string

	result string // transStatus of the RReq, "" for none yet
	cancel string // its challengeCancel
	erro   object // what /postauth answers in its place
}

func newBank(t *testing.T) *bank {
	b := &bank{trans: make(map[string]*bankTransaction)}
	api := http.NewServeMux()
	api.HandleFunc("POST /preauth", b.api(b.preauth))
	api.HandleFunc("POST /auth", b.api(b.auth))
	api.HandleFunc("POST /postauth", b.api(b.postauth))
	api.HandleFunc("POST /enrolled", b.mpi(b.enrolled))
	api.HandleFunc("POST /check", b.mpi(b.check))
	b.API = httptest.NewServer(api)
	acs := http.NewServeMux()
	acs.HandleFunc("POST /method", b.method)
	acs.HandleFunc("POST /method/silent", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "…") })
	acs.HandleFunc("POST /challenge", b.challenge)
	acs.HandleFunc("POST /answer", b.answer)
	acs.HandleFunc("POST /pareq", b.payer)
	b.ACS = httptest.NewServer(acs)
	t.Cleanup(b.API.Close)
	t.Cleanup(b.ACS.Close)
	return b
}

// shop returns a shop at this bank, quick where it waits.
func (b *bank) shop() *shop.Shop {
	return &shop.Shop{API: b.API.URL, APIKey: testKey, Processing: 1}
}

type object = map[string]any

func (b *bank) api(op func(object) object) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		var body object
		_ = json.NewDecoder(r.Body).Decode(&body)
		b.calls = append(b.calls, apiCall{r.URL.Path, r.Header.Get("APIKey"), body})
		if r.Header.Get("APIKey") != testKey {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, "Invalid API Key")
			return
		}
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		}
		answer := op(body)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		for name, value := range b.headers {
			w.Header().Set(name, value)
		}
		if answer["messageType"] == "Erro" {
			answer["errorDetail"] = answer["errorDetail"].(string) + b.echo
			w.WriteHeader(http.StatusBadRequest)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func problem(code, component, description, detail string) object {
	return object{"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": code, "errorComponent": component,
		"errorDescription": description, "errorDetail": detail}
}

func (b *bank) preauth(body object) object {
	card := body["acctNumber"].(string)
	if card == "9000100111111111" || card[2:6] == "0201" {
		return problem("305", "S", "Unknown BIN", "No CRD found, card with BIN ****** is not enrolled with any known DS")
	}
	b.count++
	id := fmt.Sprintf("6e1f0a52-97d8-4c00-8000-%012d", b.count)
	b.trans[id] = &bankTransaction{id: id, acsID: fmt.Sprintf("ac5f0a52-97d8-4c00-8000-%012d", b.count), card: card}
	all := map[string][]string{"0": {"2.1.0", "2.2.0", "2.3.1"}, "1": {"2.1.0"}, "2": {"2.2.0"}, "3": {"2.3.1"}}[digit4(card, 0)]
	url := map[string]string{"0": b.ACS.URL + "/method", "2": b.ACS.URL + "/method/silent"}[digit4(card, 1)]
	var acs []object
	for _, v := range all {
		entry := object{"version": v}
		if url != "" {
			entry["threeDSMethodURL"] = url
		}
		acs = append(acs, entry)
	}
	return object{"messageType": "CRD", "threeDSServerTransID": id, "scheme": "visa", "dsProtocolVersions": all,
		"acsProtocolVersions": acs, "threeDSServerProtocolVersions": []string{"2.1.0", "2.2.0", "2.3.1"}}
}

// digit4 is one of the last four digits.
func digit4(card string, i int) string { return card[len(card)-4+i:][:1] }

func (b *bank) auth(body object) object {
	tr := b.trans[body["threeDSServerTransID"].(string)]
	if tr == nil || tr.card != body["acctNumber"] || tr.version != "" {
		return problem("301", "S", "No bankTransaction found", "threeDSServerTransID")
	}
	tr.version, tr.notification = body["messageVersion"].(string), body["notificationURL"].(string)
	if digit4(tr.card, 1) == "0" && body["threeDSCompInd"] != "Y" {
		return problem("305", "D", "Invalid ThreeDSCompInd", `The threeDSCompInd must be "Y" when successful`)
	}
	c := digit4(tr.card, 2)
	if c == "6" {
		return problem("405", "S", "Unable to contact Directory Server", "Connection timeout")
	}
	status := map[string]string{"0": "Y", "1": "N", "2": "A", "3": "R", "4": "I", "5": "U", "7": "C", "8": "D"}[c]
	ares := object{"messageType": "ARes", "messageVersion": tr.version, "threeDSServerTransID": tr.id, "acsTransID": tr.acsID,
		"dsTransID": "d5000000-0000-4000-8000-000000000000", "transStatus": status}
	if body["acquirerMerchantID"] == "SPC" && body["threeDSRequestorPriorAuthenticationInfo"] == nil {
		ares["transStatus"] = "S"
		ares["webAuthnCredList"] = []object{{"rpID": "localhost", "credentialIds": []string{"Y3JlZGVudGlhbA"}}}
		ares["spcTransData"] = object{"challenge": "Y2hhbGxlbmdl", "payeeOrigin": body["payeeOrigin"]}
		return ares
	}
	switch status {
	case "Y", "A":
		ares["eci"], ares["authenticationValue"] = "05", "AAABBZEEBgAAAAAAAAQGAAAAAAA="
	case "N", "R", "U":
		ares["transStatusReason"] = "11"
	case "C":
		ares["acsURL"], ares["acsChallengeMandated"] = b.ACS.URL+"/challenge", "Y"
	case "D":
		ares["cardholderInfo"] = "Open the app of your bank and approve 129.00 EUR."
		if tr.version == "2.3.1" {
			ares["cardholderInfo"] = object{"text": ares["cardholderInfo"]}
		}
	}
	return ares
}

func (b *bank) postauth(body object) object {
	tr := b.trans[body["threeDSServerTransID"].(string)]
	switch {
	case tr == nil:
		return problem("203", "S", "Unknown threeDSServerTransID", "Unknown threeDSServerTransID")
	case tr.erro != nil:
		return tr.erro
	case tr.result == "":
		return problem("305", "S", "No RReq has been received", "No response from directory server yet")
	}
	rreq := object{"messageType": "RReq", "messageVersion": tr.version, "threeDSServerTransID": tr.id, "acsTransID": tr.acsID,
		"transStatus": tr.result, "interactionCounter": "01", "messageCategory": "01"}
	if tr.result == "Y" {
		rreq["eci"], rreq["authenticationValue"] = "05", "AAABBZEEBgAAAAAAAAQGAAAAAAA="
	}
	if tr.cancel != "" {
		rreq["challengeCancel"], rreq["transStatusReason"] = tr.cancel, "14"
	}
	return rreq
}

// finish lets the result of a bankTransaction arrive.
func (b *bank) finish(id, status, cancel string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trans[id].result, b.trans[id].cancel = status, cancel
}

func (b *bank) find(id string) *bankTransaction {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trans[id]
}

func (b *bank) lastCall(path string) (body object, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls {
		if c.path == path {
			body = c.body
			n++
		}
	}
	return body, n
}

// cres is the CRes of a bankTransaction.
func (tr *bankTransaction) cres(status string) []byte {
	return marshal(object{"messageType": "CRes", "messageVersion": tr.version, "threeDSServerTransID": tr.id, "acsTransID": tr.acsID,
		"challengeCompletionInd": "Y", "transStatus": status})
}

var postPage = template.Must(template.New("").Parse(`<!doctype html><meta charset=utf-8><title>Bank</title>
<form method=post action="{{.Action}}">{{range $n, $v := .Fields}}<input type=hidden name="{{$n}}" value="{{$v}}">{{end}}</form>
<script>document.forms[0].submit()</script>`))

func (b *bank) method(w http.ResponseWriter, r *http.Request) {
	type methodData struct {
		ServerTransID   string `json:"threeDSServerTransID"`
		NotificationURL string `json:"threeDSMethodNotificationURL,omitempty"`
	}
	var data methodData
	raw, _ := decode(r.PostFormValue("threeDSMethodData"))
	_ = json.Unmarshal(raw, &data)
	notice := encode(marshal(methodData{ServerTransID: data.ServerTransID}))
	_ = postPage.Execute(w, object{"Action": data.NotificationURL, "Fields": object{"threeDSMethodData": notice}})
}

var questionPage = template.Must(template.New("").Parse(`<!doctype html><html lang=en><meta charset=utf-8>
<meta name=viewport content="width=device-width"><title>Bank</title>
<style>body{font:16px/1.5 system-ui;margin:0;padding:20px;max-width:420px;color:#123}button{font:inherit;min-height:48px;width:100%;margin-top:10px;border-radius:8px;border:1px solid #456;background:#fff}button[value=Y]{background:#124;color:#fff}</style>
<h1>Example Bank</h1><p>Did you buy something for 129.00 EUR at Fjord Audio?</p>
<form method=post action=/answer><input type=hidden name=id value="{{.ID}}"><input type=hidden name=session value="{{.Session}}">
<button name=status value=Y data-testid=approve>Yes, approve</button><button name=status value=N data-testid=deny>No</button></form></html>`))

func (b *bank) challenge(w http.ResponseWriter, r *http.Request) {
	raw, err := decode(r.PostFormValue("creq"))
	var creq struct {
		ServerTransID string `json:"threeDSServerTransID"`
	}
	if err != nil || json.Unmarshal(raw, &creq) != nil || strings.ContainsAny(r.PostFormValue("creq"), "=+/ \n") {
		http.Error(w, "creq", http.StatusBadRequest)
		return
	}
	tr := b.find(creq.ServerTransID)
	_ = questionPage.Execute(w, object{"ID": tr.id, "Session": r.PostFormValue("threeDSSessionData")})
}

func (b *bank) answer(w http.ResponseWriter, r *http.Request) {
	tr := b.find(r.PostFormValue("id"))
	status := r.PostFormValue("status")
	b.finish(tr.id, status, "")
	_ = postPage.Execute(w, object{"Action": tr.notification, "Fields": object{
		"cres": encode(tr.cres(status)), "threeDSSessionData": r.PostFormValue("session")}})
}
