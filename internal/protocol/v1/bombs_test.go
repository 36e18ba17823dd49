package v1_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/v1"
	"github.com/openthreeds/threeds/internal/protocol/v1/packing"
)

// filled returns pieces between head and tail, n bytes at most.
func filled(n int, head, piece, tail string) []byte {
	return []byte(head + strings.Repeat(piece, (n-len(head)-len(tail))/len(piece)) + tail)
}

// bombs are texts as long as is allowed or as packed as can be, each made to cost.
func bombs() map[string]string {
	const open, shut = `<ThreeDSecure><Message id="m1"><PARes id="p1">`, `</PARes><Signature/></Message></ThreeDSecure>`
	noise := make([]byte, 40<<10)
	source := rand.NewChaCha8([32]byte{})
	source.Read(noise)
	broken := packed(make([]byte, packing.MaxXML), zlibbed)
	broken[len(broken)-1] ^= 1
	known := "<TX>" + strings.Repeat("<time></time>", 1900) + "</TX>"
	attributes := "<b"
	for i := range 64 {
		attributes += fmt.Sprintf(" a%d=''", i)
	}
	all := map[string]string{
		"zeros, 100 MB":          based(packed(make([]byte, 40<<20), zlibbed)),
		"zeros, raw":             based(packed(make([]byte, 40<<20), deflated)),
		"zeros, wrong checksum":  " " + wrapped(based(broken), " ", 2),
		"noise":                  based(noise),
		"noise, stored":          based(packed(noise, stored)),
		"blanks":                 strings.Repeat(" ", packing.MaxText),
		"letters":                strings.Repeat("A", packing.MaxText),
		"letters and blanks":     strings.Repeat("A ", packing.MaxText/2),
		"eJx and blanks":         "eJx" + strings.Repeat("A ", packing.MaxText/2-2),
		"signed, stranger":       packing.Deflate(signer().sign(string(filled(packing.MaxXML-3000, `<Extension id="x">`, "<b></b>", `</Extension>`)))),
		"signed, known elements": packing.Deflate(signer().sign(known)),
		"signed, unknown":        packing.Deflate(signer().sign(string(filled(2000*7, "", "<b></b>", "")))),
		"signed, extensions":     packing.Deflate(signer().sign(string(filled(900*39, "", `<Extension critical="true"></Extension>`, "")))),
		"signed, one long value": packing.Deflate(signer().sign(changed("999", strings.Repeat("9", packing.MaxXML-3000)))),
		"signed, CDATA":          packing.Deflate(inflated(signer().sign(body+`<Extension>`+strings.Repeat("&amp;", 128200)+`</Extension>`), "&amp;", 128200)),
		"certificates": packing.Deflate(bytes.Replace(signer().sign(body), []byte("<X509Data>"),
			[]byte("<X509Data>"+strings.Repeat("<X509Certificate>"+strings.Repeat("MIIC", 3800)+"</X509Certificate>", 7)), 1)),
		"XML, depth":              packing.Deflate(filled(packing.MaxXML, open, "<a>", "")),
		"XML, elements":           packing.Deflate(filled(packing.MaxXML, open, "<b/>", shut)),
		"XML, tokens at limit":    packing.Deflate(filled(2040*4, open, "<b/>", shut)),
		"XML, attributes":         packing.Deflate(filled(packing.MaxXML, "<a", " b='c'", "/>")),
		"XML, crowded":            packing.Deflate(filled(packing.MaxXML, open, attributes+"/>", shut)),
		"XML, text":               packing.Deflate(filled(packing.MaxXML, open, "x", shut)),
		"XML, references":         packing.Deflate(filled(packing.MaxXML, open, "&#65;", shut)),
		"XML, Messages":           packing.Deflate(filled(30000, "<ThreeDSecure>", "<Message/>", "</ThreeDSecure>")),
		"XML, Errors":             packing.Deflate(filled(30000, `<ThreeDSecure><Message id="m">`, "<Error/>", "</Message></ThreeDSecure>")),
		"Error, one long value":   packing.Deflate(message("<Error><errorDetail>" + strings.Repeat("x", packing.MaxXML-300) + "</errorDetail></Error>")),
		"Error, unknown elements": packing.Deflate(message("<Error>" + strings.Repeat("<b/>", 2000) + "</Error>")),
	}
	return all
}

// inflated puts n references for "&" into CDATA.
func inflated(doc []byte, reference string, n int) []byte {
	return bytes.Replace(doc, []byte(strings.Repeat(reference, n)), []byte("<![CDATA["+strings.Repeat("&", n)+"]]>"), 1)
}

// Whatever is in a text, reading it allocates at most 4 MiB.
func TestBombAllocs(t *testing.T) {
	for name, text := range bombs() {
		for whom, trust := range map[string]policies{"trusted": signer().trust("visa"), "nobody": nobody} {
			if n := allocated(func() { v1.OpenPARes(text, trust) }); n > 4<<20 {
				t.Errorf("%s, %s: %d bytes allocated, want 4 MiB at the most", name, whom, n)
			}
		}
	}
	for name, doc := range answerBombs() {
		if n := allocated(func() { v1.ReadVERes(doc, asked, v1.Options{}) }); n > 4<<20 {
			t.Errorf("%s: %d bytes allocated, want 4 MiB at the most", name, n)
		}
	}
}

// answerBombs are answers as long as a directory server's may be.
func answerBombs() map[string][]byte {
	const size = 256 << 10
	const open, shut = `<ThreeDSecure><Message id="m1"><VERes>`, `</VERes></Message></ThreeDSecure>`
	return map[string][]byte{
		"protocols":  filled(8000*11, open, "<protocol/>", shut),
		"extensions": filled(8000*12, open, "<Extension/>", shut),
		"text":       filled(size, open, "x", shut),
		"depth":      filled(size, open, "<a>", ""),
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var before, after runtime.MemStats
	f()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func BenchmarkBombs(b *testing.B) {
	for name, text := range bombs() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				v1.OpenPARes(text, nobody)
			}
		})
	}
}

func BenchmarkOpenPARes(b *testing.B) {
	text, trust := realPARes(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v1.OpenPARes(text, trust); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodePAReq(b *testing.B) {
	m := v1.PAReq{ID: "m1", Version: v1.Version, XID: v1.XID("1"), Date: signTime, Amount: "1", Currency: "208", AcctID: "x"}
	b.ReportAllocs()
	for b.Loop() {
		m.Encode()
	}
}
