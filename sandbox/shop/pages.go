package shop

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"path"

	"github.com/openthreeds/threeds/internal/base/compress"
	"github.com/openthreeds/threeds/sandbox/shop/runs"
)

//go:embed assets
var assets embed.FS

var pages = runs.AddTemplates(template.Must(template.New("pages").
	Funcs(template.FuncMap{"fieldValue": fieldValue}).
	ParseFS(assets, "assets/*.html")))

// fieldValue is the attribute value of a hidden field. The template alone would write "+" as "&#43;",
// which programs that read the page as text do not undo.
func fieldValue(value string) template.HTMLAttr {
	return template.HTMLAttr(`value="` + template.HTMLEscapeString(value) + `"`)
}

// types are the kinds of files under /static/.
var types = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// serveFiles adds the files under /static/ to a mux.
func (s *Shop) serveFiles(mux *http.ServeMux) {
	entries, _ := assets.ReadDir("assets") // they are in the binary
	for _, e := range entries {
		if mediaType, isFile := types[path.Ext(e.Name())]; isFile {
			content, _ := assets.ReadFile("assets/" + e.Name())
			if e.Name() == payScript {
				content = s.payLines()
			}
			mux.Handle("GET /static/"+e.Name(), compress.NewFile(mediaType, content))
		}
	}
}

// stepsPage is the checkout that makes each step by itself, with the operations of the compatible API.
func (s *Shop) stepsPage(w http.ResponseWriter, _ *http.Request) {
	s.page(w, http.StatusOK, "steps.html", map[string]any{
		"Product": productName, "Price": productPrice, "Monthly": monthlyPrice,
		"First": firstCard, "Cards": testCards, "Digits": digits, "Versions": versions, "Troubles": troubles,
		"Processing": s.Processing.Milliseconds(), "NoticeWait": s.noticeWait.Milliseconds(),
	})
}

// A field is one hidden field of a form.
type field struct{ Name, Value string }

// form is a page that posts a form to somewhere else: by itself, or with
// JavaScript off when its button is pressed.
func (s *Shop) form(w http.ResponseWriter, action string, fields ...field) {
	s.page(w, http.StatusOK, "form.html", map[string]any{"Action": action, "Fields": fields})
}

// notice is the page that tells the shop's page about a step that is over.
func (s *Shop) notice(w http.ResponseWriter, step string) {
	s.page(w, http.StatusOK, "notice.html", map[string]any{"Step": step})
}

// showNeutral is the answer to notices that fit nothing. It does not say why.
func (s *Shop) showNeutral(w http.ResponseWriter, status int) {
	s.page(w, status, "notice.html", map[string]any{"Step": ""})
}

func (s *Shop) page(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		s.Log.Error("shop: page", "name", name, "err", err)
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // the browser may be gone
}

// newRuns returns the history of the short way.
func (s *Shop) newRuns() *runs.History {
	return &runs.History{
		Server: s.serverAddress(), Key: s.PublicKey, Price: productPrice, Docs: s.Docs, Now: s.Now, Log: s.Log, Base: s.base,
		Source:       func() runs.Source { return s.Source },
		Authenticate: s.beginPayment,
		Page: func(w http.ResponseWriter, status int, name string, data any) {
			s.allowServer(w)
			s.page(w, status, name, data)
		},
	}
}
