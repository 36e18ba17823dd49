// Package page writes what a cardholder's browser sees of the issuers: the pages of a challenge, of the app of a bank
// and of 3-D Secure 1.0.2, see [View], and the page that an SDK shows in an app, see [SDK].
package page

import (
	"embed"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/base/iso"
	"github.com/openthreeds/threeds/sandbox/internal/scenario"
)

// A View is what a page is made of.
type View struct {
	Name   string // of the template
	Nonce  string // of its script and style, random
	Title  string
	Scheme string
	Text   string
	Detail string // for developers

	Form  *Form // leaves for the shop
	After int64 // by itself, after so many milliseconds

	Merchant, Amount, Card, Last string
	Action                       string // where the page's own form goes
	Note                         string // what just happened
	Wrong                        bool   // and whether it is bad news
	Left                         int    // tries
	Code                         string
	Step                         int          // which of the challenge's pages it is
	Framed                       bool         // it stands in a page of the shop
	Unframed                     bool         // it may not
	Back                         template.URL // opens the app of the shop again; "" if it has no address
	Tall                         bool         // it is taller than its frame
}

// Terms are what a tall page has above its form.
func (v View) Terms() []string { return slices.Repeat(terms, 3) }

// terms are as long as a bank's are.
var terms = []string{
	"Please check that the shop and the amount above are those that you expect. " +
		"Your bank never asks for this code on the telephone, in an e-mail or in a message of any kind.",
	"By entering the code you agree that the amount is paid with your card. " +
		"What the shop has promised you is between you and the shop, and your bank has no part in it.",
	"If you did not order anything, choose Cancel below and call the number on the back of your card. " +
		"Nothing is paid without the code.",
	"Your bank keeps what it needs to prove that it was you who agreed: the time, the amount and the " +
		"address of your device. It does so as long as the law requires.",
}

// A Form is fields for an address of the shop's.
type Form struct {
	URL    string
	Fields []Field
}

// A Field is one of them.
type Field struct{ Name, Value string }

// Write writes a page. Any site may frame it, unless it says otherwise. It fetches nothing, and its scripts and styles
// carry the nonce. Only pages that say so may send forms to the shop.
func (v View) Write(w http.ResponseWriter, status int) error {
	forms := "'self'"
	if v.Form != nil {
		// The shop's page may send the browser on, and a form's policy holds
		// for where it is sent, too.
		forms = "http: https:"
	}
	if v.Name == "outside" { // it asks whether it is over
		forms += "; connect-src 'self'"
	}
	h, ancestors := w.Header(), "*"
	if v.Unframed {
		ancestors = "'none'"
		h.Set("X-Frame-Options", "DENY")
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "origin")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+v.Nonce+"'; script-src 'nonce-"+v.Nonce+
		"'; form-action "+forms+"; base-uri 'none'; frame-ancestors "+ancestors)
	w.WriteHeader(status)
	return pages.ExecuteTemplate(w, v.Name, v)
}

// trusted is our own style sheet and script for the templates, and the value of a hidden field.
var trusted = template.FuncMap{
	"css":        func() template.CSS { return template.CSS(styleText) },
	"js":         func() template.JS { return template.JS(scriptText) },
	"fieldValue": fieldValue,
}

// fieldValue is the attribute value of a hidden field. The template alone would write "+" as "&#43;",
// which no issuer does, and which programs that read the page as text do not undo.
func fieldValue(value string) template.HTMLAttr {
	return template.HTMLAttr(`value="` + template.HTMLEscapeString(value) + `"`)
}

//go:embed files/*.html
var pageFiles embed.FS

//go:embed files/style.css
var styleText string

//go:embed files/page.js
var scriptText string

var pages = template.Must(template.New("pages").Funcs(trusted).ParseFS(pageFiles, "files/*.html"))

// Amount writes what is paid for people: minor units, the exponent and the
// currency become 1,234.50 EUR. It is "" when nothing is paid.
func Amount(minor, exponent, currency string) string {
	if minor == "" || !scenario.IsDigits(minor) {
		return ""
	}
	places, _ := strconv.Atoi(exponent)
	minor = strings.TrimLeft(minor, "0")
	minor = strings.Repeat("0", max(0, places+1-len(minor))) + minor
	whole, part := minor[:len(minor)-places], minor[len(minor)-places:]
	var text strings.Builder
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			text.WriteByte(',')
		}
		text.WriteRune(c)
	}
	if part != "" {
		text.WriteString("." + part)
	}
	letters, ok := iso.CurrencyLetters(currency)
	if !ok {
		letters = currency
	}
	return text.String() + " " + letters
}
