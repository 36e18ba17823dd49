package sandbox

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/sandbox/internal/page"
)

// showBankApp is the app of the bank, where a challenge out of band is confirmed: a page, since the sandbox has no app.
// In 2.3.1 the SDK opens it by oobAppURL. When it is over, it leads back to the app of the shop.
func (a *issuer) showBankApp(w http.ResponseWriter, r *http.Request) {
	t := a.findOutside(w, r)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v := page.View{
		Name: "bankapp", Title: "Is this you?", Scheme: t.dir.scheme.Name, Unframed: true,
		Action: a.path + bankPath + "/" + t.ids.acs,
	}
	if t.phase != ended {
		p := t.page()
		v.Merchant, v.Amount, v.Last = p.Merchant, p.Amount, p.Last
		a.box.show(w, http.StatusOK, v)
		return
	}
	v.Name, v.Title, v.Text = "bankappover", "Confirmed", "Thank you. Go back to the app of the shop."
	if t.outcome != "Y" {
		v.Title, v.Text, v.Wrong = "Not confirmed", "Nothing is paid. Go back to the app of the shop.", true
	}
	if t.sdk != nil {
		v.Back = appLink(t.sdk.backURL)
	}
	a.box.show(w, http.StatusOK, v)
}

// decideInBankApp takes what the cardholder did in the app of the bank.
func (a *issuer) decideInBankApp(w http.ResponseWriter, r *http.Request) {
	t := a.findOutside(w, r)
	if t == nil {
		return
	}
	switch r.PostFormValue("action") {
	case "approve":
		t.decide(passed)
	case "decline":
		t.decide(failed)
	}
	http.Redirect(w, r, a.path+bankPath+"/"+t.ids.acs, http.StatusSeeOther)
}

// findOutside finds the challenge of an app's that an address of the bank's app names. Without one it answers.
func (a *issuer) findOutside(w http.ResponseWriter, r *http.Request) *transaction {
	id := r.PathValue("acsTransID")
	t := a.box.journal.transaction(id)
	if t == nil || t.ids.acs != id || t.channel != app || t.ares != "C" || !t.isOutside() {
		a.box.showFailure(w, http.StatusNotFound, "The app of your bank knows nothing of this.", "acsTransID in the address")
		return nil
	}
	return t
}

// wayBack is the latest threeDSRequestorAppURL of a CReq, "" if there was none.
func (t *transaction) wayBack() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sdk == nil {
		return ""
	}
	return t.sdk.backURL
}

// appLink is an address as a link, "" if it is none that opens an app: such addresses have any scheme, and a browser
// runs those of some as a program.
func appLink(address string) template.URL {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || slices.Contains([]string{"javascript", "vbscript", "data", "blob", "file"},
		strings.ToLower(u.Scheme)) {
		return ""
	}
	return template.URL(address)
}
