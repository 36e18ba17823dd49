package keyring

import "encoding/hex"

// KeyIDs are the ids of the secrets in a key file, as they stand in front of what was sealed; "" where the file has no
// such secret. An id says nothing of its secret.
type KeyIDs struct {
	Current  string `json:"current"`
	Previous string `json:"previous,omitempty"`
	Next     string `json:"next,omitempty"`
}

// IDOfSeal returns the id of the secret that sealed data names as the one that it was made with; "" for what is
// no sealed data.
func IDOfSeal(sealed []byte) string {
	if len(sealed) < headerLen || sealed[0] != sealFormat {
		return ""
	}
	return hex.EncodeToString(sealed[1 : 1+keyIDLen])
}

// KeyIDs returns the ids of the secrets of r.
func (r *Ring) KeyIDs() KeyIDs {
	ids := KeyIDs{Current: hex.EncodeToString(r.keys[0].id[:])}
	rest := r.keys[1:]
	if r.hasPrevious {
		ids.Previous = hex.EncodeToString(rest[0].id[:])
		rest = rest[1:]
	}
	if len(rest) > 0 {
		ids.Next = hex.EncodeToString(rest[0].id[:])
	}
	return ids
}
