package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/run/config"
)

// healthTimeout is how long health waits for the whole answer.
const healthTimeout = 3 * time.Second

// runHealth asks a server that runs whether it is ready, or only whether it is alive, and fails if not.
func runHealth(ctx context.Context, cmd *invocation) error {
	file := cmd.configFlag()
	address := cmd.String("url", "", "where the console listens, such as http://127.0.0.1:8090, in place of the configuration")
	isLive := cmd.Bool("live", false, "ask for /livez: whether the process answers")
	if _, err := cmd.parse(0); err != nil {
		return err
	}
	isFileGiven := false
	cmd.Visit(func(f *flag.Flag) { isFileGiven = isFileGiven || f.Name == "config" })
	if isFileGiven && *address != "" {
		return usageErrorf("health: --config and --url exclude each other")
	}
	console, certificate, err := consoleURL(*file, *address)
	if err != nil {
		return err
	}
	path := "/readyz"
	if *isLive {
		path = "/livez"
	}
	return askHealth(ctx, console.JoinPath(path), certificate, cmd.stdout)
}

// consoleURL returns where /readyz of a server is: as an operator says it, or else by its configuration. certificate is
// the file of the certificate that answers there, "" if any is good that the machine trusts.
func consoleURL(file, given string) (at *url.URL, certificate string, err error) {
	if given != "" {
		u, err := url.Parse(given)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return nil, "", usageErrorf("health: --url: not a URL of http or https, such as http://127.0.0.1:8090")
		}
		return u, "", nil
	}
	c, err := config.Read(file)
	if err != nil {
		return nil, "", err
	}
	key, address, scheme := "console.listen", c.Console.Listen, "http"
	switch {
	case c.Console.MetricsListen != "":
		key, address = "console.metrics_listen", c.Console.MetricsListen
	case c.Console.TLS != nil:
		scheme, certificate = "https", c.Console.TLS.Cert
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", key, err)
	}
	if port == "0" {
		return nil, "", fmt.Errorf("%s: port 0 is chosen at the start (name the address with --url)", key)
	}
	ip := net.ParseIP(host)
	switch {
	case host == "", ip.Equal(net.IPv4zero): // all addresses of this machine
		host = "127.0.0.1"
	case ip.Equal(net.IPv6unspecified):
		host = "::1"
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}, certificate, nil
}

// pinnedTLS accepts the certificate in a file and no other: its name is that of the console, not of this address.
func pinnedTLS(file string) (*tls.Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s: no certificate (PEM)", file)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(state tls.ConnectionState) error {
			if !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return errors.New("another certificate than console.tls.cert answers")
			}
			return nil
		},
	}, nil
}

// askHealth asks one path of the console. It prints the status that the server gives itself, and returns an error with
// the problems unless the answer is 200.
func askHealth(ctx context.Context, at *url.URL, certificate string, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true} // without the proxies of the environment
	if certificate != "" {
		if transport.TLSClientConfig, err = pinnedTLS(certificate); err != nil {
			return err
		}
	}
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	if err != nil {
		return describeNoAnswer(at, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return describeNoAnswer(at, err)
	}
	var report struct {
		Status   string
		Problems map[string]string
	}
	_ = json.Unmarshal(body, &report) // what answers may be something else
	lines := []string{report.Status}
	for _, what := range slices.Sorted(maps.Keys(report.Problems)) {
		lines = append(lines, fmt.Sprintf("%s: %s", what, report.Problems[what]))
	}
	text := strings.Join(lines, "\n")
	switch {
	case lines[0] == "":
		return fmt.Errorf("%s: HTTP %d, and no status in the answer (is this the console of a server?)", at.Redacted(), res.StatusCode)
	case res.StatusCode != http.StatusOK:
		return errors.New(text)
	}
	_, err = fmt.Fprintln(stdout, text)
	return err
}

// describeNoAnswer returns why there was no answer, with the address that was asked.
func describeNoAnswer(at *url.URL, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: no answer within %s", at.Redacted(), healthTimeout)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return fmt.Errorf("%s: %w", at.Redacted(), err)
}
