package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/openthreeds/threeds/client"
)

// childMark in the environment makes the program a child: it does what its
// parent asks for over standard input and output, and ends when they do.
const childMark = "THREEDS_BENCH_CHILD"

func isChild() bool { return os.Getenv(childMark) != "" }

// runChild serves the parent. Each child offers all services; which of them the parent
// calls makes it a load generator, a directory server or a control.
func runChild() {
	s := rpc.NewServer()
	for _, service := range []any{new(Load), new(Directory), new(Control)} {
		if err := s.Register(service); err != nil {
			panic(err)
		}
	}
	s.ServeConn(pipe{os.Stdin, os.Stdout})
}

// pipe is the connection between parent and child.
type pipe struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipe) Close() error { return errors.Join(p.ReadCloser.Close(), p.WriteCloser.Close()) }

// child is another process of this program.
type child struct {
	cmd *exec.Cmd
	rpc *rpc.Client
}

// startChild starts this program again. It ends with the context at the latest.
func startChild(ctx context.Context) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childMark+"=1")
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second
	endWithParent(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd, rpc.NewClient(pipe{out, in})}, nil
}

// ask calls a method of the child, "Load.Deliver", and waits for the reply.
func (c *child) ask(ctx context.Context, method string, args, reply any) error {
	call := c.rpc.Go(method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		return call.Error
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends the child, and waits until it is gone.
func (c *child) stop() error {
	if err := c.rpc.Close(); err != nil && !errors.Is(err, rpc.ErrShutdown) {
		return err
	}
	return c.cmd.Wait()
}

// coldStart measures how long the sandbox takes from its start to the file that
// says it is ready, and on to the answer to a first request.
func coldStart(ctx context.Context, b *bench) ([]row, error) {
	var ready, answered []time.Duration
	for range b.plan.sandboxStarts {
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
	endWithParent(cmd)
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
	_, err = client.New(at.API, at.APIKey).Preauth(ctx, client.PreauthRequest{AcctNumber: "3000100000000103"})
	return ready, time.Since(start), err
}
