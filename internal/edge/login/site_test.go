package login_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"html"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"

	"github.com/openthreeds/threeds/internal/edge/login"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// A site is a console with one page behind its login.
type site struct {
	*testing.T
	URL       string // http://localhost:PORT
	operators *operator.Service
	db        *storetest.Memory
	settings  *login.Settings
	log       lockedText

	mu  sync.Mutex
	now time.Time
}

func (s *site) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// A lockedText is a log.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// pass lets time go by.
func (s *site) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// newSite starts a console on this machine. Its page /whoami names the visitor.
func newSite(t *testing.T) *site {
	t.Helper()
	ring, err := keyring.LoadOrCreate(filepath.Join(t.TempDir(), "keys.json"))
	must(t, err)
	s := &site{T: t, now: time.Now().Truncate(time.Second)}
	s.db = storetest.NewMemory(s.clock)
	s.operators = &operator.Service{Store: s.db, Sealer: ring, Now: s.clock}
	s.settings = &login.Settings{Passkeys: true, Session: 12 * time.Hour}
	service := &login.Service{
		Operators: s.operators, Settings: func() *login.Settings { return s.settings }, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
	}
	server := httptest.NewServer(newHandler(service))
	t.Cleanup(server.Close)
	s.URL = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	s.settings.URL = s.URL
	return s
}

// home is a page behind the login, which shows the operator of a session, and has a logout.
var home = template.Must(template.New("home").Parse(`<!doctype html><html lang="en"><title>Home</title>
<dl><dt>Role</dt><dd>{{.Actor.Role}}</dd><dt>Sees</dt><dd>{{with .Actor.Merchant}}{{.}} only{{else}}all merchants{{end}}</dd></dl>
<form method="post" action="/logout"><input type="hidden" name="csrf" value="{{.FormToken}}">
<button data-action="logout">Log out</button></form>
</html>`))

// newHandler serves a login and a few pages behind it.
func newHandler(service *login.Service) http.Handler {
	mux := http.NewServeMux()
	for _, path := range login.Paths() {
		mux.Handle(path, service)
	}
	pages := http.NewServeMux()
	pages.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		session, ok := operator.SessionOf(r.Context())
		if !ok {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_ = home.Execute(w, session)
	})
	pages.HandleFunc("/whoami", func(w http.ResponseWriter, r *http.Request) {
		session, ok := operator.SessionOf(r.Context())
		if !ok {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(session)
	})
	pages.HandleFunc("POST /erase/{what}", func(w http.ResponseWriter, r *http.Request) {
		session, _ := operator.SessionOf(r.Context())
		what := operator.Intent{Act: "erase", Object: r.PathValue("what")}
		if session.Actor.Confirmed.Intent != what {
			service.AskConfirmation(w, r, "Erase", what)
			return
		}
		_, _ = io.WriteString(w, "erased "+r.PostFormValue("number")+", confirmed by "+session.Actor.Confirmed.By)
	})
	mux.Handle("/", service.Protect(pages))
	return mux
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A visitor is a browser without a screen.
type visitor struct {
	*site
	client *http.Client
	key    *authenticator
}

func (s *site) newVisitor() *visitor {
	jar, err := cookiejar.New(nil)
	must(s, err)
	return &visitor{s, &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, newAuthenticator(s)}
}

// An answer is what a console has answered.
type answer struct {
	*http.Response
	body string
}

func (v *visitor) do(r *http.Request) answer {
	v.Helper()
	res, err := v.client.Do(r)
	must(v, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(v, err)
	return answer{res, string(body)}
}

func (v *visitor) get(path string) answer {
	v.Helper()
	if strings.HasPrefix(path, "/") {
		path = v.URL + path
	}
	r, err := http.NewRequestWithContext(v.Context(), http.MethodGet, path, nil)
	must(v, err)
	return v.do(r)
}

// post sends a form as a page of the console does.
func (v *visitor) post(path string, form url.Values) answer {
	v.Helper()
	return v.postFrom(path, form, v.URL)
}

// postFrom sends a form with the given Origins.
func (v *visitor) postFrom(path string, form url.Values, origins ...string) answer {
	v.Helper()
	r, err := http.NewRequestWithContext(v.Context(), http.MethodPost, v.URL+path, strings.NewReader(form.Encode()))
	must(v, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header["Origin"] = origins
	return v.do(r)
}

var (
	optionsPattern = regexp.MustCompile(`data-options="([^"]*)"`)
	csrfPattern    = regexp.MustCompile(`name="csrf" value="([^"]*)"`)
	confirmPattern = regexp.MustCompile(`name="confirm" value="([^"]*)"`)
)

// A form is what a page has for a ceremony of WebAuthn.
type form struct {
	csrf    string
	options struct {
		PublicKey struct {
			Challenge string
			RP        struct{ ID string }
			RPID      string `json:"rpId"`
			User      struct {
				ID   string
				Name string
			}
			Attestation            string
			UserVerification       string
			AuthenticatorSelection struct {
				ResidentKey        string
				RequireResidentKey bool
				UserVerification   string
			}
		}
	}
}

func (a answer) form(t testing.TB) (f form) {
	t.Helper()
	options, csrf := optionsPattern.FindStringSubmatch(a.body), csrfPattern.FindStringSubmatch(a.body)
	if options == nil || csrf == nil {
		t.Fatalf("HTTP %d, and no form: %s", a.StatusCode, a.body)
	}
	f.csrf = html.UnescapeString(csrf[1])
	must(t, json.Unmarshal([]byte(html.UnescapeString(options[1])), &f.options))
	return f
}

// confirmation returns what a page sends to confirm a form, without the answer of a passkey.
func (a answer) confirmation(t testing.TB) url.Values {
	t.Helper()
	csrf, sealed := csrfPattern.FindStringSubmatch(a.body), confirmPattern.FindStringSubmatch(a.body)
	if csrf == nil || sealed == nil {
		t.Fatalf("HTTP %d, and no confirmation: %s", a.StatusCode, a.body)
	}
	return url.Values{"csrf": {html.UnescapeString(csrf[1])}, "confirm": {sealed[1]}}
}

// confirm returns what a page sends when the visitor's passkey confirms a form.
func (v *visitor) confirm(asked answer) url.Values {
	v.Helper()
	f, sent := asked.form(v), asked.confirmation(v)
	sent.Set("credential", v.key.get(v.URL, &f))
	return sent
}

// session returns the visitor's session.
func (v *visitor) session() *operator.Session {
	v.Helper()
	var session operator.Session
	must(v, json.Unmarshal([]byte(v.get("/whoami").body), &session))
	return &session
}

// csrf returns a token for a form of the session.
func (v *visitor) csrf() string {
	v.Helper()
	return v.session().FormToken()
}

// cookie returns the value of a cookie, "" if the visitor does not have it.
func (v *visitor) cookie(name string) string {
	at, err := url.Parse(v.URL)
	must(v, err)
	for _, c := range v.client.Jar.Cookies(at) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// setCookie gives the visitor a cookie.
func (v *visitor) setCookie(name, value string) {
	at, err := url.Parse(v.URL)
	must(v, err)
	v.client.Jar.SetCookies(at, []*http.Cookie{{Name: name, Value: value, Path: "/"}})
}

// invite returns the path of an invitation.
func (s *site) invite(i operator.Invitation) string {
	s.Helper()
	secret, err := s.operators.Invite(s.Context(), &i)
	must(s, err)
	return "/invite/" + secret
}

// register uses an invitation.
func (v *visitor) register(path string) answer {
	v.Helper()
	f := v.get(path).form(v)
	return v.post(path, url.Values{"csrf": {f.csrf}, "credential": {v.key.create(v.URL, &f)}})
}

// logIn logs in with the visitor's passkey.
func (v *visitor) logIn(next string) answer {
	v.Helper()
	f := v.get("/login?next=" + url.QueryEscape(next)).form(v)
	return v.post("/login", url.Values{"csrf": {f.csrf}, "credential": {v.key.get(v.URL, &f)}})
}

// newOperator returns a visitor who has registered and is logged in.
func (s *site) newOperator(name string, role operator.Role) *visitor {
	s.Helper()
	v := s.newVisitor()
	if a := v.register(s.invite(operator.Invitation{Name: name, Role: role})); a.StatusCode != http.StatusSeeOther {
		s.Fatalf("register: HTTP %d %s", a.StatusCode, a.body)
	}
	return v
}

// isIn reports whether the visitor is logged in.
func (v *visitor) isIn() bool {
	v.Helper()
	switch a := v.get("/whoami"); a.StatusCode {
	case http.StatusOK:
		return true
	case http.StatusSeeOther:
		return false
	default:
		v.Fatalf("whoami: HTTP %d %s", a.StatusCode, a.body)
		return false
	}
}

// An authenticator holds one passkey. Its fields say how it answers.
type authenticator struct {
	testing.TB
	key     *ecdsa.PrivateKey
	id      []byte
	handle  []byte
	rpID    string
	counter uint32
	flags   byte   // user present and verified
	origin  string // "": that of the page
}

const (
	userPresent  = 0x01
	userVerified = 0x04
	hasKey       = 0x40
)

func newAuthenticator(t testing.TB) *authenticator {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	id := make([]byte, 16)
	rand.Read(id)
	return &authenticator{TB: t, key: key, id: id, rpID: "localhost", flags: userPresent | userVerified, counter: 1}
}

var encoding = base64.RawURLEncoding

func (k *authenticator) clientData(kind, challenge, origin string) []byte {
	if k.origin != "" {
		origin = k.origin
	}
	data, err := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": origin, "crossOrigin": false})
	must(k, err)
	return data
}

func (k *authenticator) data(flags byte) []byte {
	hash := sha256.Sum256([]byte(k.rpID))
	return binary.BigEndian.AppendUint32(append(hash[:], flags), k.counter)
}

// create answers the options of a registration.
func (k *authenticator) create(origin string, f *form) string {
	point, err := k.key.PublicKey.Bytes()
	must(k, err)
	cose, err := webauthncbor.Marshal(map[int]any{1: 2, 3: -7, -1: 1, -2: point[1:33], -3: point[33:]})
	must(k, err)
	data := append(k.data(k.flags|hasKey), make([]byte, 16)...)
	data = append(binary.BigEndian.AppendUint16(data, uint16(len(k.id))), k.id...)
	attestation, err := webauthncbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": append(data, cose...)})
	must(k, err)
	k.handle, err = encoding.DecodeString(f.options.PublicKey.User.ID)
	must(k, err)
	return k.credential(map[string]string{
		"clientDataJSON":    encoding.EncodeToString(k.clientData("webauthn.create", f.options.PublicKey.Challenge, origin)),
		"attestationObject": encoding.EncodeToString(attestation),
	})
}

// get answers the options of a login.
func (k *authenticator) get(origin string, f *form) string {
	k.counter++
	client, data := k.clientData("webauthn.get", f.options.PublicKey.Challenge, origin), k.data(k.flags)
	hash := sha256.Sum256(client)
	digest := sha256.Sum256(append(data, hash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, k.key, digest[:])
	must(k, err)
	return k.credential(map[string]string{
		"clientDataJSON": encoding.EncodeToString(client), "authenticatorData": encoding.EncodeToString(data),
		"signature": encoding.EncodeToString(signature), "userHandle": encoding.EncodeToString(k.handle),
	})
}

func (k *authenticator) credential(response map[string]string) string {
	id := encoding.EncodeToString(k.id)
	text, err := json.Marshal(map[string]any{
		"id": id, "rawId": id, "type": "public-key", "clientExtensionResults": map[string]any{}, "response": response,
	})
	must(k, err)
	return string(text)
}
