package xmldsig_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// Times at which the vectors and the real PARes are good.
var (
	vectorTime = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	realTime   = time.Date(2015, 2, 16, 10, 17, 23, 0, time.UTC) // its TX/time
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func newRoot(t testing.TB, der []byte) *xmldsig.Root {
	t.Helper()
	root, err := xmldsig.NewRoot(der)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func vectorPolicy(t testing.TB) xmldsig.Policy {
	block, _ := pem.Decode(read(t, "root.pem"))
	return xmldsig.Policy{
		Name: "test", Roots: []*xmldsig.Root{newRoot(t, block.Bytes)}, At: vectorTime, AllowSHA1: true,
	}
}

// realPARes returns the PARes of the public documentation.
func realPARes(t testing.TB) []byte {
	return inflate(t, read(t, "real/mpidocs_pares.b64"))
}

func inflate(t testing.TB, text []byte) []byte {
	t.Helper()
	r, err := zlib.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(bytes.TrimSpace(text))))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// realRoot returns the root that the real PARes brings along, the second of its
// certificates.
func realRoot(t testing.TB) []byte {
	t.Helper()
	text := strings.Split(string(realPARes(t)), "<X509Certificate>")[2]
	der, err := base64.StdEncoding.DecodeString(text[:strings.Index(text, "<")])
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func realPolicy(t testing.TB) xmldsig.Policy {
	return xmldsig.Policy{
		Name: "real", Roots: []*xmldsig.Root{newRoot(t, realRoot(t))}, At: realTime, AllowSHA1: true, MinKeyBits: 1024,
	}
}

// verify reads a document of the shape that 3-D Secure 1.0.2 gives a PARes, a
// Message with PARes and Signature, and verifies it.
func verify(doc []byte, policies ...xmldsig.Policy) (*xmldsig.Verified, error) {
	root, err := xmldsig.Parse(doc)
	if err != nil {
		return nil, err
	}
	messages := root.Elements()
	if len(messages) != 1 || messages[0].Local != "Message" || messages[0].Space != root.Space {
		return nil, errShape
	}
	parts := messages[0].Elements()
	if len(parts) != 2 || parts[0].Local != "PARes" || parts[0].Space != root.Space {
		return nil, errShape
	}
	return xmldsig.Verify(parts[0], parts[1], policies)
}

var errShape = errors.New("not a PARes with its signature")

// values returns what is in the canonical form of a signed element: a path and a
// text on each line.
func values(t testing.TB, canonical []byte) string {
	t.Helper()
	root, err := xmldsig.Parse(canonical)
	if err != nil {
		t.Fatalf("canonical form: %v", err)
	}
	var b strings.Builder
	var walk func(path string, e *xmldsig.Element)
	walk = func(path string, e *xmldsig.Element) {
		path += "/" + e.Local
		for _, a := range e.Attrs {
			fmt.Fprintf(&b, "%s@%s %q\n", path, a.Local, a.Value)
		}
		if text, ok := e.Text(); ok {
			fmt.Fprintf(&b, "%s %q\n", path, text)
		}
		for _, c := range e.Elements() {
			walk(path, c)
		}
	}
	walk("", root)
	return b.String()
}

// refused holds why each vector that is not good is refused; testdata/README.md
// says which are.
var refused = map[string]string{
	"atk_01_evil_first_dup_id.xml":             errShape.Error(),
	"atk_02_evil_first_other_id.xml":           errShape.Error(),
	"atk_03_good_in_extension.xml":             string(xmldsig.WrongURI),
	"atk_04_good_in_sig_object.xml":            string(xmldsig.Form),
	"atk_05_two_messages_evil_first.xml":       errShape.Error(),
	"atk_06_evil_wraps_sig_sibling_dup_id.xml": errShape.Error(),
	"atk_07_comment_amount.xml":                "in purchAmount: comment",
	"atk_08_comment_merid.xml":                 "in merID: comment",
	"atk_09_no_signature.xml":                  errShape.Error(),
	"atk_10_doctype_entity.xml":                "DOCTYPE",
	"atk_11_xxe.xml":                           "DOCTYPE",
	"atk_12_changed_amount.xml":                string(xmldsig.DigestDiffer),
	"atk_13_empty_uri.xml":                     string(xmldsig.WrongURI),
	"atk_14_uri_message.xml":                   string(xmldsig.WrongURI),
	"atk_15_ext_uri.xml":                       string(xmldsig.WrongURI),
	"atk_16_no_reference.xml":                  "Reference: " + string(xmldsig.NotOne),
	"atk_17_status_twice.xml":                  string(xmldsig.DigestDiffer),
	"atk_18_ns_prefixed_pares.xml":             errShape.Error(),
	"atk_19_case_ID.xml":                       string(xmldsig.IDTwice),
	"atk_20_trailing.xml":                      "second root",
	"atk_21_c14n_withcomments.xml":             "CanonicalizationMethod: " + string(xmldsig.NotAllowed),
	"comment.xml":                              "comment",
	"pi.xml":                                   "processing instruction",
	"wellformedness/attr_literal_tab.xml":      "line break or tab",
	"wellformedness/dup_attr_evil_first.xml":   "attribute twice",
	"wellformedness/dup_attr_evil_last.xml":    "attribute twice",
	"wellformedness/latin1.xml":                "not of XML 1.0 in UTF-8",
	"wellformedness/leading_ws.xml":            "not at the start",
	"wellformedness/text_outside.xml":          "text outside the root",
	"wellformedness/two_roots.xml":             "second root",
	"wellformedness/undeclared_prefix.xml":     "prefix without namespace",
	"wellformedness/utf16.xml":                 "not UTF-8",
	"wellformedness/xml11.xml":                 "not of XML 1.0 in UTF-8",
}

func TestVectors(t *testing.T) {
	policy := vectorPolicy(t)
	good, err := verify(read(t, "plain.xml"), policy)
	if err != nil {
		t.Fatal(err)
	}
	plain := values(t, good.Canonical)
	if !strings.Contains(plain, `/PARes/Purchase/purchAmount "21601"`) {
		t.Errorf("values:\n%s", plain)
	}
	for _, name := range vectors(t) {
		t.Run(name, func(t *testing.T) {
			v, err := verify(read(t, name), policy)
			if want, bad := refused[name]; bad {
				if err == nil || !strings.Contains(err.Error(), want) || v != nil {
					t.Fatalf("%v, want %q", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if v.Policy != "test" || v.KeyBits != 2048 || v.Chain != 2 || v.SHA1 != (name != "sha256.xml") {
				t.Errorf("facts: %+v", v)
			}
			if name == "atk_22_cdata_amount.xml" || name == "wellformedness/bom.xml" {
				if got := values(t, v.Canonical); got != plain {
					t.Errorf("values:\n%s", got)
				}
			}
		})
	}
	for name := range refused {
		if _, err := os.Stat(filepath.Join("testdata", name)); err != nil {
			t.Error(err)
		}
	}
}

// vectors returns the names of all documents of testdata.
func vectors(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*.xml", "wellformedness/*.xml"} {
		list, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(list) == 0 {
			t.Fatal("no vectors: ", err)
		}
		for _, name := range list {
			names = append(names, strings.TrimPrefix(filepath.ToSlash(name), "testdata/"))
		}
	}
	return names
}

// The real PARes is good when it was signed, by the root of its scheme.
func TestRealPARes(t *testing.T) {
	doc := realPARes(t)
	v, err := verify(doc, vectorPolicy(t), realPolicy(t))
	if err != nil {
		t.Fatal(err)
	}
	if v.Policy != "real" || v.KeyBits != 1024 || v.Chain != 3 || !v.SHA1 || v.Digest != "SHA-1" || v.Signature != "SHA-1" {
		t.Errorf("facts: %+v", v)
	}
	for _, want := range []string{
		`@id "msg.469297.signed"`, `/purchAmount "21601"`, `/currency "208"`, `/merID "02000000000"`,
		`/xid "MDAwMDAwMDAwMDEyMzQ1Njc4OTA="`, `/pan "0000000000001548"`, `/status "Y"`, `/eci "02"`,
	} {
		if got := values(t, v.Canonical); !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}

	strict, now, modern := realPolicy(t), realPolicy(t), realPolicy(t)
	strict.MinKeyBits, now.At, modern.AllowSHA1 = 0, vectorTime, false
	for _, tt := range []struct {
		policy xmldsig.Policy
		want   xmldsig.Refusal
	}{
		{strict, xmldsig.Refusal{Reason: xmldsig.KeySize, Where: "signer", Policy: "real"}},
		{now, xmldsig.Refusal{Reason: xmldsig.Expired, Where: "signer", Policy: "real"}},
		{modern, xmldsig.Refusal{Reason: xmldsig.SHA1Certificate, Where: "signer", Policy: "real"}},
		{vectorPolicy(t), xmldsig.Refusal{Reason: xmldsig.NoRoot}},
	} {
		wantRefusal(t, doc, tt.want, tt.policy)
	}
}

func wantRefusal(t *testing.T, doc []byte, want xmldsig.Refusal, policies ...xmldsig.Policy) {
	t.Helper()
	v, err := verify(doc, policies...)
	got, ok := errors.AsType[*xmldsig.Refusal](err)
	if !ok || v != nil || *got != want {
		t.Errorf("%v, %v\nwant %v", v, err, &want)
	}
}

// Whatever character of the signed text is another one, the PARes is refused.
func TestRealPAResChanged(t *testing.T) {
	doc, policy := realPARes(t), realPolicy(t)
	begin, end := bytes.Index(doc, []byte("<PARes")), bytes.Index(doc, []byte("<Signature"))
	for i := begin; i < end; i++ {
		for _, c := range []byte("x0 ") {
			if doc[i] == c {
				continue
			}
			changed := bytes.Clone(doc)
			changed[i] = c
			if _, err := verify(changed, policy); err == nil {
				t.Fatalf("byte %d may be %q", i, c)
			}
		}
	}
}
