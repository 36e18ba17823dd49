package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/local"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// keyCommands create, list and revoke API keys, and rotate the secret that they are sealed under, while a server runs
// or before there is one.
var keyCommands = []cmdline.Command{
	{
		Name: "create", Run: keyCreate,
		Takes: `--name NAME [--strict] [--label TEXT] [--expires 90d|DATE] [--allow NETWORK]... [--config FILE]`,
		Does: `make an API key for the merchant NAME and print it, once; it ends at a time, and is good from these
			networks alone, if you say so`,
	},
	{
		Name: "list", Run: keyList,
		Takes: `[--revoked] [--json] [--config FILE]`,
		Does:  `list the keys: start of the hash, age, strictness, merchant; or those that were revoked`,
	},
	{
		Name: "revoke", Run: keyRevoke,
		Takes: `HASHPREFIX [--config FILE]`,
		Does:  `revoke the key whose hash starts so; without HASHPREFIX, the key on standard input`,
	},
	{
		Name: "rotate", Run: keyRotate,
		Takes: `[--write KEYFILE] [--config FILE]`,
		Does: `replace the secret of the key file on all nodes that serve; no API key ends. --write makes a key
			file with the new secret, where key files cannot be replaced; exit status 1 says that nothing has
			changed, or that it is to be run again`,
	},
	{
		Name: "wrap", Run: keyWrap,
		Takes: `[--config FILE]`,
		Does: `write the key file and journal-keys.json as key_helper says: wrapped by its wrapping_key, or without one
			in the clear`,
	},
}

func keyCreate(ctx context.Context, cmd *cmdline.Invocation) error {
	var key api.NewKey
	cmd.StringVar(&key.Merchant, "name", "", "the merchant that the key is for")
	cmd.BoolVar(&key.Strict, "strict", false, "requests with this key are not put right, but refused")
	cmd.Func("label", "what the list calls the key", func(text string) (err error) {
		key.Label, err = parseLabel(text)
		return err
	})
	cmd.Func("expires", "when the key ends: in days, as 90d, or a date in RFC 3339", func(text string) (err error) {
		key.Expires, err = parseExpiry(text, time.Now())
		return err
	})
	cmd.Func("allow", "a network, as 10.0.0.0/8, that requests may come from; may be repeated", func(text string) error {
		network, err := config.ParseNetwork(text)
		key.Allow = append(key.Allow, network)
		return err
	})
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	if key.Merchant == "" {
		return cmdline.Usagef("key create: --name NAME is missing")
	}
	if err := config.CheckMerchantName(key.Merchant); err != nil {
		return cmdline.Usagef("key create: --name: %v", err)
	}
	return local.WithKeys(ctx, *file, func(c *config.Config, st store.Store, ring *keyring.Ring) error {
		known, err := c.Registry(st, ring).Get(ctx, key.Merchant)
		if errors.Is(err, merchant.ErrNotFound) || err == nil && known.Source == merchant.Keys {
			fmt.Fprintf(cmd.Stderr,
				"threeds: %s names no merchant %q, nor does the store: the key is for one without settings\n"+
					"(\"threeds merchant add\" gives it some)\n", *file, key.Merchant)
		} else if err != nil {
			return err
		}
		if isForeign, err := local.AreKeysForeign(ctx, st, ring); err != nil {
			return err
		} else if isForeign {
			fmt.Fprintf(cmd.Stderr,
				"threeds: none of the keys in the store fits the key file %s, which most likely is that of another store:\n"+
					"nodes that have the right one refuse the key\n", c.Keys)
		}
		// so that it can be copied together with the key file
		if err := c.JournalKeyFile().Create(); err != nil {
			fmt.Fprintf(cmd.Stderr, "threeds: journal.keys: %v\n"+
				"(without that file there is no journal: make it where its folder can be written, and put the same one on all nodes)\n",
				err)
		}
		defer catchBrokenPipe()() // otherwise a key that cannot be printed is not revoked
		acts, by := local.NewActs(c, st, ring), local.Actor()
		made, err := acts.CreateKey(ctx, by, key)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(cmd.Stdout, made.Key); err != nil { // the key was not printed
			_, revoked := ops.Find("key revoke").Do(acts, context.WithoutCancel(ctx), by, made.Hash)
			return errors.Join(err, revoked)
		}
		return nil
	})
}

// parseLabel returns a label for a key.
func parseLabel(text string) (string, error) {
	if text == "" {
		return "", fmt.Errorf("want printable text, 1 to %d characters", account.MaxLabel)
	}
	return text, account.CheckLabel(text)
}

// parseExpiry returns the moment that a key ends, from a number of days or a date.
func parseExpiry(text string, now time.Time) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 64)
		at = now.AddDate(0, 0, int(min(n, ops.MaxEndDays+1)))
	}
	switch {
	case err != nil:
		return time.Time{}, errors.New("want a number of days such as 90d, or a date such as 2027-01-31T00:00:00Z")
	case !at.After(now):
		return time.Time{}, errors.New("is not in the future")
	case at.After(now.AddDate(0, 0, ops.MaxEndDays)):
		return time.Time{}, fmt.Errorf("is more than %d days away", ops.MaxEndDays)
	}
	return at.UTC().Truncate(time.Second), nil
}

// keyReport is one line of the list.
type keyReport struct {
	Hash     string         `json:"hash"` // its beginning
	Label    string         `json:"label"`
	Merchant string         `json:"merchant"`
	Created  string         `json:"created"`
	LastUsed *string        `json:"lastUsed"` // to a minute; null: never
	Expires  *string        `json:"expires"`  // null: never
	Allow    []netip.Prefix `json:"allow"`    // none: all networks
	Strict   bool           `json:"strict"`
	Secret   string         `json:"secret"` // the id of the one in the key file that the row names
	State    string         `json:"state"`
}

// reportKey returns the line of a key.
func reportKey(k *ops.Key) keyReport {
	report := keyReport{
		Hash: k.Hash[:min(len(k.Hash), shownHash)], Label: terminal.OneLine(k.Label), Merchant: terminal.OneLine(k.Merchant),
		Created: k.Created.Format(time.RFC3339), Allow: k.Allow, Strict: k.Strict, Secret: k.SealedBy, State: k.State,
	}
	if k.LastUsed != nil {
		report.LastUsed = timeOrNull(*k.LastUsed)
	}
	if k.Expires != nil {
		report.Expires = timeOrNull(*k.Expires)
	}
	return report
}

// shownHash is how many digits of a hash the list shows, as account.KeyID.
const shownHash = 12

// timeOrNull returns a time for JSON: null if there is none.
func timeOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Format(time.RFC3339))
}

func keyList(ctx context.Context, cmd *cmdline.Invocation) error {
	asJSON := cmd.JSONFlag()
	revoked := cmd.Bool("revoked", false, "list the keys that were revoked instead")
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	if *revoked {
		return listRevokedKeys(ctx, *file, *asJSON, cmd.Stdout)
	}
	return local.WithKeys(ctx, *file, func(c *config.Config, st store.Store, ring *keyring.Ring) error {
		keys, err := local.NewActs(c, st, ring).Keys(ctx, local.Actor())
		if err != nil {
			return err
		}
		all := []keyReport{}
		for i := range keys {
			all = append(all, reportKey(&keys[i]))
		}
		if *asJSON {
			return terminal.WriteJSON(cmd.Stdout, all)
		}
		return writeKeys(cmd.Stdout, all)
	})
}

func writeKeys(stdout io.Writer, all []keyReport) error {
	w := terminal.NewTable(stdout, "HASH\tLABEL\tLAST USED\tEXPIRES\tFROM\tCREATED\tREQUESTS\tMERCHANT")
	refused := 0
	for _, k := range all {
		requests := "lenient"
		switch {
		case k.State == ops.KeyRefused:
			requests = k.State
			refused++
		case k.State == ops.KeyExpired:
			requests = k.State
		case k.Strict:
			requests = "strict"
		}
		from := "anywhere"
		if len(k.Allow) > 0 {
			from = strings.Trim(fmt.Sprint(k.Allow), "[]")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			k.Hash, cmp.Or(k.Label, "-"), orNever(k.LastUsed), orNever(k.Expires), from, k.Created, requests, k.Merchant)
	}
	if err := w.Flush(); err != nil || refused == 0 {
		return err
	}
	if refused == len(all) {
		_, err := fmt.Fprint(stdout,
			"\nAll keys are refused: most likely the key file is that of another store. Put back the one that\n"+
				"belongs to this before you revoke any.\n")
		return err
	}
	_, err := fmt.Fprintf(stdout,
		"\n%s refused: the row in the store is not as it was sealed. Either somebody has changed it, or\n"+
			"the key file has not got the secret any more. Revoke it, and make another for the merchant.\n",
		terminal.Count(refused, "key"))
	return err
}

func orNever(text *string) string {
	if text == nil {
		return "never"
	}
	return *text
}

func keyRotate(ctx context.Context, cmd *cmdline.Invocation) error {
	write := cmd.String("write", "",
		"make this key file, with the new secret and those before it, where the key files cannot be replaced")
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	return local.RotateKeys(ctx, *file, *write, func(format string, args ...any) {
		fmt.Fprintf(cmd.Stdout, format+"\n", args...)
	})
}

func keyWrap(ctx context.Context, cmd *cmdline.Invocation) error {
	file := cmd.ConfigFlag()
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	return local.WrapKeyFiles(ctx, *file, func(format string, args ...any) {
		fmt.Fprintf(cmd.Stdout, format+"\n", args...)
	})
}

// minHashDigits is the least number of digits of a hash that revoke accepts.
const minHashDigits = 6

func keyRevoke(ctx context.Context, cmd *cmdline.Invocation) error {
	file := cmd.ConfigFlag()
	rest, err := cmd.ReadArgs(1)
	if err != nil {
		return err
	}
	if len(rest) == 1 {
		switch prefix := strings.ToLower(rest[0]); {
		case strings.Contains(prefix, "-"):
			return cmdline.Usagef("key revoke: that looks like a key; give it on standard input, where no shell remembers it")
		case len(prefix) < minHashDigits || strings.Trim(prefix, "0123456789abcdef") != "":
			return cmdline.Usagef("key revoke: want %d or more hexadecimal digits of the hash, as \"threeds key list\" shows it",
				minHashDigits)
		}
	}
	return local.WithKeys(ctx, *file, func(c *config.Config, st store.Store, ring *keyring.Ring) error {
		match, err := keyMatcher(rest, cmd.Stdin)
		if err != nil {
			return err
		}
		k, err := local.RevokeKey(ctx, local.NewActs(c, st, ring), match)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.Stderr, "threeds: revoked %s of merchant %q\n", account.KeyID(k.Hash), k.Merchant)
		return nil
	})
}

// keyMatcher returns which hash is meant: by its first digits, or by the key on standard input.
func keyMatcher(args []string, stdin io.Reader) (func(hash []byte) bool, error) {
	if len(args) == 1 {
		prefix := strings.ToLower(args[0])
		return func(hash []byte) bool { return strings.HasPrefix(hex.EncodeToString(hash), prefix) }, nil
	}
	key, err := cmdline.ReadLine(stdin)
	if err != nil {
		return nil, err
	}
	if key == "" {
		return nil, errors.New("key revoke: no key on standard input, and no beginning of a hash")
	}
	want, ok := account.HashKey(key)
	if !ok {
		return nil, errors.New(
			"key revoke: what is on standard input is no API key (8-4-4-4-12 hexadecimal digits, as \"threeds key create\" printed it)")
	}
	return func(hash []byte) bool { return bytes.Equal(hash, want[:]) }, nil
}
