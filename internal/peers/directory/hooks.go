package directory

import (
	"context"
	"time"
)

// Hooks are called for metrics and traces. Each may be nil. They are called by many goroutines at once and must return
// quickly.
type Hooks struct {
	// Begun is called before each message to a directory server. Id is the message's; it is "" for an Erro or Error.
	// Begun returns the context of the exchange, and a function that is called after it with nil or an *Error.
	Begun func(ctx context.Context, scheme, message, id string) (_ context.Context, ended func(err error))
	// Retried is called with the context of the exchange when a message that failed is sent again.
	Retried func(ctx context.Context, err error)
	// Exchanged is called after each message to a directory server; err is nil or *Error.
	Exchanged func(scheme, message string, took time.Duration, err error)
	// Refreshed is called when the scheme's card ranges were replaced, or confirmed by the directory server. At is when
	// its answer came, which may be long ago and to another process. Card ranges of 1.0.2 are not reported.
	Refreshed func(scheme string, ranges int, at time.Time)
	// Held is called whenever the store was polled. Held says whether a set of card ranges waits for an operator to
	// accept it.
	Held func(scheme string, held bool)
	// Dropped is called when an Erro, or an Error of 1.0.2, was not sent because too many are under way.
	Dropped func(scheme, message string)
	// Opened is called with open set when messages of that name begin to be refused because their directory server
	// cannot be reached, and with open unset when they are sent again. It is also called once when a peer is taken into
	// use. It is not called for a peer that was replaced.
	Opened func(scheme, message string, open bool)
}

func (h Hooks) beginMessage(ctx context.Context,
	scheme, message, id string) (_ context.Context, ended func(err error)) {
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
