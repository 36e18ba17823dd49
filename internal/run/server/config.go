package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/mpi"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/tunnel"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/message"
)

// Options are what [Serve] has to know besides the configuration file.
type Options struct {
	File    string           // the configuration
	Log     io.Writer        // where the log goes
	Build   string           // this build in words, for the log
	Release string           // its version alone, for the metrics and traces
	Reload  <-chan os.Signal // each signal reloads the configuration; nil: only changed files do
	Change  func(*Config)    // changes what the server is built from before it is built; nil changes nothing
}

// Serve runs the server that a configuration file describes until ctx ends. While it runs,
// it applies changes of the file, and of the files that it names.
func Serve(ctx context.Context, o Options) error {
	level := new(slog.LevelVar)
	log := obs.NewLogger(o.Log, level)
	c, files, err := loadConfig(o.File, log, level)
	if err != nil {
		return err
	}
	defer c.Helper.Close()
	ring, err := LoadKeyRing(ctx, c)
	if err != nil {
		return err
	}
	_, _ = files.Read(c.Keys) // so that the reloader watches it too
	cfg := newConfig(c, log, ring, o.Release)
	if err := openListeners(ctx, c, cfg); err != nil {
		return err
	}
	warnOfConsole(log, cfg.Console, cfg.ConsoleCert != nil)
	warnOfConsole(log, cfg.Metrics, false)
	if o.Change != nil {
		o.Change(cfg)
	}
	s, err := New(ctx, *cfg)
	if err != nil {
		return errors.Join(err, closeListeners(cfg))
	}
	manager := newNotifier(log)
	r := &reloader{
		file: o.File, server: s, log: log, level: level, notifier: manager, release: o.Release,
		tried: files, inUseFiles: maps.Clone(files),
	}
	r.inUse.Store(c)
	s.describeConfig = r.describe
	s.followRotations(ctx, c.Keys, func() { r.fileReplaced(c.Keys) })
	log.Info("serving", "build", o.Build, "api", cfg.API.Addr(), "results", cfg.Results.Addr(),
		"console", cfg.Console.Addr())
	return s.Run(ctx, manager.run, func(ctx context.Context) { r.run(ctx, o.Reload, pollEvery) })
}

// loadConfig reads a configuration with the files that it names, sets the level of the log by it, and logs what is
// worth a warning.
func loadConfig(file string, log *slog.Logger, level *slog.LevelVar) (*config.Config, config.Files, error) {
	c, files, err := config.Load(file, time.Now())
	if err != nil {
		return nil, nil, err
	}
	level.Set(logLevel(c))
	c.Certificates.Log(log, time.Now())
	for _, w := range startWarnings(c) {
		log.Warn("configuration", "warning", w)
	}
	return c, files, nil
}

// startWarnings returns the warnings of a configuration and of the environment of the process.
func startWarnings(c *config.Config) []string {
	warnings := slices.Clone(c.Warnings)
	if name := c.UnreadProxyVariable(os.LookupEnv); name != "" {
		warnings = append(warnings,
			name+" is in the environment and is not read: forward_proxy is what connections go through")
	}
	return warnings
}

// warnOfConsole logs a warning if other machines reach the console in the clear. Its health and metrics ask for no
// password.
func warnOfConsole(log *slog.Logger, l net.Listener, hasTLS bool) {
	if l != nil && !hasTLS && !listen.IsLoopback(l.Addr()) {
		log.Warn("the console listens beyond this machine, without TLS or password: let only your monitoring reach it",
			"address", l.Addr())
	}
}

// closeListeners closes the listeners of a server that does not run.
func closeListeners(cfg *Config) error {
	var err error
	for _, l := range []net.Listener{cfg.API, cfg.Results, cfg.Console, cfg.Metrics, cfg.Browser} {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return err
}

// logLevel is the least serious thing to be logged.
func logLevel(c *config.Config) (level slog.Level) {
	_ = level.UnmarshalText([]byte(c.Log.Level)) // the reader has checked it
	return level
}

// schemeOf returns the scheme of a key of the configuration such as directories[0].crls, ""
// if the key is of no directory.
func (cfg *Config) schemeOf(key string) string {
	list, rest, _ := strings.Cut(key, "[")
	number, _, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(number)
	switch {
	case err != nil || i < 0:
	case list == "directories" && i < len(cfg.Directories):
		return cfg.Directories[i].Scheme
	case list == "v1" && i < len(cfg.V1Directories):
		return cfg.V1Directories[i].Scheme
	}
	return ""
}

// newConfig returns the values that a server is built from, of a checked configuration.
func newConfig(c *config.Config, log *slog.Logger, ring *keyring.Ring, release string) *Config {
	cfg := &Config{
		CAs:      make(map[string]DirectoryCAs),
		Colours:  make(map[string]string),
		Managed:  make(map[string]string),
		StoreURL: c.Store.URL, Login: loginSettings(&c.Console), Ring: ring, Log: log, Release: release,
		Vault: c.Vault(), KeyHelper: c.Helper,
		Shutdown: c.Timeouts.Shutdown, LameDuck: c.Timeouts.LameDuck,
		Server: check.Server{
			RefNumber: refNumber(c), RequestorID: c.Server.RequestorID, RequestorName: c.Server.RequestorName,
		},
		Idempotency: c.Timeouts.Idempotency,
		Timeouts: txn.Timeouts{
			Authentication: c.Timeouts.Authentication, Preauth: c.Timeouts.Preauth, Challenge: c.Timeouts.Challenge,
			Result: c.Timeouts.Result, DecoupledResult: c.Timeouts.DecoupledResult, Values: c.Timeouts.Values,
			Browser: c.Timeouts.Browser,
		},
		Webhooks: webhookSettings(c), SIEM: siemSender(c.SIEM), Journal: journalSettings(c), TrailKeys: c.Journal.Keys,
		ACP: acpSettings(c),
		Limits: Limits{
			PerKey: c.Limits.PerKey.PerSecond(), InFlight: int64(c.Limits.InFlight), Connections: c.Limits.Connections,
			Wait: c.Limits.Wait, AuthBody: int64(c.Limits.AuthBody), Body: int64(c.Limits.Body),
			Message: message.Limits{Depth: c.Limits.Depth, Members: c.Limits.Members},
		},
		Certs: []tls.Certificate{c.Results.TLS.Certificate}, CertificateEnds: c.Ends, ListTerms: c.ListTerms,
		Certificates: &c.Certificates, ConfigHash: c.Hash(), Tracing: tracing(c.Tracing, release),
	}
	if b := c.Browser; b != nil {
		cfg.BrowserURL = strings.TrimRight(b.URL, "/")
		if b.TLS != nil {
			cfg.BrowserCert = &b.TLS.Certificate
		}
		for _, text := range b.TrustedProxies {
			cfg.BrowserProxies = append(cfg.BrowserProxies, netip.MustParsePrefix(text)) // the reader has checked it
		}
	}
	if c.Console.TLS != nil {
		cfg.ConsoleCert = &c.Console.TLS.Certificate
	}
	if c.API.TLS != nil {
		cfg.APICert = &c.API.TLS.Certificate
	}
	for _, text := range c.API.Proxies {
		cfg.Proxies = append(cfg.Proxies, netip.MustParsePrefix(text)) // the reader has checked it
	}
	for i := range c.Merchants {
		cfg.Merchants = append(cfg.Merchants, c.Merchants[i].Profile())
	}
	for _, d := range c.Directories {
		cfg.addDirectory(d, c)
	}
	for _, d := range c.V1 {
		cfg.addV1Directory(d, c)
	}
	return cfg
}

// refNumber returns the reference number of this server for each protocol version.
func refNumber(c *config.Config) func(message.Version) string {
	return func(v message.Version) string {
		return cmp.Or(c.Server.ReferenceNumbers[v.String()], c.Server.ReferenceNumber)
	}
}

// add puts one directory into cfg, in the three forms that its users want.
func (cfg *Config) addDirectory(d config.Directory, c *config.Config) {
	versions, revoked := d.MessageVersions(), d.CRLs.Policy(d.Revocation)
	if d.ClientCert.IsManaged {
		cfg.Managed[d.Scheme] = fmt.Sprintf("directories[%d].client_cert", len(cfg.Peers))
	}
	cfg.Peers = append(cfg.Peers, directory.Peer{
		Scheme: d.Scheme, AReqURL: d.AReqURL, PReqURL: d.PReqURL, OperatorID: d.OperatorID,
		RefNumber: refNumber(c), Versions: versions,
		TLS:     &tls.Config{RootCAs: d.ServerCA.Pool, Certificates: []tls.Certificate{d.ClientCert.Certificate}},
		Revoked: revoked,
		Timeout: cmp.Or(d.Timeout, c.Timeouts.Authentication), MaxInFlight: c.Limits.PerDirectory,
		MaxPerMerchant: c.Limits.PerMerchant, AlwaysTry: !c.Limits.Breaker, Refresh: d.Refresh, MinRefresh: d.MinRefresh,
		FileHosts: d.FileHosts, Proxy: forwardProxy(c, d.ForwardProxy),
		Lab: d.Lab,
	})
	url := c.Results.URL
	if d.Results != nil {
		url = d.Results.URL
		cfg.Certs = append(cfg.Certs, d.Results.TLS.Certificate)
	}
	cfg.Directories = append(cfg.Directories, check.Directory{
		Scheme: d.Scheme, Versions: versions, OperatorID: d.OperatorID,
		RequestorID: d.RequestorID, RequestorName: d.RequestorName,
		ResultsURL: url, Informational: d.Informational == "any",
		CriticalExtensions: d.CriticalExtensions, ExtensionIDs: map[string]string{"visaDAF": d.DAFExtension}, Lab: d.Lab,
		Rules: scheme.NewSheet(d.Scheme, d.Rules.Rules),
	})
	cfg.Colours[d.Scheme] = d.Colour
	cfg.CAs[d.Scheme] = DirectoryCAs{Server: d.ServerCA.Certs, Client: d.ClientCA.Certs}
	cfg.Clients = append(cfg.Clients,
		certs.Client{Scheme: d.Scheme, CA: d.ClientCA.Pool, Names: d.ClientNames, Revoked: revoked})
}

// addV1Directory puts one directory of 3-D Secure 1.0.2 into cfg, in the two forms that
// its users want.
func (cfg *Config) addV1Directory(d config.V1Directory, c *config.Config) {
	cfg.V1Peers = append(cfg.V1Peers, directory.V1Peer{
		Scheme: d.Scheme, URL: d.DirectoryURL, Fallback: d.FallbackURL,
		TLS:       &tls.Config{RootCAs: d.ServerCA.Pool, Certificates: []tls.Certificate{d.ClientCert.Certificate}},
		AlwaysTry: !c.Limits.Breaker, Revoked: d.CRLs.Policy(d.Revocation), Proxy: forwardProxy(c, d.ForwardProxy),
	})
	policy := xmldsig.Policy{Name: d.Scheme, Roots: d.PAResRoots.Roots, MinKeyBits: d.MinKeyBits, AllowSHA1: d.AllowSHA1}
	v1 := mpi.Directory{
		Scheme: d.Scheme, Policy: func() xmldsig.Policy { return policy },
		SigningTime: d.VerifyAt == "signing_time", Lab: d.Lab,
	}
	if r := d.CardRanges; r != nil {
		v1.CardRanges = &mpi.Asker{URL: d.DirectoryURL, AcquirerBIN: r.AcquirerBIN, MerchantID: r.MerchantID}
	}
	cfg.V1Directories = append(cfg.V1Directories, v1)
}

// openListeners opens all listeners, or none. Those that the service manager opened and
// passed to this process are used as they are.
func openListeners(ctx context.Context, c *config.Config, cfg *Config) (err error) {
	passed, err := passedListeners()
	if err != nil {
		return err
	}
	var opened []net.Listener
	for _, l := range passed {
		opened = append(opened, l)
	}
	warnOfUnusedSockets(c, cfg.Log, passed)
	wanted := []struct {
		to            *net.Listener
		name, address string
	}{
		{&cfg.API, "api", c.API.Listen}, {&cfg.Results, "results", c.Results.Listen},
		{&cfg.Console, "console", c.Console.Listen}, {&cfg.Metrics, "metrics", c.Console.MetricsListen},
		{&cfg.Browser, "browser", ""},
	}
	if c.Browser != nil {
		wanted[4].address = c.Browser.Listen
	}
	keys := map[string]string{"metrics": "console.metrics_listen"}
	var lc net.ListenConfig
	for _, l := range wanted {
		if l.address == "" { // there is no such listener, whatever is passed
			continue
		}
		if *l.to = passed[l.name]; *l.to != nil {
			continue
		}
		got, err := lc.Listen(ctx, "tcp", l.address)
		if err != nil {
			for _, o := range opened {
				_ = o.Close()
			}
			return fmt.Errorf("%s: %w", cmp.Or(keys[l.name], l.name+".listen"), err)
		}
		opened = append(opened, got)
		*l.to = got
	}
	return nil
}

// warnOfUnusedSockets logs a warning of each socket that was passed for a listener that the configuration does not
// have. A client that connects to it gets no answer.
func warnOfUnusedSockets(c *config.Config, log *slog.Logger, passed map[string]net.Listener) {
	for name, key := range map[string]string{"browser": "browser.url", "metrics": "console.metrics_listen"} {
		isWanted := name == "browser" && c.Browser != nil || name == "metrics" && c.Console.MetricsListen != ""
		if passed[name] != nil && !isWanted {
			log.Warn(
				"a socket of the service manager is not used, and connections to it are not answered: stop its unit, or set the key",
				"socket", name, "key", key)
		}
	}
}

// forwardProxy is the forward proxy of a directory: its own or that of all; nil: none.
func forwardProxy(c *config.Config, own *config.Proxy) *tunnel.Proxy {
	p := cmp.Or(own, c.ForwardProxy)
	if p == nil || p.URL.Direct {
		return nil
	}
	return &tunnel.Proxy{Address: p.URL.Address, Roots: p.CA.Pool, User: p.User, Password: p.Password}
}

// tracing returns where traces go and which, by the configuration, or without a section for it by the environment. nil
// means that there are none.
func tracing(t *config.Tracing, release string) *obs.Tracing {
	if t == nil {
		return obs.TracingFromEnvironment(os.LookupEnv, release)
	}
	endpoint := t.Endpoint
	if u, err := url.Parse(endpoint); err == nil && strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces" // the path that the protocol defines
		endpoint = u.String()
	}
	return &obs.Tracing{
		Endpoint: endpoint, Header: t.Header, Fraction: t.SamplingFraction, Version: release,
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: certs.StrongSuites(), RootCAs: t.CA.Pool},
	}
}

// acpSettings returns how agents are served by a configuration; nil if they are not.
func acpSettings(c *config.Config) *ACPSettings {
	if !c.ACP.Enabled {
		return nil
	}
	return &ACPSettings{Secret: c.ACP.Signature.Key}
}

// webhookSettings returns how events are delivered by a configuration.
func webhookSettings(c *config.Config) WebhookSettings {
	addresses := c.WebhookAddresses()
	w := WebhookSettings{
		Allow: addresses.Allowed, HTTP: addresses.HTTP, Roots: c.Webhooks.Roots.Pool, Retry: c.Webhooks.Retry,
		Timeout: c.Webhooks.Timeout, DisableAfter: c.Webhooks.DisableAfter,
	}
	for _, o := range c.Webhooks.Operator {
		w.Operator = append(w.Operator, webhook.OperatorEndpoint(o.URL, o.Secret.Key, o.Types))
	}
	return w
}
