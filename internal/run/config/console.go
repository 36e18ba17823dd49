package config

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/operate/ops"
)

func readConsole(s *section) (c Console) {
	defer s.close()
	c.Listen = optional(s, "listen", address, "127.0.0.1:8090")
	c.MetricsListen = optional(s, "metrics_listen", address, "")
	c.URL = optional(s, "url", consoleURL, "")
	c.TLS = optionalSection(s, "tls", readKeyPair)
	c.Passkeys = optional(s, "passkeys", boolean, "true")
	c.Session = optional(s, "session", duration("1s", "168h"), "12h")
	c.Idle = optional(s, "idle", duration("1m", "168h"), "15m")
	c.FourEyes = list(s, "four_eyes", oneOf(ops.Groups()...), false)
	c.OIDC = optionalSection(s, "oidc", readOIDC)
	return c
}

func readOIDC(s *section) (o OIDC) {
	defer s.close()
	o.Issuer = required(s, "issuer", issuerURL)
	o.ClientID = required(s, "client_id", text(1, 255))
	o.ClientSecret = optional(s, "client_secret", s.l.path(), "")
	o.CA = optional(s, "ca", s.l.caFile(), "")
	o.Scopes = list(s, "scopes",
		kind[string]{want: "scope such as openid", ofMany: "list of scopes such as `openid`", parse: parseScope}, false)
	o.NameClaim = optional(s, "name_claim", text(1, 255), "email")
	o.RoleClaim = optional(s, "role_claim", text(1, 255), "groups")
	group := text(1, 255)
	group.ofMany = "list of groups"
	roles := s.section("roles")
	o.Roles.Admin = list(roles, "admin", group, false)
	o.Roles.Operator = list(roles, "operator", group, false)
	o.Roles.Viewer = list(roles, "viewer", group, false)
	roles.close()
	o.Merchants = mapOf(s, "merchants", group, nameOf(maxMerchantName))
	o.MerchantGroups = mapOf(s, "merchant_groups", group, merchantGroup)
	if len(o.Scopes) == 0 {
		o.Scopes = []string{"openid", "email"}
	}
	return o
}

// parseScope reads a scope of OAuth 2.0: RFC 6749, section 3.3.
func parseScope(s string) (string, error) {
	isOther := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
	if strings.ContainsFunc(s, isOther) {
		return "", errors.New("not a scope (printable ASCII without spaces, quotes and backslashes)")
	}
	return s, nil
}

// parseIssuer reads the URL of an issuer, which is compared byte by byte.
func parseIssuer(s string) (string, error) {
	text, err := parseURL(s, "https", "http")
	if err != nil {
		return "", err
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", err
	case u.RawQuery != "" || u.ForceQuery:
		return "", errors.New("has a ? part (an issuer has none)")
	case u.Scheme == "http" && !isLoopback(net.JoinHostPort(u.Hostname(), "0")):
		return "", errors.New("is http, which is only for localhost and loopback addresses")
	}
	return text, nil
}

// checkConsole checks the values of the section console against each other.
func (l *loader) checkConsole() {
	c := &l.config.Console
	host := ""
	if u, err := url.Parse(c.URL); err == nil {
		host = u.Hostname()
	}
	isUnset := c.URL == "" && l.positions["console.url"] == nil
	if isUnset && c.OIDC != nil {
		l.fault("console.oidc", "needs console.url, which the issuer sends operators back to")
	}
	if isUnset && c.Passkeys && l.positions["console.passkeys"] != nil {
		l.fault("console.passkeys", "needs console.url, whose host name a passkey belongs to")
	}
	if net.ParseIP(host) != nil && c.Passkeys {
		l.warn("console.passkeys",
			"off, for console.url has an IP address, and a passkey belongs to a host name (such as localhost, or console.example)")
		c.Passkeys = false
	}
	if c.Passkeys = c.Passkeys && !isUnset; c.URL != "" && !c.Passkeys && c.OIDC == nil {
		l.warn("console.url", "nobody can log in to the console: neither by passkey nor by console.oidc")
	}
	if c.TLS != nil && strings.HasPrefix(c.URL, "http:") {
		l.fault("console.tls", "console.url is http (write https there, or leave the certificate out)")
	}
	if len(c.FourEyes) > 0 && c.URL == "" {
		l.fault("console.four_eyes", "needs console.url, for people allow acts in the console")
	}
	if len(c.FourEyes) > 0 && !(slices.Contains(c.FourEyes, "operators") && slices.Contains(c.FourEyes, "tokens")) {
		l.warn("console.four_eyes",
			"without operators and tokens one admin can make a second name, and allow what the first asks for")
	}
	l.checkOIDC()
}

// checkOIDC checks the values of the section console.oidc.
func (l *loader) checkOIDC() {
	o := l.config.Console.OIDC
	if o == nil {
		return
	}
	if !slices.Contains(o.Scopes, "openid") &&
		!slices.ContainsFunc(l.faults, func(f Fault) bool { return strings.HasPrefix(f.Key, "console.oidc.scopes") }) {
		l.fault("console.oidc.scopes", "openid is missing (without it the issuer says nothing of who logs in)")
	}
	if len(o.Roles.Admin)+len(o.Roles.Operator)+len(o.Roles.Viewer) == 0 {
		l.fault("console.oidc.roles", "names no group (nobody could log in: name groups for admin, operator or viewer)")
	}
}

// loadConsoleFiles reads the files of the section console.
func (l *loader) loadConsoleFiles(now time.Time) {
	c := &l.config.Console
	l.loadListenerPair("console", func(c *Config) *KeyPair { return c.Console.TLS }, now)
	if c.OIDC == nil {
		return
	}
	if c.OIDC.CA.File != "" {
		l.loadCA(&c.OIDC.CA, "console.oidc.ca", now)
	}
	const path = "console.oidc.client_secret"
	data, ok := l.openSecret(c.OIDC.ClientSecret, path, "secret")
	if !ok {
		return
	}
	c.OIDC.Secret = strings.TrimSpace(string(data))
	if c.OIDC.Secret == "" || strings.ContainsFunc(c.OIDC.Secret, func(r rune) bool { return r < ' ' }) {
		l.fault(path, "the file does not hold one line with a secret")
	}
}
