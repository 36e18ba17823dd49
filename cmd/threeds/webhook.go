package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// runWebhook changes the webhook endpoints of a merchant and shows its events, while a server runs or before there is
// one. It also verifies a delivery as its receiver should.
func runWebhook(ctx context.Context, cmd *invocation) error {
	name, cmd, err := chooseCommand(cmd,
		"add", "list", "remove", "enable", "disable", "rotate", "test", "events", "resend", "verify")
	if err != nil {
		return err
	}
	if name == "verify" {
		return verifyDelivery(ctx, cmd)
	}
	c := &webhookCommand{invocation: cmd}
	cmd.StringVar(&c.merchant, "merchant", "", "the merchant that the endpoint or event belongs to")
	cmd.BoolVar(&c.asJSON, "json", false, "say it in JSON")
	file := cmd.configFlag()
	do, argument := c.prepare(name)
	rest, err := cmd.parse(1)
	if err != nil {
		return err
	}
	isOptional := strings.HasPrefix(argument, "[")
	switch {
	case c.merchant == "":
		return usageErrorf("%s: --merchant NAME is missing", cmd.Name())
	case config.CheckMerchantName(c.merchant) != nil:
		return usageErrorf("%s: --merchant: %v", cmd.Name(), config.CheckMerchantName(c.merchant))
	case argument == "" && len(rest) > 0:
		return usageErrorf("%s: unexpected argument %q", cmd.Name(), oneLine(rest[0]))
	case argument != "" && !isOptional && len(rest) == 0:
		return usageErrorf("%s: %s is missing", cmd.Name(), argument)
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
	return withKeysOf(ctx, conf, func(conf *config.Config, st store.Store, ring *keyring.Ring) error {
		c.hooks = server.NewWebhooks(ctx, conf, st, ring, obs.NewLogger(cmd.stderr, slog.LevelWarn))
		_, err := conf.Registry(st, ring).Get(ctx, c.merchant)
		if c.isConfigured = err == nil; err != nil && !errors.Is(err, merchant.ErrNotFound) {
			return err
		}
		if slices.Contains([]string{"add", "remove", "enable", "disable", "rotate", "resend"}, name) {
			asked := map[string]string{"command": name, "argument": showArgument(c.argument)}
			if err := recordCommand(ctx, st, ring, "webhook.change", c.merchant, asked); err != nil {
				return err
			}
		}
		return c.explain(do(ctx))
	})
}

// showArgument returns an argument as the audit trail may have it: the id of an endpoint or an event, or a URL without a
// password. Of anything else, which may be a secret, it has nothing.
func showArgument(text string) string {
	u, err := url.Parse(text)
	switch {
	case strings.HasPrefix(text, "ep_") || strings.HasPrefix(text, "evt_"):
		return cardnumber.Mask(text)
	case err == nil && u.Host != "":
		return cardnumber.Mask(u.Redacted())
	}
	return "***"
}

// A webhookCommand is one command for a merchant's webhooks.
type webhookCommand struct {
	*invocation
	hooks        *webhook.Service
	merchant     string
	isConfigured bool   // the configuration or the store has the merchant
	argument     string // "" means none
	asJSON       bool
}

// prepare adds the flags of a command. It returns what runs it and the name of its argument: in brackets when it may be
// left out, "" when there is none.
func (c *webhookCommand) prepare(name string) (do func(context.Context) error, argument string) {
	switch name {
	case "add":
		return c.prepareAdd(), "URL"
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
		return c.prepareEvents(), "[EVENT]"
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
		if !c.isConfigured {
			fmt.Fprintf(c.stderr, "threeds: neither configuration nor store has a merchant %q: the endpoint is for one without settings\n",
				c.merchant)
		}
		e.URL = c.argument
		added, err := c.hooks.Add(ctx, c.merchant, e)
		if err != nil {
			return err
		}
		if c.asJSON {
			err = writeJSON(c.stdout, added.ViewWithSecret())
		} else {
			_, err = fmt.Fprintln(c.stdout, added.Secret.Text())
		}
		if err != nil { // nobody has the secret
			return errors.Join(err, c.hooks.Remove(context.WithoutCancel(ctx), c.merchant, added.ID))
		}
		if !c.asJSON {
			fmt.Fprintf(c.stderr, "threeds: added webhook endpoint %s of merchant %q\n", added.ID, c.merchant)
		}
		return nil
	}
}

func (c *webhookCommand) list(ctx context.Context) error {
	all, err := c.hooks.Endpoints(ctx, c.merchant)
	if err != nil {
		return err
	}
	if c.asJSON {
		views := []api.Endpoint{}
		for _, e := range all {
			views = append(views, e.View())
		}
		return writeJSON(c.stdout, views)
	}
	w := newTable(c.stdout, "ID\tSTATE\tTYPES\tCREATED\tURL\tDESCRIPTION")
	for _, e := range all {
		state := "enabled"
		switch {
		case e.Disabled:
			state = "disabled"
		case !e.Failing.IsZero():
			state = "failing since " + e.Failing.Format(time.RFC3339)
		}
		types := cmp.Or(strings.Trim(fmt.Sprint(e.Types), "[]"), "all")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, state, types, e.Created.Format(time.RFC3339),
			oneLine(e.URL), cmp.Or(oneLine(e.Description), "-"))
	}
	return w.Flush()
}

func (c *webhookCommand) remove(ctx context.Context) error {
	if err := c.hooks.Remove(ctx, c.merchant, c.argument); err != nil {
		return err
	}
	return c.printResult(c.asJSON, map[string]string{"id": c.argument}, "removed webhook endpoint %s of merchant %q", c.argument, c.merchant)
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
	return c.printResult(c.asJSON, e.View(), "%s webhook endpoint %s of merchant %q", did, e.ID, c.merchant)
}

// rotate gives an endpoint a new secret and prints it, once.
func (c *webhookCommand) rotate(ctx context.Context) error {
	e, err := c.hooks.Rotate(ctx, c.merchant, c.argument)
	if err != nil {
		return err
	}
	v := e.RotationView()
	if err := c.printResult(c.asJSON, v, "the former secret of %s signs as well until %s", e.ID, v.PreviousUntil.Format(time.RFC3339)); err != nil || c.asJSON {
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
	return c.printResult(c.asJSON, nil, "delivered, answered with status %d", status)
}

// prepareEvents returns the command that lists events, or shows one with its deliveries.
func (c *webhookCommand) prepareEvents() func(context.Context) error {
	q := store.EventQuery{Limit: 20}
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
			return usageErrorf("webhook events: --type: %v", err)
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
		w := newTable(c.stdout, "ID\tCREATED\tTYPE\tAUTHENTICATION")
		for _, e := range all {
			var body api.Event[struct{ ID string }]
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
	w := newTable(c.stdout, "ENDPOINT\tATTEMPTS\tLAST\tSTATUS\tERROR\tNEXT")
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
	return c.printResult(c.asJSON, map[string]string{"id": c.argument}, "event %s is delivered again as soon as a server runs", c.argument)
}

// maxDelivery is the longest body of a delivery that is verified.
const maxDelivery = 1 << 20

// verifyDelivery checks a delivery as its receiver should.
func verifyDelivery(_ context.Context, cmd *invocation) error {
	file := cmd.String("secret", "", "the file of the endpoint's secret (whsec_ and base64)")
	id := cmd.String("id", "", "the value of the header webhook-id")
	timestamp := cmd.String("timestamp", "", "the value of the header webhook-timestamp")
	signature := cmd.String("signature", "", "the value of the header webhook-signature")
	rest, err := cmd.parse(1)
	if err != nil {
		return err
	}
	for _, name := range []string{"secret", "id", "timestamp", "signature"} {
		if cmd.Lookup(name).Value.String() == "" {
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
	body, err := readInput(rest[0], cmd.stdin, maxDelivery+1)
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
		fmt.Fprintln(cmd.stderr, "threeds: the timestamp is not within five minutes of now: a receiver refuses such a delivery")
	}
	_, err = fmt.Fprintln(cmd.stdout, "good")
	return err
}

// maxSecretFile is more than the file of a secret needs, in bytes.
const maxSecretFile = 4096

// readSecret reads the secret of an endpoint from a file.
func readSecret(file string) (webhook.Secret, error) {
	data, err := readInput(file, nil, maxSecretFile)
	if err != nil {
		return nil, err
	}
	secret, err := webhook.ParseSecret(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return secret, nil
}
