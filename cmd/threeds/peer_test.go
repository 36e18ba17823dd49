package main

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

// An authority signs certificates for one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
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
	return &authority{t: t, cert: cert, key: key, n: 1}
}

// issue makes a certificate for name and 127.0.0.1, good for both sides.
func (a *authority) issue(name string) tls.Certificate {
	a.t.Helper()
	return a.issueFor(name, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour))
}

// issueFor makes a certificate that is valid from from to to.
func (a *authority) issueFor(name string, from, to time.Time) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.n++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.n), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   from, NotAfter: to,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// write puts a certificate and its key into dir and returns the file names.
func (a *authority) write(dir string, c tls.Certificate, name string) (cert, key string) {
	a.t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: c.Certificate[0]},
		key:  {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return cert, key
}

// A peer is a directory server that a test holds in its hands: it records what
// it gets, byte for byte, and answers what it is told.
type peer struct {
	t      *testing.T
	ca     *authority
	server *httptest.Server
	client *http.Client               // as the DS, towards the results listener
	tls    atomic.Pointer[tls.Config] // for connections from now on; nil: as it began

	onConnState atomic.Pointer[func(net.Conn, http.ConnState)] // called from now on; nil: nobody is

	mu    sync.Mutex
	areqs []object
	erros []object
	// ranges makes the answer to a PReq; nil: one range in all versions.
	ranges func(preq object) []byte
	// answer makes the answer to an AReq; nil: a frictionless Y.
	answer func(areq object) (status int, body []byte)
}

// newPeer starts a directory server that enrolls the cards 4000….
func newPeer(t *testing.T, ca *authority) *peer {
	t.Helper()
	p := &peer{t: t, ca: ca}
	p.server = httptest.NewUnstartedServer(p)
	p.server.TLS = &tls.Config{
		Certificates: []tls.Certificate{ca.issue("ds.example")},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.pool(),
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return p.tls.Load(), nil },
	}
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that are killed complain
	p.server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if call := p.onConnState.Load(); call != nil {
			(*call)(conn, state)
		}
	}
	p.server.StartTLS()
	t.Cleanup(p.server.Close)
	p.client = &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{
			RootCAs: ca.pool(), Certificates: []tls.Certificate{ca.issue("rreq.ds.example")},
		}},
	}
	return p
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	switch o.text("messageType") {
	case "PReq":
		p.mu.Lock()
		says := p.ranges
		p.mu.Unlock()
		if says != nil {
			_, _ = w.Write(says(o))
			return
		}
		_ = json.NewEncoder(w).Encode(p.pres(o))
	case "AReq":
		p.mu.Lock()
		p.areqs = append(p.areqs, o)
		answer := p.answer
		p.mu.Unlock()
		status, ares := http.StatusOK, marshal(ares(o, "Y"))
		if answer != nil {
			status, ares = answer(o)
		}
		w.WriteHeader(status)
		_, _ = w.Write(ares)
	case "Erro":
		p.mu.Lock()
		p.erros = append(p.erros, o)
		p.mu.Unlock()
	}
}

// pres enrolls one range in all versions.
func (p *peer) pres(preq object) object {
	o := object{
		"messageType": "PRes", "messageVersion": preq["messageVersion"], "threeDSServerTransID": preq["threeDSServerTransID"],
		"dsTransID": newUUID(), "serialNum": "1",
	}
	if preq.text("messageVersion") == "2.3.1" {
		return o.with(object{
			"dsProtocolVersions": []string{"2.1.0", "2.2.0", "2.3.1"}, "readOrder": "01",
			"cardRangeData": []object{{
				"ranges": []object{{"start": "4000000000000000", "end": "4000009999999999"}},
				"acsProtocolVersions": []object{
					{"version": "2.1.0", "acsInfoInd": []string{"01"}}, {"version": "2.2.0", "acsInfoInd": []string{"01"}},
					{"version": "2.3.1", "acsInfoInd": []string{"01", "07"}},
				},
			}},
		})
	}
	return o.with(object{
		"dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.3.1",
		"cardRangeData": []object{{
			"startRange": "4000000000000000", "endRange": "4000009999999999",
			"acsStartProtocolVersion": "2.1.0", "acsEndProtocolVersion": "2.3.1",
		}},
	})
}

func (p *peer) setAnswer(f func(areq object) (int, []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = f
}

// sent returns the AReqs that came for an id.
func (p *peer) sent(transID string) []object { return p.of(&p.areqs, transID) }

// posted returns the Erros that came for an id.
func (p *peer) posted(transID string) []object { return p.of(&p.erros, transID) }

func (p *peer) of(all *[]object, transID string) []object {
	p.mu.Lock()
	defer p.mu.Unlock()
	var got []object
	for _, o := range *all {
		if o.text("threeDSServerTransID") == transID {
			got = append(got, o)
		}
	}
	return got
}

// post sends a message to the results listener as the DS.
func (p *peer) post(url string, body []byte) (int, object, error) {
	res, err := p.client.Post(url, "application/json; charset=utf-8", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || len(data) == 0 {
		return res.StatusCode, nil, err
	}
	var o object
	return res.StatusCode, o, json.Unmarshal(data, &o)
}

// ares is a good answer to a browser's AReq of a payment.
func ares(areq object, status string) object {
	o := object{
		"messageType": "ARes", "messageVersion": areq["messageVersion"], "threeDSServerTransID": areq["threeDSServerTransID"],
		"acsTransID": newUUID(), "dsTransID": newUUID(), "acsReferenceNumber": "ACS1", "dsReferenceNumber": "DS1",
		"transStatus": status,
	}
	switch status {
	case "Y", "A":
		o["eci"], o["authenticationValue"] = "05", "AAABBCJZUwAAAAAAUFlTAAAAAAA="
	case "N", "U", "R":
		o["transStatusReason"] = "01"
	case "C":
		o["acsChallengeMandated"], o["acsURL"] = "N", "https://acs.example/challenge"
		if areq.text("messageVersion") == "2.3.1" {
			o["authenticationMethod"] = []string{"02"}
		} else {
			o["authenticationType"] = "02"
		}
	}
	return o
}

// rreq is a good result of the challenge that an ARes began.
func rreq(areq, ares object, status string) object {
	o := object{
		"messageType": "RReq", "messageVersion": ares["messageVersion"], "messageCategory": areq["messageCategory"],
		"threeDSServerTransID": ares["threeDSServerTransID"], "acsTransID": ares["acsTransID"], "dsTransID": ares["dsTransID"],
		"transStatus": status, "interactionCounter": "01",
	}
	if status == "Y" || status == "A" {
		o["eci"], o["authenticationValue"] = "05", "AAABBCJZUwAAAAAAUFlTAAAAAAA="
	} else {
		o["transStatusReason"] = "01"
	}
	if ares.text("messageVersion") == "2.3.1" {
		o["authenticationMethod"] = []string{"02"}
	} else {
		o["authenticationType"] = "02"
	}
	return o
}

func marshal(o object) []byte {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return data
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
