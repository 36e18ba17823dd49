package sandbox

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
)

// v1Path, with a scheme after it, is the page of 3-D Secure 1.0.2.
const v1Path = "/v1/"

// A v1World is all that the sandbox has of 1.0.2.
type v1World struct {
	table       v1Table
	directories []*v1Directory
	keep        int

	mu       sync.Mutex
	accounts map[string]*v1Account
	order    []string // oldest first
}

// A v1Account is a card that a directory server has called enrolled, under the
// name that the plug-in knows it by.
type v1Account struct {
	id        string
	messageID string
	pan       string
	card      v1Card
	directory *v1Directory
	acqBIN    string
	merID     string
	fault     merchantFault

	mu    sync.Mutex
	asked string // the PaReq that was answered; asked again, it has the same answer
	pares []byte
}

func (w *v1World) open(a *v1Account) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.accounts == nil {
		w.accounts = make(map[string]*v1Account)
	}
	w.accounts[a.id] = a
	if w.order = append(w.order, a.id); len(w.order) > w.keep {
		delete(w.accounts, w.order[0])
		w.order = w.order[1:]
	}
}

func (w *v1World) account(id string) *v1Account {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accounts[id]
}

func (w *v1World) directory(scheme string) *v1Directory {
	for _, d := range w.directories {
		if d.scheme.word == scheme {
			return d
		}
	}
	return nil
}

// payerAuthentication takes the PAReq that a browser brings from the shop. Who
// accepts text and no page gets the PaRes alone, for a command line.
func (a *issuer) payerAuthentication(w http.ResponseWriter, r *http.Request) {
	const unreadable = "The shop has sent this page something it cannot read."
	d := a.box.v1.directory(r.PathValue("scheme"))
	back, paReq := r.PostFormValue("TermUrl"), r.PostFormValue("PaReq")
	_, marked := r.PostForm["MD"]
	switch {
	case d == nil:
		a.box.fail(w, http.StatusNotFound, "There is no such page.", "scheme in the address")
		return
	case !webURL(back) || len(back) > 2048:
		a.box.fail(w, http.StatusBadRequest, unreadable, "TermUrl is missing or no web address")
		return
	case !marked:
		a.box.fail(w, http.StatusBadRequest, unreadable, "MD is missing; it may be empty")
		return
	}
	raw, err := inflate(paReq)
	if err != nil {
		a.box.fail(w, http.StatusBadRequest, unreadable, "PaReq is missing or not base64 of zlib")
		return
	}
	v, paRes := d.authenticate(paReq, raw)
	w.Header().Add("Vary", "Accept")
	if accept := r.Header.Get("Accept"); strings.HasPrefix(accept, "text/plain") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, paRes+"\n")
		return
	}
	v.After = a.box.PageDelay.Milliseconds()
	v.Form = &form{URL: back, Fields: []field{{"PaRes", paRes}, {"MD", r.PostFormValue("MD")}}}
	a.box.show(w, http.StatusOK, v)
}

var errNotV1 = errors.New("not base64 of zlib")

// inflate reads what the field PaReq carries.
func inflate(text string) ([]byte, error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(packed) > maxV1 {
		return nil, errNotV1
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, errNotV1
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxV1+1))
	if err != nil || len(raw) > maxV1 {
		return nil, errNotV1
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

// authenticate answers a PAReq: what the browser sees, and what it carries back.
func (d *v1Directory) authenticate(paReq string, raw []byte) (view, string) {
	m, fault := readV1Message(raw, map[string][]part{"PAReq": paReqParts})
	d.box.noteV1(m.id, "browser", "acs", "PAReq", raw)
	v := view{
		Name: "v1", Title: "Something went wrong", Scheme: d.scheme.name, Wrong: true,
		Text: "Your bank and the shop did not understand each other. You are going back to the shop.",
	}
	if fault != nil || m.kind != "PAReq" {
		if fault == nil {
			fault = &v1Erro{"2", "Message"}
		}
		v.Detail = "Error " + fault.code + ": " + fault.detail
		return v, d.pack(m.id, "Error", fault.bytes(m.id))
	}
	a := d.box.v1.account(m.body.find("CH", "acctID").text)
	o := d.decide(m, a)
	v.Merchant, v.Amount = m.body.find("Merchant", "name").text, o.amount
	if a != nil {
		v.Last = last4(a.pan)
	}
	v.Title, v.Text, v.Wrong = o.words()
	if a == nil {
		return v, d.pack(m.id, "PARes", d.pares(m, o))
	}
	if o.fault.is("PARes", "error") {
		return v, d.pack(m.id, "Error", v1Erro{o.fault.code, o.fault.text}.bytes(m.id))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked != paReq {
		a.asked, a.pares = paReq, d.pares(m, o)
	}
	return v, d.pack(m.id, "PARes", a.pares)
}

func (d *v1Directory) pack(id, kind string, message []byte) string {
	message = d.box.alter(kind, message)
	d.box.noteV1(id, "acs", "browser", kind, message)
	return deflate(message, d.style.formColumns)
}

// A v1Outcome is what the issuer makes of a PAReq.
type v1Outcome struct {
	status     string
	pan        string // masked
	amount     string // for people
	fault      merchantFault
	code, text string // of an IReq
}

// decide holds a PAReq against what the directory server was asked.
func (d *v1Directory) decide(m v1Received, a *v1Account) v1Outcome {
	purchase := func(name string) string { return m.body.find("Purchase", name).text }
	minor, exponent := purchase("purchAmount"), purchase("exponent")
	o := v1Outcome{status: "U", pan: strings.Repeat("0", 16), amount: amount(minor, exponent, purchase("currency"))}
	if a == nil || a.directory != d {
		o.code, o.text = "56", "CH.acctID"
		return o
	}
	o.fault = a.fault
	if o.fault.is("PARes", "ireq") {
		o.code, o.text = o.fault.code, o.fault.text
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
	if !shows(purchase("amount"), minor, exponent) {
		o.code, o.text = "55", "Purchase.amount"
		return o
	}
	o.status = a.card.status
	if a.card.broken {
		o.fault = merchantFault{message: "PARes", kind: "signature"}
	}
	o.pan = strings.Repeat("0", len(a.pan))
	if o.status == "Y" || o.status == "A" {
		o.pan = o.pan[4:] + last4(a.pan)
	}
	return o
}

// shows says whether an amount for people is that of minor units, with decimals
// or, where they are all zero, without.
func shows(display, minor, exponent string) bool {
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
func (o v1Outcome) words() (title, text string, wrong bool) {
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
func (d *v1Directory) pares(m v1Received, o v1Outcome) []byte {
	echo := func(path ...string) string {
		text := m.body.find(path...).text
		if o.fault.is("PARes", "other", path[len(path)-1]) {
			return other(text)
		}
		return text
	}
	seal := v1Seal{style: d.style, fault: o.fault, stranger: d.client.Leaf}
	switch {
	case o.fault.is("PARes", "chain"):
		seal.chain = d.box.v1.stranger(d).chain()
	case o.fault.is("PARes", "root"):
		seal.chain = d.impostor()
	default:
		seal.chain = d.chain()
	}
	pan := o.pan
	if o.fault.is("PARes", "other", "pan") {
		pan = other(pan)
	}
	purchase := []string{leaf("xid", echo("Purchase", "xid")), leaf("date", echo("Purchase", "date"))}
	if d.style.blankAmount {
		purchase = append(purchase, leaf("amount", " "))
	}
	for _, name := range []string{"purchAmount", "currency", "exponent"} {
		purchase = append(purchase, leaf(name, echo("Purchase", name)))
	}
	inside := []string{
		leaf("version", v1Version),
		tag("Merchant", seal.join(leaf("acqBIN", echo("Merchant", "acqBIN")), leaf("merID", echo("Merchant", "merID")))),
		tag("Purchase", seal.join(purchase...)),
		leaf("pan", pan),
		tag("TX", seal.join(d.result(o, echo("Purchase", "xid"))...)),
	}
	if o.code != "" {
		inside = append(inside, iReq(o.code, o.text))
	}
	id := m.id
	if o.fault.is("PARes", "other", "id") {
		id = "other." + id
	}
	return seal.document(id, inside)
}

// other is a text of the same form and another meaning.
func other(text string) string {
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
func (w *v1World) stranger(d *v1Directory) *v1Directory {
	for _, other := range w.directories {
		if other != d {
			return other
		}
	}
	return d
}

// result is what stands in TX.
func (d *v1Directory) result(o v1Outcome, xid string) []string {
	all := []string{leaf("time", d.box.Now().UTC().Add(d.style.skew).Format(v1Stamp)), leaf("status", o.status)}
	eci, algorithm := d.scheme.yes, "2"
	switch {
	case o.status == "A":
		eci = d.scheme.attempt
	case o.status != "Y":
		return all
	}
	if d.scheme.word == "mastercard" {
		algorithm = "3"
	}
	return append(all, leaf("cavv", d.cavv(o.status, xid)), leaf("eci", eci), leaf("cavvAlgorithm", algorithm))
}

// cavv is 20 bytes that begin as those of the scheme do.
func (d *v1Directory) cavv(status, xid string) string {
	sum := sha256.Sum256([]byte(d.scheme.word + status + xid))
	value := sum[:20]
	switch {
	case d.scheme.word == "mastercard" && status == "A":
		value[0] = 0x86
	case d.scheme.word == "mastercard":
		value[0] = 0x8c
	case status == "A":
		value[0] = 8
	default:
		value[0] = 0
	}
	return base64.StdEncoding.EncodeToString(value)
}
