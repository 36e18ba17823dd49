package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/keyring"
)

// CheckConfig returns what [Serve] would say of a configuration and of the files that it names: its warnings, also
// before an error. It opens no store, no listener and no connection, and creates no file.
func CheckConfig(file, release string) (warnings []string, err error) {
	now := time.Now()
	c, _, err := config.Load(file, now)
	if err != nil {
		return nil, err
	}
	defer c.Helper.Close()
	faults := c.Certificates.Faults(now)
	for _, part := range slices.Sorted(maps.Keys(faults)) {
		warnings = append(warnings, "a part of the server is degraded: "+part+": "+faults[part])
	}
	warnings = append(warnings, startWarnings(c)...)
	ring, err := checkKeyFile(c)
	if err != nil {
		return warnings, err
	}
	if err := checkJournalKeys(c); err != nil {
		return warnings, err
	}
	return warnings, checkClients(newConfig(c, slog.New(slog.DiscardHandler), ring, release))
}

// checkKeyFile reads the key file. One that is absent is no fault with a store in a directory: Serve creates it there,
// unless the store has API keys, which is not looked at here. The ring is nil then.
func checkKeyFile(c *config.Config) (*keyring.Ring, error) {
	ring, err := readKeyFile(c)
	if errors.Is(err, fs.ErrNotExist) && c.Store.URL.Postgres == "" {
		return nil, nil
	}
	return ring, err
}

// checkJournalKeys reads the file of the journal's keys. One that is absent is no fault where Serve can make it.
func checkJournalKeys(c *config.Config) error {
	_, err := c.JournalKeyFile().Load()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// checkClients builds the clients that a server has, and closes them again. They connect to no server before they are
// used.
func checkClients(cfg *Config) error {
	metrics := obs.NewMetrics()
	hooks := countingHooks(metrics)
	if cfg.Tracing != nil {
		traces, err := obs.NewTraces(*cfg.Tracing, metrics, cfg.Log)
		if err != nil {
			return fmt.Errorf("tracing: %w", err)
		}
		defer traces.Close(context.Background())
	}
	client, err := directory.New(cfg.Peers, ranges.NewSchemes(), nil, cfg.Log, hooks)
	if err != nil {
		return err
	}
	defer client.Close()
	v1, err := directory.NewV1(cfg.V1Peers, cfg.Log, hooks)
	if err != nil {
		return err
	}
	return v1.Close()
}
