package console

import (
	"encoding/json"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/edge/login"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// A loginSite is a console with two pages behind its login.
type loginSite struct {
	*testing.T
	URL       string // http://localhost:PORT
	operators *operator.Service
	settings  *login.Settings
}

// newLoginSite starts a console on this machine. Its page /whoami says who has asked for it.
func newLoginSite(t *testing.T) *loginSite {
	t.Helper()
	ring, err := keyring.LoadOrCreate(filepath.Join(t.TempDir(), "keys.json"))
	must(t, err)
	s := &loginSite{T: t, settings: &login.Settings{Passkeys: true, Session: 12 * time.Hour}}
	s.operators = &operator.Service{Store: storetest.NewMemory(time.Now), Sealer: ring, Now: time.Now}
	service := &login.Service{
		Operators: s.operators, Settings: func() *login.Settings { return s.settings }, Log: slog.New(slog.DiscardHandler),
	}
	mux := http.NewServeMux()
	for _, path := range login.Paths() {
		mux.Handle(path, service)
	}
	mux.Handle("/", service.Protect(http.HandlerFunc(pageBehindLogin)))
	mux.Handle("POST /erase", service.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, _ := operator.SessionOf(r.Context())
		if session.Actor.Confirmed.By == "" {
			service.AskConfirmation(w, r, "Erase for good", operator.Intent{Act: "journal erase", Object: "card"})
			return
		}
		_ = json.NewEncoder(w).Encode(r.PostForm)
	})))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.URL = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	s.settings.URL = s.URL
	return s
}

// home is a page behind the login, which shows whom a session is of, and lets them log out.
var home = template.Must(template.New("home").Parse(`<!doctype html><html lang="en"><title>Home</title>
<dl><dt>Role</dt><dd>{{.Actor.Role}}</dd><dt>Sees</dt><dd>{{with .Actor.Merchant}}{{.}} only{{else}}all merchants{{end}}</dd></dl>
<form method="post" action="/logout"><input type="hidden" name="csrf" value="{{.FormToken}}">
<button data-action="logout">Log out</button></form>
<form method="post" action="/erase"><input type="hidden" name="csrf" value="{{.FormToken}}">
<input type="hidden" name="number" value="of the form"><button data-action="erase">Erase</button></form>
</html>`))

func pageBehindLogin(w http.ResponseWriter, r *http.Request) {
	session, ok := operator.SessionOf(r.Context())
	switch {
	case !ok:
		w.WriteHeader(http.StatusInternalServerError)
	case r.URL.Path == "/":
		_ = home.Execute(w, session)
	case r.URL.Path == "/whoami":
		_ = json.NewEncoder(w).Encode(session)
	default:
		http.NotFound(w, r)
	}
}

// invite returns the path of an invitation.
func (s *loginSite) invite(i operator.Invitation) string {
	s.Helper()
	secret, err := s.operators.Invite(s.Context(), &i)
	must(s, err)
	return "/invite/" + secret
}

// useIssuer lets operators log in with an issuer of OpenID Connect, which is not asked for anything.
func (s *loginSite) useIssuer() {
	s.settings.OIDC = &login.OIDC{
		Issuer: "https://issuer.example", ClientID: "threeds", ClientSecret: "s3cret", Scopes: []string{"openid", "email"}, NameClaim: "email", RoleClaim: "groups",
		Roles: map[string]operator.Role{"ops": operator.Operator},
	}
}
