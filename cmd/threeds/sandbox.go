package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/openthreeds/threeds/internal/obs"
	"github.com/openthreeds/threeds/internal/playground"
	"github.com/openthreeds/threeds/sandbox/shop"
)

// Where the sandbox listens unless told otherwise. The shop takes any free port
// when its own is taken or the API was sent to any port itself.
const (
	sandboxAPI  = "127.0.0.1:8080"
	sandboxShop = "127.0.0.1:8081"
)

// runSandbox runs a server, its directory servers and issuers, and a shop in this process.
func runSandbox(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("sandbox", flag.ContinueOnError)
	listen := fs.String("listen", sandboxAPI, "`HOST:PORT` of the API, port 0 for any free one")
	data := fs.String("data", "", "keep the store in `DIR`; default: a temporary one")
	readyPath := fs.String("ready-file", "", "write addresses and keys to `FILE`, as JSON, once all accept")
	if _, err := parseFlags(fs, args, 0); err != nil {
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
	ready := &readyFile{path: *readyPath}
	if err := ready.removeStale(); err != nil {
		return err
	}
	var lc net.ListenConfig
	api, err := lc.Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("%w (--listen HOST:0 takes any free port)", err)
	}
	o := playground.Options{Dir: dir, API: api, Release: releaseVersion(), Log: obs.NewLogger(stderr, slog.LevelWarn)}
	return serveSandbox(ctx, o, *listen == sandboxAPI, ready, stdout)
}

// serveSandbox runs the playground and the shop until ctx ends. usualPort has the shop take
// its usual port if that is free.
func serveSandbox(ctx context.Context, o playground.Options, usualPort bool, ready *readyFile, stdout io.Writer) (err error) {
	api := "http://" + callableAddress(o.API.Addr())
	p, err := playground.Start(ctx, o)
	if err != nil {
		return err
	}
	demo := &shop.Shop{API: api, APIKey: playground.Key, Log: o.Log}
	shopURL, err := startShop(demo, usualPort)
	if err != nil {
		return errors.Join(err, p.Close())
	}
	defer func() { err = errors.Join(err, demo.Close()) }()
	defer func() { err = errors.Join(err, ready.remove()) }()
	if err := describeSandbox(p, o.Dir, api, shopURL, ready, stdout); err != nil {
		return errors.Join(err, p.Close())
	}
	return p.Run(ctx)
}

// startShop starts the shop at its usual port, or at any.
func startShop(s *shop.Shop, usualPort bool) (string, error) {
	if usualPort {
		if url, err := s.Start(sandboxShop); err == nil {
			return url, nil
		}
	}
	return s.Start("127.0.0.1:0")
}

// describeSandbox writes the ready file, and says on standard output what there is.
func describeSandbox(p *playground.Playground, dir, api, shopURL string, ready *readyFile, stdout io.Writer) error {
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, p.Sandbox.CAPEM(), 0o600); err != nil {
		return err
	}
	ds := make(map[string]string)
	for _, d := range p.Sandbox.Directories() {
		ds[d.Scheme] = d.URL
	}
	err := ready.publish(map[string]any{
		"api": api, "mpi": api, "results": p.ResultsURL(), "ds": ds, "acs": p.Sandbox.ACSURL(), "shop": shopURL,
		"apiKey": playground.Key, "otherApiKey": playground.OtherKey, "ca": ca, "control": p.Sandbox.ControlURL(),
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, `threeds sandbox is ready. Nothing here is real, and nothing leaves this machine.

  Demo shop   %s
  API         %s
  API key     %s
  Peers saw   %s

Try it:

  curl -sS %s/preauth -H 'APIKey: %s' -H 'Content-Type: application/json' -d '{"acctNumber": "3000100000000103"}'

Ctrl-C ends it.
`, shopURL, api, playground.Key, p.Sandbox.ControlURL(), api, playground.Key)
	return err
}

// callableAddress is an address to call for a TCP listener that may accept on all addresses.
func callableAddress(a net.Addr) string {
	at := netip.MustParseAddrPort(a.String())
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
	}
	return at.String()
}
