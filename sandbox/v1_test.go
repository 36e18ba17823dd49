package sandbox_test

import (
	"bytes"
	"compress/zlib"
	"crypto/tls"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/sandbox"
)

// A plugIn is a merchant plug-in: it asks a directory server of 1.0.2 and goes
// to the issuer as a browser would.
type plugIn struct {
	t      testing.TB
	ds     sandbox.V1Directory
	client *http.Client
	merID  string
	change func(message string) string // of what is sent next
}

func newPlugIn(t testing.TB, box *sandbox.Sandbox, scheme string) *plugIn {
	t.Helper()
	for _, ds := range box.V1Directories() {
		if ds.Scheme == scheme {
			p := &plugIn{t: t, ds: ds, client: clientWith(ds.ServerCA, ds.ClientCert), merID: "shop-1"}
			t.Cleanup(p.client.CloseIdleConnections)
			return p
		}
	}
	t.Fatalf("no directory server of 1.0.2 for %q", scheme)
	return nil
}

// v1Answer is what is read of the messages of the sandbox.
type v1Answer struct {
	Message struct {
		ID     string `xml:"id,attr"`
		PARes  []v1PARes
		VERes  []v1VERes
		CRRes  v1CRRes
		Error  v1Error
		Signed *struct{} `xml:"http://www.w3.org/2000/09/xmldsig# Signature"`
	}
}

type v1VERes struct {
	Version   string `xml:"version"`
	Enrolled  string `xml:"CH>enrolled"`
	AcctID    string `xml:"CH>acctID"`
	URL       string `xml:"url"`
	Protocol  string `xml:"protocol"`
	IReq      string `xml:"IReq>iReqCode"`
	Extension []struct {
		Critical string `xml:"critical,attr"`
	}
}

type v1PARes struct {
	ID       string `xml:"id,attr"`
	Version  string `xml:"version"`
	AcqBIN   string `xml:"Merchant>acqBIN"`
	MerID    string `xml:"Merchant>merID"`
	XID      string `xml:"Purchase>xid"`
	Date     string `xml:"Purchase>date"`
	Amount   string `xml:"Purchase>purchAmount"`
	Currency string `xml:"Purchase>currency"`
	Exponent string `xml:"Purchase>exponent"`
	PAN      string `xml:"pan"`
	Time     string `xml:"TX>time"`
	Status   string `xml:"TX>status"`
	CAVV     string `xml:"TX>cavv"`
	ECI      string `xml:"TX>eci"`
	Algo     string `xml:"TX>cavvAlgorithm"`
	IReq     string `xml:"IReq>iReqCode"`
	Detail   string `xml:"IReq>iReqDetail"`
}

type v1CRRes struct {
	CR     []v1CR
	Serial string `xml:"serialNumber"`
	IReq   string `xml:"IReq>iReqCode"`
}

type v1CR struct {
	Begin  string `xml:"begin"`
	End    string `xml:"end"`
	Action string `xml:"action"`
}

type v1Error struct {
	Code   string `xml:"errorCode"`
	Detail string `xml:"errorDetail"`
}

func readAnswer(t testing.TB, raw []byte) v1Answer {
	t.Helper()
	var a v1Answer
	if err := xml.Unmarshal(raw, &a); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return a
}

// post sends a message to the directory server.
func (p *plugIn) post(message string) (int, []byte) {
	p.t.Helper()
	if p.change != nil {
		message = p.change(message)
	}
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.ds.URL, strings.NewReader(message))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", `application/xml; charset="utf-8"`)
	res, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, raw
}

func (p *plugIn) veReq(id, pan string) string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><ThreeDSecure><Message id="%s"><VEReq><version>1.0.2</version><pan>%s</pan>`+
		`<Merchant><acqBIN>423456</acqBIN><merID>%s</merID></Merchant>`+
		`<Browser><deviceCategory>0</deviceCategory><accept>*/*</accept><userAgent>Test</userAgent></Browser></VEReq></Message></ThreeDSecure>`, id, pan, p.merID)
}

// enrolled asks about a card and returns the one VERes that comes.
func (p *plugIn) enrolled(id, pan string) v1VERes {
	p.t.Helper()
	code, raw := p.post(p.veReq(id, pan))
	a := readAnswer(p.t, raw)
	if code != 200 || len(a.Message.VERes) != 1 || a.Message.ID != id || a.Message.VERes[0].Version != "1.0.2" {
		p.t.Fatalf("%s: %d %s, want a VERes", pan, code, raw)
	}
	return a.Message.VERes[0]
}

const testXID = "MDAwMDAwMDAwMDEyMzQ1Njc4OTA="

func (p *plugIn) paReq(id, acctID string) string {
	message := fmt.Sprintf(`<ThreeDSecure><Message id="%s"><PAReq><version>1.0.2</version>`+
		`<Merchant><acqBIN>423456</acqBIN><merID>%s</merID><name>Bicycles &amp; Sons</name><country>208</country><url>https://shop.example</url></Merchant>`+
		`<Purchase><xid>%s</xid><date>20261121 12:00:00</date><amount>216.01 DKK</amount><purchAmount>21601</purchAmount>`+
		`<currency>208</currency><exponent>2</exponent></Purchase><CH><acctID>%s</acctID><expiry>3012</expiry></CH></PAReq></Message></ThreeDSecure>`,
		id, p.merID, testXID, acctID)
	if p.change != nil {
		message = p.change(message)
	}
	return message
}

func pack(t testing.TB, message string) string {
	t.Helper()
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	if _, err := io.WriteString(z, message); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func unpack(t testing.TB, text string) []byte {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// pay brings a PAReq to the issuer, as a browser does, and reads what the page
// would post to the shop.
func (p *plugIn) pay(acs, paReq string) (journalEntry, []byte) {
	p.t.Helper()
	shown := send(p.t, acs, url.Values{"PaReq": {pack(p.t, paReq)}, "TermUrl": {"https://shop.example/back?x=1&y=2"}, "MD": {"a+b c"}})
	if shown.status != 200 || shown.action() != "https://shop.example/back?x=1&y=2" || shown.field("MD") != "a+b c" {
		p.t.Fatalf("%d %s: TermUrl %q, MD %q", shown.status, shown.text, shown.action(), shown.field("MD"))
	}
	return shown, unpack(p.t, shown.field("PaRes"))
}

// authenticate goes from card number to PARes.
func (p *plugIn) authenticate(id, pan string) (journalEntry, []byte) {
	p.t.Helper()
	ve := p.enrolled(id, pan)
	if ve.Enrolled != "Y" {
		p.t.Fatalf("%s: enrolled %s, want Y", pan, ve.Enrolled)
	}
	return p.pay(ve.URL, p.paReq(id, ve.AcctID))
}

// xmlsec verifies the signature of a PARes with a program of other people's.
func xmlsec(t testing.TB, roots, message []byte) (string, bool) {
	t.Helper()
	program, err := exec.LookPath("xmlsec1")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("NO xmlsec1: install it; the signatures of PARes are held against nothing else")
		}
		t.Skip("NO xmlsec1: the signatures of PARes are not verified")
	}
	// It takes its key from the first X509Data, and American Express has the
	// issuer's certificate in the last. What is in KeyInfo is not signed.
	message = bytes.ReplaceAll(message, []byte("</X509Data><X509Data>"), nil)
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	out, err := exec.CommandContext(t.Context(), program, "--verify", "--id-attr:id", "PARes",
		"--trusted-pem", write("root.pem", roots), write("pares.xml", message)).CombinedOutput()
	return string(out), err == nil
}

// v1Cards has a card of each scheme for each end of four digits.
var v1Cards = map[string]string{
	"visa": "400000123456", "mastercard": "510000123456", "amex": "34000012345", "jcb": "350000123456", "protectbuy": "650000123456",
}

// TestV1Cards goes through the table of the contract, scheme by scheme, and has
// every signature verified.
func TestV1Cards(t *testing.T) {
	t.Parallel()
	for _, nice := range []bool{false, true} {
		box := start(t, func(s *sandbox.Sandbox) { s.Nice = nice })
		for scheme, prefix := range v1Cards {
			t.Run(fmt.Sprintf("%s nice=%t", scheme, nice), func(t *testing.T) {
				t.Parallel()
				p := newPlugIn(t, box, scheme)
				for end, want := range map[string]string{"1000": "N", "1999": "N", "2000": "U", "4000": "U", "9999": "U", "0000": "Y", "0999": "Y"} {
					ve := p.enrolled("id-"+end, prefix+end)
					if ve.Enrolled != want || (ve.URL != "") != (want == "Y") || (ve.Protocol == "ThreeDSecure") != (want == "Y") || ve.IReq != "" {
						t.Errorf("%s: %+v, want %s", end, ve, want)
					}
				}
				for end, want := range map[string]string{"0000": "Y", "0001": "A", "0002": "N", "0003": "U", "0005": "U", "0129": "U", "0990": "Y"} {
					p.cell("id-"+end, prefix+end, want)
				}
				_, message := p.authenticate("broken", prefix+"0004")
				if out, good := xmlsec(t, p.ds.RootsPEM(), message); good {
					t.Errorf("broken signature: %s", out)
				}
			})
		}
	}
}

// cell pays with a card and looks at every element of the PARes.
func (p *plugIn) cell(id, pan, want string) {
	p.t.Helper()
	shown, message := p.authenticate(id, pan)
	got := readAnswer(p.t, message).Message
	if len(got.PARes) != 1 || got.ID != id || got.Signed == nil {
		p.t.Fatalf("%s: %s", pan, message)
	}
	r := got.PARes[0]
	if r.Version != "1.0.2" || r.AcqBIN != "423456" || r.MerID != p.merID || r.XID != testXID || r.Date != "20261121 12:00:00" ||
		r.Amount != "21601" || r.Currency != "208" || r.Exponent != "2" || r.ID == "" || r.IReq != "" || len(r.Time) != 17 {
		p.t.Errorf("%s: %+v", pan, r)
	}
	success := map[string][3]string{
		"visaY": {"05", "2", "A"}, "mastercardY": {"02", "3", "j"}, "amexY": {"05", "2", "A"}, "jcbY": {"05", "2", "A"}, "protectbuyY": {"05", "2", "A"},
		"visaA": {"06", "2", "C"}, "mastercardA": {"01", "3", "h"}, "amexA": {"06", "2", "C"}, "jcbA": {"06", "2", "C"}, "protectbuyA": {"06", "2", "C"},
	}[p.ds.Scheme+want]
	masked := strings.Repeat("0", len(pan))
	if success[0] != "" {
		masked = masked[4:] + pan[len(pan)-4:]
		if len(r.CAVV) != 28 || r.CAVV[:1] != success[2] {
			p.t.Errorf("%s: cavv %q", pan, r.CAVV)
		}
	} else if r.CAVV != "" {
		p.t.Errorf("%s: cavv %q with %s", pan, r.CAVV, want)
	}
	if r.Status != want || r.ECI != success[0] || r.Algo != success[1] || r.PAN != masked {
		p.t.Errorf("%s: %+v, want status %s, %v, pan %s", pan, r, want, success, masked)
	}
	if out, good := xmlsec(p.t, p.ds.RootsPEM(), message); !good {
		p.t.Errorf("%s: %s\n%s", pan, out, message)
	}
	if shown.testID("merchant") != "Bicycles & Sons" || shown.testID("amount") != "216.01 DKK" || !strings.Contains(shown.text, "ending in "+pan[len(pan)-4:]) {
		p.t.Errorf("%s: the page shows %s", pan, shown.text)
	}
	if bytes.Contains(message, []byte(pan)) || strings.Contains(shown.text, pan) {
		p.t.Errorf("%s: the card number went to the browser", pan)
	}
}

// TestV1SilentCardIsNotAnswered: the directory server takes the message and answers when the
// caller has gone, or the sandbox ends.
func TestV1SilentCardIsNotAnswered(t *testing.T) {
	box := start(t, nil)
	p := newPlugIn(t, box, "visa")
	for merID, pan := range map[string]string{"shop-1": "4000001234563000", "FAULT-SILENCE": "4000001234560000"} {
		p.merID = merID
		failed := make(chan error, 1)
		go func() {
			_, err := p.client.Post(p.ds.URL, "application/xml", strings.NewReader(p.veReq("silent-"+merID, pan)))
			failed <- err
		}()
		waitFor(t, box, "silent-"+merID, func(all []sandbox.Exchange) bool { return len(all) == 1 })
		t.Cleanup(func() {
			if err := <-failed; err == nil {
				t.Errorf("%s %s: an answer", merID, pan)
			}
		})
	}
	if err := box.Close(); err != nil {
		t.Error(err)
	}
}

// TestV1NeedsClientCertificate: a client without a certificate of the scheme's authority is refused.
func TestV1NeedsClientCertificate(t *testing.T) {
	box := start(t, nil)
	visa, master := newPlugIn(t, box, "visa"), newPlugIn(t, box, "mastercard")
	for name, client := range map[string]*http.Client{
		"no certificate":                    clientWith(visa.ds.ServerCA),
		"another scheme's certificate":      clientWith(visa.ds.ServerCA, master.ds.ClientCert),
		"another scheme's authority":        clientWith(master.ds.ServerCA, visa.ds.ClientCert),
		"a certificate for 2.x":             clientWith(visa.ds.ServerCA, box.Directories()[0].ClientCert),
		"a certificate for taking results":  clientWith(visa.ds.ServerCA, box.ResultsCert()),
		"a certificate for other addresses": clientWith(visa.ds.ServerCA, tls.Certificate{}),
	} {
		res, err := client.Post(visa.ds.URL, "application/xml", strings.NewReader(visa.veReq("tls", "4000001234560000")))
		if err == nil {
			res.Body.Close()
			t.Errorf("%s: status %d", name, res.StatusCode)
		}
		client.CloseIdleConnections()
	}
}
