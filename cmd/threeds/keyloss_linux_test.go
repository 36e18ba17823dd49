package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/rotation"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A keySite is a store in a directory and a key file, for commands.
type keySite struct {
	t    *testing.T
	dir  string
	keys string // the key file
}

func newKeySite(t *testing.T) *keySite {
	t.Helper()
	dir := t.TempDir()
	return &keySite{t, dir, filepath.Join(dir, "keys.json")}
}

// require ends the test at an error.
func (s *keySite) require(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// config writes the configuration, and returns its path.
func (s *keySite) config() string {
	s.t.Helper()
	file := filepath.Join(s.dir, "threeds.yaml")
	s.require(os.WriteFile(file, fmt.Appendf(nil, `keys: %s
results:
  url: https://3ds.acquirer.example/results
  tls: {cert: not-looked-at.pem, key: not-looked-at.key}
server: {reference_number: 3DS_LOA_SER_0002}
directories:
  - scheme: visa
    areq_url: https://ds.visa.example/
    preq_url: https://ds.visa.example/
    versions: [2.2.0]
    client_cert: {cert: not-looked-at.pem, key: not-looked-at.key}
    server_ca: not-looked-at.pem
    client_ca: not-looked-at.pem
`, s.keys), 0o600))
	return file
}

// run runs a command, and returns its exit status and what it says.
func (s *keySite) run(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	var out, errs strings.Builder
	code = run(s.t.Context(), append(args, "--config", s.config()), nil, &out, &errs)
	return code, out.String(), errs.String()
}

// must runs a command that must succeed, and returns what it says.
func (s *keySite) must(args ...string) (stdout, stderr string) {
	s.t.Helper()
	code, out, errs := s.run(args...)
	if code != 0 {
		s.t.Fatalf("%v: %d %s%s", args, code, out, errs)
	}
	return out, errs
}

// with calls do with the store, and with the key file as commands read it.
func (s *keySite) with(do func(c *config.Config, st store.Store, ring *keyring.Ring) error) {
	s.t.Helper()
	s.require(local.WithKeys(s.t.Context(), s.config(), do))
}

// fill puts one of all that is sealed and lasts into the store.
func (s *keySite) fill() {
	s.t.Helper()
	for _, name := range []string{"Corner Shop", "Other Shop"} {
		s.must("key", "create", "--name", name)
	}
	s.must("merchant", "add", "--name", "Corner Shop", "--mcc", "5411")
	s.must("token", "create", "--name", "ci", "--role", "admin")
	s.must("webhook", "add", "--merchant", "Corner Shop", "https://shop.example/hooks")
	s.with(func(_ *config.Config, st store.Store, ring *keyring.Ring) error {
		users := &operator.Service{Store: st, Sealer: ring, Now: time.Now}
		if err := users.AddUser(s.t.Context(), &operator.User{Name: "ann", Role: operator.Admin}); err != nil {
			return err
		}
		certs := &clientcert.Service{Store: st, Sealer: ring, Now: time.Now}
		_, _, err := certs.Request(s.t.Context(), "visa", clientcert.Spec{Curve: "P-256", Subject: "CN=3ds.example"},
			func(_, _ clientcert.Status) error { return nil })
		return err
	})
}

// filled are the numbers of rows that fill makes.
var filled = map[string]int{"API keys": 2, "merchants": 1, "tokens": 1, "operators": 1, "certificates": 1, "endpoints": 1}

// wantOpen checks that all rows of fill open with the secrets of a ring, and are sealed under a secret; "" is any.
func (s *keySite) wantOpen(what string, ring *keyring.Ring, id string) {
	s.t.Helper()
	s.with(func(c *config.Config, st store.Store, _ *keyring.Ring) error {
		ctx := s.t.Context()
		got, refused := map[string]int{}, map[string]int{}
		check := func(kind, name string, sealed []byte) {
			if _, err := ring.Open(name, sealed); err != nil || id != "" && keyring.IDOfSeal(sealed) != id {
				refused[kind]++
			}
			got[kind]++
		}
		keys, err := local.NewActs(c, st, ring).Keys(ctx, local.Actor())
		s.require(err)
		for _, k := range keys {
			if k.State != ops.KeyGood || id != "" && k.SealedBy != id {
				refused["API keys"]++
			}
			got["API keys"]++
		}
		merchants, err := st.Merchants(ctx)
		s.require(err)
		for _, m := range merchants {
			check("merchants", m.SealName(), m.Data)
		}
		for kind, of := range map[string]string{
			"tokens": store.TokenObjects, "operators": store.UserObjects, "certificates": store.CertificateObjects,
		} {
			rows, err := st.Objects(ctx, of)
			s.require(err)
			for _, row := range rows {
				check(kind, row.Name(), row.Data)
			}
		}
		rows, err := st.Endpoints(ctx)
		s.require(err)
		hooks := &webhook.Service{Store: st, Sealer: ring, Log: slog.New(slog.DiscardHandler), Now: time.Now}
		s.require(hooks.Refresh(ctx))
		for _, row := range rows {
			got["endpoints"]++
			if id != "" && keyring.IDOfSeal(row.Data) != id {
				refused["endpoints"]++
			}
		}
		if n := hooks.CountUnread(); n > 0 {
			refused["endpoints"] += n
		}
		if !reflect.DeepEqual(got, filled) || len(refused) > 0 {
			s.t.Errorf("%s: there are %v, want %v; of them are refused %v", what, got, filled, refused)
		}
		return nil
	})
}

// load reads a key file.
func (s *keySite) load(file string) *keyring.Ring {
	s.t.Helper()
	ring, err := keyring.Load(file)
	s.require(err)
	return ring
}

// protectedCopy returns a copy of a key file that can be read and not replaced, like one in a Secret of Kubernetes. Its
// path is as long as Linux allows, so that no file can be made next to it. Mode bits would not stop root.
func (s *keySite) protectedCopy(of string) string {
	s.t.Helper()
	const longestPath, name = 4095, "/k"
	dir := s.t.TempDir()
	for room := longestPath - len(name) - len(dir); room > 0; room = longestPath - len(name) - len(dir) {
		n := min(room-1, 200)
		if room-1-n == 1 {
			n-- // a slash alone is no folder
		}
		dir += "/" + strings.Repeat("d", n)
		s.require(os.Mkdir(dir, 0o700))
	}
	data, err := os.ReadFile(of)
	s.require(err)
	s.require(os.WriteFile(dir+name, data, 0o600))
	if err := keyfile.CheckReplace(dir + name); err == nil {
		s.t.Fatal("the key file can be replaced")
	}
	return dir + name
}

// A keyNode is the part of a node that takes part in rotations, with a key file.
type keyNode struct {
	ring atomic.Pointer[keyring.Ring] // in use
	stop func()
}

// startNode starts a node with a key file that it cannot replace.
func (s *keySite) startNode(name, file string) *keyNode {
	s.t.Helper()
	c, err := config.Read(s.config())
	s.require(err)
	st, err := server.OpenStore(s.t.Context(), c.Store.URL)
	s.require(err)
	n := new(keyNode)
	n.ring.Store(s.load(file))
	follower := rotation.NewFollower(st, file, name, n.ring.Load(), slog.New(slog.DiscardHandler), func(r *keyring.Ring) { n.ring.Store(r) }, func() {})
	follower.Start(s.t.Context())
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		follower.Run(ctx)
	}()
	n.stop = func() {
		cancel()
		<-ended
		_ = st.Close()
	}
	return n
}

// TestO1OldSecretRestoresABackupAfterThreeRotations: in the layout of Kubernetes, where all nodes and the command have
// the same key file and cannot replace it, the secret is rotated three times, the last time under nodes that serve. A
// backup of then and the key file of before the first rotation restore everything into an empty store.
func TestO1OldSecretRestoresABackupAfterThreeRotations(t *testing.T) {
	s := newKeySite(t)
	s.fill()
	old := s.load(s.keys)
	oldFile := s.protectedCopy(s.keys)
	s.keys = oldFile
	if code, out, errs := s.run("key", "rotate"); code != 1 || !strings.Contains(errs, "--write FILE") || !strings.Contains(errs, "nothing has changed") {
		t.Fatalf("without --write: %d %s%s", code, out, errs)
	}
	s.startNode("a", oldFile).stop() // Node a is away during the rotations, and needs their secrets when it comes back.
	written := filepath.Join(s.dir, "written.json")
	for range 2 {
		_ = os.Remove(written)
		if out, _ := s.must("key", "rotate", "--write", written); !strings.Contains(out, "the key file of this machine is not replaced: put "+written) {
			t.Errorf("said %s", out)
		}
	}
	a, b := s.startNode("a", oldFile), s.startNode("b", s.protectedCopy(oldFile))
	s.require(os.Remove(written))
	code, out, errs := s.run("key", "rotate", "--write", written)
	if code != 1 || !strings.Contains(errs, "only in memory, because their key file is an older one: a, b; put "+written) {
		t.Errorf("under nodes that serve: %d %s%s", code, out, errs)
	}
	now := s.load(written).KeyIDs()
	if len(strings.Split(now.Previous, ",")) != 3 || a.ring.Load().KeyIDs() != now || b.ring.Load().KeyIDs() != now {
		t.Errorf("the file has %+v, the nodes have %+v and %+v, want 3 former secrets", now, a.ring.Load().KeyIDs(), b.ring.Load().KeyIDs())
	}
	s.wantOpen("after three rotations", s.load(written), now.Current)
	backup := filepath.Join(s.dir, "backup")
	_, errs = s.must("backup", backup)
	for _, want := range []string{"warning: the secret " + now.Current + " is in use", "sealed under secret " + old.KeyIDs().Current, "key rotate --write FILE"} {
		if !strings.Contains(errs, want) {
			t.Errorf("backup says %s, want %q", errs, want)
		}
	}
	a.stop()
	b.stop()

	restored := newKeySite(t)
	restored.keys = s.protectedCopy(oldFile)
	restored.must("restore", backup)
	restored.with(func(_ *config.Config, _ store.Store, ring *keyring.Ring) error {
		restored.wantOpen("restored", ring, now.Current)
		return nil
	})
	n := restored.startNode("c", restored.keys)
	if got := n.ring.Load().KeyIDs(); got != now {
		t.Errorf("a node of the restored store has %+v, want %+v", got, now)
	}
	n.stop()
	content, err := os.ReadFile(backup)
	restored.require(err)
	var file struct{ Current string }
	data, err := os.ReadFile(written)
	restored.require(err)
	restored.require(json.Unmarshal(data, &file))
	if len(file.Current) != 44 || bytes.Contains(content, []byte(file.Current)) {
		t.Error("the backup has the secret in the clear")
	}
}

// TestO1CommandAloneSealsEverything: with no node running, key rotate seals everything long-lived under the new secret
// and says how many rows of each kind. So the previous secret can be removed from the key file by hand.
func TestO1CommandAloneSealsEverything(t *testing.T) {
	s := newKeySite(t)
	s.fill()
	out, _ := s.must("key", "rotate")
	want := "sealed under the new secret: 2 API keys, 1 merchant, 1 directory with client certificates, 1 token of the admin API, " +
		"1 operator of the console, 0 disabled merchants, 1 webhook endpoint\n"
	if !strings.Contains(out, want) {
		t.Errorf("said %s, want %s", out, want)
	}
	data, err := os.ReadFile(s.keys)
	s.require(err)
	var file map[string]any
	s.require(json.Unmarshal(data, &file))
	if file["previous"] == nil {
		t.Errorf("the key file has no previous secret")
	}
	delete(file, "previous")
	data, err = json.Marshal(file)
	s.require(err)
	s.require(os.WriteFile(s.keys, data, 0o600))
	ring := s.load(s.keys)
	s.wantOpen("without the former secret", ring, ring.KeyIDs().Current)
}

// TestO1BackupSaysWhatItsKeyFileLacks: backup warns when the key file of this machine lacks a secret that rows
// need, and not otherwise.
func TestO1BackupSaysWhatItsKeyFileLacks(t *testing.T) {
	s := newKeySite(t)
	n := 0
	wantWarning := func(what string, want ...string) {
		t.Helper()
		n++
		_, errs := s.must("backup", filepath.Join(s.dir, fmt.Sprint("backup", n)))
		for _, text := range want {
			if !strings.Contains(errs, text) {
				t.Errorf("%s: backup says %s, want %q", what, errs, text)
			}
		}
		if isWarned := strings.Contains(errs, "warning"); isWarned != (len(want) > 0) || !strings.Contains(errs, "threeds: backed up") {
			t.Errorf("%s: backup says %s", what, errs)
		}
	}
	s.fill()
	wantWarning("a key file that fits")
	old, err := os.ReadFile(s.keys)
	s.require(err)
	s.must("key", "rotate")
	wantWarning("after a rotation")
	rotated, err := os.ReadFile(s.keys)
	s.require(err)
	s.require(os.WriteFile(s.keys, old, 0o600))
	wantWarning("the key file from before", "is in use, and the key file "+s.keys+" lacks it: it does not open this backup", "Copy the key file of a node")
	s.require(os.Remove(s.keys))
	wantWarning("no key file", "it is not known whether the key file opens this backup")
	_, err = keyring.LoadOrCreate(s.keys)
	s.require(err)
	wantWarning("the key file of another store", "2 API keys sealed under secret", "it does not open them")
	s.require(os.WriteFile(s.keys, rotated, 0o600))
	wantWarning("the right one again")
}

// TestO1BackupSaysWhatJournalKeysLack: backup --journal is refused without journal-keys.json, makes none, and names the
// days that the file does not open.
func TestO1BackupSaysWhatJournalKeysLack(t *testing.T) {
	s := newKeySite(t)
	s.must("key", "create", "--name", "Corner Shop")
	s.must("journal", "generate", "--authentications", "30", "--days", "2", "--merchants", "1")
	if _, errs := s.must("backup", "--journal", filepath.Join(s.dir, "good")); strings.Contains(errs, "warning") {
		t.Errorf("with the right keys backup says %s", errs)
	}
	file := filepath.Join(s.dir, "threeds-data", "journal-keys.json")
	right, err := os.ReadFile(file)
	s.require(err)
	s.require(os.Remove(file))
	if code, _, errs := s.run("backup", "--journal", filepath.Join(s.dir, "none")); code != 1 || !strings.Contains(errs, "there is no journal-keys.json here") {
		t.Errorf("without keys: %d %s", code, errs)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("backup has made a file of keys")
	}
	s.require(os.WriteFile(file, bytes.ToUpper([]byte("{}")), 0o600))
	if code, _, errs := s.run("backup", "--journal", filepath.Join(s.dir, "none")); code != 1 || !strings.Contains(errs, "journal-keys.json: wrapping: missing") {
		t.Errorf("with a file that is none: %d %s", code, errs)
	}
	s.require(os.Remove(file))
	if _, errs := s.must("key", "create", "--name", "Other Shop"); !strings.Contains(errs, file+" is missing") {
		t.Errorf("key create beside a journal without keys says %s", errs)
	}
	elsewhere := newKeySite(t)
	elsewhere.must("key", "create", "--name", "Corner Shop")
	others, err := os.ReadFile(filepath.Join(elsewhere.dir, "threeds-data", "journal-keys.json"))
	s.require(err)
	s.require(os.WriteFile(file, others, 0o600))
	_, errs := s.must("backup", "--journal", filepath.Join(s.dir, "other"))
	if !strings.Contains(errs, "warning: journal-keys.json of this machine lacks the keys of ") || !strings.Contains(errs, "Copy the file of the node") {
		t.Errorf("with other keys backup says %s", errs)
	}
	restored := newKeySite(t)
	restored.keys = s.keys
	restored.require(os.Mkdir(filepath.Join(restored.dir, "threeds-data"), 0o700))
	restored.require(os.WriteFile(filepath.Join(restored.dir, "threeds-data", "journal-keys.json"), right, 0o600))
	if out, _ := restored.must("restore", filepath.Join(s.dir, "other")); !strings.Contains(out, "30 entries of the journal") {
		t.Errorf("restored with the right keys: %s", out)
	}
}

// TestO1KubernetesJobRotatesTheSecret holds the Job against the Deployment and against the program.
func TestO1KubernetesJobRotatesTheSecret(t *testing.T) {
	type manifest = map[string]any
	read := func(name string) (m manifest) {
		data, err := os.ReadFile("../../deploy/kubernetes/" + name)
		if err == nil {
			err = yaml.Unmarshal(data, &m)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	at := func(m any, path ...any) any {
		for _, key := range path {
			switch key := key.(type) {
			case string:
				of, _ := m.(manifest)
				m = of[key]
			case int:
				of, _ := m.([]any)
				if key >= len(of) {
					return nil
				}
				m = of[key]
			}
		}
		return m
	}
	job, nodes := read("rotate-keys-job.yaml"), read("deployment.yaml")
	pod, node := at(job, "spec", "template", "spec"), at(nodes, "spec", "template", "spec")
	for _, path := range [][]any{
		{"containers", 0, "image"}, {"containers", 0, "securityContext"}, {"securityContext"},
		{"containers", 0, "volumeMounts", 0}, {"containers", 0, "volumeMounts", 1}, {"volumes", 0}, {"volumes", 1},
	} {
		if got, want := at(pod, path...), at(node, path...); want == nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v is %v, of the nodes %v", path, got, want)
		}
	}
	if reflect.DeepEqual(at(job, "spec", "template", "metadata", "labels"), at(nodes, "spec", "template", "metadata", "labels")) {
		t.Error("the Pod of the Job has the labels of the nodes: Services would send it requests")
	}
	if at(pod, "restartPolicy") != "OnFailure" {
		t.Errorf("restartPolicy is %v: the file would go with the Pod", at(pod, "restartPolicy"))
	}
	if at(pod, "volumes", 2, "emptyDir", "medium") != "Memory" || at(pod, "volumes", 2, "name") != at(pod, "containers", 0, "volumeMounts", 2, "name") ||
		at(pod, "volumes", 2, "name") != at(pod, "initContainers", 0, "volumeMounts", 0, "name") {
		t.Error("the two containers do not share a volume in memory")
	}
	if list := fmt.Sprint(at(read("kustomization.yaml"), "resources")); strings.Contains(list, "rotate-keys-job.yaml") ||
		at(job, "metadata", "name") != nil || at(job, "metadata", "generateName") == nil {
		t.Errorf("kubectl apply would rotate: the kustomization has %s, the Job is named %v", list, at(job, "metadata"))
	}

	s := newKeySite(t)
	s.must("key", "create", "--name", "Corner Shop")
	s.keys = s.protectedCopy(s.keys)
	var args []string
	list, _ := at(pod, "containers", 0, "args").([]any)
	for _, arg := range list {
		args = append(args, fmt.Sprint(arg))
	}
	mount := fmt.Sprint(at(pod, "containers", 0, "volumeMounts", 2, "mountPath"))
	i, j := slices.Index(args, "/etc/threeds/config/threeds.yaml"), slices.Index(args, mount+"/keys.json")
	if i < 0 || j < 0 {
		t.Fatalf("the arguments are %v", args)
	}
	args[i], args[j] = s.config(), filepath.Join(s.dir, "new.json")
	var out, errs strings.Builder
	if code := run(t.Context(), args, nil, &out, &errs); code != 0 || s.load(args[j]).KeyIDs().Previous != s.load(s.keys).KeyIDs().Current {
		t.Errorf("%v: %d %s%s", args, code, out.String(), errs.String())
	}
}

// TestJ6EraseMakesAKeyFile: an erasure changes journal-keys.json, and --write makes another file that has forgotten the
// same keys, also without an erasure. It does not overwrite a file.
func TestJ6EraseMakesAKeyFile(t *testing.T) {
	s := newKeySite(t)
	s.must("key", "create", "--name", "Corner Shop")
	s.must("journal", "generate", "--authentications", "4", "--days", "1", "--merchants", "1")
	file, made := filepath.Join(s.dir, "threeds-data", "journal-keys.json"), filepath.Join(s.dir, "made.json")
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		s.require(err)
		return string(text)
	}
	before := read(file)
	out, errs := s.must("journal", "erase", "--merchant", "Shop 0", "--yes", "--write", made)
	if !strings.Contains(out, "erased: 4 authentications") ||
		!strings.Contains(errs, made+" does not open what was erased") {
		t.Errorf("erase says %s%s", out, errs)
	}
	if after := read(file); after == before || read(made) != after {
		t.Error("the two files have not forgotten the same keys")
	}
	if code, _, errs := s.run("journal", "erase", "--write", made); code != 1 || !strings.Contains(errs, "file already exists") {
		t.Errorf("over a file that exists: %d %s", code, errs)
	}
	s.require(os.Remove(made))
	s.require(os.WriteFile(file, []byte(before), 0o600)) // an old copy is put in place
	if _, errs := s.must("journal", "erase", "--write", made); !strings.Contains(errs, made) || read(made) == before ||
		read(file) != read(made) {
		t.Errorf("without an erasure: %s", errs)
	}
}
