package keyring

import (
	"encoding/hex"
	"slices"
	"strings"
)

// KeyIDs are the ids of the secrets in a key file, as they stand in front of sealed data; "" if the file has no such
// secret. An id reveals nothing about its secret. The ids of several previous secrets have commas between them.
type KeyIDs struct {
	Current  string `json:"current"`
	Previous string `json:"previous,omitempty"`
	Next     string `json:"next,omitempty"`
}

// IDOfSeal returns the id of the secret that sealed data names as the one that it was made with; "" for data that is
// not sealed.
func IDOfSeal(sealed []byte) string {
	if len(sealed) < headerLen || sealed[0] != sealFormat {
		return ""
	}
	return hex.EncodeToString(sealed[1 : 1+keyIDLen])
}

// KeyIDs returns the ids of the secrets of r.
func (r *Ring) KeyIDs() KeyIDs {
	ids := KeyIDs{Current: r.keys[0].text(), Previous: strings.Join(r.formerIDs(), ",")}
	if next := r.next(); next != nil {
		ids.Next = next.text()
	}
	return ids
}

// Has reports whether the key file has the secret of an id, in whichever place.
func (r *Ring) Has(id string) bool {
	return slices.ContainsFunc(r.keys, func(d derived) bool { return d.text() == id })
}

// formerIDs returns the ids of the previous secrets, the newest first.
func (r *Ring) formerIDs() (ids []string) {
	for _, d := range r.keys[1 : 1+r.former] {
		ids = append(ids, d.text())
	}
	return ids
}

// next returns the next secret, nil if there is none.
func (r *Ring) next() *derived {
	if len(r.keys) == 1+r.former {
		return nil
	}
	return &r.keys[1+r.former]
}

// text is the id as people see it.
func (d *derived) text() string { return hex.EncodeToString(d.id[:]) }
