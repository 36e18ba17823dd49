package browser

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/session"
)

// bindingHeader has the second secret of a page of the merchant. That of the hosted page is in a cookie.
const bindingHeader = "Threeds-Binding"

// A stepCall is a request of a page about its authentication.
type stepCall struct {
	w              http.ResponseWriter
	r              *http.Request
	token, binding string
	// the request asked to wait, and is answered before its time: there was no place to wait in, or it was lost
	isEarly bool
}

// serveStep serves one step of threeds.js: it checks token and origin, and answers with the view.
func (h *handler) serveStep(step func(c *stepCall) (*session.BrowserView, error)) http.HandlerFunc {
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
			h.refuse(w, r, session.ErrOtherBrowser)
			return
		}
		c := &stepCall{w: w, r: r, token: token, binding: binding}
		v, err := step(c)
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		language := pickLanguage(r.Header.Get("Threeds-Locale"), v.Language, readList(r, "Accept-Language"))
		w.Header().Set("Content-Type", "application/json")
		a := h.newAnswer(v, looks, language)
		if c.isEarly {
			a.Pause = int(earlyPause / time.Second)
		}
		body, err := json.Marshal(a)
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // the client has gone, or reads it
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

// preflight answers before the token is known. It allows the browser to make the request; whether that is served is
// decided when it comes.
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

func (h *handler) startAuthentication(c *stepCall) (*session.BrowserView, error) {
	var told struct {
		Data map[string]string
		SPC  bool // the browser has Secure Payment Confirmation
	}
	if err := json.NewDecoder(c.r.Body).Decode(&told); err != nil {
		return nil, auth.ErrNoAuthentication
	}
	data := h.readHeaders(c.r)
	for _, name := range fromPage {
		if value := told.Data[name]; value != "" {
			data[name] = value
		}
	}
	data["browserJavascriptEnabled"] = "true"
	if told.SPC {
		data["spc"] = "true"
	}
	v, _, err := h.Engine.BeginBrowser(c.r.Context(), c.token, c.binding, data)
	return v, err
}

// answerSPC takes the outcome of the browser's dialog for Secure Payment Confirmation. Anything except an assertion and
// the known words counts as a failed dialog. The engine decides whether the time was over.
func (h *handler) answerSPC(c *stepCall) (*session.BrowserView, error) {
	var told struct {
		Assertion  json.RawMessage
		Incomplete string
	}
	if err := json.NewDecoder(c.r.Body).Decode(&told); err != nil {
		return nil, auth.ErrNoAuthentication
	}
	answer := session.SPCAnswer{Incomplete: "01"}
	switch {
	case told.Incomplete == "02":
		answer.Incomplete = "02"
	case told.Incomplete == "" && len(told.Assertion) > 0 && told.Assertion[0] == '{':
		answer = session.SPCAnswer{Assertion: told.Assertion}
	}
	return h.Engine.AnswerSPC(c.r.Context(), c.token, c.binding, answer)
}

// readHeaders returns what the headers of a request say about its browser, unchanged.
func (h *handler) readHeaders(r *http.Request) session.BrowserData {
	data := session.BrowserData{
		"browserAcceptHeader": readList(r, "Accept"), "browserUserAgent": r.UserAgent(),
		"acceptLanguage": readList(r, "Accept-Language"),
	}
	if ip := h.clientIP(r); ip != "" {
		data["browserIP"] = ip
	}
	return data
}

// readList returns a header that is a list, from all its lines (RFC 9110, section 5.3).
func readList(r *http.Request, name string) string { return strings.Join(r.Header.Values(name), ", ") }

func (h *handler) state(c *stepCall) (*session.BrowserView, error) {
	query := c.r.URL.Query()
	after, err := strconv.Atoi(query.Get("after"))
	if err != nil {
		after = -1
	}
	seconds, _ := strconv.Atoi(query.Get("wait"))
	return h.waitForChange(c, after, min(time.Duration(max(seconds, 0))*time.Second, maxWait))
}

// waitForChange returns the view when its version is greater than after, or when the time is over.
func (h *handler) waitForChange(c *stepCall, after int, wait time.Duration) (v *session.BrowserView, err error) {
	view := func(limited context.Context) { v, err = h.Engine.ViewBrowser(limited, c.token, c.binding, after) }
	if wait > 0 {
		c.isEarly = h.wait(c.w, c.r, c.token, wait, view)
	}
	if v == nil && err == nil { // The request asked for no wait, or found no place to wait in.
		ended, cancel := context.WithCancel(c.r.Context())
		cancel()
		view(ended)
	}
	return v, err
}

// wait calls work, in which a request may wait. The context of work ends after the time most. wait returns true if
// there was no place to wait, so that it did not call work, or if another client needed the place. party is the owner
// of the request.
func (h *handler) wait(w http.ResponseWriter, r *http.Request, party string, most time.Duration,
	work func(limited context.Context)) (isEarly bool) {
	leave, ok := h.waiters.Enter(party)
	if !ok {
		return true
	}
	defer leave()
	waiting, done := listen.Wait(w, r)
	limited, cancel := context.WithTimeout(waiting, most)
	defer cancel()
	if h.Waits != nil {
		defer context.AfterFunc(h.Waits, cancel)()
	}
	work(limited)
	return done()
}

// answer is a view as threeds.js reads it. Its form is private to threeds.js.
type answer struct {
	Step      session.BrowserStep    `json:"step"`
	Pause     int                    `json:"pause,omitempty"` // seconds to let pass before the page asks again
	Version   int                    `json:"version"`
	Method    *session.BrowserMethod `json:"method,omitempty"`
	Challenge *challengeAnswer       `json:"challenge,omitempty"`
	SPC       *session.BrowserSPC    `json:"spc,omitempty"`
	Info      string                 `json:"info,omitempty"`
	End       string                 `json:"end,omitempty"`
	Texts     map[string]string      `json:"texts"`
	Lang      string                 `json:"lang"`
	Dir       string                 `json:"dir"`
	Colour    string                 `json:"colour,omitempty"`
	OnColour  string                 `json:"onColour,omitempty"`
	Accent    string                 `json:"accent,omitempty"`
}

type challengeAnswer struct {
	URL    string `json:"url"`
	CReq   string `json:"creq"`
	Popups bool   `json:"popups,omitempty"` // before 2.3.1 the frame may open windows
}

func (h *handler) newAnswer(v *session.BrowserView, looks Looks, language string) answer {
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
