package sandbox

import (
	"crypto/tls"
	_ "embed"
	"io"
	"net/http"
	"strings"

	"github.com/openthreeds/threeds/sandbox/internal/cards"
	"github.com/openthreeds/threeds/sandbox/internal/page"
	v1 "github.com/openthreeds/threeds/sandbox/v1"
)

//go:embed scenarios/v1.txt
var v1Text string

// V1Table is scenarios/v1.txt: what each test card and each merchant id does in 3-D Secure 1.0.2, and how to read it.
func V1Table() string { return v1Text }

// A V1Directory is what a merchant plug-in has to know of a directory server of 3-D Secure 1.0.2.
type V1Directory = v1.Directory

// V1Directories describes each directory server of 3-D Secure 1.0.2, in a fixed order.
func (s *Sandbox) V1Directories() []V1Directory {
	if s.v1 == nil {
		return nil
	}
	return s.v1.Directories()
}

// v1Path, with a scheme after it, is the page of 3-D Secure 1.0.2.
const v1Path = "/v1/"

// v1Options is what package v1 needs of the sandbox.
func (s *Sandbox) v1Options() v1.Options {
	o := v1.Options{
		Table: v1Text, Nice: s.Nice, Keep: s.Keep, Hosts: s.certs.hosts, PageURL: s.acs.url + v1Path,
		Now: s.Now, Log: s.log, SchemeOf: cards.SchemeOf, Go: s.background.Go, Alter: s.alter,
		Listen: func(h http.Handler, c *tls.Config) (string, error) {
			l, err := s.listen(h, c)
			if err != nil {
				return "", err
			}
			return l.url, nil
		},
		Note: func(messageID, from, to, kind string, message []byte) {
			s.record(messageID, from, to, kind, message, "")
		},
	}
	for _, word := range []string{"visa", "mastercard", "amex", "jcb", "protectbuy"} {
		scheme := s.schemes[word].scheme
		o.Schemes = append(o.Schemes, v1.Scheme{Word: word, Name: scheme.Name, ECI: scheme.Yes, AttemptECI: scheme.Attempt})
	}
	return o
}

// payerAuthentication takes the PAReq that a browser brings from the shop. A client that accepts text and no page gets
// the PaRes alone, for a command line.
func (a *issuer) payerAuthentication(w http.ResponseWriter, r *http.Request) {
	const unreadable = "The shop has sent this page something it cannot read."
	back := r.PostFormValue("TermUrl")
	_, hasMD := r.PostForm["MD"]
	scheme := r.PathValue("scheme")
	switch {
	case a.box.v1 == nil || !a.box.v1.Has(scheme):
		a.box.showFailure(w, http.StatusNotFound, "There is no such page.", "scheme in the address")
		return
	case !webURL(back) || len(back) > 2048:
		a.box.showFailure(w, http.StatusBadRequest, unreadable, "TermUrl is missing or no web address")
		return
	case !hasMD:
		a.box.showFailure(w, http.StatusBadRequest, unreadable, "MD is missing; it may be empty")
		return
	}
	p, err := a.box.v1.Authenticate(scheme, r.PostFormValue("PaReq"))
	if err != nil {
		a.box.showFailure(w, http.StatusBadRequest, unreadable, "PaReq is missing or "+err.Error())
		return
	}
	w.Header().Add("Vary", "Accept")
	if strings.HasPrefix(r.Header.Get("Accept"), "text/plain") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, p.PaRes+"\n") // the client has gone, or reads it
		return
	}
	a.box.show(w, http.StatusOK, page.View{
		Name: "v1", Title: p.Title, Scheme: p.Scheme, Text: p.Text, Wrong: p.Wrong, Detail: p.Detail,
		Merchant: p.Merchant, Amount: page.Amount(p.MinorUnits, p.Exponent, p.Currency), Last: p.LastFour,
		After: a.box.PageDelay.Milliseconds(),
		Form: &page.Form{URL: back, Fields: []page.Field{{Name: "PaRes", Value: p.PaRes},
			{Name: "MD", Value: r.PostFormValue("MD")}}},
	})
}
