package directory

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"slices"

	"github.com/openthreeds/threeds/internal/peers/ranges"
)

// Next returns the client that follows c after the configuration has changed, or an error with all faults of the peers.
// Unchanged peers are shared with c: they keep their connections and limits, and the Run of c goes on refreshing their
// card ranges. Make cards from those of c with [ranges.Schemes.Next].
//
// Call Resume and Run of the next client, send requests to it, and then call Retire of c. Exchanges that c has under
// way go on. Close only the last client.
func (c *Client) Next(peers []Peer, cards *ranges.Schemes) (*Client, error) {
	next := &Client{
		LeaseTime: c.LeaseTime, cards: cards, keeper: c.keeper, node: c.node, log: c.log, hooks: c.hooks, reports: c.reports,
	}
	if err := next.addPeers(peers, c); err != nil {
		return nil, err
	}
	return next, nil
}

// Retire stops refreshing the card ranges of the peers that next does not share, and closes their idle connections.
// Call it again when c has answered its last request, to close the connections that have become idle since.
func (c *Client) Retire(next *Client) {
	for i, p := range c.order {
		if next.peers[p.Scheme] != p {
			c.refreshers[i].stop()
			if next.peers[p.Scheme] == nil {
				c.refreshers[i].notifier.stop()
			}
			p.breaker.stopNotifying()
			p.client.Close()
			p.files.CloseIdleConnections()
		}
	}
	for _, p := range next.order {
		if c.peers[p.Scheme] != p {
			p.breaker.publishState()
		}
	}
}

// Next is [Client.Next] for 3-D Secure 1.0.2.
func (c *V1Client) Next(peers []V1Peer) (*V1Client, error) {
	next := &V1Client{log: c.log, hooks: c.hooks, reports: c.reports, noRetries: c.noRetries}
	if err := next.addPeers(peers, c.peers); err != nil {
		return nil, err
	}
	return next, nil
}

// Retire is [Client.Retire] for 3-D Secure 1.0.2.
func (c *V1Client) Retire(next *V1Client) {
	for scheme, p := range c.peers {
		if next.peers[scheme] != p {
			p.breaker.stopNotifying()
			p.client.Close()
		}
	}
	for scheme, p := range next.peers {
		if c.peers[scheme] != p {
			p.breaker.publishState()
		}
	}
}

// equal reports whether two peers have the same configuration. It returns false if it cannot tell.
func (p Peer) equal(o Peer) bool {
	if !equalTLS(p.TLS, o.TLS) || !p.Revoked.Same(o.Revoked) || !p.Proxy.Same(o.Proxy) ||
		!slices.Equal(p.Versions, o.Versions) || o.RefNumber == nil {
		return false
	}
	for _, v := range p.Versions {
		if p.RefNumber(v) != o.RefNumber(v) {
			return false
		}
	}
	p.TLS, p.Revoked, p.Proxy, p.RefNumber = nil, nil, nil, nil
	o.TLS, o.Revoked, o.Proxy, o.RefNumber = nil, nil, nil, nil
	return reflect.DeepEqual(p, o)
}

func (p V1Peer) equal(o V1Peer) bool {
	if !equalTLS(p.TLS, o.TLS) || !p.Revoked.Same(o.Revoked) || !p.Proxy.Same(o.Proxy) {
		return false
	}
	p.TLS, p.Revoked, p.Proxy = nil, nil, nil
	o.TLS, o.Revoked, o.Proxy = nil, nil, nil
	return reflect.DeepEqual(p, o)
}

// equalTLS reports whether two configurations have the same authorities and the same client certificate. It returns
// false if a function chooses the certificate.
func equalTLS(a, b *tls.Config) bool {
	return a != nil && b != nil && a.GetClientCertificate == nil && b.GetClientCertificate == nil &&
		a.RootCAs.Equal(b.RootCAs) && slices.EqualFunc(a.Certificates, b.Certificates, func(x, y tls.Certificate) bool {
		return slices.EqualFunc(x.Certificate, y.Certificate, bytes.Equal)
	})
}
