package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/auth"
	"github.com/openthreeds/threeds/internal/config"
	"github.com/openthreeds/threeds/internal/directory"
	"github.com/openthreeds/threeds/internal/keyring"
	"github.com/openthreeds/threeds/internal/mpi"
	"github.com/openthreeds/threeds/internal/obs"
	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/results"
	"github.com/openthreeds/threeds/internal/server"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/xmldsig"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/sandbox"
	"github.com/openthreeds/threeds/sandbox/shop"
)

// Where the sandbox listens unless told otherwise. The shop takes any free port
// when its own is taken or the API was sent to any port itself.
const (
	sandboxAPI  = "127.0.0.1:8080"
	sandboxShop = "127.0.0.1:8081"
)

// runSandbox runs the whole world in this process: a server, its peers, a shop.
func runSandbox(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("sandbox", flag.ContinueOnError)
	listen := fs.String("listen", sandboxAPI, "`HOST:PORT` of the API, port 0 for any free one")
	data := fs.String("data", "", "keep the store in `DIR`; default: a temporary one")
	readyFile := fs.String("ready-file", "", "write addresses and keys to `FILE`, as JSON, once all accept")
	if _, err := parse(fs, args, 0); err != nil {
		return err
	}
	dir := *data
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "threeds-sandbox-"); err != nil {
			return fmt.Errorf("%w (--data DIR names another place)", err)
		}
		defer os.RemoveAll(dir)
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	p := &playground{dir: dir, log: obs.NewLogger(stderr, slog.LevelWarn), out: stdout}
	return p.run(ctx, *listen, &announcement{file: *readyFile})
}

// A playground is the sandbox's world and what it has opened.
type playground struct {
	dir  string
	log  *slog.Logger
	out  io.Writer
	ring *keyring.Ring
	peer *sandbox.Sandbox
	shop *shop.Shop
}

func (p *playground) run(ctx context.Context, listen string, ready *announcement) (err error) {
	if err := ready.clear(); err != nil {
		return err
	}
	if p.ring, err = keyring.LoadOrCreate(filepath.Join(p.dir, "keys.json")); err != nil {
		return err
	}
	p.peer = &sandbox.Sandbox{Log: p.log}
	if err := p.peer.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.peer.Close()) }()
	cfg, err := p.config(ctx, listen)
	if err != nil {
		return err
	}
	n, err := server.New(ctx, *cfg)
	if err != nil {
		return errors.Join(err, cfg.API.Close(), cfg.Results.Close())
	}
	if err := p.putKeys(ctx, n.Store()); err != nil {
		return errors.Join(err, n.Close())
	}
	api := "http://" + reachable(cfg.API.Addr())
	p.shop = &shop.Shop{API: api, APIKey: sandboxKey, Log: p.log}
	shopURL, err := p.openShop(listen)
	if err != nil {
		return errors.Join(err, n.Close())
	}
	defer func() { err = errors.Join(err, p.shop.Close()) }()
	defer func() { err = errors.Join(err, ready.withdraw()) }()
	if err := p.tell(api, shopURL, cfg, ready); err != nil {
		return errors.Join(err, n.Close())
	}
	return n.Run(ctx)
}

// putKeys makes the well-known keys good, in a new store and in one that is kept.
func (p *playground) putKeys(ctx context.Context, db store.Store) error {
	for key, merchant := range map[string]string{sandboxKey: "Sandbox Shop", sandboxOtherKey: "Other Merchant"} {
		err := db.PutKey(ctx, account.Row(p.ring, key, merchant, false))
		if err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return nil
}

// config makes of the sandbox's parts what a node is built from.
func (p *playground) config(ctx context.Context, listen string) (*server.Config, error) {
	var lc net.ListenConfig
	api, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("%w (--listen HOST:0 takes any free port)", err)
	}
	received, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, api.Close())
	}
	cfg := &server.Config{
		At: config.StoreURL{Dir: p.dir}, Ring: p.ring, Log: p.log, Loopback: true, Release: release(), API: api, Results: received,
		Certs:    []tls.Certificate{p.peer.ResultsCert()},
		Shutdown: 15 * time.Second,
		Server: auth.Server{
			RefNumber:   sandboxRefNumber,
			RequestorID: "sandbox", RequestorName: "Sandbox",
		},
		Timeouts: auth.Timeouts{
			Authentication: 10 * time.Second, Preauth: 80 * time.Second, Challenge: 24 * time.Hour,
			Result: 300 * time.Second, DecoupledResult: 20 * time.Minute,
		},
		Limits: server.Limits{PerKey: 500, InFlight: 10000},
		Cards:  func(r *ranges.Schemes) auth.Cards { return anyCard{r, p.peer} },
	}
	for i, d := range p.peer.Directories() {
		addSandbox(cfg, i, d)
	}
	for _, d := range p.peer.V1Directories() {
		addSandboxV1(cfg, d)
	}
	return cfg, nil
}

// addSandbox is add for a directory server of the sandbox.
func addSandbox(cfg *server.Config, i int, d sandbox.Directory) {
	versions := message.Versions()
	operator := fmt.Sprintf("1000%04d", i)
	cfg.Peers = append(cfg.Peers, directory.Peer{
		Scheme: d.Scheme, AReqURL: d.URL, PReqURL: d.URL, OperatorID: operator,
		RefNumber: sandboxRefNumber, Versions: versions, Lab: true,
		AlwaysTry: true, // silence is what some of its cards are for
		TLS:       &tls.Config{RootCAs: d.ServerCA, Certificates: []tls.Certificate{d.ClientCert}},
	})
	cfg.Directories = append(cfg.Directories, auth.Directory{
		Scheme: d.Scheme, Versions: versions, OperatorID: operator, Informational: true, Lab: true,
		ResultsURL: "https://" + cfg.Results.Addr().String() + "/results",
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(d.ClientCAPEM)
	cfg.Clients = append(cfg.Clients, results.Client{Scheme: d.Scheme, CA: pool, Names: []string{d.ClientName}})
}

// addSandboxV1 is addV1 for a directory server of the sandbox. The keys of its
// issuers are made when they first sign, so the roots are asked for late.
func addSandboxV1(cfg *server.Config, d sandbox.V1Directory) {
	cfg.V1Peers = append(cfg.V1Peers, directory.V1Peer{
		Scheme: d.Scheme, URL: d.URL, AlwaysTry: true,
		TLS: &tls.Config{RootCAs: d.ServerCA, Certificates: []tls.Certificate{d.ClientCert}},
	})
	cfg.V1Directories = append(cfg.V1Directories, mpi.Directory{Scheme: d.Scheme, Lab: true, Policy: func() xmldsig.Policy {
		policy := xmldsig.Policy{Name: d.Scheme, AllowSHA1: true}
		for _, cert := range d.RootsSoFar() {
			root, err := xmldsig.NewRoot(cert.Raw, false)
			if err != nil {
				cfg.Log.Error("root of the sandbox not read", "scheme", d.Scheme, "err", err)
				continue
			}
			policy.Roots = append(policy.Roots, root)
		}
		return policy
	}})
}

// sandboxRefNumber has the form of the numbers that EMVCo gives.
func sandboxRefNumber(v message.Version) string {
	return "3DS_LOA_SER_SANDBOX_0" + strings.ReplaceAll(v.String(), ".", "0") + "_00000"
}

// anyCard is the look-up of the sandbox: ranges cannot say "any number, by its
// last four digits", so the card table answers.
type anyCard struct {
	*ranges.Schemes
	peer *sandbox.Sandbox
}

func (c anyCard) AnyTried() bool { return true }

func (c anyCard) Pending(string) bool { return false }

func (c anyCard) Lookup(pan string) []ranges.Hit {
	card, enrolled := c.peer.Card(pan)
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

// openShop starts the shop at its own port, or at any.
func (p *playground) openShop(listen string) (string, error) {
	if listen == sandboxAPI {
		if url, err := p.shop.Start(sandboxShop); err == nil {
			return url, nil
		}
	}
	return p.shop.Start("127.0.0.1:0")
}

// tell writes the ready file, and says on standard output what there is.
func (p *playground) tell(api, shopURL string, cfg *server.Config, ready *announcement) error {
	ca := filepath.Join(p.dir, "ca.pem")
	if err := os.WriteFile(ca, p.peer.CAPEM(), 0o600); err != nil {
		return err
	}
	ds := make(map[string]string)
	for _, d := range p.peer.Directories() {
		ds[d.Scheme] = d.URL
	}
	err := ready.publish(map[string]any{
		"api": api, "mpi": api, "results": cfg.Directories[0].ResultsURL, "ds": ds, "acs": p.peer.ACSURL(), "shop": shopURL,
		"apiKey": sandboxKey, "otherApiKey": sandboxOtherKey, "ca": ca, "control": p.peer.ControlURL(),
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, `threeds sandbox is ready. Nothing here is real, and nothing leaves this machine.

  Demo shop   %s
  API         %s
  API key     %s
  Peers saw   %s

Try it:

  curl -sS %s/preauth -H 'APIKey: %s' -H 'Content-Type: application/json' -d '{"acctNumber": "3000100000000103"}'

Ctrl-C ends it.
`, shopURL, api, sandboxKey, p.peer.ControlURL(), api, sandboxKey)
	return err
}

// reachable is an address to call for a TCP listener that may accept on all.
func reachable(a net.Addr) string {
	at := netip.MustParseAddrPort(a.String())
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
	}
	return at.String()
}
