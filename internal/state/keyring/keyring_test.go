package keyring_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/randtest"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/keyring"
)

func secret(fill byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

// file writes a key file and returns its path.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, content string) *keyring.Ring {
	t.Helper()
	r, err := keyring.Load(file(t, content))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The three moments of a rotation from a to b.
func rotation(t *testing.T) (published, moved, done *keyring.Ring) {
	a, b, c := secret('a'), secret('b'), secret('c')
	return load(t, fmt.Sprintf(`{"next":%q,"current":%q}`, b, a)),
		load(t, fmt.Sprintf(`{"current":%q,"previous":%q}`, b, a)),
		load(t, fmt.Sprintf(`{"next":%q,"current":%q}`, c, b))
}

// TestDigestIsKeyedAndRotates: a digest is good as long as its secret is in the file, and cannot be made without the
// file.
func TestDigestIsKeyedAndRotates(t *testing.T) {
	published, moved, done := rotation(t)
	digest := published.Digest("card")
	if sum := sha256.Sum256([]byte("card")); bytes.Equal(digest, sum[:]) || len(digest) != len(sum) {
		t.Errorf("the digest %x is that of no key, or too short", digest)
	}
	for name, want := range map[string]bool{"published": true, "moved": true, "done": false} {
		ring := map[string]*keyring.Ring{"published": published, "moved": moved, "done": done}[name]
		if got := ring.IsDigest(digest, "card"); got != want {
			t.Errorf("%s: IsDigest is %t, want %t", name, got, want)
		}
		if ring.IsDigest(digest, "dart") || ring.IsDigest(nil, "card") || ring.IsDigest(digest[:31], "card") {
			t.Errorf("%s: another text or digest passes", name)
		}
	}
	if next := moved.Digest("card"); !published.IsDigest(next, "card") || bytes.Equal(next, digest) {
		t.Error("the digest of the next secret is not known before the rotation, or is the same")
	}
}

func TestLoadRefusesBadFiles(t *testing.T) {
	good := secret('s')
	for _, test := range []struct{ name, content, want string }{
		{"empty", "", "not a JSON object"},
		{"array", `["` + good + `"]`, "not a JSON object"},
		{"cut off", `{"current":"` + good + `"`, "not a JSON object"},
		{"rest", `{"current":"` + good + `"} x`, "not a JSON object"},
		{"none", `{}`, "current: missing"},
		{"only next", `{"next":"` + good + `"}`, "current: missing"},
		{"unknown", `{"current":"` + good + `","older":"` + good + `"}`, `"older": unknown member`},
		{"case", `{"Current":"` + good + `"}`, `"Current": unknown member`},
		{"twice", `{"current":"` + good + `","current":"` + secret('t') + `"}`, "current: given twice"},
		{"number", `{"current":12}`, "current: not a string"},
		{"null", `{"current":"` + good + `","next":null}`, "next: not a string"},
		{"object", `{"current":{"x":"` + good + `"}}`, "current: not a string"},
		{"short", `{"current":"` + good[:40] + `"}`, "current: has 30 bytes, want 32"},
		{"long", `{"current":"` + base64.StdEncoding.EncodeToString(make([]byte, 33)) + `"}`, "current: has 33 bytes, want 32"},
		{"not base64", `{"current":"` + good[:43] + `!"}`, "current: not base64"},
		{"empty string", `{"current":"` + good + `","previous":""}`, "previous: has 0 bytes, want 32"},
		{"same", `{"current":"` + good + `","next":"` + good + `"}`, "next: is the same as current"},
		{"large", `{"current":"` + good + `"}` + strings.Repeat(" ", 9000), "is larger than"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := keyring.Load(file(t, test.content))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("Load: %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), good[:8]) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestLoadRefusesAccessOfOthers(t *testing.T) {
	path := file(t, `{"current":"`+secret('s')+`"}`)
	for _, mode := range []fs.FileMode{0o604, 0o640, 0o644, 0o620, 0o602, 0o601, 0o610} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.Load(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %04o: %v, want a refusal that says what to do", mode, err)
		}
	}
	for _, mode := range []fs.FileMode{0o600, 0o400} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.Load(path); err != nil {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

// TestLoadOfAFileOfAnotherUser: a file that another user, such as root, has put there for our group is good, if the
// group may only read it.
func TestLoadOfAFileOfAnotherUser(t *testing.T) {
	path := file(t, fmt.Sprintf(`{"current":%q}`, secret('a')))
	if err := os.Chown(path, os.Geteuid()+1, -1); err != nil {
		t.Skipf("not root: %v", err)
	}
	for mode, want := range map[os.FileMode]bool{0o400: true, 0o440: true, 0o640: true, 0o660: false, 0o444: false, 0o450: false, 0o404: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.Load(path); (err == nil) != want {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

func TestLoadDoesNotCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	if _, err := keyring.Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load: %v, want fs.ErrNotExist", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("Load made a file")
	}
}

func TestLoadOrCreateMakesAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys.json")
	const n = 16
	rings := make([]*keyring.Ring, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r, err := keyring.LoadOrCreate(path)
			if err != nil {
				t.Error(err)
				return
			}
			rings[i] = r
		})
	}
	wg.Wait()
	for _, r := range rings {
		if r == nil || !r.Opens(rings[0]) {
			t.Fatal("two of them got different secrets")
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files in the directory, want 1", len(left))
	}
	other, err := keyring.LoadOrCreate(filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	if other.Opens(rings[0]) {
		t.Error("two files hold the same secret")
	}
}

func TestLoadOrCreateKeepsAFile(t *testing.T) {
	path := file(t, "not json")
	if _, err := keyring.LoadOrCreate(path); err == nil {
		t.Error("LoadOrCreate accepted a bad file")
	}
	if data, _ := os.ReadFile(path); string(data) != "not json" {
		t.Error("LoadOrCreate replaced a bad file")
	}
	if _, err := keyring.LoadOrCreate(filepath.Join(t.TempDir(), "none", "keys.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a missing directory: %v, want fs.ErrNotExist", err)
	}
}

// TestDerivedKeysArePinned pins what is derived: another release must read the data of this one.
// They were computed from the descriptions in this package by another program.
func TestDerivedKeysArePinned(t *testing.T) {
	r := load(t, `{"current":"`+secret('a')+`"}`)
	sealed, err := hex.DecodeString("011d6a5d18000102030405060708090a0bc89bf335678306ef7e85493a2a5f391539d19358bb")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Open("id-1", sealed); string(got) != "plain" || err != nil {
		t.Errorf("Open = %q, %v; want plain", got, err)
	}
	forIDs, err := hex.DecodeString("e71f6df4492260e589e81a7ec89ca8a072da4cc4881f46484743310f9c902aac")
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1).UTC()
	id := r.ID().New(now, time.Minute, rand.Reader, 1, "shop", "4000000000000000")
	if _, err := transid.NewKeys(forIDs).Check(id, now, time.Minute, "shop", "4000000000000000"); err != nil {
		t.Errorf("an id is not made with the key that was derived elsewhere: %v", err)
	}
}

// TestIsSealedByPreviousSecret: data is to be resealed if the previous secret has sealed it, and not if the current or
// the next one has.
func TestIsSealedByPreviousSecret(t *testing.T) {
	published, moved, done := rotation(t)
	early, late := published.Seal("id", nil), moved.Seal("id", nil)
	for _, test := range []struct {
		name   string
		ring   *keyring.Ring
		sealed []byte
		want   bool
	}{
		{"published, by current", published, early, false}, {"published, by next", published, late, false},
		{"moved, by previous", moved, early, true}, {"moved, by current", moved, late, false},
		{"done, by one that has gone", done, early, false},
		{"moved, cut", moved, early[:8], false}, {"moved, nothing", moved, nil, false},
	} {
		if got := test.ring.IsSealedByPrevious(test.sealed); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

func TestSealedDataOpensDuringRotation(t *testing.T) {
	published, moved, done := rotation(t)
	early, late := published.Seal("id", []byte("x")), moved.Seal("id", []byte("x"))
	for _, test := range []struct {
		name   string
		ring   *keyring.Ring
		sealed []byte
		want   error
	}{
		{"before, before", published, early, nil}, {"before, after", published, late, nil},
		{"after, before", moved, early, nil}, {"after, after", moved, late, nil},
		{"done, before", done, early, keyring.ErrSealed}, {"done, after", done, late, nil},
	} {
		if got, err := test.ring.Open("id", test.sealed); !errors.Is(err, test.want) || err == nil && string(got) != "x" {
			t.Errorf("%s: %q, %v; want %v", test.name, got, err, test.want)
		}
	}
}

func TestIDsAreGoodDuringRotation(t *testing.T) {
	published, moved, done := rotation(t)
	now := time.UnixMilli(1).UTC()
	id := published.ID().New(now, time.Minute, rand.Reader, 1, "shop", "4000000000000000")
	if _, err := moved.ID().Check(id, now, time.Minute, "shop", "4000000000000000"); err != nil {
		t.Error(err)
	}
	if _, err := done.ID().Check(id, now, time.Minute, "shop", "4000000000000000"); err == nil {
		t.Error("an id of a secret that is gone is accepted")
	}
}

func TestSealedDataOpensForItsNameAlone(t *testing.T) {
	r := load(t, `{"current":"`+secret('a')+`"}`)
	randtest.Check(t, func(t *randtest.T) {
		id := t.Text(0, 30)
		plain := t.Bytes(100)
		sealed := r.Seal(id, plain)
		if got, err := r.Open(id, sealed); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("Open(Seal) = %x, %v", got, err)
		}
		if len(plain) > 8 && bytes.Contains(sealed, plain) {
			t.Fatal("plain data in the sealed")
		}
		if bytes.Equal(sealed, r.Seal(id, plain)) {
			t.Fatal("sealing twice gives the same")
		}
		if _, err := r.Open(id+"x", sealed); !errors.Is(err, keyring.ErrSealed) {
			t.Fatalf("under another id: %v, want ErrSealed", err)
		}
		at := t.IntRange(0, len(sealed)-1)
		sealed[at] ^= 1 << t.IntRange(0, 7)
		if _, err := r.Open(id, sealed); !errors.Is(err, keyring.ErrSealed) {
			t.Fatalf("with byte %d changed: %v, want ErrSealed", at, err)
		}
		if _, err := r.Open(id, sealed[:at]); !errors.Is(err, keyring.ErrSealed) {
			t.Fatalf("cut at %d: %v, want ErrSealed", at, err)
		}
	})
}

func TestRingPrintsNoSecret(t *testing.T) {
	r := load(t, `{"current":"`+secret('S')+`","next":"`+secret('T')+`"}`)
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%T"} {
		fmt.Fprintf(&out, verb+verb+verb+"\n", r, *r, struct{ Ring *keyring.Ring }{r})
	}
	text, err := json.Marshal(map[string]any{"a": r, "b": *r})
	if err != nil {
		t.Error(err)
	}
	out.Write(text)
	slog.New(slog.NewTextHandler(&out, nil)).Info("ring", "a", r, "b", *r, "c", []*keyring.Ring{r})
	// Nothing secret looks like this: only zeros of memory addresses and words may be there.
	for _, secret := range []string{"SSSS", "5353", "83 83", "0x53", secret('S')[:8]} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("printed: %s", secret)
		}
	}
	if n := strings.Count(out.String(), "[keyring]"); n < 20 {
		t.Errorf("%d times [keyring] in %s", n, out.String())
	}
}

func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "keys.json")
	r, err := keyring.LoadOrCreate(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{}, "id")
	f.Add(r.Seal("id", []byte("x")), "other")
	f.Add(bytes.Repeat([]byte{1}, 64), "id")
	f.Fuzz(func(t *testing.T, sealed []byte, id string) {
		got, err := r.Open(id, sealed)
		if err == nil && id == "id" && string(got) == "x" {
			return // found what was sealed above
		}
		if !errors.Is(err, keyring.ErrSealed) || got != nil {
			t.Errorf("Open of data we did not seal: %q, %v", got, err)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	r, err := keyring.LoadOrCreate(filepath.Join(b.TempDir(), "keys.json"))
	if err != nil {
		b.Fatal(err)
	}
	plain := make([]byte, 3000)
	b.SetBytes(int64(len(plain)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Open("id", r.Seal("id", plain)); err != nil {
			b.Fatal(err)
		}
	}
}

func TestOpensWhatTheFormerRingMade(t *testing.T) {
	published, moved, done := rotation(t)
	other := load(t, fmt.Sprintf(`{"current":%q}`, secret('x')))
	for _, tt := range []struct {
		name         string
		next, former *keyring.Ring
		want         bool
	}{
		{"itself", moved, moved, true},
		{"next has become current", moved, published, true},
		{"back again", published, moved, true},
		{"previous is gone", done, moved, true},
		{"current is gone", done, published, false},
		{"another file", other, published, false},
	} {
		if got := tt.next.Opens(tt.former); got != tt.want {
			t.Errorf("%s: Opens = %t", tt.name, got)
		}
	}
}
