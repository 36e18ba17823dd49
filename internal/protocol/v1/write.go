package v1

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/openthreeds/threeds/internal/protocol/v1/packing"
)

// Marshal returns the message as XML: UTF-8, on one line. It does not check values, but
// leaves out characters that XML 1.0 cannot hold and bytes that are not UTF-8. So do the
// Marshal methods of the other messages.
func (m *VEReq) Marshal() []byte {
	return document(m.ID, "VEReq", func(w *writer) {
		w.leaf("version", Version)
		w.leaf("pan", m.PAN)
		w.toDirectory(m.Merchant)
		if m.DeviceCategory != "" {
			w.branch("Browser", func() {
				w.leaf("deviceCategory", m.DeviceCategory)
				w.optional("accept", m.Accept)
				w.optional("userAgent", m.UserAgent)
			})
		}
	})
}

// Marshal returns the message as XML.
func (m *PAReq) Marshal() []byte {
	return document(m.ID, "PAReq", func(w *writer) {
		w.leaf("version", m.Version)
		w.branch("Merchant", func() {
			w.leaf("acqBIN", m.Merchant.AcqBIN)
			w.leaf("merID", m.Merchant.ID)
			w.leaf("name", m.Merchant.Name)
			w.leaf("country", m.Merchant.Country)
			w.leaf("url", m.Merchant.URL)
		})
		w.branch("Purchase", func() {
			w.leaf("xid", m.XID)
			w.leaf("date", FormatTime(m.Date))
			w.leaf("amount", m.DisplayAmount)
			w.leaf("purchAmount", m.Amount)
			w.leaf("currency", m.Currency)
			w.leaf("exponent", strconv.Itoa(m.Exponent))
			w.optional("desc", m.Description)
		})
		w.branch("CH", func() {
			w.leaf("acctID", m.AcctID)
			w.leaf("expiry", m.Expiry)
		})
	})
}

// Encode returns the message as it goes through a browser; see [packing.Deflate].
func (m *PAReq) Encode() string { return packing.Deflate(m.Marshal()) }

// Marshal returns the message as XML.
func (m *CRReq) Marshal() []byte {
	return document(m.ID, "CRReq", func(w *writer) {
		w.leaf("version", Version)
		w.toDirectory(m.Merchant)
		w.optional("serialNumber", m.Serial)
	})
}

// Marshal returns the message as XML.
func (e *Error) Marshal() []byte {
	return document(e.ID, "Error", func(w *writer) {
		w.leaf("version", Version)
		w.leaf("errorCode", e.Code)
		w.leaf("errorMessage", e.Message)
		w.leaf("errorDetail", e.Detail)
		w.optional("vendorCode", e.VendorCode)
	})
}

// timeLayout is how messages write dates, always in GMT.
const timeLayout = "20060102 15:04:05"

// FormatTime returns t as messages write it.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// A writer appends elements. Their names are ours and need no escaping.
type writer struct{ bytes.Buffer }

func document(id, body string, content func(*writer)) []byte {
	w := &writer{}
	w.WriteString(`<?xml version="1.0" encoding="UTF-8"?><ThreeDSecure><Message id="`)
	w.text(id)
	w.WriteString(`">`)
	w.branch(body, func() { content(w) })
	w.WriteString(`</Message></ThreeDSecure>`)
	return w.Bytes()
}

func (w *writer) branch(name string, content func()) {
	w.WriteString("<" + name + ">")
	content()
	w.WriteString("</" + name + ">")
}

func (w *writer) leaf(name, value string) {
	w.branch(name, func() { w.text(value) })
}

// optional leaves the element out when it would be empty.
func (w *writer) optional(name, value string) {
	if value != "" {
		w.leaf(name, value)
	}
}

// toDirectory writes those fields of the merchant that directory servers get.
func (w *writer) toDirectory(m Merchant) {
	w.branch("Merchant", func() {
		w.leaf("acqBIN", m.AcqBIN)
		w.leaf("merID", m.ID)
		w.optional("password", m.Password)
	})
}

// text writes a value, escaped for an element or an attribute.
func (w *writer) text(s string) {
	for i, r := range s {
		switch r {
		case '&':
			w.WriteString("&amp;")
		case '<':
			w.WriteString("&lt;")
		case '>':
			w.WriteString("&gt;")
		case '"':
			w.WriteString("&quot;")
		case '\t', '\n', '\r': // unescaped, a reader may turn them into other white space
			w.WriteString("&#" + strconv.Itoa(int(r)) + ";")
		case utf8.RuneError:
			if _, size := utf8.DecodeRuneInString(s[i:]); size > 1 {
				w.WriteRune(r) // U+FFFD as such, not a bad byte
			}
		default:
			if r >= ' ' && r != 0xfffe && r != 0xffff {
				w.WriteRune(r)
			}
		}
	}
}
