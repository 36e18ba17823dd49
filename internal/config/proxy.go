package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ProxyURL is where a forward proxy is. The zero value stands for an URL that was
// refused.
type ProxyURL struct {
	Address string // HOST:PORT
	TLS     bool
	Direct  bool // none, for a directory that does without that of all
}

// parseProxy takes the URL of a forward proxy without a secret in it, or direct.
func parseProxy(s string) (ProxyURL, error) {
	if s == "direct" {
		return ProxyURL{Direct: true}, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return ProxyURL{}, errors.New("not such a URL (http://HOST:PORT, https://HOST:PORT or direct)")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case u.User != nil:
		return ProxyURL{}, errors.New("holds a user or a password (they belong into a file: credentials)")
	case u.Port() == "":
		return ProxyURL{}, errors.New("has no port (there is none that all proxies have: http://HOST:PORT)")
	case err != nil || port == 0:
		return ProxyURL{}, errors.New("the port is not a number from 1 to 65535")
	case net.ParseIP(u.Hostname()) == nil && !hostPattern.MatchString(u.Hostname()):
		return ProxyURL{}, errors.New("the host is neither an IP address nor a name")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(s, "#"):
		return ProxyURL{}, errors.New("has more than a host and a port in it (http://HOST:PORT)")
	}
	return ProxyURL{Address: net.JoinHostPort(u.Hostname(), u.Port()), TLS: u.Scheme == "https"}, nil
}

// proxies are the forward proxies of a configuration, by the paths of their sections.
func (c *Config) proxies(yield func(path string, p *Proxy) bool) {
	if c.ForwardProxy != nil && !yield("forward_proxy", c.ForwardProxy) {
		return
	}
	for i, d := range c.Directories {
		if d.ForwardProxy != nil && !yield(fmt.Sprintf("directories[%d].forward_proxy", i), d.ForwardProxy) {
			return
		}
	}
	for i, d := range c.V1 {
		if d.ForwardProxy != nil && !yield(fmt.Sprintf("v1[%d].forward_proxy", i), d.ForwardProxy) {
			return
		}
	}
}

// relationsProxy is relations for forward proxies.
func (l *loader) relationsProxy() {
	for path, p := range l.config.proxies {
		switch known := slices.ContainsFunc(l.faults, func(f Fault) bool { return f.Key == path+".ca" }); {
		case p.URL.TLS && p.CA.File == "" && !known:
			l.fault(path+".ca", "missing (an https proxy shows a certificate, and no authority is trusted by itself)")
		case p.URL.Address != "" && !p.URL.TLS && p.CA.File != "":
			l.fault(path+".ca", "an http proxy shows no certificate (https://HOST:PORT is TLS to the proxy)")
		case p.URL.Direct && p.CA.File != "":
			l.fault(path+".ca", "direct is no proxy, so there is nothing to trust")
		}
		if p.URL.Direct && p.Credentials != "" {
			l.fault(path+".credentials", "direct is no proxy, so nobody wants them")
		}
	}
}

// filesProxy is loadFiles for forward proxies.
func (l *loader) filesProxy(now time.Time) {
	for path, p := range l.config.proxies {
		l.ca(&p.CA, path+".ca", now)
		path += ".credentials"
		data, ok := l.open(p.Credentials, path)
		if !ok {
			continue
		}
		if public(p.Credentials) {
			l.caution(path, "every user of this machine may read the password: chmod o-r %s", p.Credentials)
		}
		text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
		p.User, p.Password, ok = strings.Cut(text, ":")
		if !ok || p.User == "" || len(text) > 1000 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			l.fault(path, "the file does not hold one line, USER:PASSWORD, of at most 1000 bytes that print")
		}
	}
}

// warnProxy is warn for forward proxies.
func (l *loader) warnProxy() {
	for path, p := range l.config.proxies {
		if p.Credentials != "" && p.URL.Address != "" && !p.URL.TLS && !loopback(p.URL.Address) {
			l.caution(path+".credentials", "travel in the clear to an http proxy (https://HOST:PORT is TLS to the proxy)")
		}
	}
}

// UnreadProxyVariable names a variable of the environment by which other programs find a proxy, if
// one is set and the configuration says nothing of a proxy: whoever has set it may
// expect the server to use it. The server does not: payments are not to depend on what a
// process happens to inherit from whoever starts it.
func (c *Config) UnreadProxyVariable(lookup func(string) (string, bool)) string {
	for range c.proxies {
		return ""
	}
	return firstSet(lookup, "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
}

// firstSet is the first of some variables of the environment that has a value; "": none.
func firstSet(lookup func(string) (string, bool), names ...string) string {
	for _, name := range names {
		if value, ok := lookup(name); ok && value != "" {
			return name
		}
	}
	return ""
}
