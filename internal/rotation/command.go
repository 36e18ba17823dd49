package rotation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/clientcert"
	"github.com/openthreeds/threeds/internal/keyring"
	"github.com/openthreeds/threeds/internal/store"
)

const (
	// Within is how long a node may take to answer.
	Within = 30 * time.Second

	// leaseTTL is how long after its end a command that was killed keeps others out.
	leaseTTL = 15 * time.Second

	// askInterval is how often the store is asked what nodes say.
	askInterval = 200 * time.Millisecond

	// cleanUpTimeout is how long it may take to withdraw a secret.
	cleanUpTimeout = 10 * time.Second
)

// A Command rotates the secret of the key file on all nodes. Set all fields, and call Run.
type Command struct {
	Store  Store
	File   string        // the key file of this machine
	Ring   *keyring.Ring // what the key file holds
	By     string        // who calls
	Within time.Duration // how long a node may take to answer
	Say    func(format string, args ...any)
}

// A run is one run of a Command, under its lease.
type run struct {
	*Command
	lease   store.Lease
	history history
	ring    *keyring.Ring // the secrets that are in use
}

// Run rotates once, or completes a rotation that was cut off. When it returns nil each node that
// serves has confirmed, and all rows of API keys are sealed under the new secret. An error says
// whether anything has changed.
func (c *Command) Run(ctx context.Context) (err error) {
	holder := rand.Text()
	lease, err := c.Store.Acquire(ctx, leaseName, holder, leaseTTL)
	if errors.Is(err, store.ErrHeld) {
		return fmt.Errorf("key rotate: another rotation is under way; if its command was killed, try again in %v", leaseTTL)
	}
	if err != nil {
		return fmt.Errorf("key rotate: nothing has changed: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		c.renew(ctx, holder, cancel)
	}()
	defer func() {
		cancel(nil)
		<-renewed
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
		_ = c.Store.Release(ctx, lease) // else it ends by itself
	}()
	r := &run{Command: c, lease: lease}
	if err := r.rotate(ctx); err != nil {
		return fmt.Errorf("key rotate: %w", err)
	}
	return nil
}

// renew keeps the lease until ctx ends, and ends ctx when another has it.
func (c *Command) renew(ctx context.Context, holder string, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(leaseTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := c.Store.Acquire(ctx, leaseName, holder, leaseTTL); errors.Is(err, store.ErrHeld) {
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
		r.Say("withdrew the rotation that %s began at %s and did not end; its secret was never in use", by, begun.Format(time.RFC3339))
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
		return fmt.Errorf("it is not known whether the new secret is in use: run key rotate again, which completes or withdraws: %w", err)
	}
	if r.ring, err = r.ring.Follow(&s.Handover); err != nil {
		return err
	}
	return r.complete(ctx)
}

// offer makes a new secret and returns when each node that serves accepts what it makes. After an
// error there is none.
func (r *run) offer(ctx context.Context) error {
	current := r.ring.KeyIDs().Current
	late, err := r.await(ctx, func(n *node) bool { return n.Current == current && n.Next == "" })
	if err != nil {
		return err
	}
	if len(late) > 0 {
		return fmt.Errorf("not all nodes have the secrets of this machine's key file: %s (\"nodes that differ\" in the documentation)",
			strings.Join(late, ", "))
	}
	former := strings.Split(r.ring.KeyIDs().Previous, ",")
	h, err := r.ring.NewHandover(r.history.stay(former, time.Now()))
	if err != nil {
		return err
	}
	r.history = append(r.history, step{Handover: h, Phase: offered, By: r.By, Begun: time.Now().UTC().Truncate(time.Second)})
	err = r.history.write(ctx, r.Store, r.lease)
	if err == nil {
		late, err = r.await(ctx, func(n *node) bool { return n.Next == h.ID })
	}
	if err == nil && len(late) > 0 {
		err = fmt.Errorf("these nodes have not taken the new secret up within %v: %s", r.Within, strings.Join(late, ", "))
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

// withdraw removes the rotation that is not finished.
func (r *run) withdraw(ctx context.Context) error {
	r.history = r.history[:len(r.history)-1]
	return r.history.write(ctx, r.Store, r.lease)
}

// await waits until all nodes that serve are as they should be. It returns the names of those that
// are not within the time for that.
func (r *run) await(ctx context.Context, isGood func(*node) bool) (late []string, err error) {
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
		if len(late) == 0 || time.Since(start) >= r.Within {
			return late, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// complete returns when nothing that lasts is sealed under a former secret.
func (r *run) complete(ctx context.Context) error {
	current := r.ring.KeyIDs().Current
	late, err := r.await(ctx, func(n *node) bool { return n.Current == current })
	if err == nil {
		err = r.seal(ctx)
	}
	if err != nil {
		return fmt.Errorf("the new secret %s is in use; run key rotate again to complete the rotation: %w", current, err)
	}
	fileID := r.writeFile(current)
	if len(late) > 0 {
		return fmt.Errorf("the new secret %s is in use, and these nodes have not confirmed it within %v: %s; run key rotate again to complete the rotation",
			current, r.Within, strings.Join(late, ", "))
	}
	nodes, err := readNodes(ctx, r.Store)
	if err != nil {
		return fmt.Errorf("the new secret %s is in use; run key rotate again to complete the rotation: %w", current, err)
	}
	r.history.unfinished().Phase = done
	r.history.dropSecrets(nodes, fileID)
	if err := r.history.write(ctx, r.Store, r.lease); err != nil {
		return fmt.Errorf("the new secret %s is in use; run key rotate again to complete the rotation: %w", current, err)
	}
	nodes = slices.DeleteFunc(nodes, func(n node) bool { return !n.isLive() })
	for _, n := range nodes {
		if n.File != current {
			r.Say("%s cannot write its key file: put another node's in its place", n.Name)
		}
	}
	r.Say("done: secret %s is in use, confirmed by all %d nodes that serve", current, len(nodes))
	return nil
}

// seal seals all rows of API keys under the new secret.
func (r *run) seal(ctx context.Context) error {
	sealed, refused, err := account.Reseal(ctx, r.Store, r.ring)
	if err != nil {
		return err
	}
	if refused > 0 {
		r.Say("%d API keys are refused as before, and are not sealed under the new secret: see key list", refused)
	}
	r.Say("%d rows of API keys are sealed under the new secret", sealed)
	sealed, refused, err = clientcert.Reseal(ctx, r.Store, r.ring)
	if err != nil {
		return err
	}
	if refused > 0 {
		r.Say("client certificates that are refused as before, see cert status: directories %d", refused)
	}
	if sealed > 0 {
		r.Say("client certificates under the new secret: directories %d", sealed)
	}
	return nil
}

// writeFile replaces the key file of this machine, and returns the id of the current secret in it.
func (r *run) writeFile(current string) string {
	there, err := keyring.Load(r.File)
	if err == nil && there.KeyIDs().Current != current {
		err = r.ring.WriteFile(r.File)
	}
	if err != nil {
		r.Say("the key file of this machine is not replaced: put that of a node in its place: %v", err)
		return r.Ring.KeyIDs().Current
	}
	return current
}
