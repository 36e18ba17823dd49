package xmldsig

import (
	"bytes"
	"encoding/pem"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzCertificate: of a certificate that crypto/x509 reads, the lenient reader
// says the same or nothing.
func FuzzCertificate(f *testing.F) {
	for _, der := range knownCertificates(f) {
		if _, err := readLenient(der); err != nil {
			f.Fatal(err)
		}
		f.Add(der)
		version := bytes.Index(der, []byte{0xa0, 3, 2, 1, 2}) // of version 3
		for v := range byte(4) {
			if version > 0 {
				other := bytes.Clone(der)
				other[version+4] = v
				f.Add(other)
			}
		}
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		strict, err := readCertificate(der, false)
		if err != nil {
			return
		}
		lenient, err := readLenient(der)
		if err != nil {
			return
		}
		lenient.lenient = false
		opts := cmp.AllowUnexported(certificate{})
		if diff := cmp.Diff(strict, lenient, opts, cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) })); diff != "" {
			t.Fatal(diff)
		}
	})
}

// knownCertificates returns those of the vectors.
func knownCertificates(t testing.TB) [][]byte {
	t.Helper()
	var list [][]byte
	for _, name := range []string{"testdata/root.pem", "testdata/leaf.pem"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(data)
		list = append(list, block.Bytes)
	}
	return list
}
