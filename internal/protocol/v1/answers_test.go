package v1_test

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"reflect"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/v1"
	"github.com/openthreeds/threeds/internal/protocol/v1/packing"
)

const pan = "5269480000001548"

var (
	asked      = &v1.VEReq{ID: "m1", PAN: pan}
	askedTable = &v1.CRReq{ID: "m1"}
)

// message puts a body into its envelope.
func message(body string) []byte {
	return []byte(`<?xml version="1.0" encoding="UTF-8"?><ThreeDSecure><Message id="m1">` + body + `</Message></ThreeDSecure>`)
}

func veres(content string) []byte {
	return message("<VERes><version>1.0.2</version>" + content + "</VERes>")
}

const (
	enrolled = "<CH><enrolled>Y</enrolled><acctID>a b/+=</acctID></CH>"
	acsURL   = "<url>https://acs.example/pa?x=1&amp;y=2</url>"
	protocol = "<protocol>ThreeDSecure</protocol>"
)

var good = v1.VERes{ID: "m1", Version: "1.0.2", Enrolled: "Y", AcctID: "a b/+=", URL: "https://acs.example/pa?x=1&y=2"}

func TestReadVERes(t *testing.T) {
	no := func(s string) v1.VERes { return v1.VERes{ID: "m1", Version: "1.0.2", Enrolled: s} }
	refused := no("N")
	refused.IReq = v1.IReq{Code: "50", Detail: "Acquirer not participating", VendorCode: "x<y"}
	unable := no("U")
	unable.IReq.Code = "98"
	for _, tt := range []struct {
		name string
		doc  []byte
		want v1.VERes
	}{
		{"enrolled", veres(enrolled + acsURL + protocol), good},
		{"another order", message("<VERes>" + protocol + enrolled + acsURL + "<version>1.0.2</version></VERes>"), good},
		{"SET too", veres(enrolled + acsURL + "<protocol>SET</protocol>" + protocol), good},
		{"pretty", []byte("\ufeff<ThreeDSecure xmlns:xsi='urn:xsi' xsi:a='1'>\r\n\t<Message id='m1' x='y'>\n " + strings.ReplaceAll(
			"<VERes><version>1.0.2</version>"+enrolled+acsURL+protocol+"</VERes>", "><", ">\n <") + "</Message> </ThreeDSecure>\n"), good},
		{"a namespace", []byte(`<t:ThreeDSecure xmlns:t="u"><t:Message id="m1"><t:VERes><t:version>1.0.2</t:version>` +
			`<t:CH><t:enrolled>N</t:enrolled></t:CH></t:VERes></t:Message></t:ThreeDSecure>`), no("N")},
		{"extension", veres(enrolled + acsURL + protocol + `<Extension id="v" critical="false"><version/>x<x y="1"/></Extension><Extension/>`), good},
		{"not enrolled", veres("<CH><enrolled>N</enrolled></CH>"), no("N")},
		{"unable", veres("<CH><enrolled>U</enrolled></CH><IReq><iReqCode>98</iReqCode></IReq>"), unable},
		{"refused", veres("<CH><enrolled>N</enrolled></CH><IReq><iReqCode>50</iReqCode>" +
			"<iReqDetail>Acquirer not participating</iReqDetail><vendorCode>x&lt;y</vendorCode></IReq>"), refused},
		{"not enrolled, with the rest", veres("<CH><enrolled>N</enrolled><acctID>x</acctID></CH><url>http://x</url><protocol/>"), no("N")},
	} {
		got, err := v1.ReadVERes(tt.doc, asked, v1.Options{})
		if err != nil || *got != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
	}
}

func TestReadVEResFaults(t *testing.T) {
	y := enrolled + acsURL + protocol
	in := strings.Replace
	for _, tt := range []struct {
		name string
		doc  []byte
		want v1.Fault
	}{
		{"nothing", nil, v1.Fault{Code: "1", Detail: "byte 0: no element"}},
		{"HTML", []byte("<html><p>Gateway timeout<br></html>"), v1.Fault{Code: "1", Detail: "byte 28: end of an element that is not open"}},
		{"another root", []byte("<ThreeDSecure2><Message id='m1'/></ThreeDSecure2>"), v1.Fault{Code: "1", Detail: "ThreeDSecure"}},
		{"DOCTYPE", []byte("<!DOCTYPE a><ThreeDSecure/>"), v1.Fault{Code: "1", Detail: "byte 0: DOCTYPE or another directive"}},
		{"no Message", []byte("<ThreeDSecure/>"), v1.Fault{Code: "3", Detail: "Message"}},
		{"two Messages", []byte("<ThreeDSecure><Message id='m1'/><Message id='m1'/></ThreeDSecure>"), v1.Fault{Code: "5", Detail: "Message"}},
		{"something beside", []byte("<ThreeDSecure><Message id='m1'/><x/></ThreeDSecure>"), v1.Fault{Code: "5", Detail: "x"}},
		{"text beside", []byte("<ThreeDSecure>x<Message id='m1'/></ThreeDSecure>"), v1.Fault{Code: "5", Detail: "ThreeDSecure"}},
		{"text in Message", message("x<VERes/>"), v1.Fault{Code: "5", Detail: "Message"}},
		{"no id", []byte("<ThreeDSecure><Message Id='m1'/></ThreeDSecure>"), v1.Fault{Code: "3", Detail: "Message.id"}},
		{"empty id", []byte("<ThreeDSecure><Message id=''/></ThreeDSecure>"), v1.Fault{Code: "5", Detail: "Message.id"}},
		{"another id", []byte("<ThreeDSecure><Message id='m2'><VERes><version>1.0.2</version><CH><enrolled>N</enrolled></CH></VERes></Message></ThreeDSecure>"),
			v1.Fault{Code: "5", Detail: "Message.id"}},
		{"no body", message(""), v1.Fault{Code: "2", Detail: "Message: not a VERes"}},
		{"another body", message("<CRRes/>"), v1.Fault{Code: "2", Detail: "Message: not a VERes"}},
		{"two bodies", message("<VERes/><VERes/>"), v1.Fault{Code: "2", Detail: "Message: not a VERes"}},
		{"body in another space", message("<VERes xmlns='u'/>"), v1.Fault{Code: "2", Detail: "Message: not a VERes"}},
		{"empty", message("<VERes/>"), v1.Fault{Code: "3", Detail: "version, CH"}},
		{"empty CH", veres("<CH/>"), v1.Fault{Code: "3", Detail: "CH.enrolled"}},
		{"nothing with Y", veres("<CH><enrolled>Y</enrolled></CH>"), v1.Fault{Code: "3", Detail: "CH.acctID, url, protocol"}},
		{"missing before bad", veres("<CH><enrolled>Y</enrolled><acctID/></CH>" + acsURL), v1.Fault{Code: "3", Detail: "protocol"}},
		{"enrolled", veres("<CH><enrolled>y</enrolled></CH>"), v1.Fault{Code: "5", Detail: "CH.enrolled"}},
		{"enrolled YN", veres("<CH><enrolled>YN</enrolled></CH>"), v1.Fault{Code: "5", Detail: "CH.enrolled"}},
		{"enrolled with children", veres("<CH><enrolled>Y<x/></enrolled></CH>"), v1.Fault{Code: "5", Detail: "CH.enrolled"}},
		{"all bad", message("<VERes><version>2.0</version><CH><enrolled>Y</enrolled><acctID></acctID></CH><url>ftp://x/</url><protocol>SET</protocol>" +
			"<IReq><iReqCode>x</iReqCode></IReq></VERes>"),
			v1.Fault{Code: "5", Detail: "version, IReq.iReqCode, IReq, CH.acctID, url, protocol"}},
		{"IReq with Y", veres(y + "<IReq><iReqCode>55</iReqCode></IReq>"), v1.Fault{Code: "5", Detail: "IReq"}},
		{"IReq without code", veres("<CH><enrolled>N</enrolled></CH><IReq><iReqDetail>x</iReqDetail></IReq>"), v1.Fault{Code: "3", Detail: "IReq.iReqCode"}},
		{"acctID twice", veres(in(y, "<acctID>", "<acctID>x</acctID><acctID>", 1)), v1.Fault{Code: "5", Detail: "CH.acctID"}},
		{"CH twice", veres(y + enrolled), v1.Fault{Code: "5", Detail: "CH"}},
		{"acctID is the PAN", veres(in(y, "a b/+=", pan, 1)), v1.Fault{Code: "5", Detail: "CH.acctID"}},
		{"unknown element", veres(y + "<extra>4111111111111111</extra>"), v1.Fault{Code: "5", Detail: "extra"}},
		{"unknown in CH", veres(in(y, "<acctID>", "<x/><acctID>", 1)), v1.Fault{Code: "5", Detail: "CH.x"}},
		{"a value for a name", veres(y + "<p4111111111111111/>"), v1.Fault{Code: "5", Detail: "?"}},
		{"a long name", veres(y + "<aaaaaaaaaaaaaaaaaaaaa/>"), v1.Fault{Code: "5", Detail: "?"}},
		{"another space", veres(in(y, "<acctID>", "<acctID xmlns='u'>", 1)), v1.Fault{Code: "3", Detail: "CH.acctID"}},
		{"another space too", veres(in(y, "<acctID>", "<acctID xmlns='u'/><acctID>", 1)), v1.Fault{Code: "5", Detail: "CH.acctID"}},
		{"IReq in another space", veres("<CH><enrolled>N</enrolled></CH><IReq xmlns='u'/>"), v1.Fault{Code: "5", Detail: "IReq"}},
		{"text between", veres(y + "x"), v1.Fault{Code: "5", Detail: "VERes"}},
		{"text in CH", veres(in(y, "<acctID>", "x<acctID>", 1)), v1.Fault{Code: "5", Detail: "CH"}},
		{"critical", veres(y + "<Extension id='visa.3ds' critical='true'/><Extension id='evil\" &lt;' critical='true'/>"),
			v1.Fault{Code: "4", Detail: "visa.3ds, Extension"}},
		{"critical before missing", veres("<Extension critical='true'/>"), v1.Fault{Code: "4", Detail: "Extension"}},
		{"perhaps critical", veres(y + "<Extension id='v' critical='1'/>"), v1.Fault{Code: "5", Detail: "Extension.critical"}},
		{"old", message("<VERes><version>1.0.1</version></VERes>"), v1.Fault{Code: "6", Detail: "1.0.2"}},
		{"no version", message("<VERes><version/>" + y + "</VERes>"), v1.Fault{Code: "5", Detail: "version"}},
		{"version with blanks", message("<VERes><version> 1.0.2</version>" + y + "</VERes>"), v1.Fault{Code: "5", Detail: "version"}},
	} {
		got, err := v1.ReadVERes(tt.doc, asked, v1.Options{})
		fault, ok := errors.AsType[*v1.Fault](err)
		if !ok || *fault != tt.want || got != nil {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
	}
}

// A Fault names no more than some elements, however many are wrong.
func TestFaultNamesFewElements(t *testing.T) {
	var all strings.Builder
	for i := range 26 * 26 {
		fmt.Fprintf(&all, "<%c%c/>", 'a'+i/26, 'a'+i%26)
	}
	_, err := v1.ReadVERes(veres(enrolled+acsURL+protocol+all.String()), asked, v1.Options{})
	fault, ok := errors.AsType[*v1.Fault](err)
	if !ok || strings.Count(fault.Detail, ",") != 15 || !strings.HasPrefix(fault.Detail, "aa, ab, ac,") {
		t.Error(err)
	}
}

func TestACSURL(t *testing.T) {
	const prefix = "https://acs.example/"
	long := func(n int) string { return prefix + strings.Repeat("x", n-len(prefix)) }
	const (
		always, laboratory, never = 2, 1, 0
	)
	for url, want := range map[string]int{
		"https://acs.example": always, "https://acs.example:8443/a;b?c=d#e": always, "https://127.0.0.1/": laboratory, "https://[2001:db8::1]/": always,
		"HTTPS://acs.example/": always, long(v1.MaxURL - 1): always, long(v1.MaxURL): always, long(v1.MaxURL + 1): never,
		"http://127.0.0.1:8080/acs": laboratory, "http://[::1]/": laboratory, "http://localhost:1/": laboratory,
		"http://acs.example/": laboratory, "http://127.0.0.1.example/": laboratory, "http://10.0.0.1/": laboratory,
		"https://user@acs.example/": never, "https://user:pw@acs.example/": never, "https://@acs.example/": never, "http://a@localhost/": never,
		"https:///path": never, "https:acs.example": never, "//acs.example/": never, "/path": never, "": never, "https://:443/": never,
		"javascript:alert(1)": never, "data:text/html,x": never, " https://acs.example/": never, "https://acs.example/%zz": never,
		"https://acs.example/\nx": never, "https://a b/": never, "file:///etc/passwd": never, "https://acs.example:x/": never,
		`https://acs.example/"onload="x`: never, `https://acs.example/?a="`: never, "https://acs.example/<script>": never, "https://acs.example/#a>b": never,
		"https://acs.example/%22%3C%3E?it's&y": always, "https://acs.example/?it's|{x}&y": never,
	} {
		doc := veres(enrolled + "<url>" + html.EscapeString(url) + "</url>" + protocol)
		for _, lab := range []bool{false, true} {
			got, err := v1.ReadVERes(doc, asked, v1.Options{Lab: lab})
			ok := want == always || want == laboratory && lab
			if ok != (err == nil) || ok && got.URL != url {
				t.Errorf("lab %t, url %.60q: %v; want it taken: %t", lab, url, err, ok)
			}
			if fault, is := errors.AsType[*v1.Fault](err); err != nil && (!is || *fault != (v1.Fault{Code: "5", Detail: "url"})) {
				t.Errorf("url %.60q: %v, want a Fault 5: url", url, err)
			}
		}
	}
}

// Each length at its limit, one below and one above.
func TestLimitsOfAnswers(t *testing.T) {
	ireq := func(s string) []byte {
		return veres("<CH><enrolled>N</enrolled></CH><IReq><iReqCode>55</iReqCode>" + s + "</IReq>")
	}
	for _, tt := range []struct {
		name     string
		doc      func(s string) []byte
		min, max int
		of       string
	}{
		{"Message.id", func(s string) []byte {
			return []byte(strings.Replace(string(veres(enrolled+acsURL+protocol)), "m1", s, 1))
		}, 1, 128, "é"},
		{"CH.acctID", func(s string) []byte { return veres(strings.Replace(enrolled, "a b/+=", s, 1) + acsURL + protocol) }, 1, 28, "é"},
		{"IReq.iReqDetail", func(s string) []byte { return ireq("<iReqDetail>" + s + "</iReqDetail>") }, 0, 256, "é"},
		{"IReq.vendorCode", func(s string) []byte { return ireq("<vendorCode>" + s + "</vendorCode>") }, 0, 256, "é"},
		{"IReq.iReqCode", func(s string) []byte {
			return veres("<CH><enrolled>N</enrolled></CH><IReq><iReqCode>" + s + "</iReqCode></IReq>")
		}, 1, 4, "0"},
		{"serialNumber", func(s string) []byte { return crres("<serialNumber>" + s + "</serialNumber>") }, 1, 20, "é"},
	} {
		for _, n := range []int{tt.min - 1, tt.min, tt.min + 1, tt.max - 1, tt.max, tt.max + 1} {
			if n < 0 {
				continue
			}
			doc := tt.doc(strings.Repeat(tt.of, n))
			var err error
			if tt.name == "serialNumber" {
				_, err = v1.ReadCRRes(doc, askedTable)
			} else {
				a := *asked
				if tt.name == "Message.id" {
					a.ID = strings.Repeat(tt.of, n)
				}
				_, err = v1.ReadVERes(doc, &a, v1.Options{})
			}
			if good := tt.min <= n && n <= tt.max; good != (err == nil) {
				t.Errorf("%s of %d characters: %v; want it taken: %t", tt.name, n, err, good)
			}
			if fault, ok := errors.AsType[*v1.Fault](err); err != nil && (!ok || *fault != (v1.Fault{Code: "5", Detail: tt.name})) {
				t.Errorf("%s of %d characters: %v, want a Fault 5: %s", tt.name, n, err, tt.name)
			}
		}
	}
}

// An Error instead of the answer is an error of its own type, and nothing in it
// is a fault.
func TestReadError(t *testing.T) {
	for _, tt := range []struct {
		body string
		want v1.Error
		text string
	}{
		{"<version>1.0.2</version><errorCode>5</errorCode><errorMessage>Format</errorMessage><errorDetail>pan</errorDetail><vendorCode>9</vendorCode>",
			v1.Error{ID: "m1", Code: "5", Message: "Format", Detail: "pan", VendorCode: "9"}, "v1: the peer answered with Error 5"},
		{"", v1.Error{ID: "m1"}, "v1: the peer answered with an Error without code"},
		{"<errorCode>x\ny</errorCode><other/><errorDetail>d</errorDetail>", v1.Error{ID: "m1", Detail: "d"}, "v1: the peer answered with an Error without code"},
	} {
		doc := message("<Error>" + tt.body + "</Error>")
		_, err := v1.ReadVERes(doc, asked, v1.Options{})
		_, errCR := v1.ReadCRRes(doc, askedTable)
		_, errPA := v1.OpenPARes(packing.Deflate(doc), nobody)
		for _, err := range []error{err, errCR, errPA} {
			if got, ok := errors.AsType[*v1.Error](err); !ok || *got != tt.want || err.Error() != tt.text {
				t.Errorf("%s: %+v, %v; want %+v, %s", tt.body, got, err, tt.want, tt.text)
			}
		}
	}
	// A peer that could not read our message may not know its id.
	for _, id := range []string{"", ` id=""`} {
		doc := bytes.Replace(message("<Error><errorCode>1</errorCode></Error>"), []byte(` id="m1"`), []byte(id), 1)
		_, err := v1.ReadVERes(doc, asked, v1.Options{})
		_, errCR := v1.ReadCRRes(doc, askedTable)
		_, errPA := v1.OpenPARes(packing.Deflate(doc), nobody)
		for _, err := range []error{err, errCR, errPA} {
			if got, ok := errors.AsType[*v1.Error](err); !ok || *got != (v1.Error{Code: "1"}) {
				t.Errorf("%s: %v, want Error 1", doc, err)
			}
		}
	}
	// What we write can be read.
	sent := (&v1.Fault{Code: v1.ElementMissing, Detail: "CH"}).Answer("m1")
	_, err := v1.ReadVERes(sent.Marshal(), asked, v1.Options{})
	if got, ok := errors.AsType[*v1.Error](err); !ok || *got != *sent {
		t.Errorf("ReadVERes of an Error of ours = %+v, %v; want %+v", got, err, sent)
	}
}

func crres(content string) []byte {
	return message("<CRRes><version>1.0.2</version>" + content + "</CRRes>")
}

func cr(begin, end, action string) string {
	return "<CR><begin>" + begin + "</begin><end>" + end + "</end><action>" + action + "</action></CR>"
}

const serial = "<serialNumber>17</serialNumber>"

func TestReadCRRes(t *testing.T) {
	const (
		low13, high13 = "4000000000000", "4000000000999"
		low19, high19 = "4000000000000000000", "4999999999999999999"
	)
	for _, tt := range []struct {
		content string
		want    v1.CRRes
	}{
		{serial, v1.CRRes{Serial: "17"}},
		{"", v1.CRRes{}},
		{cr(low13, high13, "A") + cr(low19, high19, "D") + cr(low13, low13, "A") + serial,
			v1.CRRes{Serial: "17", Ranges: []v1.CR{{Begin: low13, End: high13}, {Begin: low19, End: high19, Delete: true}, {Begin: low13, End: low13}}}},
		{"<IReq><iReqCode>57</iReqCode></IReq>", v1.CRRes{IReq: v1.IReq{Code: "57"}}},
	} {
		tt.want.ID = "m1"
		if got, err := v1.ReadCRRes(crres(tt.content), askedTable); err != nil || !reflect.DeepEqual(*got, tt.want) {
			t.Errorf("%s: %+v, %v; want %+v", tt.content, got, err, tt.want)
		}
	}
	const pan12, pan20 = "400000000000", "40000000000000000000"
	for _, tt := range []struct {
		content string
		want    v1.Fault
	}{
		{"<serialNumber/>", v1.Fault{Code: "5", Detail: "serialNumber"}},
		{cr(low13, high13, "A"), v1.Fault{Code: "3", Detail: "serialNumber"}},
		{"<CR/>" + serial, v1.Fault{Code: "3", Detail: "CR.begin, CR.end, CR.action"}},
		{cr(low13, high13, "a") + serial, v1.Fault{Code: "5", Detail: "CR.action"}},
		{cr(pan12, pan12, "A") + serial, v1.Fault{Code: "5", Detail: "CR.begin, CR.end"}},
		{cr(pan20, pan20, "A") + serial, v1.Fault{Code: "5", Detail: "CR.begin, CR.end"}},
		{cr(high13, low13, "A") + serial, v1.Fault{Code: "5", Detail: "CR.end"}},
		{cr(low13, high19, "A") + serial, v1.Fault{Code: "5", Detail: "CR.end"}},
		{cr(low13, high13, "A") + cr("-400000000000", high13, "A") + serial, v1.Fault{Code: "5", Detail: "CR.begin"}},
		{serial + serial, v1.Fault{Code: "5", Detail: "serialNumber"}},
		{serial + "<IReq><iReqCode>57</iReqCode></IReq>", v1.Fault{Code: "5", Detail: "IReq"}},
		{cr(low13, high13, "A") + "<IReq><iReqCode>57</iReqCode></IReq>", v1.Fault{Code: "5", Detail: "IReq"}},
		{"<Extension/>" + serial, v1.Fault{Code: "5", Detail: "Extension"}},
	} {
		got, err := v1.ReadCRRes(crres(tt.content), askedTable)
		if fault, ok := errors.AsType[*v1.Fault](err); !ok || *fault != tt.want || got != nil {
			t.Errorf("%s: %+v, %v; want nil, %v", tt.content, got, err, &tt.want)
		}
	}
	if _, err := v1.ReadCRRes(crres(serial), &v1.CRReq{ID: "m2"}); err == nil || err.Error() != "v1: error 5: Message.id" {
		t.Error(err)
	}
	if _, err := v1.ReadCRRes(veres(enrolled), askedTable); err == nil || err.Error() != "v1: error 2: Message: not a CRRes" {
		t.Error(err)
	}
}

func TestCRResLimit(t *testing.T) {
	const pan = "4000000000000"
	for n := v1.MaxCRRes - 1; n <= v1.MaxCRRes+1; n++ {
		short := len(crres(cr(pan, pan, "A") + serial))
		doc := crres(cr(pan, pan, "A") + strings.Repeat(" ", n-short) + serial)
		got, err := v1.ReadCRRes(doc, askedTable)
		switch {
		case n > v1.MaxCRRes && (err == nil || err.Error() != "v1: error 1: byte 0: document too long"):
			t.Errorf("%d bytes: %v, want document too long", n, err)
		case n <= v1.MaxCRRes && (err != nil || len(got.Ranges) != 1):
			t.Errorf("%d bytes: %v, want one range", n, err)
		}
	}
}

// The ranges of a CRRes are as many as fit; of all else there may be little.
func TestCRResOfElements(t *testing.T) {
	for name, doc := range map[string][]byte{
		"another element":    crres(strings.Repeat("<a/>", 10_000) + serial),
		"another CR":         crres(strings.Repeat("<CR xmlns='u'/>", 10_000) + serial),
		"elements in one CR": crres("<CR>" + strings.Repeat("<begin/>", 10_000) + "</CR>" + serial),
	} {
		_, err := v1.ReadCRRes(doc, askedTable)
		if fault, ok := errors.AsType[*v1.Fault](err); !ok || fault.Code != "1" || !strings.HasSuffix(fault.Detail, "too many tokens") {
			t.Errorf("%s: %v", name, err)
		}
	}
	doc, count := table(" ")
	if got, err := v1.ReadCRRes(doc, askedTable); err != nil || len(got.Ranges) != count {
		t.Error(err)
	}
}

// table returns the longest CRRes that is read, and how many ranges it has.
func table(blank string) ([]byte, int) {
	one := strings.ReplaceAll(cr("4000000000000", "4000000000000", "A")+"<", "><", ">"+blank+"<")
	one = one[:len(one)-1]
	count := (v1.MaxCRRes - len(crres(serial))) / len(one)
	return crres(strings.Repeat(one, count) + serial), count
}

func BenchmarkReadCRRes(b *testing.B) {
	for name, blank := range map[string]string{"dense": "", "with blanks": " "} {
		b.Run(name, func(b *testing.B) {
			doc, count := table(blank)
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			b.ReportMetric(float64(count), "ranges")
			for b.Loop() {
				if got, err := v1.ReadCRRes(doc, askedTable); err != nil || len(got.Ranges) != count {
					b.Fatal(err)
				}
			}
		})
	}
}
