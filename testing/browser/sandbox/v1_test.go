package sandbox

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
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
		ID    string `xml:"id,attr"`
		PARes []v1PARes
		VERes []v1VERes
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
