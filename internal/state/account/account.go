// Package account identifies callers: it makes API keys, finds the merchant of a key, and holds the merchants'
// settings. Use [Create] to make a key, and a [KeyCache] to find the [Account] of the key that a request brings.
//
// A key belongs to a merchant by name, and all keys of a merchant act alike. Settings come
// from the configuration and are optional: a merchant without settings is only a name.
// Passwords and roles are not here. The listeners know how a request carries its key.
//
// No key is kept, in the store or in memory. What is kept is the SHA-256 of its 128 random
// bits ([HashKey]), from which the key cannot be guessed. The row in the store is sealed with the key file. An attacker
// who can write to the store, but has no key file, can neither make a key nor change what a key is good for, such as
// its [Terms]. The attacker can remove a row, and put back a copy of an older one. A row whose seal does not open is
// not an unknown key: see [ErrKeyNotJudged].
package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A Merchant owns transactions. In JSON its members are named like the keys of the configuration. Rows of the store,
// the admin API and commands use these names. A logo is in base64.
type Merchant struct {
	Name string `json:"name"`

	// Group is the group of merchants that the merchant belongs to, such as those of one customer of the operator. People
	// and tokens of the group see it. "" means that it belongs to none.
	Group string `json:"group,omitzero"`

	// RequestorID, RequestorName and AcquirerCountry go into the messages of this merchant.
	// If one is empty, what the request or the directory's configuration says goes there.
	RequestorID     string `json:"requestor_id,omitzero"`
	RequestorName   string `json:"requestor_name,omitzero"`
	AcquirerCountry string `json:"acquirer_country,omitzero"` // ISO 3166-1, three digits

	// SchemeRules says what is done when a request lacks what its scheme asks for beyond
	// the protocol: "off" does nothing; "enforce" answers with an Erro; anything else, which
	// is "warn", records and logs it.
	SchemeRules string `json:"scheme_rules,omitzero"`

	// Bridging sends requests of 2.3.1 to cards of 2.2.0, with what the Bridging message extension can carry.
	Bridging bool `json:"bridging,omitzero"`

	// Transliterate says that names and addresses are written in ASCII where the version
	// takes nothing else.
	Transliterate bool `json:"transliterate,omitzero"`

	// Rate and InFlight are how many requests may begin or continue authentications, in some time and at the same time, on
	// all nodes together. Zero means that there is no such limit.
	Rate     Rate `json:"rate,omitzero"`
	InFlight int  `json:"in_flight,omitzero"`

	// MerchantName, MCC, MerchantCountry and RequestorURL go into requests of the Authentications API that lack them:
	// merchantName, mcc, merchantCountryCode (three digits) and threeDSRequestorURL.
	MerchantName    string `json:"merchant_name,omitzero"`
	MCC             string `json:"mcc,omitzero"`
	MerchantCountry string `json:"merchant_country,omitzero"`
	RequestorURL    string `json:"requestor_url,omitzero"`

	// Origins are the origins of the merchant's pages, such as https://shop.example, which may call the browser listener.
	Origins []string `json:"origins,omitempty"`

	// Page is how the pages for shoppers look.
	Page Page `json:"page,omitzero"`

	// PerDirectory has the ids and names by which the directories of single schemes know
	// this merchant.
	PerDirectory map[string]Requestor `json:"per_directory,omitempty"`
}

// maxGroup is the length of the longest name of a group of merchants.
const maxGroup = 64

// CheckGroup says what is wrong with the name of a group of merchants; nil means that it is valid.
func CheckGroup(name string) error {
	isOther := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}
	if name == "" || len(name) > maxGroup || strings.ContainsFunc(name, isOther) {
		return fmt.Errorf("want 1 to %d letters, digits, dots, hyphens or underscores", maxGroup)
	}
	return cardnumber.Check(name)
}

// A Page is how the pages for a merchant's shoppers look. An empty field means the look of threeds.
type Page struct {
	Logo     []byte `json:"logo,omitempty"`     // an image
	LogoType string `json:"logo_type,omitzero"` // its media type: image/png or image/svg+xml
	Colour   string `json:"colour,omitzero"`    // "#rrggbb", of the button that goes on
	Accent   string `json:"accent,omitzero"`    // "#rrggbb", of links and edges
}

// A Requestor is how a directory server calls a merchant, and its acquirer there.
type Requestor struct {
	ID   string `json:"requestor_id,omitzero"`
	Name string `json:"requestor_name,omitzero"`
	// acquirerBIN and acquirerMerchantID, for requests of the Authentications API that lack them
	AcquirerBIN        string `json:"acquirer_bin,omitzero"`
	AcquirerMerchantID string `json:"acquirer_merchant_id,omitzero"`
}

// Requestor returns the id and the name of the merchant at the directory of a scheme. Each is the value for that
// directory, or else the common value, which may be empty.
func (m *Merchant) Requestor(scheme string) Requestor {
	r := m.PerDirectory[scheme]
	r.ID = cmp.Or(r.ID, m.RequestorID)
	r.Name = cmp.Or(r.Name, m.RequestorName)
	return r
}

// An Account is what a key stands for. It is shared and must not be changed.
type Account struct {
	Merchant *Merchant
	KeyID    string // the first six hexadecimal digits of the key's hash, for the log
	Strict   bool   // requests are taken as they are, and nothing in them is normalised
	Terms    Terms  // the listeners look at the networks, for they know the address of a request

	// IsDisabled says that an operator has disabled the merchant. The key is good, and the listeners refuse what it
	// would begin.
	IsDisabled bool
}

// A Ring has the secrets that the rows of keys are sealed under.
type Ring interface {
	// Seal returns a seal that Open accepts for the same name alone, on every ring that has
	// the current secret of this one. Open returns plain.
	Seal(name string, plain []byte) []byte
	Open(name string, sealed []byte) ([]byte, error)

	// IsSealedByPrevious reports whether sealed names the previous secret as the one that
	// it was made with.
	IsSealedByPrevious(sealed []byte) bool
}

// NewRow returns the row that the store keeps for a key. It panics if the key does not have the form of those that
// [Create] makes.
func NewRow(ring Ring, key, merchant string, strict bool, terms Terms) store.Key {
	hash, ok := HashKey(key)
	if !ok {
		panic("account: not the form of an API key")
	}
	row := store.Key{Hash: hash[:], Merchant: merchant, Strict: strict, Created: time.Now().UTC()}
	row.Seal = ring.Seal(row.Name(), terms.encode())
	return row
}

// IsSealed reports whether a row is as NewRow made it: see [OpenTerms].
func IsSealed(ring Ring, row *store.Key) bool {
	_, err := OpenTerms(ring, row)
	return err == nil
}

// KeyID returns the beginning of a hash, by which operators call a key.
func KeyID(hash []byte) string { return hex.EncodeToString(hash[:min(len(hash), 6)]) }

// Create makes a key for a merchant, and stores its hash. The key works when Create has
// returned. It cannot be read from the store later.
func Create(ctx context.Context, keys interface {
	PutKey(context.Context, store.Key) error
}, ring Ring, merchant string, strict bool, terms Terms) (key string, err error) {
	if merchant == "" {
		return "", errors.New("account: a key needs the name of a merchant")
	}
	key = newKey()
	if err := keys.PutKey(ctx, NewRow(ring, key, merchant, strict, terms)); err != nil {
		return "", fmt.Errorf("account: create key: %w", err)
	}
	return key, nil
}

// keyLen is the length of a key: 32 hexadecimal digits and 4 dashes.
const keyLen = 36

// newKey returns 128 random bits in the form 8-4-4-4-12.
func newKey() string {
	var b [16]byte
	rand.Read(b[:]) // it never fails, it ends the process
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// HashKey returns what the store keeps of a key: the SHA-256 of its 16 bytes. So a key in capital letters is the same
// key. It returns false for a text that does not have the form of a key, and so cannot be one.
func HashKey(key string) (hash [sha256.Size]byte, ok bool) {
	if len(key) != keyLen || key[8] != '-' || key[13] != '-' || key[18] != '-' || key[23] != '-' {
		return hash, false
	}
	var bits [16]byte
	digits := key[:8] + key[9:13] + key[14:18] + key[19:23] + key[24:]
	if _, err := hex.Decode(bits[:], []byte(digits)); err != nil {
		return hash, false
	}
	return sha256.Sum256(bits[:]), true
}
