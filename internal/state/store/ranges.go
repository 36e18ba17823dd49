package store

import (
	"context"
	"io"
	"time"
)

// How much fits into what is small, in bytes.
const (
	MaxNote  = 64 << 10 // Snapshot.Note
	MaxValue = 64 << 10 // a value of States
)

// A Lease is one holding of a name. Name, Holder and Token say which; where a
// lease is an argument, its Expires is not looked at.
type Lease struct {
	Name    string
	Holder  string
	Token   int64     // greater in every new holding of the name
	Expires time.Time // the first moment at which it is over; UTC, whole milliseconds
}

// Leases let one of several holders at a time do a thing. Holders that run at the
// same time need different names.
//
// A lease is over from its Expires on, by the clock of the store, or once it is
// released. A holder that is slow or cut off may not notice. Therefore each
// write that is to be its alone takes the lease, and is fenced: it returns
// ErrFenced, and changes nothing, unless the lease is the newest holding of its
// name and was not released. One that has merely expired still writes, for
// nobody has come after it.
type Leases interface {
	// Acquire takes the lease of a name for ttl from now. It returns ErrHeld,
	// and changes nothing, while that of another holder is not over. A holder
	// whose lease is not over renews it: the Token stays, Expires is ttl from
	// now even if it was later. Every other Acquire begins a new holding, with
	// a Token greater than any that the name had before. Of several holders at
	// once exactly one gets it.
	Acquire(ctx context.Context, name, holder string, ttl time.Duration) (Lease, error)

	// Release ends a lease: any holder may acquire its name at once. It does
	// nothing if there was a new holding since, or the lease is released or
	// unknown; that is no error.
	Release(ctx context.Context, l Lease) error
}

// A Snapshot describes one generation of what is kept for a scheme.
type Snapshot struct {
	Scheme     string
	Generation int64
	Created    time.Time // UTC, whole milliseconds
	Size       int64     // bytes of content
	Note       []byte    // opaque, at most MaxNote; nil and empty are the same
}

// Snapshots keep the last few generations of something large per scheme.
type Snapshots interface {
	// PutSnapshot adds a snapshot whose content is read from the reader to its
	// end. The content may be larger than memory, and other writes need not
	// wait long meanwhile. Nothing of it can be seen until all of it is there;
	// at the same moment the older snapshots of the scheme go, except that the
	// newest keep stay, at least the new one. Size is counted, not taken from s.
	//
	// It is fenced by the lease, as that is in the end. It returns ErrExists if
	// the scheme has this generation or a later one, and ErrTooLarge if the note
	// is. The reader may then be left unread. An error of the reader is
	// returned as it is. After any error nothing is changed.
	//
	// One PutSnapshot of a scheme is at work at a time: when another of the same
	// scheme begins, with a good lease and generation, the earlier returns
	// ErrFenced. The reader must not call the store.
	PutSnapshot(ctx context.Context, s Snapshot, lease Lease, content io.Reader, keep int) error

	// Snapshots returns what there is of a scheme, the greatest generation
	// first.
	Snapshots(ctx context.Context, scheme string) ([]Snapshot, error)

	// OpenSnapshot returns a reader of the content, which the caller closes, or
	// ErrNotFound. The reader is for one goroutine. It gives the whole content
	// and io.EOF, or an error: ErrNotFound if the snapshot went meanwhile, that
	// of ctx if it ended.
	OpenSnapshot(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error)
}

// States keep small values, each under a key, until they are replaced.
type States interface {
	// PutState sets the value of a key, or replaces it. It is fenced by the
	// lease, and returns ErrTooLarge, changing nothing, if the value has more
	// than MaxValue bytes.
	PutState(ctx context.Context, key string, value []byte, lease Lease) error

	// State returns the value of a key, or ErrNotFound if it was never set.
	// Nil and empty values are the same.
	State(ctx context.Context, key string) ([]byte, error)
}
