package keyring

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
)

// A Handover passes a new secret to all nodes that have the current one. It may pass through places that others can
// read: the secret is sealed, and only what is sealed with it is trusted.
type Handover struct {
	ID     string   `json:"id"`               // of the new secret
	From   string   `json:"from"`             // of the secret that is current before
	Former []string `json:"former,omitempty"` // previous secrets that stay in addition to From, the newest first
	Sealed []byte   `json:"sealed,omitempty"` // the new secret; empty when it is not to be had any more
}

var (
	errNextThere = errors.New("keyring: the key file has a next secret")
	errManyKept  = fmt.Errorf("keyring: %d previous secrets are still needed, and a key file has no room for more",
		maxFormer)
	errNotFrom = errors.New("keyring: the new secret is for others: it follows a secret that is not the current one")

	// ErrHandoverGone says that a new secret cannot be had from a Handover any more.
	ErrHandoverGone = errors.New("keyring: the new secret is no longer in the store")
)

// NewHandover makes a new secret. Of the previous secrets of r those with one of some ids are to stay.
func (r *Ring) NewHandover(stay []string) (Handover, error) {
	if r.next() != nil {
		return Handover{}, errNextThere
	}
	h := Handover{From: r.keys[0].text()}
	for _, id := range r.formerIDs() {
		if slices.Contains(stay, id) {
			h.Former = append(h.Former, id)
		}
	}
	if len(h.Former)+1 > maxFormer {
		return Handover{}, errManyKept
	}
	for {
		secret := make([]byte, secretLen)
		rand.Read(secret) // it never fails, it ends the process
		extended, err := newRing(r.vault, append(r.secrets(), secret), r.former)
		if err != nil {
			continue // it has the id of another by chance
		}
		h.ID = extended.next().text()
		h.Sealed = r.Seal(h.name(), secret)
		return h, nil
	}
}

// name is what a new secret is sealed under: all else that the handover says.
func (h *Handover) name() string {
	return fmt.Sprintf("new secret %q after %q, %q", h.ID, h.From, h.Former)
}

// secrets returns all secrets of r in their order.
func (r *Ring) secrets() (all [][]byte) {
	for _, d := range r.keys {
		all = append(all, d.secret[:])
	}
	return all
}

// open returns the new secret of a handover.
func (r *Ring) open(h *Handover) ([]byte, error) {
	switch {
	case h.From != r.keys[0].text():
		return nil, errNotFrom
	case len(h.Sealed) == 0:
		return nil, ErrHandoverGone
	case IDOfSeal(h.Sealed) != h.From:
		return nil, ErrSealed
	}
	secret, err := r.Open(h.name(), h.Sealed)
	if err == nil && len(secret) != secretLen {
		err = ErrSealed
	}
	return secret, err
}

// Accept returns a ring that accepts what the new secret of a handover makes, and goes on making
// things with the current one.
func (r *Ring) Accept(h *Handover) (*Ring, error) {
	if r.next() != nil {
		return nil, errNextThere
	}
	secret, err := r.open(h)
	if err != nil {
		return nil, err
	}
	return newRing(r.vault, append(r.secrets(), secret), r.former)
}

// Follow returns a ring that makes things with the new secret of a handover, and accepts what its previous secrets
// make.
func (r *Ring) Follow(h *Handover) (*Ring, error) {
	secret, err := r.open(h)
	if err != nil {
		return nil, err
	}
	secrets := [][]byte{secret, r.keys[0].secret[:]}
	for _, d := range r.keys[1 : 1+r.former] {
		if slices.Contains(h.Former, d.text()) {
			secrets = append(secrets, d.secret[:])
		}
	}
	former := len(secrets) - 1
	if next := r.next(); next != nil && next.text() != h.ID {
		secrets = append(secrets, next.secret[:])
	}
	return newRing(r.vault, secrets, former)
}
