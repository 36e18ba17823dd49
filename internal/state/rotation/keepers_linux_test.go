package rotation

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/state/keyring"
)

// longestPath is the length of the longest path that Linux takes.
const longestPath = 4095

// readOnlyCopy returns a copy of the first key file that can be read and not replaced, as in a Secret of Kubernetes.
// Its path is as long as a path can be, so no file can be made next to it. Mode bits would not stop root.
func (w *world) readOnlyCopy() string {
	w.t.Helper()
	const name = "/k"
	dir := w.t.TempDir()
	for room := longestPath - len(name) - len(dir); room > 0; room = longestPath - len(name) - len(dir) {
		n := min(room-1, 200)
		if room-1-n == 1 {
			n-- // a slash alone is no folder
		}
		dir += "/" + strings.Repeat("d", n)
		must(w.t, os.Mkdir(dir, 0o700))
	}
	data, err := os.ReadFile(w.first)
	must(w.t, err)
	file := dir + name
	must(w.t, os.WriteFile(file, data, 0o600))
	if err := keyfile.CheckReplace(file); err == nil {
		w.t.Fatalf("the file with a path of %d bytes can be replaced", len(file))
	}
	return file
}

// replaceInPlace does what Kubernetes does with a Secret: the node finds another key file in the place of its own.
func (n *testNode) replaceInPlace(t *testing.T, with string) {
	t.Helper()
	data, err := os.ReadFile(with)
	must(t, err)
	must(t, os.WriteFile(n.file, data, 0o600))
	ring, err := keyring.Load(n.file)
	must(t, err)
	n.SetFile(ring)
}

func (w *world) history() history {
	w.t.Helper()
	h, err := readHistory(w.t.Context(), w.store)
	must(w.t, err)
	return h
}

// keptIn returns which files have a secret as their current one. The file next to a key file counts as one of them.
func keptIn(id string, files ...string) (with []string) {
	for _, file := range files {
		for _, path := range []string{file, file + ".new"} {
			if ring, err := keyring.Load(path); err == nil && ring.KeyIDs().Current == id {
				with = append(with, path)
			}
		}
	}
	return with
}

// TestO1RotateIsRefusedWhereNoFileKeepsTheSecret: if neither this machine nor any node can replace its key file, the
// command ends and says what to do, and nothing has changed. One node that can is enough, and so is --write.
func TestO1RotateIsRefusedWhereNoFileKeepsTheSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		defer w.stopAll()
		a := w.start("a", w.readOnlyCopy())
		before := a.ring.Load().KeyIDs()
		watched := &watchedStore{Store: w.store}
		said, err := w.rotate(watched, w.readOnlyCopy())
		if watched.writes > 0 {
			t.Errorf("a secret was offered: %d writes", watched.writes)
		}
		if err == nil || !strings.Contains(err.Error(), "--write FILE") || !strings.Contains(err.Error(), "nothing has changed") || said != "" {
			t.Errorf("%v, said %q", err, said)
		}
		time.Sleep(2 * pollInterval)
		if a.ring.Load().KeyIDs() != before || len(w.history()) > 0 {
			t.Errorf("in use is %+v, want %+v; the store has %+v", a.ring.Load().KeyIDs(), before, w.history())
		}
		w.wantSealed(a.ring.Load(), before.Current)
		there := filepath.Join(t.TempDir(), "there.json")
		must(t, os.WriteFile(there, []byte("mine"), 0o600))
		for _, write := range []string{there, filepath.Join(t.TempDir(), "nowhere", "keys.json"), w.first} {
			if _, err := w.rotateInto(w.store, w.readOnlyCopy(), write); err == nil || !strings.Contains(err.Error(), "--write: ") ||
				!strings.Contains(err.Error(), "nothing has changed") || len(w.history()) > 0 {
				t.Errorf("--write %s: %v", write, err)
			}
		}
		if data, err := os.ReadFile(there); err != nil || string(data) != "mine" {
			t.Errorf("the file that was there has %q, %v", data, err)
		}
	})
}

// TestO1NodesTellWhetherTheyCanReplaceTheirKeyFile: a node finds it out by itself when it starts, and again later.
func TestO1NodesTellWhetherTheyCanReplaceTheirKeyFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stopAll()
		dir := t.TempDir()
		late := filepath.Join(dir, "late", "keys.json")
		ring, err := keyring.Load(w.first)
		must(t, err)
		w.start("reads", w.readOnlyCopy())
		w.start("writes", w.copyFile())
		w.startWith("late", late, ring)
		want := func(access map[string]fileAccess) {
			t.Helper()
			nodes, err := readNodes(t.Context(), w.store)
			must(t, err)
			for _, n := range nodes {
				if n.Access != access[n.Name] {
					t.Errorf("%s says %q, want %q", n.Name, n.Access, access[n.Name])
				}
			}
			if len(nodes) != len(access) {
				t.Errorf("%d nodes, want %d", len(nodes), len(access))
			}
		}
		want(map[string]fileAccess{"reads": readOnly, "writes": writable, "late": readOnly})
		must(t, os.Rename(filepath.Dir(w.copyFile()), filepath.Dir(late)))
		time.Sleep(accessInterval + 2*pollInterval)
		want(map[string]fileAccess{"reads": readOnly, "writes": writable, "late": writable})
		if files, err := os.ReadDir(filepath.Dir(late)); err != nil || len(files) != 1 {
			t.Errorf("finding it out has left %v, %v", files, err)
		}
	})
}

// TestO1SecretIsInAFileBeforeItIsInUse: every node that can keep the secret has it in a file when it comes into use,
// together with all secrets in use. Afterwards the key files have it, and nothing is left next to them.
func TestO1SecretIsInAFileBeforeItIsInUse(t *testing.T) {
	for name, test := range map[string]struct{ here, node, write bool }{
		"this machine alone": {here: true}, "a node alone": {node: true}, "--write alone": {write: true}, "all": {true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				defer w.stopAll()
				here, file, write := w.readOnlyCopy(), w.readOnlyCopy(), ""
				var keepers []string
				if test.here {
					here = w.first
					keepers = append(keepers, here)
				}
				if test.node {
					file = w.copyFile()
					keepers = append(keepers, file)
				}
				if test.write {
					write = filepath.Join(t.TempDir(), "written.json")
					keepers = append(keepers, write)
				}
				a := w.start("a", file)
				before := a.ring.Load().KeyIDs()
				var kept []string
				_, err := w.rotateInto(&watchedStore{Store: w.store, used: func(id string) {
					if kept == nil {
						kept = keptIn(id, keepers...)
					}
				}}, here, write)
				if (err == nil) != test.node {
					t.Errorf("%v; the key file of the node is written: %t", err, test.node)
				}
				if len(kept) != len(keepers) {
					t.Errorf("when it came into use the secret was in %v, want one for each of %v", kept, keepers)
				}
				id := w.history()[0].ID
				if got := keptIn(id, keepers...); !slices.Equal(got, keepers) {
					t.Errorf("in the end the secret is in %v, want %v", got, keepers)
				}
				for _, file := range keepers {
					if ids := fileIDs(t, file); ids.Previous != before.Current {
						t.Errorf("%s has %+v, want %s as previous", file, ids, before.Current)
					}
				}
			})
		})
	}
}

// TestO1KilledCommandLosesNoSecret kills the command after each of its writes to the store, where no key file can be
// replaced. If a secret is in use by then, it is in the file of --write. The next command, with a file of its own as in
// another Pod, withdraws or completes, and its file has the secret.
func TestO1KilledCommandLosesNoSecret(t *testing.T) {
	for writes := 1; ; writes++ {
		ended := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2)
			defer w.stopAll()
			here := w.readOnlyCopy()
			a := w.start("a", w.readOnlyCopy())
			dir := t.TempDir()
			first, second := filepath.Join(dir, "first.json"), filepath.Join(dir, "second.json")
			_, err := w.rotateInto(&mortalStore{w.store, writes}, here, first)
			h := w.history()
			if len(h) > 0 && h[0].Phase != offered && keptIn(h[0].ID, first) == nil {
				t.Errorf("%d writes: the secret %s is in use, and not in the file: %v", writes, h[0].ID, err)
			}
			if ended = !errors.Is(err, errKilled); ended {
				return
			}
			time.Sleep(leaseTTL)
			_, err = w.rotateInto(w.store, here, second)
			h = w.history()
			if err == nil || len(h) != 1 || h[0].Phase != inUse || keptIn(h[0].ID, second) == nil || !strings.Contains(err.Error(), "only in memory") {
				t.Errorf("%d writes: %v; the store has %+v", writes, err, h)
			}
			w.wantSealed(a.ring.Load(), h[0].ID)
			a.replaceInPlace(t, second)
			must(t, os.Remove(second))
			time.Sleep(2 * pollInterval)
			_, err = w.rotate(w.store, a.file)
			must(t, err)
		})
		if ended || t.Failed() {
			break
		}
	}
}

// TestO1RotationIsUnfinishedWhileANodeHasTheSecretInMemoryAlone: the command fails and names the nodes that have an
// older key file, however often it is run, and begins no other rotation. It succeeds when every node has another key
// file.
func TestO1RotationIsUnfinishedWhileANodeHasTheSecretInMemoryAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.stopAll()
		here := w.readOnlyCopy()
		a, b := w.start("node a", w.readOnlyCopy()), w.start("node b", w.readOnlyCopy())
		w.start("stopped", w.readOnlyCopy()).stop()
		written := filepath.Join(t.TempDir(), "keys.json")
		wantFailure := func(write string, texts ...string) {
			t.Helper()
			_, err := w.rotateInto(w.store, here, write)
			for _, text := range append(texts, "only in memory", "run key rotate again") {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%v, want %q", err, text)
				}
			}
			if h := w.history(); len(h) != 1 || h[0].Phase != inUse {
				t.Errorf("the store has %+v", h)
			}
			if err != nil && strings.Contains(err.Error(), "stopped") {
				t.Errorf("a node that does not serve is named: %v", err)
			}
		}
		wantFailure(written, "node a, node b", written)
		id := w.history()[0].ID
		w.wantSealed(a.ring.Load(), id)
		wantFailure(written, "node a, node b")
		wantFailure("", "node a, node b", "--write FILE")
		a.replaceInPlace(t, written)
		time.Sleep(2 * pollInterval)
		wantFailure("", "only in memory, because their key file is an older one: node b;", "the key file of node a")
		b.replaceInPlace(t, written)
		time.Sleep(2 * pollInterval)
		said, err := w.rotate(w.store, here)
		must(t, err)
		if !strings.Contains(said, "the key file of this machine is not replaced") || !strings.Contains(said, "confirmed by all 2 nodes") {
			t.Errorf("said %q", said)
		}
		if h := w.history(); len(h) != 1 || h[0].Phase != done || a.ring.Load().KeyIDs().Current != id || b.Problem() != "" {
			t.Errorf("in use is %+v, want %s; the store has %+v; problem %q", a.ring.Load().KeyIDs(), id, h, b.Problem())
		}
	})
}

// TestO1WithdrawnRotationLeavesNoFile: when a node does not answer, neither the file of --write nor a file next to a
// key file is left, on any machine.
func TestO1WithdrawnRotationLeavesNoFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stopAll()
		a := w.start("a", w.copyFile())
		silent := w.start("silent node", w.copyFile())
		silent.stop()
		must(t, silent.tell(t.Context(), false))
		written := filepath.Join(t.TempDir(), "written.json")
		go func() {
			time.Sleep(5 * time.Second)
			h := w.history()
			if len(h) != 1 || len(keptIn(h[0].ID, w.first, a.file, written)) != 3 {
				t.Errorf("while it is offered the secret of %+v is in %v", h, keptIn(h[0].ID, w.first, a.file, written))
			}
		}()
		if _, err := w.rotateInto(w.store, w.first, written); err == nil || !strings.Contains(err.Error(), "nothing has changed") {
			t.Errorf("%v", err)
		}
		time.Sleep(2 * pollInterval)
		for _, file := range []string{w.first + ".new", a.file + ".new", written} {
			if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v, want that it is gone", file, err)
			}
		}
	})
}

// TestO1LeftoverFileDoesNoHarm: whatever is left next to a key file, nodes and the command work, and it is gone
// afterwards.
func TestO1LeftoverFileDoesNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stopAll()
		other := filepath.Join(t.TempDir(), "other.json")
		_, err := keyring.LoadOrCreate(other)
		must(t, err)
		secret, err := os.ReadFile(other)
		must(t, err)
		for _, content := range []string{"", "no key file", string(secret)} {
			file := w.copyFile()
			must(t, os.WriteFile(w.first+".new", []byte(content), 0o600))
			must(t, os.WriteFile(file+".new", []byte(content), 0o600))
			a := w.start("a", file)
			_, err := w.rotate(w.store, w.first)
			must(t, err)
			time.Sleep(2 * pollInterval)
			if fileIDs(t, file) != fileIDs(t, w.first) || a.ring.Load().KeyIDs() != fileIDs(t, file) || a.Problem() != "" {
				t.Errorf("in use is %+v, in the files %+v and %+v; problem %q", a.ring.Load().KeyIDs(), fileIDs(t, file), fileIDs(t, w.first), a.Problem())
			}
			for _, file := range []string{w.first, file} {
				if _, err := os.Stat(file + ".new"); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%q is left: %v", content, err)
				}
			}
			w.stopAll()
		}
	})
}

// TestO1NodeKeepsWhatIsOnlyBesideItsKeyFile: a node that died before it replaced its key file has the secret in a file
// next to it. That file is not removed while the key file lacks the secret.
func TestO1NodeKeepsWhatIsOnlyBesideItsKeyFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stopAll()
		file := w.copyFile()
		_, err := w.rotate(w.store, w.first)
		must(t, err)
		data, err := os.ReadFile(w.first)
		must(t, err)
		must(t, os.WriteFile(file+".new", data, 0o600))
		h := w.history()
		h[0].Sealed = nil // as if all nodes had it
		lease, err := w.store.Acquire(t.Context(), leaseName, "tester", time.Minute)
		must(t, err)
		must(t, h.write(t.Context(), w.store, lease))
		a := w.start("a", file)
		time.Sleep(2 * pollInterval)
		if got, err := os.ReadFile(file + ".new"); err != nil || string(got) != string(data) || a.Problem() == "" {
			t.Errorf("beside the key file is %d bytes, %v, want %d; problem %q", len(got), err, len(data), a.Problem())
		}
	})
}

// TestO1MergeKeepsWhatEitherHas: a store that has rotated since the backup goes on where it was, even for a key file
// from before the backup. If the backup is later than the store, its rotations are followed.
func TestO1MergeKeepsWhatEitherHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stopAll()
		old, err := keyring.Load(w.first)
		must(t, err)
		w.start("a", w.copyFile()).stop() // for a week the store keeps the secrets for it
		var states [][]byte
		states = append(states, nil)
		for range 3 {
			_, err := w.rotate(w.store, w.first)
			must(t, err)
			state, err := w.store.State(t.Context(), stateKey)
			must(t, err)
			states = append(states, state)
			time.Sleep(2 * time.Second)
		}
		offer := w.history()
		next, err := keyring.Load(w.first)
		must(t, err)
		h, err := next.NewHandover(nil)
		must(t, err)
		withOffer, err := json.Marshal(append(offer, step{Handover: h, Phase: offered}))
		must(t, err)
		dropped := w.history()
		for i := range dropped {
			dropped[i].Sealed = nil
		}
		withoutSecrets, err := json.Marshal(dropped)
		must(t, err)
		for name, pair := range map[string][2][]byte{
			"an empty store": {nil, states[3]}, "an older backup": {states[3], states[1]}, "a backup without rotations": {states[3], nil},
			"a later backup": {states[1], states[3]}, "an offered secret": {withOffer, withOffer}, "secrets in the backup alone": {withoutSecrets, states[3]},
			"secrets in the store alone": {states[3], withoutSecrets},
		} {
			merged, err := Merge(pair[0], pair[1])
			must(t, err)
			var got history
			must(t, json.Unmarshal(merged, &got))
			followed, accepts, err := got.extend(old)
			must(t, err)
			if followed.KeyIDs().Current != next.KeyIDs().Current || accepts != followed || len(got) != 3 || got.unfinished() != nil {
				t.Errorf("%s: the first key file leads to %+v, want %+v", name, followed.KeyIDs(), next.KeyIDs())
			}
		}
	})
}

// TestO1NodeWithTheKeyFileOfThisMachineIsWaitedFor: if the command replaces the key file of a node that cannot do so
// itself, the node has some time to notice.
func TestO1NodeWithTheKeyFileOfThisMachineIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stopAll()
		a := w.start("a", w.readOnlyCopy())
		before := fileIDs(t, w.first)
		found := make(chan struct{})
		go func() {
			defer close(found)
			for fileIDs(t, w.first) == before {
				time.Sleep(pollInterval)
			}
			time.Sleep(heartbeat)
			a.replaceInPlace(t, w.first)
		}()
		said, err := w.rotate(w.store, w.first)
		if <-found; err != nil || !strings.Contains(said, "confirmed by all 1 nodes") {
			t.Errorf("%v, said %q", err, said)
		}
	})
}
