// Package account knows who calls: it makes API keys, tells the merchant of a key,
// and holds the merchants' settings.
//
// A key belongs to a merchant by name; all keys of a merchant act alike. Settings
// come from the configuration and are optional: a merchant without any is his
// name. Passwords, roles and the MPI's form of authentication are not here: the
// listeners bring a key in whatever way their protocol carries it.
//
// No key is kept. The store has a keyed hash of it; a [Book] remembers another
// one, under a secret of its own that ends with the process.
package account

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

// A Merchant owns transactions.
type Merchant struct {
	Name string

	// What goes into the messages of this merchant; empty means that others
	// decide.
	RequestorID     string
	RequestorName   string
	AcquirerCountry string // ISO 3166-1, three digits

	// SchemeRules says what is done when a request lacks what its scheme asks
	// for beyond the protocol: "off" nothing, "enforce" an Erro. Everything
	// else, "warn" among it, is a record and a log line.
	SchemeRules string

	// PerDirectory has the forms of id and name that one scheme's directory
	// knows this merchant by.
	PerDirectory map[string]Requestor
}

// A Requestor is how a directory server calls a merchant.
type Requestor struct{ ID, Name string }

// Requestor returns the id and the name of the merchant at the directory of a
// scheme: the directory's form of each, else the common one, else nothing.
func (m *Merchant) Requestor(scheme string) Requestor {
	r := m.PerDirectory[scheme]
	if r.ID == "" {
		r.ID = m.RequestorID
	}
	if r.Name == "" {
		r.Name = m.RequestorName
	}
	return r
}

// An Account is what a key stands for. It is shared and must not be changed.
type Account struct {
	Merchant *Merchant
	Strict   bool // requests are taken as they are, nothing is normalised
}

// Create makes a key for a merchant and stores its hash. The key works when
// Create has returned; it cannot be had again.
func Create(ctx context.Context, keys interface {
	PutKey(context.Context, store.Key) error
}, ring interface{ Hash(key string) []byte }, merchant string, strict bool) (key string, err error) {
	if merchant == "" {
		return "", errors.New("account: a key needs the name of a merchant")
	}
	key = newKey()
	err = keys.PutKey(ctx, store.Key{Hash: ring.Hash(key), Merchant: merchant, Strict: strict, Created: time.Now().UTC()})
	if err != nil {
		return "", fmt.Errorf("account: create key: %w", err)
	}
	return key, nil
}

// keyLen is the length of a key: 32 hexadecimal digits and 4 dashes.
const keyLen = 36

// newKey returns 128 random bits in the form 8-4-4-4-12.
func newKey() string {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // it never fails, it ends the process
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// hasForm reports whether key looks like one of newKey. Nothing else is in any
// store.
func hasForm(key string) bool {
	if len(key) != keyLen {
		return false
	}
	for i := range keyLen {
		c := key[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}
