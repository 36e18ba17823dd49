package v1_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/randtest"
	"github.com/openthreeds/threeds/internal/protocol/v1"
	"github.com/openthreeds/threeds/internal/protocol/v1/packing"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

const (
	head = `<?xml version="1.0" encoding="UTF-8"?><ThreeDSecure><Message id="m1">`
	foot = `</Message></ThreeDSecure>`
)

var cest = time.FixedZone("CEST", 2*60*60)

func TestMarshal(t *testing.T) {
	merchant := v1.Merchant{AcqBIN: "526571", ID: "02000000000", Name: "Blomster & Børn", Country: "208", URL: "https://shop.example/?a=1&b=2"}
	secret := merchant
	secret.Password = "<x>"
	pareq := v1.PAReq{
		ID: "m1", Version: v1.Version, Merchant: secret, XID: "MDAwMDAwMDAwMDEyMzQ1Njc4OTA=",
		Date: time.Date(2015, 2, 17, 0, 17, 41, 999e6, cest), DisplayAmount: "216.01 DKK", Amount: "21601",
		Currency: "208", Exponent: 2, Description: `"5" roses`, AcctID: "acct/1+2=", Expiry: "1512",
	}
	bare := pareq
	bare.Description = ""
	const before = `<PAReq><version>1.0.2</version><Merchant><acqBIN>526571</acqBIN><merID>02000000000</merID>` +
		`<name>Blomster &amp; Børn</name><country>208</country><url>https://shop.example/?a=1&amp;b=2</url></Merchant>` +
		`<Purchase><xid>MDAwMDAwMDAwMDEyMzQ1Njc4OTA=</xid><date>20150216 22:17:41</date><amount>216.01 DKK</amount>` +
		`<purchAmount>21601</purchAmount><currency>208</currency><exponent>2</exponent>`
	const after = `</Purchase><CH><acctID>acct/1+2=</acctID><expiry>1512</expiry></CH></PAReq>`
	for _, tt := range []struct {
		name string
		m    interface{ Marshal() []byte }
		want string
	}{
		{"VEReq", &v1.VEReq{ID: "m1", PAN: "5269480000001548", Merchant: merchant},
			`<VEReq><version>1.0.2</version><pan>5269480000001548</pan>` +
				`<Merchant><acqBIN>526571</acqBIN><merID>02000000000</merID></Merchant></VEReq>`},
		{"VEReq with all", &v1.VEReq{ID: "m1", PAN: "5269480000001548", Merchant: secret, DeviceCategory: "0", Accept: "text/html;q=0.9", UserAgent: "a\tb\r\n>c"},
			`<VEReq><version>1.0.2</version><pan>5269480000001548</pan>` +
				`<Merchant><acqBIN>526571</acqBIN><merID>02000000000</merID><password>&lt;x&gt;</password></Merchant>` +
				`<Browser><deviceCategory>0</deviceCategory><accept>text/html;q=0.9</accept><userAgent>a&#9;b&#13;&#10;&gt;c</userAgent></Browser></VEReq>`},
		{"VEReq with a device", &v1.VEReq{ID: "m1", PAN: "5269480000001548", Merchant: merchant, DeviceCategory: "1"},
			`<VEReq><version>1.0.2</version><pan>5269480000001548</pan>` +
				`<Merchant><acqBIN>526571</acqBIN><merID>02000000000</merID></Merchant><Browser><deviceCategory>1</deviceCategory></Browser></VEReq>`},
		{"PAReq", &pareq, before + `<desc>&quot;5&quot; roses</desc>` + after},
		{"PAReq without description", &bare, before + after},
		{"CRReq", &v1.CRReq{ID: "m1", Merchant: secret},
			`<CRReq><version>1.0.2</version><Merchant><acqBIN>526571</acqBIN><merID>02000000000</merID><password>&lt;x&gt;</password></Merchant></CRReq>`},
		{"CRReq with serial", &v1.CRReq{ID: "m1", Merchant: merchant, Serial: "17"},
			`<CRReq><version>1.0.2</version><Merchant><acqBIN>526571</acqBIN><merID>02000000000</merID></Merchant><serialNumber>17</serialNumber></CRReq>`},
		{"Error", (&v1.Fault{Code: v1.ElementMissing, Detail: "CH.acctID, url"}).Answer("m1"),
			`<Error><version>1.0.2</version><errorCode>3</errorCode><errorMessage>Required element missing</errorMessage><errorDetail>CH.acctID, url</errorDetail></Error>`},
		{"Error with all", &v1.Error{ID: "m1", Code: "98", Message: "Transient system failure", VendorCode: "7"},
			`<Error><version>1.0.2</version><errorCode>98</errorCode><errorMessage>Transient system failure</errorMessage><errorDetail></errorDetail><vendorCode>7</vendorCode></Error>`},
	} {
		if got, want := string(tt.m.Marshal()), head+tt.want+foot; got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, want)
		}
	}
}

// Each code of a Fault has its words.
func TestErrorAnswersFault(t *testing.T) {
	for code, want := range map[string]string{
		v1.RootInvalid: "Root element invalid", v1.NotDefined: "Message element not a defined message",
		v1.ElementMissing: "Required element missing", v1.CriticalUnknown: "Critical element not recognized",
		v1.FormatInvalid: "Format of one or more elements is invalid", v1.VersionTooOld: "Protocol version too old",
		v1.TransientTrouble: "Transient system failure", v1.PermanentTrouble: "Permanent system failure",
	} {
		want := v1.Error{ID: "m1", Code: code, Message: want, Detail: "pan"}
		if got := (&v1.Fault{Code: code, Detail: "pan"}).Answer("m1"); *got != want {
			t.Errorf("code %s: %+v", code, got)
		}
	}
}

// texts returns the text of every element without children, and the Message id.
func texts(t testing.TB, doc []byte) map[string]string {
	root, err := xmldsig.Parse(doc)
	if err != nil {
		t.Fatalf("%v in %q", err, doc)
	}
	all := map[string]string{}
	var walk func(path string, e *xmldsig.Element)
	walk = func(path string, e *xmldsig.Element) {
		if id, ok := e.Attr("id"); ok {
			all[path+"@id"] = id
		}
		if s, ok := e.Text(); ok {
			all[path] = s
		}
		for _, c := range e.Elements() {
			if _, twice := all[path+"/"+c.Local]; twice {
				t.Fatalf("%s twice", c.Local)
			}
			walk(path+"/"+c.Local, c)
		}
	}
	walk(root.Local, root)
	return all
}

// Whatever the values, an XML reader gets them back, on one line.
func TestMarshalReadBack(t *testing.T) {
	randtest.Check(t, func(t *randtest.T) {
		s := func() string {
			illegal := func(r rune) rune {
				if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
					return 'x'
				}
				return r
			}
			return strings.Map(illegal, t.Text(1, 12))
		}
		m := v1.PAReq{
			ID: s(), Version: s(), Merchant: v1.Merchant{AcqBIN: s(), ID: s(), Name: s(), Country: s(), URL: s()},
			XID: s(), Date: time.Unix(int64(t.Uint64Range(0, 1<<32)), 0), DisplayAmount: s(),
			Amount: s(), Currency: s(), Exponent: t.IntRange(0, 9),
			Description: s(), AcctID: s(), Expiry: s(),
		}
		doc := m.Marshal()
		if strings.ContainsAny(string(doc), "\r\n") {
			t.Errorf("more than one line: %q", doc)
		}
		const root = "ThreeDSecure/Message"
		got, want := texts(t, doc), map[string]string{
			root + "@id": m.ID, root + "/PAReq/version": m.Version,
			root + "/PAReq/Merchant/acqBIN": m.Merchant.AcqBIN, root + "/PAReq/Merchant/merID": m.Merchant.ID,
			root + "/PAReq/Merchant/name": m.Merchant.Name, root + "/PAReq/Merchant/country": m.Merchant.Country,
			root + "/PAReq/Merchant/url": m.Merchant.URL, root + "/PAReq/Purchase/xid": m.XID,
			root + "/PAReq/Purchase/date": m.Date.UTC().Format("20060102 15:04:05"), root + "/PAReq/Purchase/amount": m.DisplayAmount,
			root + "/PAReq/Purchase/purchAmount": m.Amount, root + "/PAReq/Purchase/currency": m.Currency,
			root + "/PAReq/Purchase/exponent": string(rune('0' + m.Exponent)), root + "/PAReq/Purchase/desc": m.Description,
			root + "/PAReq/CH/acctID": m.AcctID, root + "/PAReq/CH/expiry": m.Expiry,
		}
		if !maps.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if back, raw, err := packing.Inflate(m.Encode()); string(back) != string(doc) || raw || err != nil {
			t.Errorf("Encode: %q, %v, %v", back, raw, err)
		}
	})
}

// What XML cannot hold is left out.
func TestMarshalLeavesOut(t *testing.T) {
	for in, want := range map[string]string{
		"a\x00\x08\x0b\x1fb": "ab",
		"a\xffb\xc3":         "ab",
		"a\ufffeb\uffffc":    "abc",
		"\ufffd\x7f\u0085":   "\ufffd\x7f\u0085",
		"\xed\xa0\x80":       "", // a surrogate
		"😀":                  "😀",
	} {
		doc := (&v1.CRReq{ID: in, Serial: "<" + in}).Marshal()
		got := texts(t, doc)
		if id, serial := got["ThreeDSecure/Message@id"], got["ThreeDSecure/Message/CRReq/serialNumber"]; id != want || serial != "<"+want {
			t.Errorf("%q: id %q, serialNumber %q, want %q", in, id, serial, want)
		}
	}
}
