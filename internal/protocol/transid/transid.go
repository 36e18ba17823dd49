// Package transid makes and checks transaction ids that carry their own age and owner, so
// that nothing has to be stored when an id is handed out. Use [Keys.New] and [Keys.Check].
//
// An id is a UUID of version 4 in form, in lowercase. Its 16 bytes are, from the
// first bit on:
//
//	0      6                                        48   52       64  66              84     88                108              128
//	├ life ┼───────────── milliseconds ─────────────┼ 4 ─┼─ random ─┼ 2 ┼── random ──┼scheme┼── owner tag ──┼── card tag ──┤
//	   6              42, since 1970 UTC              4       12      2       18        4         20              20
//
// The scheme is a number below 15. There, 15 means that the scheme has a long number, which takes the place of the 16
// random bits before it. Then 14 random bits are left, besides the 40 bits of the tags:
//
//	0      6                                        48   52       64  66 68                84     88                108              128
//	├ life ┼───────────── milliseconds ─────────────┼ 4 ─┼─ random ─┼ 2 ┼rnd┼─ long scheme ─┼ 1111 ─┼── owner tag ──┼── card tag ──┤
//	   6              42, since 1970 UTC              4       12      2   2       16           4         20              20
//
// The life is how long the id may be used, in minutes. A store that remembers a used id reads in it how long to
// remember it, even if another life is configured later or on another node. The 42 bits of time end in 2109. The tags
// are the first 20 bits of an HMAC-SHA256. The owner tag covers time, random bits, scheme and owner. The card tag
// covers all of that, the owner tag and the card number. So neither owner nor card can be read from an id or tried
// against it without the key. Twenty bits are no signature: about one of a million guessed ids passes for a given
// owner. A guessed id gives the right to start one transaction for the guesser's own account.
//
// The package knows no clock and no store. That an id is used once, and that two equal ids
// never meet, is the task of the store.
package transid

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"sync"
	"time"
)

// MaxSkew is how far in the future an id may have been made: what the clocks of
// two nodes may differ by.
const MaxSkew = 5 * time.Second

// MaxLife is the longest life that an id has room for.
const MaxLife = (1<<6 - 1) * time.Minute

// A Scheme is the number of a card scheme. A number below [LongScheme] is short, any other is long.
type Scheme uint16

// LongScheme is the lowest number that is written as a long one.
const LongScheme Scheme = longMark + 1

// longMark stands where a short number would stand, and says that the number is a long one. It is
// no number itself.
const longMark = 1<<4 - 1

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
	Scheme Scheme
}

// Life returns how long after it was made id may be used at most, in whole minutes. It is 0
// for a text that has not the form of an id. It says nothing about who made the id.
func Life(id string) time.Duration {
	b, err := parse(id)
	if err != nil {
		return 0
	}
	return b.life()
}

// Span returns the time in which an id may have been used first, whether this server made it or not. ok is false for a
// text that does not have the form of an id. A random UUID of version 4 has that form, and its span means nothing.
func Span(id string) (from, until time.Time, ok bool) {
	b, err := parse(id)
	if err != nil {
		return time.Time{}, time.Time{}, false
	}
	return b.made().Add(-MaxSkew), b.made().Add(b.life() + MaxSkew), true
}

// Keys make and check ids. They are safe for concurrent use, and printing them shows no
// secret.
type Keys struct {
	keys []*tagKey // the first makes ids, all check them
}

// minKey is the shortest key, in bytes.
const minKey = 16

// NewKeys returns Keys that make ids with current, and accept the ids of current and of the
// others: the key before and the key to come. A key has at least 16 random bytes; NewKeys
// panics if one is shorter.
func NewKeys(current []byte, others ...[]byte) *Keys {
	k := &Keys{keys: []*tagKey{newTagKey(current)}}
	for _, key := range others {
		k.keys = append(k.keys, newTagKey(key))
	}
	return k
}

// New makes an id that lives for a time, rounded up to minutes. It reads four bytes of
// rand, which must not fail, and panics if life is above MaxLife. It also panics
// if scheme is 15, which is neither a short number nor a long one.
func (k *Keys) New(now time.Time, life time.Duration, rand io.Reader, scheme Scheme, owner, pan string) string {
	var text [textLen]byte
	return string(k.Append(text[:0], now, life, rand, scheme, owner, pan))
}

// Append appends an id to dst, as New makes it.
func (k *Keys) Append(
	dst []byte, now time.Time, life time.Duration, rand io.Reader, scheme Scheme, owner, pan string,
) []byte {
	if scheme == longMark {
		panic("transid: 15 is not the number of a scheme")
	}
	if life < 0 || life > MaxLife {
		panic("transid: life out of range")
	}
	key := k.keys[0]
	t := key.get()
	defer key.put(t)
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
	id[10] = r[0] & 0xf0 // four more of the 30 random bits
	id.setScheme(scheme)
	id.setOwnerTag(t.ownerTag(&id, owner))
	id.setCardTag(t.cardTag(&id, owner, pan))
	return id.append(dst)
}

// Check returns what an id says of itself, or why it is not good. A good id was made by New
// for this owner and card, less than maxAge ago and less than its life ago, and not more than
// MaxSkew in the future. When several things are wrong, Check returns the first of
// ErrMalformed, ErrOwner, ErrExpired or ErrFuture, and ErrCard. Letters of id may have either
// case.
func (k *Keys) Check(id string, now time.Time, maxAge time.Duration, owner, pan string) (Info, error) {
	b, err := parse(id)
	if err != nil {
		return Info{}, err
	}
	ownerOK, cardOK := 0, 0
	for _, key := range k.keys {
		o, c := key.check(&b, owner, pan)
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
	return Info{ID: b.spelling(id), Made: b.made(), Scheme: b.scheme()}, nil
}

// IsOwner reports whether id was made for this owner, however long ago. It takes the same time
// whatever it reports, unless the text has not the form of an id. One in a million ids of other
// owners passes too, so a caller that finds something under the id compares its owner again.
func (k *Keys) IsOwner(id, owner string) bool {
	b, err := parse(id)
	if err != nil {
		return false
	}
	ok := 0
	for _, key := range k.keys {
		ok |= key.checkOwner(&b, owner)
	}
	return ok == 1
}

// A tagKey computes tags with one key.
type tagKey struct{ taggers sync.Pool }

func newTagKey(key []byte) *tagKey {
	if len(key) < minKey {
		panic("transid: the key is too short")
	}
	return &tagKey{sync.Pool{New: func() any { return newTagger(key) }}}
}

func (k *tagKey) get() *tagger  { return k.taggers.Get().(*tagger) }
func (k *tagKey) put(t *tagger) { k.taggers.Put(t) }

// check compares both tags of id with those that the key makes. It takes the same time
// whatever the outcome, and returns ones and zeros.
func (k *tagKey) check(id *bits, owner, pan string) (ownerOK, cardOK int) {
	t := k.get()
	defer k.put(t)
	ownerOK = subtle.ConstantTimeEq(int32(t.ownerTag(id, owner)), int32(id.ownerTag()))
	cardOK = subtle.ConstantTimeEq(int32(t.cardTag(id, owner, pan)), int32(id.cardTag()))
	return ownerOK, cardOK
}

// checkOwner compares the owner's tag of id alone, as check does.
func (k *tagKey) checkOwner(id *bits, owner string) int {
	t := k.get()
	defer k.put(t)
	return subtle.ConstantTimeEq(int32(t.ownerTag(id, owner)), int32(id.ownerTag()))
}

// A tagger has the state and the memory that tags of one key are computed in. It is used
// again, so that a tag needs no allocation.
type tagger struct {
	mac    hash.Hash
	text   []byte
	sum    [sha256.Size]byte
	random [4]byte
}

func newTagger(key []byte) *tagger {
	t := &tagger{mac: hmac.New(sha256.New, key)}
	t.mac.Reset() // from now on Reset restores all of the state, and so wipes what was hashed
	return t
}

// ownerTag covers owner, and everything of id that stands before the tags.
func (t *tagger) ownerTag(id *bits, owner string) uint32 {
	t.text = append(t.text[:0], 'o')
	t.text = append(t.text, id[:11]...)
	t.text = append(t.text, owner...)
	return t.tag()
}

// cardTag covers owner and pan, and everything of id that stands before this tag. The length
// of pan tells where pan ends and owner begins.
func (t *tagger) cardTag(id *bits, owner, pan string) uint32 {
	t.text = append(t.text[:0], 'c')
	t.text = append(t.text, id[:13]...)
	t.text = append(t.text, id[13]&0xf0)
	t.text = append(t.text, byte(len(pan)))
	t.text = append(t.text, pan...)
	t.text = append(t.text, owner...)
	return t.tag()
}

// tag returns the first 20 bits of the HMAC of t.text. It wipes t.text and the state of
// the hash, which may hold a card number.
func (t *tagger) tag() uint32 {
	t.mac.Write(t.text) // a hash never fails
	sum := t.mac.Sum(t.sum[:0])
	t.mac.Reset()
	clear(t.text)
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

// setScheme writes the number of a scheme. A long one takes the place of random bits.
func (b *bits) setScheme(n Scheme) {
	if n < longMark {
		b[10] = b[10]&0xf0 | byte(n)
		return
	}
	b[8] = b[8]&0xf0 | byte(n>>12)
	b[9] = byte(n >> 4)
	b[10] = byte(n<<4) | longMark
}

func (b *bits) scheme() Scheme {
	if !b.hasLongScheme() {
		return Scheme(b[10] & 0x0f)
	}
	return Scheme(b[8]&0x0f)<<12 | Scheme(b[9])<<4 | Scheme(b[10]>>4)
}

func (b *bits) hasLongScheme() bool { return b[10]&0x0f == longMark }

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

// groups says where the bytes of an id stand in its text.
var groups = [...]struct{ text, from, to int }{{0, 0, 4}, {9, 4, 6}, {14, 6, 8}, {19, 8, 10}, {24, 10, 16}}

const textLen = 36

// text writes b in the form 8-4-4-4-12.
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

// spelling returns the text of b in lowercase: id itself, without a copy, if that is it already.
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
		digits := id[g.text : g.text+2*(g.to-g.from)]
		if _, err := hex.Decode(b[g.from:g.to], []byte(digits)); err != nil {
			return b, ErrMalformed
		}
	}
	if b[6]>>4 != 4 || b[8]>>6 != 2 {
		return b, ErrMalformed
	}
	if b.hasLongScheme() && b.scheme() < LongScheme {
		return b, ErrMalformed
	}
	return b, nil
}
