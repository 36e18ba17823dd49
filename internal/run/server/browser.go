package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/openthreeds/threeds/internal/edge/browser"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/state/account"
)

// newBrowserHandler returns what serves browsers by a configuration.
func (s *Server) newBrowserHandler(cfg *Config, engine *session.Engine) http.Handler {
	isLab := cfg.Loopback || slices.ContainsFunc(cfg.Directories, func(d check.Directory) bool { return d.Lab })
	return browser.New(browser.Settings{
		URL: cfg.BrowserURL, Engine: engine, IsLab: isLab, TrustedProxies: cfg.BrowserProxies, Waits: s.waits, Log: s.cfg.Log,
		Count: s.metrics.BrowserRequest,
		Looks: func(_ context.Context, merchant string) browser.Looks {
			return looksOf(s.apiKeys.Merchant(merchant), merchant)
		},
	})
}

// looksOf returns how pages look for the shoppers of a merchant, which need not have a profile.
func looksOf(m *account.Merchant, name string) browser.Looks {
	if m == nil {
		return browser.Looks{Name: name}
	}
	return browser.Looks{
		Name: cmp.Or(m.MerchantName, m.Name), Origins: m.Origins,
		Logo: m.Page.Logo, LogoType: m.Page.LogoType, Colour: m.Page.Colour, Accent: m.Page.Accent,
	}
}
