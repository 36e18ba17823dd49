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
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig/xmldsigtest"
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

func TestCanonicalLikeXmllint(t *testing.T) {
	xmllint := tool(t, "xmllint", "libxml2-utils")
	docs := xmldsigtest.Documents(100, 1)
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
		r := rand.New(rand.NewPCG(4, i))
		pick := func(list ...string) string { return list[r.IntN(len(list))] }
		p := newPaper(chain...)
		p.body = xmldsigtest.Element(r, 2)
		p.hash = []crypto.Hash{crypto.SHA1, crypto.SHA256}[r.IntN(2)]
		p.exclInfo, p.exclRef = r.IntN(2) == 0, r.IntN(2) == 0
		p.edit = []string{
			"<ThreeDSecure>", "<ThreeDSecure" + pick("", ` xmlns:p="urn:1"`, ` xml:lang="en" xml:space="default"`, ` xmlns:r="urn:d"`) + ">",
			"<Message ", "<Message " + pick("", ` xmlns:p="urn:2" `, ` xml:lang="da" `, ` xmlns="" `),
			"<PARes ", "<PARes " + pick("", `xml:space="preserve" `, `xmlns:q="urn:q" q:x="1" `),
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
// refused; one with any other namespace is not. xmlsec1 says the same.
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
				// A process takes long: each namespace is shown to xmlsec1 at one place, and one of each kind at all places.
				if place != "root" && uri != "urn:x" && uri != "x" {
					continue
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
