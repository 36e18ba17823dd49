package sandbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"syscall"
	"time"
)

// resultsClient is for the messages that a directory server sends first. It
// reaches only this machine, unless Outside says otherwise, and follows nobody.
func (s *Sandbox) resultsClient(cert tls.Certificate) *http.Client {
	dialer := &net.Dialer{Timeout: 2 * time.Second, Control: s.near}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			ForceAttemptHTTP2:   false,
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     30 * time.Second, // before the server closes it, after a minute: an RReq might be on its way
			TLSHandshakeTimeout: 2 * time.Second,
			TLSClientConfig: &tls.Config{
				RootCAs:      s.certs.servers.pool(),
				Certificates: []tls.Certificate{cert},
				MinVersion:   tls.VersionTLS12,
			},
		},
	}
}

// near refuses addresses of other machines.
func (s *Sandbox) near(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); s.Outside || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s is not on this machine", host)
}

// sendResult delivers an RReq to the address in the AReq and reads the answer.
// A connection that fails is tried once more; an RReq that may have arrived is
// not sent again.
func (d *directory) sendResult(t *transaction, rreq []byte) {
	rreq = d.box.alter("RReq", rreq)
	t.record(d.name(), "server", "RReq", rreq, "")
	rres, tried, err := d.post(t, rreq)
	if err != nil && !tried {
		rres, _, err = d.post(t, rreq)
	}
	if err != nil {
		t.record(d.name(), "server", "RReq", nil, "no answer: "+err.Error())
		d.box.log.Warn("result not delivered", "scheme", d.scheme.word, "err", err)
		return
	}
	m := readMessage(rres)
	if m.text("messageType") == "Erro" {
		t.record("server", d.name(), "Erro", rres, "")
		d.box.log.Warn("result refused", "scheme", d.scheme.word, "code", m.text("errorCode"), "detail", m.text("errorDetail"))
		return
	}
	e, bad := faults(rres, setting{types: []string{"RRes"}, areq: t.areqRaw, ares: t.aresRaw, rreq: rreq})
	if !bad {
		t.record("server", d.name(), "RRes", rres, "")
		return
	}
	t.record("server", d.name(), "RRes", rres, "refused: "+e.code+" "+e.detail)
	d.box.log.Warn("bad RRes", "scheme", d.scheme.word, "code", e.code, "detail", e.detail)
	e.component, e.version, e.about, e.ids = "D", t.version, "RRes", t.ids
	complaint := e.bytes()
	t.record(d.name(), "server", "Erro", complaint, "")
	_, _, _ = d.post(t, complaint) // nobody answers an Erro
}

// post sends one message to the 3-D Secure server. tried says that a connection
// was there, so that the message may have arrived.
func (d *directory) post(t *transaction, body []byte) (reply []byte, tried bool, err error) {
	to, err := url.Parse(t.areq.text("threeDSServerURL"))
	if err != nil {
		return nil, true, err
	}
	ctx, cancel := context.WithTimeout(d.box.ctx, d.box.ResultTimeout)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { tried = true },
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, true, err
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	answer, err := d.results.Do(r)
	if err != nil {
		return nil, tried, err
	}
	defer answer.Body.Close()
	reply, err = io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", answer.Status)
	}
	return reply, true, err
}
