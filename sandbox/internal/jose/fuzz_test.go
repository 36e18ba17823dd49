package jose_test

import (
	"strings"
	"testing"

	gojose "github.com/go-jose/go-jose/v4"

	"github.com/openthreeds/threeds/sandbox/internal/jose"
)

// FuzzOpen reads what SDKs send. What opens here, another library opens with the key for this direction, and has the
// same of it.
func FuzzOpen(f *testing.F) {
	key := []byte("0123456789abcdefFEDCBA9876543210")
	channel := jose.Channel{Key: key}
	for _, encryption := range []string{jose.A128CBCHS256, jose.A128GCM} {
		// Sealed by another channel whose right half is the left one of this, so that GCM opens it, too.
		same := jose.Channel{Key: key}
		if encryption == jose.A128GCM {
			same.Key = append(append([]byte{}, key[16:]...), key[:16]...)
		}
		f.Add(same.Seal(jose.Header{Algorithm: "dir", KeyID: "id", Encryption: encryption}, []byte(`{"messageType":"CReq"}`)))
	}
	for _, text := range []string{"", "....", "e30....", "a.b.c.d.e", "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0...."} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		header, headerErr := jose.ReadHeader(text)
		plain, err := channel.Open(text)
		if err != nil {
			if plain != nil {
				t.Errorf("Open(%q) returns %q with %v", text, plain, err)
			}
			return
		}
		if headerErr != nil {
			t.Fatalf("Open(%q) opens, and ReadHeader says %v", text, headerErr)
		}
		toACS := key
		if header.Encryption == jose.A128GCM {
			toACS = key[:16]
		}
		other, err := gojose.ParseEncryptedCompact(text, []gojose.KeyAlgorithm{gojose.DIRECT}, []gojose.ContentEncryption{gojose.A128CBC_HS256, gojose.A128GCM})
		if err != nil {
			t.Fatalf("Open(%q) opens, and the other library says %v", text, err)
		}
		if got, err := other.Decrypt(toACS); err != nil || string(got) != string(plain) || strings.Count(text, ".") != 4 {
			t.Errorf("Open(%q) = %q, the other library %q, %v", text, plain, got, err)
		}
	})
}
