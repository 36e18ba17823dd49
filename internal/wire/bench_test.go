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

// BenchmarkPost is one request after the other over a warm connection of TLS,
// beside net/http.
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
	done := func(b *testing.B, resp *http.Response, err error) {
		if text, err := read(resp, err); err != nil || len(text) != 1000 {
			b.Fatalf("%d bytes, %v", len(text), err)
		}
	}
	b.Run("wire", func(b *testing.B) {
		c, _ := newClient(b, func(config *Config) { config.Dial = (&tls.Dialer{Config: client}).DialContext })
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithCancel(b.Context())
			resp, _, err := c.Post(ctx, s.URL, header, body)
			done(b, resp, err)
			cancel()
		}
	})
	b.Run("transport", func(b *testing.B) {
		plain := &http.Transport{TLSClientConfig: client, DisableCompression: true, ReadBufferSize: 2 << 10}
		defer plain.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithCancel(b.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			req.Header["Content-Type"] = header["Content-Type"]
			resp, err := plain.RoundTrip(req)
			done(b, resp, err)
			cancel()
		}
	})
}
