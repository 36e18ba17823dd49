package cmdline

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/openthreeds/threeds/internal/base/terminal"
)

// ReadLine returns the first line of in, without space around it: "" if there is none.
func ReadLine(in io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(in, 1<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// OpenInput opens a file, or standard input for -. closeInput closes the file, and never standard input.
func OpenInput(name string, stdin io.Reader) (in io.Reader, closeInput func() error, err error) {
	if name == "-" {
		return stdin, func() error { return nil }, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	return f, f.Close, nil
}

// InputName is how to call a file, or standard input for -.
func InputName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// ReadInput reads at most limit bytes of a file, or of standard input for -.
func ReadInput(name string, stdin io.Reader, limit int64) ([]byte, error) {
	in, closeInput, err := OpenInput(name, stdin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeInput() }() // only read
	return io.ReadAll(io.LimitReader(in, limit))
}

// WriteNewFile calls write with a new file, which args name, for its owner alone; with standard output when args are
// empty or "-". A file that could not be written to its end is removed.
func WriteNewFile(args []string, stdout io.Writer, write func(io.Writer) error) error {
	if len(args) == 0 || args[0] == "-" {
		return write(terminal.Exact(stdout))
	}
	f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(args[0])) // part of it is of no use
	}
	return err
}
