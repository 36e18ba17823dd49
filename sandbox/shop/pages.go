package shop

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"path"
)

//go:embed assets
var assets embed.FS

var pages = template.Must(template.New("pages").
	Funcs(template.FuncMap{"fieldValue": fieldValue}).
	ParseFS(assets, "assets/*.html"))

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

func (s *Shop) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	kind, known := types[path.Ext(name)]
	data, err := assets.ReadFile("assets/" + name)
	if err != nil || !known {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(data) // the browser may be gone
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
