package sandbox

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// A V1Directory is what a merchant plug-in has to know of a directory server of
// 3-D Secure 1.0.2.
type V1Directory struct {
	Scheme      string          // visa mastercard amex jcb protectbuy
	URL         string          // takes VEReq, CRReq and Error
	ServerCA    *x509.CertPool  // signed the directory server's certificate
	ServerCAPEM []byte          // the same as text
	ClientCert  tls.Certificate // what the plug-in shows to the directory server

	// Roots and RootsPEM are what the signatures of the scheme's PARes chain
	// to. The keys are made late, when they are asked for or a card was
	// enrolled: a fifth of a second, once. RootsSoFar does not make them: it has
	// none as long as nothing was signed.
	Roots      func() []*x509.Certificate
	RootsPEM   func() []byte
	RootsSoFar func() []*x509.Certificate
}

// A v1Directory is one scheme's directory server, and its issuers' keys.
type v1Directory struct {
	box      *Sandbox
	scheme   *scheme
	style    v1Style
	ca       *authority
	client   tls.Certificate
	url      string
	chain    func() *v1Chain // the scheme's own
	made     atomic.Pointer[v1Chain]
	impostor func() *v1Chain // of the same names, and of nobody's trust
	tables   [2][]v1Range    // of the CRRes: as they were before, and as they are
}

// v1Schemes have a directory server for 1.0.2.
var v1Schemes = []string{"visa", "mastercard", "amex", "jcb", "protectbuy"}

func newV1Directory(s *Sandbox, sch *scheme) (*v1Directory, error) {
	d := &v1Directory{box: s, scheme: sch, style: niceV1}
	if !s.Nice {
		d.style = v1Styles[sch.word]
	}
	newChain := func() *v1Chain {
		c, err := newV1Chain(sch, d.style)
		if err != nil {
			panic("sandbox: making the keys of an issuer: " + err.Error()) // crypto/rand does not fail
		}
		return c
	}
	d.impostor = sync.OnceValue(newChain)
	d.chain = sync.OnceValue(func() *v1Chain {
		c := newChain()
		d.made.Store(c)
		return c
	})
	d.tables = v1Tables(sch.word, s.v1.table)
	var err error
	if d.ca, err = newAuthority("Sandbox " + sch.name + " 1.0.2 network CA"); err != nil {
		return nil, err
	}
	server, err := d.ca.issue("ds-v1."+sch.word+".sandbox.test", s.certs.hosts...)
	if err != nil {
		return nil, err
	}
	if d.client, err = d.ca.issue("mpi." + sch.word + ".sandbox.test"); err != nil {
		return nil, err
	}
	l, err := s.listen(d, &tls.Config{
		Certificates: []tls.Certificate{server},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    d.ca.pool(),
		MinVersion:   tls.VersionTLS12,
	})
	if err != nil {
		return nil, err
	}
	d.url = l.url + "/"
	return d, nil
}

// V1Directories tells of each directory server of 3-D Secure 1.0.2, in a fixed
// order.
func (s *Sandbox) V1Directories() []V1Directory {
	var all []V1Directory
	for _, d := range s.v1.directories {
		all = append(all, V1Directory{
			Scheme: d.scheme.word, URL: d.url,
			ServerCA: d.ca.pool(), ServerCAPEM: d.ca.pem(), ClientCert: d.client,
			Roots:    func() []*x509.Certificate { return []*x509.Certificate{d.chain().root} },
			RootsPEM: func() []byte { return certPEM(d.chain().root) },
			RootsSoFar: func() []*x509.Certificate {
				if c := d.made.Load(); c != nil {
					return []*x509.Certificate{c.root}
				}
				return nil
			},
		})
	}
	return all
}

func (d *v1Directory) name() string { return "ds " + d.scheme.word + " 1.0.2" }

// ServeHTTP takes one message of the plug-in and answers it.
func (d *v1Directory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST a VEReq, a CRReq or an Error", http.StatusMethodNotAllowed)
		return
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/xml" && kind != "text/xml" {
		http.Error(w, "the content type is to be application/xml; charset=utf-8", http.StatusUnsupportedMediaType)
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxV1))
	if err != nil {
		http.Error(w, "the message is too large or broken off", http.StatusRequestEntityTooLarge)
		return
	}
	m, fault := readV1Message(raw, map[string][]part{"VEReq": veReqParts, "CRReq": crReqParts})
	d.box.noteV1(m.id, "server", d.name(), m.kind, raw)
	switch {
	case fault != nil:
		d.box.log.Info("refused", "scheme", d.scheme.word, "type", m.kind, "code", fault.code, "detail", fault.detail)
		d.send(w, m.id, "Error", fault.bytes(m.id))
	case m.kind == "Error":
		d.box.log.Info("the plug-in complains", "scheme", d.scheme.word, "code", m.body.find("errorCode").text)
	case m.kind == "CRReq":
		d.send(w, m.id, "CRRes", d.ranges(m))
	default:
		d.verify(w, r, m)
	}
}

// maxV1 is how large a message may be.
const maxV1 = 64 << 10

// verify answers a VEReq.
func (d *v1Directory) verify(w http.ResponseWriter, r *http.Request, m v1Received) {
	pan := m.body.find("pan").text
	fault := d.box.v1.table.merchants[m.body.find("Merchant", "merID").text]
	card := d.card(pan)
	switch {
	case card.silent || fault.is("VERes", "silence"):
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // anything else would be an answer
	case fault.is("VERes", "status"):
		status, _ := strconv.Atoi(fault.code)
		http.Error(w, "nothing works", status)
		return
	case fault.is("VERes", "garbage"):
		d.send(w, m.id, "VERes", []byte("<!DOCTYPE html><html><body><h1>Maintenance</h1><br></body></html>"))
		return
	case fault.is("VERes", "error"):
		d.send(w, m.id, "Error", v1Erro{fault.code, fault.text}.bytes(m.id))
		return
	case fault.is("VERes", "ireq"):
		d.send(w, m.id, "VERes", v1Message(m.id, tag("VERes", leaf("version", v1Version),
			tag("CH", leaf("enrolled", "N")), iReq(fault.code, fault.text))))
		return
	}
	body := d.answer(m, pan, card, fault)
	id := m.id
	if fault.is("VERes", "other", "id") {
		id = "other." + m.id
	}
	message := v1Message(id, body)
	switch {
	case fault.is("VERes", "cut"):
		message = message[:len(message)/2]
	case fault.is("VERes", "twice"):
		message = v1Message(id, body+body)
	}
	d.send(w, m.id, "VERes", message)
}

// card is what becomes of a card here; those of other schemes are strangers.
func (d *v1Directory) card(pan string) v1Card {
	if schemeOf(pan) != d.scheme.word {
		return v1Card{outside: true, enrolled: "N"}
	}
	return d.box.v1.table.find(pan)
}

// answer is the body of a VERes.
func (d *v1Directory) answer(m v1Received, pan string, card v1Card, fault merchantFault) string {
	extension := ""
	if fault.is("VERes", "critical") {
		extension = `<Extension id="sandbox.test/unknown" critical="true"></Extension>`
	}
	if card.enrolled != "Y" {
		return tag("VERes", leaf("version", v1Version), tag("CH", leaf("enrolled", card.enrolled)), extension)
	}
	a := &v1Account{
		id: accountID(), messageID: m.id, pan: pan, card: card, directory: d,
		acqBIN: m.body.find("Merchant", "acqBIN").text, merID: m.body.find("Merchant", "merID").text, fault: fault,
	}
	if fault.is("VERes", "other", "acctID") {
		a.id = pan
	}
	d.box.v1.open(a)
	d.box.work.Go(func() { d.chain() }) // so that the issuer need not wait for its keys
	url := d.box.acs.url + v1Path + d.scheme.word
	if !d.box.Nice {
		url += "?issuer=4711&lang=en"
	}
	if fault.is("VERes", "other", "url") {
		url = "http://bank@acs.example" + v1Path + d.scheme.word
	}
	return tag("VERes", leaf("version", v1Version),
		tag("CH", leaf("enrolled", "Y"), leaf("acctID", a.id)),
		leaf("url", url), leaf("protocol", "ThreeDSecure"), extension)
}

func iReq(code, text string) string {
	return tag("IReq", leaf("iReqCode", code), leaf("iReqDetail", text))
}

// accountID is what the issuer calls the card: opaque, and as hard on readers
// as base64 is.
func accountID() string {
	b := make([]byte, 20)
	_, _ = rand.Read(b) // crypto/rand does not fail
	return base64.StdEncoding.EncodeToString(b)
}

func (d *v1Directory) send(w http.ResponseWriter, id, kind string, message []byte) {
	if !bytes.HasPrefix(message, []byte("<!")) {
		message = slices.Concat([]byte(d.style.declaration), message)
	}
	message = d.box.alter(kind, message)
	d.box.noteV1(id, d.name(), "server", kind, message)
	w.Header().Set("Content-Type", d.style.contentType)
	_, _ = w.Write(message) // the plug-in has gone, or reads it
}

func (s *Sandbox) noteV1(id, from, to, kind string, message []byte) {
	s.book.note(id, Exchange{At: s.stamp(), From: from, To: to, Type: kind, Body: string(message)})
}
