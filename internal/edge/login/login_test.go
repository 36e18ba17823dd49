package login_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/edge/login"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// TestK2FirstOperatorByLink: the link of an invitation registers a passkey, once and within an hour,
// and the passkey logs in.
func TestK2FirstOperatorByLink(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path := s.invite(operator.Invitation{Name: "jo", Role: operator.Admin, Merchant: "Corner Shop"})
	v := s.newVisitor()
	page := v.get(path)
	f := page.form(t)
	key := f.options.PublicKey
	if key.RP.ID != "localhost" || key.Attestation != "none" || key.AuthenticatorSelection.ResidentKey != "required" ||
		!key.AuthenticatorSelection.RequireResidentKey || key.AuthenticatorSelection.UserVerification != "required" {
		t.Errorf("the options of the registration are %+v", key)
	}
	if !strings.Contains(page.body, `data-action="register-passkey"`) || !strings.Contains(page.body, "Corner Shop only") {
		t.Errorf("the page has no button, or does not say what for: %s", page.body)
	}
	if a := v.register(path); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/" {
		t.Fatalf("register: HTTP %d %s", a.StatusCode, a.body)
	}
	var session operator.Session
	must(t, json.Unmarshal([]byte(v.get("/whoami").body), &session))
	if want := (operator.Actor{Who: "passkey:jo", Role: operator.Admin, Merchant: "Corner Shop", From: "127.0.0.1"}); session.Actor != want {
		t.Errorf("the session is of %+v, want %+v", session.Actor, want)
	}
	if a := s.newVisitor().get(path); a.StatusCode != http.StatusNotFound {
		t.Errorf("the link a second time: HTTP %d", a.StatusCode)
	}
	again := &visitor{s, s.newVisitor().client, v.key}
	if a := again.logIn("/whoami?x=1"); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/whoami?x=1" || !again.isIn() {
		t.Errorf("log in: HTTP %d, Location %q", a.StatusCode, a.Header.Get("Location"))
	}
	late := s.invite(operator.Invitation{Role: operator.Viewer})
	s.pass(time.Hour)
	if a := s.newVisitor().get(late); a.StatusCode != http.StatusNotFound {
		t.Errorf("the link after an hour: HTTP %d", a.StatusCode)
	}
}

// TestD148PagesOfLoginSayHowLongTheyTook: those that are found, and those that are not.
func TestD148PagesOfLoginSayHowLongTheyTook(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, path := range []string{"/login", s.invite(operator.Invitation{Role: operator.Viewer}), "/invite/none", "/logout", "/login/nothing"} {
		if a := s.newVisitor().get(path); !strings.HasPrefix(a.Header.Get("Server-Timing"), "total;dur=") {
			t.Errorf("%s: HTTP %d, Server-Timing %q", path, a.StatusCode, a.Header.Get("Server-Timing"))
		}
	}
}

// TestD144OptionsOfLogin: the login asks for any passkey of the console, and for the proof of who uses it.
func TestD144OptionsOfLogin(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	page := s.newVisitor().get("/login")
	f := page.form(t)
	if key := f.options.PublicKey; key.RPID != "localhost" || key.UserVerification != "required" || len(key.Challenge) < 43 {
		t.Errorf("the options of the login are %+v", key)
	}
	if strings.Contains(page.body, "allowCredentials") || !strings.Contains(page.body, `data-action="login-passkey"`) {
		t.Errorf("the page names passkeys, or has no button: %s", page.body)
	}
}

// TestD144BadPasskeysAreRefused: an answer counts only from our page, for our name, with the person checked, and once.
func TestD144BadPasskeysAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(k *authenticator){
		"without the person checked": func(k *authenticator) { k.flags = userPresent },
		"without a person":           func(k *authenticator) { k.flags = userVerified },
		"from another origin":        func(k *authenticator) { k.origin = "https://console.example" },
		"for another name":           func(k *authenticator) { k.rpID = "console.example" },
		"with another key":           func(k *authenticator) { k.key = newAuthenticator(t).key },
		"of another user":            func(k *authenticator) { k.handle = make([]byte, 32) },
		"with an older counter":      func(k *authenticator) { k.counter = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			v := s.newOperator("jo", operator.Admin)
			if name != "with another key" && name != "of another user" && name != "with an older counter" {
				path, other := s.invite(operator.Invitation{Role: operator.Viewer}), s.newVisitor()
				spoil(other.key)
				if a := other.register(path); a.StatusCode != http.StatusBadRequest {
					t.Errorf("register: HTTP %d", a.StatusCode)
				}
			}
			other := &visitor{s, s.newVisitor().client, v.key}
			spoil(other.key)
			if a := other.logIn("/"); a.StatusCode != http.StatusUnauthorized || other.isIn() {
				t.Errorf("log in: HTTP %d", a.StatusCode)
			}
		})
	}
}

// TestD144LoginCountsOnce: what was sent for one login is worth nothing for another, in another browser, or later.
func TestD144LoginCountsOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	owner := s.newOperator("jo", operator.Admin)
	v := &visitor{s, s.newVisitor().client, owner.key}
	f := v.get("/login").form(t)
	browser := v.cookie("threeds-login")
	sent := url.Values{"csrf": {f.csrf}, "credential": {v.key.get(s.URL, &f)}}
	thief := s.newVisitor()
	if a := thief.post("/login", sent); a.StatusCode != http.StatusForbidden {
		t.Errorf("in another browser: HTTP %d", a.StatusCode)
	}
	if a := v.post("/login", sent); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("log in: HTTP %d %s", a.StatusCode, a.body)
	}
	v.key.counter += 5
	thief.setCookie("threeds-login", browser)
	if a := thief.post("/login", sent); a.StatusCode != http.StatusUnauthorized || thief.isIn() {
		t.Errorf("a second time, with the cookie: HTTP %d", a.StatusCode)
	}
	late := &visitor{s, s.newVisitor().client, owner.key}
	f = late.get("/login").form(t)
	s.pass(15 * time.Minute)
	if a := late.post("/login", url.Values{"csrf": {f.csrf}, "credential": {late.key.get(s.URL, &f)}}); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("after a quarter of an hour: HTTP %d", a.StatusCode)
	}
	registration := s.newVisitor()
	f = registration.get(s.invite(operator.Invitation{Role: operator.Viewer})).form(t)
	if a := registration.post("/login", url.Values{"csrf": {f.csrf}, "credential": {owner.key.get(s.URL, &f)}}); a.StatusCode != http.StatusForbidden {
		t.Errorf("with what is for a registration: HTTP %d", a.StatusCode)
	}
}

// TestD141SessionIsNewAtLogin: a cookie that somebody has set before is not the session, and no cookie is in the store.
func TestD141SessionIsNewAtLogin(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	owner := s.newOperator("jo", operator.Admin)
	v := &visitor{s, s.newVisitor().client, owner.key}
	fixed := strings.Repeat("A", 43)
	v.setCookie("threeds", fixed)
	first, second := v.get("/login").form(t), v.get("/login").form(t) // in two tabs
	browser := v.cookie("threeds-login")
	a := v.post("/login", url.Values{"csrf": {first.csrf}, "credential": {v.key.get(s.URL, &first)}})
	var got *http.Cookie
	for _, c := range a.Cookies() {
		if c.Name == "threeds" {
			got = c
		}
	}
	if got == nil || got.Value == fixed || len(got.Value) != 43 || !got.HttpOnly || got.SameSite != http.SameSiteLaxMode ||
		got.Path != "/" || got.Domain != "" || got.MaxAge != 12*60*60 {
		t.Fatalf("the cookie is %+v", got)
	}
	attacker := s.newVisitor()
	attacker.setCookie("threeds", fixed)
	if attacker.isIn() {
		t.Error("the cookie that was set before the login is logged in")
	}
	rows, err := s.db.Objects(t.Context(), store.SessionObjects)
	must(t, err)
	for _, row := range rows {
		if strings.Contains(row.ID+string(row.Data), got.Value) || strings.Contains(string(row.Data), "passkey") {
			t.Error("the store has the cookie, or a session in the clear")
		}
	}
	v.setCookie("threeds-login", browser)
	if v.post("/login", url.Values{"csrf": {second.csrf}, "credential": {v.key.get(s.URL, &second)}}); v.cookie("threeds") == got.Value || !v.isIn() {
		t.Error("a second login goes on with the session of the first")
	}
	attacker.setCookie("threeds", got.Value)
	if attacker.isIn() {
		t.Error("the first session goes on after the second login of that browser")
	}
	s.pass(12 * time.Hour)
	if v.isIn() {
		t.Error("the session goes on after 12 hours")
	}
}

// TestIdleSessionEnds: a session that no request uses for console.idle has ended. Requests to any node keep it, until
// the end of console.session, and few of them write.
func TestIdleSessionEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.settings.Session, s.settings.Idle = 2*time.Hour, 15*time.Minute
	row := func() string {
		all, err := s.db.Objects(t.Context(), store.SessionObjects)
		must(t, err)
		return fmt.Sprint(all)
	}
	v := s.newOperator("jo", operator.Admin)
	writes, was := 0, row()
	for range 30 {
		if s.pass(2 * time.Second); !v.isIn() {
			t.Fatal("a session in use has ended")
		}
		if is := row(); is != was {
			writes, was = writes+1, is
		}
	}
	if writes > 1 {
		t.Errorf("30 requests in a minute wrote %d times", writes)
	}
	other := &operator.Service{Store: s.db, Sealer: s.operators.Sealer, Now: s.clock}
	for i := range 3 {
		s.pass(14 * time.Minute)
		if _, _, _, err := other.FindSession(t.Context(), v.cookie("threeds"), s.settings.Idle); err != nil {
			t.Fatalf("at another node, visit %d: %v", i, err)
		}
	}
	if s.pass(14 * time.Minute); !v.isIn() {
		t.Error("a session that another node uses has ended")
	}
	for range 4 {
		s.pass(14 * time.Minute)
		v.get("/whoami")
	}
	if s.pass(7 * time.Minute); v.isIn() {
		t.Error("a session in use goes on after its two hours")
	}
	idle := s.newOperator("kim", operator.Admin)
	if s.pass(15 * time.Minute); idle.isIn() {
		t.Error("a session goes on that was idle for 15 minutes")
	}
	s.settings.Session, s.settings.Idle = 12*time.Hour, 8*time.Hour
	long := s.newOperator("lea", operator.Admin)
	s.settings.Idle = 15 * time.Minute
	if !long.isIn() {
		t.Error("a shorter time has ended a session that is in use")
	}
	if s.pass(time.Hour); long.isIn() {
		t.Error("a session goes on by the time that was configured before")
	}
}

// A refusingStore refuses to write while it is told to.
type refusingStore struct {
	*storetest.Memory
	refuses *atomic.Bool
}

func (s refusingStore) AddObject(ctx context.Context, o store.Object) error {
	if s.refuses.Load() {
		return errors.New("disk full")
	}
	return s.Memory.AddObject(ctx, o)
}

func (s refusingStore) ChangeObject(ctx context.Context, o store.Object, was []byte) error {
	if s.refuses.Load() {
		return errors.New("disk full")
	}
	return s.Memory.ChangeObject(ctx, o, was)
}

// TestSessionInUseOutlivesAStoreThatRefusesWrites: while the last act cannot be noted, the node remembers it. A node
// that knows since when writes fail also lets in who was in before. All of that ends with console.session, and an idle
// session ends as always.
func TestSessionInUseOutlivesAStoreThatRefusesWrites(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.settings.Session, s.settings.Idle = 2*time.Hour, 15*time.Minute
	db := refusingStore{s.db, new(atomic.Bool)}
	s.operators.Store = db
	v, left := s.newOperator("jo", operator.Admin), s.newOperator("kim", operator.Admin)
	began := s.clock()
	refusesFor := func() time.Duration {
		if !db.refuses.Load() {
			return 0
		}
		return s.clock().Sub(began) + 1
	}
	isInElsewhere := func(who *visitor) bool { // at a node that has not seen the session before
		o := &operator.Service{Store: db, Sealer: s.operators.Sealer, Now: s.clock, RefusesWritesFor: refusesFor}
		_, _, _, err := o.FindSession(t.Context(), who.cookie("threeds"), s.settings.Idle)
		return err == nil
	}
	visits := func(n int) {
		t.Helper()
		for i := range n {
			if s.pass(10 * time.Minute); !v.isIn() {
				t.Fatalf("visit %d: the session in use has ended", i+1)
			}
		}
	}
	db.refuses.Store(true)
	visits(4)
	if !isInElsewhere(v) {
		t.Error("at another node, the session has ended that was in use when writes began to fail")
	}
	if left.isIn() {
		t.Error("a session goes on that was idle for 40 minutes")
	}
	began = s.clock()
	if isInElsewhere(v) {
		t.Error("at another node, a session goes on that was idle when writes began to fail")
	}
	db.refuses.Store(false)
	visits(1)
	if !isInElsewhere(v) {
		t.Error("the last act is not noted when the store writes again")
	}
	db.refuses.Store(true)
	visits(6)
	if s.pass(10 * time.Minute); v.isIn() {
		t.Error("the session goes on after its two hours")
	}
}

// TestD141LogoutEndsSession: a cookie that was stolen is worth nothing after the logout.
func TestD141LogoutEndsSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := s.newOperator("jo", operator.Admin)
	thief := s.newVisitor()
	thief.setCookie("threeds", v.cookie("threeds"))
	if !thief.isIn() {
		t.Fatal("the cookie alone is not the session")
	}
	if a := v.get("/"); !strings.Contains(a.body, `action="/logout"`) || !v.session().IsFormToken(csrfPattern.FindStringSubmatch(a.body)[1]) {
		t.Errorf("the page has no form for the logout: %s", a.body)
	}
	if a := v.get("/logout"); a.StatusCode != http.StatusMethodNotAllowed || !v.isIn() {
		t.Errorf("GET /logout: HTTP %d", a.StatusCode)
	}
	if a := v.post("/logout", url.Values{"csrf": {"x"}}); a.StatusCode != http.StatusForbidden || !v.isIn() {
		t.Errorf("a logout without the token: HTTP %d", a.StatusCode)
	}
	if a := v.post("/logout", url.Values{"csrf": {v.csrf()}}); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/login" {
		t.Errorf("logout: HTTP %d", a.StatusCode)
	}
	if thief.isIn() || v.isIn() || v.cookie("threeds") != "" {
		t.Error("the session goes on after the logout")
	}
}

// TestD141RoleChangeEndsSession: no session outlives the role it was made with, nor its user.
func TestD141RoleChangeEndsSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := s.newOperator("jo", operator.Admin)
	for _, role := range []operator.Role{operator.Viewer, operator.Admin} { // and back again
		_, _, err := s.operators.ChangeUser(t.Context(), "jo", func(u *operator.User) error {
			u.Role = role
			return nil
		})
		must(t, err)
		if v.isIn() {
			t.Errorf("the session goes on as %s", role)
		}
	}
	if v.logIn("/"); !v.isIn() {
		t.Fatal("the passkey does not log in any more")
	}
	must(t, s.operators.RemoveUser(t.Context(), "jo"))
	if v.isIn() {
		t.Error("the session of a user who was removed goes on")
	}
	if a := v.logIn("/"); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("a user who was removed logs in: HTTP %d", a.StatusCode)
	}
	if other := s.newOperator("jo", operator.Admin); v.isIn() || !other.isIn() {
		t.Error("the session of another user of that name goes on")
	}
	s.settings = &login.Settings{URL: s.URL, Session: time.Hour}
	if v.isIn() {
		t.Error("a session by passkey goes on without passkeys")
	}
}

// TestD140NotLoggedIn: pages send to the login, which sends back to our own paths alone.
func TestD140NotLoggedIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := s.newVisitor()
	for path, want := range map[string]string{
		"/": "/login", "/whoami?a=b&c=%2F": "/login?next=%2Fwhoami%3Fa%3Db%26c%3D%252F",
		"/no/such": "/login?next=%2Fno%2Fsuch",
	} {
		if a := v.get(path); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != want || strings.Contains(a.body, "whoami?") {
			t.Errorf("%s: HTTP %d, Location %q, want %q", path, a.StatusCode, a.Header.Get("Location"), want)
		}
	}
	owner := s.newOperator("jo", operator.Admin)
	for _, next := range []string{
		"//evil.example", "https://evil.example/", `/\evil.example`, `\\evil.example`, "/\t/evil.example", "/\n/evil.example", "javascript:alert(1)",
		"evil.example", "", "///evil.example", "/" + strings.Repeat("x", 2000), "/logout", "/login?next=/login", "/\x00",
		"http:/evil.example", " //evil.example", "/%",
	} {
		in := &visitor{s, s.newVisitor().client, owner.key}
		if a := in.logIn(next); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/" {
			t.Errorf("next %q: HTTP %d, Location %q", next, a.StatusCode, a.Header.Get("Location"))
		}
		if a := in.get("/login?next=" + url.QueryEscape(next)); a.Header.Get("Location") != "/" {
			t.Errorf("logged in, next %q: Location %q", next, a.Header.Get("Location"))
		}
	}
}

// TestD142FormsComeFromOurPages: a POST from elsewhere or without the token of its session is refused.
func TestD142FormsComeFromOurPages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, other := s.newOperator("jo", operator.Admin), s.newOperator("kim", operator.Admin)
	good := url.Values{"csrf": {v.csrf()}}
	if a := v.post("/whoami", good); a.StatusCode != http.StatusOK {
		t.Fatalf("a form of ours: HTTP %d", a.StatusCode)
	}
	for _, origins := range [][]string{
		nil, {""}, {"null"}, {"https://evil.example"}, {strings.Replace(s.URL, "http:", "https:", 1)}, {"http://localhost"},
		{s.URL + "/"}, {s.URL, s.URL}, {"http://127.0.0.1:1"},
	} {
		for _, path := range []string{"/whoami", "/logout", "/login", s.invite(operator.Invitation{Role: operator.Admin})} {
			if a := v.postFrom(path, good, origins...); a.StatusCode != http.StatusForbidden {
				t.Errorf("%s from %q: HTTP %d", path, origins, a.StatusCode)
			}
		}
	}
	path, registering := s.invite(operator.Invitation{Role: operator.Admin}), s.newVisitor()
	f := registering.get(path).form(t)
	if a := registering.postFrom(path, url.Values{"csrf": {f.csrf}, "credential": {registering.key.create(s.URL, &f)}},
		"https://evil.example"); a.StatusCode != http.StatusForbidden {
		t.Errorf("a good registration from elsewhere: HTTP %d", a.StatusCode)
	}
	entering := &visitor{s, s.newVisitor().client, v.key}
	f = entering.get("/login").form(t)
	if a := entering.postFrom("/login", url.Values{"csrf": {f.csrf}, "credential": {v.key.get(s.URL, &f)}},
		"https://evil.example"); a.StatusCode != http.StatusForbidden {
		t.Errorf("a good login from elsewhere: HTTP %d", a.StatusCode)
	}
	for name, form := range map[string]url.Values{"none": {}, "an empty one": {"csrf": {""}}, "that of another session": {"csrf": {other.csrf()}}} {
		if a := v.post("/whoami", form); a.StatusCode != http.StatusForbidden {
			t.Errorf("with %s: HTTP %d", name, a.StatusCode)
		}
	}
	if a := v.post("/whoami?csrf="+url.QueryEscape(good.Get("csrf")), nil); a.StatusCode != http.StatusForbidden {
		t.Errorf("with the token in the address: HTTP %d", a.StatusCode)
	}
	if !v.isIn() {
		t.Error("a refused form has logged the operator out")
	}
	if a := s.newVisitor().post("/whoami", good); a.StatusCode != http.StatusSeeOther {
		t.Errorf("not logged in: HTTP %d", a.StatusCode)
	}
}

// TestD142Headers: each answer forbids frames, foreign scripts and copies.
func TestD142Headers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := s.newOperator("jo", operator.Admin)
	for _, path := range []string{"/login", "/invite/x", "/", "/whoami", "/no/such", "/assets/login.js", "/login/oidc"} {
		for _, a := range []answer{v.get(path), s.newVisitor().get(path)} {
			policy := a.Header.Get("Content-Security-Policy")
			for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
				if !strings.Contains(policy, want) {
					t.Errorf("%s: the policy %q has no %s", path, policy, want)
				}
			}
			if strings.Contains(policy, "unsafe-") || strings.Contains(policy, "*") {
				t.Errorf("%s: the policy is %q", path, policy)
			}
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Strict-Transport-Security": "",
			} {
				if got := a.Header.Get(name); got != want {
					t.Errorf("%s: %s is %q, want %q", path, name, got, want)
				}
			}
			if cache := a.Header.Get("Cache-Control"); cache != "no-store" && !strings.HasPrefix(path, "/assets/") {
				t.Errorf("%s: Cache-Control is %q", path, cache)
			}
			if strings.Contains(a.body, "style=") || strings.Contains(a.body, "onclick") || strings.Contains(a.body, "<script>") {
				t.Errorf("%s: what the policy forbids is in the page: %s", path, a.body)
			}
		}
	}
	secure := &login.Service{Operators: s.operators, Settings: func() *login.Settings {
		return &login.Settings{URL: "https://console.example", Passkeys: true, Session: time.Hour}
	}}
	w := httptest.NewRecorder()
	newHandler(secure).ServeHTTP(w, httptest.NewRequest("GET", "https://console.example/login", nil))
	cookies := w.Result().Cookies()
	if w.Header().Get("Strict-Transport-Security") == "" || len(cookies) != 1 || cookies[0].Name != "__Host-threeds-login" || !cookies[0].Secure {
		t.Errorf("by https: %v", w.Header())
	}
}

// TestD146AuditOfLogins: who logs in, and who fails to, is in the audit trail, and no secret is.
func TestD146AuditOfLogins(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := s.newOperator("jo", operator.Admin)
	v.post("/logout", url.Values{"csrf": {v.csrf()}})
	v.logIn("/")
	bad := &visitor{s, s.newVisitor().client, v.key}
	bad.key.flags = userPresent
	for range 50 {
		bad.logIn("/")
	}
	entries, err := s.operators.Search(t.Context(), operator.Query{Limit: 1000})
	must(t, err)
	slices.Reverse(entries)
	var got []string
	failed := 0
	for _, e := range entries {
		if e.From != "127.0.0.1" {
			t.Errorf("%s is from %q", e.Action, e.From)
		}
		if e.Action == "login.failed" {
			failed++
			if e.Who != "passkey:jo" {
				t.Errorf("the failure is of %s", e.Who)
			}
			continue
		}
		got = append(got, e.Who+" "+e.Action)
	}
	want := []string{"passkey:jo operator.register", "passkey:jo login", "passkey:jo logout", "passkey:jo login"}
	if !slices.Equal(got, want) {
		t.Errorf("the audit trail has %v, want %v", got, want)
	}
	if failed != 20 {
		t.Errorf("of 50 failures %d are in the audit trail, want 20", failed)
	}
	text, err := json.Marshal(entries)
	must(t, err)
	if strings.Contains(string(text), v.cookie("threeds")) || strings.Contains(string(text), v.session().CSRF) {
		t.Error("a secret is in the audit trail")
	}
}

// TestD149OpenConsole: the visitor of a sandbox is admin, and forms still want Origin and csrf.
func TestD149OpenConsole(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	base := "http://" + server.Listener.Addr().String()
	localhost := strings.Replace(base, "127.0.0.1", "localhost", 1)
	server.Config.Handler = newHandler(login.Open(base, func(host string) bool { return "http://"+host == localhost }))
	server.Start()
	t.Cleanup(server.Close)
	v := (&site{T: t, URL: base}).newVisitor()
	var session operator.Session
	must(t, json.Unmarshal([]byte(v.get("/whoami").body), &session))
	if session.Actor.Role != operator.Admin || session.Actor.Merchant != "" || session.Actor.Who != "sandbox" {
		t.Errorf("the visitor is %+v", session.Actor)
	}
	good := url.Values{"csrf": {session.FormToken()}}
	for origin, want := range map[string]int{base: 200, localhost: 403, "https://evil.example": 403, "null": 403} {
		if a := v.postFrom("/whoami", good, origin); a.StatusCode != want {
			t.Errorf("from %s: HTTP %d, want %d", origin, a.StatusCode, want)
		}
	}
	v.URL = localhost
	evil := strings.Replace(localhost, "localhost", "evil.localhost", 1)
	for origin, want := range map[string]int{base: 200, localhost: 200, "https" + strings.TrimPrefix(localhost, "http"): 403, evil: 403} {
		if a := v.postFrom("/whoami", good, origin); a.StatusCode != want {
			t.Errorf("to %s from %s: HTTP %d, want %d", localhost, origin, a.StatusCode, want)
		}
	}
	v.URL = base
	if a := v.post("/whoami", url.Values{"csrf": {"x"}}); a.StatusCode != http.StatusForbidden {
		t.Errorf("without the token: HTTP %d", a.StatusCode)
	}
	if a := v.get("/login?next=//evil.example"); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/" {
		t.Errorf("/login: HTTP %d", a.StatusCode)
	}
	if a := v.post("/logout", good); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/" {
		t.Errorf("/logout: HTTP %d", a.StatusCode)
	}
}

// TestK2SessionsHaveTheirRole: a page gets the role and the merchant of its visitor, for each kind of operator.
func TestK2SessionsHaveTheirRole(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, role := range operator.Roles() {
		for _, merchant := range []string{"", "Corner Shop"} {
			v := s.newVisitor()
			v.register(s.invite(operator.Invitation{Role: role, Merchant: merchant}))
			var session operator.Session
			must(t, json.Unmarshal([]byte(v.get("/whoami").body), &session))
			if session.Actor.Role != role || session.Actor.Merchant != merchant || len(session.CSRF) < 43 {
				t.Errorf("%s of %q: the session is %+v", role, merchant, session)
			}
			home := v.get("/").body
			if !strings.Contains(home, "<dd>"+string(role)+"</dd>") || strings.Contains(home, "Corner Shop only") != (merchant != "") {
				t.Errorf("%s of %q: the page is %s", role, merchant, home)
			}
		}
	}
}
