package sandbox

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/openthreeds/threeds/sandbox/internal/page"
)

// code is what opens every challenge of the sandbox, and triesAllowed how often
// one may guess.
const (
	code         = "123456"
	triesAllowed = 3
)

// challenge takes the CReq that a browser brings from the shop.
func (a *issuer) challenge(w http.ResponseWriter, r *http.Request) {
	raw, err := decode(r.PostFormValue("creq"))
	if err != nil {
		a.box.showFailure(w, http.StatusBadRequest, "The shop has sent this page something it cannot read.",
			"creq is missing or not base64url")
		return
	}
	id := readMessage(raw).text("acsTransID")
	t := a.box.journal.transaction(id)
	if t == nil || t.ids.acs != id || t.channel != browser || t.ares != "C" {
		a.box.showFailure(w, http.StatusNotFound, "The shop has sent this page something it cannot read.",
			"creq: acsTransID belongs to no challenge")
		return
	}
	if t.fault.Is("ACS", "down") {
		t.record("browser", "acs", "CReq", raw, "answered with HTTP status 503")
		t.giveUpSoon()
		a.box.show(w, http.StatusServiceUnavailable, page.View{
			Name: "error", Title: "Your bank cannot be reached", Scheme: t.dir.scheme.Name,
			Text: "The service of your bank is down at the moment. Close this page, and try again later or pay with another card.",
		})
		return
	}
	t.record("browser", "acs", "CReq", raw,
		a.box.warnOf(t.ids.server, base64Faults(r.PostForm, "creq", "threeDSSessionData")))
	t.mu.Lock()
	defer t.mu.Unlock()
	session := r.PostFormValue("threeDSSessionData")
	if e, bad := t.judgeCReq(raw, session); bad {
		a.box.show(w, http.StatusOK, t.errorPage(e, session))
		return
	}
	if t.creq == nil {
		t.creq, t.session = raw, session
		t.open()
	}
	a.showOrRedirect(w, r, t)
}

// showOrRedirect answers a form. A page that waits for the cardholder has an address of its own, because a browser
// cannot come back to the answer to a POST. The caller holds the lock.
func (a *issuer) showOrRedirect(w http.ResponseWriter, r *http.Request, t *transaction) {
	if t.phase == ended {
		a.box.show(w, http.StatusOK, t.page())
		return
	}
	http.Redirect(w, r, a.path+challengePath+"/"+t.ids.acs, http.StatusSeeOther)
}

// judgeCReq judges a CReq against the transaction. Only 2.3.1 has codes for a
// CReq that differs (314) or is late (315). The caller holds the lock.
func (t *transaction) judgeCReq(raw []byte, session string) (erro, bool) {
	if e, bad := judgeMessage(raw, receivedIn{types: []string{"CReq"}, areq: t.areqRaw, ares: t.aresRaw}); bad {
		return e, true
	}
	m := readMessage(raw)
	late, other := "315", "314"
	if t.version != v231 {
		late, other = "305", "305"
	}
	switch {
	case m.text("threeDSServerTransID") != t.ids.server:
		return erro{code: "301", detail: "threeDSServerTransID"}, true
	case m.text("messageVersion") != t.version:
		return erro{code: "203", detail: "messageVersion"}, true
	case len(session) > 1024:
		return erro{code: "203", detail: "threeDSSessionData"}, true
	case t.creq != nil && !bytes.Equal(t.creq, raw):
		return erro{code: other, detail: "The CReq differs from the first one"}, true
	case t.phase == ended:
		return erro{code: late, detail: "The challenge is over"}, true
	}
	return erro{}, false
}

// giveUpSoon ends a challenge whose page does not come some seconds after a CReq. The issuer would wait longer for it;
// developers need not.
func (t *transaction) giveUpSoon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase == waiting {
		t.wait(t.box.LateDelay, notBegun)
	}
}

// open begins the challenge after the first good CReq. The caller holds the
// lock.
func (t *transaction) open() {
	if !t.deed.HasPerson() {
		t.finish(verdictOf(t.deed))
		return
	}
	t.phase = asking
	t.wait(t.box.StepTimeout, notFinished)
}

// showAgain shows the page after a reply to it: reloading it repeats nothing.
func (a *issuer) showAgain(w http.ResponseWriter, r *http.Request, t *transaction) {
	v := t.page()
	v.Framed = r.Header.Get("Sec-Fetch-Dest") == "iframe" // where browsers refuse autofocus, and Chromium complains of it
	a.box.show(w, http.StatusOK, v)
}

// tellEnd tells the page of a challenge that is decided outside it whether that is over:
// 200 then, 204 before.
func (a *issuer) tellEnd(w http.ResponseWriter, _ *http.Request, t *transaction) {
	w.Header().Set("Cache-Control", "no-store")
	if t.phase != ended {
		w.WriteHeader(http.StatusNoContent)
	}
}

// reply takes what the cardholder did on the page.
func (a *issuer) reply(w http.ResponseWriter, r *http.Request, t *transaction) {
	if t.phase == asking {
		t.react(r.PostFormValue("action"), r.PostFormValue("code"), r.PostFormValue("step"))
	}
	a.showOrRedirect(w, r, t)
}

// onChallenge finds the challenge that an address names, once its CReq has come. It holds the lock while handle runs.
func (a *issuer) onChallenge(handle func(http.ResponseWriter, *http.Request, *transaction)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t := a.box.journal.transaction(r.PathValue("acsTransID"))
		if t != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
		}
		if t == nil || t.creq == nil {
			a.box.showFailure(w, http.StatusNotFound, "There is no such challenge.", "acsTransID in the address")
			return
		}
		handle(w, r, t)
	}
}

// react does what a button of a page says; step is the page. The caller holds
// the lock.
func (t *transaction) react(action, entered, step string) {
	entered = strings.Join(strings.Fields(entered), "")
	switch {
	case action == "cancel":
		t.finish(cancelled)
		return
	case t.deed.How == "outside":
		t.reactOutside(action)
		return
	case action == "resend":
		t.resend()
	case step != "" && entered != "" && t.judged == [2]string{step, entered}:
		// a double click sends the same page twice, which is one try
	default:
		t.judged = [2]string{step, entered}
		t.enter(entered)
	}
}

// resend says that there is a new code. The caller holds the lock.
func (t *transaction) resend() {
	t.note, t.wrong = "We have sent you a new code.", false
	t.wait(t.box.StepTimeout, notFinished)
}

// enter takes a code that the cardholder entered. The caller holds the lock.
func (t *transaction) enter(entered string) {
	if entered == "" {
		t.note, t.wrong = "Please enter the code first.", true
		t.wait(t.box.StepTimeout, notFinished)
		return
	}
	t.tries++
	switch {
	case entered == code:
		t.finish(passed)
	case t.tries == triesAllowed:
		t.finish(tooMany)
	default:
		t.note, t.wrong = "That code is not right. "+left(triesAllowed-t.tries), true
		t.wait(t.box.StepTimeout, notFinished)
	}
}

// reactOutside does what a button of the page says whose challenge is decided in the app of
// the bank. Two of them stand for that app. The caller holds the lock.
func (t *transaction) reactOutside(action string) {
	t.tries++
	switch action {
	case "approve":
		t.finish(passed)
	case "decline":
		t.finish(failed)
	default:
		t.note, t.wrong = "Your bank has not seen it yet. Please confirm in the app first.", true
		t.wait(t.box.StepTimeout, notFinished)
	}
}

func left(n int) string {
	if n == 1 {
		return "You have one try left."
	}
	return fmt.Sprintf("You have %d tries left.", n)
}

// page is what the browser sees at this point of the challenge. The caller
// holds the lock.
func (t *transaction) page() page.View {
	v := page.View{
		Name: "code", Title: "Confirm your payment",
		Scheme:   t.dir.scheme.Name,
		Merchant: t.areq.text("merchantName"),
		Amount: page.Amount(t.areq.text("purchaseAmount"), t.areq.text("purchaseExponent"),
			t.areq.text("purchaseCurrency")),
		Last:   last4(t.areq.text("acctNumber")),
		Action: t.box.acs.path + challengePath + "/" + t.ids.acs,
		Note:   t.note, Wrong: t.wrong, Code: code, Step: t.round,
		Unframed: t.fault.Is("ACS", "unframed"),
		Tall:     t.deed.Tall,
	}
	if t.deed.How == "outside" {
		v.Name = "outside"
	}
	if v.Amount == "" {
		v.Title = "Confirm it is you"
	}
	if t.phase != ended {
		return v
	}
	v.Name, v.After = "leave", t.box.PageDelay.Milliseconds()
	v.Title, v.Text, v.Wrong = "Confirmed", "Thank you. You are going back to the shop.", false
	switch status := readMessage(t.cres).text("transStatus"); {
	case status == "D":
		v.Title, v.Text = "Not finished yet", "Your bank asks you again on another device. You are going back to the shop."
	case status != "Y":
		v.Title, v.Text, v.Wrong = "Not confirmed", "Your bank has not confirmed this. You are going back to the shop.", true
	}
	if t.fault.Is("ACS", "stuck") {
		v.Name, v.Text = "error", "That is all."
		return v
	}
	t.record("acs", "browser", "CRes", t.cres, "")
	v.Form = t.back("cres", t.encodeCRes(), t.session)
	return v
}

// errorPage carries an Erro to the shop as the CRes would travel, in a field of
// its own: "error", unpadded base64url.
func (t *transaction) errorPage(e erro, session string) page.View {
	e.component, e.version, e.about, e.ids = "A", t.version, "CReq", t.ids
	e.ids.sdk = ""
	body := t.box.alter("Erro", e.bytes())
	t.record("acs", "browser", "Erro", body, "")
	return page.View{
		Name: "leave", Title: "Something went wrong", Scheme: t.dir.scheme.Name, Wrong: true,
		Text:   "Your bank and the shop did not understand each other. You are going back to the shop.",
		Detail: "Erro " + e.code + ": " + e.detail,
		After:  t.box.PageDelay.Milliseconds(),
		Form:   t.back("error", encodeURL(body), truncate(session, 1024)),
	}
}

// back is the form that goes to the shop.
func (t *transaction) back(name, value, session string) *page.Form {
	f := &page.Form{URL: t.areq.text("notificationURL"), Fields: []page.Field{{Name: name, Value: value}}}
	if session != "" {
		f.Fields = append(f.Fields, page.Field{Name: "threeDSSessionData", Value: session})
	}
	return f
}

func encodeURL(body []byte) string { return base64.RawURLEncoding.EncodeToString(body) }

func last4(pan string) string { return pan[max(0, len(pan)-4):] }
