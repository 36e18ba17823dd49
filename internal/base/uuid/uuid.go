// Package uuid makes random UUIDs. Use [New].
package uuid

import (
	"crypto/rand"
	"encoding/hex"
)

// New returns a random UUID of version 4 (RFC 9562), in lowercase.
func New() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return FromBytes(b)
}

// FromBytes returns the UUID of version 4 with these bits, except the six bits of version and variant.
func FromBytes(b [16]byte) string {
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	var text [36]byte
	hex.Encode(text[:], b[:4])
	hex.Encode(text[9:], b[4:6])
	hex.Encode(text[14:], b[6:8])
	hex.Encode(text[19:], b[8:10])
	hex.Encode(text[24:], b[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
