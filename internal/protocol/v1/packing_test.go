package v1_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/rand"
	"encoding/base64"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/v1/packing"
)

// packed returns doc after a compressor, without base64.
func packed(doc []byte, compressor func(io.Writer) io.WriteCloser) []byte {
	var b bytes.Buffer
	w := compressor(&b)
	w.Write(doc)
	w.Close()
	return b.Bytes()
}

func zlibbed(w io.Writer) io.WriteCloser  { return zlib.NewWriter(w) }
func gzipped(w io.Writer) io.WriteCloser  { return gzip.NewWriter(w) }
func deflated(w io.Writer) io.WriteCloser { f, _ := flate.NewWriter(w, 9); return f }
func stored(w io.Writer) io.WriteCloser   { z, _ := zlib.NewWriterLevel(w, 0); return z }

func based(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// wrapped breaks s into lines.
func wrapped(s, end string, width int) string {
	var b strings.Builder
	for len(s) > width {
		b.WriteString(s[:width] + end)
		s = s[width:]
	}
	return b.String() + s + end
}

func TestDeflate(t *testing.T) {
	doc := bytes.Repeat([]byte("<a>1</a>"), 999)
	text := packing.Deflate(doc)
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") || b[0] != 0x78 || b[1] != 0x9c {
		t.Errorf("%v, header % x; want base64 on one line, header 78 9c", err, b[:2])
	}
	z, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, doc) {
		t.Errorf("unpacked: %d bytes, %v; want the %d of the document", len(got), err, len(doc))
	}
}

// docWith returns a document whose packed form ends in as many "=" as wanted and
// has some "+" in it or none. The last character is another: there a blank that
// is a "+" and one that was added cannot be told apart.
func docWith(t *testing.T, padding int, plus bool) ([]byte, string) {
	t.Helper()
	doc := []byte("<a>")
	for range 5000 {
		doc = append(doc, rand.Text()[0])
		s := packing.Deflate(doc)
		if strings.Count(s, "=") == padding && strings.Contains(s, "+") == plus && s[len(s)-1] != '+' {
			return doc, s
		}
	}
	t.Fatal("no such document")
	return nil, ""
}

// lowerEscapes writes what is percent-encoded in base64 in lower case.
var lowerEscapes = strings.NewReplacer("%2B", "%2b", "%2F", "%2f", "%3D", "%3d")

func TestInflateRepairs(t *testing.T) {
	plus := func(s string) string { return strings.ReplaceAll(s, "+", " ") }
	for padding := range 3 {
		for _, has := range []bool{false, true} {
			doc, s := docWith(t, padding, has)
			for name, text := range map[string]string{
				"as it is":              s,
				"wrapped with LF":       wrapped(s, "\n", 48),
				"wrapped with CRLF":     wrapped(s, "\r\n", 76),
				"wrapped with blanks":   wrapped(s, " ", 76),
				"indented":              "\n\t" + wrapped(s, "\n   ", 64),
				"blanks around":         "  " + s + " ",
				"tabs":                  wrapped(s, "\t", 5),
				"padding lost":          strings.TrimRight(s, "="),
				"some padding lost":     strings.TrimSuffix(s, "="),
				"plus is blank":         plus(s),
				"that, and no padding":  plus(strings.TrimRight(s, "=")),
				"that, wrapped":         wrapped(plus(s), "\r\n", 64),
				"that, wrapped, around": " " + wrapped(plus(s), "\n", 64) + " ",
				"encoded":               url.QueryEscape(s),
				"encoded in lower case": lowerEscapes.Replace(url.QueryEscape(s)),
				"wrapped and encoded":   url.QueryEscape(wrapped(s, "\r\n", 76)),
			} {
				if got, raw, err := packing.Inflate(text); !bytes.Equal(got, doc) || raw || err != nil {
					t.Errorf("padding %d, plus %v, %s: %v", padding, has, name, err)
				}
			}
		}
	}
}

// A "+" at either end that became a blank is told from a blank that was added.
func TestInflatePlusAtEnd(t *testing.T) {
	doc := []byte("<a>")
	for range 100000 {
		doc = append(doc[:3], rand.Text()[:12]...)
		if s := packing.Deflate(doc); s[len(s)-1] == '+' {
			got, _, err := packing.Inflate(strings.ReplaceAll(s, "+", " "))
			if err != nil || !bytes.Equal(got, doc) {
				t.Error(err)
			}
			return
		}
	}
	t.Fatal("no such document")
}

func TestInflateRaw(t *testing.T) {
	doc := []byte("<a>some text</a>")
	got, raw, err := packing.Inflate(based(packed(doc, deflated)))
	if !bytes.Equal(got, doc) || !raw || err != nil {
		t.Errorf("Inflate = %q, raw %t, %v; want %q, raw", got, raw, err, doc)
	}
}

func TestInflateRefuses(t *testing.T) {
	doc := bytes.Repeat([]byte("<a>some text</a>"), 50)
	z, raw := packed(doc, zlibbed), packed(doc, deflated)
	const (
		alphabet = "v1: not base64"
		broken   = "v1: not zlib, or cut short or changed on the way"
		rest     = "v1: something follows the packed message"
	)
	flipped := bytes.Clone(z)
	flipped[len(z)-1] ^= 1
	dictionary := func(w io.Writer) io.WriteCloser { d, _ := zlib.NewWriterLevelDict(w, 9, doc); return d }
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":           {"", alphabet},
		"blanks":            {" \r\n\t ", alphabet},
		"padding alone":     {"=", alphabet},
		"XML":               {string(doc), alphabet},
		"URL-safe":          {base64.URLEncoding.EncodeToString([]byte("\xff\xfe\xfd")), alphabet},
		"too much padding":  {based(z[:len(z)-len(z)%3]) + "=", alphabet},
		"padding inside":    {"eA==" + based(z), alphabet},
		"no-break space":    {based(z) + "\u00a0", alphabet},
		"one over":          {"A", alphabet},
		"spare bits":        {"eJx=", alphabet},
		"not compressed":    {based(doc), broken},
		"gzip":              {based(packed(doc, gzipped)), broken},
		"cut short":         {based(z[:len(z)-5]), broken},
		"checksum cut":      {based(z[:len(z)-1]), broken},
		"checksum wrong":    {based(flipped), broken},
		"dictionary":        {based(packed(doc, dictionary)), broken},
		"raw and cut":       {based(raw[:len(raw)-2]), broken},
		"rest":              {based(append(bytes.Clone(z), 'x')), rest},
		"raw and rest":      {based(append(bytes.Clone(raw), 0)), rest},
		"twice":             {based(append(bytes.Clone(z), z...)), rest},
		"header alone":      {based([]byte{0x78, 0x9c}), broken},
		"half of a header":  {based([]byte{0x78}), broken},
		"blank for letters": {strings.Replace(based(z), "J", " ", 1), broken},
	} {
		if got, _, err := packing.Inflate(tt.text); got != nil || err == nil || err.Error() != tt.want {
			t.Errorf("%s: %d bytes, %v; want %s", name, len(got), err, tt.want)
		}
	}
}

func TestInflateLimits(t *testing.T) {
	for n := packing.MaxXML - 1; n <= packing.MaxXML+1; n++ {
		for name, compressor := range map[string]func(io.Writer) io.WriteCloser{"zlib": zlibbed, "raw": deflated} {
			got, raw, err := packing.Inflate(based(packed(make([]byte, n), compressor)))
			switch {
			case raw != (name == "raw"):
				t.Errorf("%s: raw is %t", name, raw)
			case n <= packing.MaxXML && (len(got) != n || err != nil):
				t.Errorf("%s, %d bytes: %d, %v; want all", name, n, len(got), err)
			case n > packing.MaxXML && (got != nil || err == nil || err.Error() != "v1: unpacks to more than 131072 bytes"):
				t.Errorf("%s, %d bytes: %d, %v; want none, and that it is too long", name, n, len(got), err)
			}
		}
	}
	// Stored, not compressed, 49 KB are about as long as text may be.
	doc := make([]byte, 48<<10)
	s := based(packed(doc[:len(doc)-100], stored))
	for n := packing.MaxText - 1; n <= packing.MaxText+1; n++ {
		got, _, err := packing.Inflate(s + strings.Repeat("\n", n-len(s)))
		if good := n <= packing.MaxText; good != (err == nil) || good != (len(got) == len(doc)-100) {
			t.Errorf("%d characters: %d bytes, %v; want them taken: %t", n, len(got), err, good)
		}
		if n > packing.MaxText && err.Error() != "v1: more than 65536 characters" {
			t.Error(err)
		}
	}
}
