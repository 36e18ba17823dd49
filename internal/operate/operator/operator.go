// Package operator knows who may use the admin API and the console, and records what they do. Use a [Service] to make,
// list and revoke tokens, to find the [Actor] of a token that a request brings, to keep the users of the console with
// their invitations and sessions, and to write and read the audit trail.
//
// No token is kept. What is kept is the SHA-256 of its 256 random bits. The row of a token is sealed with the key file.
// An attacker who can write to the store, but has no key file, can neither make a token nor change what one may do.
package operator

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A Role says what somebody may do.
type Role string

// The roles, each of which may do all that the one before it may.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
)

// Roles returns all roles.
func Roles() []Role { return []Role{Viewer, Operator, Admin} }

// Includes reports whether one with the role may do all that one with the other may.
func (r Role) Includes(other Role) bool {
	all := Roles()
	return slices.Contains(all, r) && slices.Index(all, r) >= slices.Index(all, other)
}

// ParseRole reads a role.
func ParseRole(text string) (Role, error) {
	if !slices.Contains(Roles(), Role(text)) {
		return "", errors.New("want viewer, operator or admin")
	}
	return Role(text), nil
}

// An Actor is who does something.
type Actor struct {
	Who      string // such as token:NAME
	Role     Role
	Merchant string // the only merchant whose data the actor may see; "" means all
	Group    string // the group of merchants whose data the actor may see; "" means all
	From     string // the address that the request came from

	// IsPerson is set for people who have logged in to the console. Dangerous acts need their confirmation.
	IsPerson bool `json:"-"`
	// Identity is that of the person, see [User.Identity]; "" for all others.
	Identity string `json:"-"`
	// Confirmed is the act that the person has confirmed with a passkey or a login a moment ago.
	Confirmed Confirmation `json:"-"`
	// Allowed is the act that another person has allowed this one to do; its By is who that is.
	Allowed Confirmation `json:"-"`

	// ofGroup has the merchants of Group at the time of the request, see Members of [Service]; nil means that nobody has
	// looked them up.
	ofGroup *journal.Scope
}

// An Intent is an act on an object that a person is about to do.
type Intent struct {
	Act    string `json:"act"`              // its name in the table of acts
	Object string `json:"object,omitempty"` // as the audit trail names it
}

// A Confirmation says that a person has confirmed or allowed an act, for this one request.
type Confirmation struct {
	Intent
	By string // "passkey" or "login", or who has allowed it; "" means that there is none
}

// IsOf reports whether the act on the object was confirmed or allowed.
func (c *Confirmation) IsOf(what Intent) bool { return c.By != "" && c.Intent == what }

// IsBound reports whether the actor may see only what belongs to one merchant or to the merchants of a group.
func (a *Actor) IsBound() bool { return a.Merchant != "" || a.Group != "" }

// Scope returns whose data the actor may see. An actor of a group whose members were not looked up sees nothing.
func (a *Actor) Scope() journal.Scope {
	switch {
	case a.Group == "" && a.Merchant == "":
		return journal.All()
	case a.Group == "":
		return journal.Only(a.Merchant)
	case a.Merchant == "" && a.ofGroup != nil:
		return *a.ofGroup
	}
	return journal.Only()
}

// CanSee reports whether the actor may see what belongs to a merchant.
func (a *Actor) CanSee(merchant string) bool { return a.Scope().Has(merchant) }

// Entry returns the entry of the audit trail for what the actor does.
func (a *Actor) Entry(action, object string, before, after any) Entry {
	return Entry{
		Who: a.Who, Role: a.Role, Group: a.Group, From: a.From, Action: action, Object: object, Before: before, After: after,
		Confirmed: a.Confirmed.By, AllowedBy: a.Allowed.By,
	}
}

// A Session belongs to an actor who has logged in to the console.
type Session struct {
	Actor Actor
	CSRF  string // by which a form shows that it comes from a page of the session, see [Session.FormToken]
	Key   []byte // a secret of the session that is on no page, the same on every node
}

// FormToken returns the value of csrf in forms of the session's pages: CSRF under a mask. It is a different text each
// time. So a page that has it can be compressed: no two pages show the same secret.
func (s *Session) FormToken() string {
	token := make([]byte, 2*len(s.CSRF))
	mask, masked := token[:len(s.CSRF)], token[len(s.CSRF):]
	_, _ = rand.Read(mask) // never fails: it ends the program first
	subtle.XORBytes(masked, mask, []byte(s.CSRF))
	return base64.RawURLEncoding.EncodeToString(token)
}

// IsFormToken reports whether FormToken of the session has returned a text.
func (s *Session) IsFormToken(text string) bool {
	token, err := base64.RawURLEncoding.DecodeString(text)
	n := len(s.CSRF)
	if err != nil || n == 0 || len(token) != 2*n {
		return false
	}
	subtle.XORBytes(token[n:], token[n:], token[:n])
	return subtle.ConstantTimeCompare(token[n:], []byte(s.CSRF)) == 1
}

// Seal seals what only this session can open again: its key follows from the cookie, which the store does not have.
func (s *Session) Seal(plain []byte) []byte {
	return s.cipher().Seal(nil, nil, plain, nil)
}

// Open opens what Seal of the same session has sealed.
func (s *Session) Open(sealed []byte) ([]byte, error) {
	return s.cipher().Open(nil, nil, sealed, nil)
}

// cipher returns AES-256 in Galois/Counter Mode with random nonces, under the key of the session.
func (s *Session) cipher() cipher.AEAD {
	key := sha256.Sum256(append([]byte("sealed by the session "), s.Key...))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has the right length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has the right size of blocks
	}
	return aead
}

// sessionKey is the key of the session in a context.
type sessionKey struct{}

// WithSession returns a context that carries the session of a request.
func WithSession(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// SessionOf returns the session that WithSession has put into a context.
func SessionOf(ctx context.Context) (*Session, bool) {
	s, ok := ctx.Value(sessionKey{}).(*Session)
	return s, ok && s != nil
}

// A Store is what a Service needs of a store.
type Store interface {
	store.Objects
	store.Audit
}

// A Service keeps tokens and the audit trail. Set its fields before use.
type Service struct {
	Store  Store
	Sealer store.Sealer
	Now    func() time.Time
	// Keys are those of the journal, under which each entry of the audit trail is linked. Nil makes links without a MAC,
	// which no check of the trail takes.
	Keys *journal.Keys
	// KeysFault says why Keys cannot be read now. Record returns it: an act has to wait until its entry can have a MAC.
	// Nil means that they were read, or are lost.
	KeysFault error
	// RefusesWritesFor returns for how long the store has refused to write, and 0 while it writes; nil means that this is
	// not known.
	RefusesWritesFor func() time.Duration
	// Members returns the merchants of a group. It is called for each request of a person or a token of a group, so a
	// merchant that has moved to another group is out of reach immediately, on every node. Nil: no group has members.
	Members func(ctx context.Context, group string) ([]string, error)

	unwritten unwrittenUses // uses of sessions that the store has refused to write
	appending sync.Mutex    // is held while an entry is appended to the audit trail
	checked   checkedTrail
}

// The errors of tokens.
var (
	ErrTaken   = errors.New("operator: a token of this name exists")
	ErrNoToken = errors.New("operator: no such token")
)

// A Token describes a token of the admin API.
type Token struct {
	Name     string    `json:"name"`
	Role     Role      `json:"role"`
	Merchant string    `json:"merchant,omitzero"` // the only merchant whose data it may see; "" means all
	Group    string    `json:"group,omitzero"`    // the group of merchants whose data it may see; "" means all
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"` // zero: never
	IsSealed bool      `json:"sealed"`           // its row in the store is as it was made
}

// sealedToken is what is sealed into the row of a token.
type sealedToken struct {
	Hash     []byte    `json:"hash"`
	Role     Role      `json:"role"`
	Merchant string    `json:"merchant,omitzero"`
	Group    string    `json:"group,omitzero"`
	Created  time.Time `json:"created"`
}

// tokenPrefix begins every token, so that scanners of source code find one that was committed.
const tokenPrefix = "threeds-admin-"

// CheckTokenName says what is wrong with the name of a token; nil means that it is valid. It has the form of that of a
// group.
func CheckTokenName(name string) error { return account.CheckGroup(name) }

// checkGroup says what is wrong with the group of somebody who may be bound to a merchant; nil means that it is valid.
func checkGroup(merchant, group string) error {
	switch {
	case group == "":
		return nil
	case merchant != "":
		return errors.New("give a merchant or a group, not both")
	}
	return account.CheckGroup(group)
}

// CreateToken makes a token and returns it. It cannot be read from the store later. The Created of t is set.
func (s *Service) CreateToken(ctx context.Context, t Token) (string, error) {
	if err := CheckTokenName(t.Name); err != nil {
		return "", fmt.Errorf("name: %w", err)
	}
	if err := cardnumber.Check(t.Merchant); err != nil {
		return "", fmt.Errorf("merchant: %w", err)
	}
	if err := checkGroup(t.Merchant, t.Group); err != nil {
		return "", fmt.Errorf("group: %w", err)
	}
	token := tokenPrefix + NewSecret()
	hash := sha256.Sum256([]byte(token))
	row := store.Object{Kind: store.TokenObjects, ID: t.Name, Expires: t.Expires}
	row.Data = s.seal(&row, sealedToken{hash[:], t.Role, t.Merchant, t.Group, s.Now().UTC().Truncate(time.Second)})
	if err := s.Store.AddObject(ctx, row); err != nil {
		return "", translateError(err, store.ErrExists, ErrTaken)
	}
	return token, nil
}

// translateError returns to in place of an error of the store that is from, and any other error as it is.
func translateError(err, from, to error) error {
	if errors.Is(err, from) {
		return to
	}
	return err
}

func (s *Service) seal(row *store.Object, v any) []byte {
	plain, err := json.Marshal(v)
	if err != nil {
		panic(err) // what is sealed has nothing that cannot be encoded
	}
	return s.Sealer.Seal(row.Name(), plain)
}

// open reads what seal has put into a row.
func (s *Service) open(row *store.Object, v any) error {
	plain, err := s.Sealer.Open(row.Name(), row.Data)
	if err == nil {
		err = json.Unmarshal(plain, v)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", row.Kind, row.ID, err)
	}
	return nil
}

// openToken reads the row of a token.
func (s *Service) openToken(row *store.Object) (sealed sealedToken, err error) {
	if err := s.open(row, &sealed); err != nil {
		return sealedToken{}, err
	}
	return sealed, nil
}

// Tokens returns all tokens by name. If the row of a token was changed, only its name and its end are there.
func (s *Service) Tokens(ctx context.Context) ([]Token, error) {
	rows, err := s.Store.Objects(ctx, store.TokenObjects)
	if err != nil {
		return nil, err
	}
	all := []Token{}
	for i := range rows {
		sealed, err := s.openToken(&rows[i])
		all = append(all, Token{
			rows[i].ID, sealed.Role, sealed.Merchant, sealed.Group, sealed.Created, rows[i].Expires, err == nil,
		})
	}
	return all, nil
}

// RevokeToken ends a token immediately, on every node.
func (s *Service) RevokeToken(ctx context.Context, name string) error {
	return translateError(s.Store.RemoveObject(ctx, store.TokenObjects, name), store.ErrNotFound, ErrNoToken)
}

// FindActor returns who a token stands for, or ErrNoToken. It asks the store each time, so that a token that was
// revoked or has ended is refused immediately.
func (s *Service) FindActor(ctx context.Context, token string) (Actor, error) {
	if !strings.HasPrefix(token, tokenPrefix) {
		return Actor{}, ErrNoToken
	}
	rows, err := s.Store.Objects(ctx, store.TokenObjects)
	if err != nil {
		return Actor{}, err
	}
	hash := sha256.Sum256([]byte(token))
	for i := range rows {
		sealed, err := s.openToken(&rows[i])
		if err == nil && subtle.ConstantTimeCompare(sealed.Hash, hash[:]) == 1 {
			return s.withMembers(ctx,
				Actor{Who: "token:" + rows[i].ID, Role: sealed.Role, Merchant: sealed.Merchant, Group: sealed.Group})
		}
	}
	return Actor{}, ErrNoToken
}

// withMembers returns an actor with the merchants of its group as they are now.
func (s *Service) withMembers(ctx context.Context, a Actor) (Actor, error) {
	if a.Group == "" || s.Members == nil {
		return a, nil
	}
	members, err := s.Members(ctx, a.Group)
	a.ofGroup = new(journal.Only(members...))
	return a, err
}

// Reseal seals every token and every user again, so that they outlive rotations of the key file.
func (s *Service) Reseal(ctx context.Context) error {
	for _, kind := range []string{store.TokenObjects, store.UserObjects} {
		rows, err := s.Store.Objects(ctx, kind)
		if err != nil {
			return err
		}
		for i := range rows {
			plain, err := s.Sealer.Open(rows[i].Name(), rows[i].Data)
			if err != nil {
				continue // it is refused already, and the list says so
			}
			was := rows[i].Data
			rows[i].Data = s.Sealer.Seal(rows[i].Name(), plain)
			if err := s.Store.ChangeObject(ctx, rows[i], was); err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
	}
	return nil
}
