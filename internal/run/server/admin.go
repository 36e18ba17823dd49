package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/edge/docsite"
	"github.com/openthreeds/threeds/internal/edge/login"
	"github.com/openthreeds/threeds/internal/edge/pages"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// refusesWritesFor returns for how long the store has refused the writes of this node, for sessions that other nodes
// may have seen in use since. A node that serves alone has seen all that there was, and the answer is 0.
func (s *Server) refusesWritesFor() time.Duration {
	if s.countNodes() == 1 {
		return 0
	}
	return s.writes.failingFor()
}

// newActs returns what actors may do, by the key ring and the merchants of the runtime in use.
func (s *Server) newActs() *ops.Acts {
	acts := &ops.Acts{
		Operators: s.operators, Store: s.db, Now: s.timestamp, Hooks: s.hooks, Keeper: s.db, Certificates: s.managed.service,
		TryCertificate: func(ctx context.Context, scheme string, cert tls.Certificate) (directory.HandshakeReport, error) {
			return tryCertificate(ctx, &s.activeRuntime().cfg, scheme, cert)
		},
		Ring: func() account.Ring { return s.ring.Load() },
		Merchants: func() *merchant.Registry {
			cfg := &s.activeRuntime().cfg
			registry := &merchant.Registry{
				Store: s.db, Ring: s.ring.Load(), InFile: cfg.Merchants, CheckProfile: config.CheckProfile,
			}
			for _, d := range cfg.Directories {
				registry.Schemes = append(registry.Schemes, d.Scheme)
			}
			return registry
		},
		PasskeyURL: func() string {
			if settings := s.activeRuntime().cfg.Login; settings != nil && settings.Passkeys {
				return settings.URL
			}
			return ""
		},
		FourEyes: func() []string {
			if settings := s.activeRuntime().cfg.Login; settings != nil {
				return settings.FourEyes
			}
			return nil
		},
	}
	s.operators.Members = func(ctx context.Context, group string) ([]string, error) {
		return acts.Merchants().Members(ctx, group)
	}
	if s.journal != nil {
		acts.LegalHolds = s.journal.Store
		acts.Erase = func(ctx context.Context, q journal.Query) (ops.Erased, error) {
			return EraseFromJournal(ctx, s.journal.Store, s.journal.Keys, s.db, s.ring.Load(), q)
		}
	}
	return acts
}

// newAdminAPI returns the admin API.
func (s *Server) newAdminAPI() *admin.Handler {
	h := &admin.Handler{
		Acts: s.acts, Log: s.cfg.Log, Explain: s.explainText, Proxies: s.proxies,
		RulesOf: func(word string) *scheme.Sheet { return s.describeScheme(word).Rules },
	}
	h.Node = s.newNode()
	h.JournalKeys = s.trailKeys
	if s.journal != nil {
		h.Journal = s.journal.Store
	}
	return h
}

// newConsolePages returns the login of the console, and behind it the pages.
func (s *Server) newConsolePages(api *admin.Handler) http.Handler {
	s.login = &login.Service{
		Operators: s.operators, Settings: func() *login.Settings { return s.activeRuntime().cfg.Login }, Log: s.cfg.Log,
		Proxies: s.proxies, StoreProblem: s.describeStoreProblem,
	}
	console := &pages.Handler{Admin: api, Acts: s.acts, Now: s.timestamp, Log: s.cfg.Log, Schemes: s.describeScheme}
	if open := s.cfg.OpenConsole; open != nil {
		s.login = login.Open(open.Origin, open.IsOwnHost)
		s.login.Operators, s.login.Log, console.Shop = s.operators, s.cfg.Log, open.Shop
		api.TakesNoToken = true
	}
	console.Confirm = s.login.AskConfirmation
	mux := http.NewServeMux()
	for _, path := range login.Paths() {
		mux.Handle(path, s.login)
	}
	mux.Handle("/", s.login.Protect(console))
	documentation := sync.OnceValues(docsite.New)
	docs := func(w http.ResponseWriter, r *http.Request) {
		site, err := documentation()
		if err != nil {
			s.cfg.Log.Error("console", "page", r.URL.Path, "err", err)
			http.Error(w, "The documentation could not be made. The log of the server says why.", http.StatusInternalServerError)
			return
		}
		site.ServeHTTP(w, r)
	}
	mux.HandleFunc(docsite.Path, docs)
	mux.HandleFunc(strings.TrimSuffix(docsite.Path, "/"), docs)
	mux.Handle("/favicon.ico", http.RedirectHandler(docsite.Path+"assets/mark.svg", http.StatusPermanentRedirect))
	return mux
}

// proxies returns those in front of the API by the configuration in use. They stand in front of the console, too.
func (s *Server) proxies() []netip.Prefix { return s.activeRuntime().cfg.Proxies }

// loginSettings returns how operators log in by a configuration; nil: there is no console for them.
func loginSettings(c *config.Console) *login.Settings {
	if c.URL == "" {
		return nil
	}
	settings := &login.Settings{URL: c.URL, Passkeys: c.Passkeys, Session: c.Session, Idle: c.Idle, FourEyes: c.FourEyes}
	if o := c.OIDC; o != nil {
		roles := make(map[string]operator.Role)
		for _, of := range []struct {
			role   operator.Role
			groups []string
		}{{operator.Viewer, o.Roles.Viewer}, {operator.Operator, o.Roles.Operator}, {operator.Admin, o.Roles.Admin}} {
			for _, group := range of.groups {
				roles[group] = of.role // of a group with several the highest
			}
		}
		settings.OIDC = &login.OIDC{
			Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.Secret, Roots: o.CA.Pool, Scopes: o.Scopes,
			NameClaim: o.NameClaim, RoleClaim: o.RoleClaim, Roles: roles, Merchants: o.Merchants,
			MerchantGroups: o.MerchantGroups,
		}
	}
	return settings
}

// resealObjects removes expired objects of operators, and seals the others again, webhook endpoints too.
func (s *Server) resealObjects(ctx context.Context) error {
	if err := s.db.SweepObjects(ctx, s.timestamp()); err != nil {
		return err
	}
	_, _, err := clientcert.Reseal(ctx, s.db, s.ring.Load())
	_, _, failed := store.ResealObjects(ctx, s.db, store.DisabledObjects, s.ring.Load())
	return errors.Join(err, failed, s.operators.Reseal(ctx), s.hooks.Reseal(ctx))
}

const (
	// objectsEvery is how often objects of operators and merchants are sealed again. A command that ran during a rotation
	// of the key file may have sealed with the previous secret.
	objectsEvery = 24 * time.Hour

	// objectsAgain is how soon that is tried again when it has failed.
	objectsAgain = time.Minute
)

// keepObjects removes expired tokens and sessions, and seals again what outlives a secret of the key file: at the
// start, as soon as another secret is in use, and once a day. It ends with ctx.
func (s *Server) keepObjects(ctx context.Context) {
	for ctx.Err() == nil {
		wait := objectsEvery
		if err := s.resealObjects(ctx); err != nil && ctx.Err() == nil {
			wait = objectsAgain
			s.cfg.Log.Warn(
				"tokens of the admin API, users of the console, client certificates, disabled merchants and webhook endpoints not resealed",
				"err", err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.resealNow:
		case <-timer.C:
		}
		timer.Stop()
	}
}
