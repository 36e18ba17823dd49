package directory

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/openthreeds/threeds/internal/peers/tunnel"
)

var errNotConfigured = errors.New("not a configured address")

// dialer connects to the addresses of one peer, and to no others. These are the configured addresses and those that the
// directory server listed in a PRes. The certificate of each has to chain to the same authorities.
type dialer struct {
	tls        map[string]*tls.Config                   // TLS configurations of the configured addresses, by HOST:PORT
	listedHost func(addr string) (host string, ok bool) // looks up an address in the PRes in use
	baseTLS    *tls.Config                              // TLS configuration for listed addresses, without ServerName
	timeout    time.Duration                            // limit of DNS look-up, connection and handshake together
	net        net.Dialer
	proxy      *tunnel.Dialer // connects through the forward proxy; nil means directly
}

// keepAlive detects within half a minute that the other side of a connection is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// dialWithoutTLS connects to any address without a TLS handshake, which the [http.Transport] for files makes itself.
func (d *dialer) dialWithoutTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return d.dialTCP(ctx, network, addr)
}

// dialTCP connects directly or through the proxy.
func (d *dialer) dialTCP(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.proxy != nil {
		return d.proxy.DialContext(ctx, network, addr)
	}
	return d.net.DialContext(ctx, network, addr)
}

// dialTLS connects to one of the peer's addresses and makes the TLS handshake.
func (d *dialer) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	config, ok := d.tls[addr]
	if !ok {
		host, ok := d.listedHost(addr)
		if !ok {
			return nil, errNotConfigured
		}
		config = d.baseTLS.Clone()
		config.ServerName = host
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	raw, err := d.dialTCP(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(raw, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	if connected, ok := ctx.Value(connectedKey{}).(func()); ok {
		connected()
	}
	return secured, nil
}

// connectedKey is the key of a context value of type func(). It is called when a connection has been made for a
// request, TLS handshake included.
type connectedKey struct{}
