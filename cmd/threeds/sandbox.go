package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/openthreeds/threeds/internal/base/build"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/run/demo"
	"github.com/openthreeds/threeds/internal/run/playground"
)

// The default addresses of the sandbox's listeners.
const (
	sandboxListen      = "127.0.0.1:8080"
	sandboxDirectories = "127.0.0.1:0"

	mostRequests = 1e6 // per second and API key: more than one machine serves
)

// runSandbox runs a server, its directory servers and issuers, and a shop in this process.
func runSandbox(ctx context.Context, cmd *cmdline.Invocation) error {
	listen := cmd.String("listen", sandboxListen, "`HOST:PORT` of the API and of all pages, port 0 for any free one")
	public := cmd.String("public-url", "", "`URL` of that port for browsers elsewhere, such as https://lab.example")
	directories := cmd.String("directories-listen", sandboxDirectories,
		"`HOST:PORT` of the directory servers, with mutual TLS")
	rate := cmd.Float64("rate-limit", 500, "`N` requests per second and API key, 0 for no limit")
	patience := cmd.Duration("directory-timeout", playground.DirectoryTimeout,
		"how long the server and directory servers wait for each other, 1s to 60s")
	strict := cmd.Bool("strict", false, "refuse a threeDSCompInd Y whose 3DS Method has not completed")
	data := cmd.String("data", "", "keep the store in `DIR`; default: a temporary one")
	isQuiet := cmd.Bool("quiet", false, "print no line for each request")
	readyPath := cmd.String("ready-file", "", "write addresses and keys to `FILE`, as JSON, once all accept")
	endsWithInput := cmd.Bool("until-stdin-ends", false,
		"end when standard input ends, as it does when the program that started the sandbox is gone")
	rehearsal := cmd.String("directories", "",
		"run directory servers and issuers only, for a server of its own; certificates are in `DIR`")
	resultsCA := cmd.String("results-ca", "",
		"with --directories: also trust `FILE`, authorities of the server's results listener")
	receivers := []webhook.Receiver{}
	cmd.Func("allow-receiver", "`URL` or HOST:PORT that webhooks may go to, if others reach the sandbox; may be repeated",
		func(text string) error {
			r, err := webhook.ParseReceiver(text)
			receivers = append(receivers, r)
			return err
		})
	if _, err := cmd.ReadArgs(0); err != nil {
		return err
	}
	defer catchBrokenPipe()() // whoever started the sandbox may be gone before it has removed its files
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
	if *endsWithInput {
		ctx = endWith(ctx, cmd.Stdin)
	}
	ready := &demo.ReadyFile{Path: *readyPath}
	if err := ready.RemoveStale(); err != nil {
		return err
	}
	var lc net.ListenConfig
	api, err := lc.Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("%w (--listen HOST:0 takes any free port)", err)
	}
	lines := obs.NonBlocking(cmd.Stderr) // so that no request waits for the reader of the log
	o := playground.Options{
		Dir: dir, API: api, Release: build.Release(version), Log: obs.NewLogger(lines, slog.LevelWarn),
		DirectoriesListen: *directories, PerKey: *rate, Strict: *strict, DirectoryTimeout: *patience,
	}
	if !*isQuiet {
		o.Around = func(h http.Handler) http.Handler { return demo.PrintRequests(lines, h) }
	}
	box := demo.Sandbox{Options: o, PublicURL: publicURL, Allowed: receivers, Ready: ready}
	return box.Run(ctx, cmd.Stdout)
}

// endWith returns a context that ends when ctx does, or when input has no more to read.
func endWith(ctx context.Context, input io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, input)
		cancel()
	}()
	return ctx
}
