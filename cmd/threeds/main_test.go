package main

import (
	"strings"
	"testing"
)

// TestExitStatus: by the status, scripts of operators distinguish wrong use, failure and help.
func TestExitStatus(t *testing.T) {
	t.Chdir(t.TempDir()) // where no configuration is
	for want, lines := range map[int][]string{
		0: {"help", "-h", "-help", "--help", "version", "-version", "--version", "serve --help", "key --help",
			"key create -h", "ranges --help", "check -h", "config --help", "config check -h",
			"config show -h", "config diff -h", "health -h", "licenses -h",
			"outcomes -h", "completion bash", "completion zsh", "completion fish", "completion powershell", "completion -h",
			"man -h", "help -h", "docs -h", "mcp -h", "version --json",
			"token --help", "token create -h", "audit --help", "audit search -h", "backup -h", "restore -h", "journal --help",
			"journal search -h", "operator -h", "webhook --help", "webhook add -h", "webhook verify -h"},
		1: {"serve", "serve --config absent.yaml", "key list", "ranges status", "check absent.json", "config check", "config show", "config show absent.yaml",
			"docs --listen x",
			"health", "health --config absent.yaml", "backup -", "restore -", "token list", "audit search", "key list --revoked",
			"webhook list --merchant Shop", "webhook verify --secret x --id x --timestamp 1 --signature x -"},
		2: {"", "sevre", "serve --confg x", "serve now", "serve --config", "key", "key creat",
			"key create", "key create --name " + strings.Repeat("x", 101), "key list all", "key revoke abc",
			"key revoke 00000000-0000-4000-8000-000000000000", "ranges", "ranges refesh", "ranges refresh", "check", "check -",
			"check a b", "backup", "backup a b", "restore", "restore --replac a", "version now", "completion", "completion tcsh",
			"completion bash zsh", "man", "man a b", "help now", "ranges status --confg x", "ranges lookup 4 --confg x",
			"ranges diff 1 2 --confg x", "ranges diff 1 2 3", "ranges export visa --confg x", "ranges export visa jcb",
			"ranges import visa x --confg x", "ranges refresh visa --confg x", "ranges accept visa --confg x",
			"sandbox --lsiten x", "sandbox now", "version --jsn", "config", "config chek", "config check x",
			"config show a b", "config diff", "config diff a b c", "config diff absent.yaml",
			"token", "token creat", "token create --name ci", "token create --name a/b --role viewer",
			"token create --name ci --role root", "token revoke", "operator", "operator invit", "operator invite",
			"operator invite --role root", "operator invite --role admin --name a/b", "operator role", "operator role jo root",
			"operator remove", "audit", "audit serch", "audit search --limit 0", "journal", "journal serch",
			"journal search --limit 0", "journal search --last4 42", "webhook", "webhook ad", "webhook list",
			"webhook add --merchant Shop", "webhook list --merchant Shop x", "webhook verify --id x -",
			"webhook verify --secret x --id x --timestamp 1 --signature x", "health now", "licenses now", "outcomes now",
			"docs export", "docs exprot x", "docs export x y", "mcp now",
			"health --url ftp://x", "health --url", "health --url http://127.0.0.1:1 --config x.yaml"},
	} {
		for _, line := range lines {
			var out, errs strings.Builder
			got := run(t.Context(), strings.Fields(line), strings.NewReader(""), &out, &errs)
			if got != want || (out.Len() > 0) != (want == 0) || (errs.Len() > 0) != (want != 0) {
				t.Errorf("threeds %s: exit status %d, want %d\n%s%s", line, got, want, out.String(), errs.String())
			}
		}
	}
}
