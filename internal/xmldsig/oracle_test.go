package xmldsig_test

import (
	"bytes"
	"crypto"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"
	"github.com/openthreeds/threeds/internal/xmldsig"
	dsig "github.com/russellhaering/goxmldsig"
	"github.com/russellhaering/goxmldsig/etreeutils"
)

// tool returns the path of a foreign program. In CI it must be there.
func tool(t *testing.T, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed (Debian: %s)", name, debian)
	}
	if err != nil {
		t.Skipf("%s is not installed (Debian: %s)", name, debian)
	}
	return path
}

// An author writes documents that use what XML has.
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

// documents returns n documents that the reader takes.
func documents(n int, seed uint64) []string {
	var docs []string
	for i := uint64(0); len(docs) < n; i++ {
		a := &author{Rand: rand.New(rand.NewPCG(seed, i))}
		a.element("", nil, 3)
		// Two prefixes of one namespace may make an attribute stand twice.
		if _, err := xmldsig.Parse([]byte(a.b.String())); err == nil {
			docs = append(docs, a.b.String())
		}
	}
	return docs
}

func TestCanonicalLikeXmllint(t *testing.T) {
	xmllint := tool(t, "xmllint", "libxml2-utils")
	docs := documents(100, 1)
	for _, name := range vectors(t) {
		if _, err := xmldsig.Parse(read(t, name)); err == nil {
			docs = append(docs, string(read(t, name)))
		}
	}
	docs = append(docs, string(realPARes(t)))
	for _, doc := range docs {
		root := parsed(t, doc)
		for flag, exclusive := range map[string]bool{"--c14n": false, "--exc-c14n": true} {
			cmd := exec.CommandContext(t.Context(), xmllint, "--nonet", flag, "-")
			cmd.Stdin = strings.NewReader(doc)
			want, err := cmd.Output()
			if err != nil {
				t.Fatalf("xmllint %s: %v\n%s", flag, err, doc)
			}
			if got := root.Canonical(exclusive); !bytes.Equal(got, want) {
				t.Errorf("%s of %q\ngot  %q\nwant %q", flag, doc, got, want)
			}
		}
	}
}

// likeGoxmldsig compares with the canonical form of goxmldsig, of the whole document and of
// each element where it stands. It leaves out what goxmldsig does otherwise than xmllint and
// we: goxmldsig ignores xml:* attributes of ancestors, sometimes sorts attributes by prefixes
// and not by namespaces, and its exclusive form has xmlns="" where it is not needed.
func likeGoxmldsig(t *testing.T, doc string) {
	t.Helper()
	root := parsed(t, doc)
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

func TestCanonicalLikeGoxmldsig(t *testing.T) {
	for _, doc := range documents(3000, 2) {
		likeGoxmldsig(t, doc)
	}
}

// xmlsec1 gives its verdict of a document.
func xmlsec1(t *testing.T, program string, root []byte, at time.Time, doc []byte) error {
	t.Helper()
	dir := t.TempDir()
	pemFile, docFile := filepath.Join(dir, "root.pem"), filepath.Join(dir, "doc.xml")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})
	if err := errors.Join(os.WriteFile(pemFile, block, 0o600), os.WriteFile(docFile, doc, 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--verify", "--id-attr:id", "PARes", "--id-attr:id", "urn:x-3ds:PARes",
		"--trusted-pem", pemFile, "--enabled-key-data", "x509", "--verification-time", at.Format("2006-01-02 15:04:05"), docFile)
	cmd.Env = append(os.Environ(), "TZ=UTC")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("xmlsec1: %w\n%s", err, out)
	}
	return nil
}

// Whatever is signed over our canonical form, at a place deep in a document, xmlsec1 takes.
func TestSignedLikeXmlsec1(t *testing.T) {
	program := tool(t, "xmlsec1", "xmlsec1")
	chain := newChain(t, 2, nil)
	policy := trusting(t, chain[0])
	policy.AllowSHA1 = true
	for i := range uint64(40) {
		a := &author{Rand: rand.New(rand.NewPCG(4, i))}
		a.element("", nil, 2)
		p := newPaper(chain...)
		p.body = a.b.String()
		p.hash = []crypto.Hash{crypto.SHA1, crypto.SHA256}[a.IntN(2)]
		p.exclInfo, p.exclRef = a.IntN(2) == 0, a.IntN(2) == 0
		p.edit = []string{
			"<ThreeDSecure>", "<ThreeDSecure" + a.pick("", ` xmlns:p="urn:1"`, ` xml:lang="en" xml:space="default"`, ` xmlns:r="urn:d"`) + ">",
			"<Message ", "<Message " + a.pick("", ` xmlns:p="urn:2" `, ` xml:lang="da" `, ` xmlns="" `),
			"<PARes ", "<PARes " + a.pick("", `xml:space="preserve" `, `xmlns:q="urn:q" q:x="1" `),
		}
		if _, err := xmldsig.Parse([]byte("<r>" + p.body + "</r>")); err != nil {
			continue // it may have an attribute twice, by two prefixes
		}
		doc := p.sign(t, chain[2].key)
		if _, err := verify(doc, policy); err != nil {
			t.Fatalf("Verify: %v\n%s", err, doc)
		}
		if err := xmlsec1(t, program, chain[0].cert.Raw, chainTime, doc); err != nil {
			t.Fatalf("Verify takes what xmlsec1 does not: %v\n%s", err, doc)
		}
	}
}

// A document with a namespace that is a relative URI, wherever it is and used or not, is
// refused; one with any other namespace is not. So does xmlsec1.
func TestRelativeNamespaces(t *testing.T) {
	program := tool(t, "xmlsec1", "xmlsec1")
	chain := newChain(t, 2, nil)
	policy := trusting(t, chain[0])
	for uri, good := range map[string]bool{
		"urn:x": true, "http://ds.example/a": true, "a+b-c.1:x": true, "http:x": true, "": true,
		"x": false, "ThreeDSecure": false, "../x": false, "//ds.example/x": false, "/x": false, "#x": false, "?x": false, "x/y:z": false,
	} {
		prefix := ":x"
		if uri == "" {
			prefix = "" // which only the default may be
		}
		decl := " xmlns" + prefix + `="` + uri + `"`
		for place, edit := range map[string][]string{
			"root":       {"<ThreeDSecure>", "<ThreeDSecure" + decl + ">"},
			"message":    {"<Message ", "<Message" + decl + " "},
			"inside":     {"<TX>", "<TX" + decl + ">"},
			"used":       {"<status>Y</status>", "<status" + strings.Replace(decl, " xmlns:x=", " x:a='' xmlns:x=", 1) + ">Y</status>"},
			"the method": {"<DigestMethod ", "<DigestMethod" + strings.Replace(decl, " xmlns=", " xmlns:x=", 1) + " "},
		} {
			if uri == "" && place == "the method" {
				continue // which would be of another namespace
			}
			for _, exclusive := range []bool{false, true} {
				p := newPaper(chain...)
				p.edit, p.exclRef, p.exclInfo = edit, exclusive, exclusive
				doc := p.sign(t, chain[2].key)
				if !good {
					wantRefusal(t, doc, xmldsig.Refusal{Reason: xmldsig.RelativeSpace}, policy)
				} else if _, err := verify(doc, policy); err != nil {
					t.Errorf("%q at %s: %v", uri, place, err)
				}
				theirs := xmlsec1(t, program, chain[0].cert.Raw, chainTime, doc)
				if (theirs == nil) != good {
					t.Errorf("%q at %s: xmlsec1 says %v", uri, place, theirs)
				}
			}
		}
	}
}

// xmlsec1 finds good what we do, of the vectors and the real PARes. What it finds
// good besides is refused for its shape, or on purpose.
func TestVectorsLikeXmlsec1(t *testing.T) {
	program := tool(t, "xmlsec1", "xmlsec1")
	besides := map[string]bool{
		"atk_02_evil_first_other_id.xml": true, "atk_03_good_in_extension.xml": true, // shape
		"atk_04_good_in_sig_object.xml": true, "atk_05_two_messages_evil_first.xml": true,
		"atk_07_comment_amount.xml": true, "atk_08_comment_merid.xml": true, // comments
		"comment.xml": true, "pi.xml": true,
		"wellformedness/attr_literal_tab.xml": true, "wellformedness/xml11.xml": true, // narrower XML
		"wellformedness/latin1.xml": true, "wellformedness/utf16.xml": true,
	}
	block, _ := pem.Decode(read(t, "root.pem"))
	for _, name := range vectors(t) {
		doc := read(t, name)
		_, ours := verify(doc, vectorPolicy(t))
		theirs := xmlsec1(t, program, block.Bytes, vectorTime, doc)
		if ours == nil && theirs != nil {
			t.Errorf("%s: %v", name, theirs)
		}
		if (ours != nil && theirs == nil) != besides[name] {
			t.Errorf("%s: %v, xmlsec1: %v", name, ours, theirs)
		}
	}
	if err := xmlsec1(t, program, realRoot(t), realTime, realPARes(t)); err != nil {
		t.Error(err)
	}
}
