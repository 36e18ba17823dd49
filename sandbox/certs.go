package sandbox

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
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

// certificateHosts are the names and addresses of this machine, and those of the
// listeners beside listenHost, for certificates.
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
	for _, host := range more {
		if host != "" && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// newCertificates makes them, for the hosts of the listeners.
func newCertificates(hosts []string) (*certificates, error) {
	c := &certificates{hosts: hosts}
	for _, a := range []struct {
		name string
		into **pki.Authority
	}{
		{"Sandbox directory servers CA", &c.directories},
		{"Sandbox 3DS Servers CA", &c.servers},
		{"Sandbox issuers CA", &c.issuers},
	} {
		made, err := pki.NewAuthority(a.name)
		if err != nil {
			return nil, fmt.Errorf("making the %s: %w", a.name, err)
		}
		*a.into = made
	}
	var err error
	if c.results, err = c.servers.Issue("results.sandbox.test", c.hosts...); err != nil {
		return nil, err
	}
	c.signer, err = c.issuers.Issue("acs.sandbox.test")
	return c, err
}
