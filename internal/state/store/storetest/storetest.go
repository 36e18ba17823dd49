// Package storetest holds the tests that every implementation of [store.Store]
// must pass: one for each sentence of the contract that a test can check. They cannot check whether a write survives a
// crash of the machine; the tests of each implementation do that.
//
// It also has [Memory], a store that passes them and forgets everything.
package storetest

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A Backend says how Run works with one implementation. Open, Now and Pass are required.
type Backend struct {
	// Open returns an empty store. Run closes it.
	Open func(t testing.TB) store.Store

	// Reopen closes s and opens the same store again, with all that it kept. If it is
	// nil, the tests of what survives a restart are skipped.
	Reopen func(t testing.TB, s store.Store) store.Store

	// Share opens the store of s a second time, as another process would, while s stays
	// open. Run closes it. If it is nil, the tests of sharing are skipped.
	Share func(t testing.TB, s store.Store) store.Store

	// Now is the clock of the stores. Pass lets d go by on it.
	Now  func() time.Time
	Pass func(d time.Duration)
}

// Run runs every test of the contract, each on a store of its own.
func Run(t *testing.T, b Backend) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.on(t, b) })
	}
}

// A test checks one sentence or two of the contract.
type test struct {
	name string
	run  func(c *check)
}

// on runs the test on an empty store of b.
func (test test) on(t testing.TB, b Backend) {
	c := &check{TB: t, Backend: b, s: b.Open(t)}
	defer func() {
		if err := c.s.Close(); err != nil {
			c.Errorf("Close: %v", err)
		}
	}()
	test.run(c)
}

var tests = []test{
	{"CreateGet", testCreateGet},
	{"CreateTwice", testCreateTwice},
	{"CreateAtOnce", testCreateAtOnce},
	{"GetMissing", testGetMissing},
	{"NoReference", testNoReference},
	{"Milliseconds", testMilliseconds},
	{"Update", testUpdate},
	{"UpdateMissing", testUpdateMissing},
	{"UpdateError", testUpdateError},
	{"UpdateID", testUpdateID},
	{"UpdateRead", testUpdateRead},
	{"UpdateMade", testUpdateMade},
	{"UpdateLazily", testUpdateLazily},
	{"Plain", testPlain},
	{"UpdateIsAtomic", testUpdateIsAtomic},
	{"UpdateOnce", testUpdateOnce},
	{"WritesAtOnce", testWritesAtOnce},
	{"Expiry", testExpiry},
	{"ExpiryChanges", testExpiryChanges},
	{"ExpiredStaysTaken", testExpiredStaysTaken},
	{"Sweep", testSweep},
	{"SweepMany", testSweepMany},
	{"List", testList},
	{"SweepBoundary", testSweepBoundary},
	{"Layout", testLayout},
	{"KeyPutGet", testKeyPutGet},
	{"KeyMissing", testKeyMissing},
	{"KeyTwice", testKeyTwice},
	{"KeysOrder", testKeysOrder},
	{"KeyReseal", testKeyReseal},
	{"KeyResealAtOnce", testKeyResealAtOnce},
	{"KeyRevoke", testKeyRevoke},
	{"KeyNoReference", testKeyNoReference},
	{"KeysStay", testKeysStay},
	{"KeysUnless", testKeysUnless},
	{"KeysUnlessAtOnce", testKeysUnlessAtOnce},
	{"Lease", testLease},
	{"LeaseRenew", testLeaseRenew},
	{"LeaseExpiry", testLeaseExpiry},
	{"LeaseTokens", testLeaseTokens},
	{"LeaseRelease", testLeaseRelease},
	{"LeaseFences", testLeaseFences},
	{"LeaseAtOnce", testLeaseAtOnce},
	{"State", testState},
	{"StateFenced", testStateFenced},
	{"StateAtOnce", testStateAtOnce},
	{"StateNoReference", testStateNoReference},
	{"Snapshot", testSnapshot},
	{"SnapshotFields", testSnapshotFields},
	{"SnapshotReaders", testSnapshotReaders},
	{"SnapshotGenerations", testSnapshotGenerations},
	{"SnapshotKeep", testSnapshotKeep},
	{"SnapshotReaderFails", testSnapshotReaderFails},
	{"SnapshotAllAtOnce", testSnapshotAllAtOnce},
	{"SnapshotFenced", testSnapshotFenced},
	{"SnapshotFencedAtOnce", testSnapshotFencedAtOnce},
	{"SnapshotNextTakesOver", testSnapshotNextTakesOver},
	{"SnapshotAtOnce", testSnapshotAtOnce},
	{"SnapshotContextEnds", testSnapshotContextEnds},
	{"SnapshotReplaced", testSnapshotReplaced},
	{"SnapshotClosed", testSnapshotClosed},
	{"SnapshotCloseWaits", testSnapshotCloseWaits},
	{"Nodes", testNodes},
	{"NodeRemoved", testNodeRemoved},
	{"NodesStay", testNodesStay},
	{"Merchants", testMerchants},
	{"MerchantsMark", testMerchantsMark},
	{"DisabledMark", testDisabledMark},
	{"MerchantsAtOnce", testMerchantsAtOnce},
	{"Endpoints", testEndpoints},
	{"EndpointsOf", testEndpointsOf},
	{"EndpointMarks", testEndpointMarks},
	{"EventPutGet", testEventPutGet},
	{"EventOfUpdate", testEventOfUpdate},
	{"EventAhead", testEventAhead},
	{"FindEvents", testFindEvents},
	{"Deliveries", testDeliveries},
	{"ClaimAtOnce", testClaimAtOnce},
	{"SweepEvents", testSweepEvents},
	{"EraseEvents", testEraseEvents},
	{"Objects", testObjects},
	{"ObjectChange", testObjectChange},
	{"ObjectExpiry", testObjectExpiry},
	{"ObjectAtOnce", testObjectAtOnce},
	{"Audit", testAudit},
	{"AuditAtOnce", testAuditAtOnce},
	{"ContextEnded", testContextEnded},
	{"Ping", testPing},
	{"Closed", testClosed},
	{"CloseUnderLoad", testCloseUnderLoad},
	{"Reopen", testReopen},
	{"ReopenLazy", testReopenLazy},
	{"ReopenRanges", testReopenRanges},
	{"Share", testShare},
	{"ShareLazy", testShareLazy},
	{"ShareAtOnce", testShareAtOnce},
	{"ShareKeys", testShareKeys},
	{"ShareLeases", testShareLeases},
	{"ShareSnapshots", testShareSnapshots},
	{"ShareNodes", testShareNodes},
	{"ShareMerchants", testShareMerchants},
}

// A check is a running test: the store, and helpers for what tests do with it.
type check struct {
	testing.TB
	Backend
	s store.Store
}

// txn returns a transaction that expires after d and has something in every field.
func (c *check) txn(id string, d time.Duration) store.Txn {
	return store.Txn{
		ID: id, Owner: "shop", Scheme: "visa", State: "sent", Data: []byte("data of " + id),
		Expires: c.Now().UTC().Truncate(time.Millisecond).Add(d),
	}
}

// create adds a transaction that expires after d.
func (c *check) create(id string, d time.Duration) store.Txn {
	c.Helper()
	x := c.txn(id, d)
	if err := c.s.Create(c.Context(), x); err != nil {
		c.Fatalf("Create(%q): %v", id, err)
	}
	return x
}

// want checks that Get returns x.
func (c *check) want(x store.Txn) {
	c.Helper()
	got, err := c.s.Get(c.Context(), x.ID)
	if err != nil {
		c.Errorf("Get(%q): %v", x.ID, err)
	} else if !same(got, x) {
		c.Errorf("Get(%q) = %+v, want %+v", x.ID, got, x)
	}
}

// get returns a transaction, which must be there.
func (c *check) get(id string) store.Txn {
	c.Helper()
	t, err := c.s.Get(c.Context(), id)
	if err != nil {
		c.Fatalf("Get(%q): %v", id, err)
	}
	return t
}

// wantMissing checks that neither Get nor Update finds a transaction.
func (c *check) wantMissing(id string) {
	c.Helper()
	if got, err := c.s.Get(c.Context(), id); !errors.Is(err, store.ErrNotFound) || !same(got, store.Txn{}) {
		c.Errorf("Get(%q) = %+v, %v; want ErrNotFound", id, got, err)
	}
	err := c.s.Update(c.Context(), store.Txn{ID: id}, func(*store.Txn) error { c.Errorf("Update(%q) calls change", id); return nil })
	if !errors.Is(err, store.ErrNotFound) {
		c.Errorf("Update(%q): %v, want ErrNotFound", id, err)
	}
}

// update changes a transaction, which must succeed.
func (c *check) update(id string, change func(*store.Txn)) {
	c.Helper()
	err := c.s.Update(c.Context(), store.Txn{ID: id}, func(t *store.Txn) error { change(t); return nil })
	if err != nil {
		c.Fatalf("Update(%q): %v", id, err)
	}
}

// key returns an API key whose hash is fill, repeated.
func (c *check) key(fill byte) store.Key {
	return store.Key{
		Hash: bytes.Repeat([]byte{fill}, 32), Merchant: "shop", Strict: fill%2 == 1,
		Created: c.Now().UTC().Truncate(time.Millisecond).Add(time.Duration(fill) * time.Second),
		Seal:    bytes.Repeat([]byte{fill, 0}, 16),
	}
}

func (c *check) putKey(k store.Key) {
	c.Helper()
	if err := c.s.PutKey(c.Context(), k); err != nil {
		c.Fatalf("PutKey: %v", err)
	}
}

func (c *check) wantKey(k store.Key) {
	c.Helper()
	if got, err := c.s.Key(c.Context(), k.Hash); err != nil || !sameKey(got, k) {
		c.Errorf("Key = %+v, %v; want %+v", got, err, k)
	}
}

func (c *check) wantKeys(want ...store.Key) {
	c.Helper()
	got, err := c.s.Keys(c.Context())
	if err != nil {
		c.Errorf("Keys: %v", err)
		return
	}
	if !slices.EqualFunc(got, want, sameKey) {
		c.Errorf("Keys = %+v, want %+v", got, want)
	}
}

// wantKeysUnless checks that the store has these keys, and that their mark is not the given one. It returns their mark.
func (c *check) wantKeysUnless(mark string, want ...store.Key) (now string) {
	c.Helper()
	got, now, err := c.s.KeysUnless(c.Context(), mark)
	if err != nil || now == "" || now == mark || !slices.EqualFunc(got, want, sameKey) {
		c.Errorf("KeysUnless(%q) = %+v, %q, %v; want %+v and another mark", mark, got, now, err, want)
	}
	return now
}

// wantMark checks that the keys still have this mark.
func (c *check) wantMark(mark string) {
	c.Helper()
	if got, now, err := c.s.KeysUnless(c.Context(), mark); err != nil || now != mark || len(got) > 0 {
		c.Errorf("KeysUnless(%q) = %+v, %q, %v; want that mark alone", mark, got, now, err)
	}
}

// same compares whole transactions. Times must be equal with ==, so both must be UTC.
func same(a, b store.Txn) bool {
	return a.ID == b.ID && a.Owner == b.Owner && a.Scheme == b.Scheme && a.State == b.State &&
		bytes.Equal(a.Data, b.Data) && a.Expires == b.Expires
}

func sameKey(a, b store.Key) bool {
	return bytes.Equal(a.Hash, b.Hash) && a.Merchant == b.Merchant && a.Strict == b.Strict && a.Created == b.Created &&
		bytes.Equal(a.Seal, b.Seal)
}

// isContractError reports whether an error is one that the contract names, and not a failure of the
// store.
func isContractError(err error) bool {
	for _, fact := range []error{store.ErrNotFound, store.ErrExists, store.ErrHeld, store.ErrFenced, store.ErrTooLarge} {
		if errors.Is(err, fact) {
			return true
		}
	}
	return false
}
