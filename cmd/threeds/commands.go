package main

import (
	"strings"

	"github.com/openthreeds/threeds/internal/base/cmdline"
)

// commands returns those of the program, in the order in which help prints them.
func commands() []cmdline.Command {
	return []cmdline.Command{
		{
			Name: "sandbox", Run: runSandbox,
			Takes: `[--listen HOST:PORT] [--public-url URL] [--directories-listen HOST:PORT] [--rate-limit N] [--data
			DIR] [--ready-file FILE] [--strict] [--directory-timeout DURATION] [--quiet] [--until-stdin-ends]
			[--allow-receiver URL|HOST:PORT]...`,
			Does: `run everything in one process: server, directory servers, issuers, shop`,
			Other: []cmdline.Form{{
				Takes: `--directories DIR [--results-ca FILE] [--listen HOST:PORT] [--directories-listen HOST:PORT]`,
				Does: `run directory servers and issuers only, and write into DIR what a 3DS Server needs: certificates,
				keys, threeds.yaml, foreign.json`,
			}},
		},
		{
			Name: "serve", Run: runServe,
			Takes: `[--config FILE]`,
			Does:  `run the server in production`,
		},
		{Name: "config", Commands: configCommands, Does: "the configuration file"},
		{
			Name: "health", Run: runHealth,
			Takes: `[--config FILE | --url URL] [--live]`,
			Does:  `ask a server that runs whether it is ready, or with --live whether it is alive`,
		},
		{
			Name: "nodes", Run: runNodes,
			Takes: `[--json] [--config FILE]`,
			Does: `list the nodes that share the store: release, last word, problems, hash of the configuration, id of
			the key file; and say where they differ or which one is silent`,
		},
		{Name: "key", Commands: keyCommands, Does: "API keys of merchants, and the secret that they are sealed under"},
		{Name: "merchant", Commands: merchantCommands, Does: "merchants of the store"},
		{Name: "webhook", Commands: webhookCommands, Does: "webhook endpoints of merchants, and their events"},
		{Name: "ranges", Commands: rangesCommands, Does: "card ranges of directories"},
		{Name: "cert", Commands: certCommands, Does: "client certificates of directories"},
		{Name: "token", Commands: tokenCommands, Does: "tokens of the admin API"},
		{Name: "operator", Commands: operatorCommands, Does: "operators of the console"},
		{Name: "audit", Commands: auditCommands, Does: "the audit trail"},
		{Name: "store", Commands: storeCommands, Does: "the store as a whole"},
		{
			Name: "backup", Run: runBackup,
			Takes: `[--journal] [--config FILE] FILE`,
			Does: `write API keys, revoked keys, merchants, operators, the audit trail and card ranges into a new file
			(- is standard output); it fits both kinds of store, and with --journal has the journal, too`,
		},
		{
			Name: "restore", Run: runRestore,
			Takes: `[--replace] FILE [--config FILE]`,
			Does: `load a backup (- is standard input) into an empty store, or with --replace in the place of what
			the store has`,
		},
		{Name: "journal", Commands: journalCommands, Does: "the journal of authentications"},
		{
			Name: "check", Run: runCheck,
			Takes: `[--scheme SCHEME] [--json] FILE`,
			Does: `read a message (- is standard input), show it masked, and say all that is wrong with it; with
			--scheme also what the scheme asks for beyond the protocol, or means by a code of its own; FILE may
			also be a body for /auth, a log line, a creq or cres, a form, or a PARes; exit status 2 means that it
			is none of these`,
		},
		{
			Name: "explain", Run: runExplain,
			Takes: `[--scheme SCHEME] [--as-of DATE] [--json] FILE`,
			Does: `say what /auth would make of a body (- is standard input): the AReq, masked, what is put right, all
			faults, and what the scheme asks for on that day; nothing is sent; exit status 1 means that /auth
			would refuse it, 2 that it is no such body`,
		},
		{
			Name: "outcomes", Run: runOutcomes,
			Takes: `[--json]`,
			Does:  `print what each answer of each card scheme is worth: result, liability, what to do`,
		},
		{
			Name: "docs", Run: runDocs,
			Takes: `[--listen HOST:PORT]`,
			Does:  `serve the documentation of this release to a browser, on this machine; it needs no network`,
			Other: []cmdline.Form{{
				Takes: `export DIR`,
				Does:  `write the documentation into a folder, as a site that needs no server`,
			}},
		},
		{
			Name: "mcp", Run: runMCP,
			Does: `let an assistant read the documentation, check messages and explain them, by the Model Context
			Protocol on standard input and output; with THREEDS_ADMIN_URL and THREEDS_ADMIN_TOKEN in the
			environment it can see records, too; it changes nothing`,
		},
		{
			Name: "licenses", Run: runLicenses,
			Does: `print the modules that this build consists of: version, licence and text`,
		},
		{
			Name: "version", Run: runVersion,
			Takes: `[--json]`,
			Does:  `say which build this is: version, commit and its date, version of Go`,
		},
		{
			Name: "completion", Run: runCompletion,
			Takes: strings.Join(cmdline.Shells(), "|"),
			Does:  `print a script by which the shell completes commands, flags and their values`,
		},
		{
			Name: "man", Run: runMan,
			Takes: `DIR`,
			Does:  `write manual pages into a directory: threeds.1, and one page for each command`,
		},
		{
			Name: "help", Run: printUsage,
			Does: `show this text`,
		},
	}
}
