package config

import (
	"fmt"
	"net"
	"net/url"
)

// ConsoleURL returns where /readyz of a server with this configuration is. certificate is the file of the certificate
// that answers there, "" if any is good that the machine trusts. It returns an error if only a server that runs knows
// its port.
func (c *Config) ConsoleURL() (at *url.URL, certificate string, err error) {
	key, address, scheme := "console.listen", c.Console.Listen, "http"
	switch {
	case c.Console.MetricsListen != "":
		key, address = "console.metrics_listen", c.Console.MetricsListen
	case c.Console.TLS != nil:
		scheme, certificate = "https", c.Console.TLS.Cert
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", key, err)
	}
	if port == "0" {
		return nil, "", fmt.Errorf("%s: port 0 is chosen at the start (name the address with --url)", key)
	}
	ip := net.ParseIP(host)
	switch {
	case host == "", ip.Equal(net.IPv4zero): // all addresses of this machine
		host = "127.0.0.1"
	case ip.Equal(net.IPv6unspecified):
		host = "::1"
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}, certificate, nil
}
