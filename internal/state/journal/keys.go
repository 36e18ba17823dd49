package journal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/openthreeds/threeds/internal/base/keyfile"
)

// keyLen is the length of each key, in bytes.
const keyLen = 32

// Keys are the keys of a journal. Of each kind with several the first is in use, and the others read what is older.
type Keys struct {
	wrapping [][]byte // for the keys of the days
	hash     [][]byte // for card numbers
	signing  [][]byte // seeds of Ed25519, for seals and exports
	macs     []*keyed // under keys that follow from wrapping, for links, rows, postings and counters
	cards    []*keyed // under the keys of hash
	tree     *keyTree // the keys of authentications
	kept     fileState

	maxForgotten int // how many keys may be forgotten one by one
}

// keyFile is the content of a file of keys.
type keyFile struct {
	Wrapping []string  `json:"wrapping"`
	Hash     []string  `json:"hash"`
	Signing  []string  `json:"signing"`
	Tree     *treeFile `json:"tree"`
}

// NewKeys returns keys that nobody has.
func NewKeys() *Keys {
	one := func() [][]byte {
		key := make([]byte, keyLen)
		rand.Read(key) // it never fails, it ends the process
		return [][]byte{key}
	}
	k := &Keys{wrapping: one(), hash: one(), signing: one(), tree: newKeyTree()}
	k.prepare()
	return k
}

// prepare makes what follows from the keys.
func (k *Keys) prepare() {
	k.maxForgotten = maxForgotten
	k.macs = deriveMACKeys(k.wrapping)
	for _, key := range k.hash {
		k.cards = append(k.cards, newKeyed(key))
	}
}

// A keyed makes HMACs with SHA-256 under one key. It keeps hashes, for to make one takes as long as to use it.
type keyed struct{ free sync.Pool }

func newKeyed(key []byte) *keyed {
	return &keyed{sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// sum returns the first n bytes of the HMAC of a text.
func (k *keyed) sum(text []byte, n int) []byte {
	h := k.free.Get().(hash.Hash)
	h.Reset()
	h.Write(text)
	all := h.Sum(nil)
	k.free.Put(h)
	return all[:n:n]
}

// KeysContext is what [keyfile.Vault] binds a file of keys to.
const KeysContext = "threeds journal-keys.json"

// A KeyFile is the file of a journal's keys.
type KeyFile struct {
	Path  string
	Dir   string        // the folder with the files of the journal; "" is for a journal in PostgreSQL
	Vault keyfile.Vault // seals the file
}

// LoadOrCreateKeys is [KeyFile.LoadOrCreate] for a file that is not sealed.
func LoadOrCreateKeys(path, dir string) (*Keys, error) {
	return KeyFile{Path: path, Dir: dir}.LoadOrCreate()
}

// LoadOrCreate is Load, but a missing file is made first, as by Create.
func (f KeyFile) LoadOrCreate() (*Keys, error) {
	if err := f.Create(); err != nil {
		return nil, err
	}
	return f.Load()
}

// LoadKeys is [KeyFile.Load] for a file that is not sealed.
func LoadKeys(path string) (*Keys, error) { return KeyFile{Path: path}.Load() }

// Load reads the file of keys, for which the rules of [keyfile.ReadLarge] hold. Errors show no key.
func (f KeyFile) Load() (*Keys, error) {
	data, err := keyfile.ReadLarge(f.Path)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	k, err := f.parse(data)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	k.kept.file = &f
	k.kept.noteContent(data)
	return k, nil
}

func parseKeys(data []byte) (*Keys, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var file keyFile
	if err := dec.Decode(&file); err != nil {
		return nil, errors.New("not a JSON object with the lists wrapping, hash and signing, and a tree")
	}
	k := new(Keys)
	for _, part := range []struct {
		name  string
		texts []string
		into  *[][]byte
	}{{"wrapping", file.Wrapping, &k.wrapping}, {"hash", file.Hash, &k.hash}, {"signing", file.Signing, &k.signing}} {
		if len(part.texts) == 0 {
			return nil, fmt.Errorf("%s: missing, want a list with at least one key", part.name)
		}
		for i, text := range part.texts {
			key, err := base64.StdEncoding.Strict().DecodeString(text)
			if err != nil || len(key) != keyLen {
				return nil, fmt.Errorf("%s[%d]: not %d bytes in base64", part.name, i, keyLen)
			}
			*part.into = append(*part.into, key)
		}
	}
	if file.Tree == nil {
		return nil, errors.New("tree: missing, want the tree of the keys of authentications")
	}
	var err error
	if k.tree, err = parseTree(*file.Tree); err != nil {
		return nil, fmt.Errorf("tree: %w", err)
	}
	k.prepare()
	return k, nil
}

// Create makes the file of keys, with new keys, if there is none. It is an error that there is none when Dir has the
// files of a journal, for new keys open none of its entries.
func (f KeyFile) Create() error {
	_, err := os.Stat(f.Path)
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) && f.Dir != "" {
		files := filepath.Join(f.Dir, monthFile("*"))
		if months, err := filepath.Glob(files); err != nil {
			return fmt.Errorf("journal: %w", err)
		} else if len(months) > 0 {
			return fmt.Errorf(
				"journal: the file %s is missing, and without it nobody reads the journal that is in %s: put the file back from "+
					"another node or a backup, or move %s away to begin a new journal", f.Path, f.Dir, files)
		}
	}
	k := NewKeys()
	data, err := k.sealedFile(f.Vault)
	if err == nil {
		err = keyfile.MakeDir(filepath.Dir(f.Path))
	}
	if err == nil {
		err = keyfile.Create(f.Path, data)
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// hashLen is the length of the hash of a card number, in bytes.
const hashLen = 16

// CardHash returns the keyed hash by which entries of a card are found. Nil keys return nil.
func (k *Keys) CardHash(pan string) []byte {
	if k == nil || pan == "" {
		return nil
	}
	return k.cards[0].sum(cardText(pan), hashLen)
}

// cardText is what the hash of a card number is made over.
func cardText(pan string) []byte { return append([]byte("card "), pan...) }

// CardHashes returns the hash of a card number under each key that the file has, the newest first.
func (k *Keys) CardHashes(pan string) [][]byte {
	var all [][]byte
	for _, key := range k.cards {
		all = append(all, key.sum(cardText(pan), hashLen))
	}
	return all
}

// cardKeyNames returns the names of the keys of card hashes, the newest first. A name gives away nothing of its key.
func (k *Keys) cardKeyNames() (all []string) {
	for _, key := range k.hash {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("name of this key"))
		all = append(all, hex.EncodeToString(mac.Sum(nil)[:8]))
	}
	return all
}

// ID names all keys together, and gives away nothing of them: nodes that have the same keys have the same. It stays the
// same when keys of authentications are forgotten.
func (k *Keys) ID() string {
	all := hmac.New(sha256.New, k.wrapping[0])
	all.Write([]byte("id of these keys"))
	for _, keys := range [][][]byte{k.wrapping, k.hash, k.signing} {
		for _, key := range keys {
			all.Write(key)
		}
		all.Write([]byte{'|'})
	}
	all.Write([]byte(k.tree.name))
	return hex.EncodeToString(all.Sum(nil)[:8])
}

func (k *Keys) signer() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(k.signing[0]) }

// PublicKey returns the key by which exports are verified.
func (k *Keys) PublicKey() ed25519.PublicKey { return k.signer().Public().(ed25519.PublicKey) }

// KeyID names the key by which seals and exports are signed.
func (k *Keys) KeyID() string { return keyID(k.PublicKey()) }

// PEM returns the keys by which exports and days are verified in PEM form, that of PublicKey first. Those behind it
// have signed what is older.
func (k *Keys) PEM() ([]byte, error) {
	var text []byte
	for _, seed := range k.signing {
		der, err := x509.MarshalPKIXPublicKey(ed25519.NewKeyFromSeed(seed).Public())
		if err != nil {
			return nil, err
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
	}
	return text, nil
}

// ParsePEM reads what PEM returns.
func ParsePEM(text []byte) (all []ed25519.PublicKey, err error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil && len(all) > 0 {
			return all, nil
		}
		if block == nil || block.Type != "PUBLIC KEY" {
			return nil, errors.New("journal: not a public key in PEM form")
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		public, ok := key.(ed25519.PublicKey)
		if err != nil || !ok {
			return nil, errors.New("journal: not a public key of Ed25519")
		}
		all, text = append(all, public), rest
	}
}

// keyID names a public key.
func keyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// seal encrypts text under a key, bound to a name.
func seal(key, text []byte, name string) ([]byte, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(text)+aead.Overhead())
	rand.Read(nonce)
	return aead.Seal(nonce, nonce, text, []byte(name)), nil
}

// openSealed decrypts what seal made.
func openSealed(key, sealed []byte, name string) ([]byte, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, errSealed
	}
	n := aead.NonceSize()
	text, err := aead.Open(nil, sealed[:n], sealed[n:], []byte(name))
	if err != nil {
		return nil, errSealed
	}
	return text, nil
}

var errSealed = errors.New("journal: an entry or the key of a day does not open under the keys of this file")

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
