package browser

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"sync"

	"github.com/openthreeds/threeds/web"

	"github.com/openthreeds/threeds/internal/auth"
	"github.com/openthreeds/threeds/internal/charset"
)

//go:embed pages
var pageFiles embed.FS

// labSources are the sources of pages of issuers in a sandbox, which have http on this machine.
const labSources = " http://127.0.0.1:* http://localhost:*"

var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"css": func() (template.CSS, error) {
			css, err := pageFiles.ReadFile("pages/page.css")
			return template.CSS(css), err //nolint:gosec // our own file
		},
		"script": func(text string) template.JS { return template.JS(text) },   //nolint:gosec // our own script
		"colour": func(text string) template.CSS { return template.CSS(text) }, //nolint:gosec // checked by isColour
	}).ParseFS(pageFiles, "pages/*.html"))
})

// styleDigest is the source of a policy that allows the style of the pages.
var styleDigest = sync.OnceValue(func() string {
	css, err := pageFiles.ReadFile("pages/page.css")
	if err != nil {
		panic(err) // the file is part of the program
	}
	sum := sha256.Sum256(css)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
})

// page is what all templates get.
type page struct {
	Nonce string
	Lang  string
	Dir   string
	Texts map[string]string
}

func (h *handler) newPage(r *http.Request, language, merchant, amount string) page {
	lang := pickLanguage(language, readList(r, "Accept-Language"))
	return page{Nonce: newSecret(), Lang: lang, Dir: direction(lang), Texts: textsFor(lang, merchant, amount)}
}

func (h *handler) render(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, name, data); err != nil {
		h.Log.Error("page not made", "page", name, "err", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client has gone, or reads it
}

func setPolicy(w http.ResponseWriter, policy string) {
	w.Header().Set("Content-Security-Policy", policy)
}

// noticePage is what the template of a page with one sentence gets.
type noticePage struct {
	page
	Text string
	Mark string // the data-testid of the sentence
}

// showNotice answers with one sentence in the language of the browser.
func (h *handler) showNotice(w http.ResponseWriter, r *http.Request, status int, key string) {
	p := noticePage{page: h.newPage(r, "", "", ""), Mark: "hosted-notice"}
	p.Nonce = "" // the bytes of a refusal are always the same: the policy names the style by its digest
	p.Text = p.Texts[key]
	setPolicy(w, "default-src 'none'; style-src '"+styleDigest()+"'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.render(w, status, "notice.html", p)
}

// showEnd says that the authentication is over. A window of its own closes itself.
func (h *handler) showEnd(w http.ResponseWriter, r *http.Request, v *auth.BrowserView, isWindow bool) {
	p := noticePage{page: h.newPage(r, v.Language, "", ""), Mark: "hosted-end"}
	p.Text = p.Texts["endText"]
	setPolicy(w, "default-src 'none'; script-src 'nonce-"+p.Nonce+"'; style-src 'nonce-"+p.Nonce+"'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	name := "notice.html"
	if isWindow {
		name = "window.html"
	}
	h.render(w, http.StatusOK, name, p)
}

// backPage is what the template of the page gets that a challenge in a frame ends with. If it finds that it is in no frame, it
// goes to Return, or shows Text.
type backPage struct {
	page
	Return, Text string
}

// wrapperPage is what the template of a wrapper document gets.
type wrapperPage struct {
	page
	Accept string
	Script string
}

// wrapper serves the document that shows a page of the issuer in a frame inside the page of
// the merchant. Any page may frame it: it does nothing without what threeds.js tells it.
func (h *handler) wrapper(w http.ResponseWriter, r *http.Request) {
	p := wrapperPage{page: h.newPage(r, "", "", ""), Accept: charset.Decode(readList(r, "Accept")), Script: web.WrapperScript}
	lab := ""
	if h.IsLab {
		lab = labSources + " 'self'"
	}
	setPolicy(w, "default-src 'none'; script-src 'nonce-"+p.Nonce+"'; style-src 'nonce-"+p.Nonce+"'; connect-src 'self'; "+
		"frame-src https:"+lab+"; form-action https:"+lab+"; base-uri 'none'")
	h.render(w, http.StatusOK, "wrapper.html", p)
}
