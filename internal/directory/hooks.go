package directory

import (
	"context"
	"time"
)

// Hooks are told what happens, to be counted and traced. Any may be nil; they must be
// quick and may be called by many goroutines.
type Hooks struct {
	// Begun is called before each message to a directory server, with the id of the message
	// or, of an Erro or Error, "". It returns the context of the exchange, and what is called
	// after it; err is nil or *Error.
	Begun func(ctx context.Context, scheme, message, id string) (_ context.Context, ended func(err error))
	// Retried is called, with the context of the exchange, when a message that failed is
	// tried again.
	Retried func(ctx context.Context, err error)
	// Exchanged is called after each message to a directory server; err is nil or *Error.
	Exchanged func(scheme, message string, took time.Duration, err error)
	// Refreshed is called when the scheme's card ranges were replaced, or confirmed
	// by the directory server; at is when its answer came, which may have been long ago,
	// to another process. Those of 3-D Secure 1.0.2 are not told of.
	Refreshed func(scheme string, ranges int, at time.Time)
	// Held is called with every look at the store, and says whether a set of the scheme's
	// card ranges is held back until an operator accepts it.
	Held func(scheme string, held bool)
	// Dropped is called when an Erro, or an Error of 1.0.2, could not be sent because too
	// many are.
	Dropped func(scheme, message string)
	// Opened is called with open when messages of that name begin to be refused
	// because their directory server cannot be reached, and without when they are
	// sent again; and once when a peer is taken into use. It is not called for a peer
	// that was replaced.
	Opened func(scheme, message string, open bool)
}

func (h Hooks) begin(ctx context.Context, scheme, message, id string) (_ context.Context, ended func(err error)) {
	if h.Begun == nil {
		return ctx, func(error) {}
	}
	return h.Begun(ctx, scheme, message, id)
}

func (h Hooks) reportExchange(scheme, message string, start time.Time, err error) {
	if h.Exchanged != nil {
		h.Exchanged(scheme, message, time.Since(start), err)
	}
}

func (h Hooks) reportDropped(scheme, message string) {
	if h.Dropped != nil {
		h.Dropped(scheme, message)
	}
}
