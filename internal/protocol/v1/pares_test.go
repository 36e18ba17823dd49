package v1_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/v1"
	"github.com/openthreeds/threeds/internal/protocol/v1/packing"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

func TestRealPARes(t *testing.T) {
	text, trust := realPARes(t)
	o, err := v1.OpenPARes(text, trust)
	if err != nil {
		t.Fatal(err)
	}
	want := v1.PARes{
		ID: "msg.469297.signed", AcqBIN: "526571", MerID: "02000000000", XID: "MDAwMDAwMDAwMDEyMzQ1Njc4OTA=",
		Date: "20150216 10:17:41", Amount: "21601", Currency: "208", Exponent: 2, Last4: "1548", PANLength: 16,
		Time: time.Date(2015, 2, 16, 10, 17, 23, 0, time.UTC), Status: "Y", CAVV: "jI3JBkkaQ1p8CBAAABy0CHUAAAA=", ECI: "02", CAVVAlgo: "3",
	}
	if o.PARes != want || o.ShortECI() != "2" {
		t.Errorf("got  %+v, %s\nwant %+v", o.PARes, o.ShortECI(), want)
	}
	if o.MessageID != "e8ada3517761a9503f29e3afe2be56d6" || o.Raw {
		t.Errorf("id %s, raw %t; want the documented id, not raw", o.MessageID, o.Raw)
	}
	if s := o.Signature; s.Policy != "mastercard" || !s.SHA1 || s.KeyBits != 1024 || s.Chain != 3 {
		t.Errorf("signature %+v, want one of mastercard with SHA-1, 1024 bits, and a chain of 3", s)
	}
	if v1.XID("1234567890") != o.XID {
		t.Error("the xid is not that of the documented order")
	}

	// Today the certificates are expired.
	_, err = v1.OpenPARes(text, func(time.Time) []xmldsig.Policy { return trust(time.Now()) })
	if refusal, ok := errors.AsType[*xmldsig.Refusal](err); !ok || refusal.Reason != xmldsig.Expired {
		t.Error(err)
	}
	// As another scheme's its indicator is wrong.
	_, err = v1.OpenPARes(text, func(at time.Time) []xmldsig.Policy {
		policies := trust(at)
		policies[0].Name = "visa"
		return policies
	})
	if fault, ok := errors.AsType[*v1.Fault](err); !ok || *fault != (v1.Fault{Code: "5", Detail: "TX.eci"}) {
		t.Error(err)
	}
}

// refused holds why each vector that is not good is refused; the README beside
// them says which are.
var refused = map[string]string{
	"atk_01_evil_first_dup_id.xml":             "v1: error 2: ",
	"atk_02_evil_first_other_id.xml":           "v1: error 2: ",
	"atk_03_good_in_extension.xml":             string(xmldsig.WrongURI),
	"atk_04_good_in_sig_object.xml":            string(xmldsig.Form),
	"atk_05_two_messages_evil_first.xml":       "v1: error 5: Message",
	"atk_06_evil_wraps_sig_sibling_dup_id.xml": "v1: error 2: ",
	"atk_07_comment_amount.xml":                ": comment",
	"atk_08_comment_merid.xml":                 ": comment",
	"atk_09_no_signature.xml":                  "v1: error 2: ",
	"atk_10_doctype_entity.xml":                "DOCTYPE",
	"atk_11_xxe.xml":                           "DOCTYPE",
	"atk_12_changed_amount.xml":                string(xmldsig.DigestDiffer),
	"atk_13_empty_uri.xml":                     string(xmldsig.WrongURI),
	"atk_14_uri_message.xml":                   string(xmldsig.WrongURI),
	"atk_15_ext_uri.xml":                       string(xmldsig.WrongURI),
	"atk_16_no_reference.xml":                  string(xmldsig.NotOne),
	"atk_17_status_twice.xml":                  string(xmldsig.DigestDiffer),
	"atk_18_ns_prefixed_pares.xml":             "v1: error 2: ",
	"atk_19_case_ID.xml":                       string(xmldsig.IDTwice),
	"atk_20_trailing.xml":                      "second root",
	"atk_21_c14n_withcomments.xml":             string(xmldsig.NotAllowed),
	"comment.xml":                              ": comment",
	"pi.xml":                                   ": processing instruction",
	"empty_el.xml":                             "v1: error 5: TX.eci", // well signed, but authenticated without eci

	"wellformedness/attr_literal_tab.xml":    "line break or tab",
	"wellformedness/dup_attr_evil_first.xml": "attribute twice",
	"wellformedness/dup_attr_evil_last.xml":  "attribute twice",
	"wellformedness/latin1.xml":              "declaration not of XML 1.0 in UTF-8",
	"wellformedness/leading_ws.xml":          "processing instruction, or",
	"wellformedness/text_outside.xml":        "text outside the root",
	"wellformedness/two_roots.xml":           "second root",
	"wellformedness/undeclared_prefix.xml":   "prefix without namespace",
	"wellformedness/utf16.xml":               "not UTF-8",
	"wellformedness/xml11.xml":               "declaration not of XML 1.0 in UTF-8",
}

// vectorValues are those of nearly all vectors; these have other ids and merIDs.
var (
	vectorValues = v1.PARes{
		ID: "p1", AcqBIN: "411111", MerID: "999", XID: "MDAwMDAwMDAwMDEyMzQ1Njc4OTA=", Date: "20150216 10:17:41",
		Amount: "21601", Currency: "208", Exponent: 2, Last4: "1548", PANLength: 16, Time: signTime,
		Status: "Y", CAVV: "jI3JBkkaQ1p8CBAAABy0CHUAAAA=", ECI: "02", CAVVAlgo: "3",
	}
	vectorIDs    = map[string]string{"id_digit.xml": "186964984", "id_b64.xml": "PARes7weIqTcheCeuZw8aP+znllnC4Js="}
	vectorMerIDs = map[string]string{
		"astral.xml": "😀", "cdata.xml": "A&B<c>", "charref_cr.xml": "999\r", "charref_num.xml": "Søren €",
		"entities.xml": `A&B <c> "d" 'e'`, "rbracket.xml": "]]>", "utf8.xml": "Søren €",
	}
)

func TestPAResVectors(t *testing.T) {
	trust := vectorRoot(t)
	seen := 0
	for _, pattern := range []string{"*.xml", "wellformedness/*.xml"} {
		names, err := fs.Glob(os.DirFS(vectors), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			seen++
			o, err := v1.OpenPARes(packing.Deflate(read(t, name)), trust)
			if reason, bad := refused[name]; bad {
				if o != nil || err == nil || !strings.Contains(err.Error(), reason) {
					t.Errorf("%s: %v; want %s", name, err, reason)
				}
				continue
			}
			want := vectorValues
			if id, ok := vectorIDs[path.Base(name)]; ok {
				want.ID = id
			}
			if merID, ok := vectorMerIDs[name]; ok {
				want.MerID = merID
			}
			if err != nil || o.PARes != want || o.MessageID != "m1" {
				t.Errorf("%s: %+v, %v; want %+v", name, o, err, want)
			}
		}
	}
	if seen != 62 {
		t.Errorf("%d vectors, want 62", seen)
	}
}

// A PARes under a root that is not trusted is refused, and none of its values is returned.
func TestPAResOfUnknownIssuer(t *testing.T) {
	for name, trust := range map[string]policies{"nobody": nobody, "another": newACS().trust("visa")} {
		o, err := v1.OpenPARes(packing.Deflate(signer().sign(body)), trust)
		if refusal, ok := errors.AsType[*xmldsig.Refusal](err); o != nil || !ok {
			t.Errorf("%s: %+v, %v, %v; want nil and a Refusal", name, o, err, refusal)
		}
	}
}

func TestOpenPARes(t *testing.T) {
	base := v1.PARes{
		ID: "p1", AcqBIN: "411111", MerID: "999", XID: "MDAwMDAwMDAwMDEyMzQ1Njc4OTA=", Date: "20150216 10:17:41",
		Amount: "21601", Currency: "208", Exponent: 2, Last4: "1548", PANLength: 16, Time: signTime,
		Status: "Y", CAVV: "jI3JBkkaQ1p8CBAAABy0CHUAAAA=", ECI: "05", CAVVAlgo: "2",
	}
	with := func(change func(*v1.PARes)) v1.PARes {
		p := base
		change(&p)
		return p
	}
	failed := func(status string) v1.PARes {
		return with(func(p *v1.PARes) { p.Status, p.CAVV, p.ECI, p.CAVVAlgo = status, "", "", "" })
	}
	const proof = "<cavv>jI3JBkkaQ1p8CBAAABy0CHUAAAA=</cavv><eci>05</eci><cavvAlgorithm>2</cavvAlgorithm>"
	for _, tt := range []struct {
		name string
		body string
		want v1.PARes
	}{
		{"authenticated", body, base},
		{"attempted", changed(">Y<", ">A<", ">05<", ">06<"), with(func(p *v1.PARes) { p.Status, p.ECI = "A", "06" })},
		{"failed", changed(">Y<", ">N<", proof, "", "1548", "0000"), func() v1.PARes { p := failed("N"); p.Last4 = "0000"; return p }()},
		{"unable", changed(">Y<", ">U<", proof, ""), failed("U")},
		{"failed, with a proof", changed(">Y<", ">N<"), failed("N")},
		{"unable, with a strange proof", changed(">Y<", ">U<", proof, "<cavv>x</cavv><eci>07</eci>"), failed("U")},
		{"refused", changed(">Y<", ">N<", proof, "", "</TX>", "</TX><IReq><iReqCode>55</iReqCode><iReqDetail>amount</iReqDetail><vendorCode>1</vendorCode></IReq>"),
			func() v1.PARes {
				p := failed("N")
				p.IReq = v1.IReq{Code: "55", Detail: "amount", VendorCode: "1"}
				return p
			}()},
		{"spare bits in cavv", changed("HUAAAA=", "HUAAA/="), with(func(p *v1.PARes) { p.CAVV = "jI3JBkkaQ1p8CBAAABy0CHUAAA/=" })},
		{"wallet", changed("<cavvAlgorithm>2<", "<cavvAlgorithm>W<"), with(func(p *v1.PARes) { p.CAVVAlgo = "W" })},
		{"leading zeros", changed(">21601<", ">000000021601<"), base},
		{"nothing to pay", changed(">21601<", ">000<"), with(func(p *v1.PARes) { p.Amount = "0" })},
		{"no decimals", changed(">208<", ">392<", "<exponent>2", "<exponent>0"), with(func(p *v1.PARes) { p.Currency, p.Exponent = "392", 0 })},
		{"elements of PAReq", changed("</date>", "</date><amount> </amount>", "</merID>", "</merID><name>x</name><country>208</country><url>x</url>",
			"</exponent>", "</exponent><desc></desc><Recur><frequency>1</frequency></Recur><install>1</install>"), base},
		{"extension", body + `<Extension critical="false" id="x"><status>N</status></Extension>`, base},
		{"whole card number", changed("0000000000001548", "5269480000001548"), base},
		{"another order", changed("<version>1.0.2</version>", "") + "<version>1.0.2</version>", base},
		{"times in any order", changed("20150216 10:17:41", "20161231 23:59:59"), with(func(p *v1.PARes) { p.Date = "20161231 23:59:59" })},
	} {
		o, err := signer().open("visa", tt.body)
		if err != nil || o.PARes != tt.want {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", tt.name, err, o, tt.want)
		}
	}
}

func TestPAResFaults(t *testing.T) {
	for _, tt := range []struct {
		name string
		body string
		want v1.Fault
	}{
		{"empty", "", v1.Fault{Code: "3", Detail: "version, Merchant, Purchase, pan, TX"}},
		{"empty parts", "<version>1.0.2</version><Merchant></Merchant><Purchase></Purchase><pan>0000000000000</pan><TX></TX>",
			v1.Fault{Code: "3", Detail: "Merchant.acqBIN, Merchant.merID, Purchase.xid, Purchase.date, Purchase.purchAmount, Purchase.currency, " +
				"Purchase.exponent, TX.time, TX.status"}},
		{"no proof", changed("<cavv>jI3JBkkaQ1p8CBAAABy0CHUAAAA=</cavv><eci>05</eci><cavvAlgorithm>2</cavvAlgorithm>", ""),
			v1.Fault{Code: "3", Detail: "TX.cavv, TX.eci, TX.cavvAlgorithm"}},
		{"attempt without proof", changed(">Y<", ">A<", "<cavv>jI3JBkkaQ1p8CBAAABy0CHUAAAA=</cavv>", "", ">05<", ">06<"), v1.Fault{Code: "3", Detail: "TX.cavv"}},
		{"status", changed(">Y<", ">C<"), v1.Fault{Code: "5", Detail: "TX.status"}},
		{"status in small letters", changed(">Y<", ">y<"), v1.Fault{Code: "5", Detail: "TX.status"}},
		{"no status", changed(">Y<", "><"), v1.Fault{Code: "5", Detail: "TX.status"}},
		{"status twice", changed("</status>", "</status><status>N</status>"), v1.Fault{Code: "5", Detail: "TX.status"}},
		{"TX twice", body + "<TX></TX>", v1.Fault{Code: "5", Detail: "TX"}},
		{"status elsewhere", changed("<status>Y</status>", "", "<pan>", "<status>Y</status><pan>"), v1.Fault{Code: "3", Detail: "TX.status"}},
		{"element in amount", changed("21601", "2<x></x>1601"), v1.Fault{Code: "5", Detail: "Purchase.purchAmount"}},
		{"unknown", body + "<CH></CH>", v1.Fault{Code: "5", Detail: "CH"}},
		{"text between", body + "x", v1.Fault{Code: "5", Detail: "PARes"}},
		{"text in TX", changed("<status>", "x<status>"), v1.Fault{Code: "5", Detail: "TX"}},
		{"old", changed("1.0.2", "1.0.1"), v1.Fault{Code: "6", Detail: "1.0.2"}},
		{"new", changed("1.0.2", "2.1.0"), v1.Fault{Code: "5", Detail: "version"}},
		{"critical", body + `<Extension critical="true" id="x"></Extension>`, v1.Fault{Code: "4", Detail: "x"}},
		{"IReq with Y", body + "<IReq><iReqCode>55</iReqCode></IReq>", v1.Fault{Code: "5", Detail: "IReq"}},
		{"IReq with A", changed(">Y<", ">A<", ">05<", ">06<") + "<IReq><iReqCode>55</iReqCode></IReq>", v1.Fault{Code: "5", Detail: "IReq"}},
		{"cavv", changed("jI3J", "jI-J"), v1.Fault{Code: "5", Detail: "TX.cavv"}},
		{"cavv without padding", changed("HUAAAA=", "HUAAAAA"), v1.Fault{Code: "5", Detail: "TX.cavv"}},
		{"cavv too short", changed("HUAAAA=", "HUAAA="), v1.Fault{Code: "5", Detail: "TX.cavv"}},
		{"cavv too long", changed("HUAAAA=", "HUAAAAA="), v1.Fault{Code: "5", Detail: "TX.cavv"}},
		{"cavv of 19 bytes", changed("HUAAAA=", "HUAAA=="), v1.Fault{Code: "5", Detail: "TX.cavv"}},
		{"xid of 19 bytes", changed("4OTA=", "4OT=="), v1.Fault{Code: "5", Detail: "Purchase.xid"}},
		{"cavvAlgorithm", changed("<cavvAlgorithm>2<", "<cavvAlgorithm>-<"), v1.Fault{Code: "5", Detail: "TX.cavvAlgorithm"}},
		{"cavvAlgorithm of two", changed("<cavvAlgorithm>2<", "<cavvAlgorithm>22<"), v1.Fault{Code: "5", Detail: "TX.cavvAlgorithm"}},
		{"eci of one digit", changed(">05<", ">5<"), v1.Fault{Code: "5", Detail: "TX.eci"}},
		{"time", changed("20150216 10:17:23", "20150230 10:17:23"), v1.Fault{Code: "5", Detail: "TX.time"}},
		{"time with fraction", changed("20150216 10:17:23", "20150216 10:17:23.5"), v1.Fault{Code: "5", Detail: "TX.time"}},
		{"date", changed("20150216 10:17:41", "2015-02-16 10:17"), v1.Fault{Code: "5", Detail: "Purchase.date"}},
		{"amount", changed("21601", "-1601"), v1.Fault{Code: "5", Detail: "Purchase.purchAmount"}},
		{"currency", changed(">208<", ">999<"), v1.Fault{Code: "5", Detail: "Purchase.currency"}},
		{"exponent", changed("<exponent>2", "<exponent>3"), v1.Fault{Code: "5", Detail: "Purchase.exponent"}},
		{"exponent of two", changed("<exponent>2", "<exponent>02"), v1.Fault{Code: "5", Detail: "Purchase.exponent"}},
		{"pan", changed("0000000000001548", "000000000000154x"), v1.Fault{Code: "5", Detail: "pan"}},
		{"acqBIN", changed("411111", "41111x"), v1.Fault{Code: "5", Detail: "Merchant.acqBIN"}},
		{"all of it", changed("411111", "x", "999", "", "20150216 10:17:41", "", "0000000000001548", "1548", ">Y<", ">S<"),
			v1.Fault{Code: "5", Detail: "Merchant.acqBIN, Merchant.merID, Purchase.date, pan, TX.status"}},
	} {
		o, err := signer().open("visa", tt.body)
		if fault, ok := errors.AsType[*v1.Fault](err); o != nil || !ok || *fault != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, o, err, tt.want)
		}
	}
}

// Each length of a PARes at its limit, one below and one above.
func TestPAResLimits(t *testing.T) {
	for _, tt := range []struct {
		detail, old, of string
		min, max        int
	}{
		{"Merchant.acqBIN", "411111", "4", 1, 11},
		{"Merchant.merID", "999", "é", 1, 24},
		{"Purchase.purchAmount", "21601", "9", 1, 12},
		{"pan", "0000000000001548", "1", 12, 19},
		{"TX.cavvAlgorithm", "2</cavv", "2", 1, 1},
	} {
		for _, n := range []int{tt.min - 1, tt.min, tt.min + 1, tt.max - 1, tt.max, tt.max + 1} {
			_, tail, _ := strings.Cut(tt.old, "<")
			s := strings.Repeat(tt.of, n)
			if tail != "" {
				s += "<" + tail
			}
			_, err := signer().open("visa", changed(">"+tt.old, ">"+s))
			if good := tt.min <= n && n <= tt.max; good != (err == nil) {
				t.Errorf("%s of %d: %v; want it taken: %t", tt.detail, n, err, good)
			}
			if fault, ok := errors.AsType[*v1.Fault](err); err != nil && (!ok || *fault != (v1.Fault{Code: "5", Detail: tt.detail})) {
				t.Errorf("%s of %d: %v, want a Fault 5: %s", tt.detail, n, err, tt.detail)
			}
		}
	}
}

// The document that the acs signs has 56 tokens without what is added here.
func TestTokenLimit(t *testing.T) {
	const own = 56
	for n := v1.MaxTokens - 1; n <= v1.MaxTokens+1; n++ {
		_, err := signer().open("visa", body+"<Extension>"+strings.Repeat("<b></b>", n-own)+"</Extension>")
		if good := n <= v1.MaxTokens; good != (err == nil) || !good && !strings.HasSuffix(err.Error(), "too many tokens") {
			t.Errorf("%d tokens: %v; want %d at the most", n, err, v1.MaxTokens)
		}
	}
}

// The indicator fits status and scheme; Mastercard may sign an attempt as Y.
func TestECIAgrees(t *testing.T) {
	good := map[string]bool{"mastercard Y 02": true, "mastercard Y 01": true, "mastercard A 01": true}
	for _, scheme := range []string{"visa", "amex", "jcb", "protectbuy"} {
		good[scheme+" Y 05"], good[scheme+" A 06"] = true, true
	}
	seen := 0
	for _, scheme := range []string{"visa", "amex", "jcb", "protectbuy", "mastercard"} {
		for _, status := range []string{"Y", "A"} {
			for _, eci := range []string{"00", "01", "02", "03", "04", "05", "06", "07", "5", "2", "005", "", "5 "} {
				name := scheme + " " + status + " " + eci
				o, err := signer().open(scheme, changed(">Y<", ">"+status+"<", ">05<", ">"+eci+"<"))
				if good[name] != (err == nil) {
					t.Errorf("%s: %v; want it taken: %t", name, err, good[name])
				}
				if err == nil {
					seen++
					if o.ECI != eci || o.ShortECI() != eci[1:] || o.Status != status {
						t.Errorf("%s: status %s, eci %s, %s; want those, and the eci without 0", name, o.Status, o.ECI, o.ShortECI())
					}
				}
			}
		}
		for status, want := range map[string]string{"N": v1.ECI(scheme, v1.Failure), "U": v1.ECI(scheme, v1.Unavailable)} {
			if o, err := signer().open(scheme, changed(">Y<", ">"+status+"<")); err != nil || o.ShortECI() != want || o.ECI != "" || o.CAVV != "" {
				t.Errorf("%s %s: %+v, %v; want the ECI %s, nothing else of a proof", scheme, status, o, err, want)
			}
		}
	}
	if seen != len(good) {
		t.Errorf("%d good, want %d", seen, len(good))
	}
}

// Policies are asked with the time that the message claims, whatever it is.
func TestClaimedTime(t *testing.T) {
	for _, tt := range []struct {
		body string
		want time.Time
	}{
		{body, signTime},
		{changed("20150216 10:17:23", "20310102 03:04:05"), time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)},
		{changed("20150216 10:17:23", "yesterday"), time.Time{}},
		{changed("<time>20150216 10:17:23</time>", ""), time.Time{}},
		{changed("<time>20150216 10:17:23</time>", "<time><x></x></time>"), time.Time{}},
		{"", time.Time{}},
	} {
		asked := 0
		v1.OpenPARes(packing.Deflate(signer().sign(tt.body)), func(at time.Time) []xmldsig.Policy {
			asked++
			if !at.Equal(tt.want) {
				t.Errorf("claimed %v, want %v", at, tt.want)
			}
			return nil
		})
		if asked != 1 {
			t.Errorf("policies was called %d times, want once", asked)
		}
	}
}

// Values come from the bytes that were digested, so these are what must be
// readable: CDATA is short in the document and long in the canonical form.
func TestOnlySignedBytesAreRead(t *testing.T) {
	for _, n := range []int{1000, 60000} {
		extension := func(s string) string { return body + `<Extension id="x">` + s + `</Extension>` }
		escaped := extension(strings.Repeat("&amp;", n))
		doc := strings.Replace(string(signer().sign(escaped)), escaped, extension("<![CDATA["+strings.Repeat("&", n)+"]]>"), 1)
		o, err := v1.OpenPARes(packing.Deflate([]byte(doc)), signer().trust("visa"))
		if n == 1000 && (err != nil || o.Amount != "21601") {
			t.Error(err)
		}
		if n == 60000 && (err == nil || !strings.HasPrefix(err.Error(), "v1: signed bytes: xmldsig: byte 0: document too long")) {
			t.Error(err)
		}
	}
}

// A PARes packed without zlib is taken, and marked as raw.
func TestRawPARes(t *testing.T) {
	doc := signer().sign(body)
	o, err := v1.OpenPARes(based(packed(doc, deflated)), signer().trust("visa"))
	if err != nil || !o.Raw {
		t.Errorf("OpenPARes = %+v, %v; want it taken as raw", o, err)
	}
}

// Refusals name no values.
func TestRefusalsKeepValues(t *testing.T) {
	for _, b := range []string{
		changed("0000000000001548", "52694800000015486666"), changed(">Y<", ">5269480000001548<"), changed("411111", "52694800000015"),
		body + "<p5269480000001548></p5269480000001548>", body + "5269480000001548", changed("<status>", "5269480000001548<status>"),
		body + `<Extension critical="5269480000001548"></Extension>`, changed("1.0.2", "5269480000001548"),
	} {
		_, err := signer().open("visa", b)
		if err == nil || strings.Contains(err.Error(), "52694") {
			t.Error(err)
		}
	}
}

// Whatever byte of a good PARes is changed, it is refused or says the same.
func TestSingleByteEdits(t *testing.T) {
	type sample struct {
		name  string
		doc   []byte
		trust policies
	}
	text, trust := realPARes(t)
	doc, _, err := packing.Inflate(text)
	if err != nil {
		t.Fatal(err)
	}
	const edits = 1000 // edits is how often the document is edited, and how often its packed form is.
	random := rand.New(rand.NewPCG(1, 2))
	for _, s := range []sample{
		{"real", doc, trust}, {"vector", read(t, "exc.xml"), vectorRoot(t)}, {"made here", signer().sign(body), signer().trust("visa")},
	} {
		good, err := v1.OpenPARes(packing.Deflate(s.doc), s.trust)
		if err != nil {
			t.Fatal(err)
		}
		packed := []byte(packing.Deflate(s.doc))
		same := 0
		check := func(text string) {
			o, err := v1.OpenPARes(text, s.trust)
			if err != nil {
				return
			}
			same++
			if o.PARes != good.PARes || o.Signature.Policy != good.Signature.Policy {
				t.Errorf("%s: says %+v, want the same as before the edit, %+v", s.name, o.PARes, good.PARes)
			}
		}
		for range edits {
			check(packing.Deflate(edited(random, s.doc)))
			check(string(edited(random, packed)))
		}
		t.Logf("%s: %d of %d edits change nothing that counts", s.name, same, 2*edits)
		if same == 0 {
			t.Error("no edit at all was good: there should be some, of ids and white space")
		}
	}
}

// edited changes, removes, doubles or adds one byte.
func edited(random *rand.Rand, doc []byte) []byte {
	doc = bytes.Clone(doc)
	i, b := random.IntN(len(doc)), byte(random.IntN(256))
	switch random.IntN(5) {
	case 0:
		return slices.Delete(doc, i, i+1)
	case 1:
		return slices.Insert(doc, i, doc[i])
	case 2:
		return slices.Insert(doc, i, b)
	case 3:
		doc[i] ^= 1 << (b % 8)
	default:
		doc[i] = b
	}
	return doc
}
