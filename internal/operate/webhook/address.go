package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/base/browserurl"
)

// Addresses says which addresses events may go to.
type Addresses struct {
	// Allowed networks may be private ones.
	Allowed []netip.Prefix
	// HTTP allows http in the allowed networks.
	HTTP bool
	// Receivers are all that events of merchants may go to; nil means that there may be others.
	Receivers []Receiver
	// ReceiverHint says in an error how to allow a further receiver; "" means that the error does not say so.
	ReceiverHint string

	isAnyAllowed bool // https may go anywhere
}

// ForOperator returns the addresses that events of the operator may go to, whose URLs are in the configuration: https
// may go to any network, and http only where it may for merchants.
func (a Addresses) ForOperator() Addresses {
	a.isAnyAllowed, a.Receivers = true, nil
	return a
}

// ErrAddress says that an address is refused, or that there is none. The text is the same for both, so that a merchant
// does not learn which names exist in the operator's network.
var ErrAddress = errors.New("the host has no public address")

// refused are networks that no event goes to unless the operator allows it: those that are not public, and those that
// stand for others.
var refused = func() []netip.Prefix {
	var all []netip.Prefix
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32", // the last is the host below a virtual machine of Azure
		"::/128", "::1/128", "::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32",
		"2001:2::/48", "2001:10::/28", "2001:20::/28", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7",
		"fe80::/10", "fec0::/10", "ff00::/8",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}()

// Check returns ErrAddress if events may not go to an address. It is asked for the address that is connected to, so a
// name that changes its address in between gains nothing.
func (a *Addresses) Check(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	if a.isAnyAllowed || a.isAllowed(addr) {
		return nil
	}
	if !isPublic(addr) {
		return ErrAddress
	}
	return nil
}

// isPublic reports whether an address is in no network that is refused.
func isPublic(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() || slices.ContainsFunc(refused, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return false
	}
	return true
}

func (a *Addresses) isAllowed(addr netip.Addr) bool {
	return slices.ContainsFunc(a.Allowed, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// CheckURL says what is wrong with the URL of an endpoint, as far as it can be known without a connection. The name of
// a host is looked up at each delivery.
func (a *Addresses) CheckURL(text string) error {
	if strings.ContainsFunc(text, isNoURLCharacter) {
		return errors.New(
			"the URL must be of visible ASCII characters without <, > and quotation marks: encode others with %, and a host with xn--")
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return errors.New("the URL must be absolute, such as https://shop.example/hooks")
	}
	literal, err := netip.ParseAddr(u.Hostname())
	isLiteral := err == nil
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	switch {
	case u.User != nil:
		return errors.New("the URL must have no user name and no password")
	case u.Fragment != "":
		return errors.New("the URL must have no fragment")
	case u.Port() != "" && !isPort(u.Port()):
		return errors.New("the port must be 1 to 65535")
	case isLiteral && a.Check(literal) != nil:
		return ErrAddress
	case !isLiteral && browserurl.IsNumeral(u.Hostname()):
		return fmt.Errorf("%w: write it as four decimal numbers, or use a name", ErrAddress)
	case browserurl.IsOwnMachine(u.Hostname()) && a.Check(loopback) != nil:
		return fmt.Errorf("%w: the name is that of this machine", ErrAddress)
	case u.Scheme == "https", u.Scheme == "http" && a.HTTP && isLiteral && a.isAllowed(literal.Unmap()):
		return a.checkReceiver(u)
	}
	return errors.New("the URL must begin with https://")
}

// isNoURLCharacter reports whether a character stands in no URL as it is.
func isNoURLCharacter(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("<>\"`", r) }

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}
