package browser

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/auth"
)

// bindingHeader has the second secret of a page of the merchant. That of the hosted page is in a cookie.
const bindingHeader = "Threeds-Binding"

// serveStep serves one step of threeds.js: it checks token and origin, and answers with the view.
func (h *handler) serveStep(step func(r *http.Request, token, binding string) (*auth.BrowserView, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		w.Header().Add("Vary", "Origin")
		token, hasToken := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !hasToken || !tokenForm.MatchString(token) {
			h.allowOrigin(w, origin)
			h.notFound(w, r)
			return
		}
		opened, err := h.Engine.OpenBrowser(r.Context(), token)
		if err != nil {
			h.allowOrigin(w, origin)
			h.refuse(w, r, err)
			return
		}
		looks := h.Looks(r.Context(), opened.Merchant)
		h.allowOrigin(w, origin)
		if !h.isAllowed(origin, looks.Origins) { // the page may read that, so that its developer hears of it
			http.Error(w, "The origins of the merchant's profile do not have that of this page.", http.StatusForbidden)
			return
		}
		binding := r.Header.Get(bindingHeader)
		if binding == "" {
			binding = h.readCookie(r, token)
		}
		if !bindingForm.MatchString(binding) {
			h.refuse(w, r, auth.ErrOtherBrowser)
			return
		}
		v, err := step(r, token, binding)
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		language := pickLanguage(r.Header.Get("Threeds-Locale"), v.Language, r.Header.Get("Accept-Language"))
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(h.newAnswer(v, looks, language)) // the client has gone, or reads it
	}
}

// isAllowed reports whether a page of an origin may call. Requests of the listener's own pages may have none.
func (h *handler) isAllowed(origin string, allowed []string) bool {
	return origin == "" || origin == h.URL || len(allowed) == 0 || slices.Contains(allowed, origin)
}

// allowOrigin lets a page read the answer. Credentials are never allowed.
func (h *handler) allowOrigin(w http.ResponseWriter, origin string) {
	if origin != "" {
		w.Header().Set("Access-Control-Allow-Origin", origin)
	}
}

// preflight answers before the token is known. It allows the request to be made; whether it
// is served is decided then.
func (h *handler) preflight(w http.ResponseWriter, r *http.Request) {
	h.allowOrigin(w, r.Header.Get("Origin"))
	w.Header().Add("Vary", "Origin")
	w.Header().Set("Access-Control-Allow-Methods", "GET, POST")
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, "+bindingHeader+", Threeds-Locale")
	w.Header().Set("Access-Control-Max-Age", "7200")
	w.WriteHeader(http.StatusNoContent)
}

// fromPage are the members that the page tells. All others are the server's to find out.
var fromPage = []string{
	"browserJavaEnabled", "browserLanguage", "browserColorDepth", "browserScreenHeight", "browserScreenWidth",
	"browserTZ", "browserAcceptHeader", "challengeWindowSize",
}

func (h *handler) startAuthentication(r *http.Request, token, binding string) (*auth.BrowserView, error) {
	var told struct {
		Data map[string]string
		SPC  bool // the browser has Secure Payment Confirmation
	}
	if err := json.NewDecoder(r.Body).Decode(&told); err != nil {
		return nil, auth.ErrNoAuthentication
	}
	data := h.readHeaders(r)
	for _, name := range fromPage {
		if value := told.Data[name]; value != "" && len(value) <= 2048 {
			data[name] = value
		}
	}
	data["browserJavascriptEnabled"] = "true"
	if told.SPC {
		data["spc"] = "true"
	}
	v, _, err := h.Engine.BeginBrowser(r.Context(), token, binding, data)
	return v, err
}

// answerSPC takes what the browser's dialog for Secure Payment Confirmation came to. What is neither an assertion nor a
// word that it knows counts as a dialog that has failed. When the time was over is for the engine to say.
func (h *handler) answerSPC(r *http.Request, token, binding string) (*auth.BrowserView, error) {
	var told struct {
		Assertion  json.RawMessage
		Incomplete string
	}
	if err := json.NewDecoder(r.Body).Decode(&told); err != nil {
		return nil, auth.ErrNoAuthentication
	}
	answer := auth.SPCAnswer{Incomplete: "01"}
	switch {
	case told.Incomplete == "02":
		answer.Incomplete = "02"
	case told.Incomplete == "" && len(told.Assertion) > 0 && told.Assertion[0] == '{':
		answer = auth.SPCAnswer{Assertion: told.Assertion}
	}
	return h.Engine.AnswerSPC(r.Context(), token, binding, answer)
}

// readHeaders returns what a request itself tells of its browser.
func (h *handler) readHeaders(r *http.Request) auth.BrowserData {
	data := auth.BrowserData{"browserAcceptHeader": r.Header.Get("Accept"), "browserUserAgent": r.UserAgent()}
	if ip := h.clientIP(r); ip != "" {
		data["browserIP"] = ip
	}
	return data
}

func (h *handler) state(r *http.Request, token, binding string) (*auth.BrowserView, error) {
	query := r.URL.Query()
	after, err := strconv.Atoi(query.Get("after"))
	if err != nil {
		after = -1
	}
	seconds, _ := strconv.Atoi(query.Get("wait"))
	return h.waitForChange(r.Context(), token, binding, after, min(time.Duration(max(seconds, 0))*time.Second, maxWait))
}

// waitForChange returns the view when its version is greater than after, or when the time is over.
func (h *handler) waitForChange(ctx context.Context, token, binding string, after int, wait time.Duration) (*auth.BrowserView, error) {
	short, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if h.Waits != nil {
		defer context.AfterFunc(h.Waits, cancel)()
	}
	return h.Engine.ViewBrowser(short, token, binding, after)
}

// answer is a view as threeds.js reads it. Its form is private to threeds.js.
type answer struct {
	Step      auth.BrowserStep    `json:"step"`
	Version   int                 `json:"version"`
	Method    *auth.BrowserMethod `json:"method,omitempty"`
	Challenge *challengeAnswer    `json:"challenge,omitempty"`
	SPC       *auth.BrowserSPC    `json:"spc,omitempty"`
	Info      string              `json:"info,omitempty"`
	End       string              `json:"end,omitempty"`
	Texts     map[string]string   `json:"texts"`
	Lang      string              `json:"lang"`
	Dir       string              `json:"dir"`
	Colour    string              `json:"colour,omitempty"`
	OnColour  string              `json:"onColour,omitempty"`
	Accent    string              `json:"accent,omitempty"`
}

type challengeAnswer struct {
	URL    string `json:"url"`
	CReq   string `json:"creq"`
	Popups bool   `json:"popups,omitempty"` // before 2.3.1 the frame may open windows
}

func (h *handler) newAnswer(v *auth.BrowserView, looks Looks, language string) answer {
	a := answer{
		Step: v.Step, Version: v.Version, SPC: v.SPC, Info: v.CardholderInfo, End: v.End,
		Texts: textsFor(language, looks.Name, formatAmount(v)), Lang: language, Dir: direction(language),
	}
	if isColour(looks.Colour) {
		a.Colour, a.OnColour = looks.Colour, textColour(looks.Colour)
	}
	if isColour(looks.Accent) {
		a.Accent = looks.Accent
	}
	if v.Method != nil && v.Method.URL != "" {
		a.Method = v.Method
	}
	if c := v.Challenge; c != nil {
		a.Challenge = &challengeAnswer{c.ACSURL, c.CReq, !strings.HasPrefix(c.MessageVersion, "2.3")}
	}
	return a
}
