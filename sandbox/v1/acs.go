package v1

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/openthreeds/threeds/sandbox/internal/scenario"
)

// An account is a card that a directory server has called enrolled, under the name that the plug-in knows it by.
type account struct {
	id        string
	messageID string
	pan       string
	card      card
	directory *directory
	acqBIN    string
	merID     string
	fault     scenario.Fault

	mu    sync.Mutex
	asked string // the PaReq that was answered; the same PaReq gets the same answer
	pares []byte
}

// A Page is what the issuer's page says, and what it sends back to the shop.
type Page struct {
	Scheme                         string // as a cardholder knows it
	Title, Text                    string
	Wrong                          bool   // it is bad news
	Detail                         string // for developers
	Merchant                       string
	MinorUnits, Exponent, Currency string // of the amount; empty when none could be read
	LastFour                       string // of the card number
	PaRes                          string // the form field
}

// Has reports whether a scheme has a directory server and issuers.
func (n *Network) Has(scheme string) bool { return n.directory(scheme) != nil }

func (n *Network) directory(scheme string) *directory {
	for _, d := range n.directories {
		if d.scheme.Word == scheme {
			return d
		}
	}
	return nil
}

// Authenticate takes the form field PaReq of a browser that comes to the page of a scheme's issuer. The network has the
// scheme. The error says what is wrong with the field.
func (n *Network) Authenticate(scheme, paReq string) (Page, error) {
	raw, err := inflate(paReq)
	if err != nil {
		return Page{}, err
	}
	return n.directory(scheme).authenticate(paReq, raw), nil
}

var errNotPacked = errors.New("not base64 of zlib")

// inflate reads what the field PaReq carries.
func inflate(text string) ([]byte, error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(packed) > maxMessage {
		return nil, errNotPacked
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, errNotPacked
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxMessage+1))
	if err != nil || len(raw) > maxMessage {
		return nil, errNotPacked
	}
	return raw, nil
}

// deflate writes what the field PaRes carries.
func deflate(raw []byte, columns int) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(raw) // a bytes.Buffer does not fail
	_ = z.Close()
	return strings.ReplaceAll(wrap(b.Bytes(), columns), "\n", "\r\n")
}

// authenticate answers a PAReq.
func (d *directory) authenticate(paReq string, raw []byte) Page {
	m, fault := readMessage(raw, map[string][]part{"PAReq": paReqParts})
	d.network.o.Note(m.id, "browser", "acs", "PAReq", raw)
	p := Page{
		Title: "Something went wrong", Scheme: d.scheme.Name, Wrong: true,
		Text: "Your bank and the shop did not understand each other. You are going back to the shop.",
	}
	if fault != nil || m.kind != "PAReq" {
		if fault == nil {
			fault = &protocolError{"2", "Message"}
		}
		p.Detail = "Error " + fault.code + ": " + fault.detail
		p.PaRes = d.pack(m.id, "Error", fault.bytes(m.id))
		return p
	}
	a := d.network.findAccount(m.body.find("CH", "acctID").text)
	o := d.decide(m, a)
	purchase := m.body.find("Purchase")
	p.Merchant = m.body.find("Merchant", "name").text
	p.MinorUnits, p.Exponent, p.Currency = purchase.find("purchAmount").text, purchase.find("exponent").text,
		purchase.find("currency").text
	p.Title, p.Text, p.Wrong = o.words()
	if a == nil {
		p.PaRes = d.pack(m.id, "PARes", d.pares(m, o))
		return p
	}
	p.LastFour = lastFour(a.pan)
	if o.fault.Is("PARes", "error") {
		p.PaRes = d.pack(m.id, "Error", protocolError{o.fault.Code, o.fault.Text}.bytes(m.id))
		return p
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked != paReq {
		a.asked, a.pares = paReq, d.pares(m, o)
	}
	p.PaRes = d.pack(m.id, "PARes", a.pares)
	return p
}

func lastFour(pan string) string { return pan[max(0, len(pan)-4):] }

func (d *directory) pack(id, kind string, message []byte) string {
	message = d.network.o.Alter(kind, message)
	d.network.o.Note(id, "acs", "browser", kind, message)
	return deflate(message, d.style.formColumns)
}

// A outcome is what the issuer makes of a PAReq.
type outcome struct {
	status     string
	pan        string // masked
	fault      scenario.Fault
	code, text string // of an IReq
}

// decide holds a PAReq against what the directory server was asked.
func (d *directory) decide(m received, a *account) outcome {
	purchase := func(name string) string { return m.body.find("Purchase", name).text }
	minor, exponent := purchase("purchAmount"), purchase("exponent")
	o := outcome{status: "U", pan: strings.Repeat("0", 16)}
	if a == nil || a.directory != d {
		o.code, o.text = "56", "CH.acctID"
		return o
	}
	o.fault = a.fault
	if o.fault.Is("PARes", "ireq") {
		o.code, o.text = o.fault.Code, o.fault.Text
		return o
	}
	for _, same := range []struct{ name, got, want string }{
		{"Message.id", m.id, a.messageID},
		{"Merchant.acqBIN", m.body.find("Merchant", "acqBIN").text, a.acqBIN},
		{"Merchant.merID", m.body.find("Merchant", "merID").text, a.merID},
	} {
		if same.got != same.want {
			o.code, o.text = "55", same.name
			return o
		}
	}
	if !amountsAgree(purchase("amount"), minor, exponent) {
		o.code, o.text = "55", "Purchase.amount"
		return o
	}
	o.status = a.card.status
	if a.card.broken {
		o.fault = scenario.Fault{Message: "PARes", Kind: "signature"}
	}
	o.pan = strings.Repeat("0", len(a.pan))
	if o.status == "Y" || o.status == "A" {
		o.pan = o.pan[4:] + lastFour(a.pan)
	}
	return o
}

// amountsAgree reports whether an amount for people is that of minor units, with decimals
// or, where they are all zero, without.
func amountsAgree(display, minor, exponent string) bool {
	shown := strings.TrimLeft(strings.Map(func(c rune) rune {
		if c < '0' || c > '9' {
			return -1
		}
		return c
	}, display), "0")
	minor = strings.TrimLeft(minor, "0")
	return shown == minor || shown+strings.Repeat("0", int(exponent[0]-'0')) == minor
}

// words are what the cardholder reads, and whether it is bad news.
func (o outcome) words() (title, text string, wrong bool) {
	switch {
	case o.code != "" || o.status == "U":
		return "Not checked", "Your bank could not check this payment. You are going back to the shop.", true
	case o.status == "N":
		return "Not confirmed", "Your bank has not confirmed this. You are going back to the shop.", true
	case o.status == "A":
		return "Noted", "Your bank has noted the attempt. You are going back to the shop.", false
	}
	return "Confirmed", "Thank you. You are going back to the shop.", false
}

// pares writes and signs the PARes.
func (d *directory) pares(m received, o outcome) []byte {
	echo := func(path ...string) string {
		text := m.body.find(path...).text
		if o.fault.Is("PARes", "other", path[len(path)-1]) {
			return alterValue(text)
		}
		return text
	}
	seal := sealer{style: d.style, fault: o.fault, stranger: d.client.Leaf}
	switch {
	case o.fault.Is("PARes", "chain"):
		seal.chain = d.network.stranger(d).chain()
	case o.fault.Is("PARes", "root"):
		seal.chain = d.impostor()
	default:
		seal.chain = d.chain()
	}
	pan := o.pan
	if o.fault.Is("PARes", "other", "pan") {
		pan = alterValue(pan)
	}
	purchase := []string{leaf("xid", echo("Purchase", "xid")), leaf("date", echo("Purchase", "date"))}
	if d.style.blankAmount {
		purchase = append(purchase, leaf("amount", " "))
	}
	for _, name := range []string{"purchAmount", "currency", "exponent"} {
		purchase = append(purchase, leaf(name, echo("Purchase", name)))
	}
	inside := []string{
		leaf("version", protocolVersion),
		tag("Merchant", seal.join(leaf("acqBIN", echo("Merchant", "acqBIN")), leaf("merID", echo("Merchant", "merID")))),
		tag("Purchase", seal.join(purchase...)),
		leaf("pan", pan),
		tag("TX", seal.join(d.result(o, echo("Purchase", "xid"))...)),
	}
	if o.code != "" {
		inside = append(inside, iReq(o.code, o.text))
	}
	id := m.id
	if o.fault.Is("PARes", "other", "id") {
		id = "other." + id
	}
	return seal.document(id, inside)
}

// alterValue is a text of the same form and another meaning.
func alterValue(text string) string {
	switch last := text[len(text)-1]; {
	case strings.HasSuffix(text, "="): // base64 of 20 bytes
		return "b3RoZXI" + text[7:]
	case last == '9':
		return text[:len(text)-1] + "8"
	case last >= '0' && last < '9':
		return text[:len(text)-1] + string(last+1)
	}
	return text[:len(text)-1] + "0"
}

// stranger is another scheme's directory server.
func (n *Network) stranger(d *directory) *directory {
	for _, other := range n.directories {
		if other != d {
			return other
		}
	}
	return d
}

// result is what stands in TX.
func (d *directory) result(o outcome, xid string) []string {
	all := []string{leaf("time", d.network.o.Now().UTC().Add(d.style.skew).Format(stampLayout)), leaf("status", o.status)}
	eci, algorithm := d.scheme.ECI, "2"
	switch {
	case o.status == "A":
		eci = d.scheme.AttemptECI
	case o.status != "Y":
		return all
	}
	if d.scheme.Word == "mastercard" {
		algorithm = "3"
	}
	return append(all, leaf("cavv", d.cavv(o.status, xid)), leaf("eci", eci), leaf("cavvAlgorithm", algorithm))
}

// cavv is 20 bytes that begin as those of the scheme do.
func (d *directory) cavv(status, xid string) string {
	sum := sha256.Sum256([]byte(d.scheme.Word + status + xid))
	value := sum[:20]
	switch {
	case d.scheme.Word == "mastercard" && status == "A":
		value[0] = 0x86
	case d.scheme.Word == "mastercard":
		value[0] = 0x8c
	case status == "A":
		value[0] = 8
	default:
		value[0] = 0
	}
	return base64.StdEncoding.EncodeToString(value)
}
