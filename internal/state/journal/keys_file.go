package journal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

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
	for _, tree := range k.trees {
		part, err := tree.file()
		if err != nil {
			return nil, err
		}
		file.Trees = append(file.Trees, part)
	}
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
	byTree := map[string][]uint64{}
	for _, s := range spent {
		byTree[s.tree] = append(byTree[s.tree], s.leaf)
	}
	isAny := false
	for name, leaves := range byTree {
		if tree := k.treeOf(name); tree != nil { // else this file opens nothing of it
			isAny = tree.forget(leaves) || isAny
		}
	}
	if isAny {
		k.noteBehind(len(spent))
		k.writeForgotten()
	}
}

// forgetDays forgets all keys of the days before one, but for those that are kept. Nothing of the others may be in the
// store any more, for billing counts what goes.
func (k *Keys) forgetDays(before time.Time, kept daySet) {
	isAny := false
	for _, tree := range k.trees {
		isAny = tree.forgetDays(before, kept) || isAny
	}
	if isAny {
		k.noteBehind(0)
		k.writeForgotten()
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
		isChanged := false
		for _, tree := range there.trees {
			if ours := k.treeOf(tree.name); ours != nil {
				isChanged = tree.merge(ours) || isChanged
				ours.merge(tree)
			}
		}
		if !isChanged {
			return nil
		}
		data, err := there.sealedFile(f.Vault)
		if err != nil {
			return err
		}
		if err := keyfile.ReplaceIf(f.Path, was, data); !errors.Is(err, keyfile.ErrChanged) {
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
	what := "days that are over their time"
	if k.kept.waiting == 1 {
		what = "1 erased authentication"
	} else if k.kept.waiting > 1 {
		what = fmt.Sprintf("%d erased authentications", k.kept.waiting)
	}
	return fmt.Sprintf("%s still opens %s in old copies of the store, and cannot be replaced (%v): "+
		"make a file without their keys by threeds journal erase --write FILE, and put it in its place",
		k.kept.file.Path, what, k.kept.err)
}

// CreateFile makes a new file that has the keys as they are now.
func (k *Keys) CreateFile(path string) error {
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

// maxForgotten is how many keys may be forgotten one by one. Each adds about 1.3 KB to the file of the keys until its
// day is over its time.
const maxForgotten = 10_000

// mayForget reports whether so many keys more may be forgotten one by one.
func (k *Keys) mayForget(n int) bool {
	for _, tree := range k.trees {
		n += tree.countForgotten()
	}
	return n <= k.maxForgotten
}
