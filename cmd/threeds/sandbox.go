package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
	netlisten "github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/run/playground"
	"github.com/openthreeds/threeds/sandbox"
	"github.com/openthreeds/threeds/sandbox/shop"
)

// The default addresses of the sandbox's listeners.
const (
	sandboxListen      = "127.0.0.1:8080"
	sandboxDirectories = "127.0.0.1:0"

	mostRequests = 1e6 // per second and API key: more than one machine serves
)

// runSandbox runs a server, its directory servers and issuers, and a shop in this process.
func runSandbox(ctx context.Context, cmd *invocation) error {
	listen := cmd.String("listen", sandboxListen, "`HOST:PORT` of the API and of all pages, port 0 for any free one")
	public := cmd.String("public-url", "", "`URL` of that port for browsers elsewhere, such as https://lab.example")
	directories := cmd.String("directories-listen", sandboxDirectories, "`HOST:PORT` of the directory servers, with mutual TLS")
	rate := cmd.Float64("rate-limit", 500, "`N` requests per second and API key, 0 for no limit")
	patience := cmd.Duration("directory-timeout", playground.DirectoryTimeout, "how long the server and directory servers wait for each other, 1s to 60s")
	strict := cmd.Bool("strict", false, "refuse a threeDSCompInd Y whose 3DS Method has not completed")
	data := cmd.String("data", "", "keep the store in `DIR`; default: a temporary one")
	isQuiet := cmd.Bool("quiet", false, "print no line for each request")
	readyPath := cmd.String("ready-file", "", "write addresses and keys to `FILE`, as JSON, once all accept")
	rehearsal := cmd.String("directories", "", "run directory servers and issuers only, for a server of its own; certificates are in `DIR`")
	resultsCA := cmd.String("results-ca", "", "with --directories: also trust `FILE`, authorities of the server's results listener")
	receivers := []webhook.Receiver{}
	cmd.Func("allow-receiver", "`URL` or HOST:PORT that webhooks may go to, if others reach the sandbox; may be repeated", func(text string) error {
		r, err := webhook.ParseReceiver(text)
		receivers = append(receivers, r)
		return err
	})
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	if *rehearsal != "" || *resultsCA != "" {
		return runRehearsal(ctx, cmd)
	}
	publicURL := ""
	if *public != "" {
		var err error
		if publicURL, err = playground.ParseOrigin(*public); err != nil {
			return fmt.Errorf("--public-url: %w", err)
		}
	}
	if !(*rate >= 0 && *rate <= mostRequests) {
		return fmt.Errorf("--rate-limit %v: want requests per second, at most %v, or 0 for no limit", *rate, mostRequests)
	}
	if *patience < time.Second || *patience > time.Minute {
		return fmt.Errorf("--directory-timeout %v: want 1s to 60s", *patience)
	}
	if *rate == 0 {
		*rate = mostRequests
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
	terminal := obs.NonBlocking(cmd.stderr) // so that no request waits for the reader of the log
	o := playground.Options{
		Dir: dir, API: api, Release: releaseVersion(), Log: obs.NewLogger(terminal, slog.LevelWarn),
		DirectoriesListen: *directories, PerKey: *rate, Strict: *strict, DirectoryTimeout: *patience,
	}
	if !*isQuiet {
		o.Around = func(h http.Handler) http.Handler { return printRequests(terminal, h) }
	}
	openToOthers(&o, publicURL, receivers)
	return serveSandbox(ctx, o, publicURL, ready, cmd.stdout)
}

// isPublic reports whether browsers elsewhere reach a sandbox by its public address.
func isPublic(publicURL string) bool {
	u, err := url.Parse(publicURL)
	return publicURL != "" && (err != nil || !sandbox.IsLocalHost(u.Host))
}

// openToOthers sets what is different if others reach the sandbox: webhooks go to its own shop and to the given receivers
// alone, and with a public address the API keys are random. It logs what others can do.
func openToOthers(o *playground.Options, publicURL string, receivers []webhook.Receiver) {
	isPublic, listensBeyond := isPublic(publicURL), !netlisten.IsLoopback(o.API.Addr())
	if !isPublic && !listensBeyond {
		return
	}
	own, err := webhook.ParseReceiver("http://" + callableAddress(o.API.Addr()) + shop.HookPath)
	if err != nil {
		panic(err) // the address of a listener makes a URL
	}
	o.Receivers = append(receivers, own)
	if !isPublic {
		o.Log.Warn("the sandbox listens beyond this machine, and everybody knows its API keys", "address", o.API.Addr())
		return
	}
	o.Keys = playground.RandomKeys()
	o.Log.Warn("others reach the sandbox: whoever opens it is admin of its console, pays with test cards, and sees all payments", "url", publicURL)
}

// serveSandbox runs the playground and the shop until ctx ends. publicURL is what browsers
// elsewhere reach them by; "" means that only browsers of this machine do.
func serveSandbox(ctx context.Context, o playground.Options, publicURL string, ready *readyFile, stdout io.Writer) (err error) {
	api := "http://" + callableAddress(o.API.Addr())
	demo := &shop.Shop{
		API: api, APIKey: playground.Key, PublicKey: playground.Key, Log: o.Log, PublicURL: publicURL, HookURL: api + shop.HookPath,
	}
	if o.Keys != nil {
		demo.APIKey, demo.PublicKey = o.Keys.Key, "" // the pages of the shop are for everybody
	}
	o.Address = &playground.Address{PublicURL: cmp.Or(publicURL, api), IsBehindProxy: publicURL != "", Shop: demo.Handler()}
	defer func() { err = errors.Join(err, demo.Close()) }()
	p, err := playground.Start(ctx, o)
	if err != nil {
		return err
	}
	demo.Source = p
	defer func() { err = errors.Join(err, ready.remove()) }()
	if err := describeSandbox(p, o, ready, stdout); err != nil {
		return errors.Join(err, p.Close())
	}
	return p.Run(ctx)
}

// describeSandbox writes the ready file, and says on standard output what there is.
func describeSandbox(p *playground.Playground, o playground.Options, ready *readyFile, stdout io.Writer) error {
	public, control := o.Address.PublicURL, p.Sandbox.ControlURL()
	keys, reach := playground.Keys{Key: playground.Key, OtherKey: playground.OtherKey}, "."
	switch {
	case o.Keys != nil:
		keys = *o.Keys
	case o.Receivers == nil:
		reach = ", and nothing leaves this machine but webhooks that you add."
	}
	api := public
	if o.Address.IsBehindProxy {
		control = public + playground.ControlPath
	}
	ca := filepath.Join(o.Dir, "ca.pem")
	if err := os.WriteFile(ca, p.Sandbox.CAPEM(), 0o600); err != nil {
		return err
	}
	ds := make(map[string]string)
	for _, d := range p.Sandbox.Directories() {
		ds[d.Scheme] = d.URL
	}
	err := ready.publish(map[string]any{
		"api": api, "mpi": api, "results": p.ResultsURL(), "ds": ds, "acs": p.Sandbox.ACSURL(), "shop": public,
		"apiKey": keys.Key, "otherApiKey": keys.OtherKey, "ca": ca, "control": control,
		"public": public, "listen": o.API.Addr().String(), "browser": public, "directories": p.Sandbox.DirectoriesURL(),
		"console": p.ConsoleURL(),
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, `threeds sandbox is ready. Nothing here is real%s

  Demo shop   %s
  API         %s
  API key     %s
  Peers saw   %s
  Console     %s

Try it:

  curl -sS %s/preauth -H 'APIKey: %s' -H 'Content-Type: application/json' -d '{"acctNumber": "3000100000000103"}'

Ctrl-C ends it.
`, reach, public, api, keys.Key, control, p.ConsoleURL(), api, keys.Key)
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
