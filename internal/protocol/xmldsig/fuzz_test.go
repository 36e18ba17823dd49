package xmldsig_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

func addVectors(f *testing.F) {
	f.Helper()
	for _, name := range vectors(f) {
		f.Add(read(f, name))
	}
	f.Add(realPARes(f))
}

// A document that can be read has canonical forms that can be read again, to the same tree,
// and are their own canonical form. For any other the error is a ParseError.
func FuzzParse(f *testing.F) {
	addVectors(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		root, err := xmldsig.Parse(doc)
		if err != nil {
			bad, ok := errors.AsType[*xmldsig.ParseError](err)
			if !ok || bad.Offset < 0 || bad.Offset > len(doc) {
				t.Fatalf("%#v, want a ParseError at an offset in the document", err)
			}
			return
		}
		wide := xmldsig.Limits{Size: 64 << 20, Tokens: 1 << 20, Attrs: 1 << 20} // references and declarations grow
		for _, exclusive := range []bool{false, true} {
			form := root.Canonical(exclusive)
			again, err := wide.Parse(form)
			if err != nil {
				t.Fatalf("canonical form: %v\n%q", err, form)
			}
			if got, want := sketch(again), sketch(root); got != want {
				t.Fatalf("canonical form says otherwise\ngot  %s\nwant %s", got, want)
			}
			if second := again.Canonical(exclusive); !bytes.Equal(second, form) {
				t.Fatalf("canonical form of the canonical form\ngot  %q\nwant %q", second, form)
			}
		}
	})
}

// Whatever the document, nothing passes Verify but what was signed.
func FuzzVerify(f *testing.F) {
	addVectors(f)
	policies := []xmldsig.Policy{vectorPolicy(f), realPolicy(f)}
	signed := map[string]bool{values(f, mustVerify(f, realPARes(f), policies...)): true}
	for _, name := range vectors(f) {
		if _, bad := refused[name]; !bad {
			signed[values(f, mustVerify(f, read(f, name), policies...))] = true
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		v, err := verify(doc, policies...)
		if err == nil {
			if !signed[values(t, v.Canonical)] {
				t.Fatalf("nobody signed this:\n%s", v.Canonical)
			}
			return
		}
		_, parse := errors.AsType[*xmldsig.ParseError](err)
		_, refusal := errors.AsType[*xmldsig.Refusal](err)
		if v != nil || !parse && !refusal && !errors.Is(err, errShape) {
			t.Fatalf("%v, %#v; want nil and a ParseError, a Refusal or errShape", v, err)
		}
	})
}

func mustVerify(t testing.TB, doc []byte, policies ...xmldsig.Policy) []byte {
	t.Helper()
	v, err := verify(doc, policies...)
	if err != nil {
		t.Fatal(err)
	}
	return v.Canonical
}
