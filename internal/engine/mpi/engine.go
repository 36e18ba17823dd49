package mpi

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A Store is what the engine needs of a store; see package store for the contract.
type Store interface {
	Create(ctx context.Context, t store.Txn) error
	Get(ctx context.Context, id string) (store.Txn, error)
	Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error
}

// A Client reaches the directory servers.
type Client interface {
	// Exchange posts the message of that name, with its id, and returns the answer's
	// body. Merchant is the merchant that a VEReq is for; it is "" for other messages. An error means that there is no
	// answer. If it has a method Detail() string, that text is for the requestor.
	Exchange(ctx context.Context, scheme, merchant, name, id string, msg []byte) ([]byte, error)
	// Report posts an Error in the background, and goes on when ctx ends. The caller does not wait for the reply.
	Report(ctx context.Context, scheme string, msg []byte)
}

// A Recorder records what becomes known of a request on its way. Its methods must not
// block; they find the request by its context.
type Recorder interface {
	// Note notes an id, a word or a code, by the name that the messages have for it.
	// "outcome" is the answer, Y, N, U or A, or else a word that says why there was none.
	Note(ctx context.Context, name, value string)
	// NoteDirectory notes how long the directory server took.
	NoteDirectory(ctx context.Context, took time.Duration)
	// NoteStep records a message under the name of its step in the journal. It gets the time when the message was sent or
	// came, its JSON without secrets (nil if it could not be read), and what was found in it ("" for nothing).
	NoteStep(ctx context.Context, step string, at time.Time, message []byte, finding string)
}

// A Directory is what the engine knows of one scheme's 3-D Secure 1.
type Directory struct {
	Scheme string
	// Policy says which signatures of its issuers count; it is asked for each
	// PARes. Its Name is the scheme, its At is set by the engine.
	Policy func() xmldsig.Policy
	// SigningTime means that certificates are checked at the time at which the issuer claims to have signed, instead of
	// now.
	SigningTime bool
	// Lab allows an issuer's page on plain http, and on the browser's own machine. It is
	// for laboratories and for the sandbox.
	Lab bool
	// CardRanges says in whose name to ask for the card ranges that take part. Nil means that no card ranges are
	// loaded, and the directory server is asked for each card.
	CardRanges *Asker
}

// An Asker is a merchant that the directory server knows, and the URL of that directory server.
type Asker struct{ URL, AcquirerBIN, MerchantID string }

// An Engine does the work. Set all fields but the optional ones before use; it
// is then safe for concurrent calls. Without directories Enrolled answers that 3-D Secure 1
// is not available, and Check refuses everything.
type Engine struct {
	Directories []Directory // each scheme once
	Client      Client
	Store       Store
	Sealer      record.Sealer
	Log         *slog.Logger
	Now         func() time.Time
	Recorder    Recorder // nil means that nothing is recorded
	// CardHash returns the hash by which the journal finds a card; nil means that there is no journal.
	CardHash func(pan string) []byte
	// StoreFailures limits the lines of the log about failures of the store; nil is no limit.
	StoreFailures record.LogLimit

	mu     sync.RWMutex
	tables map[string]*cardTable // by scheme; a scheme without a table has not loaded its ranges
}

// ErrUnavailable says that our own data could not be reached: nothing was
// decided, the same request may succeed later.
var ErrUnavailable = errors.New("mpi: the store cannot be reached")

// Longest is the longest time that Enrolled takes: two attempts at a directory server, and the writes afterwards.
// docs/api.md, M4, allows 30 s. Check takes no longer either.
const (
	Longest  = 28 * time.Second
	exchange = 25 * time.Second
)

// Follow takes over the card ranges of a previous engine, before Run, for the schemes whose address, and the merchant
// in whose name they ask, stay the same.
func (e *Engine) Follow(former *Engine) {
	for i := range e.Directories {
		d := &e.Directories[i]
		was := former.directory(d.Scheme)
		if t := former.table(d.Scheme); t != nil && was != nil && d.CardRanges != nil && was.CardRanges != nil &&
			*d.CardRanges == *was.CardRanges {
			e.setTable(d.Scheme, t)
		}
	}
}

// Run keeps the card ranges fresh until ctx ends.
func (e *Engine) Run(ctx context.Context) {
	var all sync.WaitGroup
	for i := range e.Directories {
		if d := &e.Directories[i]; d.CardRanges != nil {
			all.Go(func() { e.keepFresh(ctx, d) })
		}
	}
	all.Wait()
}

func (e *Engine) directory(scheme string) *Directory {
	for i := range e.Directories {
		if e.Directories[i].Scheme == scheme {
			return &e.Directories[i]
		}
	}
	return nil
}

// cardHash returns the hash by which the journal finds a card; nil when there is no journal.
func (e *Engine) cardHash(pan string) []byte {
	if e.CardHash == nil {
		return nil
	}
	return e.CardHash(pan)
}

// note records a fact about the request of a context. It records nothing if value is "".
func (e *Engine) note(ctx context.Context, name, value string) {
	if e.Recorder != nil && value != "" {
		e.Recorder.Note(ctx, name, value)
	}
}

// noteEnd records how an operation ended: enrolled or check.
func (e *Engine) noteEnd(ctx context.Context, operation, scheme, outcome string) {
	e.note(ctx, "operation", operation)
	e.note(ctx, "scheme", scheme)
	e.note(ctx, "outcome", outcome)
}
