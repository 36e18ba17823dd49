package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// A Receiver is a URL that events may go to, or all URLs of a host and a port. Make it with [ParseReceiver].
type Receiver struct {
	url  string // whole; "" means all of the host
	host string // in small letters, with its port unless that is the scheme's
}

// ParseReceiver reads a URL of http or https, such as https://shop.example/hooks, or HOST or HOST:PORT.
func ParseReceiver(text string) (Receiver, error) {
	u, err := url.Parse(text)
	if strings.Contains(text, "://") {
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return Receiver{}, errors.New("want a URL of http or https, such as https://shop.example/hooks, or HOST:PORT")
		}
		return Receiver{urlOf(u), hostOf(u)}, nil
	}
	u, err = url.Parse("https://" + text)
	if err != nil || u.Host != text || u.Hostname() == "" {
		return Receiver{}, errors.New("want HOST, HOST:PORT, or a URL such as https://shop.example/hooks")
	}
	return Receiver{"", hostOf(u)}, nil
}

// hostOf returns host and port of a URL in small letters, without the port that its scheme has anyhow.
func hostOf(u *url.URL) string {
	name, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" || port == "443" && u.Scheme == "https" || port == "80" && u.Scheme == "http" {
		return name
	}
	return net.JoinHostPort(name, port)
}

// urlOf returns a URL in the form in which receivers are compared.
func urlOf(u *url.URL) string { return u.Scheme + "://" + hostOf(u) + u.RequestURI() }

// errNoReceiver is what is wrong with a URL that no receiver has.
var errNoReceiver = errors.New("this server posts to a few receivers only, and the URL is none of them")

// checkReceiver says what is wrong with a URL if there are only certain receivers.
func (a *Addresses) checkReceiver(u *url.URL) error {
	if a.Receivers == nil || slices.ContainsFunc(a.Receivers, func(r Receiver) bool {
		return r.host == hostOf(u) && (r.url == "" || r.url == urlOf(u))
	}) {
		return nil
	}
	if a.ReceiverHint != "" {
		return fmt.Errorf("%w: %s", errNoReceiver, a.ReceiverHint)
	}
	return errNoReceiver
}
