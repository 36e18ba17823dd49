package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/operate/operator"
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

// TestK11AdminAPIIsServedWhereConsoleURLIsSet: a token works on the console's listener, and without console.url there
// is no admin API. Health needs no token in either case.
func TestK11AdminAPIIsServedWhereConsoleURLIsSet(t *testing.T) {
	t.Parallel()
	for console, want := range map[string]int{`, url: "http://127.0.0.1:1"`: http.StatusOK, "": http.StatusNotFound} {
		file, text := writeConfig(t)
		write(t, file, []byte(strings.Replace(text, `{url: "https://results`, `{listen: "127.0.0.1:0", url: "https://results`, 1)+
			"api: {listen: \"127.0.0.1:0\"}\nconsole: {listen: \"127.0.0.1:0\""+console+"}\n"))
		ctx, stop := context.WithCancel(t.Context())
		started, ended := make(chan *Config, 1), make(chan error, 1)
		go func() {
			ended <- Serve(ctx, Options{File: file, Log: &waittest.Log{}, Change: func(c *Config) { started <- c }})
		}()
		cfg := awaitStart(t, started, ended)
		base := "http://" + cfg.Console.Addr().String()
		waittest.Until(t, "the console", func() bool { return getStatus(t, base+"/livez", "") == http.StatusOK })
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
func getStatus(t testing.TB, url, token string) int {
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

// TestK2ConsoleIsServedWithLogin: with console.url operators log in, by TLS where it is configured. A session is no
// token of the admin API, and a token is no session. If another process changes an operator, the session ends
// immediately. The documentation and the icon need no login.
func TestK2ConsoleIsServedWithLogin(t *testing.T) {
	t.Parallel()
	file, text := writeConfig(t)
	write(t, file, []byte(strings.Replace(text, `{url: "https://results`, `{listen: "127.0.0.1:0", url: "https://results`, 1)+
		`api: {listen: "127.0.0.1:0"}
console: {listen: "127.0.0.1:0", metrics_listen: "127.0.0.1:0", url: "https://console.example", tls: {cert: cert.pem, key: key.pem}}
`))
	ctx, stop := context.WithCancel(t.Context())
	started, ended := make(chan *Config, 1), make(chan error, 1)
	go func() {
		ended <- Serve(ctx, Options{File: file, Log: &waittest.Log{}, Change: func(c *Config) { started <- c }})
	}()
	cfg := awaitStart(t, started, ended)
	health := "http://" + cfg.Metrics.Addr().String()
	waittest.Until(t, "the listener for monitoring", func() bool { return getStatus(t, health+"/livez", "") == http.StatusOK })
	client := &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
				if !bytes.Equal(state.PeerCertificates[0].Raw, cfg.ConsoleCert.Certificate[0]) {
					return errors.New("another certificate")
				}
				return nil
			}},
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", cfg.Console.Addr().String())
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	get := func(path, header, value string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://console.example"+path, nil)
		must(t, err)
		r.Header.Set(header, value)
		res, err := client.Do(r)
		must(t, err)
		must(t, res.Body.Close())
		return res
	}
	db, err := OpenStore(t.Context(), cfg.StoreURL)
	must(t, err)
	operators := &operator.Service{Store: db, Sealer: cfg.Ring, Now: time.Now}
	user := operator.User{Name: "jo", Role: operator.Admin}
	must(t, operators.AddUser(t.Context(), &user))
	secret, err := operators.StartSession(t.Context(), &user, nil, time.Hour)
	must(t, err)
	token, err := operators.CreateToken(t.Context(), operator.Token{Name: "ci", Role: operator.Admin})
	must(t, err)
	link, err := operators.Invite(t.Context(), &operator.Invitation{Role: operator.Viewer})
	must(t, err)
	session := "__Host-threeds=" + secret
	for _, test := range []struct {
		path, header, value string
		want                int
	}{
		{"/", "Accept", "*/*", http.StatusSeeOther}, {"/", "Cookie", session, http.StatusOK}, {"/", "Cookie", "threeds=" + secret, http.StatusSeeOther},
		{"/", "Authorization", "Bearer " + token, http.StatusSeeOther}, {"/login", "Accept", "*/*", http.StatusOK},
		{"/invite/" + link, "Accept", "*/*", http.StatusOK}, {"/admin/v1/tokens", "Cookie", session, http.StatusUnauthorized},
		{"/admin/v1/tokens", "Authorization", "Bearer " + token, http.StatusOK},
		{"/readyz", "Accept", "*/*", http.StatusNotFound}, {"/metrics", "Cookie", session, http.StatusNotFound}, {"/no/such", "Cookie", session, http.StatusNotFound},
	} {
		res := get(test.path, test.header, test.value)
		if res.StatusCode != test.want {
			t.Errorf("%s with %s: HTTP %d, want %d", test.path, test.header, res.StatusCode, test.want)
		}
		if res.Header.Get("Strict-Transport-Security") == "" && !strings.HasPrefix(test.path, "/admin/") && res.StatusCode < 400 {
			t.Errorf("%s: %v", test.path, res.Header)
		}
	}
	for path, want := range map[string]string{
		"/docs": "/docs/", "/docs/": "", "/docs/errors.html": "", "/favicon.ico": "/docs/assets/mark.svg", "/docs/assets/mark.svg": "",
	} {
		res := get(path, "Accept", "*/*")
		if isThere := res.StatusCode == http.StatusOK; isThere != (want == "") || res.Header.Get("Location") != want {
			t.Errorf("%s without a login: HTTP %d, to %q; want %q", path, res.StatusCode, res.Header.Get("Location"), want)
		}
	}
	for _, path := range []string{"/", "/login", "/admin/v1/tokens", "/docs/"} {
		if got := getStatus(t, health+path, token); got != http.StatusNotFound {
			t.Errorf("%s where monitoring is: HTTP %d", path, got)
		}
	}
	_, _, err = operators.ChangeUser(t.Context(), "jo", func(u *operator.User) error {
		u.Role = operator.Viewer
		return nil
	})
	must(t, errors.Join(err, db.Close()))
	if res := get("/", "Cookie", session); res.StatusCode != http.StatusSeeOther {
		t.Errorf("after a change of the role: HTTP %d", res.StatusCode)
	}
	stop()
	must(t, <-ended)
}
