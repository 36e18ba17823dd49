package operator

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/state/store"
)

// The errors of users, invitations and sessions.
var (
	ErrUserExists   = errors.New("operator: a user of this name exists")
	ErrNoUser       = errors.New("operator: no such user")
	ErrNoInvitation = errors.New("operator: no such invitation")
	ErrNoSession    = errors.New("operator: no such session")
)

// OIDCPrefix begins the name of each user that an issuer of OpenID Connect knows. The subject follows.
const OIDCPrefix = "oidc:"

// A User is a person who may log in to the console.
type User struct {
	// with passkeys a name as CheckTokenName wants it, else OIDCPrefix and the subject
	Name     string    `json:"name"`
	Role     Role      `json:"role"`
	Merchant string    `json:"merchant,omitzero"` // the only merchant whose data the user may see; "" means all
	Group    string    `json:"group,omitzero"`    // the group of merchants whose data the user may see; "" means all
	Label    string    `json:"label,omitzero"`    // what the issuer calls the user
	Created  time.Time `json:"created"`
	Handle   []byte    `json:"-"` // random, stays the same: what passkeys know the user by
	// random, new with each change of role, merchant or group: sessions of another have ended
	Epoch    []byte            `json:"-"`
	Passkeys []json.RawMessage `json:"-"` // opaque
	IsSealed bool              `json:"sealed"`
}

// sealedUser is what is sealed into the row of a user.
type sealedUser struct {
	Role     Role              `json:"role"`
	Merchant string            `json:"merchant,omitzero"`
	Group    string            `json:"group,omitzero"`
	Label    string            `json:"label,omitzero"`
	Created  time.Time         `json:"created"`
	Handle   []byte            `json:"handle"`
	Epoch    []byte            `json:"epoch"`
	Passkeys []json.RawMessage `json:"passkeys,omitempty"`
}

// Who is how the audit trail calls the user.
func (u *User) Who() string {
	if u.IsOIDC() {
		return u.Name
	}
	return "passkey:" + u.Name
}

// Identity distinguishes the user from one who gets the same name later.
func (u *User) Identity() string { return hex.EncodeToString(u.Handle) }

// IsOIDC reports whether an issuer of OpenID Connect knows the user, and says which role they have.
func (u *User) IsOIDC() bool { return strings.HasPrefix(u.Name, OIDCPrefix) }

func (u *User) sealed() sealedUser {
	return sealedUser{u.Role, u.Merchant, u.Group, u.Label, u.Created, u.Handle, u.Epoch, u.Passkeys}
}

// randomBytes returns n random bytes.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // it never fails, it ends the process
	return b
}

// NewSecret returns 256 random bits as text.
func NewSecret() string { return base64.RawURLEncoding.EncodeToString(randomBytes(32)) }

// idOfSecret is the ID of the row that a secret belongs to. The secret itself is in no row.
func idOfSecret(secret string) string {
	hash := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(hash[:])
}

// AddUser adds a user, or returns ErrUserExists. Created, Handle and Epoch of u are set.
func (s *Service) AddUser(ctx context.Context, u *User) error {
	u.Created = s.Now().UTC().Truncate(time.Second)
	u.Handle, u.Epoch, u.IsSealed = randomBytes(32), randomBytes(16), true
	row := store.Object{Kind: store.UserObjects, ID: u.Name}
	row.Data = s.seal(&row, u.sealed())
	return translateError(s.Store.AddObject(ctx, row), store.ErrExists, ErrUserExists)
}

// openUser reads the row of a user. If the row was changed, only the name is there.
func (s *Service) openUser(row *store.Object) User {
	var sealed sealedUser
	if err := s.open(row, &sealed); err != nil {
		return User{Name: row.ID}
	}
	return User{row.ID, sealed.Role, sealed.Merchant, sealed.Group, sealed.Label, sealed.Created, sealed.Handle,
		sealed.Epoch, sealed.Passkeys, true}
}

// Users returns all users by name. If the row of a user was changed, only the name is there.
func (s *Service) Users(ctx context.Context) ([]User, error) {
	rows, err := s.Store.Objects(ctx, store.UserObjects)
	all := make([]User, 0, len(rows))
	for i := range rows {
		all = append(all, s.openUser(&rows[i]))
	}
	return all, err
}

// FindUser returns the user of a name, or ErrNoUser, also if the row was changed in the store.
func (s *Service) FindUser(ctx context.Context, name string) (User, error) {
	row, err := s.Store.Object(ctx, store.UserObjects, name)
	if err != nil {
		return User{}, translateError(err, store.ErrNotFound, ErrNoUser)
	}
	if u := s.openUser(&row); u.IsSealed {
		return u, nil
	}
	return User{}, ErrNoUser
}

// FindWho returns the user whom the audit trail calls who, or ErrNoUser.
func (s *Service) FindWho(ctx context.Context, who string) (User, error) {
	return s.FindUser(ctx, strings.TrimPrefix(who, "passkey:"))
}

// FindHandle returns the user of a handle, or ErrNoUser.
func (s *Service) FindHandle(ctx context.Context, handle []byte) (User, error) {
	all, err := s.Users(ctx)
	if err != nil {
		return User{}, err
	}
	for _, u := range all {
		if u.IsSealed && len(handle) > 0 && bytes.Equal(u.Handle, handle) {
			return u, nil
		}
	}
	return User{}, ErrNoUser
}

// changeTries is how often a change is tried when others change the same row.
const changeTries = 10

// ChangeUser calls change on a user, and returns the user as it was and as it is now. If the role, the merchant or the
// group changes, the sessions of the user end. change may run more than once. If it returns an error, ChangeUser
// returns that error and changes nothing.
func (s *Service) ChangeUser(ctx context.Context, name string,
	change func(*User) error) (before, after User, err error) {
	for range changeTries {
		row, err := s.Store.Object(ctx, store.UserObjects, name)
		if err != nil {
			return User{}, User{}, translateError(err, store.ErrNotFound, ErrNoUser)
		}
		before := s.openUser(&row)
		if !before.IsSealed {
			return User{}, User{}, ErrNoUser
		}
		after := before
		if err := change(&after); err != nil {
			return User{}, User{}, err
		}
		if after.Role != before.Role || after.Merchant != before.Merchant || after.Group != before.Group {
			after.Epoch = randomBytes(16)
		}
		was := row.Data
		row.Data = s.seal(&row, after.sealed())
		if err := s.Store.ChangeObject(ctx, row, was); !errors.Is(err, store.ErrNotFound) {
			return before, after, err
		}
	}
	return User{}, User{}, ErrBusy
}

// RemoveUser removes a user, which ends their sessions.
func (s *Service) RemoveUser(ctx context.Context, name string) error {
	return translateError(s.Store.RemoveObject(ctx, store.UserObjects, name), store.ErrNotFound, ErrNoUser)
}

// An Invitation lets somebody register one passkey. If there is a user of that name already it is a further passkey.
type Invitation struct {
	Name     string
	Role     Role
	Merchant string
	Group    string
	Expires  time.Time
}

// IsFor reports whether the invitation is for a user with these rights.
func (i *Invitation) IsFor(u *User) bool {
	return u.Role == i.Role && u.Merchant == i.Merchant && u.Group == i.Group
}

// sealedInvitation is what is sealed into the row of an invitation.
type sealedInvitation struct {
	Name     string `json:"name"`
	Role     Role   `json:"role"`
	Merchant string `json:"merchant,omitzero"`
	Group    string `json:"group,omitzero"`
}

// invitationLife is how long an invitation is good.
const invitationLife = time.Hour

// Invite makes an invitation and returns its secret, which cannot be read from the store later. Without a name the user
// gets one. It returns ErrUserExists if a user of that name has another role, merchant or group.
func (s *Service) Invite(ctx context.Context, i *Invitation) (secret string, err error) {
	if i.Name == "" {
		i.Name = string(i.Role) + "-" + hex.EncodeToString(randomBytes(3))
	}
	if err := cardnumber.Check(i.Merchant); err != nil {
		return "", fmt.Errorf("merchant: %w", err)
	}
	if err := checkGroup(i.Merchant, i.Group); err != nil {
		return "", fmt.Errorf("group: %w", err)
	}
	u, err := s.FindUser(ctx, i.Name)
	switch {
	case err == nil && !i.IsFor(&u):
		return "", ErrUserExists
	case err != nil && !errors.Is(err, ErrNoUser):
		return "", err
	}
	secret = NewSecret()
	i.Expires = s.Now().Add(invitationLife).UTC().Truncate(time.Millisecond)
	row := store.Object{Kind: store.InvitationObjects, ID: idOfSecret(secret), Expires: i.Expires}
	row.Data = s.seal(&row, sealedInvitation{i.Name, i.Role, i.Merchant, i.Group})
	return secret, s.Store.AddObject(ctx, row)
}

// FindInvitation returns the invitation of a secret, or ErrNoInvitation.
func (s *Service) FindInvitation(ctx context.Context, secret string) (Invitation, error) {
	row, err := s.Store.Object(ctx, store.InvitationObjects, idOfSecret(secret))
	if err != nil {
		return Invitation{}, translateError(err, store.ErrNotFound, ErrNoInvitation)
	}
	var sealed sealedInvitation
	if err := s.open(&row, &sealed); err != nil {
		return Invitation{}, ErrNoInvitation
	}
	return Invitation{sealed.Name, sealed.Role, sealed.Merchant, sealed.Group, row.Expires}, nil
}

// UseInvitation ends an invitation, and adds the passkey to its user. Of several calls at once one succeeds, the others
// return ErrNoInvitation. A new user has the handle that the passkey was made for.
func (s *Service) UseInvitation(ctx context.Context, secret string, handle []byte,
	passkey json.RawMessage) (User, error) {
	i, err := s.FindInvitation(ctx, secret)
	if err != nil {
		return User{}, err
	}
	err = s.Store.RemoveObject(ctx, store.InvitationObjects, idOfSecret(secret))
	if err != nil {
		return User{}, translateError(err, store.ErrNotFound, ErrNoInvitation)
	}
	u := User{
		Name: i.Name, Role: i.Role, Merchant: i.Merchant, Group: i.Group, Created: s.Now().UTC().Truncate(time.Second),
		Handle: handle, Epoch: randomBytes(16), Passkeys: []json.RawMessage{passkey}, IsSealed: true,
	}
	row := store.Object{Kind: store.UserObjects, ID: u.Name}
	row.Data = s.seal(&row, u.sealed())
	err = s.Store.AddObject(ctx, row)
	if errors.Is(err, store.ErrExists) {
		_, u, err = s.ChangeUser(ctx, i.Name, func(u *User) error {
			if !i.IsFor(u) || !bytes.Equal(u.Handle, handle) {
				return ErrUserExists // the user has changed since the invitation
			}
			u.Passkeys = append(u.Passkeys[:len(u.Passkeys):len(u.Passkeys)], passkey)
			return nil
		})
	}
	return u, err
}

// sealedSession is what is sealed into the row of a session.
type sealedSession struct {
	User   string    `json:"user"`
	Epoch  []byte    `json:"epoch"`
	Groups []string  `json:"groups,omitempty"`
	CSRF   string    `json:"csrf"`
	Ends   time.Time `json:"ends"` // whatever happens
	Used   time.Time `json:"used"` // the last act that was noted
}

// StartSession starts a session of a user and returns its secret. It ends after life, and earlier if it is idle, see
// FindSession. groups are those that the issuer of OpenID Connect has named.
func (s *Service) StartSession(ctx context.Context, u *User, groups []string,
	life time.Duration) (secret string, err error) {
	secret = NewSecret()
	now := s.Now().UTC().Truncate(time.Millisecond)
	sealed := sealedSession{u.Name, u.Epoch, groups, NewSecret(), now.Add(life), now}
	row := store.Object{Kind: store.SessionObjects, ID: idOfSecret(secret), Expires: sealed.Ends}
	row.Data = s.seal(&row, sealed)
	return secret, s.Store.AddObject(ctx, row)
}

// idleSteps is how often a session in use is written within the time that it may be idle. So a request in a hundred
// writes, and an idle session ends at most this part of the time too early.
const idleSteps = 15

// An unwrittenUses has the last acts of sessions that the store has refused to note, by the ids of their rows. Its zero
// value is ready to use, by many goroutines.
type unwrittenUses struct {
	mu   sync.Mutex
	acts map[string]time.Time
}

// last returns the last act of a session, given that of its row.
func (u *unwrittenUses) last(id string, written time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := u.acts[id]; at.After(written) {
		return at
	}
	return written
}

// remember keeps an act that the store does not note, and forgets those that are older by the time idle.
func (u *unwrittenUses) remember(id string, act time.Time, idle time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.acts == nil {
		u.acts = make(map[string]time.Time)
	}
	maps.DeleteFunc(u.acts, func(_ string, at time.Time) bool { return act.Sub(at) >= idle })
	u.acts[id] = act
}

// forget removes the act of a session, which the store has noted.
func (u *unwrittenUses) forget(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.acts, id)
}

// use notes that a session is used, on all nodes, and reports whether it may be: it was not idle for too long. While
// the store refuses to note it, this node remembers it.
func (s *Service) use(ctx context.Context, row store.Object, sealed *sealedSession, idle time.Duration) bool {
	now := s.Now().UTC().Truncate(time.Millisecond)
	switch last := s.unwritten.last(row.ID, sealed.Used); {
	case !now.Before(sealed.Ends):
		return false
	case idle == 0:
		return true
	case now.Sub(last) >= idle && !s.wasUsedBefore(last, idle):
		return false
	case now.Sub(last) < idle/idleSteps:
		return true
	}
	was := row.Data
	sealed.Used = now
	row.Data = s.seal(&row, sealed)
	err := s.Store.ChangeObject(ctx, row, was)
	if err == nil || errors.Is(err, store.ErrNotFound) { // another request has noted it, or the session has ended
		s.unwritten.forget(row.ID)
	} else {
		s.unwritten.remember(row.ID, now, idle)
	}
	return true
}

// wasUsedBefore reports whether the store has refused writes for as long as a session seems to be idle by its last act.
// The person may have used it on other nodes since: what they remember is not known here.
func (s *Service) wasUsedBefore(last time.Time, idle time.Duration) bool {
	if s.RefusesWritesFor == nil {
		return false
	}
	refused := s.RefusesWritesFor()
	return refused > 0 && s.Now().Add(-refused).Before(last.Add(idle))
}

// FindSession returns the session of a secret with its user and groups, or ErrNoSession. It asks the store each time,
// so that a session ends on all nodes immediately when its user is removed or has another role or group. It notes that
// the session is used. One that nothing uses for the time idle has ended; 0 means that it may be idle.
func (s *Service) FindSession(ctx context.Context, secret string,
	idle time.Duration) (Session, User, []string, error) {
	row, err := s.Store.Object(ctx, store.SessionObjects, idOfSecret(secret))
	if err != nil {
		return Session{}, User{}, nil, translateError(err, store.ErrNotFound, ErrNoSession)
	}
	var sealed sealedSession
	if err := s.open(&row, &sealed); err != nil {
		return Session{}, User{}, nil, ErrNoSession
	}
	u, err := s.FindUser(ctx, sealed.User)
	if errors.Is(err, ErrNoUser) || err == nil && !bytes.Equal(u.Epoch, sealed.Epoch) {
		return Session{}, User{}, nil, ErrNoSession
	}
	if err != nil {
		return Session{}, User{}, nil, err
	}
	if !s.use(ctx, row, &sealed, idle) {
		return Session{}, User{}, nil, ErrNoSession
	}
	key := sha256.Sum256([]byte("key of the session " + secret))
	by, err := s.withMembers(ctx,
		Actor{Who: u.Who(), Role: u.Role, Merchant: u.Merchant, Group: u.Group, IsPerson: true,
			Identity: u.Identity()})
	if err != nil {
		return Session{}, User{}, nil, err
	}
	return Session{by, sealed.CSRF, key[:]}, u, sealed.Groups, nil
}

// EndSession ends the session of a secret. It is no error if there is none.
func (s *Service) EndSession(ctx context.Context, secret string) error {
	return translateError(s.Store.RemoveObject(ctx, store.SessionObjects, idOfSecret(secret)), store.ErrNotFound, nil)
}

// SpendOnce returns nil the first time that it is called with an ID until it expires, and store.ErrExists later.
func (s *Service) SpendOnce(ctx context.Context, id string, expires time.Time) error {
	return s.Store.AddObject(ctx,
		store.Object{Kind: store.CeremonyObjects, ID: idOfSecret(id), Expires: expires.UTC().Truncate(time.Millisecond)})
}

// Keep keeps a value for a while under a secret that Take takes. The value is sealed.
func (s *Service) Keep(ctx context.Context, secret string, value any, expires time.Time) error {
	row := store.Object{
		Kind: store.CeremonyObjects, ID: idOfSecret(secret), Expires: expires.UTC().Truncate(time.Millisecond),
	}
	row.Data = s.seal(&row, value)
	return s.Store.AddObject(ctx, row)
}

// Take reads the value that Keep has kept under a secret, and removes it. Of several calls one succeeds. The others
// return [store.ErrNotFound].
func (s *Service) Take(ctx context.Context, secret string, value any) error {
	row, err := s.Store.Object(ctx, store.CeremonyObjects, idOfSecret(secret))
	if err != nil {
		return err
	}
	if err := s.open(&row, value); err != nil {
		return err
	}
	return s.Store.RemoveObject(ctx, store.CeremonyObjects, row.ID)
}
