package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/base/hint"
)

// firstPassedFD is the descriptor of the first socket that is passed.
const firstPassedFD = 3

// passedListeners are the sockets that the service manager has opened for this
// process, by name: the protocol of sd_listen_fds(3). It removes the variables that say
// so from the environment, so that processes started from here do not find them.
func passedListeners() (map[string]net.Listener, error) {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	if pid != strconv.Itoa(os.Getpid()) || count == "" { // they are for another, or there are none
		return nil, nil
	}
	n, err := strconv.ParseUint(count, 10, 8)
	if err != nil {
		return nil, errors.New("LISTEN_FDS is not a number of sockets")
	}
	var given []string
	if n > 0 {
		given = strings.Split(names, ":")
	}
	if len(given) != int(n) {
		return nil, fmt.Errorf(
			"%d sockets are passed with %d names in LISTEN_FDNAMES (set FileDescriptorName= to api, results, console, metrics or browser)",
			n, len(given))
	}
	passed := make(map[string]net.Listener)
	for i, name := range given {
		if err := addPassedListener(passed, name, uintptr(firstPassedFD+i)); err != nil {
			for _, l := range passed {
				_ = l.Close()
			}
			return nil, fmt.Errorf("socket %q of the service manager: %w", name, err)
		}
	}
	return passed, nil
}

func addPassedListener(passed map[string]net.Listener, name string, fd uintptr) error {
	f := os.NewFile(fd, name)
	defer f.Close() // the listener has a descriptor of its own
	if known := []string{"api", "results", "console", "metrics", "browser"}; !slices.Contains(known, name) {
		return fmt.Errorf("unknown name%s (known: %s)", hint.For(name, known...), strings.Join(known, ", "))
	}
	if passed[name] != nil {
		return errors.New("passed twice")
	}
	l, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("not a socket to accept on: %w", err)
	}
	if _, ok := l.(*net.TCPListener); !ok {
		return errors.Join(errors.New("not a TCP socket"), l.Close())
	}
	passed[name] = l
	return nil
}
