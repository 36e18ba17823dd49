package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/openthreeds/threeds/internal/base/keyfile"
)

// What is forgotten is forgotten in memory first, and then in the file of the keys. A file that cannot be written still
// opens what was erased, so that is a problem until somebody puts another one in its place.

// A fileState says what the file of keys has of what this process has forgotten.
type fileState struct {
	file *KeyFile // nil for keys that stand in no file

	writing sync.Mutex // is held while the file is written

	mu      sync.Mutex
	changes int   // changes counts how often keys were forgotten that the file may have.
	written int   // written is what changes was when the file was written last.
	waiting int   // waiting counts the keys of single authentications that were forgotten since.
	err     error // err is why the file could not be written.

	content [sha256.Size]byte // content is the hash of the file as it was read or written last.
}

// noteContent notes the content of the file.
func (s *fileState) noteContent(content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content = sha256.Sum256(content)
}

// sealedFile returns the content of the file of the keys.
func (k *Keys) sealedFile(vault keyfile.Vault) ([]byte, error) {
	encode := func(keys [][]byte) (all []string) {
		for _, key := range keys {
			all = append(all, base64.StdEncoding.EncodeToString(key))
		}
		return all
	}
	file := keyFile{Wrapping: encode(k.wrapping), Hash: encode(k.hash), Signing: encode(k.signing)}
	tree, err := k.tree.file()
	if err != nil {
		return nil, err
	}
	file.Tree = &tree
	data, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, err
	}
	data = append(data, '\n')
	sealed, err := vault.Seal(KeysContext, data)
	if err == nil && vault.Label != "" {
		clear(data)
	}
	return sealed, err
}

// A spentLeaf is a leaf of the tree of a name.
type spentLeaf struct {
	tree string
	leaf uint64
}

// forget forgets leaves in memory, and in the file of the keys. What the file lacks then, FileProblem says.
func (k *Keys) forget(spent []spentLeaf) {
	k.forgetInMemory(spent)
	k.writeForgotten()
}

// forgetInMemory forgets leaves in memory. The next call of checkFile or forget has the file forget them.
func (k *Keys) forgetInMemory(spent []spentLeaf) {
	var leaves []uint64
	for _, s := range spent {
		if s.tree == k.tree.name { // else this file opens nothing of it
			leaves = append(leaves, s.leaf)
		}
	}
	if k.tree.forget(leaves) {
		k.noteBehind(len(leaves))
	}
}

// noteBehind notes that the file has keys that were forgotten.
func (k *Keys) noteBehind(single int) {
	k.kept.mu.Lock()
	defer k.kept.mu.Unlock()
	k.kept.changes++
	k.kept.waiting += single
}

// writeForgotten brings the file of the keys up to date, if it is behind.
func (k *Keys) writeForgotten() {
	k.kept.writing.Lock()
	defer k.kept.writing.Unlock()
	k.kept.mu.Lock()
	changes, waiting := k.kept.changes, k.kept.waiting
	isBehind := changes != k.kept.written
	k.kept.mu.Unlock()
	if !isBehind {
		return
	}
	var err error
	if k.kept.file != nil {
		err = k.kept.file.update(k) // a key helper may take its time
	}
	k.kept.mu.Lock()
	defer k.kept.mu.Unlock()
	if k.kept.err = err; err == nil {
		k.kept.written = changes
		k.kept.waiting -= waiting
	}
}

// checkFile brings the file of the keys up to date, also if somebody has put another one in its place, such as an older
// one.
func (k *Keys) checkFile() {
	if k.kept.file != nil && k.tree.hasForgotten() {
		if content, err := keyfile.ReadLarge(k.kept.file.Path); err == nil {
			k.kept.mu.Lock()
			isOther := sha256.Sum256(content) != k.kept.content
			k.kept.mu.Unlock()
			if isOther {
				k.noteBehind(0)
			}
		}
	}
	k.writeForgotten()
}

// updateTries is how often the file is read again because another process has replaced it meanwhile.
const updateTries = 10

// update has the file forget what the keys have forgotten, and the keys what the file has forgotten.
func (f *KeyFile) update(k *Keys) error {
	for range updateTries {
		was, err := keyfile.ReadLarge(f.Path)
		if err != nil {
			return err
		}
		there, err := f.parse(was)
		if err != nil {
			return err
		}
		if there.tree.name != k.tree.name {
			return fmt.Errorf("%s: the tree of its keys is another one than that of this process", f.Path)
		}
		isChanged := there.tree.merge(k.tree)
		k.tree.merge(there.tree)
		if !isChanged {
			k.kept.noteContent(was)
			return nil
		}
		data, err := there.sealedFile(f.Vault.Like(was)) // somebody may have wrapped it since this process began
		if err != nil {
			return err
		}
		if err = keyfile.ReplaceIf(f.Path, was, data); err == nil {
			k.kept.noteContent(data)
		}
		if !errors.Is(err, keyfile.ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("%s: %w", f.Path, keyfile.ErrChanged)
}

// parse reads the content of the file.
func (f *KeyFile) parse(content []byte) (*Keys, error) {
	plain, err := f.Vault.Open(KeysContext, content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	if !bytes.Equal(plain, content) {
		defer clear(plain)
	}
	k, err := parseKeys(plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return k, nil
}

// FileProblem says that the file of the keys still opens what was erased, and what to do; "" if it does not.
func (k *Keys) FileProblem() string {
	k.kept.mu.Lock()
	defer k.kept.mu.Unlock()
	if k.kept.err == nil {
		return ""
	}
	what := "what was erased"
	if k.kept.waiting == 1 {
		what = "1 erased authentication"
	} else if k.kept.waiting > 1 {
		what = fmt.Sprintf("%d erased authentications", k.kept.waiting)
	}
	return fmt.Sprintf("%s still opens %s in old copies of the store, and cannot be replaced (%v): "+
		"make a file without their keys by threeds journal erase --write FILE, and put it in its place",
		k.kept.file.Path, what, k.kept.err)
}

// CreateFile makes a new file that has the keys as they are now. If their own file can be replaced, it is up to date
// then, too.
func (k *Keys) CreateFile(path string) error {
	k.checkFile()
	var vault keyfile.Vault
	if k.kept.file != nil {
		vault = k.kept.file.Vault
	}
	data, err := k.sealedFile(vault)
	if err == nil {
		err = keyfile.CreateNew(path, data)
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// maxForgotten is how many keys may be forgotten one by one. Each adds about 1.2 KB to the file of the keys until
// [Keys.ForgetDays] forgets its day.
const maxForgotten = 10_000

// mayForget reports whether so many keys more may be forgotten one by one.
func (k *Keys) mayForget(n int) bool {
	_, all := k.tree.countForgotten()
	return n+all <= k.maxForgotten
}

// LimitNotice says how many keys more can be forgotten one by one, and what makes room. It is "" until four fifths of
// those that may be forgotten are.
func (k *Keys) LimitNotice() string {
	_, all := k.tree.countForgotten()
	if all < k.maxForgotten*4/5 {
		return ""
	}
	return fmt.Sprintf("journal-keys.json has forgotten the keys of %d erased authentications, and can forget those of "+
		"%d more; threeds journal forget --before DAY makes room", all, max(k.maxForgotten-all, 0))
}
