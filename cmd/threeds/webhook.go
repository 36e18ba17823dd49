package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/openthreeds/threeds/internal/config"
	"github.com/openthreeds/threeds/internal/keyring"
	"github.com/openthreeds/threeds/internal/merchant"
	"github.com/openthreeds/threeds/internal/obs"
	"github.com/openthreeds/threeds/internal/server"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/webhook"
)

// webhookCommands are the commands of "threeds webhook", in the order of the help.
var webhookCommands = []string{
	"add", "list", "remove", "enable", "disable", "rotate", "test", "events", "resend", "verify",
}

// runWebhook changes the webhook endpoints of a merchant and shows its events, while a server runs or before there is
// one. It also verifies a delivery as its receiver should.
func runWebhook(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	all := strings.Join(webhookCommands[:len(webhookCommands)-1], ", ") + " or " + webhookCommands[len(webhookCommands)-1]
	if len(args) == 0 {
		return usageErrorf("webhook: no command (%s)", all)
	}
	name := args[0]
	switch {
	case slices.Contains([]string{"-h", "-help", "--help"}, name):
		return helpRequest{"threeds webhook takes a command: " + all}
	case !slices.Contains(webhookCommands, name):
		return usageErrorf("webhook: unknown command %q%s", name, config.Hint(name, webhookCommands...))
	case name == "verify":
		return verifyDelivery(args[1:], stdin, stdout)
	}
	c := &webhookCommand{stdout: stdout, stderr: stderr}
	fs := flag.NewFlagSet("webhook "+name, flag.ContinueOnError)
	fs.StringVar(&c.merchant, "merchant", "", "the merchant that the endpoint or event belongs to")
	fs.BoolVar(&c.asJSON, "json", false, "say it in JSON")
	file := configFlag(fs)
	do, argument := c.prepare(name, fs)
	rest, err := parseFlags(fs, args[1:], 1)
	if err != nil {
		return err
	}
	isOptional := strings.HasPrefix(argument, "[")
	switch {
	case c.merchant == "":
		return usageErrorf("%s: --merchant NAME is missing", fs.Name())
	case config.CheckMerchantName(c.merchant) != nil:
		return usageErrorf("%s: --merchant: %v", fs.Name(), config.CheckMerchantName(c.merchant))
	case argument == "" && len(rest) > 0:
		return usageErrorf("%s: unexpected argument %q", fs.Name(), oneLine(rest[0]))
	case argument != "" && !isOptional && len(rest) == 0:
		return usageErrorf("%s: %s is missing", fs.Name(), argument)
	}
	if len(rest) > 0 {
		c.argument = rest[0]
	}
	conf, err := config.ReadForWebhooks(*file, time.Now())
	if err != nil {
		return err
	}
	return withKeysOf(ctx, conf, func(conf *config.Config, st store.Store, ring *keyring.Ring) error {
		c.hooks = server.NewWebhooks(ctx, conf, st, ring, obs.NewLogger(stderr, slog.LevelWarn))
		_, err := merchant.FromConfig(conf, st, ring).Get(ctx, c.merchant)
		if c.isConfigured = err == nil; err != nil && !errors.Is(err, merchant.ErrNotFound) {
			return err
		}
		if slices.Contains([]string{"add", "remove", "enable", "disable", "rotate", "resend"}, args[0]) {
			asked := map[string]string{"command": args[0], "argument": c.argument}
			if err := recordCommand(ctx, st, ring, "webhook.change", c.merchant, asked); err != nil {
				return err
			}
		}
		return c.explain(do(ctx))
	})
}

// A webhookCommand is one command for a merchant's webhooks.
type webhookCommand struct {
	hooks          *webhook.Service
	merchant       string
	isConfigured   bool   // the configuration or the store has the merchant
	argument       string // "" means none
	asJSON         bool
	stdout, stderr io.Writer
}

// prepare adds the flags of a command. It returns what runs it and the name of its argument: in brackets when it may be
// left out, "" when there is none.
func (c *webhookCommand) prepare(name string, fs *flag.FlagSet) (do func(context.Context) error, argument string) {
	switch name {
	case "add":
		return c.prepareAdd(fs), "URL"
	case "list":
		return c.list, ""
	case "remove":
		return c.remove, "ID"
	case "enable":
		return func(ctx context.Context) error { return c.setDisabled(ctx, false) }, "ID"
	case "disable":
		return func(ctx context.Context) error { return c.setDisabled(ctx, true) }, "ID"
	case "rotate":
		return c.rotate, "ID"
	case "test":
		return c.test, "ID"
	case "events":
		return c.prepareEvents(fs), "[EVENT]"
	default:
		return c.resend, "EVENT"
	}
}

// explain returns an error of the service in words for the command line.
func (c *webhookCommand) explain(err error) error {
	fault, isFault := errors.AsType[*webhook.FaultError](err)
	switch {
	case errors.Is(err, webhook.ErrNoEndpoint):
		return fmt.Errorf("webhook: merchant %q has no such endpoint (\"threeds webhook list\" shows them)", c.merchant)
	case errors.Is(err, webhook.ErrNoEvent):
		return fmt.Errorf("webhook: merchant %q has no such event, or not any more: they are kept for 30 days", c.merchant)
	case isFault:
		return fmt.Errorf("webhook: %s: %s", fault.Member, fault.Cure)
	}
	return err
}

// say writes a value in JSON, or a line of text to the standard error, where it disturbs no script.
func (c *webhookCommand) say(value any, format string, args ...any) error {
	if c.asJSON {
		return writeJSON(c.stdout, value)
	}
	_, err := fmt.Fprintf(c.stderr, "threeds: "+format+"\n", args...)
	return err
}

// prepareAdd returns the command that adds an endpoint. It prints the secret, once.
func (c *webhookCommand) prepareAdd(fs *flag.FlagSet) func(context.Context) error {
	var e webhook.Endpoint
	fs.Func("type", "a type of events, such as authentication.completed; may be repeated; without it all are delivered",
		func(text string) error {
			e.Types = append(e.Types, text)
			return nil
		})
	fs.StringVar(&e.Description, "description", "", "a note for those who read the list")
	secret := fs.String("secret", "", "the file of the secret (whsec_ and base64); without it one is made")
	return func(ctx context.Context) (err error) {
		if *secret != "" {
			if e.Secret, err = readSecret(*secret); err != nil {
				return err
			}
		}
		if !c.isConfigured {
			fmt.Fprintf(c.stderr, "threeds: neither configuration nor store has a merchant %q: the endpoint is for one without settings\n",
				c.merchant)
		}
		e.URL = c.argument
		added, err := c.hooks.Add(ctx, c.merchant, e)
		if err != nil {
			return err
		}
		err = c.say(added.ViewWithSecret(), "added webhook endpoint %s of merchant %q", added.ID, c.merchant)
		if err != nil || c.asJSON {
			return err
		}
		_, err = fmt.Fprintln(c.stdout, added.Secret.Text())
		return err
	}
}

func (c *webhookCommand) list(ctx context.Context) error {
	all, err := c.hooks.Endpoints(ctx, c.merchant)
	if err != nil {
		return err
	}
	if c.asJSON {
		views := []webhook.EndpointView{}
		for _, e := range all {
			views = append(views, e.View())
		}
		return writeJSON(c.stdout, views)
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tTYPES\tCREATED\tURL\tDESCRIPTION")
	for _, e := range all {
		state := "enabled"
		switch {
		case e.Disabled:
			state = "disabled"
		case !e.Failing.IsZero():
			state = "failing since " + e.Failing.Format(time.RFC3339)
		}
		types := cmp.Or(strings.Join(e.Types, " "), "all")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, state, types, e.Created.Format(time.RFC3339),
			oneLine(e.URL), cmp.Or(oneLine(e.Description), "-"))
	}
	return w.Flush()
}

func (c *webhookCommand) remove(ctx context.Context) error {
	if err := c.hooks.Remove(ctx, c.merchant, c.argument); err != nil {
		return err
	}
	return c.say(map[string]string{"id": c.argument}, "removed webhook endpoint %s of merchant %q", c.argument, c.merchant)
}

func (c *webhookCommand) setDisabled(ctx context.Context, disabled bool) error {
	e, err := c.hooks.Change(ctx, c.merchant, c.argument, func(e *webhook.Endpoint) error {
		if e.Disabled = disabled; !disabled {
			e.Failing = time.Time{}
		}
		return nil
	})
	if err != nil {
		return err
	}
	did := "enabled"
	if disabled {
		did = "disabled"
	}
	return c.say(e.View(), "%s webhook endpoint %s of merchant %q", did, e.ID, c.merchant)
}

// rotate gives an endpoint a new secret and prints it, once.
func (c *webhookCommand) rotate(ctx context.Context) error {
	e, err := c.hooks.Rotate(ctx, c.merchant, c.argument)
	if err != nil {
		return err
	}
	v := e.RotationView()
	if err := c.say(v, "the former secret of %s signs as well until %s", e.ID, v.PreviousUntil); err != nil || c.asJSON {
		return err
	}
	_, err = fmt.Fprintln(c.stdout, v.Secret)
	return err
}

// test delivers an event of type webhook.test from this machine. It fails when that was not delivered.
func (c *webhookCommand) test(ctx context.Context) error {
	status, err := c.hooks.Test(ctx, c.merchant, c.argument)
	if _, isDelivery := errors.AsType[*webhook.DeliveryError](err); err != nil && !isDelivery {
		return err
	}
	if c.asJSON {
		if wrote := writeJSON(c.stdout, webhook.ViewAttempt(status, err)); wrote != nil {
			return wrote
		}
	}
	if err != nil {
		return fmt.Errorf("webhook test: not delivered: %w", err)
	}
	if c.asJSON {
		return nil
	}
	return c.say(nil, "delivered, answered with status %d", status)
}

// prepareEvents returns the command that lists events, or shows one with its deliveries.
func (c *webhookCommand) prepareEvents(fs *flag.FlagSet) func(context.Context) error {
	q := store.EventQuery{Limit: 20}
	fs.StringVar(&q.Type, "type", "", "only events of this type")
	fs.StringVar(&q.About, "authentication", "", "only events about this threeDSServerTransID")
	fs.Func("limit", "how many, 1 to 1000; 20 unless given", func(text string) (err error) {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > 1000 {
			return errors.New("want a number from 1 to 1000")
		}
		return nil
	})
	return func(ctx context.Context) error {
		if c.argument != "" {
			return c.showEvent(ctx)
		}
		q.Merchant, q.About = c.merchant, strings.ToLower(q.About)
		all, err := c.hooks.Find(ctx, q)
		if err != nil {
			return err
		}
		if c.asJSON {
			bodies := []json.RawMessage{}
			for _, e := range all {
				bodies = append(bodies, e.Body)
			}
			return writeJSON(c.stdout, bodies)
		}
		w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tCREATED\tTYPE\tAUTHENTICATION")
		for _, e := range all {
			var body struct {
				Type string `json:"type"`
				Data struct {
					ID string `json:"id"`
				} `json:"data"`
			}
			if err := json.Unmarshal(e.Body, &body); err != nil {
				return err
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.ID, e.Created.Format(time.RFC3339), body.Type, cmp.Or(body.Data.ID, "-"))
		}
		return w.Flush()
	}
}

// showEvent shows one event and what became of each of its deliveries.
func (c *webhookCommand) showEvent(ctx context.Context) error {
	e, err := c.hooks.Event(ctx, c.merchant, c.argument)
	if err != nil {
		return err
	}
	if c.asJSON {
		view, err := e.View()
		if err != nil {
			return err
		}
		return writeJSON(c.stdout, view)
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ENDPOINT\tATTEMPTS\tLAST\tSTATUS\tERROR\tNEXT")
	for _, d := range e.Deliveries {
		status, next := "-", "-"
		if d.Status != 0 {
			status = strconv.Itoa(d.Status)
		}
		if !d.Due.IsZero() {
			next = d.Due.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n",
			d.Endpoint, d.Attempt, orNever(timeOrNull(d.Last)), status, cmp.Or(d.Error, "-"), next)
	}
	return w.Flush()
}

func (c *webhookCommand) resend(ctx context.Context) error {
	if err := c.hooks.Resend(ctx, c.merchant, c.argument); err != nil {
		return err
	}
	return c.say(map[string]string{"id": c.argument}, "event %s is delivered again as soon as a server runs", c.argument)
}

// maxDelivery is the longest body of a delivery that is verified.
const maxDelivery = 1 << 20

// verifyDelivery checks a delivery as its receiver should.
func verifyDelivery(args []string, stdin io.Reader, stdout io.Writer) error {
	fs := flag.NewFlagSet("webhook verify", flag.ContinueOnError)
	file := fs.String("secret", "", "the file of the endpoint's secret (whsec_ and base64)")
	id := fs.String("id", "", "the value of the header webhook-id")
	timestamp := fs.String("timestamp", "", "the value of the header webhook-timestamp")
	signature := fs.String("signature", "", "the value of the header webhook-signature")
	rest, err := parseFlags(fs, args, 1)
	if err != nil {
		return err
	}
	for _, name := range []string{"secret", "id", "timestamp", "signature"} {
		if fs.Lookup(name).Value.String() == "" {
			return usageErrorf("webhook verify: --%s is missing", name)
		}
	}
	if len(rest) == 0 {
		return usageErrorf("webhook verify: FILE is missing (- is standard input)")
	}
	secret, err := readSecret(*file)
	if err != nil {
		return err
	}
	from := stdin
	if rest[0] != "-" {
		f, err := os.Open(rest[0])
		if err != nil {
			return err
		}
		defer f.Close()
		from = f
	}
	body, err := io.ReadAll(io.LimitReader(from, maxDelivery+1))
	if err != nil {
		return err
	}
	if len(body) > maxDelivery {
		return fmt.Errorf("webhook verify: the body has more than %d bytes", maxDelivery)
	}
	seconds, err := strconv.ParseInt(*timestamp, 10, 64)
	if err != nil {
		return errors.New("webhook verify: the timestamp is not a number of seconds since 1970")
	}
	if err := webhook.Verify(*id, *timestamp, *signature, body, time.Unix(seconds, 0), secret); err != nil {
		return errors.New("webhook verify: no signature fits: check the secret, and that the body is as it came, byte for byte")
	}
	if err := webhook.Verify(*id, *timestamp, *signature, body, time.Now(), secret); err != nil {
		return errors.New("webhook verify: the signature fits, but the timestamp is not within five minutes of now")
	}
	_, err = fmt.Fprintln(stdout, "good")
	return err
}

// readSecret reads the secret of an endpoint from a file.
func readSecret(file string) (webhook.Secret, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	secret, err := webhook.ParseSecret(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return secret, nil
}
