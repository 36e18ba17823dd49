package main

import (
	"context"
	"errors"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"time"
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
	tie(cmd)
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
