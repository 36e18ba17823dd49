// Package playground runs a server whose directory servers and issuers are those of the
// sandbox, all in one process. Use [Start], then [Playground.Run]. The command `threeds
// sandbox` and package threedstest are made of it. Nothing in it is for production.
package playground

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/uuid"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/mpi"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/sandbox"
)

// Key and OtherKey are the API keys of a playground that has no others, of two merchants. They are in the README so
// that its lines can be pasted. They are useless elsewhere: only Start puts them into a store.
const (
	Key      = "5a5a5a5a-0000-4000-8000-000000000001"
	OtherKey = "5a5a5a5a-0000-4000-8000-000000000002"
)

// DirectoryTimeout is how long the server of a playground and the directory servers usually wait for each other.
const DirectoryTimeout = 10 * time.Second

// Keys are the API keys of a playground, of two merchants.
type Keys struct{ Key, OtherKey string }

// RandomKeys returns new random keys.
func RandomKeys() *Keys { return &Keys{uuid.New(), uuid.New()} }

// startLabel is the label of random keys, which are good until the next start with the same data.
const startLabel = "this start of the sandbox"

// These are the names of the merchants of Key and OtherKey.
const (
	shopMerchant  = "Sandbox Shop"
	otherMerchant = "Other Merchant"
)

// Options say where a playground keeps its data and listens.
type Options struct {
	Dir     string       // of the store and the key file; it must exist
	API     net.Listener // of the API; Start closes it when it fails
	Release string       // the version of the program, for the metrics
	Log     *slog.Logger
	Address *Address     // of what is served besides the API; nil: only the API is served there
	Browser net.Listener // of pages for browsers without an Address; nil: none. Start closes it when it fails

	// DirectoriesListen is where the directory servers listen together, each below a path
	// of its own. Empty means that each has a port of the loopback interface.
	DirectoriesListen string

	// Around wraps what is served on the port of the API; nil means no wrapper.
	Around func(http.Handler) http.Handler

	// Strict refuses a threeDSCompInd Y whose 3DS Method has not completed. For the demo
	// shop of Address that holds in any case.
	Strict bool

	// Keys are the API keys; nil means Key and OtherKey. With others, those two are not good.
	Keys *Keys

	// Receivers are all that webhooks may go to; nil means all of this machine, and https everywhere.
	Receivers []webhook.Receiver

	// PerKey is how many requests per second each API key may make. 0 means 500.
	PerKey float64
	// DirectoryTimeout is how long the server and the directory servers wait for each other. 0 means [DirectoryTimeout].
	// Half of it may go by until a connection is made.
	DirectoryTimeout time.Duration
	// Shutdown is how long requests in work may take to finish when the playground ends. 0 means a little longer than the
	// server waits for a directory server.
	Shutdown time.Duration
}

// close closes the listeners.
func (o *Options) close() error {
	if o.Browser == nil {
		return o.API.Close()
	}
	return errors.Join(o.API.Close(), o.Browser.Close())
}

// A Playground is a server and the sandbox that it talks to.
type Playground struct {
	Sandbox *sandbox.Sandbox

	server     *server.Server
	resultsURL string
	consoleURL string
	browsers   *browserLog // nil without an [Address]
}

// Start starts the sandbox and builds a server for it, with the keys of the options
// in its store. Requests wait until Run is called. A playground that is not run has to be
// closed.
func Start(ctx context.Context, o Options) (_ *Playground, err error) {
	ring, err := keyring.LoadOrCreate(filepath.Join(o.Dir, "keys.json"))
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	p := &Playground{Sandbox: &sandbox.Sandbox{
		Log: o.Log, DirectoriesListen: o.DirectoriesListen, Strict: o.Strict,
		ResultTimeout: cmp.Or(o.DirectoryTimeout, DirectoryTimeout),
	}}
	if o.Address != nil {
		p.Sandbox.IsStrictFor = o.Address.isShop(o.API.Addr().String())
		p.Sandbox.PagesURL = o.Address.PublicURL + pagesPath
	}
	if err := p.Sandbox.Start(); err != nil {
		return nil, errors.Join(err, o.close())
	}
	var lc net.ListenConfig
	received, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, o.close(), p.Sandbox.Close())
	}
	p.resultsURL = "https://" + received.Addr().String() + "/results"
	cfg := p.serverConfig(o, ring, received)
	if p.server, err = server.New(ctx, *cfg); err != nil {
		return nil, errors.Join(err, o.close(), received.Close(), p.Sandbox.Close())
	}
	if err := putKeys(ctx, p.server.Store(), ring, o.Keys); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Run serves until ctx ends, finishes what is in flight, and closes everything.
func (p *Playground) Run(ctx context.Context) error {
	return errors.Join(p.server.Run(ctx), p.Sandbox.Close())
}

// Close closes a playground that was never run.
func (p *Playground) Close() error { return errors.Join(p.server.Close(), p.Sandbox.Close()) }

// ResultsURL is where the directory servers of the sandbox post results.
func (p *Playground) ResultsURL() string { return p.resultsURL }

// ConsoleURL is the address of the console, without a slash at the end; "" without an [Address].
func (p *Playground) ConsoleURL() string { return p.consoleURL }

// putKeys makes the keys valid, in a new store and in a kept one. Without other keys these are the well-known ones. In
// a kept store it revokes the keys of earlier starts.
func putKeys(ctx context.Context, db store.Store, ring *keyring.Ring, keys *Keys) error {
	var terms account.Terms
	if keys != nil {
		terms.Label = startLabel
		if err := revokeKeys(ctx, db, account.NewRow(ring, Key, shopMerchant, false, terms),
			account.NewRow(ring, OtherKey, otherMerchant, false, terms)); err != nil {
			return err
		}
	} else {
		keys = &Keys{Key, OtherKey}
	}
	rows, err := db.Keys(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if terms, err := account.OpenTerms(ring, &row); err == nil && terms.Label == startLabel {
			if err := revokeKeys(ctx, db, row); err != nil {
				return err
			}
		}
	}
	for key, merchant := range map[string]string{keys.Key: shopMerchant, keys.OtherKey: otherMerchant} {
		err := db.PutKey(ctx, account.NewRow(ring, key, merchant, false, terms))
		if err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return nil
}

// revokeKeys revokes those keys that are there.
func revokeKeys(ctx context.Context, db store.Store, rows ...store.Key) error {
	for _, row := range rows {
		if err := db.RevokeKey(ctx, row.Hash); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// serverConfig is the configuration of a server for the sandbox.
func (p *Playground) serverConfig(o Options, ring *keyring.Ring, received net.Listener) *server.Config {
	patience := cmp.Or(o.DirectoryTimeout, DirectoryTimeout)
	cfg := &server.Config{
		StoreURL: config.StoreURL{Dir: o.Dir}, Ring: ring, Log: o.Log, Loopback: true, Release: o.Release, API: o.API,
		Results:  received,
		Certs:    []tls.Certificate{p.Sandbox.ResultsCert()},
		Shutdown: cmp.Or(o.Shutdown, patience+5*time.Second),
		Server: check.Server{
			RefNumber:   referenceNumber,
			RequestorID: "sandbox", RequestorName: "Sandbox",
		},
		Timeouts: txn.Timeouts{
			Authentication: patience, Preauth: 80 * time.Second, Challenge: 24 * time.Hour,
			Result: 300 * time.Second, DecoupledResult: 20 * time.Minute, Values: 30 * time.Minute, Browser: 30 * time.Minute,
		},
		ACP:     &server.ACPSettings{},
		Journal: &server.JournalSettings{},
		Webhooks: server.WebhookSettings{
			Allow: hookNetworks(o.API), HTTP: true, Receivers: o.Receivers,
			ReceiverHint: "threeds sandbox --allow-receiver HOST:PORT allows another",
		},
		Limits:    server.Limits{PerKey: cmp.Or(o.PerKey, 500), InFlight: 10000},
		Merchants: p.merchants(),
		Cards:     func(r *ranges.Schemes) check.Cards { return testCards{r, p.Sandbox} },
	}
	if o.Address != nil {
		cfg.BrowserURL = o.Address.PublicURL
		if o.Address.Docs != nil {
			cfg.DocsURL = o.Address.PublicURL + "/docs/"
		}
		p.browsers = newBrowserLog()
		p.consoleURL = o.Address.PublicURL + consolePath
		cfg.OpenConsole = &server.OpenConsole{
			Origin: o.Address.PublicURL, IsOwnHost: o.Address.isOwnHost, Shop: o.Address.PublicURL,
		}
		cfg.Front = func(api, browser, console http.Handler) http.Handler {
			f := newFront(*o.Address, o.API.Addr().String(), api, p.browsers.watch(browser), p.Sandbox,
				cmp.Or(o.Keys, &Keys{Key, OtherKey}))
			f.console = serveBelow(consolePath, console)
			if o.Around != nil {
				return o.Around(f)
			}
			return f
		}
	}
	if o.Browser != nil {
		cfg.Browser, cfg.BrowserURL = o.Browser, "http://"+o.Browser.Addr().String()
	}
	for i, d := range p.Sandbox.Directories() {
		p.addDirectory(cfg, i, d, patience)
	}
	for _, d := range p.Sandbox.V1Directories() {
		addV1Directory(cfg, d, patience/2)
	}
	return cfg
}

// hookNetworks are the networks in which webhooks may be: this machine, and the address on which the shop is.
func hookNetworks(api net.Listener) []netip.Prefix {
	all := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	if api == nil {
		return all
	}
	at, err := netip.ParseAddrPort(api.Addr().String())
	if addr := at.Addr().Unmap().WithZone(""); err == nil && !addr.IsUnspecified() {
		all = append(all, netip.PrefixFrom(addr, addr.BitLen()))
	}
	return all
}

// addDirectory adds a directory server of the sandbox to a configuration.
func (p *Playground) addDirectory(cfg *server.Config, i int, d sandbox.Directory, patience time.Duration) {
	versions := message.Versions()
	operator := fmt.Sprintf("1000%04d", i)
	cfg.Peers = append(cfg.Peers, directory.Peer{
		Scheme: d.Scheme, AReqURL: d.URL, PReqURL: d.URL, OperatorID: operator,
		RefNumber: referenceNumber, Versions: versions, Lab: true,
		AlwaysTry: true, // silence is what some of its cards are for
		Timeout:   patience, DialTimeout: patience / 2,
		TLS: &tls.Config{RootCAs: d.ServerCA, Certificates: []tls.Certificate{d.ClientCert}},
	})
	cfg.Directories = append(cfg.Directories, check.Directory{
		Scheme: d.Scheme, Versions: versions, OperatorID: operator, Informational: true, Lab: true,
		ResultsURL: p.resultsURL,
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(d.ClientCAPEM)
	cfg.Clients = append(cfg.Clients, certs.Client{Scheme: d.Scheme, CA: pool, Names: []string{d.ClientName}})
}

// addV1Directory adds a directory server of 3-D Secure 1.0.2. The keys of its issuers are
// made when they first sign, so the roots are asked for with each signature.
func addV1Directory(cfg *server.Config, d sandbox.V1Directory, dial time.Duration) {
	cfg.V1Peers = append(cfg.V1Peers, directory.V1Peer{
		Scheme: d.Scheme, URL: d.URL, AlwaysTry: true, DialTimeout: dial,
		TLS: &tls.Config{RootCAs: d.ServerCA, Certificates: []tls.Certificate{d.ClientCert}},
	})
	cfg.V1Directories = append(cfg.V1Directories,
		mpi.Directory{Scheme: d.Scheme, Lab: true, Policy: func() xmldsig.Policy {
			policy := xmldsig.Policy{Name: d.Scheme, AllowSHA1: true}
			for _, cert := range d.RootsSoFar() {
				root, err := xmldsig.NewRoot(cert.Raw)
				if err != nil {
					cfg.Log.Error("root of the sandbox not read", "scheme", d.Scheme, "err", err)
					continue
				}
				policy.Roots = append(policy.Roots, root)
			}
			return policy
		}})
}

// referenceNumber has the form of the numbers that EMVCo gives.
func referenceNumber(v message.Version) string {
	return "3DS_LOA_SER_SANDBOX_0" + strings.ReplaceAll(v.String(), ".", "0") + "_00000"
}

// testCards looks up the test cards of the sandbox. Card ranges cannot say "any number, by
// its last four digits", so the card table of the sandbox answers.
type testCards struct {
	*ranges.Schemes
	sandbox *sandbox.Sandbox
}

// listedExtensions are the extensions of EMVCo that the test cards have in 2.2.0, each in its newest version.
var listedExtensions = []ranges.Extension{
	{ID: "A000000802-001", Version: "2.0"}, {ID: "A000000802-002", Version: "1.0"}, {ID: "A000000802-004", Version: "2.0"},
}

func (c testCards) AnyTried() bool { return true }

func (c testCards) Pending(string) bool { return false }

func (c testCards) Lookup(pan string) []ranges.Hit {
	card, enrolled := c.sandbox.Card(pan)
	if !enrolled {
		return nil
	}
	first, last := card.Versions[0], card.Versions[len(card.Versions)-1]
	info := &ranges.Info{ACSStart: first, ACSEnd: last, DSStart: "2.1.0", DSEnd: "2.3.1"}
	for _, v := range message.Versions() {
		info.DSVersions = append(info.DSVersions, v.String())
	}
	for _, v := range card.Versions {
		acs := ranges.ACSVersion{Version: v, MethodURL: card.MethodURL}
		if v != message.V210.String() {
			acs.InfoInd = []string{"01", "02"}
		}
		if v == message.V220.String() {
			acs.Extensions = listedExtensions
		}
		if v == message.V231.String() {
			acs.InfoInd = append(acs.InfoInd, "07") // so that Secure Payment Confirmation can be offered
		}
		info.ACS = append(info.ACS, acs)
	}
	var hits []ranges.Hit
	for _, scheme := range append([]string{card.Scheme}, card.Others...) {
		hits = append(hits, ranges.Hit{Scheme: scheme, Info: info})
	}
	for _, h := range c.Schemes.Lookup(pan) {
		if !slices.ContainsFunc(hits, func(x ranges.Hit) bool { return x.Scheme == h.Scheme }) {
			hits = append(hits, h)
		}
	}
	return hits
}
