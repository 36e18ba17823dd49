package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// webhookCommands change the webhook endpoints of a merchant, show its events, and verify a delivery. What can be done
// to an endpoint is in the table of acts.
var webhookCommands = slices.Concat([]cmdline.Command{
	{
		Name: "add", Run: runWebhook,
		Takes: `--merchant NAME [--type TYPE]... [--description TEXT] [--secret FILE] [--json] [--config FILE] URL`,
		Does:  `add a webhook endpoint of a merchant and print its secret, once`,
	},
	{
		Name: "list", Run: runWebhook,
		Takes: `--merchant NAME [--json] [--config FILE]`,
		Does:  `list the endpoints of a merchant`,
	},
}, endpointCommands(), []cmdline.Command{
	{
		Name: "events", Run: runWebhook,
		Takes: `--merchant NAME [--type TYPE] [--authentication ID] [--limit N] [--json] [--config FILE] [EVENT]`,
		Does:  `list the events of a merchant, the newest first; or the deliveries of one`,
	},
	{
		Name: "resend", Run: runWebhook,
		Takes: `--merchant NAME [--from T [--to T] [--failed] [--endpoint ID]] [--json] [--config FILE] [EVENT]`,
		Does: `have an event delivered again, under the same id, or the events of a span of time; --failed: only where the
			last attempt has failed`,
	},
	{
		Name: "verify", Run: verifyDelivery,
		Takes: `--secret FILE --id I --timestamp T --signature S FILE`,
		Does:  `check a delivery as its receiver should (- is standard input): exit status 0 or 1`,
	},
})

// endpointCommands returns the commands that do an act on one webhook endpoint.
func endpointCommands() (all []cmdline.Command) {
	for _, act := range ops.Table() {
		word, isOurs := strings.CutPrefix(act.Name, "webhook ")
		if isOurs && act.Do != nil && act.Has(ops.Command) && strings.Contains(act.Route, " webhook-endpoints/") {
			all = append(all, cmdline.Command{
				Name: word, Run: runWebhook,
				Takes: `--merchant NAME [--json] [--config FILE] ID`,
				Does: `remove an endpoint, enable or disable it, give it a new secret and print that, or post a test event
					to it; exit status 1 means that the test was not delivered`,
			})
		}
	}
	return all
}

// runWebhook changes the webhook endpoints of a merchant and shows its events, while a server runs or before there is
// one.
func runWebhook(ctx context.Context, cmd *cmdline.Invocation) error {
	name := cmd.Word()
	c := &webhookCommand{Invocation: cmd}
	cmd.StringVar(&c.merchant, "merchant", "", "the merchant that the endpoint or event belongs to")
	cmd.BoolVar(&c.asJSON, "json", false, "say it in JSON")
	file := cmd.ConfigFlag()
	do, argument := c.prepare(name)
	rest, err := cmd.ReadArgs(1)
	if err != nil {
		return err
	}
	isOptional := strings.HasPrefix(argument, "[")
	switch {
	case c.merchant == "":
		return cmdline.Usagef("%s: --merchant NAME is missing", cmd.Name())
	case config.CheckMerchantName(c.merchant) != nil:
		return cmdline.Usagef("%s: --merchant: %v", cmd.Name(), config.CheckMerchantName(c.merchant))
	case argument == "" && len(rest) > 0:
		return cmdline.Usagef("%s: unexpected argument %q", cmd.Name(), terminal.OneLine(rest[0]))
	case argument != "" && !isOptional && len(rest) == 0:
		return cmdline.Usagef("%s: %s is missing", cmd.Name(), argument)
	}
	if len(rest) > 0 {
		c.argument = rest[0]
	}
	conf, err := config.ReadForWebhooks(*file, time.Now())
	if err != nil {
		return err
	}
	if name == "add" {
		defer catchBrokenPipe()()
	}
	return local.WithKeysOf(ctx, conf, func(conf *config.Config, st store.Store, ring *keyring.Ring) error {
		c.acts = local.NewActs(conf, st, ring)
		c.acts.Hooks = server.NewWebhooks(ctx, conf, st, ring, obs.NewLogger(cmd.Stderr, slog.LevelWarn))
		c.by = local.Actor()
		c.by.Merchant = c.merchant
		return c.explain(do(ctx))
	})
}

// A webhookCommand is one command for a merchant's webhooks.
type webhookCommand struct {
	*cmdline.Invocation
	acts     *ops.Acts
	by       operator.Actor // sees what is the merchant's alone
	merchant string
	argument string // "" means none
	asJSON   bool
}

// prepare adds the flags of a command. It returns what runs it and the name of its argument: in brackets when it may be
// left out, "" when there is none.
func (c *webhookCommand) prepare(name string) (do func(context.Context) error, argument string) {
	switch name {
	case "add":
		return c.prepareAdd(), "URL"
	case "list":
		return c.list, ""
	case "events":
		return c.prepareEvents(), "[EVENT]"
	case "resend":
		return c.prepareResend(), "[EVENT]"
	}
	act := ops.Find("webhook " + name)
	return func(ctx context.Context) error { return c.doAct(ctx, act) }, "ID"
}

// explain returns an error of the service in words for the command line.
func (c *webhookCommand) explain(err error) error {
	fault, isFault := errors.AsType[*webhook.FaultError](err)
	switch {
	case errors.Is(err, webhook.ErrNoEndpoint):
		return fmt.Errorf("webhook: merchant %q has no such endpoint (\"threeds webhook list\" shows them)", c.merchant)
	case errors.Is(err, webhook.ErrNoEvent):
		return fmt.Errorf("webhook: merchant %q has no such event, or not any more: they are kept for 30 days", c.merchant)
	case errors.Is(err, webhook.ErrNoDelivery):
		return webhook.ErrNoDelivery
	case isFault:
		return fmt.Errorf("webhook: %s: %s", fault.Member, fault.Cure)
	}
	return err
}

// prepareAdd returns the command that adds an endpoint. It prints the secret, once.
func (c *webhookCommand) prepareAdd() func(context.Context) error {
	var e webhook.Endpoint
	c.Func("type", "a type of events, such as authentication.completed; may be repeated; without it all are delivered",
		func(text string) error {
			e.Types = append(e.Types, api.EventType(text))
			return nil
		})
	c.StringVar(&e.Description, "description", "", "a note for those who read the list")
	secret := c.String("secret", "", "the file of the secret (whsec_ and base64); without it one is made")
	return func(ctx context.Context) (err error) {
		if *secret != "" {
			if e.Secret, err = readSecret(*secret); err != nil {
				return err
			}
		}
		_, err = c.acts.Merchants().Get(ctx, c.merchant)
		switch {
		case errors.Is(err, merchant.ErrNotFound):
			fmt.Fprintf(c.Stderr,
				"threeds: neither configuration nor store has a merchant %q: the endpoint is for one without settings\n",
				c.merchant)
		case err != nil:
			return err
		}
		e.URL = c.argument
		added, err := c.acts.AddEndpoint(ctx, c.by, c.merchant, e)
		if err != nil {
			return err
		}
		if c.asJSON {
			err = terminal.WriteJSON(c.Stdout, added.Endpoint)
		} else {
			_, err = fmt.Fprintln(c.Stdout, added.Secret)
		}
		if err != nil { // the secret was not printed
			_, removed := ops.Find("webhook remove").Do(c.acts, context.WithoutCancel(ctx), c.by, added.ID)
			return errors.Join(err, removed)
		}
		if !c.asJSON {
			fmt.Fprintf(c.Stderr, "threeds: added webhook endpoint %s of merchant %q\n", added.ID, c.merchant)
		}
		return nil
	}
}

func (c *webhookCommand) list(ctx context.Context) error {
	all, err := c.acts.Endpoints(ctx, c.by, "")
	if err != nil {
		return err
	}
	if c.asJSON {
		views := []api.Endpoint{}
		for _, e := range all {
			views = append(views, e.Endpoint)
		}
		return terminal.WriteJSON(c.Stdout, views)
	}
	w := terminal.NewTable(c.Stdout, "ID\tSTATE\tTYPES\tCREATED\tURL\tDESCRIPTION")
	for _, e := range all {
		state := "enabled"
		switch {
		case e.Disabled:
			state = "disabled"
		case e.FailingSince != nil:
			state = "failing since " + e.FailingSince.Format(time.RFC3339)
		}
		types := strings.Trim(fmt.Sprint(e.Types), "[]")
		if len(e.Types) == len(api.EventTypesFor(api.ForMerchant)) {
			types = "all"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, state, types, e.Created.Format(time.RFC3339),
			terminal.OneLine(e.URL), cmp.Or(terminal.OneLine(e.Description), "-"))
	}
	return w.Flush()
}

// doAct does an act on an endpoint or an event, and prints what came of it.
func (c *webhookCommand) doAct(ctx context.Context, act *ops.Act) error {
	done, err := act.Do(c.acts, ctx, c.by, c.argument)
	if err != nil {
		return err
	}
	switch done := done.(type) {
	case api.MerchantEndpoint:
		did := "enabled"
		if done.Disabled {
			did = "disabled"
		}
		return c.PrintResult(c.asJSON, done.Endpoint, "%s webhook endpoint %s of merchant %q", did, done.ID, c.merchant)
	case api.Secret:
		return c.printSecret(done)
	case api.DeliveryTest:
		return c.printAttempt(done)
	case api.EventID:
		return c.PrintResult(c.asJSON, done, "event %s is delivered again as soon as a server runs", done.ID)
	}
	return c.PrintResult(c.asJSON, map[string]string{"id": c.argument}, "removed webhook endpoint %s of merchant %q",
		c.argument, c.merchant)
}

// printSecret prints the new secret of an endpoint, once.
func (c *webhookCommand) printSecret(v api.Secret) error {
	if err := c.PrintResult(c.asJSON, v, "the former secret of %s signs as well until %s", c.argument,
		v.PreviousUntil.Format(time.RFC3339)); err != nil || c.asJSON {
		return err
	}
	_, err := fmt.Fprintln(c.Stdout, v.Secret)
	return err
}

// printAttempt prints how a test has ended. It fails when the event was not delivered.
func (c *webhookCommand) printAttempt(v api.DeliveryTest) error {
	if c.asJSON {
		if err := terminal.WriteJSON(c.Stdout, v); err != nil {
			return err
		}
	}
	switch {
	case !v.Delivered:
		return fmt.Errorf("webhook test: not delivered: %s", v.Error)
	case c.asJSON:
		return nil
	}
	return c.PrintResult(false, nil, "delivered, answered with status %d", *v.Status)
}

// prepareResend returns the command that has one event delivered again, or those of a span of time.
func (c *webhookCommand) prepareResend() func(context.Context) error {
	var asked api.ResendRequest
	c.TimeFlag("from", "events that were made then or later", &asked.From)
	c.TimeFlag("to", "events that were made before then", &asked.To)
	c.BoolVar(&asked.Failed, "failed", false, "only where the last attempt has failed")
	c.StringVar(&asked.Endpoint, "endpoint", "", "the `ID` of the only endpoint that gets them")
	return func(ctx context.Context) error {
		isSpan := !asked.From.IsZero()
		switch {
		case c.argument == "" && !isSpan:
			return cmdline.Usagef("webhook resend: EVENT or --from T is missing")
		case c.argument != "" && (isSpan || !asked.To.IsZero() || asked.Failed || asked.Endpoint != ""):
			return cmdline.Usagef("webhook resend: give EVENT, or --from and the flags that go with it")
		case c.argument != "":
			return c.doAct(ctx, ops.Find("webhook resend"))
		}
		if err := c.CheckSpan(asked.From, asked.To); err != nil {
			return err
		}
		total := api.Resent{}
		for {
			done, err := c.acts.ResendEvents(ctx, c.by, asked)
			if err != nil {
				return err
			}
			total.Events += done.Events
			if asked.Cursor = string(done.Next); asked.Cursor == "" {
				return c.PrintResult(c.asJSON, total, "%s delivered again as soon as a server runs",
					map[bool]string{true: "1 event is", false: fmt.Sprintf("%d events are", total.Events)}[total.Events == 1])
			}
		}
	}
}

// prepareEvents returns the command that lists events, or shows one with its deliveries.
func (c *webhookCommand) prepareEvents() func(context.Context) error {
	var q ops.EventQuery
	c.StringVar(&q.Type, "type", "", "only events of this type")
	c.StringVar(&q.About, "authentication", "", "only events about this threeDSServerTransID")
	c.Func("limit", "how many, 1 to 1000; 20 unless given", func(text string) (err error) {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > 1000 {
			return errors.New("want a number from 1 to 1000")
		}
		return nil
	})
	return func(ctx context.Context) error {
		if c.argument != "" {
			return c.showEvent(ctx)
		}
		if err := webhook.CheckType(api.EventType(q.Type)); err != nil {
			return cmdline.Usagef("webhook events: --type: %v", err)
		}
		found, err := c.acts.Events(ctx, c.by, q)
		if err != nil {
			return err
		}
		if c.asJSON {
			bodies := []json.RawMessage{}
			for _, e := range found.Events {
				bodies = append(bodies, e.Body)
			}
			return terminal.WriteJSON(c.Stdout, bodies)
		}
		w := terminal.NewTable(c.Stdout, "ID\tCREATED\tTYPE\tAUTHENTICATION")
		for _, e := range found.Events {
			kind, about, err := e.Says()
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.ID, e.Created.Format(time.RFC3339), kind, cmp.Or(about, "-"))
		}
		return w.Flush()
	}
}

// showEvent shows one event and what became of each of its deliveries.
func (c *webhookCommand) showEvent(ctx context.Context) error {
	e, _, err := c.acts.Event(ctx, c.by, c.argument)
	if err != nil {
		return err
	}
	if c.asJSON {
		view, err := e.View()
		if err != nil {
			return err
		}
		return terminal.WriteJSON(c.Stdout, view)
	}
	w := terminal.NewTable(c.Stdout, "ENDPOINT\tATTEMPTS\tLAST\tSTATUS\tERROR\tNEXT")
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

// maxDelivery is the longest body of a delivery that is verified.
const maxDelivery = 1 << 20

// verifyDelivery checks a delivery as its receiver should.
func verifyDelivery(_ context.Context, cmd *cmdline.Invocation) error {
	file := cmd.String("secret", "", "the file of the endpoint's secret (whsec_ and base64)")
	id := cmd.String("id", "", "the value of the header webhook-id")
	timestamp := cmd.String("timestamp", "", "the value of the header webhook-timestamp")
	signature := cmd.String("signature", "", "the value of the header webhook-signature")
	rest, err := cmd.ReadArgs(1)
	if err != nil {
		return err
	}
	for _, name := range []string{"secret", "id", "timestamp", "signature"} {
		if cmd.Lookup(name).Value.String() == "" {
			return cmdline.Usagef("webhook verify: --%s is missing", name)
		}
	}
	if len(rest) == 0 {
		return cmdline.Usagef("webhook verify: FILE is missing (- is standard input)")
	}
	secret, err := readSecret(*file)
	if err != nil {
		return err
	}
	body, err := cmdline.ReadInput(rest[0], cmd.Stdin, maxDelivery+1)
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
		return errors.New(
			"webhook verify: no signature fits: check the secret, and that the body is as it came, byte for byte")
	}
	if err := webhook.Verify(*id, *timestamp, *signature, body, time.Now(), secret); err != nil {
		fmt.Fprintln(cmd.Stderr,
			"threeds: the timestamp is not within five minutes of now: a receiver refuses such a delivery")
	}
	_, err = fmt.Fprintln(cmd.Stdout, "good")
	return err
}

// maxSecretFile is more than the file of a secret needs, in bytes.
const maxSecretFile = 4096

// readSecret reads the secret of an endpoint from a file.
func readSecret(file string) (webhook.Secret, error) {
	data, err := cmdline.ReadInput(file, nil, maxSecretFile)
	if err != nil {
		return nil, err
	}
	secret, err := webhook.ParseSecret(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return secret, nil
}
