package rotation

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/state/cluster"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	// pollInterval is how often the store is asked for rotations.
	pollInterval = time.Second

	// heartbeat is how often a node tells that it serves, and tries to write its key file.
	heartbeat = 10 * time.Second

	// accessInterval is how often a node looks whether a key file that was read-only still is.
	accessInterval = time.Minute

	// pollTimeout is the longest time that a poll may take.
	pollTimeout = 5 * time.Second
)

// A Follower has a node take part in rotations. Make it with [NewFollower].
type Follower struct {
	// Status returns how the node is, for its sign of life; nil: it does not tell. Set it before Start.
	Status func() cluster.Status

	store Store
	file  string
	log   *slog.Logger
	use   func(*keyring.Ring)
	wrote func()
	self  store.Node

	mu       sync.Mutex
	base     *keyring.Ring // without a secret that is offered
	live     *keyring.Ring
	fileID   string // of the current secret in the key file
	history  history
	told     []byte // what was last announced to the other nodes, apart from the status
	toldAt   time.Time
	triedAt  time.Time // when it was tried to write the key file
	lastFail string    // what went wrong at the last poll

	access     fileAccess
	accessAt   time.Time // when it was found out
	pending    string    // id of the offered secret that is kept next to the key file
	hasPending bool      // there may be a file next to the key file that is no longer needed

	problem atomic.Pointer[string]
	isDue   atomic.Bool // the next poll announces how the node is

	nodes     atomic.Int64 // how many serve, as was last counted
	countedAt time.Time
}

// NewFollower returns a Follower for a node that operators know by a name. The ring is that of the key file. The
// follower calls use with each ring that is to take its place, and wrote after it has replaced the key file.
func NewFollower(st Store, file, name string, ring *keyring.Ring, log *slog.Logger, use func(*keyring.Ring),
	wrote func()) *Follower {
	return &Follower{
		store: st, file: file, log: log, use: use, wrote: wrote, self: store.Node{ID: rand.Text(), Name: name},
		base: ring, live: ring, fileID: ring.KeyIDs().Current, hasPending: true,
	}
}

// Start announces to the other nodes that this node serves, and joins a rotation that is under way. Call it before the
// first request is answered. A store that cannot be used is logged, and tried again by Run.
func (f *Follower) Start(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	f.checkAccess()
	err := f.removePredecessors(ctx)
	if err == nil {
		// The others have to wait for this node before it looks what they rotate.
		err = f.tell(ctx, false)
	}
	f.note(ctx, errors.Join(err, f.poll(ctx)))
}

// Run takes part in rotations until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			f.stop(context.WithoutCancel(ctx))
			return
		case <-tick.C:
		}
		f.pollOnce(ctx)
	}
}

func (f *Follower) pollOnce(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	timed, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	err := f.poll(timed)
	if ctx.Err() == nil {
		f.note(ctx, err)
	}
}

// stop tells the others that this node has ended.
func (f *Follower) stop(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pollInterval)
	defer cancel()
	_ = f.tell(ctx, true) // else they think so a minute later
}

// note logs what goes wrong at polls, once until it changes.
func (f *Follower) note(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == f.lastFail:
	case err != nil:
		f.log.WarnContext(ctx, "rotations of the key file cannot be followed", "err", err)
	default:
		f.log.InfoContext(ctx, "rotations of the key file can be followed again")
	}
	f.lastFail = text
}

// poll does what a rotation wants of this node, and tells the others.
func (f *Follower) poll(ctx context.Context) error {
	h, err := readHistory(ctx, f.store)
	if err != nil {
		return err
	}
	f.history = h
	err = f.apply()
	f.checkAccess()
	f.keepOffered()
	f.writeFile()
	if err == nil {
		f.removePending()
	}
	return errors.Join(err, f.tell(ctx, false), f.countNodes(ctx), f.tidy(ctx))
}

// countNodes counts the nodes that serve, as often as they tell that they do.
func (f *Follower) countNodes(ctx context.Context) error {
	if !f.countedAt.IsZero() && time.Since(f.countedAt) < heartbeat {
		return nil
	}
	nodes, err := readNodes(ctx, f.store)
	if err != nil {
		return err
	}
	n := int64(0)
	for i := range nodes {
		if nodes[i].isLive() {
			n++
		}
	}
	f.nodes.Store(n)
	f.countedAt = time.Now()
	return nil
}

// CountNodes returns how many nodes serve with the store, this one among them, as was last found out. A node that
// starts or ends in good order is known within ten seconds, one that has crashed within a minute. It asks nobody.
func (f *Follower) CountNodes() int { return int(max(1, f.nodes.Load())) }

// apply puts into use what the history says.
func (f *Follower) apply() error {
	base, live, err := f.history.extend(f.base)
	was := f.live.KeyIDs()
	f.base, f.live = base, live
	if ids := live.KeyIDs(); ids != was {
		f.use(live)
		f.log.Info("secrets of the key file have changed by a rotation", "current", ids.Current, "previous", ids.Previous,
			"next", ids.Next)
	}
	f.setProblem(err)
	return err
}

// checkAccess finds out whether the key file can be replaced. One that could be is looked at again when that has
// failed.
func (f *Follower) checkAccess() {
	if f.access == writable || f.access == readOnly && time.Since(f.accessAt) < accessInterval {
		return
	}
	f.setAccess(keyfile.CheckReplace(f.file))
}

// setAccess notes how it went to write into the folder of the key file.
func (f *Follower) setAccess(err error) {
	f.access, f.accessAt = writable, time.Now()
	if err != nil {
		f.access = readOnly
	}
}

// offeredHere returns the secret that is offered to this node, nil if there is none.
func (f *Follower) offeredHere() *step {
	if s := f.history.unfinished(); s != nil && s.Phase == offered && s.From == f.base.KeyIDs().Current {
		return s
	}
	return nil
}

// keepOffered keeps an offered secret next to the key file, before anything is made with it.
func (f *Follower) keepOffered() {
	s := f.offeredHere()
	if s == nil || s.ID == f.pending || f.access == readOnly {
		return
	}
	next, err := f.base.Follow(&s.Handover)
	if err != nil {
		return // apply has said it
	}
	f.hasPending = true
	if _, err = f.base.LoadOther(f.file); err == nil { // else it is sealed in another way than this node writes
		err = next.WritePending(f.file)
	}
	f.setAccess(err)
	if err != nil {
		f.log.Warn("a new secret is offered, and cannot be kept next to the key file", "file", f.file,
			"secret", s.ID, "err", err)
		return
	}
	f.pending = s.ID
}

// removePending removes the file next to the key file when the key file has all secrets that are in use. Its secret was
// withdrawn, or is in the key file too.
func (f *Follower) removePending() {
	if !f.hasPending || f.offeredHere() != nil || f.fileID != f.base.KeyIDs().Current {
		return
	}
	if err := keyfile.RemovePending(f.file); err != nil {
		return // it does no harm, and the next poll tries again
	}
	f.pending, f.hasPending = "", false
}

// writeFile replaces the key file if another secret has come into use. A file that an operator has changed is left as
// it is.
func (f *Follower) writeFile() {
	current := f.base.KeyIDs().Current
	if f.fileID == current || time.Since(f.triedAt) < heartbeat {
		return
	}
	isFirst := f.triedAt.IsZero()
	f.triedAt = time.Now()
	there, err := f.base.LoadOther(f.file)
	if err == nil && there.KeyIDs().Current != f.fileID && there.KeyIDs().Current != current {
		return // it is about to be reloaded
	}
	if err == nil && there.KeyIDs().Current == f.fileID {
		err = f.base.WriteFile(f.file)
		f.setAccess(err)
	}
	if err == nil {
		f.fileID, f.triedAt = current, time.Time{}
		f.wrote()
		f.setProblem(nil)
		f.log.Info("key file replaced after a rotation", "file", f.file, "current", current)
		return
	}
	if isFirst {
		f.log.Warn("key file not replaced after a rotation: this node has the new secret in memory and in the store; "+
			"put a key file that has it in its place, as key rotate --write makes one", "file", f.file,
			"current", current, "err", err)
	}
}

// tell puts into the store that this node serves, and with what, if that has changed or it is time.
func (f *Follower) tell(ctx context.Context, isStopped bool) error {
	ids := f.live.KeyIDs()
	said := node{
		Note: cluster.Note{File: f.fileID, IsStopped: isStopped}, Current: ids.Current, Next: ids.Next, Access: f.access,
		Pending: f.pending,
	}
	note, err := json.Marshal(said)
	if err != nil {
		return fmt.Errorf("rotation: %w", err)
	}
	isDue := f.isDue.Swap(false)
	if !isDue && bytes.Equal(note, f.told) && time.Since(f.toldAt) < heartbeat {
		return nil
	}
	f.self.Note = note
	if f.Status != nil {
		said.Status = f.Status()
		if f.self.Note, err = json.Marshal(said); err != nil {
			return fmt.Errorf("rotation: %w", err)
		}
	}
	if err := f.store.PutNode(ctx, f.self); err != nil {
		if isDue {
			f.isDue.Store(true)
		}
		return fmt.Errorf("rotation: tell that this node serves: %w", err)
	}
	f.told, f.toldAt = note, time.Now()
	return nil
}

// TellSoon makes the node tell the others within a second how it is.
func (f *Follower) TellSoon() { f.isDue.Store(true) }

// removePredecessors removes nodes that had the name of this one and have ended, and nodes that were not seen for a
// long time.
func (f *Follower) removePredecessors(ctx context.Context) error {
	nodes, err := readNodes(ctx, f.store)
	for _, n := range nodes {
		if n.Age >= rememberFor || n.Name == f.self.Name && !n.isLive() {
			err = errors.Join(err, f.store.RemoveNode(ctx, n.ID))
		}
	}
	return err
}

// tidy removes secrets from the store that every node has in its key file.
func (f *Follower) tidy(ctx context.Context) error {
	if len(f.history) == 0 || f.history[len(f.history)-1].Sealed == nil || f.fileID != f.history[len(f.history)-1].ID {
		return nil
	}
	nodes, err := readNodes(ctx, f.store)
	if err != nil || !f.history.dropSecrets(nodes, f.fileID) {
		return err
	}
	lease, err := f.store.Acquire(ctx, leaseName, f.self.ID, pollTimeout)
	if errors.Is(err, store.ErrHeld) {
		return nil // a rotation is under way
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.store.Release(ctx, lease) }() // else it ends by itself
	h, err := readHistory(ctx, f.store)
	if err != nil || !h.dropSecrets(nodes, f.fileID) {
		return err
	}
	if err := h.write(ctx, f.store, lease); err != nil && !errors.Is(err, store.ErrFenced) {
		return err
	}
	return nil
}

// Extended returns the ring of a key file as it would be in use.
func (f *Follower) Extended(ring *keyring.Ring) *keyring.Ring {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, accepts, _ := f.history.extend(ring) // if it lacks a secret, that is reported when it is in use
	return accepts
}

// SetFile puts the secrets of a key file that was read again into use, with those that have come since.
func (f *Follower) SetFile(ring *keyring.Ring) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.base, f.fileID, f.triedAt = ring, ring.KeyIDs().Current, time.Time{}
	_ = f.apply() // it is in Problem
	f.use(f.live)
}

// setProblem keeps what is wrong with the key file.
func (f *Follower) setProblem(err error) {
	text := ""
	switch current := f.base.KeyIDs().Current; {
	case err != nil:
		text = err.Error()
	case f.fileID != current:
		text = fmt.Sprintf("the key file (keys) could not be replaced after a rotation: it has secret %s and %s is in use; "+
			"put a key file that has it in its place, as key rotate --write makes one, and run key rotate again",
			f.fileID, current)
	}
	f.problem.Store(&text)
}

// Problem says what is wrong with the key file, "" if nothing is.
func (f *Follower) Problem() string {
	if text := f.problem.Load(); text != nil {
		return *text
	}
	return ""
}
