package directory

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// A HandshakeResult says how a handshake has ended.
type HandshakeResult string

// The results of a handshake.
const (
	HandshakeAccepted HandshakeResult = "accepted"  // the directory server took our certificate
	HandshakeRefused  HandshakeResult = "refused"   // it did not
	HandshakeNotAsked HandshakeResult = "not_asked" // it did not ask for a certificate, so nothing is known of ours
	HandshakeFailed   HandshakeResult = "failed"    // it did not come to that
)

// A HandshakeReport says what happened in a handshake with a directory server.
type HandshakeReport struct {
	Result  HandshakeResult `json:"result"`
	Detail  string          `json:"detail"`          // in words
	Address string          `json:"address"`         // HOST:PORT of the directory server
	Proxy   string          `json:"proxy,omitzero"`  // through which it was reached
	TLS     string          `json:"tls,omitzero"`    // version of the protocol
	Suite   string          `json:"suite,omitzero"`  // cipher suite
	Server  string          `json:"server,omitzero"` // subject of the certificate of the directory server
	Expires time.Time       `json:"expires,omitzero"`
	MS      int64           `json:"ms"` // how long it took
}

// verdictTime is how long is waited for the refusal of a certificate after a handshake of TLS 1.3, in which the server
// reads it last.
const verdictTime = 2 * time.Second

// TryHandshake connects to the address for AReqs of a peer, in the way that AReqs go, and shows it a client
// certificate. It sends no message, and changes nothing of connections that are there. The error is that of a
// configuration which cannot be used.
func TryHandshake(ctx context.Context, given Peer, cert tls.Certificate) (HandshakeReport, error) {
	watch := &ticketWatch{}
	isAsked := false
	given.TLS = given.TLS.Clone()
	given.TLS.Certificates = nil
	given.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		isAsked = true
		return &cert, nil // also one that the server says it will not take: what it does is the answer
	}
	given.TLS.ClientSessionCache = watch
	p, err := newPeer(given)
	if err != nil {
		return HandshakeReport{}, err
	}
	host, port, err := addressOf(p.AReqURL)
	if err != nil {
		return HandshakeReport{}, err
	}
	r := HandshakeReport{Address: net.JoinHostPort(host, port)}
	if p.Proxy != nil {
		r.Proxy = p.Proxy.String()
	}
	start := time.Now()
	conn, err := p.dialer.dialTLS(ctx, "tcp", r.Address)
	if err == nil {
		secured := conn.(*tls.Conn)
		r.describe(secured.ConnectionState())
		err = awaitVerdict(secured, watch)
		_ = secured.Close()
	}
	r.MS = time.Since(start).Milliseconds()
	r.judgeResult(err, isAsked)
	return r, nil
}

// describe notes what was agreed on.
func (r *HandshakeReport) describe(state tls.ConnectionState) {
	r.TLS, r.Suite = tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite)
	r.Server, r.Expires = state.PeerCertificates[0].Subject.String(), state.PeerCertificates[0].NotAfter.UTC()
}

// judgeResult says what an error, or that there is none, means.
func (r *HandshakeReport) judgeResult(err error, isAsked bool) {
	op, isOp := errors.AsType[*net.OpError](err)
	isAlert := isOp && op.Op == "remote error"
	switch {
	case err == nil && !isAsked:
		r.Result, r.Detail = HandshakeNotAsked,
			"The directory server did not ask for a client certificate, so it says nothing about this one"
	case err == nil:
		r.Result, r.Detail = HandshakeAccepted, "The directory server asked for a client certificate and took this one"
	case isAsked && isAlert:
		r.Result, r.Detail = HandshakeRefused, "The directory server refused the certificate: "+op.Err.Error()
	case isAsked && r.TLS != "":
		r.Result, r.Detail = HandshakeRefused,
			"The directory server ended the connection after it had read the certificate: "+reason(err)
	default:
		r.Result, r.Detail = HandshakeFailed, reason(err)
		if isOp && !isAlert {
			r.Detail += ": " + op.Err.Error()
		}
	}
}

// awaitVerdict waits until the server has read our certificate, and returns why it ended the
// connection; nil if it did not.
func awaitVerdict(conn *tls.Conn, watch *ticketWatch) error {
	if conn.ConnectionState().Version < tls.VersionTLS13 {
		return nil // the server has read it before the handshake ended
	}
	_ = conn.SetReadDeadline(time.Now().Add(verdictTime))
	watch.conn = conn
	_, err := conn.Read(make([]byte, 1))
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) || watch.hasTicket {
		return nil // nothing was asked, so silence is consent; so is a ticket
	}
	return err
}

// A ticketWatch notices the ticket with which a server of TLS 1.3 ends its part of a handshake.
type ticketWatch struct {
	conn      *tls.Conn // whose Read ends then
	hasTicket bool
}

// Get implements [tls.ClientSessionCache]: no session is resumed.
func (w *ticketWatch) Get(string) (*tls.ClientSessionState, bool) { return nil, false }

// Put implements [tls.ClientSessionCache].
func (w *ticketWatch) Put(string, *tls.ClientSessionState) {
	if w.conn != nil {
		w.hasTicket = true
		_ = w.conn.SetReadDeadline(time.Unix(1, 0))
	}
}
