package keyfile

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// dataKeyLen is the length of the key that a file is sealed with, in bytes.
const dataKeyLen = 32

// A Wrapper encrypts keys of files under keys of its own, which it names by labels. What it has wrapped for a context
// it unwraps for the same label and context alone.
type Wrapper interface {
	Wrap(label string, key []byte, context string) ([]byte, error)
	Unwrap(label string, wrapped []byte, context string) ([]byte, error)
}

// A Vault seals what files of secrets hold. Each file has a key of its own, which the Wrapper wraps. The zero Vault
// leaves files as they are.
type Vault struct {
	// Wrapper wraps and unwraps the keys of files. Nil means that sealed files cannot be opened.
	Wrapper Wrapper
	// Label names the key that wraps. "" means that files are not sealed.
	Label string
}

// A ClosedError says that a file does not open now, or cannot be made now: the Wrapper did not do what it was asked
// for, or the vault is for other files. The file may be well, and open later.
type ClosedError struct{ Err error }

func (e *ClosedError) Error() string { return e.Err.Error() }

func (e *ClosedError) Unwrap() error { return e.Err }

// sealedFile is the content of a file that is sealed.
type sealedFile struct {
	WrappedBy string `json:"wrapped_by"` // the label of the key
	DataKey   []byte `json:"data_key"`   // as the Wrapper has wrapped it
	Sealed    []byte `json:"sealed"`     // AES-256-GCM with the nonce in front, bound to label and context
}

// parseSealed returns the content of a file that is sealed; nil if it is another one.
func parseSealed(data []byte) *sealedFile {
	var f sealedFile
	if json.Unmarshal(data, &f) != nil || f.WrappedBy == "" {
		return nil
	}
	return &f
}

// Seal returns what a file with data has to hold. The context says what the file is for; only [Vault.Open] with the
// same context opens it. Seal needs the Wrapper to answer.
func (v Vault) Seal(context string, data []byte) ([]byte, error) {
	if v.Label == "" {
		return data, nil
	}
	key := make([]byte, dataKeyLen)
	defer clear(key)
	rand.Read(key) // Read returns no error: without random bytes the process ends
	f := sealedFile{WrappedBy: v.Label}
	var err error
	if f.DataKey, err = v.Wrapper.Wrap(v.Label, key, context); err != nil {
		return nil, &ClosedError{err}
	}
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	f.Sealed = aead.Seal(nil, nil, data, f.additional(context))
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, err
	}
	limit := maxSealed
	if len(data) > maxFile {
		limit = maxLarge
	}
	if text = append(text, '\n'); len(text) > limit {
		return nil, fmt.Errorf("sealed it is larger than %d bytes", limit)
	}
	plain, err := v.Open(context, text) // before what it replaces is gone
	defer clear(plain)
	if err == nil && !bytes.Equal(plain, data) {
		err = errors.New("the key helper does not unwrap what it has wrapped")
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// Like returns the vault that seals as a file is sealed, whose content is given.
func (v Vault) Like(content []byte) Vault {
	v.Label = ""
	if f := parseSealed(content); f != nil {
		v.Label = f.WrappedBy
	}
	return v
}

// Open returns what Seal was given, for the content of a file. A file that is not sealed is an error where files have
// to be. The error shows nothing of the content.
func (v Vault) Open(context string, content []byte) ([]byte, error) {
	f := parseSealed(content)
	switch {
	case f == nil && v.Label == "":
		return content, nil
	case f == nil:
		return nil, &ClosedError{
			errors.New(`its secrets are in the clear, and key_helper.wrapping_key is set: run "threeds key wrap"`)}
	case v.Wrapper == nil:
		return nil, &ClosedError{fmt.Errorf("it is wrapped by the key %q of a key helper: set key_helper", f.WrappedBy)}
	}
	key, err := v.Wrapper.Unwrap(f.WrappedBy, f.DataKey, context)
	if err != nil {
		return nil, &ClosedError{err}
	}
	defer clear(key)
	aead, err := newAEAD(key)
	if err == nil {
		content, err = aead.Open(nil, nil, f.Sealed, f.additional(context))
	}
	if err != nil {
		return nil, errors.New("it does not open with its data_key: it was changed, or is another kind of file")
	}
	return content, nil
}

// WrappedBy returns the label of the key that has wrapped a file; "" if it is in the clear.
func WrappedBy(path string) (string, error) {
	content, err := ReadLarge(path)
	if err != nil {
		return "", err
	}
	defer clear(content)
	if f := parseSealed(content); f != nil {
		return f.WrappedBy, nil
	}
	return "", nil
}

// Rewrap replaces a file by one that is sealed as v says: under the key with its Label, or not at all. It reports
// whether that was not so before. A Wrapper has to be there for a file that is sealed.
func (v Vault) Rewrap(path, context string) (isChanged bool, err error) {
	content, err := ReadLarge(path)
	if err != nil {
		return false, err
	}
	if f := parseSealed(content); f == nil && v.Label == "" || f != nil && f.WrappedBy == v.Label {
		return false, nil
	}
	plain, err := Vault{Wrapper: v.Wrapper}.Open(context, content)
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	defer clear(plain)
	was := content
	if content, err = v.Seal(context, plain); err != nil {
		return false, err
	}
	err = ReplaceIf(path, was, content) // a rotation may have replaced it while the helper was asked
	return err == nil, err
}

// RewrapAll is Rewrap for a file, and for what [WritePending] has left next to it.
func (v Vault) RewrapAll(path, context string) (isChanged bool, err error) {
	pending, err := PendingPath(path)
	if err == nil {
		_, err = v.Rewrap(pending, context)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return v.Rewrap(path, context)
}

// additional is what a file is bound to.
func (f *sealedFile) additional(context string) []byte {
	return fmt.Appendf(nil, "%q %q", f.WrappedBy, context)
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	if len(key) != dataKeyLen {
		return nil, errors.New("the key has another length")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
