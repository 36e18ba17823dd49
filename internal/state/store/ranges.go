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

// A Lease is one holding of a name. Name, Holder and Token identify it; if a lease is an argument, its Expires is
// ignored.
type Lease struct {
	Name    string
	Holder  string
	Token   int64     // greater in every new holding of the name
	Expires time.Time // the first moment at which it is over; UTC, whole milliseconds
}

// Leases let one of several holders do a thing at a time. Holders that run at the same time need different names.
//
// A lease is over from its Expires on, by the clock of the store, or once it is released. A holder that is slow or cut
// off may not notice. Therefore each write that only the holder may make takes the lease as an argument, and is fenced:
// it returns ErrFenced, and changes nothing, unless the lease is the newest holding of its name and was not released. A
// lease that has merely expired still allows writes, for no other holder has come after it.
type Leases interface {
	// Acquire takes the lease of a name for ttl from now. While the lease of another holder is not over, it returns
	// ErrHeld and changes nothing. If the holder's own lease is not over, Acquire renews it: the Token stays, and
	// Expires is ttl from now even if it was later. Every other Acquire begins a new holding, with a Token greater than
	// any that the name had before. If several holders call it at once, exactly one gets the lease.
	Acquire(ctx context.Context, name, holder string, ttl time.Duration) (Lease, error)

	// Release ends a lease: any holder may then acquire its name immediately. It does nothing if there was a new
	// holding since, or if the lease is released or unknown; that is no error.
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
	// wait long meanwhile. The snapshot is not visible until all of it is there. At the same moment the older snapshots
	// of the scheme are removed: the newest keep snapshots stay, at least the new one. Size is counted, not taken from
	// s.
	//
	// It is fenced by the lease, in the state that the lease has at the end. It returns ErrExists if the scheme has
	// this generation or a later one, and ErrTooLarge if the note is. The reader may then be left unread. An error of
	// the reader is returned as it is. After any error nothing is changed.
	//
	// Only one PutSnapshot of a scheme runs at a time: when another of the same scheme begins, with a good lease and
	// generation, the earlier one returns ErrFenced. The reader must not call the store.
	PutSnapshot(ctx context.Context, s Snapshot, lease Lease, content io.Reader, keep int) error

	// Snapshots returns the snapshots of a scheme, the greatest generation first.
	Snapshots(ctx context.Context, scheme string) ([]Snapshot, error)

	// OpenSnapshot returns a reader of the content, which the caller closes, or
	// ErrNotFound. The reader is for one goroutine. It returns the whole content and io.EOF, or an error: ErrNotFound
	// if the snapshot was removed meanwhile, or the error of ctx if it ended.
	OpenSnapshot(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error)
}

// States keep small values, each under a key, until they are replaced.
type States interface {
	// PutState sets the value of a key, or replaces it. It is fenced by the lease. If the value has more than MaxValue
	// bytes, it returns ErrTooLarge and changes nothing.
	PutState(ctx context.Context, key string, value []byte, lease Lease) error

	// State returns the value of a key, or ErrNotFound if it was never set.
	// Nil and empty values are the same.
	State(ctx context.Context, key string) ([]byte, error)
}
