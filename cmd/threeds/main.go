// Threeds is an EMV 3-D Secure server with its tools: the production server,
// a sandbox of directory servers and issuers to develop against, API keys,
// card ranges, and a checker for messages.
//
// This package reads the command line and runs the commands. The server is package
// internal/run/server, its configuration internal/run/config.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/coredump"
	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/state/store/postgres"
)

// usage is what "threeds help" prints. Acts on a webhook endpoint stand where the text has ACT.
var usage = strings.Replace(usageText, "ACT", strings.Join(webhookWords(" webhook-endpoints/"), "|"), 1)

const usageText = `Usage:
    threeds sandbox [--listen HOST:PORT] [--public-url URL] [--directories-listen HOST:PORT]
                    [--rate-limit N] [--data DIR] [--ready-file FILE] [--strict]
                    [--directory-timeout DURATION] [--quiet]
                    [--allow-receiver URL|HOST:PORT]...
        run everything in one process: server, directory servers, issuers, shop
    threeds sandbox --directories DIR [--results-ca FILE] [--listen HOST:PORT]
                    [--directories-listen HOST:PORT]
        run directory servers and issuers only, and write into DIR what a 3DS Server needs:
        certificates, keys, threeds.yaml, foreign.json
    threeds serve [--config FILE]
        run the server in production
    threeds config check [--config FILE]
        say what serve would say of the configuration and the files that it names, and start
        nothing
    threeds health [--config FILE | --url URL] [--live]
        ask a server that runs whether it is ready, or with --live whether it is alive
    threeds key create --name NAME [--strict] [--label TEXT] [--expires 90d|DATE]
                    [--allow NETWORK]... [--config FILE]
        make an API key for the merchant NAME and print it, once; it ends at a time, and is good
        from these networks alone, if you say so
    threeds key list [--revoked] [--json] [--config FILE]
        list the keys: start of the hash, age, strictness, merchant; or those that were revoked
    threeds key revoke HASHPREFIX [--config FILE]
        revoke the key whose hash starts so; without HASHPREFIX, the key on standard input
    threeds key rotate [--write KEYFILE] [--config FILE]
        replace the secret of the key file on all nodes that serve; no API key ends. --write makes
        a key file with the new secret, where key files cannot be replaced; exit status 1 says
        that nothing has changed, or that it is to be run again
    threeds merchant add|set --name NAME [--SETTING VALUE]... [--json] [--config FILE]
        add a merchant to the store, or change one there; a SETTING is named as in the
        configuration: --mcc 5411 --origins URL --per-directory visa.acquirer_bin=400551
    threeds merchant list [--json] [--config FILE]
        list the merchants of the store and of the configuration, which wins
    threeds merchant remove --name NAME [--json] [--config FILE]
        remove a merchant from the store; its API keys stay good
    threeds webhook add --merchant NAME [--type TYPE]... [--description TEXT] [--secret FILE]
                    [--json] [--config FILE] URL
        add a webhook endpoint of a merchant and print its secret, once
    threeds webhook list --merchant NAME [--json] [--config FILE]
        list the endpoints of a merchant
    threeds webhook ACT --merchant NAME [--json] [--config FILE] ID
        remove an endpoint, enable or disable it, give it a new secret and print that, or post
        a test event to it; exit status 1 means that the test was not delivered
    threeds webhook events --merchant NAME [--type TYPE] [--authentication ID] [--limit N]
                    [--json] [--config FILE] [EVENT]
        list the events of a merchant, the newest first; or the deliveries of one
    threeds webhook resend --merchant NAME [--json] [--config FILE] EVENT
        have an event delivered again, under the same id
    threeds webhook verify --secret FILE --id I --timestamp T --signature S FILE
        check a delivery as its receiver should (- is standard input): exit status 0 or 1
    threeds ranges status [--json] [--config FILE]
        say how things stand with the card ranges of each directory
    threeds ranges lookup PREFIX [--scheme SCHEME] [--json] [--config FILE]
        say who holds cards that begin with these digits, or the card with these 13 to 19
        (- is standard input)
    threeds ranges diff OLD NEW [--scheme SCHEME] [--json] [--config FILE]
        say how two generations differ: numbers, or "held" for the one held back
    threeds ranges export SCHEME [--generation N] [--config FILE]
        print all ranges as CSV
    threeds ranges import SCHEME FILE [--config FILE]
        use the complete set in a file: a PRes, or a card range file of 2.3.1, as it is or
        gzipped (- is standard input)
    threeds ranges refresh SCHEME [--config FILE]
        ask the directory server as soon as the protocol lets us
    threeds ranges accept SCHEME [--config FILE]
        use the generation that is held back
    threeds cert request SCHEME [--bits N | --curve NAME] [--subject NAME] [--config FILE]
        make a key for the client certificate of a directory and print its CSR; the key is
        never printed
    threeds cert install SCHEME [--at TIME] [--config FILE] FILE
        take the certificate that the CA has made, with those of the CAs behind it (- is
        standard input); nodes change over at TIME, else when it is activated
    threeds cert activate|rollback SCHEME [--config FILE]
        bring the installed certificate into use, or the one before; no node restarts
    threeds cert test SCHEME [--json] [--config FILE]
        make a TLS handshake with the directory server, with the installed certificate or
        the one in use; exit status 1 means that it was not taken
    threeds cert status [--json] [--config FILE] [SCHEME]
        say which certificates there are, and which keys wait for one
    threeds token create --name NAME --role viewer|operator|admin [--merchant M]
                    [--expires 90d|DATE] [--config FILE]
        make a token of the admin API and print it, once
    threeds token list [--json] [--config FILE]
        list the tokens of the admin API
    threeds token revoke NAME [--config FILE]
        end a token at once, on every node
    threeds operator invite --role viewer|operator|admin [--merchant M] [--name NAME]
                    [--config FILE]
        print a link by which somebody registers a passkey for the console, once, in one hour
    threeds operator list [--json] [--config FILE]
        list who may log in to the console
    threeds operator role NAME viewer|operator|admin [--config FILE]
        give an operator another role, and end their sessions
    threeds operator remove NAME [--config FILE]
        remove an operator, and end their sessions
    threeds audit search [--who W] [--action A] [--object O] [--from T] [--to T] [--limit N]
                    [--json] [--config FILE]
        say who changed what, the newest first
    threeds audit export [--who W] [--action A] [--object O] [--from T] [--to T]
                    [--config FILE] [FILE]
        write the audit trail in the form of "threeds journal export", for "threeds journal
        verify"; exit status 1 means that somebody has changed it in the store
    threeds store status [--json] [--config FILE]
        say what the store is, which of its servers answer, and which tables and shards each has,
        with sizes and estimated rows
    threeds backup [--journal] [--config FILE] FILE
        write API keys, revoked keys, merchants, operators, the audit trail and card ranges
        into a new file (- is standard output), which fits both kinds of store; with
        --journal the journal, too
    threeds restore [--replace] FILE [--config FILE]
        load such a file (- is standard input) into an empty store, or with --replace in the
        place of what the store has
    threeds journal search [--id ID] [--reference R] [--card -] [--last4 N] [--merchant NAME]
                    [--scheme S] [--acs REF] [--status S] [--result R] [--reason N]
                    [--from T] [--to T] [--limit N] [--cursor C] [--json] [--config FILE]
        find authentications and refused requests, the newest first; a card number is read
        from standard input; T is RFC 3339 or a span back such as 24h or 30d
    threeds journal show [--json] [--config FILE] ID
        show one of them with each of its steps, messages masked
    threeds journal billing [--from MONTH] [--to MONTH] [--merchant NAME] [--json | --csv]
                    [--config FILE]
        count what is billed, for each merchant and month, also of records that have gone;
        MONTH is 2026-11, in UTC; without one the last month and this one
    threeds journal export [--from T] [--to T] [--merchant NAME] [--format jsonl|csv]
                    [--config FILE] [FILE]
        write days of the journal; only JSON lines can be verified
    threeds journal import [--key PEM] [--config FILE] FILE
        add what an export of another journal has and this one lacks, if the export is as it
        was written; --key is that of the other journal
    threeds journal erase (--card - | --merchant NAME) [--yes] [--config FILE]
        say what would be removed of a card or a merchant; with --yes remove it for good,
        and say how much that was
    threeds journal verify [--key PEM] [--config FILE] FILE
        say whether an export of the journal or the audit trail is as it was written (- is
        standard input)
    threeds journal witness [--config FILE] FILE
        compare heads that were noted elsewhere with those of the journal and the audit trail:
        a log, a page of /metrics or an export (- is standard input)
    threeds journal key [--config FILE]
        print the public keys by which exports are verified, the one in use first
    threeds journal generate [--authentications N] [--days N] [--merchants N] [--seed N]
                    [--config FILE]
        fill an empty journal with made-up records, to try out searches
    threeds check [--scheme SCHEME] [--json] FILE
        read a message (- is standard input), show it masked, say all that is wrong with it,
        and what a card scheme asks for beside the protocol, or means by a code of its own;
        FILE may also be a body for /auth, a log line, a creq or cres, a form, or a PARes;
        exit status 2 means that it is none of these
    threeds explain [--scheme SCHEME] [--as-of DATE] [--json] FILE
        say what /auth would make of a body (- is standard input): the AReq, masked, what is
        put right, all faults, and what the scheme asks for on that day; nothing is sent;
        exit status 1 means that /auth would refuse it, 2 that it is no such body
    threeds outcomes [--json]
        print what each answer of each card scheme is worth: result, liability, what to do
    threeds licenses
        print the modules that this build consists of: version, licence and text
    threeds version
        say which build this is
    threeds help
        show this text

FILE of --config is threeds.yaml unless given.
Exit status: 0 done, 1 failed, 2 misused.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	warnings := obs.NewLogger(obs.NonBlocking(os.Stderr), slog.LevelWarn)
	protectProcess(warnings)
	log.SetFlags(0)
	log.SetOutput(obs.Libraries(warnings))
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// protectProcess keeps what this process has in memory out of core dumps, and variables of libpq from changing where the
// store is. What fails, or has no effect, is logged.
func protectProcess(log *slog.Logger) {
	if err := coredump.Disable(); err != nil {
		log.Warn("core dumps are not off", "err", err)
	}
	if dropped := postgres.DropEnvironment(); len(dropped) > 0 {
		log.Warn("variables of libpq are ignored: the URL of the store says all", "variables", dropped)
	}
}

// run is the program without the process: tests call it, and main exits with the status
// that it returns.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "serve" {
		stderr = obs.NonBlocking(stderr) // so that the server does not wait for the reader of its log
	}
	// A terminal may be behind either, and what others wrote is in much of what a command prints.
	stdout, stderr = terminal.Writer{To: stdout}, terminal.Writer{To: stderr}
	err := dispatch(ctx, args, stdin, stdout, stderr)
	if err == nil {
		return 0
	}
	if help, ok := errors.AsType[cmdline.HelpRequest](err); ok {
		fmt.Fprintln(stdout, help.Text)
		return 0
	}
	if _, ok := errors.AsType[cmdline.UsageError](err); ok { // which may quote what was typed in the wrong place, such as a card number
		fmt.Fprintf(stderr, "threeds: %s\nRun \"threeds help\" for the commands and their flags.\n", cardnumber.Mask(err.Error()))
		return 2
	}
	status := 1
	if _, ok := errors.AsType[unreadableError](err); ok {
		status = 2
	}
	// Each line of an error begins with the name of the program, so that each of many
	// faults can be found by it.
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "threeds: %s\n", strings.TrimSuffix(line, "\n"))
	}
	return status
}

// commands are those of the program.
var commands = []cmdline.Command{
	{Name: "serve", Run: runServe},
	{Name: "sandbox", Run: runSandbox},
	{Name: "config", Run: cmdline.Group(configCommands)},
	{Name: "health", Run: runHealth},
	{Name: "key", Run: cmdline.Group(keyCommands)},
	{Name: "merchant", Run: runMerchant},
	{Name: "webhook", Run: runWebhook},
	{Name: "ranges", Run: cmdline.Group(rangesCommands)},
	{Name: "cert", Run: runCert},
	{Name: "journal", Run: cmdline.Group(journalCommands)},
	{Name: "token", Run: cmdline.Group(tokenCommands)},
	{Name: "operator", Run: cmdline.Group(operatorCommands)},
	{Name: "audit", Run: cmdline.Group(auditCommands)},
	{Name: "store", Run: cmdline.Group(storeCommands)},
	{Name: "backup", Run: runBackup},
	{Name: "restore", Run: runRestore},
	{Name: "check", Run: runCheck},
	{Name: "explain", Run: runExplain},
	{Name: "outcomes", Run: runOutcomes},
	{Name: "licenses", Run: runLicenses},
	{Name: "version", Run: runVersion},
	{Name: "help", Run: printUsage},
}

// dispatch runs the command that args begin with.
func dispatch(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return cmdline.Usagef("no command")
	}
	name := args[0]
	switch name {
	case "-version", "--version":
		name = "version"
	case "-h", "-help", "--help":
		name = "help"
	}
	c := cmdline.Find(commands, name)
	if c == nil {
		return cmdline.Usagef("unknown command %q%s", name, hint.For(name, cmdline.Names(commands)...))
	}
	return c.Run(ctx, cmdline.New(name, args[1:], stdin, stdout, stderr))
}

func printUsage(_ context.Context, cmd *cmdline.Invocation) error {
	_, err := io.WriteString(cmd.Stdout, usage)
	return err
}
