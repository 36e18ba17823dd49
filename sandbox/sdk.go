package sandbox

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/uuid"
	"github.com/openthreeds/threeds/sandbox/internal/jose"
)

// The user interfaces of a challenge in an app, as acsUiType has them. EMV 3DS 2.2.0, table A.1.
const (
	textEntry    = "01"
	singleSelect = "02"
	multiSelect  = "03"
	outOfBand    = "04"
	htmlPage     = "05"
)

// An sdkChallenge is what the issuer keeps of a challenge in an app for its SDK. The lock of the transaction guards it.
type sdkChallenge struct {
	jose.Channel
	ui       string // the user interface, by acsUiTemplate
	received int    // CReqs that were good, which the next one's sdkCounterStoA is
	sent     int    // CRes, which the next one's acsCounterAtoS is
	hasEnd   bool   // the final CRes was sent
}

// sdkInterface is what the SDK is to show, by acsUiTemplate.
func (t *transaction) sdkInterface() string {
	return readMessage(t.render.bytes()).text("acsUiTemplate")
}

// isOutside reports whether a challenge can be confirmed in the app of the bank.
func (t *transaction) isOutside() bool {
	return t.deed.how == "outside" || t.sdk != nil && t.sdk.ui == outOfBand
}

// answerSDK takes a CReq of an app's SDK, encrypted, and answers with a CRes that is, or with an Erro that is not. An
// Erro of the SDK is taken, too. EMV 3DS 2.2.0, section 6.2.4.
func (a *issuer) answerSDK(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "The message is too long.", http.StatusRequestEntityTooLarge)
		return
	}
	switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind {
	case "application/jose":
		a.answerCReq(w, strings.TrimSpace(string(body)))
	case "application/json":
		a.takeErro(w, body)
	default:
		writeErro(w, erro{code: "101", detail: "Content-Type: want application/jose, or application/json for an Erro"})
	}
}

// answerCReq answers an encrypted CReq.
func (a *issuer) answerCReq(w http.ResponseWriter, text string) {
	header, err := jose.ReadHeader(text)
	if err != nil {
		writeErro(w, erro{code: "302", detail: err.Error()})
		return
	}
	t := a.box.journal.transaction(header.KeyID)
	if t == nil || t.ids.acs != header.KeyID || t.sdk == nil {
		writeErro(w, erro{code: "301", detail: "acsTransID: the header's kid names no challenge in an app"})
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fault.Is("ACS", "down") {
		t.record("sdk", "acs", "CReq", nil, "answered with HTTP status 503")
		http.Error(w, "The service of your bank is down at the moment.", http.StatusServiceUnavailable)
		return
	}
	raw, err := t.sdk.Open(text)
	if err != nil {
		t.refuseSDK(w, erro{code: "302", detail: err.Error()})
		return
	}
	t.record("sdk", "acs", "CReq", raw, "")
	if e, bad := t.checkSDK(raw); bad {
		t.refuseSDK(w, e)
		return
	}
	if e, bad := t.reactSDK(raw); bad {
		t.refuseSDK(w, e)
		return
	}
	t.sdk.received++
	t.sendCRes(w, header)
}

// refuseSDK answers with an Erro. The challenge goes on: the SDK may come again with what is right.
func (t *transaction) refuseSDK(w http.ResponseWriter, e erro) {
	e.version, e.ids = t.version, t.ids
	t.record("acs", "sdk", "Erro", writeErro(w, e), "")
}

// writeErro writes an Erro of the issuer's, which is never encrypted, and returns it.
func writeErro(w http.ResponseWriter, e erro) []byte {
	e.component, e.about = "A", "CReq"
	body := e.bytes()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(body) // the SDK has gone, or reads it
	return body
}

// takeErro takes what an SDK says of a CRes that it cannot use: that ends the challenge.
func (a *issuer) takeErro(w http.ResponseWriter, body []byte) {
	m := readMessage(body)
	t := a.box.journal.transaction(m.text("acsTransID"))
	if m.text("messageType") != "Erro" || t == nil || t.sdk == nil {
		writeErro(w, erro{code: "101", detail: "Want an Erro with the acsTransID of a challenge in an app"})
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record("sdk", "acs", "Erro", body, "")
	t.sdk.hasEnd = true
	if t.phase != ended {
		v := verdict{status: "U", reason: "22", cancel: "06"}
		if t.version == v231 {
			v.cancel = "09" // of 2.3.1 alone: an Erro was the answer to a CRes
		}
		t.finish(v)
	}
	w.WriteHeader(http.StatusOK)
}

// checkSDK checks a CReq against its transaction: what must be equal first, then by the tables.
func (t *transaction) checkSDK(raw []byte) (erro, bool) {
	m := readMessage(raw)
	wrong := func(name, want string) bool { return m.has(name) && m.text(name) != want }
	switch {
	case m == nil, wrong("messageType", "CReq"):
		return erro{code: "101", detail: "Invalid Message for the receiving component"}, true
	case wrong("messageVersion", t.version):
		return erro{code: "102", detail: t.version}, true
	case wrong("threeDSServerTransID", t.ids.server):
		return erro{code: "301", detail: "threeDSServerTransID"}, true
	case wrong("acsTransID", t.ids.acs):
		return erro{code: "301", detail: "acsTransID"}, true
	case wrong("sdkTransID", t.ids.sdk):
		return erro{code: "301", detail: "sdkTransID"}, true
	case !m.has("sdkCounterStoA"):
		return erro{code: "201", detail: "sdkCounterStoA"}, true
	case wrong("sdkCounterStoA", fmt.Sprintf("%03d", t.sdk.received)):
		return erro{code: "302", detail: fmt.Sprintf("sdkCounterStoA: want %03d", t.sdk.received)}, true
	}
	if e, bad := judgeMessage(raw, receivedIn{types: []string{"CReq"}, areq: t.areqRaw, ares: t.aresRaw}); bad {
		return e, true
	}
	if t.sdk.hasEnd {
		if t.version == v231 {
			return erro{code: "315", detail: "The challenge is over"}, true
		}
		return erro{code: "305", detail: "The challenge is over"}, true
	}
	return erro{}, false
}

// reactSDK does what a CReq says. A challenge that has ended meanwhile, in the bank's app or by itself, stays as it is.
func (t *transaction) reactSDK(raw []byte) (erro, bool) {
	m := readMessage(raw)
	switch cancel := m.text("challengeCancel"); {
	case t.phase == ended:
		return erro{}, false
	case cancel != "":
		t.creq = raw
		v := verdict{status: "N", reason: "01", cancel: cancel}
		if cancel == "08" { // the SDK has waited too long
			v.reason = "14"
		}
		t.finish(v)
		return erro{}, false
	case t.creq == nil:
		t.creq = raw
		t.open()
		return erro{}, false
	case m.text("resendChallenge") == "Y":
		t.resend()
		return erro{}, false
	}
	ui, entry := t.sdk.ui, m.text("challengeDataEntry")
	if t.isHTML() {
		query, err := url.ParseQuery(strings.TrimPrefix(m.text("challengeHTMLDataEntry"), "?"))
		if err != nil {
			return erro{code: "203", detail: "challengeHTMLDataEntry"}, true
		}
		if query.Get("action") == "cancel" {
			t.finish(cancelled)
			return erro{}, false
		}
		entry = strings.Join(query["entry"], ",")
	}
	switch ui {
	case outOfBand: // the second CReq is as good as the bank's app
		t.tries++
		t.finish(passed)
	case singleSelect, multiSelect:
		return t.choose(entry)
	default:
		t.enter(strings.Join(strings.Fields(entry), ""))
	}
	return erro{}, false
}

// isHTML reports whether the user interface is a page of the issuer's.
func (t *transaction) isHTML() bool {
	return readMessage(t.render.bytes()).text("acsInterface") == "02"
}

// choose takes what the cardholder chose of options.
func (t *transaction) choose(entry string) (erro, bool) {
	chosen := strings.FieldsFunc(entry, func(r rune) bool { return r == ',' || r == ' ' })
	if slices.ContainsFunc(chosen, func(o string) bool { return o != optionPass && o != optionFail }) {
		return erro{code: "203", detail: "challengeDataEntry: want one of " + optionPass + ", " + optionFail}, true
	}
	switch {
	case len(chosen) == 0:
		t.note, t.wrong = "Please choose first.", true
		t.wait(t.box.StepTimeout, notFinished)
	case slices.Contains(chosen, optionFail):
		t.tries++
		t.finish(failed)
	default:
		t.tries++
		t.finish(passed)
	}
	return erro{}, false
}

// The options of a challenge by choice.
const (
	optionPass = "pass"
	optionFail = "fail"
)

// sendCRes answers with the CRes of this moment, in the encryption of the CReq, broken if that is how it goes with this
// merchant.
func (t *transaction) sendCRes(w http.ResponseWriter, of jose.Header) {
	body := t.box.alter("CRes", t.sdkCRes())
	t.sdk.sent++
	t.sdk.hasEnd = t.phase == ended
	t.record("acs", "sdk", "CRes", body, "")
	header := jose.Header{Algorithm: "dir", KeyID: t.ids.acs, Encryption: of.Encryption}
	breaks := func(what string) bool { return t.fault.Is("CRes", what) }
	switch {
	case breaks("kid"):
		header.KeyID = uuid.New()
	case breaks("enc") && of.Encryption == jose.A128GCM:
		header.Encryption = jose.A128CBCHS256
	case breaks("enc"):
		header.Encryption = jose.A128GCM
	}
	text := t.sdk.Seal(header, body)
	kind := "application/jose; charset=utf-8"
	switch {
	case breaks("mac"):
		text = text[:strings.LastIndex(text, ".")+1] + random(16)
	case breaks("truncated"):
		text = text[:len(text)/2]
	case breaks("not-jwe"):
		text = string(body)
	case breaks("content-type"):
		kind = "text/html; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, text) // the SDK has gone, or reads it
}

// sdkCRes is the CRes of this moment: what the SDK is to show, or the end. EMV 3DS 2.2.0, table B.4.
func (t *transaction) sdkCRes() []byte {
	if t.phase == ended && t.fault.Is("CRes", "garbage") {
		return t.cres
	}
	counter, version := t.sdk.sent, t.version
	if t.fault.Is("CRes", "counter") {
		counter++
	}
	if t.fault.Is("CRes", "wrong-version") {
		version = t.otherValue("messageVersion")
	}
	o := new(object).
		put("threeDSServerTransID", t.ids.server).
		put("acsTransID", t.ids.acs).
		put("sdkTransID", t.ids.sdk).
		put("acsCounterAtoS", fmt.Sprintf("%03d", counter%1000)).
		put("messageType", "CRes").
		put("messageVersion", version)
	if t.phase != ended {
		o.put("challengeCompletionInd", "N")
		t.putInterface(o)
		return o.bytes()
	}
	status := t.outcome
	if status != "Y" && (status != "D" || t.version != v231) {
		status = "N" // the only other values that a final CRes has
	}
	return o.put("challengeCompletionInd", "Y").put("transStatus", status).bytes()
}

// putInterface adds what the SDK is to show.
func (t *transaction) putInterface(o *object) {
	what := t.describePayment()
	if t.isHTML() {
		o.put("acsUiType", htmlPage).put("acsHTML", base64.RawURLEncoding.EncodeToString(t.sdkPage(what)))
		return
	}
	o.put("acsUiType", t.sdk.ui).
		put("challengeInfoHeader", "Confirm it is you").
		put("challengeInfoText", strings.TrimSpace(t.note+" "+what))
	if t.wrong {
		o.put("challengeInfoTextIndicator", "Y")
	}
	switch t.sdk.ui {
	case outOfBand:
		if !t.fault.Is("CRes", "no-oob-label") {
			o.put("oobContinueLabel", "I have confirmed it")
		}
	case singleSelect, multiSelect:
		o.put("challengeInfoLabel", "Choose how it ends").
			put("challengeSelectInfo", []map[string]string{{optionPass: "It is me"}, {optionFail: "It is not me"}}).
			put("submitAuthenticationLabel", "Continue")
	default:
		o.put("challengeInfoLabel", "Code").
			put("submitAuthenticationLabel", "Confirm").
			put("resendInformationLabel", "Send a new code")
	}
	o.put("whyInfoLabel", "Why do I see this?")
	if t.fault.Is("CRes", "empty-why-info") {
		o.member("whyInfoText", "")
	} else {
		o.put("whyInfoText", "This is the sandbox: no bank asks you, and no money moves.")
	}
	o.put("expandInfoLabel", "Help").put("expandInfoText", "The code is "+code+".")
}

// describePayment says what is to be confirmed, and how.
func (t *transaction) describePayment() string {
	p := t.page()
	text := p.Merchant
	if p.Amount != "" {
		text = p.Amount + " to " + p.Merchant
	}
	text += " with the card that ends in " + p.Last + "."
	if t.sdk.ui == outOfBand {
		return "Confirm in the app of your bank: " + text
	}
	return strings.TrimSpace(text)
}

// sdkPage is the page for an SDK that shows HTML. Its form goes to the address that the specification has for that, and
// the SDK returns the query. EMV 3DS 2.2.0, section 4.2.5.
func (t *transaction) sdkPage(what string) []byte {
	var b bytes.Buffer
	err := sdkPages.Execute(&b, struct {
		What, Note, UI, Pass, Fail string
	}{what, t.note, t.sdk.ui, optionPass, optionFail})
	if err != nil {
		panic("sandbox: writing a page: " + err.Error()) // of strings into memory
	}
	return b.Bytes()
}

var sdkPages = template.Must(template.New("sdk").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Confirm it is you</title></head>
<body><h1>Confirm it is you</h1><p>{{.What}}</p>{{with .Note}}<p role="alert">{{.}}</p>{{end}}
<form action="HTTPS://EMV3DS/challenge" method="get">
{{- if or (eq .UI "02") (eq .UI "03")}}
{{- $kind := "radio"}}{{if eq .UI "03"}}{{$kind = "checkbox"}}{{end}}
<label><input type="{{$kind}}" name="entry" value="{{.Pass}}"> It is me</label>
<label><input type="{{$kind}}" name="entry" value="{{.Fail}}"> It is not me</label>
{{- else}}
<label>Code <input name="entry" inputmode="numeric" autocomplete="one-time-code"></label>
{{- end}}
<button name="action" value="confirm">Confirm</button> <button name="action" value="cancel">Cancel</button>
</form></body></html>
`))
