package xmldsig_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

func TestParse(t *testing.T) {
	root, err := xmldsig.Parse([]byte("\ufeff<?xml version=\"1.0\" encoding='utf-8' ?>\r\n" +
		`<a xmlns="urn:d" xmlns:p="urn:p" x="1&#9;&lt;" p:x='"'><p:b/>one<![CDATA[<two>&amp;]]>&#51;` + "\r\n" +
		`<c xmlns="">  </c ></a> `))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sketch(root), `{urn:d}a x="1\t<" {urn:p}x="\"" ({urn:p}b () "one<two>&amp;3\n" {}c ("  "))`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if v, ok := root.Attr("x"); v != "1\t<" || !ok {
		t.Errorf("Attr: %q, %v", v, ok)
	}
	if _, ok := root.Attr("p"); ok {
		t.Error("a declaration passes for an attribute")
	}
	if _, ok := root.Text(); ok {
		t.Error("Text of an element with children")
	}
	children := root.Elements()
	if len(children) != 2 {
		t.Fatalf("%d children", len(children))
	}
	for i, want := range []string{"", "  "} {
		if s, ok := children[i].Text(); s != want || !ok {
			t.Errorf("Text of child %d: %q, %v", i, s, ok)
		}
	}
}

// sketch draws a tree on one line, attributes in alphabetical order.
func sketch(e *xmldsig.Element) string {
	var attrs, inside []string
	for _, a := range e.Attrs {
		space := ""
		if a.Space != "" {
			space = "{" + a.Space + "}"
		}
		attrs = append(attrs, fmt.Sprintf("%s%s=%q ", space, a.Local, a.Value))
	}
	slices.Sort(attrs)
	for _, n := range e.Content {
		if n.Element != nil {
			inside = append(inside, sketch(n.Element))
		} else {
			inside = append(inside, fmt.Sprintf("%q", n.Text))
		}
	}
	return fmt.Sprintf("{%s}%s %s(%s)", e.Space, e.Local, strings.Join(attrs, ""), strings.Join(inside, " "))
}

// TestAttr: an attribute with a namespace is another than that of its name without.
func TestAttr(t *testing.T) {
	root, err := xmldsig.Parse([]byte(`<a xmlns:q="urn:1" q:id="2" id="1" q:Algorithm="3"/>`))
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := root.Attr("id"); id != "1" || !ok {
		t.Errorf("id: %q, %t", id, ok)
	}
	if name, ok := root.Attr("Algorithm"); ok {
		t.Errorf("Algorithm: %q, want none", name)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ doc, reason string }{
		{"", "no element"},
		{"<?xml version='1.0'?>\n", "no element"},
		{"<a>", "document ends inside an element"},
		{"<a", "tag without end"},
		{"<a b='1", "attribute without end"},
		{"<a b='1'", "tag without end"},
		{"<a><b></a></b>", "end of an element that is not open"},
		{"</a>", "end of an element that is not open"},
		{"<a></a></a>", "end of an element that is not open"},
		{"<p:a xmlns:p='u' xmlns:q='u'></q:a>", "end of an element that is not open"},
		{"<a><!-- c --></a>", "comment"},
		{"<!-- c --><a/>", "comment"},
		{"<a><?p i?></a>", "processing instruction"},
		{"<a/><?p i?>", "processing instruction"},
		{" <?xml version='1.0'?><a/>", "processing instruction"},
		{"<a/><?xml version='1.0'?>", "processing instruction"},
		{"<?xml version='1.0'?><?xml version='1.0'?><a/>", "processing instruction"},
		{"<?xml version='1.1'?><a/>", "processing instruction"},
		{"<?xml?><a/>", "processing instruction"},
		{"<?xml encoding='utf-8'?><a/>", "processing instruction"},
		{"<?xml version='1.0' encoding='ISO-8859-1'?><a/>", "processing instruction"},
		{"<?xml version='1.0' encoding='UTF-16'?><a/>", "processing instruction"},
		{"<?xml version='1.0' version='1.0'?><a/>", "processing instruction"},
		{"<!DOCTYPE a><a/>", "DOCTYPE"},
		{"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "DOCTYPE"},
		{"<a><!ELEMENT a EMPTY></a>", "DOCTYPE"},
		{"<a/><b/>", "second root"},
		{"<a/>x", "text outside the root"},
		{"x<a/>", "text outside the root"},
		{"<a/>&#32;", "text outside the root"},
		{"<a/><![CDATA[]]>", "text outside the root"},
		{"<a/>\u00a0", "text outside the root"},
		{"\ufeff\ufeff<a/>", "text outside the root"},
		{"<a b='1' b='2'/>", "attribute twice"},
		{"<a xmlns:p='u' xmlns:q='u' p:b='1' q:b='2'/>", "attribute twice"},
		{"<a xmlns:p='u' xmlns:p='v'/>", "attribute twice"},
		{"<a xmlns='u' xmlns='v'/>", "attribute twice"},
		{"<p:a/>", "prefix without namespace"},
		{"<a p:b='1'/>", "prefix without namespace"},
		{"<a><b xmlns:p='u'/><p:c/></a>", "prefix without namespace"},
		{"<a xmlns:p=''/>", "prefix declared without namespace"},
		{"<a xmlns:xml='u'/>", "namespace of XML itself"},
		{"<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>", "namespace of XML itself"},
		{"<a xmlns='http://www.w3.org/XML/1998/namespace'/>", "namespace of XML itself"},
		{"<a xmlns:xmlns='u'/>", "namespace of XML itself"},
		{"<a xmlns:p='http://www.w3.org/2000/xmlns/'/>", "namespace of XML itself"},
		{"<xmlns:a/>", "not a name"},
		{"<:a/>", "not a name"},
		{"<a:/>", "not a name"},
		{"<a xmlns:='u'/>", "not a name"},
		{"<p:1 xmlns:p='u'/>", "not a name"},
		{"<a xmlns:p='u' p:-b='1'/>", "not a name"},
		{"<a :b='1'/>", "not a name"},
		{"<p:a:b xmlns:p='u'/>", "not well-formed"},
		{"<1/>", "not well-formed"},
		{"<a b/>", "tag without end|not well-formed"},
		{"<a b=c/>", "not well-formed"},
		{"<a b='1'c='2'/>", "no white space between attributes"},
		{"<a b='\t'/>", "line break or tab"},
		{"<a b='\n'/>", "line break or tab"},
		{"<a b='\r'/>", "line break or tab"},
		{"<a b='<'/>", "not well-formed"},
		{"<a b='&c;'/>", "not well-formed"},
		{"<a>&nbsp;</a>", "not well-formed"},
		{"<a>&</a>", "not well-formed"},
		{"<a>]]></a>", "not well-formed"},
		{"<a>&#0;</a>", "not well-formed"},
		{"<a>&#xFFFE;</a>", "not well-formed"},
		{"<a>&#x110000;</a>", "not well-formed"},
		{"<a>&#xD800;</a>", "reference to no character"},
		{"<a>&#57343;</a>", "reference to no character"},
		{"<a b='&#xdfff;'/>", "reference to no character"},
		{"<a>\x01</a>", "not well-formed"},
		{"<a>\uffff</a>", "not well-formed"},
		{"<a b='\x1f'/>", "not well-formed"},
		{"<a>\xff</a>", "not UTF-8"},
		{"<a>\xed\xa0\x80</a>", "not UTF-8"},
		{"<\xe4/>", "not UTF-8"},
		{"\xff\xfe<\x00a\x00/\x00>\x00", "not UTF-8"},
		{"<\x00a\x00/\x00>\x00", "tag without end|not well-formed"},
		{"<a>\x00</a>", "not well-formed"},
	} {
		root, err := xmldsig.Parse([]byte(tt.doc))
		bad, ok := errors.AsType[*xmldsig.ParseError](err)
		if !ok || root != nil {
			t.Errorf("%q: %v, %v", tt.doc, root, err)
			continue
		}
		good := false
		for reason := range strings.SplitSeq(tt.reason, "|") {
			good = good || strings.HasPrefix(bad.Reason, reason)
		}
		if !good {
			t.Errorf("%q: %q, want %q", tt.doc, bad.Reason, tt.reason)
		}
	}
}

func TestParseErrorNamesPlaces(t *testing.T) {
	long := strings.Repeat("n", 41)
	for _, tt := range []struct{ doc, want string }{
		{"<ThreeDSecure><Message><!-- 4111111111111111 --></Message></ThreeDSecure>",
			"xmldsig: byte 23, in Message: comment"},
		{"\ufeff<?xml version='1.0'?><a/><b/>", "xmldsig: byte 28: second root"},
		{"<" + long + ">&", "xmldsig: byte 43, in " + long[:40] + "…: not well-formed"},
	} {
		_, err := xmldsig.Parse([]byte(tt.doc))
		if err == nil || err.Error() != tt.want {
			t.Errorf("%q: %v, want %s", tt.doc, err, tt.want)
		}
	}
}

// Each limit at its value is good, one more is not.
func TestLimits(t *testing.T) {
	def := xmldsig.Limits{Size: 256 << 10, Depth: 32, Attrs: 64, Tokens: 8192}
	small := xmldsig.Limits{Size: 1000, Depth: 5, Attrs: 3, Tokens: 20}
	sized := func(n int) string { return "<a>" + strings.Repeat("x", n-7) + "</a>" }
	for _, tt := range []struct {
		name   string
		doc    func(n int) string
		of     func(xmldsig.Limits) int
		reason string
	}{
		{"size", sized, func(l xmldsig.Limits) int { return l.Size }, "document too long"},
		{"depth", func(n int) string { return strings.Repeat("<a>", n) + strings.Repeat("</a>", n) },
			func(l xmldsig.Limits) int { return l.Depth }, "elements too deep"},
		{"depth, empty", func(n int) string { return strings.Repeat("<a>", n-1) + "<a/>" + strings.Repeat("</a>", n-1) },
			func(l xmldsig.Limits) int { return l.Depth }, "elements too deep"},
		{"attributes", func(n int) string { return "<a" + attributes(n) + "/>" },
			func(l xmldsig.Limits) int { return l.Attrs }, "too many attributes"},
		{"tokens: elements", func(n int) string { return "<a>" + strings.Repeat("<b/>", n-1) + "</a>" },
			func(l xmldsig.Limits) int { return l.Tokens }, "too many tokens"},
		{"tokens: text", func(n int) string { return "<a>" + strings.Repeat("<![CDATA[x]]>", n-1) + "</a>" },
			func(l xmldsig.Limits) int { return l.Tokens }, "too many tokens"},
		{"tokens: text last", func(n int) string { return "<a>" + strings.Repeat("<b/>", n-2) + "x</a>" },
			func(l xmldsig.Limits) int { return l.Tokens }, "too many tokens"},
		{"tokens: attributes", func(n int) string {
			return "<a>" + strings.Repeat("<b c=''/>", (n-1)/2) + strings.Repeat("<b/>", (n-1)%2) + "</a>"
		},
			func(l xmldsig.Limits) int { return l.Tokens }, "too many tokens"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, l := range []xmldsig.Limits{def, small} {
				parse := l.Parse
				if l == def {
					parse = xmldsig.Parse
				}
				for n := tt.of(l) - 1; n <= tt.of(l); n++ {
					if _, err := parse([]byte(tt.doc(n))); err != nil {
						t.Errorf("%d of %d: %v, want it taken", n, tt.of(l), err)
					}
				}
				_, err := parse([]byte(tt.doc(tt.of(l) + 1)))
				if bad, ok := errors.AsType[*xmldsig.ParseError](err); !ok || bad.Reason != tt.reason {
					t.Errorf("one more than %d: %v, want %s", tt.of(l), err, tt.reason)
				}
			}
		})
	}
}

// A stream may have any number of elements, each with as many tokens as the rest of the
// document leaves. Elements that do not belong to it stay in the tree.
func TestStream(t *testing.T) {
	const many = 10_000
	for _, tt := range []struct {
		name, doc   string
		taken, kept int // kept are nodes of b
		reason      string
	}{
		{"dense", "<a><b>" + strings.Repeat("<c/>", many) + "</b></a>", many, 0, ""},
		{"with blanks", "<a><b>" + strings.Repeat("\n  <c x='1'>y<d/></c>", many) + "\n</b></a>", many, 1, ""},
		{"between others", "<a><b><e/>x" + strings.Repeat("<c/>", many) + "y<e/></b></a>", many, 4, ""},
		{"with prefixes", "<n:a xmlns:n='u'><n:b><n:c/><c/><n:c/></n:b></n:a>", 2, 1, ""},
		{"elsewhere", "<a><c/><b><d><c/></d></b><c><c/></c></a>", 0, 1, ""},
		{"a default namespace of its own", "<a><b><c xmlns='u'/></b></a>", 0, 1, ""},
		{"texts between", "<a><b>" + strings.Repeat("x<c/>", 17) + "</b></a>", 17, 17, ""},
		{"texts between, too many", "<a><b>" + strings.Repeat("x<c/>", 18) + "</b></a>", 17, 0, "too many tokens"},
		{"at the limit within", "<a><b><c>" + strings.Repeat("<d/>", 17) + "</c><c/></b></a>", 2, 0, ""},
		{"too many within", "<a><b><c>" + strings.Repeat("<d/>", 18) + "</c></b></a>", 0, 0, "too many tokens"},
		{"attributes of another", "<a><b>" + strings.Repeat("<c x='1' y='2'/>", many) + strings.Repeat("<e/>", 18) + "</b></a>", many, 18, ""},
	} {
		taken := 0
		root, err := xmldsig.Limits{Tokens: 20, Size: 1 << 20, Stream: &xmldsig.Stream{
			At: []string{"a", "b", "c"},
			Each: func(e *xmldsig.Element) {
				if taken++; e.Local != "c" {
					t.Errorf("%s: took %s", tt.name, e.Local)
				}
			},
		}}.Parse([]byte(tt.doc))
		if bad, ok := errors.AsType[*xmldsig.ParseError](err); ok && bad.Reason != tt.reason || !ok && tt.reason != "" {
			t.Errorf("%s: %v, want the reason %q", tt.name, err, tt.reason)
		}
		kept := 0
		if err == nil {
			i := slices.IndexFunc(root.Elements(), func(e *xmldsig.Element) bool { return e.Local == "b" })
			kept = len(root.Elements()[i].Content)
		}
		if taken != tt.taken || kept != tt.kept {
			t.Errorf("%s: took %d, kept %d nodes", tt.name, taken, kept)
		}
	}
}

func attributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " a%d=''", i)
	}
	return b.String()
}

// bombs are documents of the size that is allowed, each made to cost.
func bombs() map[string][]byte {
	const size = 256 << 10
	fill := func(head, piece, tail string) []byte {
		n := (size - len(head) - len(tail)) / len(piece)
		return []byte(head + strings.Repeat(piece, n) + tail)
	}
	var scopes strings.Builder // each element hides what its parents declare
	for range 31 {
		scopes.WriteString("<a")
		for i := range 60 {
			fmt.Fprintf(&scopes, " xmlns:n%d='u'", i)
		}
		scopes.WriteString(">")
	}
	crowded := "<b" + strings.ReplaceAll(attributes(64), "=''", "='x'") + "/>"
	return map[string][]byte{
		"depth":            fill("", "<a>", ""),
		"elements":         fill("<a>", "<b/>", "</a>"),
		"attributes":       fill("<a", " b='c'", "/>"),
		"empty attributes": fill("<a", " b=''", ""),
		"crowded elements": fill("<a>", crowded, "</a>"),
		"scopes":           fill(scopes.String(), "<n59:b/>", strings.Repeat("</a>", 31)),
		"cdata":            fill("<a>", "<![CDATA[xxxxxxxxxxxxxxxxxxxx]]>", "</a>"),
		"empty cdata":      fill("<a>", "<![CDATA[]]>", "</a>"),
		"text":             fill("<a>", "x", "</a>"),
		"references":       fill("<a>", "&#65;", "</a>"),
		"one long name":    fill("<a", "a", "/>"),
		"one long tag":     fill("<a", " ", "/>"),
		"open tags":        fill("", "<", ""),
		"quotes":           fill("<a ", `"`, ""),
		"comment":          fill("<a><!--", "x", "--></a>"),
		"doctype":          fill("<!DOCTYPE ", "<", ""),
		"tokens at limit":  []byte("<a>" + strings.Repeat("<b/>x", 4095) + "</a>"),
	}
}

// Whatever is in a document of the allowed size, reading it allocates at most 4 MiB.
func TestBombAllocs(t *testing.T) {
	for name, doc := range bombs() {
		if bytes := allocated(func() { xmldsig.Parse(doc) }); bytes > 4<<20 {
			t.Errorf("%s: %d bytes allocated, want 4 MiB at the most", name, bytes)
		}
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

func BenchmarkParseBombs(b *testing.B) {
	for name, doc := range bombs() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				xmldsig.Parse(doc)
			}
		})
	}
}
