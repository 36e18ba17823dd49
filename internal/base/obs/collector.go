package obs

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	contentProtobuf  = "application/x-protobuf"
	maxCollectorBody = 64 << 10 // bytes that are read of an answer
)

// A collector takes spans by OTLP over HTTP. Each batch is sent once. It is a client of go.opentelemetry.io's exporter;
// the client that comes with that one brings all of gRPC.
type collector struct {
	url      string
	header   http.Header
	isZipped bool // what is sent
	client   *http.Client

	stopped context.Context // ends what is being sent
	stop    context.CancelFunc
}

// newCollector returns the collector of the configuration, or else that of the environment. An error names the variable
// that is wrong.
func newCollector(cfg Tracing) (*collector, error) {
	c := &collector{url: cfg.Endpoint, header: cfg.Header.Clone()}
	c.stopped, c.stop = context.WithCancel(context.Background())
	if c.url != "" {
		c.client = newCollectorClient(cfg)
	} else {
		var err error
		if c.url, err = endpointOfEnvironment(); err != nil {
			return nil, err
		}
		if c.client, err = newClientOfEnvironment(); err != nil {
			return nil, err
		}
	}
	if len(c.header) == 0 {
		c.header = headersOfEnvironment()
	}
	c.header.Set("Content-Type", contentProtobuf)
	c.header.Set("User-Agent", "threeds/"+cfg.Version)
	if compression, _ := collectorVariable("COMPRESSION"); compression == "gzip" {
		c.isZipped = true
		c.header.Set("Content-Encoding", "gzip")
	}
	return c, nil
}

// Start does nothing: the first batch connects.
func (c *collector) Start(context.Context) error { return nil }

// Stop interrupts what is being sent.
func (c *collector) Stop(context.Context) error {
	c.stop()
	c.client.CloseIdleConnections()
	return nil
}

// A statusError is the HTTP status of a collector that took nothing.
type statusError int

func (s statusError) Error() string { return "HTTP status " + strconv.Itoa(int(s)) }

// A rejectedError is the number of spans that a collector did not take.
type rejectedError int

func (rejectedError) Error() string { return "rejected by the collector" }

// UploadTraces sends a batch. A message of the collector is in no error.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stopped, cancel)()
	// an ExportTraceServiceRequest has the same fields
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if c.isZipped {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		_, _ = w.Write(body) // a buffer takes everything
		_ = w.Close()
		body = zipped.Bytes()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = c.header.Clone()
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxCollectorBody))
	switch {
	case response.StatusCode/100 != 2:
		return statusError(response.StatusCode)
	case err != nil:
		return err
	case response.Header.Get("Content-Type") == contentProtobuf:
		if n := rejectedSpans(answer); n > 0 {
			return rejectedError(n)
		}
	}
	return nil
}

// rejectedSpans returns how many spans an ExportTraceServiceResponse says were not taken.
func rejectedSpans(response []byte) int {
	partial, _ := fieldOf(response, protowire.BytesType)
	_, n := fieldOf(partial, protowire.VarintType)
	return int(min(n, 1<<31-1))
}

// fieldOf returns the field 1 of a message, as bytes or as a number. It is zero without the field, or if the message is
// malformed.
func fieldOf(message []byte, kind protowire.Type) (text []byte, number uint64) {
	for len(message) > 0 {
		id, is, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, 0
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(id, is, message); n < 0 {
			return nil, 0
		}
		if id == 1 && is == kind {
			if kind == protowire.BytesType {
				text, _ = protowire.ConsumeBytes(message)
			} else {
				number, _ = protowire.ConsumeVarint(message)
			}
		}
		message = message[n:]
	}
	return text, number
}

// newCollectorClient returns the HTTP client of a collector that the configuration names. It follows no redirects,
// which could take spans and the token elsewhere, and uses no proxy.
func newCollectorClient(cfg Tracing) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: exportTimeout / 2}).DialContext,
			TLSClientConfig:     cfg.TLS,
			TLSHandshakeTimeout: exportTimeout / 2,
			IdleConnTimeout:     time.Minute,
		},
		CheckRedirect: refuseRedirect,
	}
}

// refuseRedirect keeps a client from another address: spans and headers are for the collector that is named.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// collectorVariable returns a variable of the environment about the collector, and its name: that for traces, or else
// that for everything. Without one it returns "".
func collectorVariable(name string) (value, variable string) {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if value := strings.TrimSpace(os.Getenv(variable)); value != "" {
			return value, variable
		}
	}
	return "", ""
}

// endpointOfEnvironment returns where spans go. A URL for everything is a base; one for traces is used as it is.
func endpointOfEnvironment() (string, error) {
	value, variable := collectorVariable("ENDPOINT")
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%s: want the URL of a collector, such as http://127.0.0.1:4318", variable)
	}
	if !strings.Contains(variable, "TRACES") {
		u = u.JoinPath("v1/traces")
	}
	return u.String(), nil
}

// headersOfEnvironment returns the headers for the collector. A text that is none is left out.
func headersOfEnvironment() http.Header {
	all := make(http.Header)
	pairs, _ := collectorVariable("HEADERS")
	for pair := range strings.SplitSeq(pairs, ",") {
		name, value, _ := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err == nil && name != "" && !strings.ContainsAny(name, " \t:\r\n") && !strings.ContainsAny(value, "\r\n") {
			all.Set(name, value)
		}
	}
	return all
}

// newClientOfEnvironment returns the HTTP client of a collector that the environment names: with its certificates, its
// proxies and its timeout.
func newClientOfEnvironment() (*http.Client, error) {
	timeout := exportTimeout
	if value, variable := collectorVariable("TIMEOUT"); value != "" {
		n, err := strconv.Atoi(value)
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("%s: want milliseconds, such as 10000", variable)
		}
		timeout = time.Duration(n) * time.Millisecond
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file, variable := collectorVariable("CERTIFICATE"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: want a file with certificates as PEM", variable)
		}
	}
	certificate, variable := collectorVariable("CLIENT_CERTIFICATE")
	if key, _ := collectorVariable("CLIENT_KEY"); certificate != "" && key != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%s: want a certificate with its key, both as PEM: %w", variable, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: refuseRedirect,
	}, nil
}
