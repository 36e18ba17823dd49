package v1

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
	"sync/atomic"

	"github.com/openthreeds/threeds/sandbox/internal/pki"
	"github.com/openthreeds/threeds/sandbox/internal/scenario"
)

// A Directory is what a merchant plug-in has to know of a directory server of 3-D Secure 1.0.2.
type Directory struct {
	Scheme      string          // visa mastercard amex jcb protectbuy
	URL         string          // takes VEReq, CRReq and Error
	ServerCA    *x509.CertPool  // signed the directory server's certificate
	ServerCAPEM []byte          // the same as text
	ClientCert  tls.Certificate // what the plug-in shows to the directory server

	// Roots and RootsPEM are what the signatures of the scheme's PARes chain to. The keys are made only when a caller asks
	// for them, or when a card was enrolled. That takes a fifth of a second, once. RootsSoFar does not make them: it
	// returns none as long as nothing was signed.
	Roots      func() []*x509.Certificate
	RootsPEM   func() []byte
	RootsSoFar func() []*x509.Certificate
}

// A directory is one scheme's directory server, and its issuers' keys.
type directory struct {
	network  *Network
	scheme   Scheme
	style    style
	ca       *pki.Authority
	client   tls.Certificate
	url      string
	chain    func() *chain // the scheme's own
	made     atomic.Pointer[chain]
	impostor func() *chain  // has the same names, and no server trusts it
	tables   [2][]cardRange // of the CRRes: as they were before, and as they are
}

func newDirectory(n *Network, scheme Scheme) (*directory, error) {
	d := &directory{network: n, scheme: scheme, style: niceStyle}
	if !n.o.Nice {
		d.style = styles[scheme.Word]
	}
	d.impostor = chainOf(scheme, d.style, chainName{scheme.Word, n.o.Nice, true})
	makeChain := chainOf(scheme, d.style, chainName{scheme.Word, n.o.Nice, false})
	d.chain = func() *chain {
		c := makeChain()
		d.made.Store(c)
		return c
	}
	d.tables = rangeTables(scheme.Word, n.table)
	var err error
	if d.ca, err = pki.NewAuthority("Sandbox " + scheme.Name + " 1.0.2 network CA"); err != nil {
		return nil, err
	}
	server, err := d.ca.Issue("ds-v1."+scheme.Word+".sandbox.test", n.o.Hosts...)
	if err != nil {
		return nil, err
	}
	if d.client, err = d.ca.Issue("mpi." + scheme.Word + ".sandbox.test"); err != nil {
		return nil, err
	}
	url, err := n.o.Listen(d, pki.MutualTLS(server, d.ca))
	if err != nil {
		return nil, err
	}
	d.url = url + "/"
	return d, nil
}

// describe returns what the plug-in has to know.
func (d *directory) describe() Directory {
	return Directory{
		Scheme: d.scheme.Word, URL: d.url,
		ServerCA: d.ca.Pool(), ServerCAPEM: d.ca.PEM(), ClientCert: d.client,
		Roots:    func() []*x509.Certificate { return []*x509.Certificate{d.chain().root} },
		RootsPEM: func() []byte { return pki.PEM(d.chain().root.Raw) },
		RootsSoFar: func() []*x509.Certificate {
			if c := d.made.Load(); c != nil {
				return []*x509.Certificate{c.root}
			}
			return nil
		},
	}
}

func (d *directory) name() string { return "ds " + d.scheme.Word + " 1.0.2" }

// ServeHTTP takes one message of the plug-in and answers it.
func (d *directory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err != nil {
		http.Error(w, "the message is too large or broken off", http.StatusRequestEntityTooLarge)
		return
	}
	m, fault := readMessage(raw, map[string][]part{"VEReq": veReqParts, "CRReq": crReqParts})
	d.network.o.Note(m.id, "server", d.name(), m.kind, raw)
	switch {
	case fault != nil:
		d.network.o.Log.Info("refused", "scheme", d.scheme.Word, "type", m.kind, "code", fault.code, "detail", fault.detail)
		d.send(w, m.id, "Error", fault.bytes(m.id))
	case m.kind == "Error":
		d.network.o.Log.Info("the plug-in complains", "scheme", d.scheme.Word, "code", m.body.find("errorCode").text)
	case m.kind == "CRReq":
		d.send(w, m.id, "CRRes", d.rangesAnswer(m))
	default:
		d.verify(w, r, m)
	}
}

// maxMessage is how many bytes a message may have.
const maxMessage = 64 << 10

// verify answers a VEReq.
func (d *directory) verify(w http.ResponseWriter, r *http.Request, m received) {
	pan := m.body.find("pan").text
	fault := d.network.table.merchants[m.body.find("Merchant", "merID").text]
	found := d.findCard(pan)
	switch {
	case found.silent || fault.Is("VERes", "silence"):
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // anything else would be an answer
	case fault.Is("VERes", "status"):
		status, _ := strconv.Atoi(fault.Code)
		http.Error(w, "nothing works", status)
		return
	case fault.Is("VERes", "garbage"):
		d.send(w, m.id, "VERes", []byte("<!DOCTYPE html><html><body><h1>Maintenance</h1><br></body></html>"))
		return
	case fault.Is("VERes", "error"):
		d.send(w, m.id, "Error", protocolError{fault.Code, fault.Text}.bytes(m.id))
		return
	case fault.Is("VERes", "ireq"):
		d.send(w, m.id, "VERes", envelope(m.id, tag("VERes", leaf("version", protocolVersion),
			tag("CH", leaf("enrolled", "N")), iReq(fault.Code, fault.Text))))
		return
	}
	body := d.veResBody(m, pan, found, fault)
	id := m.id
	if fault.Is("VERes", "other", "id") {
		id = "other." + m.id
	}
	message := envelope(id, body)
	switch {
	case fault.Is("VERes", "cut"):
		message = message[:len(message)/2]
	case fault.Is("VERes", "twice"):
		message = envelope(id, body+body)
	}
	d.send(w, m.id, "VERes", message)
}

// card is what becomes of a card here; those of other schemes are strangers.
func (d *directory) findCard(pan string) card {
	if d.network.o.SchemeOf(pan) != d.scheme.Word {
		return card{outside: true, enrolled: "N"}
	}
	return d.network.table.find(pan)
}

// veResBody is the body of a VERes.
func (d *directory) veResBody(m received, pan string, found card, fault scenario.Fault) string {
	extension := ""
	if fault.Is("VERes", "critical") {
		extension = `<Extension id="sandbox.test/unknown" critical="true"></Extension>`
	}
	if found.enrolled != "Y" {
		return tag("VERes", leaf("version", protocolVersion), tag("CH", leaf("enrolled", found.enrolled)), extension)
	}
	a := &account{
		id: accountID(), messageID: m.id, pan: pan, card: found, directory: d,
		acqBIN: m.body.find("Merchant", "acqBIN").text, merID: m.body.find("Merchant", "merID").text, fault: fault,
	}
	if fault.Is("VERes", "other", "acctID") {
		a.id = pan
	}
	d.network.addAccount(a)
	d.network.o.Go(func() { d.chain() }) // so that the issuer need not wait for its keys
	url := d.network.o.PageURL + d.scheme.Word
	if !d.network.o.Nice {
		url += "?issuer=4711&lang=en"
	}
	if fault.Is("VERes", "other", "url") {
		url = "http://bank@acs.example/v1/" + d.scheme.Word
	}
	return tag("VERes", leaf("version", protocolVersion),
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

func (d *directory) send(w http.ResponseWriter, id, kind string, message []byte) {
	if !bytes.HasPrefix(message, []byte("<!")) {
		message = slices.Concat([]byte(d.style.declaration), message)
	}
	message = d.network.o.Alter(kind, message)
	d.network.o.Note(id, d.name(), "server", kind, message)
	w.Header().Set("Content-Type", d.style.contentType)
	_, _ = w.Write(message) // the plug-in has gone, or reads it
}
