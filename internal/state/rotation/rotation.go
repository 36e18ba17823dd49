// Package rotation replaces the secret of the key file on all nodes that share a store. Use
// [Command] to do it, a [Follower] in each process that serves, and [Extend] in a command that
// reads a key file.
//
// For that, the new secret is put into the store, sealed under the present one: see [keyring.Handover]. First every
// live node accepts what is made with it, and says so in the store. This machine and every node that can write its key
// file also keep the secret next to the key file, as [keyfile.WritePending] does, and say so too. All nodes use the
// secret only when one of these files has it, or the file that the field Write of [Command] names. So a secret in use
// is always in a file, wherever a process or a machine dies. Then the key files are replaced.
//
// A node that cannot write its key file reads the secret from the store again whenever it starts. So the secret stays
// there as long as a node that was seen in the last week has an older key file. The rotation is complete when no node
// that serves has an older one.
package rotation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/cluster"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	// stateKey and leaseName are the names of what the store keeps of rotations. A backup has the state.
	stateKey  = store.RotationState
	leaseName = "key rotation"

	// maxSteps is how many rotations are remembered.
	maxSteps = 100

	// liveFor is how long after its last word a node counts as one that serves.
	liveFor = time.Minute

	// rememberFor is how long after its last word the key file of a node counts.
	rememberFor = 7 * 24 * time.Hour

	// needFormer is how long a secret may be needed after it was replaced. The data that lives longest and is not
	// resealed is the event at the end of a challenge of a week, which is kept for 30 days.
	needFormer = 45 * 24 * time.Hour
)

// A Store is what rotations need of a store.
type Store interface {
	store.Leases
	store.States
	store.Nodes
	account.ResealStore
}

// A phase is how far a rotation has come.
type phase string

const (
	offered phase = "offered" // nodes accept the new secret
	inUse   phase = "in use"  // nodes make things with it
	done    phase = "done"    // nothing long-lived is sealed under the previous one
)

// A step is one rotation. An attacker who can write to the store can change its phase, but cannot make a step.
type step struct {
	keyring.Handover

	Phase  phase     `json:"phase"`
	By     string    `json:"by"` // who began it
	Begun  time.Time `json:"begun"`
	UsedAt time.Time `json:"usedAt,omitzero"` // when the new secret came into use
}

// A history is the rotations that the store knows, the newest last. All but the last are done.
type history []step

func readHistory(ctx context.Context, st store.States) (history, error) {
	data, err := st.State(ctx, stateKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	var h history
	if err == nil {
		err = json.Unmarshal(data, &h)
	}
	if err != nil {
		return nil, fmt.Errorf("rotation: read: %w", err)
	}
	return h, nil
}

func (h history) write(ctx context.Context, st store.States, lease store.Lease) error {
	data, err := json.Marshal(h[max(0, len(h)-maxSteps):])
	if err == nil {
		err = st.PutState(ctx, stateKey, data, lease)
	}
	if err != nil {
		return fmt.Errorf("rotation: write: %w", err)
	}
	return nil
}

// unfinished returns the rotation that is under way or was cut off, nil if there is none.
func (h history) unfinished() *step {
	if len(h) == 0 || h[len(h)-1].Phase == done {
		return nil
	}
	return &h[len(h)-1]
}

// extend returns a ring that has followed all rotations from its current secret on, and a ring that also accepts a
// secret that is offered. After an error both have followed the rotations before it.
func (h history) extend(ring *keyring.Ring) (followed, accepts *keyring.Ring, err error) {
	followed, accepts = ring, ring
	for i := range h {
		s := &h[i]
		if s.From != followed.KeyIDs().Current {
			continue
		}
		if s.Phase == offered {
			next, err := followed.Accept(&s.Handover)
			if err != nil {
				return followed, accepts, err
			}
			accepts = next
			continue
		}
		next, err := followed.Follow(&s.Handover)
		if errors.Is(err, keyring.ErrHandoverGone) {
			err = fmt.Errorf(
				"the key file (keys) is from before the rotation of %s: put the one of a node that serves in its place",
				s.UsedAt.Format(time.RFC3339))
		}
		if err != nil {
			return followed, accepts, err
		}
		followed, accepts = next, next
	}
	return followed, accepts, nil
}

// stay returns the ids of the previous secrets of a ring that may still be needed. It decides by the time when each
// secret was replaced. If the history does not know that time, it was earlier than that of the next newer secret.
func (h history) stay(former []string, now time.Time) (ids []string) {
	until := now
	for _, id := range former {
		for _, s := range h {
			if s.From == id && !s.UsedAt.IsZero() {
				until = s.UsedAt
			}
		}
		if now.Sub(until) < needFormer {
			ids = append(ids, id)
		}
	}
	return ids
}

// dropSecrets removes secrets from the history if all key files have them: those of the nodes, and that of the caller,
// whose current secret has the id fileID. It reports whether it did.
func (h history) dropSecrets(nodes []node, fileID string) bool {
	if len(h) == 0 || h.unfinished() != nil || fileID != h[len(h)-1].ID {
		return false
	}
	for _, n := range nodes {
		if n.Age < rememberFor && n.File != fileID {
			return false
		}
	}
	dropped := false
	for i := range h {
		dropped = dropped || h[i].Sealed != nil
		h[i].Sealed = nil
	}
	return dropped
}

// A node is what one tells the others of its secrets.
type node struct {
	store.Node `json:"-"`
	cluster.Note

	Current string     `json:"current"`           // id of the secret that it makes things with
	Next    string     `json:"next,omitempty"`    // id of the one that it accepts before it is in use
	Access  fileAccess `json:"access,omitempty"`  // to its key file; "" from a release that does not tell
	Pending string     `json:"pending,omitempty"` // id of the secret that it keeps next to its key file
}

// A fileAccess says whether a node can replace its key file.
type fileAccess string

const (
	writable fileAccess = "writable"
	readOnly fileAccess = "read-only"
)

func (n *node) isLive() bool { return !n.IsStopped && n.Age < liveFor }

// keeps reports whether a secret is in a file of the node.
func (n *node) keeps(id string) bool { return n.File == id || n.Pending == id }

// readNodes returns all nodes that the store knows.
func readNodes(ctx context.Context, st store.Nodes) ([]node, error) {
	rows, err := st.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("rotation: nodes: %w", err)
	}
	all := make([]node, 0, len(rows))
	for _, row := range rows {
		var n node
		if err := json.Unmarshal(row.Note, &n); err != nil {
			return nil, fmt.Errorf("rotation: node %q: %w", row.Name, err)
		}
		n.Node = row
		all = append(all, n)
	}
	return all, nil
}

// Merge returns the rotations of a store that a backup is restored into: those that the store knows, and those of the
// backup. Both are values of [store.RotationState]; nil means none. So a key file from before any of these rotations
// opens what the backup has, and so does a later one. A rotation that was only offered is left out, for its secret was
// never in use.
func Merge(present, restored []byte) ([]byte, error) {
	var merged history
	for _, data := range [][]byte{restored, present} {
		var h history
		if data == nil {
			continue
		}
		if err := json.Unmarshal(data, &h); err != nil {
			return nil, fmt.Errorf("rotation: merge: %w", err)
		}
		for _, s := range h {
			i := slices.IndexFunc(merged, func(other step) bool { return other.ID == s.ID && other.From == s.From })
			switch {
			case s.Phase == offered:
			case i < 0:
				merged = append(merged, s)
			default:
				if s.Sealed == nil {
					s.Sealed = merged[i].Sealed
				}
				if merged[i].Phase == done {
					s.Phase = done
				}
				merged[i] = s
			}
		}
	}
	slices.SortStableFunc(merged, func(a, b step) int { return a.UsedAt.Compare(b.UsedAt) })
	for i := range max(0, len(merged)-1) {
		merged[i].Phase = done
	}
	return json.Marshal(merged[max(0, len(merged)-maxSteps):])
}

// A MissingError says that a secret is in use that a key file lacks.
type MissingError struct {
	ID   string // of the secret
	From string // id of the key file's secret under which the store keeps it; "" means that the store no longer has it
}

func (e *MissingError) Error() string {
	if e.From == "" {
		return fmt.Sprintf("the secret %s is in use, and neither the key file nor the store has it for this key file", e.ID)
	}
	return fmt.Sprintf("the secret %s is in use, and the key file lacks it: the store has it, sealed under secret %s",
		e.ID, e.From)
}

// CheckFile returns a [*MissingError] if a secret is in use that the key file of a ring lacks, as
// far as rotations tell.
func CheckFile(ctx context.Context, st store.States, ring *keyring.Ring) error {
	h, err := readHistory(ctx, st)
	if err != nil {
		return err
	}
	file := ring.KeyIDs().Current
	followed, _, err := h.extend(ring)
	if current := followed.KeyIDs().Current; err == nil && current == file {
		return nil
	} else if err == nil {
		return &MissingError{ID: current, From: file}
	}
	last := h[len(h)-1]
	if last.Phase == offered && len(h) > 1 {
		last = h[len(h)-2]
	}
	return &MissingError{ID: last.ID}
}

// Extend returns the ring of a key file with the secrets that have come into use since, which it reads from the store.
func Extend(ctx context.Context, st store.States, ring *keyring.Ring) (*keyring.Ring, error) {
	h, err := readHistory(ctx, st)
	if err != nil {
		return nil, err
	}
	followed, _, err := h.extend(ring)
	return followed, err
}
