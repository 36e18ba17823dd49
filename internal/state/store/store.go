// Package store is the contract of the place where transactions and API keys
// are kept, and what nodes share: leases, snapshots of card ranges, small states,
// and which nodes there are. Packages sqlite and postgres below it implement the contract, and package storetest tests
// whether an implementation keeps it. The only code here is that of the names that rows are sealed under; package rows
// has the code that both share.
//
// A store does not understand what it keeps. Which states there are and how they
// follow each other, who may read a transaction, the sealing of its data, and
// what a snapshot holds belong to the callers.
package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"
)

// The facts a [Store] reports, for use with errors.Is. Every other error, except one of a change function or of a given
// reader, means that the store could not be reached or has failed. It says nothing about what the store holds.
var (
	ErrNotFound = errors.New("store: not found")
	ErrExists   = errors.New("store: exists")
	ErrHeld     = errors.New("store: lease is held by another")
	ErrFenced   = errors.New("store: lease is not the newest holding")
	ErrTooLarge = errors.New("store: too large")
)

// ErrUndone is in an error of a write, other than Sweep and PutSnapshot, that is none of those facts but certain about
// one thing: the write has not happened and will not.
var ErrUndone = errors.New("nothing was written")

// ErrReadOnly is in the error of a Ping: there is a store, and it may only be read.
var ErrReadOnly = errors.New("transactions may not be written")

// A State names where a transaction is. A store only keeps it.
type State string

// A Txn is one transaction.
type Txn struct {
	ID      string // never changes
	Owner   string
	Scheme  string
	State   State
	Data    []byte    // opaque, sealed by the caller; nil and empty are the same
	Expires time.Time // the first moment at which it is gone; UTC, whole milliseconds

	// Version is another number after each Update. Get sets it. For Create it is what [NewVersion] returns, so that the
	// caller knows the version of what it has made; of 0 the store makes one itself.
	Version int64

	// Lazy is for Update: it would do no harm if the change were lost. Get never sets it.
	Lazy bool

	// Event is for Update: it is stored in the same commit as the change, and takes the place of an event about the
	// same transaction that lies ahead. It is about the transaction. Nil means none. Get never sets it.
	Event *Event

	// Plain is what the caller has sealed into Data, for those who are shown the transaction on its way to the store. It
	// never changes. A store neither keeps nor returns it.
	Plain any
}

// NewVersion returns a first version for a transaction. It is random: an id that Sweep frees and that is taken again
// must not look like what it was.
func NewVersion() int64 { return rand.Int64N(1<<62) + 1 }

// Name is what Data is sealed under: everything else that a store keeps of a transaction. So an attacker who can write
// to the database but has no keys cannot change any of it, such as its owner or its expiry, without losing the data.
// Sealing is therefore the last step of a change.
func (t *Txn) Name() string {
	name := appendParts(make([]byte, 0, 128), t.ID, t.Owner, t.Scheme, string(t.State))
	return string(strconv.AppendInt(name, t.Expires.UnixMilli(), 10))
}

// appendParts appends each part behind its length, so that no two lists look alike.
func appendParts(name []byte, parts ...string) []byte {
	for _, part := range parts {
		name = strconv.AppendInt(name, int64(len(part)), 10)
		name = append(append(name, ':'), part...)
	}
	return name
}

// A Key is what a store knows of an API key: never the key itself.
type Key struct {
	Hash     []byte // keyed hash of the key; unique
	Merchant string
	Strict   bool
	Created  time.Time // UTC, whole milliseconds
	Seal     []byte    // opaque, made by the caller over the rest; nil and empty are the same
}

// Name is what Seal is made over: everything else that a store keeps of a key. It is never the name of a transaction,
// for those begin with a digit.
func (k *Key) Name() string {
	name := appendParts(append(make([]byte, 0, 128), "key "...), string(k.Hash), k.Merchant)
	name = append(strconv.AppendBool(name, k.Strict), ' ')
	return string(strconv.AppendInt(name, k.Created.UnixMilli(), 10))
}

// A Store keeps transactions until they expire, API keys until they are revoked,
// and the rest as [Leases], [Snapshots], [States] and [Nodes] say.
//
// All methods may be called by many goroutines, and several processes may have
// the same store open. A write is durable when its method has returned nil: it
// survives the end of the process and of the machine, and every later call, in
// whichever process, sees it. After an error that is not described here, and has no [ErrUndone] in it, a write may or
// may not have happened; it is never half done. If the context ended before the write began, the write has not happened
// and will not. That is what context.Canceled says, for all writes except Sweep.
//
// A transaction is expired from its Expires on, by the clock of the store. From that moment it is as good as deleted:
// Get and Update do not find it. Its ID stays taken until Sweep frees it; nothing else does.
//
// A Store keeps no reference to memory that it was given, nor to memory that it returns. Times are cut to whole
// milliseconds.
type Store interface {
	// Create adds a transaction. It returns ErrExists, and changes nothing, if the ID is taken by a transaction, even
	// an expired one. Of several calls with one ID exactly one succeeds.
	Create(ctx context.Context, t Txn) error

	// Get returns a transaction. It returns ErrNotFound if there is none or it
	// has expired.
	Get(ctx context.Context, id string) (Txn, error)

	// Update replaces a transaction by what change makes of it, atomically: no
	// other update comes between what change saw and what it made. It begins with was, the transaction as Get returned
	// it, or as it was given to Create with a Version, which saves reading it. If the transaction is not known, was has
	// only the ID. Was may lack Data that change does not look at. Update returns ErrNotFound if there is no such
	// transaction or it has expired; if the transaction was not known, change is then not called. An error from change
	// is returned as it is, and nothing is changed.
	//
	// A change that sets Lazy outlives this process, and all calls see it immediately. But it may be lost with the
	// machine, or with the database's server, until any later write that is not lazy has returned nil. That saves
	// waiting for disks.
	//
	// change may be called more than once, the first time with was, if that has a
	// Version, and then with the transaction as it is; the last call counts. It must
	// not call the store, and its changes to ID and Version are ignored.
	Update(ctx context.Context, was Txn, change func(*Txn) error) error

	// Sweep frees the transactions that are expired at now, and says how many.
	// It frees them in small batches, so that other writes need not wait long,
	// and stops early when the context ends.
	Sweep(ctx context.Context, now time.Time) (int, error)

	// PutKey adds an API key. It returns ErrExists, and changes nothing, if the
	// hash is taken.
	PutKey(ctx context.Context, k Key) error

	// Key returns the key with the given hash, or ErrNotFound.
	Key(ctx context.Context, hash []byte) (Key, error)

	// Keys returns all keys, oldest first.
	Keys(ctx context.Context) ([]Key, error)

	// KeysUnless returns all keys, as Keys does, and their mark. If the mark is still the given one, it returns that
	// alone, which costs next to nothing. Any change of a key, of one of [Merchants] or of an object of the kind
	// [DisabledObjects] changes the mark to one that was never there before. No other change in the store does so. If
	// the store cannot tell, the mark is empty and all keys are returned.
	KeysUnless(ctx context.Context, mark string) (keys []Key, now string, err error)

	// ResealKey replaces the seal of the key that has this hash, if the seal is still was. The rest of the key stays,
	// and a reader sees it either before or after. If there is no such key, or if its seal is not was, it returns
	// ErrNotFound and changes nothing.
	ResealKey(ctx context.Context, hash, was, seal []byte) error

	// RevokeKey removes the key with the given hash. It returns ErrNotFound if
	// there is none.
	RevokeKey(ctx context.Context, hash []byte) error

	Leases
	Snapshots
	States
	Nodes
	Events
	Merchants
	Objects
	Audit

	// Ping returns nil if the store can be reached and read, and an error with ErrReadOnly in it if so, but this
	// process may not write transactions. It does not try to write.
	Ping(ctx context.Context) error

	// Close waits for the calls that have begun and frees the resources of the
	// store. Every later call of another method, and every later Read of a
	// snapshot, returns an error that is none of the facts above. A second Close
	// does nothing.
	Close() error
}

// A Placer is a [Store] that is spread over several servers, of which some may be away.
type Placer interface {
	// CanWrite reports whether a transaction with an id can be written now, as far as is known. It asks no server, and may
	// be some seconds behind.
	CanWrite(id string) bool
}

// A Lister is a [Store] that lists its transactions, expired ones too as long as Sweep has not freed them.
type Lister interface {
	// List returns at most limit transactions that expire at until or before, by expiry and then by id, from the one
	// after the given transaction on. Of the given one only Expires and ID count, and State, if it is not "": then all
	// have that state.
	List(ctx context.Context, after Txn, until time.Time, limit int) ([]Txn, error)
}
