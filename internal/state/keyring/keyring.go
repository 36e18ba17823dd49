// Package keyring holds the secrets that all nodes of a server share, and derives from them
// the keys for transaction ids and for sealing stored data. Use [Load] or [LoadOrCreate] to
// read the key file, [Ring.ID] for ids, [Ring.Seal] and [Ring.Open] for data, and [Ring.Digest] for values that are
// only compared.
//
// The secrets are in a JSON file of at most three members:
//
//	{"next": "…", "current": "…", "previous": "…"}
//
// each 32 random bytes in base64. New ids and seals are made with current; those made with next or previous are
// accepted too. Previous may be a list of secrets, the newest first. To rotate, publish a next on all nodes; then move
// current to previous and next to current; drop a previous secret when nothing made with it is still in use. The rows
// of API keys are kept for years, so the nodes that serve reseal them with current.
//
// The package does not watch the file, and does not rotate by itself. The code that does so asks [Ring.Opens] whether
// the next ring opens what the previous one made. Package rotation hands a new secret to all nodes: see [Handover].
// Certificates and their private keys are not in the file. [LoadIn] reads a file that a helper of keys seals.
package keyring

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"slices"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/protocol/transid"
)

// secretLen is the length of a secret and of every key derived from one.
const secretLen = 32

// Labels of the purposes. Changing one makes everything of that purpose invalid. If the algorithm changes, the label
// must change too, so that no key is used with two algorithms.
const (
	labelTransID = "threeds transaction id hmac"
	labelSeal    = "threeds sealed data"
	labelKeyID   = "threeds sealed data key id"
	labelDigest  = "threeds digest hmac"
)

// A Ring is the secrets of a file. It is safe for concurrent use and prints
// nothing.
type Ring struct {
	ids  *transid.Keys
	keys []derived // current, those of previous, next as far as there are

	former int // how many of them are of previous

	vault keyfile.Vault // seals the key files that it writes
}

// derived is a secret, and what is made from it.
type derived struct {
	secret *[secretLen]byte // no verb of fmt prints what a pointer in a struct names
	seal   [secretLen]byte
	id     [keyIDLen]byte // names seal in front of what it sealed
	digest [secretLen]byte
}

// newRing derives all keys. The first secret is the current one, then come the previous ones. If there is one more, it
// is the next.
func newRing(vault keyfile.Vault, secrets [][]byte, former int) (*Ring, error) {
	r := &Ring{former: former, vault: vault}
	var forIDs [][]byte
	for _, secret := range secrets {
		d := derived{secret: (*[secretLen]byte)(secret)}
		var forID [secretLen]byte
		for _, purpose := range []struct {
			label string
			key   []byte
		}{{labelTransID, forID[:]}, {labelSeal, d.seal[:]}, {labelKeyID, d.id[:]}, {labelDigest, d.digest[:]}} {
			key, err := hkdf.Key(sha256.New, secret, nil, purpose.label, len(purpose.key))
			if err != nil {
				return nil, fmt.Errorf("keyring: %w", err)
			}
			copy(purpose.key, key)
		}
		for _, other := range r.keys {
			if other.id == d.id {
				return nil, fmt.Errorf("keyring: two secrets share a key id: make a new one")
			}
		}
		r.keys = append(r.keys, d)
		forIDs = append(forIDs, forID[:])
	}
	r.ids = transid.NewKeys(forIDs[0], forIDs[1:]...)
	return r, nil
}

// Opens reports whether r also accepts what former makes: ids and sealed data.
func (r *Ring) Opens(former *Ring) bool {
	return slices.ContainsFunc(r.keys, func(d derived) bool {
		return subtle.ConstantTimeCompare(d.seal[:], former.keys[0].seal[:]) == 1
	})
}

// ID returns the keys of transaction ids.
func (r *Ring) ID() *transid.Keys { return r.ids }

// hidden is what a Ring prints.
const hidden = "[keyring]"

// Format implements [fmt.Formatter], for every verb.
func (Ring) Format(f fmt.State, _ rune) { fmt.Fprint(f, hidden) }

// LogValue implements [slog.LogValuer].
func (Ring) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements [encoding.TextMarshaler].
func (Ring) MarshalText() ([]byte, error) { return []byte(hidden), nil }
