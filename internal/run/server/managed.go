package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/run/config"
)

const (
	// managedInterval is how often a node asks the store for the client certificates of its directories.
	managedInterval = time.Second

	// managedTimeout is how long it waits for the answer.
	managedTimeout = 5 * time.Second
)

// managedCertificates has the client certificates of directories that the store has, as this node knows them.
type managedCertificates struct {
	service *clientcert.Service
	log     *slog.Logger
	now     func() time.Time

	mu     sync.Mutex
	set    *clientcert.Set // nil until the store has answered
	isAway bool            // the store has not answered the last time

	degraded map[string]bool // the schemes that were logged as degraded; only New and watchManaged use it
}

// refresh reads what the store has. When that fails, what was read before stays in use.
func (m *managedCertificates) refresh(ctx context.Context) {
	timed, cancel := context.WithTimeout(ctx, managedTimeout)
	defer cancel()
	m.mu.Lock()
	former := m.set
	m.mu.Unlock()
	set, err := m.service.Load(timed, former)
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.set, m.isAway = set, false
	case !m.isAway:
		m.log.WarnContext(ctx,
			"client certificates of directories cannot be read from the store: those that were read stay in use", "err", err)
		m.isAway = true
	}
}

// shown returns what the directory server of a scheme is shown now, and what is wrong with that.
func (m *managedCertificates) shown(scheme string) clientcert.Shown {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.set == nil {
		return clientcert.Shown{Fault: "the store, which has the certificate, could not be read yet"}
	}
	shown := m.set.InUse(scheme, m.now())
	if shown.Certificate == nil && shown.Fault == "" {
		shown.Fault = "managed, and the store has no certificate that is in use: request, install and activate one (threeds cert)"
	}
	return shown
}

// apply returns a configuration with the certificates that the store has in their places.
func (m *managedCertificates) apply(given Config) Config {
	if len(given.Managed) == 0 {
		return given
	}
	cfg := given
	cfg.Peers, cfg.CertificateEnds = slices.Clone(given.Peers), maps.Clone(given.CertificateEnds)
	if cfg.CertificateEnds == nil {
		cfg.CertificateEnds = map[string]time.Time{}
	}
	var all []config.ManagedCertificate
	for i, p := range cfg.Peers {
		key := given.Managed[p.Scheme]
		if key == "" {
			continue
		}
		shown, managed := m.describe(p.Scheme, key)
		cfg.Peers[i].TLS = p.TLS.Clone()
		cfg.Peers[i].TLS.Certificates = []tls.Certificate{{}} // none: the directory server decides
		if shown.Certificate != nil {
			cfg.Peers[i].TLS.Certificates[0] = *shown.Certificate
		}
		managed.AddEnds(cfg.CertificateEnds)
		all = append(all, managed)
	}
	cfg.Certificates = given.Certificates.WithManaged(all)
	return cfg
}

// describe returns what the directory server of a scheme is shown, and what health checks want to know of it. key is
// that of the configuration.
func (m *managedCertificates) describe(scheme, key string) (clientcert.Shown, config.ManagedCertificate) {
	shown := m.shown(scheme)
	managed := config.ManagedCertificate{Scheme: scheme, Key: key, Fault: shown.Fault}
	if shown.Certificate != nil {
		for _, der := range shown.Certificate.Certificate {
			// The chain was checked when it was installed, so that no error is expected.
			if cert, err := x509.ParseCertificate(der); err == nil {
				managed.Chain = append(managed.Chain, cert)
			}
		}
	}
	return shown, managed
}

// isCurrent reports whether a runtime shows what the store has.
func (m *managedCertificates) isCurrent(rt *runtime) bool {
	next := m.apply(rt.given)
	if !maps.Equal(next.CertificateEnds, rt.cfg.CertificateEnds) {
		return false
	}
	was, now := rt.cfg.Certificates.Faults(m.now()), next.Certificates.Faults(m.now())
	return maps.Equal(was, now) && slices.EqualFunc(next.Peers, rt.cfg.Peers, func(a, b directory.Peer) bool {
		return slices.EqualFunc(a.TLS.Certificates, b.TLS.Certificates, func(x, y tls.Certificate) bool {
			return slices.EqualFunc(x.Certificate, y.Certificate, bytes.Equal)
		})
	})
}

// logFaults logs an error for each directory that has become degraded by its managed certificate, and says when that is
// over. What is wrong with files is logged when they are read.
func (m *managedCertificates) logFaults(cfg *Config) {
	var all []config.ManagedCertificate
	for scheme, key := range cfg.Managed {
		_, managed := m.describe(scheme, key)
		all = append(all, managed)
	}
	var none *config.Certificates
	faults := none.WithManaged(all).Faults(m.now())
	for _, scheme := range slices.Sorted(maps.Keys(cfg.Managed)) {
		what := "directory " + scheme
		switch fault, isDegraded := faults[what]; {
		case isDegraded && !m.degraded[scheme]:
			m.log.Error("a part of the server is degraded", "what", what, "fault", fault)
		case !isDegraded && m.degraded[scheme]:
			m.log.Info("a part of the server is no longer degraded", "what", what)
		}
		_, m.degraded[scheme] = faults[what]
	}
}

// watchManaged changes this node over to new client certificates of the store, until ctx ends.
func (s *Server) watchManaged(ctx context.Context) {
	for tasks.Sleep(ctx, managedInterval) {
		if len(s.activeRuntime().given.Managed) == 0 {
			continue
		}
		s.managed.refresh(ctx)
		if !s.managed.isCurrent(s.activeRuntime()) {
			s.changeOver(ctx)
		}
		s.managed.logFaults(&s.activeRuntime().cfg)
	}
}

// changeOver builds a runtime of the same configuration with the certificates that the store has now. Peers whose
// certificate has not changed keep their connections. The others close theirs as they become idle.
func (s *Server) changeOver(ctx context.Context) {
	s.activating.Lock()
	defer s.activating.Unlock()
	former := s.activeRuntime()
	given := former.given
	given.Ring = nil // the one in use stays
	if err := s.activateLocked(ctx, given); err != nil {
		s.cfg.Log.Error("client certificates of directories not changed over", "err", err)
		return
	}
	for i, p := range s.activeRuntime().cfg.Peers {
		if given.Managed[p.Scheme] == "" {
			continue
		}
		was := former.cfg.Peers[i].TLS.Certificates[0]
		if now := p.TLS.Certificates[0]; now.Leaf != nil && !slices.EqualFunc(was.Certificate, now.Certificate, bytes.Equal) {
			s.cfg.Log.Info("client certificate changed over", "scheme", p.Scheme, "serial", now.Leaf.SerialNumber.Text(16),
				"expires", now.Leaf.NotAfter.UTC())
		}
	}
}

// TryCertificate makes a handshake with the directory server of a scheme, in which it shows a client certificate. The
// configuration was read with its files.
func TryCertificate(ctx context.Context, c *config.Config, scheme string,
	cert tls.Certificate) (directory.HandshakeReport, error) {
	cfg := newConfig(c, slog.New(slog.DiscardHandler), nil, "")
	return tryCertificate(ctx, cfg, scheme, cert)
}

func tryCertificate(ctx context.Context, cfg *Config, scheme string,
	cert tls.Certificate) (directory.HandshakeReport, error) {
	i := slices.IndexFunc(cfg.Peers, func(p directory.Peer) bool { return p.Scheme == scheme })
	if i < 0 {
		return directory.HandshakeReport{}, errors.New("no such directory is configured")
	}
	return directory.TryHandshake(ctx, cfg.Peers[i], cert)
}
