package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// coldStart measures how long the sandbox takes from its start to the file that
// says it is ready, and on to the answer to a first request.
func coldStart(ctx context.Context, b *bench) ([]row, error) {
	var ready, answered []time.Duration
	for range b.plan.starts {
		r, a, err := startSandbox(ctx, b)
		if err != nil {
			return nil, err
		}
		ready, answered = append(ready, r), append(answered, a)
	}
	return []row{{
		what: "cold start of the sandbox", target: "<= 1 s",
		measured: fmt.Sprintf("%.3f s", median(ready).Seconds()), good: median(ready) <= time.Second,
		note: fmt.Sprintf("median of %d, longest %.3f s; first /preauth answered after %.3f s",
			len(ready), percentile(ready, 1).Seconds(), median(answered).Seconds()),
	}}, nil
}

// startSandbox runs the sandbox once and ends it.
func startSandbox(ctx context.Context, b *bench) (ready, answered time.Duration, err error) {
	dir, err := os.MkdirTemp(b.dir, "sandbox-")
	if err != nil {
		return 0, 0, err
	}
	file := filepath.Join(dir, "ready.json")
	cmd := exec.CommandContext(ctx, b.threeds, "sandbox", "--listen", "127.0.0.1:0", "--ready-file", file)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Stderr = b.progress
	tie(cmd)
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	defer func() { err = errors.Join(err, end(cmd, exited), os.RemoveAll(dir)) }()
	var text []byte
	err = poll(ctx, func() (bool, error) {
		select {
		case err := <-exited:
			exited <- err
			return false, fmt.Errorf("the sandbox ended: %w", err)
		default:
		}
		text, err = os.ReadFile(file)
		return err == nil, nil
	})
	ready = time.Since(start)
	if err != nil {
		return 0, 0, err
	}
	var at struct{ API, APIKey string }
	if err := json.Unmarshal(text, &at); err != nil {
		return 0, 0, err
	}
	_, err = post(ctx, at.API+"/preauth", at.APIKey, strings.NewReader(`{"acctNumber":"3000100000000103"}`))
	return ready, time.Since(start), err
}
