package journal

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/base/puncture"
)

// Each authentication has a key of its own, which follows from two: a leaf of a tree, which stands in the file of keys,
// and the key of its day, which stands in the store. An erasure forgets the leaf. So an older copy of the store and the
// file as it is now do not open what was erased.

// A keyTree has the leaves of all authentications.
type keyTree struct {
	name string // public, and random: the key of a day and a tombstone say which tree they mean
	hash []byte // the key of the hashes by which ids have their leaves
	ids  *keyed // under that key

	mu   sync.Mutex
	tree *puncture.Tree
	last authenticationKey // the one that was asked for last
}

// An authenticationKey is the key of an authentication.
type authenticationKey struct {
	day  *dayKey
	id   string
	aead cipher.AEAD
}

// A dayKey is the key of a day, and the tree that it belongs to.
type dayKey struct {
	key     []byte
	wrapped []byte // as the store has it
	tree    *keyTree
	day     uint64 // days since 1970
}

const (
	treeNameLen = 8  // bytes of the name of a tree
	leafBits    = 48 // how many bits of a leaf are a hash of its id; those before it are the day
)

// newKeyTree returns a tree with all its leaves.
func newKeyTree() *keyTree {
	name, hash := make([]byte, treeNameLen), make([]byte, keyLen)
	rand.Read(name)
	rand.Read(hash)
	return &keyTree{name: hex.EncodeToString(name), hash: hash, ids: newKeyed(hash), tree: puncture.New()}
}

// A treeFile is a tree in the file of keys.
type treeFile struct {
	Name  string `json:"name"`
	Hash  string `json:"hash"`
	State string `json:"state"`
}

// file returns what the file of keys has of the tree.
func (t *keyTree) file() (treeFile, error) {
	t.mu.Lock()
	tree := t.tree.Clone() // writers need the lock meanwhile
	t.mu.Unlock()
	defer tree.Wipe()
	state, err := tree.MarshalBinary()
	if err != nil {
		return treeFile{}, err
	}
	defer clear(state)
	encode := base64.StdEncoding.EncodeToString
	return treeFile{t.name, encode(t.hash), encode(state)}, nil
}

// parseTree reads a tree of the file of keys.
func parseTree(f treeFile) (*keyTree, error) {
	t := &keyTree{name: f.Name, tree: new(puncture.Tree)}
	if b, err := hex.DecodeString(f.Name); err != nil || len(b) != treeNameLen || hex.EncodeToString(b) != f.Name {
		return nil, fmt.Errorf("name: not %d bytes in hexadecimal", treeNameLen)
	}
	var err error
	if t.hash, err = base64.StdEncoding.Strict().DecodeString(f.Hash); err != nil || len(t.hash) != keyLen {
		return nil, fmt.Errorf("hash: not %d bytes in base64", keyLen)
	}
	t.ids = newKeyed(t.hash)
	state, err := base64.StdEncoding.Strict().DecodeString(f.State)
	if err != nil || t.tree.UnmarshalBinary(state) != nil {
		return nil, errors.New("state: not a tree of keys in base64")
	}
	clear(state)
	return t, nil
}

// leavesOf returns the first and the last leaf of a day.
func leavesOf(day uint64) (first, last uint64) {
	return day << leafBits, day<<leafBits | (1<<leafBits - 1)
}

// dayNumber returns the days since 1970, as leaves have them, of a time in milliseconds.
func dayNumber(made int64) uint64 { return uint64(min(max(made/dayLen, 0), 1<<(64-leafBits)-1)) }

// leafOf returns the leaf of an authentication of a day.
func (t *keyTree) leafOf(day uint64, id string) uint64 {
	mac := t.ids.sum(append([]byte("leaf "), id...), 8)
	return day<<leafBits | binary.BigEndian.Uint64(mac)>>(64-leafBits)
}

// errForgotten says that the key of an authentication was forgotten.
var errForgotten = errors.New("journal: the key of an authentication was forgotten")

// isForgotten reports whether the key of an authentication was forgotten.
func (d *dayKey) isForgotten(id string) bool {
	if d.isWhole() {
		return false
	}
	leaf := d.tree.leafOf(d.day, id)
	d.tree.mu.Lock()
	defer d.tree.mu.Unlock()
	return !d.tree.tree.Has(leaf)
}

// isWhole reports whether no key of the day was forgotten.
func (d *dayKey) isWhole() bool {
	d.tree.mu.Lock()
	defer d.tree.mu.Unlock()
	return d.tree.tree.HasAll(leavesOf(d.day))
}

// aead returns what seals and opens the text of an authentication, or errForgotten.
func (d *dayKey) aead(id string) (cipher.AEAD, error) {
	t := d.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.aead != nil && t.last.id == id && t.last.day == d {
		return t.last.aead, nil
	}
	leaf, ok := t.tree.Key(t.leafOf(d.day, id))
	if !ok {
		return nil, errForgotten
	}
	text := slices.Concat([]byte("threeds journal authentication "), d.key, leaf[:]) // of a length that never changes
	key := sha256.Sum256(text)
	aead, err := newAEAD(key[:])
	clear(text)
	clear(key[:])
	clear(leaf[:])
	if err == nil {
		t.last = authenticationKey{d, id, aead}
	}
	return aead, err
}

// forget forgets leaves, and reports whether the tree had one of them.
func (t *keyTree) forget(leaves []uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = authenticationKey{}
	return t.tree.Forget(leaves...)
}

// forgetDays forgets all leaves of days, and reports whether the tree had one of them.
func (t *keyTree) forgetDays(days []uint64) (isAny bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, day := range days {
		isAny = t.tree.ForgetRange(leavesOf(day)) || isAny
	}
	if isAny {
		t.last = authenticationKey{}
	}
	return isAny
}

// merge forgets what another state of the tree has forgotten, and reports whether the tree had some of it.
func (t *keyTree) merge(o *keyTree) bool {
	o.mu.Lock()
	state := o.tree.Clone()
	o.mu.Unlock()
	defer state.Wipe()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = authenticationKey{}
	return t.tree.Merge(state)
}

// has reports whether the tree has a leaf.
func (t *keyTree) has(leaf uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tree.Has(leaf)
}

// hasForgotten reports whether any key was forgotten.
func (t *keyTree) hasForgotten() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.tree.HasAll(0, math.MaxUint64)
}

// hasDay reports whether the tree has a leaf of a day.
func (t *keyTree) hasDay(day uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tree.HasAny(leavesOf(day))
}

// countForgotten returns how many keys of each day were forgotten one by one, and how many these are.
func (t *keyTree) countForgotten() (byDay map[uint64]int, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	byDay = map[uint64]int{}
	for first, last := range t.tree.Gaps() {
		if last-first < 1<<leafBits-1 { // else whole days were forgotten
			byDay[first>>leafBits]++
			all++
		}
	}
	return byDay, all
}

// newDayKey makes the key of a day, and returns it wrapped, too.
func (k *Keys) newDayKey(day string) (wrapped []byte, err error) {
	key := make([]byte, keyLen, keyLen+treeNameLen)
	rand.Read(key)
	name, err := hex.DecodeString(k.tree.name)
	if err != nil {
		return nil, err
	}
	return seal(k.wrapping[0], append(key, name...), "day "+day)
}

// unwrap opens the key of a day, under whichever wrapping key.
func (k *Keys) unwrap(day string, wrapped []byte) (*dayKey, error) {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return nil, err
	}
	for _, key := range k.wrapping {
		open, err := openSealed(key, wrapped, "day "+day)
		if err != nil || len(open) != keyLen+treeNameLen {
			continue
		}
		if name := hex.EncodeToString(open[keyLen:]); name != k.tree.name {
			return nil, fmt.Errorf("%w: the tree %s of the day %s is not that of this file", errSealed, name, day)
		}
		return &dayKey{open[:keyLen:keyLen], wrapped, k.tree, dayNumber(at.UnixMilli())}, nil
	}
	return nil, fmt.Errorf("%w: all nodes of one journal have the same journal-keys.json", errSealed)
}

// keyOf returns the key of a day that was read or made before, or nil.
func (db *database) keyOf(day string) *dayKey {
	key, _ := db.keys.Load(day)
	known, _ := key.(*dayKey)
	return known
}

// dayKey returns the key of a day. It is made when create is set and there is none; else errSealed is returned.
func (db *database) dayKey(ctx context.Context, day string, create bool) (*dayKey, error) {
	if key := db.keyOf(day); key != nil {
		return key, nil
	}
	if create {
		if err := db.checkKeyFile(ctx); err != nil {
			return nil, err
		}
		wrapped, err := db.ours.newDayKey(day)
		if err != nil {
			return nil, err
		}
		if _, err := db.ExecContext(ctx,
			db.query(`INSERT INTO journal_keys (day, wrapped) VALUES (?, ?) ON CONFLICT (day) DO NOTHING`), day,
			wrapped); err != nil {
			return nil, err
		}
	}
	key, err := db.readKey(ctx, day)
	if err != nil {
		return nil, err
	}
	known, _ := db.keys.LoadOrStore(day, key)
	return known.(*dayKey), nil
}

// readKey returns the key of a day that the database has.
func (db *database) readKey(ctx context.Context, day string) (*dayKey, error) {
	var wrapped []byte
	err := db.QueryRowContext(ctx, db.query(`SELECT wrapped FROM journal_keys WHERE day = ?`), day).Scan(&wrapped)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%w: the key of the day %s is gone", errSealed, day)
	}
	if err != nil {
		return nil, err
	}
	return db.ours.unwrap(day, wrapped)
}

// readKeyAgain returns the key of a day that has taken the place of the one that was read before, if there is such a
// key: another node has deleted the day, and somebody has written it again. A writer goes on with the key that it has,
// until the database says that it is gone.
func (db *database) readKeyAgain(ctx context.Context, day string, was *dayKey) (now *dayKey, isOther bool, err error) {
	if !db.numbered { // a file in a directory is for one node
		return nil, false, nil
	}
	now, err = db.readKey(ctx, day)
	if errors.Is(err, errSealed) || err == nil && bytes.Equal(now.wrapped, was.wrapped) {
		return nil, false, nil
	}
	if err == nil && db.mu.TryLock() { // else a writer is at work, and the next look remembers the key
		db.keys.CompareAndSwap(day, was, now)
		db.mu.Unlock()
	}
	return now, err == nil, err
}

// checkKeyFile says whether the newest key of a day opens under the keys of this process, where several
// nodes may write. A node with a file of its own would else be the first to make the key of a day, which no
// other node could open.
func (db *database) checkKeyFile(ctx context.Context) error {
	if !db.numbered { // a file in a directory is for one node
		return nil
	}
	var day string
	var wrapped []byte
	err := db.QueryRowContext(ctx, `SELECT day, wrapped FROM journal_keys ORDER BY day DESC LIMIT 1`).Scan(&day, &wrapped)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = db.ours.unwrap(day, wrapped)
	}
	return err
}
