package docsite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// readTimeout is how long a request of a page may take to arrive.
const readTimeout = 10 * time.Second

// Serve serves the site alone, on an address such as 127.0.0.1:0, until ctx ends. It prints the address of the first
// page.
func (s *Site) Serve(ctx context.Context, listen string, stdout io.Writer) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("%w (--listen HOST:0 takes any free port)", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.Handle("/{$}", http.RedirectHandler(Path, http.StatusSeeOther))
	server := &http.Server{Handler: mux, ReadTimeout: readTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // readers ask again
	defer stop()
	_, err = fmt.Fprintf(stdout, "The documentation is at http://%s%s. Ctrl-C ends it.\n", l.Addr(), Path)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
