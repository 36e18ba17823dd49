package server

import (
	"context"
	"errors"
	"time"

	"github.com/openthreeds/threeds/internal/directory"
	"github.com/openthreeds/threeds/internal/obs"
	"github.com/openthreeds/threeds/internal/store"
)

// lastSpans is how long the end of the process waits for the collector of traces.
const lastSpans = 2 * time.Second

// endTraces sends what is left of them, if there are any.
func (n *Server) endTraces() {
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	n.traces.Close(ctx)
}

// engineStore is the store as engines are given it: with its calls in the traces, if there
// are any.
func (n *Server) engineStore() store.Store {
	if n.traces == nil {
		return n.db
	}
	return tracedStore{n.db, n.traces}
}

// hooks counts what happens at the directories, and has it in the traces.
func (n *Server) hooks() directory.Hooks {
	h, t := hooks(n.metrics), n.traces
	if t == nil {
		return h
	}
	h.Begun = func(ctx context.Context, scheme, message, id string) (context.Context, func(error)) {
		ctx, ended := t.Message(ctx, message)
		obs.NoteSpan(ctx, "scheme", scheme)
		if id != "" {
			obs.NoteSpan(ctx, idName(message), id)
		}
		return ctx, func(err error) { ended(kindOf(err)) }
	}
	h.Retried = func(ctx context.Context, err error) { obs.Happened(ctx, "tried again", kindOf(err)) }
	return h
}

// idName is what the log calls the id of a message.
func idName(message string) string {
	if message == "VEReq" || message == "CRReq" {
		return "messageId"
	}
	return "threeDSServerTransID"
}

// kindOf is what went wrong with a message to a directory server, in a word; "": nothing.
func kindOf(err error) string {
	if bad, ok := errors.AsType[*directory.Error](err); ok {
		return bad.Kind.String()
	}
	return ""
}

// tracedStore has the calls that requests wait for in their traces.
type tracedStore struct {
	store.Store
	traces *obs.Traces
}

func (s tracedStore) Create(ctx context.Context, t store.Txn) error {
	ctx, ended := s.traces.Step(ctx, "store create")
	err := s.Store.Create(ctx, t)
	ended(trouble(err))
	return err
}

func (s tracedStore) Get(ctx context.Context, id string) (store.Txn, error) {
	ctx, ended := s.traces.Step(ctx, "store get")
	t, err := s.Store.Get(ctx, id)
	ended(trouble(err))
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
		ended(trouble(err))
	}
	return err
}

// trouble is what to say of a store that failed; "": it did not, though the answer may be
// that something is not there, or there already.
func trouble(err error) string {
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExists) {
		return ""
	}
	return "store"
}
