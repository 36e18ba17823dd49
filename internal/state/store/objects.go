package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The kinds of objects.
const (
	TokenObjects      = "token"      // tokens of the admin API
	UserObjects       = "user"       // users who may log in to the console
	InvitationObjects = "invitation" // to the console, each for one passkey
	SessionObjects    = "session"    // of the console
	CeremonyObjects   = "ceremony"   // logins that have succeeded, so that none does twice
	ApprovalObjects   = "approval"   // dangerous acts that wait for a second person

	CertificateObjects = "certificate" // client certificates of a directory with their keys
	DisabledObjects    = "disabled"    // merchants that are disabled, by name, wherever their settings are
)

// A Sealer encrypts what a store keeps, bound to a name.
type Sealer interface {
	Seal(name string, plain []byte) []byte
	Open(name string, sealed []byte) ([]byte, error)
}

// An Object is something small that operators have made, such as a token.
type Object struct {
	Kind, ID string
	Expires  time.Time // the first moment at which it is gone; zero: it stays. UTC, whole milliseconds
	Data     []byte    // opaque, sealed by the caller; nil and empty are the same
}

// Name is what Data is sealed under: all else that a store keeps of an object. It is no name of a transaction or a key.
func (o *Object) Name() string {
	name := appendParts(append(make([]byte, 0, 128), "object "...), o.Kind, o.ID)
	if o.Expires.IsZero() {
		return string(name)
	}
	return string(o.Expires.UTC().Truncate(time.Millisecond).AppendFormat(name, time.RFC3339Nano))
}

// Objects keep what operators have made. An object is expired from its Expires on, by the clock of the store. From that
// moment it is as good as removed. Any change of an object of the kind [DisabledObjects] also changes the mark of
// KeysUnless, so nodes that follow the keys read those objects again.
type Objects interface {
	// AddObject adds an object. It returns ErrExists, and changes nothing, if there is one of this kind and ID.
	AddObject(ctx context.Context, o Object) error

	// Object returns the object of a kind and ID, or ErrNotFound.
	Object(ctx context.Context, kind, id string) (Object, error)

	// Objects returns all objects of a kind in the order of their IDs, byte by byte.
	Objects(ctx context.Context, kind string) ([]Object, error)

	// ChangeObject gives the object of this kind and ID the Expires and Data of o, if its Data is still was. It returns
	// ErrNotFound, and changes nothing, if there is no such object, or if its Data is not was.
	ChangeObject(ctx context.Context, o Object, was []byte) error

	// RemoveObject removes an object. It returns ErrNotFound if there is none. Of several calls at once, one removes it.
	RemoveObject(ctx context.Context, kind, id string) error

	// SweepObjects frees the objects that are expired at now.
	SweepObjects(ctx context.Context, now time.Time) error
}

// An AuditEntry is one line of the audit trail: something that an operator has done.
type AuditEntry struct {
	Seq  int64     // from 1
	At   time.Time // UTC, whole milliseconds
	Link []byte    // opaque: what the caller chains entries with
	Data []byte    // opaque
}

// An AuditQuery says which entries are wanted. The zero value of a field but Limit means any.
type AuditQuery struct {
	From, To time.Time // At is at or after From, and before To
	Before   int64     // Seq is less
	After    int64     // Seq is greater
	Oldest   bool      // the oldest first; else the newest
	Limit    int
}

// Audit keeps the audit trail. Nothing in it is changed or removed: the databases refuse such statements. The exception
// is a restore of the trail of another store: see Clear of [RowTx].
type Audit interface {
	// AppendAudit adds an entry. It returns ErrExists, and changes nothing, unless Seq is one more than that of the
	// last entry, or 1 if there is none.
	AppendAudit(ctx context.Context, e AuditEntry) error

	// AuditEntries returns the entries that a query asks for.
	AuditEntries(ctx context.Context, q AuditQuery) ([]AuditEntry, error)
}

// Span returns the milliseconds that At of the wanted entries is at or after, and before.
func (q *AuditQuery) Span() (from, to int64) {
	const end = 1 << 62
	from, to = 0, end
	if !q.From.IsZero() {
		from = q.From.UnixMilli()
	}
	if !q.To.IsZero() {
		to = q.To.UnixMilli()
	}
	return from, to
}

// Bounds returns the numbers that Seq of the wanted entries is greater than, and less than.
func (q *AuditQuery) Bounds() (after, before int64) {
	const end = 1 << 62
	if q.Before == 0 {
		return q.After, end
	}
	return q.After, q.Before
}

// A ResealRing has the secrets that rows are sealed under.
type ResealRing interface {
	Sealer
	IsSealedByPrevious(sealed []byte) bool
}

// maxResealTries is how often ResealObjects seals an object that others change at the same time.
const maxResealTries = 5

// ResealObjects takes all objects of a kind that are sealed under a previous secret of a ring, and seals them under the
// current one. It returns how many are then sealed under the current secret, and how many are refused because no secret
// opens their seal.
func ResealObjects(ctx context.Context, st Objects, kind string, ring ResealRing) (sealed, refused int, err error) {
	rows, err := st.Objects(ctx, kind)
	if err != nil {
		return 0, 0, fmt.Errorf("seal rows of type %q again: %w", kind, err)
	}
	for _, row := range rows {
		for range maxResealTries {
			plain, failed := ring.Open(row.Name(), row.Data)
			if failed != nil {
				refused++
				break
			}
			if !ring.IsSealedByPrevious(row.Data) {
				sealed++
				break
			}
			was := row.Data
			row.Data = ring.Seal(row.Name(), plain)
			if err = st.ChangeObject(ctx, row, was); errors.Is(err, ErrNotFound) { // somebody has changed it
				row, err = st.Object(ctx, row.Kind, row.ID)
			}
			if errors.Is(err, ErrNotFound) {
				break
			}
			if err != nil {
				return 0, 0, fmt.Errorf("seal rows of type %q again: %w", kind, err)
			}
		}
	}
	return sealed, refused, nil
}
