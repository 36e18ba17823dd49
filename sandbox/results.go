package sandbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"syscall"
	"time"

	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// resultsClient is for the messages that a directory server sends first. It
// reaches only this machine, unless Outside says otherwise, and follows no redirect.
func (s *Sandbox) resultsClient(cert tls.Certificate) *http.Client {
	trusted := s.certs.servers.Pool()
	trusted.AppendCertsFromPEM(s.ResultsCAPEM)
	dialer := &net.Dialer{Control: s.isReachable} // its time is in ResultTimeout, as that of the handshake
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			ForceAttemptHTTP2:   false,
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     30 * time.Second, // before the server closes it, after a minute: an RReq might be on its way
			TLSClientConfig: &tls.Config{
				RootCAs:      trusted,
				Certificates: []tls.Certificate{cert},
				MinVersion:   tls.VersionTLS12,
			},
		},
	}
}

// isReachable refuses addresses of other machines.
func (s *Sandbox) isReachable(_, address string, _ syscall.RawConn) error {
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
		d.box.log.Warn("result not delivered", "scheme", d.scheme.Word, "err", err)
		return
	}
	m := readMessage(rres)
	if m.text("messageType") == "Erro" {
		t.record("server", d.name(), "Erro", rres, "")
		d.box.log.Warn("result refused", "scheme", d.scheme.Word, "code", m.text("errorCode"),
			"detail", m.text("errorDetail"))
		return
	}
	e, bad := judgeMessage(rres, receivedIn{types: []string{"RRes"}, areq: t.areqRaw, ares: t.aresRaw, rreq: rreq})
	if !bad {
		t.record("server", d.name(), "RRes", rres, "")
		return
	}
	t.record("server", d.name(), "RRes", rres, "refused: "+e.code+" "+e.detail)
	d.box.log.Warn("bad RRes", "scheme", d.scheme.Word, "code", e.code, "detail", e.detail)
	e.component, e.version, e.about, e.ids = "D", t.version, "RRes", t.ids
	complaint := e.bytes()
	t.record(d.name(), "server", "Erro", complaint, "")
	_, _, _ = d.post(t, complaint) // an Erro gets no answer
}

// post sends one message to the 3-D Secure server. tried says that a connection
// was there, so that the message may have arrived.
func (d *directory) post(t *transaction, body []byte) (reply []byte, tried bool, err error) {
	ctx, cancel := context.WithTimeout(d.box.ctx, d.box.ResultTimeout)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { tried = true },
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.areq.text("threeDSServerURL"), bytes.NewReader(body))
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

// rreq writes the result in the form of the transaction's version.
func (t *transaction) rreq(v verdict) []byte {
	o := new(object).
		Put("messageType", "RReq").
		Put("messageVersion", t.version).
		Put("threeDSServerTransID", t.ids.server).
		Put("acsTransID", t.ids.acs).
		Put("dsTransID", t.ids.ds).
		Put("messageCategory", t.areq.text("messageCategory")).
		Put("transStatus", v.status).
		Put("transStatusReason", v.reason).
		Put("challengeCancel", v.cancel).
		Put("eci", t.dir.scheme.IndicatorsOf(t.areq.text("acctNumber")).ECI(v.status, t.payment))
	if v.status == "Y" {
		o.Put("authenticationValue", newValue())
	}
	t.putMethod(o)
	if t.ares != "D" {
		o.Put("interactionCounter", fmt.Sprintf("%02d", t.interactions(v)))
	}
	if t.channel == app {
		if t.version != v210 {
			o.Put("sdkTransID", t.ids.sdk)
		}
		if t.ares != "D" {
			o.Put("acsRenderingType", t.render)
		}
		if t.sdk != nil {
			o.Put("challengeErrorReporting", json.RawMessage(t.sdk.report))
		}
	}
	if extensions := t.bridging(v.status); extensions != nil {
		o.Put("messageExtension", extensions)
	}
	if !t.box.Nice {
		o.Put("sandboxResult", peer.UnknownMember()).PutUnknownNull()
	}
	return o.Bytes()
}

// putMethod says how the cardholder was or will be authenticated: a type
// before 2.3.1, a list of methods since.
func (t *transaction) putMethod(o *object) {
	kind, method := "02", "02" // dynamic: a code by text message
	switch {
	case t.ares == "D":
		kind, method = "04", "12"
	case t.deed.How == "outside":
		kind, method = "03", "07"
	}
	if t.version == v231 {
		o.Put("authenticationMethod", []string{method})
	} else {
		o.Put("authenticationType", kind)
	}
}

// interactions is how often the cardholder was asked and answered.
func (t *transaction) interactions(v verdict) int {
	if (t.channel == browser || t.creq != nil) && t.deed.HasPerson() || v.reason == "14" {
		return min(t.tries, 99)
	}
	return 1
}

// writeCRes is the message that ends a browser's challenge, or what comes in its place.
func (t *transaction) writeCRes(v verdict) []byte {
	if t.fault.Is("CRes", "garbage") {
		return []byte("<html>Thank you</html>")
	}
	o := new(object).
		Put("messageType", "CRes").
		Put("messageVersion", t.version).
		Put("threeDSServerTransID", t.ids.server).
		Put("acsTransID", t.ids.acs).
		Put("transStatus", t.outcome)
	if t.deed.Completed && !t.box.Nice {
		o.Put("challengeCompletionInd", "Y")
	}
	if !t.box.Nice {
		o.PutUnknownNull()
	}
	if t.fault.Is("CRes", "padded") {
		o.Put("sandboxRemark", "?????>>>>>") // which have / and + in base64
	}
	body := t.box.alter("CRes", o.Bytes())
	for t.padded() && len(body)%3 == 0 {
		body = append(slices.Clone(body), '\n')
	}
	return body
}

// browserStatus is the transStatus that the browser has of a result.
func (t *transaction) browserStatus(status string) string {
	if !t.fault.Is("CRes", "other") {
		return status
	}
	if status == "Y" {
		return "N"
	}
	return "Y"
}

// padded says whether this issuer pads its base64url, as it should not.
func (t *transaction) padded() bool {
	return t.deed.Padded && !t.box.Nice || t.fault.Is("CRes", "padded")
}

// encodeCRes is how the message travels.
func (t *transaction) encodeCRes() string {
	switch {
	case t.fault.Is("CRes", "padded"):
		return base64.StdEncoding.EncodeToString(t.cres)
	case t.padded():
		return base64.URLEncoding.EncodeToString(t.cres)
	}
	return encodeURL(t.cres)
}
