package xmldsig_test

import (
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// The element is the first child of the root's first child, if it has one.
func TestCanonical(t *testing.T) {
	for _, tt := range []struct{ name, doc, inclusive, exclusive string }{
		{"empty element", `<a/>`, `<a></a>`, `<a></a>`},
		{"white space of tags", "<?xml version='1.0'?>\n<a  b = 'c'\n></a >\n", `<a b="c"></a>`, `<a b="c"></a>`},
		{"order of attributes", `<r><m><a xmlns:q="urn:1" xmlns:p="urn:2" p:z="1" q:z="2" z="3" b="4"/></m></r>`,
			`<a xmlns:p="urn:2" xmlns:q="urn:1" b="4" z="3" q:z="2" p:z="1"></a>`,
			`<a xmlns:p="urn:2" xmlns:q="urn:1" b="4" z="3" q:z="2" p:z="1"></a>`},
		{"escapes in text", `<a>&lt;&gt;&amp;"'&#9;&#10;&#13;<![CDATA[<&>]]></a>`,
			"<a>&lt;&gt;&amp;\"'\t\n&#xD;&lt;&amp;&gt;</a>", "<a>&lt;&gt;&amp;\"'\t\n&#xD;&lt;&amp;&gt;</a>"},
		{"references to the neighbours of surrogates", `<a>&#xD7FF;&#xE000;</a>`, "<a>\ud7ff\ue000</a>", "<a>\ud7ff\ue000</a>"},
		{"escapes in attributes", `<a b='&lt;>&amp;"&apos;&#9;&#10;&#13;'/>`,
			`<a b="&lt;>&amp;&quot;'&#x9;&#xA;&#xD;"></a>`, `<a b="&lt;>&amp;&quot;'&#x9;&#xA;&#xD;"></a>`},
		{"escapes in namespaces", `<a xmlns="urn:&amp;"/>`, `<a xmlns="urn:&amp;"></a>`, `<a xmlns="urn:&amp;"></a>`},
		{"line ends", "<a>\r\n\r</a>", "<a>\n\n</a>", "<a>\n\n</a>"},
		{"declared in vain", `<a xmlns:p="urn:p"><b xmlns:p="urn:p"/></a>`, `<a xmlns:p="urn:p"><b></b></a>`, `<a><b></b></a>`},
		{"declared above", `<r xmlns="urn:d" xmlns:p="urn:p"><m xmlns:q="urn:q"><a q:b="c"/></m></r>`,
			`<a xmlns="urn:d" xmlns:p="urn:p" xmlns:q="urn:q" q:b="c"></a>`, `<a xmlns="urn:d" xmlns:q="urn:q" q:b="c"></a>`},
		{"hidden between", `<r xmlns="urn:d" xmlns:p="urn:1"><m xmlns="" xmlns:p="urn:2"><a/></m></r>`, `<a xmlns:p="urn:2"></a>`, `<a></a>`},
		{"taken back", `<a xmlns="urn:d"><b xmlns=""><c xmlns="urn:d"/></b></a>`,
			`<a xmlns="urn:d"><b xmlns=""><c xmlns="urn:d"></c></b></a>`, `<a xmlns="urn:d"><b xmlns=""><c xmlns="urn:d"></c></b></a>`},
		{"anew for each brother", `<a xmlns:p="urn:p"><p:b/><p:c p:d=""/></a>`,
			`<a xmlns:p="urn:p"><p:b></p:b><p:c p:d=""></p:c></a>`,
			`<a><p:b xmlns:p="urn:p"></p:b><p:c xmlns:p="urn:p" p:d=""></p:c></a>`},
		{"xml attributes above", `<r xml:lang="en" xml:space="preserve"><m xml:lang="da" lang="x"><a xml:space="default" b="c"/></m></r>`,
			`<a b="c" xml:lang="da" xml:space="default"></a>`, `<a b="c" xml:space="default"></a>`},
		{"prefix xml declared", `<a xmlns:xml="http://www.w3.org/XML/1998/namespace" xml:lang="en"/>`, `<a xml:lang="en"></a>`, `<a xml:lang="en"></a>`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := parsed(t, tt.doc)
			if m := e.Elements(); len(m) > 0 && len(m[0].Elements()) > 0 && e.Local == "r" {
				e = m[0].Elements()[0]
			}
			for exclusive, want := range map[bool]string{false: tt.inclusive, true: tt.exclusive} {
				if got := string(e.Canonical(exclusive)); got != want {
					t.Errorf("exclusive %v\ngot  %s\nwant %s", exclusive, got, want)
				}
			}
		})
	}
}

// Canonical does not change the tree, and returns the same again.
func TestCanonicalChangesNothing(t *testing.T) {
	root, err := xmldsig.Parse([]byte(`<a xmlns:q="urn:1" z="1" q:b="2" a="3"><q:c/></a>`))
	if err != nil {
		t.Fatal(err)
	}
	before := sketch(root)
	first := string(root.Canonical(false))
	root.Canonical(true)
	if again := string(root.Canonical(false)); again != first || sketch(root) != before || root.Attrs[0].Local != "z" {
		t.Errorf("Canonical = %s, want the same as at first, %s; the tree was %s and is %s", again, first, before, sketch(root))
	}
}
