// Package tunnel makes connections through a forward proxy, by CONNECT of HTTP/1.1
// (RFC 9110, 9.3.6). The proxy is told a host and a port and finds the host by
// itself; what is said through it is for its two ends to secure.
//
// It reads no environment, knows no other way of authentication than Basic, and
// never tells anybody name or password but the proxy.
package tunnel

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/certs"
)

// A Proxy is where connections are asked for.
type Proxy struct {
	Address string // HOST:PORT

	// Roots are the authorities that its certificate has to chain to. Nil: it is
	// spoken to without TLS.
	Roots *x509.CertPool

	// User and Password are for Basic authentication. No user: there is none.
	User, Password string
}

// Same reports whether two proxies, of which there may be none, differ in nothing.
func (p *Proxy) Same(o *Proxy) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.Address == o.Address && p.Roots.Equal(o.Roots) && p.User == o.User && p.Password == o.Password
}

// String is the proxy's URL.
func (p Proxy) String() string {
	if p.Roots != nil {
		return "https://" + p.Address
	}
	return "http://" + p.Address
}

// An Error is a connection that could not be made by a proxy. Nothing was sent on it.
type Error struct {
	Proxy  string // its URL
	Addr   string // what it was asked for
	Status int    // of its answer; 0: none
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("proxy %s, asked for %s: %v", e.Proxy, e.Addr, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// What else may be wrong with an answer.
var (
	errNoHTTP = errors.New("the answer is not HTTP")
	errHeader = fmt.Errorf("the header of the answer exceeds %d bytes", maxHeader)
	errEarly  = errors.New("more came than an answer before anything was sent")
	errName   = errors.New("not a name and a port that a proxy can be asked for")
)

// maxHeader is the most that is read of an answer, with those before it of status 1xx.
const maxHeader = 16 << 10

// past is a deadline that ends all waiting.
var pastDeadline = time.Unix(1, 0)

// A Dialer makes connections through a proxy.
type Dialer struct {
	proxy  Proxy
	net    net.Dialer
	tls    *tls.Config // nil: none
	header string      // of each request, beside its host
}

// New returns a dialer that reaches the proxy by another.
func New(p Proxy, below net.Dialer) *Dialer {
	d := &Dialer{proxy: p, net: below}
	if p.User != "" {
		d.header = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(p.User+":"+p.Password)) + "\r\n"
	}
	if p.Roots != nil {
		host, _, _ := net.SplitHostPort(p.Address)
		d.tls = &tls.Config{
			RootCAs: p.Roots, ServerName: host, MinVersion: tls.VersionTLS12, CipherSuites: certs.StrongSuites(),
			DynamicRecordSizingDisabled: true, ClientSessionCache: tls.NewLRUClientSessionCache(1),
		}
	}
	return d
}

// DialContext asks the proxy for a connection to addr, HOST:PORT, and returns it when
// the proxy has made it, ready for the first byte. It ends with ctx. An error is an
// *Error.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, addr)
	if err == nil {
		return conn, nil
	}
	status, answered := errors.AsType[statusError](err)
	if over := ctx.Err(); over != nil && !answered && !errors.Is(err, over) {
		err = fmt.Errorf("no answer: %w", over)
	}
	return nil, &Error{d.proxy.String(), addr, int(status), err}
}

func (d *Dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !isAskable(addr) {
		return nil, errName
	}
	raw, err := d.net.DialContext(ctx, network, d.proxy.Address)
	if err != nil {
		return nil, err
	}
	conn := raw
	unguard := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(pastDeadline) })
	if d.tls != nil {
		secured := tls.Client(raw, d.tls)
		err, conn = secured.HandshakeContext(ctx), secured
	}
	if err == nil {
		err = d.connect(conn, addr)
	}
	if !unguard() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}

// isAskable reports whether an address can be put into a request: a directory server may
// have written it.
func isAskable(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || len(host) > 253 {
		return false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == ""
	}
	return host != "" && strings.Trim(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._") == ""
}

// request is what answers are read as answers to.
var connectRequest = &http.Request{Method: http.MethodConnect}

// connect makes a request and reads the answer, up to its end and no further.
func (d *Dialer) connect(conn net.Conn, addr string) error {
	if _, err := io.WriteString(conn, "CONNECT "+addr+" HTTP/1.1\r\nHost: "+addr+"\r\n"+d.header+"\r\n"); err != nil {
		return err
	}
	from := &answerReader{conn: conn, left: maxHeader}
	r := bufio.NewReader(from)
	for {
		resp, err := http.ReadResponse(r, connectRequest)
		switch {
		case err != nil && from.err != nil:
			return from.err
		case err != nil:
			return errNoHTTP // what it is instead is not for the log
		case resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols:
		case resp.StatusCode/100 != 2:
			return statusError(resp.StatusCode)
		case r.Buffered() > 0: // the other end waits for us to begin
			return errEarly
		default:
			return nil
		}
	}
}

// A answerReader is what an answer is read from. It keeps why there was no more.
type answerReader struct {
	conn net.Conn
	left int
	err  error
}

func (s *answerReader) Read(b []byte) (n int, err error) {
	if s.left <= 0 {
		s.err = errHeader
		return 0, s.err
	}
	n, err = s.conn.Read(b[:min(len(b), s.left)])
	s.left, s.err = s.left-n, err
	return n, err
}

// A statusError is an answer that says no.
type statusError int

func (s statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("HTTP status %d %s", int(s), http.StatusText(int(s))))
}
