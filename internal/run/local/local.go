// Package local opens what a configuration names, for a command that runs next to a server or before there is one: the
// store with the key file ([WithKeys]), what an admin may do with them ([WithActs]), the journal ([WithJournal]), the
// card ranges ([WithRanges]), and all rows for a backup ([WithArchive]). [RotateKeys], [WrapKeyFiles] and
// [RevokeKey] are what commands do with keys.
package local

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/backup"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/rotation"
	"github.com/openthreeds/threeds/internal/state/store"
)

// WithKeys opens the store of a configuration, and its key file with what has been rotated since, calls do, and closes
// the store.
func WithKeys(ctx context.Context, file string, do func(*config.Config, store.Store, *keyring.Ring) error) error {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	return WithKeysOf(ctx, c, do)
}

// WithKeysOf is WithKeys for a configuration that was read.
func WithKeysOf(ctx context.Context, c *config.Config,
	do func(*config.Config, store.Store, *keyring.Ring) error) error {
	return WithKeyFile(ctx, c, func(c *config.Config, st store.Store, ring *keyring.Ring) error {
		ring, err := rotation.Extend(ctx, st, ring)
		if err != nil {
			return err
		}
		return do(c, st, ring)
	})
}

// WithKeyFile is WithKeysOf with the secrets that are in the key file.
func WithKeyFile(ctx context.Context, c *config.Config,
	do func(*config.Config, store.Store, *keyring.Ring) error) error {
	return withStore(ctx, c, func(st store.Store) error {
		ring, err := server.LoadOrCreateKeyRing(ctx, c, st)
		if err != nil {
			return err
		}
		return do(c, st, ring)
	})
}

// withStore opens the store of a configuration, calls do, and closes the store.
func withStore(ctx context.Context, c *config.Config, do func(store.Store) error) error {
	st, err := server.OpenStore(ctx, c.Store.URL)
	if err != nil {
		return err
	}
	return errors.Join(do(st), st.Close())
}

// WithActs calls do with what a command may do with a configuration's store, and who does it.
func WithActs(ctx context.Context, file string, do func(*ops.Acts, operator.Actor) error) error {
	return WithKeys(ctx, file, func(c *config.Config, st store.Store, ring *keyring.Ring) error {
		return do(NewActs(c, st, ring), Actor())
	})
}

// Actor returns the person who runs a command: an admin, whom the audit trail names by user and host.
func Actor() operator.Actor {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return operator.Actor{Who: "cli:" + name + "@" + host, Role: operator.Admin, From: "command line"}
}

// NewActs returns what a command may do with a store.
func NewActs(c *config.Config, st store.Store, ring *keyring.Ring) *ops.Acts {
	passkeyURL := ""
	if c.Console.Passkeys {
		passkeyURL = c.Console.URL
	}
	return &ops.Acts{
		Operators: NewTrail(c, st, ring), Store: st, Now: time.Now,
		Ring: func() account.Ring { return ring }, Merchants: func() *merchant.Registry { return c.Registry(st, ring) },
		IsCommandLine: true,
		PasskeyURL:    func() string { return passkeyURL },
	}
}

// Entry returns the entry of the audit trail for what a command does.
func Entry(action, object string, before, after any) operator.Entry {
	by := Actor()
	return by.Entry(action, object, before, after)
}

// NewTrail returns the operators and the audit trail of a store, for a command. If the keys of the journal are lost,
// its entries have no MAC, which the server reports: an operator who has lost these keys must still be able to revoke
// an API key. While the keys are there, and only the key helper does not open them, it takes no entry. One without a
// MAC would spoil the trail for good, and the command can be run again.
func NewTrail(c *config.Config, st operator.Store, ring store.Sealer) *operator.Service {
	s := &operator.Service{Store: st, Sealer: ring, Now: time.Now}
	if c.Journal.Keys != "" {
		s.Keys, s.KeysFault = ifClosed(c.JournalKeyFile().LoadOrCreate())
	}
	return s
}

// ifClosed returns the keys, and the error only if it says that they do not open now.
func ifClosed(keys *journal.Keys, err error) (*journal.Keys, error) {
	if _, isClosed := errors.AsType[*keyfile.ClosedError](err); isClosed {
		return nil, err
	}
	return keys, nil
}

// CheckTrail returns an error if the keys of the audit trail are there and do not open now, for a command that can
// write its entry only after the act. It makes no file.
func CheckTrail(file string) error {
	c, err := config.Read(file)
	if err == nil && c.Journal.Keys != "" {
		_, err = ifClosed(c.JournalKeyFile().Load())
	}
	if err != nil {
		return fmt.Errorf("audit trail: %w", err)
	}
	return nil
}

// Record adds what a command is about to do to the audit trail. When that fails, the command does nothing.
func Record(ctx context.Context, c *config.Config, st store.Store, action, object string, after any) error {
	err := NewTrail(c, st, nil).Record(ctx, Entry(action, object, nil, after))
	if err != nil {
		return fmt.Errorf("audit trail: %w", err)
	}
	return nil
}

// WithArchive opens the store of a configuration, calls do, and closes the store. A directory
// that is not there is an error, unless create is set.
func WithArchive(ctx context.Context, file string, create bool, do func(store.Archive) error) error {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	if at := c.Store.URL; at.Postgres == "" && !create {
		if _, err := os.Stat(at.Dir); err != nil {
			return fmt.Errorf("there is no store to back up: %w", err)
		}
	}
	return withStore(ctx, c, func(st store.Store) error {
		archive, ok := st.(store.Archive)
		if !ok {
			return errors.New("this kind of store cannot be backed up")
		}
		return do(archive)
	})
}

// BackedUpJournal returns the journal of a configuration, with the keys that its file has; nil if it is off. It makes
// no file.
func BackedUpJournal(file string) (*backup.Journal, error) {
	c, err := config.Read(file)
	if err != nil || !c.HasJournal() {
		return nil, err
	}
	keys, err := c.JournalKeyFile().Load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &backup.Journal{Keys: keys, Open: func(ctx context.Context) (journal.Store, error) {
		st, _, err := server.OpenJournal(ctx, c)
		return st, err
	}}, nil
}

// RecordRestore adds a restore to the audit trail, and what another trail has taken the place of.
func RecordRestore(ctx context.Context, file string, st store.Archive, report *backup.Report) error {
	audit, ok := st.(operator.Store)
	if !ok {
		return errors.New("this kind of store keeps none")
	}
	e := Entry("backup.restore", "", nil, report.Added)
	if report.ReplacedTrail != nil {
		e.Before = map[string]any{
			"entries": report.Replaced[store.AuditRows], "link": hex.EncodeToString(operator.LinkOf(report.ReplacedTrail)),
		}
	}
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	return NewTrail(c, audit, nil).Record(ctx, e)
}
