package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkPost has requests over warm connections of TLS, one after the other
// and many at once, beside net/http.
func BenchmarkPost(b *testing.B) {
	server, client := secured(b)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write(make([]byte, 1000))
	}))
	s.TLS = server
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	defer s.Close()
	body := make([]byte, 3300)
	header := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	client.DynamicRecordSizingDisabled = true
	c, _ := newClient(b, func(config *Config) { config.Dial = (&tls.Dialer{Config: client}).DialContext })
	plain := &http.Transport{TLSClientConfig: client, DisableCompression: true, ReadBufferSize: 2 << 10, MaxIdleConnsPerHost: 1000}
	defer plain.CloseIdleConnections()
	for name, post := range map[string]func(context.Context) (*http.Response, error){
		"wire": func(ctx context.Context) (*http.Response, error) {
			resp, _, err := c.Post(ctx, s.URL, header, body)
			return resp, err
		},
		"transport": func(ctx context.Context) (*http.Response, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
			if err != nil {
				return nil, err
			}
			req.Header["Content-Type"] = header["Content-Type"]
			return plain.RoundTrip(req)
		},
	} {
		once := func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			resp, err := post(ctx)
			if text, err := read(resp, err); err != nil || len(text) != 1000 {
				b.Errorf("%d bytes, %v", len(text), err)
			}
		}
		b.Run(name+"/alone", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				once(b)
			}
		})
		b.Run(name+"/many", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(50)
			b.RunParallel(func(loop *testing.PB) {
				for loop.Next() {
					once(b)
				}
			})
		})
	}
}
