package browser

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"sync"

	"github.com/openthreeds/threeds/internal/base/charset"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/web"
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

// page is what all templates get. Merchant and colours are empty where the merchant is not known.
type page struct {
	Nonce                    string
	Lang                     string
	Dir                      string
	Texts                    map[string]string
	Merchant                 string
	Logo                     template.URL // "": none
	Colour, OnColour, Accent string
}

func (h *handler) newPage(r *http.Request, language string, looks Looks, amount string) page {
	lang := pickLanguage(language, readList(r, "Accept-Language"))
	p := page{
		Nonce: newSecret(), Lang: lang, Dir: direction(lang), Texts: textsFor(lang, looks.Name, amount), Merchant: looks.Name,
	}
	if isColour(looks.Colour) {
		p.Colour, p.OnColour = looks.Colour, textColour(looks.Colour)
	}
	if isColour(looks.Accent) {
		p.Accent = looks.Accent
	}
	return p
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

// noticePage is what the template of a page that refuses gets.
type noticePage struct {
	page
	Title, Text string
}

// showNotice answers with a heading and a sentence in the language of the browser: the texts of two keys.
func (h *handler) showNotice(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	p := noticePage{page: h.newPage(r, "", Looks{}, "")}
	p.Nonce = "" // the bytes of a refusal are always the same: the policy names the style by its digest
	p.Title, p.Text = p.Texts[title], p.Texts[text]
	setPolicy(w,
		"default-src 'none'; style-src '"+styleDigest()+"'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.render(w, status, "notice.html", p)
}

// A place is where a page that says that an authentication is over is shown.
type place int

const (
	placeTab     place = iota // a tab of the shopper
	placeWindow               // a window that threeds.js has opened
	placeUnknown              // a frame of threeds.js, such a window or a tab: the page looks for itself
)

// endPage is what the template of the page gets that says that an authentication is over.
type endPage struct {
	page
	ID         string
	Return     string // where the shopper goes on in a tab; "" means nowhere
	IsScripted bool
	IsWindow   bool
}

// showEnd says that the authentication is over. In a frame the page sends a message to threeds.js, a window closes
// itself, and a tab goes to the shop. Where that is not possible, the page stays, and says how to go on.
func (h *handler) showEnd(w http.ResponseWriter, r *http.Request, v *session.BrowserView, at place) {
	looks := h.Looks(r.Context(), v.Merchant)
	p := endPage{
		page: h.newPage(r, v.Language, looks, ""), ID: v.ID, IsScripted: at != placeTab, IsWindow: at == placeWindow,
	}
	if len(looks.Logo) > 0 { // The page may not know the token, so it brings the picture along.
		picture := base64.StdEncoding.EncodeToString(looks.Logo)
		p.Logo = template.URL("data:" + looks.LogoType + ";base64," + picture) //nolint:gosec // of our configuration
	}
	if v.ReturnURL != "" && at == placeUnknown {
		p.Return = returnURL(v)
	}
	ancestors := "; frame-ancestors 'none'"
	if at == placeUnknown {
		ancestors = ""
	}
	setPolicy(w, "default-src 'none'; script-src 'nonce-"+p.Nonce+"'; style-src 'nonce-"+p.Nonce+
		"'; img-src data:; base-uri 'none'; form-action 'none'"+ancestors)
	h.render(w, http.StatusOK, "end.html", p)
}

// wrapperPage is what the template of a wrapper document gets.
type wrapperPage struct {
	page
	Accept string
	Script string
}

// wrapper serves the document that shows a page of the issuer in a frame inside the page of
// the merchant. Any page may frame it: it does nothing until threeds.js sends it a message.
func (h *handler) wrapper(w http.ResponseWriter, r *http.Request) {
	p := wrapperPage{
		page: h.newPage(r, "", Looks{}, ""), Accept: charset.Decode(readList(r, "Accept")), Script: web.WrapperScript,
	}
	lab := ""
	if h.IsLab {
		lab = labSources + " 'self'"
	}
	setPolicy(w, "default-src 'none'; script-src 'nonce-"+p.Nonce+"'; style-src 'nonce-"+p.Nonce+"'; connect-src 'self'; "+
		"frame-src https:"+lab+"; form-action https:"+lab+"; base-uri 'none'")
	h.render(w, http.StatusOK, "wrapper.html", p)
}
