// Package browserurl checks URLs of directory servers and issuers to which a browser or an app
// is sent: acsURL, threeDSMethodURL, and the url of a VERes.
//
// Use [Policy.Check]. It reads hosts as browsers do (the URL standard of the WHATWG): a number,
// or parts in octal or hexadecimal, are an IPv4 address.
package browserurl

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// A Policy says to which URLs a browser may be sent. The zero Policy is the strict one.
type Policy struct {
	// Lab also allows the scheme http, and hosts that are the browser's own machine. It
	// is for test systems and for the sandbox.
	Lab bool
}

// The errors of [Policy.Check]. None of them quotes the URL.
var (
	ErrCharacter   = errors.New("a character that RFC 3986 has in no URL")
	ErrEscape      = errors.New("a percent sign without two hexadecimal digits")
	ErrScheme      = errors.New("the scheme is not https")
	ErrNoHost      = errors.New("no host behind https://")
	ErrUser        = errors.New("a user in front of the host")
	ErrPort        = errors.New("a port that is not a number from 1 to 65535")
	ErrHost        = errors.New("the host is no name of ASCII letters, digits, hyphens and dots, and no IP address")
	ErrLoopback    = errors.New("the host is the browser's own machine")
	ErrLinkLocal   = errors.New("the host is a link-local address")
	ErrUnspecified = errors.New("the host is the unspecified address")
)

// Check returns nil if a browser may be sent to a URL, and otherwise one of the errors above.
// It does not check the length.
func (p Policy) Check(url string) error {
	scheme, rest, ok := strings.Cut(url, "://")
	switch {
	case ok && strings.EqualFold(scheme, "https"):
	case ok && strings.EqualFold(scheme, "http") && p.Lab:
	default:
		return ErrScheme
	}
	end := strings.IndexAny(rest, `/?#\`)
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	if err := checkCharacters(path); err != nil {
		return err
	}
	if strings.Contains(authority, "@") {
		return ErrUser
	}
	host, port := splitPort(authority)
	if host == "" {
		return ErrNoHost
	}
	if err := checkPort(port); err != nil {
		return err
	}
	return p.checkHost(host)
}

// checkCharacters checks the part of a URL after the host: path, query and fragment.
func checkCharacters(path string) error {
	if _, fragment, _ := strings.Cut(path, "#"); strings.Contains(fragment, "#") {
		return ErrCharacter
	}
	for i := range len(path) {
		switch c := path[i]; {
		case isAlnum(c), strings.IndexByte("-._~:/?#[]@!$&'()*+,;=", c) >= 0:
		case c != '%':
			return ErrCharacter
		case i+2 >= len(path) || !isHex(path[i+1]) || !isHex(path[i+2]):
			return ErrEscape
		}
	}
	return nil
}

// splitPort splits an authority without a user into host and port. The port keeps its colon,
// so that a missing port differs from an empty one.
func splitPort(authority string) (host, port string) {
	at := strings.IndexByte(authority, ']') + 1 // colons inside an IPv6 address are no ports
	if i := strings.IndexByte(authority[at:], ':'); i >= 0 {
		return authority[:at+i], authority[at+i:]
	}
	return authority, ""
}

// checkPort checks a port with its colon. An empty port means that of the scheme, to browsers
// and in RFC 3986.
func checkPort(port string) error {
	if port == "" || port == ":" {
		return nil
	}
	if n, err := strconv.ParseUint(port[1:], 10, 16); err != nil || n == 0 {
		return ErrPort
	}
	return nil
}

// checkHost checks a host: an IPv6 address in brackets, an IPv4 address in any form that
// browsers accept, or a name.
func (p Policy) checkHost(host string) error {
	if host[0] == '[' {
		inside, closed := strings.CutSuffix(host[1:], "]")
		addr, err := netip.ParseAddr(inside)
		if !closed || err != nil || !addr.Is6() || addr.Zone() != "" {
			return ErrHost
		}
		return p.checkAddress(addr.Unmap())
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, label := range labels {
		if !isLabel(label) {
			return ErrHost
		}
	}
	last := labels[len(labels)-1]
	if _, ok := parseNumber(last); ok || isDigits(last) { // browsers then read an IPv4 address or nothing
		addr, ok := parseIPv4(labels)
		if !ok {
			return ErrHost
		}
		return p.checkAddress(addr)
	}
	if strings.EqualFold(last, "localhost") && !p.Lab {
		return ErrLoopback
	}
	return nil
}

// checkAddress checks an IP address. Private addresses are allowed, because an issuer may test
// in its own network.
func (p Policy) checkAddress(addr netip.Addr) error {
	switch {
	case addr.IsLoopback() && !p.Lab:
		return ErrLoopback
	case addr.IsUnspecified() || addr.Is4() && addr.As4()[0] == 0: // 0.0.0.0/8 is this host on this network (RFC 1122)
		return ErrUnspecified
	case addr.IsLinkLocalUnicast(), addr.IsLinkLocalMulticast(), addr.IsInterfaceLocalMulticast():
		return ErrLinkLocal
	}
	return nil
}

// isLabel reports whether s may stand between the dots of a host. A label of Punycode that
// ends in a hyphen encodes nothing but ASCII: browsers refuse it, or read xn--localhost-
// as localhost.
func isLabel(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && c != '-' {
			return false
		}
	}
	punycode := len(s) >= 4 && strings.EqualFold(s[:4], "xn--")
	return s != "" && !(punycode && s[len(s)-1] == '-')
}

// parseIPv4 parses an IPv4 address as browsers do: one to four numbers. The last one fills all remaining bytes.
func parseIPv4(parts []string) (netip.Addr, bool) {
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var address uint64
	for i, part := range parts {
		n, ok := parseNumber(part)
		if !ok {
			return netip.Addr{}, false
		}
		if i < len(parts)-1 {
			if n > 255 {
				return netip.Addr{}, false
			}
			address |= n << (8 * (3 - i))
			continue
		}
		if n >= 1<<(8*(4-i)) {
			return netip.Addr{}, false
		}
		address |= n
	}
	return netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)}), true
}

// parseNumber parses a part of an IPv4 address: decimal, octal after 0, or hexadecimal after
// 0x. A bare 0x is 0. A number beyond 64 bits is read as the largest one.
func parseNumber(s string) (uint64, bool) {
	base := 10
	switch {
	case len(s) >= 2 && s[0] == '0' && s[1]|0x20 == 'x':
		if s, base = s[2:], 16; s == "" {
			return 0, true
		}
	case len(s) >= 2 && s[0] == '0':
		s, base = s[1:], 8
	}
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return n, true
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
func isDigit(c byte) bool    { return c-'0' <= 9 }
func isHex(c byte) bool      { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
func isAlnum(c byte) bool    { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' }

// IsNumeral reports whether a host is a number, or numbers between dots, that a resolver or a browser may
// read as an IPv4 address.
func IsNumeral(host string) bool {
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	last := labels[len(labels)-1]
	_, isNumber := parseNumber(last)
	return isNumber || isDigits(last)
}

// IsOwnMachine reports whether a host is a name of the machine that looks it up: localhost, or a
// name below it (RFC 6761).
func IsOwnMachine(host string) bool {
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	return strings.EqualFold(labels[len(labels)-1], "localhost")
}
