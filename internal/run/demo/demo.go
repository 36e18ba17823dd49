// Package demo is what "threeds sandbox" is beyond a playground: the demo shop, the line for each request, the file
// that says what there is, and what others may reach. Use [Sandbox.Run], or [Rehearse] for directory servers and
// issuers alone.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"

	"github.com/openthreeds/threeds/internal/edge/docsite"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/run/playground"
	"github.com/openthreeds/threeds/sandbox"
	"github.com/openthreeds/threeds/sandbox/shop"
)

// A Sandbox is a playground with the demo shop.
type Sandbox struct {
	playground.Options
	PublicURL string             // what browsers elsewhere reach it by; "" means that only browsers of this machine do
	Allowed   []webhook.Receiver // those that webhooks may go to besides the shop, if others reach the sandbox
	Ready     *ReadyFile
}

// isPublic reports whether browsers elsewhere reach a sandbox by its public address.
func isPublic(publicURL string) bool {
	u, err := url.Parse(publicURL)
	return publicURL != "" && (err != nil || !sandbox.IsLocalHost(u.Host))
}

// openToOthers sets what is different if others reach the sandbox: webhooks go to its own shop and to the given
// receivers alone, and with a public address the API keys are random. It logs what others can do.
func (s *Sandbox) openToOthers() {
	o, isPublic, listensBeyond := &s.Options, isPublic(s.PublicURL), !listen.IsLoopback(s.API.Addr())
	if !isPublic && !listensBeyond {
		return
	}
	own, err := webhook.ParseReceiver("http://" + callableAddress(o.API.Addr()) + shop.HookPath)
	if err != nil {
		panic(err) // the address of a listener makes a URL
	}
	o.Receivers = append(s.Allowed, own)
	if !isPublic {
		o.Log.Warn("the sandbox listens beyond this machine, and everybody knows its API keys", "address", o.API.Addr())
		return
	}
	o.Keys = playground.RandomKeys()
	o.Log.Warn(
		"others reach the sandbox: whoever opens it is admin of its console, pays with test cards, and sees all payments",
		"url", s.PublicURL)
}

// Run runs the playground and the shop until ctx ends. It says on standard output what there is.
func (s *Sandbox) Run(ctx context.Context, stdout io.Writer) (err error) {
	s.openToOthers()
	o, publicURL := s.Options, s.PublicURL
	api := "http://" + callableAddress(o.API.Addr())
	shown := &shop.Shop{
		API: api, APIKey: playground.Key, PublicKey: playground.Key, Log: o.Log, PublicURL: publicURL,
		HookURL: api + shop.HookPath, Docs: docsite.Path,
	}
	if o.Keys != nil {
		shown.APIKey, shown.PublicKey = o.Keys.Key, "" // the pages of the shop are for everybody
	}
	site, err := docsite.NewInSandbox(shown.PublicKey)
	if err != nil {
		return errors.Join(err, o.API.Close())
	}
	o.Address = &playground.Address{
		PublicURL: cmp.Or(publicURL, api), IsBehindProxy: publicURL != "", Shop: shown.Handler(), Docs: site,
	}
	defer func() { err = errors.Join(err, shown.Close()) }()
	p, err := playground.Start(ctx, o)
	if err != nil {
		return err
	}
	shown.Source = p
	defer func() { err = errors.Join(err, s.Ready.remove()) }()
	if err := describeSandbox(p, o, s.Ready, stdout); err != nil {
		return errors.Join(err, p.Close())
	}
	return p.Run(ctx)
}

// describeSandbox writes the ready file, and says on standard output what there is.
func describeSandbox(p *playground.Playground, o playground.Options, ready *ReadyFile, stdout io.Writer) error {
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
		"console": p.ConsoleURL(), "docs": public + docsite.Path,
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
  Docs        %s

Try it:

  curl -sS %s/preauth -H 'APIKey: %s' -H 'Content-Type: application/json' -d '{"acctNumber": "3000100000000103"}'

Ctrl-C ends it.
`, reach, public, api, keys.Key, control, p.ConsoleURL(), public+docsite.Path, api, keys.Key)
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
