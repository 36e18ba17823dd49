package login_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"github.com/openthreeds/threeds/internal/edge/login"
	"github.com/openthreeds/threeds/internal/operate/operator"
)

// An issuer is an issuer of OpenID Connect. Its fields say what it reports about the user who logs in there.
type issuer struct {
	*testing.T
	site   *site
	server *httptest.Server
	keys   *oidctest.Server

	key       crypto.PrivateKey
	keyID     string
	algorithm string
	claims    map[string]any // in addition to those of a request, which they replace
	isSilent  bool           // it sends no ID token
	userInfo  map[string]any // what its userinfo endpoint tells; nil: it has none

	nonce, challenge string // of the last login
	exchanges        []url.Values
}

// issuerKey returns the RSA key of all issuers: it takes long to make, and tests have many issuers.
var issuerKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// newIssuer starts an issuer and has the site use it.
func newIssuer(s *site) *issuer {
	s.Helper()
	i := &issuer{T: s.T, site: s, claims: map[string]any{"groups": []string{"ops"}, "email": "jo@shop.example"}}
	rsaKey, err := issuerKey()
	must(s, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(s, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	must(s, err)
	i.keys = &oidctest.Server{Algorithms: []string{"RS256", "ES256", "EdDSA"}, PublicKeys: []oidctest.PublicKey{
		{PublicKey: rsaKey.Public(), KeyID: "rsa", Algorithm: "RS256"},
		{PublicKey: ecKey.Public(), KeyID: "ec", Algorithm: "ES256"},
		{PublicKey: edKey.Public(), KeyID: "ed", Algorithm: "EdDSA"},
	}}
	i.key, i.keyID, i.algorithm = rsaKey, "rsa", "RS256"
	mux := http.NewServeMux()
	mux.Handle("/", i.keys)
	mux.HandleFunc("/token", i.token)
	mux.HandleFunc("/userinfo", i.tellUser)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		i.keys.ServeHTTP(answer, r)
		var told map[string]any
		must(i, json.Unmarshal(answer.Body.Bytes(), &told))
		if i.userInfo != nil {
			told["userinfo_endpoint"] = i.server.URL + "/userinfo"
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(told)
	})
	i.server = httptest.NewServer(mux)
	s.Cleanup(i.server.Close)
	i.keys.SetIssuer(i.server.URL)
	s.settings.OIDC = &login.OIDC{
		Issuer: i.server.URL, ClientID: "threeds", ClientSecret: "s3cret", Scopes: []string{"openid", "email"}, NameClaim: "email", RoleClaim: "groups",
		Roles:          map[string]operator.Role{"look": operator.Viewer, "ops": operator.Operator, "boss": operator.Admin},
		Merchants:      map[string]string{"shop": "Corner Shop", "other": "Other Shop", "both": "Corner Shop"},
		MerchantGroups: map[string]string{"acme-staff": "acme", "acme-night": "acme", "quagga-staff": "quagga", "both": "acme"},
	}
	return i
}

// use has the issuer sign with its key of an algorithm.
func (i *issuer) use(key crypto.PrivateKey, id, algorithm string) {
	i.key, i.keyID, i.algorithm = key, id, algorithm
}

// token is the token endpoint: it checks the secret, the code and PKCE as an issuer does.
func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	i.exchanges = append(i.exchanges, r.PostForm)
	user, secret, ok := r.BasicAuth()
	digest := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	if !ok || user != "threeds" || secret != "s3cret" || r.PostForm.Get("code") != "the-code" || encoding.EncodeToString(digest[:]) != i.challenge {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error": "invalid_grant"}`)
		return
	}
	now := i.site.clock()
	claims := map[string]any{
		"iss": i.server.URL, "aud": "threeds", "sub": "4711", "nonce": i.nonce, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
	maps.Copy(claims, i.claims)
	text, err := json.Marshal(claims)
	must(i, err)
	answer := map[string]any{"access_token": "a", "token_type": "Bearer"}
	if !i.isSilent {
		answer["id_token"] = oidctest.SignIDToken(i.key, i.keyID, i.algorithm, string(text))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// tellUser is the userinfo endpoint.
func (i *issuer) tellUser(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer a" || i.userInfo["refuses"] != nil {
		http.Error(w, "a secret of the issuer", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(i.userInfo)
}

// start has a visitor begin to log in, and returns what the browser brings to the issuer.
func (i *issuer) start(v *visitor, next string) url.Values {
	i.Helper()
	return i.startAt(v, "/login/oidc?next="+url.QueryEscape(next))
}

// startAt is start by the link of a page.
func (i *issuer) startAt(v *visitor, link string) url.Values {
	i.Helper()
	a := v.get(link)
	to, err := url.Parse(a.Header.Get("Location"))
	must(i, err)
	if a.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to.String(), i.server.URL+"/auth?") {
		i.Fatalf("/login/oidc: HTTP %d, Location %q: %s", a.StatusCode, to, a.body)
	}
	i.nonce, i.challenge = to.Query().Get("nonce"), to.Query().Get("code_challenge")
	return to.Query()
}

// logIn has a visitor log in at the issuer.
func (i *issuer) logIn(v *visitor, next string) answer {
	i.Helper()
	return i.comeBack(v, i.start(v, next))
}

// comeBack has a visitor come back from the issuer.
func (i *issuer) comeBack(v *visitor, asked url.Values) answer {
	i.Helper()
	return v.get("/login/oidc/callback?" + url.Values{"code": {"the-code"}, "state": {asked.Get("state")}, "iss": {i.server.URL}}.Encode())
}

// TestD143CodeFlow: the browser goes to the issuer by the link on the page and comes back logged in.
func TestD143CodeFlow(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	i := newIssuer(s)
	v := s.newVisitor()
	if page := v.get("/login?next=/whoami"); !strings.Contains(page.body, `href="/login/oidc?next=%2fwhoami" data-action="login-oidc"`) &&
		!strings.Contains(page.body, `href="/login/oidc?next=%2Fwhoami" data-action="login-oidc"`) {
		t.Errorf("the page has no link to the issuer: %s", page.body)
	}
	asked := i.start(v, "/whoami")
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "threeds", "scope": "openid email", "code_challenge_method": "S256", "redirect_uri": s.URL + "/login/oidc/callback",
	} {
		if got := asked.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	other := i.start(v, "/")
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		if asked.Get(name) == other.Get(name) || len(asked.Get(name)) < 43 {
			t.Errorf("%s is the same twice, or short", name)
		}
	}
	if a := i.logIn(v, "/whoami"); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/whoami" || !v.isIn() {
		t.Errorf("log in: HTTP %d %s", a.StatusCode, a.body)
	}
	users, err := s.operators.Users(t.Context())
	must(t, err)
	if len(users) != 1 || users[0].Name != "oidc:4711" || users[0].Label != "jo@shop.example" || users[0].Role != operator.Operator {
		t.Errorf("the users are %+v", users)
	}
}

// TestD143Algorithms: ID tokens count with the three algorithms, and with no other.
func TestD143Algorithms(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	i := newIssuer(s)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	i.keys.PublicKeys = append(i.keys.PublicKeys,
		oidctest.PublicKey{PublicKey: ecKey.Public(), KeyID: "ec2", Algorithm: "ES256"},
		oidctest.PublicKey{PublicKey: edKey.Public(), KeyID: "ed2", Algorithm: "EdDSA"})
	rsaKey := i.key
	for _, test := range []struct {
		key           crypto.PrivateKey
		id, algorithm string
		isGood        bool
	}{
		{rsaKey, "rsa", "RS256", true}, {ecKey, "ec2", "ES256", true}, {edKey, "ed2", "EdDSA", true},
		{rsaKey, "rsa", "RS512", false}, {rsaKey, "rsa", "PS256", false}, {ecKey, "ec", "ES256", false}, {[]byte("s3cret"), "rsa", "HS256", false},
	} {
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Logf("%s: the test's issuer cannot sign with it", test.algorithm)
				}
			}()
			oidctest.SignIDToken(test.key, test.id, test.algorithm, "{}")
			i.use(test.key, test.id, test.algorithm)
			v := s.newVisitor()
			if i.logIn(v, "/"); v.isIn() != test.isGood {
				t.Errorf("%s with key %s: logged in is %t", test.algorithm, test.id, v.isIn())
			}
		}()
	}
}

// TestD143BadTokensAreRefused: a token that is not for this login of this browser at this server does not log the user
// in.
func TestD143BadTokensAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(i *issuer){
		"of another issuer":        func(i *issuer) { i.claims["iss"] = "https://id.example" },
		"for another client":       func(i *issuer) { i.claims["aud"] = "shop" },
		"for two, by another":      func(i *issuer) { i.claims["aud"] = []string{"threeds", "shop"} },
		"used by another":          func(i *issuer) { i.claims["azp"] = "shop" },
		"with another nonce":       func(i *issuer) { i.claims["nonce"] = "x" },
		"without a nonce":          func(i *issuer) { i.claims["nonce"] = "" },
		"that has ended":           func(i *issuer) { i.claims["exp"] = i.site.clock().Add(-time.Second).Unix() },
		"without a subject":        func(i *issuer) { i.claims["sub"] = "" },
		"with a strange subject":   func(i *issuer) { i.claims["sub"] = "jo\n" },
		"that is not there":        func(i *issuer) { i.isSilent = true },
		"with the key of somebody": func(i *issuer) { i.key, _ = rsa.GenerateKey(rand.Reader, 2048) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			i := newIssuer(s)
			spoil(i)
			v := s.newVisitor()
			if a := i.logIn(v, "/"); a.StatusCode != http.StatusForbidden || v.isIn() {
				t.Errorf("HTTP %d", a.StatusCode)
			}
		})
	}
}

// TestD143StateBindsTheBrowser: what comes back counts for the browser that has left, once, and only from its issuer.
func TestD143StateBindsTheBrowser(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	i := newIssuer(s)
	v, thief := s.newVisitor(), s.newVisitor()
	state := i.start(v, "/").Get("state")
	back := func(v *visitor, change url.Values) answer {
		q := url.Values{"code": {"the-code"}, "state": {state}}
		maps.Copy(q, change)
		return v.get("/login/oidc/callback?" + q.Encode())
	}
	for name, change := range map[string]url.Values{
		"another state": {"state": {"x"}}, "no state": {"state": {""}}, "another issuer": {"iss": {"https://id.example"}},
		"another code": {"code": {"x"}}, "an error": {"error": {"access_denied"}},
	} {
		if a := back(v, change); a.StatusCode != http.StatusForbidden || v.isIn() {
			t.Errorf("%s: HTTP %d", name, a.StatusCode)
		}
	}
	if a := back(thief, nil); a.StatusCode != http.StatusForbidden || thief.isIn() {
		t.Errorf("another browser: HTTP %d", a.StatusCode)
	}
	browser := v.cookie("threeds-login")
	if back(v, nil); !v.isIn() {
		t.Fatal("the browser that has left is not logged in")
	}
	thief.setCookie("threeds-login", browser)
	if a := back(thief, nil); a.StatusCode != http.StatusForbidden || thief.isIn() {
		t.Errorf("a second time: HTTP %d", a.StatusCode)
	}
	late := s.newVisitor()
	state = i.start(late, "/").Get("state")
	s.pass(15 * time.Minute)
	if a := back(late, nil); a.StatusCode != http.StatusForbidden || late.isIn() {
		t.Errorf("after a quarter of an hour: HTTP %d", a.StatusCode)
	}
	for _, form := range i.exchanges {
		if len(form.Get("code_verifier")) < 43 {
			t.Error("the code was exchanged without PKCE")
		}
	}
}

// TestD143RolesByGroup: the highest role counts, a merchant's group limits it to that merchant, a group of merchants to
// those, and without a role there is no login. Who would be of two is refused.
func TestD143RolesByGroup(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	i := newIssuer(s)
	for _, test := range []struct {
		groups   any
		role     operator.Role // "": refused
		merchant string        // "group " before that of a group
	}{
		{[]string{"look", "acme-staff"}, operator.Viewer, "group acme"}, {[]string{"acme-night", "boss", "acme-staff"}, operator.Admin, "group acme"},
		{[]string{"acme-staff"}, "", ""}, {[]string{"boss", "acme-staff", "quagga-staff"}, "", ""}, {[]string{"boss", "acme-staff", "shop"}, "", ""},
		{[]string{"boss", "shop", "acme-staff"}, "", ""}, {[]string{"boss", "both"}, "", ""},
		{[]string{"look"}, operator.Viewer, ""}, {[]string{"boss", "look", "ops"}, operator.Admin, ""}, {"ops", operator.Operator, ""},
		{[]string{"look", "shop"}, operator.Viewer, "Corner Shop"}, {[]string{"shop", "boss", "shop"}, operator.Admin, "Corner Shop"},
		{[]string{"shop"}, "", ""}, {[]string{"strangers"}, "", ""}, {[]string{}, "", ""}, {nil, "", ""}, {[]string{"boss", "shop", "other"}, "", ""},
		{[]string{"BOSS"}, "", ""}, {map[string]bool{"boss": true}, "", ""}, {[]any{"boss", 1}, "", ""},
	} {
		i.claims["groups"] = test.groups
		v := s.newVisitor()
		a := i.logIn(v, "/")
		if test.role == "" {
			if a.StatusCode != http.StatusForbidden || v.isIn() {
				t.Errorf("%v: HTTP %d", test.groups, a.StatusCode)
			}
			continue
		}
		var session operator.Session
		must(t, json.Unmarshal([]byte(v.get("/whoami").body), &session))
		want := operator.Actor{Who: "oidc:4711", Role: test.role, Merchant: test.merchant, From: "127.0.0.1"}
		if group, isGroup := strings.CutPrefix(test.merchant, "group "); isGroup {
			want.Merchant, want.Group = "", group
		}
		if session.Actor != want {
			t.Errorf("%v: %+v, want %+v", test.groups, session.Actor, want)
		}
	}
}

// TestD141GroupChangeEndsSession: a session ends when the issuer names other groups, or the configuration gives them
// another role.
func TestD141GroupChangeEndsSession(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	i := newIssuer(s)
	v, other := s.newVisitor(), s.newVisitor()
	i.logIn(v, "/")
	i.claims["groups"] = []string{"look"}
	if i.logIn(other, "/"); v.isIn() || !other.isIn() {
		t.Error("the session goes on after a login with another role")
	}
	changed := *s.settings.OIDC
	changed.Roles = map[string]operator.Role{"look": operator.Admin}
	s.settings = &login.Settings{URL: s.URL, OIDC: &changed, Session: time.Hour}
	if other.isIn() {
		t.Error("the session goes on when its group has another role")
	}
	i.logIn(other, "/")
	changed.MerchantGroups = map[string]string{"look": "acme"}
	s.settings = &login.Settings{URL: s.URL, OIDC: &changed, Session: time.Hour}
	if other.isIn() {
		t.Error("the session goes on when its group has become one of a group of merchants")
	}
	i.logIn(other, "/")
	must(t, s.operators.RemoveUser(t.Context(), "oidc:4711"))
	if other.isIn() {
		t.Error("the session of a user who was removed goes on")
	}
}

// TestD143IssuerByHTTPSAlone: an issuer that names an address elsewhere by http is not asked there.
func TestD143IssuerByHTTPSAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	i := newIssuer(s)
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w,
			`{"issuer": "http://%[1]s", "authorization_endpoint": "http://%[1]s/auth", "token_endpoint": "http://id.example/token", "jwks_uri": "http://%[1]s/keys"}`,
			r.Host)
	})
	bad := httptest.NewServer(mux)
	t.Cleanup(bad.Close)
	changed := *s.settings.OIDC
	changed.Issuer = bad.URL
	s.settings.OIDC = &changed
	v := s.newVisitor()
	a := v.get("/login/oidc")
	to, err := url.Parse(a.Header.Get("Location"))
	must(t, err)
	if a := v.get("/login/oidc/callback?code=x&state=" + url.QueryEscape(to.Query().Get("state"))); a.StatusCode != http.StatusForbidden {
		t.Errorf("HTTP %d", a.StatusCode)
	}
	if !strings.Contains(s.log.String(), "not https") {
		t.Errorf("the log does not say why: %s", s.log.String())
	}
	i.server.Close()
	gone := *s.settings.OIDC
	gone.Issuer = i.server.URL
	s.settings.OIDC = &gone
	if a := v.get("/login/oidc"); a.StatusCode != http.StatusBadGateway || strings.Contains(a.body, "refused") {
		t.Errorf("an issuer that is gone: HTTP %d %s", a.StatusCode, a.body)
	}
}

// TestD143SilentIssuerIsNotAskedByEachVisitor: an issuer that does not answer is asked again after a few seconds.
func TestD143SilentIssuerIsNotAskedByEachVisitor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	i := newIssuer(s)
	var asked atomic.Int64
	var isBack atomic.Bool
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); !isBack.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		i.keys.ServeHTTP(w, r)
	}))
	t.Cleanup(silent.Close)
	i.keys.SetIssuer(silent.URL)
	s.settings.OIDC.Issuer = silent.URL
	v := s.newVisitor()
	for range 5 {
		if a := v.get("/login/oidc"); a.StatusCode != http.StatusBadGateway {
			t.Errorf("HTTP %d", a.StatusCode)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("the issuer was asked %d times", asked.Load())
	}
	isBack.Store(true)
	s.pass(5 * time.Second)
	if a := v.get("/login/oidc"); a.StatusCode != http.StatusSeeOther {
		t.Errorf("once it answers: HTTP %d", a.StatusCode)
	}
}

// TestCase35GroupsAtUserInfo: groups that the ID token lacks are read from the userinfo endpoint, and count only for
// the subject of the ID token. If neither has them, the page and the log say so.
func TestCase35GroupsAtUserInfo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		claims, userInfo map[string]any
		role             operator.Role // "": refused
		log, page        string
	}{
		"at userinfo alone": {map[string]any{},
			map[string]any{"sub": "4711", "groups": []string{"ops"}, "email": "jo@shop.example"}, operator.Operator, "", ""},
		"in both": {map[string]any{"groups": []string{"look"}}, map[string]any{"sub": "4711", "groups": []string{"boss"}}, operator.Viewer, "", ""},
		"none in the ID token": {map[string]any{"groups": []string{}},
			map[string]any{"sub": "4711", "groups": []string{"boss"}}, "", "", "none of the groups has a role"},
		"of somebody else":          {map[string]any{}, map[string]any{"sub": "4712", "groups": []string{"boss"}}, "", "another subject", "not accepted"},
		"of nobody":                 {map[string]any{}, map[string]any{"groups": []string{"boss"}}, "", "another subject", "not accepted"},
		"nowhere":                   {map[string]any{}, map[string]any{"sub": "4711"}, "", "claim=groups", "does not say which groups"},
		"nowhere, and no userinfo":  {map[string]any{}, nil, "", "claim=groups", "does not say which groups"},
		"userinfo refuses":          {map[string]any{}, map[string]any{"refuses": true}, "", "403", "not accepted"},
		"groups in the token alone": {map[string]any{"groups": []string{"ops"}}, map[string]any{"refuses": true}, operator.Operator, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			i := newIssuer(s)
			i.claims, i.userInfo = tt.claims, tt.userInfo
			v := s.newVisitor()
			a := i.logIn(v, "/")
			if tt.role == "" {
				if a.StatusCode != http.StatusForbidden || v.isIn() || !strings.Contains(a.body, tt.page) || !strings.Contains(s.log.String(), tt.log) {
					t.Errorf("HTTP %d %s\nthe log: %s", a.StatusCode, a.body, s.log.String())
				}
				if strings.Contains(s.log.String(), "a secret") {
					t.Errorf("the log has the answer of the issuer: %s", s.log.String())
				}
				return
			}
			users, err := s.operators.Users(t.Context())
			must(t, err)
			if !v.isIn() || len(users) != 1 || users[0].Role != tt.role {
				t.Errorf("HTTP %d, the users are %+v", a.StatusCode, users)
			}
			if name == "at userinfo alone" && users[0].Label != "jo@shop.example" {
				t.Errorf("the name is %q", users[0].Label)
			}
		})
	}
}
