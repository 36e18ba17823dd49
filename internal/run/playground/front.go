package playground

import (
	"crypto/subtle"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/openthreeds/threeds/internal/edge/browser"
	"github.com/openthreeds/threeds/sandbox"
)

// Paths of what is served besides the API. All else that is not the shop's is the API's.
const (
	pagesPath   = "/acs"
	ControlPath = "/_sandbox"
	consolePath = "/console"
)

// An Address says under which origin everything is served on the port of the API.
type Address struct {
	// PublicURL is an origin, such as https://lab.example, without a slash at the end.
	// Every URL that a browser gets begins with it.
	PublicURL string

	// IsBehindProxy says that requests come by way of a proxy, which may send any Host.
	// Their Host is replaced by that of PublicURL.
	IsBehindProxy bool

	// Shop serves the demo shop, at the root.
	Shop http.Handler

	// Docs serves the documentation, below /docs, with /llms.txt and /openapi.json; nil: there is none.
	Docs http.Handler
}

// shopNotice is where issuers send browsers back to the demo shop.
const shopNotice = "/notify/challenge"

// isShop reports for a notificationURL whether it is that of the demo shop, which has the
// public address or another name of this machine with the port of the API.
func (a *Address) isShop(listen string) func(notificationURL string) bool {
	_, port, _ := net.SplitHostPort(listen)
	return func(notificationURL string) bool {
		u, err := url.Parse(notificationURL)
		if err != nil || u.Path != shopNotice {
			return false
		}
		isPublic := strings.EqualFold(u.Scheme+"://"+u.Host, a.PublicURL)
		return isPublic || u.Port() == port && sandbox.IsPrivateHost(u.Host)
	}
}

// ParseOrigin reads the public address of a sandbox: http or https and a host, no path.
func ParseOrigin(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", fmt.Errorf("%q is no web address: want http or https and a host, such as https://lab.example", text)
	case u.User != nil:
		return "", fmt.Errorf("the address has a user in front of the host: want https://%s", u.Host)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("%q has more than scheme, host and port: want %s://%s", text, u.Scheme, u.Host)
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), nil
}

// A front serves the API, the pages and the control address on one port, by path.
type front struct {
	address    Address
	publicHost string
	isExposed  bool // other machines reach the listener, so it has any number of names
	api        http.Handler
	browser    http.Handler
	pages      http.Handler
	control    http.Handler
	console    http.Handler
}

func newFront(a Address, listen string, api, pages http.Handler, s *sandbox.Sandbox, keys *Keys) *front {
	publicHost := ""
	if u, err := url.Parse(a.PublicURL); err == nil {
		publicHost = u.Host
	}
	isExposed := !sandbox.IsLocalHost(listen)
	isOpen := !isExposed && sandbox.IsLocalHost(publicHost)
	return &front{
		address: a, publicHost: publicHost, isExposed: isExposed, api: api, browser: pages, pages: s.Pages(),
		control: http.StripPrefix(ControlPath, requireKey(s.Control(), isOpen, keys)),
	}
}

// ServeHTTP refuses pages under names that are not this sandbox's: a page elsewhere whose
// name was made to resolve to this machine would be of the same origin.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := f.findPage(r)
	if page == nil {
		f.api.ServeHTTP(w, r)
		return
	}
	if !f.isOwnName(r) {
		http.Error(w,
			"The sandbox answers only to names of this machine and to its --public-url.", http.StatusMisdirectedRequest)
		return
	}
	if f.address.IsBehindProxy {
		known := *r
		known.Host = f.publicHost
		r = &known
	}
	page.ServeHTTP(w, r)
}

// isOwnName reports whether a page is asked for under a name of this sandbox. A listener that other machines reach has
// any number of them. The console, whose visitor is admin, is then shown only under names that no other party can
// create.
func (f *front) isOwnName(r *http.Request) bool {
	if strings.EqualFold(r.Host, f.publicHost) || sandbox.IsPrivateHost(r.Host) {
		return true
	}
	isConsole := r.URL.Path == consolePath || strings.HasPrefix(r.URL.Path, consolePath+"/")
	return f.isExposed && (!isConsole || f.address.IsBehindProxy || f.address.isOwnHost(r.Host))
}

// findPage returns what serves a request besides the API, nil if the API does.
func (f *front) findPage(r *http.Request) http.Handler {
	first, _, isDeeper := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch "/" + first {
	case "/":
		if !isDeeper && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			return f.address.Shop
		}
	case "/checkout", "/frame", "/hooks", "/notify", "/order", "/pay", "/runs", "/static", "/steps":
		return f.address.Shop
	case "/docs":
		return f.address.Docs
	case "/llms.txt", "/openapi.json":
		if !isDeeper {
			return f.address.Docs
		}
	case "/a", "/n":
		if isDeeper {
			return f.browser
		}
	case "/threeds.d.ts":
		return f.browser
	case pagesPath:
		return f.pages
	case consolePath:
		return f.console
	case ControlPath:
		if isDeeper {
			return f.control
		}
	}
	if browser.IsScriptPath(r.URL.Path) {
		return f.browser
	}
	return nil
}

// requireKey asks for an API key of the playground and for JSON, so that no page elsewhere
// steers the sandbox from a browser. isOpen lets anybody read.
func requireKey(next http.Handler, isOpen bool, keys *Keys) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !(isRead && isOpen) && !keys.has(r.Header.Get("APIKey")) {
			refuse(w, http.StatusUnauthorized, "APIKey: want a header with one of the two API keys of the sandbox")
			return
		}
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); !isRead &&
			(err != nil || kind != "application/json") {
			refuse(w, http.StatusUnsupportedMediaType, "Content-Type: want application/json")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// has reports whether a key is one of the playground's. The capitals are the same key.
func (k *Keys) has(key string) bool {
	key = strings.ToLower(key)
	first := subtle.ConstantTimeCompare([]byte(key), []byte(k.Key))
	return first|subtle.ConstantTimeCompare([]byte(key), []byte(k.OtherKey)) == 1
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "{\"error\": %q}\n", text) // the client has gone, or reads it
}
