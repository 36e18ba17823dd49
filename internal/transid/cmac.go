package transid

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
)

// A cmac is AES-CMAC (NIST SP 800-38B; RFC 4493). The standard library has none,
// and the HMAC that it has takes three times as long for messages as short as ours.
type cmac struct {
	block         cipher.Block
	whole, padded [aes.BlockSize]byte // K1 and K2: for a last block that is full, and for one that is not
}

// newCMAC panics if key is not one of AES.
func newCMAC(key []byte) *cmac {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("transid: " + err.Error())
	}
	c := &cmac{block: block}
	block.Encrypt(c.whole[:], c.whole[:])
	c.whole = doubled(c.whole)
	c.padded = doubled(c.whole)
	return c
}

// doubled is b times x in the field of 2¹²⁸ elements.
func doubled(b [aes.BlockSize]byte) [aes.BlockSize]byte {
	carry := byte(0)
	for i := len(b) - 1; i >= 0; i-- {
		b[i], carry = b[i]<<1|carry, b[i]>>7
	}
	b[len(b)-1] ^= carry * 0x87
	return b
}

// code computes the code of a message.
func (c *cmac) code(code *[aes.BlockSize]byte, message []byte) {
	sum := code[:]
	clear(sum)
	for ; len(message) > len(sum); message = message[len(sum):] {
		subtle.XORBytes(sum, sum, message[:len(sum)])
		c.block.Encrypt(sum, sum)
	}
	subtle.XORBytes(sum, sum, message)
	if len(message) == len(sum) {
		subtle.XORBytes(sum, sum, c.whole[:])
	} else {
		sum[len(message)] ^= 0x80
		subtle.XORBytes(sum, sum, c.padded[:])
	}
	c.block.Encrypt(sum, sum)
}
