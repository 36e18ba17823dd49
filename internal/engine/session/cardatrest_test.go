package session_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/session"
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

// A realStore is a store of the kind that the server uses.
type realStore struct {
	listedStore
	dir string // where its files are; "" of PostgreSQL
}

// eachRealStore runs a test with the key file and each kind of store that servers have.
func eachRealStore(t *testing.T, test func(t *testing.T, w *authtest.World, st realStore, keyFile string)) {
	start := func(t *testing.T) (*authtest.World, string) {
		w := authtest.NewWorld()
		w.Nanos.Store(time.Now().UnixNano()) // the clock of PostgreSQL is the machine's
		return w, filepath.Join(t.TempDir(), "keys.json")
	}
	t.Run("sqlite", func(t *testing.T) {
		w, keyFile := start(t)
		dir := t.TempDir()
		st, err := sqlite.Open(dir, sqlite.Options{Now: w.Clock})
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
func realPage(t *testing.T, w *authtest.World, st realStore, keyFile string) (*authtest.Page, *keyring.Ring) {
	t.Helper()
	ring, err := keyring.LoadOrCreate(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	e := w.NewBrowserEngine()
	e.Store, e.Sealer = st, ring
	a, access, err := e.Create(t.Context(), authtest.Profiled, authtest.Four().JSON())
	if err != nil {
		t.Fatal(authtest.Told(err))
	}
	return &authtest.Page{World: w, Engine: e, T: t, ID: a.ID, Token: access.Token}, ring
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
	return err == nil && bytes.Contains(text, []byte(authtest.PAN))
}

// hasCardIn names the encoding in which the card number, or a secret, is in data; "" if it is not there.
func hasCardIn(data []byte, secret []byte) string {
	for name, form := range map[string][]byte{
		"card": []byte(authtest.PAN), "most of the card": []byte(authtest.PAN[8:]), "card in hexadecimal": []byte(hex.EncodeToString([]byte(authtest.PAN))),
		"secret": secret, "secret in hexadecimal": []byte(hex.EncodeToString(secret)),
		"secret in base64": []byte(base64.StdEncoding.EncodeToString(secret)), "secret in base64url": []byte(base64.RawURLEncoding.EncodeToString(secret)),
	} {
		if bytes.Contains(data, form) {
			return name
		}
	}
	for i := range 3 {
		for name, text := range map[string]string{"card": authtest.PAN, "secret": string(secret)} {
			b := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat(" ", i) + text))
			if bytes.Contains(data, []byte(b[4:len(b)-4])) {
				return name + " in base64"
			}
		}
	}
	return ""
}

// TestF10DatabaseAndKeyFileDoNotOpenTheCard: with the real key ring and each real store, the files of the database and
// the key file together give no card number and no secret that opens it. The token does open it.
func TestF10DatabaseAndKeyFileDoNotOpenTheCard(t *testing.T) {
	eachRealStore(t, func(t *testing.T, w *authtest.World, st realStore, keyFile string) {
		p, ring := realPage(t, w, st, keyFile)
		b, err := base64.RawURLEncoding.DecodeString(p.Token)
		if err != nil {
			t.Fatal(err)
		}
		secret := b[16:]
		plain, card := rowOf(t, st, ring, p.ID)
		if !opensCard(t, p.ID, secret, card) {
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
		row, err := st.Get(t.Context(), p.ID)
		if err != nil {
			t.Fatal(err)
		}
		pieces := [][]byte{keys, bytes.Replace(plain, []byte(base64.StdEncoding.EncodeToString(card)), nil, 1), []byte(row.Name()), []byte(p.ID)}
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
				if opensCard(t, p.ID, piece[i:min(i+32, len(piece))], card) {
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
	eachRealStore(t, func(t *testing.T, w *authtest.World, st realStore, keyFile string) {
		p, ring := realPage(t, w, st, keyFile)
		if _, card := rowOf(t, st, ring, p.ID); card == nil {
			t.Fatal("the row has no card before the AReq")
		}
		left := make(chan []byte, 1)
		w.Sent = func([]byte) {
			_, card := rowOf(t, st, ring, p.ID)
			left <- card
		}
		p.Start()
		p.Await(session.StepEnd)
		if card := <-left; card != nil {
			t.Errorf("the row has %d bytes of a card when the AReq leaves", len(card))
		}
	})
}

// TestF10CardIsGoneAfterThirtyMinutes: if a browser never comes, the card is removed from its row when the wait is
// over, and the row stays to say so. If a browser may still come, the card stays.
func TestF10CardIsGoneAfterThirtyMinutes(t *testing.T) {
	eachRealStore(t, func(t *testing.T, w *authtest.World, st realStore, keyFile string) {
		p, ring := realPage(t, w, st, keyFile)
		w.Pass(20 * time.Minute)
		later, _ := realPage(t, w, st, keyFile)
		w.Pass(10*time.Minute - time.Second)
		var after store.Txn
		erase := func() {
			t.Helper()
			var err error
			if after, err = p.EraseCards(t.Context(), st, after); err != nil {
				t.Fatal(err)
			}
		}
		erase()
		if _, card := rowOf(t, st, ring, p.ID); card == nil {
			t.Error("the card is gone before its time")
		}
		w.Pass(time.Second)
		erase()
		if plain, card := rowOf(t, st, ring, p.ID); card != nil {
			t.Errorf("the card is there after 30 minutes: %s", plain)
		}
		if _, card := rowOf(t, st, ring, later.ID); card == nil {
			t.Error("the card of a browser that may still come is gone")
		}
		_, _, _ = p.BeginBrowser(t.Context(), p.Token, "", authtest.Seen) // whatever the answer to the browser is now
		if w.Sends[p.ID] != 0 {
			t.Errorf("%d AReqs after the end of the wait", w.Sends[p.ID])
		}
		a, err := p.Authentication(t.Context(), authtest.Profiled, p.ID)
		if err != nil || a.Status != "expired" {
			t.Errorf("%+v, %v; want expired", a, err)
		}
		w.Pass(20 * time.Minute)
		erase()
		if _, card := rowOf(t, st, ring, later.ID); card != nil {
			t.Error("the card of the later one is there after its 30 minutes")
		}
	})
}

// TestD65TokenLivesUntilHalfAnHourAfterTheEnd: a browser may begin until 30 minutes are over. From then on its token is
// good for as long as the authentication takes, and for 30 minutes more.
func TestD65TokenLivesUntilHalfAnHourAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	var asked authtest.Object
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
		asked = areq
		return authtest.ARes(areq, "C"), nil
	}
	p := w.NewPage(t)
	w.Pass(30*time.Minute - time.Second)
	p.Start()
	p.Await(session.StepChallenge)
	w.Pass(9 * time.Minute)
	if got := p.Receive(t.Context(), []string{"visa"}, authtest.RReq(asked, "Y", 1).JSON()); got.Refused != nil {
		t.Fatalf("%+v", got.Refused)
	}
	for range 2 {
		if v := p.Await(session.StepEnd); v.End != "completed" {
			t.Errorf("%+v", v)
		}
		w.Pass(15*time.Minute - time.Second)
	}
	w.Pass(3 * time.Second)
	if v, err := p.ViewBrowser(t.Context(), p.Token, p.Binding, -1); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("30 minutes after the end: %+v, %v", v, err)
	}
	if _, err := p.OpenBrowser(t.Context(), p.Token); !errors.Is(err, auth.ErrNoAuthentication) {
		t.Errorf("30 minutes after the end: %v", err)
	}
}

// TestD65OnlyADigestOfTheTokenIsStored: before and after the browser has begun, the row has neither token nor secret,
// in any form. Each token has 256 bits of its own.
func TestD65OnlyADigestOfTheTokenIsStored(t *testing.T) {
	t.Parallel()
	w := authtest.NewWorld()
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) { return authtest.ARes(areq, "C"), nil }
	p, other := w.NewPage(t), w.NewPage(t)
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{43,}$`).MatchString(p.Token) {
		t.Errorf("the token %q", p.Token)
	}
	raw, err := base64.RawURLEncoding.DecodeString(p.Token)
	if err != nil || len(raw) < 32 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	secret := raw[len(raw)-32:]
	theirs, err := base64.RawURLEncoding.DecodeString(other.Token)
	if err != nil || bytes.Equal(secret, theirs[len(theirs)-32:]) {
		t.Errorf("two tokens of one secret, %v", err)
	}
	for _, when := range []string{"waiting", "begun"} {
		data := w.Txns[p.ID].Data
		for name, form := range map[string]string{
			"token": p.Token, "secret": string(secret), "hexadecimal": hex.EncodeToString(secret),
			"base64": base64.StdEncoding.EncodeToString(secret)[:40], "base64url": base64.RawURLEncoding.EncodeToString(secret)[:40],
		} {
			if bytes.Contains(data, []byte(form)) {
				t.Errorf("%s: the row has the %s", when, name)
			}
		}
		p.Start()
		p.Await(session.StepChallenge)
	}
}
