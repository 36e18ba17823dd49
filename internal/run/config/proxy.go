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

// ProxyURL is where a forward proxy is. The zero value stands for a URL that was
// refused.
type ProxyURL struct {
	Address string // HOST:PORT
	TLS     bool
	Direct  bool // none, for a directory that does without that of all
}

// parseProxy reads the URL of a forward proxy, which must hold no secret, or direct.
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
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" ||
		strings.HasSuffix(s, "#"):
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

// checkProxies checks the values of forward proxies against each other.
func (l *loader) checkProxies() {
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
			l.fault(path+".credentials", "direct is no proxy, so it takes no credentials")
		}
	}
}

// loadProxyFiles reads the files of forward proxies.
func (l *loader) loadProxyFiles(now time.Time) {
	for path, p := range l.config.proxies {
		l.loadCA(&p.CA, path+".ca", now)
		path += ".credentials"
		data, ok := l.openSecret(p.Credentials, path, "password")
		if !ok {
			continue
		}
		text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
		p.User, p.Password, ok = strings.Cut(text, ":")
		if !ok || p.User == "" || len(text) > 1000 ||
			strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			l.fault(path, "the file does not hold one line, USER:PASSWORD, of at most 1000 bytes that print")
		}
	}
}

// warnOfProxies adds the warnings about forward proxies.
func (l *loader) warnOfProxies() {
	for path, p := range l.config.proxies {
		if p.Credentials != "" && p.URL.Address != "" && !p.URL.TLS && !isLoopback(p.URL.Address) {
			l.warn(path+".credentials", "travel in the clear to an http proxy (https://HOST:PORT is TLS to the proxy)")
		}
	}
}

// UnreadProxyVariable returns the name of a variable of the environment by which other programs find a proxy, if one is
// set and the configuration says nothing about a proxy. The operator who set it may expect the server to use it. The
// server does not: payments must not depend on what a process happens to inherit.
func (c *Config) UnreadProxyVariable(lookup func(string) (string, bool)) string {
	for range c.proxies {
		return ""
	}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		if value, ok := lookup(name); ok && value != "" {
			return name
		}
	}
	return ""
}
