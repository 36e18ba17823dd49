package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/operator"
)

// TestConsoleBeyondLoopbackIsAWarning: other machines must not reach the console unless an operator means it.
func TestConsoleBeyondLoopbackIsAWarning(t *testing.T) {
	for address, isWarning := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		warnOfConsole(slog.New(slog.NewTextHandler(&out, nil)), l, false)
		if strings.Contains(out.String(), "beyond this machine") != isWarning {
			t.Errorf("%s: the log is %q, want a warning: %t", address, out.String(), isWarning)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	warnOfConsole(slog.New(slog.DiscardHandler), nil, false) // there need not be one
}

// TestK11AdminAPIIsServedWhereConsoleURLIsSet: a token works on the console's listener, and without console.url nothing
// is there. Health asks for nothing either way.
func TestK11AdminAPIIsServedWhereConsoleURLIsSet(t *testing.T) {
	t.Parallel()
	for console, want := range map[string]int{`, url: "http://127.0.0.1:1"`: http.StatusOK, "": http.StatusNotFound} {
		file, text := writeConfig(t)
		write(t, file, []byte(strings.Replace(text, `{url: "https://results`, `{listen: "127.0.0.1:0", url: "https://results`, 1)+
			"api: {listen: \"127.0.0.1:0\"}\nconsole: {listen: \"127.0.0.1:0\""+console+"}\n"))
		ctx, stop := context.WithCancel(t.Context())
		started, ended := make(chan *Config, 1), make(chan error, 1)
		go func() {
			ended <- Serve(ctx, Options{File: file, Log: &lockedBuffer{}, Change: func(c *Config) { started <- c }})
		}()
		cfg := <-started
		base := "http://" + cfg.Console.Addr().String()
		waitFor(t, "the console", func() bool { return getStatus(t, base+"/livez", "") == http.StatusOK })
		db, err := OpenStore(t.Context(), cfg.StoreURL)
		must(t, err)
		operators := &operator.Service{Store: db, Sealer: cfg.Ring, Now: time.Now}
		token, err := operators.CreateToken(t.Context(), operator.Token{Name: "ci", Role: operator.Viewer})
		must(t, errors.Join(err, db.Close()))
		if got := getStatus(t, base+"/admin/v1/merchants", token); got != want {
			t.Errorf("with console%s: /admin/v1/merchants is %d, want %d", console, got, want)
		}
		stop()
		must(t, <-ended)
	}
}

// getStatus returns the status of a GET, 0 if there is no answer.
func getStatus(t *testing.T, url, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	must(t, answer.Body.Close())
	return answer.StatusCode
}
