package directory

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/internal/peers/tunnel"
	"github.com/openthreeds/threeds/internal/peers/wire"
)

// A Kind says what went wrong between us and a directory server.
type Kind uint8

// The kinds of failure.
const (
	Timeout  Kind = iota + 1 // no complete answer in time
	Connect                  // no connection in two attempts: nothing was sent
	Broken                   // the connection ended after the request may have been sent
	Busy                     // too many requests wait for this directory server already
	Status                   // an HTTP status other than 200
	TooLarge                 // the answer is longer than allowed
	Encoding                 // the answer cannot be decompressed
	Canceled                 // the context of the caller was canceled
	Unknown                  // no such directory server is configured
	Open                     // it could not be reached for a while, so nothing was sent: see breaker
	Proxy                    // the forward proxy made no connection in two attempts: nothing was sent
)

var kindNames = [...]string{
	"", "timeout", "connect", "broken", "busy", "status", "too large", "encoding", "canceled", "unknown", "open", "proxy",
}

func (k Kind) String() string { return kindNames[k] }

// Error is a request to a directory server that got no usable answer.
type Error struct {
	Scheme string
	Kind   Kind
	Text   string // for errorDetail: names no address and nothing internal
	Status int    // of the answer, for kind Status
	Err    error  // the cause in detail, for the log; may be nil

	// gone reports that the directory server seems to be gone: no connection was made, or a new one ended before any
	// byte of an answer.
	gone bool
}

func (e *Error) Error() string { return fmt.Sprintf("directory %s: %s", e.Scheme, e.Text) }

func (e *Error) Unwrap() error { return e.Err }

// Detail returns Text, which may be sent to the requestor.
func (e *Error) Detail() string { return e.Text }

// LogValue includes the cause, which Error leaves out.
func (e *Error) LogValue() slog.Value {
	v := []slog.Attr{slog.String("kind", e.Kind.String()), slog.String("text", e.Text)}
	if e.Err != nil {
		cause := e.Err.Error()
		if e.Kind != Connect && e.Kind != Proxy {
			cause, _, _ = strings.Cut(cause, `"`) // what follows may quote the answer
		}
		v = append(v, slog.String("cause", cause))
	}
	return slog.GroupValue(v...)
}

// failure wraps the error of a connection. Sent says whether any byte of the request may have left.
func (p *peer) failure(ctx context.Context, err error, sent bool) *Error {
	kind, gone := Connect, true
	if sent {
		kind = Broken
		_, gone = errors.AsType[*wire.Unanswered](err)
	}
	text := "Connection timeout"
	if _, ok := errors.AsType[*tunnel.Error](err); ok {
		kind, text = Proxy, reason(err)
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &Error{Scheme: p.Scheme, Kind: Timeout, Text: text, Err: err, gone: gone}
	case ctx.Err() != nil:
		return &Error{Scheme: p.Scheme, Kind: Canceled, Text: "Request abandoned", Err: err}
	}
	return &Error{Scheme: p.Scheme, Kind: kind, Text: reason(err), Err: err, gone: gone}
}

// reason describes a connection error in words that name no address.
func reason(err error) string {
	if through, ok := errors.AsType[*tunnel.Error](err); ok {
		return proxyReason(through)
	}
	if text, ok := certificateReason(err); ok {
		return text
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsTimeout {
		return "Host not found"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "TLS handshake failed"
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return "TLS handshake failed"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "remote error" || op.Op == "local error") {
		return "TLS handshake refused"
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "Connection timeout"
	}
	for _, known := range []struct {
		err  error
		text string
	}{
		{context.DeadlineExceeded, "Connection timeout"},
		{os.ErrDeadlineExceeded, "Connection timeout"},
		{syscall.ECONNREFUSED, "Connection refused"},
		{syscall.ECONNRESET, "Connection reset"},
		{syscall.EPIPE, "Connection reset"},
		{syscall.EHOSTUNREACH, "Host not reachable"},
		{syscall.ENETUNREACH, "Network not reachable"},
		{errNotConfigured, "Address not configured"},
		{io.EOF, "Connection closed"},
		{io.ErrUnexpectedEOF, "Connection closed"},
		{net.ErrClosed, "Connection closed"},
	} {
		if errors.Is(err, known.err) {
			return known.text
		}
	}
	return "Connection failed"
}

// proxyReason describes an error of a forward proxy. See reason.
func proxyReason(through *tunnel.Error) string {
	if through.Status != 0 {
		return "Proxy: " + through.Err.Error()
	}
	text := reason(through.Err)
	if said, ok := strings.CutPrefix(text, "Certificate of the directory server"); ok {
		return "Certificate of the proxy" + said
	}
	return "Proxy: " + text
}

// certificateReason describes why a certificate was refused. If err is about something else, ok is false.
func certificateReason(err error) (text string, ok bool) {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "Certificate of the directory server is for another host", true
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "Certificate of the directory server is not valid at this time", true
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, revoked := errors.AsType[*certs.RevocationError](err)
	if untrusted || revoked || errors.Is(err, errWeakKey) {
		return "Certificate of the directory server is not trusted", true
	}
	return "", false
}

func statusError(scheme string, status int) *Error {
	return &Error{
		Scheme: scheme, Kind: Status,
		Text: strings.TrimSpace(fmt.Sprintf("HTTP status %d %s", status, http.StatusText(status))), Status: status,
	}
}
