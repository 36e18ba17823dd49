package login

import (
	"embed"
	"html/template"
	"net/http"
	"path"

	"github.com/openthreeds/threeds/internal/base/compress"
	"github.com/openthreeds/threeds/internal/operate/operator"
)

//go:embed pages
var files embed.FS

// templates are the pages by name.
var templates = template.Must(template.ParseFS(files, "pages/*.html"))

// A page is what the templates show.
type page struct {
	Title   string
	Text    string
	Fault   string // what was wrong with the page before
	Next    string // where the login goes on to
	CSRF    string
	Options string // of WebAuthn, as JSON; "": there are no passkeys
	Help    string // the page of the documentation that says what to do; "" means that there is none
	OIDC    string // the link to the issuer; "": there is none
	Issuer  string

	Path           string // of an invitation, or where a form goes that is to be confirmed
	Confirm        string // the sealed ceremony of a confirmation; "": there has to be a login first
	Name, Merchant string
	Role           operator.Role
}

// show writes a page.
func (s *Service) show(w http.ResponseWriter, status int, name string, p page) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := templates.ExecuteTemplate(w, name+".html", p); err != nil {
		s.Log.Debug("page of the console", "page", name, "err", err) // the operator has gone
	}
}

// showMessage shows a page that says one thing.
func (s *Service) showMessage(w http.ResponseWriter, status int, title, text string) {
	s.show(w, status, "message", page{Title: title, Text: text})
}

// refuseForm answers a form that is not from a page of ours, or is from an old one.
func (s *Service) refuseForm(w http.ResponseWriter) {
	s.showMessage(w, http.StatusForbidden, "The form was refused",
		"It does not come from a page of this console, or the page is of another session. Go back, reload the page, and try again.")
}

// storeHelp is the page of the documentation about a store that does not work. It needs no store.
const storeHelp = "/docs/operating/alerts-state.html#threedsstorefailing"

// showFailure says that the store does not work: what this node knows of that, or else where to look.
func (s *Service) showFailure(w http.ResponseWriter, err error) {
	s.Log.Error("console", "err", err)
	p := page{
		Title: "The console does not work at the moment", Help: storeHelp,
		Text: "The store could not be read or written. See /readyz for what is not well with this node. The log says why.",
	}
	if s.StoreProblem != nil {
		if title, text := s.StoreProblem(); title != "" {
			p.Fault, p.Text = title, text
		}
	}
	s.show(w, http.StatusServiceUnavailable, "message", p)
}

// assets are the script and the style of the pages.
var assets = map[string]*compress.File{
	"login.js":  newAsset("login.js", "text/javascript; charset=utf-8"),
	"login.css": newAsset("login.css", "text/css; charset=utf-8"),
}

func newAsset(name, mediaType string) *compress.File {
	content, err := files.ReadFile("pages/" + name)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return compress.NewFile(mediaType, content)
}

// serveAsset serves the script and the style of the pages.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	asset := assets[path.Base(r.URL.Path)]
	if asset == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	asset.ServeHTTP(w, r)
}
