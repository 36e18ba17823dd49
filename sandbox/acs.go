package sandbox

import (
	"html/template"
	"net/http"
)

// The issuer's pages.
const (
	methodPath       = "/method"
	silentMethodPath = "/method/silent"
	challengePath    = "/challenge"
	sdkPath          = "/sdk"
)

// An issuer is the ACS: what a browser opens, over plain http, so that a page
// of a shop can frame it without a question about certificates.
type issuer struct {
	box *Sandbox
	url string
}

func newIssuer(s *Sandbox) (*issuer, error) {
	a := &issuer{box: s}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+methodPath, a.method)
	mux.HandleFunc("POST "+methodPath, a.method)
	mux.HandleFunc("GET "+silentMethodPath, a.silentMethod)
	mux.HandleFunc("POST "+silentMethodPath, a.silentMethod)
	mux.HandleFunc("POST "+challengePath, a.challenge)
	mux.HandleFunc("GET "+challengePath+"/{acsTransID}", a.again)
	mux.HandleFunc("POST "+challengePath+"/{acsTransID}", a.reply)
	mux.HandleFunc("POST "+v1Path+"{scheme}", a.payerAuthentication)
	l, err := s.listen(s.guard(limitBody(mux)), nil)
	if err != nil {
		return nil, err
	}
	a.url = l.url
	return a, nil
}

func limitBody(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		h.ServeHTTP(w, r)
	})
}

// show writes a page. It may be framed by anybody, unless it says otherwise, and
// fetches nothing; what is script or style in it carries the nonce. Forms may leave
// for the shop only on pages that say so.
func (s *Sandbox) show(w http.ResponseWriter, status int, p view) {
	p.Nonce = random(18)
	forms := "'self'"
	if p.Form != nil {
		// The shop's page may send the browser on, and a form's policy holds
		// for where it is sent, too.
		forms = "http: https:"
	}
	h, ancestors := w.Header(), "*"
	if p.Unframed {
		ancestors = "'none'"
		h.Set("X-Frame-Options", "DENY")
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "origin")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+p.Nonce+"'; script-src 'nonce-"+p.Nonce+
		"'; form-action "+forms+"; base-uri 'none'; frame-ancestors "+ancestors)
	w.WriteHeader(status)
	if err := pages.ExecuteTemplate(w, p.Name, p); err != nil {
		s.log.Debug("page not written", "page", p.Name, "err", err)
	}
}

// A view is what a page is made of.
type view struct {
	Name   string // of the template
	Nonce  string
	Title  string
	Scheme string
	Text   string
	Detail string // for developers

	Form  *form // leaves for the shop
	After int64 // by itself, after so many milliseconds

	Merchant, Amount, Card, Last string
	Action                       string // where the page's own form goes
	Note                         string // what just happened
	Wrong                        bool   // and whether it is bad news
	Left                         int    // tries
	Code                         string
	Step                         int  // which of the challenge's pages it is
	Framed                       bool // it stands in a page of the shop
	Unframed                     bool // it may not
}

// A form is fields for an address of the shop's.
type form struct {
	URL    string
	Fields []field
}

type field struct{ Name, Value string }

// fail is the page for requests that belong to no transaction, so that there is
// no shop to tell.
func (s *Sandbox) fail(w http.ResponseWriter, status int, text, detail string) {
	s.show(w, status, view{Name: "error", Title: "This page cannot be shown", Text: text, Detail: detail})
}

// trusted is our own style sheet and script for the templates.
var trusted = template.FuncMap{
	"css": func() template.CSS { return template.CSS(styleText) },
	"js":  func() template.JS { return template.JS(scriptText) },
}
