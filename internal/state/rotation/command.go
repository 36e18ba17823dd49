package rotation

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	// Within is how long a node may take to answer.
	Within = 30 * time.Second

	// leaseTTL is how long after its end a command that was killed keeps others out.
	leaseTTL = 15 * time.Second

	// askInterval is how often the store is asked what nodes say.
	askInterval = 200 * time.Millisecond

	// sharedFile is how long a node that cannot replace its key file may take to notice that the file was replaced,
	// because this machine shares it.
	sharedFile = 2 * heartbeat

	// cleanUpTimeout is how long it may take to withdraw a secret.
	cleanUpTimeout = 10 * time.Second
)

// A Command rotates the secret of the key file on all nodes. Set its fields, and call Run.
type Command struct {
	Store  Store
	File   string        // the key file of this machine
	Ring   *keyring.Ring // what the key file holds
	By     string        // who calls
	Within time.Duration // how long a node may take to answer
	Say    func(format string, args ...any)

	// Write is a file that is made with all secrets in use and the new one, before that is in use. "" means that none is.
	Write string

	// Reseals seal what else lives longer than a secret, after API keys and merchants.
	Reseals []Reseal
}

// A Reseal reseals all rows of a kind under the current secret of a ring. It returns how many are then sealed under it,
// and how many are refused because no secret opens their seal.
type Reseal struct {
	One, Many string // what the rows are, for people
	Do        func(ctx context.Context, ring *keyring.Ring) (sealed, refused int, err error)
}

// A run is one run of a Command, under its lease.
type run struct {
	*Command
	lease   store.Lease
	history history
	ring    *keyring.Ring // the secrets that are in use
}

// Run rotates once, or completes a rotation that was cut off. When it returns nil each node that
// serves has the new secret in its key file, and all rows are sealed under it. An error says
// whether anything has changed.
func (c *Command) Run(ctx context.Context) error {
	err := withLease(ctx, c.Store, func(ctx context.Context, lease store.Lease) error {
		return (&run{Command: c, lease: lease}).rotate(ctx)
	})
	if err != nil {
		return fmt.Errorf("key rotate: %w", err)
	}
	return nil
}

// Exclude calls do while no command rotates, and keeps commands from beginning a rotation meanwhile. A node may still
// write its key file after a rotation.
func Exclude(ctx context.Context, st store.Leases, do func() error) error {
	return withLease(ctx, st, func(context.Context, store.Lease) error { return do() })
}

// withLease calls do while it keeps the lease of rotations. The context of do ends when another command has the lease.
func withLease(ctx context.Context, st store.Leases, do func(context.Context, store.Lease) error) error {
	holder := rand.Text()
	lease, err := st.Acquire(ctx, leaseName, holder, leaseTTL)
	if errors.Is(err, store.ErrHeld) {
		return fmt.Errorf("a rotation is under way; if its command was killed, try again in %v", leaseTTL)
	}
	if err != nil {
		return fmt.Errorf("nothing has changed: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		renew(ctx, st, holder, cancel)
	}()
	defer func() {
		cancel(nil)
		<-renewed
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
		_ = st.Release(ctx, lease) // else it ends by itself
	}()
	return do(ctx, lease)
}

// renew keeps the lease until ctx ends. It ends ctx when another command has the lease.
func renew(ctx context.Context, st store.Leases, holder string, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(leaseTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := st.Acquire(ctx, leaseName, holder, leaseTTL); errors.Is(err, store.ErrHeld) {
			cancel(errors.New("another command has taken over"))
			return
		}
	}
}

func (r *run) rotate(ctx context.Context) (err error) {
	if r.history, err = readHistory(ctx, r.Store); err != nil {
		return err
	}
	if s := r.history.unfinished(); s != nil && s.Phase == offered {
		by, begun := s.By, s.Begun
		if err := r.withdraw(ctx); err != nil {
			return fmt.Errorf("the rotation of %s is not withdrawn: %w", begun.Format(time.RFC3339), err)
		}
		r.Say("withdrew the rotation that %s began at %s and did not end; its secret was never in use", by,
			begun.Format(time.RFC3339))
	}
	if r.ring, _, err = r.history.extend(r.Ring); err != nil {
		return err
	}
	if s := r.history.unfinished(); s != nil {
		r.Say("completing the rotation that %s began at %s; no other is begun", s.By, s.Begun.Format(time.RFC3339))
		return r.complete(ctx)
	}
	if err := r.offer(ctx); err != nil {
		return fmt.Errorf("%w; nothing has changed", err)
	}
	s := r.history.unfinished()
	s.Phase, s.UsedAt = inUse, time.Now().UTC().Truncate(time.Second)
	if err := r.history.write(ctx, r.Store, r.lease); err != nil {
		return fmt.Errorf(
			"it is not known whether the new secret is in use: run key rotate again, which completes or withdraws: %w", err)
	}
	if r.ring, err = r.ring.Follow(&s.Handover); err != nil {
		return err
	}
	return r.complete(ctx)
}

// offer makes a new secret. It returns when each node that serves accepts what is made with the secret, and a file
// keeps it. After an error there is no new secret.
func (r *run) offer(ctx context.Context) error {
	current := r.ring.KeyIDs().Current
	late, err := r.await(ctx, func(n *node) bool { return n.Current == current && n.Next == "" })
	if err != nil {
		return err
	}
	if len(late) > 0 {
		return fmt.Errorf(
			"not all nodes have the secrets of this machine's key file: %s (\"nodes that differ\" in the documentation)",
			strings.Join(late, ", "))
	}
	if err := r.checkKeepers(ctx); err != nil {
		return err
	}
	former := strings.Split(r.ring.KeyIDs().Previous, ",")
	h, err := r.ring.NewHandover(r.history.stay(former, time.Now()))
	if err != nil {
		return err
	}
	next, err := r.ring.Follow(&h)
	if err != nil {
		return err
	}
	r.history = append(r.history,
		step{Handover: h, Phase: offered, By: r.By, Begun: time.Now().UTC().Truncate(time.Second)})
	err = r.history.write(ctx, r.Store, r.lease)
	if err == nil {
		err = r.keep(ctx, next)
	}
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	if failed := r.withdraw(ctx); failed != nil {
		return fmt.Errorf("%w; the next key rotate withdraws the new secret, which cannot be done now: %w", err, failed)
	}
	return err
}

// checkKeepers returns an error if no file would keep a new secret.
func (r *run) checkKeepers(ctx context.Context) error {
	if r.Write != "" {
		if err := keyfile.CheckCreateNew(r.Write); err != nil {
			return fmt.Errorf("--write: %w", err)
		}
		return nil
	}
	here := keyfile.CheckReplace(r.File)
	if here == nil {
		return nil
	}
	nodes, err := readNodes(ctx, r.Store)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(nodes, func(n node) bool { return n.isLive() && n.Access != readOnly }) {
		return nil // one that does not tell is asked: offer finds out
	}
	return noKeeper(here)
}

// noKeeper returns the error that refuses a rotation, because the key file of this machine cannot be replaced.
func noKeeper(here error) error {
	return fmt.Errorf(
		"neither this machine nor a node that serves can replace its key file, so no file would have the new secret: "+
			"give --write FILE, which makes a key file that has it, and put that in the place of the key files (this machine: %w)",
		here)
}

// keep makes sure that files keep the secrets of a ring, whose current one is offered: on this machine, in the file of
// --write, and on each node that can. It returns when all nodes that serve accept the new secret, or an error if no
// file has it.
func (r *run) keep(ctx context.Context, next *keyring.Ring) error {
	id := next.KeyIDs().Current
	if r.Write != "" {
		if err := next.CreateFile(r.Write); err != nil {
			return fmt.Errorf("--write: %w", err)
		}
	}
	here := keyfile.CheckReplace(r.File)
	if here == nil {
		_, here = next.LoadOther(r.File) // a file that is sealed otherwise gets no neighbour in the clear
	}
	if here == nil {
		here = next.WritePending(r.File)
	}
	late, err := r.await(ctx, func(n *node) bool { return n.Next == id && (n.Access != writable || n.keeps(id)) })
	if err != nil {
		return err
	}
	if len(late) > 0 {
		return fmt.Errorf("these nodes have not taken the new secret up within %v: %s", r.Within, strings.Join(late, ", "))
	}
	if r.Write != "" || here == nil {
		return nil
	}
	nodes, err := readNodes(ctx, r.Store)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(nodes, func(n node) bool { return n.keeps(id) }) {
		return noKeeper(here)
	}
	return nil
}

// withdraw removes the rotation that is not finished, and the files of this machine that keep its secret.
func (r *run) withdraw(ctx context.Context) error {
	last := len(r.history) - 1
	id := r.history[last].ID
	r.history = r.history[:last]
	if err := r.history.write(ctx, r.Store, r.lease); err != nil {
		return err
	}
	pending, err := keyfile.PendingPath(r.File)
	if err == nil {
		err = r.removeFile(pending, id)
	}
	if r.Write != "" {
		err = errors.Join(err, r.removeFile(r.Write, id))
	}
	if err != nil {
		r.Say("a file that keeps the secret that was never in use is not removed, which does no harm: %v", err)
	}
	return nil
}

// removeFile removes a key file if its current secret is the one of an id.
func (r *run) removeFile(path, id string) error {
	ring, err := r.Ring.LoadOther(path)
	if err != nil || ring.KeyIDs().Current != id {
		return nil // it is another one, or none
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) { // a node with the same key file may have been faster
		return err
	}
	return nil
}

// await waits until all nodes that serve are as they should be. It returns the names of the nodes that are not when its
// time is over.
func (r *run) await(ctx context.Context, isGood func(*node) bool) (late []string, err error) {
	return r.awaitFor(ctx, r.Within, isGood)
}

// awaitFor is await with another time.
func (r *run) awaitFor(ctx context.Context, within time.Duration, isGood func(*node) bool) (late []string, err error) {
	tick := time.NewTicker(askInterval)
	defer tick.Stop()
	for start := time.Now(); ; {
		nodes, err := readNodes(ctx, r.Store)
		if err != nil {
			return nil, err
		}
		late = nil
		for _, n := range nodes {
			if n.isLive() && !isGood(&n) {
				late = append(late, fmt.Sprintf("%s (heard of %v ago)", n.Name, n.Age.Round(time.Second)))
			}
		}
		if len(late) == 0 || time.Since(start) >= within {
			return late, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// inUseError says of an error that the new secret is in use all the same, and what to do.
func inUseError(id string, err error) error {
	return fmt.Errorf("the new secret %s is in use; run key rotate again to complete the rotation: %w", id, err)
}

// complete returns when nothing long-lived is sealed under a previous secret, and all key files have the new one.
func (r *run) complete(ctx context.Context) error {
	current := r.ring.KeyIDs().Current
	if r.Write != "" {
		if err := r.writeTo(r.Write); err != nil {
			return inUseError(current, fmt.Errorf("--write: %w", err))
		}
		r.Say("%s has the new secret %s and those before it", r.Write, current)
	}
	late, err := r.await(ctx, func(n *node) bool { return n.Current == current })
	if err == nil {
		err = r.seal(ctx)
	}
	if err != nil {
		return inUseError(current, err)
	}
	fileID, failed := r.replaceFile(current)
	if len(late) > 0 {
		return fmt.Errorf(
			"the new secret %s is in use, and these nodes have not confirmed it within %v: %s; run key rotate again to complete the rotation",
			current, r.Within, strings.Join(late, ", "))
	}
	_, err = r.await(ctx, func(n *node) bool { return n.File == current || n.Access == readOnly })
	if err == nil && failed == nil {
		_, err = r.awaitFor(ctx, min(r.Within, sharedFile), func(n *node) bool { return n.File == current })
	}
	var nodes []node
	if err == nil {
		nodes, err = readNodes(ctx, r.Store)
	}
	if err != nil {
		return inUseError(current, err)
	}
	source := r.Write
	var without []string
	serving := 0
	for _, n := range nodes {
		switch {
		case !n.isLive():
			continue
		case n.File != current:
			without = append(without, n.Name)
		case source == "":
			source = "the key file of " + n.Name
		}
		serving++
	}
	if failed == nil {
		source = cmp.Or(source, r.File)
	}
	slices.Sort(without)
	next := fmt.Sprintf(
		"put %s in its place there, and run key rotate again, which completes this rotation and begins no other", source)
	if source == "" {
		next = "no key file is known that has it: run key rotate again with --write FILE, which makes one and begins no other rotation"
	}
	switch {
	case len(without) > 0:
		return fmt.Errorf(
			"the new secret %s is in use, and these nodes have it only in memory, because their key file is an older one: %s; %s",
			current, strings.Join(without, ", "), next)
	case source == "":
		return fmt.Errorf("the new secret %s is in use; %s", current, next)
	case failed != nil:
		r.Say("the key file of this machine is not replaced: put %s in its place: %v", source, failed)
	}
	r.history.unfinished().Phase = done
	r.history.dropSecrets(nodes, fileID)
	if err := r.history.write(ctx, r.Store, r.lease); err != nil {
		return inUseError(current, err)
	}
	r.Say("done: secret %s is in use, confirmed by all %d nodes that serve", current, serving)
	return nil
}

// writeTo makes a key file that has the secrets in use. One that has them already stays as it is.
func (r *run) writeTo(path string) error {
	if there, err := r.Ring.LoadOther(path); err == nil && there.KeyIDs().Current == r.ring.KeyIDs().Current {
		return nil
	}
	return r.ring.CreateFile(path)
}

// A tally counts rows of several kinds, in words.
type tally []string

func (t *tally) add(n int, one, many string) {
	if n != 1 {
		one = many
	}
	*t = append(*t, fmt.Sprintf("%d %s", n, one))
}

// seal seals all rows that live longer than a secret under the new one, and says how many there are.
func (r *run) seal(ctx context.Context) error {
	var sealed, refused tally
	count := func(ok, bad int, one, many string) {
		sealed.add(ok, one, many)
		if bad > 0 {
			refused.add(bad, one, many)
		}
	}
	ok, bad, err := account.Reseal(ctx, r.Store, r.ring)
	if err != nil {
		return err
	}
	count(ok, bad, "API key", "API keys")
	merchants, err := r.Store.Merchants(ctx)
	if err != nil {
		return err
	}
	ok = 0
	for _, m := range merchants {
		if _, err := r.ring.Open(m.SealName(), m.Data); err == nil {
			ok++
		}
	}
	count(ok, len(merchants)-ok, "merchant", "merchants")
	for _, reseal := range r.Reseals {
		if ok, bad, err = reseal.Do(ctx, r.ring); err != nil {
			return err
		}
		count(ok, bad, reseal.One, reseal.Many)
	}
	if len(refused) > 0 {
		r.Say("refused as before, and not sealed under the new secret: %s", strings.Join(refused, ", "))
	}
	r.Say("sealed under the new secret: %s", strings.Join(sealed, ", "))
	return nil
}

// replaceFile replaces the key file of this machine. It returns the id of the current secret in it, and why the file
// could not be replaced.
func (r *run) replaceFile(current string) (id string, err error) {
	there, err := r.Ring.LoadOther(r.File)
	if err == nil && there.KeyIDs().Current != current {
		err = r.ring.WriteFile(r.File)
	}
	if err != nil {
		return r.Ring.KeyIDs().Current, err
	}
	_ = keyfile.RemovePending(r.File) // the key file has the same, so what is left does no harm
	return current, nil
}
