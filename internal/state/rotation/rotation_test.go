package rotation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A world is a store with API keys, and the nodes that serve with it. Its clock is that of a bubble.
type world struct {
	t     *testing.T
	store *storetest.Memory
	first string // the key file as it was made
	nodes []*testNode
	keys  int
	vault keyfile.Vault // seals key files
}

// A testNode is a follower with a key file of its own.
type testNode struct {
	*Follower
	file string
	ring atomic.Pointer[keyring.Ring] // in use
	stop func()
}

func newWorld(t *testing.T, keys int) *world {
	t.Helper()
	w := &world{t: t, store: storetest.NewMemory(time.Now), first: filepath.Join(t.TempDir(), "keys.json"), keys: keys}
	ring, err := keyring.LoadOrCreate(w.first)
	must(t, err)
	for i := range keys {
		_, err := account.Create(t.Context(), w.store, ring, fmt.Sprint("merchant ", i), false, account.Terms{})
		must(t, err)
	}
	return w
}

// copyFile returns a copy of the first key file.
func (w *world) copyFile() string {
	w.t.Helper()
	data, err := os.ReadFile(w.first)
	must(w.t, err)
	file := filepath.Join(w.t.TempDir(), "keys.json")
	must(w.t, os.WriteFile(file, data, 0o600))
	return file
}

// start starts a node with a key file.
func (w *world) start(name, file string) *testNode {
	w.t.Helper()
	ring, err := keyring.LoadIn(w.vault, file)
	must(w.t, err)
	return w.startWith(name, file, ring)
}

// startWith starts a node with the secrets that its key file had when it was read.
func (w *world) startWith(name, file string, ring *keyring.Ring) *testNode {
	w.t.Helper()
	n := &testNode{file: file}
	n.ring.Store(ring)
	n.Follower = NewFollower(w.store, file, name, ring, slog.New(slog.DiscardHandler), func(r *keyring.Ring) { n.ring.Store(r) }, func() {})
	n.Start(w.t.Context())
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Run(ctx)
	}()
	n.stop = func() {
		cancel()
		<-ended
	}
	w.nodes = append(w.nodes, n)
	return n
}

// stopAll ends all nodes: a bubble must have none in the end.
func (w *world) stopAll() {
	for _, n := range w.nodes {
		n.stop()
	}
	w.nodes = nil
}

// rotate runs the command with a key file, against a store that may fail.
func (w *world) rotate(st Store, file string) (said string, err error) {
	w.t.Helper()
	return w.rotateInto(st, file, "")
}

// rotateInto runs the command as rotate does, with a file for the option --write.
func (w *world) rotateInto(st Store, file, write string) (said string, err error) {
	w.t.Helper()
	ring, err := keyring.LoadIn(w.vault, file)
	must(w.t, err)
	var out strings.Builder
	c := Command{
		Store: st, File: file, Ring: ring, By: "tester", Within: Within, Write: write,
		Say: func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) },
		Reseals: []Reseal{{"directory with client certificates", "directories with client certificates",
			func(ctx context.Context, ring *keyring.Ring) (sealed, refused int, err error) {
				return clientcert.Reseal(ctx, w.store, ring)
			}}},
	}
	err = c.Run(w.t.Context())
	return out.String(), err
}

func fileIDs(t *testing.T, file string) keyring.KeyIDs {
	t.Helper()
	ring, err := keyring.Load(file)
	must(t, err)
	return ring.KeyIDs()
}

// wantSealed checks that all rows are sealed under a secret, and open.
func (w *world) wantSealed(ring *keyring.Ring, id string) {
	w.t.Helper()
	rows, err := w.store.Keys(w.t.Context())
	must(w.t, err)
	for _, row := range rows {
		if !account.IsSealed(ring, &row) || keyring.IDOfSeal(row.Seal) != id {
			w.t.Errorf("a row is sealed under %s, want %s, and open it does: %t", keyring.IDOfSeal(row.Seal), id, account.IsSealed(ring, &row))
		}
	}
	if len(rows) != w.keys {
		w.t.Errorf("%d rows, want %d", len(rows), w.keys)
	}
}

// wantSecretInStore checks whether a secret can still be had from the store.
func (w *world) wantSecretInStore(want bool) {
	w.t.Helper()
	h, err := readHistory(w.t.Context(), w.store)
	must(w.t, err)
	if got := len(h) > 0 && h[len(h)-1].Sealed != nil; got != want {
		w.t.Errorf("the secret is in the store: %t, want %t", got, want)
	}
}

// TestD102RotateReplacesTheSecretEverywhere: three rotations in a row with two nodes, each with a key
// file. What was made before each of them can still be read, all rows are resealed, all files have the new secret, and
// the store no longer has it.
func TestD102RotateReplacesTheSecretEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 20)
		defer w.stopAll()
		a, b := w.start("a", w.first), w.start("b", w.copyFile())
		var old [][]byte
		for range 3 {
			old = append(old, a.ring.Load().Seal("x", []byte("plain")))
			before := a.ring.Load().KeyIDs().Current
			start := time.Now()
			said, err := w.rotate(w.store, w.first)
			must(t, err)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %v, want that nodes take a secret up within 5 s", took)
			}
			ids := a.ring.Load().KeyIDs()
			if ids.Current == before || !strings.HasPrefix(ids.Previous, before) || ids.Next != "" {
				t.Errorf("in use is %+v after %s", ids, before)
			}
			if b.ring.Load().KeyIDs() != ids || fileIDs(t, a.file) != ids || fileIDs(t, b.file) != ids {
				t.Errorf("a runs with %+v, b with %+v; files: %+v, %+v", ids, b.ring.Load().KeyIDs(), fileIDs(t, a.file), fileIDs(t, b.file))
			}
			w.wantSealed(b.ring.Load(), ids.Current)
			w.wantSecretInStore(false)
			if !strings.Contains(said, "confirmed by all 2 nodes") || a.Problem() != "" {
				t.Errorf("said %q, problem %q", said, a.Problem())
			}
		}
		for i, sealed := range old {
			if got, err := b.ring.Load().Open("x", sealed); err != nil || string(got) != "plain" {
				t.Errorf("what was sealed before rotation %d: %q %v", i+1, got, err)
			}
		}
		w.stopAll()
		time.Sleep(needFormer + time.Hour)
		a = w.start("a", w.first)
		_, err := w.rotate(w.store, w.first)
		must(t, err)
		if ids := a.ring.Load().KeyIDs(); strings.Contains(ids.Previous, ",") {
			t.Errorf("45 days later the secrets are %+v, want one previous one", ids)
		}
	})
}

// TestD102ClientCertificatesAreSealedAnew: the keys of client certificates are sealed under the new secret when the
// command ends, and open with it.
func TestD102ClientCertificatesAreSealedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stopAll()
		node := w.start("a", w.first)
		certs := &clientcert.Service{Store: w.store, Sealer: node.ring.Load(), Now: time.Now}
		spec := clientcert.Spec{Curve: "P-256", Subject: "CN=3ds.example"}
		_, _, err := certs.Request(t.Context(), "visa", spec, func(_, _ clientcert.Status) error { return nil })
		must(t, err)
		said, err := w.rotate(w.store, w.first)
		must(t, err)
		row, err := w.store.Object(t.Context(), store.CertificateObjects, "visa")
		must(t, err)
		ring := node.ring.Load()
		if id := keyring.IDOfSeal(row.Data); id != ring.KeyIDs().Current {
			t.Errorf("the row is sealed under %s, want %s", id, ring.KeyIDs().Current)
		}
		certs.Sealer = ring
		if status, err := certs.Status(t.Context(), "visa"); err != nil || status.IsRefused || len(status.Requests) != 1 {
			t.Errorf("status %+v, %v", status, err)
		}
		if !strings.Contains(said, "sealed under the new secret: 1 API key, 0 merchants, 1 directory with client certificates\n") {
			t.Errorf("said %q", said)
		}
	})
}

// TestD102SilentNodeChangesNothing: if a node that serves does not answer, the command ends after 30 seconds and names
// it, and nothing is changed.
func TestD102SilentNodeChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		defer w.stopAll()
		a := w.start("a", w.first)
		silent := w.start("silent node", w.copyFile())
		silent.stop() // it polls no more, as a process that is stopped
		must(t, silent.tell(t.Context(), false))
		before := a.ring.Load().KeyIDs()
		start := time.Now()
		said, err := w.rotate(w.store, w.first)
		if err == nil || !strings.Contains(err.Error(), "within 30s: silent node (") || !strings.Contains(err.Error(), "nothing has changed") || said != "" {
			t.Errorf("%v, said %q", err, said)
		}
		if strings.Contains(fmt.Sprint(err), "a (heard") {
			t.Errorf("a node that has answered is named: %v", err)
		}
		if took := time.Since(start); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("took %v, want 30 s", took)
		}
		time.Sleep(2 * pollInterval)
		if a.ring.Load().KeyIDs() != before || fileIDs(t, w.first) != before {
			t.Errorf("in use is %+v and in the file %+v, want %+v", a.ring.Load().KeyIDs(), fileIDs(t, w.first), before)
		}
		w.wantSealed(a.ring.Load(), before.Current)
		if h, err := readHistory(t.Context(), w.store); err != nil || len(h) != 0 {
			t.Errorf("the store has %+v %v", h, err)
		}
		time.Sleep(liveFor)
		_, err = w.rotate(w.store, w.first)
		must(t, err)
	})
}

// TestD102NodesThatEndedAreNotWaitedFor: a node that ended in good order does not count; a node that was killed counts
// for a minute.
func TestD102NodesThatEndedAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stopAll()
		w.start("ended", w.copyFile()).stop()
		must(t, w.store.PutNode(t.Context(), store.Node{ID: "k", Name: "killed", Note: []byte(`{"current":"` + fileIDs(t, w.first).Current + `"}`)}))
		if _, err := w.rotate(w.store, w.first); err == nil || !strings.Contains(err.Error(), "killed") || strings.Contains(err.Error(), "ended") {
			t.Errorf("%v, want that killed has not answered, and no more", err)
		}
		time.Sleep(liveFor)
		_, err := w.rotate(w.store, w.first)
		must(t, err)
		w.wantSecretInStore(true)
	})
}

// TestD102NodeWithOldFileTakesTheSecretFromTheStore: a node that did not run, or cannot write its key file, gets the
// new secret when it starts, says so, and goes on, even after several rotations.
func TestD102NodeWithOldFileTakesTheSecretFromTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.stopAll()
		a := w.start("a", w.first)
		file := w.copyFile()
		w.start("b", file).stop()
		for range 2 {
			_, err := w.rotate(w.store, w.first)
			must(t, err)
		}
		ring, err := keyring.Load(file)
		must(t, err)
		b := w.startWith("b", filepath.Join(file, "cannot be written"), ring)
		if b.ring.Load().KeyIDs() != a.ring.Load().KeyIDs() {
			t.Errorf("b runs with %+v, want %+v", b.ring.Load().KeyIDs(), a.ring.Load().KeyIDs())
		}
		w.wantSealed(b.ring.Load(), a.ring.Load().KeyIDs().Current)
		if !strings.Contains(b.Problem(), "could not be replaced") {
			t.Errorf("problem: %q", b.Problem())
		}
		time.Sleep(time.Minute)
		w.wantSecretInStore(true)
		synctest.Wait()
		b.SetFile(b.base) // as if the file had been replaced by hand
		time.Sleep(time.Minute)
		w.wantSecretInStore(false)
		if b.Problem() != "" {
			t.Errorf("problem: %q", b.Problem())
		}
	})
}

// TestD102OldFileIsNamedWhenTheSecretIsGone: a node whose key file is from before a rotation, and for which the store
// no longer has the secret, says so.
func TestD102OldFileIsNamedWhenTheSecretIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stopAll()
		w.start("a", w.first)
		file := w.copyFile()
		_, err := w.rotate(w.store, w.first)
		must(t, err)
		b := w.start("b", file)
		if !strings.Contains(b.Problem(), "is from before the rotation of 20") {
			t.Errorf("problem: %q", b.Problem())
		}
		if _, err := w.rotate(w.store, file); err == nil || !strings.Contains(err.Error(), "is from before the rotation of 20") {
			t.Errorf("a command with this file: %v", err)
		}
	})
}

// errKilled is what a store answers to a process that is no more.
var errKilled = errors.New("killed")

// A mortalStore fails for ever after some writes, as if the process had been killed.
type mortalStore struct {
	*storetest.Memory
	left int
}

func (s *mortalStore) write(do func() error) error {
	if s.left == 0 {
		return errKilled
	}
	s.left--
	return do()
}

func (s *mortalStore) PutState(ctx context.Context, key string, value []byte, l store.Lease) error {
	return s.write(func() error { return s.Memory.PutState(ctx, key, value, l) })
}

func (s *mortalStore) ResealKey(ctx context.Context, hash, was, seal []byte) error {
	return s.write(func() error { return s.Memory.ResealKey(ctx, hash, was, seal) })
}

func (s *mortalStore) Release(ctx context.Context, l store.Lease) error {
	return s.write(func() error { return s.Memory.Release(ctx, l) })
}

func (s *mortalStore) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (l store.Lease, err error) {
	err = s.write(func() (err error) {
		l, err = s.Memory.Acquire(ctx, name, holder, ttl)
		return err
	})
	return l, err
}

// TestD102KilledCommandIsWithdrawnOrCompleted kills the command after each of its writes. The next one
// is refused until the lease of the first is over. Then it withdraws or completes, and says which. In the end all nodes
// have the same secrets, and all rows are sealed under them.
func TestD102KilledCommandIsWithdrawnOrCompleted(t *testing.T) {
	said := make(map[string]int)
	for writes := 1; ; writes++ {
		ended := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 3)
			defer w.stopAll()
			a, b := w.start("a", w.first), w.start("b", w.copyFile())
			before := a.ring.Load().KeyIDs()
			old := a.ring.Load().Seal("x", nil)
			first, err := w.rotate(&mortalStore{w.store, writes}, w.first)
			if ended = err == nil; ended {
				return
			}
			if _, err := w.rotate(w.store, w.first); err == nil || !strings.Contains(err.Error(), "a rotation is under way") {
				t.Errorf("%d writes: a second command while the first has its lease: %v (%s)", writes, err, first)
			}
			time.Sleep(leaseTTL)
			text, err := w.rotate(w.store, w.first)
			must(t, err)
			what, _, _ := strings.Cut(text, " ")
			said[what]++
			ids := a.ring.Load().KeyIDs()
			if ids != b.ring.Load().KeyIDs() || ids != fileIDs(t, a.file) || ids != fileIDs(t, b.file) || ids.Current == before.Current || ids.Next != "" {
				t.Errorf("%d writes: a runs with %+v, b with %+v", writes, ids, b.ring.Load().KeyIDs())
			}
			if strings.Contains(ids.Previous, ",") {
				t.Errorf("%d writes: there were two rotations: %+v", writes, ids)
			}
			w.wantSealed(b.ring.Load(), ids.Current)
			w.wantSecretInStore(false)
			if _, err := b.ring.Load().Open("x", old); err != nil {
				t.Errorf("%d writes: what was sealed before: %v", writes, err)
			}
		})
		if ended || t.Failed() {
			break
		}
	}
	if said["withdrew"] == 0 || said["completing"] == 0 {
		t.Errorf("the second commands began with %v, want some withdrew and some completing", said)
	}
}

// TestD102NodeThatStartsInBetweenIsWaitedFor: a node that starts while the others confirm has the
// secret before it comes into use.
func TestD102NodeThatStartsInBetweenIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stopAll()
		a := w.start("a", w.first)
		file := w.copyFile()
		done := make(chan error)
		go func() {
			_, err := w.rotate(w.store, w.first)
			done <- err
		}()
		time.Sleep(askInterval)
		b := w.start("b", file)
		if b.ring.Load().KeyIDs().Next == "" && b.ring.Load().KeyIDs().Previous == "" {
			t.Errorf("b starts with %+v, want the new secret", b.ring.Load().KeyIDs())
		}
		must(t, <-done)
		time.Sleep(2 * pollInterval)
		if a.ring.Load().KeyIDs() != b.ring.Load().KeyIDs() {
			t.Errorf("a runs with %+v, b with %+v", a.ring.Load().KeyIDs(), b.ring.Load().KeyIDs())
		}
	})
}

// TestD102NextSecretByHandIsRefused: a node in the middle of a rotation by hand is named, and so is a node with other
// secrets.
func TestD102NextSecretByHandIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stopAll()
		other := filepath.Join(t.TempDir(), "keys.json")
		_, err := keyring.LoadOrCreate(other)
		must(t, err)
		w.start("stranger", other)
		if _, err := w.rotate(w.store, w.first); err == nil || !strings.Contains(err.Error(), "stranger") || !strings.Contains(err.Error(), "nothing has changed") {
			t.Errorf("%v", err)
		}
	})
}

// TestD102SecretIsNowhereInTheClear: neither the store nor what is said has the new secret.
func TestD102SecretIsNowhereInTheClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stopAll()
		must(t, w.store.PutNode(t.Context(), store.Node{ID: "x", Name: "x", Note: []byte(`{"isStopped":true}`)}))
		said, err := w.rotate(w.store, w.first)
		must(t, err)
		value, err := w.store.State(t.Context(), stateKey)
		must(t, err)
		content, err := os.ReadFile(w.first)
		must(t, err)
		secret := strings.Split(string(content), `"`)[3]
		if !strings.Contains(string(value), `"sealed"`) || len(secret) != 44 {
			t.Fatalf("the store has %s", value)
		}
		if strings.Contains(string(value)+said, secret) {
			t.Error("the secret is in the store or was printed")
		}
	})
}

// A wrapper wraps keys by an XOR, which is enough to tell what is wrapped.
type wrapper byte

func (w wrapper) Wrap(_ string, key []byte, _ string) ([]byte, error) {
	wrapped := bytes.Clone(key)
	for i := range wrapped {
		wrapped[i] ^= byte(w)
	}
	return wrapped, nil
}

func (w wrapper) Unwrap(label string, wrapped []byte, context string) ([]byte, error) {
	return w.Wrap(label, wrapped, context)
}

// TestO1RotationLeavesSecretsWrapped: where key files are wrapped, the command and the nodes write none in the clear:
// not the key file, what waits to replace it, nor that of --write.
func TestO1RotationLeavesSecretsWrapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stopAll()
		w.vault = keyfile.Vault{Wrapper: wrapper(0x5a), Label: "hsm"}
		_, err := w.vault.Rewrap(w.first, keyring.Context)
		must(t, err)
		a := w.start("a", w.copyFile())
		before, write, pending := a.ring.Load().KeyIDs(), filepath.Join(t.TempDir(), "written.json"), 0
		var files []string
		check := func(string) {
			files = files[:0]
			for _, file := range []string{w.first, w.first + ".new", a.file, a.file + ".new", write} {
				data, err := os.ReadFile(file)
				if err != nil {
					continue
				}
				if files = append(files, file); strings.HasSuffix(file, ".new") {
					pending++
				}
				if !bytes.Contains(data, []byte(`"wrapped_by": "hsm"`)) || bytes.Contains(data, []byte("current")) {
					t.Errorf("%s has %s", file, data)
				}
			}
		}
		_, err = w.rotateInto(&watchedStore{Store: w.store, used: check}, w.first, write)
		must(t, err)
		check("")
		for _, file := range files {
			ring, err := keyring.LoadIn(w.vault, file)
			if must(t, err); ring.KeyIDs().Current == before.Current || ring.KeyIDs().Current != a.ring.Load().KeyIDs().Current {
				t.Errorf("%s has %+v, in use is %+v", file, ring.KeyIDs(), a.ring.Load().KeyIDs())
			}
		}
		if len(files) != 3 || pending == 0 {
			t.Errorf("in the end there are %q; %d files were pending", files, pending)
		}
	})
}

// A watchedStore counts the writes of rotations, and calls used just before a secret comes into use.
type watchedStore struct {
	Store
	used   func(id string)
	writes int
}

func (s *watchedStore) PutState(ctx context.Context, key string, value []byte, l store.Lease) error {
	var h history
	if s.writes++; key == stateKey && json.Unmarshal(value, &h) == nil && len(h) > 0 && h[len(h)-1].Phase == inUse {
		s.used(h[len(h)-1].ID)
	}
	return s.Store.PutState(ctx, key, value, l)
}
