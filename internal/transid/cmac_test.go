package transid

import (
	"bytes"
	"crypto/aes"
	"encoding/hex"
	"testing"
)

// TestCMAC: the examples of RFC 4493, section 4, and those of NIST SP 800-38B for
// AES-256, which have the same messages.
func TestCMAC(t *testing.T) {
	message := unhex(t, "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"+
		"30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710")
	for _, test := range []struct {
		key  string
		want map[int]string // by length of the message
	}{
		{"2b7e151628aed2a6abf7158809cf4f3c", map[int]string{
			0: "bb1d6929e95937287fa37d129b756746", 16: "070a16b46b4d4144f79bdd9dd04a287c",
			40: "dfa66747de9ae63030ca32611497c827", 64: "51f0bebf7e3b9d92fc49741779363cfe",
		}},
		{"603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", map[int]string{
			0: "028962f61b7bf89efc6b551f4667d983", 16: "28a7023f452e8f82bd4bf28d8c37c35c",
			40: "aaf3d8f1de5640c232f5b169b9c911e6", 64: "e1992190549f6ed5696a2c056c315410",
		}},
	} {
		c := newCMAC(unhex(t, test.key))
		for n, want := range test.want {
			var code [aes.BlockSize]byte
			c.code(&code, message[:n])
			if got := hex.EncodeToString(code[:]); got != want {
				t.Errorf("AES-%d, %d bytes: %s, want %s", 4*len(test.key), n, got, want)
			}
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTagForgetsTheCard: what a tag was computed in is kept for the next, without the
// card number.
func TestTagForgetsTheCard(t *testing.T) {
	const pan = "4000001234567890"
	mac, kept := newCMAC(make([]byte, 32)), &tagger{buf: make([]byte, 0, 128)}
	kept.cardTag(mac, new(bits), "owner", pan)
	if all := kept.buf[:cap(kept.buf)]; bytes.Contains(all, []byte(pan[:6])) || bytes.Contains(all, []byte(pan[10:])) {
		t.Errorf("kept: %q", all)
	}
}
