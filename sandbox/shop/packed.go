package shop

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
)

// maxPacked bounds a PAReq or PARes, unpacked.
const maxPacked = 128 << 10

// spaces are what forms and peers put into base64.
var spaces = strings.NewReplacer("\r", "", "\n", "", "\t", "", " ", "")

// decodePacked reads what the fields PaReq and PaRes carry: base64 of zlib of XML.
func decodePacked(text string) ([]byte, error) {
	packed, err := base64.StdEncoding.DecodeString(spaces.Replace(text))
	if err != nil {
		return nil, err
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxPacked+1))
	if err == nil && len(raw) > maxPacked {
		err = errors.New("too large")
	}
	return raw, err
}

// elementOf is the text of the first element of a name, "" when there is none.
func elementOf(text []byte, name string) string {
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == name {
			var value string
			if d.DecodeElement(&value, &start) != nil {
				return ""
			}
			return value
		}
	}
}

// maskedElements are those whose text is not shown whole.
var maskedElements = map[string]func(string) string{
	"pan":             cardnumber.MaskNumber,
	"expiry":          func(string) string { return "****" },
	"cavv":            shorten,
	"acctID":          shorten,
	"SignatureValue":  shorten,
	"X509Certificate": shorten,
}

// shownXML is a message of 1.0.2 indented for people, with card numbers and authentication values masked. Of any other
// text it returns only the size.
func shownXML(text []byte, err error) string {
	if err == nil {
		if shown, ok := indentXML(text); ok {
			return shown
		}
	}
	return fmt.Sprintf("(%d bytes that are no message)", len(text))
}

func indentXML(text []byte) (string, bool) {
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if err != nil {
			return "", false
		}
		if start, ok := token.(xml.StartElement); ok {
			var b strings.Builder
			if indentElement(&b, d, start, "") != nil {
				return "", false
			}
			return strings.TrimSuffix(b.String(), "\n"), true
		}
	}
}

// indentElement writes an element that has begun, up to its end.
func indentElement(b *strings.Builder, d *xml.Decoder, start xml.StartElement, indent string) error {
	if len(indent) > 40 {
		return errors.New("too deep")
	}
	name, kids, text := start.Name.Local, false, ""
	shown := maskDigits(name)
	b.WriteString(indent + "<" + shown)
	for _, a := range start.Attr {
		if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
			b.WriteString(" " + maskDigits(a.Name.Local) + `="` + maskDigits(a.Value) + `"`)
		}
	}
	b.WriteString(">")
	for {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.StartElement:
			if !kids {
				b.WriteString("\n")
			}
			kids = true
			if err := indentElement(b, d, t, indent+"  "); err != nil {
				return err
			}
		case xml.CharData:
			text += string(t)
		case xml.EndElement:
			if kids {
				b.WriteString(indent)
			} else if mask := maskedElements[name]; mask != nil {
				b.WriteString(mask(spaces.Replace(text)))
			} else {
				b.WriteString(maskDigits(text))
			}
			b.WriteString("</" + shown + ">\n")
			return nil
		}
	}
}
