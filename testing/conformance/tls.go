package conformance

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// tlsChecks is TLS and certificates.
var tlsChecks = []check{
	{id: "TL-01", do: func(t *T) { // we show each directory server the certificate that its CA signed
		for _, card := range []struct{ scheme, pan string }{{"visa", cardNoMethod}, {"mastercard", cardMastercard}} {
			x := t.flow(v220, "BRW").card(card.scheme, card.pan)
			x.areq()
			for _, q := range append(x.sent(), x.d.requests("PReq", "")...) {
				shown := q.tls.PeerCertificates
				if len(shown) == 0 {
					t.Errorf("%s: %s without a certificate", card.scheme, q.typ)
					continue
				}
				_, err := shown[0].Verify(x509.VerifyOptions{Roots: x.d.ca.pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
				if err != nil {
					t.Errorf("%s: %s with a certificate of another CA: %v", card.scheme, q.typ, err)
				}
			}
		}
	}},
	{id: "TL-02", do: func(t *T) { // the results address shows our certificate and demands the directory server's
		l := t.sharedLab()
		d := l.ds["visa"]
		foreign := newAuthority("Foreign CA")
		for name, certs := range map[string][]tls.Certificate{
			"none": nil, "of a foreign CA": {foreign.issue("rreq.visa.example")}, "of the CA of the results listener": {l.ca.issue("rreq.visa.example")},
			"of another name": {d.ca.issue("rreq.other.example")},
			"not for clients": {d.ca.issue("rreq.visa.example", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })},
		} {
			l.noHandshake(t, "certificate "+name, &tls.Config{RootCAs: l.ca.pool(), Certificates: certs})
		}
		l.handshake(t, "good certificate", &tls.Config{RootCAs: l.ca.pool(), Certificates: []tls.Certificate{d.ca.issue("rreq.visa.example")}})
	}},
	{id: "TL-03", do: func(t *T) { // a certificate of one scheme is not good for another
		x := t.flow(v231, "BRW").startChallenge()
		body := x.rreqOf("Y").bytes()
		got, err := x.l.ds["mastercard"].post(x.l.results, body)
		if err != nil || got.o.text("messageType") != "Erro" {
			t.Errorf("an RReq of another scheme's directory server: %v %v, want an Erro", got, err)
		}
		x.wantPending()
		x.wantRRes(x.post(body), "01")
		var foreign *authority
		wantNoRequestWithTLS(t, map[string]func(*ds, *tls.Config){
			"jcb":  func(d *ds, _ *tls.Config) { foreign = d.ca },
			"visa": func(d *ds, c *tls.Config) { c.Certificates = []tls.Certificate{foreign.issue("ds.visa.example")} },
		}, "visa")
	}},
	{id: "TL-04", do: func(t *T) { // the directory server's certificate and name are verified
		wantNoRequestWithTLS(t, map[string]func(*ds, *tls.Config){
			"visa": func(_ *ds, c *tls.Config) {
				c.Certificates = []tls.Certificate{newAuthority("Foreign CA").issue("ds.visa.example")}
			},
			"jcb": func(d *ds, c *tls.Config) {
				c.Certificates = []tls.Certificate{d.ca.issue("ds.other.example", func(c *x509.Certificate) { c.IPAddresses = nil })}
			},
			"amex": func(d *ds, c *tls.Config) {
				c.Certificates = []tls.Certificate{d.ca.issue("ds.amex.example", func(c *x509.Certificate) {
					c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
				})}
			},
		}, "visa", "jcb", "amex")
	}},
	{id: "TL-05", do: func(t *T) { // certificates have to be valid now, on both sides, and not revoked
		late := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
		early := func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }
		wantNoRequestWithTLS(t, map[string]func(*ds, *tls.Config){
			"visa": func(d *ds, c *tls.Config) { c.Certificates = []tls.Certificate{d.ca.issue("ds.visa.example", late)} },
			"jcb":  func(d *ds, c *tls.Config) { c.Certificates = []tls.Certificate{d.ca.issue("ds.jcb.example", early)} },
		}, "visa", "jcb")
		l := t.sharedLab()
		for name, change := range map[string]func(*x509.Certificate){"expired": late, "not valid yet": early} {
			cert := l.ds["visa"].ca.issue("rreq.visa.example", change)
			l.noHandshake(t, name, &tls.Config{RootCAs: l.ca.pool(), Certificates: []tls.Certificate{cert}})
		}
		var server, client tls.Certificate
		l = t.ownLab(plan{
			unready: true,
			directories: []directory{
				{scheme: "jcb", keys: map[string]string{"crls": "jcb.crl"}, change: func(_ *ds, c *tls.Config) { server = c.Certificates[0] }},
				{scheme: "amex", keys: map[string]string{"crls": "amex.crl", "revocation": "required"}},
			},
			prepare: func(l *lab) {
				jcb := l.ds["jcb"].ca
				client = jcb.issue("rreq.jcb.example")
				jcb.writeList(l.dir, "jcb", time.Hour, server, client)
				l.ds["amex"].ca.writeList(l.dir, "amex", -time.Minute)
			},
		})
		l.wantNoRequest(t, "jcb", "amex")
		shows := func(cert tls.Certificate) *tls.Config {
			return &tls.Config{RootCAs: l.ca.pool(), Certificates: []tls.Certificate{cert}}
		}
		l.noHandshake(t, "revoked", shows(client))
		l.noHandshake(t, "of a list that is out of date", shows(l.ds["amex"].ca.issue("rreq.amex.example")))
		l.handshake(t, "not revoked", shows(l.ds["jcb"].ca.issue("rreq.jcb.example")))
	}},
	{id: "TL-06", do: func(t *T) { // TLS 1.2 or later
		wantNoRequestWithTLS(t, map[string]func(*ds, *tls.Config){
			"visa": func(_ *ds, c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
			"jcb":  func(_ *ds, c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 },
		}, "visa", "jcb")
		l := t.sharedLab()
		good := []tls.Certificate{l.ds["visa"].ca.issue("rreq.visa.example")}
		for _, v := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
			l.noHandshake(t, tls.VersionName(v), &tls.Config{RootCAs: l.ca.pool(), Certificates: good, MinVersion: v, MaxVersion: v})
		}
		for _, v := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			l.handshake(t, tls.VersionName(v), &tls.Config{RootCAs: l.ca.pool(), Certificates: good, MinVersion: v, MaxVersion: v})
		}
	}},
	{id: "TL-07", do: func(t *T) { // the two cipher suites, each alone
		ecdsaAlone, rsaAlone := []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
		l := t.ownLab(plan{
			directories: []directory{
				{scheme: "visa", change: func(_ *ds, c *tls.Config) {
					c.MaxVersion, c.CipherSuites, c.NextProtos = tls.VersionTLS12, ecdsaAlone, nil
				}},
				{scheme: "jcb", ranges: []cardRange{{prefix: "350000", from: v210, to: v231}}, change: func(d *ds, c *tls.Config) {
					c.MaxVersion, c.CipherSuites, c.NextProtos = tls.VersionTLS12, rsaAlone, nil
					c.Certificates = []tls.Certificate{d.ca.issueFor(rsaKey(2048), "ds.jcb.example")}
				}},
			},
			prepare: func(l *lab) { writePair(l.dir, "results", l.ca.issueFor(rsaKey(2048), "results.example")) },
		})
		t.flowIn(l, v220, "BRW").wantAccepted()
		t.flowIn(l, v220, "BRW").card("jcb", "3500001234567890").wantAccepted()
		alone := func(l *lab, suites []uint16) *tls.Config {
			return &tls.Config{
				RootCAs: l.ca.pool(), Certificates: []tls.Certificate{l.ds["visa"].ca.issue("rreq.visa.example")},
				MaxVersion: tls.VersionTLS12, CipherSuites: suites,
			}
		}
		l.handshake(t, "ECDHE_RSA_WITH_AES_128_GCM_SHA256 alone", alone(l, rsaAlone))
		usual := t.sharedLab()
		usual.handshake(t, "ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 alone", alone(usual, ecdsaAlone))
	}},
	{id: "TL-08", do: func(t *T) { // P-256
		l := t.ownLab(plan{directories: []directory{{scheme: "visa", change: func(_ *ds, c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP256} }}}})
		t.flowIn(l, v220, "BRW").wantAccepted()
		d := l.ds["visa"]
		l.handshake(t, "P-256 alone", &tls.Config{
			RootCAs: l.ca.pool(), Certificates: []tls.Certificate{d.ca.issue("rreq.visa.example")}, CurvePreferences: []tls.CurveID{tls.CurveP256},
		})
		for _, hello := range d.clientHellos() {
			if !slices.Contains(hello.SupportedCurves, tls.CurveP256) {
				t.Errorf("the curves offered are %v, want P-256 among them", hello.SupportedCurves)
			}
		}
	}},
	{id: "TL-09", do: func(t *T) { // RSA keys of 2048 bits and curves of 256 at least
		weak := map[string]crypto.Signer{"RSA of 1024 bits": rsaKey(1024), "P-224": newP224Key()}
		wantNoRequestWithTLS(t, map[string]func(*ds, *tls.Config){
			"visa": func(d *ds, c *tls.Config) {
				c.Certificates = []tls.Certificate{d.ca.issueFor(weak["RSA of 1024 bits"], "ds.visa.example")}
			},
			"jcb": func(d *ds, c *tls.Config) {
				c.Certificates = []tls.Certificate{d.ca.issueFor(weak["P-224"], "ds.jcb.example")}
			},
		}, "visa", "jcb")
		l := t.sharedLab()
		for name, key := range weak {
			cert := l.ds["visa"].ca.issueFor(key, "rreq.visa.example")
			l.noHandshake(t, name, &tls.Config{RootCAs: l.ca.pool(), Certificates: []tls.Certificate{cert}, MaxVersion: tls.VersionTLS12})
		}
		l.handshake(t, "RSA of 2048 bits", &tls.Config{
			RootCAs: l.ca.pool(), Certificates: []tls.Certificate{l.ds["visa"].ca.issueFor(rsaKey(2048), "rreq.visa.example")},
		})
	}},
	{id: "TL-10", do: func(t *T) { // no suite that is weak is offered or accepted
		l := t.sharedLab()
		d := l.ds["visa"]
		t.flow(v220, "BRW").wantAccepted()
		hellos := d.clientHellos()
		if len(hellos) == 0 {
			t.Fatalf("no handshake came")
		}
		for _, hello := range hellos {
			for _, id := range hello.CipherSuites {
				if !strongSuite(id) {
					t.Errorf("the suite %s is offered to directory servers", tls.CipherSuiteName(id))
				}
			}
		}
		good := []tls.Certificate{d.ca.issue("rreq.visa.example")}
		for _, suite := range append(tls.InsecureCipherSuites(), tls.CipherSuites()...) {
			if !strongSuite(suite.ID) {
				l.noHandshake(t, suite.Name, &tls.Config{RootCAs: l.ca.pool(), Certificates: good, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}})
			}
		}
	}},
	{id: "TL-11", do: func(t *T) { // the API: TLS 1.2 or later, and an API key
		address := freeAddresses(1)[0]
		l := t.ownLab(plan{
			sections: map[string]string{"api": fmt.Sprintf("{listen: %s, tls: {cert: api.pem, key: api-key.pem}}", address)},
			prepare:  func(l *lab) { writePair(l.dir, "api", l.ca.issue("api.example")) },
		})
		ask := func(version uint16, key string) (*answer, error) {
			c := &http.Client{Timeout: stepTimeout, Transport: &http.Transport{
				DisableKeepAlives: true,
				TLSClientConfig:   &tls.Config{RootCAs: l.ca.pool(), MinVersion: version, MaxVersion: version},
			}}
			return post(c, "https://"+address+"/preauth", http.Header{"Apikey": {key}}, object{"acctNumber": cardNoMethod}.bytes())
		}
		for _, v := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			if got, err := ask(v, l.key); err != nil || got.status != 200 {
				t.Errorf("%s: %v %v, want 200", tls.VersionName(v), got, err)
			}
			if got, err := ask(v, newID()); err != nil || got.status != 401 {
				t.Errorf("%s, a key that nobody has: %v %v, want 401", tls.VersionName(v), got, err)
			}
		}
		if got, err := ask(tls.VersionTLS11, l.key); err == nil {
			t.Errorf("a connection with TLS 1.1 was accepted: %d", got.status)
		}
	}},
	{id: "TL-12", waits: true, do: func(t *T) { // an acsURL that no browser may be sent to is refused; a threeDSMethodURL is withheld
		t.onScripted([]string{v231}, func(a *scriptedDS) {
			a.loadUsual(t, "")
			a.badMethodURLs(t)
		})
		for _, v := range allVersions {
			for _, url := range badURLs {
				t.flow(v, "BRW").setARes("C", set("acsURL", url)).wantRejected("203", "acsURL")
			}
			t.flow(v, "BRW").setARes("C", set("acsURL", "https://10.0.0.1:8443/a;b?c=%22#d")).wantPassedOn()
		}
	}},
}

// strongSuite says whether a cipher suite has forward secrecy and authenticated
// encryption.
func strongSuite(id uint16) bool {
	return slices.Contains([]uint16{
		tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384, tls.TLS_CHACHA20_POLY1305_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}, id)
}

// wantNoRequestWithTLS starts a server with directories whose TLS is changed, and wants none of the named
// ones to get a request.
func wantNoRequestWithTLS(t *T, changes map[string]func(*ds, *tls.Config), schemes ...string) {
	var p plan
	for _, scheme := range []string{"jcb", "amex", "visa"} { // visa last: its change may need the CA of another
		if change := changes[scheme]; change != nil {
			p.directories = append(p.directories, directory{scheme: scheme, change: change})
		}
	}
	p.unready = true
	t.ownLab(p).wantNoRequest(t, schemes...)
}

// wantNoRequest wants connections to the directory servers, but no request: the server must not
// trust them.
func (l *lab) wantNoRequest(t *T, schemes ...string) {
	for _, scheme := range schemes {
		d := l.ds[scheme]
		if !waitUntil(stepTimeout, func() bool { return len(d.connections()) >= 2 }) { // the second attempt follows at once
			t.Errorf("%s: %d connections, want 2", scheme, len(d.connections()))
		}
		d.mu.Lock()
		if len(d.got) > 0 {
			t.Errorf("%s: a directory server that is not to be trusted got %s", scheme, d.got[0].body)
		}
		d.mu.Unlock()
	}
}

// clientHellos are the ClientHellos that came to a directory server.
func (d *ds) clientHellos() []*tls.ClientHelloInfo {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.hellos)
}

// postWithTLS posts to the results address with a TLS configuration.
func (l *lab) postWithTLS(c *tls.Config) (*answer, error) {
	client := &http.Client{Timeout: stepTimeout, Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
	return post(client, l.results, nil, []byte("{}"))
}

// handshake wants a connection to the results address to be accepted, noHandshake to be
// refused.
func (l *lab) handshake(t *T, what string, c *tls.Config) {
	if got, err := l.postWithTLS(c); err != nil || got.status != 200 || !bytes.Contains(got.body, []byte("Erro")) {
		t.Errorf("results address, %s: %v %v, want a connection", what, got, err)
	}
}

func (l *lab) noHandshake(t *T, what string, c *tls.Config) {
	if got, err := l.postWithTLS(c); err == nil {
		t.Errorf("results address, %s: status %d, want no connection", what, got.status)
	}
}

// issueFor makes a certificate for a key.
func (a *authority) issueFor(key crypto.Signer, name string) tls.Certificate {
	c := a.issue(name)
	template, err := x509.ParseCertificate(c.Certificate[0])
	panicOnError(err)
	template.SerialNumber = newSerial()
	if _, ok := key.(*rsa.PrivateKey); ok {
		template.KeyUsage |= x509.KeyUsageKeyEncipherment
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	panicOnError(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func rsaKey(bits int) *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	panicOnError(err)
	return key
}

func newP224Key() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	panicOnError(err)
	return key
}
