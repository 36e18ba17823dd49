package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/openthreeds/threeds/internal/keyring"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/store/postgres"
	"github.com/openthreeds/threeds/internal/store/sqlite"
)

// storeAt is where a store is: in a directory of this machine, or in a database
// that nodes share.
type storeAt struct {
	Dir      string
	Postgres string // URL; empty: Dir counts
}

// openStore opens a store, and makes what is not there yet.
func openStore(ctx context.Context, at storeAt) (store.Store, error) {
	if at.Postgres != "" {
		return opened(postgres.Open(ctx, at.Postgres, postgres.Options{}))
	}
	return opened(sqlite.Open(at.Dir, sqlite.Options{}))
}

// opened keeps a store that is nil from becoming an interface that is not.
func opened[S store.Store](s S, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ring reads the key file. Beside a store of this machine it is made when it is
// missing. That of a database must be the same on all nodes, so no node makes one.
func (c *config) ring() (*keyring.Ring, error) {
	if c.Store.URL.Postgres == "" {
		if err := os.MkdirAll(c.Store.URL.Dir, 0o700); err != nil {
			return nil, err
		}
		return keyring.LoadOrCreate(c.Keys)
	}
	ring, err := keyring.Load(c.Keys)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (all nodes of one database have the same key file: copy it here; the first \"threeds key create\" makes it)", err)
	}
	return ring, err
}

// firstRing is ring for the commands that may begin a database: one without API
// keys has no key file yet.
func (c *config) firstRing(ctx context.Context, st store.Store) (*keyring.Ring, error) {
	if c.Store.URL.Postgres == "" {
		return c.ring()
	}
	keys, err := st.Keys(ctx)
	if err != nil {
		return nil, err
	}
	if len(keys) > 0 {
		return c.ring()
	}
	return keyring.LoadOrCreate(c.Keys)
}
