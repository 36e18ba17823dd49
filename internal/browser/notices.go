package browser

import (
	"context"
	"errors"
	"net/http"

	"github.com/openthreeds/threeds/internal/auth"
)

// Where a challenge runs. The page that posts the CReq says it in threeDSSessionData, which
// the issuer sends back unchanged: base64url of the words frame, window and top.
const (
	inFrame  = "ZnJhbWU"
	inWindow = "d2luZG93"
)

// methodNotice is where an issuer's 3DS Method ends.
func (h *handler) methodNotice(w http.ResponseWriter, r *http.Request) {
	err := h.Engine.EndBrowserMethod(r.Context(), r.PathValue("tag"), r.PostFormValue("threeDSMethodData"))
	if err != nil && !errors.Is(err, auth.ErrNoAuthentication) {
		h.Log.Error("3DS Method notification failed", "err", err)
	}
	// The hidden frame shows nothing in any case, and tells nobody whether the tag was right.
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
	session := r.PostFormValue("threeDSSessionData")
	switch {
	case session == inWindow:
		h.showEnd(w, r, v, true)
	case session == inFrame || r.Header.Get("Sec-Fetch-Dest") == "iframe":
		p := wrapperPage{page: h.newPage(r, v.Language, "", "")}
		setPolicy(w, "default-src 'none'; script-src 'nonce-"+p.Nonce+"'; base-uri 'none'")
		h.render(w, http.StatusOK, "back.html", p)
	default:
		h.sendToShop(w, r, h.waitForResult(w, r, tag, v))
	}
}

// waitForResult waits a short time for a result that comes after the browser did.
func (h *handler) waitForResult(w http.ResponseWriter, r *http.Request, tag string, v *auth.BrowserView) *auth.BrowserView {
	if v.Step == auth.StepEnd || v.Step == auth.StepConfirm {
		return v
	}
	h.wait(w, r, "/n/"+tag, backWait, func(limited context.Context) {
		if later, err := h.Engine.WaitAfterChallenge(limited, tag); err == nil {
			v = later
		}
	})
	return v
}
