package sandbox

import (
	"net/http"
	"net/url"

	"github.com/openthreeds/threeds/sandbox/internal/page"
	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// method is the 3DS Method: it tells the shop's page that it has seen the
// browser.
func (a *issuer) method(w http.ResponseWriter, r *http.Request) {
	id, back, fault := a.methodData(r)
	if fault != "" {
		a.box.showFailure(w, http.StatusBadRequest, "The 3DS Method was called with data that cannot be used.", fault)
		return
	}
	a.box.journal.methodRan(id)
	reply := new(object).Put("threeDSServerTransID", id).Bytes()
	a.box.record(id, "acs", "browser", "threeDSMethodData", reply, "")
	a.box.show(w, http.StatusOK, page.View{
		Name: "leave", Title: "One moment", Text: "Your bank gets ready.", After: 1,
		Form: &page.Form{URL: back, Fields: []page.Field{{Name: "threeDSMethodData", Value: encodeURL(reply)}}},
	})
}

// silentMethod is a 3DS Method that never comes to its end.
func (a *issuer) silentMethod(w http.ResponseWriter, r *http.Request) {
	if _, _, fault := a.methodData(r); fault != "" {
		a.box.showFailure(w, http.StatusBadRequest, "The 3DS Method was called with data that cannot be used.", fault)
		return
	}
	a.box.show(w, http.StatusOK, page.View{Name: "error", Title: "One moment", Text: "This 3DS Method never answers."})
}

// methodData reads the form field of the 3DS Method.
func (a *issuer) methodData(r *http.Request) (id, back, fault string) {
	raw, err := decode(r.FormValue("threeDSMethodData"))
	if err != nil {
		return "", "", "threeDSMethodData is not base64url"
	}
	m := readMessage(raw)
	id, back = m.text("threeDSServerTransID"), m.text("threeDSMethodNotificationURL")
	if !peer.IsUUID(id) {
		return "", "", "threeDSServerTransID is missing or no UUID"
	}
	if !webURL(back) {
		return "", "", "threeDSMethodNotificationURL is missing or no web address"
	}
	a.box.record(id, "browser", "acs", "threeDSMethodData", raw,
		a.box.warnOf(id, base64Faults(r.Form, "threeDSMethodData")))
	return id, back, ""
}

// webURL says whether a browser can be sent to text.
func webURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}
