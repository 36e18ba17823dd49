package rig

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/rotation"
	"github.com/openthreeds/threeds/internal/state/store"
)

// WithJournal opens the journal of a configuration, calls do, and closes it.
func WithJournal(ctx context.Context, file string, do func(journal.Store, *journal.Keys) error) (err error) {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	st, keys, err := server.OpenJournal(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return do(st, keys)
}

// WithKeys opens the store of a configuration and its secrets, calls do, and closes the store.
func WithKeys(ctx context.Context, file string, do func(*config.Config, store.Store, *keyring.Ring) error) (err error) {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	st, err := server.OpenStore(ctx, c.Store.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	ring, err := server.LoadOrCreateKeyRing(ctx, c, st)
	if err != nil {
		return err
	}
	if ring, err = rotation.Extend(ctx, st, ring); err != nil {
		return err
	}
	return do(c, st, ring)
}

// AwaitKeptNotice waits until a node has kept a notice of the overview in the store.
func (s *Site) AwaitKeptNotice(key string) {
	s.T.Helper()
	waittest.Until(s.T, "the notice "+key+" in the store", Unhurried(func() (isKept bool) {
		Must(s.T, WithKeys(s.T.Context(), s.ConfigFile, func(_ *config.Config, st store.Store, _ *keyring.Ring) error {
			data, _ := st.State(s.T.Context(), "notices") // there is none in the first seconds
			isKept = strings.Contains(string(data), `"key":"`+key+`"`)
			return nil
		}))
		return isKept
	}))
}

// WithOperators opens the store of a configuration, calls do with the users of its console, and closes the store.
func WithOperators(ctx context.Context, file string, do func(*operator.Service) error) error {
	return WithKeys(ctx, file, func(c *config.Config, st store.Store, ring *keyring.Ring) error {
		keys, err := c.JournalKeyFile().LoadOrCreate()
		if err != nil {
			return err
		}
		return do(&operator.Service{Store: st, Sealer: ring, Now: time.Now, Keys: keys})
	})
}

// KeyReport is an entry of what key list --json prints.
type KeyReport struct {
	Hash     string // its beginning
	Label    string
	Merchant string
	Created  string
	LastUsed *string        // to a minute; nil if it was not used
	Expires  *string        // nil if it does not end
	Allow    []netip.Prefix // empty if all networks are allowed
	Strict   bool
	Secret   string // the id of the secret in the key file that the row names
	State    string // KeyGood and others
}

// The states of a KeyReport that tests expect.
const (
	KeyGood    = "good"
	KeyRefused = "refused"
)
