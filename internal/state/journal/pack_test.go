package journal

import (
	"bytes"
	"compress/flate"
	"strings"
	"testing"
)

// TestJ2BodiesOfEarlierBuildsAreRead: what was compressed with DEFLATE, as earlier builds did.
func TestJ2BodiesOfEarlierBuildsAreRead(t *testing.T) {
	const text = `{"kind":"answered","record":{"id":"8a880dc0","status":"completed"}}`
	var b bytes.Buffer
	w, err := flate.NewWriterDict(&b, flate.BestSpeed, []byte(dictionary))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := unpack(b.Bytes()); err != nil || string(got) != text {
		t.Errorf("unpack = %q, %v", got, err)
	}
}

// FuzzPack: whatever a text is, it comes back; whatever bytes are read, they are no panic.
func FuzzPack(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte(packedBefore))
	f.Add([]byte(strings.Repeat("ab", 5000)))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := unpack(pack(text))
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("unpack(pack(%q)) = %q, %v", text, got, err)
		}
		if len(text) < 1000 { // the length that a block names may be large
			_, _ = unpack(text)
		}
	})
}
