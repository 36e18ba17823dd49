// Package xmldsig_test is a second opinion on canonical XML: it compares what package xmldsig makes with goxmldsig,
// which the product does not need.
package xmldsig_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
	"github.com/russellhaering/goxmldsig/etreeutils"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig/xmldsigtest"
)

// vectorsDir has the documents that the tests of package xmldsig use.
const vectorsDir = "../../internal/protocol/xmldsig/testdata"

// vectors returns the documents of vectorsDir, and the PARes of the public documentation.
func vectors(t testing.TB) (docs [][]byte) {
	t.Helper()
	for _, pattern := range []string{"*.xml", "wellformedness/*.xml"} {
		names, err := filepath.Glob(filepath.Join(vectorsDir, pattern))
		if err != nil || len(names) == 0 {
			t.Fatal("no vectors: ", err)
		}
		for _, name := range names {
			doc, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			docs = append(docs, doc)
		}
	}
	text, err := os.ReadFile(filepath.Join(vectorsDir, "real", "mpidocs_pares.b64"))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := zlib.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(bytes.TrimSpace(text))))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	return append(docs, doc)
}

// likeGoxmldsig compares with the canonical form of goxmldsig, of the whole document and of
// each element where it stands. It leaves out what goxmldsig does otherwise than xmllint and
// we: goxmldsig ignores xml:* attributes of ancestors, sometimes sorts attributes by prefixes
// and not by namespaces, and its exclusive form has xmlns="" where it is not needed.
func likeGoxmldsig(t *testing.T, doc string) {
	t.Helper()
	root, err := xmldsig.Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(doc, "xml:") || twoPrefixed(root) {
		return
	}
	other := etree.NewDocument()
	if err := other.ReadFromString(doc); err != nil {
		t.Fatalf("etree: %v\n%q", err, doc)
	}
	forms := map[bool]dsig.Canonicalizer{false: dsig.MakeC14N10RecCanonicalizer()}
	if !strings.Contains(doc, "xmlns=''") && !strings.Contains(doc, `xmlns=""`) {
		forms[true] = dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList("")
	}
	var walk func(e *xmldsig.Element, o *etree.Element)
	walk = func(e *xmldsig.Element, o *etree.Element) {
		for exclusive, form := range forms {
			detached, err := detach(o)
			if err != nil {
				t.Fatalf("goxmldsig: %v\n%q", err, doc)
			}
			want, err := form.Canonicalize(detached)
			if err != nil {
				t.Fatalf("goxmldsig: %v\n%q", err, doc)
			}
			if got := e.Canonical(exclusive); !bytes.Equal(got, want) {
				t.Errorf("exclusive %v: %s of %q\ngot  %q\nwant %q", exclusive, e.Local, doc, got, want)
			}
		}
		children := o.ChildElements()
		for i, c := range e.Elements() {
			walk(c, children[i])
		}
	}
	walk(root, other.Root())
}

// twoPrefixed tells whether an element has two attributes with prefixes.
func twoPrefixed(e *xmldsig.Element) bool {
	n := 0
	for _, a := range e.Attrs {
		if a.Prefix != "" {
			n++
		}
	}
	return n > 1 || slices.ContainsFunc(e.Elements(), twoPrefixed)
}

// detach copies an element with the namespaces that are in scope.
func detach(e *etree.Element) (*etree.Element, error) {
	ctx, err := etreeutils.NSBuildParentContext(e)
	if err != nil {
		return nil, err
	}
	return etreeutils.NSDetatch(ctx, e)
}

// TestCanonicalLikeGoxmldsig: random documents have the canonical forms that goxmldsig gives them.
func TestCanonicalLikeGoxmldsig(t *testing.T) {
	for _, doc := range xmldsigtest.Documents(3000, 2) {
		likeGoxmldsig(t, doc)
	}
}

// FuzzCanonical: each document that can be read has the canonical forms that goxmldsig gives it.
func FuzzCanonical(f *testing.F) {
	for _, doc := range vectors(f) {
		f.Add(doc)
	}
	for _, doc := range xmldsigtest.Documents(50, 5) {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if _, err := xmldsig.Parse(doc); err == nil {
			likeGoxmldsig(t, string(doc))
		}
	})
}
