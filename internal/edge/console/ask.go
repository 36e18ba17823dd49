package console

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// askTimeout is how long [Ask] waits for the whole answer.
const askTimeout = 3 * time.Second

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

// Ask asks one path of the console of a server. It prints the status that the server gives itself, and returns an
// error with the problems unless the answer is 200. certificate is the file of the certificate that answers there, ""
// if any is good that the machine trusts.
func Ask(ctx context.Context, at *url.URL, certificate string, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
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
	var got report
	_ = json.Unmarshal(body, &got) // what answers may be something else
	lines := []string{got.Status}
	for _, what := range slices.Sorted(maps.Keys(got.Problems)) {
		lines = append(lines, fmt.Sprintf("%s: %s", what, got.Problems[what]))
	}
	text := strings.Join(lines, "\n")
	switch {
	case lines[0] == "":
		return fmt.Errorf("%s: HTTP %d, and no status in the answer (is this the console of a server?)", at.Redacted(),
			res.StatusCode)
	case res.StatusCode != http.StatusOK:
		return errors.New(text)
	}
	_, err = fmt.Fprintln(stdout, text)
	return err
}

// describeNoAnswer returns why there was no answer, with the address that was asked.
func describeNoAnswer(at *url.URL, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: no answer within %s", at.Redacted(), askTimeout)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return fmt.Errorf("%s: %w", at.Redacted(), err)
}
