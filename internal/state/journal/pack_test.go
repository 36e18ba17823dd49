package journal

import (
	"bytes"
	"strings"
	"testing"
)

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
