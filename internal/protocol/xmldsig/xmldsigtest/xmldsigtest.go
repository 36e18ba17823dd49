// Package xmldsigtest makes random XML documents for tests of canonical forms. Use [Documents] for whole ones, and
// [Element] for an element that a document may have inside.
package xmldsigtest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// Documents returns n documents that [xmldsig.Parse] takes.
func Documents(n int, seed uint64) []string {
	var docs []string
	for i := uint64(0); len(docs) < n; i++ {
		doc := Element(rand.New(rand.NewPCG(seed, i)), 3)
		// Two prefixes of one namespace may make an attribute stand twice.
		if _, err := xmldsig.Parse([]byte(doc)); err == nil {
			docs = append(docs, doc)
		}
	}
	return docs
}

// Element returns an element with others inside it, down to a depth. It may have an attribute twice.
func Element(r *rand.Rand, depth int) string {
	a := &author{Rand: r}
	a.element("", nil, depth)
	return a.b.String()
}

// An author writes elements that use what XML has.
type author struct {
	*rand.Rand
	b strings.Builder
}

func (a *author) pick(list ...string) string { return list[a.IntN(len(list))] }

// element writes an element that may use these prefixes.
func (a *author) element(name string, prefixes []string, depth int, attrs ...string) {
	decls := map[string]bool{}
	for range a.IntN(3) {
		p := a.pick("p", "q", "r")
		decls[fmt.Sprintf(`xmlns:%s="urn:%s"`, p, a.pick("1", "2"))] = true
		prefixes = append(prefixes[:len(prefixes):len(prefixes)], p)
	}
	if a.IntN(5) == 0 {
		decls[a.pick(`xmlns="urn:1"`, `xmlns=""`, `xmlns="urn:d"`)] = true
	}
	for i := range attrs {
		decls[attrs[i]] = true
	}
	for range a.IntN(3) {
		prefix := a.pick(append([]string{"", "", "xml"}, prefixes...)...)
		decls[join(prefix, a.pick("a", "b", "B", "lang", "é"))+`="`+a.pick("", "v", "&lt;&amp;&gt;", "&#9;&#xA;&#13;", "'&quot;", " x  y ", "é𝄞")+`"`] = true
	}
	if name == "" {
		name = join(a.pick(append([]string{""}, prefixes...)...), a.pick("e", "f", "ö", "g-1.x"))
	}
	a.b.WriteString("<" + name)
	seen := map[string]bool{}
	list := make([]string, 0, len(decls))
	for d := range decls {
		if key, _, _ := strings.Cut(d, "="); !seen[key] {
			seen[key] = true
			list = append(list, d)
		}
	}
	a.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, d := range list {
		a.b.WriteString(a.pick(" ", "\n ") + d)
	}
	if depth == 0 && a.IntN(2) == 0 {
		a.b.WriteString(a.pick("/>", " />"))
		return
	}
	a.b.WriteString(">")
	for range a.IntN(4) {
		if depth > 0 && a.IntN(2) == 0 {
			a.element("", prefixes, depth-1)
		} else {
			a.b.WriteString(a.pick("t", " ", "\r\n", "\n\t", "&lt;&gt;&amp;&quot;&apos;", "&#13;", "&#x1D11E;", "é𝄞", "]]&gt;",
				"<![CDATA[<&>]]>", "<![CDATA[]]>", "'\"", ">"))
		}
	}
	a.b.WriteString("</" + name + ">")
}

func join(prefix, local string) string {
	if prefix == "" {
		return local
	}
	return prefix + ":" + local
}
