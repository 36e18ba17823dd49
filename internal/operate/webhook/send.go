package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	maxAnswer   = 1 << 10 // bytes of an answer that are read
	dialTimeout = 5 * time.Second
)

// A Delivery is one event on its way to one endpoint.
type Delivery struct {
	URL     string
	EventID string
	Body    []byte
	Secrets []Secret
}

// A Sender delivers events. Make it with [NewSender]; it is safe for concurrent use.
type Sender struct {
	addresses Addresses
	dialer    *net.Dialer
	client    *http.Client
	timeout   time.Duration
	now       func() time.Time
}

// NewSender returns a sender that gives each delivery so much time, and trusts roots, or the machine's when nil.
func NewSender(addresses Addresses, timeout time.Duration, roots *x509.CertPool, now func() time.Time) *Sender {
	s := &Sender{addresses: addresses, timeout: timeout, now: now}
	s.dialer = &net.Dialer{Timeout: dialTimeout, ControlContext: s.checkAddress}
	s.client = &http.Client{
		Transport: &http.Transport{
			DialContext: s.dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: dialTimeout, MaxResponseHeaderBytes: 16 << 10, MaxConnsPerHost: 4,
			IdleConnTimeout: 30 * time.Second, DisableCompression: true, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// isPrivateKey is the key of an [atomic.Bool] in the context of a delivery. It is true if the delivery has begun a
// connection to an address that is not public.
type isPrivateKey struct{}

// checkAddress refuses a connection just before it is made, when the name of the host has become an address.
func (s *Sender) checkAddress(ctx context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return ErrAddress
	}
	if isPrivate, ok := ctx.Value(isPrivateKey{}).(*atomic.Bool); ok && !isPublic(to.Addr()) {
		isPrivate.Store(true)
	}
	return s.addresses.Check(to.Addr())
}

// A StatusError says that an endpoint answered with another status than 2xx.
type StatusError int

func (e StatusError) Error() string { return fmt.Sprintf("answered with status %d", int(e)) }

// Send makes one delivery and returns the status of the answer, 0 when none came. The error is nil when that is 2xx, a
// StatusError for any other status, and ErrAddress when the endpoint may not be connected to. The text of an error says
// nothing of the answer's content.
func (s *Sender) Send(ctx context.Context, d Delivery) (status int, err error) {
	if err := s.addresses.CheckURL(d.URL); err != nil {
		return 0, err
	}
	isPrivate := new(atomic.Bool)
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, isPrivateKey{}, isPrivate), s.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(d.Body))
	if err != nil {
		return 0, errors.New("the URL cannot be used")
	}
	at := s.now()
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"threeds-webhook"},
		HeaderID: {d.EventID}, HeaderTimestamp: {strconv.FormatInt(at.Unix(), 10)},
		HeaderSignature: {Sign(d.EventID, at, d.Body, d.Secrets...)},
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, connectionError(ctx, err, isPrivate.Load())
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer) // so that the connection can be used again
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return res.StatusCode, StatusError(res.StatusCode)
	}
	return res.StatusCode, nil
}

// connectionError says in short why no answer came. The error of net/http quotes the URL, which may hold a secret. For
// a private network it says nothing else, so that no merchant learns which ports are open there.
func connectionError(ctx context.Context, err error, isPrivate bool) error {
	_, isUnknown := errors.AsType[*net.DNSError](err)
	_, isUntrusted := errors.AsType[*tls.CertificateVerificationError](err)
	timed, hasTimeout := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, ErrAddress), isUnknown:
		return ErrAddress
	case isPrivate:
		return errors.New("no answer came")
	case ctx.Err() != nil, hasTimeout && timed.Timeout():
		return errors.New("no answer in time")
	case isUntrusted:
		return errors.New("the certificate is not trusted")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	}
	return errors.New("the connection failed")
}
