package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/auth"
	"github.com/openthreeds/threeds/internal/directory"
	"github.com/openthreeds/threeds/internal/keyring"
	"github.com/openthreeds/threeds/internal/mpi"
	"github.com/openthreeds/threeds/internal/obs"
	"github.com/openthreeds/threeds/internal/results"
	"github.com/openthreeds/threeds/internal/xmldsig"
	"github.com/openthreeds/threeds/message"
)

// runServe is the production server: nothing in it is simulated.
func runServe(ctx context.Context, args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	file := fs.String("config", defaultConfig, "the configuration `FILE`")
	if _, err := parse(fs, args, 0); err != nil {
		return err
	}
	return serve(ctx, *file, stderr, func(*nodeConfig) {})
}

// serve runs the server that a configuration file describes until ctx ends. The caller
// may change what a node is built from before it is: tests do.
func serve(ctx context.Context, file string, stderr io.Writer, change func(*nodeConfig)) error {
	atLeastTwo()
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	unheard := make(chan os.Signal, 1)
	signal.Notify(unheard, syscall.SIGPIPE) // or the server would end when nobody reads its log any more
	defer signal.Stop(unheard)
	level := new(slog.LevelVar)
	log := obs.NewLogger(stderr, level)
	l, err := newLoader(file)
	if err != nil {
		return err
	}
	c, warnings, err := l.load(time.Now())
	if err != nil {
		return err
	}
	level.Set(c.level())
	c.certs.log(log, time.Now())
	for _, w := range warnings {
		log.Warn("configuration", "warning", w)
	}
	if name := c.unread(os.LookupEnv); name != "" {
		log.Warn("configuration", "warning", name+" is in the environment and is not read: forward_proxy is what connections go through")
	}
	if name := c.untraced(os.LookupEnv); name != "" {
		log.Warn("configuration", "warning", name+" is in the environment and is not read: tracing is what says where traces go")
	}
	ring, err := c.ring(ctx)
	if err != nil {
		return err
	}
	_, _ = l.read.file(c.Keys) // so that the reloader watches it too
	cfg := c.node(log, ring)
	if err := c.open(ctx, cfg); err != nil {
		return err
	}
	change(cfg)
	n, err := newNode(ctx, *cfg)
	if err != nil {
		return errors.Join(err, cfg.API.Close(), cfg.Results.Close(), cfg.Console.Close())
	}
	manager := newManager(log)
	r := &reloader{file: file, node: n, log: log, level: level, manager: manager, inUse: c, ring: ring, tried: l.read}
	log.Info("serving", "build", build(), "api", cfg.API.Addr(), "results", cfg.Results.Addr(), "console", cfg.Console.Addr())
	return n.run(ctx, manager.run, func(ctx context.Context) { r.run(ctx, again, pollEvery) })
}

// atLeastTwo has two threads run Go at once where there is one processor, unless
// GOMAXPROCS says otherwise. With one thread everything would wait while it waits for
// the disk, and less than half would be served (bench/README.md).
func atLeastTwo() {
	if _, said := os.LookupEnv("GOMAXPROCS"); !said && runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2)
	}
}

// level is the least serious thing to be logged.
func (c *config) level() (level slog.Level) {
	_ = level.UnmarshalText([]byte(c.Log.Level)) // the loader has checked it
	return level
}

// node returns the values that a node is built from, of a checked configuration.
func (c *config) node(log *slog.Logger, ring *keyring.Ring) *nodeConfig {
	cfg := &nodeConfig{
		At: c.Store.URL, Ring: ring, Log: log, Shutdown: c.Timeouts.Shutdown, LameDuck: c.Timeouts.LameDuck,
		Server: auth.Server{
			RefNumber: c.refNumber, RequestorID: c.Server.RequestorID, RequestorName: c.Server.RequestorName,
		},
		Timeouts: auth.Timeouts{
			Authentication: c.Timeouts.Authentication, Preauth: c.Timeouts.Preauth, Challenge: c.Timeouts.Challenge,
			Result: c.Timeouts.Result, DecoupledResult: c.Timeouts.DecoupledResult,
		},
		Limits: limits{
			PerKey: c.Limits.PerKey.PerSecond(), InFlight: int64(c.Limits.InFlight), Connections: c.Limits.Connections, Wait: c.Limits.Wait,
			AuthBody: int64(c.Limits.AuthBody), Body: int64(c.Limits.Body),
			Message: message.Limits{Depth: c.Limits.Depth, Members: c.Limits.Members},
		},
		Certs: []tls.Certificate{c.Results.TLS.Certificate}, Ends: c.ends, Due: c.due, Certificates: &c.certs, Tracing: c.Tracing.tracing(),
	}
	if c.API.TLS != nil {
		cfg.APICert = &c.API.TLS.Certificate
	}
	for _, m := range c.Merchants {
		cfg.Merchants = append(cfg.Merchants, m.account())
	}
	for _, d := range c.Directories {
		cfg.add(d, c)
	}
	for _, d := range c.V1 {
		cfg.addV1(d, c)
	}
	return cfg
}

func (c *config) refNumber(v message.Version) string {
	if n := c.Server.ReferenceNumbers[v.String()]; n != "" {
		return n
	}
	return c.Server.ReferenceNumber
}

// account is the profile of a merchant as the book of keys wants it.
func (m merchant) account() account.Merchant {
	got := account.Merchant{
		Name: m.Name, RequestorID: m.RequestorID, RequestorName: m.RequestorName,
		AcquirerCountry: m.AcquirerCountry, SchemeRules: m.SchemeRules,
		PerDirectory: make(map[string]account.Requestor),
	}
	for scheme, id := range m.PerDirectory {
		got.PerDirectory[scheme] = account.Requestor{ID: id.RequestorID, Name: id.RequestorName}
	}
	return got
}

// add puts one directory into cfg, in the three forms that its users want.
func (cfg *nodeConfig) add(d directoryConfig, c *config) {
	versions, revoked := d.versions(), d.CRLs.policy(d.Revocation)
	cfg.Peers = append(cfg.Peers, directory.Peer{
		Scheme: d.Scheme, AReqURL: d.AReqURL, PReqURL: d.PReqURL, OperatorID: d.OperatorID,
		RefNumber: c.refNumber, Versions: versions,
		TLS:     &tls.Config{RootCAs: d.ServerCA.Pool, Certificates: []tls.Certificate{d.ClientCert.Certificate}},
		Revoked: revoked,
		Timeout: cmp.Or(d.Timeout, c.Timeouts.Authentication), MaxInFlight: c.Limits.PerDirectory, MaxPerMerchant: c.Limits.PerMerchant, AlwaysTry: !c.Limits.Breaker,
		Refresh: d.Refresh, MinRefresh: d.MinRefresh, FileHosts: d.FileHosts, Proxy: c.proxy(d.ForwardProxy),
		Lab: d.Lab,
	})
	url := c.Results.URL
	if d.Results != nil {
		url = d.Results.URL
		cfg.Certs = append(cfg.Certs, d.Results.TLS.Certificate)
	}
	cfg.Directories = append(cfg.Directories, auth.Directory{
		Scheme: d.Scheme, Versions: versions, OperatorID: d.OperatorID,
		RequestorID: d.RequestorID, RequestorName: d.RequestorName,
		ResultsURL: url, Informational: d.Informational == "any",
		CriticalExtensions: d.CriticalExtensions, Lab: d.Lab,
	})
	cfg.Clients = append(cfg.Clients, results.Client{Scheme: d.Scheme, CA: d.ClientCA.Pool, Names: d.ClientNames, Revoked: revoked})
}

// addV1 puts one directory of 3-D Secure 1.0.2 into cfg, in the two forms that
// its users want.
func (cfg *nodeConfig) addV1(d v1Config, c *config) {
	cfg.V1Peers = append(cfg.V1Peers, directory.V1Peer{
		Scheme: d.Scheme, URL: d.DirectoryURL, Fallback: d.FallbackURL,
		TLS:       &tls.Config{RootCAs: d.ServerCA.Pool, Certificates: []tls.Certificate{d.ClientCert.Certificate}},
		AlwaysTry: !c.Limits.Breaker, Revoked: d.CRLs.policy(d.Revocation), Proxy: c.proxy(d.ForwardProxy),
	})
	policy := xmldsig.Policy{Name: d.Scheme, Roots: d.PAResRoots.Roots, MinKeyBits: d.MinKeyBits, AllowSHA1: d.AllowSHA1}
	v1 := mpi.Directory{
		Scheme: d.Scheme, Policy: func() xmldsig.Policy { return policy }, SigningTime: d.VerifyAt == "signing_time", Lab: d.Lab,
	}
	if r := d.CardRanges; r != nil {
		v1.CardRanges = &mpi.Asker{URL: d.DirectoryURL, AcquirerBIN: r.AcquirerBIN, MerchantID: r.MerchantID}
	}
	cfg.V1Directories = append(cfg.V1Directories, v1)
}

// versions are those to use with a directory, in order.
func (d directoryConfig) versions() []message.Version {
	var versions []message.Version
	for _, s := range d.Versions {
		if v, ok := message.ParseVersion(s); ok { // the loader has checked them
			versions = append(versions, v)
		}
	}
	slices.Sort(versions)
	return versions
}

// open opens the three listeners, or none. Those that the service manager opened and
// passed to this process are used as they are.
func (c *config) open(ctx context.Context, cfg *nodeConfig) (err error) {
	passed, err := passedListeners()
	if err != nil {
		return err
	}
	var opened []net.Listener
	for _, l := range passed {
		opened = append(opened, l)
	}
	var listen net.ListenConfig
	for _, l := range []struct {
		to            *net.Listener
		name, address string
	}{
		{&cfg.API, "api", c.API.Listen}, {&cfg.Results, "results", c.Results.Listen}, {&cfg.Console, "console", c.Console.Listen},
	} {
		if *l.to = passed[l.name]; *l.to != nil {
			continue
		}
		got, err := listen.Listen(ctx, "tcp", l.address)
		if err != nil {
			for _, o := range opened {
				_ = o.Close()
			}
			return fmt.Errorf("%s.listen: %w", l.name, err)
		}
		opened = append(opened, got)
		*l.to = got
	}
	return nil
}
