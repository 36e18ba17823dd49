package auth_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.Stop()
	os.Exit(code)
}

type listedStore interface {
	store.Store
	store.Lister
}

// A realStore is a store as the server has it.
type realStore struct {
	listedStore
	dir string // where its files are; "" of PostgreSQL
}

// eachRealStore runs a test with the key file and each kind of store that servers have.
func eachRealStore(t *testing.T, test func(t *testing.T, w *world, st realStore, keyFile string)) {
	start := func(t *testing.T) (*world, string) {
		w := newWorld()
		w.now.Store(time.Now().UnixNano()) // the clock of PostgreSQL is the machine's
		return w, filepath.Join(t.TempDir(), "keys.json")
	}
	t.Run("sqlite", func(t *testing.T) {
		w, keyFile := start(t)
		dir := t.TempDir()
		st, err := sqlite.Open(dir, sqlite.Options{Now: w.clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		test(t, w, realStore{st, dir}, keyFile)
	})
	t.Run("postgres", func(t *testing.T) {
		if testing.Short() {
			t.Skip("PostgreSQL is not started for a quick answer")
		}
		w, keyFile := start(t)
		st, err := postgres.Open(t.Context(), pgtest.Get(t).Schema(t), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		test(t, w, realStore{st, ""}, keyFile)
	})
}

// realPage begins an authentication of a browser with the key ring of a file, in a store.
func realPage(t *testing.T, w *world, st realStore, keyFile string) (*pageTest, *keyring.Ring) {
	t.Helper()
	ring, err := keyring.LoadOrCreate(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	e := w.browserEngine()
	e.Store, e.Sealer = st, ring
	a, access, err := e.Create(t.Context(), profiled, four().json())
	if err != nil {
		t.Fatal(told(err))
	}
	return &pageTest{world: w, Engine: e, t: t, id: a.ID, token: access.Token}, ring
}

// rowOf returns the row of an authentication with its outer seal opened, and the card in it, nil if there is none.
func rowOf(t *testing.T, st realStore, ring *keyring.Ring, id string) (plain, card []byte) {
	t.Helper()
	row, err := st.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err = ring.Open(row.Name(), row.Data); err != nil {
		t.Fatal(err)
	}
	var rec struct{ Page struct{ Card []byte } }
	if err := json.Unmarshal(plain, &rec); err != nil {
		t.Fatal(err)
	}
	return plain, rec.Page.Card
}

// opensCard reports whether a secret opens the card of an authentication, as the server would open it.
func opensCard(t *testing.T, id string, secret, card []byte) bool {
	t.Helper()
	key, err := hkdf.Key(sha256.New, secret, nil, "threeds card until the AReq "+id, 32)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	text, err := aead.Open(nil, nil, card, nil)
	return err == nil && bytes.Contains(text, []byte(pan))
}

// hasCardIn names the encoding in which the card number, or a secret, is in data; "" if it is not there.
func hasCardIn(data []byte, secret []byte) string {
	for name, form := range map[string][]byte{
		"card": []byte(pan), "most of the card": []byte(pan[8:]), "card in hexadecimal": []byte(hex.EncodeToString([]byte(pan))),
		"secret": secret, "secret in hexadecimal": []byte(hex.EncodeToString(secret)),
		"secret in base64": []byte(base64.StdEncoding.EncodeToString(secret)), "secret in base64url": []byte(base64.RawURLEncoding.EncodeToString(secret)),
	} {
		if bytes.Contains(data, form) {
			return name
		}
	}
	for i := range 3 {
		for name, text := range map[string]string{"card": pan, "secret": string(secret)} {
			b := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat(" ", i) + text))
			if bytes.Contains(data, []byte(b[4:len(b)-4])) {
				return name + " in base64"
			}
		}
	}
	return ""
}

// TestF10DatabaseAndKeyFileDoNotOpenTheCard: with the real key ring and each real store, whoever has the files of the
// database and the key file has no card number and no secret that opens it; the token does open it.
func TestF10DatabaseAndKeyFileDoNotOpenTheCard(t *testing.T) {
	eachRealStore(t, func(t *testing.T, w *world, st realStore, keyFile string) {
		p, ring := realPage(t, w, st, keyFile)
		b, err := base64.RawURLEncoding.DecodeString(p.token)
		if err != nil {
			t.Fatal(err)
		}
		secret := b[16:]
		plain, card := rowOf(t, st, ring, p.id)
		if !opensCard(t, p.id, secret, card) {
			t.Fatal("the token does not open the card: this test looks at something else")
		}
		if what := hasCardIn(plain, secret); what != "" {
			t.Errorf("%s is in the row: %s", what, plain)
		}
		if st.dir != "" {
			wantNothingInFiles(t, st.dir, secret)
		}
		// What else could be a key: any 32 bytes of what rests, as it is written and decoded.
		keys, err := os.ReadFile(keyFile)
		if err != nil {
			t.Fatal(err)
		}
		row, err := st.Get(t.Context(), p.id)
		if err != nil {
			t.Fatal(err)
		}
		pieces := [][]byte{keys, bytes.Replace(plain, []byte(base64.StdEncoding.EncodeToString(card)), nil, 1), []byte(row.Name()), []byte(p.id)}
		for _, text := range [][]byte{keys, plain} {
			for word := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return r == '"' }) {
				if decoded, err := base64.StdEncoding.DecodeString(word); err == nil && len(decoded) >= 16 && !bytes.Equal(decoded, card) {
					pieces = append(pieces, decoded)
				}
			}
		}
		if len(pieces) < 6 {
			t.Fatalf("%d pieces: keys or digests are not among them", len(pieces))
		}
		for _, piece := range pieces {
			for i := range max(1, len(piece)-31) {
				if opensCard(t, p.id, piece[i:min(i+32, len(piece))], card) {
					t.Fatalf("the card opens under %q", piece[i:min(i+32, len(piece))])
				}
			}
		}
	})
}

// wantNothingInFiles looks for the card and the secret in the files of the embedded store.
func wantNothingInFiles(t *testing.T, dir string, secret []byte) {
	t.Helper()
	read := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		read += len(data)
		if what := hasCardIn(data, secret); what != "" {
			t.Errorf("%s is in %s", what, path)
		}
		return err
	})
	if err != nil || read < 4096 {
		t.Errorf("%d bytes read, %v", read, err)
	}
}

// TestF10CardIsGoneWhenTheAReqLeaves: at the moment at which the directory has the AReq, the row has no card.
func TestF10CardIsGoneWhenTheAReqLeaves(t *testing.T) {
	eachRealStore(t, func(t *testing.T, w *world, st realStore, keyFile string) {
		p, ring := realPage(t, w, st, keyFile)
		if _, card := rowOf(t, st, ring, p.id); card == nil {
			t.Fatal("the row has no card before the AReq")
		}
		left := make(chan []byte, 1)
		w.sent = func([]byte) {
			_, card := rowOf(t, st, ring, p.id)
			left <- card
		}
		p.startBrowser()
		p.await(auth.StepEnd)
		if card := <-left; card != nil {
			t.Errorf("the row has %d bytes of a card when the AReq leaves", len(card))
		}
	})
}

// TestF10CardIsGoneAfterThirtyMinutes: the card of a browser that never comes is taken out of its row when the wait is
// over, though the row stays to say so; that of one that may still come is not.
func TestF10CardIsGoneAfterThirtyMinutes(t *testing.T) {
	eachRealStore(t, func(t *testing.T, w *world, st realStore, keyFile string) {
		p, ring := realPage(t, w, st, keyFile)
		w.pass(20 * time.Minute)
		later, _ := realPage(t, w, st, keyFile)
		w.pass(10*time.Minute - time.Second)
		var after store.Txn
		erase := func() {
			t.Helper()
			var err error
			if after, err = p.EraseCards(t.Context(), st, after); err != nil {
				t.Fatal(err)
			}
		}
		erase()
		if _, card := rowOf(t, st, ring, p.id); card == nil {
			t.Error("the card is gone before its time")
		}
		w.pass(time.Second)
		erase()
		if plain, card := rowOf(t, st, ring, p.id); card != nil {
			t.Errorf("the card is there after 30 minutes: %s", plain)
		}
		if _, card := rowOf(t, st, ring, later.id); card == nil {
			t.Error("the card of a browser that may still come is gone")
		}
		_, _, _ = p.BeginBrowser(t.Context(), p.token, "", seen) // whatever the browser is told now
		if w.sends[p.id] != 0 {
			t.Errorf("%d AReqs after the end of the wait", w.sends[p.id])
		}
		a, err := p.Authentication(t.Context(), profiled, p.id)
		if err != nil || a.Status != "expired" {
			t.Errorf("%+v, %v; want expired", a, err)
		}
		w.pass(20 * time.Minute)
		erase()
		if _, card := rowOf(t, st, ring, later.id); card != nil {
			t.Error("the card of the later one is there after its 30 minutes")
		}
	})
}
