package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/openthreeds/threeds/internal/edge/shed"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
)

// OpenStore opens a store, and makes what is not there yet.
func OpenStore(ctx context.Context, at config.StoreURL) (store.Store, error) {
	if at.Postgres != "" {
		return asStore(postgres.Open(ctx, at.Postgres, postgres.Options{Engine: at.Engine}))
	}
	return asStore(sqlite.Open(at.Dir, sqlite.Options{}))
}

// asStore returns a nil interface with an error, not one that holds a nil S.
func asStore[S store.Store](s S, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// storeWaitFactor is by what factor work may wait longer for the store than for a processor.
// A write that just misses a commit waits for two, and a disk that takes 25 ms for a
// commit is slow, but not overloaded.
const storeWaitFactor = 10

// loadQueues are the queues by whose length and pace the load shedder recognises overload: that of the processor, and
// that of the store if it has one.
func loadQueues(wait time.Duration, st store.Store) []shed.Queue {
	all := []shed.Queue{shed.Processor(wait)}
	if queue, ok := st.(interface {
		Queue() (waiting int, served uint64)
	}); ok {
		all = append(all, shed.Queue{Name: "store", Target: storeWaitFactor * wait, Length: queue.Queue})
	}
	return all
}

// LoadKeyRing reads the key file. With a store in a directory, a missing key file is created,
// unless the store has API keys, which need the file that was lost. With a database no node
// creates one, since all nodes must have the same.
func LoadKeyRing(ctx context.Context, c *config.Config) (_ *keyring.Ring, err error) {
	if c.Store.URL.Postgres != "" {
		return readKeyFile(c)
	}
	if _, err := os.Stat(c.Keys); !errors.Is(err, fs.ErrNotExist) {
		return keyring.LoadIn(c.Vault(), c.Keys)
	}
	st, err := OpenStore(ctx, c.Store.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return LoadOrCreateKeyRing(ctx, c, st)
}

// LoadOrCreateKeyRing reads the key file, and creates it if the store has no API keys yet.
// The key commands use it: with a database the first of them creates the file.
func LoadOrCreateKeyRing(ctx context.Context, c *config.Config, st store.Store) (*keyring.Ring, error) {
	keys, err := st.Keys(ctx)
	if err != nil {
		return nil, err
	}
	if len(keys) > 0 {
		return readKeyFile(c)
	}
	return keyring.LoadOrCreateIn(c.Vault(), c.Keys)
}

// readKeyFile reads a key file that must be there.
func readKeyFile(c *config.Config) (*keyring.Ring, error) {
	ring, err := keyring.LoadIn(c.Vault(), c.Keys)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return ring, err
	case c.Store.URL.Postgres != "":
		return nil, fmt.Errorf(
			"%w (all nodes of one database have the same key file: copy it here; the first \"threeds key create\" makes it)",
			err)
	}
	return nil,
		fmt.Errorf("%w (the API keys in %s were sealed with it: put it back, or move that directory away to start again)",
			err, c.Store.URL.Dir)
}

// placement says which transactions the store can write, nil if it lies on one server.
func (s *Server) placement() check.Placement {
	if placer, ok := s.db.(store.Placer); ok {
		return placer
	}
	return nil
}
