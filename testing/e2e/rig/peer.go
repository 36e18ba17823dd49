package rig

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// An Authority signs certificates for one test.
type Authority struct {
	T      *testing.T
	Cert   *x509.Certificate
	Key    *ecdsa.PrivateKey
	Serial int64
	lasts  time.Duration // how long it is valid, and the certificates that it issues
}

// NewAuthority makes an authority that is valid for a day.
func NewAuthority(t *testing.T) *Authority {
	t.Helper()
	return NewAuthorityFor(t, 24*time.Hour)
}

// NewAuthorityFor makes an authority that is valid for a time, as are the certificates that it issues.
func NewAuthorityFor(t *testing.T, lasts time.Duration) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lasts),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{T: t, Cert: cert, Key: key, Serial: 1, lasts: lasts}
}

// Issue makes a certificate for name and 127.0.0.1, good for both sides.
func (a *Authority) Issue(name string) tls.Certificate {
	a.T.Helper()
	return a.IssueFor(name, time.Now().Add(-time.Hour), time.Now().Add(a.lasts))
}

// IssueFor makes a certificate that is valid from from to to.
func (a *Authority) IssueFor(name string, from, to time.Time) tls.Certificate {
	a.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.T.Fatal(err)
	}
	a.Serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.Serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   from, NotAfter: to,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, key.Public(), a.Key)
	if err != nil {
		a.T.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Cert)
	return pool
}

func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw})
}

// Write puts a certificate and its key into dir and returns the file names.
func (a *Authority) Write(dir string, c tls.Certificate, name string) (cert, key string) {
	a.T.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		a.T.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: c.Certificate[0]},
		key:  {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.T.Fatal(err)
		}
	}
	return cert, key
}

// A Peer is a directory server that a test holds in its hands: it records what
// it gets, byte for byte, and answers what it is told.
type Peer struct {
	t      *testing.T
	CA     *Authority
	Server *httptest.Server
	Client *http.Client               // as the DS, towards the results listener
	TLS    atomic.Pointer[tls.Config] // for connections from now on; nil: as it began

	OnConnState atomic.Pointer[func(net.Conn, http.ConnState)] // called from now on; nil: nobody is

	Mu    sync.Mutex
	AReqs []Object
	Erros []Object
	// ranges makes the answer to a PReq; nil: one range in all versions.
	Ranges func(preq Object) []byte
	// answer makes the answer to an AReq; nil: a frictionless Y.
	answer func(areq Object) (status int, body []byte)
}

// NewPeer starts a directory server that enrolls the cards 4000….
func NewPeer(t *testing.T, ca *Authority) *Peer {
	t.Helper()
	p := &Peer{t: t, CA: ca}
	p.Server = httptest.NewUnstartedServer(p)
	p.Server.TLS = &tls.Config{
		Certificates: []tls.Certificate{ca.Issue("ds.example")},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return p.TLS.Load(), nil },
	}
	p.Server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that are killed complain
	p.Server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if call := p.OnConnState.Load(); call != nil {
			(*call)(conn, state)
		}
	}
	p.Server.StartTLS()
	t.Cleanup(p.Server.Close)
	p.Client = &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{
			RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Issue("rreq.ds.example")},
		}},
	}
	return p
}

func (p *Peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var o Object
	if err := json.Unmarshal(body, &o); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	switch o.Text("messageType") {
	case "PReq":
		p.Mu.Lock()
		says := p.Ranges
		p.Mu.Unlock()
		if says != nil {
			_, _ = w.Write(says(o))
			return
		}
		_ = json.NewEncoder(w).Encode(p.PRes(o))
	case "AReq":
		p.Mu.Lock()
		p.AReqs = append(p.AReqs, o)
		answer := p.answer
		p.Mu.Unlock()
		status, ares := http.StatusOK, Marshal(ARes(o, "Y"))
		if answer != nil {
			status, ares = answer(o)
		}
		w.WriteHeader(status)
		_, _ = w.Write(ares)
	case "Erro":
		p.Mu.Lock()
		p.Erros = append(p.Erros, o)
		p.Mu.Unlock()
	}
}

// PRes enrolls one range in all versions.
func (p *Peer) PRes(preq Object) Object {
	o := Object{
		"messageType": "PRes", "messageVersion": preq["messageVersion"], "threeDSServerTransID": preq["threeDSServerTransID"],
		"dsTransID": NewUUID(), "serialNum": "1",
	}
	if preq.Text("messageVersion") == "2.3.1" {
		return o.With(Object{
			"dsProtocolVersions": []string{"2.1.0", "2.2.0", "2.3.1"}, "readOrder": "01",
			"cardRangeData": []Object{{
				"ranges": []Object{{"start": "4000000000000000", "end": "4000009999999999"}},
				"acsProtocolVersions": []Object{
					{"version": "2.1.0", "acsInfoInd": []string{"01"}}, {"version": "2.2.0", "acsInfoInd": []string{"01"}},
					{"version": "2.3.1", "acsInfoInd": []string{"01", "07"}},
				},
			}},
		})
	}
	return o.With(Object{
		"dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.3.1",
		"cardRangeData": []Object{{
			"startRange": "4000000000000000", "endRange": "4000009999999999",
			"acsStartProtocolVersion": "2.1.0", "acsEndProtocolVersion": "2.3.1",
		}},
	})
}

func (p *Peer) SetAnswer(f func(areq Object) (int, []byte)) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.answer = f
}

// Sent returns the AReqs that came for an id.
func (p *Peer) Sent(transID string) []Object { return p.of(&p.AReqs, transID) }

// Posted returns the Erros that came for an id.
func (p *Peer) Posted(transID string) []Object { return p.of(&p.Erros, transID) }

func (p *Peer) of(all *[]Object, transID string) []Object {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	var got []Object
	for _, o := range *all {
		if o.Text("threeDSServerTransID") == transID {
			got = append(got, o)
		}
	}
	return got
}

// Post sends a message to the results listener as the DS.
func (p *Peer) Post(url string, body []byte) (int, Object, error) {
	res, err := p.Client.Post(url, "application/json; charset=utf-8", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || len(data) == 0 {
		return res.StatusCode, nil, err
	}
	var o Object
	return res.StatusCode, o, json.Unmarshal(data, &o)
}

// ARes is a good answer to a browser's AReq of a payment.
func ARes(areq Object, status string) Object {
	o := Object{
		"messageType": "ARes", "messageVersion": areq["messageVersion"], "threeDSServerTransID": areq["threeDSServerTransID"],
		"acsTransID": NewUUID(), "dsTransID": NewUUID(), "acsReferenceNumber": "ACS1", "dsReferenceNumber": "DS1",
		"transStatus": status,
	}
	switch status {
	case "Y", "A":
		o["eci"], o["authenticationValue"] = "05", "AAABBCJZUwAAAAAAUFlTAAAAAAA="
	case "N", "U", "R":
		o["transStatusReason"] = "01"
	case "C":
		o["acsChallengeMandated"], o["acsURL"] = "N", "https://acs.example/challenge"
		if areq.Text("messageVersion") == "2.3.1" {
			o["authenticationMethod"] = []string{"02"}
		} else {
			o["authenticationType"] = "02"
		}
	}
	return o
}

// RReq is a good result of the challenge that an ARes began.
func RReq(areq, ares Object, status string) Object {
	o := Object{
		"messageType": "RReq", "messageVersion": ares["messageVersion"], "messageCategory": areq["messageCategory"],
		"threeDSServerTransID": ares["threeDSServerTransID"], "acsTransID": ares["acsTransID"], "dsTransID": ares["dsTransID"],
		"transStatus": status, "interactionCounter": "01",
	}
	if status == "Y" || status == "A" {
		o["eci"], o["authenticationValue"] = "05", "AAABBCJZUwAAAAAAUFlTAAAAAAA="
	} else {
		o["transStatusReason"] = "01"
	}
	if ares.Text("messageVersion") == "2.3.1" {
		o["authenticationMethod"] = []string{"02"}
	} else {
		o["authenticationType"] = "02"
	}
	return o
}

func Marshal(o Object) []byte {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return data
}

func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// List makes a file of one list that names certificates, valid from an hour ago.
func (a *Authority) List(until time.Duration, revoked ...*x509.Certificate) []byte {
	a.T.Helper()
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(until)}
	for _, c := range revoked {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, l, a.Cert, a.Key)
	if err != nil {
		a.T.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}
