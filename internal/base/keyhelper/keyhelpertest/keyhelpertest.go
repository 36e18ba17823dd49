// Package keyhelpertest has a helper of keys for tests, whose keys are files. Use [New]: a test that imports this
// package is the program of the helper, too.
package keyhelpertest

import (
	"bufio"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/openthreeds/threeds/internal/base/keyhelper"
)

// argument makes a test program a helper.
const argument = "keyhelpertest"

func init() {
	if len(os.Args) == 3 && os.Args[1] == argument {
		serve(os.Args[2])
		os.Exit(0)
	}
}

// What a helper does instead of answering.
const (
	Hang    = "hang"    // the helper answers nothing
	Die     = "die"     // the helper ends at the next request, and the next one works
	Dead    = "dead"    // each helper ends at its first request
	Garbage = "garbage" // the helper writes a line that is no answer
	Refuse  = "refuse"  // the helper answers with an error
	Forge   = "forge"   // the signatures of the helper are not valid
)

// A Fake is a helper with its keys. All processes of it have the same.
type Fake struct {
	t   testing.TB
	dir string
}

// New returns a helper without keys.
func New(t testing.TB) *Fake { return &Fake{t, t.TempDir()} }

// Command is the command that starts the helper.
func (f *Fake) Command() []string {
	program, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	return []string{program, argument, f.dir}
}

// AddWrappingKey gives the helper a key that wraps.
func (f *Fake) AddWrappingKey(label string) {
	key := make([]byte, 32)
	rand.Read(key)
	f.write(label, key)
}

// AddKey gives the helper a new ECDSA key, and returns it.
func (f *Fake) AddKey(label string) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	f.AddPrivateKey(label, key)
	return key
}

// AddPrivateKey gives the helper a private key.
func (f *Fake) AddPrivateKey(label string, key crypto.Signer) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		f.t.Fatal(err)
	}
	f.write(label, der)
}

// Remove takes a key from the helper.
func (f *Fake) Remove(label string) {
	if err := os.Remove(filepath.Join(f.dir, label)); err != nil {
		f.t.Fatal(err)
	}
}

// Break makes the helper do something else than to answer; "" ends that.
func (f *Fake) Break(fault string) { f.write("fault", []byte(fault)) }

func (f *Fake) write(name string, data []byte) {
	if err := os.WriteFile(filepath.Join(f.dir, name), data, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// serve answers requests until its input ends.
func serve(dir string) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fault, _ := os.ReadFile(filepath.Join(dir, "fault")) // without the file there is none
		answer := keyhelper.Answer{}
		var r keyhelper.Request
		err := json.Unmarshal(in.Bytes(), &r)
		switch string(fault) {
		case Hang:
			continue
		case Die, Dead:
			if string(fault) == Die {
				_ = os.Remove(filepath.Join(dir, "fault"))
			}
			fmt.Fprintln(os.Stderr, "the token is gone")
			os.Exit(3)
		case Garbage:
			fmt.Println("Enter PIN:")
			continue
		case Refuse:
			err = errors.New("CKR_DEVICE_ERROR")
		}
		if err == nil {
			answer.Data, err = do(dir, &r)
		}
		if string(fault) == Forge && r.Verb == keyhelper.Sign {
			answer.Data[len(answer.Data)-1] ^= 1
		}
		answer.ID = r.ID
		if err != nil {
			answer.Data, answer.Error = nil, err.Error()
		}
		line, _ := json.Marshal(answer) // it has nothing but text
		fmt.Printf("%s\n", line)
	}
}

// do does what a request asks for.
func do(dir string, r *keyhelper.Request) ([]byte, error) {
	key, err := os.ReadFile(filepath.Join(dir, r.Key))
	if err != nil {
		return nil, errors.New("no such key")
	}
	if r.Verb == keyhelper.Wrap || r.Verb == keyhelper.Unwrap {
		return wrap(key, r)
	}
	private, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	signer := private.(crypto.Signer)
	if r.Verb == keyhelper.Public {
		return x509.MarshalPKIXPublicKey(signer.Public())
	}
	hash := crypto.SHA256
	for _, other := range []crypto.Hash{crypto.SHA384, crypto.SHA512} {
		if r.Hash == other.String() {
			hash = other
		}
	}
	var opts crypto.SignerOpts = hash
	if r.Scheme == keyhelper.RSAPSS {
		opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
	}
	return signer.Sign(rand.Reader, r.Data, opts)
}

// wrap wraps or unwraps a key with AES-GCM.
func wrap(key []byte, r *keyhelper.Request) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	if r.Verb == keyhelper.Wrap {
		return gcm.Seal(nil, nil, r.Data, []byte(r.Context)), nil
	}
	return gcm.Open(nil, nil, r.Data, []byte(r.Context))
}
