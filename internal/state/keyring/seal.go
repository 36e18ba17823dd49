package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
)

// Sealed data is one byte of format, the key id, a random nonce, and the plain data encrypted with AES-256-GCM. Each
// record's name has its own key: the HMAC-SHA256 of the name under the sealing key. So each key seals only a few times,
// which keeps random nonces safe. Everything in front of the ciphertext, and the name, is authenticated with it.
const (
	sealFormat = 1
	keyIDLen   = 4
	nonceLen   = 12
	headerLen  = 1 + keyIDLen + nonceLen
	tagLen     = 16
)

// ErrSealed says that sealed data cannot be opened: it was changed, belongs to
// another record or an earlier state of it, or was sealed under a secret that has left the file. It is impossible to
// say which.
var ErrSealed = errors.New("keyring: sealed data does not open")

// Seal encrypts plain so that only a ring with the same secret opens it again,
// and only as the data of the record with this name.
func (r *Ring) Seal(name string, plain []byte) []byte {
	d := &r.keys[0]
	out := make([]byte, headerLen, headerLen+len(plain)+tagLen)
	out[0] = sealFormat
	copy(out[1:], d.id[:])
	nonce := out[1+keyIDLen : headerLen]
	rand.Read(nonce) // it never fails, it ends the process
	return d.aead(name).Seal(out, nonce, plain, additional(out[:headerLen], name))
}

// Open returns what was sealed for the record with this name, or [ErrSealed].
func (r *Ring) Open(name string, sealed []byte) ([]byte, error) {
	if len(sealed) < headerLen+tagLen || sealed[0] != sealFormat {
		return nil, ErrSealed
	}
	header, body := sealed[:headerLen], sealed[headerLen:]
	for i := range r.keys {
		d := &r.keys[i]
		if [keyIDLen]byte(header[1:]) != d.id {
			continue
		}
		plain, err := d.aead(name).Open(nil, header[1+keyIDLen:], body, additional(header, name))
		if err != nil {
			return nil, ErrSealed
		}
		return plain, nil
	}
	return nil, ErrSealed
}

// IsSealedByPrevious reports whether sealed names a previous secret as the one that it was made with. Such data has to
// be resealed before that secret leaves the file. IsSealedByPrevious does not check whether it opens.
func (r *Ring) IsSealedByPrevious(sealed []byte) bool {
	return len(sealed) >= headerLen && sealed[0] == sealFormat &&
		slices.ContainsFunc(r.keys[1:1+r.former], func(d derived) bool {
			return [keyIDLen]byte(sealed[1:]) == d.id
		})
}

// aead returns the cipher of one record.
func (d *derived) aead(name string) cipher.AEAD {
	mac := hmac.New(sha256.New, d.seal[:])
	io.WriteString(mac, name) // a hash never fails
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic("keyring: " + err.Error()) // the key has the right length
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic("keyring: " + err.Error())
	}
	return gcm
}

func additional(header []byte, name string) []byte {
	return append(append(make([]byte, 0, len(header)+len(name)), header...), name...)
}
