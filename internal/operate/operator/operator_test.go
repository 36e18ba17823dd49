package operator_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// newService returns a service on an empty store, whose clock the caller may move.
func newService(t *testing.T) (*operator.Service, *storetest.Memory, *time.Time) {
	t.Helper()
	ring, err := keyring.LoadOrCreate(filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	db := storetest.NewMemory(clock)
	return &operator.Service{Store: db, Sealer: ring, Now: clock, Keys: journal.NewKeys()}, db, &now
}

func createToken(t *testing.T, s *operator.Service, token operator.Token) string {
	t.Helper()
	text, err := s.CreateToken(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestK2AHandleFindsItsOwnUser: each of two users is found only by the handle of their own passkeys, and without a
// handle no user is found.
func TestK2AHandleFindsItsOwnUser(t *testing.T) {
	t.Parallel()
	s, _, _ := newService(t)
	handles := map[string][]byte{}
	for _, name := range []string{"jo", "kim"} {
		u := &operator.User{Name: name, Role: operator.Viewer}
		if err := s.AddUser(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		handles[name] = u.Handle
	}
	for name, handle := range handles {
		if u, err := s.FindHandle(t.Context(), handle); err != nil || u.Name != name {
			t.Errorf("the handle of %s finds %q, %v", name, u.Name, err)
		}
	}
	for _, handle := range []string{"", "handle of a stranger"} {
		if u, err := s.FindHandle(t.Context(), []byte(handle)); !errors.Is(err, operator.ErrNoUser) {
			t.Errorf("the handle %q finds %q, %v", handle, u.Name, err)
		}
	}
}

func TestD140TokenHasRoleAndEnd(t *testing.T) {
	t.Parallel()
	s, _, now := newService(t)
	text := createToken(t, s, operator.Token{
		Name: "ci", Role: operator.Operator, Merchant: "Corner Shop", Expires: now.Add(time.Hour),
	})
	actor, err := s.FindActor(t.Context(), text)
	if want := (operator.Actor{Who: "token:ci", Role: operator.Operator, Merchant: "Corner Shop"}); err != nil || actor != want {
		t.Errorf("FindActor = %+v, %v; want %+v", actor, err, want)
	}
	if _, err := s.CreateToken(t.Context(), operator.Token{Name: "ci", Role: operator.Admin}); !errors.Is(err, operator.ErrTaken) {
		t.Errorf("a second token of one name: %v", err)
	}
	for _, other := range []string{"", "x", text + "x", strings.ToUpper(text)} {
		if _, err := s.FindActor(t.Context(), other); !errors.Is(err, operator.ErrNoToken) {
			t.Errorf("another text finds an actor: %v", err)
		}
	}
	*now = now.Add(time.Hour)
	if _, err := s.FindActor(t.Context(), text); !errors.Is(err, operator.ErrNoToken) {
		t.Errorf("a token that has ended: %v", err)
	}
}

func TestD140RevokedTokenEndsAtOnce(t *testing.T) {
	t.Parallel()
	s, _, _ := newService(t)
	text := createToken(t, s, operator.Token{Name: "ci", Role: operator.Viewer})
	if err := s.RevokeToken(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.FindActor(t.Context(), text); !errors.Is(err, operator.ErrNoToken) {
		t.Errorf("a revoked token: %v", err)
	}
	if err := s.RevokeToken(t.Context(), "ci"); !errors.Is(err, operator.ErrNoToken) {
		t.Errorf("revoked twice: %v", err)
	}
}

// TestTokenRowsAreSealed: the store has no token, and a row that is copied to another name or made to
// last is worth nothing.
func TestTokenRowsAreSealed(t *testing.T) {
	t.Parallel()
	s, db, now := newService(t)
	text := createToken(t, s, operator.Token{Name: "ci", Role: operator.Viewer, Expires: now.Add(time.Hour)})
	row, err := db.Object(t.Context(), store.TokenObjects, "ci")
	if err != nil || bytes.Contains(row.Data, []byte(text)) || bytes.Contains(row.Data, []byte("viewer")) {
		t.Fatalf("the row is readable, or not there: %v", err)
	}
	was := row.Data
	row.Expires = time.Time{}
	if err := db.ChangeObject(t.Context(), row, was); err != nil {
		t.Fatal(err)
	}
	if _, err := s.FindActor(t.Context(), text); !errors.Is(err, operator.ErrNoToken) {
		t.Errorf("a token whose end was changed in the store: %v", err)
	}
	if all, err := s.Tokens(t.Context()); err != nil || len(all) != 1 || all[0].IsSealed {
		t.Errorf("Tokens = %+v, %v; want one that is not sealed", all, err)
	}
}

func TestD146AuditSearch(t *testing.T) {
	t.Parallel()
	s, _, now := newService(t)
	for _, action := range []string{"key.create", "key.revoke", "key.create"} {
		if err := s.Record(t.Context(), operator.Entry{Who: "token:ci", Action: action, After: map[string]any{"merchant": "M"}}); err != nil {
			t.Fatal(err)
		}
		*now = now.Add(time.Minute)
	}
	got, err := s.Search(t.Context(), operator.Query{Action: "key.create", Limit: 9})
	if err != nil || len(got) != 2 || got[0].Seq != 3 || got[1].Seq != 1 {
		t.Errorf("Search = %+v, %v", got, err)
	}
	if got, err := s.Search(t.Context(), operator.Query{To: got[0].At, Limit: 1}); err != nil || len(got) != 1 || got[0].Seq != 2 {
		t.Errorf("Search before the last = %+v, %v", got, err)
	}
}
