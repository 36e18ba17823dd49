package sandbox

import (
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/base/uuid"
	"github.com/openthreeds/threeds/sandbox/internal/jose"
	"github.com/openthreeds/threeds/sandbox/internal/page"
)

// The user interfaces of a challenge in an app, with the values of acsUiType. EMV 3DS 2.2.0, table A.1.
const (
	textEntry    = "01"
	singleSelect = "02"
	multiSelect  = "03"
	outOfBand    = "04"
	htmlPage     = "05"
	htmlOutside  = "06" // a page as well, and out of band; 2.3.1 alone
)

// isOutOfBand reports whether a user interface has the cardholder confirm in the app of the bank.
func isOutOfBand(ui string) bool { return ui == outOfBand || ui == htmlOutside }

// An sdkChallenge is what the issuer keeps of a challenge in an app for its SDK. The lock of the transaction guards it.
type sdkChallenge struct {
	jose.Channel
	ui       string // the user interface, by acsUiTemplate
	received int    // CReqs that were good, which the next one's sdkCounterStoA is
	sent     int    // CRes, which the next one's acsCounterAtoS is
	hasEnd   bool   // the final CRes or an Erro was sent, or an Erro came
	opensApp bool   // the SDK opens the app of the bank by its address
	backURL  string // the latest threeDSRequestorAppURL of a CReq: the way back from the app of the bank
	report   []byte // the Erro that ended the challenge, for the RReq
}

// isOutside reports whether a challenge can be confirmed in the app of the bank.
func (t *transaction) isOutside() bool {
	return t.deed.How == "outside" || t.sdk != nil && isOutOfBand(t.sdk.ui)
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
		writeErro(w,
			cReqErro(erro{code: "101", detail: "Content-Type: want application/jose, or application/json for an Erro"}))
	}
}

// answerCReq answers an encrypted CReq.
func (a *issuer) answerCReq(w http.ResponseWriter, text string) {
	header, fault := jose.ReadHeader(text)
	t := a.box.journal.transaction(header.KeyID)
	switch {
	case t != nil && t.ids.acs == header.KeyID && t.sdk != nil:
	case fault != nil:
		writeErro(w, cReqErro(erro{code: "302", detail: fault.Error()}))
		return
	default:
		writeErro(w, cReqErro(erro{code: "301", detail: "acsTransID: the header's kid names no challenge in an app"}))
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

// refuseSDK answers with an Erro, which ends the challenge if nothing else has: the RReq says that there was one. The
// caller holds the lock.
func (t *transaction) refuseSDK(w http.ResponseWriter, e erro) {
	e.version, e.ids = t.version, t.ids
	body := cReqErro(e)
	t.endByErro(erroOfACS, body)
	t.record("acs", "sdk", "Erro", body, "")
	writeErro(w, body)
}

// cReqErro is an Erro of the issuer's about a CReq.
func cReqErro(e erro) []byte {
	e.component, e.about = "A", "CReq"
	return e.bytes()
}

// writeErro answers with an Erro, which is never encrypted.
func writeErro(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(body) // the SDK has gone, or reads it
}

// The values of challengeCancel for a challenge that ended with an Erro: one for all before 2.3.1, which knows who
// found the fault. EMV 3DS 2.3.1, table A.4.
const (
	transactionError = "06"
	erroOfSDK        = "09" // about a CRes
	erroOfACS        = "10" // about a CReq
)

// endByErro ends the challenge because of an Erro, unless it has ended. 2.3.1 has a copy of the Erro in the RReq, which
// has to be a good one. The caller holds the lock.
func (t *transaction) endByErro(cancel string, body []byte) {
	t.sdk.hasEnd = true
	if t.phase == ended {
		return
	}
	v := verdict{status: "U", reason: "22", cancel: transactionError} // technical issue
	if t.version == v210 {
		v.reason = "03" // unsupported device: 2.1.0 has no better one
	}
	if _, bad := judgeMessage(body, receivedIn{types: []string{"Erro"}}); t.version == v231 && !bad {
		v.cancel, t.sdk.report = cancel, body
	}
	t.finish(v)
}

// takeErro takes what an SDK says of a CRes that it cannot use: that ends the challenge.
func (a *issuer) takeErro(w http.ResponseWriter, body []byte) {
	m := readMessage(body)
	id := m.text("acsTransID")
	t := a.box.journal.transaction(id)
	if m.text("messageType") != "Erro" || t == nil || t.ids.acs != id || t.sdk == nil {
		writeErro(w, cReqErro(erro{code: "101", detail: "Want an Erro with the acsTransID of a challenge in an app"}))
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record("sdk", "acs", "Erro", body, "")
	t.endByErro(erroOfSDK, body)
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
	if back := m.text("threeDSRequestorAppURL"); back != "" && t.version != v210 {
		t.sdk.backURL = back
	}
	t.sdk.opensApp = t.version == v231 && m.text("oobAppURLInd") == "01" && m.text("oobAppStatus") == ""
	switch cancel := m.text("challengeCancel"); {
	case t.phase == ended:
		return erro{}, false
	case cancel != "":
		t.creq = raw
		t.finish(verdict{status: "N", reason: "01", cancel: cancel}) // reason 14 is for timeouts of the issuer's alone
		return erro{}, false
	case t.creq == nil:
		t.creq = raw
		t.open()
		return erro{}, false
	case m.text("resendChallenge") == "Y":
		t.resend()
		return erro{}, false
	case m.text("oobAppStatus") != "":
		t.note, t.wrong = "The app of your bank did not open. Please open it yourself.", true
		t.wait(t.box.StepTimeout, notFinished)
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
	case outOfBand, htmlOutside: // the second CReq is as good as the bank's app
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
	return readMessage(t.render.Bytes()).text("acsInterface") == "02"
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
		Put("threeDSServerTransID", t.ids.server).
		Put("acsTransID", t.ids.acs).
		Put("sdkTransID", t.ids.sdk).
		Put("acsCounterAtoS", fmt.Sprintf("%03d", counter%1000)).
		Put("messageType", "CRes").
		Put("messageVersion", version)
	if t.phase != ended {
		o.Put("challengeCompletionInd", "N")
		t.putInterface(o)
		return o.Bytes()
	}
	status := t.outcome
	if status != "Y" && (status != "D" || t.version != v231) {
		status = "N" // the only other values that a final CRes has
	}
	return o.Put("challengeCompletionInd", "Y").Put("transStatus", status).Bytes()
}

// putInterface adds what the SDK is to show.
func (t *transaction) putInterface(o *object) {
	what := t.describePayment()
	if t.sdk.opensApp && isOutOfBand(t.sdk.ui) {
		o.Put("oobAppURL", t.box.acs.url+bankPath+"/"+t.ids.acs).Put("oobAppLabel", "Open the app of your bank")
	}
	if t.isHTML() {
		kind := htmlPage
		if t.sdk.ui == htmlOutside {
			kind = htmlOutside
		}
		shown := page.SDK{
			What: what, Note: t.note, UI: t.sdk.ui, Pass: optionPass, Fail: optionFail, Outside: isOutOfBand(t.sdk.ui),
		}
		o.Put("acsUiType", kind).Put("acsHTML", base64.RawURLEncoding.EncodeToString(shown.HTML()))
		return
	}
	o.Put("acsUiType", t.sdk.ui).
		Put("challengeInfoHeader", "Confirm it is you").
		Put("challengeInfoText", strings.TrimSpace(t.note+" "+what))
	if t.wrong {
		o.Put("challengeInfoTextIndicator", "Y")
	}
	switch t.sdk.ui {
	case outOfBand:
		if !t.fault.Is("CRes", "no-oob-label") {
			o.Put("oobContinueLabel", "I have confirmed it")
		}
	case singleSelect, multiSelect:
		o.Put("challengeInfoLabel", "Choose how it ends").
			Put("challengeSelectInfo", []map[string]string{{optionPass: "It is me"}, {optionFail: "It is not me"}}).
			Put("submitAuthenticationLabel", "Continue")
	default:
		o.Put("challengeInfoLabel", "Code").
			Put("submitAuthenticationLabel", "Confirm").
			Put("resendInformationLabel", "Send a new code")
	}
	o.Put("whyInfoLabel", "Why do I see this?")
	if t.fault.Is("CRes", "empty-why-info") {
		o.Add("whyInfoText", "")
	} else {
		o.Put("whyInfoText", "This is the sandbox: no bank asks you, and no money moves.")
	}
	o.Put("expandInfoLabel", "Help").Put("expandInfoText", "The code is "+code+".")
}

// describePayment says what is to be confirmed, and how.
func (t *transaction) describePayment() string {
	p := t.page()
	text := p.Merchant
	if p.Amount != "" {
		text = p.Amount + " to " + p.Merchant
	}
	text += " with the card that ends in " + p.Last + "."
	if isOutOfBand(t.sdk.ui) {
		return "Confirm in the app of your bank: " + text
	}
	return strings.TrimSpace(text)
}
