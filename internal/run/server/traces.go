package server

import (
	"context"
	"errors"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/state/store"
)

// traceFlushTimeout is how long the end of the process waits for the collector of traces.
const traceFlushTimeout = 2 * time.Second

// closeTraces sends what is left of them, if there are any.
func (s *Server) closeTraces() {
	ctx, cancel := context.WithTimeout(context.Background(), traceFlushTimeout)
	defer cancel()
	s.traces.Close(ctx)
}

// engineStore returns the store for engines: its writes are watched, and its calls are in the traces, if there are any.
func (s *Server) engineStore() store.Store {
	watched := watchedStore{s.db, &s.writes}
	if s.traces == nil {
		return watched
	}
	return tracedStore{watched, s.traces}
}

// hooks counts what happens at the directories, and adds it to the traces.
func (s *Server) directoryHooks() directory.Hooks {
	h, t := countingHooks(s.metrics), s.traces
	if t == nil {
		return h
	}
	h.Begun = func(ctx context.Context, scheme, message, id string) (context.Context, func(error)) {
		ctx, ended := t.Message(ctx, message)
		obs.NoteSpan(ctx, "scheme", scheme)
		if id != "" {
			obs.NoteSpan(ctx, idAttribute(message), id)
		}
		return ctx, func(err error) { ended(errorKind(err)) }
	}
	h.Retried = func(ctx context.Context, err error) { obs.Happened(ctx, "tried again", errorKind(err)) }
	return h
}

// idAttribute is what the log calls the id of a message.
func idAttribute(message string) string {
	if message == "VEReq" || message == "CRReq" {
		return "messageId"
	}
	return "threeDSServerTransID"
}

// errorKind is what went wrong with a message to a directory server, in a word; "": nothing.
func errorKind(err error) string {
	if bad, ok := errors.AsType[*directory.Error](err); ok {
		return bad.Kind.String()
	}
	return ""
}

// tracedStore adds the store calls that a request waits for to its trace.
type tracedStore struct {
	store.Store
	traces *obs.Traces
}

func (s tracedStore) Create(ctx context.Context, t store.Txn) error {
	ctx, ended := s.traces.Step(ctx, "store create")
	err := s.Store.Create(ctx, t)
	ended(storeErrorType(err))
	return err
}

func (s tracedStore) Get(ctx context.Context, id string) (store.Txn, error) {
	ctx, ended := s.traces.Step(ctx, "store get")
	t, err := s.Store.Get(ctx, id)
	ended(storeErrorType(err))
	return t, err
}

func (s tracedStore) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	ctx, ended := s.traces.Step(ctx, "store update")
	var refused error
	err := s.Store.Update(ctx, was, func(t *store.Txn) error {
		refused = change(t)
		return refused
	})
	if refused != nil {
		ended("")
	} else {
		ended(storeErrorType(err))
	}
	return err
}

// storeErrorType returns the type of a store's failure for a trace. It is "" if the store worked, also if the row is
// not there, or already there.
func storeErrorType(err error) string {
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExists) {
		return ""
	}
	return "store"
}
