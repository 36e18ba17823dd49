package journal

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
)

// The entries of a chain are linked by SHA-256, so that an export can be checked without a key. Each link has a MAC
// under the keys of the journal beside it. Who can write to the database, and has no keys, can make links, but no MAC:
// the server signs no chain with such a link. The audit trail is one more chain by the same rules.

// AuditChain is the name of the one chain of the audit trail. No chain of a journal has it. The link before
// its first entry is empty.
const AuditChain = "audit"

// MACLen is the length of the MAC of a link, of a row and of counters, in bytes.
const MACLen = 16

// macLabel is the info of HKDF by which the keys of MACs follow from the wrapping keys.
const macLabel = "threeds journal mac"

// deriveMACKeys returns the keys of MACs that follow from the wrapping keys.
func deriveMACKeys(wrapping [][]byte) (all []*keyed) {
	for _, secret := range wrapping {
		key, err := hkdf.Key(sha256.New, secret, nil, macLabel, keyLen)
		if err != nil {
			panic(err) // only a longer key than SHA-256 can make is an error
		}
		all = append(all, newKeyed(key))
	}
	return all
}

// mac returns the MAC of a text.
func (k *Keys) mac(text []byte) []byte { return k.macs[0].sum(text, MACLen) }

// isMAC reports whether a MAC of a text was made under one of the keys.
func (k *Keys) isMAC(mac, text []byte) bool {
	return slices.ContainsFunc(k.macs, func(key *keyed) bool { return hmac.Equal(mac, key.sum(text, MACLen)) })
}

// linkText is what the MAC of a link is made over.
func linkText(chain string, seq int64, link []byte) []byte {
	return fmt.Appendf(nil, "threeds journal link %s %d %x", chain, seq, link)
}

// LinkMAC returns the MAC of a link. Nil keys make none.
func (k *Keys) LinkMAC(chain string, seq int64, link []byte) []byte {
	if k == nil {
		return nil
	}
	return k.mac(linkText(chain, seq, link))
}

// firstLink is the link before the first entry of a chain.
func firstLink(chain string) []byte {
	if chain == AuditChain {
		return nil
	}
	sum := sha256.Sum256([]byte("threeds journal " + chain))
	return sum[:]
}

// NextLink returns the link of an entry behind another: SHA-256 over that link and the digest of the entry.
func NextLink(before, digest []byte) []byte {
	return sumOf(before, digest)
}

// DigestOf returns the digest of an entry: SHA-256 over its salt and content.
func DigestOf(salt, content []byte) []byte {
	return sumOf(salt, content)
}

// sumOf returns SHA-256 over two texts.
func sumOf(first, second []byte) []byte {
	h := sha256.New()
	h.Write(first)
	h.Write(second)
	return h.Sum(nil)
}

// A ChainEnd is how far a chain has come.
type ChainEnd struct {
	Chain string
	Seq   int64
	Link  []byte
}

// A ChainError says which entry of a chain is not as it was written.
type ChainError struct {
	Chain string
	Seq   int64
	What  string // how it differs
}

func (e *ChainError) Error() string {
	if e.Chain == AuditChain {
		return fmt.Sprintf("the audit trail was changed in the store: entry %d %s", e.Seq, e.What)
	}
	return fmt.Sprintf("the journal was changed in the store: entry %d of the chain %s %s", e.Seq, e.Chain, e.What)
}

// A ChainCheck follows the entries of one chain, in their order, and says of each whether it is as it was written.
type ChainCheck struct {
	ChainEnd
	keys     *Keys
	isErased func(seq int64) bool // whether a tombstone names an entry; nil means that none does
}

// NewChainCheck returns a check of the entries behind an end, of which only Chain may be set.
func (k *Keys) NewChainCheck(after ChainEnd) *ChainCheck {
	if after.Seq == 0 {
		after.Link = firstLink(after.Chain)
	}
	return &ChainCheck{ChainEnd: after, keys: k}
}

// Next checks the next entry.
func (c *ChainCheck) Next(e *ExportedEntry) error {
	what := c.check(e)
	c.Seq, c.Link = e.Seq, e.Link
	if what != "" {
		return &ChainError{c.Chain, e.Seq, what}
	}
	return nil
}

// check says what is wrong with the next entry, "" if nothing is.
func (c *ChainCheck) check(e *ExportedEntry) string {
	switch {
	case e.Seq != c.Seq+1:
		return "does not follow entry " + strconv.FormatInt(c.Seq, 10)
	case !bytes.Equal(e.Link, NextLink(c.Link, e.Digest)):
		return "does not fit the one before it"
	case !e.IsInside && (c.keys == nil || !c.keys.isMAC(e.MAC, linkText(c.Chain, e.Seq, e.Link))):
		return "was not linked under the keys of this journal"
	case e.IsDamaged:
		return "does not open under the key of its day"
	case e.IsBare:
		return ""
	case e.IsForgotten && (c.isErased == nil || !c.isErased(e.Seq)): // the store was restored from before the erasure
		return ""
	case e.IsForgotten:
		return "was erased, and has its sealed text again"
	case e.Content == nil && (c.isErased == nil || !c.isErased(e.Seq)):
		return "has lost its content, and no erasure says so"
	case e.Content != nil && c.isErased != nil && c.isErased(e.Seq):
		return "was erased, and has content again"
	case e.Content != nil && !bytes.Equal(DigestOf(e.Salt, e.Content), e.Digest):
		return "does not fit its digest"
	}
	return ""
}
