package sandbox

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/openthreeds/threeds/sandbox/internal/page"
)

// The issuer's pages.
const (
	methodPath       = "/method"
	silentMethodPath = "/method/silent"
	challengePath    = "/challenge"
	sdkPath          = "/sdk"
	bankPath         = "/bank"
)

// An issuer is the ACS: what a browser opens. On a port of its own it is plain http, so
// that a page of a shop can frame it without a question about certificates.
type issuer struct {
	box     *Sandbox
	url     string
	path    string // of url, without a slash at the end: in front of every path of a page
	handler http.Handler
}

func newIssuer(s *Sandbox) (*issuer, error) {
	a := &issuer{box: s}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+methodPath, a.method)
	mux.HandleFunc("POST "+methodPath, a.method)
	mux.HandleFunc("GET "+silentMethodPath, a.silentMethod)
	mux.HandleFunc("POST "+silentMethodPath, a.silentMethod)
	mux.HandleFunc("POST "+challengePath, a.challenge)
	mux.HandleFunc("GET "+challengePath+"/{acsTransID}", a.onChallenge(a.showAgain))
	mux.HandleFunc("POST "+challengePath+"/{acsTransID}", a.onChallenge(a.reply))
	mux.HandleFunc("GET "+challengePath+"/{acsTransID}/over", a.onChallenge(a.tellEnd))
	mux.HandleFunc("POST "+sdkPath, a.answerSDK)
	mux.HandleFunc("GET "+bankPath+"/{acsTransID}", a.showBankApp)
	mux.HandleFunc("POST "+bankPath+"/{acsTransID}", a.decideInBankApp)
	mux.HandleFunc("POST "+v1Path+"{scheme}", a.payerAuthentication)
	limited := http.MaxBytesHandler(mux, maxBody)
	if s.PagesURL != "" {
		base, err := url.Parse(s.PagesURL)
		if err != nil {
			return nil, fmt.Errorf("PagesURL: %w", err)
		}
		a.url, a.path = strings.TrimSuffix(s.PagesURL, "/"), strings.TrimSuffix(base.Path, "/")
		a.handler = s.countRequests(http.StripPrefix(a.path, limited))
		return a, nil
	}
	if s.PagesListen != "" {
		return a, a.listenSecurely(limited)
	}
	a.handler = s.guard(limited)
	l, err := s.listen(a.handler, nil)
	if err != nil {
		return nil, err
	}
	a.url = l.url
	return a, nil
}

// listenSecurely serves the pages with https at PagesListen.
func (a *issuer) listenSecurely(pages http.Handler) error {
	cert, err := a.box.certs.issuers.Issue("acs.sandbox.test", a.box.certs.hosts...)
	if err != nil {
		return err
	}
	a.handler = pages
	conf := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	l, err := a.box.listenAt(a.box.PagesListen, pages, conf)
	if err != nil {
		return fmt.Errorf("listener of the issuers' pages: %w", err)
	}
	a.url = l.url
	return nil
}

// show writes a page.
func (s *Sandbox) show(w http.ResponseWriter, status int, v page.View) {
	v.Nonce = random(18)
	if err := v.Write(w, status); err != nil {
		s.log.Debug("page not written", "page", v.Name, "err", err)
	}
}

// showFailure is the page for requests that belong to no transaction, so that there is
// no shop to tell.
func (s *Sandbox) showFailure(w http.ResponseWriter, status int, text, detail string) {
	s.show(w, status, page.View{Name: "error", Title: "This page cannot be shown", Text: text, Detail: detail})
}
