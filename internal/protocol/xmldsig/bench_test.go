package xmldsig_test

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha1"
	"encoding/xml"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// floor is what no verifier can do without: inflate, one pass of the tokenizer,
// one signature of a key of the usual size.
func floor(b *testing.B) func() {
	text := read(b, "real/mpidocs_pares.b64")
	signer := key(b, "signer/2048")
	digest := sha1.Sum(text)
	signature, err := rsa.SignPKCS1v15(nil, signer, crypto.SHA1, digest[:])
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		dec := xml.NewDecoder(bytes.NewReader(inflate(b, text)))
		for {
			if _, err := dec.RawToken(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
		if err := rsa.VerifyPKCS1v15(&signer.PublicKey, crypto.SHA1, digest[:], signature); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFloor(b *testing.B) {
	run := floor(b)
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}

// BenchmarkVerify takes a real PARes with three certificates from its deflated
// form to what was signed. The ratio is its speed by that of the floor, measured
// in turns.
func BenchmarkVerify(b *testing.B) {
	text, policy, run := read(b, "real/mpidocs_pares.b64"), realPolicy(b), floor(b)
	var spent, floored time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		if _, err := verify(inflate(b, text), policy); err != nil {
			b.Fatal(err)
		}
		spent += time.Since(start)
		b.StopTimer()
		start = time.Now()
		run()
		floored += time.Since(start)
		b.StartTimer()
	}
	b.ReportMetric(float64(floored)/float64(spent), "ratio")
}

func BenchmarkParse(b *testing.B) {
	doc := realPARes(b)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := xmldsig.Parse(doc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonical(b *testing.B) {
	root := parsed(b, string(realPARes(b)))
	for name, exclusive := range map[string]bool{"inclusive": false, "exclusive": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				root.Canonical(exclusive)
			}
		})
	}
}

// TestVerifyAllocs bounds the cost of one PARes by allocations, since times say little on a
// busy machine.
func TestVerifyAllocs(t *testing.T) {
	doc, policies := realPARes(t), []xmldsig.Policy{realPolicy(t)}
	allocs := testing.AllocsPerRun(50, func() {
		if _, err := verify(doc, policies...); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 1200 {
		t.Errorf("%v allocations, want 1200 at the most", allocs)
	}
	t.Logf("%v allocations", allocs)
}
