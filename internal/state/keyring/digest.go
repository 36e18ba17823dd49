package keyring

import (
	"crypto/hmac"
	"crypto/sha256"
)

// Digest returns a keyed digest of data, an HMAC-SHA256 under the current secret. Without the key file it is impossible
// to find the data by trying all values, such as all card numbers.
func (r *Ring) Digest(data string) []byte { return r.keys[0].digestOf(data) }

// IsDigest reports whether digest is that of data under any of the secrets.
func (r *Ring) IsDigest(digest []byte, data string) bool {
	is := false
	for i := range r.keys {
		is = hmac.Equal(digest, r.keys[i].digestOf(data)) || is
	}
	return is
}

func (d *derived) digestOf(data string) []byte {
	mac := hmac.New(sha256.New, d.digest[:])
	mac.Write([]byte(data)) // a hash never fails
	return mac.Sum(nil)
}
