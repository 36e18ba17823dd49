package sandbox

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/openthreeds/threeds/sandbox/internal/pki"
)

// certificates are all that the sandbox vouches for. There is one authority
// for each direction: who trusts a directory server does not thereby trust a
// 3-D Secure server.
type certificates struct {
	directories *pki.Authority // signs the directory servers, as servers and with an RReq
	servers     *pki.Authority // signs the 3-D Secure server, as a client and for its results listener
	issuers     *pki.Authority // signs the issuer that signs acsSignedContent
	results     tls.Certificate
	signer      tls.Certificate
	hosts       []string
}

// certificateHosts are the names and addresses of this machine, and those of the listeners besides listenHost, for
// certificates.
func (s *Sandbox) certificateHosts(listenHost string) []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	more := []string{listenHost}
	if s.DirectoriesListen != "" {
		host, _, _ := net.SplitHostPort(s.DirectoriesListen) // a wrong address fails when it is listened on
		more = append(more, host)
		if pages, err := url.Parse(s.PagesURL); err == nil {
			more = append(more, pages.Hostname())
		}
	}
	if s.PagesListen != "" {
		host, _, _ := net.SplitHostPort(s.PagesListen) // as above
		more = append(more, host)
	}
	for _, host := range more {
		if host != "" && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// newCertificates makes them, for the hosts of the listeners.
func (s *Sandbox) newCertificates(hosts []string) (*certificates, error) {
	c := &certificates{hosts: hosts}
	for _, a := range []struct {
		name, file string
		into       **pki.Authority
	}{
		{"Sandbox directory servers CA", "directories", &c.directories},
		{"Sandbox 3DS Servers CA", "servers", &c.servers},
		{"Sandbox issuers CA", "issuers", &c.issuers},
	} {
		made, err := s.makeAuthority(a.name, a.file)
		if err != nil {
			return nil, fmt.Errorf("making the %s: %w", a.name, err)
		}
		*a.into = made
	}
	var err error
	if c.results, err = s.makePair(c.servers, "results", "results.sandbox.test", c.hosts...); err != nil {
		return nil, err
	}
	c.signer, err = c.issuers.Issue("acs.sandbox.test")
	return c, err
}

// makeAuthority makes an authority, or reads the one that CertificatesDir keeps.
func (s *Sandbox) makeAuthority(name, file string) (*pki.Authority, error) {
	if s.CertificatesDir == "" {
		return pki.NewAuthority(name)
	}
	return pki.KeepAuthority(filepath.Join(s.CertificatesDir, "authorities", file), name)
}

// makePair makes a certificate of the 3-D Secure server, or reads the one that CertificatesDir
// keeps under file.
func (s *Sandbox) makePair(a *pki.Authority, file, name string, hosts ...string) (tls.Certificate, error) {
	issue := func() (tls.Certificate, error) { return a.Issue(name, hosts...) }
	if s.CertificatesDir == "" {
		return issue()
	}
	return pki.Keep(filepath.Join(s.CertificatesDir, filepath.FromSlash(file)), issue)
}
