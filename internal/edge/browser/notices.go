package browser

import (
	"context"
	"errors"
	"net/http"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/session"
)

// Where a challenge runs, as the page that posts the CReq says in threeDSSessionData: base64url of the words frame,
// window and top. An issuer that gets a second CReq may send back the data of the first one. So the browser itself says
// whether the notification comes in a frame. These words are used only for what the browser does not say.
const (
	sessionFrame  = "ZnJhbWU"
	sessionWindow = "d2luZG93"
)

// methodNotice is where an issuer's 3DS Method ends.
func (h *handler) methodNotice(w http.ResponseWriter, r *http.Request) {
	err := h.Engine.EndBrowserMethod(r.Context(), r.PathValue("tag"), r.PostFormValue("threeDSMethodData"))
	if err != nil && !errors.Is(err, auth.ErrNoAuthentication) {
		h.Log.Error("3DS Method notification failed", "err", err)
	}
	// The hidden frame shows nothing in any case. It does not say whether the tag was right.
	setPolicy(w, "default-src 'none'; base-uri 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusOK)
}

// challengeNotice is where an issuer sends the browser after a challenge. The CRes is never a result.
func (h *handler) challengeNotice(w http.ResponseWriter, r *http.Request) {
	tag := r.PathValue("tag")
	v, err := h.Engine.EndBrowserChallenge(r.Context(), tag)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	session, dest := r.PostFormValue("threeDSSessionData"), r.Header.Get("Sec-Fetch-Dest")
	switch isFrame := dest == "iframe" || dest == "frame"; {
	case isFrame || dest == "" && session == sessionFrame: // old browsers send no Sec-Fetch-Dest
		h.showEnd(w, r, v, placeUnknown)
	case session == sessionWindow:
		h.showEnd(w, r, v, placeWindow)
	case session == sessionFrame: // of an earlier CReq: the bank was opened in a window of its own, or in the tab
		h.showEnd(w, r, h.waitForResult(w, r, tag, v), placeUnknown)
	default:
		h.sendToShop(w, r, h.waitForResult(w, r, tag, v))
	}
}

// waitForResult waits a short time for a result that comes after the browser did.
func (h *handler) waitForResult(w http.ResponseWriter, r *http.Request, tag string,
	v *session.BrowserView) *session.BrowserView {
	if v.Step == session.StepEnd || v.Step == session.StepConfirm {
		return v
	}
	h.wait(w, r, "/n/"+tag, backWait, func(limited context.Context) {
		if later, err := h.Engine.WaitAfterChallenge(limited, tag); err == nil {
			v = later
		}
	})
	return v
}
