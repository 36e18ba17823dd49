// Package transid makes and checks transaction ids that carry their own age and
// owner, so that nothing need be stored when an id is handed out.
//
// An id is a UUID of version 4 in form, in lowercase. Its 16 bytes are, from the
// first bit on:
//
//	0      6                                        48   52       64  66              84     88                108              128
//	├ life ┼───────────── milliseconds ─────────────┼ 4 ─┼─ random ─┼ 2 ┼── random ──┼scheme┼── owner tag ──┼── card tag ──┤
//	   6              42, since 1970 UTC              4       12      2       18        4         20              20
//
// The life is how long the id may be used, in minutes. It tells whoever remembers that
// an id was used for how long to do so, even if lives are configured otherwise later or
// elsewhere. The 42 bits of time end in 2109. The tags are the first 20 bits of an
// AES-CMAC. The owner tag covers time, random bits, scheme and owner; the card tag all of
// that, the owner tag and the card number. So neither owner nor card can be read from an
// id or tried against it without the key. Twenty bits are no signature: about one of a
// million guessed ids passes for a given owner. All that a guess gains is the right to
// start one transaction of his own.
//
// The package knows no clock and no store. That an id is used once, and that
// two equal ones do not meet, is the store's business.
package transid

import (
	"crypto/aes"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"time"
)

// MaxSkew is how far in the future an id may have been made: what the clocks of
// two nodes may differ by.
const MaxSkew = 5 * time.Second

// MaxLife is the longest life that an id has room for.
const MaxLife = (1<<6 - 1) * time.Minute

// MaxScheme is the highest scheme number an id has room for.
const MaxScheme = 1<<4 - 1

// Why an id is not good, for use with errors.Is.
var (
	ErrMalformed = errors.New("transid: not an id of ours")
	ErrOwner     = errors.New("transid: made for another owner or under another key")
	ErrCard      = errors.New("transid: made for another card")
	ErrExpired   = errors.New("transid: expired")
	ErrFuture    = errors.New("transid: made in the future")
)

// Info is what an id says of itself.
type Info struct {
	ID     string    // in lowercase, the one spelling to store and compare
	Made   time.Time // UTC, whole milliseconds
	Scheme uint8
}

// Life returns how long id may be used after it was made, at most: whole minutes. It is
// 0 for what has not the form of an id, and says nothing about who made it.
func Life(id string) time.Duration {
	b, err := parse(id)
	if err != nil {
		return 0
	}
	return b.life()
}

// Keys make and check ids. They are safe for concurrent use and print nothing.
type Keys struct {
	// The first makes ids; all check them.
	macs []*cmac
}

// NewKeys returns Keys that make ids with current and accept those of the others
// too: the key before and the key to come. A key has 16, 24 or 32 random bytes; NewKeys
// panics if it has not.
func NewKeys(current []byte, others ...[]byte) *Keys {
	k := &Keys{macs: []*cmac{newCMAC(current)}}
	for _, key := range others {
		k.macs = append(k.macs, newCMAC(key))
	}
	return k
}

// New makes an id that lives for a time, rounded up to minutes. It reads four bytes of
// rand, which must not fail, and panics if life is above MaxLife or scheme above
// MaxScheme.
func (k *Keys) New(now time.Time, life time.Duration, rand io.Reader, scheme uint8, owner, pan string) string {
	var text [textLen]byte
	return string(k.Append(text[:0], now, life, rand, scheme, owner, pan))
}

// Append appends an id to dst, as New makes it.
func (k *Keys) Append(dst []byte, now time.Time, life time.Duration, rand io.Reader, scheme uint8, owner, pan string) []byte {
	if scheme > MaxScheme {
		panic("transid: scheme number out of range")
	}
	if life < 0 || life > MaxLife {
		panic("transid: life out of range")
	}
	t := taggers.Get().(*tagger)
	defer taggers.Put(t)
	if _, err := io.ReadFull(rand, t.random[:]); err != nil {
		panic("transid: random source: " + err.Error())
	}
	var id bits
	id.setMade(now, life)
	r := t.random
	id[6] = 0x40 | r[0]&0x0f
	id[7] = r[1]
	id[8] = 0x80 | r[2]&0x3f
	id[9] = r[3]
	id[10] = r[0]&0xf0 | scheme // four more of the 30 random bits
	id.setOwnerTag(t.ownerTag(k.macs[0], &id, owner))
	id.setCardTag(t.cardTag(k.macs[0], &id, owner, pan))
	return id.append(dst)
}

// Check returns what an id says of itself, or why it is not good: it has to be made by
// New for this owner and card, less than maxAge ago and less than its life ago, and not
// more than MaxSkew in the future. When several things are wrong, it returns the first of
// ErrMalformed, ErrOwner, ErrExpired or ErrFuture, and ErrCard. Letters of id may have
// either case.
func (k *Keys) Check(id string, now time.Time, maxAge time.Duration, owner, pan string) (Info, error) {
	b, err := parse(id)
	if err != nil {
		return Info{}, err
	}
	t := taggers.Get().(*tagger)
	defer taggers.Put(t)
	ownerOK, cardOK := 0, 0
	for _, mac := range k.macs {
		o, c := t.check(mac, &b, owner, pan)
		ownerOK |= o
		cardOK |= o & c
	}
	age := time.Duration(now.UnixMilli()-b.made().UnixMilli()) * time.Millisecond
	switch {
	case ownerOK == 0:
		return Info{}, ErrOwner
	case age >= min(maxAge, b.life()):
		return Info{}, ErrExpired
	case age < -MaxSkew:
		return Info{}, ErrFuture
	case cardOK == 0:
		return Info{}, ErrCard
	}
	return Info{ID: b.spelling(id), Made: b.made(), Scheme: b[10] & 0x0f}, nil
}

// A tagger is the memory that tags are computed in, so that it does not allocate.
type tagger struct {
	buf    []byte
	sum    [aes.BlockSize]byte
	random [4]byte
}

var taggers = sync.Pool{New: func() any { return new(tagger) }}

// check compares both tags of id with those that one key makes. It takes the same
// time whatever the outcome, and returns ones and zeros.
func (t *tagger) check(mac *cmac, id *bits, owner, pan string) (ownerOK, cardOK int) {
	ownerOK = subtle.ConstantTimeEq(int32(t.ownerTag(mac, id, owner)), int32(id.ownerTag()))
	cardOK = subtle.ConstantTimeEq(int32(t.cardTag(mac, id, owner, pan)), int32(id.cardTag()))
	return ownerOK, cardOK
}

// ownerTag covers everything of id that stands before the tags, and owner.
func (t *tagger) ownerTag(mac *cmac, id *bits, owner string) uint32 {
	t.buf = append(t.buf[:0], 'o')
	t.buf = append(t.buf, id[:11]...)
	t.buf = append(t.buf, owner...)
	return t.tag(mac)
}

// cardTag covers everything of id that stands before itself, owner and pan. The
// length of pan keeps the two apart.
func (t *tagger) cardTag(mac *cmac, id *bits, owner, pan string) uint32 {
	t.buf = append(t.buf[:0], 'c')
	t.buf = append(t.buf, id[:13]...)
	t.buf = append(t.buf, id[13]&0xf0)
	t.buf = append(t.buf, byte(len(pan)))
	t.buf = append(t.buf, pan...)
	t.buf = append(t.buf, owner...)
	return t.tag(mac)
}

// tag is the first 20 bits of the code of t.buf, which it wipes: it held a card
// number.
func (t *tagger) tag(mac *cmac) uint32 {
	mac.code(&t.sum, t.buf)
	clear(t.buf)
	sum := &t.sum
	return uint32(sum[0])<<12 | uint32(sum[1])<<4 | uint32(sum[2])>>4
}

// bits are the 16 bytes of an id.
type bits [16]byte

func (b *bits) setMade(t time.Time, life time.Duration) {
	ms := t.UnixMilli()
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	minutes := byte((life + time.Minute - 1) / time.Minute)
	b[0] = minutes<<2 | b[0]&0x03
}

func (b *bits) made() time.Time {
	ms := int64(b[0] & 0x03)
	for _, x := range b[1:6] {
		ms = ms<<8 | int64(x)
	}
	return time.UnixMilli(ms).UTC()
}

func (b *bits) life() time.Duration { return time.Duration(b[0]>>2) * time.Minute }

func (b *bits) setOwnerTag(tag uint32) {
	b[11], b[12], b[13] = byte(tag>>12), byte(tag>>4), byte(tag<<4)
}

func (b *bits) ownerTag() uint32 {
	return uint32(b[11])<<12 | uint32(b[12])<<4 | uint32(b[13])>>4
}

func (b *bits) setCardTag(tag uint32) {
	b[13] |= byte(tag >> 16)
	b[14], b[15] = byte(tag>>8), byte(tag)
}

func (b *bits) cardTag() uint32 {
	return uint32(b[13]&0x0f)<<16 | uint32(b[14])<<8 | uint32(b[15])
}

// groups are where the bytes of an id stand in its text.
var groups = [...]struct{ text, from, to int }{{0, 0, 4}, {9, 4, 6}, {14, 6, 8}, {19, 8, 10}, {24, 10, 16}}

const textLen = 36

// text writes the 8-4-4-4-12 form.
func (b *bits) text(dst *[textLen]byte) {
	for _, g := range groups {
		hex.Encode(dst[g.text:], b[g.from:g.to])
	}
	dst[8], dst[13], dst[18], dst[23] = '-', '-', '-', '-'
}

func (b *bits) append(dst []byte) []byte {
	var text [textLen]byte
	b.text(&text)
	return append(dst, text[:]...)
}

// spelling returns id itself if it is in lowercase already.
func (b *bits) spelling(id string) string {
	var dst [textLen]byte
	b.text(&dst)
	if string(dst[:]) == id {
		return id
	}
	return string(dst[:])
}

// parse reads the text of an id. It accepts exactly the form that New writes, in
// either case, with the version and variant of a UUID of version 4.
func parse(id string) (bits, error) {
	var b bits
	if len(id) != textLen || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return b, ErrMalformed
	}
	for _, g := range groups {
		for i := range g.to - g.from {
			high, low := nibble(id[g.text+2*i]), nibble(id[g.text+2*i+1])
			if high|low > 0x0f {
				return b, ErrMalformed
			}
			b[g.from+i] = high<<4 | low
		}
	}
	if b[6]>>4 != 4 || b[8]>>6 != 2 {
		return b, ErrMalformed
	}
	return b, nil
}

// nibble is the value of a hexadecimal digit, or 0xff.
func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}
