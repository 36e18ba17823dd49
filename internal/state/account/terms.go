package account

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/state/store"
)

// MaxLabel is the length of the longest label of a key, in characters.
const MaxLabel = 100

// CheckLabel says what is wrong with the label of a key; nil means that it is valid. A key needs no label.
func CheckLabel(text string) error {
	isUnprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if utf8.RuneCountInString(text) > MaxLabel || !utf8.ValidString(text) || strings.ContainsFunc(text, isUnprintable) {
		return fmt.Errorf("want printable text of at most %d characters", MaxLabel)
	}
	return cardnumber.Check(text)
}

// Terms are the label of a key, and when and from where it is good. They are sealed into the row of the key, so that an
// attacker who can only write to the store cannot change them.
type Terms struct {
	Label   string         `json:"label,omitzero"`
	Expires time.Time      `json:"expires,omitzero"` // the first moment at which the key is unknown; zero: never
	Allow   []netip.Prefix `json:"allow,omitempty"`  // the networks that requests come from; none: all
}

// IsExpired reports whether a key with these terms is unknown at a moment.
func (t *Terms) IsExpired(at time.Time) bool { return !t.Expires.IsZero() && !at.Before(t.Expires) }

// Allows reports whether requests may come from an address. An address that is not valid is
// in no network.
func (t *Terms) Allows(from netip.Addr) bool {
	return len(t.Allow) == 0 || slices.ContainsFunc(t.Allow, func(p netip.Prefix) bool { return p.Contains(from) })
}

// encode returns what is sealed into a row: nothing for a key without terms.
func (t *Terms) encode() []byte {
	if t.Label == "" && t.Expires.IsZero() && len(t.Allow) == 0 {
		return nil
	}
	plain, err := json.Marshal(t)
	if err != nil {
		panic("account: " + err.Error()) // Only a year beyond 9999 fails, and no command accepts such an end.
	}
	return plain
}

// OpenTerms returns the terms of a row that is as [NewRow] made it. Any other row does not count as a key: it was
// changed, or the secret that it was sealed under has left the ring.
func OpenTerms(ring Ring, row *store.Key) (Terms, error) {
	_, terms, err := openRow(ring, row)
	return terms, err
}

// openRow returns what is sealed into a row, as it is and decoded.
func openRow(ring Ring, row *store.Key) (plain []byte, terms Terms, err error) {
	if plain, err = ring.Open(row.Name(), row.Seal); err != nil {
		return nil, Terms{}, err
	}
	if len(plain) > 0 {
		if err := json.Unmarshal(plain, &terms); err != nil {
			return nil, Terms{}, fmt.Errorf("account: terms of key %s: %w", KeyID(row.Hash), err)
		}
	}
	return plain, terms, nil
}
