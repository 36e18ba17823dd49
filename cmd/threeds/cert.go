package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// What "cert activate" and "cert rollback" take and do.
const (
	takesChange = `SCHEME [--config FILE]`
	doesChange  = `bring the installed certificate into use, or the one before; no node restarts`
)

// certCommands make, install and change client certificates.
var certCommands = []cmdline.Command{
	{
		Name: "request", Run: runCert,
		Takes: `SCHEME [--bits 2048|3072|4096 | --curve P-256|P-384] [--subject NAME] [--config FILE]`,
		Does:  `make a key for the client certificate of a directory and print its CSR; the key is never printed`,
	},
	{
		Name: "install", Run: runCert,
		Takes: `SCHEME [--at TIME] [--config FILE] FILE`,
		Does: `take the certificate that the CA has made, with those of the CAs behind it (- is standard input);
			nodes change over at TIME, else when it is activated`,
	},
	{Name: "activate", Run: runCert, Takes: takesChange, Does: doesChange},
	{Name: "rollback", Run: runCert, Takes: takesChange, Does: doesChange},
	{
		Name: "test", Run: runCert,
		Takes: `SCHEME [--json] [--config FILE]`,
		Does: `make a TLS handshake with the directory server, with the installed certificate or the one in use;
			exit status 1 means that it was not taken`,
	},
	{
		Name: "status", Run: runCert,
		Takes: `[--json] [--config FILE] [SCHEME]`,
		Does:  `say which certificates there are, and which keys wait for one`,
	},
}

// runCert makes, installs and changes the client certificates of directories that the store has.
func runCert(ctx context.Context, cmd *cmdline.Invocation) error {
	name := cmd.Word()
	c := &certCommand{Invocation: cmd}
	file := cmd.ConfigFlag()
	most := 1
	switch name {
	case "request":
		cmd.IntVar(&c.spec.Bits, "bits", 0, "length of an RSA key: 2048, 3072 or 4096")
		cmd.StringVar(&c.spec.Curve, "curve", "", "an elliptic key in place of RSA: P-256 or P-384")
		cmd.StringVar(&c.spec.Subject, "subject", "", "such as CN=3ds.example,O=Example,C=NL")
	case "install":
		most = 2
		cmd.Func("at", "when nodes change over, in RFC 3339", func(text string) (err error) {
			if c.at, err = time.Parse(time.RFC3339, text); err != nil {
				return errors.New("want a time in RFC 3339, such as 2026-12-01T03:00:00Z")
			}
			return nil
		})
	case "status", "test":
		c.asJSON = cmd.JSONFlag()
	}
	rest, err := cmd.ReadArgs(most)
	if err != nil {
		return err
	}
	c.rest = rest
	if len(rest) == 0 && name != "status" {
		return cmdline.Usagef("%s: the scheme of the directory is missing", cmd.Name())
	}
	if len(rest) < 2 && name == "install" {
		return cmdline.Usagef("%s: the file of the certificate is missing (- is standard input)", cmd.Name())
	}
	do := map[string]func(context.Context) error{
		"request": c.request, "install": c.install, "activate": c.activate, "rollback": c.rollback, "test": c.test,
		"status": c.status,
	}[name]
	read := config.Read
	if name == "install" || name == "test" { // these need the files that it names
		read = func(file string) (*config.Config, error) {
			conf, _, err := config.Load(file, time.Now())
			return conf, err
		}
	}
	conf, err := read(*file)
	if err != nil {
		return err
	}
	c.config = conf
	if err := c.open(ctx, do); err != nil {
		if refusal, isRefusal := errors.AsType[*clientcert.RefusalError](err); isRefusal {
			return fmt.Errorf("%s: %w", cmd.Name(), refusal)
		}
		return err
	}
	return nil
}

// A certCommand is one command for client certificates.
type certCommand struct {
	*cmdline.Invocation
	acts      *ops.Acts
	config    *config.Config
	directory *config.Directory // the one that the command is about; nil: all
	rest      []string
	spec      clientcert.Spec
	at        time.Time
	asJSON    *bool
}

// open calls do with the store of the configuration.
func (c *certCommand) open(ctx context.Context, do func(context.Context) error) error {
	conf := c.config
	if len(c.rest) > 0 {
		i := slices.IndexFunc(conf.Directories, func(d config.Directory) bool { return d.Scheme == c.rest[0] })
		if i < 0 {
			var schemes []string
			for _, d := range conf.Directories {
				schemes = append(schemes, d.Scheme)
			}
			return fmt.Errorf("cert: no directory %q in the configuration%s", terminal.OneLine(c.rest[0]),
				hint.For(c.rest[0], schemes...))
		}
		c.directory = &conf.Directories[i]
	}
	return local.WithKeysOf(ctx, conf, func(_ *config.Config, st store.Store, ring *keyring.Ring) error {
		now := time.Now
		if shared, ok := st.(store.ClockSource); ok {
			now = store.NewClock(ctx, time.Now, shared, slog.New(slog.DiscardHandler)).Now
		}
		c.acts = local.NewActs(conf, st, ring)
		c.acts.Certificates = &clientcert.Service{Store: st, Sealer: ring, Now: now}
		c.acts.TryCertificate = func(ctx context.Context, scheme string,
			cert tls.Certificate) (directory.HandshakeReport, error) {
			return server.TryCertificate(ctx, conf, scheme, cert)
		}
		return do(ctx)
	})
}

// report says what was done, and whether the directory uses the certificates of the store at all.
func (c *certCommand) report(format string, args ...any) {
	fmt.Fprintf(c.Stderr, "threeds: "+format+"\n", args...)
	if !c.directory.ClientCert.IsManaged {
		fmt.Fprintf(c.Stderr,
			"threeds: client_cert of %s names files in the configuration: write managed there to use the certificate of the store\n",
			c.directory.Scheme)
	}
}

func (c *certCommand) request(ctx context.Context) error {
	address := c.config.Results.URL
	if c.directory.Results != nil {
		address = c.directory.Results.URL
	}
	csr, status, err := c.acts.RequestCertificate(ctx, local.Actor(), c.directory.Scheme, c.spec, address)
	if err != nil {
		return err
	}
	made := status.Requests[0]
	c.report("key %s (%s) waits for a certificate of %s; the CSR follows", made.KeyID, made.Key,
		terminal.OneLine(made.Subject))
	_, err = c.Stdout.Write(csr)
	return err
}

// maxCertificates is how much of a file of certificates is read: more than any that is taken.
const maxCertificates = 1 << 20

func (c *certCommand) install(ctx context.Context) error {
	file, err := cmdline.ReadInput(c.rest[1], c.Stdin, maxCertificates)
	if err != nil {
		return err
	}
	roots := slices.Concat(c.directory.ServerCA.Certs, c.directory.ClientCA.Certs)
	status, err := c.acts.InstallCertificate(ctx, local.Actor(), c.directory.Scheme, file, c.at, roots)
	if err != nil {
		return err
	}
	at, isManaged := status.At.Format(time.RFC3339), c.directory.ClientCert.IsManaged
	var follows string
	switch {
	case c.at.IsZero() && isManaged:
		follows = "\"threeds cert activate " + c.directory.Scheme + "\" brings it into use"
	case c.at.IsZero():
		follows = "\"threeds cert activate " + c.directory.Scheme + "\" activates it in the store"
	case isManaged:
		follows = "nodes change over at " + at
	default:
		follows = "the store activates it at " + at
	}
	c.report("installed %s, until %s; %s", terminal.OneLine(status.Next.Subject),
		status.Next.NotAfter.Format(time.RFC3339), follows)
	return nil
}

func (c *certCommand) activate(ctx context.Context) error {
	status, err := c.acts.ActivateCertificate(ctx, local.Actor(), c.directory.Scheme)
	return c.reportChange(status, err)
}

func (c *certCommand) rollback(ctx context.Context) error {
	status, err := c.acts.RollBackCertificate(ctx, local.Actor(), c.directory.Scheme)
	return c.reportChange(status, err)
}

// reportChange says which certificate is in use now.
func (c *certCommand) reportChange(status clientcert.Status, err error) error {
	if err != nil {
		return err
	}
	now := status.Current
	format := "in use is %s, serial %s, until %s; nodes that serve change over within seconds"
	if !c.directory.ClientCert.IsManaged {
		format = "in the store, and not used, is %s, serial %s, until %s"
	}
	c.report(format, terminal.OneLine(now.Subject), now.Serial, now.NotAfter.Format(time.RFC3339))
	return nil
}

// A certTest is the result of a test.
type certTest struct {
	Scheme string `json:"scheme"`
	ops.CertificateTest
}

func (c *certCommand) test(ctx context.Context) error {
	scheme := c.directory.Scheme
	report, err := c.acts.ProveCertificate(ctx, local.Actor(), scheme)
	if _, isRefusal := errors.AsType[*clientcert.RefusalError](err); err != nil && !isRefusal {
		err = fmt.Errorf("cert test: %w", err)
	}
	if err != nil {
		return err
	}
	if *c.asJSON {
		err = terminal.WriteJSON(c.Stdout, certTest{scheme, report})
	} else {
		err = c.printTest(report.Certificate, terminal.OneLine(report.Subject), &report.HandshakeReport)
	}
	if err == nil && report.Result != directory.HandshakeAccepted {
		err = fmt.Errorf("cert test: %s: %s", scheme, terminal.OneLine(report.Detail))
	}
	return err
}

func (c *certCommand) printTest(what, subject string, r *directory.HandshakeReport) error {
	w := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "certificate\t%s (%s)\n", subject, what)
	fmt.Fprintf(w, "address\t%s\n", r.Address)
	if r.Proxy != "" {
		fmt.Fprintf(w, "through\t%s\n", r.Proxy)
	}
	if r.TLS != "" {
		fmt.Fprintf(w, "connection\t%s, %s\n", r.TLS, r.Suite)
		fmt.Fprintf(w, "its certificate\t%s, until %s\n", terminal.OneLine(r.Server), r.Expires.Format(time.RFC3339))
	}
	fmt.Fprintf(w, "result\t%s, after %d ms\n", r.Result, r.MS)
	return w.Flush()
}

func (c *certCommand) status(ctx context.Context) error {
	all := []clientcert.Status{}
	var areManaged []bool
	for i := range c.config.Directories {
		d := &c.config.Directories[i]
		if c.directory != nil && c.directory != d {
			continue
		}
		status, err := c.acts.Certificates.Status(ctx, d.Scheme)
		if err != nil {
			return err
		}
		all, areManaged = append(all, status), append(areManaged, d.ClientCert.IsManaged)
	}
	if *c.asJSON {
		return terminal.WriteJSON(c.Stdout, all)
	}
	w := terminal.NewTable(c.Stdout, "SCHEME\tSTATE\tKEY\tUNTIL\tSINCE\tSERIAL\tSUBJECT")
	for i := range all {
		printCertStatus(w, &all[i], areManaged[i])
	}
	return w.Flush()
}

// printCertStatus prints a line for each certificate of a directory, and for each key that waits for one. isManaged
// says that the directory uses them; else its certificate is in files.
func printCertStatus(w io.Writer, s *clientcert.Status, isManaged bool) {
	const form = time.RFC3339
	line := func(state string, i *clientcert.Info, until, since string) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Scheme, state, i.Key, until, since, cmp.Or(i.Serial, "-"),
			terminal.OneLine(i.Subject))
	}
	if s.IsRefused {
		line("refused: its seal does not open", &clientcert.Info{Key: "-"}, "-", "-")
	}
	for i := range s.Requests {
		line("waits for a certificate", &s.Requests[i], "-", s.Requests[i].Requested.Format(form))
	}
	if i := s.Next; i != nil && s.At.IsZero() {
		line("waits to be activated", i, i.NotAfter.Format(form), "-")
	} else if i != nil {
		line("next", i, i.NotAfter.Format(form), s.At.Format(form))
	}
	if i := s.Current; i != nil {
		state := "in use"
		if !isManaged {
			state = "in the store, not used"
		}
		line(state, i, i.NotAfter.Format(form), i.Since.Format(form))
	}
	if i := s.Previous; i != nil {
		line("before", i, i.NotAfter.Format(form), i.Since.Format(form))
	}
}
