package local

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"

	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// WithJournal opens the journal of a configuration, calls do, and closes it.
func WithJournal(ctx context.Context, file string, do func(journal.Store, *journal.Keys) error) (err error) {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	if !c.HasJournal() {
		return errors.New("journal: is off in the configuration")
	}
	st, keys, err := server.OpenJournal(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return do(st, keys)
}

// RecordJournal adds a look at the journal, or a change of it, to the audit trail. When that fails, the command does
// nothing.
func RecordJournal(ctx context.Context, file, action, object string, after any) error {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	st, err := server.OpenStore(ctx, c.Store.URL)
	if err != nil {
		return fmt.Errorf("audit trail: %w", err)
	}
	return errors.Join(Record(ctx, c, st, action, object, after), st.Close())
}

// CheckSearched returns an error if a search can find nothing because its merchant or scheme is unknown. It names the
// flag. A merchant is also known if the journal has records of it.
func CheckSearched(ctx context.Context, file string, st journal.Store, q *journal.Query) error {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	var words []string
	for _, d := range c.Directories {
		words = append(words, d.Scheme)
	}
	if err := journal.CheckScheme(q.Scheme, words...); err != nil || q.Merchant == "" {
		return err
	}
	page, err := st.Search(ctx, journal.Query{Merchant: q.Merchant, Limit: 1})
	if err != nil || len(page.Records) > 0 {
		return err
	}
	return WithKeys(ctx, file, func(c *config.Config, db store.Store, ring *keyring.Ring) error {
		if err := c.Registry(db, ring).CheckKnown(ctx, journal.All(), q.Merchant); err != nil {
			return fmt.Errorf("merchant: %w", err)
		}
		return nil
	})
}

// ReadSigners returns the public keys in a file, or without one those of the journal of a configuration.
func ReadSigners(keyFile, configFile string) ([]ed25519.PublicKey, error) {
	var text []byte
	var err error
	if keyFile != "" {
		text, err = os.ReadFile(keyFile)
	} else {
		var c *config.Config
		var keys *journal.Keys
		if c, err = config.Read(configFile); err == nil {
			if keys, err = c.JournalKeyFile().Load(); err == nil {
				text, err = keys.PEM()
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return journal.ParsePEM(text)
}
