// Package login lets operators into the console: by passkey or by OpenID Connect, and with an invitation the first
// time. Set the fields of a [Service], serve it at its [Paths], and wrap the pages of the console in [Service.Protect].
// A page then finds its visitor with [operator.SessionOf].
//
// What a login needs between its first and its last step is not stored on the server, so strangers cannot fill a store.
// It is sealed into the page, bound to a cookie of the browser, and valid once.
package login

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/openthreeds/threeds/internal/base/answered"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/operate/operator"
)

// Settings are what the configuration says of the login.
type Settings struct {
	URL      string        // the origin of the console, as browsers send it
	Passkeys bool          // operators may log in with passkeys
	FourEyes []string      // groups of dangerous acts that a second person has to allow
	OIDC     *OIDC         // nil means that there is no login by OpenID Connect
	Session  time.Duration // how long an operator stays logged in
	Idle     time.Duration // how long an operator stays logged in without opening a page; 0 means as long as Session
}

// OIDC says how operators log in by OpenID Connect.
type OIDC struct {
	Issuer       string
	ClientID     string
	ClientSecret string         // "": there is none
	Roots        *x509.CertPool // the authorities that the issuer's certificate must chain to; nil: those of the machine
	Scopes       []string
	NameClaim    string
	RoleClaim    string
	Roles        map[string]operator.Role // by group
	Merchants    map[string]string        // by group
	// MerchantGroups has the group of merchants that the members of a group of the issuer see.
	MerchantGroups map[string]string
}

// A Service is the login of the console. Set its fields before use.
type Service struct {
	Operators *operator.Service
	Settings  func() *Settings // those in use; the same pointer as long as nothing has changed
	Log       *slog.Logger
	Proxies   func() []netip.Prefix // proxies in front, whose X-Forwarded-For is trusted; nil means none

	// StoreProblem says what is not well with the store of this node, and what follows from it. Both texts are empty if
	// nothing is known. A nil StoreProblem never knows anything.
	StoreProblem func() (title, text string)

	visitor  *operator.Session      // who everybody is; nil: those who have logged in
	isOwn    func(host string) bool // which hosts an open console has besides that of its URL
	failures struct {
		sync.Mutex
		limit      *rate.Limiter
		suppressed int
	}
	issuers issuerCache
	once    sync.Once
	mux     *http.ServeMux
}

// Paths returns the patterns that a Service is to be served at, for [http.ServeMux].
func Paths() []string {
	return []string{"/login", "/login/", "/invite/", "/logout", "/assets/login.js", "/assets/login.css"}
}

// Open returns a Service of a console without login, whose visitor is admin: that of the sandbox. Its forms still bring
// csrf, and their Origin must be origin. The Origin may also be the host that the form is sent to, by plain HTTP, if
// isOwn says that no other party can have pages under that host.
func Open(origin string, isOwn func(host string) bool) *Service {
	return &Service{
		Settings: func() *Settings { return &Settings{URL: origin} }, isOwn: isOwn,
		visitor: &operator.Session{
			Actor: operator.Actor{Who: "sandbox", Role: operator.Admin}, CSRF: operator.NewSecret(),
			Key: []byte(operator.NewSecret()),
		},
	}
}

// ServeHTTP serves the paths of the login.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(s.initMux)
	s.setHeaders(w)
	begun := time.Now()
	s.mux.ServeHTTP(&answered.Writer{ResponseWriter: w, Before: func() {
		w.Header().Set("Server-Timing", fmt.Sprintf("total;dur=%.1f", float64(time.Since(begun).Microseconds())/1000))
	}}, r)
}

func (s *Service) initMux() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("GET /assets/", serveAsset)
	s.mux.HandleFunc("POST /logout", s.logout)
	s.mux.HandleFunc("/logout", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", "POST")
		s.showMessage(w, http.StatusMethodNotAllowed, "You are not logged out",
			"The logout is a button on each page of the console.")
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.showMessage(w, http.StatusNotFound, "There is no such page", "The address is wrong, or the page has gone.")
	})
	if s.visitor != nil {
		s.mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, ownPath(r.URL.Query().Get("next")), http.StatusSeeOther)
		})
		return
	}
	s.mux.HandleFunc("GET /login", s.showLogin)
	s.mux.HandleFunc("POST /login", s.finishPasskey)
	s.mux.HandleFunc("GET /login/oidc", s.beginOIDC)
	s.mux.HandleFunc("GET /login/oidc/callback", s.finishOIDC)
	s.mux.HandleFunc("GET /invite/{secret}", s.showInvitation)
	s.mux.HandleFunc("POST /invite/{secret}", s.finishInvitation)
}

// Protect returns a handler that passes requests of logged-in operators to next. It sets the headers that keep pages
// from being framed, cached or scripted by others. A visitor who has not logged in is redirected to the login. A form
// is refused unless it comes from our own page and has the csrf token of its session. A form that was confirmed, see
// [Service.AskConfirmation], is passed on with the actor's confirmation.
func (s *Service) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.setHeaders(w)
		isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !isRead && !s.isOwnOrigin(r) {
			s.refuseForm(w)
			return
		}
		session, err := s.findSession(r)
		switch {
		case errors.Is(err, operator.ErrNoSession):
			to := "/login"
			if isRead && r.URL.RequestURI() != "/" {
				to += "?next=" + url.QueryEscape(ownPath(r.URL.RequestURI()))
			}
			http.Redirect(w, r, to, http.StatusSeeOther)
		case err != nil:
			s.showFailure(w, err)
		case !isRead && !hasToken(w, r, &session):
			s.refuseForm(w)
		case !isRead && r.PostForm.Has(confirmField) && !s.takeConfirmation(w, r, &session):
			// it has answered
		default:
			next.ServeHTTP(w, r.WithContext(operator.WithSession(r.Context(), &session)))
		}
	})
}

// Session returns the session of a request. There is none if the visitor has not logged in, or if the store cannot be
// read.
func (s *Service) Session(r *http.Request) (operator.Session, bool) {
	session, err := s.findSession(r)
	return session, err == nil
}

// findSession returns the session of a request, or [operator.ErrNoSession].
func (s *Service) findSession(r *http.Request) (operator.Session, error) {
	if s.visitor != nil {
		session := *s.visitor
		session.Actor.From = s.addressOf(r)
		return session, nil
	}
	cookie, err := r.Cookie(s.sessionCookie())
	if err != nil {
		return operator.Session{}, operator.ErrNoSession
	}
	session, user, groups, err := s.Operators.FindSession(r.Context(), cookie.Value, s.Settings().Idle)
	if err != nil {
		return operator.Session{}, err
	}
	if !s.mayStay(&user, groups) {
		return operator.Session{}, operator.ErrNoSession
	}
	session.Actor.From = s.addressOf(r)
	return session, nil
}

// mayStay reports whether the configuration in use would still let a user in, with the same rights.
func (s *Service) mayStay(u *operator.User, groups []string) bool {
	settings := s.Settings()
	if !u.IsOIDC() {
		return settings.Passkeys
	}
	if settings.OIDC == nil {
		return false
	}
	of, err := settings.OIDC.rights(groups)
	return err == nil && of == rightsOf(u)
}

// maxForm is the length of the longest form.
const maxForm = 1 << 20

// hasToken reports whether a form brings the token of a session as csrf, in its body.
func hasToken(w http.ResponseWriter, r *http.Request, session *operator.Session) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	return session.IsFormToken(r.PostFormValue("csrf"))
}

// isOwnOrigin reports whether a request comes from a page of the console.
func (s *Service) isOwnOrigin(r *http.Request) bool {
	given := r.Header.Values("Origin")
	if len(given) != 1 {
		return false
	}
	return given[0] == s.Settings().URL || s.isOwn != nil && given[0] == "http://"+r.Host && s.isOwn(r.Host)
}

// isSecure reports whether browsers reach the console by https.
func (s *Service) isSecure() bool { return strings.HasPrefix(s.Settings().URL, "https:") }

// policy is the Content-Security-Policy of the console.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// setHeaders sets the headers of a page. With no-referrer browsers would send forms with the Origin null.
func (s *Service) setHeaders(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if s.isSecure() {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// logout ends the session of a request.
func (s *Service) logout(w http.ResponseWriter, r *http.Request) {
	if !s.isOwnOrigin(r) {
		s.refuseForm(w)
		return
	}
	session, err := s.findSession(r)
	switch {
	case err != nil && !errors.Is(err, operator.ErrNoSession):
		s.showFailure(w, err)
		return
	case err == nil && !hasToken(w, r, &session):
		s.refuseForm(w)
		return
	case s.visitor != nil:
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	case err == nil:
		cookie, _ := r.Cookie(s.sessionCookie()) // it is there, for there is a session
		if err := s.Operators.EndSession(r.Context(), cookie.Value); err != nil {
			s.showFailure(w, err)
			return
		}
		s.audit(r, &session.Actor, "logout", nil)
	}
	s.setCookie(w, s.sessionCookie(), "", -1)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// The names of the cookies. With https they have a prefix that makes browsers accept them from this host only.
const (
	sessionCookieName = "threeds"
	browserCookieName = "threeds-login"
)

func (s *Service) sessionCookie() string { return s.cookiePrefix() + sessionCookieName }
func (s *Service) browserCookie() string { return s.cookiePrefix() + browserCookieName }

func (s *Service) cookiePrefix() string {
	if s.isSecure() {
		return "__Host-"
	}
	return ""
}

// setCookie sets a cookie for some seconds. 0 stands for as long as the browser runs, less than 0 removes it.
func (s *Service) setCookie(w http.ResponseWriter, name, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: seconds, Secure: s.isSecure(), HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
}

// startSession starts a session of a user who has logged in and sends the browser on.
func (s *Service) startSession(w http.ResponseWriter, r *http.Request, u *operator.User, groups []string, next string) {
	if old, err := r.Cookie(s.sessionCookie()); err == nil { // the session of the operator who was logged in here before
		if err := s.Operators.EndSession(r.Context(), old.Value); err != nil {
			s.showFailure(w, err)
			return
		}
	}
	settings := s.Settings()
	life := settings.Session
	secret, err := s.Operators.StartSession(r.Context(), u, groups, life)
	if err == nil {
		err = s.Operators.Record(r.Context(),
			operator.Entry{Who: u.Who(), Role: u.Role, Group: u.Group, From: s.addressOf(r), Action: "login"})
	}
	if err != nil { // no operator is logged in without an entry in the audit trail
		s.showFailure(w, errors.Join(err, s.Operators.EndSession(r.Context(), secret)))
		return
	}
	s.setCookie(w, s.browserCookie(), "", -1)
	s.setCookie(w, s.sessionCookie(), secret, int(life/time.Second))
	http.Redirect(w, r, ownPath(next), http.StatusSeeOther)
}

// maxNext is the length of the longest path to go on to after the login.
const maxNext = 1024

// ownPath returns next if it is a path of the console, else "/". Browsers take a backslash for a slash and leave out
// control characters, so neither may be in it.
func ownPath(next string) string {
	isStrange := func(r rune) bool { return r <= ' ' || r == '\\' || r >= 0x7f }
	if len(next) > maxNext || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.ContainsFunc(next, isStrange) {
		return "/"
	}
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Path == "/logout" || u.Path == "/login" ||
		strings.HasPrefix(u.Path, "/login/") {
		return "/"
	}
	return next
}

// addressOf returns the address that a request comes from.
func (s *Service) addressOf(r *http.Request) string { return listen.ClientName(r, s.Proxies) }

// audit writes to the audit trail what somebody does. That it fails is in the log.
func (s *Service) audit(r *http.Request, a *operator.Actor, action string, after any) {
	e := operator.Entry{Who: a.Who, Role: a.Role, Group: a.Group, From: s.addressOf(r), Action: action, After: after}
	if err := s.Operators.Record(r.Context(), e); err != nil {
		s.Log.Error("audit trail", "action", action, "err", err)
	}
}

// Limits of the entries about logins that have failed: anybody may fail, as often as they like.
const (
	failureBurst = 20
	failureEvery = 6 * time.Second // one more entry
)

// recordFailure writes to the audit trail that a login has failed. Of too many only their number is written.
func (s *Service) recordFailure(r *http.Request, who, why string) {
	s.failures.Lock()
	if s.failures.limit == nil {
		s.failures.limit = rate.NewLimiter(rate.Every(failureEvery), failureBurst)
	}
	if !s.failures.limit.AllowN(s.Operators.Now(), 1) {
		s.failures.suppressed++
		s.failures.Unlock()
		return
	}
	after := map[string]any{"why": why}
	if s.failures.suppressed > 0 {
		after["suppressed"] = s.failures.suppressed
	}
	s.failures.suppressed = 0
	s.failures.Unlock()
	s.audit(r, &operator.Actor{Who: who}, "login.failed", after)
}
