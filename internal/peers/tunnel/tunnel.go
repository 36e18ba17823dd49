// Package tunnel makes connections through a forward proxy with CONNECT of HTTP/1.1 (RFC 9110, 9.3.6). Use [New] and
// [Dialer.DialContext]. The proxy gets the name and port of a host and looks the name up itself. The caller secures
// what is sent through the connection.
//
// The package reads no environment variables. It supports Basic authentication alone, and sends name and password only
// to the proxy.
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

	"github.com/openthreeds/threeds/internal/peers/certs"
)

// A Proxy is a forward proxy and how to authenticate to it.
type Proxy struct {
	Address string // HOST:PORT

	// Roots are the authorities that the proxy's certificate has to chain to. Nil means that TLS is not used to the
	// proxy.
	Roots *x509.CertPool

	// User and Password are for Basic authentication. If User is empty, the proxy is used without authentication.
	User, Password string
}

// Same reports whether two proxies have the same configuration. Each may be nil.
func (p *Proxy) Same(o *Proxy) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.Address == o.Address && p.Roots.Equal(o.Roots) && p.User == o.User && p.Password == o.Password
}

// String returns the proxy's URL.
func (p Proxy) String() string {
	if p.Roots != nil {
		return "https://" + p.Address
	}
	return "http://" + p.Address
}

// An Error says that a proxy made no connection. Nothing was sent to the host.
type Error struct {
	Proxy  string // the URL of the proxy
	Addr   string // HOST:PORT that it was asked for
	Status int    // HTTP status of its answer, or 0 if there was none
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("proxy %s, asked for %s: %v", e.Proxy, e.Addr, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Faults of an address or an answer.
var (
	errNoHTTP = errors.New("the answer is not HTTP")
	errHeader = fmt.Errorf("the header of the answer exceeds %d bytes", maxHeader)
	errEarly  = errors.New("more came than an answer before anything was sent")
	errName   = errors.New("not a name and a port that a proxy can be asked for")
)

// maxHeader is the limit in bytes of an answer, together with those of status 1xx before it.
const maxHeader = 16 << 10

// pastDeadline is a deadline that ends all waiting.
var pastDeadline = time.Unix(1, 0)

// A Dialer makes connections through a proxy.
type Dialer struct {
	proxy  Proxy
	net    net.Dialer
	tls    *tls.Config // for TLS to the proxy; nil if it is not used
	header string      // header lines of each request besides Host
}

// New returns a dialer that connects to the proxy with below.
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

// DialContext asks the proxy for a connection to addr, HOST:PORT, and returns it when the proxy has made it. It returns
// when ctx ends. The error is an *Error.
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

// isAskable reports whether an address can safely be written into a request. It may come from a directory server.
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

// connectRequest is the request for http.ReadResponse: an answer to CONNECT has no body.
var connectRequest = &http.Request{Method: http.MethodConnect}

// connect sends the request and reads the answer to its end, and no further.
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
			return errNoHTTP // the answer itself must not be logged
		case resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols:
		case resp.StatusCode/100 != 2:
			return statusError(resp.StatusCode)
		case r.Buffered() > 0: // the host must wait for our first byte
			return errEarly
		default:
			return nil
		}
	}
}

// An answerReader reads an answer of limited length from a connection, and keeps the error that ended it.
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

// A statusError is the status of an answer that refuses the connection.
type statusError int

func (s statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("HTTP status %d %s", int(s), http.StatusText(int(s))))
}
