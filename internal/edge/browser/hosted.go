package browser

import (
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/web"
)

// hosted shows the hosted page, which does everything that threeds.js does. It changes and binds nothing: the secret in
// its cookie counts only when a POST brings it.
func (h *handler) hosted(w http.ResponseWriter, r *http.Request) {
	token := r.PathValue("token")
	v, err := h.openHosted(r, token)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	if h.readCookie(r, token) == "" {
		h.setCookie(w, token)
	}
	if v.Step == session.StepEnd {
		h.sendToShop(w, r, v)
		return
	}
	h.showHosted(w, r, token, v)
}

// openHosted returns what the browser of a request may see of an authentication.
func (h *handler) openHosted(r *http.Request, token string) (*session.BrowserView, error) {
	v, err := h.openToken(r, token)
	if err != nil || v.Step == session.StepBegin {
		return v, err
	}
	return h.Engine.ViewBrowser(r.Context(), token, h.readCookie(r, token), -1)
}

// openToken returns what anybody with the token in the path of a request may see of an authentication.
func (h *handler) openToken(r *http.Request, token string) (*session.BrowserView, error) {
	if !tokenForm.MatchString(token) {
		return nil, auth.ErrNoAuthentication
	}
	return h.Engine.OpenBrowser(r.Context(), token)
}

// act serves the forms of the hosted page.
func (h *handler) act(w http.ResponseWriter, r *http.Request) {
	token := r.PathValue("token")
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		http.Error(w, "This form belongs to the hosted page.", http.StatusForbidden)
		return
	}
	if _, err := h.openToken(r, token); err != nil {
		h.refuse(w, r, err)
		return
	}
	v, err := h.submit(&stepCall{w: w, r: r, token: token, binding: h.readCookie(r, token)})
	switch {
	case err != nil:
		h.refuse(w, r, err)
	case v.Step == session.StepEnd || r.PathValue("action") == "end":
		h.sendToShop(w, r, v)
	default:
		http.Redirect(w, r, "/a/"+token, http.StatusSeeOther)
	}
}

// submit does what the form of a hosted page asks for. The first form binds the authentication to the cookie, so a
// browser that keeps no cookies cannot begin.
func (h *handler) submit(c *stepCall) (*session.BrowserView, error) {
	if c.binding == "" {
		return nil, session.ErrOtherBrowser
	}
	switch c.r.PathValue("action") {
	case "begin":
		return h.beginWithoutScript(c)
	case "cancel":
		return h.Engine.CancelBrowser(c.r.Context(), c.token, c.binding)
	case "confirm":
		return h.Engine.ConfirmBrowser(c.r.Context(), c.token, c.binding)
	case "end":
		return h.Engine.ViewBrowser(c.r.Context(), c.token, c.binding, -1)
	}
	return nil, auth.ErrNoAuthentication
}

// beginWithoutScript begins for a browser that runs no script, and waits for what the issuer wants.
func (h *handler) beginWithoutScript(c *stepCall) (*session.BrowserView, error) {
	data := h.readHeaders(c.r)
	data["browserJavascriptEnabled"] = "false"
	v, _, err := h.Engine.BeginBrowser(c.r.Context(), c.token, c.binding, data)
	until := time.Now().Add(pageWait)
	for err == nil && (v.Step == session.StepMethod || v.Step == session.StepAuthentication) &&
		time.Now().Before(until) && !c.isEarly {
		v, err = h.waitForChange(c, v.Version, time.Until(until))
	}
	return v, err
}

// sendToShop sends the browser back to the shop or, without an address to go to, says that the page can be closed.
func (h *handler) sendToShop(w http.ResponseWriter, r *http.Request, v *session.BrowserView) {
	if v.ReturnURL == "" {
		h.showEnd(w, r, v, placeTab)
		return
	}
	http.Redirect(w, r, returnURL(v), http.StatusSeeOther)
}

// returnURL returns the address of the shop with the id appended or replaced.
func returnURL(v *session.BrowserView) string {
	u, err := url.Parse(v.ReturnURL)
	if err != nil {
		return v.ReturnURL
	}
	var rest []string
	for _, pair := range strings.Split(u.RawQuery, "&") {
		if name, _, _ := strings.Cut(pair, "="); pair != "" && name != "authentication" {
			rest = append(rest, pair)
		}
	}
	u.RawQuery = strings.Join(append(rest, "authentication="+url.QueryEscape(v.ID)), "&")
	return u.String()
}

// logo serves the picture of the merchant that an authentication belongs to.
func (h *handler) logo(w http.ResponseWriter, r *http.Request) {
	v, err := h.openToken(r, r.PathValue("token"))
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	looks := h.Looks(r.Context(), v.Merchant)
	if len(looks.Logo) == 0 {
		h.notFound(w, r)
		return
	}
	w.Header().Set("Content-Type", looks.LogoType)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, _ = w.Write(looks.Logo) // the client has gone, or reads it
}

// cookieName returns the name of the cookie with the second secret. It has the first 16 bytes
// of the token, which are the id of the authentication.
func (h *handler) cookieName(token string) string {
	name := "threeds-" + token[:22]
	if h.isSecure {
		return "__Host-" + name
	}
	return name
}

func (h *handler) readCookie(r *http.Request, token string) string {
	cookie, err := r.Cookie(h.cookieName(token))
	if err != nil || !bindingForm.MatchString(cookie.Value) {
		return ""
	}
	return cookie.Value
}

func (h *handler) setCookie(w http.ResponseWriter, token string) {
	http.SetCookie(w, &http.Cookie{
		Name: h.cookieName(token), Value: newSecret(), Path: "/", MaxAge: 3600,
		Secure: h.isSecure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// hostedPage is what the template of the hosted page gets.
type hostedPage struct {
	page
	Token     string
	Step      session.BrowserStep
	Amount    string
	Challenge *session.BrowserChallenge
	Info      string
	Script    string
}

func (h *handler) showHosted(w http.ResponseWriter, r *http.Request, token string, v *session.BrowserView) {
	looks := h.Looks(r.Context(), v.Merchant)
	p := hostedPage{
		page: h.newPage(r, v.Language, looks, formatAmount(v)), Token: token, Step: v.Step,
		Amount: formatAmount(v), Challenge: v.Challenge, Info: v.CardholderInfo, Script: web.HostedScript,
	}
	if len(looks.Logo) > 0 {
		p.Logo = template.URL("/a/" + token + "/logo") //nolint:gosec // the token has been checked
	}
	lab := ""
	if h.IsLab {
		lab = labSources
	}
	setPolicy(w, "default-src 'none'; script-src 'nonce-"+p.Nonce+"'; style-src 'nonce-"+p.Nonce+"'; connect-src 'self'; "+
		"img-src 'self'; frame-src 'self'; form-action 'self' https:"+lab+"; frame-ancestors 'none'; base-uri 'none'")
	h.render(w, http.StatusOK, "hosted.html", p)
}
