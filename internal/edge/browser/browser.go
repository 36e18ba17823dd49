// Package browser is the listener for the browsers of shoppers: the steps of threeds.js, the
// hosted page, and where issuers send browsers back. Use [New].
package browser

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/answered"
	"github.com/openthreeds/threeds/internal/base/compress"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/web"
)

// Settings are what the listener is built from.
type Settings struct {
	// Releases are earlier releases of threeds.js that stay served; nil means [web.Releases].
	Releases []web.Release

	URL    string // the origin under which browsers reach the listener, without a slash at the end
	Engine Engine
	// Looks returns how pages look for the customers of a merchant.
	Looks func(ctx context.Context, merchant string) Looks
	// TrustedProxies may say in X-Forwarded-For which address a browser has.
	TrustedProxies []netip.Prefix
	// IsLab admits pages of issuers over http on this machine.
	IsLab bool
	// Waits ends when requests that wait for a change are to be answered immediately. Nil means never.
	Waits context.Context
	// Count is called for each request, with its step in one word and the status of its answer. Nil means that requests
	// are not counted.
	Count func(step string, status int)
	Log   *slog.Logger
}

// stepOf says to which step a pattern of the listener belongs.
var stepOf = map[string]string{
	"POST /a/begin": "begin", "GET /a/state": "state", "POST /a/cancel": "cancel", "POST /a/confirm": "confirm",
	"POST /a/spc": "spc", "GET /a/{token}": "page", "GET /a/{token}/logo": "page", "POST /a/{token}/{action}": "page",
	"GET /a/frame": "page", "GET /a/open": "page", "POST /n/{tag}/method": "method",
	"POST /n/{tag}/challenge": "challenge",
}

// otherStep is what does not belong to the steps of an authentication: the script, preflights, and what there is not.
const otherStep = "other"

// Looks say how the pages look for the customers of a merchant, and which origins may call.
type Looks struct {
	Name     string   // the merchant's name for shoppers
	Logo     []byte   // PNG or SVG; empty: none
	LogoType string   // the media type of Logo
	Colour   string   // #rrggbb of the main button; "": the standard one
	Accent   string   // #rrggbb of small decorations; "": the standard one
	Origins  []string // the origins of the merchant's pages; empty: every one
}

// LongestRequest is how long an answer may take.
const LongestRequest = maxWait + 5*time.Second

// limits of requests, and how long a request may wait for a change.
const (
	maxBody  = 16 << 10
	maxWait  = 20 * time.Second
	pageWait = 8 * time.Second // of a page without JavaScript
	backWait = 10 * time.Second

	// maxWaiters is how many requests of one authentication may wait. It is enough for two tabs: each may have lost a
	// connection, and the server may not know that yet.
	maxWaiters = 4
	earlyPause = time.Second // before a page asks again if its request found no place to wait
)

type handler struct {
	Settings
	mux      *http.ServeMux
	isSecure bool // the listener's origin is https
	waiters  listen.Waiters
}

// New returns the handler of the browser listener.
func New(s Settings) http.Handler {
	if s.Releases == nil {
		s.Releases = web.Releases()
	}
	h := &handler{
		Settings: s, mux: http.NewServeMux(), isSecure: strings.HasPrefix(s.URL, "https:"),
		waiters: listen.Waiters{Max: maxWaiters},
	}
	h.mux.HandleFunc("POST /a/begin", h.serveStep(h.startAuthentication))
	h.mux.HandleFunc("GET /a/state", h.serveStep(h.state))
	h.mux.HandleFunc("POST /a/cancel", h.serveStep(func(c *stepCall) (*session.BrowserView, error) {
		return h.Engine.CancelBrowser(c.r.Context(), c.token, c.binding)
	}))
	h.mux.HandleFunc("POST /a/confirm", h.serveStep(func(c *stepCall) (*session.BrowserView, error) {
		return h.Engine.ConfirmBrowser(c.r.Context(), c.token, c.binding)
	}))
	h.mux.HandleFunc("POST /a/spc", h.serveStep(h.answerSPC))
	h.mux.HandleFunc("OPTIONS /a/{step}", h.preflight)
	h.mux.HandleFunc("GET /a/frame", h.wrapper)
	h.mux.HandleFunc("GET /a/open", h.wrapper)
	h.mux.HandleFunc("GET /a/{token}", h.hosted)
	h.mux.HandleFunc("GET /a/{token}/logo", h.logo)
	h.mux.HandleFunc("POST /a/{token}/{action}", h.act)
	h.mux.HandleFunc("POST /n/{tag}/method", h.methodNotice)
	h.mux.HandleFunc("POST /n/{tag}/challenge", h.challengeNotice)
	h.serveScripts()
	h.mux.HandleFunc("/", h.notFound)
	pages := compress.Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/a/state" { // short, and most often it waits
			h.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// ServeHTTP sets the headers that all answers have.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy",
		"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	if h.isSecure {
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if h.Count == nil {
		h.mux.ServeHTTP(w, r)
		return
	}
	seen := &answered.Writer{ResponseWriter: w}
	h.mux.ServeHTTP(seen, r)
	h.Count(cmp.Or(stepOf[r.Pattern], otherStep), cmp.Or(seen.Status, http.StatusOK))
}

// notFound answers for everything that is unknown, malformed or over, in the same bytes.
func (h *handler) notFound(w http.ResponseWriter, r *http.Request) {
	h.showNotice(w, r, http.StatusNotFound, "overTitle", "over")
}

// refuse answers an error of the engine. The page of a shopper gets words.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, auth.ErrNoAuthentication):
		h.notFound(w, r)
	case errors.Is(err, session.ErrOtherBrowser):
		h.showNotice(w, r, http.StatusConflict, "elsewhereTitle", "elsewhere")
	case r.Context().Err() != nil:
		// The browser has gone.
	case errors.Is(err, session.ErrBusy): // the page tries again
		w.Header().Set("Retry-After", "1")
		h.showNotice(w, r, http.StatusServiceUnavailable, "offlineTitle", "offlineReload")
	default:
		h.Log.Error("browser step failed", "err", err)
		w.Header().Set("Retry-After", "1")
		h.showNotice(w, r, http.StatusServiceUnavailable, "offlineTitle", "offlineReload")
	}
}

// tokenForm and bindingForm are what secrets look like in base64url: at least 256 bits. A binding is 32 bytes, so its
// last letter has four bits of data and two zero bits. Any other last letter is refused, so that each binding has
// exactly one text.
var (
	tokenForm   = regexp.MustCompile(`^[A-Za-z0-9_-]{43,128}$`)
	bindingForm = regexp.MustCompile(`^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$`)
)

// newSecret returns 256 random bits in base64url.
func newSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program first
	return base64.RawURLEncoding.EncodeToString(b[:])
}
