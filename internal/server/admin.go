package server

import (
	"context"
	"net/http"
	"time"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/admin"
	"github.com/openthreeds/threeds/internal/merchant"
)

// newAdminAPI returns the admin API, which uses the key ring and the merchants of the runtime in use.
func (s *Server) newAdminAPI() http.Handler {
	h := &admin.Handler{
		Operators: s.operators, Store: s.db, Now: s.timestamp, Log: s.cfg.Log,
		Ring: func() account.Ring { return s.ring.Load() },
		Merchants: func() *merchant.Registry {
			cfg := &s.activeRuntime().cfg
			registry := &merchant.Registry{Store: s.db, Ring: s.ring.Load(), InFile: cfg.Merchants}
			for _, d := range cfg.Directories {
				registry.Schemes = append(registry.Schemes, d.Scheme)
			}
			return registry
		},
	}
	if s.journal != nil {
		h.Journal = s.journal.Store
	}
	return h
}

// tokensEvery is how often the tokens of the admin API are sealed anew.
const tokensEvery = 24 * time.Hour

// keepTokens frees those tokens that have ended and seals the others anew, until ctx ends.
func (s *Server) keepTokens(ctx context.Context) {
	for {
		err := s.db.SweepObjects(ctx, s.timestamp())
		if err == nil {
			err = s.operators.ResealTokens(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("tokens of the admin API not sealed anew", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(tokensEvery):
		}
	}
}
