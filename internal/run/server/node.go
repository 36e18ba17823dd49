package server

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/edge/pages"
	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
)

// DirectoryCAs are the CA certificates of one directory, for those who look at it.
type DirectoryCAs struct {
	Server []*x509.Certificate // to which its own certificate must chain
	Client []*x509.Certificate // and when it posts a result
}

// newNode returns the server as the admin API sees it.
func (s *Server) newNode() *admin.Node {
	return &admin.Node{
		Directories:   s.describeDirectories,
		Problems:      s.console.Problems,
		Endings:       func() map[string]time.Time { return s.activeRuntime().cfg.CertificateEnds },
		Members:       s.members,
		Generation:    func(scheme string) *ranges.Generation { return s.activeRuntime().cards.Generation(scheme) },
		HasFile:       func() bool { return s.describeConfig != nil },
		Configuration: func() *admin.Configuration { return s.describeConfig() },
		TroubledEndpoints: func(ctx context.Context) ([]admin.TroubledEndpoint, error) {
			endpoints, err := s.hooks.TroubledEndpoints(ctx)
			var all []admin.TroubledEndpoint
			for _, e := range endpoints {
				all = append(all,
					admin.TroubledEndpoint{ID: e.ID, Merchant: e.Merchant, IsDisabled: e.Disabled, Failing: e.Failing})
			}
			return all, err
		},
	}
}

// describeScheme returns what the configuration in use says of a scheme, for pages.
func (s *Server) describeScheme(word string) pages.Scheme {
	rt := s.activeRuntime()
	got := pages.Scheme{Rules: scheme.Public(word), Colour: rt.cfg.Colours[word]}
	for i := range rt.cfg.Directories {
		if d := &rt.cfg.Directories[i]; d.Scheme == word && d.Rules != nil {
			got.Rules = d.Rules
		}
	}
	return got
}

// describeDirectories returns the directories of the runtime in use.
func (s *Server) describeDirectories() []admin.Directory {
	rt := s.activeRuntime()
	all := []admin.Directory{}
	for i, p := range rt.cfg.Peers {
		rules := rt.cfg.Directories[i].Rules
		d := admin.Directory{
			Scheme: p.Scheme, Key: fmt.Sprintf("directories[%d]", i), AReqURL: p.AReqURL, PReqURL: p.PReqURL,
			OperatorID: p.OperatorID, ResultsURL: rt.cfg.Directories[i].ResultsURL, TimeoutMS: p.Timeout.Milliseconds(),
			Versions: []string{}, ClientNames: []string{}, RIDs: append([]string{}, rules.RIDs()...),
			ECI: append([]scheme.CodeMeaning{}, rules.Codes("eci")...), Colour: rt.cfg.Colours[p.Scheme],
			Breaker: admin.NewBreaker(rt.client.Breaker(p.Scheme)), Managed: rt.cfg.Managed[p.Scheme] != "",
		}
		for _, v := range p.Versions {
			d.Versions = append(d.Versions, v.String())
		}
		if p.Proxy != nil {
			d.Proxy = p.Proxy.Address
		}
		if len(p.TLS.Certificates) > 0 {
			d.Certificate = admin.DescribePair(&p.TLS.Certificates[0])
		}
		if n := slices.IndexFunc(rt.cfg.Clients, func(c certs.Client) bool { return c.Scheme == p.Scheme }); n >= 0 {
			d.ClientNames = append(d.ClientNames, rt.cfg.Clients[n].Names...)
		}
		cas := rt.cfg.CAs[p.Scheme]
		d.SetRoots(cas.Server, cas.Client)
		d.Refresh, d.MinRefresh = cmp.Or(p.Refresh, 4*time.Hour), p.MinRefresh
		all = append(all, d)
	}
	return all
}
